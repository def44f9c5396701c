"""Charts of several experiments: the best so far of each, and what matters in each.

An experiment has the same colour in all of them. A click on the legend fades the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.presentation.charts.axes import unit_in, value_axis
from assistant.presentation.charts.palette import TEXT, series
from assistant.presentation.charts.vega_lite import (
    RunPoint,
    Spec,
    frame,
    nominal,
    run_axis,
)
from assistant.presentation.text.number_format import quantity

PICKED = "picked"
"""Name of the selection of experiments in the legend."""

_ROW = 15  # Pixels of a chart's height for one experiment in a row of effects


@dataclass(frozen=True, slots=True)
class BestCourse:
    """The completed runs of one experiment, in the order of completion."""

    name: str
    points: tuple[RunPoint, ...]


@dataclass(frozen=True, slots=True)
class RangeBeside:
    """The range of a parameter's effect in one experiment, with its 95 % interval if known."""

    name: str
    parameter: str
    value: float
    low: float | None
    high: float | None


def best_overlay(courses: Sequence[BestCourse], names: Sequence[str], title: str) -> Spec:
    """Draw the best value so far of each experiment as a step line over its completed runs.

    Args:
        courses: experiments with one objective.
        names: of all compared experiments, in the order of their colours.
        title: name of the value with its unit.
    """
    unit = unit_in(title)
    rows = [
        {
            "name": course.name, "run": point.order, "best": point.best, "value": point.value,
            "id": point.run_id, "text": quantity(point.value, unit),
            "best_text": "none" if point.best is None else quantity(point.best, unit),
        }
        for course in courses
        for point in course.points
    ]  # fmt: skip
    x = run_axis(max((len(course.points) for course in courses), default=0))
    y = value_axis([point.value for course in courses for point in course.points], title)
    colour = _colour([course.name for course in courses], names)
    tooltip = [
        {"field": "name", "title": "experiment"},
        {"field": "run", "title": "completed runs"},
        {"field": "best_text", "title": "best so far"},
    ]
    faded = {"condition": {"param": PICKED, "value": 1}, "value": 0.12}
    return {
        **frame(640, 300),
        "data": {"values": rows},
        "layer": [
            {
                "params": [
                    {
                        "name": PICKED,
                        "select": {"type": "point", "fields": ["name"]},
                        "bind": "legend",
                    }
                ],
                "mark": {"type": "point", "filled": True, "size": 22},
                "encoding": {
                    "x": x, "y": {"field": "value", **y}, "color": colour,
                    "opacity": {"condition": {"param": PICKED, "value": 0.45}, "value": 0.05},
                    "tooltip": [
                        {"field": "name", "title": "experiment"}, {"field": "id", "title": "run"},
                        {"field": "text", "title": "value"},
                    ],
                },
            },
            {
                "transform": [{"filter": "isValid(datum.best)"}],
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2.5},
                "encoding": {
                    "x": x, "y": {"field": "best", **y}, "color": colour, "opacity": faded,
                    "tooltip": tooltip,
                },
            },
        ],
    }  # fmt: skip


def effects_beside(ranges: Sequence[RangeBeside], names: Sequence[str], title: str) -> Spec:
    """Draw the range of each parameter in each experiment as a dot on its 95 % interval.

    Args:
        ranges: of experiments with one objective; parameters in the order of their rows.
        names: of all compared experiments, in the order of their colours.
        title: name of the value with its unit.
    """
    unit = unit_in(title)
    rows = [
        {
            "name": entry.name, "parameter": entry.parameter, "value": entry.value,
            "low": entry.low, "high": entry.high, "text": quantity(entry.value, unit),
            "interval": "unknown" if entry.low is None or entry.high is None
            else f"{quantity(entry.low, unit)} to {quantity(entry.high, unit)}",
        }
        for entry in ranges
    ]  # fmt: skip
    experiments = list(dict.fromkeys(entry.name for entry in ranges))
    parameters = list(dict.fromkeys(entry.parameter for entry in ranges))
    ends = [v for entry in ranges for v in (entry.value, entry.high) if v is not None]
    x = value_axis(ends, f"difference between levels, {title}", includes_zero=True)
    y = {
        "field": "parameter", "type": "nominal", "sort": parameters, "title": None,
        "scale": {"paddingInner": 0.35, "paddingOuter": 0.15},
        "axis": {"labelLimit": 170, "ticks": False, "domain": False, "grid": True},
    }  # fmt: skip
    at = {
        "y": y,
        "yOffset": {"field": "name", "type": "nominal", "sort": experiments},
        "color": _colour(experiments, names),
    }
    return {
        **frame(640, max(_ROW * len(experiments) + 10, 26) * len(parameters)),
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.55},
                "encoding": {**at, "x": {"field": "low", **x}, "x2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 60},
                "encoding": {
                    **at, "x": {"field": "value", **x},
                    "tooltip": [
                        {"field": "name", "title": "experiment"}, {"field": "parameter"},
                        {"field": "text", "title": "range"},
                        {"field": "interval", "title": "95 % interval"},
                    ],
                },
            },
        ],
    }  # fmt: skip


def _colour(sort: Sequence[str], names: Sequence[str]) -> Spec:
    colours = dict(zip(names, series(len(names)), strict=True))
    return nominal(
        "name", sort, [colours[name] for name in sort], sort=list(sort),
        legend={"title": None, "orient": "top", "columns": {"expr": "width < 480 ? 1 : 3"},
                "labelLimit": {"expr": "width < 480 ? width - 30 : width / 3 - 40"},
                "labelColor": TEXT, "symbolType": "circle", "symbolOpacity": 1},
    )  # fmt: skip
