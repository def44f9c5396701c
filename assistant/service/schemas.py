"""Schemas of the service: request bodies (strict, bounded, no unknown fields) and answers.

Answers can also be lines of ``name=value``, for programs that read no JSON, such as shell scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from assistant.core.objective import Measure
from assistant.core.run import Run, RunState, Source
from assistant.core.sla import AtGoal, OnWarning, Sla, Tariff
from assistant.service.api_tokens import Role
from assistant.service.experiment_service import ExperimentService
from assistant.service.problems import refusal
from assistant.session.session import ExperimentQueries
from assistant.store.queue import LEASES_S
from strategies import Level

Text = Annotated[str, Field(max_length=4000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
LevelIn = bool | int | float | Annotated[str, Field(max_length=1000)]
Levels = Annotated[dict[Name, LevelIn], Field(max_length=1000)]
Count = Annotated[int, Field(ge=1, le=1000)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e11, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
MeasureIn = float | int | None | Annotated[list[Number], Field(max_length=100_000)]
Measures = Annotated[dict[Name, MeasureIn], Field(max_length=1000)]


class RequestBody(BaseModel):
    """A body of a request."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class OpenIn(RequestBody):
    """A new experiment: the tables of a sweep file, or a description of one that runs elsewhere."""

    settings: dict[str, Any] | None = None
    described: dict[str, Any] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class EventsIn(RequestBody):
    """Events that a session elsewhere has decided, with the position of the first."""

    position: Annotated[int, Field(ge=0)]
    events: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=200_000)]


class SuggestIn(RequestBody):
    """A batch: of the strategy, the first one, or replicates that confirm what is best."""

    n: Count
    kind: Literal["next", "initial", "confirmation"] = "next"


class SubmitIn(RequestBody):
    """What of a batch is taken, and with which other levels."""

    keep: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] | None = None
    edits: Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], Levels], Field()] = {}


class IncludeIn(RequestBody):
    """A configuration of the analyst's own."""

    values: Levels
    reason: Text = ""


class ReplicateIn(RequestBody):
    """More runs of a configuration that has one: by the run, or by its values."""

    of: Annotated[int, Field(ge=1)] | Levels
    n: Count = 1
    reason: Text = ""


class PriorityIn(RequestBody):
    """When a waiting run starts: a number, or before all that wait now."""

    priority: Number | Literal["first"]


class ReasonIn(RequestBody):
    """Why."""

    reason: Text = ""


class StopIn(RequestBody):
    """Whether what the run has reported last counts as its result, and why it is stopped."""

    keep: bool = True
    reason: Text = ""


class RatingIn(RequestBody):
    """The analyst's verdict on a result; null takes it back."""

    good: bool | None


class SteeringIn(RequestBody):
    """Another strategy or exploitation level; what is not named stays as it is."""

    strategy: Name | None = None
    options: Levels | None = None
    exploitation: Share | Literal["keep"] | None = "keep"


class AutoSteeringIn(RequestBody):
    """How an experiment steers itself; see `Automatic`."""

    batch: Annotated[int, Field(ge=1, le=1000)] | None = None
    initial: Annotated[int, Field(ge=0, le=1000)] = 10
    warnings: OnWarning = "wait"


class AutoSteeringChangeIn(RequestBody):
    """It steers itself from now on; null gives it back to the person."""

    auto_steering: AutoSteeringIn | None
    reason: Text = ""


class TariffIn(RequestBody):
    """What a run costs."""

    unit: Annotated[str, Field(max_length=40)] = ""
    per_hour: Number | None = None
    resources: Name | None = None
    measure: Name | None = None


class SlaIn(RequestBody):
    """All terms of the agreement; null is none."""

    max_runs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    deadline_s: Seconds | None = None
    max_cost: Number | None = None
    tariff: TariffIn | None = None
    goal: Number | None = None
    run_limit_s: Seconds | None = None
    at_goal: AtGoal = "stop"

    def sla(self) -> Sla:
        """Return the SLA as a value. Raises SettingsError if its terms contradict each other."""
        terms = self.model_dump()
        tariff = terms.pop("tariff")
        return Sla(**terms, tariff=None if tariff is None else Tariff(**tariff))


