"""The processes of a session, found in /proc: who they are, what they hold, how they end.

Where there is no /proc nothing is found, and only the group of the leader can be signalled.

What the processes of one run may take together, and how that is held.
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
GONE_WITHIN_S = 5.0
_SETTLE_S = 0.005
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class SessionProcess:
    """A process that lives.

    Attributes:
        pid: its number, another's once it has ended.
        started: when, in ticks of the kernel; with the number it is nobody else's.
        parent: number of its parent.
        session: that it belongs to.
        resident_bytes: of memory; what it shares with others is counted in full.
    """

    pid: int
    started: int
    parent: int
    session: int
    resident_bytes: int

    @property
    def key(self) -> tuple[int, int]:
        """What it is known by, whoever its parent is by then."""
        return (self.pid, self.started)


def session_processes(session: int) -> tuple[SessionProcess, ...]:
    """Return what lives of a session, and of what its processes started in sessions of their own.

    A daemon of which the parent has ended is not among them.
    """
    return _of(session, _living())


def _of(session: int, seen: Iterable[SessionProcess]) -> tuple[SessionProcess, ...]:
    found = {one.pid: one for one in seen if one.session == session}
    known = {session, *found}  # the leader may be over already
    while more := [one for one in seen if one.parent in known and one.pid not in known]:
        found.update({one.pid: one for one in more})
        known.update(one.pid for one in more)
    return tuple(found.values())


def _living() -> list[SessionProcess]:
    seen = []
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
            seen.append(
                SessionProcess(int(name), started, parent, its_session, pages * _PAGE_BYTES)
            )
    return seen


def held_bytes(of: Iterable[SessionProcess]) -> int:
    """Return the memory that processes hold together: what they share once, mapped files not."""
    return sum(_share_bytes(one) for one in of)


def _share_bytes(one: SessionProcess) -> int:
    """Return its proportional share; all that is resident where that is not told."""
    try:
        text = (PROC / str(one.pid) / "smaps_rollup").read_text()
    except FileNotFoundError:
        return 0 if not (PROC / str(one.pid)).exists() else one.resident_bytes
    except OSError:
        return one.resident_bytes
    told = {words[0]: int(words[1]) for words in map(str.split, text.splitlines()[1:])}
    if "Pss:" not in told:
        return one.resident_bytes
    return (told["Pss:"] - told.get("Pss_File:", 0)) * 1024


def signal_session(session: int, number: signal.Signals) -> tuple[SessionProcess, ...]:
    """Signal the group of a leader and, where /proc tells, all that `session_processes` finds; return those.

    Commands such as ``timeout``, and shells with job control, give their children other groups.
    """
    found = session_processes(session)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)
    for one in found:
        _signal(one, number)
    return found


def kill_session(session: int, known: Iterable[SessionProcess] = ()) -> None:
    """End all of a session at once, also if it starts processes while they are ended.

    They are stopped first, until no new ones come, then killed, until none is left; one that the
    kernel does not let go is not waited for longer than `GONE_WITHIN_S`.

    Args:
        session: of the leader, which may be over, but not forgotten.
        known: members of before, who may have lost their parents since.
    """
    until_s = time.monotonic() + GONE_WITHIN_S
    keys = {one.key for one in known}
    stopped: set[tuple[int, int]] = set()
    while time.monotonic() < until_s:
        left = _left(session, keys)
        fresh = [one for one in left if one.key not in stopped]
        for one in fresh:
            _signal(one, signal.SIGSTOP)
        stopped.update(one.key for one in fresh)
        keys |= stopped
        if fresh:
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(session, signal.SIGKILL)
        if not left:
            return
        for one in left:
            _signal(one, signal.SIGKILL)
        time.sleep(_SETTLE_S)


def _left(session: int, keys: Iterable[tuple[int, int]]) -> list[SessionProcess]:
    seen = _living()
    theirs = {one.key for one in _of(session, seen)} | set(keys)
    return [one for one in seen if one.key in theirs]


def _signal(one: SessionProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(one.pid, number)


MOST_PROCESSES = 500
"""Of one run, unless its user says otherwise."""

LARGEST_BYTES = 1 << 62
"""What the kernel takes as a limit, and room to spare."""

LOOK_S = 0.05
_SHARE = 50
"""A look is followed by a pause at least so many times as long as it took."""

_OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "Cannot allocate memory", "ut of memory")
_TOO_LARGE = "File too large"


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """What one run may take.

    Args:
        processes: of it at once, without threads.
        memory_bytes: of all its processes together; None is no limit.
        file_bytes: of a file that it writes; None is no limit.

    Raises:
        ApplicationError: one that is below 1 or above `LARGEST_BYTES`, or that this machine
            cannot hold.
    """

    processes: int = MOST_PROCESSES
    memory_bytes: int | None = None
    file_bytes: int | None = None

    def __post_init__(self) -> None:
        for what, given in (
            ("number of processes", self.processes),
            ("memory", self.memory_bytes),
            ("size of a file", self.file_bytes),
        ):
            if given is not None and given < 1:
                raise ApplicationError(f"the {what} that a run may have is at least 1, not {given}")
            if given is not None and given > LARGEST_BYTES:
                raise ApplicationError(f"the {what} that a run may have is at most {LARGEST_BYTES}")
        asked = (self.processes, self.memory_bytes, self.file_bytes) != (MOST_PROCESSES, None, None)
        if asked and not (hasattr(resource, "prlimit") and PROC.is_dir()):
            raise ApplicationError(
                "processes, memory and file_size of a run can be limited on Linux only; leave them "
                "out on this machine"
            )

    def __str__(self) -> str:
        told = [f"{self.processes} processes"]
        if self.memory_bytes is not None:
            told.append(f"{format_size(self.memory_bytes)} of memory")
        if self.file_bytes is not None:
            told.append(f"files of {format_size(self.file_bytes)}")
        return ", ".join(told)

    def hint(self, code: int, words: str) -> str:
        """Return which limit is the likely reason that a program failed; empty if none is.

        Args:
            code: with which it ended, negative for a signal.
            words: its last ones.
        """
        if self.file_bytes is not None and (code == -signal.SIGXFSZ or _TOO_LARGE in words):
            return (
                f"it wrote a file of more than {format_size(self.file_bytes)}, the limit; allow "
                "more with file_size in [application]"
            )
        if self.memory_bytes is not None and any(word in words for word in _OUT_OF_MEMORY):
            return (
                f"a run may have {format_size(self.memory_bytes)} of memory; allow more with "
                "memory in [environment]"
            )
        return ""


def apply_limits(leader: int, limits: ProcessLimits) -> None:
    """Put the walls around a child that has just been started, and what it has started since.

    Raises:
        PermissionError: it runs as another user by now, so that it cannot be held.
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
    while fresh:  # what a process with walls starts has them, so this ends
        for pid in fresh:
            with suppress(ProcessLookupError):
                _wall(pid, walls)
        done |= fresh
        fresh = {one.pid for one in session_processes(leader)} - done


