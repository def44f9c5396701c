"""How a runner looks for the way out: at random, along a wall, or with a memory.

A walker is asked for the next room and told of every move, also of those that it did not choose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from sim.testbeds.maze.plan import Maze

Draw = Callable[[int], int]
"""Draws a whole number from 0 to below its argument."""


class Walker(Protocol):
    """A way of looking for the way out."""

    def next_room(self, room: int) -> int:
        """Choose among the rooms beside this one."""

    def moved(self, room: int, to: int) -> None:
        """Take notice of a move to a room beside, chosen or not."""

    def carried(self, to: int) -> None:
        """Take notice of having been carried away."""


class Wanderer:
    """Any passage but the one it came by; back from a dead end (the random mouse)."""

    def __init__(self, maze: Maze, draw: Draw) -> None:
        self._maze, self._draw = maze, draw
        self._came_from = -1

    def next_room(self, room: int) -> int:
        """Draw one that does not lead back."""
        beside = self._maze.beside[room]
        onward = [near for near in beside if near != self._came_from] or beside
        return onward[self._draw(len(onward))]

    def moved(self, room: int, to: int) -> None:
        """Remember where it came from."""
        if room != to:
            self._came_from = room

    def carried(self, to: int) -> None:  # noqa: ARG002 - wherever it is
        """Forget where it came from."""
        self._came_from = -1


class WallFollower:
    """Keeps its right hand on the wall: right, straight on, left, back, the first that is open."""

    def __init__(self, maze: Maze, draw: Draw) -> None:  # noqa: ARG002 - nothing is left to chance
        self._maze = maze
        self._ahead = 1

    def next_room(self, room: int) -> int:
        """Turn by the wall, from the direction of the last move."""
        columns = self._maze.columns
        clockwise = (-columns, 1, columns, -1)
        heading = clockwise.index(self._ahead)
        turns = (clockwise[(heading + turn) % 4] for turn in (1, 0, 3, 2))
        return next(room + turn for turn in turns if room + turn in self._maze.beside[room])

    def moved(self, room: int, to: int) -> None:
        """Remember the direction."""
        if room != to:
            self._ahead = to - room

    def carried(self, to: int) -> None:  # noqa: ARG002 - wherever it is
        """Begin with the face to the right."""
        self._ahead = 1


class Rememberer:
    """Marks passages as Trémaux did, and prefers those towards the light of the way out.

    A passage that was never taken comes first; who comes by a new passage to a place known before
    turns back; none is taken a third time while another is left (Lucas 1882). Of equal ones the
    nearest to the way out, as the crow flies.
    """

    def __init__(self, maze: Maze, draw: Draw) -> None:  # noqa: ARG002 - nothing is left to chance
        self._maze = maze
        self._marks: Counter[frozenset[int]] = Counter()
        self._known = {maze.way_in}
        self._turn_back_to = -1

    def next_room(self, room: int) -> int:
        """Choose the least marked passage, unless it must turn back."""
        if self._turn_back_to in self._maze.beside[room]:
            return self._turn_back_to
        return min(self._maze.beside[room], key=lambda near: self._worth(room, near))

    def _worth(self, room: int, near: int) -> tuple[int, int, int]:
        (column, row), (out, down) = self._maze.place(near), self._maze.place(self._maze.way_out)
        return self._marks[frozenset((room, near))], out - column + down - row, near

    def moved(self, room: int, to: int) -> None:
        """Mark the passage."""
        if room == to:
            return
        passage = frozenset((room, to))
        self._marks[passage] += 1
        at_known_by_new = to in self._known and self._marks[passage] == 1
        self._turn_back_to = room if at_known_by_new else -1
        self._known.add(to)

    def carried(self, to: int) -> None:
        """Keep the marks: they are in the maze."""
        self._turn_back_to = -1
        self._known.add(to)


WALKERS: dict[str, Callable[[Maze, Draw], Walker]] = {
    "wander": Wanderer,
    "wall": WallFollower,
    "memory": Rememberer,
}
