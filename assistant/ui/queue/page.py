"""Queue: what goes on, what waits and why in that order; first, later, held, cancelled.

The tables are a snapshot: they stay as they were drawn while runs start and end, so that a row that
was pointed at is the run that is meant. Every action names runs, is refused if one of them stands
otherwise by now, and is done to all of them or to none.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from assistant import AssistantError, Experiment, Run, RunState
from assistant.queueing import HIGHEST
from assistant.report.going_on import age_words, reported_words
from assistant.report.queue import QueueSnapshot, named, when
from assistant.report.words import duration, level
from assistant.ui import words
from assistant.ui.bar import still_words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, answer_at
from assistant.ui.queue import moves
from assistant.ui.queue.moves import Reordered

EVERY_S = 2.0
TALL = 420
"""Pixels of a table of many rows; it scrolls then."""

_ROW = 35
_REPORTS = 12
"""Reports that are shown, a line each."""


@dataclass(frozen=True, slots=True)
class _Keys:
    """Where the state of an experiment's queue is kept; tables by what the snapshot had seen."""

    experiment_id: str

    @property
    def snapshot(self) -> str:
        return f"queue-{self.experiment_id}"

    @property
    def asked(self) -> str:
        return f"queue-cancel-{self.experiment_id}"

    @property
    def undo(self) -> str:
        return f"queue-undo-{self.experiment_id}"

    def table(self, name: str, shown: QueueSnapshot) -> str:
        return f"queue-{name}-{self.experiment_id}-{shown.n_events}"


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants done with the queue."""
    st.subheader("Queue")
    answer_at("queue")
    keys = _Keys(desk.session.id)
    shown = _snapshot(desk, experiment, keys)
    _state(desk)
    _since(desk, shown, keys)
    intent = _undo(desk, keys)
    if shown.is_empty and experiment.finished is not None:
        st.caption("Nothing waits and nothing runs.")
        return intent
    if shown.is_empty:
        st.info(
            "Nothing waits and nothing runs. Take some suggestions on *Suggestions*, or add runs "
            "of your own there.",
            icon=":material/inbox:",
        )
        return intent
    with st.container():
        intent = _running(desk, experiment, shown, keys) or intent
    with st.container():
        return _waiting(desk, experiment, shown, keys) or intent


def _snapshot(desk: Desk, experiment: Experiment, keys: _Keys) -> QueueSnapshot:
    """Return what is shown: as it was first drawn, until it is renewed or the page was left."""
    shown: QueueSnapshot | None = st.session_state.get(keys.snapshot)
    if shown is not None and not shown.is_empty:
        tables = (keys.table(name, shown) for name in ("running", "waiting"))
        if any(table in st.session_state for table in tables):
            return shown
    fresh = QueueSnapshot.of(experiment, desk.session.now_s())
    st.session_state[keys.snapshot] = fresh
    return fresh


@st.fragment(run_every=EVERY_S)
def _state(desk: Desk) -> None:
    """Say why nothing starts, if that is so: of now, while the list stays as it was."""
    experiment, passed = desk.session.experiment, desk.session.passed_limit()
    queued = experiment.runs_in(RunState.QUEUED)
    if experiment.finished is not None:  # the bar above says so, and why
        if queued:
            st.info("What still waits does not start any more.", icon=":material/flag:")
    elif queued and passed is not None:
        st.warning(
            f"Nothing more starts: {passed}. Agree on more in *Steering* to go on.",
            icon=":material/block:",
        )
    elif queued and all(run.held for run in queued):
        st.info(
            "Every run that waits is held: release those that shall start.",
            icon=":material/pause_circle:",
        )
    elif queued and not experiment.runs_in(RunState.RUNNING):
        st.info(still_words(desk.seen.execution), icon=":material/hourglass_empty:")


@st.fragment(run_every=EVERY_S)
def _since(desk: Desk, shown: QueueSnapshot, keys: _Keys) -> None:
    """Draw of when the list is and how much has changed since, anew every few seconds."""
    try:
        desk.session.catch_up()
    except AssistantError as error:
        st.warning(f"It is not known what has changed: {words.plain(str(error))}.")
        return
    n = shown.changes(desk.session.experiment)
    with st.container(horizontal=True, vertical_alignment="center"):
        at = pd.Timestamp(shown.at_s, unit="s")
        if n == 0:
            st.caption(f"As of {at:%H:%M:%S} UTC. Nothing has changed in it since.")
            return
        changes = "1 change" if n == 1 else f"{n:,} changes"
        st.caption(f"As of {at:%H:%M:%S} UTC. **{changes} since**: the list stays as it is.")
        if st.button("Refresh the list", icon=":material/refresh:", key="queue-refresh"):
            st.session_state.pop(keys.snapshot, None)
            st.rerun()


def _undo(desk: Desk, keys: _Keys) -> Intent | None:
    """Draw the way back from the last change of the order, for some minutes."""
    kept: Reordered | None = st.session_state.get(keys.undo)
    if kept is None or not kept.can_be_undone(desk.session.now_s()):
        return None
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Undo", icon=":material/undo:", key="queue-undo")
        st.caption("The last change of the order can be undone for some minutes.")
    if not pressed:
        return None

    def do() -> str:
        told = moves.undo(desk.session, kept)
        st.session_state.pop(keys.undo, None)
        st.session_state.pop(keys.snapshot, None)
        return told

    return Intent("queue", do, "Putting them back")


def _running(
    desk: Desk, experiment: Experiment, shown: QueueSnapshot, keys: _Keys
) -> Intent | None:
    st.markdown(f"**Running: {words.runs(len(shown.running))}**")
    if not shown.running:
        st.caption("Nothing runs.")
        return None
    rows = [
        {
            "run": run.id,
            "runs for": duration(max(0.0, shown.at_s - (run.started_s or shown.at_s))),
            "ends (8 of 10)": shown.end_of(run),
            "worker": run.worker or "this computer",
            "attempt": run.attempts,
            **_levels(experiment, run),
            "from": words.SOURCES[run.source],
            "why": run.reason,
        }
        for run in shown.running
    ]
    chosen = _table(rows, shown.running, keys.table("running", shown), "what runs")
    if not shown.ends.going:
        st.caption("When they end is unknown: no run has told yet how long it took.")
    _reported(desk)
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Cancel {_counted(chosen, 'running')}" if chosen else "Cancel"
        asked = st.button(label, key="queue-cancel-running", disabled=not chosen)
        ended = st.button(
            "Stop and keep", key="queue-stop-running", disabled=not chosen,
            help="They end now, and what they have reported last counts as their result.",
        )  # fmt: skip
    if ended and chosen:

        def do() -> str:
            told = moves.stop(desk.session, chosen, "")
            st.session_state.pop(keys.snapshot, None)
            return told

        return Intent("queue", do, "Stopping")
    return _cancelling(desk, keys, "running", chosen, asked)


@st.fragment(run_every=EVERY_S)
def _reported(desk: Desk) -> None:
    """Draw what runs that go on have measured so far, as it comes; nothing if none has said."""
    experiment, now_s = desk.session.experiment, desk.session.now_s()
    objective = experiment.opened.objective
    told = [run for run in experiment.runs_in(RunState.RUNNING) if run.reported is not None]
    for run in told[:_REPORTS]:
        said = words.plain(f"{reported_words(run, objective)} ({age_words(run, now_s)})")
        st.caption(f"Run {run.id} has reported {said}.")
    if len(told) > _REPORTS:
        st.caption(f"{words.runs(len(told) - _REPORTS).capitalize()} more have reported.")


def _waiting(
    desk: Desk, experiment: Experiment, shown: QueueSnapshot, keys: _Keys
) -> Intent | None:
    st.markdown(f"**Waiting: {words.runs(len(shown.waiting))}**")
    if not shown.waiting:
        st.caption("Nothing waits. What is submitted on *Suggestions* comes here.")
        return None
    rows = [
        {
            "place": place,
            "run": run.id,
            "why here": shown.place(run),
            **_levels(experiment, run),
            "from": words.SOURCES[run.source],
            "why": run.reason,
        }
        for place, run in enumerate(shown.waiting, 1)
    ]
    chosen = _table(rows, shown.waiting, keys.table("waiting", shown), "what waits, in its order")
    if shown.ends.over is not None:
        st.caption(f"All that runs or waits here is over {when(shown.ends.over, shown.at_s)}.")
    if chosen:
        st.markdown(f"Chosen: {named(_ids(chosen))}.")
    else:
        st.caption(
            "Choose runs by the box at the left of their rows, or with Shift and Space on a row; "
            "then say what to do."
        )
    return _actions(desk, keys, chosen)


def _actions(desk: Desk, keys: _Keys, chosen: tuple[Run, ...]) -> Intent | None:
    none = not chosen
    key = keys.experiment_id
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.button("Run first", key="queue-first", disabled=none)
        later = st.button("Run later", key="queue-later", disabled=none)
        hold = st.button("Hold", key="queue-hold", disabled=none)
        release = st.button("Release", key="queue-release", disabled=none)
        label = f"Cancel {_counted(chosen, 'waiting')}" if chosen else "Cancel"
        cancel = st.button(label, key="queue-cancel-waiting", disabled=none)
        priority = st.number_input(
            "Priority",
            value=1.0,
            step=1.0,
            format="%g",
            key=f"queue-priority-{key}",
            width=160,
            persist_state="session",
            help=f"A higher one starts earlier. Runs begin with 0; {HIGHEST:,.0f} is the highest.",
        )
        put = st.button("Set priority", key="queue-put", disabled=none)
    session = desk.session
    if first or later:
        move_there = moves.first if first else moves.later

        def move() -> str:
            return _reordered(keys, lambda: move_there(session, chosen))

        return Intent("queue", move, "Changing the order")
    if put:
        return Intent(
            "queue",
            lambda: _reordered(keys, lambda: moves.prioritise(session, chosen, float(priority))),
            "Changing the order",
        )
    if hold or release:
        change = moves.hold if hold else moves.release

        def held() -> str:
            told = change(session, chosen)
            st.session_state.pop(keys.snapshot, None)
            return told

        return Intent("queue", held)
    return _cancelling(desk, keys, "waiting", chosen, cancel)


def _reordered(keys: _Keys, move: Callable[[], Reordered]) -> str:
    """Change the order, keep the way back and show the new order."""
    kept = move()
    if kept.before:
        st.session_state[keys.undo] = kept
    st.session_state.pop(keys.snapshot, None)
    return kept.told


def _cancelling(
    desk: Desk, keys: _Keys, which: str, chosen: tuple[Run, ...], asked: bool
) -> Intent | None:
    """Draw the question before runs are given up; it is dropped when others are chosen."""
    if asked:
        st.session_state[keys.asked] = (which, _ids(chosen))
    if not chosen or st.session_state.get(keys.asked) != (which, _ids(chosen)):
        return None
    n, begun = len(chosen), sum(run.attempts > 0 for run in chosen)
    lost = "A run that has not begun costs nothing."
    if begun:
        lost += f" What {words.runs(begun)} did so far is lost, and counts against the budget."
    with st.container(border=True):
        st.warning(f"Cancel {named(_ids(chosen))}? {lost}", icon=":material/cancel:")
        reason = st.text_input("Why (kept with the runs)", key=f"queue-why-{keys.experiment_id}")
        with st.container(horizontal=True):
            sure = st.button(
                f"Yes, cancel {words.runs(n)}", type="primary", key=f"queue-sure-{which}"
            )
            if st.button("Keep them", key=f"queue-keep-{which}"):
                st.session_state.pop(keys.asked, None)
                st.rerun()
    if not sure:
        return None

    def do() -> str:
        st.session_state.pop(keys.asked, None)
        told = moves.cancel(desk.session, chosen, reason.strip())
        st.session_state.pop(keys.snapshot, None)
        return told

    return Intent("queue", do, "Cancelling")


def _table(
    rows: list[dict[str, object]], runs: tuple[Run, ...], key: str, alt: str
) -> tuple[Run, ...]:
    """Draw a frozen table. Returns the runs whose rows are chosen, as they were shown."""
    event = st.dataframe(
        pd.DataFrame(rows),
        hide_index=True,
        width="stretch",
        height=TALL if _ROW * (len(rows) + 1) > TALL else "auto",
        on_select="rerun",
        selection_mode="multi-row",
        column_config={
            "why here": st.column_config.TextColumn("why here", width="medium"),
            "why": st.column_config.TextColumn("why", width="large"),
        },
        key=key,
        alt=alt,
    )
    at = sorted(event["selection"]["rows"])
    return tuple(runs[i] for i in at if i < len(runs))


def _levels(experiment: Experiment, run: Run) -> dict[str, str]:
    values = experiment.space.values(run.configuration)
    return {words.column(p): level(values[p.name]) for p in experiment.space.parameters}


def _ids(runs: tuple[Run, ...]) -> tuple[int, ...]:
    return tuple(run.id for run in runs)


def _counted(chosen: tuple[Run, ...], which: str) -> str:
    n = len(chosen)
    return f"1 {which} run" if n == 1 else f"{n:,} {which} runs"
