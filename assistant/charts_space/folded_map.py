"""Vega-Lite specification of a folded response map, in the look of `assistant.charts`.

Texts of levels are made by the caller. A map is sent as bare lists, one number per cell, from which
the browser makes the cells: 8,800 of them are some 60 kB. Cells are a whole number of pixels wide
and high, or hairlines would show between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from assistant.charts import ACCENT, CONFIG, INK, MUTED, SCHEMA, TEXT, Spec, scale_of
from assistant.charts_space.axes import Axis, borders, combinations, labels, size, spoken
from assistant.charts_space.words import Dark, better

CELL = "cell"
"""Name of the selection of a cell, and of the field that carries its key."""

REGION_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")
"""Okabe and Ito's colours; regions beyond them share the last, grey one."""

Kind = Literal[
    "measured", "violates a constraint", "failed", "running", "waiting", "suggested", "good member",
    "evaluated", "best", "today", "closed", "excluded",
]  # fmt: skip
"""What a mark on a map says; the word stands in the legend."""

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
    "today": "diamond",
    "closed": "M-1,1L1,-1",
    "excluded": "M-1,1L1,-1M-1,-1L1,1",
}
_ABOVE: tuple[Kind, ...] = ("best", "today")
_OF_RUNS: tuple[Kind, ...] = (
    "measured", "violates a constraint", "good member", "evaluated", "failed", "running", "waiting",
    "suggested",
)  # fmt: skip
_WIDE, _TALL, _MOST_STEP = 800, 420, 34  # a map and its labels fit beside a list of pages
_NARROW, _SPARSE = 8, 10
_BLANK, _SHUT = "#7b879426", "#7b879473"


@dataclass(frozen=True, slots=True)
class CellValues:
    """Numbers of the cells, row by row; None where nothing is known.

    Args:
        title: what they are, with the unit.
        values: one per cell; they give the colour.
        dark: which of them are dark.
        lows: lower ends of intervals, or none at all.
        highs: upper ends.
        better: what a dark cell is, in a word.
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
    """The region of each cell, row by row, 0 for none."""

    regions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at a cell: its column and row from the top left, what it is, a text."""

    column: int
    row: int
    kind: Kind
    text: str = ""


def response_map(
    across: Axis,
    down: Axis,
    cells: CellValues | CellRegions,
    admitted: Sequence[int],
    marks: Sequence[Mark] = (),
    fixed: str = "",
    chosen: str = "",
) -> Spec:
    """Draw a folded response map. A click selects a cell by its key, in the field `CELL`.

    Args:
        across: parameters on the horizontal axis.
        down: parameters on the vertical axis.
        cells: what gives the colour.
        admitted: per cell 0 open, 1 closed, 2 excluded; see `response_map.Admitted`.
        marks: what is drawn over the cells.
        fixed: the part of the keys that all cells share.
        chosen: key of the cell that is selected already.
    """
    columns, rows = size(across), size(down)
    step_x, step_y = _step(columns, _WIDE), _step(rows, _TALL)
    width, height = columns * step_x, rows * step_y
    x: Spec = {"field": "x", "type": "quantitative", "axis": None, "scale": _whole(columns)}
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "axis": None,
        "scale": {**_whole(rows), "reverse": True},
    }
    lists, encoding, tooltip, shown = _painted(cells)
    lists |= {
        "A": list(admitted),
        "KX": [" ".join(keys) for keys in combinations(across, "keys")],
        "KY": [" ".join(keys) for keys in combinations(down, "keys")],
        "LX": [spoken(across, levels) for levels in combinations(across, "levels")],
        "LY": [spoken(down, levels) for levels in combinations(down, "levels")],
    }
    words = "['yes', 'no, closed', 'no, excluded'][datum.a]"
    source: Spec = {
        "data": {"sequence": {"start": 0, "stop": columns * rows, "as": "i"}},
        "transform": [
            _made("x", f"datum.i % {columns}"),
            _made("y", f"floor(datum.i / {columns})"),
            _made("x2", "datum.x + 1"),
            _made("y2", "datum.y + 1"),
            _made("a", "A[datum.i]"),
            *shown,
            _made(CELL, f"trim(KX[datum.x] + ' ' + KY[datum.y] + ' {fixed}')"),
            _made("what", "LX[datum.x] + (LX[datum.x] && LY[datum.y] ? ', ' : '') + LY[datum.y]"),
            _made("may", words),
        ],
    }
    box = {"x": x, "y": y, "x2": {"field": "x2"}, "y2": {"field": "y2"}}
    selection: Spec = {
        "name": CELL,
        "select": {"type": "point", "fields": [CELL], "toggle": False},
    }
    if chosen:
        selection["value"] = [{CELL: chosen}]
    layers: list[Spec] = [
        {
            **source,
            "params": [selection],
            "mark": {"type": "rect", "invalid": None, "stroke": None},
            "encoding": {
                **box,
                "fill": encoding,
                "tooltip": [
                    {"field": "what", "title": "configuration"},
                    *tooltip,
                    {"field": "may", "title": "may be proposed"},
                ],
            },
        },
        *borders(across, down, columns, rows, step_x, step_y, x, y),
        *_dots(cells, encoding, columns, min(step_x, step_y), x, y),
        *_drawn_marks(marks, admitted, columns, max(5, min(11, min(step_x, step_y) - 3)), x, y),
        {
            **source,
            "transform": [*source["transform"], {"filter": {"param": CELL, "empty": False}}],
            "mark": {"type": "rect", "fill": None, "stroke": ACCENT, "strokeWidth": 3},
            "encoding": box,
        },
        *labels(across, step_x, height, x, is_across=True),
        *labels(down, step_y, width, y, is_across=False),
    ]
    return {
        "$schema": SCHEMA,
        "config": {**CONFIG, "view": {"stroke": None}, "aria": False},
        "usermeta": {"embedOptions": {"renderer": "canvas" if columns * rows > 500 else "svg"}},
        "autosize": "pad",  # the size is that of the cells, whatever stands beside them
        "resolve": {"scale": {"shape": "independent"}, "legend": {"shape": "independent"}},
        "width": width,
        "height": height,
        "params": [{"name": name, "value": values} for name, values in lists.items()],
        "layer": layers,
    }


