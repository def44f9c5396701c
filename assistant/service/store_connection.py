"""Connection to a store: to its file, or to the process that serves it.

One process at a time writes a store, the holder of its lock. It serves while it stays
(`embedded_service`), and other processes use its service: the order of a command, a browser and
a service makes no difference. The supervisor keeps a service alive beside a browser UI.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit

from assistant.analysis.experiment_state import ExecutionStatus
from assistant.client.api import TRIES, ApiClient, HttpStore
from assistant.core.errors import AssistantError, ServiceError, StoreError
from assistant.core.events import Event
from assistant.core.files import open_private
from assistant.core.ports import StoredExperiment
from assistant.core.run import RunOutput
from assistant.service.api_tokens import ApiTokenStore, Role, token_store_path
from assistant.service.store_lock import Endpoint, StoreLock, find_endpoint
from assistant.session.execution import is_executed
from assistant.store.event_store import SqliteStore
from assistant.store.store_file import is_read_only

if TYPE_CHECKING:
    from assistant.service.server import HttpServer

T = TypeVar("T")


class LockedStore(SqliteStore):
    """SQLite store that holds its write lock, if any, and releases it when the store closes."""

    def __init__(self, path: Path, key: StoreLock | None, *, read_only: bool = False) -> None:
        self.key = key
        if key is not None:
            weakref.finalize(self, key.release)  # for callers that never close it
        try:
            super().__init__(path, read_only=read_only)
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        """Close the database file and release the lock."""
        super().close()
        self._release()

    def _release(self) -> None:
        if self.key is not None:
            self.key.release()
            self.key = None


class StoreConnection:
    """Connection to a store, by file or service, that reconnects if the service ends or restarts.

    With ``take_key`` this process may hold the lock while no other process serves.
    """

    def __init__(self, path: Path, *, take_key: bool = True) -> None:
        self._path, self._take_key = path, take_key
        self.inner = self._reach()

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events to an experiment's event log, which must end at ``position``."""
        self._do(lambda store: store.append(experiment_id, position, events))

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events of an experiment from position ``since`` on."""
        return self._do(lambda store: store.load(experiment_id, since))

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, latest first; with ``deleted`` the deleted ones."""
        return self._do(lambda store: store.experiments(deleted=deleted))

    def save_output(self, experiment_id: str, run_id: int, output: RunOutput) -> None:
        """Store the output of a run, in place of that of an earlier attempt."""
        self._do(lambda store: store.save_output(experiment_id, run_id, output))

    def output(self, experiment_id: str, run_id: int) -> RunOutput | None:
        """Return the stored output of a run; None if none is stored."""
        return self._do(lambda store: store.output(experiment_id, run_id))

    def purge(self, experiment_id: str) -> None:
        """Remove a deleted experiment for good; refused while a service uses the store."""
        if isinstance(self.inner, HttpStore):
            raise StoreError(
                f"a service or a browser uses the store '{self._path}'; end it (Ctrl-C), then purge"
            )
        self.inner.purge(experiment_id)

    def execution(self, experiment_id: str) -> ExecutionStatus:
        """Return who executes the runs of an experiment; no worker does without a service."""
        if isinstance(self.inner, HttpStore):
            return self.inner.execution(experiment_id)
        return ExecutionStatus(in_process=is_executed(self._path, experiment_id))

    def close(self) -> None:
        """Close the database file or the connection to the service."""
        self.inner.close()

    def _do(self, ask: Callable[[LockedStore | HttpStore], T]) -> T:
        try:
            return ask(self.inner)
        except ServiceError:
            if isinstance(self.inner, HttpStore) and find_endpoint(self._path) is None:
                self.inner.close()
                self.inner = self._reach()  # the service has ended
                return ask(self.inner)
            raise

    def _reach(self) -> LockedStore | HttpStore:
        read_only = is_read_only(self._path)
        try:
            endpoint = find_endpoint(self._path)
        except ServiceError:  # the files of another user's service
            if not read_only:
                raise
            endpoint = None
        if endpoint is not None:
            return HttpStore(api_client_of(self._path, endpoint))
        if read_only:
            return LockedStore(self._path, None, read_only=True)
        return LockedStore(self._path, StoreLock.take(self._path) if self._take_key else None)


def open_store(path: Path, *, take_key: bool = True) -> StoreConnection:
    """Open the store at a path, through its running service or else as a database file.

    A process that holds the lock and does not serve (a short command) does not block others:
    each append is a transaction of its own, and sessions read the events of one another. A store
    that may not be written is read.

    Raises:
        StoreError: it cannot be read; ServiceError: the running service does not answer.
    """
    return StoreConnection(path, take_key=take_key)


def api_client_of(path: Path, endpoint: Endpoint, tries: int = TRIES) -> ApiClient:
    """Return an HTTP client of a store's service that reconnects after a restart.

    ``tries`` is the maximum number of requests without an answer; 6 take about 3 s.
    """

    def again() -> tuple[str, str] | None:
        there = find_endpoint(path)
        return None if there is None else (there.url, there.token)

    return ApiClient(endpoint.url, endpoint.token, find=again, tries=tries)


