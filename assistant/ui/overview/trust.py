"""The scoreboard of trust: what became of suggestions, and whether their intervals held."""

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.charts_steering import MOST_PROMISES, promises
from assistant.report.trust import TrustSection, marks, trust_section
from assistant.report.words import number
from assistant.ui import words
from assistant.ui.charting import low

_KEPT = "trust-kept"


def section(experiment: Experiment) -> None:
    """Draw the scoreboard."""
    st.subheader("How far to trust suggestions")
    told = _told(experiment)
    if told is None:
        st.info(
            "No run yet. Take, change or leave suggestions on the page *Suggestions*; here stands "
            "then how each choice did."
        )
        return
    for sentence in told.sentences:
        st.markdown(words.plain(sentence))
    st.dataframe(score_table(told), hide_index=True, width="stretch", alt="groups of runs")
    today = "" if told.told.today is None else f", today is {number(told.told.today)}"
    st.caption(
        f"Means and bests are of {words.plain(told.title)}, of completed runs that meet every "
        f"constraint. Gain: the mean improvement over today{today}; above 0 is better. In the "
        "interval: results within the 95 % interval that the suggestion stated, with a 95 % "
        "interval of that share. What was edited, or left out and never run, kept no promise: "
        "unknown."
    )
    drawn = marks(told.told.promises)
    if not drawn:
        return
    inside = sum(one.inside is True for one in drawn)
    st.vega_lite_chart(
        low(promises(drawn, told.title)),
        theme=None,
        width="stretch",
        alt=f"stated intervals of {len(drawn)} suggestions and what came; {inside} inside",
    )
    latest = "" if len(drawn) <= MOST_PROMISES else f" The latest {MOST_PROMISES} are drawn."
    st.caption(
        "Bar: the stated interval; tick: the value expected, the middle of what may come, so that "
        f"a long tail moves the mean error.{latest}"
    )
    with st.expander("As a table"):
        st.dataframe(promise_table(told), hide_index=True, width="stretch", alt="promises")


def _told(experiment: Experiment) -> TrustSection | None:
    """Return the scoreboard of this state, made once."""
    key = (experiment.opened.experiment_id, experiment.n_events)
    kept = st.session_state.get(_KEPT)
    if kept is None or kept[0] != key:
        kept = st.session_state[_KEPT] = (key, trust_section(experiment))
    told: TrustSection | None = kept[1]
    return told


def score_table(told: TrustSection) -> pd.DataFrame:
    """Return the groups as they are shown."""
    unit = f" [{told.told.unit}]" if told.told.unit else ""
    return pd.DataFrame(
        {
            "runs": row.name,
            "number": row.n,
            "completed": row.completed,
            "failed": row.failed,
            f"mean{unit}": row.mean,
            f"best{unit}": row.best,
            "improved the best": row.improved,
            f"gain{unit}": row.gain,
            "in the interval": row.coverage,
            f"mean error{unit}": row.error,
        }
        for row in told.rows
    )


def promise_table(told: TrustSection) -> pd.DataFrame:
    """Return promises as they are shown, those of suggestions that were left out too."""
    unit = f" [{told.told.unit}]" if told.told.unit else ""
    inside = {True: "inside", False: "outside", None: "none stated"}
    return pd.DataFrame(
        {
            "run": one.run_id,
            "batch": one.batch,
            "suggestion": "left out" if one.group == "left out" else "taken",
            f"expected{unit}": number(one.expected),
            "interval": words.interval(one.low, one.high),
            f"came{unit}": number(one.came),
            "": inside[one.inside],
        }
        for one in told.told.promises
    )
