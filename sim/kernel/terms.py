"""On what terms jobs wait and run, where partitions have more than processors and a queue.

All of it is empty where a scenario uses none of it, and costs nothing then.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sim.kernel.records import rows

PLANNED, DRAIN, FAILURE = 0, 1, 2
"""Kinds of windows; see `sim.model.capacity`."""

AHEAD, OPEN, OVER = 0, 1, 2
"""What `Window.state` is."""


class Standing:
    """A job's standing among others, and what became of it.

    Attributes:
        tier: of its queue; a higher one goes first.
        door: of its user and its queue; -1 lets in everybody.
        seat: where it waits at that door.
        is_preemptible: 1 if it may be killed for the sake of another.
        since_s: when it started, last.
        n_restarts: how often it was killed and queued again.
        lost_s: how long it had run all those times.
    """

    __slots__ = (
        "door", "is_preemptible", "lost_s", "n_restarts", "seat", "since_s", "tier",
    )  # fmt: skip
    tier: int
    door: int
    seat: int
    is_preemptible: int
    since_s: float
    n_restarts: int
    lost_s: float


class Door:
    """What the jobs of one user in one queue with a limit go through.

    Attributes:
        limit: so many may be inside at once, waiting or running.
        n_inside: so many are.
        best: no seat before this one is held.
        behind: its last seat is before this one.
        next_rung: the door after this one among those at which something happened; -1 is none.
        is_rung: 1 if it is among those.
    """

    __slots__ = ("behind", "best", "is_rung", "limit", "n_inside", "next_rung")
    limit: int
    n_inside: int
    best: int
    behind: int
    next_rung: int
    is_rung: int


class Seat:
    """Where a job waits at a door. The seats of a door are side by side, the best rank first.

    Attributes:
        job: the job.
        is_held: 1 while it waits there.
    """

    __slots__ = ("is_held", "job")
    job: int
    is_held: int


class Window:
    """A time in which some processors of a partition are not for jobs.

    Attributes:
        place: the partition.
        procs: so many.
        from_s: when it begins.
        until_s: when it is over.
        kind: `PLANNED`, `DRAIN` or `FAILURE`.
        state: `AHEAD`, `OPEN` or `OVER`.
    """

    __slots__ = ("from_s", "kind", "place", "procs", "state", "until_s")
    place: int
    procs: int
    from_s: float
    until_s: float
    kind: int
    state: int


class Terms(NamedTuple):
    """What a pool knows beyond processors, queues and running jobs.

    Attributes:
        standings: [n] rows of `Standing`; none if all jobs are alike and none is ever killed.
        windows: rows of `Window`.
    """

    standings: Sequence[Standing]
    windows: Sequence[Window]


class Outside(NamedTuple):
    """What lies before a pool: doors, and windows to begin and to end.

    Attributes:
        doors: rows of `Door`.
        seats: rows of `Seat`.
        rung: int64 [m], for each partition the first door at which something happened; -1 is none.
        turns_s: float64, when windows begin and end, in rising order.
        turns: int64, the window that begins then; ``~window`` if it ends.
    """

    doors: Sequence[Door]
    seats: Sequence[Seat]
    rung: list[int]
    turns_s: list[float]
    turns: list[int]


def no_terms() -> Terms:
    """Return the terms, made of arrays, of a scenario that uses none of them."""
    return Terms(rows(Standing, 0), rows(Window, 0))  # type: ignore[arg-type]


def nothing_outside() -> Outside:
    """Return the same for what lies before a pool."""
    return Outside(
        rows(Door, 0), rows(Seat, 0),  # type: ignore[arg-type]
        np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
        np.zeros(0), np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
    )  # fmt: skip
