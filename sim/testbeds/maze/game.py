"""Maze Runner: find the way out, do not slip in front of an enemy.

The third application of the Copper paper (section 4.1.1): a simulated runner has to find the way
out of a maze; there are enemies to escape from; it can slip on obstacles and then lies vulnerable
for a time that depends on its velocity. The paper says no more; the rules here are ours:

- Time goes in ticks of a tenth of a second. Who is due moves to a room beside; the faster, the
  sooner due again. The runner goes first, then the enemies by number.
- In rubble a careful runner takes twice as long. It slips with a chance of `SLIP` times the square
  of its velocity, and then lies for `DOWN_S` seconds times its velocity.
- Enemies patrol, never turning back but in dead ends. One that sees the runner along a corridor
  runs to where it saw it.
- An enemy in the runner's room: who stands shakes it off and loses `SHAKEN_S`, with `AHEAD_S` more
  before another one gets hold of it; who lies is carried back to the way in and held for `HELD_S`.
  Either way that enemy is dazed for `DAZED_S`.
- ``enemies`` says what the runner does when it sees one: ``ignore`` it; ``hide``, standing still
  (an enemy that has not noticed it yet passes by); ``flee``, no step towards one within
  `SHY_ROOMS`. After `PATIENCE_S` of either it goes on until no enemy is in sight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, get_args

import numpy as np

from sim.errors import SetupError, UnknownNameError
from sim.testbeds.maze.plan import Maze, make_maze
from sim.testbeds.maze.walkers import WALKERS, Walker

Movement = Literal["wander", "wall", "memory"]
Footing = Literal["careful", "hasty"]
OnEnemies = Literal["ignore", "hide", "flee"]
What = Literal["slipped", "shook off", "carried back", "hid", "fled"]

LEVELS: Mapping[str, tuple[str | float, ...]] = {
    "movement": get_args(Movement),
    "velocity": (1.0, 1.4, 2.0),
    "footing": get_args(Footing),
    "enemies": get_args(OnEnemies),
}
"""3 x 3 x 2 x 3 = 54; velocities in rooms a second."""

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
LEAST_START_STEPS = 8
"""Enemies begin at least so many rooms away from the runner."""


@dataclass(frozen=True, slots=True)
class Runner:
    """What is set: how the runner looks for the way out, how fast, how it steps, what it fears.

    Raises UnknownNameError or SetupError for what it cannot be.
    """

    movement: str
    velocity: float
    footing: str
    enemies: str

    def __post_init__(self) -> None:
        named = (("movement", self.movement), ("footing", self.footing), ("enemies", self.enemies))
        for kind, name in named:
            if name not in LEVELS[kind]:
                raise UnknownNameError(kind, name, [str(level) for level in LEVELS[kind]])
        if not 0.1 <= self.velocity <= 10.0:
            raise SetupError(f"velocity is {self.velocity}; allowed are 0.1 to 10 rooms a second.")


@dataclass(frozen=True, slots=True)
class Rules:
    """What is given: the size of the maze, the enemies, and when the game is over.

    Raises SetupError for what cannot be.
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
class Happening:
    """Something that befell the runner."""

    at_s: float
    room: int
    what: What


@dataclass(frozen=True, eq=False)
class Episode:
    """One game.

    Attributes:
        time_s: until the way out, or the limit.
        escaped: whether it got out.
        path: (seconds, room) of every move of the runner, the way in first.
        happenings: in order of time.
        enemy_paths: rooms of every enemy, its first one first.
    """

    time_s: float
    escaped: bool
    path: tuple[tuple[float, int], ...]
    happenings: tuple[Happening, ...]
    enemy_paths: tuple[tuple[int, ...], ...]

    def count(self, *kinds: What) -> int:
        """Return how often one of these happened."""
        return sum(one.what in kinds for one in self.happenings)


MEASURES = ("time_s", "escaped_pct", "slips", "shaken_off", "carried_back", "rooms")


def measures(episodes: Iterable[Episode]) -> dict[str, float]:
    """Return the means over games; a game that was not won counts with its limit."""
    played = list(episodes)

    def mean(values: Iterable[float]) -> float:
        return float(sum(values)) / len(played)

    return {
        "time_s": mean(one.time_s for one in played),
        "escaped_pct": 100.0 * mean(one.escaped for one in played),
        "slips": mean(one.count("slipped") for one in played),
        "shaken_off": mean(one.count("shook off") for one in played),
        "carried_back": mean(one.count("carried back") for one in played),
        "rooms": mean(len(one.path) - 1 for one in played),
    }


@dataclass(frozen=True, eq=False)
class Game:
    """A maze, and what chance will do in it.

    Attributes:
        maze: where.
        entropy: of the streams that enemies, slips and ways are drawn from.
    """

    maze: Maze
    entropy: tuple[int, ...]


