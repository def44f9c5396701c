"""Events: the entries of an experiment's event log, named in the past tense.

The event log is the only state. ``at_s`` of an event is its time in seconds since 1970-01-01 UTC.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from assistant.core.early_stopping import EarlyStopping, StopRule
from assistant.core.forecast import Forecast, PaperForecast, WarningCheck
from assistant.core.objective import Measure, Objective
from assistant.core.run import Outcome, Source
from assistant.core.sla import AutoSteering, Sla, Steering, WarningPolicy
from strategies import Configuration, EarlierSweep, Level, ParameterSpace, Suggestion


@dataclass(frozen=True, slots=True)
class Fact:
    """Labelled line of text about an application, shown in the report."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ExperimentOpened:
    """First event of every event log: the experiment was opened with its full definition.

    ``recipe`` has the settings tables of the sweep, from which any program can build the
    application again; empty if it was opened from Python. ``deterministic`` is None if that is
    unknown. ``earlier`` are results of earlier experiments that the search learns from.
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
    warning_policy: WarningPolicy
    workers: int
    seed: int
    baseline: Configuration | None
    version: str
    recipe: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool | None = None
    earlier: tuple[EarlierSweep, ...] = ()
    early_stopping: EarlyStopping | None = None


@dataclass(frozen=True, slots=True)
class BatchSuggested:
    """Event: a batch was suggested; ``exhausted`` means that no configuration was left."""

    at_s: float
    number: int
    suggestions: tuple[Suggestion, ...]
    exhausted: bool


@dataclass(frozen=True, slots=True)
class RunSubmitted:
    """Event: a run was submitted for execution.

    ``position`` is the place (from 0) of its suggestion in the batch; older logs do not have it.
    """

    at_s: float
    run_id: int
    configuration: Configuration
    source: Source
    seed: int
    reason: str
    batch: int | None
    position: int | None = None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Event: a run was started, with the worker's name and lease token if it was leased."""

    at_s: float
    run_id: int
    worker: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class RunReturned:
    """Event: a running run was put back in the queue; ``lost`` if its worker disappeared."""

    at_s: float
    run_id: int
    reason: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RunPrioritised:
    """Event: the priority of a waiting run was set (default 0, higher starts first)."""

    at_s: float
    run_id: int
    priority: float


