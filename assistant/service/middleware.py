"""ASGI middleware around the service: request checks, logging, and limits on bodies and load.

The outer layer gives every request an id and refuses hosts and origins of others (DNS rebinding,
cross-site requests), ambiguous heads, and bodies of another media type. It logs, counts and adds
security headers; it never sends a header of CORS. The inner layers read a body within its size
and time, as strict JSON, and limit the requests in progress.
"""

import asyncio
import math
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from fastapi import FastAPI
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assistant.service.api_tokens import ApiTokenStore, Role
from assistant.service.auth import AuthMiddleware, AuthRateLimiter, Caller, RoleTokens
from assistant.service.observability import SECONDS, Field, Level, MetricsRegistry, ServiceLog
from assistant.service.problems import Problem, install, problem_of, send_problem
from assistant.service.strict_json import RefusedJsonError, read_json

MAX_HEAD_BYTES = 16 * 1024

SAFE_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

_ENDING = Problem(
    503,
    "the service is shutting down, and this request took too long",
    hint="repeat it when the service is back, with the same Idempotency-Key: it may be done",
)
_LEASE = re.compile(r"(?<=/leases/)[^/]+|(?<=/tokens/)[^/]{41,}")  # longer than any name
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::([0-9]{1,5}))?")
LOCAL_NAMES = frozenset(("127.0.0.1", "localhost", "[::1]"))


@dataclass(frozen=True, slots=True)
class BodyRule:
    """Rule for request bodies by the ending of the URL path: size limit (bytes), media types."""

    ending: str
    max_bytes: int = 1024 * 1024
    media_types: tuple[str, ...] = ("application/json",)


DEFAULT_BODY = BodyRule("")


def rule_for(path: str, rules: Collection[BodyRule]) -> BodyRule:
    """Return the first body rule that matches a path, or `DEFAULT_BODY` if none does."""
    return next((rule for rule in rules if path.endswith(rule.ending)), DEFAULT_BODY)


