"""Charts of the forecast: the fan over runs and over time, the chance, and predictions.

Other charts show the forecast before and after a change that is not made yet, and how
suggestions turned out. The future is copper and to the right; every limit line carries its name,
so that no meaning depends on colour alone. Greys and copper are visible on light and dark ground.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.core.forecast import FanPoint
from assistant.presentation.charts.axes import value_axis
from assistant.presentation.charts.palette import ACCENT, MUTED, TEXT, WARN
from assistant.presentation.charts.vega_lite import (
    RunPoint,
    Spec,
    best_axis,
    best_so_far,
    frame,
    marked,
    nominal,
    run_axis,
)

CHANCE_MARKS = ((0.3, "likely to miss"), (0.7, "on track"))

_OUTSIDE = 0.5
"""Largest distance of the fan's better end from everything else, as a share of the height."""


@dataclass(frozen=True, slots=True)
class ChanceMark:
    """The forecast chance to reach the goal, with its band, after a number of runs."""

    runs: int
    chance: float
    low: float
    high: float


def goes_on(points: Sequence[RunPoint], fan: Sequence[FanPoint], goal: float | None) -> bool:
    """Return whether the better end of the forecast fan is cut off by the chart."""
    return any(
        drawn_low != point.low
        for point, drawn_low in zip(fan, fan_lows(points, fan, goal), strict=True)
    )


def best_with_fan(
    points: Sequence[RunPoint],
    fan: Sequence[FanPoint],
    *,
    baseline: float | None,
    goal: float | None,
    end: float | None,
    title: str,
) -> Spec:
    """Draw the best value so far and its forecast: a dashed median in a 10 to 90 % area.

    Args:
        points: completed runs.
        fan: forecast of further runs, counted from the last point.
        baseline: value of the current configuration, None if unknown.
        goal: goal, drawn as a rule; None if there is none.
        end: further runs until the budget ends, drawn as a vertical rule; None if unknown.
        title: name of the value with its unit.
    """
    n, lows = len(points), fan_lows(points, fan, goal)
    rows = [
        {
            "run": n + point.runs,
            "low": low,
            "median": point.median,
            "high": point.high,
            "to": point.low,
        }
        for point, low in zip(fan, lows, strict=True)
    ]
    beside = [*lows, *(x for point in fan for x in (point.median, point.high)), *_known(goal)]
    last_run = n + max([*(point.runs for point in fan), *_known(end)], default=0)
    spec = best_so_far(points, baseline, title, beside, last_run)
    x, y = run_axis(last_run, points), best_axis(points, baseline, title, beside)
    layers = (
        fan_layers(rows, x, y, [{"field": "run", "title": "after run"}]) if len(rows) > 1 else []
    )
    rules = goal_rule(goal, y)
    if end is not None:
        rules += end_rule("run", n + end, "quantitative", "budget ends", x)
    return {**spec, "layer": [*layers, *spec["layer"], *rules]}


def best_over_time(
    points: Sequence[RunPoint],
    fan: Sequence[FanPoint],
    *,
    now_s: float,
    goal: float | None,
    deadline_s: float,
    title: str,
) -> Spec:
    """Draw the best value and its forecast over the time of day (UTC), with the deadline.

    Args:
        points: completed runs; those without a time are left out.
        fan: forecast of further runs; points without a duration are left out.
        now_s: seconds since 1970-01-01 UTC.
        goal: goal, drawn as a rule; None if there is none.
        deadline_s: seconds since 1970-01-01 UTC.
        title: name of the value with its unit.
    """
    timed = [point for point in fan if point.seconds is not None]
    timed_points = [p for p in points if p.at_s is not None]
    lows = fan_lows(timed_points, timed, goal)
    rows = [
        {
            "at": 1000.0 * (now_s + (point.seconds or 0.0)),
            "low": low,
            "median": point.median,
            "high": point.high,
            "to": point.low,
        }
        for point, low in zip(timed, lows, strict=True)
    ]
    past = [
        {"at": 1000.0 * (p.at_s or 0.0), "run": p.run_id, "value": p.value, "best": p.best}
        for p in marked(timed_points)
    ]
    beside = [*lows, *(v for point in timed for v in (point.median, point.high)), *_known(goal)]
    y = value_axis([*(p.value for p in timed_points), *beside], title)
    first_s = min((p.at_s for p in timed_points if p.at_s is not None), default=now_s)
    clock = "%H:%M" if deadline_s - first_s < 86_400 else "%d %b %H:%M"
    x = {
        "field": "at",
        "type": "temporal",
        "scale": {"type": "utc"},
        "title": "time (UTC)",
        "axis": {"grid": False, "labelOverlap": True, "format": clock},
    }
    layers = fan_layers(rows, x, y, []) if len(rows) > 1 else []
    return {
        **frame(640, 260),
        "data": {"values": past},
        "layer": [
            *layers,
            {
                "mark": {"type": "point", "size": 35, "color": TEXT},
                "encoding": {
                    "x": x,
                    "y": {"field": "value", **y},
                    "tooltip": [{"field": "run"}, {"field": "value"}],
                },
            },
            {
                "transform": [{"filter": "isValid(datum.best)"}],
                "mark": {
                    "type": "line",
                    "interpolate": "step-after",
                    "color": ACCENT,
                    "strokeWidth": 2.5,
                },
                "encoding": {"x": x, "y": {"field": "best", **y}},
            },
            *goal_rule(goal, y),
            *end_rule("at", 1000.0 * deadline_s, "temporal", "deadline", x),
        ],
    }


