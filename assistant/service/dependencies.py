"""FastAPI dependencies of routes: context, experiment service, request identity, experiment id."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Depends, Header, Path, Request

from assistant.service.api_tokens import Role
from assistant.service.auth import RoleRequirement
from assistant.service.experiment_service import ExperimentService, IdempotentRequest
from assistant.service.observability import MetricsRegistry, annotate_request
from assistant.service.problems import refusal
from assistant.service.server import DrainState
from assistant.service.shared_views import SharedAnswers

T = TypeVar("T")
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
WORK_THREADS = 16
WATCH_THREADS = 4
VIEW_THREADS = 8
ANALYSIS_THREADS = 2
_TAG = re.compile(r'"([0-9]{1,15})(?:\.[0-9a-f]{1,16})?"')
"""A version in quotes, or an ETag, which has a digest of the answer behind the version."""


@dataclass(frozen=True, slots=True)
class ServiceContext:
    """Objects shared by all routes of the app, such as the experiment service and the metrics.

    ``work``, ``watch`` and ``view`` are threads of their own for workers, event streams and people
    who look on, so that these do not wait for slow decisions or for one another. ``answers`` are
    the costly ones, which all who ask for them share.
    """

    service: ExperimentService
    drain: DrainState
    metrics: MetricsRegistry
    version: str
    work: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(WORK_THREADS))
    watch: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(WATCH_THREADS))
    view: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(VIEW_THREADS))
    answers: SharedAnswers = field(default_factory=lambda: SharedAnswers(ANALYSIS_THREADS))

    async def viewed(self, work: Callable[[], T]) -> T:
        """Return what a short piece of work returns, in a thread for people who look on."""
        return await to_thread.run_sync(work, limiter=self.view)


async def context_of(request: Request) -> ServiceContext:
    """Return the shared objects of the app that received a request."""
    context: ServiceContext = request.app.state.context
    return context


async def service_of(request: Request) -> ExperimentService:
    """Return the experiment service of the app that received a request."""
    return (await context_of(request)).service


async def idempotent_request_of(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(description="A new key for each request; a repetition has no second effect."),
    ] = None,
) -> IdempotentRequest:
    """Return a request's key and digest, or raise ProblemError for a malformed Idempotency-Key."""
    if idempotency_key is not None and not _KEY.fullmatch(idempotency_key):
        raise refusal(400, "an Idempotency-Key has 1 to 200 printable characters and no space")
    content = f"{request.method} {request.url.path}\n".encode() + await request.body()
    return IdempotentRequest(idempotency_key, hashlib.sha256(content).hexdigest())


async def versioned_request_of(
    keyed: Annotated[IdempotentRequest, Depends(idempotent_request_of)],
    if_match: Annotated[
        str | None,
        Header(description='The expected version in quotes, such as "12"; others are refused.'),
    ] = None,
) -> IdempotentRequest:
    """Return a request's key, digest and If-Match version, or raise ProblemError if malformed."""
    tag = None if if_match is None else _TAG.fullmatch(if_match)
    if if_match is not None and tag is None:
        raise refusal(400, 'If-Match is a version in quotes, such as "12"')
    return replace(keyed, version=None if tag is None else int(tag.group(1)))


async def path_experiment(
    request: Request, experiment: Annotated[str, Path(max_length=200)]
) -> str:
    """Return the experiment id in a URL path and add it to the log line of the request."""
    annotate_request(request.scope, experiment=experiment)
    return experiment


ServiceOf = Annotated[ExperimentService, Depends(service_of)]
ContextOf = Annotated[ServiceContext, Depends(context_of)]
IdempotentRequestOf = Annotated[IdempotentRequest, Depends(idempotent_request_of)]
VersionedRequestOf = Annotated[IdempotentRequest, Depends(versioned_request_of)]
ExperimentId = Annotated[str, Depends(path_experiment)]
RunNumber = Annotated[int, Path(ge=1, le=10**9)]

VIEWER = Depends(RoleRequirement(Role.VIEWER))
SUGGESTER = Depends(RoleRequirement(Role.SUGGESTER))
STEERER = Depends(RoleRequirement(Role.STEERER))
OWNER = Depends(RoleRequirement(Role.OWNER))
WORKER = Depends(RoleRequirement(Role.WORKER))
VIEWER_OR_ADAPTER = Depends(RoleRequirement(Role.VIEWER, Role.ADAPTER))
ANYBODY = Depends(RoleRequirement(Role.VIEWER, Role.WORKER))