@contextlib.contextmanager
def embedded_service(path: Path) -> Iterator[StoreConnection]:
    """Open a store for a ``with`` block, and serve it to other processes if no service runs.

    Raises:
        StoreError: it cannot be read; ServiceError: the running service does not answer.
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
    """Serve a store on the loopback, for every user who may read its folder."""
    with _OnDemandService(store, key) as service:
        key.publish(service.url, service.token)
        try:
            yield
        finally:
            key.withdraw()


class _OnDemandService:
    """Service of a store that listens at once, and is built when the first client connects.

    Most sweeps end without one, and a web framework takes longer to import than a short sweep runs.
    A client that connects meanwhile waits for its answer.
    """

    def __init__(self, store: SqliteStore, key: StoreLock) -> None:
        self._store = store
        self._book = ApiTokenStore(token_store_path(key.store))
        self.token = secrets.token_hex(32)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._listening.setblocking(False)
        self._ended, self._end = socket.socketpair()
        self._server: HttpServer | None = None
        self._thread = threading.Thread(
            target=self._await_client, name="copperline-listen", daemon=True
        )

    def _await_client(self) -> None:
        ready, _, _ = select.select([self._listening, self._ended], [], [])
        if self._ended in ready:
            return
        try:
            self._server = self._built().start()
        except BaseException:
            self._listening.close()  # clients learn that nobody answers
            raise

    def _built(self) -> HttpServer:
        from assistant.service.app import make_service
        from assistant.service.auth import RoleTokens
        from assistant.service.experiment_service import ExperimentService
        from assistant.service.observability import ServiceLog
        from assistant.service.server import HttpServer

        tokens, log = RoleTokens({Role.OWNER: self.token}), ServiceLog(level="error")
        service = ExperimentService(self._store, log, book=self._book)
        app = make_service(service, tokens, log, alone=False)
        return HttpServer(app.asgi, self._listening, log, drain=app.context.drain, drain_s=2)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.close()  # wakes the thread that waits for a client
        self._thread.join()
        if self._server is not None:
            self._server.stop()
        self._listening.close()
        self._ended.close()


def needs_service(path: Path) -> ApiClient:
    """Return an HTTP client of a store's service, or raise ServiceError if none runs."""
    endpoint = find_endpoint(path)
    if endpoint is None:
        raise ServiceError(
            f"no service runs for the store '{path}'; start one with: copperline serve"
        )
    return api_client_of(path, endpoint)


UP_WITHIN_S = 30.0
STARTING_S = 300.0
"""Longest wait for a service whose process lives: a busy machine may take minutes to load it."""

_LOOK_S = 0.1
_AGAIN_S = 2.0


class ServiceSupervisor:
    """Supervisor that starts and restarts the service of a store until `end`.

    The store need not exist yet; a log of None means standard error of this process.
    """

    def __init__(self, store: Path, log: Path | None = None) -> None:
        self._store, self._log = store, log
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._not_before_s = 0.0
        self._port = 0  # the same port again: workers that survived send their results there
        self._ended = threading.Event()

    def reach(self, patience_s: float = UP_WITHIN_S, tries: int = TRIES) -> ApiClient:
        """Return an HTTP client of the service, starting the service if none runs.

        Raises ServiceError if it does not start within ``patience_s``, or within `STARTING_S` while
        the process that should serve lives; the message says what to do.
        """
        began_s = time.monotonic()
        self.ensure()
        starting = self._child
        while True:
            endpoint = find_endpoint(self._store)
            if endpoint is not None:
                return api_client_of(self._store, endpoint, tries)
            waited_s = time.monotonic() - began_s
            lives = starting is not None and starting.poll() is None
            if waited_s > (max(patience_s, STARTING_S) if lives else patience_s):
                raise ServiceError(
                    f"no service started for the store '{self._store}' within {waited_s:.0f} s; "
                    f"start one to see the reason: copperline serve --execute --store {self._store}"
                )
            time.sleep(_LOOK_S)
            self.ensure()

    def ensure(self) -> None:
        """Start the service in the background if none runs."""
        with self._lock:
            endpoint = find_endpoint(self._store)
            if endpoint is not None:
                self._port = urlsplit(endpoint.url).port or 0
            if self._ended.is_set() or endpoint is not None:
                return
            if self._child is not None and self._child.poll() is None:
                return  # the service is starting or ending
            if time.monotonic() < self._not_before_s:
                return
            self._not_before_s = time.monotonic() + _AGAIN_S
            self._child = self._started(self._port)
            self._port = 0  # only once: another process may have taken the port

    def keep(self) -> None:
        """Start a background thread that restarts the service whenever it has ended."""
        threading.Thread(target=self._keep, name="copperline-companion", daemon=True).start()

    def end(self) -> None:
        """Terminate the service that this supervisor started, with a grace period of 15 s."""
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
                continue  # a file beside the store is not readable yet; `reach` reports it

    def _started(self, port: int) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "assistant.cli", "serve", "--port", str(port), "--execute",
            "--log-level", "warning", "--parent", str(os.getpid()), "--store", str(self._store),
        ]  # fmt: skip
        if self._log is None:
            return subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        with open_private(self._log) as log:
            return subprocess.Popen(  # noqa: S603 - our own
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
