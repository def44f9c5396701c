"""A wire that loses, repeats and delays: HTTP between the service and everybody else."""

import json
import os
import random
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from tests.faults.soak.board import Board

PATIENCE_S = 30.0
RATES = {"reply lost": 0.03, "request lost": 0.01, "repeated": 0.02, "delayed": 0.02}
"""How often each happens to a request."""


class _Closed(Exception):  # noqa: N818 - not an error: the other side has gone
    pass


@dataclass
class _Message:
    head: bytes
    body: bytes

    @property
    def whole(self) -> bytes:
        return self.head + self.body

    @property
    def path(self) -> str:
        return self.head.split(b" ", 2)[1].decode("latin-1")


def _read(wire: socket.socket, rest: bytes) -> tuple[_Message, bytes]:
    """Read one message with its body; what comes behind it is kept."""
    while b"\r\n\r\n" not in rest:
        more = wire.recv(65536)
        if not more:
            raise _Closed
        rest += more
    head, _, rest = rest.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            length = int(value)
    while len(rest) < length:
        more = wire.recv(65536)
        if not more:
            raise _Closed
        rest += more
    return _Message(head + b"\r\n\r\n", rest[:length]), rest[length:]


@dataclass
class Proxy:
    """Stands between the service and its clients.

    Args:
        listening: where clients come.
        port: of the service.
        log: gets a line for each fault.
        board: says whether faults are wanted.
        seed: of the faults.
    """

    listening: socket.socket
    port: int
    log: Path
    board: Board
    seed: int

    def serve(self) -> None:
        """Serve until the process is ended."""
        self._rng, self._lock = random.Random(self.seed), threading.Lock()
        self._file = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while True:
            client, _ = self.listening.accept()
            threading.Thread(target=self._client, args=(client,), daemon=True).start()

    def _client(self, client: socket.socket) -> None:
        service: socket.socket | None = None
        rest = behind = b""
        client.settimeout(PATIENCE_S)
        try:
            while True:
                request, rest = _read(client, rest)
                kind, delay_s = self._draw()
                if kind is not None:
                    self._tell(kind, request.path)
                if kind == "request lost":
                    return
                if kind == "delayed":
                    time.sleep(delay_s)
                if service is None:
                    service, behind = self._connect(), b""
                service.sendall(request.whole)
                answer, behind = _read(service, behind)
                if kind == "repeated":
                    second = self._connect()
                    with second:
                        second.sendall(request.whole)
                        again, _ = _read(second, b"")
                    answer = again if delay_s < 1 else answer
                if kind == "reply lost":
                    return
                client.sendall(answer.whole)
        except (OSError, _Closed, ValueError):
            return
        finally:
            client.close()
            if service is not None:
                service.close()

    def _connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def _draw(self) -> tuple[str | None, float]:
        with self._lock:
            drawn, delay_s = self._rng.random(), self._rng.uniform(0.1, 2.5)
        if not self.board.faulty:
            return None, 0.0
        for kind, rate in RATES.items():
            drawn -= rate
            if drawn < 0:
                return kind, delay_s
        return None, 0.0

    def _tell(self, kind: str, path: str) -> None:
        line = json.dumps({"kind": kind, "path": path.partition("?")[0]})
        os.write(self._file, f"{line}\n".encode())