def _wall(pid: int, walls: Iterable[tuple[int, int]]) -> None:
    for kind, most in walls:
        _, hard = resource.prlimit(pid, kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (limit, limit))


class LimitMonitor:
    """Looks at a session every now and then, and says which limit it has passed.

    Args:
        session: of the run.
        limits: what it may take.
        clock: monotonic seconds.
    """

    def __init__(
        self, session: int, limits: ProcessLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session, self._limits, self._clock = session, limits, clock
        self.next_s = clock() + LOOK_S

    def look(self) -> str | None:
        """Return the sentence about the limit that is passed; None if none is."""
        started_s = self._clock()
        if started_s < self.next_s:
            return None
        try:
            return self._passed()
        finally:
            now_s = self._clock()
            self.next_s = now_s + max(LOOK_S, _SHARE * (now_s - started_s))

    def _passed(self) -> str | None:
        seen = session_processes(self._session)
        if len(seen) > self._limits.processes:
            return (
                f"stopped at {len(seen)} processes, of which a run may have "
                f"{self._limits.processes}; allow more with processes in [application]"
            )
        most = self._limits.memory_bytes
        if most is None or sum(one.resident_bytes for one in seen) <= most:
            return None
        held = held_bytes(seen)  # exact, and dearer
        if held <= most:
            return None
        return (
            f"stopped when it held {format_size(held)} of memory, of which a run may have "
            f"{format_size(most)}; allow more with memory in [environment]"
        )
