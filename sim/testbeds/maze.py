"""Maze Runner: a seeded game of a runner that acts by its configuration, without a player.

The third application of the Copper paper (section 4.1.1): a simulated runner has to find the way
out of a maze with enemies; it can slip on obstacles and then lies vulnerable for a time that
depends on its velocity. All further rules are ours:

- A tick is a tenth of a second. The runner moves first, then the enemies by number.
- In rubble a careful runner takes twice as long. It slips with a probability of `SLIP` times the
  square of its velocity, and then lies for `DOWN_S` seconds times its velocity.
- Enemies patrol, and turn back only in dead ends. One that sees the runner along a corridor runs
  to that place.
- A standing runner shakes an enemy in its room off, loses `SHAKEN_S`, and is safe for `AHEAD_S`
  more; a lying one is carried back to the entry and held for `HELD_S`. The enemy is dazed for
  `DAZED_S`.
- ``enemies`` is the reaction to a visible enemy: ``ignore``; ``hide``, standing still (an enemy
  that has not seen the runner passes by); ``flee``, no step towards one within `SHY_ROOMS`. After
  `PATIENCE_S` of either it goes on until no enemy is in sight.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal, Protocol, get_args

import numpy as np

from sim.model.errors import SetupError, UnknownNameError

LEAST_ROOMS = 3
LEAST_SIDES = "3 columns and 3 rows"
OPENED_DEAD_ENDS = 0.5
RUBBLE = 0.18  # shares of the dead ends that are opened, and of the rooms with rubble
SIGHT_ROOMS = 5  # range of sight along a corridor


@dataclass(frozen=True, eq=False)
class MazePlan:
    """A maze of rooms, numbered row by row from entry (upper left) to exit (lower right).

    Attributes:
        columns, rows: numbers of rooms.
        beside: for every room the rooms that a passage leads to, in rising order.
        rubble: rooms in which the runner may slip.
    """

    columns: int
    rows: int
    beside: tuple[tuple[int, ...], ...]
    rubble: frozenset[int]

    @property
    def n_rooms(self) -> int:
        """Number of rooms."""
        return self.columns * self.rows

    @property
    def way_in(self) -> int:
        """Index of the room in which the runner starts: the upper left."""
        return 0

    @property
    def way_out(self) -> int:
        """Index of the room that the runner must reach: the lower right."""
        return self.n_rooms - 1

    def place(self, room: int) -> tuple[int, int]:
        """Return the grid column and row of a room."""
        return room % self.columns, room // self.columns

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """Neighbours of every room on the grid, with or without a passage between them."""
        n = self.n_rooms
        return tuple(tuple(_around(room, self.columns, n)) for room in range(n))

    @cached_property
    def steps(self) -> tuple[tuple[int, ...], ...]:
        """Number of moves on the shortest path between every two rooms."""
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
    def visible(self) -> tuple[frozenset[int], ...]:
        """Rooms visible from every room: itself, and corridors up to `SIGHT_ROOMS` away."""
        return tuple(self._seen_from(room) for room in range(self.n_rooms))

    def _seen_from(self, start: int) -> frozenset[int]:
        visible_rooms = {start}
        for first in self.beside[start]:
            ahead, room, last = first - start, first, start
            for _ in range(SIGHT_ROOMS):
                visible_rooms.add(room)
                last, room = room, room + ahead
                if room not in self.beside[last]:
                    break
        return frozenset(visible_rooms)


def make_maze(seed: np.random.SeedSequence, columns: int = 16, rows: int = 11) -> MazePlan:
    """Draw a maze. Raises `SetupError` for fewer than 3 columns or rows."""
    if min(columns, rows) < LEAST_ROOMS:
        raise SetupError(f"a maze of {columns} x {rows} rooms; allowed are {LEAST_SIDES} or more.")
    rng = np.random.default_rng(seed)
    beside: list[set[int]] = [set() for _ in range(columns * rows)]
    _carve(beside, columns, rng)
    _open_dead_ends(beside, columns, rng)
    lies = rng.random(columns * rows) < RUBBLE
    lies[[0, -1]] = False
    passages = tuple(tuple(sorted(rooms)) for rooms in beside)
    return MazePlan(columns, rows, passages, frozenset(np.flatnonzero(lies).tolist()))


def _around(room: int, columns: int, n_rooms: int) -> list[int]:
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
        next_room = fresh[int(rng.integers(len(fresh)))]
        _connect(beside, room, next_room)
        reached.add(next_room)
        way.append(next_room)


def _open_dead_ends(beside: list[set[int]], columns: int, rng: np.random.Generator) -> None:
    for room in rng.permutation(len(beside)).tolist():
        if len(beside[room]) > 1 or rng.random() >= OPENED_DEAD_ENDS:
            continue
        walls = [near for near in _around(room, columns, len(beside)) if near not in beside[room]]
        _connect(beside, room, walls[int(rng.integers(len(walls)))])


def _connect(beside: list[set[int]], room: int, other: int) -> None:
    beside[room].add(other)
    beside[other].add(room)


Draw = Callable[[int], int]  # draws a whole number from 0 to below its argument


class Walker(Protocol):
    """A search strategy of the runner for the exit of a maze."""

    def next_room(self, room: int) -> int:
        """Choose one of the rooms that have a passage to this room."""

    def moved(self, room: int, to: int) -> None:
        """Record a move to an adjacent room, whether or not the strategy chose it."""

    def carried(self, to: int) -> None:
        """Record that an enemy carried the runner to a room."""


class Wanderer:
    """A random walk that does not turn back except in dead ends (the random mouse)."""

    def __init__(self, maze: MazePlan, draw: Draw) -> None:
        self._maze, self._draw = maze, draw
        self._came_from = -1

    def next_room(self, room: int) -> int:
        """Draw an adjacent room other than the previous one, except in a dead end."""
        beside = self._maze.beside[room]
        onward = [near for near in beside if near != self._came_from] or beside
        return onward[self._draw(len(onward))]

    def moved(self, room: int, to: int) -> None:
        """Record the previous room."""
        if room != to:
            self._came_from = room

    def carried(self, to: int) -> None:  # noqa: ARG002 - wherever it is
        """Forget the previous room, since an enemy carried the runner away."""
        self._came_from = -1


class WallFollower:
    """A strategy that follows the right-hand wall: right, straight on, left, or back."""

    def __init__(self, maze: MazePlan, draw: Draw) -> None:  # noqa: ARG002 - deterministic
        self._maze = maze
        self._ahead = 1

    def next_room(self, room: int) -> int:
        """Return the first open room to the right, ahead, to the left, or behind."""
        columns = self._maze.columns
        clockwise = (-columns, 1, columns, -1)
        heading = clockwise.index(self._ahead)
        turns = (clockwise[(heading + turn) % 4] for turn in (1, 0, 3, 2))
        return next(room + turn for turn in turns if room + turn in self._maze.beside[room])

    def moved(self, room: int, to: int) -> None:
        """Record the direction of a move."""
        if room != to:
            self._ahead = to - room

    def carried(self, to: int) -> None:  # noqa: ARG002 - wherever it is
        """Reset the direction to right, after an enemy carried the runner away."""
        self._ahead = 1


class Rememberer:
    """A strategy that maps visible rooms and takes the shortest possible path to the exit.

    It takes the shortest way that may lead out by the map, where unseen walls count as open, and
    plans again when it sees a wall (planning under the free-space assumption: Zelinsky 1992,
    Stentz 1995). Of equal ways it takes the one to the lower room number.
    """

    def __init__(self, maze: MazePlan, draw: Draw) -> None:  # noqa: ARG002 - deterministic
        self._maze = maze
        self._known: set[int] = set()
        self._look(maze.way_in)

    def next_room(self, room: int) -> int:
        """Choose the adjacent room with the shortest possible path to the exit."""
        return min(self._maze.beside[room], key=lambda near: self._left[near])

    def moved(self, room: int, to: int) -> None:  # noqa: ARG002 - only the position matters
        """Add the rooms visible from the new room to the map."""
        self._look(to)

    def carried(self, to: int) -> None:
        """Add the rooms visible from the new room to the map, and retain the map."""
        self._look(to)

    def _look(self, room: int) -> None:
        if not self._maze.visible[room] <= self._known:
            self._known |= self._maze.visible[room]
            self._left = self._steps_left()

    def _steps_left(self) -> list[int]:
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
        maze = self._maze
        if room in self._known:
            return maze.beside[room]
        return tuple(
            near
            for near in maze.around[room]
            if near not in self._known or room in maze.beside[near]
        )


WALKERS: dict[str, Callable[[MazePlan, Draw], Walker]] = {
    "wander": Wanderer,
    "wall": WallFollower,
    "memory": Rememberer,
}

Movement = Literal["wander", "wall", "memory"]
Footing = Literal["careful", "hasty"]
OnEnemies = Literal["ignore", "hide", "flee"]
GameEventKind = Literal["slipped", "shook off", "carried back", "hid", "fled"]

LEVELS: Mapping[str, tuple[str | float, ...]] = {
    "movement": get_args(Movement),
    "velocity": (1.0, 1.4, 2.0),
    "footing": get_args(Footing),
    "enemies": get_args(OnEnemies),
}
"""3 x 3 x 2 x 3 = 54 configurations; velocities in rooms per second."""

TICKS_PER_S = 10
SLIP: Mapping[Footing, float] = {"careful": 0.05, "hasty": 0.2}
MOST_SLIPS = 0.9
DOWN_S = 1.5
SHAKEN_S = 2.5
AHEAD_S = 1.5
HELD_S = 6.0
DAZED_S = 6.0
PATIENCE_S = 6.0
LOOK_S = 0.5
SHY_ROOMS = 3
PATROL_TICKS, CHASE_TICKS = 12, 7
LEAST_START_STEPS = 8  # least distance of the enemies from the runner at the beginning


@dataclass(frozen=True, slots=True)
class Runner:
    """Configuration of the runner: search strategy, velocity, footing and reaction to enemies.

    Raises:
        UnknownNameError: an unknown level.
        SetupError: a velocity out of range.
    """

    movement: str
    velocity: float
    footing: str
    enemies: str

    def __post_init__(self) -> None:
        choices = (
            ("movement", self.movement),
            ("footing", self.footing),
            ("enemies", self.enemies),
        )
        for kind, name in choices:
            if name not in LEVELS[kind]:
                raise UnknownNameError(kind, name, [str(level) for level in LEVELS[kind]])
        if not 0.1 <= self.velocity <= 10.0:
            raise SetupError(f"velocity is {self.velocity}; allowed are 0.1 to 10 rooms a second.")


@dataclass(frozen=True, slots=True)
class Rules:
    """Fixed rules of a game: size of the maze, number of enemies, and time limit.

    Raises:
        SetupError: a value out of range.
    """

    columns: int = 16
    rows: int = 11
    n_enemies: int = 5
    limit_s: float = 300.0

    def __post_init__(self) -> None:
        if self.n_enemies < 0 or not self.limit_s > 0:
            raise SetupError(
                f"{self.n_enemies} enemies and a limit of {self.limit_s} s; allowed are 0 enemies "
                "or more, and more than 0 s."
            )


@dataclass(frozen=True, slots=True)
class GameEvent:
    """An event during a game, such as a slip: time, room and kind."""

    at_s: float
    room: int
    kind: GameEventKind


@dataclass(frozen=True, eq=False)
class GameResult:
    """Result of one game, with the time in seconds and the room of every move."""

    time_s: float
    escaped: bool
    path: tuple[tuple[float, int], ...]
    happenings: tuple[GameEvent, ...]
    enemy_paths: tuple[tuple[int, ...], ...]

    def count(self, *kinds: GameEventKind) -> int:
        """Return the number of events of these kinds."""
        return sum(happening.kind in kinds for happening in self.happenings)


MEASURES = ("time_s", "escaped_pct", "slips", "shaken_off", "carried_back", "rooms")


def measures(episodes: Iterable[GameResult]) -> dict[str, float]:
    """Return mean results over games, such as time in s; a lost game counts with the time limit."""
    played = list(episodes)

    def mean(values: Iterable[float]) -> float:
        return float(sum(values)) / len(played)

    return {
        "time_s": mean(episode.time_s for episode in played),
        "escaped_pct": 100.0 * mean(episode.escaped for episode in played),
        "slips": mean(episode.count("slipped") for episode in played),
        "shaken_off": mean(episode.count("shook off") for episode in played),
        "carried_back": mean(episode.count("carried back") for episode in played),
        "rooms": mean(len(episode.path) - 1 for episode in played),
    }


@dataclass(frozen=True, eq=False)
class Game:
    """A maze with the entropy that seeds the random streams of enemies, slips and paths."""

    maze: MazePlan
    entropy: tuple[int, ...]


@cache
def games(seed: int, n_games: int, rules: Rules) -> tuple[Game, ...]:
    """Draw `n_games` games in different mazes; a larger `n_games` gives the same games and more.

    Raises:
        SetupError: a seed below 0, or no games.
    """
    if seed < 0 or n_games < 1:
        raise SetupError(
            f"seed {seed} and {n_games} games; allowed are whole numbers from 0, and 1 game or more"
        )
    drawn_games = []
    for number in range(1, n_games + 1):
        of_maze = np.random.SeedSequence((seed, number, 0))
        maze = make_maze(of_maze, rules.columns, rules.rows)
        drawn_games.append(Game(maze, (seed, number, 1)))
    return tuple(drawn_games)


def play(game: Game, runner: Runner, rules: Rules) -> GameResult:
    """Play one game; the enemies' initial behaviour is the same for every runner."""
    return _Play(game, runner, rules).played()


