"""Routes of named tokens and of external clients, which register here."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request, Response

from assistant.core.errors import SettingsError, UnknownExperimentError
from assistant.core.sla import AutoSteering
from assistant.service import schemas
from assistant.service.api_tokens import ApiToken, Role
from assistant.service.auth import Caller, RoleRequirement, caller_of
from assistant.service.dependencies import ANYBODY, STEERER, IdempotentRequestOf, ServiceOf
from assistant.service.external_clients import ProgramRegistration, register
from assistant.service.observability import annotate_request
from assistant.service.problems import refusal, responses
from assistant.service.schemas import (
    MEDIA_TYPE,
    ApiTokenIn,
    ApiTokenOut,
    CallerOut,
    NewApiTokenOut,
    RegistrationOut,
    plain_text,
    wants_plain_text,
)

token_router = APIRouter(prefix="/v1", tags=["tokens"])

TokenName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")]


@token_router.get("/caller", dependencies=[ANYBODY])
def caller(request: Request) -> CallerOut:
    """Say whose token this request has come by, and what that is for."""
    asking = caller_of(request)
    return CallerOut(
        role=asking.role,
        name=asking.name,
        experiment=asking.experiment_id,
        expires_s=None if asking.holder is None else asking.holder.expires_s,
    )


@token_router.get("/tokens", dependencies=[STEERER])
def tokens(house: ServiceOf) -> list[ApiTokenOut]:
    """List the tokens with names, latest first; the tokens themselves are kept nowhere."""
    return [ApiTokenOut(**_told(holder)) for holder in house.book.holders()]


@token_router.post("/tokens", dependencies=[STEERER], responses=responses(409, 422))
def make(
    body: ApiTokenIn, keyed_request: IdempotentRequestOf, request: Request, house: ServiceOf
) -> NewApiTokenOut:
    """Make a token with a name, and tell it this once.

    Sent again under the same Idempotency-Key, because the answer was lost, it gives another token
    in the place of the one that nobody received.
    """
    asking, role = caller_of(request), Role(body.role)
    _refuse_more(asking, role)
    ends_s = None if asking.holder is None else asking.holder.expires_s
    if ends_s is not None and (body.expires_s is None or body.expires_s > ends_s):
        raise refusal(
            403,
            "a token ends no later than the one by which it is made",
            f"send an expires_s of at most {ends_s:.0f}",
        )
    again = house.once(keyed_request)
    try:
        token = house.issue_token(
            body.name, role, experiment_id=body.experiment, expires_s=body.expires_s,
            made_by=asking.name, again=again,
        )  # fmt: skip
    except UnknownExperimentError as error:  # an experiment of the body, not of the path
        raise SettingsError(str(error)) from error
    if not again:
        house.remember(keyed_request)
    annotate_request(request.scope, made=body.name)
    holder = house.book.holder_of(token.encode())
    if holder is None:
        raise refusal(409, f"the token '{body.name}' was revoked while it was made")
    return NewApiTokenOut(token=token, **_told(holder))


@token_router.delete(
    "/tokens/{name}", status_code=204, dependencies=[STEERER], responses=responses(404, 409, 422)
)
def revoke(
    name: TokenName, keyed_request: IdempotentRequestOf, request: Request, house: ServiceOf
) -> None:
    """Let nobody in by a token any more, from now on; the runs that it holds wait again."""
    if house.once(keyed_request):
        return
    there = house.book.get(name)
    if there is None:
        raise refusal(404, f"there is no token '{name}'", "GET /v1/tokens lists what there is")
    _refuse_more(caller_of(request), there.role)
    house.revoke_token(name)
    house.remember(keyed_request)
    annotate_request(request.scope, revoked=name)


def _refuse_more(asking: Caller, role: Role) -> None:
    """Refuse (403) a token of a role that the caller may not hand out."""
    if not asking.role.hands_out(role):
        raise refusal(
            403,
            f"a {asking.role} does not hand out the token of a {role}",
            "use the command line where the store lies",
        )


def _told(holder: ApiToken) -> dict[str, Any]:
    return {
        "role": holder.role,
        "name": holder.name,
        "experiment": holder.experiment_id,
        "expires_s": holder.expires_s,
        "made_s": holder.made_s,
        "made_by": holder.made_by,
    }


registration_router = APIRouter(
    prefix="/v1", tags=["registering"], responses=responses(406, 409, 422)
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
    house: ServiceOf,
    caller: Annotated[Caller, Depends(RoleRequirement(Role.STEERER))],
    accept: Annotated[str, Header()] = "application/json",
) -> RegistrationOut | Response:
    """Register a program: opens its experiment, and returns the token with which it asks for runs.

    With ``resume`` it goes on with the latest experiment of its name that is not finished, if
    there is one. Sent again under the same Idempotency-Key it is the same registration, and the
    token of the first answer is worth nothing any more. ``Accept: text/plain`` gives lines of
    ``name=value``.
    """
    how = body.automatic
    automatic = AutoSteering(**how.model_dump()) if isinstance(how, schemas.AutoSteeringIn) else how
    registration = ProgramRegistration(body.name, body.settings, automatic, body.resume)
    program = register(house, registration, request, caller.name)
    answer = RegistrationOut(
        experiment=program.experiment_id,
        token=program.token,
        worker=program.holder,
        resumed=program.resumed,
    )
    if wants_plain_text(accept):
        return Response(plain_text(answer.model_dump()), status_code=201, media_type=MEDIA_TYPE)
    return answer
