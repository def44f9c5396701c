"""Events: the entries of an experiment's event log, named in the past tense.

The event log is the only state. ``at_s`` of an event is its time in seconds since 1970-01-01 UTC.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assistant.core.forecast import Forecast, PaperForecast, WarningCheck
from assistant.core.objective import Measure, Objective
from assistant.core.run import Outcome, Source
from assistant.core.sla import AutoSteering, Sla, Steering, WarningPolicy
from strategies import Configuration, Level, ParameterSpace, Suggestion


@dataclass(frozen=True, slots=True)
class Fact:
    """One line about an application that a reader of the report should know."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ExperimentOpened:
    """First event of every log: the experiment was opened, with all that it depends on.

    ``recipe`` is the sweep file as JSON, from which a command line can build the application
    again; empty if it was opened from Python. ``deterministic`` is None if that is unknown.
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
    watch: WarningPolicy
    workers: int
    seed: int
    baseline: Configuration | None
    version: str
    recipe: str = ""
    deterministic: bool | None = None


@dataclass(frozen=True, slots=True)
class BatchSuggested:
    """A batch was suggested; ``exhausted`` says that no allowed configuration is left."""

    at_s: float
    number: int
    suggestions: tuple[Suggestion, ...]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    """A run was submitted for execution."""

    at_s: float
    run_id: int
    configuration: Configuration
    source: Source
    seed: int
    reason: str
    batch: int | None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run was started by a worker; without one both ``worker`` and ``token`` are empty."""

    at_s: float
    run_id: int
    worker: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class RunReturned:
    """A run waits again; ``lost`` is true if its worker stopped responding."""

    at_s: float
    run_id: int
    reason: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RunPrioritised:
    """A run got another priority: higher ones start first; the default is 0."""

    at_s: float
    run_id: int
    priority: float


@dataclass(frozen=True, slots=True)
class RunHeld:
    """A run was put on hold; it does not start until it is released."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunReleased:
    """A held run was released and may start again."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunCancelled:
    """A run was cancelled: it shall not run, or its result is not needed any more."""

    at_s: float
    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunReported:
    """A running program sent an intermediate result."""

    at_s: float
    run_id: int
    measures: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class ResultRefused:
    """A result came after its worker had lost the lease; it is stored, and changes nothing."""

    at_s: float
    run_id: int
    worker: str
    token: str
    why: str
    measures: Mapping[str, Measure] | None


@dataclass(frozen=True, slots=True)
class RunCompleted:
    """A run ended with measures."""

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float


@dataclass(frozen=True, slots=True)
class RunStopped:
    """The analyst ended a run early; its last intermediate result counts as its result."""

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunFailed:
    """A run ended without measures; ``failure`` is the reason."""

    at_s: float
    run_id: int
    failure: str
    duration_s: float | None


AlternativeKind = Literal[
    "exploitation", "strategy", "close", "more_runs", "later", "dearer", "easier"
]
"""Kinds of alternatives: the exploitation level, the strategy, hopeless levels; or, in the SLA,
more runs, a later deadline, a higher cost limit, an easier goal."""

COSTLESS: tuple[AlternativeKind, ...] = ("exploitation", "strategy", "close")
"""Kinds that leave the SLA as it is: auto-steering may accept them."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One proposed change, with the forecast under it; None means unchanged.

    Args:
        text: the change in words, such as "run 20 more, 80 in all".
        chance: probability of reaching the goal after the change; None if unknown.
        steering: new strategy or exploitation level.
        sla: new SLA.
        close: levels to close, as (parameter, level).
    """

    kind: AlternativeKind
    text: str
    chance: float | None = None
    steering: Steering | None = None
    sla: Sla | None = None
    close: tuple[tuple[str, Level], ...] = ()


