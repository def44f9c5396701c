"""A run that goes on: what it has measured so far, as it comes, and ending it early."""

import streamlit as st

from assistant import AssistantError, Run, RunState
from assistant.report.going_on import age_words
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent
from assistant.ui.run.tables import measures_table

EVERY_S = 2.0
PLACE = "end"


@st.fragment(run_every=EVERY_S)
def reports(desk: Desk, run_id: int) -> None:
    """Draw what a run has reported and how old that is, anew every few seconds until it ends."""
    try:
        desk.session.catch_up()
    except AssistantError as error:
        st.warning(f"It is not known how it goes on: {words.plain(str(error))}.")
        return
    experiment = desk.session.experiment
    run = experiment.run(run_id)
    if run.state is not RunState.RUNNING:
        st.rerun()  # the page has another story to tell
    if run.reported is None:
        st.caption("It has reported nothing so far.")
        return
    age = age_words(run, desk.session.now_s())
    st.markdown(f"**Reported so far**, the last time {age}")
    st.dataframe(
        measures_table(experiment, run), hide_index=True, width="stretch",
        alt=f"measures that run {run_id} has reported so far",
    )  # fmt: skip


def section(desk: Desk, run: Run) -> Intent | None:
    """Draw how a run that goes on is ended early. Returns that it shall be."""
    if run.state is not RunState.RUNNING:
        return None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reason = st.text_input(
            "Why (kept with the run)", key=f"end-why-{run.id}", placeholder="optional", width=320
        ).strip()
        keep = st.button(
            "Stop and keep", icon=":material/stop_circle:", key=f"end-keep-{run.id}",
            help="It ends now, and what it has reported last counts as its result.",
        )  # fmt: skip
        drop = st.button(
            "Cancel", icon=":material/cancel:", key=f"end-drop-{run.id}",
            help="It ends now and has no result; it counts against the budget.",
        )  # fmt: skip

    def stop() -> str:
        desk.session.stop(run.id, reason, keep=keep)
        return f"Run {run.id} was {'stopped' if keep else 'cancelled'}."

    return Intent(f"{PLACE}-{run.id}", stop, "Ending it") if keep or drop else None