class RequestGuardMiddleware:
    """Outermost ASGI middleware: checks, logs and counts every request.

    ``names`` are host names of this service without ports, besides those of the loopback and the
    address of the connection. ``max_head_bytes`` limits path, query and headers together.
    """

    def __init__(
        self,
        app: ASGIApp,
        log: ServiceLog,
        *,
        names: Collection[str] = (),
        metrics: MetricsRegistry | None = None,
        rules: Collection[BodyRule] = (),
        max_head_bytes: int = MAX_HEAD_BYTES,
    ) -> None:
        self._app, self._log, self._rules = app, log, tuple(rules)
        self._names = frozenset(name.lower() for name in names)
        self._max_head_bytes = max_head_bytes
        metrics = MetricsRegistry() if metrics is None else metrics
        self._requests = Counter(
            "copperline_http_requests_total",
            "Requests answered.",
            ("method", "route", "status"),
            registry=metrics,
        )
        self._seconds = Histogram(
            "copperline_http_request_seconds",
            "Time to the end of the answer.",
            ("method", "route"),
            registry=metrics,
            buckets=SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it; log and count the outcome."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no web sockets
        started_s = time.monotonic()
        request = _RequestTrace(scope, receive, send)
        problem = self._fault(scope)
        try:
            if problem is not None:
                await send_problem(request.send, problem, request.id)
            else:
                await self._app(scope, request.receive, request.send)
        except asyncio.CancelledError:  # the service ends, and has waited long enough
            if request.status is None:
                await send_problem(request.send, _ENDING, request.id)
            raise
        except Exception as error:
            scope["state"]["fault"] = error
            if request.status is None:
                await send_problem(request.send, problem_of(error), request.id)
            if not request.is_complete:
                raise  # half an answer: the server closes the connection
        finally:
            self._tell(scope, request, time.monotonic() - started_s)

    def _fault(self, scope: Scope) -> Problem | None:
        """Return the problem with the head of a request, None if it is valid."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        size = sum(len(name) + len(value) + 4 for name, value in headers)
        size += len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size > self._max_head_bytes:
            return Problem(431, f"the head has {size} bytes; {self._max_head_bytes} are allowed")
        by_name: dict[bytes, list[bytes]] = {}
        for name, value in headers:
            by_name.setdefault(name, []).append(value)
        if b"transfer-encoding" in by_name and b"content-length" in by_name:
            return Problem(400, "Content-Length and Transfer-Encoding exclude each other; send one")
        return (
            self._wrong_host(scope, by_name)
            or _wrong_origin(by_name)
            or _wrong_body(by_name, rule_for(scope["path"], self._rules))
        )

    def _wrong_host(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> Problem | None:
        host = b", ".join(headers.get(b"host", [])).decode("latin-1")
        if is_own_host(scope, host, self._names):
            return None
        return Problem(421, f"this service does not have the host name {host[:100]!a}")

    def _tell(self, scope: Scope, request: "_RequestTrace", duration_s: float) -> None:
        status = request.status
        route = str(getattr(scope.get("route"), "path", ""))
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(method, route, "none" if status is None else str(status)).inc()
        self._seconds.labels(method, route).observe(duration_s)
        fault = scope["state"].get("fault")
        if status == 500 or (fault is not None and status is None):
            self._log.error("fault", fault, request=request.id)
        is_quiet = status == 429 or (  # a flood of failures should not fill the disk of the log
            method in ("GET", "HEAD") and status is not None and status < 400
        )
        is_quiet |= status == 204 and route.endswith("/leases")  # a worker polls, and nothing waits
        level: Level = "debug" if is_quiet else "info"
        fields: dict[str, Field] = {
            "request": request.id,
            "method": method,
            "path": _LEASE.sub("{token}", scope["path"])[:200],  # never the query
            "status": status,
            "duration_s": round(duration_s, 6),
            **scope["state"]["told"],
        }
        self._log.write(level, "request", fields)


def is_own_host(scope: Scope, host: str, names: Collection[str]) -> bool:
    """Return whether a Host header names this server, with any port.

    It does with a name of the loopback, one of ``names`` (lower case), or the address of the
    connection: an address is no name, so it cannot be rebound.
    """
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return False
    address = str(scope["server"][0]) if scope.get("server") else ""
    literal = f"[{address}]" if ":" in address else address
    return match[1] == literal or match[1] in LOCAL_NAMES or match[1] in names


def is_own_origin(origin: str, host: str) -> bool:
    """Return whether an Origin header is that of the pages of a host, port included."""
    scheme, separator, authority = origin.partition("://")
    return scheme in ("http", "https") and bool(separator) and authority.lower() == host.lower()


def _wrong_origin(headers: dict[bytes, list[bytes]]) -> Problem | None:
    """Refuse every request of a page from another origin; programs send no Origin."""
    host = headers[b"host"][0].decode("latin-1")
    for origin in headers.get(b"origin", []):
        text = origin.decode("latin-1")
        if not is_own_origin(text, host):
            detail = f"pages of the origin {text[:100]!a} may not use this service"
            return Problem(403, detail, hint="use the command line, or a program of your own")
    return None


def _wrong_body(headers: dict[bytes, list[bytes]], rule: BodyRule) -> Problem | None:
    """Refuse a body by its headers: encoding, media type, announced length."""
    for coding in headers.get(b"content-encoding", []):
        if coding.strip().lower() not in (b"", b"identity"):
            return Problem(415, f"the encoding {coding[:40].decode('latin-1')!a} is not supported")
    length = int(headers.get(b"content-length", [b"0"])[0])
    if not length and b"transfer-encoding" not in headers:
        return None
    if length > rule.max_bytes:
        return too_large(rule)
    content_type = b", ".join(headers.get(b"content-type", [])).decode("latin-1")
    media_type, _, rest = content_type.partition(";")
    charset = rest.strip().lower().removeprefix("charset=").strip('"')
    if media_type.strip().lower() in rule.media_types and charset in ("", "utf-8"):
        return None
    return Problem(
        415,
        f"the content type {content_type[:100]!a} is not supported",
        hint=f"send {' or '.join(rule.media_types)}, in UTF-8 and not compressed",
    )


def too_large(rule: BodyRule) -> Problem:
    """Return the problem (413) for a request body that exceeds the size limit of its rule."""
    return Problem(413, f"the body is longer than {rule.max_bytes} bytes, the maximum here")


def has_body(headers: Collection[tuple[bytes, bytes]]) -> bool:
    """Return whether the headers of a request announce a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and int(value) > 0)
        for name, value in headers
    )


