"""Find the processes of a session in /proc, and limit the resources that they use together.

Without /proc no process is found, and only the group of the leader can be signalled.
"""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from assistant.core.errors import ApplicationError
from sim.api import format_size

PROC = Path("/proc")
GONE_WITHIN_S = 30.0
_SETTLE_S = 0.005
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """A running process of an operating system session.

    Attributes:
        started: start time in ticks of the kernel; unique together with the pid.
        resident_bytes: resident memory; shared memory counts in full.
    """

    pid: int
    started: int
    parent: int
    session: int
    resident_bytes: int

    @property
    def key(self) -> tuple[int, int]:
        """The identity of the process: its pid and start time."""
        return (self.pid, self.started)


def session_processes(session: int) -> tuple[SessionProcess, ...]:
    """Return the processes of a session, including their children in other sessions.

    A daemon whose parent has ended is not found.
    """
    return _of(session, _living())


def _of(session: int, processes: Iterable[SessionProcess]) -> tuple[SessionProcess, ...]:
    members = {process.pid: process for process in processes if process.session == session}
    pids = {session, *members}  # the leader may have ended already
    while more := [
        process for process in processes if process.parent in pids and process.pid not in pids
    ]:
        members.update({process.pid: process for process in more})
        pids.update(process.pid for process in more)
    return tuple(members.values())


def _living() -> list[SessionProcess]:
    processes = []
    for name in os.listdir(PROC) if PROC.is_dir() else ():  # noqa: PTH208 - names, and quickly
        if not name.isdigit():
            continue
        try:
            with open(f"{PROC}/{name}/stat", "rb") as file:  # noqa: PTH123 - a hundred times a look
                line = file.read()
        except OSError:
            continue
        fields = line[line.rfind(b")") + 2 :].split()
        if fields[0] not in (b"Z", b"X"):
            parent, its_session, started, pages = (int(fields[i]) for i in (1, 3, 19, 21))
            processes.append(
                SessionProcess(int(name), started, parent, its_session, pages * _PAGE_BYTES)
            )
    return processes


def held_bytes(of: Iterable[SessionProcess]) -> int:
    """Return the memory of several processes in bytes, with shared memory counted once."""
    return sum(_share_bytes(member) for member in of)


def _share_bytes(member: SessionProcess) -> int:
    """Return the proportional share of a process; its resident memory if the share is unknown."""
    try:
        text = (PROC / str(member.pid) / "smaps_rollup").read_text()
    except FileNotFoundError:
        return 0 if not (PROC / str(member.pid)).exists() else member.resident_bytes
    except OSError:
        return member.resident_bytes
    sizes = {words[0]: int(words[1]) for words in map(str.split, text.splitlines()[1:])}
    if "Pss:" not in sizes:
        return member.resident_bytes
    return (sizes["Pss:"] - sizes.get("Pss_File:", 0)) * 1024


def signal_session(session: int, number: signal.Signals) -> tuple[SessionProcess, ...]:
    """Send a signal to all processes of a session and return these processes.

    Commands such as ``timeout``, and shells with job control, give their children other groups.
    """
    processes = session_processes(session)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)
    for process in processes:
        _signal(process, number)
    return processes


def kill_session(session: int, processes: Iterable[SessionProcess] = ()) -> None:
    """Kill all processes of a session, including those that start in the meantime.

    They are stopped until no new ones appear, however long that takes, then killed until none is
    left; a killed process that the kernel does not release is awaited for `GONE_WITHIN_S`.

    Args:
        session: pid of the leader; it may have ended, but must not be reaped.
        processes: earlier members, which may have lost their parents since.
    """
    until_s: float | None = None
    keys = {process.key for process in processes}
    stopped: set[tuple[int, int]] = set()
    while True:
        left = _left(session, keys)
        fresh = [process for process in left if process.key not in stopped]
        for process in fresh:
            _signal(process, signal.SIGSTOP)
        stopped.update(process.key for process in fresh)
        keys |= stopped
        if fresh:
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
        for process in left:
            _signal(process, signal.SIGKILL)
        if until_s is None:
            until_s = time.monotonic() + GONE_WITHIN_S
        if not left or time.monotonic() >= until_s:
            return
        time.sleep(_SETTLE_S)


def _left(session: int, keys: Iterable[tuple[int, int]]) -> list[SessionProcess]:
    processes = _living()
    theirs = {process.key for process in _of(session, processes)} | set(keys)
    return [process for process in processes if process.key in theirs]


