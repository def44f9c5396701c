"""A small program that speaks HTTP, in a thread of this process: the example of `rest`."""

import json
from functools import cache
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Thread


@cache
def sample_url() -> str:
    """Return the address of the program on this machine; it runs as long as this process does."""
    server = _Server(("127.0.0.1", 0), _Bowl)
    Thread(target=server.serve_forever, name="copperline-sample", daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/runs"


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64


class _Bowl(BaseHTTPRequestHandler):
    """A known function of x and mode; of x = 3 a failure."""

    def do_POST(self) -> None:
        """Make a run."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        x, mode = asked["values"]["x"], asked["values"]["mode"]
        told: dict[str, object] = {"failure": "three is too many"}
        if x != 3:
            told = {"measures": {"height": (x - 2) ** 2 + len(mode), "luck": asked["seed"] % 7}}
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is named there
        """Say nothing."""