@cache
def games(seed: int, n_games: int, rules: Rules) -> tuple[Game, ...]:
    """Draw games in mazes of their own; the first ones are the same however many.

    Raises SetupError for a seed below 0 or no games.
    """
    if seed < 0 or n_games < 1:
        raise SetupError(
            f"seed {seed} and {n_games} games; allowed are whole numbers from 0, and 1 game or more"
        )
    found = []
    for number in range(1, n_games + 1):
        of_maze = np.random.SeedSequence((seed, number, 0))
        maze = make_maze(of_maze, rules.columns, rules.rows)
        found.append(Game(maze, (seed, number, 1)))
    return tuple(found)


def play(game: Game, runner: Runner, rules: Rules) -> Episode:
    """Play one game; its enemies begin alike whatever the runner does."""
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
    """The state of one game, from the first tick to the last."""

    def __init__(self, game: Game, runner: Runner, rules: Rules) -> None:
        maze, streams = game.maze, np.random.SeedSequence(game.entropy).spawn(4)
        of_starts, of_enemies, of_slips, of_ways = streams
        self._maze, self._runner = maze, runner
        self._limit = round(rules.limit_s * TICKS_PER_S)
        self._enemy_rng = np.random.default_rng(of_enemies)
        self._slip_rng = np.random.default_rng(of_slips)
        way_rng = np.random.default_rng(of_ways)
        self._walker: Walker = WALKERS[runner.movement](maze, lambda n: int(way_rng.integers(n)))
        self._enemies = _placed(maze, rules.n_enemies, np.random.default_rng(of_starts))
        self._ticks = max(1, round(TICKS_PER_S / runner.velocity))
        chance = SLIP["careful" if runner.footing == "careful" else "hasty"]
        self._slip = min(MOST_SLIPS, chance * runner.velocity**2)
        self._room, self._due, self._now = maze.way_in, self._ticks, 0
        self._down_until = self._free_until = self._hidden_until = 0
        self._patience = 0
        self._path: list[tuple[float, int]] = [(0.0, maze.way_in)]
        self._happenings: list[Happening] = []

    def played(self) -> Episode:
        """Play until the way out or the limit."""
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
        return Episode(
            time_s=(self._now if escaped else self._limit) / TICKS_PER_S,
            escaped=escaped,
            path=tuple(self._path),
            happenings=tuple(self._happenings),
            enemy_paths=tuple(tuple(enemy.path) for enemy in self._enemies),
        )

    # --- the runner

    def _step(self) -> None:
        """Let the runner do what it does now, and say when it is due again."""
        seen = [e for e in self._enemies if self._now >= e.dazed_until and self._sees(e)]
        if not seen:
            self._patience = round(PATIENCE_S * TICKS_PER_S)
        answer = self._runner.enemies
        if seen and answer == "hide" and self._patience > 0:
            pause = round(LOOK_S * TICKS_PER_S)
            self._patience -= pause
            self._hidden_until = self._due = self._now + pause
            self._happen("hid")
            return
        wanted = self._walker.next_room(self._room)
        if answer == "flee" and self._patience > 0:
            wanted = self._away_from(seen, wanted)
        self._go(wanted)

    def _sees(self, enemy: _Enemy) -> bool:
        return enemy.room in self._maze.seen[self._room]

    def _away_from(self, seen: list[_Enemy], wanted: int) -> int:
        """Return the wanted room, or one that is no nearer to what is feared."""
        steps = self._maze.steps
        close = [e.room for e in seen if steps[self._room][e.room] <= SHY_ROOMS]
        if not close or all(steps[wanted][e] > steps[self._room][e] for e in close):
            return wanted
        self._patience -= self._ticks
        self._happen("fled")
        choices = (self._room, *self._maze.beside[self._room])
        return max(choices, key=lambda room: (min(steps[room][e] for e in close), room == wanted))

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
        """Let an enemy patrol or chase, and say when it is due again."""
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
        """Let them meet if they are in one room."""
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

    def _happen(self, what: What) -> None:
        self._happenings.append(Happening(self._now / TICKS_PER_S, self._room, what))


def _placed(maze: Maze, n_enemies: int, rng: np.random.Generator) -> list[_Enemy]:
    """Draw where the enemies begin and when each moves first."""
    steps = maze.steps[maze.way_in]
    far = [room for room in range(maze.n_rooms) if steps[room] >= LEAST_START_STEPS] or [
        maze.way_out
    ]
    rooms = [far[int(one)] for one in rng.integers(len(far), size=n_enemies)]
    first = rng.integers(PATROL_TICKS, size=n_enemies).tolist()
    return [_Enemy(room, due, path=[room]) for room, due in zip(rooms, first, strict=True)]
