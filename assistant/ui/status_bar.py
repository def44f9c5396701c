"""The status bar of an experiment: name, activity, numbers, and start or pause.

The part that changes by itself is a fragment without input, so a redraw loses no typed text.
"""

import streamlit as st

from assistant.client.remote_session import ExecutionStatus
from assistant.config.snapshot import rebuild, stored_hooks
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.run import RunState
from assistant.presentation.text.number_format import lasting
from assistant.session.execution import ExecutionLock
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at
from assistant.ui.state import Activity, ExperimentSnapshot, ExperimentViewModel

LIVE_S, IDLE_S = 2.0, 5.0
_ACTIVITY_LABELS = {
    Activity.RUNNING: (":material/play_circle:", "Running"),
    Activity.READY: (":material/check_circle:", "Ready: no runs are waiting"),
    Activity.PAUSED: (":material/pause_circle:", "Paused"),
    Activity.ELSEWHERE: (":material/visibility:", "Executed by another program"),
    Activity.FINISHED: (":material/flag:", "Finished"),
}
_DRAWN, _FRESH = "drawn", "drawn-now"


def status_bar(view_model: ExperimentViewModel, experiment: Experiment) -> Intent | None:
    """Draw the status bar of an experiment and return the request to start or pause, or None."""
    snapshot = view_model.snapshot
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(labels.escape_markdown(experiment.opened.name), anchor=False, width="content")
        opened = experiment.opened
        about = f"{opened.objective} · {opened.application} · {opened.experiment_id}"
        st.caption(labels.escape_markdown(about), width="content")
        intent = _switch(view_model, snapshot)
    answer_at("run")
    st.session_state[_DRAWN] = _sign(snapshot)
    st.session_state[_FRESH] = True
    st.fragment(_line, run_every=LIVE_S if snapshot.is_live else IDLE_S)(view_model)
    if experiment.finished is not None:
        reason = labels.escape_markdown(experiment.finished.reason)
        st.info(f"Finished: {reason}", icon=":material/flag:")
    return intent


def state_words(snapshot: ExperimentSnapshot) -> str:
    """Describe the execution state of an experiment in words, with an icon."""
    icon, text = _ACTIVITY_LABELS[snapshot.activity]
    experiment = snapshot.experiment
    running = len(experiment.runs_in(RunState.RUNNING))
    if snapshot.activity is Activity.PAUSED and running:
        text = f"Pausing: {labels.runs(running)} still running"
    if snapshot.execution.external and experiment.finished is None:
        text += f"; {external_client_words(snapshot.execution)}"
    elif snapshot.activity is Activity.RUNNING and not running and not snapshot.execution.executes:
        text = "Started, but without a worker; start one with: copperline work"
    if snapshot.activity is Activity.READY and experiment.auto_steering is not None:
        text = "Choosing the next runs"
        if experiment.open_warning is not None:
            text = "Waiting for your answer to the warning"
    return f"{icon} {text}"


def external_client_words(execution: ExecutionStatus) -> str:
    """Describe when the external client that executes the runs last called the service."""
    last_call_s = execution.last_call_s
    contact = "no call yet" if last_call_s is None else f"last call {lasting(last_call_s)} ago"
    return f"an external client takes the runs, {contact}"


def idle_words(execution: ExecutionStatus) -> str:
    """Return a hint on how to start waiting runs while no run is running."""
    if execution.external:
        return f"No run is running: {external_client_words(execution)}."
    return "No run is running. If this does not change, start the experiment in the bar above."


def numbers(experiment: Experiment) -> list[str]:
    """Describe the progress of an experiment: run counts, deadline, mode."""
    done, failed, running, waiting = (
        len(experiment.runs_in(state))
        for state in (RunState.COMPLETED, RunState.FAILED, RunState.RUNNING, RunState.QUEUED)
    )
    limit = experiment.sla.max_runs
    parts = [f"**{done}** of {limit} runs" if limit is not None else f"**{done}** runs done"]
    if failed:
        parts.append(f"{failed} failed")
    if running or waiting:
        n_held = sum(run.held for run in experiment.runs_in(RunState.QUEUED))
        suffix = f", {n_held} held" if n_held else ""
        parts.append(f"{running} running, {waiting} waiting{suffix}")
    if experiment.sla.deadline_s is not None and experiment.finished is None:
        parts.append(f"deadline: {labels.deadline_words(experiment.sla.deadline_s)}")
    if experiment.auto_steering is not None:
        parts.append("auto-steering on")
    return parts


