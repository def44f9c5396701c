"""What matters as bars, the same on *Overview* and on *Effects*."""

import streamlit as st

from assistant.presentation.charts.ranking import RankedBar, ranking_bars
from assistant.presentation.tables.effects import EffectsRanking, amount
from assistant.ui.charting import low


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
    st.caption(f"Bar: how far the levels of a parameter differ.{line}{grey}{more}")
