"""A book: which machines are meant for which waiting job, and when. With scratch for who writes it.

Nothing in it lasts from one decision to the next.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.records import rows


class Booking:
    """Machines that a waiting job is to have.

    Attributes:
        start_s: from when.
        end_s: until when; who needs one of the machines in between is in the way.
        first: the first slot of the machines in `Book.booked`.
        n: how many they are.
        is_on: 1 if they are off limits for the job that is looked at.
    """

    __slots__ = ("end_s", "first", "is_on", "n", "start_s")
    start_s: float
    end_s: float
    first: int
    n: int
    is_on: int


class Writing:
    """How far the book is written.

    Attributes:
        n_bookings: bookings.
        n_records: times at which the booked machines change, and 1, as Slurm counts them.
        n_taken: machines that were chosen last.
        procs_off: processors of the machines that are off limits.
        free_off: those of them that nobody holds.
        n_near: bookings that begin before the job would end that is looked at.
        n_begun: bookings that begin no later than it.
        n_over: bookings that end no later than it begins.
    """

    __slots__ = (
        "free_off", "n_begun", "n_bookings", "n_near", "n_over", "n_records", "n_taken",
        "procs_off",
    )  # fmt: skip
    n_bookings: int
    n_records: int
    n_taken: int
    procs_off: int
    free_off: int
    n_near: int
    n_begun: int
    n_over: int


class Book(NamedTuple):
    """Bookings, and scratch.

    Attributes:
        writing: [1] row of `Writing`.
        bookings: rows of `Booking`.
        by_start: int64 [...], the bookings as they begin.
        by_end: int64 [...], the bookings as they end.
        booked: int64 [...], their machines.
        off: int64 [n_machines], how many bookings put the machine off limits.
        later: int64 [n_machines * R], what will be free when some running jobs have ended.
        room: int64 [n_machines], processors that a job could still take.
        taken: int64 [n_machines], machines that were chosen last.
        taken_procs: int64 [n_machines], and how many processors of each.
    """

    writing: Sequence[Writing]
    bookings: Sequence[Booking]
    by_start: list[int]
    by_end: list[int]
    booked: list[int]
    off: list[int]
    later: list[int]
    room: list[int]
    taken: list[int]
    taken_procs: list[int]


def empty_book(
    most: NDArray[np.int64], capacity: NDArray[np.int64], n_bookings: int, *, is_used: bool
) -> Book:
    """Return a book, made of arrays, in which nothing is written.

    Args:
        most: int64 [n_jobs], the most machines that each job can get.
        capacity: int64 [n_machines, R].
        n_bookings: the most at a time.
        is_used: somebody needs the scratch.
    """
    n_machines, n_resources = capacity.shape if is_used else (0, 0)
    n = min(n_bookings, len(most))
    columns: list[Any] = [
        *(np.empty(n, dtype=np.int64) for _ in range(2)),
        np.empty(int(np.sort(most)[len(most) - n :].sum()), dtype=np.int64),
        np.zeros(n_machines, dtype=np.int64),
        np.empty(n_machines * n_resources, dtype=np.int64),
        *(np.empty(n_machines, dtype=np.int64) for _ in range(3)),
    ]
    return Book(rows(Writing, 1), rows(Booking, n), *columns)  # type: ignore[arg-type]
