"""What events make of a run. Pure: the rules of a run's life stand here once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from assistant.errors import ExperimentError
from assistant.events import (
    ResultRefused,
    RunCancelled,
    RunCompleted,
    RunEvent,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunRated,
    RunReleased,
    RunReported,
    RunReturned,
    RunStarted,
    RunStopped,
    RunSubmitted,
)
from assistant.run import Run, RunState, measured_s

QUEUED, RUNNING = RunState.QUEUED, RunState.RUNNING


def after(runs: Mapping[int, Run], event: RunEvent) -> Run:  # noqa: PLR0911, PLR0912 - a case each
    """Return the run of an event as it is after it.

    Raises:
        ExperimentError: there is no such run, or it is in another state than the event needs.
    """
    if isinstance(event, RunSubmitted):
        return _submitted(runs, event)
    run = find(runs, event.run_id)
    match event:
        case RunStarted(at_s=at_s, worker=worker, token=token):
            return replace(
                _in(run, QUEUED), started_s=at_s, attempts=run.attempts + 1, worker=worker,
                token=token, reported=None, reported_s=None,
            )  # fmt: skip
        case RunReturned(lost=lost):
            return replace(_in(run, RUNNING), started_s=None, lost=run.lost + lost)
        case RunPrioritised(priority=priority):
            return replace(_in(run, QUEUED), priority=priority)
        case RunHeld():
            return replace(_in(run, QUEUED), held=True)
        case RunReleased():
            return replace(_in(run, QUEUED), held=False)
        case RunCancelled(at_s=at_s, reason=reason):
            return replace(_in(run, QUEUED, RUNNING), ended_s=at_s, cancelled=reason)
        case RunReported(at_s=at_s, measures=measures):
            return replace(_in(run, RUNNING), reported=measures, reported_s=at_s)
        case ResultRefused():
            return run
        case RunCompleted(at_s=at_s, outcome=outcome, duration_s=told_s):
            known_s = measured_s(told_s)
            return replace(_in(run, RUNNING), ended_s=at_s, outcome=outcome, duration_s=known_s)
        case RunStopped(at_s=at_s, outcome=outcome, duration_s=told_s, reason=reason):
            known_s = measured_s(told_s)
            return replace(
                _in(run, RUNNING), ended_s=at_s, outcome=outcome, duration_s=known_s, stopped=reason
            )
        case RunFailed(at_s=at_s, failure=failure, duration_s=told_s):
            known_s = measured_s(told_s)
            return replace(_in(run, RUNNING), ended_s=at_s, failure=failure, duration_s=known_s)
        case RunRated(good=good):
            return replace(_in(run, RunState.COMPLETED), good=good)


def waiting(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that may start, the next one in front: by priority, then as submitted."""
    ready = (run for run in runs if run.state is QUEUED and not run.held)
    return sorted(ready, key=lambda run: (-run.priority, run.id))


def find(runs: Mapping[int, Run], run_id: int) -> Run:
    """Return one run. Raises ExperimentError if there is none of that number."""
    if run_id in runs:
        return runs[run_id]
    raise ExperimentError(
        f"there is no run {run_id}; runs are numbered 1 to {len(runs)}"
        if runs
        else f"there is no run {run_id}; none has been submitted"
    )


def _submitted(runs: Mapping[int, Run], event: RunSubmitted) -> Run:
    if event.run_id != len(runs) + 1:
        raise ExperimentError(f"run {event.run_id} cannot follow run {len(runs)}")
    return Run(
        id=event.run_id,
        configuration=event.configuration,
        source=event.source,
        seed=event.seed,
        reason=event.reason,
        batch=event.batch,
        submitted_s=event.at_s,
    )


def _in(run: Run, *states: RunState) -> Run:
    if run.state not in states:
        wanted = " or ".join(states)
        raise ExperimentError(f"run {run.id} is {run.state}, not {wanted}")
    return run
