"""Maze Runner: a seeded game whose runner is configured, not steered."""

from sim.testbeds.maze.game import (
    LEVELS,
    MEASURES,
    Episode,
    Game,
    Happening,
    Rules,
    Runner,
    games,
    measures,
    play,
)
from sim.testbeds.maze.plan import Maze, make_maze
from sim.testbeds.maze.walkers import WALKERS, Walker

__all__ = [
    "LEVELS",
    "MEASURES",
    "WALKERS",
    "Episode",
    "Game",
    "Happening",
    "Maze",
    "Rules",
    "Runner",
    "Walker",
    "games",
    "make_maze",
    "measures",
    "play",
]
