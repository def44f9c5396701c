"""Maze Runner: configure a runner that leaves mazes quickly (Copper paper, section 4.1.1).

There are 54 configurations. Memory helps almost always; the other parameters interact, because a
fast runner slips and a runner that slips is caught.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assistant.applications.extensions import BatchApplication, Measures, Values
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective, SingleMeasure
from sim.testbeds.maze import LEVELS, MEASURES, Game, Rules, Runner, games, measures, play
from strategies import Level, Parameter, ParameterSpace

ABOUT = {
    "movement": ("", "at random, with a hand on the wall, or with a map of the seen rooms"),
    "velocity": ("rooms/s", "a faster runner slips more often and lies longer"),
    "footing": ("", "a careful runner takes twice as long over rubble, and slips less"),
    "enemies": ("", "behaviour when an enemy is in sight"),
}


@dataclass(frozen=True)
class MazeRunner(BatchApplication):
    """A simulated maze runner, whose mean time to the exit over several games is minimised.

    Args:
        seed: seed of the mazes, the enemies and every slip.
        limit_s: longest game in seconds; a game that is not won counts with it.

    Raises:
        SimError: a seed below 0, no game, or impossible rules.
    """

    seed: int = 0
    n_games: int = 12
    n_enemies: int = 5
    limit_s: float = 300.0

    name = "maze"
    at_once = 3
    measures = MEASURES
    deterministic = True

    def __post_init__(self) -> None:
        self.games  # noqa: B018 - raises for a bad seed now

    @property
    def rules(self) -> Rules:
        """The rules of the game: the number of enemies and the time limit."""
        return Rules(n_enemies=self.n_enemies, limit_s=self.limit_s)

    @property
    def games(self) -> tuple[Game, ...]:
        """The games that are played with every configuration."""
        return games(self.seed, self.n_games, self.rules)

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameter space of 3 x 3 x 2 x 3 = 54 configurations."""
        return ParameterSpace(
            tuple(
                Parameter(name, tuple(levels), "inferred", *ABOUT[name])
                for name, levels in LEVELS.items()
            )
        )

    @property
    def objective(self) -> Objective:
        """The objective: a minimal mean time to the exit of the maze."""
        return Objective(SingleMeasure("time_s"), "minimise", unit="s")

    @property
    def baseline(self) -> None:
        """None, because a game has no current configuration."""
        return

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the mazes and on the measured time, for display."""
        rules = self.rules
        return (
            Fact(
                "Mazes",
                f"{self.n_games} games with {rules.n_enemies} enemies each, in different "
                f"mazes of {rules.columns} x {rules.rows} rooms, drawn with seed {self.seed}",
            ),
            Fact("Time", f"the mean over the games; a lost game counts {rules.limit_s:g} s"),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - the games are drawn with a seed of their own
        """Play every game once with one configuration and return the measures."""
        runner = runner_of(values)
        return dict(measures(play(game, runner, self.rules) for game in self.games))

    def evaluate_several(self, configurations: Sequence[Values]) -> Sequence[Measures]:
        """Play every game with each of several configurations and return the measures."""
        return [self.evaluate(values, 0) for values in configurations]


def runner_of(values: Mapping[str, Level]) -> Runner:
    """Return the maze runner with the movement, velocity and behaviour of a configuration."""
    return Runner(
        movement=str(values["movement"]),
        velocity=float(values["velocity"]),
        footing=str(values["footing"]),
        enemies=str(values["enemies"]),
    )
