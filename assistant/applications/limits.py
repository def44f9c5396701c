"""What the processes of one run may take together, and how that is held.

There are walls, which the kernel holds for each process by itself: its own private memory, the
size of a file that it writes, no core dumps. And there is a watch over all processes of the run,
for what is a sum: how many there are, and how much memory they hold together. The watch looks
up to twenty times a second, so that for a moment there may be more.
"""

import resource
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from assistant.applications.members import PROC, held_bytes, members
from assistant.errors import ApplicationError
from sim.api import format_size

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
class Limits:
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


def wall_in(leader: int, limits: Limits) -> None:
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
        fresh = {one.pid for one in members(leader)} - done


def _wall(pid: int, walls: Iterable[tuple[int, int]]) -> None:
    for kind, most in walls:
        _, hard = resource.prlimit(pid, kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (limit, limit))


class Watch:
    """Looks at a session every now and then, and says which limit it has passed.

    Args:
        session: of the run.
        limits: what it may take.
        clock: monotonic seconds.
    """

    def __init__(
        self, session: int, limits: Limits, clock: Callable[[], float] = time.monotonic
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
        seen = members(self._session)
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
