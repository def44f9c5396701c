"""Background jobs: slow ``copperline`` commands that run in separate processes beside the pages.

The page polls twice a second; a poll starts the next command. A stop ends the process group.
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
    """Result of an ended command: exit code, output, error output, and if the user stopped it."""

    code: int
    out: str
    err: str
    stopped: bool

    @property
    def last_word(self) -> str:
        """Last line on standard error, without the program name."""
        last = (self.err.strip().splitlines() or ["no error message"])[-1]
        return last.removeprefix("copperline: ")


class BackgroundJob:
    """Background job: commands that run one after another, until one fails.

    Raises OSError if the first process cannot be started.
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
        """Time since the start of the job, in seconds."""
        return time.monotonic() - self._started_s

    @property
    def step(self) -> int:
        """Index of the current command, from 0."""
        return self._at

    @property
    def is_over(self) -> bool:
        """Whether the job has ended; also starts the next command if the current one succeeded."""
        if self._process.poll() is None:
            return False
        if self._stopped or self._process.returncode != 0 or self._at + 1 == len(self._commands):
            return True
        self._at += 1
        self._process = self._begun()
        return False

    def stop(self) -> None:
        """End the running process group and start no further command."""
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
        """Return the result of the last executed command, or None while the job runs."""
        if not self.is_over:
            return None
        code = self._process.returncode
        return CommandExit(code, _text(self._out), _text(self._err), self._stopped)

    def close(self) -> None:
        """Remove the temporary folder of the job."""
        self._folder.cleanup()


def work_folder(prefix: str) -> "TemporaryDirectory[str]":
    """Create and return a temporary folder for the files of a job."""
    return TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


JobResultT_co = TypeVar("JobResultT_co", covariant=True)


class JobHandle(Protocol[JobResultT_co]):
    """Interface of a background job that yields a result."""

    @property
    def seconds(self) -> float:
        """Time since the start of the job, in seconds."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether the job has ended."""
        ...

    def stop(self) -> None:
        """Stop the job."""
        ...

    def result(self) -> JobResultT_co | None:
        """Return the result of the ended job (only once), or None while the job runs."""
        ...


ResultT = TypeVar("ResultT")


class JobRegistry(Generic[ResultT]):
    """Registry of background jobs, one for each browser and at most ``most`` in total."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._attempts: OrderedDict[str, JobHandle[ResultT]] = OrderedDict()
        self._lock = Lock()
        atexit.register(self.close)

    def begin(self, owner: str, make: Callable[[], JobHandle[ResultT]]) -> None:
        """Replace the job of a browser with a new one, or raise OSError if the start fails."""
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
        """Return the browser's job whose result is not yet fetched, or None."""
        with self._lock:
            return self._attempts.get(owner)

    def fetch(self, owner: str) -> ResultT | None:
        """Return the result of a browser's ended job (only once), or None if not available."""
        attempt = self.of(owner)
        if attempt is None or not attempt.is_over:
            return None
        with self._lock:
            if self._attempts.get(owner) is not attempt:
                return None
            del self._attempts[owner]
        return attempt.result()

    def close(self) -> None:
        """Stop all jobs."""
        with self._lock:
            attempts = list(self._attempts.values())
            self._attempts.clear()
        for attempt in attempts:
            attempt.stop()
            attempt.result()
