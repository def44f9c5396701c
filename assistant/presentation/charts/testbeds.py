"""Charts of one run of a testbed: a maze with the path of its runner, or a flood.

Rows and columns count from the upper left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from assistant.presentation.charts.palette import ACCENT, INK, MUTED, SERIES, TEXT, WARN
from assistant.presentation.charts.vega_lite import HEAD, Spec, nominal

BLUE = SERIES[0]
EARTH = ("#6f8f5a", "#d3b981", "#f3e6c8")

MARKS = {
    "slipped": ("triangle-up", SERIES[1]),
    "shook off": ("cross", WARN),
    "carried back": ("square", INK),
}


@dataclass(frozen=True, slots=True)
class Segment:
    """A line segment of a drawing; ``at_s`` is its time if it is a step of the maze runner."""

    x: float
    y: float
    x2: float
    y2: float
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MazeIncident:
    """An incident in a maze game, with its place, kind and time."""

    x: float
    y: float
    kind: str
    at_s: float


@dataclass(frozen=True, slots=True)
class MazeDrawing:
    """The data for drawing one maze game, in units of rooms with the origin at a corner.

    Attributes:
        columns, rows: numbers of rooms.
        rubble: rooms (column, row) in which a runner may slip.
        way: way of the runner, from room to room.
        carried: segments along which the runner was carried back.
        beats: way of each enemy.
    """

    columns: int
    rows: int
    walls: tuple[Segment, ...]
    rubble: tuple[tuple[int, int], ...]
    way: tuple[Segment, ...]
    carried: tuple[Segment, ...]
    marks: tuple[MazeIncident, ...]
    beats: tuple[tuple[Segment, ...], ...]
    starts: tuple[tuple[float, float], ...]
    title: str


@dataclass(frozen=True, slots=True)
class SensorSeries:
    """A flow sensor at a place, with simulated and observed flow in m3/s."""

    name: str
    x: float
    y: float
    simulated: tuple[float, ...]
    observed: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class FloodDrawing:
    """The data for drawing one simulated flood.

    Attributes:
        elevation_m: elevation of every cell, row by row.
        deepest_mm: deepest water of every cell.
        sensors: sensors, the outlet first.
        rain_mmh: assumed rain of every sample.
    """

    columns: int
    elevation_m: tuple[float, ...]
    deepest_mm: tuple[float, ...]
    streams: tuple[Segment, ...]
    sensors: tuple[SensorSeries, ...]
    rain_mmh: tuple[float, ...]
    sample_s: float
    title: str


def maze_picture(drawing: MazeDrawing) -> Spec:
    """Draw a maze with incidents, enemies, and the runner's path coloured by time."""
    edge = 38
    return {
        **HEAD,
        "title": _title(
            drawing.title, "red: enemies, starting at the diamonds; light squares: rubble"
        ),
        "width": edge * drawing.columns,
        "height": edge * drawing.rows,
        "layer": [
            _floor(drawing),
            *(_beat(number, drawing) for number in range(len(drawing.beats))),
            _way(drawing),
            _lines(drawing.carried, drawing, color=INK, strokeDash=[2, 5], opacity=0.6),
            _lines(drawing.walls, drawing, color=INK, strokeWidth=3.5, strokeCap="square"),
            _doors(drawing),
            _befell(drawing),
        ],
        "resolve": {"scale": {"color": "independent", "shape": "independent"}},
    }


def flood_picture(drawing: FloodDrawing) -> Spec:
    """Draw a catchment with its water, next to the rainfall and the flow at each sensor."""
    lower = [_hydrograph(drawing, number) for number in range(len(drawing.sensors))]
    return {
        **HEAD,
        "title": _title(drawing.title, "blue: maximum depth of the water; lines: streams"),
        "spacing": 40,
        "hconcat": [_map(drawing), {"vconcat": [_rain(drawing), *lower], "spacing": 12}],
        "resolve": {"scale": {"color": "independent"}},
    }


def _title(text: str, below: str) -> Spec:
    return {
        "text": text, "subtitle": below, "anchor": "start", "color": TEXT, "subtitleColor": TEXT,
        "fontWeight": "normal", "fontSize": 15, "offset": 12,
    }  # fmt: skip


def _axis(field: str, last: int, *, down: bool = False) -> Spec:
    scale = {"domain": [0, last], "nice": False, "zero": False, "reverse": down}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": None}


def _place(drawing: MazeDrawing) -> Spec:
    return {"x": _axis("x", drawing.columns), "y": _axis("y", drawing.rows, down=True)}


def _between(drawing: MazeDrawing) -> Spec:
    return {**_place(drawing), "x2": {"field": "x2"}, "y2": {"field": "y2"}}


def _lines(lines: Sequence[Segment], drawing: MazeDrawing, **mark: Any) -> Spec:
    return {
        "data": {"values": [_row(line) for line in lines]},
        "mark": {"type": "rule", **mark},
        "encoding": _between(drawing),
    }


