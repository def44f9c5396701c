"""Pictures of a maze and a flood: they compile, and what happened is in them."""

import re
from dataclasses import replace

import pytest
import vl_convert

from assistant.applications.extensions.flood import Flood
from assistant.applications.extensions.maze import MazeRunner
from assistant.cli.commands.ai_platform import flood_text, maze_text, series_text
from assistant.core.errors import SettingsError
from assistant.presentation.charts.testbeds import (
    FloodDrawing,
    MazeDrawing,
    flood_picture,
    maze_picture,
)
from assistant.simtools.application_views import flood_drawing, maze_drawing
from sim.testbeds.maze import MazePlan as Plan

HASTY = {"movement": "memory", "velocity": 2.0, "footing": "hasty", "enemies": "ignore"}
WET = {"conductivity_mmh": 1.5, "rain_factor": 1.2, "moisture_deficit": 0.02, "roughness": 0.08}


@pytest.fixture(scope="module")
def maze() -> MazeDrawing:
    return maze_drawing(MazeRunner(seed=0, n_games=4), HASTY, 3)[0]


@pytest.fixture(scope="module")
def flood() -> FloodDrawing:
    return flood_drawing(Flood(seed=0), WET)[0]


def test_a_game_is_drawn_as_it_was_played(maze: MazeDrawing) -> None:
    application = MazeRunner(seed=0, n_games=4)
    plan = application.games[2].maze
    assert [(s.x, s.y) for s in maze.way[:1]] == [(0.5, 0.5)]
    last = maze.way[-1]
    assert (last.x2, last.y2) == (15.5, 10.5)
    assert len(maze.carried) == sum(mark.kind == "carried back" for mark in maze.marks) > 0
    assert all(abs(s.x - s.x2) + abs(s.y - s.y2) == 1 for s in maze.way)
    assert not any(_crosses(maze, s.x, s.y, s.x2, s.y2) for s in maze.way), "no way through walls"
    assert not any(_crosses(maze, s.x, s.y, s.x2, s.y2) for beat in maze.beats for s in beat)
    assert _n_passages(maze) == sum(map(len, plan.beside)) / 2
    assert len(maze.starts) == len(maze.beats) == 5
    with pytest.raises(SettingsError, match="game 5: allowed are 1 to 4"):
        maze_drawing(application, HASTY, 5)


def _crosses(maze: MazeDrawing, x: float, y: float, x2: float, y2: float) -> bool:
    across, down = (x + x2) / 2, (y + y2) / 2
    return any(
        min(w.x, w.x2) <= across <= max(w.x, w.x2) and min(w.y, w.y2) <= down <= max(w.y, w.y2)
        for w in maze.walls
    )


def _n_passages(maze: MazeDrawing) -> int:
    columns, rows = maze.columns, maze.rows
    right = [(x + 0.5, y + 0.5, x + 1.5, y + 0.5) for x in range(columns - 1) for y in range(rows)]
    below = [(x + 0.5, y + 0.5, x + 0.5, y + 1.5) for x in range(columns) for y in range(rows - 1)]
    return sum(not _crosses(maze, *step) for step in (*right, *below))


def test_the_text_of_a_maze_has_its_walls_and_its_way(maze: MazeDrawing) -> None:
    lines = list(maze_text(maze))
    assert len(lines) == 2 * maze.rows + 1
    assert {len(line) for line in lines} == {4 * maze.columns + 1}
    assert lines[0].startswith("┌───")
    assert lines[1][2] == "S"
    assert lines[-2][-3] == "E"
    for step in maze.way:
        x, y = (step.x + step.x2) / 2, (step.y + step.y2) / 2
        assert lines[round(2 * y)][round(4 * x)] == "·", "a dot where it went through"
    assert {"s", "x", "C", "M"} <= set("".join(lines))


def test_a_small_maze_in_full() -> None:
    # S·· E below:  0-1, 1-3, 2 closed in but for 3
    way = maze_drawing(MazeRunner(n_games=1), HASTY)[0]
    plan = Plan(2, 2, ((1,), (0, 3), (3,), (1, 2)), frozenset({2}))
    from assistant.simtools.application_views import _segment, _walls

    small = replace(
        way, columns=2, rows=2, walls=_walls(plan), rubble=((0, 1),), starts=(), beats=(),
        marks=(), carried=(), way=(_segment(plan, 0, 1, 1.0), _segment(plan, 1, 3, 2.0)),
    )  # fmt: skip
    assert "\n".join(maze_text(small)) == "\n".join(
        (
            "┌───────┐",
            "│ S · · │",
            "├───╴ · │",
            "│ ░   E │",
            "└───────┘",
        )
    )


def test_the_picture_of_a_maze(maze: MazeDrawing) -> None:
    svg = str(vl_convert.vegalite_to_svg(maze_picture(maze)))
    for text in (">IN<", ">OUT<", ">slipped<", ">shook off<", "seconds", "out after"):
        assert text in svg
    assert svg.count("<line") >= len(maze.walls) + len(maze.way) // 2


def test_a_flood_is_drawn_as_it_was_simulated(flood: FloodDrawing) -> None:
    application = Flood(seed=0)
    assert len(flood.elevation_m) == len(flood.deepest_mm) == 24 * 24
    assert max(flood.deepest_mm) > 50
    for i, one in enumerate(flood.sensors):
        assert one.observed == tuple(application.calibration.observed_m3s[i])
        assert len(one.simulated) == len(flood.rain_mmh) == 60
    measures = application.evaluate(WET, 0)
    assert max(flood.sensors[0].simulated) == measures["peak_m3s"]
    assert f"{measures['rmse_m3s']:.4g} m3/s" in flood.title
    ends = {(s.x2, s.y2) for s in flood.streams}
    assert (flood.sensors[0].x, flood.sensors[0].y) in ends, "the streams end at the outlet"


def test_the_text_of_a_flood(flood: FloodDrawing) -> None:
    lines = list(flood_text(flood))
    assert len(lines) == 24
    drawn = "".join(lines)
    assert all(drawn.count(name) == 1 for name in "ABC")
    assert {"░", "▓", "█", "+", "^"} <= set(drawn)
    dry = list(flood_text(replace(flood, deepest_mm=(0.0,) * 576)))
    assert not set("".join(dry)) & set("░▒▓█")


def test_the_text_of_a_series() -> None:
    flood = flood_drawing(Flood(seed=0), WET)[0]
    one = replace(flood.sensors[0], simulated=(0.0, 1.0, 4.0), observed=(0.0, 2.0, 1.0))
    assert list(series_text(one, 3600.0, height=4)) == [
        "A, outlet, m3/s: * simulated  o observed  @ both",
        "  4.00 │  *",
        "       │ o",
        "       │ *o",
        "  0.00 │@",
        "       └─── 3 h",
    ]


def test_the_picture_of_a_flood(flood: FloodDrawing) -> None:
    svg = str(vl_convert.vegalite_to_svg(flood_picture(flood)))
    for text in ("maximum depth, mm", ">observed<", ">simulated<", "rain, mm/h", "C, stream, m3/s"):
        assert text in svg
    assert len(re.findall(r"<path[^>]*fill=\"#[0-9a-f]{6}\"", svg)) > 24 * 24 / 2
