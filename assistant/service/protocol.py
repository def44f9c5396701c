"""HTTP/1.1 as uvicorn reads it with h11, for clients that are slow or wrong on purpose."""

import asyncio
import sys
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from assistant.service.logs import Log, python_logger
from assistant.service.problems import MEDIA_TYPE, Problem
from assistant.service.walls import MAX_HEAD_BYTES, SAFE_HEADERS


@dataclass(frozen=True, slots=True)
class Patience:
    """How long and how much a connection may take.

    Args:
        head_s: from the first byte of a request to the end of its head, and from the connection
            to its first byte (s).
        keep_alive_s: between two requests (s).
        max_head_bytes: of a head that has not ended.
        connections: at once; the next ones are turned away.
    """

    head_s: float = 20.0
    keep_alive_s: int = 30
    max_head_bytes: int = MAX_HEAD_BYTES
    connections: int = 512


class Guarded(H11Protocol):
    """One connection, which ends if the head of a request does not come in time."""

    log: ClassVar[Log]
    patience: ClassVar[Patience]

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, or turn the connection away."""
        self.logger = python_logger(self.log)
        super().connection_made(transport)
        if len(self.connections) > self.patience.connections:
            self._answer(Problem(503, "as many connections as this service takes are open"))
            return
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        """Take what has come; the head is timed from its first byte."""
        self._wait_for_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head_has_come()

    def on_response_complete(self) -> None:
        """Go on to the next request, part of which may be here already."""
        super().on_response_complete()
        if self.conn.their_state is not h11.IDLE:
            self._head_has_come()
        elif self.conn.trailing_data[0]:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._head_has_come()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words
        """Answer what is no HTTP in the shape of every other refusal."""
        error = sys.exc_info()[1]  # called while uvicorn handles what h11 raised
        status = getattr(error, "error_status_hint", 400)
        self._answer(Problem(status, f"not a request of HTTP/1.1 that this service takes: {error}"))

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
        """Say what is wrong, below any app, and close."""
        body = problem.body()
        phrase = HTTPStatus(problem.status).phrase
        lines = [f"HTTP/1.1 {problem.status} {phrase}".encode()]
        lines += [b"content-type: " + MEDIA_TYPE.encode(), b"content-length: %d" % len(body)]
        lines += [b"%s: %s" % header for header in SAFE_HEADERS]
        lines += [f"{name}: {value}".encode() for name, value in problem.all_headers()]
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or not cycle.response_started or cycle.response_complete:
            self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", body]))
        self.transport.close()  # in the middle of another answer there is nothing to say


def protocol_of(log: Log, patience: Patience) -> type[Guarded]:
    """Return the protocol of one service, which tells its own log."""
    return type("GuardedOfOneService", (Guarded,), {"log": log, "patience": patience})
