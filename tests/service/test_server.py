"""Start, back-pressure and end of a service, in a thread and as a process."""

import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path

import pytest
from fastapi import FastAPI

from assistant.core.errors import ServiceError
from assistant.service.api_tokens import Role
from assistant.service.auth import RoleTokens
from assistant.service.middleware import ServiceLimits, build_middleware, unprotected_routes
from assistant.service.observability import MetricsRegistry, ServiceLog
from assistant.service.server import ConnectionLimits, DrainState, HttpServer, bind, url_of
from assistant.service.store_lock import find_endpoint, is_locked
from tests.service.examples import (
    PATIENCE_S,
    TOKENS,
    Answer,
    Running,
    Waiting,
    Wire,
    ask,
    echo_app,
    eventually,
    running,
)

ROOT = Path(__file__).parents[2]


class Asking(threading.Thread):
    """A request that is under way."""

    def __init__(self, running: Running, path: str, **headers: str) -> None:
        super().__init__()
        self._running, self._path, self._headers = running, path, headers
        self.answer: Answer | None = None
        self.start()

    def run(self) -> None:
        self.answer = ask(self._running, "GET", self._path, headers=self._headers)

    def end(self) -> Answer:
        self.join(PATIENCE_S)
        assert self.answer is not None
        return self.answer


def test_a_service_in_a_process_says_nothing_to_the_loggers_of_others() -> None:
    logger, told = logging.getLogger("uvicorn.error"), logging.StreamHandler(io.StringIO())
    before = logger.level
    logger.setLevel(logging.INFO)  # as whoever lets uvicorn say what it does
    logger.addHandler(told)
    try:
        with running() as service:
            assert ask(service, "GET", "/v1/metrics").status == 200
        assert told.stream.getvalue() == ""
    finally:
        logger.removeHandler(told)
        logger.setLevel(before)


def test_as_many_requests_as_there_are_slots_and_no_more() -> None:
    with running(limits=ServiceLimits(working=2, streams=1)) as service:
        asking = [Asking(service, "/v1/wait") for _ in range(2)]
        for _ in asking:
            assert service.waiting.has_come.acquire(timeout=PATIENCE_S)
        turned_away = ask(service, "GET", "/v1/metrics")
        assert turned_away.status == 503
        assert turned_away.headers["retry-after"] == "1"
        assert "requests" in turned_away.json["detail"]
        stream = Asking(service, "/v1/wait", Accept="text/event-stream")  # has slots of its own
        assert service.waiting.has_come.acquire(timeout=PATIENCE_S)
        no_more = ask(service, "GET", "/v1/wait", headers={"Accept": "text/event-stream"})
        assert (no_more.status, "streams" in no_more.json["detail"]) == (503, True)
        service.waiting.may_go.set()
        assert [one.end().status for one in (*asking, stream)] == [200, 200, 200]
        assert ask(service, "GET", "/v1/metrics").status == 200


def test_a_fault_gives_its_slot_back() -> None:
    with running(limits=ServiceLimits(working=1)) as service:
        statuses = [ask(service, "GET", "/v1/fault").status for _ in range(3)]
        assert statuses == [500, 500, 500]


def test_connections_are_limited() -> None:
    with running(patience=ConnectionLimits(connections=2)) as service, ExitStack() as opened:
        for _ in range(2):
            wire = opened.enter_context(closing(Wire(service.port)))
            wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.answer().status == 200
        third = opened.enter_context(closing(Wire(service.port)))
        assert third.answer().status == 503
        assert third.is_closed_within(PATIENCE_S)
        wire.close()
        assert eventually(lambda: _health(service.port) == 200)


def _health(port: int) -> int:
    with closing(Wire(port)) as wire:
        wire.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return wire.answer().status


def test_several_requests_on_one_connection() -> None:
    limits, viewer = ConnectionLimits(head_s=PATIENCE_S), TOKENS.by_role[Role.VIEWER]
    with running(patience=limits) as service, closing(Wire(service.port)) as wire:
        request = (
            f"GET /v1/wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {viewer}\r\n\r\n"
        )
        for n in range(3):
            wire.send(request.encode())
            assert service.waiting.has_come.acquire(timeout=PATIENCE_S)
            if n == 2:  # the last head has come
                object.__setattr__(limits, "head_s", 0.1)
            service.waiting.may_go.set()
            answer = wire.answer()
            assert answer.status == 200
            assert "connection" not in answer.headers
        assert wire.is_quiet_for(0.5)  # idle between requests, longer than a head may take


def test_what_is_in_flight_ends_before_the_service_does() -> None:
    with ExitStack() as stack:
        service = stack.enter_context(running())
        idle = stack.enter_context(closing(Wire(service.port)))
        at_work, waiting = Asking(service, "/v1/wait"), Asking(service, "/v1/until-drained")
        for _ in range(2):
            assert service.waiting.has_come.acquire(timeout=PATIENCE_S)
        assert not service.server.drain.has_begun
        stopping = threading.Thread(target=service.server.stop)
        stopping.start()
        assert waiting.end().json == {"drained": True}  # woken, without anybody asking
        assert idle.is_closed_within(PATIENCE_S)
        assert eventually(lambda: _is_refused(service.port))
        service.waiting.may_go.set()
        assert at_work.end().json == {"drained": True}
        stopping.join(PATIENCE_S)
        assert not stopping.is_alive()