def chance_bar(chance: float, band: tuple[float, float]) -> Spec:
    """Draw the chance to reach the goal (0 to 100 %) as a tick in its band."""
    row = {"chance": chance, "low": band[0], "high": band[1], "label": f"{chance:.0%}"}
    x = chance_axis("x")
    return {
        **frame(640, 28),
        "padding": {"top": 18, "left": 5, "right": 5, "bottom": 5},
        "data": {"values": [row]},
        "layer": [
            {
                "mark": {"type": "bar", "height": 14, "color": ACCENT, "opacity": 0.35},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "tick", "thickness": 4, "height": 24, "color": ACCENT},
                "encoding": {
                    "x": {**x, "field": "chance"},
                    "tooltip": [
                        {"field": name, "format": ".0%"} for name in ("chance", "low", "high")
                    ],
                },
            },
            *chance_marks(x),
        ],
    }


def chance_marks(x: Spec) -> list[Spec]:
    """Return labelled rules at the chances where the verdict changes, for a chart along ``x``."""
    marks = [{"at": at, "label": label} for at, label in CHANCE_MARKS]
    sides = ((marks[:1], "right", -5), (marks[1:], "left", 5))
    return [
        {
            "data": {"values": marks},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3]},
            "encoding": {"x": {**x, "field": "at"}},
        },
        *(
            {
                "data": {"values": side},
                "mark": {"type": "text", "color": TEXT, "align": align, "dx": dx},
                "encoding": {
                    "x": {**x, "field": "at"},
                    "y": {"value": -8},
                    "text": {"field": "label"},
                },
            }
            for side, align, dx in sides
        ),
    ]


def chance_over_runs(marks: Sequence[ChanceMark], end: int | None, reached: bool | None) -> Spec:
    """Draw the forecast chance to reach the goal, with its band, over the runs so far.

    Args:
        marks: forecasts, oldest first.
        end: number of runs when the outcome was decided; None if it is open.
        reached: outcome, drawn as a point at 100 or 0 %; None if it is open.
    """
    rows = [{"runs": m.runs, "chance": m.chance, "low": m.low, "high": m.high} for m in marks]
    axis = {"grid": False, "format": "d", "tickMinStep": 1}
    x = {"field": "runs", "type": "quantitative", "title": "ended runs", "axis": axis}
    x["scale"] = {"zero": False}
    y = chance_axis("y")
    layers: list[Spec] = [
        {
            "mark": {"type": "area", "color": ACCENT, "opacity": 0.22},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "color": ACCENT, "strokeWidth": 2.5, "point": {"size": 35,
                     "color": ACCENT}},
            "encoding": {
                "x": x,
                "y": {**y, "field": "chance"},
                "tooltip": [
                    {"field": "runs"},
                    *({"field": name, "format": ".0%"} for name in ("chance", "low", "high")),
                ],
            },
        },
        *_chance_rules(y),
    ]  # fmt: skip
    if end is not None and reached is not None:
        label = "reached" if reached else "missed"
        data = {"values": [{"runs": end, "chance": 1.0 if reached else 0.0, "label": label}]}
        at = {"x": x, "y": {**y, "field": "chance"}}
        shape = "diamond" if reached else "cross"
        mark = {"type": "point", "shape": shape, "size": 120, "color": MUTED, "filled": True}
        layers += [
            {"data": data, "mark": mark, "encoding": at},
            {
                "data": data,
                "mark": {"type": "text", "color": TEXT, "align": "right", "dx": -10},
                "encoding": {**at, "text": {"field": "label"}},
            },
        ]
    return {**frame(640, 200), "data": {"values": rows}, "layer": layers}


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def fan_lows(
    points: Sequence[RunPoint], fan: Sequence[FanPoint], *goals: float | None
) -> tuple[float, ...]:
    """Return the better ends of the forecast fan, limited so that the chart stays readable."""
    solid = [
        *(p.value for p in points),
        *(v for fan_point in fan for v in (fan_point.median, fan_point.high)),
    ]
    solid += [goal for goal in goals if goal is not None]
    if not solid:
        return ()
    least, most = min(solid), max(solid)
    room = _OUTSIDE * (most - least)
    floor = least - room if least <= 0 else max(least - room, least / 2)
    return tuple(min(max(fan_point.low, floor), most + room) for fan_point in fan)


