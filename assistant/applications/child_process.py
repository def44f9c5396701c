"""Run a child process in its own session: time limit, bounded output, no processes left behind.

The child leads a session, so Ctrl-C at the terminal does not reach it, and everything it starts
can be found and ended with it. A small guard (``sh``) holds a pipe from this process: if this
process dies in any way (kill -9 too), the pipe closes and the guard ends the session. A daemon
that moves itself into another session is out of reach. `process_limits` has the other limits.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import Protocol, Self
from uuid import uuid4

from assistant.applications.process_limits import (
    LimitMonitor,
    ProcessLimits,
    SessionProcess,
    apply_limits,
    kill_session,
    session_processes,
    signal_session,
)
from assistant.core.run import EXCERPT_BYTES

KEPT_BYTES = 1 << 20
DRAIN_S = 1.0
POLL_S = 0.02
ASK_S = 0.1
_CHUNK = 1 << 16


class StreamTail:
    """The last `KEPT_BYTES` bytes of an output stream, with its head and its total length."""

    def __init__(self) -> None:
        self.total = 0
        self._head = bytearray()
        self._kept = bytearray()

    def add(self, data: bytes) -> None:
        """Append bytes that were read from the stream."""
        self.total += len(data)
        self._head += data[: EXCERPT_BYTES - len(self._head)]
        self._kept += data
        if len(self._kept) > 2 * KEPT_BYTES:
            del self._kept[:-KEPT_BYTES]

    @property
    def cut(self) -> bool:
        """Whether the beginning of the stream was discarded."""
        return self.total > KEPT_BYTES

    @property
    def text(self) -> str:
        """The stored bytes as text, with replacement characters for invalid UTF-8."""
        return bytes(self._kept[-KEPT_BYTES:]).decode("utf-8", "replace").removeprefix("\ufeff")

    @property
    def excerpt(self) -> str:
        """The stream as text; of a long one `EXCERPT_BYTES` of its head and of its tail."""
        if self.total <= 2 * EXCERPT_BYTES:
            return self.text
        n_left_out = self.total - 2 * EXCERPT_BYTES
        head = bytes(self._head).decode("utf-8", "replace").removeprefix("\ufeff")
        tail = bytes(self._kept[-EXCERPT_BYTES:]).decode("utf-8", "replace")
        return f"{head}\n[... {n_left_out:,} bytes left out ...]\n{tail}"


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The exit code and the output of a child process that has ended.

    Attributes:
        code: exit code, negative for a signal.
        overtime: whether the time limit ended it.
        stopped: whether its observer ended it.
        passed: message about the limit that ended it; empty if none did.
    """

    code: int
    overtime: bool
    wall_s: float
    stdout: StreamTail
    stderr: StreamTail
    stopped: bool = False
    passed: str = ""


class ProcessObserver(Protocol):
    """An observer of a running child process."""

    def on_output(self, stream: str, data: bytes) -> None:
        """Receive output that the child has just written to ``stdout`` or ``stderr``."""

    def wants_end(self) -> bool:
        """Return whether to end the child now (called about ten times a second)."""


@dataclass(frozen=True, slots=True)
class _StopReason:
    overtime: bool = False
    stopped: bool = False
    passed: str = ""


def run_child(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes = b"",
    limit_s: float | None = None,
    grace_s: float = 2.0,
    scratch: str | None = None,
    patient: bool = False,
    limits: ProcessLimits | None = None,
    company: ProcessObserver | None = None,
) -> ProcessResult:
    """Run a program to its end or time limit, and end all processes that it has started.

    Args:
        argv: program and arguments, passed unchanged; never a shell.
        cwd: working folder.
        env: complete environment.
        stdin: standard input.
        limit_s: wall-clock seconds; then SIGTERM, and SIGKILL after ``grace_s``.
        grace_s: seconds between SIGTERM and SIGKILL.
        scratch: folder that the guard removes if this process dies.
        patient: whether processes that the program leaves running may continue until the limit.
        limits: limits besides time; if one is exceeded, all processes are killed at once.
        company: observer that receives the output and may end the run as ``limit_s`` does.

    Raises:
        OSError: the program could not be started.
    """
    with TemporaryFile() as stdin_file, _SessionGuard(scratch) as guard:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        started_s = time.monotonic()
        child = subprocess.Popen(  # noqa: S603 - a list, never a shell
            argv, bufsize=0, stdin=stdin_file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=cwd, env={**env, "COPPERLINE_RUN": guard.run}, start_new_session=True,
        )  # fmt: skip
        try:
            guard.watch(child.pid)
            if limits is not None:
                apply_limits(child.pid, limits)
            watch = None if limits is None else LimitMonitor(child.pid, limits)
            with _StreamReader(child, patient, watch, company) as listener:
                halt = listener.listen(None if limit_s is None else started_s + limit_s)
                wall_s = time.monotonic() - started_s
                members: Sequence[SessionProcess] = ()
                if halt is not None and not halt.passed:
                    members = signal_session(child.pid, signal.SIGTERM)
                    listener.part()
                    listener.listen(time.monotonic() + grace_s)
                kill_session(child.pid, members)
                code = child.wait()
                listener.drain()
        finally:
            if child.returncode is None:  # interrupted
                kill_session(child.pid)
                child.wait()
            _close_pipes(child)
    why = halt or _StopReason()
    return ProcessResult(
        code, why.overtime, wall_s, listener.stdout, listener.stderr, why.stopped, why.passed
    )