def _switch(view_model: ExperimentViewModel, snapshot: ExperimentSnapshot) -> Intent | None:
    queued = len(snapshot.experiment.runs_in(RunState.QUEUED))
    match snapshot.activity:
        case Activity.RUNNING | Activity.READY:
            is_at_it = (
                snapshot.activity is Activity.RUNNING
                or snapshot.experiment.auto_steering is not None
            )
            if st.button(
                "Pause", icon=":material/pause:", key="pause-runs",
                type="secondary" if is_at_it else "tertiary",
                help="Running runs continue to their end; no more runs start.",
            ):  # fmt: skip
                return Intent("run", lambda: _pause(view_model))
        case Activity.PAUSED | Activity.ELSEWHERE:
            label = f"Start {labels.runs(queued)}" if queued else "Start"
            hooks = _hooks(snapshot.experiment)
            if st.button(
                label, type="primary", icon=":material/play_arrow:", key="start-runs",
                help=f"These hooks are called on events: {hooks}" if hooks else None,
            ):  # fmt: skip
                return Intent("run", lambda: start(view_model), "Preparing the program")
    return None


def _line(view_model: ExperimentViewModel) -> None:
    """Draw the part that changes by itself; redraw the page once its activity has changed."""
    # Directly after the page it shows the same snapshot, because a redraw now would lose the press
    # of a button below.
    snapshot = view_model.snapshot if st.session_state.pop(_FRESH, False) else view_model.refresh()
    if st.session_state.get(_DRAWN, ("", 0))[0] != _sign(snapshot)[0]:
        st.rerun()
    if snapshot.away is not None:
        st.error(
            "The service cannot be reached; you see the last known state. "
            f"{labels.escape_markdown(snapshot.away)}",
            icon=":material/cloud_off:",
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown(f"**{state_words(snapshot)}**", width="content")
        st.markdown(" · ".join(numbers(snapshot.experiment)), width="content")
        changed = snapshot.experiment.n_events - st.session_state.get(_DRAWN, ("", 0))[1]
        if changed > 0:
            st.button(
                "Show changes", icon=":material/refresh:", key="refresh", type="tertiary",
                on_click=_redraw, help="Tables do not change until you refresh them.",
            )  # fmt: skip
    handed = snapshot.experiment.auto_steering_change
    if handed is not None and handed.auto_steering is None and handed.reason:
        st.caption(f"Auto-steering ended: {labels.escape_markdown(handed.reason)}.")
    for note in snapshot.execution.notes:
        st.warning(labels.escape_markdown(note), icon=":material/notifications_off:")


def _redraw() -> None:
    st.session_state[_DRAWN] = ("", 0)


def _sign(snapshot: ExperimentSnapshot) -> tuple[str, int]:
    """Return the state on which the whole page depends, and the version of its tables."""
    parts = (
        snapshot.activity,
        snapshot.experiment.auto_steering,
        snapshot.experiment.open_warning is None,
    )
    return str(parts), snapshot.experiment.n_events


def start(view_model: ExperimentViewModel) -> str:
    """Start the execution of an experiment by the workers of the service.

    Raises:
        SettingsError: the application cannot be built again.
        ExperimentError: another process executes the experiment.
    """
    rebuild(view_model.experiment.opened)  # refuse here, instead of failing run by run
    with ExecutionLock(view_model.store, view_model.session.id):  # no other process executes it
        view_model.session.recover()
        view_model.session.start()
    view_model.refresh(now=True)
    return ""


def _pause(view_model: ExperimentViewModel) -> str:
    view_model.session.pause()
    view_model.refresh(now=True)
    return ""


def _hooks(experiment: Experiment) -> str:
    try:
        hooks = stored_hooks(experiment)
    except AssistantError:
        return ""  # a reader needs no recipe; `start` refuses this one with its sentence
    return str(hooks) if hooks.kinds else ""
