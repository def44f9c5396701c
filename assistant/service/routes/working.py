"""What workers do: claim, renew, report, end. For the role worker."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from assistant.codec import encode_event
from assistant.errors import ClaimLostError
from assistant.service import schemas
from assistant.service.context import WORKER, ContextOf, HouseOf
from assistant.service.logs import tell
from assistant.service.problems import refusal, responses
from assistant.service.schemas import ClaimOut, LeaseOut, RecipeOut, RecordedOut
from assistant.store import Claim, RunQueue

router = APIRouter(
    prefix="/v1", tags=["working"], dependencies=[WORKER], responses=responses(404, 409, 422)
)

Token = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


@router.post("/claims", response_model=ClaimOut, responses={204: {"description": "Nothing waits"}})
def claim(body: schemas.ClaimIn, request: Request, context: ContextOf) -> ClaimOut | Response:
    """Take the next run, by priority, then by age; 204 if nothing may start."""
    if context.drain.has_begun:
        raise refusal(503, "the service is ending; claim again when it is back")
    got = context.house.queue.claim(body.worker, body.lease_s, body.experiment)
    tell(request.scope, worker=body.worker)
    if got is None:
        return Response(status_code=204)
    tell(request.scope, experiment=got.experiment_id, run=got.run_id)
    return _claim(got)


@router.post("/claims/{token}/heartbeat")
def heartbeat(token: Token, request: Request, house: HouseOf) -> LeaseOut:
    """Renew a lease. 409 tells the worker to stop: the run is not its own any more."""
    _tell(request, house.queue, token)
    return LeaseOut(lease_s=house.queue.heartbeat(token))


@router.post("/claims/{token}/report", status_code=204)
def report(token: Token, body: schemas.ReportIn, request: Request, house: HouseOf) -> None:
    """Tell what a run that goes on has measured so far."""
    _tell(request, house.queue, token)
    house.queue.report(token, schemas.measures_of(body.measures) or {})


@router.post("/claims/{token}/result")
def result(
    token: Token, body: schemas.ResultOfRunIn, request: Request, house: HouseOf
) -> RecordedOut:
    """Tell how a run ended. Told again it is the same answer; another result is refused (409)."""
    if (body.measures is None) == (body.failure is None):
        raise refusal(422, "a result has measures, or a failure that says why there are none")
    _tell(request, house.queue, token)
    first = house.queue.complete(
        token, schemas.measures_of(body.measures), body.failure, body.duration_s
    )
    return RecordedOut(recorded=True, first_time=first)


@router.post("/claims/{token}/return", status_code=204)
def give_back(token: Token, body: schemas.ReasonIn, request: Request, house: HouseOf) -> None:
    """Let a run wait again that this worker cannot end."""
    _tell(request, house.queue, token)
    house.queue.give_back(token, body.reason or "its worker gave it back")


@router.get("/claims/{token}/application")
def application(token: Token, house: HouseOf) -> RecipeOut:
    """Return what is needed to build the application of a run that this worker holds."""
    attempt = house.queue.attempt(token)
    if not attempt.is_current:
        raise ClaimLostError(f"run {attempt.run_id} is not held under this token any more")
    opened = house.store.opened(attempt.experiment_id)
    return RecipeOut(
        experiment=attempt.experiment_id,
        recipe=opened.recipe,
        opened=json.loads(encode_event(opened)),
    )


def _tell(request: Request, queue: RunQueue, token: str) -> None:
    attempt = queue.attempt(token)
    tell(request.scope, experiment=attempt.experiment_id, run=attempt.run_id, worker=attempt.worker)


def _claim(got: Claim) -> ClaimOut:
    return ClaimOut(
        experiment=got.experiment_id,
        run=got.run_id,
        token=got.token,
        attempt=got.attempt,
        values=dict(got.values),
        seed=got.seed,
        limit_s=got.limit_s,
        lease_s=got.lease_s,
    )
