"""Charts of generated cloud workloads beside a real one, of server capacity, and of packings.

They follow the figures of Bergsma et al. (SOSP 2021): batches as rectangles (1), a band over time
(4, 6, 7), bars of reuse distances (9), packings at their first failure (10). Others show
lifetimes, quantiles against quantiles, and the number of servers that suffice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assistant.presentation.charts.palette import ACCENT, MUTED, SERIES, TEXT
from assistant.presentation.charts.vega_lite import Spec, frame, nominal
from assistant.presentation.charts.workload import SECOND, SECONDS_TICKS

MOST_COLOURS = 10
FLAVOUR_COLOURS = SERIES[:MOST_COLOURS]
"""Rarer flavours are grey."""

FAR_ABOVE = 8.0  # A real number is an outlier above this multiple of the usual generated numbers

REAL = "real"
KINDS = (SECOND, ACCENT, SERIES[2], SERIES[3])
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
_SECONDS_WORDS = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? datum.value / 60 + ' min' : "
    "datum.value < 86400 ? datum.value / 3600 + ' h' : datum.value / 86400 + ' d'"
)


@dataclass(frozen=True, slots=True)
class FlavourBlock:
    """A job in a `batches` chart: row and batch (from 0), flavour (VM type), and width in bins."""

    row: int
    batch: int
    flavour: str
    width: int


@dataclass(frozen=True, slots=True)
class CourseBand:
    """The real value and the band of generated values of a time series, in one period."""

    day: float
    real: float
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class QuantilePair:
    """A quantile of real values, and the band of the same quantile over generated windows."""

    level: float
    real: float
    low: float
    median: float
    high: float


def batches(
    blocks: Sequence[FlavourBlock], flavours: Sequence[str], n_rows: int, most: int | None = None
) -> Spec:
    """Draw jobs as rectangles, one row per period, coloured by flavour, with lifetime as width.

    Args:
        blocks: jobs, in order.
        flavours: flavours with a colour, the most frequent first; others are grey.
        n_rows: number of rows.
        most: units of width to draw; None for all. Use the same for pictures side by side.
    """
    gap, rows, at = 8, [], [0] * n_rows
    before = [-1] * n_rows
    common_flavours = list(flavours[:MOST_COLOURS])
    for block in blocks:
        if before[block.row] not in (-1, block.batch):
            at[block.row] += gap
        before[block.row] = block.batch
        begin = at[block.row]
        at[block.row] = begin + block.width + 2
        if most is None or begin < most:
            end = at[block.row] - 1 if most is None else min(at[block.row] - 1, most)
            name = block.flavour if block.flavour in common_flavours else "others"
            rows.append({"row": block.row, "from": begin, "to": end, "flavour": name})
    legend_flavours = [*common_flavours, "others"]
    return {
        **frame(440, 9 * n_rows),
        "data": {"values": rows},
        "transform": [{"calculate": "datum.row + 0.82", "as": "below"}],
        "mark": {"type": "rect"},
        "encoding": {
            "x": {
                "field": "from", "type": "quantitative", "axis": None,
                "scale": {"domain": [0, most or max(at, default=1)], "nice": False},
            },
            "x2": {"field": "to"},
            "y": {
                "field": "row", "type": "quantitative", "axis": None,
                "scale": {"domain": [n_rows, 0], "nice": False},
            },
            "y2": {"field": "below"},
            "color": nominal(
                "flavour", legend_flavours, [*FLAVOUR_COLOURS[: len(common_flavours)], MUTED],
                legend={"columns": 3, "labelLimit": 150, "symbolType": "square"},
            ),
        },
    }  # fmt: skip


def widest(blocks: Sequence[FlavourBlock], n_rows: int, share: float = 0.9) -> int:
    """Return a drawing width that is enough for the given share of the rows of `batches`."""
    at, before = [0] * n_rows, [-1] * n_rows
    for block in blocks:
        at[block.row] += block.width + 2 + (8 if before[block.row] not in (-1, block.batch) else 0)
        before[block.row] = block.batch
    return sorted(at)[min(int(share * n_rows), n_rows - 1)] if at else 1


def course(moments: Sequence[CourseBand], title: str, colour: str = SECOND) -> Spec:
    """Draw real values over time as a line, with the median and 90 % band of generated values.

    If a few real numbers are far above all others, the axis is logarithmic from 1 on.
    """
    rows = [
        {"day": m.day, "real": m.real, "low": m.low, "median": m.median, "high": m.high}
        for m in moments
    ]
    kinds = [REAL, "generated, median", "90 % of the generated windows"]
    colours = {
        "type": "nominal",
        "scale": {"domain": kinds, "range": [TEXT, colour, colour]},
        "legend": {
            "title": None,
            "symbolType": "stroke",
            "symbolStrokeWidth": 3,
            "symbolOpacity": 1,
        },
    }
    x = {
        "field": "day", "type": "quantitative", "title": "days since the start of the window",
        "axis": {"grid": False}, "scale": {"nice": False},
    }  # fmt: skip
    y: dict[str, Any] = {"type": "quantitative", "title": title}
    highs = sorted(m.high for m in moments)
    usual = highs[int(0.95 * (len(highs) - 1))] if highs else 0.0
    most = max((max(m.real, m.high) for m in moments), default=1.0)
    if most > FAR_ABOVE * max(usual, 1.0):
        y["scale"] = {"type": "symlog", "constant": 1}
        y["axis"] = {"values": [t for t in _COUNTS if t <= most]}
    return {
        **frame(440, 190),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "area", "opacity": 0.25},
                "encoding": {
                    "x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"},
                    "color": {**colours, "datum": kinds[2]},
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.2, "strokeDash": [4, 3]},
                "encoding": {
                    "x": x, "y": {**y, "field": "median"}, "color": {**colours, "datum": kinds[1]},
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 1.4},
                "encoding": {
                    "x": x, "y": {**y, "field": "real"}, "color": {**colours, "datum": kinds[0]},
                },
            },
        ],
    }  # fmt: skip


def lives(
    ends_s: Sequence[float],
    real: Sequence[float],
    generated: Mapping[str, tuple[Sequence[float], Sequence[float], Sequence[float]]],
) -> Spec:
    """Draw survival curves of job lifetimes: the real one, and one with a band per generator."""
    rows = [{"line": REAL, "s": s, "share": share} for s, share in zip(ends_s, real, strict=True)]
    rows += [
        {"line": name, "s": s, "low": low, "share": middle, "high": high}
        for name, bands in generated.items()
        for s, low, middle, high in zip(ends_s, *bands, strict=True)
    ]
    names = [REAL, *generated]
    most = max(ends_s, default=1.0)
    x = {
        "field": "s", "type": "quantitative", "title": "lifetime",
        "scale": {"type": "symlog", "constant": 10},
        "axis": {
            "values": [tick for tick in SECONDS_TICKS if tick <= most],
            "labelExpr": _SECONDS_WORDS, "labelOverlap": "greedy",
        },
    }  # fmt: skip
    y = {
        "field": "share", "type": "quantitative", "title": "jobs that live longer",
        "axis": {"format": "%"}, "scale": {"domain": [0, 1]},
    }  # fmt: skip
    return {
        **frame(560, 240),
        "data": {"values": rows},
        "layer": [
            {
                "transform": [{"filter": "isValid(datum.low)"}],
                "mark": {"type": "area", "opacity": 0.18},
                "encoding": {
                    "x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"},
                    "color": _lines(names),
                },
            },
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": _lines(names), "strokeDash": _dashes(names)},
            },
        ],
    }  # fmt: skip


def reuse(real: Sequence[float], generated: Mapping[str, Sequence[float]], most: int = 10) -> Spec:
    """Draw the share of requests per reuse distance as bars; the last bar has all larger ones."""
    every = {REAL: real, **generated}
    longest = max((i for of in every.values() for i, v in enumerate(of) if v > 0.0005), default=0)
    n = min(most, longest + 1)
    rows = []
    labels = [str(i) for i in range(n)]
    if longest + 1 > n:
        labels[-1] = f"{n - 1} or more"
    for name, of in every.items():
        shares = [*of[: n - 1], sum(of[n - 1 :])]
        rows += [
            {"line": name, "distance": label, "share": share}
            for label, share in zip(labels, shares, strict=True)
        ]
    names = list(every)
    return {
        **frame(560, 220),
        "data": {"values": rows},
        "mark": {"type": "bar"},
        "encoding": {
            "x": {
                "field": "distance", "type": "ordinal", "sort": labels, "axis": {"labelAngle": 0},
                "title": "other flavours since the last request for a flavour",
            },
            "xOffset": {"field": "line", "sort": names},
            "y": {
                "field": "share", "type": "quantitative", "title": "share of the requests",
                "axis": {"format": "%"},
            },
            "color": {
                **_lines(names), "legend": {"title": None, "orient": "top", "symbolType": "square"},
            },
            "tooltip": [
                {"field": "line"}, {"field": "distance"}, {"field": "share", "format": ".1%"},
            ],
        },
    }  # fmt: skip


def quantiles(
    generated: Mapping[str, Sequence[QuantilePair]],
    title: str,
    *,
    seconds: bool,
    order: Sequence[str],
) -> Spec:
    """Draw quantiles of generated against real values, with a dashed line for equality."""
    rows = [
        {"line": name, "real": p.real, "low": p.low, "median": p.median, "high": p.high}
        for name, pairs in generated.items()
        for p in pairs
    ]
    most = max((max(p.real, p.high) for pairs in generated.values() for p in pairs), default=1.0)
    ticks = [t for t in (SECONDS_TICKS if seconds else _COUNTS) if t <= most]
    axis: dict[str, Any] = {"values": ticks, "labelOverlap": "greedy"}
    if seconds:
        axis["labelExpr"] = _SECONDS_WORDS
    scale = {"type": "symlog", "constant": 1, "domain": [0, most], "nice": False}
    x = {
        "field": "real", "type": "quantitative", "title": f"{title}, real", "scale": scale,
        "axis": axis,
    }  # fmt: skip
    y = {
        "field": "median", "type": "quantitative", "title": "generated", "scale": scale,
        "axis": axis,
    }  # fmt: skip
    names = [REAL, *order]
    colour = _lines(names)
    colour["legend"] = {
        "title": None, "orient": "top", "values": list(generated), "symbolOpacity": 1,
    }  # fmt: skip
    diagonal = [{"real": 0, "median": 0}, {"real": most, "median": most}]
    return {
        **frame(300, 300),
        "data": {"values": rows},
        "layer": [
            {
                "data": {"values": diagonal},
                "mark": {"type": "line", "strokeDash": [5, 4], "strokeWidth": 1.2, "color": TEXT},
                "encoding": {"x": x, "y": y},
            },
            {
                "mark": {"type": "rule", "opacity": 0.25, "strokeWidth": 2},
                "encoding": {
                    "x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "color": colour,
                },
            },
            {
                "mark": {"type": "point", "filled": True, "size": 16, "opacity": 0.9},
                "encoding": {"x": x, "y": y, "color": colour},
            },
        ],
    }  # fmt: skip


def servers(
    cases: Mapping[str, Sequence[tuple[int, float]]], share: float, title: str = "servers"
) -> Spec:
    """Draw the share of generated futures for which n servers suffice, one step line per case."""
    rows = [
        {"line": name, "servers": n, "share": of}
        for name, steps in cases.items()
        for n, of in steps
    ]
    names = list(cases)
    colours = [KINDS[i % len(KINDS)] for i in range(len(names))]
    dashes = [_DASHES[(i // len(KINDS) + i) % len(_DASHES)] for i in range(len(names))]
    key = {"title": None, "orient": "top", "columns": 2, "labelLimit": 320,
           "symbolStrokeWidth": 2}  # fmt: skip
    x = {
        "field": "servers", "type": "quantitative", "title": title, "scale": {"zero": False},
        "axis": {"grid": False, "format": "d", "tickMinStep": 1},
    }  # fmt: skip
    y = {
        "field": "share", "type": "quantitative", "title": "futures with enough servers",
        "axis": {"format": "%"}, "scale": {"domain": [0, 1]},
    }  # fmt: skip
    return {
        **frame(640, 240),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": nominal("line", names, colours, legend=key),
                    "strokeDash": nominal("line", names, dashes, legend=key),
                },
            },
            {
                "data": {"values": [{}]},
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": TEXT},
                "encoding": {"y": {"datum": share, "type": "quantitative"}},
            },
        ],
    }  # fmt: skip


_COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 100000)


def _lines(names: Sequence[str]) -> dict[str, Any]:
    return nominal(
        "line", names, [TEXT, *KINDS][: len(names)],
        legend={"title": None, "orient": "top", "symbolStrokeWidth": 2, "symbolOpacity": 1,
                "symbolType": "circle"},
    )  # fmt: skip


def _dashes(names: Sequence[str]) -> dict[str, Any]:
    legend = {"title": None, "orient": "top", "symbolStrokeWidth": 2}
    return nominal("line", names, _DASHES[: len(names)], legend=legend)


@dataclass(frozen=True, slots=True)
class PackingPoint:
    """The shares of memory and cores in use when a packing algorithm first fails to place a job."""

    memory: float
    cpu: float
    algorithm: str


def packings(points: Sequence[PackingPoint], algorithms: Sequence[str], least: float) -> Spec:
    """Draw the shares of cores and memory that packings allocated before a job did not fit."""
    rows = [{"memory": p.memory, "cpu": p.cpu, "algorithm": p.algorithm} for p in points]
    scale = {"domain": [least, 1], "nice": False, "clamp": True}
    axis = {"format": "%", "tickCount": 5}
    x = {"field": "memory", "type": "quantitative", "title": "memory allocated", "scale": scale,
         "axis": axis}  # fmt: skip
    y = {"field": "cpu", "type": "quantitative", "title": "cores allocated", "scale": scale,
         "axis": axis}  # fmt: skip
    diagonal = [{"memory": least, "cpu": least}, {"memory": 1, "cpu": 1}]
    return {
        **frame(400, 300),
        "data": {"values": rows},
        "layer": [
            {
                "data": {"values": diagonal},
                "mark": {"type": "line", "strokeDash": [5, 4], "strokeWidth": 1.2, "color": TEXT},
                "encoding": {"x": x, "y": y},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 14, "opacity": 0.75},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": nominal(
                        "algorithm", algorithms, KINDS[: len(algorithms)],
                        legend={"title": None, "orient": "top", "columns": 2, "symbolOpacity": 1,
                                "symbolSize": 50},
                    ),
                },
            },
        ],
    }  # fmt: skip