@dataclass(frozen=True, slots=True)
class MissWarning:
    """A warning that the goal or budget will be missed, with the alternatives.

    Args:
        forecast: forecast by the paper's rule at that moment.
        exploitation: exploitation level that accepting it sets; None leaves it as it is.
        suggestions: suggestions that replace the batch it came with.
        outlook: the whole forecast at that moment; None in old event logs.
        alternatives: proposed changes, the best chance first.
    """

    number: int
    forecast: PaperForecast
    exploitation: float | None
    suggestions: tuple[Suggestion, ...]
    text: str
    basis: Literal["paper", "forecast"] = "paper"
    outlook: Forecast | None = None
    alternatives: tuple[Alternative, ...] = ()

    @property
    def unattended(self) -> tuple["Answer", int | None]:
        """The answer of unattended auto-steering: the first alternative that keeps the SLA."""
        if self.basis == "paper":
            return "accepted", None
        for position, alternative in enumerate(self.alternatives):
            if alternative.kind in COSTLESS:
                return "accepted", position
        return "ignored", None


Answer = Literal["accepted", "changed", "ignored"]


@dataclass(frozen=True, slots=True)
class ForecastChecked:
    """The forecast was checked for a warning; the sequence of checks decides when one is due."""

    at_s: float
    check: WarningCheck


@dataclass(frozen=True, slots=True)
class WarningIssued:
    """A warning was issued with a batch."""

    at_s: float
    advice: MissWarning


@dataclass(frozen=True, slots=True)
class WarningAnswered:
    """A warning was answered; ``alternative`` is the position of the accepted one, if named."""

    at_s: float
    number: int
    answer: Answer
    exploitation: float | None
    alternative: int | None = None


@dataclass(frozen=True, slots=True)
class SteeringChanged:
    """The strategy, its options or the exploitation level were changed."""

    at_s: float
    steering: Steering


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """The SLA was changed."""

    at_s: float
    sla: Sla


@dataclass(frozen=True, slots=True)
class WarningPolicyChanged:
    """The warning policy was changed: how regions and pending runs are counted."""

    at_s: float
    watch: WarningPolicy


@dataclass(frozen=True, slots=True)
class SpaceChanged:
    """Levels were closed, reopened or added, or combinations excluded; ``text`` names them."""

    at_s: float
    space: ParameterSpace
    text: str


@dataclass(frozen=True, slots=True)
class RunRated:
    """The analyst rated a result good or bad, or withdrew the rating (None)."""

    at_s: float
    run_id: int
    good: bool | None


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """The analyst submitted a range of values as a plan (section 2.2); empty withdraws it."""

    at_s: float
    levels: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoSteeringChanged:
    """Auto-steering was started, or (None) ended; ``reason`` says why."""

    at_s: float
    automatic: AutoSteering | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentFinished:
    """The experiment was finished: the analyst is satisfied, or budget or space are used up."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ExperimentReopened:
    """A finished experiment was reopened, for example with a larger budget."""

    at_s: float


RunEvent = (
    RunSubmitted
    | RunStarted
    | RunReturned
    | RunPrioritised
    | RunHeld
    | RunReleased
    | RunCancelled
    | RunReported
    | ResultRefused
    | RunCompleted
    | RunStopped
    | RunFailed
    | RunRated
)

WorkerEvent = RunStarted | RunReturned | RunReported | ResultRefused | RunCompleted | RunFailed
"""Events of a run that no person decides."""

Event = (
    RunEvent
    | ExperimentOpened
    | BatchSuggested
    | ForecastChecked
    | WarningIssued
    | WarningAnswered
    | SteeringChanged
    | BudgetChanged
    | WarningPolicyChanged
    | SpaceChanged
    | PlanSubmitted
    | AutoSteeringChanged
    | ExperimentFinished
    | ExperimentReopened
)


def has_external_client(opened: ExperimentOpened) -> bool:
    """Return whether an external client of the experiment asks for its runs over HTTP."""
    return (
        opened.application == "rest"
        and bool(opened.recipe)
        and is_external_application(_of(opened.recipe))
    )


def is_external_application(application: Any) -> bool:
    """Return whether the table ``[application]`` describes an external client."""
    return (
        isinstance(application, dict)
        and application.get("kind") == "rest"
        and application.get("url") is None
    )


def _of(recipe: str) -> Any:
    return json.loads(recipe).get("application")
