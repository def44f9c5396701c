"""A seeded maze: rooms on a grid, passages between them, rubble in some.

Carved by the recursive backtracker (a depth-first walk that knocks walls down, so that one way
leads from any room to any other); then walls of some dead ends are taken away, so that there are
ways round.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.errors import SetupError

LEAST_ROOMS = 3
LEAST_SIDES = "3 columns and 3 rows"
OPENED_DEAD_ENDS = 0.5
RUBBLE = 0.18
"""Shares of the dead ends that are opened, and of the rooms that rubble lies in."""

SIGHT_ROOMS = 5
"""So far somebody sees along a corridor."""


@dataclass(frozen=True, eq=False)
class Maze:
    """Rooms, numbered row by row from the upper left; the way in is the first, out the last.

    Attributes:
        columns, rows: of rooms.
        beside: for every room those that a passage leads to, in rising order.
        rubble: rooms in which one may slip.
    """

    columns: int
    rows: int
    beside: tuple[tuple[int, ...], ...]
    rubble: frozenset[int]

    @property
    def n_rooms(self) -> int:
        """How many rooms there are."""
        return self.columns * self.rows

    @property
    def way_in(self) -> int:
        """Where the runner begins: the upper left."""
        return 0

    @property
    def way_out(self) -> int:
        """Where it wants to be: the lower right."""
        return self.n_rooms - 1

    def place(self, room: int) -> tuple[int, int]:
        """Return column and row of a room."""
        return room % self.columns, room // self.columns

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """For every room those that share a wall with it, open or not."""
        n = self.n_rooms
        return tuple(tuple(_around(room, self.columns, n)) for room in range(n))

    @cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Rooms to go from every room to every other, on the shortest way."""
        return tuple(self._steps_from(room) for room in range(self.n_rooms))

    def _steps_from(self, start: int) -> tuple[int, ...]:
        steps = [-1] * self.n_rooms
        steps[start] = 0
        front = deque([start])
        while front:
            room = front.popleft()
            for near in self.beside[room]:
                if steps[near] < 0:
                    steps[near] = steps[room] + 1
                    front.append(near)
        return tuple(steps)

    @cached_property
    def seen(self) -> tuple[frozenset[int], ...]:
        """What is seen from every room: itself, and corridors as far as `SIGHT_ROOMS`."""
        return tuple(self._seen_from(room) for room in range(self.n_rooms))

    def _seen_from(self, start: int) -> frozenset[int]:
        found = {start}
        for first in self.beside[start]:
            ahead, room, last = first - start, first, start
            for _ in range(SIGHT_ROOMS):
                found.add(room)
                last, room = room, room + ahead
                if room not in self.beside[last]:
                    break
        return frozenset(found)


def make_maze(seed: np.random.SeedSequence, columns: int = 16, rows: int = 11) -> Maze:
    """Carve a maze. Raises `SetupError` for one of fewer than 3 columns or rows."""
    if min(columns, rows) < LEAST_ROOMS:
        raise SetupError(f"a maze of {columns} x {rows} rooms; allowed are {LEAST_SIDES} or more.")
    rng = np.random.default_rng(seed)
    beside: list[set[int]] = [set() for _ in range(columns * rows)]
    _carve(beside, columns, rng)
    _open_dead_ends(beside, columns, rng)
    lies = rng.random(columns * rows) < RUBBLE
    lies[[0, -1]] = False
    passages = tuple(tuple(sorted(rooms)) for rooms in beside)
    return Maze(columns, rows, passages, frozenset(np.flatnonzero(lies).tolist()))


def _around(room: int, columns: int, n_rooms: int) -> list[int]:
    """Return the rooms that share a wall with one."""
    column = room % columns
    around = [room - columns] if room >= columns else []
    around += [room - 1] if column > 0 else []
    around += [room + 1] if column < columns - 1 else []
    return around + ([room + columns] if room + columns < n_rooms else [])


def _carve(beside: list[set[int]], columns: int, rng: np.random.Generator) -> None:
    way, reached = [0], {0}
    while way:
        room = way[-1]
        fresh = [near for near in _around(room, columns, len(beside)) if near not in reached]
        if not fresh:
            way.pop()
            continue
        chosen = fresh[int(rng.integers(len(fresh)))]
        _connect(beside, room, chosen)
        reached.add(chosen)
        way.append(chosen)


def _open_dead_ends(beside: list[set[int]], columns: int, rng: np.random.Generator) -> None:
    for room in rng.permutation(len(beside)).tolist():
        if len(beside[room]) > 1 or rng.random() >= OPENED_DEAD_ENDS:
            continue
        walls = [near for near in _around(room, columns, len(beside)) if near not in beside[room]]
        _connect(beside, room, walls[int(rng.integers(len(walls)))])


def _connect(beside: list[set[int]], room: int, other: int) -> None:
    beside[room].add(other)
    beside[other].add(room)
