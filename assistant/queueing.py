"""What a person may decide about runs that wait or go on. Pure."""

from __future__ import annotations

import math

from assistant.errors import ExperimentError, ImpossibleValueError
from assistant.events import RunCancelled, RunHeld, RunPrioritised, RunReleased
from assistant.experiment import Experiment
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


def _waiting(experiment: Experiment, run_id: int, wanted: str) -> Run:
    run = experiment.run(run_id)
    if run.state is not RunState.QUEUED:
        raise ExperimentError(f"run {run_id} is {run.state}; only a waiting run can {wanted}")
    return run