def _row(line: Segment) -> Spec:
    return {"x": line.x, "y": line.y, "x2": line.x2, "y2": line.y2, "at_s": line.at_s}


def _floor(drawing: MazeDrawing) -> Spec:
    rows = [
        {"x": x + 0.12, "y": y + 0.12, "x2": x + 0.88, "y2": y + 0.88} for x, y in drawing.rubble
    ]
    return {
        "data": {"values": rows},
        "mark": {"type": "rect", "color": "#e4dccb", "cornerRadius": 5},
        "encoding": _between(drawing),
    }


def _beat(number: int, drawing: MazeDrawing) -> Spec:
    aside = (number % 3 - 1) * 0.14  # so that ways of several enemies do not overlap
    moved = [
        Segment(segment.x + aside, segment.y + aside, segment.x2 + aside, segment.y2 + aside)
        for segment in drawing.beats[number]
    ]
    x, y = drawing.starts[number]
    start = {
        "data": {"values": [{"x": x + aside, "y": y + aside}]},
        "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 90, "color": WARN,
                 "opacity": 0.75},
        "encoding": _place(drawing),
    }  # fmt: skip
    return {"layer": [_lines(moved, drawing, color=WARN, opacity=0.22, strokeWidth=1.5), start]}


def _way(maze: MazeDrawing) -> Spec:
    colour = {
        "field": "at_s",
        "type": "quantitative",
        "scale": {"scheme": "plasma", "domainMax": max([1.0, *(s.at_s for s in maze.way)]) * 1.15},
        "legend": {"title": "path of the runner, s", "orient": "bottom", "gradientLength": 220,
                   "titleColor": TEXT},
    }  # fmt: skip
    drawing = _lines(maze.way, maze, strokeWidth=6, strokeCap="round")
    return {**drawing, "encoding": {**drawing["encoding"], "color": colour}}


def _doors(drawing: MazeDrawing) -> Spec:
    rows = [
        {"x": 0.5, "y": 0.5, "text": "IN"},
        {"x": drawing.columns - 0.5, "y": drawing.rows - 0.5, "text": "OUT"},
    ]
    return {
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "point", "shape": "circle", "filled": True, "size": 700,
                         "color": SERIES[2], "opacity": 1},
                "encoding": _place(drawing),
            },
            {
                "mark": {"type": "text", "color": "white", "fontWeight": "bold", "fontSize": 10},
                "encoding": {**_place(drawing), "text": {"field": "text"}},
            },
        ],
    }  # fmt: skip


def _befell(drawing: MazeDrawing) -> Spec:
    kinds = list(MARKS)
    rows = [{"x": m.x, "y": m.y, "what": m.kind, "at_s": m.at_s} for m in drawing.marks]
    shapes, colours = ([MARKS[kind][i] for kind in kinds] for i in (0, 1))
    legend = {"title": None, "orient": "bottom", "symbolOpacity": 1}
    return {
        "data": {"values": rows},
        "mark": {"type": "point", "filled": True, "size": 170, "opacity": 1, "stroke": "white",
                 "strokeWidth": 1.5},
        "encoding": {
            **_place(drawing),
            "shape": nominal("what", kinds, shapes, legend=legend),
            "color": nominal("what", kinds, colours, legend=legend),
            "tooltip": [{"field": "what"}, {"field": "at_s", "title": "seconds"}],
        },
    }  # fmt: skip