class _RequestTrace:
    """Trace of one request: its id, and which messages have passed."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = secrets.token_hex(8)
        self.status: int | None = None
        self.is_complete = False
        self._receive: Callable[[], Awaitable[Message]] = receive
        self._send: Callable[[Message], Awaitable[None]] = send
        self._unread = has_body(scope["headers"])
        scope.setdefault("state", {}).update(request_id=self.id, told={})

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": self._headers(message)}
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True
        await self._send(message)

    def _headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        safe_names = {name for name, _ in SAFE_HEADERS}
        headers = [(n, v) for n, v in message.get("headers", ()) if n.lower() not in safe_names]
        headers += SAFE_HEADERS
        headers.append((b"x-request-id", self.id.encode()))
        if self._unread:  # an unread body must not be taken for the next request
            headers.append((b"connection", b"close"))
        return headers


BODY_S = 20.0
LARGE_BYTES = 64 * 1024
WORK = ("/v1/leases", "/v1/caller", "/health")
"""Path prefixes of workers, which never wait for people."""


class BodyLimitMiddleware:
    """ASGI middleware that limits the size of request bodies and their arrival time (seconds)."""

    def __init__(
        self, app: ASGIApp, *, rules: Collection[BodyRule] = (), body_s: float = BODY_S
    ) -> None:
        self._app, self._rules, self._body_s = app, tuple(rules), body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body and pass it on, or answer with the problem of the body."""
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
        except _BodyTooLarge:
            await send_problem(send, too_large(rule), request_id)
            return
        if body is None:
            return  # the client has disconnected
        if body and _is_json(scope):
            try:
                await _check(body, rule.max_bytes)
            except RefusedJsonError as error:
                await send_problem(send, problem_of(error), request_id)
                return
        await self._app(scope, _replayed(body, receive), send)


class ConcurrencyLimiter:
    """ASGI middleware that limits concurrent requests and answers excess ones with 503.

    People who look on, people who decide, event streams and workers have slots of their own: none
    is refused because others are many. Up to ``waiting`` requests of the first two kinds wait for
    a slot, in the order of their arrival.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        working: int = 64,
        streams: int = 256,
        work: int = 256,
        waiting: int = 0,
        retry_after_s: float = 1.0,
    ) -> None:
        self._app = app
        self._slots = {
            "requests": _Slots(working, waiting),
            "decisions": _Slots(working, waiting),
            "streams": _Slots(streams, 0),
            "requests of workers": _Slots(work, 0),
        }
        self._retry_after = str(max(1, math.ceil(retry_after_s)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on when there is a slot for it, or answer 503."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        kind = _kind(scope)
        slots = self._slots[kind]
        if not await slots.taken():
            problem = Problem(
                503,
                f"the service has reached its maximum number of concurrent {kind}",
                headers=(("Retry-After", self._retry_after),),
            )
            await send_problem(send, problem, scope.get("state", {}).get("request_id", ""))
            return
        try:
            await self._app(scope, receive, send)
        finally:
            slots.give_back()


class _Slots:
    """Slots of one kind of request, and those who wait for one, the first come first."""

    def __init__(self, n: int, most_waiting: int) -> None:
        self._free, self._most_waiting = n, most_waiting
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def taken(self) -> bool:
        """Take a slot, maybe after a wait; return False if too many wait already."""
        if self._free > 0:
            self._free -= 1
            return True
        if len(self._waiting) >= self._most_waiting:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back()  # it was this one's turn at that moment
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise
        return True

    def give_back(self) -> None:
        """Give a slot to the next who waits for one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _kind(scope: Scope) -> str:
    caller = scope.get("state", {}).get("caller")
    if scope["path"].startswith(WORK):
        return "requests of workers"
    accepted = [v for n, v in scope["headers"] if n == b"accept"]
    if any(b"text/event-stream" in v for v in accepted):
        return "streams"
    if isinstance(caller, Caller) and caller.role in (Role.WORKER, Role.ADAPTER):
        return "requests of workers"
    return "requests" if scope["method"] in ("GET", "HEAD") else "decisions"


