"""Vega-Lite specifications of steering: what suggestions promised, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.charts import ACCENT, CONFIG, MUTED, SCHEMA, TEXT, WARN, Spec, scale_of

MOST_PROMISES = 40
"""Rows that the eye can read; the latest."""


@dataclass(frozen=True, slots=True)
class PromiseMark:
    """One run: what was expected of it with the stated interval, and what came."""

    label: str
    expected: float
    low: float | None
    high: float | None
    came: float
    inside: bool | None


def promises(marks: Sequence[PromiseMark], title: str) -> Spec:
    """A row per run, the latest below: the stated interval, the expected value, what came.

    A filled disc came inside of the interval, a cross outside, a square had none. ``title`` names
    the value with its unit. Of more than `MOST_PROMISES` the latest are drawn.
    """
    kinds = ["came as stated", "came outside", "came, no interval stated"]
    shown = marks[-MOST_PROMISES:]
    rows = [
        {
            "label": one.label,
            "expected": one.expected,
            "low": one.low,
            "high": one.high,
            "came": one.came,
            "kind": kinds[2] if one.inside is None else kinds[not one.inside],
        }
        for one in shown
    ]
    ends = [x for one in shown for x in (one.low, one.high, one.came) if x is not None]
    x = {"type": "quantitative", "title": title, "scale": scale_of(ends)}
    y = {
        "field": "label",
        "type": "nominal",
        "sort": [one.label for one in shown],
        "title": None,
        "axis": {"labelLimit": 220, "labelColor": TEXT},
    }
    return {
        "$schema": SCHEMA,
        "config": CONFIG,
        "width": 560,
        "height": max(18 * len(rows), 60),
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
                    "shape": {
                        "field": "kind",
                        "type": "nominal",
                        "scale": {"domain": kinds, "range": ["circle", "cross", "square"]},
                    },
                    "color": {
                        "field": "kind",
                        "type": "nominal",
                        "scale": {"domain": kinds, "range": [ACCENT, WARN, MUTED]},
                    },
                    "tooltip": [
                        {"field": name}
                        for name in ("label", "expected", "low", "high", "came", "kind")
                    ],
                },
            },
        ],
    }
