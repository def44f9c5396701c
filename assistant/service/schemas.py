"""Schemas of the service: request bodies (strict, bounded, no unknown fields) and responses.

Answers can also be lines of ``name=value``, for programs that read no JSON, such as shell scripts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict
from dataclasses import fields as dataclass_fields
from typing import Annotated, Any, Literal, cast, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from assistant.analysis.experiment_state import NextStep, StateName, experiment_state
from assistant.config.models import EarlyStoppingSettings
from assistant.core.bounds import (
    BATCH,
    COST,
    DURATION_S,
    INITIAL,
    REGION_WEIGHT,
    RUNS,
    VALUE,
    LevelValue,
    LevelValues,
    Moment,
    Name,
    Number,
    Position,
    PositiveNumber,
    Share,
    Text,
)
from assistant.core.commands import (
    ChangeAutoSteering,
    ChangeEarlyStopping,
    ChangeSla,
    ChangeWarningPolicy,
    Command,
    ImportResults,
    SubmitBatch,
)
from assistant.core.objective import Measure
from assistant.core.run import EXCERPT_BYTES, Run, RunState, Source
from assistant.core.sla import AtGoal, AutoSteering, OnWarning, Sla, Tariff, WarningPolicy
from assistant.core.submission import PastResult
from assistant.presentation.text.comparison import compare_best
from assistant.service.api_tokens import Role
from assistant.service.experiment_service import ExperimentService
from assistant.service.problems import refusal
from assistant.session.session import ExperimentQueries
from assistant.store.queue import LEASES_S
from strategies.space.parameter import float_of

RegionWeight = Annotated[float, REGION_WEIGHT]
MeasureIn = float | int | None | Annotated[list[Number], Field(max_length=100_000)]


def _exact(measures: object) -> object:
    """Return measures as they came, or raise ValueError for an integer that would be rounded."""
    for name, value in measures.items() if isinstance(measures, dict) else ():
        for number in value if isinstance(value, list) else (value,):
            if isinstance(number, int):
                try:
                    float_of(number)
                except ValueError as error:
                    raise ValueError(f"have '{str(name)[:60]}' as {error}") from None
    return measures


Measures = Annotated[dict[Name, MeasureIn], Field(max_length=1000), BeforeValidator(_exact)]


class RequestBody(BaseModel):
    """Base class of JSON request bodies: strict types, no unknown fields, finite numbers."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class OpenIn(RequestBody):
    """Request to open an experiment: sweep settings, or a description if the client runs it."""

    settings: dict[str, Any] | None = None
    described: dict[str, Any] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class EventsIn(RequestBody):
    """Request to append events of a session in another process, from ``position`` on."""

    position: Position
    events: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=200_000)]


class CommandIn(RequestBody):
    """Base class of the bodies of commands; most are made of the command's own fields."""

    def fields(self) -> dict[str, Any]:
        """Return the values of the command's fields."""
        return {name: getattr(self, name) for name in type(self).model_fields}


class SubmitBatchIn(CommandIn):
    """Request to submit a batch: positions of the suggestions to keep (null: all), and edits."""

    keep: Annotated[list[Position], Field(max_length=1000)] | None = None
    edits: Annotated[
        dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], LevelValues], Field()
    ] = {}

    def fields(self) -> dict[str, Any]:
        """Return the fields, with positions as numbers."""
        edits = {int(position): levels for position, levels in self.edits.items()}
        return {"keep": self.keep, "edits": edits}


class ReasonIn(RequestBody):
    """Request body that contains only a reason."""

    reason: Text = ""


class ReturnIn(RequestBody):
    """Request to return a leased run; ``lost`` if the process that executed it has died."""

    reason: Text = ""
    lost: bool = False


class AutoSteeringIn(RequestBody):
    """Settings of auto-steering: batch size, number of initial runs, and warning handling."""

    batch: Annotated[int, BATCH] | None = None
    initial: Annotated[int, INITIAL] = 10
    warnings: OnWarning = "ignore"


class ChangeAutoSteeringIn(CommandIn):
    """Request to turn auto-steering on with these settings, or off (null)."""

    auto_steering: AutoSteeringIn | None
    reason: Text = ""

    def fields(self) -> dict[str, Any]:
        """Return the fields, with the settings as a value."""
        settings = self.auto_steering
        value = None if settings is None else AutoSteering(**settings.model_dump())
        return {"auto_steering": value, "reason": self.reason}


class ChangeEarlyStoppingIn(CommandIn):
    """Request to stop hopeless runs by this rule from now on, or to stop none (null)."""

    early_stopping: EarlyStoppingSettings | None

    def fields(self) -> dict[str, Any]:
        """Return the settings as a value."""
        early = self.early_stopping
        return {"early_stopping": None if early is None else early.build()}


