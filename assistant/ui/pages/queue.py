"""The *Queue* page: running runs, waiting runs in order, failed runs, and actions on several.

An action applies to all selected runs or to none, although a session decides about one run at a
time. So an action first checks that every run is as shown, and it is taken back if a later run is
refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from assistant.core.bounds import PRIORITY
from assistant.core.commands import (
    StopRun,
    changes_since,
    priorities_ahead,
    priorities_behind,
)
from assistant.core.errors import AssistantError, ExperimentError
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.presentation.tables.queue import (
    QueueSnapshot,
    age_words,
    end_text,
    reported_words,
    run_names,
)
from assistant.presentation.text.number_format import duration, level_words
from assistant.ui import labels
from assistant.ui.intents import Intent, answer_at
from assistant.ui.state import ExperimentView, SteerableSession

UNDO_S = 600.0  # Seconds in which a change of the order can be undone

Change = Callable[[Run], None]


@dataclass(frozen=True, slots=True)
class QueueReordering:
    """Completed change of the queue order, with priorities by run before and after."""

    at_s: float
    before: Mapping[int, float]
    after: Mapping[int, float]
    message: str

    def can_be_undone(self, now_s: float) -> bool:
        """Return whether the change is recent enough to be undone."""
        return bool(self.before) and now_s - self.at_s < UNDO_S


def move_first(session: SteerableSession, runs: Sequence[Run]) -> QueueReordering:
    """Move runs before all other waiting runs, preserving the order of the moved runs.

    Raises ExperimentError if a run has changed since it was shown; nothing is changed then.
    """
    return _move(
        session, runs, priorities_ahead(_check_current(session, runs), _run_ids(runs)), "first"
    )


def move_last(session: SteerableSession, runs: Sequence[Run]) -> QueueReordering:
    """Move runs after all other waiting runs; raise the same errors as `move_first`."""
    return _move(
        session, runs, priorities_behind(_check_current(session, runs), _run_ids(runs)), "last"
    )


def _move(
    session: SteerableSession, runs: Sequence[Run], priorities: Mapping[int, float], where: str
) -> QueueReordering:
    start = f"{_run_names(_run_ids(runs))} {'starts' if len(runs) == 1 else 'start'} {where}"
    if not priorities:
        return QueueReordering(session.now_s(), {}, {}, f"{start} already.")
    return _reprioritise(session, runs, priorities, f"{start} now.")


def prioritise_runs(
    session: SteerableSession, runs: Sequence[Run], priority: float
) -> QueueReordering:
    """Set the priority of waiting runs; raise the same errors as `move_first`."""
    _check_current(session, runs)
    ids = _run_ids(runs)
    priorities = {run.id: priority for run in runs if run.priority != priority}
    verb = "has" if len(ids) == 1 else "have"
    if not priorities:
        message = f"{_run_names(ids)} {verb} the priority {priority:g} already."
        return QueueReordering(session.now_s(), {}, {}, message)
    return _reprioritise(
        session, runs, priorities, f"{_run_names(ids)} {verb} the priority {priority:g}."
    )


def undo_move(session: SteerableSession, change: QueueReordering) -> str:
    """Restore the old priorities of runs that still wait, or raise ExperimentError if none do."""
    session.catch_up()
    now = {run_id: session.experiment.run(run_id) for run_id in change.before}
    same = tuple(
        run
        for run_id, run in now.items()
        if run.state is RunState.QUEUED and run.priority == change.after[run_id]
    )
    skipped = tuple(sorted(set(now) - set(_run_ids(same))))
    if not same:
        raise ExperimentError(
            f"nothing is left to undo: {run_names(skipped)} started, ended or "
            "were moved again since"
        )
    _reprioritise(session, same, {run.id: change.before[run.id] for run in same}, "")
    message = (
        f"{_run_names(_run_ids(same))} {'has its' if len(same) == 1 else 'have their'} "
        "old place again."
    )
    if skipped:
        message += f" Unchanged: {run_names(skipped)} (started, ended or moved again since)."
    return message


def hold_runs(session: SteerableSession, runs: Sequence[Run]) -> str:
    """Hold waiting runs until they are released; raise the same errors as `move_first`."""
    free = [run for run in runs if not run.held]
    _all_or_none(session, runs, free, lambda r: session.hold(r.id), lambda r: session.release(r.id))
    return f"{_run_names(_run_ids(runs))} {'is' if len(runs) == 1 else 'are'} held until released."


def release_runs(session: SteerableSession, runs: Sequence[Run]) -> str:
    """Release held runs so that they may start; raise the same errors as `move_first`."""
    held_runs = [run for run in runs if run.held]
    _all_or_none(
        session, runs, held_runs, lambda r: session.release(r.id), lambda r: session.hold(r.id)
    )
    return f"{_run_names(_run_ids(runs))} may start."


def cancel_runs(session: SteerableSession, runs: Sequence[Run], reason: str) -> str:
    """Cancel runs and record a reason; raise the same errors as `move_first`.

    If a run ends during the action, the error names the runs that were cancelled before it.
    """
    _all_or_none(session, runs, runs, lambda run: session.cancel(run.id, reason), None)
    return f"{_run_names(_run_ids(runs))} {'was' if len(runs) == 1 else 'were'} cancelled."


def stop_runs(session: SteerableSession, runs: Sequence[Run], reason: str) -> str:
    """Stop runs and keep their last intermediate results; raise the errors of `move_first`.

    Nothing is stopped if one of the runs has no result to keep.
    """
    experiment = _check_current(session, runs)
    for run in runs:
        StopRun(run.id, reason=reason).decide(experiment, session.now_s())
    _all_or_none(session, runs, runs, lambda run: session.stop(run.id, reason), None)
    if len(runs) == 1:
        return f"{_run_names(_run_ids(runs))} was stopped; its last intermediate result counts."
    return f"{_run_names(_run_ids(runs))} were stopped; their last intermediate results count."


def _reprioritise(
    session: SteerableSession, listed: Sequence[Run], priorities: Mapping[int, float], message: str
) -> QueueReordering:
    runs = [run for run in listed if run.id in priorities]
    before = {run.id: run.priority for run in runs}
    _all_or_none(
        session,
        listed,
        runs,
        lambda run: session.reprioritise(run.id, priorities[run.id]),
        lambda run: session.reprioritise(run.id, before[run.id]),
    )
    return QueueReordering(session.now_s(), before, dict(priorities), message)


def _check_current(session: SteerableSession, runs: Sequence[Run]) -> Experiment:
    """Return the current state; raise ExperimentError if a run has changed since it was shown."""
    session.catch_up()
    became = changes_since(runs, session.experiment)
    if became:
        raise ExperimentError(
            f"nothing was changed: {_joined(became)} since this list was shown; refresh it and "
            "choose again"
        )
    return session.experiment


def _all_or_none(
    session: SteerableSession,
    listed: Sequence[Run],
    runs: Sequence[Run],
    change: Change,
    back: Change | None,
) -> None:
    _check_current(session, listed)
    done: list[Run] = []
    for run in runs:
        try:
            change(run)
        except AssistantError as error:
            stay = _not_taken_back(done, back)
            left = (
                f"{run_names(_run_ids(stay))} had been changed before that"
                if stay
                else "nothing was changed"
            )
            raise ExperimentError(f"{str(error).removesuffix('.')}; {left}") from error
        done.append(run)


def _not_taken_back(done: Sequence[Run], back: Change | None) -> list[Run]:
    """Undo decisions, last one first; return the runs for which that failed."""
    if back is None:
        return list(done)
    stay = []
    for run in reversed(done):
        try:
            back(run)
        except AssistantError:
            stay.append(run)
    return stay[::-1]


def _joined(parts: Sequence[str]) -> str:
    first_parts = parts[:3]
    more = [f"{len(parts) - len(first_parts)} more"] if len(parts) > len(first_parts) else []
    *most, last = (*first_parts, *more)
    return f"{', '.join(most)} and {last}" if most else last


def _run_names(ids: tuple[int, ...]) -> str:
    text = run_names(ids)
    return text[0].upper() + text[1:]


def _run_ids(runs: Sequence[Run]) -> tuple[int, ...]:
    return tuple(run.id for run in runs)


EVERY_S = 2.0
TALL = 420

_ROW = 35
_REPORTS = 12


@dataclass(frozen=True, slots=True)
class _QueueKeys:
    """Keys of an experiment's queue in the session state; tables by version of the snapshot."""

    experiment_id: str

    @property
    def snapshot(self) -> str:
        return f"queue-{self.experiment_id}"

    @property
    def confirmation(self) -> str:
        return f"queue-cancel-{self.experiment_id}"

    @property
    def undo(self) -> str:
        return f"queue-undo-{self.experiment_id}"

    def table(self, name: str, snapshot: QueueSnapshot) -> str:
        return f"queue-{name}-{self.experiment_id}-{snapshot.n_events}"


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the queue page and return the user's request to change the queue, or None."""
    st.subheader("Queue")
    answer_at("queue")
    keys = _QueueKeys(view_model.session.id)
    snapshot = _snapshot(view_model, experiment, keys)
    _since(view_model, snapshot, keys)
    intent = _undo(view_model, keys)
    if snapshot.is_empty and experiment.finished is not None:
        st.caption("No runs are waiting or running.")
    elif snapshot.is_empty:
        next_runs = (
            "Take some suggestions on *Suggestions*, or add your own runs there."
            if experiment.auto_steering is None
            else "Auto-steering submits the next ones; you can add your own on *Suggestions*."
        )
        st.info(f"No runs are waiting or running. {next_runs}", icon=":material/inbox:")
    else:
        with st.container():
            intent = _running(view_model, experiment, snapshot, keys) or intent
        with st.container():
            intent = _waiting(view_model, experiment, snapshot, keys) or intent
    with st.container():
        return _failed(view_model, experiment, keys) or intent


