"""Lock of a store, and the endpoint of the process that serves it.

One process at a time writes a store: the one that holds the lock on ``<store>.key``. The kernel
releases it when that process ends, however it ends. While it serves, ``<store>.service`` contains
its endpoint; the file of a killed process is ignored, because the lock is free.
"""

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from weakref import WeakSet

from assistant.core.errors import ServiceError
from assistant.core.files import PRIVATE, path_beside, read_private, replace_private
from assistant.service.strict_json import RefusedJsonError, read_json

PATIENCE_S = 0.1
_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Endpoint:
    """URL, process id and access token of a running service."""

    url: str
    pid: int
    token: str = field(repr=False)


class StoreLock:
    """Exclusive write lock of a store, held until `release` or process exit; not held by forks."""

    def __init__(self, store: Path, descriptor: int) -> None:
        self._store = store
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def take(cls, store: Path, patience_s: float = PATIENCE_S) -> Self | None:
        """Acquire the write lock of a store, or return None if it is held already.

        It waits at most ``patience_s``, because `find_endpoint` and `is_locked` hold the lock for
        some microseconds, which must not look like a process that serves. A missing folder is made.

        Raises:
            ServiceError: the lock cannot be made beside the store.
        """
        path = path_beside(store, "key")
        until_s = time.monotonic() + patience_s
        while (descriptor := _locked(path)) is None:
            if time.monotonic() >= until_s:
                return None
            time.sleep(_PAUSE_S)
        key = cls(store, descriptor)
        key.withdraw()  # from a killed holder
        return key

    @property
    def store(self) -> Path:
        """Path of the locked store."""
        return self._store

    def publish(self, url: str, token: str) -> None:
        """Write the URL and token of the service to a file, or raise ServiceError."""
        if self._descriptor is None:
            raise ServiceError(f"the lock of '{self._store}' is released; acquire it again")
        body = {"url": url, "pid": os.getpid(), "token": token}
        replace_private(path_beside(self._store, "service"), json.dumps(body).encode())

    def release(self) -> None:
        """Release the lock and remove the file with the service's endpoint."""
        if self._descriptor is None:
            return
        self.withdraw()
        descriptor, self._descriptor = self._descriptor, None
        os.close(descriptor)

    def withdraw(self) -> None:
        """Remove the file with the service's endpoint without releasing the lock."""
        with contextlib.suppress(FileNotFoundError):
            path_beside(self._store, "service").unlink()

    def _forget(self) -> None:
        """Close the copy in a forked child, which would hold the lock after its parent's end."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(store: Path) -> bool:
    """Return whether any process holds a store's lock; raise ServiceError if it is unreadable."""
    path = path_beside(store, "key")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ServiceError(f"cannot read the lock file '{path}': {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def find_endpoint(store: Path) -> Endpoint | None:
    """Return the endpoint of a store's running service, or None if no service runs.

    Raises ServiceError if other users can read the file of the endpoint, or it is damaged.
    """
    path = path_beside(store, "service")
    if not is_locked(store) or (content := read_private(path)) is None:
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


def _locked(path: Path) -> int | None:
    """Return a locked descriptor of the lock file, None if another process has locked it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, PRIVATE)
    except OSError as error:
        raise ServiceError(
            f"cannot make the lock file '{path}': {error.strerror}; the folder must be writable, "
            "because only the process that holds the lock writes the store"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        raise ServiceError(f"cannot lock the file '{path}': {error.strerror}") from error
    return descriptor


_held: WeakSet[StoreLock] = WeakSet()  # the only global: a fork concerns the whole process


def _forget_all() -> None:
    for key in list(_held):
        key._forget()


os.register_at_fork(after_in_child=_forget_all)
