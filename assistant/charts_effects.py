"""Vega-Lite specifications of effects: main effects, interactions, Pareto and half-normal plots.

They look like those of `assistant.charts`. Texts of levels are made by the caller.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.charts import ACCENT, CONFIG, GRID, INK, MUTED, SCHEMA, WARN, Spec, slant
from strategies.analysis import Contrast, HalfNormalPoint, Margins

MOST_BARS = 20
"""Contrasts in a Pareto chart, the largest; the rest are below them all."""

MOST_LINES = 8
"""Lines of an interaction plot that the eye can tell apart."""

_LINES = ("#b4632d", "#1f2933", "#2a7f9e", "#7b5ea7", "#5b8c3a", "#c0392b", "#d9a441", "#7b8794")


@dataclass(frozen=True, slots=True)
class LevelChange:
    """A level and what it changes, with the ends of its 95 % interval where they are known."""

    level: str
    change: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class CombinationChange:
    """Levels of two parameters and what they change together."""

    first: str
    second: str
    change: float
    n: int


def main_effects(levels: Sequence[LevelChange], parameter: str, unit: str, title: str) -> Spec:
    """Change per level about the mean, with intervals; levels in their order.

    ``title`` names the change with its unit.
    """
    rows = [
        {"level": c.level, "change": c.change, "low": c.low, "high": c.high, "n": c.n}
        for c in levels
    ]
    x = _levels_axis(
        "level", [c.level for c in levels], f"{parameter} [{unit}]" if unit else parameter
    )
    y = {"field": "change", "type": "quantitative", "title": title}
    return {
        **_frame(300, 170),
        "data": {"values": rows},
        "layer": [
            _zero(),
            {"mark": {"type": "line", "color": GRID}, "encoding": {"x": x, "y": y}},
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "rule", "color": ACCENT, "strokeWidth": 1.5},
                "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "circle", "color": ACCENT, "opacity": 1, "size": 60},
                "encoding": {
                    "x": x,
                    "y": y,
                    "tooltip": [
                        {"field": name} for name in ("level", "change", "low", "high", "n")
                    ],
                },
            },
        ],
    }


def interaction(changes: Sequence[CombinationChange], first: str, second: str, title: str) -> Spec:
    """One line over the levels of the first parameter for each level of the second.

    Parallel lines are parameters that do not interact. At most `MOST_LINES` lines are drawn, those
    with the most combinations known; levels are in the order in which they come.
    """
    at_second: dict[str, int] = {}
    for change in changes:
        at_second[change.second] = at_second.get(change.second, 0) + 1
    most = sorted(at_second, key=lambda name: -at_second[name])[:MOST_LINES]
    shown = [name for name in at_second if name in most]
    rows = [
        {"first": c.first, "second": c.second, "change": c.change, "n": c.n}
        for c in changes
        if c.second in shown
    ]
    x = _levels_axis("first", list(dict.fromkeys(c.first for c in changes)), first)
    y = {"field": "change", "type": "quantitative", "title": title}
    colour = {
        "field": "second",
        "type": "nominal",
        "sort": shown,
        "scale": {"domain": shown, "range": list(_LINES[: len(shown)])},
        "legend": {"title": second, "orient": "right"},
    }
    return {
        **_frame(420, 220),
        "data": {"values": rows},
        "layer": [
            _zero(),
            {"mark": {"type": "line"}, "encoding": {"x": x, "y": y, "color": colour}},
            {
                "mark": {"type": "circle", "opacity": 1, "size": 45},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "tooltip": [{"field": name} for name in ("first", "second", "change", "n")],
                },
            },
        ],
    }


def pareto(contrasts: Sequence[Contrast], margins: Margins, title: str) -> Spec:
    """Sizes of contrasts as bars, the largest first, with Lenth's two margins where there are any.

    Colour says the sign. ``title`` names the effect with its unit.
    """
    largest = sorted(contrasts, key=lambda contrast: -abs(contrast.effect))[:MOST_BARS]
    names = [contrast.name for contrast in largest]
    signs = ["raises it", "lowers it"]
    rows = [{"name": c.name, "size": abs(c.effect), "sign": signs[c.effect < 0]} for c in largest]
    x = {"field": "size", "type": "quantitative", "title": title}
    layers: list[Spec] = [
        {
            "mark": {"type": "bar", "height": {"band": 0.7}},
            "encoding": {
                "x": x,
                "y": {
                    "field": "name",
                    "type": "nominal",
                    "sort": names,
                    "title": None,
                    "axis": {"labelLimit": 260, "labelColor": INK},
                },
                "color": {
                    "field": "sign",
                    "type": "nominal",
                    "scale": {"domain": signs, "range": [ACCENT, INK]},
                },
                "tooltip": [{"field": "name"}, {"field": "size"}, {"field": "sign"}],
            },
        }
    ]
    ends = ((margins.margin, "one by one (ME)", MUTED), (margins.simultaneous, "all at once (SME)",
                                                         WARN))  # fmt: skip
    for size, label, colour in ends:
        if size is not None:
            layers += _margin(x, size, label, colour)
    return {
        **_frame(300, max(20 * len(rows), 60)),
        "padding": {"top": 18, "left": 5, "right": 5, "bottom": 5},
        "data": {"values": rows},
        "layer": layers,
    }


def half_normal(points: Sequence[HalfNormalPoint], margins: Margins, title: str) -> Spec:
    """Half-normal plot of the sizes of contrasts; those beyond Lenth's margin carry their names.

    The line is that of noise with Lenth's pseudo standard error. ``title`` names the effect.
    """
    beyond = margins.margin
    rows = [
        {
            "name": p.name,
            "size": p.size,
            "quantile": p.quantile,
            "label": p.name if beyond is not None and p.size > beyond else "",
        }
        for p in points
    ]
    x = {"field": "size", "type": "quantitative", "title": title}
    y = {"field": "quantile", "type": "quantitative", "title": "half-normal quantile"}
    layers: list[Spec] = []
    if margins.pse is not None and points:
        end = min(points[-1].quantile, points[-1].size / margins.pse)
        line = [{"size": 0.0, "quantile": 0.0}, {"size": end * margins.pse, "quantile": end}]
        layers.append(
            {
                "data": {"values": line},
                "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4]},
                "encoding": {"x": x, "y": y},
            }
        )
    layers += [
        {
            "mark": {"type": "circle", "color": ACCENT, "opacity": 1, "size": 45},
            "encoding": {
                "x": x,
                "y": y,
                "tooltip": [{"field": "name"}, {"field": "size"}, {"field": "quantile"}],
            },
        },
        {
            "mark": {"type": "text", "align": "right", "dx": -7, "color": INK},
            "encoding": {"x": x, "y": y, "text": {"field": "label"}},
        },
    ]
    return {**_frame(420, 260), "data": {"values": rows}, "layer": layers}


def _frame(width: int, height: int) -> Spec:
    return {"$schema": SCHEMA, "config": CONFIG, "width": width, "height": height}


def _levels_axis(field: str, levels: Sequence[str], title: str) -> Spec:
    return {
        "field": field,
        "type": "ordinal",
        "sort": list(levels),
        "scale": {"domain": list(levels)},
        "title": title,
        "axis": {"labelAngle": slant(levels), "labelOverlap": False},
    }


def _zero() -> Spec:
    return {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3]},
        "encoding": {"y": {"field": "zero", "type": "quantitative"}},
    }


def _margin(x: Spec, size: float, label: str, colour: str) -> list[Spec]:
    data = {"values": [{"size": size, "label": label}]}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": colour, "strokeDash": [5, 4]},
            "encoding": {"x": x},
        },
        {
            "data": data,
            "mark": {"type": "text", "color": colour, "align": "center", "baseline": "bottom"},
            "encoding": {"x": x, "y": {"value": -3}, "text": {"field": "label"}},
        },
    ]
