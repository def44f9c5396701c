"""How a runner looks for the way out: at random, along a wall, or with a memory.

A walker is asked for the next room and told of every move, also of those that it did not choose.
"""

from __future__ import annotations

from collections import deque
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
    """Draws a map of what it sees, and sees the light of the way out above the walls.

    It goes the shortest way that may lead out by the map, where a wall nobody has seen yet is no
    wall, and thinks anew when it sees one (planning under the free-space assumption: Zelinsky 1992,
    Stentz 1995). Of equal ways the one to the lower number of a room.
    """

    def __init__(self, maze: Maze, draw: Draw) -> None:  # noqa: ARG002 - nothing is left to chance
        self._maze = maze
        self._known: set[int] = set()
        self._look(maze.way_in)

    def next_room(self, room: int) -> int:
        """Go where the fewest steps may be left."""
        return min(self._maze.beside[room], key=lambda near: self._left[near])

    def moved(self, room: int, to: int) -> None:  # noqa: ARG002 - it only matters where one is
        """Look around."""
        self._look(to)

    def carried(self, to: int) -> None:
        """Look around; the map is kept."""
        self._look(to)

    def _look(self, room: int) -> None:
        if not self._maze.seen[room] <= self._known:
            self._known |= self._maze.seen[room]
            self._left = self._steps_left()

    def _steps_left(self) -> list[int]:
        """Return for every room the steps to the way out that may be left at least."""
        maze = self._maze
        left = [maze.n_rooms] * maze.n_rooms
        left[maze.way_out] = 0
        front = deque([maze.way_out])
        while front:
            room = front.popleft()
            for near in self._perhaps(room):
                if left[near] > left[room] + 1:
                    left[near] = left[room] + 1
                    front.append(near)
        return left

    def _perhaps(self, room: int) -> tuple[int, ...]:
        """Return where one may go from a room: by its passages if known, else by what is beside."""
        maze = self._maze
        if room in self._known:
            return maze.beside[room]
        return tuple(
            near
            for near in maze.around[room]
            if near not in self._known or room in maze.beside[near]
        )


WALKERS: dict[str, Callable[[Maze, Draw], Walker]] = {
    "wander": Wanderer,
    "wall": WallFollower,
    "memory": Rememberer,
}