@dataclass(frozen=True, slots=True)
class RunHeld:
    """Event: a run was put on hold, so that it does not start until it is released."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunReleased:
    """Event: a held run was released and may start again."""

    at_s: float
    run_id: int


@dataclass(frozen=True, slots=True)
class RunCancelled:
    """Event: a run was cancelled, and its result, if any, is not used."""

    at_s: float
    run_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class RunReported:
    """Event: a running program sent an intermediate result."""

    at_s: float
    run_id: int
    measures: Mapping[str, Measure]


@dataclass(frozen=True, slots=True)
class ResultRefused:
    """Event: a result from a worker without a valid lease was logged but not used."""

    at_s: float
    run_id: int
    worker: str
    token: str
    why: str
    measures: Mapping[str, Measure] | None


@dataclass(frozen=True, slots=True)
class RunCompleted:
    """Event: a run ended with measures."""

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float


@dataclass(frozen=True, slots=True)
class RunStopped:
    """Event: a run was ended early, and its last intermediate result became its result.

    ``rule`` is the rule of early stopping that ended it, None if the analyst did.
    """

    at_s: float
    run_id: int
    outcome: Outcome
    duration_s: float
    reason: str = ""
    rule: StopRule | None = None


@dataclass(frozen=True, slots=True)
class RunFailed:
    """Event: a run ended without measures, for the reason ``failure``."""

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
    """Proposed change in a warning, with the chance of reaching the goal after the change.

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
    """Warning that the goal or budget will probably be missed, with alternatives.

    Args:
        basis: what gave it: the paper's rule; the forecast of the goal; that of the end of the
            budget, without a goal; no feasible result; a goal without a forecast.
        title: what is missed, as a clause; empty in old event logs.
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
    basis: Literal["paper", "forecast", "end", "nothing_feasible", "silent"] = "paper"
    outlook: Forecast | None = None
    alternatives: tuple[Alternative, ...] = ()
    title: str = ""

    @property
    def heading(self) -> str:
        """What is missed, also for a warning of an old event log."""
        return self.title or (
            "The budget is too small for the regions"
            if self.basis == "paper"
            else "The goal will probably be missed"
        )

    @property
    def unattended(self) -> tuple["Answer", int | None]:
        """Automatic answer: accept the first alternative that keeps the same SLA, else ignore."""
        if self.basis == "paper":
            return "accepted", None
        for position, alternative in enumerate(self.alternatives):
            if alternative.kind in COSTLESS:
                return "accepted", position
        return "ignored", None


Answer = Literal["accepted", "changed", "ignored"]


@dataclass(frozen=True, slots=True)
class ForecastChecked:
    """Event: the forecast was checked to decide whether a warning is due."""

    at_s: float
    check: WarningCheck


@dataclass(frozen=True, slots=True)
class WarningIssued:
    """Event: a warning was issued together with a batch."""

    at_s: float
    warning: MissWarning


@dataclass(frozen=True, slots=True)
class WarningAnswered:
    """Event: a warning was answered; ``alternative`` is the index of the accepted alternative."""

    at_s: float
    number: int
    answer: Answer
    exploitation: float | None
    alternative: int | None = None


@dataclass(frozen=True, slots=True)
class SteeringChanged:
    """Event: the strategy, its options, the exploitation level or region weights changed."""

    at_s: float
    steering: Steering


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """Event: the SLA (budget, deadline, cost limit and goal) was changed."""

    at_s: float
    sla: Sla


@dataclass(frozen=True, slots=True)
class WarningPolicyChanged:
    """Event: the warning policy changed, including the rules for regions and pending runs."""

    at_s: float
    warning_policy: WarningPolicy


@dataclass(frozen=True, slots=True)
class EarlyStoppingChanged:
    """Event: the rule that stops hopeless runs changed; None stops none from now on."""

    at_s: float
    early_stopping: EarlyStopping | None


@dataclass(frozen=True, slots=True)
class SpaceChanged:
    """Event: the levels or exclusions of the parameter space changed, as ``text`` describes.

    ``by`` is who decided: a person or program, or the refinement of wide parameters.
    """

    at_s: float
    space: ParameterSpace
    text: str
    by: Literal["analyst", "refinement"] = "analyst"


@dataclass(frozen=True, slots=True)
class RunRated:
    """Event: the analyst rated a result good or bad, or withdrew the rating (None)."""

    at_s: float
    run_id: int
    good: bool | None


@dataclass(frozen=True, slots=True)
class PlanSubmitted:
    """Event: the analyst set the levels planned for each parameter, or withdrew them (empty)."""

    at_s: float
    levels: Mapping[str, tuple[Level, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoSteeringChanged:
    """Event: auto-steering was started, or ended if ``auto_steering`` is None."""

    at_s: float
    auto_steering: AutoSteering | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentFinished:
    """Event: the experiment was finished by the analyst, a limit or an exhausted space."""

    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ExperimentReopened:
    """Event: a finished experiment was reopened, for example with a larger budget."""

    at_s: float


@dataclass(frozen=True, slots=True)
class ExperimentRenamed:
    """Event: the experiment got another name; its identifier stays."""

    at_s: float
    name: str


@dataclass(frozen=True, slots=True)
class ExperimentTagged:
    """Event: the tags of the experiment were replaced."""

    at_s: float
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentDeleted:
    """Event: the experiment was deleted: lists leave it out, until it is undeleted or purged."""

    at_s: float


@dataclass(frozen=True, slots=True)
class ExperimentUndeleted:
    """Event: the deletion of the experiment was undone."""

    at_s: float


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Event: a program called a tool that changes something; the events of the change follow.

    ``client`` is the name that the program gives itself, ``token`` the name of its access token
    (empty for a program of this machine), ``why`` its reason.
    """

    at_s: float
    tool: str
    client: str
    token: str
    why: str


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
    | EarlyStoppingChanged
    | SpaceChanged
    | PlanSubmitted
    | AutoSteeringChanged
    | ExperimentFinished
    | ExperimentReopened
    | ExperimentRenamed
    | ExperimentTagged
    | ExperimentDeleted
    | ExperimentUndeleted
    | ToolCalled
)


EVENT_TAGS: Mapping[str, type] = {
    "AdviceAnswered": WarningAnswered,
    "AdviceGiven": WarningIssued,
    "BatchSuggested": BatchSuggested,
    "BudgetChanged": BudgetChanged,
    "EarlyStoppingChanged": EarlyStoppingChanged,
    "ExperimentDeleted": ExperimentDeleted,
    "ExperimentFinished": ExperimentFinished,
    "ExperimentOpened": ExperimentOpened,
    "ExperimentRenamed": ExperimentRenamed,
    "ExperimentReopened": ExperimentReopened,
    "ExperimentTagged": ExperimentTagged,
    "ExperimentUndeleted": ExperimentUndeleted,
    "Forecasted": ForecastChecked,
    "HandedOver": AutoSteeringChanged,
    "PlanSubmitted": PlanSubmitted,
    "ResultRefused": ResultRefused,
    "RunCancelled": RunCancelled,
    "RunCompleted": RunCompleted,
    "RunFailed": RunFailed,
    "RunHeld": RunHeld,
    "RunPrioritised": RunPrioritised,
    "RunRated": RunRated,
    "RunReleased": RunReleased,
    "RunReported": RunReported,
    "RunReturned": RunReturned,
    "RunStarted": RunStarted,
    "RunStopped": RunStopped,
    "RunSubmitted": RunSubmitted,
    "SpaceChanged": SpaceChanged,
    "SteeringChanged": SteeringChanged,
    "ToolCalled": ToolCalled,
    "WatchChanged": WarningPolicyChanged,
}
"""Tag of each class of event in a stored log. A tag never changes, whatever its class is called."""


def has_external_client(opened: ExperimentOpened) -> bool:
    """Return whether an external client, instead of a worker, requests the runs over HTTP."""
    application = opened.recipe.get("application")
    return opened.application == "rest" and is_external_application(application)


def is_external_application(application: Any) -> bool:
    """Return whether the settings table ``[application]`` describes an external client."""
    return (
        isinstance(application, dict)
        and application.get("kind") == "rest"
        and application.get("url") is None
    )
