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
    """A new experiment: the tables of a sweep file, or a description if it runs elsewhere."""

    settings: dict[str, Any] | None = None
    described: dict[str, Any] | None = None
    name: Annotated[str, Field(max_length=200)] = ""


class EventsIn(RequestBody):
    """Events of a session in another process, with the position of the first event."""

    position: Annotated[int, Field(ge=0)]
    events: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=200_000)]


class SuggestIn(RequestBody):
    """A batch: from the strategy, initial, or replicates that confirm the recommendation."""

    n: Count
    kind: Literal["next", "initial", "confirmation"] = "next"


class SubmitIn(RequestBody):
    """The accepted suggestions of a batch by position, and their edited levels."""

    keep: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=1000)] | None = None
    edits: Annotated[dict[Annotated[str, Field(pattern=r"^[0-9]{1,6}$")], Levels], Field()] = {}


class IncludeIn(RequestBody):
    """A configuration that the user has chosen."""

    values: Levels
    reason: Text = ""


class ReplicateIn(RequestBody):
    """Replicates of a configuration, given by the number of a run or by its values."""

    of: Annotated[int, Field(ge=1)] | Levels
    n: Count = 1
    reason: Text = ""


class PriorityIn(RequestBody):
    """The priority of a waiting run: a number, or ``first`` to start before all others."""

    priority: Number | Literal["first"]


class ReasonIn(RequestBody):
    """The reason for a command."""

    reason: Text = ""


class StopIn(RequestBody):
    """Whether the last intermediate result becomes the result, and the reason for the stop."""

    keep: bool = True
    reason: Text = ""


class RatingIn(RequestBody):
    """The rating of a result as good or bad; null withdraws it."""

    good: bool | None


class SteeringIn(RequestBody):
    """Another strategy or exploitation level; omitted fields stay unchanged."""

    strategy: Name | None = None
    options: Levels | None = None
    exploitation: Share | Literal["keep"] | None = "keep"


class AutoSteeringIn(RequestBody):
    """The settings of auto-steering; see `AutoSteering`."""

    batch: Annotated[int, Field(ge=1, le=1000)] | None = None
    initial: Annotated[int, Field(ge=0, le=1000)] = 10
    warnings: OnWarning = "wait"


class AutoSteeringChangeIn(RequestBody):
    """The settings with which auto-steering turns on; null turns it off."""

    auto_steering: AutoSteeringIn | None
    reason: Text = ""


class TariffIn(RequestBody):
    """The cost of a run."""

    unit: Annotated[str, Field(max_length=40)] = ""
    per_hour: Number | None = None
    resources: Name | None = None
    measure: Name | None = None


class SlaIn(RequestBody):
    """All terms of the SLA; null leaves a term out."""

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
    """The rules for regions, pending runs and warnings, in the form of the event log."""

    warning_policy: dict[str, Any]


class LevelChangeIn(RequestBody):
    """A change of one level."""

    change: Literal["close", "reopen", "add", "prefer", "unprefer"]
    parameter: Name
    value: LevelIn


class ExcludeIn(RequestBody):
    """A condition whose configurations are excluded, such as ``nodes > 4 and mode == 'fast'``."""

    condition: Annotated[str, Field(min_length=1, max_length=4000)]


class PlanIn(RequestBody):
    """The levels that the user plans to try, by parameter; empty withdraws the plan."""

    levels: Annotated[
        dict[Name, Annotated[list[LevelIn], Field(max_length=10_000)]], Field(max_length=1000)
    ]


class WeightIn(RequestBody):
    """The weight of a region."""

    region: Annotated[int, Field(ge=1)]
    weight: Number


class AnswerIn(RequestBody):
    """The answer to the open warning."""

    answer: Literal["accepted", "changed", "ignored"]
    exploitation: Share | None = None
    alternative: Annotated[int, Field(ge=0)] | None = None


class PastResultIn(RequestBody):
    """An earlier result."""

    values: Levels
    measures: Measures


class ImportIn(RequestBody):
    """Earlier results to import."""

    results: Annotated[list[PastResultIn], Field(max_length=100_000)]
    replicates: bool = False


class WhatIfIn(RequestBody):
    """A hypothetical change; null leaves a setting unchanged."""

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
    """An external client: its parameters, objective and SLA.

    The settings are the tables of a sweep file; ``auto_steering`` true applies their settings.
    """

    name: Name
    settings: dict[str, Any]
    auto_steering: AutoSteeringIn | bool | None = True
    resume: bool = False


class LeaseRequestIn(RequestBody):
    """A worker's request for a run. An adapter's token implies the worker and the experiment."""

    worker: (
        Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")] | None
    ) = None
    lease_s: Annotated[float, Field(ge=LEASES_S[0], le=LEASES_S[1])] = 30.0
    experiment: Name | None = None
    without: Annotated[list[Name], Field(max_length=1000)] = []


class IntermediateResultIn(RequestBody):
    """The intermediate result of a running run."""

    measures: Measures


class RunResultIn(RequestBody):
    """The end of a run: its measures, or the reason of its failure.

    Without ``duration_s`` the duration counts from the start of the lease.
    """

    measures: Measures | None = None
    failure: Text | None = None
    duration_s: Annotated[float, Field(ge=0, le=1e11)] | None = None


class ApiTokenIn(RequestBody):
    """A named token: its role, its only experiment (null for all) and its expiry."""

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
    """The result of a command: its events, and the version of the experiment."""

    experiment: str
    version: int
    first: int
    events: list[dict[str, Any]]
    again: bool = False


class EventsOut(BaseModel):
    """A page of an event log; ``next`` is the position of the next page."""

    events: list[dict[str, Any]]
    next: int
    more: bool


class RegistrationOut(BaseModel):
    """A registered external client: its experiment, API token and worker name."""

    experiment: str
    token: str
    worker: str
    resumed: bool


class RunLeaseOut(BaseModel):
    """A leased run, which a worker holds while it renews the lease."""

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
    """Whether a result arrived for the first time."""

    recorded: bool
    first_time: bool


class ApplicationSnapshotOut(BaseModel):
    """The data from which the worker of a leased run builds the application."""

    experiment: str
    recipe: str
    opened: dict[str, Any]


class CallerOut(BaseModel):
    """The token of a request; name and experiment are null if it has none."""

    role: Role
    name: str | None
    experiment: str | None
    expires_s: float | None


class ApiTokenOut(CallerOut):
    """A named token, with its creation time and the token that created it."""

    name: str
    created_s: float
    created_by: str | None


class NewApiTokenOut(ApiTokenOut):
    """A new token; only this answer contains it."""

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
    """One run: its values by parameter, its state and its result.

    ``value`` is the objective value of its measures, ``reported`` the last intermediate result and
    ``reported_s`` its time. ``stopped`` is the reason (may be empty) of an early end with this
    intermediate result as the result. Times are in seconds since 1970-01-01 UTC.
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
    """A summary of an experiment.

    ``version`` is the number of decisions and ``events`` the length of the event log. ``active``
    means that workers may take its runs.
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
    """Whether workers may take runs, whether the service starts workers, and notes on problems.

    ``external`` means that an external client takes the runs, instead of workers. ``last_call_s``
    is the number of seconds since its last request, null if the service has received none.
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
