"""Maze Runner: a seeded game whose runner is configured, not steered."""

from sim.testbeds.maze.game import (
    LEVELS,
    MEASURES,
    Episode,
    Happening,
    Rules,
    Runner,
    maze_of,
    measures,
    play,
    seeds,
)
from sim.testbeds.maze.plan import Maze, make_maze
from sim.testbeds.maze.walkers import WALKERS, Walker

__all__ = [
    "LEVELS",
    "MEASURES",
    "WALKERS",
    "Episode",
    "Happening",
    "Maze",
    "Rules",
    "Runner",
    "Walker",
    "make_maze",
    "maze_of",
    "measures",
    "play",
    "seeds",
]
