"""Charts of effects: main effects, interactions, Pareto and half-normal plots, strength matrix.

The caller makes the texts of levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.analysis.effects import StandardisedEffects, TermShare
from assistant.presentation.charts.axes import unit_in, value_axis
from assistant.presentation.charts.palette import ACCENT, LOWERS, MUTED, RAISES, TEXT, WARN, series
from assistant.presentation.charts.vega_lite import Spec, frame, nominal, slant
from assistant.presentation.text.number_format import quantity
from strategies.doe.linear_model import Contrast, HalfNormalPoint, Margins

MOST_BARS = 20

MOST_LINES = 8

CHOSEN_LEVEL, CHOSEN_PAIR = "chosen_level", "chosen_pair"
"""Names of the selections in a chart, also fields of the selected row."""

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
           "triangle-left")  # fmt: skip


@dataclass(frozen=True, slots=True)
class LevelChange:
    """The effect of one level as a change about the mean, with its 95 % interval if known."""

    level: str
    change: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class CombinationChange:
    """The joint effect of two levels of two parameters, as a change about the mean."""

    first: str
    second: str
    change: float
    n: int


def main_effects(
    levels: Sequence[LevelChange],
    parameter: str,
    unit: str,
    title: str,
    beside: Sequence[LevelChange] = (),
) -> Spec:
    """Draw the change about the mean with its interval for each level of a parameter.

    Args:
        levels: of the parameter, with their texts.
        parameter: name of it.
        unit: of its levels, left out for seconds, which the texts show as durations.
        title: name of the change with its unit.
        beside: changes of other charts beside this one, to draw all on one scale.
    """
    rows = [
        {
            "level": c.level, "change": c.change, "low": c.low, "high": c.high, "n": c.n,
            "change_text": quantity(c.change, unit_in(title)),
            "interval": "unknown" if c.low is None or c.high is None
            else f"{quantity(c.low, unit_in(title))} to {quantity(c.high, unit_in(title))}",
        }
        for c in levels
    ]  # fmt: skip
    in_unit = f" [{unit}]" if unit not in ("", "s") else ""
    x = _levels_axis("level", [c.level for c in levels], f"{parameter}{in_unit}")
    y = {"field": "change", **change_axis([*levels, *beside], title)}
    return {
        **frame(300, 170),
        "description": f"{title or 'change'} by level of {parameter}",
        "data": {"values": rows},
        "layer": [
            _zero(y),
            {
                "mark": {"type": "line", "color": MUTED, "opacity": 0.4},
                "encoding": {"x": x, "y": y},
            },
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
                        {"field": "level"},
                        {"field": "change_text", "title": "change"},
                        {"field": "interval", "title": "95 % interval"},
                        {"field": "n", "title": "runs"},
                    ],
                },
            },
        ],
    }


def interaction(
    changes: Sequence[CombinationChange],
    first: str,
    second: str,
    title: str,
    levels: Sequence[str] = (),
) -> Spec:
    """Draw an interaction plot with a line over the first parameter per level of the second.

    Parallel lines mean no interaction. Only the `MOST_LINES` lines with the most known combinations
    are drawn.

    Args:
        changes: of the combinations, in the order of the levels of the first parameter.
        first: parameter along the axis.
        second: parameter of the lines.
        title: name of the change with its unit.
        levels: of the second parameter in their order; as in ``changes`` by default.
    """
    at_second: dict[str, int] = {}
    for change in changes:
        at_second[change.second] = at_second.get(change.second, 0) + 1
    most = sorted(at_second, key=lambda name: -at_second[name])[:MOST_LINES]
    second_levels = [name for name in levels or at_second if name in most]
    rows = [
        {"first": c.first, "second": c.second, "change": c.change, "n": c.n}
        for c in changes
        if c.second in second_levels
    ]
    x = _levels_axis("first", list(dict.fromkeys(c.first for c in changes)), first)
    y = {"field": "change", **value_axis([0.0, *(c.change for c in changes)], title)}
    colour = nominal(
        "second", second_levels, series(len(second_levels)), sort=second_levels,
        legend={"title": second, "orient": "right"},
    )  # fmt: skip
    return {
        **frame(420, 220),
        "description": f"{title}: {first} with {second}",
        "data": {"values": rows},
        "layer": [
            _zero(y),
            {"mark": {"type": "line"}, "encoding": {"x": x, "y": y, "color": colour}},
            {
                "mark": {"type": "point", "filled": True, "opacity": 1, "size": 55},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": colour,
                    "shape": {
                        **colour,
                        "scale": {
                            "domain": second_levels,
                            "range": list(_SHAPES[: len(second_levels)]),
                        },
                    },
                    "tooltip": [{"field": name} for name in ("first", "second", "change", "n")],
                },
            },
        ],
    }


def pareto(contrasts: Sequence[Contrast], margins: Margins, title: str) -> Spec:
    """Draw the largest contrasts as bars with Lenth's margins, in their order, coloured by sign."""
    bars = _largest([(c.name, c.effect, c.effect) for c in contrasts])
    ends = ((margins.margin, "one by one (ME)"), (margins.simultaneous, "all at once (SME)"))
    return _bars(bars, ends, title)