def _is_refused(port: int) -> bool:
    try:
        Wire(port).close()
    except ConnectionRefusedError:
        return True
    return False


def test_the_end_is_not_waited_for_longer_than_agreed() -> None:
    with running(drain_s=1) as service:
        asking = Asking(service, "/v1/wait")
        assert service.waiting.has_come.acquire(timeout=PATIENCE_S)
        service.server.stop()
        answer = asking.end()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "Idempotency-Key" in answer.json["hint"]
        service.waiting.may_go.set()  # a thread cannot be cancelled: it ends, and nobody listens


def test_services_can_stand_side_by_side_and_be_started_again() -> None:
    for _ in range(2):
        with running() as one, running() as two:
            assert one.port != two.port
            assert _health(one.port) == _health(two.port) == 200


def test_requests_are_counted_by_route() -> None:
    with running() as service:
        ask(service, "GET", "/v1/experiments/a")
        ask(service, "GET", "/v1/experiments/b")
        ask(service, "BREW", "/v1/health")
        text = ask(service, "GET", "/v1/metrics").body.decode()
        family = "copperline_http_requests_total"
        route = "/v1/experiments/{name}"
        assert f'{family}{{method="GET",route="{route}",status="404"}} 2' in text
        assert 'method="other"' in text
        assert f'copperline_http_request_seconds_count{{method="GET",route="{route}"}} 2.0' in text


def test_clients_can_connect_from_the_moment_in_which_the_address_is_known() -> None:
    with closing(bind()) as listening, closing(socket.create_connection(listening.getsockname())):
        pass  # the server is not there yet, and nobody is refused


def test_a_taken_port_and_a_strange_address_are_said() -> None:
    with closing(bind()) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert url_of(taken) == f"http://127.0.0.1:{port}"
        with pytest.raises(ServiceError, match=rf"cannot listen on '127.0.0.1', port {port}"):
            bind("127.0.0.1", port)
    for strange in ("no.such.name.invalid", "a b", "x" * 300):
        with pytest.raises(ServiceError, match="is not an address of this machine"):
            bind(strange)
    with pytest.raises(ServiceError, match=r"cannot listen|so the service needs tokens"):
        bind("192.0.2.1")


def test_an_address_of_all_is_reached_by_the_loopback(tmp_path: Path) -> None:
    (tmp_path / "tokens").touch()
    with closing(bind("0.0.0.0", tokens=tmp_path / "tokens")) as listening:
        assert url_of(listening).startswith("http://127.0.0.1:")
    if socket.has_ipv6:
        try:
            listening = bind("::1")
        except ServiceError:
            return
        with closing(listening):
            assert url_of(listening).startswith("http://[::1]:")


def test_an_app_that_does_not_start_is_said() -> None:
    @asynccontextmanager
    async def lifespan(_app: FastAPI):  # type: ignore[no-untyped-def]
        raise RuntimeError("no")
        yield

    app = FastAPI(lifespan=lifespan)
    log = ServiceLog(level="error")
    with (
        pytest.raises(ServiceError, match="did not start"),
        HttpServer(build_middleware(app, RoleTokens.of_owner(), log), bind(), log),
    ):
        pytest.fail("it started")


def test_the_routes_that_ask_for_no_role_can_be_listed() -> None:
    app = echo_app(MetricsRegistry(), DrainState(), Waiting())
    assert unprotected_routes(app) == ["GET /v1/health"]
    scheme = app.openapi()["components"]["securitySchemes"]["token"]
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")


SERVE = """
import sys
from pathlib import Path
from assistant.service.store_lock import StoreLock
from assistant.service.middleware import build_middleware
from assistant.service.observability import ServiceLog
from assistant.service.observability import MetricsRegistry
from assistant.service.server import DrainState, HttpServer, bind
from tests.service.examples import TOKENS, Waiting, echo_app

log, drain, waiting = ServiceLog(), DrainState(), Waiting()
with StoreLock.take(Path(sys.argv[1])) as key:
    app = echo_app(MetricsRegistry(), drain, waiting)
    app = build_middleware(app, TOKENS, log, public=["/v1/health"])
    server = HttpServer(app, bind(), log, drain=drain, drain_s=5)
    key.publish(server.url, "x")
    print(server.url, flush=True)
    server.run()
print("ended", flush=True)
"""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def serve() -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", SERVE, str(tmp_path / "x.db")],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield serve
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_lets_requests_finish_and_gives_the_key_back(
    serving: Callable[[], subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    process = serving()
    assert process.stdout is not None
    port = int(process.stdout.readline().rsplit(":", 1)[1])
    endpoint = find_endpoint(tmp_path / "x.db")
    assert endpoint is not None
    assert endpoint.pid == process.pid
    assert eventually(lambda: not _is_refused(port))
    with closing(Wire(port)) as wire:
        head = f"Host: localhost\r\nAuthorization: Bearer {TOKENS.by_role[Role.VIEWER]}\r\n\r\n"
        wire.send(f"GET /v1/until-drained HTTP/1.1\r\n{head}".encode())
        assert _health(port) == 200  # so the first has been read, too: one loop reads in order
        process.send_signal(number)
        assert wire.answer().json == {"drained": True}
    said, told = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, "ended\n"), told
    assert "Traceback" not in told
    assert not is_locked(tmp_path / "x.db")
    assert not (tmp_path / "x.db.service").exists()