class TariffIn(RequestBody):
    """Pricing rule for runs: price of a resource hour, or a measure that is the cost."""

    unit: Annotated[str, Field(max_length=40)] = ""
    per_hour: Annotated[float, COST] | None = None
    resources: Name | None = None
    measure: Name | None = None


class ChangeSlaIn(CommandIn):
    """New SLA: limits on runs, time and cost, and a goal; null leaves a term out."""

    max_runs: Annotated[int, RUNS] | None = None
    deadline_s: Moment | None = None
    max_cost: Annotated[float, COST] | None = None
    tariff: TariffIn | None = None
    goal: Annotated[float, VALUE] | None = None
    run_limit_s: Annotated[float, DURATION_S] | None = None
    at_goal: AtGoal = "stop"
    keep_going: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the SLA as a value, or raise SettingsError if its terms contradict each other."""
        terms = self.model_dump()
        tariff = terms.pop("tariff")
        return {"sla": Sla(**terms, tariff=None if tariff is None else Tariff(**tariff))}


class ChangeWarningPolicyIn(CommandIn):
    """New warning policy (rules for regions, pending runs and warnings), as in the event log."""

    warning_policy: dict[str, Any]

    def fields(self) -> dict[str, Any]:
        """Return the policy as a value, or raise ProblemError (422) for a wrong field."""
        try:
            return {"warning_policy": _WARNING_POLICY.validate_python(self.warning_policy)}
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            words = f"the warning policy is wrong at '{place}': {first['msg']}"
            raise refusal(422, words) from error


_WARNING_POLICY: TypeAdapter[WarningPolicy] = TypeAdapter(WarningPolicy)


class PastResultIn(RequestBody):
    """Earlier result to import: parameter values and measures."""

    values: LevelValues
    measures: Measures


class ImportResultsIn(CommandIn):
    """Request to import earlier results; ``replicates`` permits several per configuration."""

    results: Annotated[list[PastResultIn], Field(max_length=100_000)]
    replicates: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields, with the results as values."""
        results = [
            PastResult(result.values, measures_of(result.measures) or {}) for result in self.results
        ]
        return {"results": results, "replicates": self.replicates}


_BODIES: dict[type[Command], type[CommandIn]] = {
    ChangeAutoSteering: ChangeAutoSteeringIn,
    ChangeEarlyStopping: ChangeEarlyStoppingIn,
    ChangeSla: ChangeSlaIn,
    ChangeWarningPolicy: ChangeWarningPolicyIn,
    ImportResults: ImportResultsIn,
    SubmitBatch: SubmitBatchIn,
}
"""Bodies that differ from the fields of their command; the others are made of them."""


def path_fields(kind: type[Command]) -> list[str]:
    """Return the names of the fields that stand in the path of a command's route."""
    return re.findall(r"\{(\w+)\}", kind.route.path)


def command_body(kind: type[Command]) -> type[CommandIn] | None:
    """Return the model of the body of a command's request; None if it has no body."""
    if kind in _BODIES:
        return _BODIES[kind]
    hints = get_type_hints(kind, include_extras=True)
    in_path = path_fields(kind)
    body_fields: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is MISSING else each.default)
        for each in dataclass_fields(cast("Any", kind))
        if each.name not in in_path
    }
    if not body_fields:
        return None
    return create_model(
        f"{kind.__name__}In", __base__=CommandIn, __doc__=kind.__doc__, **body_fields
    )


