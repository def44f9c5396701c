"""Commands of ours that take longer than a page may: each in a process of its own.

The script never waits for them: it starts the first, looks in twice a second, which starts the
next, and ends the group of a process if it is told to.
"""

import atexit
import os
import signal
import subprocess
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Generic, Protocol, TypeVar

import assistant

_GRACE_S = 2.0
_READ_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class CommandExit:
    """How the last command ended that was begun.

    Args:
        code: its exit code.
        out: what it printed.
        err: what it complained of.
        stopped: a person ended it.
    """

    code: int
    out: str
    err: str
    stopped: bool

    @property
    def last_word(self) -> str:
        """The last line of its complaints, without our name before it."""
        last = (self.err.strip().splitlines() or ["it said nothing"])[-1]
        return last.removeprefix("copperline: ")


class BackgroundJob:
    """Commands under way; the next begins when the one before it has ended well.

    Args:
        commands: arguments of ``copperline``, in order.
        folder: where their files are; it is gone after `close`.

    Raises:
        OSError: the first process could not be started.
    """

    def __init__(
        self, commands: Sequence[Sequence[str]], folder: "TemporaryDirectory[str]"
    ) -> None:
        self._commands = [list(command) for command in commands]
        self._folder = folder
        self._out, self._err = (Path(folder.name) / name for name in ("said.json", "said.txt"))
        self._stopped = False
        self._at = 0
        self._started_s = time.monotonic()
        self._process = self._begun()

    def _begun(self) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-m", "assistant.cli", *self._commands[self._at]]
        packages = str(Path(assistant.__file__).resolve().parent.parent)
        search_path = [packages, *filter(None, [os.environ.get("PYTHONPATH")])]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            return subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path)},
            )  # fmt: skip

    @property
    def seconds(self) -> float:
        """How long it has been at it."""
        return time.monotonic() - self._started_s

    @property
    def step(self) -> int:
        """Which of the commands is under way, from 0."""
        return self._at

    @property
    def is_over(self) -> bool:
        """Whether the last process has ended. Begins the next command if one is due."""
        if self._process.poll() is None:
            return False
        if self._stopped or self._process.returncode != 0 or self._at + 1 == len(self._commands):
            return True
        self._at += 1
        self._process = self._begun()
        return False

    def stop(self) -> None:
        """End the process and its group, and begin no other; does nothing if it is over."""
        if self.is_over:
            return
        self._stopped = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
                return

    def ended(self) -> CommandExit | None:
        """Return how it ended; None while it goes on."""
        if not self.is_over:
            return None
        code = self._process.returncode
        return CommandExit(code, _text(self._out), _text(self._err), self._stopped)

    def close(self) -> None:
        """Remove its files."""
        self._folder.cleanup()


def work_folder(prefix: str) -> "TemporaryDirectory[str]":
    """Return a folder for the files of some work."""
    return TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


JobResultT_co = TypeVar("JobResultT_co", covariant=True)


class JobHandle(Protocol[JobResultT_co]):
    """Some work that gives a result."""

    @property
    def seconds(self) -> float:
        """How long it has been at it."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        ...

    def stop(self) -> None:
        """End it."""
        ...

    def result(self) -> JobResultT_co | None:
        """Return what came of it, once; None while it goes on."""
        ...


ResultT = TypeVar("ResultT")


class JobRegistry(Generic[ResultT]):
    """The work of all browsers, one each and at most so many; they end with the app.

    Args:
        most: at a time; a further one ends the oldest.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._attempts: OrderedDict[str, JobHandle[ResultT]] = OrderedDict()
        self._lock = Lock()
        atexit.register(self.close)

    def begin(self, owner: str, make: Callable[[], JobHandle[ResultT]]) -> None:
        """Begin some work for a browser, in the place of its last one.

        Raises:
            OSError: the process could not be started.
        """
        attempt = make()
        with self._lock:
            old = [self._attempts.pop(owner, None)]
            self._attempts[owner] = attempt
            if len(self._attempts) > self._most:
                old.append(self._attempts.popitem(last=False)[1])
        for previous in old:
            if previous is not None:
                previous.stop()
                previous.result()

    def of(self, owner: str) -> JobHandle[ResultT] | None:
        """Return the work of a browser that is not fetched yet."""
        with self._lock:
            return self._attempts.get(owner)

    def fetch(self, owner: str) -> ResultT | None:
        """Return what came of it, once; None while it goes on or if there is none."""
        attempt = self.of(owner)
        if attempt is None or not attempt.is_over:
            return None
        with self._lock:
            if self._attempts.get(owner) is not attempt:
                return None
            del self._attempts[owner]
        return attempt.result()

    def close(self) -> None:
        """End them all."""
        with self._lock:
            attempts = list(self._attempts.values())
            self._attempts.clear()
        for attempt in attempts:
            attempt.stop()
            attempt.result()
