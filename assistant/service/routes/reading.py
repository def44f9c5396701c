"""Looking at experiments: for the role viewer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from assistant.errors import AssistantError
from assistant.forecasts import Forecast
from assistant.run import RunState
from assistant.service.context import VIEWER, Context, ContextOf, Experiment, HouseOf, RunNumber
from assistant.service.house import House, overview, run_row
from assistant.service.problems import refusal, responses
from assistant.service.schemas import EventsOut, WhatIfIn
from assistant.what_if import WhatIf

router = APIRouter(prefix="/v1", tags=["reading"], dependencies=[VIEWER])

PAGE = 1000
LOOK_S = 0.2
"""How often a stream looks for new events."""
ALIVE_S = 15.0
"""How often a stream that has nothing to say shows that it lives."""

_FORECAST: TypeAdapter[Forecast] = TypeAdapter(Forecast)
_WHAT_IF: TypeAdapter[WhatIf] = TypeAdapter(WhatIf)
Json = dict[str, Any]


@router.get("/experiments")
def experiments(house: HouseOf) -> list[Json]:
    """List what is stored, latest first."""
    return [
        {"experiment": one.id, "name": one.name, "opened_s": one.opened_s, "events": one.n_events}
        for one in house.store.experiments()
    ]


@router.get("/experiments/{experiment}", responses=responses(404))
def experiment(experiment: Experiment, house: HouseOf, response: Response) -> Json:
    """Return one experiment in a few numbers; ETag is its version, for If-Match."""
    told = overview(house, house.current(experiment))
    response.headers["ETag"] = f'"{told["version"]}"'
    return told


@router.get("/experiments/{experiment}/runs", responses=responses(404))
def runs(
    experiment: Experiment,
    house: HouseOf,
    state: RunState | None = None,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE)] = 100,
) -> list[Json]:
    """Return runs in the order of their submission, from the one behind ``after``."""
    session = house.current(experiment)
    found = [run.id for run in session.experiment.runs if state in (None, run.state)]
    return [run_row(session, run_id) for run_id in found if run_id > after][:limit]


@router.get("/experiments/{experiment}/queue", responses=responses(404))
def queue(experiment: Experiment, house: HouseOf) -> list[Json]:
    """Return the runs that may start, the next one in front."""
    session = house.current(experiment)
    return [run_row(session, run.id) for run in session.experiment.waiting[:PAGE]]


@router.get("/experiments/{experiment}/runs/{run}", responses=responses(404))
def run(experiment: Experiment, run: RunNumber, house: HouseOf) -> Json:
    """Return one run."""
    session = house.current(experiment)
    if run > len(session.experiment.runs):
        raise refusal(404, f"experiment '{experiment}' has no run {run}")
    return run_row(session, run)


@router.get(
    "/experiments/{experiment}/events",
    response_model=EventsOut,
    responses={
        200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
        **responses(404),
    },
)
async def events(
    experiment: Experiment,
    context: ContextOf,
    since: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=100_000)] = PAGE,
    accept: Annotated[str, Header()] = "application/json",
    last_event_id: Annotated[str | None, Header(pattern=r"^[0-9]{1,15}$")] = None,
) -> Any:
    """Return the journal: a page of it as JSON, or all that comes as a stream of events.

    A stream (``Accept: text/event-stream``) goes on from ``Last-Event-ID`` or ``since``.
    """
    house = context.house
    lines = await run_in_threadpool(house.store.lines, experiment, since, limit)
    if "text/event-stream" in accept:
        start = since if last_event_id is None else int(last_event_id) + 1
        return StreamingResponse(
            _stream(context, experiment, start), media_type="text/event-stream"
        )
    following = since + len(lines)
    length = await run_in_threadpool(house.store.length, experiment)
    body = f'{{"events":[{",".join(lines)}],"next":{following},"more":{_word(following < length)}}}'
    return Response(body, media_type="application/json")


@router.get("/experiments/{experiment}/export", responses=responses(404))
def export(experiment: Experiment, house: HouseOf) -> StreamingResponse:
    """Return the whole journal, one JSON object a line."""
    house.store.lines(experiment, 0, 1)  # raises before anything is sent
    return StreamingResponse(_exported(house, experiment), media_type="application/x-ndjson")


@router.get("/experiments/{experiment}/forecast", responses=responses(404))
def forecast(experiment: Experiment, house: HouseOf) -> Json:
    """Say what comes of the experiment, now."""
    return _json(_FORECAST, house.current(experiment).forecast())


@router.post("/experiments/{experiment}/what-if", responses=responses(404, 409, 422))
def what_if(experiment: Experiment, body: WhatIfIn, house: HouseOf) -> Json:
    """Say what a change would come to, and change nothing."""
    told = body.model_dump()
    return _json(_WHAT_IF, house.current(experiment).what_if(**told))


def _json(adapter: TypeAdapter[Any], value: object) -> Json:
    told: Json = adapter.dump_python(value, mode="json")
    return told


def _word(value: bool) -> str:
    return "true" if value else "false"


async def _stream(context: Context, experiment: str, start: int) -> AsyncIterator[str]:
    at, quiet_s = start, 0.0
    while not context.drain.has_begun:
        try:
            lines = await run_in_threadpool(context.house.store.lines, experiment, at, PAGE)
        except AssistantError:
            return  # the client comes back, and is told why then
        for line in lines:
            yield f"id: {at}\nevent: {json.loads(line)['type']}\ndata: {line}\n\n"
            at += 1
        quiet_s = 0.0 if lines else quiet_s + LOOK_S
        if quiet_s >= ALIVE_S:
            quiet_s = 0.0
            yield ": alive\n\n"
        if not lines:
            await asyncio.sleep(LOOK_S)


def _exported(house: House, experiment: str) -> Any:
    at = 0
    while lines := house.store.lines(experiment, at, PAGE):
        yield "".join(f"{line}\n" for line in lines)
        at += len(lines)
