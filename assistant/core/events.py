"""What happened, in the past tense. The journal is a sequence of these, and nothing else is state.

Every event carries ``at_s``, the time of the clock in seconds since 1970-01-01 UTC.

Experiments whose program asks for its runs itself: only it can make them. Pure.
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
    watch: WarningPolicy
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
    """A worker took it. ``token`` is the worker's right to say how it ended; see `queueing`.

    Both are empty where the session's own process executes.
    """

    at_s: float
    run_id: int
    worker: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class RunReturned:
    """It waits again: its worker was interrupted, gave it back, or was not heard of any more.

    ``lost`` says that it was the last of these: the run itself may be what killed the worker.
    """

    at_s: float
    run_id: int
    reason: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RunPrioritised:
    """It starts before waiting runs of a lower priority; 0 is what every run begins with."""

    at_s: float
    run_id: int
    priority: float


@dataclass(frozen=True, slots=True)
class RunHeld:
    """It waits, and does not start until it is released."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunReleased:
    """It may start again."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunCancelled:
    """It shall not run, or its result is not wanted any more."""

    at_s: float
    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunReported:
    """What a run that goes on has measured so far."""

    at_s: float
    run_id: int
    measures: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class ResultRefused:
    """A result came too late: its worker had lost the run. It is kept, and changes nothing."""

    at_s: float
    run_id: int
    worker: str
    token: str
    why: str
    measures: Mapping[str, Measure] | None


@dataclass(frozen=True, slots=True)
class RunCompleted:
    """The run gave measures."""

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float


@dataclass(frozen=True, slots=True)
class RunStopped:
    """The analyst ended it early, and what it had reported last counts as its result.

    ``duration_s`` is how long it went on, by the clock of the journal; ``reason`` her own words.
    """

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run gave none; the sentence says why."""

    at_s: float
    run_id: int
    failure: str
    duration_s: float | None


AlternativeKind = Literal[
    "exploitation", "strategy", "close", "more_runs", "later", "dearer", "easier"
]
"""What might be changed: the share inside regions, the strategy, hopeless levels, the runs, the
deadline, the limit of cost, the goal."""

COSTLESS: tuple[AlternativeKind, ...] = ("exploitation", "strategy", "close")
"""Changes that leave the agreement as it is: an unattended sweep may accept them."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """One change that is proposed, with the forecast under it. None is: stays as it is.

    Args:
        kind: what is changed.
        text: the change in words, such as "run 20 more, 80 in all".
        chance: probability that the goal is reached then; None if unknown.
        steering: another strategy or exploitation level.
        sla: another agreement.
        close: levels to close, by parameter.
    """

    kind: AlternativeKind
    text: str
    chance: float | None = None
    steering: Steering | None = None
    sla: Sla | None = None
    close: tuple[tuple[str, Level], ...] = ()


@dataclass(frozen=True, slots=True)
class MissWarning:
    """A warning with what to do instead: the words, the numbers, and the changes proposed.

    Args:
        number: of the advice, from 1.
        forecast: the paper's rule at that moment.
        exploitation: share inside regions that accepting it sets; None leaves it as it is.
        suggestions: proposed instead of the batch that it came with.
        text: the warning in words.
        basis: what gave the warning: the paper's rule or the calibrated forecast.
        outlook: the whole forecast at that moment; None in journals from before there was one.
        alternatives: the changes proposed, the best chance first.
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
        """What a sweep that accepts warnings by itself answers, and which alternative it takes.

        The first one that leaves the agreement as it is: more runs, time or money, or an easier
        goal, are not its to agree on.
        """
        if self.basis == "paper":
            return "accepted", None
        for position, alternative in enumerate(self.alternatives):
            if alternative.kind in COSTLESS:
                return "accepted", position
        return "ignored", None


Answer = Literal["accepted", "changed", "ignored"]


@dataclass(frozen=True, slots=True)
class ForecastChecked:
    """The forecast was looked at for a warning: what it said then decides when one is due."""

    at_s: float
    check: WarningCheck


@dataclass(frozen=True, slots=True)
class WarningIssued:
    """The suggestions came with a warning."""

    at_s: float
    advice: MissWarning


@dataclass(frozen=True, slots=True)
class WarningAnswered:
    """What the analyst did about it; ``exploitation`` is what holds from then on.

    ``alternative`` is the position of the alternative that was accepted, None if none was named.
    """

    at_s: float
    number: int
    answer: Answer
    exploitation: float | None
    alternative: int | None = None


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
class WarningPolicyChanged:
    """Regions or pending runs are counted in another way from now on."""

    at_s: float
    watch: WarningPolicy


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
class AutoSteeringChanged:
    """From now on it steers itself, or (None) a person decides again; ``reason`` says why."""

    at_s: float
    automatic: AutoSteering | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentFinished:
    """The analyst is satisfied, or the budget or the space is used up."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ExperimentReopened:
    """A finished experiment goes on, with another budget for example."""

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
"""What happens to a single run."""

WorkerEvent = RunStarted | RunReturned | RunReported | ResultRefused | RunCompleted | RunFailed
"""What happens to a run without anybody deciding it."""

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
    """Return whether the program of an experiment asks for its runs itself."""
    return (
        opened.application == "rest"
        and bool(opened.recipe)
        and is_external_application(_of(opened.recipe))
    )


def is_external_application(application: Any) -> bool:
    """Return whether the table ``[application]`` is of a program that asks for its runs itself."""
    return (
        isinstance(application, dict)
        and application.get("kind") == "rest"
        and application.get("url") is None
    )


def _of(recipe: str) -> Any:
    return json.loads(recipe).get("application")