def _map(drawing: FloodDrawing) -> Spec:
    n = drawing.columns
    n_rows = len(drawing.elevation_m) // n
    shades = _hillshade(drawing.elevation_m, n)
    cells = [
        {
            "x": i % n, "x2": i % n + 1, "y": i // n, "y2": i // n + 1,
            "ground": _ground(height, drawing.elevation_m, shades[i]),
            "water": drawing.deepest_mm[i], "height": height,
        }
        for i, height in enumerate(drawing.elevation_m)
    ]  # fmt: skip
    place = {"x": _axis("x", n), "y": _axis("y", n_rows, down=True)}
    square = {**place, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    most = max([1.0, *drawing.deepest_mm])
    water = {
        "transform": [{"filter": "datum.water > 3"}],
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {
            **square,
            "color": {
                "field": "water",
                "type": "quantitative",
                "scale": {"type": "sqrt", "range": ["#9fd0f0", "#08306b"], "domain": [0, most]},
                "legend": {"title": "maximum depth, mm", "orient": "bottom", "titleColor": TEXT,
                           "gradientLength": 220},
            },
            "opacity": {
                "field": "water", "type": "quantitative", "legend": None,
                "scale": {"domain": [3, most / 3], "range": [0.12, 1], "clamp": True},
            },
        },
    }  # fmt: skip
    at = [{"x": feature.x, "y": feature.y, "name": feature.name[0]} for feature in drawing.sensors]
    return {
        "width": 470,
        "height": 470 * n_rows // n,
        "data": {"values": cells},
        "layer": [
            {
                "mark": {"type": "rect", "tooltip": True},
                "encoding": {**square, "color": {"field": "ground", "type": "nominal",
                                                 "scale": None}},
            },
            water,
            {
                "data": {"values": [_row(feature) for feature in drawing.streams]},
                "mark": {"type": "rule", "color": BLUE, "opacity": 0.55, "strokeWidth": 1.6,
                         "strokeCap": "round"},
                "encoding": square,
            },
            {
                "data": {"values": at},
                "layer": [
                    {
                        "mark": {"type": "point", "filled": True, "size": 330, "color": ACCENT,
                                 "opacity": 1, "stroke": "white"},
                        "encoding": place,
                    },
                    {
                        "mark": {"type": "text", "color": "white", "fontWeight": "bold"},
                        "encoding": {**place, "text": {"field": "name"}},
                    },
                ],
            },
        ],
        "resolve": {"scale": {"color": "independent"}},
    }  # fmt: skip


def _hillshade(elevation_m: Sequence[float], n: int) -> list[float]:
    """Return the brightness of every cell, from 0 to 1, with light from the upper left."""
    rows = len(elevation_m) // n

    def height(row: int, column: int) -> float:
        row, column = min(max(row, 0), rows - 1), min(max(column, 0), n - 1)
        return elevation_m[row * n + column]

    falls = []
    for i in range(len(elevation_m)):
        row, column = divmod(i, n)
        across = height(row, column + 1) - height(row, column - 1)
        down = height(row + 1, column) - height(row - 1, column)
        falls.append(across + down)
    most = max([1e-9, *(abs(fall) for fall in falls)])
    return [0.5 + 0.5 * fall / most for fall in falls]


def _ground(height_m: float, elevation_m: Sequence[float], light: float) -> str:
    low, high = min(elevation_m), max(elevation_m)
    share = (height_m - low) / (high - low) if high > low else 0.0
    first, second = (EARTH[0], EARTH[1]) if share < 0.5 else (EARTH[1], EARTH[2])
    part = 2 * share if share < 0.5 else 2 * share - 1
    mixed = [a + part * (b - a) for a, b in zip(_rgb(first), _rgb(second), strict=True)]
    lit = [min(255.0, channel * (0.66 + 0.6 * light)) for channel in mixed]
    return "#" + "".join(f"{round(channel):02x}" for channel in lit)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _hours(drawing: FloodDrawing, *, last: bool) -> Spec:
    axis: Spec = {"grid": False, "tickCount": 6}
    if not last:
        axis = {**axis, "labels": False, "ticks": False}
    end = len(drawing.rain_mmh) * drawing.sample_s / 3600
    return {
        "field": "hour",
        "type": "quantitative",
        "title": "hours" if last else None,
        "scale": {"domain": [0, end], "nice": False},
        "axis": axis,
    }


def _rain(drawing: FloodDrawing) -> Spec:
    step = drawing.sample_s / 3600
    rows = [
        {"hour": i * step, "end": (i + 1) * step, "rain": rain, "none": 0}
        for i, rain in enumerate(drawing.rain_mmh)
    ]
    title, scale = "rain, mm/h", {"reverse": True}
    y = {"field": "rain", "type": "quantitative", "title": title, "scale": scale}
    return {
        "width": 430,
        "height": 70,
        "data": {"values": rows},
        "mark": {"type": "rect", "color": BLUE, "opacity": 0.7, "stroke": None},
        "encoding": {
            "x": _hours(drawing, last=False), "x2": {"field": "end"}, "y": y, "y2": {"datum": 0},
        },
    }  # fmt: skip


def _hydrograph(drawing: FloodDrawing, number: int) -> Spec:
    sensor = drawing.sensors[number]
    hour = [(i + 0.5) * drawing.sample_s / 3600 for i in range(len(sensor.observed))]
    rows = [
        {"hour": at, "m3s": value, "kind": kind}
        for kind, values in (("observed", sensor.observed), ("simulated", sensor.simulated))
        for at, value in zip(hour, values, strict=True)
    ]
    x = _hours(drawing, last=number == len(drawing.sensors) - 1)
    y = {"field": "m3s", "type": "quantitative", "title": f"{sensor.name}, m3/s",
         "axis": {"tickCount": 4}}  # fmt: skip
    legend = {"title": None, "orient": "top", "symbolOpacity": 1} if number == 0 else None
    scale = {"domain": ["observed", "simulated"], "range": [MUTED, ACCENT]}
    colour = {"field": "kind", "type": "nominal", "scale": scale, "legend": legend}
    return {
        "width": 430,
        "height": 110,
        "data": {"values": rows},
        "encoding": {"x": x, "y": y, "color": colour},
        "layer": [
            {
                "transform": [{"filter": "datum.kind == 'observed'"}],
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.8},
            },
            {
                "transform": [{"filter": "datum.kind == 'simulated'"}],
                "mark": {"type": "line", "strokeWidth": 2},
            },
        ],
    }
