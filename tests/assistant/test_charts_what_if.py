"""The charts of a change before it is made: now beside then."""

from typing import Any

import pytest
import vl_convert

from assistant.core.forecast import FanPoint
from assistant.presentation.charts.forecast import (
    ChanceBand,
    Destination,
    ForecastCurve,
    best_with_fan,
    chances,
    destinations,
    fans,
)
from assistant.presentation.charts.vega_lite import RunPoint, Spec

POINTS = tuple(
    RunPoint(i, i, v, b, feasible=True, source="suggested", at_s=1e9 + 60.0 * i)
    for i, (v, b) in enumerate([(90.0, 90.0), (80.0, 80.0), (85.0, 80.0)], 1)
)
FAN = (FanPoint(0, 0.0, 80.0, 80.0, 80.0), FanPoint(5, 300.0, 70.0, 78.0, 80.0))
LONGER = (*FAN, FanPoint(10, 600.0, -400.0, 76.0, 80.0))
NOW, THEN = ForecastCurve(FAN, 72.0, 5.0), ForecastCurve(LONGER, 72.0, 10.0)
ROWS = (
    Destination("region 1: x 1", 0, 28),
    Destination("region 2: x 5", 0, 14),
    Destination("left to the strategy", 30, 18),
)


def values(spec: Spec) -> list[dict[str, Any]]:
    """Every row that a chart draws."""
    found = list(spec.get("data", {}).get("values", []))
    return found + [row for layer in spec.get("layer", ()) for row in values(layer)]


def labels(spec: Spec) -> set[str]:
    return {row["label"] for row in values(spec) if "label" in row}


def test_every_destination_has_a_bar_for_now_and_one_for_then() -> None:
    rows = destinations(ROWS, is_changed=True)["data"]["values"]
    assert [(row["where"], row["when"], row["runs"], row["label"]) for row in rows] == [
        ("region 1: x 1", "now", 0, "0 now"),
        ("region 1: x 1", "then", 28, "28 then"),
        ("region 2: x 5", "now", 0, "0 now"),
        ("region 2: x 5", "then", 14, "14 then"),
        ("left to the strategy", "now", 30, "30 now"),
        ("left to the strategy", "then", 18, "18 then"),
    ]
    only = destinations(ROWS, is_changed=False)["data"]["values"]
    assert [(row["when"], row["label"]) for row in only] == [
        ("now", "0"),
        ("now", "0"),
        ("now", "30"),
    ]


def test_what_is_not_known_has_no_bar() -> None:
    rows = destinations([Destination("left to the strategy", None, 5)], is_changed=True)
    assert [(row["when"], row["runs"]) for row in rows["data"]["values"]] == [("then", 5)]


def test_without_a_change_the_fan_is_that_of_the_forecast() -> None:
    alone = best_with_fan(POINTS, FAN, baseline=None, goal=72.0, end=5.0, title="height")
    assert fans(POINTS, NOW, None, "height") == alone


def test_both_fans_go_on_from_the_last_run_on_one_scale() -> None:
    spec = fans(POINTS, NOW, THEN, "height")
    drawn = [layer["data"]["values"] for layer in spec["layer"] if layer["mark"]["type"] == "area"]
    assert [[(row["run"], row["median"]) for row in rows] for rows in drawn] == [
        [(3, 80.0), (8, 78.0)],
        [(3, 80.0), (8, 78.0), (13, 76.0)],
    ]
    assert drawn[1][-1]["to"] == -400.0
    assert drawn[1][-1]["low"] == 72.0 - (90.0 - 72.0) / 2  # drawn no farther than half the height
    assert {row["when"] for row in values(spec) if "when" in row} == {"now", "then"}
    colours = [layer["mark"]["color"] for layer in spec["layer"] if layer["mark"]["type"] == "area"]
    assert len(set(colours)) == 2


@pytest.mark.parametrize(
    ("now", "then", "named"),
    [
        (NOW, THEN, {"goal", "ends now", "ends then"}),
        (NOW, NOW, {"goal", "budget ends"}),
        (NOW, ForecastCurve(LONGER, 60.0, 5.0), {"goal now", "goal then", "budget ends"}),
        (NOW, ForecastCurve(LONGER, None, None), {"goal now", "ends now"}),
        (ForecastCurve((), None, None), ForecastCurve(FAN, 60.0, 5.0), {"goal then", "ends then"}),
    ],
)
def test_every_limit_carries_its_name(
    now: ForecastCurve, then: ForecastCurve, named: set[str]
) -> None:
    assert labels(fans(POINTS, now, then, "height")) == named


def test_a_chance_that_is_not_told_has_no_row() -> None:
    both = chances(ChanceBand(0.2, 0.1, 0.4), ChanceBand(0.6, 0.4, 0.8))
    assert [(row["when"], row["chance"]) for row in both["data"]["values"]] == [
        ("now", 0.2), ("then", 0.6)
    ]  # fmt: skip
    assert [row["when"] for row in chances(None, ChanceBand(0.6, 0.4, 0.8))["data"]["values"]] == [
        "then"
    ]
    assert labels(both) == {"likely to miss", "on track"}


@pytest.mark.parametrize(
    "spec",
    [
        destinations(ROWS, is_changed=True),
        destinations(ROWS, is_changed=False),
        destinations([Destination("left to the strategy", 0, 0)], is_changed=True),
        fans(POINTS, NOW, None, "height"),
        fans(POINTS, NOW, THEN, "height [m]"),
        fans(POINTS, NOW, ForecastCurve((), None, None), "height"),
        fans((), ForecastCurve((), None, None), ForecastCurve(LONGER, 3.0, None), "height"),
        chances(ChanceBand(0.2, 0.1, 0.4), None),
        chances(ChanceBand(0.2, 0.1, 0.4), ChanceBand(0.6, 0.4, 0.8)),
    ],
)
def test_every_chart_is_drawn(spec: Spec) -> None:
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg.startswith("<svg")
    assert "NaN" not in svg
