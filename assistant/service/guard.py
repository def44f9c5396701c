"""The walls around an app, in their order; and which of its routes ask for no token."""

from collections.abc import Collection
from dataclasses import dataclass

from fastapi import FastAPI
from starlette.types import ASGIApp

from assistant.service.auth import Failures, Gate, Tokens
from assistant.service.bodies import BODY_S, Bodies, Slots
from assistant.service.logs import Log
from assistant.service.metrics import Metrics
from assistant.service.problems import install
from assistant.service.token_book import TokenBook
from assistant.service.walls import MAX_HEAD_BYTES, BodyRule, Walls


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a service takes.

    Args:
        max_head_bytes: of path, query and headers together.
        body_s: how long a body may take to arrive (s).
        working: requests that are worked on at once; the others get 503.
        streams: event streams that are open at once.
        rules: bodies that differ from JSON of at most 1 MiB, by the end of their path.
    """

    max_head_bytes: int = MAX_HEAD_BYTES
    body_s: float = BODY_S
    working: int = 64
    streams: int = 256
    rules: tuple[BodyRule, ...] = ()


def guarded(
    app: FastAPI,
    tokens: Tokens,
    log: Log,
    *,
    book: TokenBook | None = None,
    metrics: Metrics | None = None,
    names: Collection[str] = (),
    public: Collection[str] = (),
    limits: Limits | None = None,
    failures: Failures | None = None,
) -> ASGIApp:
    """Return an app behind all walls: head, token, body, slot.

    Args:
        app: its errors become problems (`assistant.service.problems.install`).
        tokens: who is let in.
        log: one line a request.
        book: who else is let in, by tokens with names.
        metrics: where requests are counted.
        names: under which this service is reached, besides the loopback's and its own address.
        public: paths for which no token is asked.
        limits: how much it takes.
        failures: attempts without a valid token, by address.
    """
    chosen = Limits() if limits is None else limits
    install(app)
    slots = Slots(app, working=chosen.working, streams=chosen.streams)
    bodies = Bodies(slots, rules=chosen.rules, body_s=chosen.body_s)
    gate = Gate(bodies, tokens, book=book, public=public, failures=failures)
    return Walls(
        gate,
        log,
        names=names,
        metrics=metrics,
        rules=chosen.rules,
        max_head_bytes=chosen.max_head_bytes,
    )


def unguarded(app: FastAPI) -> list[str]:
    """Return the operations of an app that name no role, such as ``GET /health``."""
    return sorted(
        f"{method.upper()} {path}"
        for path, operations in app.openapi().get("paths", {}).items()
        for method, operation in operations.items()
        if not operation.get("security")
    )