def pareto_standardised(standardised: StandardisedEffects) -> Spec:
    """Draw the largest contrasts in standard errors as bars, with significance limits.

    The lines are the t limits for a single contrast, and by Bonferroni for all of them.
    """
    bars = _largest([(contrast.name, t, contrast.effect) for contrast, t in standardised.effects])
    ends = (
        (standardised.limit, "one by one (t)"),
        (standardised.bonferroni, "all at once (Bonferroni)"),
    )
    return _bars(bars, ends, "effect in standard errors (|t|)")


def _largest(bars: Sequence[tuple[str, float, float]]) -> list[tuple[str, float, float]]:
    """Return the `MOST_BARS` longest bars in the order of all."""
    least = sorted((abs(size) for _, size, _ in bars), reverse=True)[:MOST_BARS][-1:]
    return [bar for bar in bars if abs(bar[1]) >= least[0]]


def _bars(
    bars: Sequence[tuple[str, float, float]], ends: Sequence[tuple[float | None, str]], title: str
) -> Spec:
    names = [name for name, _, _ in bars]
    signs = ["raises it", "lowers it"]
    rows = [
        {"name": name, "size": abs(size), "sign": signs[size < 0], "effect": effect}
        for name, size, effect in bars
    ]
    longest = max(
        [abs(size) for _, size, _ in bars] + [size or 0.0 for size, _ in ends], default=0.0
    )
    x = {"field": "size", **value_axis([longest], title, includes_zero=True)}
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
                    "axis": {"labelLimit": 260, "labelColor": TEXT},
                },
                "color": nominal("sign", signs, [RAISES, LOWERS], legend={"orient": "bottom"}),
                "tooltip": [{"field": field} for field in ("name", "size", "sign", "effect")],
            },
        }
    ]
    for (size, label), colour, dy in zip(ends, (MUTED, WARN), (-15, -2), strict=True):
        if size is not None:
            layers += _margin(x, size, label, colour, dy, longest)
    return {
        **frame(300, max(20 * len(rows), 60)),
        "padding": {"top": 30, "left": 5, "right": 5, "bottom": 5},
        "data": {"values": rows},
        "layer": layers,
    }