def _snapshot(
    view_model: ExperimentView, experiment: Experiment, keys: _QueueKeys
) -> QueueSnapshot:
    """Return the queue as first drawn, until it is renewed or the page is left."""
    snapshot: QueueSnapshot | None = st.session_state.get(keys.snapshot)
    if snapshot is not None and not snapshot.is_empty:
        tables = (keys.table(name, snapshot) for name in ("running", "waiting"))
        if any(table in st.session_state for table in tables):
            return snapshot
    now_s, is_running = view_model.session.now_s(), view_model.snapshot.state.is_running
    fresh = QueueSnapshot.of(experiment, now_s, is_running=is_running)
    st.session_state[keys.snapshot] = fresh
    return fresh


@st.fragment(run_every=EVERY_S)
def _since(view_model: ExperimentView, snapshot: QueueSnapshot, keys: _QueueKeys) -> None:
    """Draw the age of the list and the number of changes since, every few seconds."""
    try:
        view_model.session.catch_up()
    except AssistantError as error:
        st.warning(f"Changes cannot be read: {labels.escape_markdown(str(error))}.")
        return
    n = snapshot.changes(view_model.session.experiment)
    with st.container(horizontal=True, vertical_alignment="center"):
        at = pd.Timestamp(snapshot.at_s, unit="s")
        if n == 0:
            st.caption(f"As of {at:%H:%M:%S} UTC. No changes since.")
            return
        changes = "1 change" if n == 1 else f"{n:,} changes"
        st.caption(f"As of {at:%H:%M:%S} UTC. **{changes} since**: refresh the list to see them.")
        if st.button("Refresh the list", icon=":material/refresh:", key="queue-refresh"):
            st.session_state.pop(keys.snapshot, None)
            st.rerun()


