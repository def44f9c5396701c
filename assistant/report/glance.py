"""An experiment at a glance: one line of a list of many, made once for each state of a journal."""

from dataclasses import dataclass
from typing import Literal

from assistant.experiment import Experiment
from assistant.report.words import duration, lasting
from assistant.run import RunState

State = Literal["new", "running", "waiting", "ready", "used up", "finished"]

_RECENT = 15
"""Runs of which the mean duration stands for those to come."""


@dataclass(frozen=True, slots=True)
class Glance:
    """What a list says of an experiment.

    Args:
        id: of the experiment.
        name: for people.
        opened_s: when it was opened, seconds since 1970-01-01 UTC.
        state: where it stands, by its journal alone: whether a process executes it is not there.
        state_words: the same for people.
        objective: what is wanted.
        best: value of the best configuration; None before the first result.
        unit: of it.
        gain: how it compares with today's configuration, in words; empty without a today.
            ``meets all constraints`` where today's does not.
        done: runs of the budget that are over.
        budget: runs in all; None without a limit.
        failed: runs that failed.
        deadline_s: until when, seconds since 1970-01-01 UTC; None without one.
        left_s: seconds that the rest of the budget takes at the pace of the last runs; None if it
            cannot be said, or nothing is left.
        warning: the warning that waits for an answer; empty without one.
        run_s: mean duration of the last runs, in seconds; None before the first one.
    """

    id: str
    name: str
    opened_s: float
    state: State
    state_words: str
    objective: str
    best: float | None
    unit: str
    gain: str
    done: int
    budget: int | None
    failed: int
    deadline_s: float | None
    left_s: float | None
    warning: str
    run_s: float | None

    @property
    def share(self) -> float | None:
        """Share of the budget that is used, 0 to 1; None without a limit of runs."""
        return None if self.budget is None else min(1.0, self.done / max(self.budget, 1))

    def time_left(self, now_s: float) -> str:
        """Say how much time is left: until the deadline, else by the pace of the last runs."""
        if self.state == "finished":
            return ""
        if self.deadline_s is not None:
            left_s = self.deadline_s - now_s
            return "the deadline is over" if left_s <= 0 else f"{duration(left_s)} to the deadline"
        return "" if self.left_s is None else f"{lasting(self.left_s)} of runs"


def glance(experiment: Experiment) -> Glance:
    """Return what a list says of an experiment; no forecast is made for it."""
    opened, sla = experiment.opened, experiment.sla
    over = experiment.runs_in(RunState.COMPLETED, RunState.FAILED)
    executed = [run for run in over if run.source != "imported"]
    lasted = [run.duration_s for run in executed[-_RECENT:] if run.duration_s is not None]
    run_s = sum(lasted) / len(lasted) if lasted else None
    state, words = _state(experiment)
    leader = None if experiment.best is None else experiment.standing(experiment.best)
    advice = experiment.open_advice
    to_come = None
    if sla.max_runs is not None and experiment.finished is None:
        to_come = max(0, sla.max_runs - len(executed))
    return Glance(
        id=opened.experiment_id,
        name=opened.name,
        opened_s=opened.at_s,
        state=state,
        state_words=words,
        objective=str(opened.objective),
        best=None if leader is None else leader.outcome.value,
        unit=opened.objective.unit,
        gain=gain_words(experiment),
        done=len(executed),
        budget=sla.max_runs,
        failed=sum(run.state is RunState.FAILED for run in over),
        deadline_s=sla.deadline_s,
        left_s=-(-to_come // opened.workers) * run_s if to_come and run_s is not None else None,
        warning="" if advice is None or experiment.finished is not None else advice.text,
        run_s=run_s,
    )


def gain_words(experiment: Experiment) -> str:
    """Say in a few words how the best configuration compares with today's."""
    best = None if experiment.best is None else experiment.standing(experiment.best)
    today = None if experiment.baseline is None else experiment.standing(experiment.baseline)
    if best is not None and not best.outcome.feasible:
        return "violates a constraint"
    if best is None or today is None:
        return ""
    if best.configuration == today.configuration:
        return "as today"
    old = today.outcome
    if not old.feasible or not old.quality:
        return "" if old.feasible else "meets all constraints"
    share = (best.outcome.quality - old.quality) / abs(old.quality)
    return f"{abs(share) * 100:.1f} % {'better' if share >= 0 else 'worse'}"


def _state(experiment: Experiment) -> tuple[State, str]:
    running = len(experiment.runs_in(RunState.RUNNING))
    waiting = len(experiment.runs_in(RunState.QUEUED))
    if experiment.finished is not None:
        return "finished", "finished"
    if running:
        return "running", f"running, {running} under way"
    if waiting:
        return "waiting", f"{waiting} run{'' if waiting == 1 else 's'} waiting"
    if not experiment.runs:
        return "new", "nothing run yet"
    if experiment.remaining_runs == 0:
        return "used up", "budget used up"
    return "ready", "ready for suggestions"
