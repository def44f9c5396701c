"""HTTP/1.1 server (uvicorn and h11), which runs in the calling thread or in a background thread.

It limits the time and size of heads and connections, because clients may be slow or hostile.
"""

import asyncio
import contextlib
import ipaddress
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import FrameType
from typing import ClassVar, Self

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from assistant.core.errors import ServiceError
from assistant.core.interrupts import stop_signals
from assistant.service.middleware import MAX_HEAD_BYTES, SAFE_HEADERS
from assistant.service.observability import LogRelay, ServiceLog, python_logger
from assistant.service.problems import MEDIA_TYPE, Problem
from strategies.blas_threads import limit_blas_of_process


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of a service's HTTP connections: times in seconds, head size and number.

    ``head_s`` is the time for the head of a request, and for its first byte; ``keep_alive_s`` the
    time between two requests; ``connections`` the number that may be open at once.
    """

    head_s: float = 20.0
    keep_alive_s: int = 30
    max_head_bytes: int = MAX_HEAD_BYTES
    connections: int = 512


class LimitedHttpProtocol(H11Protocol):
    """HTTP protocol of one connection, which is closed if a request head arrives too late."""

    log: ClassVar[ServiceLog]
    patience: ClassVar[ConnectionLimits]

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of the request head, or refuse a connection beyond the limit."""
        self.logger = python_logger(self.log)
        super().connection_made(transport)
        if len(self.connections) > self.patience.connections:
            self._answer(Problem(503, "the maximum number of connections to this service is open"))
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Process received bytes; stop the timer when a request head is complete."""
        self._wait_for_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_has_come()

    def on_response_complete(self) -> None:
        """Continue with the next request, and time its head if a part of it has arrived."""
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:
            self._head_has_come()
        elif self.conn.trailing_data[0]:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer of the request head."""
        self._head_has_come()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Answer data that is not valid HTTP with an error response."""
        error = sys.exc_info()[1]  # called while uvicorn handles what h11 raised
        status = getattr(error, "error_status_hint", 400)
        self._answer(Problem(status, f"this is not a valid HTTP/1.1 request: {error}"))

    def _wait_for_head(self) -> None:
        if self._head_timer is None and self.conn.their_state is h11.IDLE:
            self._head_timer = self.loop.call_later(self.patience.head_s, self._head_is_late)

    def _head_has_come(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if not self.transport.is_closing():
            sentence = f"the head of the request did not arrive within {self.patience.head_s:g} s"
            self._answer(Problem(408, sentence))

    def _answer(self, problem: Problem) -> None:
        """Send a problem without an app, and close."""
        body = problem.body()
        phrase = HTTPStatus(problem.status).phrase
        lines = [f"HTTP/1.1 {problem.status} {phrase}".encode()]
        lines += [b"content-type: " + MEDIA_TYPE.encode(), b"content-length: %d" % len(body)]
        lines += [b"%s: %s" % header for header in SAFE_HEADERS]
        lines += [f"{name}: {value}".encode() for name, value in problem.all_headers()]
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", body]))
        self.transport.close()  # nothing can be sent in the middle of another answer


def protocol_of(log: ServiceLog, patience: ConnectionLimits) -> type[LimitedHttpProtocol]:
    """Return the protocol class of one service, bound to its log and connection limits."""
    return type("GuardedOfOneService", (LimitedHttpProtocol,), {"log": log, "patience": patience})


DEFAULT_HOST = "127.0.0.1"
BACKLOG = 128
_MARGIN_S = 5.0


def bind(host: str = DEFAULT_HOST, port: int = 0, *, tokens: Path | None = None) -> socket.socket:
    """Return a socket bound for an `HttpServer`, to any free port if ``port`` is 0.

    Raises ServiceError if the address is not available, or if other machines can reach it and the
    file of tokens does not exist.
    """
    info = _resolved(host, port)
    is_loopback = ipaddress.ip_address(_address(info)).is_loopback
    if not is_loopback and (tokens is None or not tokens.exists()):
        where = "" if tokens is None else f": there is no '{tokens}'"
        raise ServiceError(
            f"other machines can reach '{host}', so the service needs tokens{where}; start it "
            f"once on {DEFAULT_HOST} to make the file of tokens, and distribute the tokens"
        )
    return _bound(info, host, port)


def free_address(host: str, port: int) -> str:
    """Return the numeric address of a host, on which a server of another kind can listen now.

    Raises ServiceError if it cannot.
    """
    info = _resolved(host, port)
    _bound(info, host, port).close()
    return _address(info)


_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, tuple[int | str | bytes, ...]]


def _address(info: _AddressInfo) -> str:
    return str(info[3][0]).partition("%")[0]


def _resolved(host: str, port: int) -> _AddressInfo:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"'{host}' is not an address of this machine: {error}") from error
    family, kind, protocol, _, address = addresses[0]
    return family, kind, protocol, address


def _bound(info: _AddressInfo, host: str, port: int) -> socket.socket:
    family, kind, protocol, address = info
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(BACKLOG)  # clients that have the address wait until the server accepts
    except OSError as error:
        listening.close()
        raise ServiceError(
            f"cannot listen on '{host}', port {port}: {error.strerror}; choose another port"
        ) from error
    listening.setblocking(False)
    return listening


def url_of(listening: socket.socket) -> str:
    """Return the URL at which clients on this machine reach a listening socket."""
    host, port = listening.getsockname()[:2]
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.is_unspecified:
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    return f"http://[{address}]:{port}" if address.version == 6 else f"http://{address}:{port}"


class DrainState:
    """Shutdown state of a service, in which it grants no leases and ends waiting requests."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        self._woken = asyncio.Event()

    @property
    def has_begun(self) -> bool:
        """Whether the shutdown has begun (thread-safe)."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin the shutdown, from any thread or signal handler."""
        self._begun.set()

    async def wait(self) -> None:
        """Wait until `wake` is called, at the shutdown."""
        await self._woken.wait()

    def wake(self) -> None:
        """Begin the shutdown and wake all waiting requests, from the server's thread."""
        self.begin()
        self._woken.set()


