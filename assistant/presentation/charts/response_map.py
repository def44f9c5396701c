"""Charts of a parameter space: response map with nested parameters, and parallel coordinates.

A folded map nests several parameters in each axis, with borders and texts between their levels.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from assistant.presentation.charts.axes import value_axis
from assistant.presentation.charts.palette import (
    ACCENT,
    GROUND,
    INK,
    MUTED,
    TEXT,
    VALUE_SCHEME,
    series,
)
from assistant.presentation.charts.vega_lite import CONFIG, HEAD, Spec, nominal

Dark = Literal["low", "high"]  # End of the values that is drawn dark: the better one


def better(title: str, meaning: str = "better") -> str:
    """Return the legend title of values, with the meaning of dark colours."""
    return f"{title} (dark is {meaning})"


def legend_ticks(axis: Spec) -> Spec:
    """Return the ticks of a value axis as properties of a gradient legend."""
    ticks = axis["axis"]
    count = {} if "values" in ticks else {"tickCount": 4}
    return {key: ticks[key] for key in ("values", "labelExpr") if key in ticks} | count


_LETTER, _LINE = 6.4, 14


@dataclass(frozen=True, slots=True)
class NestedParameter:
    """One of the nested parameters on an axis of a response map.

    Args:
        levels: texts of its levels, in their order.
        keys: part of the key of a cell for each level; see `key_of`.
    """

    title: str
    levels: tuple[str, ...]
    keys: tuple[str, ...]


Axis = Sequence[NestedParameter]  # Parameters on an axis, the slowest first


def size(axis: Axis) -> int:
    """Return the number of cells along an axis."""
    return math.prod(len(parameter.levels) for parameter in axis)


def combinations(axis: Axis, attribute: Literal["levels", "keys"]) -> Iterator[tuple[str, ...]]:
    """Yield, for each cell along an axis in order, the levels (or keys) of its parameters."""
    return itertools.product(*(getattr(parameter, attribute) for parameter in axis))


def axis_levels_text(axis: Axis, levels: tuple[str, ...]) -> str:
    """Return levels as text, each with the name of its parameter before it."""
    return ", ".join(
        f"{parameter.title} {text}" for parameter, text in zip(axis, levels, strict=True)
    )


def borders(
    across: Axis, down: Axis, columns: int, rows: int, step_x: int, step_y: int, x: Spec, y: Spec
) -> list[Spec]:
    """Return chart layers with lines between the levels of all outer parameters of a map."""
    lines: list[Spec] = []
    for axis, n, step, mine, other in (
        (across, columns, step_x, x, "x"), (down, rows, step_y, y, "y"),
    ):  # fmt: skip
        group = n
        for depth, parameter in enumerate(axis[:-1]):
            group //= len(parameter.levels)
            if group * step < 12:
                break
            lines.append(
                {
                    "data": {"values": [{other: at} for at in range(group, n, group)]},
                    "mark": {"type": "rule", "color": "white", "opacity": 0.9,
                             "strokeWidth": 2 if depth == 0 and step > 4 else 1},
                    "encoding": {other: mine},
                }
            )  # fmt: skip
    return lines


def labels(axis: Axis, step: int, extent: int, place: Spec, *, is_across: bool) -> list[Spec]:
    """Return chart layers with the levels and names of the parameters beside an axis."""
    along, beside = ("x", "y") if is_across else ("y", "x")
    n, off, group = size(axis), 4.0, 1
    layers: list[Spec] = []
    for parameter in reversed(axis):
        longest = max(map(len, parameter.levels))
        n_levels = len(parameter.levels)
        is_repeated = n // group > n_levels
        labelled = _labelled(parameter.levels, group * step, is_across, is_repeated)
        if len(labelled) > 1 or n_levels == 1:
            rows = [
                {along: (i + 0.5) * group, "text": parameter.levels[i % n_levels]}
                for i in range(n // group)
                if i % n_levels in labelled
            ]
            at = extent + off + _LINE / 2 if is_across else -off
            look = {"align": "center" if is_across else "right", "color": MUTED, "fontSize": 11}
            layers.append(
                {
                    "data": {"values": rows},
                    "mark": {"type": "text", "baseline": "middle", **look},
                    "encoding": {
                        along: place, beside: {"value": at}, "text": {"field": "text"},
                    },
                }
            )  # fmt: skip
            off += _LINE if is_across else _LETTER * longest + 8
        group *= len(parameter.levels)
    name = ", within it ".join(parameter.title for parameter in axis)
    if name:
        at = extent + off + 12 if is_across else -off - 10
        layers.append(
            {
                "data": {"values": [{along: n / 2}]},
                "mark": {"type": "text", "baseline": "middle", "align": "center", "color": TEXT,
                         "text": name, "fontSize": 12, "angle": 0 if is_across else 270},
                "encoding": {along: place, beside: {"value": at}},
            }
        )  # fmt: skip
    return layers


def _labelled(
    levels: Sequence[str], step: float, is_across: bool, is_repeated: bool
) -> Sequence[int]:
    """Return the levels, evenly spaced, whose texts do not touch; at most one if all would.

    Args:
        levels: their texts in order.
        step: pixels from one level to the next.
        is_across: whether texts stand beside each other, else one above the other.
        is_repeated: whether the first level comes again right after the last one.
    """
    n = len(levels)
    for every in range(1, n):
        positions = range(0, n, every)
        places = [*positions, *([n] if is_repeated else [])]
        gaps = [
            (b - a) * step - _room(levels[a], levels[b % n], is_across)
            for a, b in itertools.pairwise(places)
        ]
        if min(gaps) >= 0 and len(positions) > 1:
            return positions
    return range(1)


def _room(first: str, second: str, is_across: bool) -> float:
    """Return the least distance between the centres of two texts, in pixels."""
    return _LETTER * (len(first) + len(second)) / 2 + 2 if is_across else _LINE - 2


CELL = "cell"  # Name of the selection of a cell, and of the field with its key

Kind = Literal[
    "measured", "violates a constraint", "failed", "running", "waiting", "suggested", "good member",
    "evaluated", "best", "baseline", "closed", "excluded", "inactive",
]  # fmt: skip
"""Kind of a mark on a map; the legend shows ``baseline`` as *current*."""

_SHAPES: Mapping[Kind, str] = {
    "measured": "circle",
    "violates a constraint": "cross",
    "failed": "triangle-down",
    "running": "triangle-right",
    "waiting": "square",
    "suggested": "triangle-up",
    "good member": "circle",
    "evaluated": "M-1,-.35L1,-.35L1,.35L-1,.35Z",
    "best": "M0,-1.3L.35,-.4L1.25,-.4L.5,.15L.8,1.1L0,.5L-.8,1.1L-.5,.15L-1.25,-.4L-.35,-.4Z",
    "baseline": "diamond",
    "closed": "M-1,1L1,-1",
    "excluded": "M-1,1L1,-1M-1,-1L1,1",
    "inactive": "M-1,0L1,0",
}
_ABOVE: tuple[Kind, ...] = ("best", "baseline")
_OF_RUNS: tuple[Kind, ...] = (
    "measured", "violates a constraint", "good member", "evaluated", "failed", "running", "waiting",
    "suggested",
)  # fmt: skip
_WIDE, _TALL, _MOST_STEP = 890, 420, 34  # space for a map with labels beside a list of pages
_NARROW, _SPARSE = 8, 10
_LABELS: Spec = {"labelExpr": "datum.label == 'baseline' ? 'current' : datum.label"}
_PHONE = "windowSize()[0] < 640"  # False where there is no window
_COLUMNS: Spec = {"expr": f"{_PHONE} ? 2 : 6"}
_BELOW_EACH_OTHER: Spec = {
    **CONFIG["legend"],
    "layout": {"top": {"direction": {"signal": f"{_PHONE} ? 'vertical' : 'horizontal'"}}},
}
"""Legends of a chart, that stand beside each other where the window is wide enough."""
_BLANK, _SHUT = f"{MUTED}26", f"{MUTED}73"


@dataclass(frozen=True, slots=True)
class CellValues:
    """The values of the cells of a response map, row by row, None if unknown.

    Args:
        values: one value per cell, shown as colour.
        dark: end of the values that is dark.
        lows: lower ends of intervals, or empty.
        better: meaning of a dark cell, in a word.
        is_measured: whether only cells with runs have a value.
    """

    title: str
    values: Sequence[float | None]
    dark: Dark
    lows: Sequence[float | None] = ()
    highs: Sequence[float | None] = ()
    better: str = "better"
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class CellRegions:
    """The region number of each cell of a response map, row by row, 0 for none."""

    regions: Sequence[int]


@dataclass(frozen=True, slots=True)
class MapMark:
    """A mark in one cell of a response map, with column and row counted from the top left."""

    column: int
    row: int
    kind: Kind
    text: str = ""


def response_map(
    across: Axis,
    down: Axis,
    cells: CellValues | CellRegions,
    admitted: Sequence[int],
    marks: Sequence[MapMark] = (),
    fixed: str = "",
    selected_key: str = "",
) -> Spec:
    """Draw a response map with nested parameters, whose cells are selectable by key (`CELL`).

    Args:
        across: parameters on the horizontal axis.
        down: parameters on the vertical axis.
        cells: values or regions that give the colour.
        admitted: state of each cell: 0 open, 1 closed, 2 excluded, 3 inactive.
        marks: marks over the cells.
        fixed: part of the keys that all cells share.
        selected_key: key of the selected cell.
    """
    columns, rows = size(across), size(down)
    step_x, step_y = _step(columns, _WIDE - label_width(down)), _step(rows, _TALL)
    width, height = columns * step_x, rows * step_y
    x: Spec = {"field": "x", "type": "quantitative", "axis": None, "scale": _whole(columns)}
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "axis": None,
        "scale": {**_whole(rows), "reverse": True},
    }
    is_open = not any(admitted)
    lists, encoding, tooltip, values = _painted(cells, is_open=is_open)
    lists |= {
        "A": list(admitted),
        "KX": [" ".join(keys) for keys in combinations(across, "keys")],
        "KY": [" ".join(keys) for keys in combinations(down, "keys")],
        "LX": [axis_levels_text(across, levels) for levels in combinations(across, "levels")],
        "LY": [axis_levels_text(down, levels) for levels in combinations(down, "levels")],
    }
    place = [
        _made("x", f"datum.i % {columns} + 0.5"),
        _made("y", f"floor(datum.i / {columns}) + 0.5"),
    ]
    comma, may = ", " if across and down else "", "'yes'"
    if not is_open:
        values = [_made("a", "A[datum.i]"), *values]
        may = "['yes', 'no, closed', 'no, excluded', 'as another cell'][datum.a]"
    texts = [
        _made(CELL, f"trim(KX[datum.x - 0.5] + ' ' + KY[datum.y - 0.5] + ' {fixed}')"),
        _made("what", f"LX[datum.x - 0.5] + '{comma}' + LY[datum.y - 0.5]"),
        _made("may", may),
    ]
    box: Spec = {"type": "rect", "width": step_x, "height": step_y}
    selection: Spec = {
        "name": CELL,
        "select": {"type": "point", "fields": [CELL, "i"], "toggle": False},
    }
    chosen = f"isValid({CELL}.i) ? {CELL}.i[0] : -1"
    if selected_key:
        keys = itertools.product(lists["KY"], lists["KX"])
        numbers = {f"{kx} {ky} {fixed}".strip(): i for i, (ky, kx) in enumerate(keys)}
        selection["value"] = [{CELL: selected_key, "i": numbers.get(selected_key, -1)}]
    layers: list[Spec] = [
        {
            "data": {"sequence": {"start": 0, "stop": columns * rows, "as": "i"}},
            "transform": [*place, *values, *texts],
            "params": [selection],
            "mark": {**box, "invalid": None, "stroke": None},
            "encoding": {
                "x": x,
                "y": y,
                "fill": encoding,
                "tooltip": [
                    {"field": "what", "title": "configuration"},
                    *tooltip,
                    {"field": "may", "title": "may be suggested"},
                ],
            },
        },
        *borders(across, down, columns, rows, step_x, step_y, x, y),
        *_dots(cells, encoding, columns, min(step_x, step_y), x, y),
        *_drawn_marks(marks, admitted, columns, max(5, min(11, min(step_x, step_y) - 3)), x, y),
        {
            "data": {"sequence": {"start": 0, "stop": 1, "as": "n"}},
            "transform": [_made("i", chosen), {"filter": "datum.i >= 0"}, *place],
            "mark": {**box, "fill": None, "stroke": ACCENT, "strokeWidth": 3},
            "encoding": {"x": x, "y": y},
        },
        *labels(across, step_x, height, x, is_across=True),
        *labels(down, step_y, width, y, is_across=False),
    ]
    return {
        **HEAD,
        "config": {**CONFIG, "aria": False, "legend": _BELOW_EACH_OTHER},
        "usermeta": {"embedOptions": {"renderer": "canvas" if columns * rows > 500 else "svg"}},
        "description": "map of the configurations",
        "autosize": "pad",  # the size is that of the cells, without labels
        "resolve": {"scale": {"shape": "independent"}, "legend": {"shape": "independent"}},
        "width": width,
        "height": height,
        "params": [{"name": name, "value": values} for name, values in lists.items()],
        "layer": layers,
    }


def _step(n: int, room: float) -> int:
    return max(1, min(_MOST_STEP, int(room // n)))


def label_width(axis: Axis) -> float:
    """Return the width of all labels beside a vertical axis, in pixels."""
    return 30 + sum(_LETTER * max(map(len, parameter.levels)) + 8 for parameter in axis)


def _whole(n: int) -> Spec:
    return {"domain": [0, n], "nice": False, "zero": False}


def _made(name: str, expression: str) -> Spec:
    return {"calculate": expression, "as": name}


def _painted(
    cells: CellValues | CellRegions, *, is_open: bool
) -> tuple[dict[str, list[float | int | str | None]], Spec, list[Spec], list[Spec]]:
    is_run = isinstance(cells, CellValues) and cells.is_measured
    test = "datum.a > 0 && datum.v === null" if is_run else "datum.a > 0"  # runs keep their colour
    shut: Spec = {"test": test, "value": _SHUT}
    blank: Spec = {"test": "datum.v === null", "value": _BLANK}
    conditions = [blank] if is_open else [shut, blank]
    if isinstance(cells, CellRegions):
        numbers = sorted({*cells.regions} - {0})
        colours = [series(n)[-1] for n in numbers]
        domain = [f"region {n}" for n in numbers]
        fill = nominal(
            "v", domain, colours, condition=conditions,
            legend={"symbolType": "square", "symbolSize": 120} if numbers else None,
        )  # fmt: skip
        transforms = [
            _made("v", "R[datum.i] > 0 ? 'region ' + R[datum.i] : null"),
            _made("told", "R[datum.i] > 0 ? R[datum.i] : 'none'"),
        ]
        return {"R": list(cells.regions)}, fill, [{"field": "told", "title": "region"}], transforms
    finite_values = [value for value in cells.values if value is not None]
    axis = value_axis(finite_values, cells.title)
    legend = {
        **legend_ticks(axis), "title": better(axis["title"] or "", cells.better),
        "titleColor": TEXT, "titleLimit": 420, "gradientLength": 220,
    }  # fmt: skip
    fill = {
        "field": "v",
        "type": "quantitative",
        "scale": {"scheme": VALUE_SCHEME, "reverse": cells.dark == "high", **axis["scale"]},
        "legend": legend if finite_values else None,
        "condition": conditions,
    }
    lists: dict[str, list[float | int | str | None]] = {"V": list(cells.values)}
    nothing = "not measured" if cells.is_measured else "unknown"
    transforms = [
        _made("v", "V[datum.i]"),
        _made("told", f"datum.v === null ? '{nothing}' : format(datum.v, ',.4~r')"),
    ]
    tooltip: list[Spec] = [{"field": "told", "title": cells.title}]
    if cells.lows:
        lists |= {"LO": list(cells.lows), "HI": list(cells.highs)}
        ends = "format(LO[datum.i], ',.4~r') + ' to ' + format(HI[datum.i], ',.4~r')"
        transforms.append(_made("band", f"LO[datum.i] === null ? '' : {ends}"))
        tooltip.append({"field": "band", "title": "interval"})
    return lists, fill, tooltip, transforms


def _dots(
    cells: CellValues | CellRegions, fill: Spec, columns: int, step: int, x: Spec, y: Spec
) -> list[Spec]:
    """Return dots over measured cells that are few and too narrow to be visible."""
    if isinstance(cells, CellRegions) or not cells.is_measured or step >= _NARROW:
        return []
    rows = [
        {"x": i % columns + 0.5, "y": i // columns + 0.5, "v": value, "a": 0}
        for i, value in enumerate(cells.values)
        if value is not None
    ]
    if len(rows) * _SPARSE > len(cells.values):
        return []
    look = {"filled": True, "stroke": "white", "strokeWidth": 0.8, "size": 50, "opacity": 1}
    return [
        {
            "data": {"values": rows},
            "mark": {"type": "point", **look},
            "encoding": {"x": x, "y": y, "fill": fill},
        }
    ]


def _drawn_marks(
    marks: Sequence[MapMark], admitted: Sequence[int], columns: int, side: int, x: Spec, y: Spec
) -> list[Spec]:
    shut: tuple[Kind, ...] = ("closed", "excluded", "inactive")
    rows = [
        {"x": i % columns + 0.5, "y": i // columns + 0.5, "kind": shut[state - 1], "text": ""}
        for i, state in enumerate(admitted)
        if state
    ]
    rows += [{"x": m.column + 0.5, "y": m.row + 0.5, "kind": m.kind, "text": m.text} for m in marks]
    present = {row["kind"] for row in rows}
    groups: tuple[tuple[tuple[Kind, ...], Spec], ...] = (
        (shut, {"filled": False, "stroke": TEXT, "strokeWidth": 1, "size": side**2}),
        (_OF_RUNS, {"fill": "white", "stroke": INK, "strokeWidth": 1.4, "size": side**2}),
        (_ABOVE, {"fill": ACCENT, "stroke": "white", "strokeWidth": 1.2, "size": 3 * side**2}),
    )
    layers: list[Spec] = []
    for group, look in groups:
        kinds = [kind for kind in group if kind in present]
        shape = nominal(
            "kind", kinds, [_SHAPES[kind] for kind in kinds],
            legend={"symbolSize": 120 if group is _ABOVE else 100, "columns": _COLUMNS, **_LABELS},
        )  # fmt: skip
        if kinds:
            layers.append(
                {
                    "data": {"values": [row for row in rows if row["kind"] in group]},
                    "mark": {"type": "point", "opacity": 1, **look},
                    "encoding": {"x": x, "y": y, "shape": shape},
                }
            )
    texts = [row for row in rows if row["text"]]
    for look in ({"stroke": "white", "strokeWidth": 4}, {"fill": INK}) if texts else ():
        layers.append(
            {
                "data": {"values": texts},
                "mark": {
                    "type": "text", "dx": side + 2, "dy": -side, "fontWeight": "bold",
                    "fontSize": 13, **look,
                },
                "encoding": {"x": x, "y": y, "text": {"field": "text"}},
            }
        )  # fmt: skip
    return layers


BRUSH = "brush"

_SCHEME: Spec = {"name": VALUE_SCHEME, "extent": [0.2, 0.95]}
"""Scheme without its ends, so that thin lines are visible on dark and light ground."""

_KINDS = ("meets every constraint", "violates a constraint")


@dataclass(frozen=True, slots=True)
class ParallelAxis:
    """An axis of a parallel coordinates chart, with labels at heights from 0 to 1 (top)."""

    title: str
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class ParallelLine:
    """A run as a line in a parallel coordinates chart.

    Args:
        at: place on each axis, 0 to 1; None if it has none.
        value: value that gives the colour, None without a result.
        is_feasible: whether the run meets every constraint; true without a result.
    """

    run_id: int
    at: tuple[float | None, ...]
    texts: tuple[str, ...]
    value: float | None
    is_feasible: bool


def parallel(
    axes: Sequence[ParallelAxis],
    lines: Sequence[ParallelLine],
    title: str,
    dark: Dark,
    selected: Collection[int] = (),
) -> Spec:
    """Draw runs in a parallel coordinates chart, with one brush over the axes.

    Lines outside the brush fade; `brushed_runs` lists the others.

    Args:
        axes: one for each parameter, and one for the value.
        lines: one for each run.
        title: name of the value with its unit.
        dark: end of the values that is drawn dark.
        selected: ids of runs to draw thick; the others fade then.
    """
    rows = [
        {"run": line.run_id, "axis": i, "at": at, "text": text, "value": line.value,
         "kind": _KINDS[not line.is_feasible], "chosen": "yes" if line.run_id in selected else ""}
        for line in lines
        for i, (at, text) in enumerate(zip(line.at, line.texts, strict=True))
        if at is not None
    ]  # fmt: skip
    names = [axis.title for axis in axes]
    line_values = [line.value for line in lines if line.value is not None]
    axis = value_axis(line_values, title)
    crowded = f"width < {100 * len(axes)}"
    x: Spec = {
        "field": "axis",
        "type": "ordinal",
        "scale": {"domain": list(range(len(axes)))},
        "axis": {
            "orient": "top", "title": None, "labelFontSize": 12, "grid": True,
            "labelExpr": "N[datum.value]", "labelColor": TEXT,
            "labelAngle": {"expr": f"{crowded} ? -30 : 0"},
            "labelAlign": {"expr": f"{crowded} ? 'left' : 'center'"},
            "labelLimit": {"expr": f"{crowded} ? 130 : width / {len(axes)} - 6"},
        },
    }  # fmt: skip
    y: Spec = {
        "field": "at", "type": "quantitative", "axis": None,
        "scale": {"domain": [-0.04, 1.1], "nice": False},
    }  # fmt: skip
    # a row fails if its axis is under the brush and it is outside; a run, if any of its rows fails
    under = f"{BRUSH}.axis && indexof({BRUSH}.axis, datum.axis) >= 0"
    transforms: list[Spec] = [
        {"calculate": f"{under} && !inrange(datum.at, {BRUSH}.at) ? 1 : 0", "as": "out"},
        {"joinaggregate": [{"op": "max", "field": "out", "as": "left"}], "groupby": ["run"]},
    ]
    colour: Spec = {
        "field": "value",
        "type": "quantitative",
        "scale": {"scheme": _SCHEME, "reverse": dark == "high", **axis["scale"]},
        "legend": {
            **legend_ticks(axis), "title": better(axis["title"] or ""),
            "titleColor": TEXT, "titleLimit": 420, "gradientLength": 220,
        } if line_values else None,
        "condition": {"test": "datum.value === null", "value": MUTED},
    }  # fmt: skip
    lines_drawn: Spec = {
        "x": x,
        "y": y,
        "detail": {"field": "run"},
        "color": colour,
        "opacity": {
            "condition": [
                {"test": "datum.left > 0", "value": 0.07},
                {"test": "datum.chosen === 'yes'", "value": 1},
            ],
            "value": 0.6 if not selected else 0.15,
        },
        "size": {"condition": {"test": "datum.chosen === 'yes'", "value": 4}, "value": 1.6},
    }
    if any(not line.is_feasible for line in lines):
        lines_drawn["strokeDash"] = nominal("kind", _KINDS, [[1, 0], [4, 3]])
    ticks = [{"axis": i, "at": at, "text": text}
             for i, axis in enumerate(axes) for at, text in axis.ticks]  # fmt: skip
    return {
        **HEAD,
        "description": f"runs on parallel axes, {title}",
        "padding": {"left": 16, "right": 5, "top": 5, "bottom": 5},
        "config": {**CONFIG, "aria": False, "legend": _BELOW_EACH_OTHER},
        "width": 900,
        "height": 300,
        "params": [{"name": "N", "value": names}, GROUND],
        "data": {"values": rows},
        "layer": [
            {
                "transform": transforms,
                "mark": {"type": "line", "invalid": None},
                "encoding": lines_drawn,
            },
            {
                "transform": transforms,
                "params": [
                    {"name": BRUSH, "select": {"type": "interval", "encodings": ["x", "y"]}}
                ],
                "mark": {"type": "point", "size": 12, "fill": MUTED, "stroke": None,
                         "invalid": None},
                "encoding": {
                    "x": x, "y": y, "opacity": lines_drawn["opacity"],
                    "tooltip": [{"field": "run"}, {"field": "text", "title": "here"},
                                {"field": "value", "title": title, "format": ".4~g"}],
                },
            },
            *(
                {
                    "data": {"values": ticks},
                    "mark": {"type": "text", "align": "left", "dx": 6, "baseline": "middle",
                             "fontSize": 11, **look},
                    "encoding": {"x": x, "y": y, "text": {"field": "text"}},
                }
                for look in ({"stroke": {"expr": "ground"}, "strokeWidth": 5,
                              "strokeJoin": "round", "opacity": 0.85}, {"color": TEXT})
            ),
        ],
    }  # fmt: skip


def brushed_runs(
    lines: Sequence[ParallelLine], axes: Sequence[int], low: float, high: float
) -> list[int]:
    """Return the ids of the runs that lie within the brushed range on all brushed axes.

    >>> run = ParallelLine(1, (0.0, 1.0), ("a", "b"), None, True)
    >>> brushed_runs([run], [0], 0.0, 0.5), brushed_runs([run], [0, 1], 0.0, 0.5)
    ([1], [])
    """

    def is_in(at: float | None) -> bool:
        return at is None or low <= at <= high  # without a place there is nothing to exclude

    return [line.run_id for line in lines if all(is_in(line.at[i]) for i in axes)]
