"""What a person may decide about runs that wait or go on. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping

from assistant.decisions import judgement
from assistant.errors import ExperimentError, GoneOnError, ImpossibleValueError
from assistant.events import (
    RunCancelled,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunReleased,
    RunStopped,
)
from assistant.experiment import Experiment
from assistant.ports import Completion
from assistant.run import Run, RunState

HIGHEST = 1e6
"""Priorities lie between -HIGHEST and HIGHEST."""

OVER = (RunState.COMPLETED, RunState.FAILED)


def prioritising(
    experiment: Experiment, run_id: int, priority: float, now_s: float
) -> RunPrioritised:
    """Return another priority of a waiting run.

    Raises:
        ImpossibleValueError: a priority that no run can have.
        ExperimentError: the run does not wait.
    """
    if not math.isfinite(priority) or abs(priority) > HIGHEST:
        raise ImpossibleValueError(
            f"a priority is a number from {-HIGHEST:,.0f} to {HIGHEST:,.0f}, not {priority}"
        )
    _waiting(experiment, run_id, "be given another priority")
    return RunPrioritised(now_s, run_id, float(priority))


def first(experiment: Experiment, run_id: int, now_s: float) -> RunPrioritised:
    """Return a priority above those of all other waiting runs."""
    highest = max((one.priority for one in experiment.waiting if one.id != run_id), default=0.0)
    return prioritising(experiment, run_id, math.floor(highest) + 1.0, now_s)


def ahead(experiment: Experiment, run_ids: Collection[int]) -> Mapping[int, float]:
    """Return priorities by which some waiting runs start before all others that wait.

    Among themselves they keep their order. Empty if they come first already.

    Args:
        experiment: as far as it has come.
        run_ids: of waiting runs; held ones among them come first once they are released.

    Raises:
        ExperimentError: one of them is no run, or does not wait.
    """
    chosen, others = _parted(experiment, run_ids)
    if not others or max(map(_turn, chosen)) < min(map(_turn, others)):
        return {}
    front = math.floor(max(run.priority for run in others)) + 1.0
    ranks = sorted({run.priority for run in chosen})
    return {run.id: front + ranks.index(run.priority) for run in sorted(chosen, key=_turn)}


def behind(experiment: Experiment, run_ids: Collection[int]) -> Mapping[int, float]:
    """Return priorities by which some waiting runs start after all others; see `ahead`."""
    chosen, others = _parted(experiment, run_ids)
    if not others or min(map(_turn, chosen)) > max(map(_turn, others)):
        return {}
    end = math.ceil(min(run.priority for run in others)) - 1.0
    ranks = sorted({run.priority for run in chosen}, reverse=True)
    return {run.id: end - ranks.index(run.priority) for run in sorted(chosen, key=_turn)}


def _turn(run: Run) -> tuple[float, int]:
    return -run.priority, run.id


def _parted(experiment: Experiment, run_ids: Collection[int]) -> tuple[list[Run], list[Run]]:
    chosen = [_waiting(experiment, run_id, "be moved in the queue") for run_id in run_ids]
    if not chosen:
        raise ExperimentError("no run was named; name those that shall be moved in the queue")
    return chosen, [run for run in experiment.waiting if run.id not in run_ids]


def changes(shown: Iterable[Run], experiment: Experiment) -> tuple[str, ...]:
    """Say what became of runs since they were shown; empty if all stand in the queue as they did.

    What is decided about a run holds for the run that was looked at: whoever acts on an older
    state refuses with these.
    """
    told = ((run, experiment.run(run.id)) for run in shown)
    return tuple(f"run {now.id} {_became(then, now)}" for then, now in told if _became(then, now))


def _became(then: Run, now: Run) -> str:
    if now.state is not then.state:
        return _BECAME[now.state]
    if now.held is not then.held:
        return "was held" if now.held else "was released"
    return f"was given priority {now.priority:g}" if now.priority != then.priority else ""


_BECAME = {
    RunState.QUEUED: "waits again",
    RunState.RUNNING: "has started",
    RunState.COMPLETED: "has completed",
    RunState.FAILED: "has failed",
    RunState.CANCELLED: "was cancelled",
}


def holding(experiment: Experiment, run_id: int, now_s: float) -> RunHeld | None:
    """Return that a waiting run is held; None if it is already."""
    return None if _waiting(experiment, run_id, "be held").held else RunHeld(now_s, run_id)


def releasing(experiment: Experiment, run_id: int, now_s: float) -> RunReleased | None:
    """Return that a held run may start; None if it may already."""
    run = _waiting(experiment, run_id, "be released")
    return RunReleased(now_s, run_id) if run.held else None


def cancelling(
    experiment: Experiment, run_id: int, reason: str, now_s: float
) -> RunCancelled | None:
    """Return that a run is given up; None if it is. Raises ExperimentError if it is over."""
    run = experiment.run(run_id)
    if run.state is RunState.CANCELLED:
        return None
    if run.state in OVER:
        raise ExperimentError(f"run {run_id} has {run.state} already; it cannot be cancelled")
    return RunCancelled(now_s, run_id, reason or "the analyst cancelled it")


def stopping(experiment: Experiment, run_id: int, reason: str, now_s: float) -> RunStopped | None:
    """Return that a run ends now with what it has reported last; None if it was stopped so.

    Raises:
        ExperimentError: it does not go on, or what it has reported makes no result.
    """
    run = experiment.run(run_id)
    if run.stopped is not None:
        return None
    if run.state is not RunState.RUNNING or run.started_s is None:
        raise ExperimentError(
            f"run {run_id} is {run.state}; only a run that goes on can be stopped and kept"
        )
    if run.reported is None:
        raise ExperimentError(
            f"run {run_id} has reported nothing yet, so there is nothing to keep; cancel it, or "
            "wait for a report"
        )
    lasted_s = max(0.0, now_s - run.started_s)
    judged = judgement(experiment, Completion(run_id, run.reported, None, lasted_s), now_s)
    if isinstance(judged, RunFailed):
        raise ExperimentError(
            f"what run {run_id} has reported makes no result: {judged.failure}; cancel it, or let "
            "it go on"
        )
    return RunStopped(now_s, run_id, judged.outcome, lasted_s, reason)


def _waiting(experiment: Experiment, run_id: int, wanted: str) -> Run:
    run = experiment.run(run_id)
    if run.state is not RunState.QUEUED:
        raise ExperimentError(f"run {run_id} is {run.state}; only a waiting run can {wanted}")
    return run


def refuse_other_version(experiment: Experiment, version: int) -> None:
    """Raise GoneOnError if something has been decided since somebody looked."""
    if experiment.version != version:
        raise GoneOnError(
            f"experiment '{experiment.opened.experiment_id}' is at version {experiment.version}, "
            f"and this was decided for {version}; look at it again"
        )