@dataclass(slots=True)
class _Enemy:
    room: int
    due: int
    came_from: int = -1
    target: int = -1
    dazed_until: int = 0
    path: list[int] = field(default_factory=list)


class _Play:
    def __init__(self, game: Game, runner: Runner, rules: Rules) -> None:
        maze, streams = game.maze, np.random.SeedSequence(game.entropy).spawn(4)
        of_starts, of_enemies, of_slips, of_ways = streams
        self._maze, self._runner = maze, runner
        self._limit = round(rules.limit_s * TICKS_PER_S)
        self._enemy_rng = np.random.default_rng(of_enemies)
        self._slip_rng = np.random.default_rng(of_slips)
        way_rng = np.random.default_rng(of_ways)
        self._walker: Walker = WALKERS[runner.movement](maze, lambda n: int(way_rng.integers(n)))
        self._enemies = _place_enemies(maze, rules.n_enemies, np.random.default_rng(of_starts))
        self._ticks = max(1, round(TICKS_PER_S / runner.velocity))
        chance = SLIP["careful" if runner.footing == "careful" else "hasty"]
        self._slip = min(MOST_SLIPS, chance * runner.velocity**2)
        self._room, self._due, self._now = maze.way_in, self._ticks, 0
        self._down_until = self._free_until = self._hidden_until = 0
        self._patience = 0
        self._path: list[tuple[float, int]] = [(0.0, maze.way_in)]
        self._happenings: list[GameEvent] = []

    def played(self) -> GameResult:
        """Play until the runner reaches the exit or the time limit, and return the result."""
        while self._room != self._maze.way_out:
            self._now = min(self._due, *(enemy.due for enemy in self._enemies), self._limit)
            if self._now >= self._limit:
                break
            if self._due == self._now:
                self._step()
            for enemy in self._enemies:
                if enemy.due == self._now:
                    self._hunt(enemy)
        escaped = self._room == self._maze.way_out
        return GameResult(
            time_s=(self._now if escaped else self._limit) / TICKS_PER_S,
            escaped=escaped,
            path=tuple(self._path),
            happenings=tuple(self._happenings),
            enemy_paths=tuple(tuple(enemy.path) for enemy in self._enemies),
        )

    # --- the runner

    def _step(self) -> None:
        enemies_in_sight = [
            e for e in self._enemies if self._now >= e.dazed_until and self._sees(e)
        ]
        if not enemies_in_sight:
            self._patience = round(PATIENCE_S * TICKS_PER_S)
        answer = self._runner.enemies
        if enemies_in_sight and answer == "hide" and self._patience > 0:
            pause = round(LOOK_S * TICKS_PER_S)
            self._patience -= pause
            self._hidden_until = self._due = self._now + pause
            self._happen("hid")
            return
        next_room = self._walker.next_room(self._room)
        if answer == "flee" and self._patience > 0:
            next_room = self._away_from(enemies_in_sight, next_room)
        self._go(next_room)

    def _sees(self, enemy: _Enemy) -> bool:
        return enemy.room in self._maze.visible[self._room]

    def _away_from(self, enemies_in_sight: list[_Enemy], next_room: int) -> int:
        steps = self._maze.steps
        close = [e.room for e in enemies_in_sight if steps[self._room][e.room] <= SHY_ROOMS]
        if not close or all(steps[next_room][e] > steps[self._room][e] for e in close):
            return next_room
        self._patience -= self._ticks
        self._happen("fled")
        choices = (self._room, *self._maze.beside[self._room])
        return max(
            choices, key=lambda room: (min(steps[room][e] for e in close), room == next_room)
        )

    def _go(self, to: int) -> None:
        self._walker.moved(self._room, to)
        self._due = self._now + self._ticks
        if to == self._room:
            return
        self._room = to
        self._path.append((self._now / TICKS_PER_S, to))
        if to == self._maze.way_out:
            return
        if to in self._maze.rubble:
            if self._runner.footing == "careful":
                self._due += self._ticks
            if self._slip_rng.random() < self._slip:
                down = round(DOWN_S * self._runner.velocity * TICKS_PER_S)
                self._due += down
                self._down_until = self._now + down
                self._happen("slipped")
        for enemy in self._enemies:
            self._meet(enemy)

    # --- the enemies

    def _hunt(self, enemy: _Enemy) -> None:
        if self._now < enemy.dazed_until:
            enemy.due = enemy.dazed_until
            return
        hidden = self._now < self._hidden_until and enemy.target != self._room
        if not hidden and self._now >= self._free_until and self._sees(enemy):
            enemy.target = self._room
        if enemy.room == enemy.target:
            enemy.target = -1
        chasing = enemy.target >= 0
        to = self._towards(enemy) if chasing else self._patrol(enemy)
        enemy.came_from, enemy.room = enemy.room, to
        enemy.path.append(to)
        enemy.due = self._now + (CHASE_TICKS if chasing else PATROL_TICKS)
        self._meet(enemy)

    def _towards(self, enemy: _Enemy) -> int:
        steps = self._maze.steps[enemy.target]
        return min(self._maze.beside[enemy.room], key=lambda room: steps[room])

    def _patrol(self, enemy: _Enemy) -> int:
        beside = self._maze.beside[enemy.room]
        onward = [room for room in beside if room != enemy.came_from] or beside
        return onward[int(self._enemy_rng.random() * len(onward))]

    def _meet(self, enemy: _Enemy) -> None:
        if enemy.room != self._room or self._now < max(enemy.dazed_until, self._free_until):
            return
        if self._now < self._hidden_until and enemy.target != self._room:
            return  # it passes by
        enemy.dazed_until = self._now + round(DAZED_S * TICKS_PER_S)
        enemy.due, enemy.target = enemy.dazed_until, -1
        if self._now >= self._down_until:
            self._due = max(self._due, self._now) + round(SHAKEN_S * TICKS_PER_S)
            self._free_until = self._due + round(AHEAD_S * TICKS_PER_S)
            self._happen("shook off")
            return
        self._happen("carried back")
        self._room = self._maze.way_in
        self._due = self._free_until = self._now + round(HELD_S * TICKS_PER_S)
        self._down_until = self._now
        self._walker.carried(self._room)
        self._path.append((self._now / TICKS_PER_S, self._room))

    def _happen(self, kind: GameEventKind) -> None:
        self._happenings.append(GameEvent(self._now / TICKS_PER_S, self._room, kind))


def _place_enemies(maze: MazePlan, n_enemies: int, rng: np.random.Generator) -> list[_Enemy]:
    steps = maze.steps[maze.way_in]
    far = [room for room in range(maze.n_rooms) if steps[room] >= LEAST_START_STEPS] or [
        maze.way_out
    ]
    rooms = [far[int(place)] for place in rng.integers(len(far), size=n_enemies)]
    first = rng.integers(PATROL_TICKS, size=n_enemies).tolist()
    return [_Enemy(room, due, path=[room]) for room, due in zip(rooms, first, strict=True)]
