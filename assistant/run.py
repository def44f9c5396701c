"""A run: one execution of the application with a configuration and a seed.

Its state follows from which facts are known and is never stored beside them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from assistant.objective import Measure
from strategies import Configuration

Source = Literal["baseline", "initial", "suggested", "edited", "analyst", "imported", "replicate"]
"""Who wanted the run: today's configuration, the first jobs, the strategy, the person who changed
a suggestion, the person alone, a result from before, which costs nothing of the budget, or whoever
wanted a configuration that has a run already to run again."""


class RunState(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


LONGEST_S = 3.2e13
"""A million years: no clock has measured more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a completed run gave: raw measures, and what the objective made of them.

    ``second_value`` and ``second`` are by the second measure, None without one.
    """

    measures: Mapping[str, Measure]
    value: float
    quality: float
    feasible: bool
    violation: float
    second_value: float | None = None
    second: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run, as far as it has come. ``good`` is the analyst's verdict, None if she gave none.

    ``attempts`` says how often it was started: once, and again after each interruption; ``lost``
    how many of its workers were not heard of any more.
    ``priority`` and ``held`` say when it may start, ``cancelled`` why it shall not (any more).
    ``worker`` and ``token`` are of the attempt that goes on or was the last; both are empty where
    the session's own process executes. ``reported`` is what it has measured so far, and
    ``reported_s`` when it said so.
    ``stopped`` is None unless the analyst ended it early and kept what it had reported: then her
    reason, which may be empty.
    ``duration_s`` is None as well where what was told is no duration; see `measured_s`.
    """

    id: int
    configuration: Configuration
    source: Source
    seed: int
    reason: str
    batch: int | None
    submitted_s: float
    started_s: float | None = None
    ended_s: float | None = None
    duration_s: float | None = None
    outcome: Outcome | None = None
    failure: str | None = None
    good: bool | None = None
    attempts: int = 0
    lost: int = 0
    priority: float = 0.0
    held: bool = False
    cancelled: str | None = None
    worker: str = ""
    token: str = ""
    reported: Mapping[str, Measure] | None = None
    reported_s: float | None = None
    stopped: str | None = None

    @property
    def state(self) -> RunState:
        """Queued, running, completed, failed or cancelled, derived from the facts."""
        if self.cancelled is not None:
            return RunState.CANCELLED
        if self.outcome is not None:
            return RunState.COMPLETED
        if self.failure is not None:
            return RunState.FAILED
        return RunState.QUEUED if self.started_s is None else RunState.RUNNING

    @property
    def is_charged(self) -> bool:
        """Whether it counts against the budget: not a result from before, nor one never started."""
        never_ran = self.state is RunState.CANCELLED and self.attempts == 0
        return self.source != "imported" and not never_ran


def measured_s(seconds: float | None) -> float | None:
    """Return a duration, None where what is told cannot be one: below 0, no number, without end.

    >>> measured_s(2.5), measured_s(-1.0), measured_s(float("inf"))
    (2.5, None, None)
    """
    return seconds if seconds is not None and 0.0 <= seconds <= LONGEST_S else None