def snake_case(name: str) -> str:
    """Return the name of a class as that of a function.

    >>> snake_case("ChangeSla")
    'change_sla'
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class WhatIfIn(RequestBody):
    """Hypothetical change for a forecast; null leaves a setting unchanged."""

    exploitation: Share | Literal["keep"] | None = "keep"
    max_runs: Annotated[int, RUNS] | None = None
    deadline_s: Moment | None = None
    max_cost: Annotated[float, COST] | None = None
    goal: Annotated[float, VALUE] | None = None
    strategy: Name | None = None
    options: LevelValues | None = None
    close: Annotated[list[tuple[Name, LevelValue]], Field(max_length=1000)] = []
    weights: Annotated[list[tuple[PositiveNumber, RegionWeight]], Field(max_length=1000)] = []


class RegisterIn(RequestBody):
    """Request to register an external client: experiment name, settings and auto-steering.

    The settings are the tables of a sweep file; ``auto_steering`` true applies their settings.
    """

    name: Name
    settings: dict[str, Any]
    auto_steering: AutoSteeringIn | bool | None = True
    resume: bool = False


class LeaseRequestIn(RequestBody):
    """Worker's request for a run; an adapter's token already implies worker and experiment."""

    worker: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    lease_s: Annotated[float, Field(ge=LEASES_S[0], le=LEASES_S[1])] = 30.0
    experiment: Name | None = None
    without: Annotated[list[Name], Field(max_length=1000)] = []


class IntermediateResultIn(RequestBody):
    """Intermediate result of a running run."""

    measures: Measures


Excerpt = Annotated[str, Field(max_length=2 * EXCERPT_BYTES + 100)]


class RunOutputIn(RequestBody):
    """What the program of a run printed: of a long stream the head and the tail."""

    stdout: Excerpt = ""
    stderr: Excerpt = ""


class RunResultIn(RequestBody):
    """Final report on a run: its measures, or the reason for its failure, and its output.

    Without ``duration_s`` the duration counts from the start of the lease.
    """

    measures: Measures | None = None
    failure: Text | None = None
    duration_s: Annotated[float, Field(ge=0, le=1e11)] | None = None
    output: RunOutputIn | None = None


class ApiTokenIn(RequestBody):
    """Request for a named token: its role, its only experiment (null for all) and its expiry."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]
    role: Literal["viewer", "suggester", "steerer", "worker", "adapter"] = "worker"
    experiment: Name | None = None
    expires_s: Moment | None = None


def measures_of(measures: dict[str, Any] | None) -> dict[str, Measure] | None:
    """Return measures from JSON in Python form, with each list (a series) as a tuple."""
    if measures is None:
        return None
    return {name: tuple(x) if isinstance(x, list) else x for name, x in measures.items()}


class CommandResultOut(BaseModel):
    """Result of a command: the new events, and the version of the experiment after them."""

    experiment: str
    version: int
    first: int
    events: list[dict[str, Any]]
    again: bool = False


class EventsOut(BaseModel):
    """Page of an event log; ``next`` is the position at which the next page starts."""

    events: list[dict[str, Any]]
    next: int
    more: bool


class RegistrationOut(BaseModel):
    """Registered external client: its experiment, API token and worker name."""

    experiment: str
    token: str
    worker: str
    resumed: bool


class RunLeaseOut(BaseModel):
    """Leased run: its parameter values and seed, lease token and lease length in seconds."""

    experiment: str
    run: int
    token: str
    attempt: int
    values: dict[str, LevelValue]
    seed: int
    limit_s: float | None
    lease_s: float


class LeaseOutlookOut(BaseModel):
    """Whether runs will wait without a person, because auto-steering suggests the next batch."""

    expected: bool


class LeaseOut(BaseModel):
    """Renewed lease, with its length in seconds."""

    lease_s: float


class ResultReceiptOut(BaseModel):
    """Receipt for a run result; ``first_time`` is false if the result is a repeat."""

    recorded: bool
    first_time: bool


class ApplicationSnapshotOut(BaseModel):
    """Data from which a worker builds the application that executes its leased run."""

    experiment: str
    recipe: dict[str, Any]
    opened: dict[str, Any]


class CallerOut(BaseModel):
    """Access token of a request: its role, and its name, experiment and expiry (null if none)."""

    role: Role
    name: str | None
    experiment: str | None
    expires_s: float | None


class ApiTokenOut(CallerOut):
    """Named token, with its creation time and the name of the token that created it."""

    name: str
    created_s: float
    created_by: str | None


class NewApiTokenOut(ApiTokenOut):
    """New named token with its secret, which only this answer contains."""

    token: str


class HealthOut(BaseModel):
    """State of the service (``ok``, or ``draining`` while it shuts down) and its version."""

    status: Literal["ok", "draining"]
    version: str


MeasuresOut = dict[str, float | list[float] | None]


class RunOutputOut(BaseModel):
    """What the program of a run printed; ``is_stored`` is false if nothing is stored."""

    stdout: str
    stderr: str
    is_stored: bool


class ExperimentItemOut(BaseModel):
    """Entry of one experiment in the list of stored experiments."""

    experiment: str
    name: str
    opened_s: float
    events: int
    tags: tuple[str, ...] = ()


class RunOut(BaseModel):
    """Run of an experiment: its values by parameter, its state and its result.

    ``value`` is the objective value of its measures, ``reported`` the last intermediate result and
    ``reported_s`` its time. ``stopped`` is the reason (may be empty) of an early end with this
    intermediate result as the result. Times are in seconds since 1970-01-01 UTC.
    """

    run: int
    state: RunState
    held: bool
    priority: float
    values: dict[str, bool | int | float | str | None]  # None where a parameter is inactive
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


