"""What matters as bars, the same on *Overview* and on *Effects*."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from assistant.presentation.charts.palette import ACCENT, MUTED, TEXT
from assistant.presentation.charts.vega_lite import HEAD, Spec, nominal
from assistant.presentation.tables.effects import EffectsRanking, amount
from assistant.ui.charting import low

BAR_HEIGHT = 22  # Pixels of the chart's height for each bar

_LETTER, _LEAST = 6.8, 40
"""Width of a letter, and least length of the longest bar, in pixels."""


@dataclass(frozen=True, slots=True)
class RankedBar:
    """Range of one parameter's effect, its 95 % interval (None if unknown), and its label.

    Args:
        is_clear: whether noise alone does not make such a range; False is drawn in grey.
    """

    parameter: str
    value: float
    low: float | None
    high: float | None
    label: str
    is_clear: bool


def ranking_bars(bars: Sequence[RankedBar]) -> Spec:
    """Draw the bars in the given order, the values as labels behind them, without an axis."""
    rows = [
        {
            "parameter": bar.parameter,
            "value": bar.value,
            "low": bar.low,
            "high": bar.high,
            "end": bar.value if bar.high is None else max(bar.value, bar.high),
            "label": bar.label,
            "kind": "clear" if bar.is_clear else "may be noise",
        }
        for bar in bars
    ]
    most = max((float(str(row["end"])) for row in rows), default=0.0) or 1.0
    room = round(_LETTER * max((len(bar.label) for bar in bars), default=0)) + 12
    x = {
        "type": "quantitative",
        "axis": None,
        "scale": {
            "domain": [0, most],
            "nice": False,
            "range": [0, {"expr": f"max({_LEAST}, width - {room})"}],  # the labels follow
        },
    }
    y = {
        "field": "parameter",
        "type": "nominal",
        "sort": [bar.parameter for bar in bars],
        "title": None,
        "axis": {"labelLimit": 150, "ticks": False, "domain": False, "labelPadding": 6},
    }
    colour = nominal("kind", ["clear", "may be noise"], [ACCENT, MUTED], legend=None)
    tooltip = [{"field": "parameter"}, {"field": "label", "title": "range"}]
    return {
        **HEAD,
        "description": "what matters, by parameter",
        "width": 640,
        "height": BAR_HEIGHT * len(rows),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar", "height": 12, "opacity": 0.75},
                "encoding": {
                    "x": {**x, "field": "value"}, "y": y, "color": colour, "tooltip": tooltip,
                },
            },
            {
                "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
                "mark": {"type": "rule", "color": TEXT, "strokeWidth": 1.5},
                "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 8, "color": TEXT},
                "encoding": {"x": {**x, "field": "end"}, "y": y, "text": {"field": "label"}},
            },
        ],
    }  # fmt: skip


def ranking_chart(ranking: EffectsRanking, most: int | None = None) -> None:
    """Draw the ranges of the effects in the order of the headline; nothing if none is known.

    Args:
        ranking: the ranges.
        most: largest number of bars; further ones are counted. None draws all.
    """
    bars = [
        RankedBar(
            entry.parameter, entry.value, entry.low, entry.high,
            amount(entry.value, ranking.unit), entry.low is None or entry.is_clear,
        )
        for entry in ranking.parameters
        if entry.value is not None
    ]  # fmt: skip
    if not any(bar.value for bar in bars):
        return
    first = bars[:most]
    st.vega_lite_chart(
        low(ranking_bars(first)), theme=None, width="stretch",
        alt="what matters: " + ", ".join(f"{bar.parameter} {bar.label}" for bar in first),
    )  # fmt: skip
    line = " Line: 95 % interval." if any(bar.low is not None for bar in first) else ""
    grey = " Grey: noise alone could make it." if not all(bar.is_clear for bar in first) else ""
    more = f" {len(bars) - len(first)} more on *Effects*." if len(bars) > len(first) else ""
    st.caption(f"Bar and number: how far the levels of a parameter differ.{line}{grey}{more}")