def _undo(view_model: ExperimentView, keys: _QueueKeys) -> Intent | None:
    """Draw the button that undoes the last change of the order, for some minutes."""
    reordering: QueueReordering | None = st.session_state.get(keys.undo)
    if reordering is None or not reordering.can_be_undone(view_model.session.now_s()):
        return None
    with st.container(horizontal=True, vertical_alignment="center"):
        pressed = st.button("Undo", icon=":material/undo:", key="queue-undo")
        st.caption("You can undo the last change of the order for some minutes.")
    if not pressed:
        return None

    def do() -> str:
        message = undo_move(view_model.session, reordering)
        st.session_state.pop(keys.undo, None)
        st.session_state.pop(keys.snapshot, None)
        return message

    return Intent("queue", do, "Restoring the order")


def _running(
    view_model: ExperimentView, experiment: Experiment, snapshot: QueueSnapshot, keys: _QueueKeys
) -> Intent | None:
    if not snapshot.running:
        st.caption("No run is running.")
        return None
    st.markdown(f"**Running: {labels.runs(len(snapshot.running))}**")
    rows = [
        {
            "run": run.id,
            "runs for": duration(max(0.0, snapshot.at_s - (run.started_s or snapshot.at_s))),
            "ends (8 of 10)": snapshot.end_of(run),
            "worker": run.worker or "this computer",
            "attempt": run.attempts,
            **_levels(experiment, run),
            "from": labels.SOURCES[run.source],
            "why": run.reason,
        }
        for run in snapshot.running
    ]
    selected = _table(rows, snapshot.running, keys.table("running", snapshot), "running runs")
    if not snapshot.ends.going:
        st.caption("The ends are unknown: no run has recorded its duration yet.")
    _report_lines(view_model)
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Cancel {_count_words(selected, 'running')}" if selected else "Cancel"
        is_pressed = st.button(label, key="queue-cancel-running", disabled=not selected)
        ended = st.button(
            "Stop and keep", key="queue-stop-running", disabled=not selected,
            help="Stop the runs now. Their last intermediate results count as their results.",
        )  # fmt: skip
    if ended and selected:

        def do() -> str:
            message = stop_runs(view_model.session, selected, "")
            st.session_state.pop(keys.snapshot, None)
            return message

        return Intent("queue", do, "Stopping")
    return _cancel_confirmation(view_model, keys, "running", selected, is_pressed)


