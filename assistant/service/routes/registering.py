"""Programs in any language that ask for their runs themselves register here."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response

from assistant.service import schemas
from assistant.service.adapters import Wanted, register
from assistant.service.auth import Caller, Needs, Role
from assistant.service.context import HouseOf, KeyedOf
from assistant.service.plain_text import MEDIA_TYPE, lines_of, wants_lines
from assistant.service.problems import responses
from assistant.service.schemas import RegisteredOut
from assistant.sla import Automatic

router = APIRouter(prefix="/v1", tags=["registering"], responses=responses(406, 409, 422))


@router.post(
    "/adapters",
    status_code=201,
    response_model=RegisteredOut,
    responses={201: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
def register_program(
    body: schemas.RegisterIn,
    asked: KeyedOf,
    house: HouseOf,
    caller: Annotated[Caller, Depends(Needs(Role.STEERER))],
    accept: Annotated[str, Header()] = "application/json",
) -> RegisteredOut | Response:
    """Register a program: opens its experiment, and returns the token with which it asks for runs.

    With ``resume`` it goes on with the latest experiment of its name that is not finished, if
    there is one. Sent again under the same Idempotency-Key it is the same registration, and the
    token of the first answer is worth nothing any more. ``Accept: text/plain`` gives lines of
    ``name=value``.
    """
    how = body.automatic
    automatic = Automatic(**how.model_dump()) if isinstance(how, schemas.AutomaticIn) else how
    wanted = Wanted(body.name, body.settings, automatic, body.resume)
    made = register(house, wanted, asked, caller.name)
    told = RegisteredOut(
        experiment=made.experiment_id, token=made.token, worker=made.holder, resumed=made.resumed
    )
    if wants_lines(accept):
        return Response(lines_of(told.model_dump()), status_code=201, media_type=MEDIA_TYPE)
    return told
