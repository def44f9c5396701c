"""The service as one ASGI app: routes, middleware, housekeeping and auto-steering.

``python -m assistant.service.app > docs/openapi.json`` writes its OpenAPI document.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp

from assistant.analysis.broken_program import broken_program
from assistant.config.snapshot import stored_hooks
from assistant.core.errors import AssistantError, VersionConflictError
from assistant.core.run import RunState
from assistant.core.sla import AutoSteering
from assistant.core.version import version
from assistant.hooks.notifier import Notifier
from assistant.service.auth import RoleTokens
from assistant.service.dependencies import ServiceContext
from assistant.service.experiment_service import LOOK_AFTER_S, ExperimentService
from assistant.service.middleware import BodyRule, ServiceLimits, build_middleware
from assistant.service.observability import MetricsRegistry, ServiceLog
from assistant.service.problems import PROBLEM_SCHEMA, responses
from assistant.service.routes import ROUTERS
from assistant.service.server import DrainState
from assistant.session.auto_steering import auto_steer_step
from assistant.session.session import Session
from strategies import StrategyError


class AutoSteeringLoop:
    """Loop that takes the auto-steering steps of all experiments and sends their events to hooks.

    Hooks run only if the service executes runs, or if requests may name programs anyway.
    """

    def __init__(self, service: ExperimentService) -> None:
        self._service = service
        self._notifiers: dict[str, Notifier | None] = {}

    def turn(self) -> None:
        """Take all due auto-steering steps; an error affects only the experiment concerned."""
        for experiment_id in self._service.queue.active():
            try:
                session = self._service.session(experiment_id)
                self._follow(session)
                self._step(session)
            except VersionConflictError:
                continue  # a person has decided meanwhile
            except (AssistantError, StrategyError) as error:
                self._give_back(experiment_id, error)

    def end(self) -> None:
        """Wait for running hooks to end, at most for their grace period."""
        for notifier in self._notifiers.values():
            if notifier is not None:
                notifier.end()

    def _follow(self, session: Session) -> None:
        if session.id in self._notifiers:
            return
        self._notifiers[session.id] = None
        hooks = stored_hooks(session.experiment)
        if not hooks.kinds:
            return
        if not (self._service.executes or self._service.programs):
            self._service.note(session.id, "this service does not start its hooks")
            return
        notifier = Notifier(hooks, lambda sentence: self._service.note(session.id, sentence))
        notifier.follow(session)
        self._notifiers[session.id] = notifier

    def _step(self, session: Session) -> None:
        experiment = session.experiment
        how = experiment.auto_steering
        if how is None:
            return
        broken = broken_program(experiment)
        if broken is not None:  # runs under way end, waiting ones stay for the time after a repair
            session.finish(broken)
            return
        if experiment.n_in(RunState.QUEUED, RunState.RUNNING):
            return
        if how.warnings == "wait" and experiment.open_warning is not None:
            return
        reason = auto_steer_step(session, how)
        if reason is not None and not _waits(session, how):
            session.set_auto_steering(None, reason)
            if self._service.queue.is_external(session.id):
                session.finish(reason)  # so its program learns of the end
            notifier = self._notifiers[session.id]
            if notifier is not None:
                notifier.steering_ended(reason)

    def _give_back(self, experiment_id: str, error: Exception) -> None:
        """Turn off auto-steering of an experiment after an error, so that a person decides."""
        sentence = str(error)
        self._service.log.error("cannot steer", error=error, experiment=experiment_id)
        self._service.note(experiment_id, sentence)
        try:
            session = self._service.session(experiment_id)
        except AssistantError:  # it cannot be read, so nothing of it is executed
            self._service.queue.set_active(experiment_id, False)
            return
        if session.experiment.auto_steering is not None:
            session.set_auto_steering(None, sentence)
        notifier = self._notifiers.get(experiment_id)
        if notifier is not None:
            notifier.sweep_failed(sentence)


def _waits(session: Session, how: AutoSteering) -> bool:
    return how.warnings == "wait" and session.experiment.open_warning is not None


PUBLIC = ("/health",)
MOST_BYTES = 64 * 1024 * 1024  # of bodies with many results or events
FORGET_AFTER_S = 3600.0
OUTPUT_BYTES = 4 * 1024 * 1024  # of bodies with the output of a run: JSON escapes its characters
MOST_WAITING = 512  # of requests that look on, and of decisions
LIMITS = ServiceLimits(
    waiting=MOST_WAITING,
    rules=(
        BodyRule("/import", MOST_BYTES),
        BodyRule("/events", MOST_BYTES),
        BodyRule("/result", OUTPUT_BYTES),
        BodyRule("/output", OUTPUT_BYTES),
    ),
)


@dataclass(frozen=True, slots=True)
class ServiceApp:
    """Web app of the service: FastAPI app (``app``), app in its middleware (``asgi``), context."""

    asgi: ASGIApp
    app: FastAPI
    context: ServiceContext


def make_service(
    service: ExperimentService,
    tokens: RoleTokens,
    log: ServiceLog,
    *,
    names: Collection[str] = (),
    limits: ServiceLimits = LIMITS,
    look_after_s: float = LOOK_AFTER_S,
    alone: bool = True,
) -> ServiceApp:
    """Return the web app of a service; ``names`` are its host names besides the loopback names.

    ``look_after_s`` is the interval between checks of the leases. ``alone`` says that nothing else
    in this process executes runs of the store: runs without a lease belong to an ended process.
    """
    auto_steering_loop = AutoSteeringLoop(service)
    metrics = MetricsRegistry()
    service.count_in(metrics)
    context = ServiceContext(service, DrainState(), metrics, version())

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(partial(service.take_over, alone=alone))
        tasks = [
            asyncio.create_task(_keep(service, log, look_after_s)),
            asyncio.create_task(_steer(auto_steering_loop, log, look_after_s)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            await run_in_threadpool(auto_steering_loop.end)

    app = make_documentation_app(lifespan)
    app.state.context = context
    asgi = build_middleware(
        app, tokens, log, book=service.book, metrics=metrics, names=names, public=PUBLIC,
        limits=limits,
    )  # fmt: skip
    return ServiceApp(asgi, app, context)


def make_documentation_app(lifespan: object = None) -> FastAPI:
    """Return a FastAPI app with all routes but no middleware, enough for the OpenAPI document."""
    app = FastAPI(
        title="Copperline",
        version="1",
        description="Steer parameter sweeps: experiments, suggestions, runs, leases, forecasts.",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,  # type: ignore[arg-type]
    )
    for router in ROUTERS:
        app.include_router(router)
    return app


async def _keep(service: ExperimentService, log: ServiceLog, every_s: float) -> None:
    """Maintain the leases until the service ends; an error is logged and the loop continues."""
    forgotten_s = -math.inf
    while True:
        if time.monotonic() >= forgotten_s + FORGET_AFTER_S:
            forgotten_s = time.monotonic()
            await _try(log, service.forget)
        await asyncio.sleep(every_s)
        await _try(log, service.look_after)


async def _steer(auto_steering_loop: AutoSteeringLoop, log: ServiceLog, every_s: float) -> None:
    """Take the due steps of auto-steering until the service ends; a step may take long."""
    while True:
        await asyncio.sleep(every_s)
        await _try(log, auto_steering_loop.turn)


async def _try(log: ServiceLog, work: object) -> None:
    try:
        await run_in_threadpool(work)  # type: ignore[arg-type]
    except Exception as error:
        log.error("housekeeping failed", error=error)


EVERYWHERE = (400, 421, 431, 500, 503)
BEHIND_A_TOKEN = (401, 403, 429)
WITH_A_BODY = (408, 413, 415, 422)
THAT_CHANGES = (507,)

Json = dict[str, Any]


def openapi_document(app: FastAPI) -> Json:
    """Return the OpenAPI document of an app, including the errors that its middleware returns."""
    schema: Json = json.loads(json.dumps(app.openapi()))
    used: set[int] = set()
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            used |= _complete(path, method, operation)
    components: Json = schema["components"]
    components["responses"] = {
        f"Problem{n}": response for n, response in responses(*sorted(used)).items()
    }
    schemas = {**components["schemas"], "Problem": dict(PROBLEM_SCHEMA)}
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    components["schemas"] = dict(sorted(schemas.items()))
    return schema


def openapi_text() -> str:
    """Return the service's OpenAPI document as JSON text, the content of ``docs/openapi.json``."""
    return f"{json.dumps(openapi_document(make_documentation_app()), indent=1)}\n"


def _complete(path: str, method: str, operation: Json) -> set[int]:
    """Add to an operation what any request may receive; return the possible error statuses."""
    declared: Json = operation["responses"]
    statuses = {int(status) for status in declared if int(status) >= 400} | set(EVERYWHERE)
    if operation.get("security"):
        statuses |= set(BEHIND_A_TOKEN)
    if operation.get("requestBody"):
        statuses |= set(WITH_A_BODY)
    if method != "get":
        statuses |= set(THAT_CHANGES)
    if operation.get("parameters"):
        statuses.add(422)
    if "{" not in path:  # nothing is named that might not be there, or might have gone on
        statuses -= {404, 412}
    answers = {status: response for status, response in declared.items() if int(status) < 400}
    refusals = {str(n): {"$ref": f"#/components/responses/Problem{n}"} for n in sorted(statuses)}
    operation["responses"] = answers | refusals
    operation["summary"] = operation["description"].split("\n\n")[0].replace("\n", " ")
    return statuses


if __name__ == "__main__":
    sys.stdout.write(openapi_text())
