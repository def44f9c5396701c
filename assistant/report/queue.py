"""The queue as people read it: what goes on, what waits, and why each stands where it does.

A list that can be acted on is a snapshot: it stays as it was shown until it is renewed, and says
how much has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from assistant.experiment import Experiment
from assistant.forecast.ends import QueueEnds, queue_ends
from assistant.forecasts import Interval
from assistant.report.outlook import clock
from assistant.report.words import duration
from assistant.run import Run, RunState

NAMED = 8
"""Runs of a list that are named one by one; of more the rest is counted."""

SOON_S = 60.0
"""What ends within so many seconds is told by how long it takes, not by the time of day."""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """A queue as it stood at one moment.

    Args:
        at_s: that moment, seconds since 1970-01-01 UTC.
        n_events: of the journal then.
        version: of the experiment then; see `Experiment`.
        running: what goes on, oldest first.
        waiting: what waits, the next one in front; held runs come last, oldest first.
        ends: when they end.
    """

    at_s: float
    n_events: int
    version: int
    running: tuple[Run, ...]
    waiting: tuple[Run, ...]
    ends: QueueEnds

    @classmethod
    def of(cls, experiment: Experiment, now_s: float) -> QueueSnapshot:
        """Return the queue as it stands now."""
        held = tuple(run for run in experiment.runs_in(RunState.QUEUED) if run.held)
        return cls(
            at_s=now_s,
            n_events=experiment.n_events,
            version=experiment.version,
            running=experiment.runs_in(RunState.RUNNING),
            waiting=(*experiment.waiting, *held),
            ends=queue_ends(experiment, now_s),
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing goes on and nothing waits."""
        return not self.running and not self.waiting

    def changes(self, experiment: Experiment) -> int:
        """Return how many runs came, went, or stand otherwise in the queue since."""
        then = {run.id: _standing(run) for run in (*self.running, *self.waiting)}
        live = experiment.runs_in(RunState.RUNNING, RunState.QUEUED)
        now = {run.id: _standing(run) for run in live}
        return sum(then.get(run_id) != now.get(run_id) for run_id in {*then, *now})

    def place(self, run: Run) -> str:
        """Return why a waiting run stands where it does."""
        parts = []
        if run.held:
            parts.append("held until it is released")
        else:
            turn = "next, " if run.id == self.waiting[0].id else ""
            how = f"by its priority {run.priority:g}" if run.priority else "as submitted"
            parts.append(f"{turn}{how}")
        if run.lost:
            parts.append(f"lost {run.lost} worker{'' if run.lost == 1 else 's'}, waits again")
        elif run.attempts:
            parts.append("was interrupted, waits again")
        return "; ".join(parts)

    def end_of(self, run: Run) -> str:
        """Return when a run that goes on will end, with where 8 of 10 futures lie."""
        found = self.ends.going.get(run.id)
        return "unknown" if found is None else when(found, self.at_s)


def when(found: Interval, now_s: float) -> str:
    """Return when something ends: the middle of the futures, then what 8 of 10 lie within.

    >>> when(Interval(20.3, 31.4, 45.0), 0.0)
    'in 31 s (20 s to 45 s)'
    >>> when(Interval(600.0, 1200.0, None), 0.0)
    'about 00:20 UTC (in 10 min 00 s or later)'
    """
    if found.median is None or found.low is None:
        return "unknown"
    soon = found.median < SOON_S
    middle = f"in {_about(found.median)}" if soon else f"about {clock(now_s + found.median, now_s)}"
    if found.high is None:
        return f"{middle} (in {_about(found.low)} or later)"
    if found.high < 0.1:
        return middle
    low, high = _about(found.low), _about(found.high)
    return f"{middle} ({low} to {high})" if soon else f"{middle} (in {low} to {high})"


def _about(seconds: float) -> str:
    """Return a duration that is not known to more than two digits."""
    return duration(float(f"{seconds:.2g}") if seconds < SOON_S else seconds)


def named(run_ids: tuple[int, ...]) -> str:
    """Name runs.

    >>> named((4,)), named((4, 7, 12)), named(tuple(range(1, 12)))
    ('run 4', 'runs 4, 7 and 12', 'runs 1, 2, 3, 4, 5, 6, 7, 8 and 3 more')
    """
    if len(run_ids) == 1:
        return f"run {run_ids[0]}"
    if len(run_ids) > NAMED + 1:
        first = ", ".join(map(str, run_ids[:NAMED]))
        return f"runs {first} and {len(run_ids) - NAMED:,} more"
    return f"runs {', '.join(map(str, run_ids[:-1]))} and {run_ids[-1]}"


def _standing(run: Run) -> tuple[RunState, float, bool, int]:
    return run.state, run.priority, run.held, run.attempts