class StateOut(BaseModel):
    """State of an experiment, in the words of every page and command.

    ``reason`` is a clause, ``next_step`` a sentence, and ``command`` the terminal command of that
    step (empty if there is none).
    """

    name: StateName
    icon: str
    reason: str
    next_step: NextStep
    command: str


class OverviewOut(BaseModel):
    """Summary of an experiment: its state, parameters, numbers of runs and best run.

    ``version`` is the number of decisions and ``events`` the length of the event log. ``active``
    means that workers may take its runs. ``comparison`` is that of the best configuration with the
    current one, in words; null if one of them has no result. ``runs_left`` counts the runs of the
    budget that have not ended, ``remaining_runs`` those that may still be submitted.
    """

    experiment: str
    name: str
    application: str
    opened_s: float
    version: int
    events: int
    state: StateOut
    active: bool
    finished: str | None
    passed_limit: str | None
    parameters: dict[str, list[bool | int | float | str]]
    runs: dict[RunState, int]
    runs_left: int | None
    remaining_runs: int | None
    strategy: str
    exploitation: float | None
    batch_size: int
    open_warning: str | None
    best: RunOut | None
    comparison: str | None = None


class ExecutionOut(BaseModel):
    """Execution state: whether workers may take runs, whether the service starts any, and notes.

    ``external`` means that an external client takes the runs, instead of workers. ``last_call_s``
    is the number of seconds since its last request, null if the service has received none.
    ``workers`` counts the other workers that called within the last minute, and ``in_process``
    means that a process on the machine of the store executes the runs itself.
    """

    active: bool
    executes: bool
    external: bool = False
    last_call_s: float | None = None
    notes: list[str]
    workers: int = 0
    in_process: bool = False


def execution(service: ExperimentService, experiment_id: str) -> ExecutionOut:
    """Return the execution state of an experiment: who may take its runs, and notes."""
    return ExecutionOut(**asdict(service.execution(experiment_id)))


def run_out(view: ExperimentQueries, run: Run) -> RunOut:
    """Return one run of an experiment in the form of a response."""
    values = view.experiment.space.all_values(run.configuration)
    outcome = run.outcome
    return RunOut(
        run=run.id,
        state=run.state,
        held=run.held,
        priority=run.priority,
        values=values,
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
    """Return the summary of an experiment in the form of a response."""
    experiment = view.experiment
    best, warning = experiment.best, experiment.open_warning
    compared = compare_best(experiment)
    status = service.execution(view.id)
    state = experiment_state(experiment, view.now_s(), status)
    return OverviewOut(
        experiment=view.id,
        name=experiment.opened.name,
        application=experiment.opened.application,
        opened_s=experiment.opened.at_s,
        version=experiment.version,
        events=experiment.n_events,
        state=StateOut(
            name=state.name,
            icon=state.icon,
            reason=state.reason,
            next_step=state.next_step,
            command=state.command,
        ),
        active=status.active,
        finished=None if experiment.finished is None else experiment.finished.reason,
        passed_limit=view.passed_limit(),
        parameters={
            parameter.name: list(parameter.levels) for parameter in experiment.space.parameters
        },
        runs={state: experiment.n_in(state) for state in RunState},
        runs_left=experiment.runs_left,
        remaining_runs=view.remaining_runs,
        strategy=experiment.steering.strategy,
        exploitation=experiment.steering.exploitation,
        batch_size=view.batch_size,
        open_warning=None if warning is None else warning.text,
        best=None if best is None else run_out(view, best),
        comparison=None if compared is None else compared.text,
    )


def summary_fields(experiment: OverviewOut) -> dict[str, object]:
    """Return the progress and the best run of an experiment as fields for `plain_text`."""
    best = experiment.best
    ended = {"finished": experiment.finished, "passed_limit": experiment.passed_limit}
    return {
        "experiment": experiment.experiment,
        "version": experiment.version,
        "state": experiment.state.name,
        "reason": " ".join(experiment.state.reason.split()),
        "next_step": experiment.state.next_step,
        "active": experiment.active,
        **{name: None if why is None else " ".join(why.split()) for name, why in ended.items()},
        "runs_left": experiment.runs_left,
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
    """Return whether an Accept header asks for lines of ``name=value`` instead of JSON."""
    return accept.partition(";")[0].strip().lower() == MEDIA_TYPE


def plain_text(mapping: Mapping[str, Any]) -> str:
    """Return an answer as lines of ``name=value``, or raise ProblemError (406) if impossible."""
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
                    f"'{name[:100]!a}' cannot be sent as plain text: names cannot contain '=', and "
                    "names and values cannot contain line breaks or other control characters",
                    hint="request JSON with Accept: application/json",
                )
            yield f"{name}={text}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_one_line(text: str) -> bool:
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in text)