def fan_layers(
    rows: Sequence[Spec],
    x: Spec,
    y: Spec,
    first: Sequence[Spec],
    colour: str = ACCENT,
    dash: Sequence[int] = (6, 4),
) -> list[Spec]:
    """Return chart layers with the 10 to 90 % area and the median of the forecast."""
    data = {"values": list(rows)}
    tooltip = [
        *first,
        {"field": "to", "title": "1 in 10 better than"},
        {"field": "median", "title": "median"},
        {"field": "high", "title": "1 in 10 worse than"},
    ]
    return [
        {
            "data": data,
            "mark": {"type": "area", "color": colour, "opacity": 0.22},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "data": data,
            "mark": {"type": "line", "color": colour, "strokeWidth": 2, "strokeDash": list(dash)},
            "encoding": {"x": x, "y": {**y, "field": "median"}, "tooltip": tooltip},
        },
    ]


def goal_rule(goal: float | None, y: Spec, label: str = "goal", dx: int = 4) -> list[Spec]:
    """Return chart layers with a labelled rule at the goal, or [] without a goal."""
    if goal is None:
        return []
    data = {"values": [{"goal": goal, "label": label}]}
    at = {**y, "field": "goal"}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1.5},
            "encoding": {"y": at},
        },
        {
            "data": data,
            "mark": {"type": "text", "align": "left", "dx": dx, "dy": -6, "color": TEXT},
            "encoding": {"x": {"value": 0}, "y": at, "text": {"field": "label"}},
        },
    ]


def end_rule(field: str, at: float, kind: str, label: str, x: Spec) -> list[Spec]:
    """Return chart layers with a vertical rule and a label above the rule."""
    data = {"values": [{field: at, "label": label}]}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [2, 3], "strokeWidth": 1.5},
            "encoding": {"x": {**x, "field": field, "type": kind}},
        },
        {
            "data": data,
            "mark": {"type": "text", "align": "right", "baseline": "bottom", "color": TEXT},
            "encoding": {
                "x": {**x, "field": field, "type": kind},
                "y": {"value": -3},
                "text": {"field": "label"},
            },
        },
    ]


def chance_axis(channel: str) -> Spec:
    """Return the encoding of an axis for a chance from 0 to 100 %, without a data field."""
    axis = {"format": ".0%", "grid": False, "tickCount": 5, "values": [0, 0.25, 0.5, 0.75, 1]}
    title = "chance to reach the goal" if channel == "x" else "chance"
    return {"type": "quantitative", "title": title, "scale": {"domain": [0, 1]}, "axis": axis}


def _chance_rules(y: Spec) -> list[Spec]:
    marks = [{"at": at, "label": label} for at, label in CHANCE_MARKS]
    sides = ((marks[:1], 8), (marks[1:], -6))
    return [
        {
            "data": {"values": marks},
            "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3]},
            "encoding": {"y": {**y, "field": "at"}},
        },
        *(
            {
                "data": {"values": side},
                "mark": {"type": "text", "align": "left", "dx": 4, "dy": dy, "color": TEXT},
                "encoding": {
                    "x": {"value": 0},
                    "y": {**y, "field": "at"},
                    "text": {"field": "label"},
                },
            }
            for side, dy in sides
        ),
    ]


NOW, THEN = "now", "then"
_WHEN: Spec = nominal("when", [NOW, THEN], [MUTED, ACCENT], legend=None)
_BAR = 18


@dataclass(frozen=True, slots=True)
class Destination:
    """A region (or the rest) with its number of further runs before and after a change."""

    where: str
    now: int | None
    then: int | None


@dataclass(frozen=True, slots=True)
class ForecastCurve:
    """The forecast of the best value for one alternative.

    Args:
        fan: forecast of further runs, counted from the last one; empty if too little is known.
        end: further runs until the SLA ends the experiment; None if unknown.
    """

    fan: tuple[FanPoint, ...]
    goal: float | None
    end: float | None


@dataclass(frozen=True, slots=True)
class ChanceBand:
    """A chance to reach the goal with its uncertainty band, as shares from 0 to 1."""

    chance: float
    low: float
    high: float


def destinations(rows: Sequence[Destination], *, is_changed: bool) -> Spec:
    """Draw bars of the number of further runs per region, before and after a change."""
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
        "scale": {"domain": [0, max(1.5 * most, 1)]},  # room for the text behind a bar
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


