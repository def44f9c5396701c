"""Looking at experiments: for the role viewer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from assistant.errors import AssistantError
from assistant.forecasts import Forecast
from assistant.run import RunState
from assistant.service.auth import Caller, caller_of
from assistant.service.context import (
    VIEWER,
    VIEWER_OR_ADAPTER,
    Context,
    ContextOf,
    Experiment,
    HouseOf,
    RunNumber,
)
from assistant.service.house import House
from assistant.service.plain_text import MEDIA_TYPE as LINES
from assistant.service.plain_text import lines_of, wants_lines
from assistant.service.problems import refusal, responses
from assistant.service.schemas import EventsOut, WhatIfIn
from assistant.service.shown import (
    ExecutionOut,
    OverviewOut,
    RunOut,
    StoredOut,
    in_short,
    overview,
    run_shown,
)
from assistant.service.shown import execution as execution_of
from assistant.what_if import WhatIf

router = APIRouter(
    prefix="/v1", tags=["reading"], dependencies=[VIEWER], responses=responses(404, 422)
)
state = APIRouter(
    prefix="/v1", tags=["reading"], dependencies=[VIEWER_OR_ADAPTER], responses=responses(404, 422)
)

PAGE = 1000
LOOK_S = 0.2
"""How often a stream looks for new events."""
ALIVE_S = 2.0
"""How often a stream that has nothing to say shows that it lives."""


@router.get("/experiments")
def experiments(house: HouseOf) -> list[StoredOut]:
    """List what is stored, latest first."""
    return [
        StoredOut(experiment=one.id, name=one.name, opened_s=one.opened_s, events=one.n_events)
        for one in house.store.experiments()
    ]


@state.get(
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
    experiment: Experiment,
    house: HouseOf,
    response: Response,
    accept: Annotated[str, Header()] = "application/json",
) -> OverviewOut | Response:
    """Return one experiment in a few numbers; ETag is its version, for If-Match.

    ``Accept: text/plain`` gives how far it is and what is best as lines of ``name=value``.
    """
    told = overview(house, house.look(experiment))
    tag = {"ETag": f'"{told.version}"'}
    if wants_lines(accept):
        return Response(lines_of(in_short(told)), media_type=LINES, headers=tag)
    response.headers.update(tag)
    return told


@router.get("/experiments/{experiment}/runs")
def runs(
    experiment: Experiment,
    house: HouseOf,
    state: RunState | None = None,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
) -> list[RunOut]:
    """Return runs in the order of their submission, from the one behind ``after``."""
    view = house.look(experiment)
    found = [run for run in view.experiment.runs if run.id > after and state in (None, run.state)]
    return [run_shown(view, run) for run in found[:limit]]


@router.get("/experiments/{experiment}/queue")
def queue(experiment: Experiment, house: HouseOf) -> list[RunOut]:
    """Return the runs that may start, the next one in front; at most 1,000 of them."""
    view = house.look(experiment)
    return [run_shown(view, run) for run in view.experiment.waiting[:PAGE]]


@router.get("/experiments/{experiment}/execution")
def execution(experiment: Experiment, house: HouseOf) -> ExecutionOut:
    """Say who executes the runs: whether workers may have them, and what could not be done."""
    house.session(experiment)  # 404 where there is none
    return execution_of(house, experiment)


@router.get("/experiments/{experiment}/runs/{run}")
def run(experiment: Experiment, run: RunNumber, house: HouseOf) -> RunOut:
    """Return one run."""
    view = house.look(experiment)
    if run > len(view.experiment.runs):
        raise refusal(404, f"experiment '{experiment}' has no run {run}")
    return run_shown(view, view.experiment.run(run))


@router.get(
    "/experiments/{experiment}/events",
    response_model=EventsOut,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(
    experiment: Experiment,
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


@router.get(
    "/experiments/{experiment}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
def export(experiment: Experiment, house: HouseOf) -> StreamingResponse:
    """Return the whole journal, one JSON object a line."""
    house.store.lines(experiment, 0, 1)  # raises before anything is sent
    return StreamingResponse(_exported(house, experiment), media_type="application/x-ndjson")


@router.get("/experiments/{experiment}/forecast")
def forecast(experiment: Experiment, house: HouseOf) -> Forecast:
    """Say what comes of the experiment, now."""
    return house.look(experiment).forecast()


@router.post(
    "/experiments/{experiment}/what-if",
    responses=responses(409),
)
def what_if(experiment: Experiment, body: WhatIfIn, house: HouseOf) -> WhatIf:
    """Say what a change would come to, and change nothing."""
    return house.look(experiment).what_if(**body.model_dump())


def _word(value: bool) -> str:
    return "true" if value else "false"


async def _stream(
    context: Context, caller: Caller, experiment: str, start: int
) -> AsyncIterator[str]:
    """Yield what is stored, and what comes; the store is read only after it has changed.

    It ends with the service, and with the token of whoever listens.
    """
    store, book = context.house.store, context.house.book
    at, quiet_s, seen = start, 0.0, -1
    while not context.drain.has_begun:
        if caller.holder is not None and not book.lets_in(caller.holder):
            return
        changes, lines = store.changes, []
        if changes != seen:
            try:
                lines = await to_thread.run_sync(
                    store.lines, experiment, at, PAGE, limiter=context.watch
                )
            except AssistantError:
                return  # the client comes back, and is told why then
            seen = -1 if len(lines) == PAGE else changes
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


def _exported(house: House, experiment: str) -> Iterator[str]:
    at = 0
    while lines := house.store.lines(experiment, at, PAGE):
        yield "".join(f"{line}\n" for line in lines)
        at += len(lines)
