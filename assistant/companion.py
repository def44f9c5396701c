"""The service beside a browser UI: one is used if it runs, else one is started and kept alive.

It is a process of its own, with workers, so that no page and no crash of a page stops a run. If it
dies, it is started again, and goes on from the store.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from assistant.client import Link
from assistant.client.link import TRIES
from assistant.door import link_to
from assistant.errors import AssistantError, ServiceError
from assistant.service.endpoint import find

UP_WITHIN_S = 30.0
_LOOK_S = 0.1
_AGAIN_S = 2.0


class Companion:
    """Keeps a service for a store, as long as this process lives or until `end`.

    Args:
        store: the file of journals; it need not exist yet.
        log: file that the service's lines go to; None is this process's standard error.
    """

    def __init__(self, store: Path, log: Path | None = None) -> None:
        self._store, self._log = store, log
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._not_before_s = 0.0
        self._port = 0  # where it was: workers that outlived it tell their results there
        self._ended = threading.Event()

    def reach(self, patience_s: float = UP_WITHIN_S, tries: int = TRIES) -> Link:
        """Return a connection to the service, started if there is none.

        Args:
            patience_s: how long to wait for it to come up.
            tries: see `door.link_to`.

        Raises:
            ServiceError: it does not come up in time; the sentence says what to do.
        """
        until_s = time.monotonic() + patience_s
        while True:
            self.ensure()
            endpoint = find(self._store)
            if endpoint is not None:
                return link_to(self._store, endpoint, tries)
            if time.monotonic() > until_s:
                raise ServiceError(
                    f"no service came up for the store '{self._store}' within {patience_s:.0f} s; "
                    f"start one to see why: copperline serve --execute --store {self._store}"
                )
            time.sleep(_LOOK_S)

    def ensure(self) -> None:
        """Start a service if none runs; returns at once."""
        with self._lock:
            endpoint = find(self._store)
            if endpoint is not None:
                self._port = urlsplit(endpoint.url).port or 0
            if self._ended.is_set() or endpoint is not None:
                return
            if self._child is not None and self._child.poll() is None:
                return  # it is coming up, or going down
            if time.monotonic() < self._not_before_s:
                return
            self._not_before_s = time.monotonic() + _AGAIN_S
            self._child = self._started(self._port)
            self._port = 0  # once: somebody else may have taken it

    def keep(self) -> None:
        """Look after it from a thread of its own, from now on."""
        threading.Thread(target=self._keep, name="copperline-companion", daemon=True).start()

    def end(self) -> None:
        """End the service that was started here, giving its runs and requests a little time."""
        self._ended.set()
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        try:
            child.wait(timeout=15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _keep(self) -> None:
        while not self._ended.wait(1.0):
            try:
                self.ensure()
            except AssistantError:
                continue  # a file beside the store that cannot be read yet; said by `reach`

    def _started(self, port: int) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "assistant.cli", "serve", "--port", str(port), "--execute",
            "--log-level", "warning", "--parent", str(os.getpid()), "--store", str(self._store),
        ]  # fmt: skip
        if self._log is None:
            return subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        with self._log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
