"""The charts of a space: cells, keys and marks as the browser makes them of bare lists."""

import json
import re
from typing import Any

import pytest
import vl_convert

from assistant.presentation.charts.response_map import (
    BRUSH,
    CELL,
    CellRegions,
    CellValues,
    MapMark,
    NestedParameter,
    ParallelAxis,
    ParallelLine,
    brushed_runs,
    parallel,
    response_map,
)
from assistant.presentation.charts.vega_lite import Spec

ACROSS = [
    NestedParameter("procs", ("1", "2", "4"), ("0:2", "0:0", "0:1")),
    NestedParameter("order", ("fcfs", "sjf"), ("2:0", "2:1")),
]
DOWN = [NestedParameter("window [s]", ("0", "60"), ("1:0", "1:1"))]
VALUES: list[float | None] = [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0, None, 10.0, 11.0, 12.0]
ADMITTED = [0, 0, 0, 1, 0, 0, 2, 0, 1, 0, 0, 0]
MARKS = [
    MapMark(0, 0, "best", "1"),
    MapMark(1, 0, "baseline"),
    MapMark(2, 0, "waiting"),
    MapMark(3, 0, "running"),
    MapMark(4, 0, "failed"),
    MapMark(5, 0, "violates a constraint"),
    MapMark(0, 1, "measured"),
    MapMark(1, 1, "suggested"),
    MapMark(2, 1, "good member"),
    MapMark(3, 1, "evaluated"),
]


def valued(**more: Any) -> CellValues:
    return CellValues("measured height [m]", VALUES, "low", **more)


def made(spec: Spec) -> list[dict[str, Any]]:
    """Return the cells as Vega makes them, by its own tooltips."""
    svg = vl_convert.vegalite_to_svg({**spec, "config": {**spec["config"], "aria": True}})
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    told = re.findall(r'aria-label="(x: [^"]*configuration: [^"]*)"', svg)
    return [dict(part.split(": ", 1) for part in one.split("; ")) for one in told]


def test_a_map_is_made_of_lists_one_number_per_cell() -> None:
    cells = made(response_map(ACROSS, DOWN, valued(), ADMITTED))
    assert len(cells) == 12
    assert [cell["configuration"] for cell in cells[:3]] == [
        "procs 1, order fcfs, window [s] 0",
        "procs 1, order sjf, window [s] 0",
        "procs 2, order fcfs, window [s] 0",
    ]
    assert [cell["measured height [m]"] for cell in cells][-3:] == ["10", "11", "12"]
    assert cells[2]["measured height [m]"] == "unknown"
    assert cells[7]["configuration"] == "procs 1, order sjf, window [s] 60"
    assert [cell["may be suggested"] for cell in cells] == [
        ("yes", "no, closed", "no, excluded")[state] for state in ADMITTED
    ]


def test_a_click_carries_levels_by_parameter_and_what_is_held() -> None:
    spec = response_map(
        ACROSS, DOWN, valued(), ADMITTED, fixed="3:7", selected_key="0:0 2:1 1:1 3:7"
    )
    selection = spec["layer"][0]["params"][0]
    assert selection["select"]["fields"] == [CELL, "i"]
    lists = {one["name"]: one["value"] for one in spec["params"]}
    assert lists["KX"] == ["0:2 2:0", "0:2 2:1", "0:0 2:0", "0:0 2:1", "0:1 2:0", "0:1 2:1"]
    assert lists["KY"] == ["1:0", "1:1"]
    chosen = vl_convert.vegalite_to_svg(spec)  # the frame around procs 2, sjf, 60
    plain = vl_convert.vegalite_to_svg(response_map(ACROSS, DOWN, valued(), ADMITTED, fixed="3:7"))
    assert chosen.count('stroke-width="3"') == plain.count('stroke-width="3"') + 1


@pytest.mark.parametrize(("n", "step"), [(2, 34), (100, 8), (400, 2), (1_000, 1)])
def test_cells_are_whole_pixels(n: int, step: int) -> None:
    axis = [NestedParameter("p", tuple(map(str, range(n))), tuple(f"0:{i}" for i in range(n)))]
    cells = CellValues("v", [float(i) for i in range(n)], "low")
    spec = response_map(axis, (), cells, [0] * n)
    assert spec["width"] == n * step
    assert spec["autosize"] == "pad"


def test_a_map_of_8800_cells_is_small() -> None:
    across = [
        NestedParameter(f"p{i}", tuple(map(str, range(20))), tuple(f"{i}:{j}" for j in range(20)))
        for i in range(2)
    ]
    down = [NestedParameter("p2", tuple(map(str, range(22))), tuple(f"2:{j}" for j in range(22)))]
    values = [round(i * 1.2345, 3) for i in range(8_800)]
    cells = CellValues("v", values, "low", values, values)
    spec = response_map(across, down, cells, [0] * 8_800)
    assert len(json.dumps(spec)) < 350_000
    assert spec["usermeta"]["embedOptions"]["renderer"] == "canvas"


@pytest.mark.parametrize(("dark", "reverse"), [("low", False), ("high", True)])
def test_what_is_better_is_dark_and_the_legend_says_so(dark: Any, reverse: bool) -> None:
    spec = response_map(ACROSS, DOWN, CellValues("height", VALUES, dark), ADMITTED)
    fill = spec["layer"][0]["encoding"]["fill"]
    assert fill["scale"]["reverse"] is reverse
    assert fill["legend"]["title"] == "height (dark is better)"


