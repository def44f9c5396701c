"""Routes for workers: lease a run, renew the lease, report results, or return the run.

They have threads of their own, so that slow decisions do not delay them.

Routes of named tokens and of external clients, which register here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from anyio import to_thread
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from assistant.core.codec import encode_event
from assistant.core.errors import LeaseLostError, SettingsError, UnknownExperimentError
from assistant.core.ports import RunLease
from assistant.core.run import RunOutput
from assistant.core.sla import AutoSteering
from assistant.service import schemas
from assistant.service.api_tokens import ApiToken, ApiTokenStore, Role, token_name_of
from assistant.service.auth import Caller, RoleRequirement, caller_of
from assistant.service.dependencies import (
    ANYBODY,
    STEERER,
    WORKER,
    ContextOf,
    IdempotentRequestOf,
    ServiceContext,
    ServiceOf,
)
from assistant.service.experiment_service import ExperimentService
from assistant.service.external_clients import ProgramRegistration, register
from assistant.service.observability import annotate_request
from assistant.service.problems import refusal, responses
from assistant.service.schemas import (
    MEDIA_TYPE,
    ApiTokenIn,
    ApiTokenOut,
    ApplicationSnapshotOut,
    CallerOut,
    LeaseOut,
    LeaseOutlookOut,
    NewApiTokenOut,
    RegistrationOut,
    ResultReceiptOut,
    RunLeaseOut,
    plain_text,
    wants_plain_text,
)
from assistant.session.auto_steering import will_suggest
from assistant.store.queue import LeaseAttempt

lease_router = APIRouter(
    prefix="/v1", tags=["leases"], dependencies=[WORKER], responses=responses(409, 422)
)

NO_WISHES = schemas.LeaseRequestIn()
WAIT_S, PAUSED_S, BUSY_S = 1, 10, 5
"""Seconds until the next request for a lease, sent as Retry-After if no run may start now.

