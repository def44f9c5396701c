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
    """

    __slots__ = ("end_s", "first", "n", "start_s")
    start_s: float
    end_s: float
    first: int
    n: int


class Writing:
    """How far the book is written.

    Attributes:
        n_bookings: bookings.
        n_records: times at which the booked machines change, and 1, as Slurm counts them.
        turn: number of the latest look at the machines; they count from 1.
        n_taken: machines that were chosen last.
    """

    __slots__ = ("n_bookings", "n_records", "n_taken", "turn")
    n_bookings: int
    n_records: int
    turn: int
    n_taken: int


class Book(NamedTuple):
    """Bookings, and scratch.

    Attributes:
        writing: [1] row of `Writing`.
        bookings: rows of `Booking`.
        booked: int64 [...], their machines.
        off: int64 [n_machines], the last turn in which the machine was off limits; 0 is none.
        later: int64 [n_machines * R], what will be free when some running jobs have ended.
        room: int64 [n_machines], processors that a job could still take.
        taken: int64 [n_machines], machines that were chosen last.
        taken_procs: int64 [n_machines], and how many processors of each.
    """

    writing: Sequence[Writing]
    bookings: Sequence[Booking]
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
        np.empty(int(np.sort(most)[len(most) - n :].sum()), dtype=np.int64),
        np.zeros(n_machines, dtype=np.int64),
        np.empty(n_machines * n_resources, dtype=np.int64),
        *(np.empty(n_machines, dtype=np.int64) for _ in range(3)),
    ]
    return Book(rows(Writing, 1), rows(Booking, n), *columns)  # type: ignore[arg-type]