class _BodyTooLarge(Exception):  # noqa: N818 - it never leaves this module
    pass


def _is_json(scope: Scope) -> bool:
    content_type = next((v for n, v in scope["headers"] if n == b"content-type"), b"")
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


async def _read(receive: Receive, max_bytes: int) -> bytes | None:
    """Return the whole body, None if the client disconnects before its end."""
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        piece = message.get("body", b"")
        size += len(piece)
        if size > max_bytes:
            raise _BodyTooLarge
        pieces.append(piece)
        if not message.get("more_body", False):
            return b"".join(pieces)


async def _check(body: bytes, max_bytes: int) -> None:
    """Parse a body strictly; use a thread for a large one, so that heartbeats do not wait."""
    if len(body) <= LARGE_BYTES:
        read_json(body, max_bytes=max_bytes)
    else:
        await asyncio.to_thread(read_json, body, max_bytes=max_bytes)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a channel that first returns the body, and then the real messages."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return waiting.pop() if waiting else await receive()

    return replay


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """Limits of a service on request sizes, body arrival times and concurrent requests.

    ``max_head_bytes`` is for path, query and headers together, ``body_s`` the time for a body to
    arrive, ``working`` and ``streams`` the requests and event streams in progress, ``waiting`` the
    requests that may wait for one of ``working`` to end; ``rules`` are bodies that differ from JSON
    of at most 1 MiB, by the end of their path.
    """

    max_head_bytes: int = MAX_HEAD_BYTES
    body_s: float = BODY_S
    working: int = 64
    streams: int = 256
    waiting: int = 0
    rules: tuple[BodyRule, ...] = ()


def build_middleware(
    app: FastAPI,
    tokens: RoleTokens,
    log: ServiceLog,
    *,
    book: ApiTokenStore | None = None,
    metrics: MetricsRegistry | None = None,
    names: Collection[str] = (),
    public: Collection[str] = (),
    limits: ServiceLimits | None = None,
    failures: AuthRateLimiter | None = None,
) -> ASGIApp:
    """Wrap an app in its middleware: request guard, authentication, body and concurrency limits.

    Errors of the app must be problems (`assistant.service.problems.install`). ``names`` are host
    names besides the loopback's and the address of the connection; ``public`` paths need no token.
    """
    effective = ServiceLimits() if limits is None else limits
    install(app)
    slots = ConcurrencyLimiter(
        app, working=effective.working, streams=effective.streams, waiting=effective.waiting
    )
    bodies = BodyLimitMiddleware(slots, rules=effective.rules, body_s=effective.body_s)
    gate = AuthMiddleware(bodies, tokens, book=book, public=public, failures=failures)
    return RequestGuardMiddleware(
        gate,
        log,
        names=names,
        metrics=metrics,
        rules=effective.rules,
        max_head_bytes=effective.max_head_bytes,
    )


def unprotected_routes(app: FastAPI) -> list[str]:
    """Return the API operations of an app that require no role, such as ``GET /health``."""
    return sorted(
        f"{method.upper()} {path}"
        for path, operations in app.openapi().get("paths", {}).items()
        for method, operation in operations.items()
        if not operation.get("security")
    )
