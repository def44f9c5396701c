"""The processes of a session, found in /proc: who they are, what they hold, how they end.

Where there is no /proc nothing is found, and only the group of the leader can be signalled.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
GONE_WITHIN_S = 5.0
_SETTLE_S = 0.005
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Member:
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


def members(session: int) -> tuple[Member, ...]:
    """Return what lives of a session, and of what its processes started in sessions of their own.

    A daemon of which the parent has ended is not among them.
    """
    return _of(session, _living())


def _of(session: int, seen: Iterable[Member]) -> tuple[Member, ...]:
    found = {one.pid: one for one in seen if one.session == session}
    known = {session, *found}  # the leader may be over already
    while more := [one for one in seen if one.parent in known and one.pid not in known]:
        found.update({one.pid: one for one in more})
        known.update(one.pid for one in more)
    return tuple(found.values())


def _living() -> list[Member]:
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
            seen.append(Member(int(name), started, parent, its_session, pages * _PAGE_BYTES))
    return seen


def held_bytes(of: Iterable[Member]) -> int:
    """Return the memory that processes hold together: what they share once, mapped files not."""
    return sum(_share_bytes(one) for one in of)


def _share_bytes(one: Member) -> int:
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


def signal_session(session: int, number: signal.Signals) -> tuple[Member, ...]:
    """Signal the group of a leader and, where /proc tells, all that `members` finds; return those.

    Commands such as ``timeout``, and shells with job control, give their children other groups.
    """
    found = members(session)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(session, number)
    for one in found:
        _signal(one, number)
    return found


def kill_session(session: int, known: Iterable[Member] = ()) -> None:
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


def _left(session: int, keys: Iterable[tuple[int, int]]) -> list[Member]:
    seen = _living()
    theirs = {one.key for one in _of(session, seen)} | set(keys)
    return [one for one in seen if one.key in theirs]


def _signal(one: Member, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(one.pid, number)
