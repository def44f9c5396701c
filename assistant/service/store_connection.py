"""The door to a store: straight to the file, or to the process that serves it.

One process at a time writes a store, the one that holds its key. Who comes while another serves
speaks to it; who comes first takes the key, and serves while it stays (`serving`). Whether a
command, a browser or a service came first makes no difference to what they can do.

The service beside a browser UI: one is used if it runs, else one is started and kept alive.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from assistant.client.api import TRIES, ApiClient, HttpStore
from assistant.core.errors import AssistantError, ServiceError
from assistant.core.events import Event
from assistant.core.ports import StoredExperiment
from assistant.service.store_lock import Endpoint, StoreLock, find_endpoint
from assistant.store.event_store import SqliteStore

T = TypeVar("T")


class LockedStore(SqliteStore):
    """A file of journals whose key this process holds until it is closed; None if it has none."""

    def __init__(self, path: Path, key: StoreLock | None) -> None:
        self.key = key
        if key is not None:
            weakref.finalize(self, key.release)  # for whoever forgets to close it
        try:
            super().__init__(path)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Close the file and give the key back."""
        super().close()
        self._release()

    def _release(self) -> None:
        if self.key is not None:
            self.key.release()
            self.key = None


class StoreConnection:
    """A store that is reached whichever way there is: the service may end, or another begin.

    Args:
        path: of the store.
        take_key: whether this process may hold the key while nobody else serves.
    """

    def __init__(self, path: Path, *, take_key: bool = True) -> None:
        self._path, self._take_key = path, take_key
        self.inner = self._reach()

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """See `Store.append`."""
        self._do(lambda store: store.append(experiment_id, position, events))

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """See `Store.load`."""
        return self._do(lambda store: store.load(experiment_id, since))

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """See `Store.experiments`."""
        return self._do(lambda store: store.experiments())

    def close(self) -> None:
        """Close the file or the connection."""
        self.inner.close()

    def _do(self, ask: Callable[[LockedStore | HttpStore], T]) -> T:
        try:
            return ask(self.inner)
        except ServiceError:
            if isinstance(self.inner, HttpStore) and find_endpoint(self._path) is None:
                self.inner.close()
                self.inner = self._reach()  # whoever served has ended
                return ask(self.inner)
            raise

    def _reach(self) -> LockedStore | HttpStore:
        endpoint = find_endpoint(self._path)
        if endpoint is not None:
            return HttpStore(api_client_of(self._path, endpoint))
        return LockedStore(self._path, StoreLock.take(self._path) if self._take_key else None)


def open_store(path: Path, *, take_key: bool = True) -> StoreConnection:
    """Return the store at a path: through the service that runs, else the file itself.

    A process that holds the key and does not serve (a short command) does not keep others out:
    each append is a transaction of its own, and sessions catch up with one another.

    Raises:
        StoreError: it cannot be read; ServiceError: the service that runs does not answer.
    """
    return StoreConnection(path, take_key=take_key)


def api_client_of(path: Path, endpoint: Endpoint, tries: int = TRIES) -> ApiClient:
    """Return a connection to the service of a store, which finds it again after a restart.

    Args:
        path: of the store.
        endpoint: where it is served now.
        tries: how often a request is sent while no answer comes; 6 last about 3 s.
    """

    def again() -> tuple[str, str] | None:
        there = find_endpoint(path)
        return None if there is None else (there.url, there.token)

    return ApiClient(endpoint.url, endpoint.token, find=again, tries=tries)


@contextlib.contextmanager
def embedded_service(path: Path) -> Iterator[StoreConnection]:
    """Hold a store for long: others reach it through this process meanwhile.

    Where a service runs already, that one is used.

    Raises:
        StoreError: it cannot be read; ServiceError: the service that runs does not answer.
    """
    store = open_store(path)
    try:
        with contextlib.ExitStack() as stack:
            inner = store.inner
            if isinstance(inner, LockedStore) and inner.key is not None:
                stack.enter_context(_private(inner, inner.key))
            yield store
    finally:
        store.close()


@contextlib.contextmanager
def _private(store: SqliteStore, key: StoreLock) -> Iterator[None]:
    """Serve a store on the loopback, to whoever may read its folder."""
    from assistant.service.api_tokens import ApiTokenStore, Role, token_store_path
    from assistant.service.app import make_service
    from assistant.service.auth import RoleTokens
    from assistant.service.experiment_service import ExperimentService
    from assistant.service.observability import ServiceLog
    from assistant.service.server import HttpServer, bind

    tokens, log = RoleTokens.of_owner(), ServiceLog(level="error")
    house = ExperimentService(store, log, book=ApiTokenStore(token_store_path(key.store)))
    service = make_service(house, tokens, log, alone=False)
    with HttpServer(service.asgi, bind(), log, drain=service.context.drain, drain_s=2) as server:
        key.publish(server.url, tokens.by_role[Role.OWNER])
        try:
            yield
        finally:
            key.withdraw()


def needs_service(path: Path) -> ApiClient:
    """Return a connection to the service of a store. Raises ServiceError if none runs."""
    endpoint = find_endpoint(path)
    if endpoint is None:
        raise ServiceError(
            f"no service runs for the store '{path}'; start one with: copperline serve"
        )
    return api_client_of(path, endpoint)


UP_WITHIN_S = 30.0
_LOOK_S = 0.1
_AGAIN_S = 2.0


class ServiceSupervisor:
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

    def reach(self, patience_s: float = UP_WITHIN_S, tries: int = TRIES) -> ApiClient:
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
            endpoint = find_endpoint(self._store)
            if endpoint is not None:
                return api_client_of(self._store, endpoint, tries)
            if time.monotonic() > until_s:
                raise ServiceError(
                    f"no service came up for the store '{self._store}' within {patience_s:.0f} s; "
                    f"start one to see why: copperline serve --execute --store {self._store}"
                )
            time.sleep(_LOOK_S)

    def ensure(self) -> None:
        """Start a service if none runs; returns at once."""
        with self._lock:
            endpoint = find_endpoint(self._store)
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