@st.fragment(run_every=EVERY_S)
def _report_lines(view_model: ExperimentView) -> None:
    experiment, now_s = view_model.session.experiment, view_model.session.now_s()
    objective = experiment.opened.objective
    reporting = [run for run in experiment.runs_in(RunState.RUNNING) if run.reported is not None]
    for run in reporting[:_REPORTS]:
        text = labels.escape_markdown(f"{reported_words(run, objective)} ({age_words(run, now_s)})")
        st.caption(f"Run {run.id}, intermediate result: {text}.")
    if len(reporting) > _REPORTS:
        st.caption(f"{labels.runs(len(reporting) - _REPORTS).capitalize()} more are not shown.")


def _waiting(
    view_model: ExperimentView, experiment: Experiment, snapshot: QueueSnapshot, keys: _QueueKeys
) -> Intent | None:
    st.markdown(f"**Waiting: {labels.runs(len(snapshot.waiting))}**")
    if not snapshot.waiting:
        st.caption("No runs are waiting. Runs that you submit on *Suggestions* appear here.")
        return None
    rows = [
        {
            "place": place,
            "run": run.id,
            "why here": snapshot.place(run),
            **_levels(experiment, run),
            "from": labels.SOURCES[run.source],
            "why": run.reason,
        }
        for place, run in enumerate(snapshot.waiting, 1)
    ]
    selected = _table(
        rows, snapshot.waiting, keys.table("waiting", snapshot), "waiting runs, in their order"
    )
    over = snapshot.ends.over
    age_s = view_model.session.now_s() - snapshot.at_s
    if over is not None and over.median is not None and age_s < over.median:
        st.caption(f"All running and waiting runs end {end_text(over, snapshot.at_s)}.")
    if selected:
        st.markdown(f"Selected: {run_names(_ids(selected))}.")
    else:
        st.caption(
            "Select runs by the box at the left of their rows, or with Shift and Space on a row; "
            "then choose an action."
        )
    return _actions(view_model, keys, selected)