Many workers wait longer, up to ``BUSY_S``, so that idle ones ask `ASKED_PER_S` times a second.
"""
ASKED_PER_S = 100

Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
T = TypeVar("T")


@lease_router.post(
    "/leases",
    response_model=RunLeaseOut,
    responses={
        200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}},
        204: {"description": "No run may start now; Retry-After has the seconds to wait"},
        **responses(410),
    },
)
async def lease(
    keyed_request: IdempotentRequestOf,
    request: Request,
    context: ContextOf,
    body: schemas.LeaseRequestIn = NO_WISHES,
    accept: Annotated[str, Header()] = "application/json",
) -> RunLeaseOut | Response:
    """Lease the waiting run of highest priority, the oldest first; 204 if no run may start.

    A repeated request with the same Idempotency-Key returns the same run while it is leased.
    Runs of an experiment with an external client go only to its adapter and to requests that
    name the experiment. 410 means that it is finished. ``Accept: text/plain`` returns lines of
    ``name=value``.
    """
    if context.drain.has_begun:
        raise refusal(503, "the service is shutting down; request a lease when it is back")
    service, caller = context.service, caller_of(request)
    worker, only = body.worker or caller.name, body.experiment or caller.experiment_id
    if worker is None:
        raise refusal(422, "'worker' is missing")
    if only is not None:
        caller.refuse_other(only)
    _refuse_name(service.book, caller, worker)
    annotate_request(request.scope, worker=worker)

    def take() -> RunLease | Response:
        if only is not None and service.store.length(only):
            service.client_liveness.note(only)
        service.worker_liveness.note(worker, only, body.without)
        lease = service.queue.lease(worker, body.lease_s, only, keyed_request.key, body.without)
        return lease or _nothing(service, only)

    lease = await _at_work(context, take)
    if isinstance(lease, Response):
        service.counts.leased("none")
        return lease
    service.counts.leased("again" if lease.again else "given")
    annotate_request(request.scope, experiment=lease.experiment_id, run=lease.run_id)
    answer = _lease(lease)
    if wants_plain_text(accept):
        return Response(plain_text(answer.model_dump()), media_type=MEDIA_TYPE)
    return answer


@lease_router.get("/leases", response_model=LeaseOutlookOut)
async def lease_outlook(
    request: Request,
    context: ContextOf,
    experiment: str | None = None,
    without: Annotated[list[str] | None, Query()] = None,
) -> LeaseOutlookOut:
    """Say whether runs will wait without a person: auto-steering will suggest the next batch."""
    service, caller = context.service, caller_of(request)
    only = experiment or caller.experiment_id
    if only is not None:
        caller.refuse_other(only)

    def look() -> bool:
        names = service.queue.active()
        if only is None:
            names = tuple(n for n in names if not service.queue.is_external(n))
        return any(
            will_suggest(service.session(name).experiment)
            for name in names
            if only in (None, name) and name not in (without or ())
        )

    return LeaseOutlookOut(expected=await _at_work(context, look))


def _nothing(service: ExperimentService, only: str | None) -> Response:
    """Return the answer where no run may start. Raises ProblemError (410) if none ever will.

    Only external clients receive 410: workers wait for other experiments.
    """
    wait_s = max(WAIT_S, min(BUSY_S, service.worker_liveness.n_workers // ASKED_PER_S))
    if only is not None and service.store.length(only) and service.queue.is_external(only):
        reason = service.queue.why_finished(only)
        if reason is not None:
            raise refusal(
                410,
                f"experiment '{only}' is finished: {reason}",
                f"stop; GET /v1/experiments/{only} returns the results",
            )
        service.session(only)  # loads the session, so that it is finished in its time
        wait_s = wait_s if service.queue.is_active(only) else PAUSED_S
    return Response(status_code=204, headers={"Retry-After": str(wait_s)})


@lease_router.post("/leases/{token}/heartbeat", responses=responses(404))
async def heartbeat(token: Token, request: Request, context: ContextOf) -> LeaseOut:
    """Renew a lease. Status 409 means that the lease is lost and the worker must stop the run."""

    def beat() -> float:
        _tell(request, context, token)
        return context.service.queue.heartbeat(token)

    return LeaseOut(lease_s=await _at_work(context, beat))


@lease_router.post(
    "/leases/{token}/report",
    status_code=204,
    responses=responses(404),
)
async def report(
    token: Token, body: schemas.IntermediateResultIn, request: Request, context: ContextOf
) -> None:
    """Record an intermediate result of a running run."""

    def record() -> None:
        attempt = _tell(request, context, token)
        context.service.queue.report(token, schemas.measures_of(body.measures) or {})
        context.service.stop_hopeless(attempt.experiment_id, attempt.run_id)

    await _at_work(context, record)


@lease_router.post("/leases/{token}/result", responses=responses(404))
async def result(
    token: Token, body: schemas.RunResultIn, request: Request, context: ContextOf
) -> ResultReceiptOut:
    """Record the result or failure of a run. A repeat is accepted, a different result gets 409."""
    if (body.measures is None) == (body.failure is None):
        raise refusal(422, "a result needs either 'measures' or 'failure' with the reason")
    queue, counts = context.service.queue, context.service.counts

    def record() -> bool:
        _tell(request, context, token)
        measures = schemas.measures_of(body.measures)
        try:
            first = queue.complete(token, measures, body.failure, _lasted_s(context, token, body))
        except LeaseLostError:
            counts.resulted("refused")
            raise
        attempt = queue.attempt(token)
        state = attempt.state
        if first and body.output is not None:
            text = RunOutput(body.output.stdout, body.output.stderr)
            context.service.store.save_output(attempt.experiment_id, attempt.run_id, text)
        counts.resulted(state if first else "again")
        annotate_request(request.scope, state=state)
        return first

    return ResultReceiptOut(recorded=True, first_time=await _at_work(context, record))


@lease_router.post(
    "/leases/{token}/return",
    status_code=204,
    responses=responses(404),
)
async def give_back(
    token: Token, body: schemas.ReturnIn, request: Request, context: ContextOf
) -> None:
    """Return a leased run to the queue because this worker cannot finish it.

    A run whose process has died (`lost`) fails after several such losses.
    """

    def given_back() -> None:
        _tell(request, context, token)
        reason = body.reason or "its worker returned it"
        context.service.queue.give_back(token, reason, lost=body.lost)

    await _at_work(context, given_back)


@lease_router.get(
    "/leases/{token}/application",
    responses=responses(404),
)
async def application(token: Token, request: Request, context: ContextOf) -> ApplicationSnapshotOut:
    """Return the data from which a worker builds the application that executes its leased run."""

    def needed() -> ApplicationSnapshotOut:
        attempt = _tell(request, context, token)
        if not attempt.is_current:
            raise LeaseLostError(f"run {attempt.run_id} is not leased under this token any more")
        opened = context.service.store.opened(attempt.experiment_id)
        return ApplicationSnapshotOut(
            experiment=attempt.experiment_id,
            recipe=dict(opened.recipe),
            opened=json.loads(encode_event(opened)),
        )

    return await _at_work(context, needed)


def _lasted_s(context: ServiceContext, token: str, body: schemas.RunResultIn) -> float:
    """Return the duration of a run (s): as reported, else since it was leased."""
    if body.duration_s is not None:
        return body.duration_s
    service = context.service
    started_s = service.queue.started_s(service.queue.attempt(token).experiment_id, token)
    return 0.0 if started_s is None else max(0.0, service.clock.now_s() - started_s)


async def _at_work(context: ServiceContext, work: Callable[[], T]) -> T:
    return await to_thread.run_sync(work, limiter=context.work)


def _tell(request: Request, context: ServiceContext, token: str) -> LeaseAttempt:
    """Return the attempt of a lease, and add it to the log.

    Raises ProblemError (403) if the lease belongs to the token of another name.
    """
    attempt = context.service.queue.attempt(token)
    annotate_request(
        request.scope, experiment=attempt.experiment_id, run=attempt.run_id, worker=attempt.worker
    )
    caller = caller_of(request)
    caller.refuse_other(attempt.experiment_id)
    name = token_name_of(attempt.worker)
    if caller.role is not Role.OWNER and caller.name != (
        name if context.service.book.has(name) else None
    ):
        raise refusal(403, "this run was leased with another API token", "lease another run")
    context.service.client_liveness.note(attempt.experiment_id)
    context.service.worker_liveness.note_again(attempt.worker)
    return attempt


def _refuse_name(book: ApiTokenStore, caller: Caller, worker: str) -> None:
    """Refuse (403) a worker name that belongs to another token."""
    name = token_name_of(worker)
    if caller.name is not None and name != caller.name:
        raise refusal(
            403,
            f"a worker with the token '{caller.name}' cannot have the name '{worker}'",
            f"use the name '{caller.name}', or '{caller.name}/' and any text",
        )
    if caller.name is None and book.has(name):
        raise refusal(403, f"'{name}' is the name of a token; choose another name for the worker")


def _lease(lease: RunLease) -> RunLeaseOut:
    return RunLeaseOut(
        experiment=lease.experiment_id,
        run=lease.run_id,
        token=lease.token,
        attempt=lease.attempt,
        values=dict(lease.values),
        seed=lease.seed,
        limit_s=lease.limit_s,
        lease_s=lease.lease_s,
    )


token_router = APIRouter(prefix="/v1", tags=["tokens"])

TokenName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]


@token_router.get("/caller", dependencies=[ANYBODY])
async def caller(request: Request) -> CallerOut:
    """Return the role, name, experiment and expiry of the token of this request."""
    asking = caller_of(request)
    return CallerOut(
        role=asking.role,
        name=asking.name,
        experiment=asking.experiment_id,
        expires_s=None if asking.holder is None else asking.holder.expires_s,
    )


@token_router.get("/tokens", dependencies=[STEERER])
def tokens(service: ServiceOf) -> list[ApiTokenOut]:
    """List the named tokens, newest first, without their secrets, which are not stored."""
    return [ApiTokenOut(**_told(holder)) for holder in service.book.holders()]


@token_router.post("/tokens", dependencies=[STEERER], responses=responses(409, 422))
def make(
    body: ApiTokenIn, keyed_request: IdempotentRequestOf, request: Request, service: ServiceOf
) -> NewApiTokenOut:
    """Create a named token. Only this answer contains its secret.

    A repeated request with the same Idempotency-Key, after a lost answer, creates another token
    that replaces the first one.
    """
    asking, role = caller_of(request), Role(body.role)
    _refuse_more(asking, role)
    ends_s = None if asking.holder is None else asking.holder.expires_s
    if ends_s is not None and (body.expires_s is None or body.expires_s > ends_s):
        raise refusal(
            403,
            "a new token cannot expire later than the token that creates it",
            f"send an expires_s of at most {ends_s:.0f}",
        )
    again = service.once(keyed_request)
    try:
        token = service.issue_token(
            body.name, role, experiment_id=body.experiment, expires_s=body.expires_s,
            created_by=asking.name, again=again,
        )  # fmt: skip
    except UnknownExperimentError as error:  # an experiment of the body, not of the path
        raise SettingsError(str(error)) from error
    if not again:
        service.remember(keyed_request)
    annotate_request(request.scope, made=body.name)
    holder = service.book.holder_of(token.encode())
    if holder is None:
        raise refusal(409, f"the token '{body.name}' was revoked during its creation")
    return NewApiTokenOut(token=token, **_told(holder))


@token_router.delete(
    "/tokens/{name}", status_code=204, dependencies=[STEERER], responses=responses(404, 409, 422)
)
def revoke(
    name: TokenName, keyed_request: IdempotentRequestOf, request: Request, service: ServiceOf
) -> None:
    """Revoke a named token at once; the runs leased with it return to the queue."""
    if service.once(keyed_request):
        return
    there = service.book.get(name)
    if there is None:
        raise refusal(404, f"there is no token '{name}'", "GET /v1/tokens lists the tokens")
    _refuse_more(caller_of(request), there.role)
    service.revoke_token(name)
    service.remember(keyed_request)
    annotate_request(request.scope, revoked=name)


def _refuse_more(asking: Caller, role: Role) -> None:
    """Refuse (403) a token of a role that the caller may not hand out."""
    if not asking.role.hands_out(role):
        raise refusal(
            403,
            f"the role {asking.role} may not create or revoke tokens of the role {role}",
            "use the command line on the machine of the store",
        )


def _told(holder: ApiToken) -> dict[str, Any]:
    return {
        "role": holder.role,
        "name": holder.name,
        "experiment": holder.experiment_id,
        "expires_s": holder.expires_s,
        "created_s": holder.created_s,
        "created_by": holder.created_by,
    }


registration_router = APIRouter(
    prefix="/v1", tags=["external clients"], responses=responses(406, 409, 422)
)


@registration_router.post(
    "/adapters",
    status_code=201,
    response_model=RegistrationOut,
    responses={201: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
def register_program(
    body: schemas.RegisterIn,
    request: IdempotentRequestOf,
    service: ServiceOf,
    caller: Annotated[Caller, Depends(RoleRequirement(Role.STEERER))],
    accept: Annotated[str, Header()] = "application/json",
) -> RegistrationOut | Response:
    """Register an external client: open its experiment and return its API token.

    With ``resume`` it continues the latest unfinished experiment of its name, if there is one. A
    repeated request with the same Idempotency-Key is the same registration, but the token of the
    first answer is no longer valid. ``Accept: text/plain`` returns lines of ``name=value``.
    """
    how = body.auto_steering
    auto_steering = (
        AutoSteering(**how.model_dump()) if isinstance(how, schemas.AutoSteeringIn) else how
    )
    registration = ProgramRegistration(body.name, body.settings, auto_steering, body.resume)
    program = register(service, registration, request, caller.name)
    answer = RegistrationOut(
        experiment=program.experiment_id,
        token=program.token,
        worker=program.holder,
        resumed=program.resumed,
    )
    if wants_plain_text(accept):
        return Response(plain_text(answer.model_dump()), status_code=201, media_type=MEDIA_TYPE)
    return answer
