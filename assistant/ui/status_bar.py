"""The status bar of an experiment: name, state, numbers, and the one button of the state.

The part that changes by itself is a fragment without input, so a redraw loses no typed text.
"""

from collections.abc import Mapping

import streamlit as st

from assistant.analysis.experiment_state import ExecutionStatus, NextStep
from assistant.config.snapshot import rebuild, stored_hooks
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.run import RunState
from assistant.presentation.text.number_format import lasting
from assistant.session.execution import ExecutionLock
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at
from assistant.ui.state import ExperimentSnapshot, ExperimentViewModel

LIVE_S, IDLE_S = 2.0, 5.0
_DRAWN, _FRESH = "drawn", "drawn-now"
_ANSWERING = "answering-the-warning"


def status_bar(
    view_model: ExperimentViewModel, experiment: Experiment, page: str = ""
) -> Intent | None:
    """Draw the status bar above a page; return the request of its one button, or None."""
    snapshot, opened = view_model.snapshot, experiment.opened
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.subheader(
            labels.escape_markdown(opened.name), anchor=False, width="content",
            help=labels.escape_markdown(f"{opened.application} · {opened.experiment_id}"),
        )  # fmt: skip
        st.caption(labels.escape_markdown(str(opened.objective)), width="content")
    st.session_state[_DRAWN] = _sign(snapshot)
    st.session_state[_FRESH] = True
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        with st.container(width="content"):
            line = st.fragment(_line, run_every=LIVE_S if snapshot.is_live else IDLE_S)
            line(view_model, page)
        intent = _button(view_model, snapshot, page)
    answer_at("run")
    return intent


def is_answering(experiment: Experiment) -> bool:
    """Return whether the user asked on *Overview* for the answers to the open warning."""
    warning = experiment.open_warning
    return warning is not None and st.session_state.get(_ANSWERING) == _warning_key(experiment)


def _warning_key(experiment: Experiment) -> tuple[str, int] | None:
    warning = experiment.open_warning
    return None if warning is None else (experiment.opened.experiment_id, warning.number)


def state_words(snapshot: ExperimentSnapshot, page: str = "") -> str:
    """Return the state of an experiment as Markdown: icon, word and reason.

    The next step follows where no button of the status bar on ``page`` says it.
    """
    state = snapshot.state
    words = f"**{state.icon} {labels.escape_markdown(state.sentence)}**"
    if state.next_step in (NextStep.WORKER, NextStep.CLIENT) or (
        _PAGES.get(state.next_step) == page
        and state.next_step not in (NextStep.REPORT, NextStep.CORRECT)  # the sentence says it
    ):
        words += f" {state.next_step}"
    if state.next_step is NextStep.WORKER:
        words += f" In a terminal: `{state.command}`."
    if snapshot.execution.external and not state.is_over:
        words += f" An external client takes the runs, {_last_call(snapshot.execution)}."
    return words


def _last_call(execution: ExecutionStatus) -> str:
    last_call_s = execution.last_call_s
    return "no call yet" if last_call_s is None else f"last call {lasting(last_call_s)} ago"


def numbers(experiment: Experiment) -> list[str]:
    """Describe the progress of an experiment: run counts, deadline, and whether it steers."""
    failed, running, queued = (
        experiment.n_in(state) for state in (RunState.FAILED, RunState.RUNNING, RunState.QUEUED)
    )
    done, limit, left = experiment.n_ended, experiment.sla.max_runs, experiment.runs_left
    parts = [f"**{done}** of {limit} runs" if limit is not None else f"**{done}** runs done"]
    if left and experiment.finished is None:
        parts.append(f"{left} left")
    if failed:
        parts.append(f"{failed} failed")
    if running or queued:
        n_held = queued - len(experiment.waiting)
        suffix = f", {n_held} held" if n_held else ""
        parts.append(f"{running} running, {len(experiment.waiting)} waiting{suffix}")
    if experiment.sla.deadline_s is not None and experiment.finished is None:
        parts.append(f"deadline: {labels.deadline_words(experiment.sla.deadline_s)}")
    return parts + _mode(experiment)