def half_normal(points: Sequence[HalfNormalPoint], margins: Margins, title: str) -> Spec:
    """Draw a half-normal plot of contrasts, with names for those beyond Lenth's margin.

    The line is noise with Lenth's pseudo standard error. ``title`` is the name of the effect.
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
    x = {"field": "size", **value_axis([p.size for p in points], title, includes_zero=True)}
    y = {
        "field": "quantile", "type": "quantitative", "title": "half-normal quantile",
        "axis": {"tickCount": 5},
    }  # fmt: skip
    middle = max((p.size for p in points), default=0.0) / 2  # keeps names inside the picture
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
        *(
            {
                "transform": [{"filter": f"datum.size {side} {middle!r}"}],
                "mark": {"type": "text", "align": align, "dx": dx, "color": TEXT},
                "encoding": {"x": x, "y": y, "text": {"field": "label"}},
            }
            for side, align, dx in ((">=", "right", -7), ("<", "left", 7))
        ),
    ]
    return {**frame(420, 260), "data": {"values": rows}, "layer": layers}


def strength_matrix(main: Sequence[TermShare], pairs: Sequence[TermShare]) -> Spec:
    """Draw the variance shares of parameters and pairs as a half matrix of selectable cells.

    The area of a disc is the share, with the number beside it. A plus marks a share that is known
    only in part, a question mark an unknown one. Parameters are in the order of ``main``. Selecting
    a cell gives ``first`` and ``second``, see `CHOSEN_PAIR`.
    """
    tested = {name for strength in pairs for name in strength.parameters}
    names = [strength.parameters[0] for strength in main if strength.parameters[0] in tested]
    names = names or [strength.parameters[0] for strength in main]
    rows = []
    for strength in (*(m for m in main if m.parameters[0] in names), *pairs):
        ends = sorted((strength.parameters[0], strength.parameters[-1]), key=names.index)
        share, plus = strength.share, "+" if strength.is_part else ""
        rows.append(
            {
                "first": ends[0],
                "second": ends[1],
                "share": share,
                "label": "?" if share is None else f"{share:.0%}{plus}",
                "what": "main effect" if len(strength.parameters) == 1 else "interaction",
                "df": f"{strength.test.df} of {strength.test.full_df}",
                "p": "unknown" if strength.test.p is None else f"{strength.test.p:.2g}",
            }
        )  # fmt: skip
    across = {
        "field": "first",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {
            "labelAngle": slant(names),
            "labelLimit": 140,
            "labelColor": TEXT,
            "orient": "top",
        },
    }
    down = {
        "field": "second",
        "type": "nominal",
        "sort": names,
        "title": None,
        "axis": {"labelLimit": 200, "labelColor": TEXT},
    }
    titles = {"first": "", "second": "", "what": "", "label": "explains", "df": "", "p": ""}
    tips = [{"field": name, "title": title or name} for name, title in titles.items()]
    return {
        **frame(420, max(36 * len(names), 72)),
        "padding": {"left": 5, "top": 5, "bottom": 5, "right": 45 if slant(names) else 5},
        "description": "shares of the variation, by parameter and pair",
        "data": {"values": rows},
        "encoding": {"x": across, "y": down},
        "layer": [
            {
                "name": "cells",
                "params": [
                    {
                        "name": CHOSEN_PAIR,
                        "select": {"type": "point", "fields": ["first", "second"], "toggle": False},
                    }
                ],
                "mark": {
                    "type": "rect", "fill": MUTED, "fillOpacity": 0.06, "stroke": MUTED,
                    "strokeOpacity": 0.3, "cursor": "pointer",
                },
                "encoding": {"tooltip": tips},
            },
            {
                "transform": [{"filter": "datum.share > 0"}],
                "mark": {
                    "type": "circle", "color": ACCENT, "opacity": 1, "xOffset": -14,
                    "cursor": "pointer",
                },
                "encoding": {
                    "size": {
                        "field": "share",
                        "type": "quantitative",
                        "scale": {"domainMin": 0, "range": [0, 480]},
                        "legend": None,
                    },
                    "tooltip": tips,
                },
            },
            {
                "mark": {"type": "text", "fontSize": 11, "align": "left", "dx": 2, "color": TEXT},
                "encoding": {"text": {"field": "label"}},
            },
        ],
    }  # fmt: skip


def choosable(spec: Spec, parameter: str) -> Spec:
    """Make the dots of a chart of levels selectable.

    The selection gives ``parameter`` and ``level`` (text), see `CHOSEN_LEVEL`. The last layer must
    hold the dots, as in `main_effects`.
    """
    rows = [{**row, "parameter": parameter} for row in spec["data"]["values"]]
    dots = spec["layer"][-1]
    param = {
        "name": CHOSEN_LEVEL,
        "select": {
            "type": "point",
            "fields": ["parameter", "level"],
            "nearest": True,
            "toggle": False,
        },
    }
    last = {**dots, "params": [param], "mark": {**dots["mark"], "cursor": "pointer"}}
    return {**spec, "data": {"values": rows}, "layer": [*spec["layer"][:-1], last]}


def _levels_axis(field: str, levels: Sequence[str], title: str) -> Spec:
    return {
        "field": field,
        "type": "ordinal",
        "sort": list(levels),
        "scale": {"domain": list(levels)},
        "title": title,
        "axis": {"labelAngle": slant(levels), "labelOverlap": False},
    }


def change_axis(levels: Sequence[LevelChange], title: str) -> Spec:
    """Return the axis of changes about a mean, around 0, for all levels with their intervals."""
    ends = [x for c in levels for x in (c.change, c.low, c.high) if x is not None]
    return value_axis([0.0, *ends], title)


def _zero(y: Spec) -> Spec:
    return {
        "data": {"values": [{"zero": 0}]},
        "mark": {"type": "rule", "color": MUTED, "strokeDash": [3, 3]},
        "encoding": {"y": {**y, "field": "zero"}},
    }


def _margin(x: Spec, size: float, label: str, colour: str, dy: int, longest: float) -> list[Spec]:
    """Draw a limit with its label ``dy`` pixels below the upper edge, to avoid overlaps.

    The axis reaches to the ``longest`` size; at its ends the label lies on the inner side.
    """
    at = size / longest if longest else 0.0
    align = "left" if at < 0.25 else "right" if at > 0.7 else "center"
    data = {"values": [{"size": size, "label": label}]}
    return [
        {
            "data": data,
            "mark": {"type": "rule", "color": colour, "strokeDash": [5, 4], "strokeWidth": 1.5},
            "encoding": {"x": x},
        },
        {
            "data": data,
            "mark": {"type": "text", "color": colour, "align": align, "baseline": "bottom"},
            "encoding": {"x": x, "y": {"value": dy}, "text": {"field": "label"}},
        },
    ]
