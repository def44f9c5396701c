"""Lock of a store, and the endpoint of the process that serves it.

One process at a time writes a store: the one that holds the lock on ``<store>.key``. The kernel
releases it when that process ends, however it ends. While it serves, ``<store>.service`` contains
its endpoint; the file of a killed process is ignored, because the lock is free.
"""

import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from assistant.core.errors import ServiceError
from assistant.core.files import path_beside, read_private, replace_private
from assistant.core.process_lock import ProcessLock, is_locked
from assistant.service.strict_json import RefusedJsonError, read_json

_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Endpoint:
    """URL, process id and access token of a running service."""

    url: str
    pid: int
    token: str = field(repr=False)


class StoreLock:
    """Exclusive write lock of a store, held until `release` or process exit; not held by forks."""

    def __init__(self, store: Path, lock: ProcessLock) -> None:
        self._store = store
        self._lock = lock

    @classmethod
    def take(cls, store: Path, patience_s: float = 0.0) -> Self | None:
        """Acquire the write lock of a store, or return None if it is held for ``patience_s``.

        A missing folder is made.

        Raises:
            ServiceError: the lock cannot be made beside the store.
        """
        until_s = time.monotonic() + patience_s
        while (lock := _taken(path_beside(store, "key"))) is None:
            if time.monotonic() >= until_s:
                return None
            time.sleep(_PAUSE_S)
        store_lock = cls(store, lock)
        store_lock.withdraw()  # from a killed holder
        return store_lock

    @property
    def store(self) -> Path:
        """Path of the locked store."""
        return self._store

    def publish(self, url: str, token: str) -> None:
        """Write the URL and token of the service to a file, or raise ServiceError."""
        if not self._lock.is_held:
            raise ServiceError(f"the lock of '{self._store}' is released; acquire it again")
        body = {"url": url, "pid": os.getpid(), "token": token}
        replace_private(path_beside(self._store, "service"), json.dumps(body).encode())

    def release(self) -> None:
        """Release the lock and remove the file with the service's endpoint."""
        if self._lock.is_held:
            self.withdraw()
            self._lock.release()

    def withdraw(self) -> None:
        """Remove the file with the service's endpoint without releasing the lock."""
        with contextlib.suppress(FileNotFoundError):
            path_beside(self._store, "service").unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_store_locked(store: Path) -> bool:
    """Return whether any process holds a store's lock; raise ServiceError if it is unreadable."""
    path = path_beside(store, "key")
    try:
        return is_locked(path)
    except OSError as error:
        raise ServiceError(f"cannot read the lock file '{path}': {error.strerror}") from error


def find_endpoint(store: Path) -> Endpoint | None:
    """Return the endpoint of a store's running service, or None if no service runs.

    Raises ServiceError if other users can read the file of the endpoint, or it is damaged.
    """
    path = path_beside(store, "service")
    if not is_store_locked(store) or (content := read_private(path)) is None:
        return None
    try:
        body = read_json(content)
    except RefusedJsonError as error:
        raise ServiceError(f"'{path}' is damaged: {error}; start the service again") from error
    match body:
        case {"url": str(url), "pid": int(pid), "token": str(token)} if url.startswith("http://"):
            return Endpoint(url, pid, token)
        case _:
            raise ServiceError(f"'{path}' lacks the address of the service; start it again")


def _taken(path: Path) -> ProcessLock | None:
    advice = (
        "; the folder must be writable, because only the process that holds the lock writes "
        "the store"
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServiceError(
            f"cannot make the lock file '{path}': {error.strerror}{advice}"
        ) from error
    return ProcessLock.take(path, raises=ServiceError, advice=advice)
