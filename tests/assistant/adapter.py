"""A program that speaks HTTP on loopback, and answers what a test says: a real server, no stub."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

PATIENCE_S = 120.0


@dataclass(frozen=True)
class Heard:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """One answer.

    Args:
        body: sent as JSON unless it is bytes.
        kind: Content-Type.
        raw: sent as it is instead of all that, and then no more, or ``drip`` behind it.
        drip: sent again and again, until the other side is gone.
    """

    body: object = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    raw: bytes | None = None
    drip: bytes = b""


Answer = Callable[[Heard], Reply | None]
"""What a program answers; None never answers and waits until the other side is gone."""


class Program:
    """The program: what it has heard, and a way to wait for it."""

    def __init__(self, answer: Answer, listening: bool = True) -> None:
        self.heard: list[Heard] = []
        self.gone = threading.Event()
        """Set once somebody has closed the connection of a request without an answer."""
        self._answer, self._news = answer, threading.Condition()
        self.server = _Server(("127.0.0.1", 0), _handler(self), bind_and_activate=False)
        self.server.server_bind()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{self.address}/runs"
        self._thread: threading.Thread | None = None
        if listening:
            self.listen()

    def listen(self) -> None:
        """Take requests from now on; before, they are refused."""
        self.server.server_activate()
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def answer(self, heard: Heard) -> Reply | None:
        with self._news:
            self.heard.append(heard)
            self._news.notify_all()
        return self._answer(heard)

    def methods(self) -> list[str]:
        return [one.method for one in self.heard]

    def wait_for(self, method: str) -> Heard:
        """Return the first request of this method, once it is there."""
        with self._news:
            assert self._news.wait_for(lambda: method in self.methods(), PATIENCE_S)
        return next(one for one in self.heard if one.method == method)

    def close(self) -> None:
        if self._thread is not None:
            self.server.shutdown()
            self._thread.join()
        self.server.server_close()


@contextmanager
def program(answer: Answer, listening: bool = True) -> Iterator[Program]:
    made = Program(answer, listening)
    try:
        yield made
    finally:
        made.close()


class _Server(ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


def _handler(of: Program) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = of.answer(Heard(self.command, self.path, headers, self.rfile.read(length)))
            if reply is None:
                self.close_connection = True
                self.connection.recv(1)
                of.gone.set()
                return
            if reply.raw is not None:
                self.close_connection = True
                self.wfile.write(reply.raw)
                self.connection.settimeout(0.02)
                while reply.drip:
                    with suppress(TimeoutError):
                        self.connection.recv(1)
                        of.gone.set()
                        return
                    self.wfile.write(reply.drip)
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            told = {"Content-Type": reply.kind, "Content-Length": str(len(body)), **reply.headers}
            for name, value in told.items():
                if value:
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = _any  # noqa: N815 - named so there

        def handle(self) -> None:
            try:
                super().handle()
            except ConnectionError:
                of.gone.set()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so there
            """Say nothing."""

    return Handler
