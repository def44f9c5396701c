"""A small service made of the real walls, and a client that can send anything."""

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import PlainTextResponse
from pydantic import Field

from assistant.config.application import StrictModel
from assistant.core.errors import StoreError, UnknownExperimentError
from assistant.service.api_tokens import Role
from assistant.service.auth import AuthRateLimiter, Caller, RoleRequirement, RoleTokens
from assistant.service.middleware import BodyRule, ServiceLimits, build_middleware
from assistant.service.observability import (
    CONTENT_TYPE,
    MetricsRegistry,
    ServiceLog,
    annotate_request,
)
from assistant.service.problems import refusal
from assistant.service.server import ConnectionLimits, DrainState, HttpServer, bind

TOKENS = RoleTokens({role: f"{role}-" + "0123456789abcdef" * 4 for role in Role})
PATIENCE_S = 120.0
LIMITS = ServiceLimits(working=4, streams=2, rules=(BodyRule("/import", 4 * 1024 * 1024),))


class Point(StrictModel):
    x: int


class Body(StrictModel):
    name: str = ""
    number: float = 0.0
    count: int = 0
    points: list[Point] = Field(default_factory=list, max_length=1000)


Worker = Annotated[Caller, Depends(RoleRequirement(Role.WORKER))]
Steerer = Annotated[Caller, Depends(RoleRequirement(Role.STEERER))]
Viewer = Annotated[Caller, Depends(RoleRequirement(Role.VIEWER))]
Anybody = Annotated[Caller, Depends(RoleRequirement(Role.VIEWER, Role.WORKER))]


class Waiting:
    """A request that a test lets go on when it likes."""

    def __init__(self) -> None:
        self.has_come = threading.Semaphore(0)
        self.may_go = threading.Event()


def echo_app(metrics: MetricsRegistry, drain: DrainState, waiting: Waiting) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None)

    @app.get("/v1/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/echo")
    def echo(body: Body, caller: Steerer, request: Request) -> dict[str, Any]:
        annotate_request(request.scope, experiment=body.name or None)
        assert "authorization" not in request.headers  # the token stays at the gate
        return {"role": caller.role, "body": body.model_dump()}

    @app.post("/v1/import")
    def take(body: dict[str, Any], caller: Steerer) -> dict[str, int]:
        return {"keys": len(body)}

    @app.get("/v1/experiments/{name}")
    def look(name: str, caller: Anybody) -> dict[str, str]:
        raise UnknownExperimentError(f"no experiment '{name}'; known: none is stored")

    @app.get("/v1/leases/{token}")
    def leased(token: str, caller: Worker) -> dict[str, str]:
        raise refusal(403, "this run is another worker's")

    @app.get("/v1/metrics")
    def numbers(caller: Viewer) -> PlainTextResponse:
        return PlainTextResponse(metrics.render(), media_type=CONTENT_TYPE)

    @app.get("/v1/fault")
    def fault(caller: Viewer) -> None:
        raise KeyError("a secret of the house")

    @app.get("/v1/store")
    def store(caller: Viewer) -> None:
        raise StoreError("the store cannot be used")

    @app.get("/v1/wait")
    def wait(caller: Viewer) -> dict[str, bool]:
        waiting.has_come.release()
        assert waiting.may_go.wait(PATIENCE_S)
        return {"drained": drain.has_begun}

    @app.get("/v1/until-drained")
    async def until_drained(caller: Viewer) -> dict[str, bool]:
        waiting.has_come.release()
        await drain.wait()
        return {"drained": drain.has_begun}

    return app


@dataclass
class Running:
    server: HttpServer
    metrics: MetricsRegistry
    waiting: Waiting
    failures: AuthRateLimiter
    lines: io.StringIO

    @property
    def port(self) -> int:
        return int(self.server.url.rsplit(":", 1)[1])

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines.getvalue().splitlines()]


@contextmanager
def running(
    *, limits: ServiceLimits = LIMITS, patience: ConnectionLimits | None = None, drain_s: int = 5
) -> Iterator[Running]:
    lines, metrics, drain, waiting = io.StringIO(), MetricsRegistry(), DrainState(), Waiting()
    log, failures = ServiceLog(lines, level="debug"), AuthRateLimiter(size=8)
    app = build_middleware(
        echo_app(metrics, drain, waiting),
        TOKENS,
        log,
        metrics=metrics,
        public=("/v1/health",),
        limits=limits,
        failures=failures,
    )
    server = HttpServer(app, bind(), log, drain=drain, drain_s=drain_s, patience=patience)
    with server:
        yield Running(server, metrics, waiting, failures, lines)


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection, on which any bytes can be sent."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        with self.socket.makefile("rb") as file:
            status = int(file.readline().split()[1])
            headers = {}
            while line := file.readline().strip():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            body = b"" if status == 204 else file.read(int(headers["content-length"]))
        return Answer(status, headers, body)

    def is_closed_within(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def is_quiet_for(self, seconds: float) -> bool:
        """Return whether neither an answer nor the end of the connection comes."""
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        return False

    def has_answer_within(self, seconds: float) -> bool:
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1, socket.MSG_PEEK) != b""
        except TimeoutError:
            return False

    def close(self) -> None:
        self.socket.close()


def ask(
    running: Running,
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    role: Role | None = Role.STEERER,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send one request, with the headers that a good client sends unless said otherwise."""
    told = {"Host": f"127.0.0.1:{running.port}"}
    if role is not None:
        told["Authorization"] = f"Bearer {TOKENS.by_role[role]}"
    if body is not None:
        told |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    told |= headers or {}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in told.items() if v)
    wire = Wire(running.port)
    try:
        # Refused before all of it was read, the answer is here nevertheless.
        with suppress(BrokenPipeError, ConnectionResetError):
            wire.send(head.encode("latin-1") + b"\r\n" + (body or b""))
        return wire.answer()
    finally:
        wire.close()


def eventually(holds: Any) -> bool:
    """Return whether something becomes true while another thread works."""
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until_s:
            return False
        threading.Event().wait(0.005)
    return True
