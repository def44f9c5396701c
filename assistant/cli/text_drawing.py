"""A maze, a flood and a series as characters, for a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from assistant.charts_platform import Panel
from assistant.charts_testbeds import FloodDrawing, MazeDrawing, Segment, Series

WATER = ((120.0, "█"), (60.0, "▓"), (25.0, "▒"), (10.0, "░"))
"""Millimetres from which water is drawn so; what is drier is ground."""

GROUND = ".:+^"
"""From the lowest quarter to the highest."""

SIGNS = {"slipped": "s", "shook off": "x", "carried back": "C"}
_CORNERS = " ╵╷│╶└┌├╴┘┐┤─┴┬┼"
"""By the walls that meet: 1 above, 2 below, 4 right, 8 left."""

MAZE_KEY = (
    "· the runner's way   s slipped   x shook an enemy off   C carried back   "
    "M an enemy's beginning   ░ rubble"
)
FLOOD_KEY = "water from 10 ░  25 ▒  60 ▓  120 █ mm   ground .:+^ low to high   A B C sensors"


HEIGHTS = "▁▂▃▄▅▆▇█"


def maze_text(drawn: MazeDrawing) -> Iterator[str]:
    """Yield the lines of a maze: three characters a room, walls between them."""
    across, down = _unit_walls(drawn.walls)
    ways = {_passage(step) for step in drawn.way}
    signs = _room_signs(drawn)
    for row in range(drawn.rows + 1):
        yield "".join(_above(drawn, row, across, down, ways))
        if row < drawn.rows:
            yield "".join(_rooms(drawn, row, down, ways, signs))


def _unit_walls(
    walls: Sequence[Segment],
) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
    """Return walls of length 1 by (column, row) of their left or upper end: across, and down."""
    across: set[tuple[int, int]] = set()
    down: set[tuple[int, int]] = set()
    for wall in walls:
        x, y, x2, y2 = (round(value) for value in (wall.x, wall.y, wall.x2, wall.y2))
        across.update((column, y) for column in range(x, x2))
        down.update((x, row) for row in range(y, y2))
    return frozenset(across), frozenset(down)


Passage = frozenset[tuple[int, int]]
Walls = frozenset[tuple[int, int]]


def _passage(step: Segment) -> Passage:
    return frozenset(((int(step.x), int(step.y)), (int(step.x2), int(step.y2))))


def _room_signs(drawn: MazeDrawing) -> dict[tuple[int, int], str]:
    """Return the sign of every room that has one; what weighs more comes last."""
    signs = dict.fromkeys(drawn.rubble, "░")
    signs.update({(int(x), int(y)): "M" for x, y in drawn.starts})
    for step in drawn.way:
        signs[int(step.x2), int(step.y2)] = "·"
    for what, sign in SIGNS.items():
        signs.update({(int(m.x), int(m.y)): sign for m in drawn.marks if m.what == what})
    return {**signs, (0, 0): "S", (drawn.columns - 1, drawn.rows - 1): "E"}


def _above(
    drawn: MazeDrawing, row: int, across: Walls, down: Walls, ways: set[Passage]
) -> Iterator[str]:
    for column in range(drawn.columns + 1):
        meet = (
            ((column, row - 1) in down)
            + 2 * ((column, row) in down)
            + 4 * ((column, row) in across)
            + 8 * ((column - 1, row) in across)
        )
        yield _CORNERS[meet]
        if column < drawn.columns:
            gone = frozenset(((column, row - 1), (column, row))) in ways
            yield "───" if (column, row) in across else " · " if gone else "   "


def _rooms(
    drawn: MazeDrawing, row: int, down: Walls, ways: set[Passage],
    signs: dict[tuple[int, int], str],
) -> Iterator[str]:  # fmt: skip
    for column in range(drawn.columns + 1):
        left = frozenset(((column - 1, row), (column, row))) in ways
        yield "│" if (column, row) in down else "·" if left else " "
        if column < drawn.columns:
            yield f" {signs.get((column, row), ' ')} "


def flood_text(drawn: FloodDrawing) -> Iterator[str]:
    """Yield the lines of a catchment: two characters a cell."""
    low, high = min(drawn.elevation_m), max(drawn.elevation_m)
    at = {(int(one.x), int(one.y)): one.name[0] for one in drawn.sensors}
    cells = list(zip(drawn.elevation_m, drawn.deepest_mm, strict=True))
    for row in range(len(cells) // drawn.columns):
        line = ""
        for column in range(drawn.columns):
            height, water = cells[row * drawn.columns + column]
            share = (height - low) / (high - low) if high > low else 0.0
            ground = GROUND[min(int(4 * share), 3)] + " "
            sign = next((2 * sign for least, sign in WATER if water >= least), ground)
            line += f"{at[column, row]} " if (column, row) in at else sign
        yield line.rstrip()


def series_text(one: Series, sample_s: float, height: int = 6) -> Iterator[str]:
    """Yield a chart of a sensor: ``*`` simulated, ``o`` observed, ``@`` both in one place."""
    most = max([*one.simulated, *one.observed, 1e-9])
    canvas = [[" "] * len(one.observed) for _ in range(height)]
    for series, sign in ((one.observed, "o"), (one.simulated, "*")):
        for i, value in enumerate(series):
            line = canvas[height - 1 - min(int(height * value / most), height - 1)]
            line[i] = "@" if line[i] not in (" ", sign) else sign
    yield f"{one.name}, m3/s: * simulated  o observed  @ both"
    for number, line in enumerate(canvas):
        label = f"{most:6.2f}" if number == 0 else f"{0:6.2f}" if number == height - 1 else " " * 6
        yield f"{label} │{''.join(line)}".rstrip()
    hours = len(one.observed) * sample_s / 3600
    yield f"{' ' * 7}└{'─' * len(one.observed)} {hours:g} h"


def day_text(panel: Panel) -> Iterator[str]:
    """Yield a line per series: its mean at each hour of the day, ten heights, the peak named."""
    yield f"{panel.title}, by hour of the day"
    for name, series in panel.series.items():
        by_hour = [[one for one in series[hour::24] if one is not None] for hour in range(24)]
        means = [sum(values) / len(values) if values else 0.0 for values in by_hour]
        most = max(means)
        heights = "".join(HEIGHTS[min(int(8 * mean / (most or 1.0)), 7)] for mean in means)
        yield f"  {heights} {name}, {most:.3g} at {means.index(most):02d}:00"


def steps_text(title: str, series: Mapping[str, tuple[float, ...]], step_h: float) -> Iterator[str]:
    """Yield a line per series: its values over time, ten heights, the largest named."""
    n = max((len(values) for values in series.values()), default=0)
    yield f"{title}, over {n * step_h:.3g} h"
    for name, values in series.items():
        most = max(values, default=0.0)
        heights = "".join(HEIGHTS[min(int(8 * max(v, 0.0) / (most or 1.0)), 7)] for v in values)
        yield f"  {heights} {name}, {most:.3g} at most"