def test_every_mark_has_a_word_and_a_shape_of_its_own() -> None:
    spec = response_map(ACROSS, DOWN, valued(), ADMITTED, MARKS)
    svg = vl_convert.vegalite_to_svg(spec)
    for kind in (*(mark.kind for mark in MARKS), "closed", "excluded"):
        assert f">{'current' if kind == 'baseline' else kind}</text>" in svg
    shapes = [
        (shape, word)
        for layer in spec["layer"]
        if "shape" in layer.get("encoding", {})
        for word, shape in zip(
            layer["encoding"]["shape"]["scale"]["domain"],
            layer["encoding"]["shape"]["scale"]["range"],
            strict=True,
        )
        if word not in ("good member", "evaluated")  # are never beside what was measured
    ]
    assert len({shape for shape, _ in shapes}) == len(shapes)


@pytest.mark.parametrize(
    "spec",
    [
        response_map(ACROSS, DOWN, valued(lows=VALUES, highs=VALUES), ADMITTED, MARKS),
        response_map(ACROSS, DOWN, valued(is_measured=True), ADMITTED, MARKS),
        response_map(ACROSS, DOWN, CellValues("v", [None] * 12, "high"), ADMITTED),
        response_map(ACROSS, (), CellValues("v", [3.0] * 6, "high"), [0] * 6),
        response_map((), (), CellValues("v", [3.0], "high"), [0]),
        response_map((), DOWN, CellRegions([0, 9]), [0, 1], [MapMark(0, 1, "good member", "9")]),
        response_map(ACROSS, DOWN, CellRegions([0, 1, 2] * 4), ADMITTED, MARKS),
    ],
)
def test_every_map_is_drawn(spec: Spec) -> None:
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    json.dumps(spec, allow_nan=False)


def test_regions_have_names_and_the_best_ones_carry_their_number() -> None:
    marks = [MapMark(0, 0, "good member", "1"), MapMark(2, 1, "good member", "2")]
    svg = vl_convert.vegalite_to_svg(response_map(ACROSS, DOWN, CellRegions([0, 1, 2] * 4),
                                                  ADMITTED, marks))  # fmt: skip
    assert ">region 1</text>" in svg
    assert ">region 2</text>" in svg
    assert svg.count(">2</text>") >= 2


def test_few_narrow_measured_cells_carry_dots() -> None:
    axis = [NestedParameter("p", tuple(map(str, range(400))), tuple(f"0:{i}" for i in range(400)))]

    def dots(n: int, **more: Any) -> int:
        values = [float(i) if i < n else None for i in range(400)]
        spec = response_map(axis, (), CellValues("v", values, "low", **more), [0] * 400)
        return sum(
            len(layer["data"]["values"])
            for layer in spec["layer"]
            if isinstance(layer["mark"], dict) and layer["mark"]["type"] == "point"
        )

    assert dots(5, is_measured=True) == 5
    assert dots(5) == 0
    assert dots(300, is_measured=True) == 0


# -- parallel axes -----------------------------------------------------------------------------

AXES = [
    ParallelAxis("procs", ((0.0, "1"), (1.0, "4"))),
    ParallelAxis("order", ((0.0, "fcfs"), (1.0, "sjf"))),
    ParallelAxis("height [m]", ((0.0, "1"), (1.0, "10"))),
]
LINES = [
    ParallelLine(1, (0.0, 0.0, 0.0), ("1", "fcfs", "1"), 1.0, True),
    ParallelLine(2, (0.5, 1.0, 0.4), ("2", "sjf", "5"), 5.0, False),
    ParallelLine(3, (1.0, 1.0, 1.0), ("4", "sjf", "10"), 10.0, True),
    ParallelLine(4, (1.0, 0.0, None), ("4", "fcfs", "unknown"), None, True),
]


@pytest.mark.parametrize(
    "spec",
    [
        parallel(AXES, LINES, "height [m]", "low"),
        parallel(AXES, LINES[:1], "height [m]", "high"),
        parallel(AXES, LINES[3:], "height [m]", "high"),
    ],
)
def test_every_parallel_plot_is_drawn(spec: Spec) -> None:
    svg = vl_convert.vegalite_to_svg(spec)
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    assert ">height [m]</text>" in svg


def test_a_brush_in_the_browser_keeps_what_python_keeps() -> None:
    spec = parallel(AXES, LINES, "height [m]", "low")
    for axes, low, high in (([0], 0.3, 1.0), ([0, 1], 0.9, 1.0), ([2], 0.0, 0.5), ([1], 0.2, 0.8)):
        brush = {BRUSH: {"axis": axes, "at": [low, high]}}
        set_ = json.loads(json.dumps(spec).replace(f"{BRUSH}.", f"{BRUSH}_now."))
        set_["params"].append({"name": f"{BRUSH}_now", "value": brush[BRUSH]})
        svg = vl_convert.vegalite_to_svg(set_)
        faded = svg.count('opacity="0.07"')
        kept = brushed_runs(LINES, axes, low, high)
        left = [line for line in LINES if line.run_id not in kept]
        lines_and_dots = sum(1 + sum(at is not None for at in line.at) for line in left)
        assert faded == lines_and_dots
