"""Common charts as Vega-Lite specifications: plain dictionaries with their data inside."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assistant.presentation.charts.axes import unit_in, value_axis
from assistant.presentation.charts.palette import ACCENT, DOMINATED, GROUND, MUTED, TEXT, WARN
from assistant.presentation.text.number_format import duration, quantity

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
HALO: Spec = {
    "stroke": {"expr": "ground"}, "strokeWidth": 4, "strokeJoin": "round", "opacity": 0.85,
}  # fmt: skip
"""Look of a text that is drawn below itself, in a chart with the parameter `GROUND`."""

CONFIG: Spec = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "view": {"stroke": None},
    "numberFormat": ",.6~r",
    "axis": {
        "labelColor": TEXT,
        "titleColor": TEXT,
        "titleFontWeight": "normal",
        "gridColor": MUTED,
        "gridOpacity": 0.2,
        "domainColor": MUTED,
        "domainOpacity": 0.4,
        "tickColor": MUTED,
        "tickOpacity": 0.4,
    },
    "legend": {"labelColor": TEXT, "title": None, "orient": "top"},
}
HEAD: Spec = {"$schema": SCHEMA, "config": CONFIG}
"""What every chart begins with."""


def frame(width: int, height: int) -> Spec:
    """Return what a chart of the given width and height in pixels begins with."""
    return {**HEAD, "width": width, "height": height}


def nominal(field: str, domain: Sequence[Any], look: Sequence[Any], **more: Any) -> Spec:
    """Return an encoding of a field of kinds: the look (colour, shape, dash) of each in order."""
    scale = {"domain": list(domain), "range": list(look)}
    return {"field": field, "type": "nominal", "scale": scale, **more}


@dataclass(frozen=True, slots=True)
class RunPoint:
    """A completed run with its value and the best value of all runs up to this one.

    ``best`` is None before the first feasible run. ``at_s`` is the end of the run, in seconds since
    1970-01-01 UTC, or None if it is not used.
    """

    order: int
    run_id: int
    value: float
    best: float | None
    feasible: bool
    source: str
    at_s: float | None = None


@dataclass(frozen=True, slots=True)
class TradePoint:
    """A configuration as a point of two measured values; ``on_front`` means Pareto-optimal."""

    run_id: int
    value: float
    second: float
    on_front: bool
    feasible: bool
    is_baseline: bool


MOST_MARKS = 2_000
"""Most runs that a chart has a mark for; a screen has no room for more."""


def marked(points: Sequence[RunPoint]) -> Sequence[RunPoint]:
    """Return the runs with a mark: all, or those that improve the best value and an even sample.

    With them the line of the best value so far is that of all runs.
    """
    n = len(points)
    if n <= MOST_MARKS:
        return points
    kept = {i * (n - 1) // (MOST_MARKS - 1) for i in range(MOST_MARKS)}
    kept.update(i for i in range(1, n) if points[i].best != points[i - 1].best)
    return [points[i] for i in sorted(kept)]


def best_so_far(
    points: Sequence[RunPoint],
    baseline: float | None,
    title: str,
    beside: Sequence[float] = (),
    last_run: float = 0,
) -> Spec:
    """Draw runs as dots, the best value so far as a step line, and the baseline as a rule.

    Infeasible runs are crosses; of very many runs a sample has marks (`marked`). ``title`` is the
    name of the value with its unit; ``beside`` has further values, and ``last_run`` is a later
    run, that the caller draws on the same axes.
    """
    kinds = ["completed run"]
    if not all(p.feasible for p in points):
        kinds = ["meets every constraint", "violates a constraint"]
    unit, marks = unit_in(title), marked(points)
    rows = [
        {
            "run": p.order,
            "id": p.run_id,
            "value": p.value,
            "text": quantity(p.value, unit),
            "best": p.best,
            "kind": kinds[not p.feasible],
            "source": p.source,
        }
        for p in marks
    ]
    x = run_axis(max([last_run, *(p.order for p in points)]), points)
    y = best_axis(points, baseline, title, beside)
    layers: list[Spec] = [
        {
            "mark": {"type": "point", "size": 45, "strokeWidth": 1.5},
            "encoding": {
                "x": x,
                "y": {"field": "value", **y},
                "color": nominal("kind", kinds, [TEXT, WARN][: len(kinds)]),
                "shape": nominal("kind", kinds, ["circle", "cross"][: len(kinds)]),
                "tooltip": [
                    {"field": "id", "title": "run"},
                    {"field": "text", "title": "value"},
                    {"field": "source"},
                ],
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
    ]
    if baseline is not None:
        layers.append(
            {
                "data": {"values": [{"baseline": baseline, "label": "current"}]},
                "layer": [
                    {
                        "mark": {"type": "rule", "strokeDash": [5, 4], "color": MUTED},
                        "encoding": {"y": {"field": "baseline", **y}},
                    },
                    *(
                        {
                            "mark": {
                                "type": "text",
                                "align": "right",
                                "dy": -8,
                                **look,
                                "dx": -26 if last_run else 0,  # beside the budget's end
                            },
                            "encoding": {
                                "x": {"value": "width"},
                                "y": {"field": "baseline", **y},
                                "text": {"field": "label"},
                            },
                        }
                        for look in (HALO, {"color": MUTED})
                    ),
                ],
            }
        )
    return {
        **frame(640, 260),
        "params": [GROUND],
        "data": {"values": rows},
        "layer": layers,
    }


def run_axis(last: float, points: Sequence[RunPoint] = ()) -> Spec:
    """Return the axis of the number of completed runs, with room after the last one.

    Its title says of how many of the points there are marks, if not of all (`marked`).
    """
    n_marks = len(marked(points))
    some = f" (marks: {n_marks:,} of {len(points):,})" if n_marks < len(points) else ""
    return {
        "field": "run",
        "type": "quantitative",
        "title": f"completed runs{some}",
        "axis": {"grid": False, "format": "d", "tickMinStep": 1, "tickCount": 8},
        "scale": {"domain": [0, max(last + 0.5, 1.02 * last)], "nice": False},
    }


def best_axis(
    points: Sequence[RunPoint], baseline: float | None, title: str, beside: Sequence[float] = ()
) -> Spec:
    """Return the value axis of a `best_so_far` chart of the same arguments."""
    current = [] if baseline is None else [baseline]
    return value_axis([*(p.value for p in points), *beside, *current], title)


def slant(labels: Sequence[str]) -> int:
    """Return the angle in degrees at which axis labels do not overlap on about 300 pixels."""
    return -60 if len(labels) > 6 or sum(map(len, labels)) > 32 else 0


def trade_off(points: Sequence[TradePoint], title: str, second_title: str) -> Spec:
    """Draw configurations by two measures, with a line along the Pareto front."""
    rows = [
        {
            "run": p.run_id,
            "value": p.value,
            "second": p.second,
            "text": quantity(p.value, unit_in(title)),
            "second_text": quantity(p.second, unit_in(second_title)),
            "kind": "on the front" if p.on_front else "dominated",
            "constraints": "met" if p.feasible else "violated",
            "label": "current" if p.is_baseline else "",
        }
        for p in sorted(points, key=lambda p: p.on_front)  # the front is on top
    ]
    x = {"field": "value", **value_axis([p.value for p in points], title)}
    y = {"field": "second", **value_axis([p.second for p in points], second_title)}
    kinds, colours = ["on the front", "dominated"], [ACCENT, DOMINATED]
    return {
        **frame(640, 300),
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "datum.kind == 'on the front'"}],
                "mark": {"type": "line", "color": ACCENT, "strokeWidth": 1.5},
                "encoding": {"x": x, "y": y, "order": {"field": "value", "type": "quantitative"}},
            },
            {
                "mark": {"type": "point", "size": 55, "strokeWidth": 1.8, "filled": False},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": nominal("kind", kinds, colours),
                    "shape": nominal(
                        "constraints", ["met", "violated"], ["circle", "cross"], legend=None
                    ),
                    "tooltip": [
                        {"field": "run"},
                        {"field": "text", "title": title},
                        {"field": "second_text", "title": second_title},
                        *(
                            [{"field": "constraints"}]
                            if any(not p.feasible for p in points)
                            else []
                        ),
                    ],
                },
            },
            {
                "mark": {"type": "text", "dy": -10, "color": MUTED},
                "encoding": {"x": x, "y": y, "text": {"field": "label"}},
            },
        ],
    }


@dataclass(frozen=True, slots=True)
class MeasuredMoment:
    """A measured value, ``at_s`` seconds after the start of the run."""

    at_s: float
    value: float


def measure_over_time(moments: Sequence[MeasuredMoment], title: str) -> Spec:
    """Draw a measure over the time since the start; ``title`` is its name with its unit."""
    unit = unit_in(title)
    rows = [
        {
            "at": moment.at_s, "value": moment.value, "at_text": duration(moment.at_s),
            "text": quantity(moment.value, unit),
        }
        for moment in moments
    ]  # fmt: skip
    times = [moment.at_s for moment in moments]
    return {
        **frame(640, 200),
        "data": {"values": rows},
        "mark": {"type": "line", "color": ACCENT, "strokeWidth": 2,
                 "point": {"size": 30, "color": ACCENT}},
        "encoding": {
            "x": {"field": "at",
                  **value_axis(times, "time since the start [s]", includes_zero=True)},
            "y": {"field": "value", **value_axis([moment.value for moment in moments], title)},
            "tooltip": [{"field": "at_text", "title": "after"}, {"field": "text", "title": title}],
        },
    }  # fmt: skip
