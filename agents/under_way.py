"""Who plays a study in a folder: one process at a time, and how far it is for whoever looks.

The right is a lock on one byte of ``.playing``, which the kernel takes back with the process,
however it ends; so a folder that nobody holds is one that nobody plays in, whatever its files say.
The file names the process, and ``progress.json`` beside it tells how far it is.
"""

import errno
import fcntl
import json
import os
import struct
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from agents.files import make_folder, write_whole
from assistant import AssistantError

LOCK, PROGRESS = ".playing", "progress.json"
TOLD_EVERY_S = 0.2
_FORM = "@hhqqi4x"  # struct flock: type, whence, start, length, process


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a study is.

    Args:
        stage: what is being done, for people: ``playing``, or the measuring of a table.
        done: of that: episodes, or combinations of the table.
        total: of that; None while it is not known.
        began: what was done when the first of it was seen to be done.
        elapsed_s: since then.
    """

    stage: str
    done: int
    total: int | None
    began: int
    elapsed_s: float

    @property
    def left_s(self) -> float | None:
        """Seconds until this is done, if it goes on as before; None while nobody can say.

        >>> Progress("playing", 30, 50, 10, 4.0).left_s
        4.0
        """
        if self.total is None or self.done <= self.began:
            return None
        return (self.total - self.done) * self.elapsed_s / (self.done - self.began)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who plays in a folder.

    Args:
        pid: of the process.
        started: whether it was started for somebody who looks on, and is to end with them.
    """

    pid: int
    started: bool


class UnderWay:
    """The right to play in a folder, until `end` or the end of the process.

    Args:
        folder: of the study; made if there is none.
        descriptor: of the lock, if whoever started this process has taken it.

    Raises:
        AssistantError: another process plays there, or the folder cannot be made.
    """

    def __init__(self, folder: Path, descriptor: int | None = None) -> None:
        self.folder = folder
        self._is_new = not folder.exists()
        self._stage, self._began, self._at_s, self._told_s = "", 0, 0.0, 0.0
        self._is_warm = False
        self._is_handed_down = descriptor is not None
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
            self.descriptor: int | None = descriptor
            return
        make_folder(folder)
        self.descriptor = _taken(folder)
        self.name(os.getpid(), started=False)

    def name(self, pid: int, *, started: bool) -> None:
        """Say which process it is."""
        if self.descriptor is not None:
            told = json.dumps({"pid": pid, "started": started}).encode()
            os.ftruncate(self.descriptor, 0)
            os.pwrite(self.descriptor, told, 0)

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Write down how far it is; not at every step of many."""
        now_s = time.monotonic()
        if stage != self._stage:
            self._stage, self._began, self._at_s, self._is_warm = stage, done, now_s, False
        elif not self._is_warm and done > self._began:  # what it took to begin is no measure
            self._began, self._at_s, self._is_warm = done, now_s, True
        elif done != total and now_s < self._told_s + TOLD_EVERY_S:
            return
        self._told_s = now_s
        told = Progress(stage, done, total, self._began, now_s - self._at_s)
        write_whole(self.folder / PROGRESS, json.dumps(asdict(told)))

    def end(self, *, finished: bool) -> None:
        """Let go; how far it was stays on the disk unless it is finished."""
        if self.descriptor is None:
            return
        with suppress(OSError):
            if finished:
                (self.folder / PROGRESS).unlink(missing_ok=True)
            (self.folder / LOCK).unlink(missing_ok=True)
            if self._is_new and {one.name for one in self.folder.iterdir()} <= {PROGRESS}:
                (self.folder / PROGRESS).unlink(missing_ok=True)
                self.folder.rmdir()  # refused before anything was in it
        self.hand_over()

    def hand_over(self) -> None:
        """Forget the lock, which a process that was started with it still has."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and self._is_handed_down:
            return  # until the process has ended: whoever looks on waits for its last word
        self.end(finished=error is None)


def holder(folder: Path) -> Holder | None:
    """Return who plays in a folder; None if nobody does."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _wanted())
        if struct.unpack(_FORM, found)[0] == fcntl.F_UNLCK:
            return None
        told = json.loads(os.pread(descriptor, 1000, 0) or b"{}")
        return Holder(int(told.get("pid", 0)), bool(told.get("started", False)))
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)


def progress(folder: Path) -> Progress | None:
    """Return how far a study was when that was last written; None if it never was."""
    try:
        return Progress(**json.loads((folder / PROGRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _wanted() -> bytes:
    return struct.pack(_FORM, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)


def _taken(folder: Path) -> int:
    path = folder / LOCK
    while True:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise AssistantError(f"the lock '{path}' cannot be made: {error.strerror}") from error
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _wanted())
            if os.fstat(descriptor).st_ino == path.stat().st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise AssistantError(
                    f"another process plays the study in '{folder}'; wait until it is done, or end "
                    "it first"
                ) from error
            raise AssistantError(f"the lock '{path}' cannot be taken: {error.strerror}") from error
        os.close(descriptor)  # it was the file of somebody who has just ended
