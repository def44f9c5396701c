"""Axes of charts: units as people read them, ticks that fit, and one palette for all."""

import itertools
import re
from pathlib import Path

import pytest

from assistant.presentation.charts import palette, vega_lite
from assistant.presentation.charts.axes import log_ticks, time_ticks, value_axis
from assistant.presentation.charts.response_map import NestedParameter, labels
from assistant.presentation.charts.vega_lite import RunPoint, best_so_far
from assistant.presentation.text.number_format import level_texts, level_words

DAY = 86_400


def test_an_axis_is_logarithmic_when_its_values_span_more_than_a_factor_of_ten() -> None:
    assert value_axis([1.0, 10.0], "loss")["scale"]["domain"] == [1.0, 10.0]
    wide = value_axis([0.3, 45.0], "loss")
    assert wide["scale"]["type"] == "log"
    low, high = wide["scale"]["domain"]
    assert low < 0.3 < 45.0 < high, "no mark lies on the edge"
    assert wide["axis"]["values"] == [0.5, 1, 2, 5, 10, 20]
    assert "type" not in value_axis([0.0, 45.0], "loss")["scale"], "zero has no logarithm"
    assert "type" not in value_axis([1.0, 45.0], "loss", includes_zero=True)["scale"]


def test_long_seconds_are_read_in_minutes_hours_or_days() -> None:
    assert value_axis([8 * 3_600, 11 * 3_600], "wait_s")["axis"]["values"][0] == 8 * 3_600
    axis = value_axis([8 * 3_600, 11 * 3_600], "wait [s]")
    assert axis["title"] == "wait"
    assert [tick / 3_600 for tick in axis["axis"]["values"]] == [8, 9, 10, 11]
    assert " h" in axis["axis"]["labelExpr"]
    short = value_axis([3.0, 50.0], "wait [s]")
    assert short["title"] == "wait [s]"
    assert "labelExpr" not in short["axis"]
    assert value_axis([8_000, 11_000], "files")["title"] == "files"


@pytest.mark.parametrize("ends", [(0, 1), (-5, 90), (0, 7 * DAY), (-3 * DAY, 800 * DAY), (5, 5)])
def test_ticks_of_time_enclose_the_values_and_are_few(ends: tuple[float, float]) -> None:
    ticks = time_ticks(*ends)
    assert ticks[0] <= ends[0] <= ends[1] <= ticks[-1]
    assert 2 <= len(ticks) <= 7
    assert len({round(b - a, 6) for a, b in itertools.pairwise(ticks)}) == 1


def test_logarithmic_ticks_of_time_are_whole_units() -> None:
    axis = value_axis([1_400, 30_000], "response [s]")
    assert axis["axis"]["values"] == [1_800, 3_600, 7_200, 18_000]
    assert all(tick in (0.01, 0.1, 1, 10, 100, 1_000) for tick in log_ticks(0.005, 2_000))


def test_levels_are_written_as_people_write_them_and_never_alike() -> None:
    logarithmic = [0.0001, 0.000316227766017, 0.001, 0.00316227766017]
    assert level_texts(logarithmic, "") == ("0.0001", "0.0003162", "0.001", "0.003162")
    close = [1.0 + i * 1e-9 for i in range(5)]
    assert len(set(level_texts(close, ""))) == 5
    seconds = [86_400 * 400 + i for i in range(3)]
    assert len(set(level_texts(seconds, "s"))) == 3
    assert level_words(0.12345, "") == "0.12345", "what a person typed stays"


def test_the_best_so_far_has_room_for_the_last_run_and_the_current_configuration() -> None:
    points = [RunPoint(i, i, 100.0 / i, 100.0 / i, True, "suggested") for i in range(1, 31)]
    spec = best_so_far(points, 120.0, "loss")
    x, y = (spec["layer"][0]["encoding"][channel] for channel in ("x", "y"))
    assert x["scale"]["domain"][1] > 30
    assert y["scale"]["type"] == "log"
    assert spec["layer"][-1]["data"]["values"][0]["baseline"] == 120.0
    linear = best_so_far(points[:5], 120.0, "loss")["layer"][0]["encoding"]["y"]
    assert linear["scale"]["domain"] == [20.0, 120.0], "the rule of the current one is inside"


def test_labels_of_repeated_levels_do_not_touch_the_next_round() -> None:
    def nested(name: str, n: int) -> NestedParameter:
        return NestedParameter(name, tuple("abc"[i % 3] for i in range(n)), ("",) * n)

    axis = [nested("outer", 20), nested("inner", 3)]
    drawn = labels(axis, 6, 400, {}, is_across=False)
    places = sorted(row["y"] * 6 for layer in drawn[:-1] for row in layer["data"]["values"])
    gaps = [b - a for a, b in itertools.pairwise(places)]
    assert min(gaps) >= 12


def test_no_chart_has_a_colour_of_its_own() -> None:
    """Only grounds of drawings (earth, water, a viridis scale) may be outside the palette."""
    charts = Path(vega_lite.__file__).parent
    named = {value for value in vars(palette).values() if isinstance(value, str)} | {
        *palette.SERIES, "#ffffff",
    }  # fmt: skip
    own = {
        path.name: colours
        for path in charts.glob("*.py")
        if path.name not in ("palette.py", "testbeds.py")
        and (colours := {*re.findall(r'"(#[0-9a-fA-F]{6})', path.read_text())} - named)
    }
    assert set(own) <= {"schedule.py"}, own


def test_of_very_many_runs_a_sample_has_marks_and_the_best_line_is_that_of_all() -> None:
    bests = [1_000 - i // 997 for i in range(30_000)]
    points = [RunPoint(i + 1, i + 1, 1_000.0, best, True, "s") for i, best in enumerate(bests)]
    shown = vega_lite.marked(points)
    assert len(shown) < vega_lite.MOST_MARKS + 40
    assert shown[0] is points[0]
    assert shown[-1] is points[-1]
    first_with = {point.best: point.order for point in reversed(points)}
    assert {point.best: point.order for point in reversed(shown)} == first_with
    spec = best_so_far(points, None, "loss")
    assert len(spec["data"]["values"]) == len(shown)
    title = spec["layer"][0]["encoding"]["x"]["title"]
    assert title == f"completed runs (marks: {len(shown):,} of 30,000)"
    few = best_so_far(points[: vega_lite.MOST_MARKS], None, "loss")
    assert few["layer"][0]["encoding"]["x"]["title"] == "completed runs"