class HttpServer:
    """HTTP server of an app; at its end, requests in flight have ``drain_s`` seconds to finish.

    ``with HttpServer(app, bind(), log) as server: ...`` serves in a thread beside the block;
    `run` serves in this thread until SIGTERM or SIGINT. It closes the socket at the end.
    """

    def __init__(
        self,
        app: ASGIApp,
        listening: socket.socket,
        log: ServiceLog,
        *,
        drain: DrainState | None = None,
        drain_s: int = 20,
        patience: ConnectionLimits | None = None,
    ) -> None:
        patience = ConnectionLimits() if patience is None else patience
        self._listening, self._log, self._drain_s = listening, log, drain_s
        self._drain = DrainState() if drain is None else drain
        self._url = url_of(listening)
        self._thread: threading.Thread | None = None
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=protocol_of(log, patience),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",  # independent of other loggers of this process
            access_log=False,
            proxy_headers=False,  # clients must not choose the address of the rate limiter
            server_header=False,
            workers=1,
            backlog=BACKLOG,
            timeout_keep_alive=patience.keep_alive_s,
            timeout_graceful_shutdown=drain_s,
            h11_max_incomplete_event_size=patience.max_head_bytes,
        )
        self._server = _UvicornServer(config, self._drain)

    @property
    def url(self) -> str:
        """URL of the server for clients on this machine."""
        return self._url

    @property
    def drain(self) -> DrainState:
        """Shutdown state of the server."""
        return self._drain

    def run(self) -> None:
        """Serve in the main thread until SIGTERM or SIGINT, ending at once on a second SIGINT.

        BLAS of the process is limited to one thread: many requests are computed at once, none of
        them a run. Raises ServiceError if the app does not start.
        """
        limit_blas_of_process()
        with self._signals(), self._words_of_uvicorn():
            self._serve()
        self._check()

    def start(self) -> Self:
        """Serve in a thread until `stop`, or raise ServiceError if the app does not start.

        The thread ends with the process, also without `stop`.
        """
        self._thread = threading.Thread(target=self._serve, name="copperline-serve", daemon=True)
        self._thread.start()
        self._server.settled.wait()
        self._check()
        return self

    def stop(self) -> None:
        """Wait up to ``drain_s`` seconds for requests in flight, then end the server thread."""
        self._drain.begin()
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(self._drain_s + _MARGIN_S)
            if self._thread.is_alive():
                self._log.warning("not ended", url=self._url)
            self._thread = None
        self._listening.close()

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listening])
        except SystemExit:  # raised by uvicorn if the app does not start
            self._log.error("not started", url=self._url)
        except BaseException as error:
            self._log.error("fault", error, url=self._url)
            if not isinstance(error, Exception):
                raise
        finally:
            self._server.settled.set()
            self._listening.close()

    def _check(self) -> None:
        if not self._server.started:
            raise ServiceError(f"the service at {self._url} did not start; see its log")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Let the signals that end a process end only the service."""

        def end(number: int, _frame: FrameType | None) -> None:
            if self._server.should_exit and number == signal.SIGINT:
                self._server.force_exit = True
            self._server.should_exit = True
            self._drain.begin()

        before = {
            signal_number: signal.signal(signal_number, end) for signal_number in stop_signals()
        }
        try:
            yield
        finally:
            for signal_number, handler in before.items():
                signal.signal(signal_number, handler)

    @contextlib.contextmanager
    def _words_of_uvicorn(self) -> Iterator[None]:
        """Write uvicorn's warnings to the log."""
        logger, relay = logging.getLogger("uvicorn.error"), LogRelay(self._log)
        before = logger.propagate
        logger.addHandler(relay)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(relay)
            logger.propagate = before

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _UvicornServer(uvicorn.Server):
    """Uvicorn server without its signal handlers; it reports when it listens."""

    def __init__(self, config: uvicorn.Config, drain: DrainState) -> None:
        super().__init__(config)
        self.settled = threading.Event()
        self._drain = drain

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `HttpServer`, because uvicorn would raise them again at its end."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen and notify the thread that waits for the startup."""
        await super().startup(sockets)
        self.settled.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End waiting requests, finish active requests and drop clients that do not read."""
        self._drain.wake()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # lets the transports close