class WarningPolicyIn(RequestBody):
    """How regions and pending runs are counted, and when warnings come; as in the journal."""

    warning_policy: dict[str, Any]


class LevelChangeIn(RequestBody):
    """A change of one level."""

    change: Literal["close", "reopen", "add", "prefer", "unprefer"]
    parameter: Name
    value: LevelIn


class ExcludeIn(RequestBody):
    """A condition that is never proposed, such as ``nodes > 4 and mode == 'fast'``."""

    condition: Annotated[str, Field(min_length=1, max_length=4000)]


class PlanIn(RequestBody):
    """A range of values as the pending strategy; empty takes it back."""

    levels: Annotated[
        dict[Name, Annotated[list[LevelIn], Field(max_length=10_000)]], Field(max_length=1000)
    ]


class WeightIn(RequestBody):
    """How much a region counts."""

    region: Annotated[int, Field(ge=1)]
    weight: Number


class AnswerIn(RequestBody):
    """The answer to the open warning."""

    answer: Literal["accepted", "changed", "ignored"]
    exploitation: Share | None = None
    alternative: Annotated[int, Field(ge=0)] | None = None


class PastResultIn(RequestBody):
    """A result from before."""

    values: Levels
    measures: Measures


class ImportIn(RequestBody):
    """Results from before."""

    results: Annotated[list[PastResultIn], Field(max_length=100_000)]
    replicates: bool = False


class WhatIfIn(RequestBody):
    """A change that is thought of; what is null stays as it is."""

    exploitation: Share | Literal["keep"] | None = "keep"
    max_runs: Annotated[int, Field(ge=1, le=10**9)] | None = None
    deadline_s: Seconds | None = None
    max_cost: Number | None = None
    goal: Number | None = None
    strategy: Name | None = None
    options: Levels | None = None
    close: Annotated[list[tuple[Name, LevelIn]], Field(max_length=1000)] = []
    weights: Annotated[list[tuple[int, Number]], Field(max_length=1000)] = []


class RegisterIn(RequestBody):
    """A program that asks for its runs itself: its parameters, objective and agreement.

    The settings are the tables of a sweep file; ``automatic`` true steers as they say.
    """

    name: Name
    settings: dict[str, Any]
    auto_steering: AutoSteeringIn | bool | None = True
    resume: bool = False


class LeaseRequestIn(RequestBody):
    """A worker asks for the next run. The token of an adapter says who, and of which experiment."""

    worker: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    lease_s: Annotated[float, Field(ge=LEASES_S[0], le=LEASES_S[1])] = 30.0
    experiment: Name | None = None
    without: Annotated[list[Name], Field(max_length=1000)] = []


class IntermediateResultIn(RequestBody):
    """What a run that goes on has measured so far."""

    measures: Measures


class RunResultIn(RequestBody):
    """How a run ended: its measures, or the sentence that says why there are none.

    Without ``duration_s`` it has lasted since it was claimed.
    """

    measures: Measures | None = None
    failure: Text | None = None
    duration_s: Annotated[float, Field(ge=0, le=1e11)] | None = None


