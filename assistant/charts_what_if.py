"""Vega-Lite specifications of a change before it is made: how things are now, and would be then.

Now is grey, then is copper, as everything that is to come; both carry their names, so that nothing
is told by colour alone. Greys and copper are seen on light and dark ground.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.charts import ACCENT, MUTED, TEXT, RunPoint, Spec, best_so_far, scale_of
from assistant.charts_forecast import (
    best_with_fan,
    chance_axis,
    chance_marks,
    end_rule,
    fan_layers,
    fan_lows,
    frame,
    goal_rule,
)
from assistant.forecasts import FanPoint

NOW, THEN = "now", "then"
_WHEN: Spec = {
    "field": "when",
    "type": "nominal",
    "scale": {"domain": [NOW, THEN], "range": [MUTED, ACCENT]},
    "legend": None,
}
_BAR = 18
"""Pixels of a bar and the gap below it."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where runs go: how many now, and how many then; None where that is not known."""

    where: str
    now: int | None
    then: int | None


@dataclass(frozen=True, slots=True)
class Coming:
    """What may come.

    Args:
        fan: of further runs, counted on from the last one; empty where too little is known.
        goal: None if none is agreed.
        end: further runs until nothing is left; None if unknown.
    """

    fan: tuple[FanPoint, ...]
    goal: float | None
    end: float | None


@dataclass(frozen=True, slots=True)
class Chance:
    """A chance with its band, as shares."""

    chance: float
    low: float
    high: float


def destinations(rows: Sequence[Destination], *, is_changed: bool) -> Spec:
    """Return a bar for each place that runs go to, now above then.

    Args:
        rows: from the top.
        is_changed: whether there is a then.
    """
    values = []
    for row in rows:
        sides = ((NOW, row.now), (THEN, row.then)) if is_changed else ((NOW, row.now),)
        for when, runs in sides:
            if runs is not None:
                label = f"{runs} {when}" if is_changed else f"{runs}"
                values.append({"where": row.where, "when": when, "runs": runs, "label": label})
    y = {
        "field": "where",
        "type": "nominal",
        "sort": [row.where for row in rows],
        "title": None,
        "scale": {"paddingInner": 0.3, "paddingOuter": 0.1},
        "axis": {"labelLimit": 260, "ticks": False, "domain": False, "labelPadding": 8},
    }
    side = {"field": "when", "sort": [NOW, THEN]}
    most = max((row["runs"] for row in values if isinstance(row["runs"], int)), default=0)
    x = {
        "field": "runs",
        "type": "quantitative",
        "title": "runs",
        "scale": {"domain": [0, max(1.2 * most, 1)]},  # room for the words behind a bar
        "axis": {"format": "d", "tickMinStep": 1, "tickCount": 6, "gridOpacity": 0.15},
    }
    at = {"y": y, "yOffset": side, "x": x}
    tooltip = [{"field": "where"}, {"field": "when"}, {"field": "runs"}]
    return {
        **frame(640, round((2 if is_changed else 1.4) * _BAR * len(rows) * 1.3) + 10),
        "data": {"values": values},
        "layer": [
            {"mark": "bar", "encoding": {**at, "color": _WHEN, "tooltip": tooltip}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4, "color": TEXT},
                "encoding": {**at, "text": {"field": "label"}},
            },
        ],
    }


def fans(points: Sequence[RunPoint], now: Coming, then: Coming | None, title: str) -> Spec:
    """Return best so far with what may come, as things are and as they would be.

    Args:
        points: completed runs.
        now: as things are.
        then: after the change; None where nothing is changed.
        title: names the value with its unit.
    """
    if then is None:
        return best_with_fan(
            points, now.fan, today=None, goal=now.goal, end=now.end, title=title
        )  # fmt: skip
    n, both = len(points), (*now.fan, *then.fan)
    goals = [goal for goal in (now.goal, then.goal) if goal is not None]
    lows = fan_lows(points, both, *goals)
    beside = [*lows, *(v for one in both for v in (one.median, one.high)), *goals]
    spec = best_so_far(points, None, title, beside)
    scale = scale_of([*(p.value for p in points), *beside])
    axis = {"grid": False, "format": "d", "tickMinStep": 1}
    x = {"field": "run", "type": "quantitative", "title": "completed runs", "axis": axis}
    y = {"type": "quantitative", "title": title, "scale": scale}
    sides = (
        (NOW, now, lows[: len(now.fan)], MUTED, (2, 3)),
        (THEN, then, lows[len(now.fan) :], ACCENT, (6, 4)),
    )
    drawn: list[Spec] = []
    for when, coming, own, colour, dash in sides:
        rows = [
            {
                "run": n + one.runs,
                "low": low,
                "median": one.median,
                "high": one.high,
                "to": one.low,
                "when": when,
            }
            for one, low in zip(coming.fan, own, strict=True)
        ]
        if len(rows) > 1:
            first = [{"field": "when"}, {"field": "run", "title": "after run"}]
            drawn += fan_layers(rows, x, y, first, colour, dash)
            drawn.append(_named(rows[-1], when, x, y))
    rules = goal_rule(then.goal, y)
    if now.goal != then.goal:
        rules = goal_rule(now.goal, y, "goal now") + goal_rule(then.goal, y, "goal then", dx=70)
    return {**spec, "layer": [*drawn, *spec["layer"], *rules, *_ends(n, now, then, x)]}


def chances(now: Chance | None, then: Chance | None) -> Spec:
    """Return the chance now and then, each as a tick in its band, from 0 to 100 %."""
    rows = [
        {"when": when, "chance": one.chance, "low": one.low, "high": one.high}
        for when, one in ((NOW, now), (THEN, then))
        if one is not None
    ]
    axis = {"ticks": False, "domain": False, "labelPadding": 8}
    y = {"field": "when", "type": "nominal", "sort": [NOW, THEN], "title": None, "axis": axis}
    x = chance_axis("x")
    tooltip = [
        {"field": "when"},
        *({"field": name, "format": ".0%"} for name in ("chance", "low", "high")),
    ]
    return {
        **frame(640, 34 * len(rows)),
        "padding": {"top": 18, "left": 5, "right": 5, "bottom": 5},
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar", "height": 14, "opacity": 0.35},
                "encoding": {
                    "y": y,
                    "x": {**x, "field": "low"},
                    "x2": {"field": "high"},
                    "color": _WHEN,
                },
            },
            {
                "mark": {"type": "tick", "thickness": 4, "height": 24, "opacity": 1},
                "encoding": {
                    "y": y,
                    "x": {**x, "field": "chance"},
                    "color": _WHEN,
                    "tooltip": tooltip,
                },
            },
            *chance_marks(x),
        ],
    }


def _named(row: Spec, when: str, x: Spec, y: Spec) -> Spec:
    """Return the name of a fan, at the end of its median: now above the line, then below."""
    mark = {
        "type": "text",
        "align": "right",
        "dx": -4,
        "dy": -8 if when == NOW else 10,
        "fontWeight": "bold",
        "color": MUTED if when == NOW else ACCENT,
    }
    encoding = {"x": x, "y": {**y, "field": "median"}, "text": {"field": "when"}}
    return {"data": {"values": [row]}, "mark": mark, "encoding": encoding}


def _ends(n: int, now: Coming, then: Coming, x: Spec) -> list[Spec]:
    ends = [(now.end, "ends now"), (then.end, "ends then")]
    if now.end == then.end:
        ends = [(now.end, "budget ends")]
    return [
        layer
        for end, label in ends
        if end is not None
        for layer in end_rule("run", n + end, "quantitative", label, x)
    ]