def _step(n: int, room: int) -> int:
    return max(1, min(_MOST_STEP, room // n))


def _whole(n: int) -> Spec:
    return {"domain": [0, n], "nice": False, "zero": False}


def _made(name: str, expression: str) -> Spec:
    return {"calculate": expression, "as": name}


def _painted(
    cells: CellValues | CellRegions,
) -> tuple[dict[str, list[float | int | str | None]], Spec, list[Spec], list[Spec]]:
    """Return the lists to send, the fill, what the tooltip says, and how fields are made."""
    is_run = isinstance(cells, CellValues) and cells.is_measured
    test = "datum.a > 0 && datum.v === null" if is_run else "datum.a > 0"  # what was run stays
    shut: Spec = {"test": test, "value": _SHUT}
    blank: Spec = {"test": "datum.v === null", "value": _BLANK}
    if isinstance(cells, CellRegions):
        numbers = sorted({*cells.regions} - {0})
        colours = [REGION_COLOURS[n - 1] if n <= len(REGION_COLOURS) else MUTED for n in numbers]
        domain = [f"region {n}" for n in numbers]
        fill: Spec = {
            "field": "v",
            "type": "nominal",
            "scale": {"domain": domain, "range": colours},
            "legend": {"symbolType": "square", "symbolSize": 120} if numbers else None,
            "condition": [shut, blank],
        }
        made = [
            _made("v", "R[datum.i] > 0 ? 'region ' + R[datum.i] : null"),
            _made("told", "R[datum.i] > 0 ? R[datum.i] : 'none'"),
        ]
        return {"R": list(cells.regions)}, fill, [{"field": "told", "title": "region"}], made
    known = [value for value in cells.values if value is not None]
    legend = {
        "title": better(cells.title, cells.better), "titleColor": TEXT, "titleLimit": 420,
        "gradientLength": 220,
    }  # fmt: skip
    fill = {
        "field": "v",
        "type": "quantitative",
        "scale": {"scheme": "viridis", "reverse": cells.dark == "high", **scale_of(known)},
        "legend": legend if known else None,
        "condition": [shut, blank],
    }
    lists: dict[str, list[float | int | str | None]] = {"V": list(cells.values)}
    nothing = "not measured" if cells.is_measured else "unknown"
    made = [
        _made("v", "V[datum.i]"),
        _made("told", f"datum.v === null ? '{nothing}' : format(datum.v, ',.4~r')"),
    ]
    tooltip: list[Spec] = [{"field": "told", "title": cells.title}]
    if cells.lows:
        lists |= {"LO": list(cells.lows), "HI": list(cells.highs)}
        ends = "format(LO[datum.i], ',.4~r') + ' to ' + format(HI[datum.i], ',.4~r')"
        made.append(_made("band", f"LO[datum.i] === null ? '' : {ends}"))
        tooltip.append({"field": "band", "title": "95 % interval"})
    return lists, fill, tooltip, made


def _dots(
    cells: CellValues | CellRegions, fill: Spec, columns: int, step: int, x: Spec, y: Spec
) -> list[Spec]:
    """Return dots over measured cells that are few and too narrow to be seen on every ground."""
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
    marks: Sequence[Mark], admitted: Sequence[int], columns: int, side: int, x: Spec, y: Spec
) -> list[Spec]:
    """Return the marks, closed and excluded cells among them; best and today above all."""
    shut: tuple[Kind, ...] = ("closed", "excluded")
    rows = [
        {"x": i % columns + 0.5, "y": i // columns + 0.5, "kind": shut[state - 1], "text": ""}
        for i, state in enumerate(admitted)
        if state
    ]
    rows += [{"x": m.column + 0.5, "y": m.row + 0.5, "kind": m.kind, "text": m.text} for m in marks]
    seen = {row["kind"] for row in rows}
    groups: tuple[tuple[tuple[Kind, ...], Spec], ...] = (
        (shut, {"filled": False, "stroke": TEXT, "strokeWidth": 1, "size": side**2}),
        (_OF_RUNS, {"fill": "white", "stroke": INK, "strokeWidth": 1.4, "size": side**2}),
        (
            _ABOVE,
            {"fill": ACCENT, "stroke": "white", "strokeWidth": 1.2, "size": 3 * side**2},
        ),
    )
    layers: list[Spec] = []
    for group, look in groups:
        kinds = [kind for kind in group if kind in seen]
        shape: Spec = {
            "field": "kind",
            "type": "nominal",
            "scale": {"domain": kinds, "range": [_SHAPES[kind] for kind in kinds]},
            "legend": {"symbolSize": 230 if group is _ABOVE else 100, "columns": 6},
        }
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
