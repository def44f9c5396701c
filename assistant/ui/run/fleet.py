"""The machines behind a run, simulated again: how full they were, what was lost, who waited."""

import streamlit as st

from assistant import Experiment, Run, RunState
from assistant.applications import Placing
from assistant.applications.placement_view import fleet_drawing
from assistant.charts_placement import FleetDrawing, panel_picture
from assistant.errors import ApplicationError
from assistant.events import ExperimentOpened
from assistant.starting import rebuild
from assistant.ui import words
from assistant.ui.charting import low
from assistant.ui.intents import sentence
from strategies import Level


def section(experiment: Experiment, run: Run) -> None:
    """Draw the machines of a run over time."""
    if run.state is not RunState.COMPLETED:
        st.info(f"No picture: run {run.id} is {run.state}.", icon=":material/info:")
        return
    opened = experiment.opened
    values = tuple(experiment.space.values(run.configuration).items())
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            drawn = _drawing(opened.experiment_id, values, opened)
    except Exception as error:
        st.info(f"No picture: {words.plain(sentence(error))}", icon=":material/info:")
        return
    for panel in drawn.panels:
        told = ", ".join(f"{name} {max(series):.3g}" for name, series in panel.series.items())
        said = f"{panel.title}; at most: {told}"
        st.vega_lite_chart(
            low(panel_picture(panel, drawn.step_h)), theme=None, width="stretch", alt=said,
            key=f"fleet-{opened.experiment_id}-{panel.title}",
        )  # fmt: skip
        st.caption(said)


@st.cache_resource(max_entries=16, show_spinner=False)
def _drawing(
    experiment_id: str,  # noqa: ARG001 - a part of the key
    values: tuple[tuple[str, Level], ...],
    _opened: ExperimentOpened,
) -> FleetDrawing:
    application = rebuild(_opened)
    if not isinstance(application, Placing):
        raise ApplicationError("the experiment was opened over something else than machines")
    return fleet_drawing(application, dict(values))[0]
