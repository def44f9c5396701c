"""Routes of queries (role viewer) and commands (role steerer), and of health and metrics.

Every answer to a command contains the resulting events.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from inspect import Parameter, Signature
from itertools import islice
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse, StreamingResponse
from starlette.concurrency import run_in_threadpool

from assistant.analysis.experiment_state import experiment_state
from assistant.analysis.what_if import WhatIf
from assistant.config.snapshot import ClusterSystem, report_content
from assistant.config.snapshot import cluster_settings as settings_text
from assistant.core.codec import decode_event
from assistant.core.commands import Command
from assistant.core.errors import AssistantError, CodecError
from assistant.core.events import ExperimentOpened
from assistant.core.forecast import Forecast
from assistant.core.run import RunOutput, RunState
from assistant.presentation.report.forms import FORMS, ReportFile, downloaded
from assistant.presentation.tables.effects import EffectsRanking, effects_ranking
from assistant.service import schemas
from assistant.service.auth import Caller, caller_of
from assistant.service.dependencies import (
    OWNER,
    STEERER,
    SUGGESTER,
    VIEWER,
    VIEWER_OR_ADAPTER,
    ContextOf,
    ExperimentId,
    IdempotentRequestOf,
    RunNumber,
    ServiceContext,
    ServiceOf,
    VersionedRequestOf,
)
from assistant.service.experiment_service import CommandResult, ExperimentService, IdempotentRequest
from assistant.service.problems import refusal, responses
from assistant.service.schemas import MEDIA_TYPE as LINES
from assistant.service.schemas import (
    CommandResultOut,
    EventsOut,
    ExecutionOut,
    ExperimentItemOut,
    HealthOut,
    OverviewOut,
    RunOut,
    RunOutputOut,
    WhatIfIn,
    overview,
    plain_text,
    run_out,
    summary_fields,
    wants_plain_text,
)
from assistant.service.schemas import execution as execution_of
from assistant.service.shared_views import FRESH_S
from assistant.session.commands import COMMANDS, SuggestBatch

query_router = APIRouter(
    prefix="/v1", tags=["queries"], dependencies=[VIEWER], responses=responses(404, 422)
)
state_router = APIRouter(
    prefix="/v1", tags=["queries"], dependencies=[VIEWER_OR_ADAPTER], responses=responses(404, 422)
)

PAGE = 1000
_FILE = {"type": "string", "format": "binary"}
_FORM_NAMES = f"^({'|'.join(form.ending[1:] for form in FORMS)})$"
DIGEST = 16  # Digits of an ETag that are a digest of the answer
LOOK_S = 0.2  # interval between two looks of a stream for new events
ALIVE_S = 2.0  # interval of keep-alive lines on an idle stream


@query_router.get("/experiments")
async def experiments(context: ContextOf, deleted: bool = False) -> list[ExperimentItemOut]:
    """List the stored experiments, latest first; with ``deleted`` the deleted ones."""
    stored_experiments = partial(context.service.store.experiments, deleted=deleted)
    return [
        ExperimentItemOut(
            experiment=stored.id,
            name=stored.name,
            opened_s=stored.opened_s,
            events=stored.n_events,
            tags=stored.tags,
        )
        for stored in await context.viewed(stored_experiments)
    ]


@state_router.get(
    "/experiments/{experiment}",
    response_model=OverviewOut,
    responses={
        200: {
            "headers": {"ETag": {"schema": {"type": "string"}}},
            "content": {LINES: {"schema": {"type": "string"}}},
        },
        304: {"description": "Nothing has changed since the answer with this ETag"},
        **responses(406),
    },
)
async def experiment(
    experiment: ExperimentId,
    context: ContextOf,
    accept: Annotated[str, Header()] = "application/json",
    if_none_match: Annotated[
        str | None, Header(description="The ETag of an earlier answer; 304 if nothing changed.")
    ] = None,
) -> Response:
    """Return a summary of an experiment; the header ETag, which has its version, is for If-Match.

    ``Accept: text/plain`` returns the progress and the best run as lines of ``name=value``. Who
    asks again and again sends the last ETag as ``If-None-Match``, and receives 304 without a body
    while nothing has changed.
    """
    service = context.service
    body = await context.viewed(lambda: overview(service, service.look(experiment)))
    if wants_plain_text(accept):
        text, media_type = plain_text(summary_fields(body)), LINES
    else:
        text, media_type = body.model_dump_json(), "application/json"
    return _tagged(text, media_type, body.version, if_none_match)


def _tagged(text: str, media_type: str, version: int, if_none_match: str | None) -> Response:
    """Return an answer with its ETag, or 304 if the client has it."""
    tag = f'"{version}.{hashlib.sha256(text.encode()).hexdigest()[:DIGEST]}"'
    earlier = [each.strip() for each in (if_none_match or "").split(",")]
    if tag in earlier or f"W/{tag}" in earlier:
        return Response(status_code=304, headers={"ETag": tag})
    return Response(text, media_type=media_type, headers={"ETag": tag})


@query_router.get("/experiments/{experiment}/runs")
async def runs(
    experiment: ExperimentId,
    context: ContextOf,
    state: RunState | None = None,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
) -> list[RunOut]:
    """Return runs in the order of their submission, after the run with the number ``after``."""

    def work() -> list[RunOut]:
        view = context.service.look(experiment)
        later = islice(view.experiment.runs, after, None)  # runs are numbered from 1
        matches = (run for run in later if state in (None, run.state))
        return [run_out(view, run) for run in islice(matches, limit)]

    return await context.viewed(work)


@query_router.get("/experiments/{experiment}/queue")
async def queue(experiment: ExperimentId, context: ContextOf) -> list[RunOut]:
    """Return the runs that may start, at most 1,000, in the order in which they will start."""

    def work() -> list[RunOut]:
        view = context.service.look(experiment)
        return [run_out(view, run) for run in view.experiment.waiting[:PAGE]]

    return await context.viewed(work)


@query_router.get("/experiments/{experiment}/execution")
async def execution(experiment: ExperimentId, context: ContextOf) -> ExecutionOut:
    """Return the state of execution: whether workers may take runs, and notes on problems."""

    def work() -> ExecutionOut:
        context.service.session(experiment)  # 404 where there is none
        return execution_of(context.service, experiment)

    return await context.viewed(work)


@query_router.get("/experiments/{experiment}/runs/{run}")
async def run(experiment: ExperimentId, run: RunNumber, context: ContextOf) -> RunOut:
    """Return one run of an experiment, by its number."""

    def work() -> RunOut:
        view = context.service.look(experiment)
        if run > len(view.experiment.runs):
            raise refusal(404, f"experiment '{experiment}' has no run {run}")
        return run_out(view, view.experiment.run(run))

    return await context.viewed(work)


@query_router.get("/experiments/{experiment}/runs/{run}/output")
async def output(experiment: ExperimentId, run: RunNumber, context: ContextOf) -> RunOutputOut:
    """Return what the program of a run printed, of a long stream the head and the tail."""

    def work() -> RunOutputOut:
        if run > len(context.service.look(experiment).experiment.runs):
            raise refusal(404, f"experiment '{experiment}' has no run {run}")
        stored = context.service.store.output(experiment, run)
        text = stored or RunOutput()
        return RunOutputOut(stdout=text.stdout, stderr=text.stderr, is_stored=stored is not None)

    return await context.viewed(work)


@query_router.get(
    "/experiments/{experiment}/events",
    response_model=EventsOut,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    experiment: ExperimentId,
    request: Request,
    context: ContextOf,
    since: Annotated[int, Query(ge=0, le=10**15)] = 0,
    limit: Annotated[int, Query(ge=1, le=100_000)] = PAGE,
    accept: Annotated[str, Header()] = "application/json",
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,15}$")] = None,
) -> Any:
    """Return the event log: one page as JSON, or stored and new events as an endless stream.

    A stream (``Accept: text/event-stream``) starts after ``Last-Event-ID``, or else at ``since``.
    """
    store, caller = context.service.store, caller_of(request)
    if "text/event-stream" in accept:
        await run_in_threadpool(store.lines, experiment, 0, 1)  # raises before anything is sent
        start = since if last_event_id is None else int(last_event_id) + 1
        return StreamingResponse(
            _stream(context, caller, experiment, start), media_type="text/event-stream"
        )
    lines = await run_in_threadpool(store.lines, experiment, since, limit)
    following = since + len(lines)
    length = await run_in_threadpool(store.length, experiment)
    more = _word(bool(lines) and following < length)  # one may have been appended meanwhile
    body = f'{{"events":[{",".join(lines)}],"next":{following},"more":{more}}}'
    return Response(body, media_type="application/json")


@query_router.get(
    "/experiments/{experiment}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def export(experiment: ExperimentId, service: ServiceOf) -> StreamingResponse:
    """Return the whole event log, one JSON object per line."""
    service.store.lines(experiment, 0, 1)  # raises before anything is sent
    return StreamingResponse(_exported(service, experiment), media_type="application/x-ndjson")


@query_router.get("/experiments/{experiment}/forecast")
async def forecast(experiment: ExperimentId, context: ContextOf) -> Forecast:
    """Return the current forecast of an experiment: remaining runs, goal and best value.

    It is computed once for all who ask for it within a second, while nothing changes.
    """
    view = await context.viewed(lambda: context.service.look(experiment))
    return await context.answers.get("forecast", view.experiment, view.forecast, FRESH_S)


@query_router.get("/experiments/{experiment}/effects", responses=responses(404))
async def effects(experiment: ExperimentId, context: ContextOf) -> EffectsRanking:
    """Return which parameters matter: the range of each main effect, the largest first."""
    view = (await context.viewed(lambda: context.service.look(experiment))).experiment
    return await context.answers.get("effects", view, lambda: effects_ranking(view))


@query_router.get(
    "/experiments/{experiment}/report",
    response_class=Response,
    responses={200: {"content": {form.media_type: {"schema": _FILE} for form in FORMS}}},
)
async def report(
    experiment: ExperimentId,
    context: ContextOf,
    form: Annotated[str, Query(pattern=_FORM_NAMES)] = "html",
) -> Response:
    """Return the report as ``html``, ``pdf``, ``zip`` (all data) or ``md`` (zipped with charts).

    A form whose package is not installed at the service is refused with 422. A report is written
    once for all who ask for it within a second, while nothing changes.
    """
    service = context.service
    view = await context.viewed(lambda: service.look(experiment))

    def write() -> ReportFile:
        state = experiment_state(view.experiment, view.now_s(), service.execution(experiment))
        events = service.store.load(experiment)[: view.experiment.n_events]
        return downloaded(report_content(view.experiment, events, state=state), f".{form}")

    file = await context.answers.get(f"report {form}", view.experiment, write, FRESH_S)
    headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
    return Response(file.body, media_type=file.media_type, headers=headers)


@query_router.get(
    "/experiments/{experiment}/cluster-settings/{system}",
    response_class=PlainTextResponse,
    responses=responses(409),
)
async def cluster_settings(
    experiment: ExperimentId,
    system: ClusterSystem,
    context: ContextOf,
    run: Annotated[int | None, Query(ge=1)] = None,
) -> PlainTextResponse:
    """Return what to change on a cluster for a configuration: lines of ``slurm.conf`` or YAML.

    ``run`` is the number of a run; without it the best one is meant. The text is written once for
    all who ask for it, while nothing changes.
    """
    view = (await context.viewed(lambda: context.service.look(experiment))).experiment
    write = partial(settings_text, view, system, run)
    return PlainTextResponse(await context.answers.get(f"{system} {run}", view, write))


@query_router.post(
    "/experiments/{experiment}/what-if",
    responses=responses(409),
)
def what_if(experiment: ExperimentId, body: WhatIfIn, service: ServiceOf) -> WhatIf:
    """Return the forecast for a hypothetical change, without making the change."""
    return service.look(experiment).what_if(**body.model_dump())


def _word(value: bool) -> str:
    return "true" if value else "false"


async def _stream(
    context: ServiceContext, caller: Caller, experiment: str, start: int
) -> AsyncIterator[str]:
    """Yield the stored events and the new ones; read the store only after a change.

    It ends with the service, or when the token of the client is no longer valid.
    """
    store, book = context.service.store, context.service.book
    at, quiet_s, last_change = start, 0.0, -1
    while not context.drain.has_begun:
        if caller.holder is not None and not book.lets_in(caller.holder):
            return
        changes, lines = store.changes, []
        if changes != last_change:
            try:
                lines = await to_thread.run_sync(
                    store.lines, experiment, at, PAGE, limiter=context.watch
                )
            except AssistantError:
                return  # the client reconnects and receives the reason then
            last_change = -1 if len(lines) == PAGE else changes
        for line in lines:
            yield f"id: {at}\nevent: {json.loads(line)['type']}\ndata: {line}\n\n"
            at += 1
        if lines:
            quiet_s = 0.0
            continue
        quiet_s += LOOK_S
        if quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(LOOK_S)


def _exported(service: ExperimentService, experiment: str) -> Iterator[str]:
    at = 0
    while lines := service.store.lines(experiment, at, PAGE):
        yield "".join(f"{line}\n" for line in lines)
        at += len(lines)


health_router = APIRouter(tags=["operations"])


@health_router.get("/health")
async def health(context: ContextOf) -> HealthOut:
    """Return the state of the service. This is the only path that needs no token."""
    return HealthOut(
        status="draining" if context.drain.has_begun else "ok", version=context.version
    )


@health_router.get("/metrics", dependencies=[VIEWER], response_class=Response)
def metrics(context: ContextOf) -> Response:
    """Return the metrics of the service in the text format of Prometheus."""
    return Response(context.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")


command_router = APIRouter(
    prefix="/v1", tags=["commands"], dependencies=[STEERER], responses=responses(404, 409, 412, 422)
)
suggestion_router = APIRouter(
    prefix="/v1", tags=["commands"], dependencies=[SUGGESTER],
    responses=responses(404, 409, 412, 422),
)  # fmt: skip


def _answer(decided: CommandResult) -> Response:
    """Return the answer of a command; the events are sent as they are stored."""
    header = {
        "experiment": decided.experiment_id,
        "version": decided.version,
        "first": decided.first,
        "again": decided.again,
    }
    body = f'{json.dumps(header)[:-1]}, "events": [{",".join(decided.lines)}]}}'
    return Response(body, media_type="application/json", headers={"ETag": f'"{decided.version}"'})


@command_router.post("/experiments", response_model=CommandResultOut)
def open_experiment(
    body: schemas.OpenIn, request: IdempotentRequestOf, service: ServiceOf
) -> Response:
    """Open an experiment from sweep settings, or from a description if the client runs it."""
    if (body.settings is None) == (body.described is None):
        raise refusal(422, "an experiment needs either 'settings' or 'described'; send one of them")
    if body.settings is not None:
        return _answer(service.open_settings(body.settings, body.name, request))
    try:
        event_body = {**(body.described or {}), "type": "ExperimentOpened"}
        described = decode_event(json.dumps(event_body))
    except CodecError as error:
        raise refusal(422, f"the description is wrong: {error}") from error
    if not isinstance(described, ExperimentOpened):
        raise refusal(422, "the description is not that of an experiment")
    return _answer(service.open_described(described, request))


@command_router.put(
    "/experiments/{experiment}/runs/{run}/output", status_code=204, dependencies=[OWNER]
)
def save_output(
    experiment: ExperimentId, run: RunNumber, body: schemas.RunOutputIn, service: ServiceOf
) -> None:
    """Store what the program of a run printed, for a session in another process."""
    if run > len(service.look(experiment).experiment.runs):
        raise refusal(404, f"experiment '{experiment}' has no run {run}")
    service.store.save_output(experiment, run, RunOutput(body.stdout, body.stderr))


@command_router.post(
    "/experiments/{experiment}/events", response_model=CommandResultOut, dependencies=[OWNER]
)
def append(
    experiment: ExperimentId,
    body: schemas.EventsIn,
    request: VersionedRequestOf,
    service: ServiceOf,
) -> Response:
    """Append the events of a session in another process, if they continue the event log."""
    try:
        events = tuple(decode_event(json.dumps(record)) for record in body.events)
    except CodecError as error:
        raise refusal(422, str(error)) from error
    return _answer(service.append(experiment, body.position, events, request))


def _route_of(kind: type[Command]) -> Callable[..., Response]:
    """Return the function of a command's route: the path and the body have its fields."""
    body_model = schemas.command_body(kind)

    def endpoint(
        experiment: str,
        request: IdempotentRequest,
        service: ExperimentService,
        body: schemas.CommandIn | None = None,
        **path: int,
    ) -> Response:
        fields = {} if body is None else body.fields()
        return _answer(service.decide(experiment, request, kind(**path, **fields)))

    annotations: dict[str, Any] = {
        "experiment": ExperimentId,
        **dict.fromkeys(schemas.path_fields(kind), RunNumber),
        **({} if body_model is None else {"body": body_model}),
        "request": VersionedRequestOf,
        "service": ServiceOf,
    }
    parameters = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation)
        for name, annotation in annotations.items()
    ]
    endpoint.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    endpoint.__name__ = schemas.snake_case(kind.__name__)
    endpoint.__doc__ = kind.__doc__
    return endpoint


for _kind in COMMANDS:
    (suggestion_router if _kind is SuggestBatch else command_router).add_api_route(
        f"/experiments/{{experiment}}{_kind.route.path}",
        _route_of(_kind),
        methods=[_kind.route.method],
        response_model=CommandResultOut,
    )


@command_router.post("/experiments/{experiment}/start", status_code=204)
def start(experiment: ExperimentId, request: VersionedRequestOf, service: ServiceOf) -> None:
    """Allow workers to lease the runs of an experiment."""
    service.activate(experiment, True, request)


@command_router.post("/experiments/{experiment}/pause", status_code=204)
def pause(experiment: ExperimentId, request: VersionedRequestOf, service: ServiceOf) -> None:
    """Stop workers from leasing runs of an experiment; running runs continue."""
    service.activate(experiment, False, request)
