"""Locks between processes: one byte of a file that one process at a time holds.

They are open-file-description locks. The kernel releases them when the process ends, however it
ends, and whether one is held can be asked without taking it. Forked children do not hold them; a
child process holds one only if its descriptor is passed on deliberately (`subprocess`,
``pass_fds``).
"""

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Self
from weakref import WeakSet

_PRIVATE = 0o600
_FORM = "@hhqqi4x"  # struct flock: type, whence, start, length, process
_MOST_BYTES = 4096


class ProcessLock:
    """Exclusive lock on one byte of a file, held until `release` or the end of the process.

    A lock that was handed down by the parent process is made from its descriptor; `take` acquires
    a new one.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self.path = path
        self._descriptor: int | None = descriptor
        _held.add(self)

    @classmethod
    def take(
        cls, path: Path, *, raises: Callable[[str], Exception], offset: int = 0, advice: str = ""
    ) -> Self | None:
        """Acquire the lock and return it, or return None if another process holds it.

        Args:
            path: lock file; a new one is readable for its owner alone, in an existing folder.
            raises: makes the error to raise from one sentence, if the file cannot be locked.
            offset: byte to lock; it need not exist.
            advice: end of that sentence.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        while True:
            try:
                descriptor = os.open(path, flags, _PRIVATE)
            except OSError as error:
                raise raises(
                    f"cannot make the lock file '{path}': {error.strerror}{advice}"
                ) from error
            try:
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request(offset))
                if _is_same(descriptor, path):
                    return cls(path, descriptor)
            except OSError as error:
                os.close(descriptor)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return None
                raise raises(f"cannot lock the file '{path}': {error.strerror}{advice}") from error
            os.close(descriptor)  # the file of a process that has just removed it

    @property
    def descriptor(self) -> int | None:
        """Open file descriptor of the lock file; None once it is released."""
        return self._descriptor

    @property
    def is_held(self) -> bool:
        """Whether this process still holds the lock."""
        return self._descriptor is not None

    def write(self, content: bytes) -> None:
        """Replace the content of the lock file, unless the lock is released. Raises OSError."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        """Close the lock file; a process that inherited its descriptor keeps the lock."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def is_locked(path: Path, offset: int = 0) -> bool:
    """Return whether any process holds the lock, also this one; False if there is no lock file.

    Raises OSError: the file cannot be read.
    """
    return lock_content(path, offset) is not None


def lock_content(path: Path, offset: int = 0) -> bytes | None:
    """Return the content of a lock file while the lock is held, otherwise None. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request(offset))
        if struct.unpack(_FORM, answer)[0] == fcntl.F_UNLCK:
            return None
        return os.pread(descriptor, _MOST_BYTES, 0)
    finally:
        os.close(descriptor)


def _request(offset: int) -> bytes:
    return struct.pack(_FORM, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0)


def _is_same(descriptor: int, path: Path) -> bool:
    """Return whether the path still names the locked file."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


_held: WeakSet[ProcessLock] = WeakSet()  # the only global: a fork concerns the whole process


def _release_all() -> None:
    """Close the copies in a forked child, which would hold the locks after its parent's end."""
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_all)
