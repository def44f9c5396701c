"""The service as one ASGI app: routes over a house, behind the walls, with its housekeeping."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from assistant.service.auth import Tokens
from assistant.service.context import Context
from assistant.service.guard import Limits, guarded
from assistant.service.helm import Helm
from assistant.service.house import LOOK_AFTER_S, House
from assistant.service.logs import Log
from assistant.service.metrics import Metrics
from assistant.service.routes import ROUTERS
from assistant.service.server import Drain
from assistant.service.walls import BodyRule
from assistant.starting import version

PUBLIC = ("/health",)
MOST_BYTES = 64 * 1024 * 1024
"""Of the bodies that carry many results or events."""
FORGET_AFTER_S = 3600.0
LIMITS = Limits(rules=(BodyRule("/import", MOST_BYTES), BodyRule("/journal", MOST_BYTES)))


@dataclass(frozen=True, slots=True)
class Service:
    """An app with what it is made of.

    Args:
        asgi: what a server serves.
        app: the routes alone, for their OpenAPI document.
        context: the house and the end.
    """

    asgi: ASGIApp
    app: FastAPI
    context: Context


def make_service(
    house: House,
    tokens: Tokens,
    log: Log,
    *,
    names: Collection[str] = (),
    limits: Limits = LIMITS,
    look_after_s: float = LOOK_AFTER_S,
    alone: bool = True,
) -> Service:
    """Return the service of a house.

    Args:
        house: the store and what is done with it.
        tokens: who is let in.
        log: one line a request.
        names: under which it is reached, besides the loopback's.
        limits: how much it takes.
        look_after_s: how often leases are looked at.
        alone: whether nothing else in this process executes runs of the store, so that those which
            go on without a lease are of a process that is gone.
    """
    helm = Helm(house)
    metrics = Metrics()
    house.count_in(metrics)
    context = Context(house, Drain(), metrics, version())

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(partial(house.take_over, alone=alone))
        tasks = [
            asyncio.create_task(_keep(house, log, look_after_s)),
            asyncio.create_task(_steer(helm, log, look_after_s)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await run_in_threadpool(helm.end)

    app = documented(lifespan)
    app.state.context = context
    asgi = guarded(
        app, tokens, log, book=house.book, metrics=metrics, names=names, public=PUBLIC,
        limits=limits,
    )  # fmt: skip
    return Service(asgi, app, context)


def documented(lifespan: object = None) -> FastAPI:
    """Return the routes, as their OpenAPI document tells them."""
    app = FastAPI(
        title="Copperline",
        version="1",
        description="Steer parameter sweeps: experiments, suggestions, runs, claims, forecasts.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,  # type: ignore[arg-type]
    )
    for router in ROUTERS:
        app.include_router(router)
    return app


async def _keep(house: House, log: Log, every_s: float) -> None:
    """Look after the house until the service ends; a fault of it is logged, and it goes on."""
    forgotten_s = -math.inf
    while True:
        if time.monotonic() >= forgotten_s + FORGET_AFTER_S:
            forgotten_s = time.monotonic()
            await _try(log, house.forget)
        await asyncio.sleep(every_s)
        await _try(log, house.look_after)


async def _steer(helm: Helm, log: Log, every_s: float) -> None:
    """Take the steps that are due until the service ends; thinking may take its time."""
    while True:
        await asyncio.sleep(every_s)
        await _try(log, helm.turn)


async def _try(log: Log, work: object) -> None:
    try:
        await run_in_threadpool(work)  # type: ignore[arg-type]
    except Exception as error:
        log.error("housekeeping failed", error=error)
