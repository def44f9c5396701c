"""HTTPS server for the workers in jobs of Slurm: the requests of `copperline work`, and no others.

TLS with a certificate of this sweep alone, which its workers pin; the secret of a ticket is the
bearer token. A connection without a valid ticket is closed after its first request.
"""

import contextlib
import json
import logging
import socket
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from assistant.core.errors import (
    AccessDeniedError,
    AssistantError,
    LeaseLostError,
    SettingsError,
)
from assistant.core.objective import Measure, finite
from assistant.core.ports import ExecutionResult
from assistant.core.run import RunOutput
from assistant.executors.slurm.dispatcher import PilotDispatcher, lease_as_json
from assistant.executors.slurm.protocol import ABOUT, about_of

FIRST_S = 10.0  # Seconds for the handshake and the first request of a connection
IDLE_S = 120.0
MOST_BYTES = 16 << 20  # Largest body of a request
MOST_CONNECTIONS = 2048
MOST_STRANGERS = 64  # Largest number of connections that have not shown a ticket

_log = logging.getLogger("copperline.slurm")

Body = dict[str, Any]


class InvalidRequestError(AssistantError):
    """Error: a worker's request is malformed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = FIRST_S
    dispatcher: ClassVar[PilotDispatcher]
    server: "_Server"

    def setup(self) -> None:
        self.request.settimeout(FIRST_S)
        self.request.do_handshake()
        super().setup()

    def do_POST(self) -> None:
        """Answer the request of a worker."""
        secret = self.headers.get("Authorization", "").removeprefix("Bearer ")
        pilot = self.dispatcher.pilot_of(secret)
        if pilot is None:
            self.close_connection = True
            self._send(401, {"detail": "the token is not that of a ticket"})
            return
        self.request.settimeout(IDLE_S)
        self.server.strangers.discard(self.request)
        try:
            body = self._body()
            self.dispatcher.check(pilot, about_of(self.headers.get(ABOUT, "")))
            answer = self._changed(pilot, body)
        except AccessDeniedError as error:
            self._send(403, {"detail": str(error), "error": "AccessDeniedError"})
        except LeaseLostError as error:
            self._send(409, {"detail": str(error), "error": "LeaseLostError"})
        except InvalidRequestError as error:
            self.close_connection = True
            self._send(400, {"detail": str(error)})
        else:
            self._send(204 if answer is None else 200, answer)

    def _changed(self, pilot: str, body: Body) -> Body | None:
        parts = self.path.strip("/").split("/")
        if parts == ["v1", "leases"]:
            leased = self.dispatcher.lease(pilot, _text(body, "worker"))
            return None if leased is None else lease_as_json(*leased)
        if parts == ["v1", "broken"]:
            self.dispatcher.fail(pilot, _text(body, "reason"))
            return None
        if len(parts) != 4 or parts[:2] != ["v1", "leases"]:
            raise InvalidRequestError("there is no such address")
        token, act = parts[2], parts[3]
        if act == "heartbeat":
            return {"lease_s": self.dispatcher.heartbeat(pilot, token)}
        if act == "report":
            self.dispatcher.report(pilot, token, measures_of(body.get("measures")))
        elif act == "result":
            self.dispatcher.complete(pilot, token, completion_of(body))
            return {"recorded": True}
        elif act == "return":
            self.dispatcher.give_back(pilot, token, _text(body, "reason"))
        else:
            raise InvalidRequestError("there is no such address")
        return None

    def _body(self) -> Body:
        length = self.headers.get("Content-Length", "0")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            raise InvalidRequestError(f"a request has at most {MOST_BYTES} bytes")
        content = self.rfile.read(int(length))
        if not content:
            return {}
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(f"the body is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise InvalidRequestError("the body is not an object")
        return body

    def _send(self, status: int, body: Body | None) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the base class
        """Log at the level of debugging."""
        _log.debug(format, *args)


class WorkerServer:
    """HTTPS server for workers in threads of its own; SettingsError if it cannot listen."""

    def __init__(
        self, dispatcher: PilotDispatcher, host: str, certificate: Path, key: Path
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        handler = type("Handler", (_Handler,), {"dispatcher": dispatcher})
        try:
            family, *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            self._server = _Server(context, family, host, handler)
        except OSError as error:
            raise SettingsError(
                f"cannot listen at '{host}' ({error.strerror or error}); set host in [executor] to "
                "an address of this machine that the nodes of the cluster can reach"
            ) from error
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="slurm server", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening and close all connections."""
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()
        self._thread.join(30.0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(
        self,
        context: ssl.SSLContext,
        family: socket.AddressFamily,
        host: str,
        handler: type[BaseHTTPRequestHandler],
    ) -> None:
        self.address_family = family
        self._context = context
        self._connections: set[socket.socket] = set()
        self.strangers: set[socket.socket] = set()
        super().__init__((host, 0), handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; the handshake follows in the thread of the connection."""
        connection, address = super().get_request()
        if len(self._connections) >= MOST_CONNECTIONS or len(self.strangers) >= MOST_STRANGERS:
            connection.close()
            raise OSError("too many connections")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wrapped = self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        self._connections.add(wrapped)
        self.strangers.add(wrapped)
        return wrapped, address

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        self.strangers.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """Close the connections that are still open."""
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Leave out what goes wrong with a connection: a worker that is real comes again."""
        _log.debug("a connection of %s broke", client_address, exc_info=True)


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str) or not 0 < len(text) <= MOST_TEXT:
        raise InvalidRequestError(f"'{name}' is not a text of at most {MOST_TEXT} characters")
    return text


MOST_TEXT = 4000


def completion_of(body: Mapping[str, Any]) -> ExecutionResult:
    """Convert the body of a result to an execution result of run 0, or raise an error."""
    measures, failure = body.get("measures"), body.get("failure")
    duration_s, output = body.get("duration_s", 0.0), body.get("output")
    if not (failure is None or isinstance(failure, str)) or (measures is None) == (failure is None):
        raise InvalidRequestError("a result has either measures or the text of a failure")
    if isinstance(duration_s, bool) or not isinstance(duration_s, int | float):
        raise InvalidRequestError("'duration_s' is not a number")
    if output is not None and not (
        isinstance(output, dict)
        and set(output) <= {"stdout", "stderr"}
        and all(isinstance(text, str) for text in output.values())
    ):
        raise InvalidRequestError("'output' is not the text of two streams")
    return ExecutionResult(
        0, None if measures is None else measures_of(measures), failure, float(duration_s),
        output=None if output is None else RunOutput(**output),
    )  # fmt: skip


def measures_of(body: object) -> dict[str, Measure]:
    """Convert a JSON object to measures by name (a list becomes a series), or raise an error."""
    if not isinstance(body, dict):
        raise InvalidRequestError("measures are not an object")
    return {name: _measure(name, value) for name, value in body.items()}


def _measure(name: str, value: object) -> Measure:
    if value is None or isinstance(value, int | float):
        return finite(value)
    if isinstance(value, list) and all(isinstance(number, int | float) for number in value):
        return finite(tuple(value))
    raise InvalidRequestError(f"the measure '{name}' is neither a number nor a list of numbers")
