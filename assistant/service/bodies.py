"""The inner walls: a body is read whole, within its size and time, and is strict JSON.

They stand behind the gate, so that nobody without a token makes the service hold a body.
"""

import asyncio
import math
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assistant.service.problems import Problem, problem_of, send_problem
from assistant.service.strict_json import RefusedJsonError, read_json
from assistant.service.walls import BodyRule, has_body, rule_for, too_large

BODY_S = 20.0
LARGE_BYTES = 64 * 1024
WORK = ("/v1/claims", "/health")
"""How the paths begin on which nobody waits for people."""


class Bodies:
    """Reads the body of a request before the app sees it.

    Args:
        app: what lies behind; it gets the body in one piece.
        rules: bodies that differ from `DEFAULT_BODY`.
        body_s: how long a body may take to arrive (s).
    """

    def __init__(
        self, app: ASGIApp, *, rules: Collection[BodyRule] = (), body_s: float = BODY_S
    ) -> None:
        self._app, self._rules, self._body_s = app, tuple(rules), body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and pass it on, or answer with what is wrong with it."""
        if scope["type"] != "http" or not has_body(scope["headers"]):
            await self._app(scope, receive, send)
            return
        rule = rule_for(scope["path"], self._rules)
        request_id = scope.get("state", {}).get("request_id", "")
        try:
            async with asyncio.timeout(self._body_s):
                body = await _read(receive, rule.max_bytes)
        except TimeoutError:
            late = Problem(408, f"the body did not arrive within {self._body_s:g} s")
            await send_problem(send, late, request_id)
            return
        except _TooLarge:
            await send_problem(send, too_large(rule), request_id)
            return
        if body is None:
            return  # the client has gone
        if body and _is_json(scope):
            try:
                await _check(body, rule.max_bytes)
            except RefusedJsonError as error:
                await send_problem(send, problem_of(error), request_id)
                return
        await self._app(scope, _replayed(body, receive), send)


class Slots:
    """Lets so many requests be worked on at once, and tells the others to come back.

    Streams of events last for hours and mostly wait, so they have slots of their own; so have
    workers, who shall not wait for people whose decisions take long.

    Args:
        app: what lies behind.
        working: requests at once.
        streams: open streams at once.
        work: requests of workers at once.
        retry_after_s: what the others are told.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        working: int = 64,
        streams: int = 256,
        work: int = 256,
        retry_after_s: float = 1.0,
    ) -> None:
        self._app = app
        self._free = {"requests": working, "streams": streams, "requests of workers": work}
        self._retry_after = str(max(1, math.ceil(retry_after_s)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on while there is a slot for it, else answer 503."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kind = _kind(scope)
        if self._free[kind] <= 0:
            problem = Problem(
                503,
                f"as many {kind} as this service takes at once are being answered",
                headers=(("Retry-After", self._retry_after),),
            )
            await send_problem(send, problem, scope.get("state", {}).get("request_id", ""))
            return
        self._free[kind] -= 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._free[kind] += 1


def _kind(scope: Scope) -> str:
    if scope["path"].startswith(WORK):
        return "requests of workers"
    accepted = [v for n, v in scope["headers"] if n == b"accept"]
    return "streams" if any(b"text/event-stream" in v for v in accepted) else "requests"


class _TooLarge(Exception):  # noqa: N818 - it never leaves this module
    pass


def _is_json(scope: Scope) -> bool:
    given = next((v for n, v in scope["headers"] if n == b"content-type"), b"")
    return given.partition(b";")[0].strip().lower() == b"application/json"


async def _read(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, None if the client goes away before it ends."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece = message.get("body", b"")
        size += len(piece)
        if size > max_bytes:
            raise _TooLarge
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _check(body: bytes, max_bytes: int) -> None:
    """Read a body strictly; a large one in a thread, so that heartbeats do not wait for it."""
    if len(body) <= LARGE_BYTES:
        read_json(body, max_bytes=max_bytes)
    else:
        await asyncio.to_thread(read_json, body, max_bytes=max_bytes)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that gives the body once, and then what really comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay
