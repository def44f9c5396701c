"""The *Compare* page: two to six experiments beside each other, and one report over them."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.ports import StoredExperiment
from assistant.presentation.charts.comparison import best_overlay, effects_beside
from assistant.presentation.report.html import render_comparison_report
from assistant.presentation.tables.experiment_comparison import (
    FEWEST,
    MOST,
    ComparedRow,
    ExperimentComparison,
    ObjectiveGroup,
    compare_experiments,
)
from assistant.presentation.text.number_format import moment
from assistant.ui import labels
from assistant.ui.charting import low, wide
from assistant.ui.intents import Intent, sentence
from assistant.ui.state import put, seed

CHOSEN = "compare-chosen"
"""Key of the ids of the chosen experiments in the session state; another page may set them."""

_ADDRESS = "c"  # Name of the chosen experiments in the address, once for each
_COMPARED = "compare-kept"


def page(
    stored: Sequence[StoredExperiment], experiment_of: Callable[[str], Experiment]
) -> Intent | None:
    """Draw the comparison of the chosen experiments; the page offers no actions."""
    st.title("Compare", anchor=False)
    if len(stored) < FEWEST:
        st.info(
            "A comparison needs two experiments. "
            + (
                "Start another one on *New*, or duplicate this one on *Experiments*."
                if stored
                else "Start them on *New*."
            ),
            icon=":material/compare_arrows:",
        )
        return None
    experiment_ids = _choice(stored)
    if len(experiment_ids) < FEWEST:
        st.info(
            f"Choose {FEWEST} to {MOST} experiments, such as two strategies on one program.",
            icon=":material/compare_arrows:",
        )
        return None
    try:
        data = _compared([experiment_of(experiment_id) for experiment_id in experiment_ids])
    except AssistantError as error:
        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
        return None
    _headline(data)
    _results(data)
    for group in data.groups:
        _courses(data, group)
    _settings(data)
    _best(data)
    for group in data.groups:
        _effects(data, group)
    return None


def _choice(stored: Sequence[StoredExperiment]) -> list[str]:
    """Draw the field of the chosen experiments, preset by the address or another page."""
    listed = {entry.id: entry for entry in stored}
    names = [entry.name for entry in stored]
    seed(CHOSEN, st.query_params.get_all(_ADDRESS))
    listed_ids = [entry for entry in st.session_state[CHOSEN] if entry in listed][:MOST]
    if listed_ids != st.session_state[CHOSEN]:
        put(CHOSEN, listed_ids)

    def label(experiment_id: str) -> str:
        entry = listed[experiment_id]
        plain = names.count(entry.name) == 1
        return entry.name if plain else f"{entry.name}, {moment(entry.opened_s)}"

    experiment_ids: list[str] = st.multiselect(
        "Experiments", list(listed), key=CHOSEN, format_func=label, max_selections=MOST,
        placeholder=f"{FEWEST} to {MOST} experiments", persist_state="session",
    )  # fmt: skip
    st.query_params[_ADDRESS] = experiment_ids
    return experiment_ids


def _compared(experiments: Sequence[Experiment]) -> ExperimentComparison:
    """Return the comparison, made once for each state of the experiments."""
    key = tuple((e.opened.experiment_id, e.n_events) for e in experiments)
    cached = st.session_state.get(_COMPARED)
    if cached is None or cached[0] != key:
        with st.spinner("Comparing …"):
            cached = st.session_state[_COMPARED] = (key, compare_experiments(experiments))
    data: ExperimentComparison = cached[1]
    return data


def _headline(data: ExperimentComparison) -> None:
    for group in data.groups:
        st.markdown(f"**{labels.escape_markdown(group.sentence)}**")
    if len(data.groups) > 1:
        st.caption("Values are compared only between experiments with the same objective.")
    elif data.is_noisy:
        st.caption("Results vary from run to run, so a small difference may be chance.")
    st.download_button(
        "Download one report over these (HTML)",
        lambda: render_comparison_report(data),
        file_name="comparison.html",
        mime="text/html",
        icon=":material/download:",
        on_click="ignore",
        key="compare-report",
    )


def _results(data: ExperimentComparison) -> None:
    table = pd.DataFrame(
        {
            "experiment": entry.name,
            "best": entry.best,
            "against current": entry.gain,
            "completed": entry.completed,
            "failed": entry.failed,
            "budget": entry.budget,
            "time of all runs": entry.run_time,
        }
        for entry in data.experiments
    )
    st.dataframe(table, hide_index=True, width="stretch", alt="results of the experiments")


def _courses(data: ExperimentComparison, group: ObjectiveGroup) -> None:
    st.subheader(labels.escape_markdown(f"Best so far: {group.value_name}"), anchor=False)
    if not any(course.points for course in group.courses):
        st.caption("No run has completed yet.")
        return
    st.vega_lite_chart(
        wide(best_overlay(group.courses, data.names, group.title)), theme=None, width="stretch",
        alt=f"best {group.title} so far of {', '.join(course.name for course in group.courses)}",
    )  # fmt: skip
    st.caption(
        "Dots: completed runs. Lines: the best until then. Click a name in the legend to fade the "
        "others; double-click to show all."
    )


def _settings(data: ExperimentComparison) -> None:
    st.subheader("Settings that differ", anchor=False)
    different = [row for row in data.settings if row.differs]
    if not different:
        st.caption("None: they differ in their results only.")
        return
    _rows(different, data.names, "setting")


def _best(data: ExperimentComparison) -> None:
    st.subheader("Best configurations", anchor=False)
    only = st.toggle("Only parameters that differ", value=True, key="compare-only-different")
    rows = [row for row in data.best if row.differs or not only]
    if not rows:
        st.caption("None: the best configurations are the same.")
        return
    _rows(rows, data.names, "parameter")


def _effects(data: ExperimentComparison, group: ObjectiveGroup) -> None:
    if not group.ranges:
        return
    st.subheader(labels.escape_markdown(f"Effects: {group.value_name}"), anchor=False)
    for name, ranking in group.rankings:
        st.markdown(labels.escape_markdown(f"{name}: {ranking.headline}"))
    st.vega_lite_chart(
        low(effects_beside(group.ranges, data.names, group.title)), theme=None, width="stretch",
        alt=f"range of each parameter's effect on {group.title}, by experiment",
    )  # fmt: skip
    st.caption("Dot: how far the levels of a parameter differ. Line: its 95 % interval.")
    with st.expander("As a table"):
        _rows(group.effect_rows(), [name for name, _ in group.rankings], "parameter")


def _rows(rows: Sequence[ComparedRow], names: Sequence[str], first: str) -> None:
    frame = pd.DataFrame(
        {first: row.name, **dict(zip(names, row.texts, strict=True))} for row in rows
    )
    st.dataframe(frame, hide_index=True, width="stretch", alt=f"each {first} by experiment")
