"""Two runs beside each other: the levels in which they differ, and their measures."""

import streamlit as st

from assistant import Experiment, Outcome, Run
from assistant.report.words import quantity
from assistant.ui.run.tables import differing_levels, measures_beside


def section(experiment: Experiment, run: Run, other: Run) -> None:
    """Draw what differs between two runs; their schedules are drawn with the schedule."""
    st.subheader(f"Run {run.id} beside run {other.id}")
    levels = differing_levels(experiment, run, other)
    left, right = st.columns(2)
    with left:
        st.markdown("**Levels that differ**")
        if levels.empty:
            st.caption(f"None: the same configuration with seeds {run.seed} and {other.seed}.")
        else:
            st.dataframe(
                levels, hide_index=True, width="stretch",
                alt=f"levels in which runs {run.id} and {other.id} differ",
            )  # fmt: skip
    with right:
        st.markdown("**Measures**")
        if run.outcome is None or other.outcome is None:
            told = " and ".join(
                f"run {one.id} is {one.state}" for one in (run, other) if one.outcome is None
            )
            st.caption(f"Not to be compared: {told}.")
            return
        st.markdown(verdict(experiment, (run, run.outcome), (other, other.outcome)))
        st.dataframe(
            measures_beside(experiment, run, other), hide_index=True, width="stretch",
            alt=f"measures of run {run.id} beside those of run {other.id}",
        )  # fmt: skip


def verdict(experiment: Experiment, here: tuple[Run, Outcome], there: tuple[Run, Outcome]) -> str:
    """Say which of two runs is better by the objective, and by how much."""
    (run, mine), (other, theirs), objective = here, there, experiment.opened.objective
    if mine.feasible != theirs.feasible:
        kept, broken = (run, other) if mine.feasible else (other, run)
        return f"Run {kept.id} meets every constraint, run {broken.id} does not."
    gain = mine.quality - theirs.quality
    if gain == 0:
        return f"Both have the same {objective.wrapper}."
    better = "better" if gain > 0 else "worse"
    apart = quantity(abs(gain), objective.unit)
    return f"By {objective.wrapper} run {run.id} is {better} than run {other.id} by {apart}."
