"""Vega-Lite specification of runs over parallel axes, in the look of `assistant.charts`."""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.charts import CONFIG, MUTED, SCHEMA, TEXT, Spec, scale_of
from assistant.charts_space.words import Dark, better

BRUSH = "brush"
"""Name of the selection over parallel axes."""

_SCHEME: Spec = {"name": "viridis", "extent": [0.2, 0.95]}
"""Without its ends: a thin line shall be seen on dark ground and on light."""

_KINDS = ("meets every constraint", "violates a constraint")


@dataclass(frozen=True, slots=True)
class Parallel:
    """One of the parallel axes: its title, and texts at places from 0 (bottom) to 1 (top)."""

    title: str
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A run over parallel axes.

    Args:
        run_id: its number.
        at: its place on each axis, 0 to 1; None where it has none.
        texts: what it has on each axis.
        value: what gives the colour, None without a result.
        is_feasible: whether it meets every constraint; true without a result.
    """

    run_id: int
    at: tuple[float | None, ...]
    texts: tuple[str, ...]
    value: float | None
    is_feasible: bool


def parallel(axes: Sequence[Parallel], lines: Sequence[Line], title: str, dark: Dark) -> Spec:
    """Draw runs as lines over parallel axes, with one brush over the axes.

    Lines that the brush leaves out fade; `brushed` says which they are. ``title`` names the value
    with its unit.
    """
    rows = [
        {"run": line.run_id, "axis": i, "at": at, "text": text, "value": line.value,
         "kind": _KINDS[not line.is_feasible]}
        for line in lines
        for i, (at, text) in enumerate(zip(line.at, line.texts, strict=True))
        if at is not None
    ]  # fmt: skip
    names = [one.title for one in axes]
    known = [line.value for line in lines if line.value is not None]
    x: Spec = {
        "field": "axis",
        "type": "ordinal",
        "scale": {"domain": list(range(len(axes)))},
        "axis": {
            "orient": "top", "title": None, "labelAngle": 0, "labelFontSize": 12, "grid": True,
            "labelExpr": "N[datum.value]", "labelColor": TEXT, "labelLimit": 180,
        },
    }  # fmt: skip
    y: Spec = {
        "field": "at", "type": "quantitative", "axis": None,
        "scale": {"domain": [-0.04, 1.1], "nice": False},
    }  # fmt: skip
    # a row is left out if its axis is under the brush and it is not; a run, if any row of it is
    under = f"{BRUSH}.axis && indexof({BRUSH}.axis, datum.axis) >= 0"
    kept: list[Spec] = [
        {"calculate": f"{under} && !inrange(datum.at, {BRUSH}.at) ? 1 : 0", "as": "out"},
        {"joinaggregate": [{"op": "max", "field": "out", "as": "left"}], "groupby": ["run"]},
    ]
    colour: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"scheme": _SCHEME, "reverse": dark == "high", **scale_of(known)},
        "legend": {
            "title": better(title), "titleColor": TEXT, "titleLimit": 420,
            "gradientLength": 220,
        } if known else None,
        "condition": {"test": "datum.value === null", "value": MUTED},
    }  # fmt: skip
    lines_drawn: Spec = {
        "x": x,
        "y": y,
        "detail": {"field": "run"},
        "color": colour,
        "opacity": {"condition": {"test": "datum.left > 0", "value": 0.07}, "value": 0.8},
    }
    if any(not line.is_feasible for line in lines):
        lines_drawn["strokeDash"] = {
            "field": "kind", "type": "nominal",
            "scale": {"domain": list(_KINDS), "range": [[1, 0], [4, 3]]},
        }  # fmt: skip
    ticks = [{"axis": i, "at": at, "text": text}
             for i, one in enumerate(axes) for at, text in one.ticks]  # fmt: skip
    return {
        "$schema": SCHEMA,
        "padding": {"left": 16, "right": 5, "top": 5, "bottom": 5},
        "config": {**CONFIG, "aria": False},
        "width": 900,
        "height": 300,
        "params": [{"name": "N", "value": names}],
        "data": {"values": rows},
        "layer": [
            {
                "transform": kept,
                "mark": {"type": "line", "strokeWidth": 1.6, "invalid": None},
                "encoding": lines_drawn,
            },
            {
                "transform": kept,
                "params": [
                    {"name": BRUSH, "select": {"type": "interval", "encodings": ["x", "y"]}}
                ],
                "mark": {"type": "point", "size": 12, "fill": MUTED, "stroke": None,
                         "invalid": None},
                "encoding": {
                    "x": x, "y": y, "opacity": lines_drawn["opacity"],
                    "tooltip": [{"field": "run"}, {"field": "text", "title": "here"},
                                {"field": "value", "title": title, "format": ".4~g"}],
                },
            },
            {
                "data": {"values": ticks},
                "mark": {"type": "text", "align": "left", "dx": 5, "dy": -7, "color": TEXT,
                         "fontSize": 10},
                "encoding": {"x": x, "y": y, "text": {"field": "text"}},
            },
        ],
    }  # fmt: skip


def brushed(lines: Sequence[Line], axes: Sequence[int], low: float, high: float) -> list[int]:
    """Return the numbers of the runs that a brush keeps: those within it on all axes under it.

    >>> run = Line(1, (0.0, 1.0), ("a", "b"), None, True)
    >>> brushed([run], [0], 0.0, 0.5), brushed([run], [0, 1], 0.0, 0.5)
    ([1], [])
    """

    def is_in(at: float | None) -> bool:
        return at is None or low <= at <= high  # what has no place there is not drawn there

    return [line.run_id for line in lines if all(is_in(line.at[i]) for i in axes)]
