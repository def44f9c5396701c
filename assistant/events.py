"""What happened, in the past tense. The journal is a sequence of these, and nothing else is state.

Every event carries ``at_s``, the time of the clock in seconds since 1970-01-01 UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.objective import Objective
from assistant.run import Outcome, Source
from assistant.sla import Sla
from strategies import Configuration, Level, ParameterSpace, Suggestion


@dataclass(frozen=True, slots=True)
class Fact:
    """One line that a reader of the report should know about an application."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ExperimentOpened:
    """The first event of every journal: all that the experiment depends on."""

    at_s: float
    experiment_id: str
    name: str
    application: str
    facts: tuple[Fact, ...]
    space: ParameterSpace
    objective: Objective
    sla: Sla
    strategy: str
    options: Mapping[str, Level]
    seed: int
    baseline: Configuration | None
    version: str


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
class ExperimentFinished:
    """The analyst is satisfied, or the budget or the space is used up."""

    at_s: float
    reason: str


Event = (
    ExperimentOpened
    | BatchSuggested
    | RunSubmitted
    | RunStarted
    | RunReturned
    | RunCompleted
    | RunFailed
    | ExperimentFinished
)
