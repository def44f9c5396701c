"""Problem responses: the error answers of the service (RFC 9457, application/problem+json).

A problem has type, title, status, detail (one sentence about this request), instance (the request
id) and optionally a hint. Internal errors reveal no more; the log has them under the request id.
"""

import errno
import json
import reprlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from assistant.config.fields import model_at, nested_models
from assistant.core.errors import (
    AssistantError,
    CodecError,
    DamagedEventError,
    ExperimentError,
    IdempotencyKeyReusedError,
    ImpossibleValueError,
    LeaseLostError,
    NameTakenError,
    RunError,
    ServiceError,
    StoreError,
    UnknownExperimentError,
    UnknownLeaseError,
    VersionConflictError,
    hint,
)
from assistant.service.strict_json import RefusedJsonError
from sim.api import SimError
from sim.model.errors import DamagedCodeError
from strategies.space.errors import StrategyError

MEDIA_TYPE = "application/problem+json"
MAX_FIELDS = 10
RETRY_AFTER_S = 1

TITLES: Mapping[int, str] = {
    400: "malformed request",
    401: "missing or invalid token",
    403: "forbidden",
    404: "not found",
    405: "method not allowed",
    406: "not acceptable",
    408: "request timeout",
    409: "conflict with the current state",
    410: "experiment finished",
    412: "version conflict",
    413: "request too large",
    415: "unsupported media type",
    421: "unknown host name",
    422: "invalid value",
    429: "too many failed attempts",
    431: "request headers too large",
    500: "internal error",
    503: "temporarily unavailable",
    507: "disk full",
}

HINTS: Mapping[int, str] = {
    401: "send 'Authorization: Bearer TOKEN' with a token of the store's .tokens file",
    404: "GET /v1/experiments lists the experiments",
    409: "fetch the experiment to see its current state",
    410: "stop; GET /v1/experiments/ID returns the results",
    412: "fetch the experiment again and decide on its current state",
    413: "send less at a time",
    415: "send JSON as 'Content-Type: application/json', not compressed",
    421: "use the address that 'copperline serve' printed, or allow this name when starting it",
    429: "wait for the seconds in Retry-After; a valid token is accepted at any time",
    500: "see the log of the service under this request id",
    503: "try again after the seconds in Retry-After",
    507: "free space on the disk of the store; acknowledged requests are stored",
}


@dataclass(frozen=True, slots=True)
class FieldFault:
    """Validation error of one field in a request."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Error response of the service (problem details), with an HTTP status of 4xx or 5xx.

    ``detail`` is a sentence about this request, ``fields`` has the faults of a body or a query, and
    ``error`` names the error class (may be empty), so that a client can raise it again.
    """

    status: int
    detail: str
    title: str | None = None
    hint: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    fields: tuple[FieldFault, ...] = ()
    error: str = ""

    def body(self, request_id: str = "") -> bytes:
        """Return the problem as a JSON response body."""
        title = self.title or TITLES.get(self.status) or HTTPStatus(self.status).phrase.lower()
        content: dict[str, object] = {
            "type": f"urn:copperline:problem:{title.replace(' ', '-')}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
        }
        if request_id:
            content["instance"] = f"urn:copperline:request:{request_id}"
        hint = self.hint or HINTS.get(self.status)
        if hint is not None:
            content["hint"] = hint
        if self.error:
            content["error"] = self.error
        if self.fields:
            content["fields"] = [{"field": f.field, "message": f.message} for f in self.fields]
        return json.dumps(content).encode()

    def all_headers(self) -> tuple[tuple[str, str], ...]:
        """Return the response headers, including Retry-After for status 503."""
        names = {name.lower() for name, _ in self.headers}
        if self.status == 503 and "retry-after" not in names:
            return (*self.headers, ("Retry-After", str(RETRY_AFTER_S)))
        return self.headers


