"""The folder that an executor and its pilots share, and what earlier ones left in it."""

import contextlib
import fcntl
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

from assistant.errors import SettingsError
from assistant.executors.slurm.ticket import write_private

MARK = "sweep-"
"""Before the names of the folders of executors."""

SCRIPT = """#!/bin/sh
exec "$1" -P -m assistant.executors.slurm.pilot "$2"
"""
"""What every job is; who and where comes as arguments, never as text of the script."""

_TICKET = "ticket-"


class Folder:
    """A folder of one executor, which only its user can enter; locked as long as that lives.

    Args:
        base: where it is made; also made if it is not there.

    Raises:
        SettingsError: it cannot be made there, or others could put files into it.
    """

    def __init__(self, base: Path) -> None:
        try:
            base.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode = base.stat().st_mode
            if mode & 0o022 and not mode & stat.S_ISVTX:
                raise SettingsError(
                    f"others may write into '{base}', where the tickets of Slurm's pilots would "
                    f"lie; chmod go-w '{base}', or name another folder in [executor]"
                )
            self.path = Path(tempfile.mkdtemp(prefix=MARK, dir=base.resolve()))
            self.script = self.path / "pilot.sh"
            write_private(self.script, SCRIPT.encode())
            owner = self.path / "owner"
            write_private(owner, b"")
            self._lock = _locked(owner)
            owner.write_text(socket.gethostname())  # an owner counts once it holds its lock
        except OSError as error:
            raise SettingsError(
                f"cannot make a folder for Slurm's pilots in '{base}': {error.strerror}"
            ) from error
        if self._lock is None:
            raise SettingsError(f"'{self.path}' cannot be locked; name another folder")

    def ticket(self, pilot: str) -> Path:
        """Return where a ticket lies."""
        return self.path / f"{_TICKET}{pilot}"

    def pilots(self) -> set[str]:
        """Return the public ids of all tickets."""
        return _pilots(self.path)

    def output(self, pilot: str) -> Path:
        """Return where what a pilot prints is kept."""
        return self.path / f"output-{pilot}"

    def last_words(self, pilot: str) -> str:
        """Return the last line that a pilot printed."""
        with contextlib.suppress(OSError):
            text = self.output(pilot).read_bytes()[-4096:].decode(errors="replace")
            return (text.strip().splitlines() or [""])[-1]
        return ""

    def release(self, *, tidy: bool) -> None:
        """Let it go; if it is not ``tidy``, the next executor tidies up."""
        if self._lock is not None:
            if tidy:
                remove(self.path)
            os.close(self._lock)
            self._lock = None


def left_over(base: Path) -> dict[Path, set[str]]:
    """Return folders whose executors on this machine are gone, with the ids of their pilots."""
    found: dict[Path, set[str]] = {}
    for path in sorted(base.glob(f"{MARK}*")):
        owner = path / "owner"
        with contextlib.suppress(OSError):
            if path.stat().st_uid != os.geteuid() or owner.read_text() != socket.gethostname():
                continue
            lock = _locked(owner)
            if lock is not None:
                os.close(lock)
                found[path] = _pilots(path)
    return found


def remove(path: Path) -> None:
    """Remove the folder of an executor."""
    shutil.rmtree(path, ignore_errors=True)


def _pilots(path: Path) -> set[str]:
    return {one.name.removeprefix(_TICKET) for one in path.glob(f"{_TICKET}*")}


def _locked(path: Path) -> int | None:
    """Return a descriptor that holds the lock of a file; None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
