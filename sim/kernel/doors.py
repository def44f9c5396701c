"""Doors: how many jobs of one user may be in a queue, or run from it, at once.

A door lets in so many. Who comes later is held before it, outside the queue, so that no order and
no backfilling rule knows of him; when somebody inside ends, the best ranked of those held goes in.
"""

from sim.kernel.pool import Pool, arrive
from sim.kernel.terms import Outside
from sim.kernel.text import apart, kernel


@apart
@kernel
def come(pool: Pool, outside: Outside, k: int, job: int) -> None:
    """Let a job come to the queue of partition k, or to the door before it."""
    standing = pool.terms.standings[job]
    if standing.door < 0:
        arrive(pool, k, job)
        return
    door = outside.doors[standing.door]
    outside.seats[standing.seat].is_held = 1
    door.best = min(door.best, standing.seat)
    _ring(outside, k, standing.door)


@apart
@kernel
def leave(pool: Pool, outside: Outside, k: int, job: int) -> None:
    """Let a job that ended in partition k out of its door, if it has one."""
    door = pool.terms.standings[job].door
    if door >= 0:
        outside.doors[door].n_inside -= 1
        _ring(outside, k, door)


@kernel
def _ring(outside: Outside, k: int, number: int) -> None:
    """Note that something happened at a door of partition k."""
    door = outside.doors[number]
    if door.is_rung == 0:
        door.is_rung = 1
        door.next_rung = outside.rung[k]
        outside.rung[k] = number


@apart
@kernel
def let_in(pool: Pool, outside: Outside, k: int) -> None:
    """Open the doors of partition k at which something happened, when all has been applied."""
    while outside.rung[k] >= 0:
        door = outside.doors[outside.rung[k]]
        outside.rung[k] = door.next_rung
        door.is_rung = 0
        while door.best < door.behind and door.n_inside < door.limit:
            seat = outside.seats[door.best]
            if seat.is_held == 1:
                seat.is_held = 0
                door.n_inside += 1
                arrive(pool, k, seat.job)
            door.best += 1
