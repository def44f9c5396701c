"""What happened, in the past tense. The journal is a sequence of these, and nothing else is state.

Every event carries ``at_s``, the time of the clock in seconds since 1970-01-01 UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from assistant.objective import Objective
from assistant.run import Outcome, Source
from assistant.sla import Sla, Steering, Watch
from strategies import Configuration, Level, ParameterSpace, Suggestion


@dataclass(frozen=True, slots=True)
class Fact:
    """One line that a reader of the report should know about an application."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ExperimentOpened:
    """The first event of every journal: all that the experiment depends on.

    ``recipe`` is the sweep file, as JSON, from which a command line can build the application
    again; empty if it was opened from Python. ``deterministic`` says whether the same configuration
    gives the same result whatever the seed; None if that is unknown.
    """

    at_s: float
    experiment_id: str
    name: str
    application: str
    facts: tuple[Fact, ...]
    space: ParameterSpace
    objective: Objective
    sla: Sla
    steering: Steering
    watch: Watch
    workers: int
    seed: int
    baseline: Configuration | None
    version: str
    recipe: str = ""
    deterministic: bool | None = None


@dataclass(frozen=True, slots=True)
class BatchSuggested:
    """A numbered list of proposals; ``exhausted`` says that no allowed configuration is left."""

    at_s: float
    number: int
    suggestions: tuple[Suggestion, ...]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    """Somebody decided that this run shall be executed."""

    at_s: float
    run_id: int
    configuration: Configuration
    source: Source
    seed: int
    reason: str
    batch: int | None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The executor took the run."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunReturned:
    """The run was interrupted before its end and waits again."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunCompleted:
    """The run gave measures."""

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run gave none; the sentence says why."""

    at_s: float
    run_id: int
    failure: str
    duration_s: float


@dataclass(frozen=True, slots=True)
class RegionCount:
    """One region in a forecast: good members, evaluated runs, and what is pending in it.

    ``best`` and ``mean`` are qualities as measured. ``pending`` is None where it cannot be counted.
    """

    id: int
    members: int
    evaluated: int
    pending: int | None
    mean: float
    best: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the paper's rule says about the budget (section 3.2). Unknown is None.

    Args:
        at_s: when it was made.
        basis: what was counted as pending.
        executed: runs that were started, not counting imported results.
        remaining: runs that can still be executed, the tighter of runs and deadline.
        remaining_by_runs: by the maximum number of runs.
        remaining_by_deadline: by the deadline, at the mean duration so far.
        pending: runs that the ongoing strategy would need.
        shortfall: pending less remaining; positive means that the agreement will be missed.
        regions: the regions of interest, best mean quality first.
        mean_duration_s: of the runs that are over.
        predicted_end_s: when the pending runs would be over, one after another on all workers.
    """

    at_s: float
    basis: str
    executed: int
    remaining: int | None
    remaining_by_runs: int | None
    remaining_by_deadline: int | None
    pending: int | None
    shortfall: int | None
    regions: tuple[RegionCount, ...]
    mean_duration_s: float | None
    predicted_end_s: float | None

    @property
    def is_miss(self) -> bool | None:
        """Whether the agreement will be missed; None if that is unknown."""
        return None if self.shortfall is None else self.shortfall > 0


@dataclass(frozen=True, slots=True)
class Advice:
    """A warning with what to do instead: the words, the numbers, and the change proposed."""

    number: int
    forecast: Forecast
    exploitation: float
    suggestions: tuple[Suggestion, ...]
    text: str


Answer = Literal["accepted", "changed", "ignored"]


@dataclass(frozen=True, slots=True)
class AdviceGiven:
    """The suggestions came with a warning."""

    at_s: float
    advice: Advice


@dataclass(frozen=True, slots=True)
class AdviceAnswered:
    """What the analyst did about it; ``exploitation`` is what holds from then on."""

    at_s: float
    number: int
    answer: Answer
    exploitation: float | None


@dataclass(frozen=True, slots=True)
class SteeringChanged:
    """Another strategy, other options, or another exploitation level from now on."""

    at_s: float
    steering: Steering


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """Another agreement from now on."""

    at_s: float
    sla: Sla


@dataclass(frozen=True, slots=True)
class WatchChanged:
    """Regions or pending runs are counted in another way from now on."""

    at_s: float
    watch: Watch


@dataclass(frozen=True, slots=True)
class SpaceChanged:
    """Levels were closed, reopened or added, or combinations forbidden; ``text`` says which."""

    at_s: float
    space: ParameterSpace
    text: str


@dataclass(frozen=True, slots=True)
class RunRated:
    """The analyst called a result good or bad, or took that back (None)."""

    at_s: float
    run_id: int
    good: bool | None


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """A range of values as the analyst's pending strategy (section 2.2); empty takes it back."""

    at_s: float
    levels: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExperimentFinished:
    """The analyst is satisfied, or the budget or the space is used up."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ExperimentReopened:
    """A finished experiment goes on, with another budget for example."""

    at_s: float


Event = (
    ExperimentOpened
    | BatchSuggested
    | RunSubmitted
    | RunStarted
    | RunReturned
    | RunCompleted
    | RunFailed
    | AdviceGiven
    | AdviceAnswered
    | SteeringChanged
    | BudgetChanged
    | WatchChanged
    | SpaceChanged
    | RunRated
    | PlanSubmitted
    | ExperimentFinished
    | ExperimentReopened
)