def fans(
    points: Sequence[RunPoint], now: ForecastCurve, then: ForecastCurve | None, title: str
) -> Spec:
    """Draw the best value so far with its forecasts before and after a change."""
    if then is None:
        return best_with_fan(
            points, now.fan, baseline=None, goal=now.goal, end=now.end, title=title
        )  # fmt: skip
    n, both = len(points), (*now.fan, *then.fan)
    goals = [goal for goal in (now.goal, then.goal) if goal is not None]
    lows = fan_lows(points, both, *goals)
    beside = [*lows, *(v for point in both for v in (point.median, point.high)), *goals]
    ends = [end for end in (now.end, then.end) if end is not None]
    last_run = n + max([*(point.runs for point in both), *ends], default=0)
    spec = best_so_far(points, None, title, beside, last_run)
    x, y = run_axis(last_run, points), best_axis(points, None, title, beside)
    sides = (
        (NOW, now, lows[: len(now.fan)], MUTED, (2, 3)),
        (THEN, then, lows[len(now.fan) :], ACCENT, (6, 4)),
    )
    layers: list[Spec] = []
    for when, coming, drawn_lows, colour, dash in sides:
        rows = [
            {
                "run": n + point.runs,
                "low": low,
                "median": point.median,
                "high": point.high,
                "to": point.low,
                "when": when,
            }
            for point, low in zip(coming.fan, drawn_lows, strict=True)
        ]
        if len(rows) > 1:
            first = [{"field": "when"}, {"field": "run", "title": "after run"}]
            layers += fan_layers(rows, x, y, first, colour, dash)
            layers.append(_named(rows[-1], when, x, y))
    rules = goal_rule(then.goal, y)
    if now.goal != then.goal:
        rules = goal_rule(now.goal, y, "goal now") + goal_rule(then.goal, y, "goal then", dx=70)
    return {**spec, "layer": [*layers, *spec["layer"], *rules, *_ends(n, now, then, x)]}


def chances(now: ChanceBand | None, then: ChanceBand | None) -> Spec:
    """Draw the chance (0 to 100 %) before and after a change, each as a tick in its band."""
    rows = [
        {"when": when, "chance": estimate.chance, "low": estimate.low, "high": estimate.high}
        for when, estimate in ((NOW, now), (THEN, then))
        if estimate is not None
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


def _ends(n: int, now: ForecastCurve, then: ForecastCurve, x: Spec) -> list[Spec]:
    ends = [(now.end, "ends now"), (then.end, "ends then")]
    if now.end == then.end:
        ends = [(now.end, "budget ends")]
    return [
        layer
        for end, label in ends
        if end is not None
        for layer in end_rule("run", n + end, "quantitative", label, x)
    ]


MOST_PREDICTIONS = 40


@dataclass(frozen=True, slots=True)
class PredictionMark:
    """The prediction for one run with its interval, and the result of the run."""

    label: str
    expected: float
    low: float | None
    high: float | None
    came: float
    inside: bool | None


def prediction_chart(marks: Sequence[PredictionMark], title: str) -> Spec:
    """Draw one row per run with its predicted interval, prediction and result, latest last.

    A filled disc is a result inside the interval, a cross outside, a square had no interval.
    ``title`` is the name of the value with its unit. Only the latest `MOST_PREDICTIONS` are drawn.
    """
    kinds = ["inside the interval", "outside the interval", "no interval"]
    latest = marks[-MOST_PREDICTIONS:]
    rows = [
        {
            "label": mark.label,
            "expected": mark.expected,
            "low": mark.low,
            "high": mark.high,
            "came": mark.came,
            "kind": kinds[2] if mark.inside is None else kinds[not mark.inside],
        }
        for mark in latest
    ]
    ends = [x for mark in latest for x in (mark.low, mark.high, mark.came) if x is not None]
    x = value_axis([*ends, *(mark.expected for mark in latest)], title)
    y = {
        "field": "label",
        "type": "nominal",
        "sort": [mark.label for mark in latest],
        "title": None,
        "axis": {"labelLimit": 220, "labelColor": TEXT},
    }
    return {
        **frame(560, max(18 * len(rows), 60)),
        "data": {"values": rows},
        "encoding": {"y": y},
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": MUTED, "strokeWidth": 5, "opacity": 0.45},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "tick", "color": TEXT, "thickness": 2, "size": 12},
                "encoding": {"x": {**x, "field": "expected"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 65},
                "encoding": {
                    "x": {**x, "field": "came"},
                    "shape": nominal("kind", kinds, ["circle", "cross", "square"]),
                    "color": nominal("kind", kinds, [ACCENT, WARN, MUTED]),
                    "tooltip": [
                        {"field": name}
                        for name in ("label", "expected", "low", "high", "came", "kind")
                    ],
                },
            },
        ],
    }