class _StreamReader:
    """Reader of both streams of a child that also waits for the end of the child."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        patient: bool = False,
        watch: LimitMonitor | None = None,
        company: ProcessObserver | None = None,
    ) -> None:
        self.stdout, self.stderr = StreamTail(), StreamTail()
        self._child, self._patient = child, patient
        self._watch, self._company = watch, company
        self._ask_s = time.monotonic()
        self._selector = selectors.DefaultSelector()
        for pipe, name in ((child.stdout, "stdout"), (child.stderr, "stderr")):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, name)
        self._pidfd: int | None = None
        with suppress(AttributeError, OSError):  # no pidfd on every system; then poll
            self._pidfd = os.pidfd_open(child.pid)
            self._selector.register(self._pidfd, selectors.EVENT_READ)

    def listen(self, deadline_s: float | None) -> _StopReason | None:
        """Read output until the child has ended, or return the reason to end the child early."""
        while not _is_over(self._child):
            now_s = time.monotonic()
            if deadline_s is not None and now_s >= deadline_s:
                return _StopReason(overtime=True)
            halt = self._asked(now_s)
            if halt is not None:
                return halt
            wait_s = self._wait_s(now_s, deadline_s)
            if not self._read(wait_s) and self._pidfd is None:
                time.sleep(POLL_S)
        if self._patient and not self._outlast(deadline_s):
            return _StopReason(overtime=True)
        return None

    def part(self) -> None:
        """Stop checking the process limits and notifying the observer."""
        self._watch = self._company = None

    def _asked(self, now_s: float) -> _StopReason | None:
        if self._watch is not None:
            passed = self._watch.look()
            if passed is not None:
                return _StopReason(passed=passed)
        if self._company is not None and now_s >= self._ask_s:
            self._ask_s = now_s + ASK_S
            if self._company.wants_end():
                return _StopReason(stopped=True)
        return None

    def _wait_s(self, now_s: float, deadline_s: float | None) -> float | None:
        until_s = [deadline_s] if deadline_s is not None else []
        if self._pidfd is None:
            until_s.append(now_s + POLL_S)
        if self._watch is not None:
            until_s.append(self._watch.next_s)
        if self._company is not None:
            until_s.append(self._ask_s)
        return max(0.0, min(until_s) - now_s) if until_s else None

    def _outlast(self, deadline_s: float | None) -> bool:
        """Read until the session has no processes left (True) or until the deadline (False)."""
        while session_processes(self._child.pid):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return False
            self._read(0.0)
            time.sleep(POLL_S)
        return True

    def drain(self) -> None:
        """Read the output that is there, and for at most `DRAIN_S` what a daemon may write."""
        if self._pidfd is not None:
            self._selector.unregister(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        deadline_s = time.monotonic() + DRAIN_S
        self._read(0.0)  # on a busy machine the time may be over at once
        while self._selector.get_map() and (left_s := deadline_s - time.monotonic()) > 0:
            self._read(left_s)

    def _read(self, wait_s: float | None) -> bool:
        """Read what comes within ``wait_s``; return False if all streams are closed."""
        if not self._selector.get_map():
            return False
        for key, _ in self._selector.select(wait_s):
            if key.data is None:
                continue
            data = os.read(key.fd, _CHUNK)
            if not data:
                self._selector.unregister(key.fileobj)
                continue
            (self.stdout if key.data == "stdout" else self.stderr).add(data)
            if self._company is not None:
                self._company.on_output(key.data, data)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        if self._pidfd is not None:
            os.close(self._pidfd)


def _close_pipes(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()


def _is_over(child: subprocess.Popen[bytes]) -> bool:
    """Return whether the child has ended, without reaping it, so that its pid is not reused."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return child.poll() is not None


_GUARD = r"""
run=$1 scratch=$2
read -r session || session=
read -r over && exit 0
for signal in TERM KILL; do
    for environ in $(grep -lsF "COPPERLINE_RUN=$run" /proc/[0-9]*/environ); do
        pid=${environ#/proc/}
        kill "-$signal" "${pid%/environ}"
    done
    for stat in ${session:+/proc/[0-9]*/stat}; do
        read -r line < "$stat" || continue
        pid=${line%% *}
        set -- ${line##*) }
        if [ "$4" = "$session" ]; then kill "-$signal" "$pid"; fi
    done
    if [ -n "$session" ]; then kill "-$signal" -- "-$session"; fi
    if [ $signal = TERM ]; then sleep 1; fi
done
if [ -n "$scratch" ]; then rm -rf -- "$scratch"; fi
"""


class _SessionGuard:
    """A guard process that ends the watched session if this process dies before it says ``over``.

    It is started before the child, and also finds the child by a variable in its environment, so
    there is no moment in which a child runs unguarded, be it one in which a signal interrupts its
    start, before this process has its id.
    """

    def __init__(self, scratch: str | None) -> None:
        self.run = uuid4().hex
        self._process = subprocess.Popen(  # noqa: S603 - our own text
            ["/bin/sh", "-c", _GUARD, "copperline-guard", self.run, scratch or ""],
            bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd="/", env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )  # fmt: skip
        self._is_watching = False

    def watch(self, session: int) -> None:
        """Send the id of the process session to guard to the guard process."""
        self._is_watching = True
        self._say(f"{session}\n")

    def _say(self, line: str) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.write(line.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_watching or kind is None or issubclass(kind, Exception):
            self._say("0\nover\n")  # two lines, in case no session was set
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()
