"""Auto-steering: next step of a sweep without a person (100 % confidence in the Copper paper).

The step follows from the state alone, so that a sweep can be interrupted and continued anywhere.
Agents and the service call `auto_steer_step` whenever no run waits or is running.
Source: Silva et al., section 4.2 (confidence), figure 3 (the loop).
"""

from collections.abc import Callable

from assistant.analysis.broken_program import broken_program, runs_to_repeat
from assistant.analysis.recommendation import (
    confirmed_last,
    confirming_round,
    goal_to_confirm,
    is_confirmation_due,
    is_exhausted,
    reached_goal,
    search_room,
)
from assistant.core.errors import AssistantError, VersionConflictError
from assistant.core.events import MissWarning
from assistant.core.experiment import Experiment
from assistant.core.ports import Executor
from assistant.core.run import Run
from assistant.core.sla import AutoSteering
from assistant.session.session import Session


def will_suggest(experiment: Experiment) -> bool:
    """Return whether auto-steering goes on without a person, once no run waits or is running."""
    how = experiment.auto_steering
    if how is None or experiment.finished is not None:
        return False
    return how.warnings != "wait" or experiment.open_warning is None


def auto_steer_step(
    session: Session,
    how: AutoSteering,
    max_runs: int | None = None,
    on_warning: Callable[[MissWarning], None] | None = None,
) -> str | None:
    """Submit the next runs and return None, or return the reason why no run was submitted.

    The baseline comes first, then the initial runs, then batches. The sweep ends at a limit of the
    SLA or at ``max_runs``, and at the goal unless the SLA continues there. If results vary, the run
    that reached the goal is repeated twice before, and the last runs of a budget repeat the best.
    It also ends if the program cannot run (`broken_program`); reopened, it repeats the failed runs.
    ``on_warning`` is called with each warning before its answer.
    """
    limits = SubmissionLimits(session, max_runs)
    passed = session.passed_limit()
    if passed is not None:
        return passed
    broken = broken_program(session.experiment)
    if broken is not None:
        return broken
    if _repeat_failed(session, limits):
        return None
    if session.experiment.baseline is None and limits.room(1) and session.submit_baseline():
        return None
    experiment = session.experiment
    if experiment.sla.at_goal != "go_on" and experiment.goal_run is not None:
        return _confirm_goal(session, limits)
    if not experiment.batches and (n := limits.room(how.initial)):
        session.initial_evaluation(n)
    return _search(session, how, limits, on_warning)


def _repeat_failed(session: Session, limits: "SubmissionLimits") -> bool:
    """Submit the runs that failed before the program was repaired; return whether any."""
    failed = runs_to_repeat(session.experiment)
    failed = failed[: limits.room(len(failed))]
    for run in failed:
        session.replicate(run.id, reason=f"repeat of run {run.id}, which failed before the repair")
    return bool(failed)


def _confirm_goal(session: Session, limits: "SubmissionLimits") -> str | None:
    """Repeat the run that reached the goal where results vary; else return the reason to end."""
    doubted = goal_to_confirm(session.experiment)
    if doubted is None or limits.left == 0:
        return reached_goal(session.experiment)
    session.replicate(doubted.id, reason=f"repeat of run {doubted.id}, which reached the goal")
    return None


def _search(
    session: Session,
    how: AutoSteering,
    limits: "SubmissionLimits",
    on_warning: Callable[[MissWarning], None] | None,
) -> str | None:
    while True:
        waiting = _answer(session, how, on_warning)
        if waiting is not None:
            return waiting
        if _take_open_batch(session, limits):
            return None
        n = limits.room(how.batch or session.batch_size)
        try:
            proposals = session.suggest(n).suggestions if n else ()
        except VersionConflictError:  # somebody steered in between: suggest again
            continue
        if proposals:
            continue
        if is_confirmation_due(session.experiment, limits.limit, limits.left):
            session.confirm(confirming_round(limits.left or 1))
            continue
        exhausted = n > 0 or (bool(limits.left) and is_exhausted(session.experiment))
        return _ended(session.experiment, exhausted=exhausted)


def auto_steer(
    session: Session,
    executor: Executor,
    how: AutoSteering,
    *,
    max_runs: int | None = None,
    on_change: Callable[[Run], None] | None = None,
    on_warning: Callable[[MissWarning], None] | None = None,
) -> str:
    """Run the baseline and all suggestions until the sweep ends, and return the reason.

    ``on_change`` is called with each run that started or ended; the rest is as in
    `auto_steer_step`. Raises AssistantError: nothing limits the sweep.
    """
    if max_runs is None and not session.experiment.sla.is_limited:
        raise AssistantError(
            "a sweep without a budget of runs, a deadline or a cost limit would not end by "
            "itself; give one (runs, deadline, cost)"
        )
    may_start = not session.is_over_limit()
    has_room = SubmissionLimits(session, max_runs).room(1)
    if may_start and has_room and session.experiment.baseline is None:
        session.submit_baseline()
    while True:
        session.run_queued(executor, on_change, lambda: not may_start_runs(session))
        ended = auto_steer_step(session, how, max_runs, on_warning)
        if ended is not None:
            return ended


def may_start_runs(session: Session) -> bool:
    """Return whether a waiting run may start: no limit is passed, and the program can run."""
    return not session.is_over_limit() and broken_program(session.experiment) is None


class SubmissionLimits:
    """Limits on the number of runs that auto-steering may still submit."""

    def __init__(self, session: Session, max_runs: int | None) -> None:
        self._session, self._max_runs = session, max_runs

    @property
    def limit(self) -> int | None:
        """Largest total number of runs, from the SLA and ``max_runs``; None without a limit."""
        limits = (self._session.experiment.sla.max_runs, self._max_runs)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def left(self) -> int | None:
        """Number of runs that may still be submitted; None without a limit."""
        limit = self.limit
        return None if limit is None else max(0, limit - self._session.experiment.n_charged)

    def room(self, n_requested: int) -> int:
        """Return how many of ``n_requested`` new configurations may be submitted."""
        room = search_room(self._session.experiment, self.limit, self.left)
        return n_requested if room is None else min(n_requested, room)


def _answer(
    session: Session, how: AutoSteering, on_warning: Callable[[MissWarning], None] | None
) -> str | None:
    """Answer the open warning; return a reason to stop if a person must answer."""
    warning = session.experiment.open_warning
    if warning is None:
        return None
    if on_warning is not None:
        on_warning(warning)
    if how.warnings == "wait":
        return f"warning {warning.number} waits for an answer"
    answer, which = warning.unattended if how.warnings == "accept" else ("ignored", None)
    session.answer_warning(answer, alternative=which)
    return None


def _take_open_batch(session: Session, limits: SubmissionLimits) -> bool:
    """Submit the allowed part of the open batch; return whether any run was submitted."""
    batch = session.experiment.open_batch
    if batch is None:
        return False
    free = session.experiment.free_in(batch)
    is_confirming = any(suggestion.kind == "confirmation" for suggestion in batch.suggestions)
    room = limits.left if is_confirming else limits.room(len(free))
    return bool(session.submit(batch, keep=free[:room]))


def _ended(experiment: Experiment, *, exhausted: bool) -> str:
    n = confirmed_last(experiment)
    runs = "run" if n == 1 else f"{n} runs"
    last = f"; the last {runs} repeated the best" if n else ""
    if not exhausted:
        return f"the budget of {experiment.n_charged} runs is used up{last}"
    n_tried, _ = experiment.tried
    confirmed = f", and the winner was confirmed in the last {runs}" if n else ""
    return f"the space is exhausted: all {n_tried} allowed configurations have been run{confirmed}"