class ProblemError(Exception):
    """Exception of a route that carries the problem to send as the response."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.detail)


def refusal(status: int, detail: str, hint: str | None = None) -> ProblemError:
    """Return a ProblemError with an HTTP status and a detail sentence, for a route to raise."""
    return ProblemError(Problem(status, detail, hint=hint))


def problem_of(error: BaseException, *, conditional: bool = False) -> Problem:
    """Return the error response (problem) for an exception that was raised by a request.

    With ``conditional`` the request carried If-Match: then a changed experiment is a failed
    condition (412) and not a conflict (409).
    """
    if isinstance(error, ProblemError):
        return error.problem
    status = _status_of(error, conditional)
    if status == 500 and not isinstance(error, _OURS):
        return Problem(500, "the service has an internal error, which this request did not cause")
    if status == 507:
        return Problem(507, "the disk has no space left for this request; nothing was stored")
    return Problem(status, str(error), error=type(error).__name__)


def _status_of(error: BaseException, conditional: bool) -> int:
    if isinstance(error, RefusedJsonError):
        return error.status
    if isinstance(error, VersionConflictError) and conditional:
        return 412
    if _is_full(error):
        return 507
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


_OURS = (AssistantError, SimError, StrategyError)


_STATUSES: tuple[tuple[type[BaseException], int], ...] = (
    (UnknownExperimentError, 404),
    (NameTakenError, 409),
    (VersionConflictError, 409),
    (ImpossibleValueError, 422),
    (ExperimentError, 409),
    (UnknownLeaseError, 404),
    (LeaseLostError, 409),
    (IdempotencyKeyReusedError, 409),
    (ServiceError, 503),
    # Errors of what is stored or executed here, never of what a client sent:
    (CodecError, 500),
    (RunError, 500),
    (DamagedCodeError, 500),
    (DamagedEventError, 500),
    (StoreError, 503),
    # The remaining errors are about values of the request:
    (AssistantError, 422),
    (SimError, 422),
    (StrategyError, 422),
)


def _is_full(error: BaseException | None) -> bool:
    """Return whether an error, or the cause of a store's error, is a full disk."""
    if isinstance(error, StoreError):
        return _is_full(error.__cause__)
    if isinstance(error, sqlite3.Error):
        code: int = getattr(error, "sqlite_errorcode", 0)
        return code & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def of_invalid(errors: Sequence[Mapping[str, Any]], body: type[BaseModel] | None = None) -> Problem:
    """Return the error response (422) for invalid request fields, from pydantic's error list.

    ``body`` is the model of the body, from which an unknown field gets the nearest name.
    """
    fields = tuple(_field_fault(error, body) for error in errors[:MAX_FIELDS])
    if not fields:
        return Problem(422, "the request does not match its schema")
    first, more = fields[0], len(errors) - 1
    detail = f"'{first.field}' {first.message}" if first.field else f"the body {first.message}"
    if more:
        detail += f" (and {more} more)"
    return Problem(422, detail, fields=fields)


_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a field of this request",
    "json_invalid": "is not JSON",
}


def _field_fault(error: Mapping[str, Any], body: type[BaseModel] | None) -> FieldFault:
    place = list(error["loc"])
    is_of_body = bool(place) and place[0] == "body"
    if place and place[0] in ("body", "query", "path", "header"):
        place = place[1:]
    kind, message = error["type"], str(error["msg"])
    if kind in _WORDS:
        names = () if body is None or not is_of_body else model_at(body, tuple(place)).model_fields
        nearest = hint(str(place[-1]), names) if kind == "extra_forbidden" and names else ""
        return FieldFault(".".join(map(str, place)), f"{_WORDS[kind]}{nearest.rstrip('.')}")
    words = message.removeprefix("Value error, ").removeprefix("Input ")
    input_text = reprlib.repr(error.get("input"))
    return FieldFault(
        ".".join(map(str, place)), f"{words[:1].lower()}{words[1:]}, given {input_text}"
    )


async def send_problem(send: Send, problem: Problem, request_id: str = "") -> None:
    """Send a problem as an ASGI response, without the web framework."""
    body = problem.body(request_id)
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", b"%d" % len(body))]
    headers += [(n.lower().encode(), v.encode("latin-1")) for n, v in problem.all_headers()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def request_id_of(request: Request) -> str:
    """Return the id under which a request is logged, or an empty string without middleware."""
    return str(request.scope.get("state", {}).get("request_id", ""))


def install(app: FastAPI) -> None:
    """Register exception handlers that answer all errors of an app's routes with problems."""
    for kind in (
        ProblemError,
        HTTPException,
        RequestValidationError,
        AssistantError,
        SimError,
        StrategyError,
        OSError,
        Exception,
    ):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    problem = _of_request(request, error)
    if problem.status >= 500:
        request.scope.setdefault("state", {})["fault"] = error  # for the log
    return Response(
        problem.body(request_id_of(request)),
        status_code=problem.status,
        headers=dict(problem.all_headers()),
        media_type=MEDIA_TYPE,
    )


def _body_of(request: Request) -> type[BaseModel] | None:
    """Return the model of the body of a request's route; None if it takes none."""
    field = getattr(request.scope.get("route"), "body_field", None)
    models = nested_models(field.field_info.annotation) if field is not None else ()
    return models[0] if models else None


def _of_request(request: Request, error: Exception) -> Problem:
    if isinstance(error, RequestValidationError):
        return of_invalid(error.errors(), _body_of(request))
    if not isinstance(error, HTTPException):
        return problem_of(error, conditional="if-match" in request.headers)
    headers = tuple((error.headers or {}).items())
    detail, hint = str(error.detail), None
    if error.status_code == 404 and detail == HTTPStatus.NOT_FOUND.phrase:
        detail, hint = (
            f"there is nothing at {request.url.path}",
            "check the path; the API reference lists all paths",
        )
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "another method")
        detail = f"{request.method} is not possible at {request.url.path}; use {allowed}"
    return Problem(error.status_code, detail, hint=hint, headers=headers)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return FastAPI's ``responses`` argument of a route, which documents these error statuses."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": TITLES[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


PROBLEM_SCHEMA: Mapping[str, Any] = {
    "title": "Problem",
    "description": "An error response (RFC 9457).",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string"},
        "instance": {"type": "string"},
        "hint": {"type": "string"},
        "error": {"type": "string"},
        "fields": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "message"],
                "properties": {"field": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
"""Schema ``components.schemas.Problem`` of the OpenAPI document."""
