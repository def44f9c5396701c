"""A pilot's line to the gate: a question and its answer, asked again until it comes."""

import secrets
import socket
import time
from collections.abc import Mapping
from typing import Any

from assistant.errors import ExecutorError
from assistant.executors.slurm.frames import (
    MOST_HEADER,
    FrameError,
    decode_body,
    decode_header,
    encode,
)
from assistant.executors.slurm.ticket import Ticket

ANSWER_S = 20.0
"""How long one try may take; an answer that says wait takes some seconds."""

AGAIN_S = 0.5
"""Between two tries."""


class NoAnswerError(ExecutorError):
    """The gate does not answer; or does not know the ticket, which nobody can tell from it."""


class Line:
    """One connection at a time, made again when it breaks.

    Args:
        ticket: whose secret signs, and which says where the gate is.
    """

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._socket: socket.socket | None = None
        self._session, self._counter = "", 0

    def hello(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a session. Raises NoAnswerError."""
        told = self.ask("hello", about)
        self._session, self._counter = str(told.get("session", "")), 0
        return told

    def ask(
        self, kind: str, body: Mapping[str, Any] | None = None, within_s: float | None = None
    ) -> dict[str, Any]:
        """Return the gate's answer.

        Args:
            kind: of the question.
            body: what is told.
            within_s: for how long it is tried; None is what the ticket says.

        Raises:
            NoAnswerError: none came.
            FrameError: what is told cannot be sent.
        """
        until_s = time.monotonic() + (self._ticket.gone_s if within_s is None else within_s)
        while True:
            try:
                return self._try(kind, body or {})
            except (OSError, _BrokenError) as error:
                self.close()
                if time.monotonic() + AGAIN_S > until_s:
                    gate = f"{self._ticket.host}:{self._ticket.port}"
                    raise NoAnswerError(f"the gate {gate} does not answer ({error})") from error
                time.sleep(AGAIN_S)

    def close(self) -> None:
        """End the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _try(self, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._counter += 1
        session = secrets.token_hex(16) if kind == "hello" else self._session
        about = (self._ticket.pilot, session, self._counter, kind)
        frame = encode(self._ticket.secret, "ask", about, body)
        if self._socket is None:
            address = (self._ticket.host, self._ticket.port)
            self._socket = socket.create_connection(address, timeout=ANSWER_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(frame)
        with self._socket.makefile("rb") as file:
            line = file.readline(MOST_HEADER + 1)
            try:
                header = decode_header(line.removesuffix(b"\n"))
                asked = decode_header(frame.partition(b"\n")[0])
                signed = header.is_signed(self._ticket.secret, "answer")
                if not signed or not header.answers(asked):
                    raise FrameError("an answer that is not the gate's to this question")
                return decode_body(header, file.read(header.length))
            except FrameError as error:
                raise _BrokenError(str(error) if line else "it closed the connection") from error


class _BrokenError(Exception):
    """No answer of the gate's came on this connection."""
