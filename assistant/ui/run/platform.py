"""The AI platform behind a run, simulated again: the same configuration gives the same future."""

import streamlit as st

from assistant import Experiment, Run, RunState
from assistant.applications import AiPlatform
from assistant.applications.platform_view import Dashboard, played
from assistant.events import ExperimentOpened
from assistant.starting import rebuild
from assistant.ui import dashboard, words
from assistant.ui.intents import sentence
from strategies import Level


def section(experiment: Experiment, run: Run) -> None:
    """Draw the platform of a run, hour by hour."""
    st.subheader("The platform")
    if run.state is not RunState.COMPLETED:
        st.info(f"No dashboard: run {run.id} is {run.state}.", icon=":material/info:")
        return
    values = experiment.space.values(run.configuration)
    opened = experiment.opened
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            board = _board(opened.experiment_id, tuple(values.items()), opened)
    except Exception as error:
        st.error(words.plain(sentence(error)), icon=":material/error:")
        return
    dashboard.draw(board, f"platform-{opened.experiment_id}")


@st.cache_resource(max_entries=16, show_spinner=False)
def _board(
    experiment_id: str,  # noqa: ARG001 - a part of the key
    values: tuple[tuple[str, Level], ...],
    _opened: ExperimentOpened,
) -> Dashboard:
    application = rebuild(_opened)
    if not isinstance(application, AiPlatform):
        raise AssertionError("the recipe of an experiment makes its application")
    return played(application, dict(values))[0]
