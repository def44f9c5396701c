"""Routes of queries, for the role viewer; health and metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from assistant.analysis.what_if import WhatIf
from assistant.core.errors import AssistantError
from assistant.core.forecast import Forecast
from assistant.core.run import RunState
from assistant.service.auth import Caller, caller_of
from assistant.service.dependencies import (
    VIEWER,
    VIEWER_OR_ADAPTER,
    ContextOf,
    ExperimentId,
    RunNumber,
    ServiceContext,
    ServiceOf,
)
from assistant.service.experiment_service import ExperimentService
from assistant.service.problems import refusal, responses
from assistant.service.schemas import MEDIA_TYPE as LINES
from assistant.service.schemas import (
    EventsOut,
    ExecutionOut,
    ExperimentItemOut,
    HealthOut,
    OverviewOut,
    RunOut,
    WhatIfIn,
    overview,
    plain_text,
    run_out,
    summary_fields,
    wants_plain_text,
)
from assistant.service.schemas import execution as execution_of

query_router = APIRouter(
    prefix="/v1", tags=["reading"], dependencies=[VIEWER], responses=responses(404, 422)
)
state_router = APIRouter(
    prefix="/v1", tags=["reading"], dependencies=[VIEWER_OR_ADAPTER], responses=responses(404, 422)
)

PAGE = 1000
LOOK_S = 0.2  # interval between two looks of a stream for new events
ALIVE_S = 2.0  # interval of keep-alive lines on an idle stream


@query_router.get("/experiments")
def experiments(house: ServiceOf) -> list[ExperimentItemOut]:
    """List what is stored, latest first."""
    return [
        ExperimentItemOut(
            experiment=stored.id, name=stored.name, opened_s=stored.opened_s, events=stored.n_events
        )
        for stored in house.store.experiments()
    ]


@state_router.get(
    "/experiments/{experiment}",
    response_model=OverviewOut,
    responses={
        200: {
            "headers": {"ETag": {"schema": {"type": "string"}}},
            "content": {LINES: {"schema": {"type": "string"}}},
        },
        **responses(406),
    },
)
def experiment(
    experiment: ExperimentId,
    house: ServiceOf,
    response: Response,
    accept: Annotated[str, Header()] = "application/json",
) -> OverviewOut | Response:
    """Return one experiment in a few numbers; ETag is its version, for If-Match.

    ``Accept: text/plain`` gives how far it is and what is best as lines of ``name=value``.
    """
    body = overview(house, house.look(experiment))
    tag = {"ETag": f'"{body.version}"'}
    if wants_plain_text(accept):
        return Response(plain_text(summary_fields(body)), media_type=LINES, headers=tag)
    response.headers.update(tag)
    return body


@query_router.get("/experiments/{experiment}/runs")
def runs(
    experiment: ExperimentId,
    house: ServiceOf,
    state: RunState | None = None,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
) -> list[RunOut]:
    """Return runs in the order of their submission, from the one behind ``after``."""
    view = house.look(experiment)
    matches = [run for run in view.experiment.runs if run.id > after and state in (None, run.state)]
    return [run_out(view, run) for run in matches[:limit]]


@query_router.get("/experiments/{experiment}/queue")
def queue(experiment: ExperimentId, house: ServiceOf) -> list[RunOut]:
    """Return the runs that may start, the next one in front; at most 1,000 of them."""
    view = house.look(experiment)
    return [run_out(view, run) for run in view.experiment.waiting[:PAGE]]


@query_router.get("/experiments/{experiment}/execution")
def execution(experiment: ExperimentId, house: ServiceOf) -> ExecutionOut:
    """Say who executes the runs: whether workers may have them, and what could not be done."""
    house.session(experiment)  # 404 where there is none
    return execution_of(house, experiment)


@query_router.get("/experiments/{experiment}/runs/{run}")
def run(experiment: ExperimentId, run: RunNumber, house: ServiceOf) -> RunOut:
    """Return one run."""
    view = house.look(experiment)
    if run > len(view.experiment.runs):
        raise refusal(404, f"experiment '{experiment}' has no run {run}")
    return run_out(view, view.experiment.run(run))


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
    """Return the journal: a page of it as JSON, or all that comes as a stream of events.

    A stream (``Accept: text/event-stream``) goes on behind ``Last-Event-ID``, else from ``since``.
    """
    store, caller = context.house.store, caller_of(request)
    if "text/event-stream" in accept:
        await run_in_threadpool(store.lines, experiment, 0, 1)  # raises before anything is sent
        start = since if last_event_id is None else int(last_event_id) + 1
        return StreamingResponse(
            _stream(context, caller, experiment, start), media_type="text/event-stream"
        )
    lines = await run_in_threadpool(store.lines, experiment, since, limit)
    following = since + len(lines)
    length = await run_in_threadpool(store.length, experiment)
    body = f'{{"events":[{",".join(lines)}],"next":{following},"more":{_word(following < length)}}}'
    return Response(body, media_type="application/json")


@query_router.get(
    "/experiments/{experiment}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def export(experiment: ExperimentId, house: ServiceOf) -> StreamingResponse:
    """Return the whole journal, one JSON object a line."""
    house.store.lines(experiment, 0, 1)  # raises before anything is sent
    return StreamingResponse(_exported(house, experiment), media_type="application/x-ndjson")


@query_router.get("/experiments/{experiment}/forecast")
def forecast(experiment: ExperimentId, house: ServiceOf) -> Forecast:
    """Say what comes of the experiment, now."""
    return house.look(experiment).forecast()


@query_router.post(
    "/experiments/{experiment}/what-if",
    responses=responses(409),
)
def what_if(experiment: ExperimentId, body: WhatIfIn, house: ServiceOf) -> WhatIf:
    """Say what a change would come to, and change nothing."""
    return house.look(experiment).what_if(**body.model_dump())


def _word(value: bool) -> str:
    return "true" if value else "false"


async def _stream(
    context: ServiceContext, caller: Caller, experiment: str, start: int
) -> AsyncIterator[str]:
    """Yield the stored events and the new ones; read the store only after a change.

    It ends with the service, or when the token of the client is no longer valid.
    """
    store, book = context.house.store, context.house.book
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


def _exported(house: ExperimentService, experiment: str) -> Iterator[str]:
    at = 0
    while lines := house.store.lines(experiment, at, PAGE):
        yield "".join(f"{line}\n" for line in lines)
        at += len(lines)


health_router = APIRouter(tags=["operations"])


@health_router.get("/health")
async def health(context: ContextOf) -> HealthOut:
    """Say that the service answers. The only path that asks for no token."""
    return HealthOut(
        status="draining" if context.drain.has_begun else "ok", version=context.version
    )


@health_router.get("/metrics", dependencies=[VIEWER], response_class=Response)
def metrics(context: ContextOf) -> Response:
    """Return counters in the text format of Prometheus."""
    return Response(context.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8")