class ApiTokenIn(RequestBody):
    """A token with a name: what it is for, of which experiment alone, until when."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
    role: Literal["viewer", "steerer", "worker", "adapter"] = "worker"
    experiment: Name | None = None
    expires_s: Seconds | None = None


def measures_of(measures: dict[str, Any] | None) -> dict[str, Measure] | None:
    """Return measures as values: a series becomes a tuple."""
    if measures is None:
        return None
    return {name: tuple(x) if isinstance(x, list) else x for name, x in measures.items()}


class CommandResultOut(BaseModel):
    """What came of a decision: the events that it made, and the version of the experiment."""

    experiment: str
    version: int
    first: int
    events: list[dict[str, Any]]
    again: bool = False


class EventsOut(BaseModel):
    """A page of a journal; ``next`` is where to go on."""

    events: list[dict[str, Any]]
    next: int
    more: bool


class RegistrationOut(BaseModel):
    """A program that may ask for runs: with which token, and under which name it is known."""

    experiment: str
    token: str
    worker: str
    resumed: bool


class RunLeaseOut(BaseModel):
    """A run that a worker holds, for as long as its lease is renewed."""

    experiment: str
    run: int
    token: str
    attempt: int
    values: dict[str, LevelIn]
    seed: int
    limit_s: float | None
    lease_s: float


class LeaseOut(BaseModel):
    """A renewed lease."""

    lease_s: float


class ResultReceiptOut(BaseModel):
    """Whether a result was told for the first time."""

    recorded: bool
    first_time: bool


class ApplicationSnapshotOut(BaseModel):
    """What a worker needs to build the application of a run that it holds."""

    experiment: str
    recipe: str
    opened: dict[str, Any]


class CallerOut(BaseModel):
    """Whose token a request has come by; name and experiment are null where it has none."""

    role: Role
    name: str | None
    experiment: str | None
    expires_s: float | None


class ApiTokenOut(CallerOut):
    """Who was handed a token with a name, when, and by whose token."""

    name: str
    created_s: float
    created_by: str | None


class NewApiTokenOut(ApiTokenOut):
    """A token that was made, told this once."""

    token: str


class HealthOut(BaseModel):
    """Whether the service answers."""

    status: Literal["ok", "draining"]
    version: str


MeasuresOut = dict[str, float | list[float] | None]


class ExperimentItemOut(BaseModel):
    """An experiment in a list."""

    experiment: str
    name: str
    opened_s: float
    events: int


class RunOut(BaseModel):
    """One run as people read it: values by parameter, and what is known of it.

    ``value`` is what the objective makes of its measures, ``reported`` what a run that goes on has
    measured so far, and ``reported_s`` when; ``stopped`` is the reason, which may be empty, of one
    that was ended early with that as its result. Times are seconds since 1970-01-01 UTC.
    """

    run: int
    state: RunState
    held: bool
    priority: float
    values: dict[str, bool | int | float | str]
    source: Source
    reason: str
    attempts: int
    worker: str | None
    value: float | None
    feasible: bool | None
    measures: MeasuresOut | None
    reported: MeasuresOut | None
    reported_s: float | None
    stopped: str | None
    failure: str | None
    cancelled: str | None
    submitted_s: float
    started_s: float | None
    ended_s: float | None
    duration_s: float | None


class OverviewOut(BaseModel):
    """An experiment in a few numbers.

    ``version`` counts decisions, ``events`` the whole journal; ``active`` says whether workers may
    have its runs.
    """

    experiment: str
    name: str
    application: str
    opened_s: float
    version: int
    events: int
    active: bool
    finished: str | None
    passed_limit: str | None
    parameters: dict[str, list[bool | int | float | str]]
    runs: dict[RunState, int]
    remaining_runs: int | None
    strategy: str
    exploitation: float | None
    batch_size: int
    open_warning: str | None
    best: RunOut | None


class ExecutionOut(BaseModel):
    """Who executes: whether workers may have runs, and whether the service starts some itself.

    ``by_program`` says that its program asks for its runs itself, and gets them instead of workers;
    ``heard_s`` how long ago it was heard last, null if not since the service began.
    """

    active: bool
    executes: bool
    external: bool = False
    last_call_s: float | None = None
    notes: list[str]


def execution(service: ExperimentService, experiment_id: str) -> ExecutionOut:
    """Return the state of execution of an experiment."""
    return ExecutionOut(
        active=service.queue.is_active(experiment_id),
        executes=service.executes,
        external=service.queue.is_external(experiment_id),
        last_call_s=service.client_liveness.ago_s(experiment_id),
        notes=list(service.notes(experiment_id)),
    )


def run_out(view: ExperimentQueries, run: Run) -> RunOut:
    """Return one run of an experiment."""
    values: Mapping[str, Level] = view.experiment.space.values(run.configuration)
    outcome = run.outcome
    return RunOut(
        run=run.id,
        state=run.state,
        held=run.held,
        priority=run.priority,
        values=dict(values),
        source=run.source,
        reason=run.reason,
        attempts=run.attempts,
        worker=run.worker or None,
        value=None if outcome is None else outcome.value,
        feasible=None if outcome is None else outcome.feasible,
        measures=_measures(None if outcome is None else outcome.measures),
        reported=_measures(run.reported),
        reported_s=run.reported_s,
        stopped=run.stopped,
        failure=run.failure,
        cancelled=run.cancelled,
        submitted_s=run.submitted_s,
        started_s=run.started_s,
        ended_s=run.ended_s,
        duration_s=run.duration_s,
    )


def overview(service: ExperimentService, view: ExperimentQueries) -> OverviewOut:
    """Return an experiment in a few numbers."""
    experiment = view.experiment
    best, warning = experiment.best, experiment.open_warning
    return OverviewOut(
        experiment=view.id,
        name=experiment.opened.name,
        application=experiment.opened.application,
        opened_s=experiment.opened.at_s,
        version=experiment.version,
        events=experiment.n_events,
        active=service.queue.is_active(view.id),
        finished=None if experiment.finished is None else experiment.finished.reason,
        passed_limit=view.passed_limit(),
        parameters={
            parameter.name: list(parameter.levels) for parameter in experiment.space.parameters
        },
        runs={state: len(experiment.runs_in(state)) for state in RunState},
        remaining_runs=view.remaining_runs,
        strategy=experiment.steering.strategy,
        exploitation=experiment.steering.exploitation,
        batch_size=view.batch_size,
        open_warning=None if warning is None else warning.text,
        best=None if best is None else run_out(view, best),
    )


def summary_fields(experiment: OverviewOut) -> dict[str, object]:
    """Return the progress and the best run of an experiment as one line each."""
    best = experiment.best
    ended = {"finished": experiment.finished, "passed_limit": experiment.passed_limit}
    return {
        "experiment": experiment.experiment,
        "version": experiment.version,
        "active": experiment.active,
        **{name: None if why is None else " ".join(why.split()) for name, why in ended.items()},
        "remaining_runs": experiment.remaining_runs,
        "runs": {str(state): n for state, n in experiment.runs.items()},
        "best": {}
        if best is None
        else {
            "run": best.run, "value": best.value, "values": best.values,
            "measures": best.measures or {},
        },
    }  # fmt: skip


def _measures(measures: Mapping[str, Measure] | None) -> MeasuresOut | None:
    if measures is None:
        return None
    return {name: list(x) if isinstance(x, tuple) else x for name, x in measures.items()}


MEDIA_TYPE = "text/plain"


def wants_plain_text(accept: str) -> bool:
    """Return whether the header Accept asks for lines of text; the default is JSON."""
    return accept.partition(";")[0].strip().lower() == MEDIA_TYPE


def plain_text(mapping: Mapping[str, Any]) -> str:
    """Return an answer as lines. Raises ProblemError (406) if a line cannot hold a value."""
    return "".join(f"{line}\n" for line in _lines("", mapping))


def _lines(prefix: str, mapping: Mapping[str, Any]) -> Iterator[str]:
    for key, value in mapping.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _lines(f"{name}.", value)
            continue
        for element in value if isinstance(value, list | tuple) else (value,):
            text = _text(element)
            if "=" in name or not _is_one_line(name) or not _is_one_line(text):
                raise refusal(
                    406,
                    f"'{name[:100]!a}' cannot be told in plain lines: a name has no '=', and "
                    "neither a name nor a value has a line break or another control character",
                    hint="ask for JSON: Accept: application/json",
                )
            yield f"{name}={text}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_one_line(text: str) -> bool:
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in text)
