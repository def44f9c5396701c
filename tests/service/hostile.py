"""A hostile service on the loopback: it answers each request with the bytes that a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Reply:
    """One answer; ``endless`` is sent again and again until the client hangs up."""

    body: bytes = b"null"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bytes = b""


Answer = Callable[[str, str], Reply]


@dataclass
class HostileService:
    """Where it listens, and which requests it has got (method and path)."""

    url: str
    requests: list[tuple[str, str]]

    def asked(self, end: str) -> list[str]:
        return [path for _, path in self.requests if path.endswith(end)]


@contextmanager
def hostile_service(answer: Answer) -> Iterator[HostileService]:
    """Serve ``answer(method, path)`` on a free port for a block."""
    requests: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append((self.command, self.path.split("?")[0]))
            reply = answer(*requests[-1])
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.endless:
                self.send_header("Connection", "close")
                self.end_headers()
                with suppress(OSError):
                    self.wfile.write(reply.body)
                    while True:
                        self.wfile.write(reply.endless)
                self.close_connection = True
                return
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(reply.body)

        do_GET = do_POST = do_DELETE = do_PATCH = _answer  # noqa: N815 - as they are named there

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            pass  # a client that hung up

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield HostileService(f"http://127.0.0.1:{server.server_port}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
