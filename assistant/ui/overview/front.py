"""The trade-offs of two measures: what nothing beats in both."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant import Experiment, RunState
from assistant.charts import trade_off
from assistant.report.trade import FrontRow, front_rows, trade_points
from assistant.report.words import number
from assistant.ui import words
from assistant.ui.charting import wide


def section(experiment: Experiment) -> None:
    """Draw the trade-offs of two measures; nothing with one."""
    objective = experiment.opened.objective
    second = objective.second
    if second is None or not experiment.runs_in(RunState.COMPLETED):
        return
    title = words.titled(str(objective.wrapper), objective.unit)
    also = words.titled(str(second.wrapper), second.unit)
    trade, front = trade_points(experiment), front_rows(experiment)
    st.subheader(words.plain(f"The front: {objective.wrapper} against {second.wrapper}"))
    st.vega_lite_chart(
        wide(trade_off(trade, title, also)),
        theme=None,
        width="stretch",
        alt=f"{also} against {title}; {len(front)} of {len(trade)} on the front",
    )
    st.caption(
        "On the copper line neither gets better without the other getting worse. *Best* is by "
        f"{objective.wrapper} alone."
    )
    st.dataframe(front_table(front, title, also), hide_index=True, width="stretch", alt="the front")


def front_table(front: Sequence[FrontRow], title: str, also: str) -> pd.DataFrame:
    """Return the front as it is shown, the best by the first measure first."""
    return pd.DataFrame(
        {
            "run": row.run_id,
            title: number(row.value),
            also: number(row.second_value),
            **row.values,
            "runs": row.n_runs,
            "": "today" if row.is_today else "",
        }
        for row in front
    )