def _failed(view_model: ExperimentView, experiment: Experiment, keys: _QueueKeys) -> Intent | None:
    """Draw the failed runs, and the buttons that run the selected ones, or all, again."""
    runs = tuple(reversed(experiment.runs_in(RunState.FAILED)))
    if not runs:
        return None
    st.markdown(f"**Failed: {labels.runs(len(runs))}**")
    later = later_runs(experiment, runs)
    rows: list[dict[str, object]] = [
        {
            "run": run.id,
            "why it failed": run.failure,
            "since then": later[run.id],
            **_levels(experiment, run),
            "ran for": "unknown" if run.duration_s is None else duration(run.duration_s),
        }
        for run in runs
    ]
    key = f"queue-failed-{keys.experiment_id}-{len(runs)}"
    selected = _table(rows, runs, key, "failed runs, the latest first")
    if experiment.finished is not None:
        st.caption("The experiment is finished; continue it on *Steering* to run them again.")
        return None
    fresh = tuple(run for run in runs if not later[run.id])
    room = experiment.remaining_runs
    st.caption(
        "After a repair of the program, run them again; each uses one run of the budget"
        + ("." if room is None else f", which leaves {labels.runs(room)}.")
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        some = st.button(
            f"Run {_count_words(selected, 'selected')} again" if selected else "Run again",
            icon=":material/replay:", key="queue-again", disabled=not selected,
        )  # fmt: skip
        every = len(fresh) > 0 and st.button(
            f"Run all {len(fresh)} again" if len(fresh) > 1 else "Run the failed one again",
            icon=":material/replay:", key="queue-again-all",
            help="All failed runs whose configuration has no later run.",
        )  # fmt: skip
    if not some and not every:
        return None
    again = selected if some else fresh

    def do() -> str:
        message = run_again(view_model.session, again)
        st.session_state.pop(keys.snapshot, None)
        return message

    return Intent("queue", do, "Submitting")


def later_runs(experiment: Experiment, runs: Sequence[Run]) -> Mapping[int, str]:
    """Return, by run, the latest later run of its configuration in words; empty without one."""
    latest = {
        run.configuration: run for run in experiment.runs if run.state is not RunState.CANCELLED
    }

    def words(run: Run) -> str:
        later = latest.get(run.configuration)
        if later is None or later.id <= run.id:
            return ""
        return f"run {later.id}: {labels.STATES[later.state]}"

    return {run.id: words(run) for run in runs}


def run_again(session: SteerableSession, runs: Sequence[Run]) -> str:
    """Submit each failed run again, once for each configuration, or none of them.

    Raises ExperimentError if the budget leaves too few runs, or if one may not run any more.
    """
    session.catch_up()
    first = {run.configuration: run for run in sorted(runs, key=lambda run: run.id)}
    room = session.experiment.remaining_runs
    if room is not None and room < len(first):
        raise ExperimentError(
            f"the budget leaves {labels.runs(room)}, and {len(first)} would run again; nothing was "
            "submitted: select fewer, or raise the budget on Steering"
        )
    for configuration in first:
        session.experiment.space.check(configuration)
    new = [
        submitted.id
        for run in first.values()
        for submitted in session.replicate(run.id, 1, f"run {run.id} again, which failed")
    ]
    return f"{_run_names(tuple(new))} {'waits' if len(new) == 1 else 'wait'} in the queue."


def _actions(
    view_model: ExperimentView, keys: _QueueKeys, selected: tuple[Run, ...]
) -> Intent | None:
    none = not selected
    key = keys.experiment_id
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.button("Run first", key="queue-first", disabled=none)
        later = st.button("Run later", key="queue-later", disabled=none)
        hold = st.button("Hold", key="queue-hold", disabled=none)
        release = st.button("Release", key="queue-release", disabled=none)
        label = f"Cancel {_count_words(selected, 'waiting')}" if selected else "Cancel"
        cancel = st.button(label, key="queue-cancel-waiting", disabled=none)
        priority = st.number_input(
            "Priority",
            value=1.0,
            step=1.0,
            format="%g",
            key=f"queue-priority-{key}",
            width=160,
            persist_state="session",
            help="Runs with a higher priority start earlier. The default is 0; "
            f"{PRIORITY.high:,.0f} is the highest.",
        )
        put = st.button("Set priority", key="queue-put", disabled=none)
    session = view_model.session
    if first or later:
        move_there = move_first if first else move_last

        def move() -> str:
            return _remember_undo(keys, lambda: move_there(session, selected))

        return Intent("queue", move, "Changing the order")
    if put:
        return Intent(
            "queue",
            lambda: _remember_undo(
                keys, lambda: prioritise_runs(session, selected, float(priority))
            ),
            "Changing the order",
        )
    if hold or release:
        change = hold_runs if hold else release_runs

        def apply_hold() -> str:
            message = change(session, selected)
            st.session_state.pop(keys.snapshot, None)
            return message

        return Intent("queue", apply_hold)
    return _cancel_confirmation(view_model, keys, "waiting", selected, cancel)


def _remember_undo(keys: _QueueKeys, move: Callable[[], QueueReordering]) -> str:
    reordering = move()
    if reordering.before:
        st.session_state[keys.undo] = reordering
    st.session_state.pop(keys.snapshot, None)
    return reordering.message


def _cancel_confirmation(
    view_model: ExperimentView,
    keys: _QueueKeys,
    which: str,
    selected: tuple[Run, ...],
    is_pressed: bool,
) -> Intent | None:
    """Draw the confirmation before runs are cancelled; another selection drops it."""
    if is_pressed:
        st.session_state[keys.confirmation] = (which, _ids(selected))
    if not selected or st.session_state.get(keys.confirmation) != (which, _ids(selected)):
        return None
    n, n_begun = len(selected), sum(run.attempts > 0 for run in selected)
    lost = "A run that has not started uses no budget."
    if n_begun:
        lost += f" The work of {labels.runs(n_begun)} is lost, and counts against the budget."
    with st.container(border=True):
        st.warning(f"Cancel {run_names(_ids(selected))}? {lost}", icon=":material/cancel:")
        reason = st.text_input("Why (kept with the runs)", key=f"queue-why-{keys.experiment_id}")
        with st.container(horizontal=True):
            sure = st.button(
                f"Yes, cancel {labels.runs(n)}", type="primary", key=f"queue-sure-{which}"
            )
            if st.button("Keep them", key=f"queue-keep-{which}"):
                st.session_state.pop(keys.confirmation, None)
                st.rerun()
    if not sure:
        return None

    def do() -> str:
        st.session_state.pop(keys.confirmation, None)
        message = cancel_runs(view_model.session, selected, reason.strip())
        st.session_state.pop(keys.snapshot, None)
        return message

    return Intent("queue", do, "Cancelling")


def _table(
    rows: list[dict[str, object]], runs: tuple[Run, ...], key: str, alt: str
) -> tuple[Run, ...]:
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
            "why it failed": st.column_config.TextColumn("why it failed", width="large"),
        },
        key=key,
        alt=alt,
    )
    at = sorted(event["selection"]["rows"])
    return tuple(runs[i] for i in at if i < len(runs))


def _levels(experiment: Experiment, run: Run) -> dict[str, str]:
    values = experiment.space.all_values(run.configuration)
    return {p.name: level_words(values[p.name], p.unit) for p in experiment.space.parameters}


def _ids(runs: tuple[Run, ...]) -> tuple[int, ...]:
    return tuple(run.id for run in runs)


def _count_words(selected: tuple[Run, ...], which: str) -> str:
    n = len(selected)
    return f"1 {which} run" if n == 1 else f"{n:,} {which} runs"
