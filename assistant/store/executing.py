"""Who executes an experiment in its own process: one at a time, until it ends however it ends.

Runs that workers claim have leases; a session that executes runs by itself holds this lock instead.
It is a lock on one byte of ``<store>.running``, which the kernel takes back with the process.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from assistant.errors import ExperimentError, StoreError

_BYTES = 2**40


class Executing:
    """The right to execute the runs of an experiment in this process.

    Args:
        store: the file of the store.
        experiment_id: of the experiment.

    Raises:
        ExperimentError: another process executes it; StoreError: the lock cannot be made.
    """

    def __init__(self, store: Path, experiment_id: str) -> None:
        path = store.with_name(f"{store.name}.running")
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor: int | None = os.open(path, flags, 0o600)
        except OSError as error:
            raise StoreError(f"the lock '{path}' cannot be made: {error.strerror}") from error
        digest = hashlib.sha256(experiment_id.encode()).digest()
        start = int.from_bytes(digest[:8], "big") % _BYTES
        wanted = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, 1, 0)
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, wanted)
        except OSError as error:
            self.release()
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise ExperimentError(
                    f"another process executes experiment '{experiment_id}'; change it there with "
                    "copperline steer or copperline queue, or end that process first"
                ) from error
            raise StoreError(f"the lock '{path}' cannot be taken: {error.strerror}") from error

        _held.add(self)

    def release(self) -> None:
        """Let others execute it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


_held: WeakSet[Executing] = WeakSet()


def _let_go() -> None:
    """In a forked child: close the copies, which would hold the locks beyond the parent's end."""
    for one in list(_held):
        one.release()


os.register_at_fork(after_in_child=_let_go)