def _mode(experiment: Experiment) -> list[str]:
    return [] if experiment.auto_steering is None else ["auto-steering on"]


_PAGES: Mapping[NextStep, str] = {
    NextStep.ANSWER: "suggestions",
    NextStep.DECIDE: "suggestions",
    NextStep.CHOOSE: "suggestions",
    NextStep.RELEASE: "queue",
    NextStep.REPORT: "report",
    NextStep.CORRECT: "run",
}
"""The page on which a person takes the next step."""


def _button(
    view_model: ExperimentViewModel, snapshot: ExperimentSnapshot, page: str
) -> Intent | None:
    """Draw the one button of the state: pause, start, or the page of the next step."""
    state, target = snapshot.state, _PAGES.get(snapshot.state.next_step)
    if state.next_step is NextStep.START:
        queued = len(snapshot.experiment.waiting)  # without those that are held
        hooks = _hooks(snapshot.experiment)
        if st.button(
            f"Start {labels.runs(queued)}" if queued else "Start", type="primary",
            icon=":material/play_arrow:", key="start-runs",
            help=f"These hooks are called on events: {hooks}" if hooks else None,
        ):  # fmt: skip
            return Intent("run", lambda: start(view_model), "Preparing the program")
    elif state.is_running and not snapshot.execution.in_process:
        if st.button(
            "Pause", icon=":material/pause:", key="pause-runs",
            help="Running runs continue to their end; no more runs start.",
        ):  # fmt: skip
            return Intent("run", lambda: _pause(view_model))
    elif state.next_step is NextStep.ANSWER and page == "overview":
        _answer_button(snapshot.experiment)
    elif target not in (None, page) and st.button(
        state.next_step.removesuffix("."), type="primary", key="next-step"
    ):
        return Intent("run", lambda: "", then=target)
    return None


def _answer_button(experiment: Experiment) -> None:
    """Draw the button that opens the answers to the warning on this page, and closes them."""
    is_open, key = is_answering(experiment), _warning_key(experiment)

    def toggle() -> None:
        st.session_state[_ANSWERING] = None if is_open else key

    st.button(
        "Answer later" if is_open else NextStep.ANSWER.removesuffix("."),
        type="secondary" if is_open else "primary", key="next-step", on_click=toggle,
    )  # fmt: skip


def _line(view_model: ExperimentViewModel, page: str) -> None:
    """Draw the part that changes by itself; redraw the page once its state has changed."""
    # Directly after the page it shows the same snapshot, because a redraw now would lose the press
    # of a button below.
    snapshot = view_model.snapshot if st.session_state.pop(_FRESH, False) else view_model.refresh()
    if st.session_state.get(_DRAWN, ("", 0))[0] != _sign(snapshot)[0]:
        st.rerun()
    if snapshot.away is not None:
        st.error(
            "The service cannot be reached; you see the last known state. "
            f"{labels.escape_markdown(snapshot.away[:1].upper() + snapshot.away[1:])}",
            icon=":material/cloud_off:",
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        st.markdown(state_words(snapshot, page), width="content")
        told = numbers(snapshot.experiment) if page != "overview" else _mode(snapshot.experiment)
        if told:
            st.markdown(" · ".join(told), width="content")
        changed = snapshot.experiment.n_events - st.session_state.get(_DRAWN, ("", 0))[1]
        if changed > 0:
            st.button(
                "Show changes", icon=":material/refresh:", key="refresh", type="tertiary",
                on_click=_redraw, help="Tables do not change until you refresh them.",
            )  # fmt: skip
    for note in snapshot.execution.notes:
        st.warning(labels.escape_markdown(note), icon=":material/notifications_off:")


def _redraw() -> None:
    st.session_state[_DRAWN] = ("", 0)


def _sign(snapshot: ExperimentSnapshot) -> tuple[str, int]:
    """Return the state on which the whole page depends, and the version of its tables."""
    state = snapshot.state
    parts = (
        state.name,
        state.next_step,
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