def _signal(process: SessionProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(process.pid, number)


MOST_PROCESSES = 500

LARGEST_BYTES = 1 << 62  # Largest limit that is accepted; the kernel's own maximum is higher

LOOK_S = 0.05
_SHARE = 50  # Shortest pause after a check, as a multiple of the duration of the check

_OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory", "ut of memory")
_TOO_LARGE = "File too large"


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """The limits of one run on processes, memory and file size.

    Args:
        processes: number of processes at once, without threads.
        memory_bytes: memory of all processes together; None for no limit.
        file_bytes: size of a written file; None for no limit.

    Raises:
        ApplicationError: a limit is below 1 or above `LARGEST_BYTES`, or this machine cannot
            enforce it.
    """

    processes: int = MOST_PROCESSES
    memory_bytes: int | None = None
    file_bytes: int | None = None

    def __post_init__(self) -> None:
        for label, limit in (
            ("number of processes", self.processes),
            ("memory", self.memory_bytes),
            ("size of a file", self.file_bytes),
        ):
            if limit is not None and limit < 1:
                raise ApplicationError(f"the {label} of a run must be at least 1, not {limit}")
            if limit is not None and limit > LARGEST_BYTES:
                raise ApplicationError(f"the {label} of a run must be at most {LARGEST_BYTES}")
        is_limited = (self.processes, self.memory_bytes, self.file_bytes) != (
            MOST_PROCESSES,
            None,
            None,
        )
        if is_limited and not (hasattr(resource, "prlimit") and PROC.is_dir()):
            raise ApplicationError(
                "processes, memory and file_size of a run can be limited on Linux only; leave them "
                "out on this machine"
            )

    def __str__(self) -> str:
        parts = [f"{self.processes} processes"]
        if self.memory_bytes is not None:
            parts.append(f"{format_size(self.memory_bytes)} of memory")
        if self.file_bytes is not None:
            parts.append(f"files of {format_size(self.file_bytes)}")
        return ", ".join(parts)

    def hint(self, code: int, words: str) -> str:
        """Return a hint on the limit that probably made a program fail, or an empty text."""
        if self.file_bytes is not None and (code == -signal.SIGXFSZ or _TOO_LARGE in words):
            return (
                f"it wrote a file larger than the limit of {format_size(self.file_bytes)}; allow "
                "more with file_size in [application]"
            )
        if self.memory_bytes is not None and any(word in words for word in _OUT_OF_MEMORY):
            return (
                f"a run may have {format_size(self.memory_bytes)} of memory; allow more with "
                "memory in [environment]"
            )
        return ""


def apply_limits(leader: int, limits: ProcessLimits) -> None:
    """Set the resource limits of a child process and of its existing descendants.

    Raises:
        PermissionError: the child runs as another user now, so its limits cannot be set.
    """
    walls = [(resource.RLIMIT_CORE, 0)]
    if limits.memory_bytes is not None:
        walls.append((resource.RLIMIT_DATA, limits.memory_bytes))
    if limits.file_bytes is not None:
        walls.append((resource.RLIMIT_FSIZE, limits.file_bytes))
    if not hasattr(resource, "prlimit"):
        return
    if len(walls) == 1:
        with suppress(PermissionError, ProcessLookupError):
            _wall(leader, walls)
        return
    done: set[int] = set()
    fresh = {leader}
    while fresh:  # new processes inherit the limits, so this ends
        for pid in fresh:
            with suppress(ProcessLookupError):
                _wall(pid, walls)
        done |= fresh
        fresh = {member.pid for member in session_processes(leader)} - done


def _wall(pid: int, walls: Iterable[tuple[int, int]]) -> None:
    for kind, most in walls:
        _, hard = resource.prlimit(pid, kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (limit, limit))


class LimitMonitor:
    """A monitor that periodically checks the resource limits of a process session."""

    def __init__(
        self, session: int, limits: ProcessLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session, self._limits, self._clock = session, limits, clock
        self.next_s = clock() + LOOK_S

    def look(self) -> str | None:
        """Return a message about the limit that the session exceeds, or None."""
        started_s = self._clock()
        if started_s < self.next_s:
            return None
        try:
            return self._passed()
        finally:
            now_s = self._clock()
            self.next_s = now_s + max(LOOK_S, _SHARE * (now_s - started_s))

    def _passed(self) -> str | None:
        processes = session_processes(self._session)
        if len(processes) > self._limits.processes:
            return (
                f"stopped at {len(processes)} processes; a run may have at most "
                f"{self._limits.processes}; allow more with processes in [application]"
            )
        most = self._limits.memory_bytes
        if most is None or sum(process.resident_bytes for process in processes) <= most:
            return None
        memory_bytes = held_bytes(processes)  # exact, but slower
        if memory_bytes <= most:
            return None
        return (
            f"stopped at {format_size(memory_bytes)} of memory; a run may have at most "
            f"{format_size(most)}; allow more with memory in [environment]"
        )
