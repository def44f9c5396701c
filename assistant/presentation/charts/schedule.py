"""Charts of one run's schedule: jobs on processors over time, utilisation, waits, and fleets.

Times are seconds since the first submission, shown as days and hours. Colours of waits are
viridis reversed: longer is darker.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from assistant.presentation.charts.palette import (
    ACCENT,
    INK,
    MUTED,
    OTHERS,
    SERIES,
    TEXT,
)
from assistant.presentation.charts.vega_lite import HEAD, Spec, frame, nominal

JOB, BRUSH = "job", "brush"  # Names of the selections: a clicked job, a brushed time window

WAIT_COLOURS = ("#e5e419", "#8fd744", "#35b779", "#21918c", "#365c8d", "#46327e")
CHANGE_COLOURS = (SERIES[0], SERIES[4], OTHERS, SERIES[1], SERIES[5])
CATEGORIES = (*SERIES[:7], OTHERS)
"""Colours of categories of jobs, and grey for the rest."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])

_DAY_S = 86_400
_STEPS_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
    *(days * _DAY_S for days in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365)),
)  # fmt: skip
_WAIT_TICKS_S = (0, 60, 600, 3_600, 21_600, 86_400, 604_800, 2_592_000, 31_536_000)
_WAIT_LABEL = (
    "(datum.value < 0 ? '-' : '') + (abs(datum.value) < 1 ? '0' : abs(datum.value) < 3600 ? "
    "abs(datum.value) / 60 + ' min' : abs(datum.value) < 86400 ? abs(datum.value) / 3600 + ' h' "
    ": abs(datum.value) / 86400 + ' d')"
)
_ALIGNED = {"minExtent": 48, "maxExtent": 48}
_TIME_TITLE = "time since the first submission (days, hours:minutes)"


@dataclass(frozen=True, slots=True)
class JobBox:
    """A job drawn as a box on processors ``low`` to ``high``, in the colour of its ``kind``."""

    job: int
    submit_s: float
    start_s: float
    end_s: float
    low: int
    high: int
    procs: int
    wait: str
    kind: str


@dataclass(frozen=True, slots=True)
class DensityCell:
    """A bin of time and processors, with the share used by jobs that are not drawn as boxes."""

    start_s: float
    end_s: float
    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True)
class StepLine:
    """A named step function of time: its value is constant from each point to the next.

    ``points`` are (seconds, value); ``peaks``, if any, are the highest values of each bin.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    peaks: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class ClassWaits:
    """Statistics of the waits of the jobs of one class in seconds, None without jobs."""

    name: str
    n: int
    mean: float | None
    low: float | None
    median: float | None
    high: float | None
    p95: float | None
    max: float | None


@dataclass(frozen=True, slots=True)
class WaitChange:
    """The change in start times of jobs submitted in one time bin, in s (positive is later)."""

    start_s: float
    end_s: float
    n: int
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Frame:
    """The common frame of a schedule chart: time range, processors, partitions and colours.

    ``parts`` are (name, first processor); ``kinds`` are (name of a class, colour).
    """

    from_s: float
    to_s: float
    procs: int
    parts: tuple[tuple[str, int], ...]
    kinds: tuple[tuple[str, str], ...]
    legend: str


def gantt(
    boxes: Sequence[JobBox], shades: Sequence[DensityCell], frame: Frame, height: int = 380
) -> Spec:
    """Draw a Gantt chart of jobs over time and processors with selectable jobs (`JOB`)."""
    rows = [
        {
            JOB: box.job, "start": box.start_s, "end": box.end_s, "low": box.low,
            "high": box.high, "procs": box.procs, "wait": box.wait, "kind": box.kind,
        }
        for box in boxes
    ]  # fmt: skip
    x, y = _time_x("start", frame.from_s, frame.to_s), _procs_y("low", frame.procs)
    scale = {
        "domain": [name for name, _ in frame.kinds],
        "range": [colour for _, colour in frame.kinds],
    }
    click = {"name": JOB, "select": {"type": "point", "fields": [JOB], "toggle": False}}
    legend: Spec = {
        "title": frame.legend, "titleColor": TEXT, "symbolType": "square",
        "columns": {"expr": "width < 600 ? 3 : 0"},
    }  # fmt: skip
    kind = {"field": "kind", "type": "nominal", "scale": scale, "legend": legend}
    selected = {"param": JOB, "empty": False}
    # an edge separates large boxes and keeps small ones visible
    is_large = {
        "test": f"datum.end - datum.start > {(frame.to_s - frame.from_s) / 250} && "
        f"datum.high - datum.low > {frame.procs / 100}"
    }
    bars: Spec = {
        "name": "jobs",
        "mark": {"type": "rect", "clip": True, "cursor": "pointer"},
        "params": [click],
        "encoding": {
            "x": x, "x2": {"field": "end"}, "y": y, "y2": {"field": "high"},
            "fill": kind,
            "stroke": {
                **kind,
                "condition": [{**selected, "value": ACCENT}, {**is_large, "value": "#ffffff"}],
            },
            "strokeWidth": {
                "condition": [{**selected, "value": 3}, {**is_large, "value": 0.5}], "value": 0.7,
            },
            "tooltip": [
                {"field": JOB, "title": "job"}, {"field": "procs", "title": "processors"},
                {"field": "wait", "title": "waited"}, {"field": "kind", "title": frame.legend},
            ],
        },
    }  # fmt: skip
    layers = [_shaded(shades, x, y)] if shades else []
    layers += [bars, *_parted(frame, y)]
    data = {"values": rows}
    return {**HEAD, "width": 900, "height": height, "data": data, "layer": layers}


def _shaded(shades: Sequence[DensityCell], x: Spec, y: Spec) -> Spec:
    cells = [
        {"start": s.start_s, "end": s.end_s, "low": s.low, "high": s.high, "share": s.share}
        for s in shades
    ]
    opacity = {"domain": [0, 1], "range": [0, 0.75]}
    share = {"field": "share", "type": "quantitative"}
    return {
        "data": {"values": cells},
        "mark": {"type": "rect", "clip": True, "color": MUTED},
        "encoding": {
            "x": x, "x2": {"field": "end"}, "y": y, "y2": {"field": "high"},
            "opacity": {**share, "legend": None, "scale": opacity},
            "tooltip": [{**share, "title": "used by smaller jobs", "format": ".0%"}],
        },
    }  # fmt: skip


def _parted(frame: Frame, y: Spec) -> list[Spec]:
    if len(frame.parts) < 2:
        return []
    rows = {"values": [{"low": first, "name": name} for name, first in frame.parts]}
    mark = {"type": "text", "align": "right", "baseline": "bottom", "dx": -4, "dy": -3}
    place = {"x": {"value": "width"}, "y": y, "text": {"field": "name"}}
    bold = {**mark, "fontWeight": "bold", "fontSize": 12}
    halo = {**bold, "stroke": "#ffffff", "strokeWidth": 4, "opacity": 0.8}
    rule = {"type": "rule", "color": TEXT, "strokeWidth": 1.5}
    return [
        {"data": rows, "mark": rule, "encoding": {"y": y}},
        {"data": rows, "mark": halo, "encoding": place},
        {"data": rows, "mark": {**bold, "color": INK}, "encoding": place},
    ]


def overview(line: StepLine, from_s: float, to_s: float) -> Spec:
    """Draw the utilisation over the whole schedule as a strip with a time brush (`BRUSH`)."""
    start, end = line.points[0][0], line.points[-1][0]
    x = _time_x("time", start, end)
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}}
    axis = {"format": ".0%", "tickCount": 2, **_ALIGNED}
    y = {**share, "field": "value", "title": "in use", "axis": axis}
    span = {"type": "interval", "encodings": ["x"]}
    return {
        **frame(900, 70),
        "data": {"values": _rows(line)},
        "layer": [
            {
                "name": "strip",
                "params": [{"name": BRUSH, "select": span}],
                "mark": {"type": "area", "interpolate": "step-after", "color": MUTED},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [{"time": from_s, "to": to_s}]},
                "mark": {
                    "type": "rect", "color": ACCENT, "opacity": 0.3, "stroke": ACCENT,
                    "strokeWidth": 2, "clip": True,
                },
                "encoding": {"x": x, "x2": {"field": "to"}},
            },
        ],
    }  # fmt: skip


def curves(
    lines: Sequence[StepLine], from_s: float, to_s: float, title: str, *, percent: bool = False
) -> Spec:
    """Draw step functions of time as lines that differ in colour and dashes."""
    names = [line.name for line in lines]
    x = _time_x("time", from_s, to_s)
    most = max((value for line in lines for _, value in (*line.points, *line.peaks)), default=1.0)
    axis = {
        "format": ".0%" if percent else "~s",
        "tickCount": 4,
        "tickMinStep": 0.2 if percent else 1,
        **_ALIGNED,
    }
    scale = {"domain": [0, 1] if percent else [0, max(most, 1.0)], "nice": not percent}
    y = {"field": "value", "type": "quantitative", "title": title, "axis": axis, "scale": scale}
    legend = None if len(lines) < 2 else {"title": None, "symbolType": "stroke", "symbolSize": 500}
    name = {"field": "line", "type": "nominal", "legend": legend}
    colours, dashes = CATEGORIES[: len(lines)], [DASHES[i % 4] for i in range(len(lines))]
    of_line = {"color": {**name, "scale": {"domain": names, "range": list(colours)}}}
    dashed = {"strokeDash": {**name, "scale": {"domain": names, "range": dashes}}}
    step: Spec = {"type": "line", "interpolate": "step-after", "clip": True}
    layers: list[Spec] = [
        {
            "data": {"values": [row for line in lines for row in _rows(line)]},
            "mark": {**step, "strokeWidth": 2},
            "encoding": {"x": x, "y": y, **of_line, **dashed},
        }
    ]
    peaks = [{**row, "line": line.name} for line in lines for row in _rows(line, peaks=True)]
    if peaks and not percent:
        layers.append(
            {
                "data": {"values": peaks},
                "mark": {**step, "strokeWidth": 1, "opacity": 0.45},
                "encoding": {"x": x, "y": y, **of_line},
            }
        )
    return {**frame(900, 150), "layer": layers}


def waits_by_class(waits: Sequence[ClassWaits], most_s: float | None = None) -> Spec:
    """Draw waits per job class: a bar for the middle half of the jobs, a line up to 95 %.

    The tick is the median, the dot the mean. The scale ends at ``most_s`` seconds, so that two runs
    can be compared, or at the longest wait if None.
    """
    rows = [asdict(waits_of_class) for waits_of_class in waits if waits_of_class.n]
    longest = max(
        (waits_of_class.max for waits_of_class in waits if waits_of_class.max is not None),
        default=0.0,
    )
    most = longest if most_s is None else most_s
    y = {
        "field": "name", "type": "nominal",
        "sort": [waits_of_class.name for waits_of_class in waits], "title": None,
        "scale": {"domain": [waits_of_class.name for waits_of_class in waits]},
        "axis": {"labelLimit": 200},
    }  # fmt: skip
    axis = {"values": _ticks(most), "labelExpr": _WAIT_LABEL, "labelOverlap": True}
    scale = {"type": "symlog", "constant": 60, "domain": [0, max(most, 60.0)]}
    x = {"type": "quantitative", "title": "wait", "scale": scale, "axis": axis}
    statistics = [{"field": name, "format": ",.0f"} for name in ("median", "mean", "p95", "max")]
    tooltip = [{"field": "name", "title": "class"}, {"field": "n", "title": "jobs"}]
    tooltip += [
        {**waits_of_class, "title": f"{waits_of_class['field']} [s]"}
        for waits_of_class in statistics
    ]
    end = {"field": "high"}
    return {
        **frame(900, 30 + 30 * len(waits)),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "rule", "color": MUTED, "strokeWidth": 1.5},
                "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": {"field": "p95"}},
            },
            {
                "mark": {"type": "bar", "height": 12, "color": MUTED, "opacity": 0.5},
                "encoding": {"y": y, "x": {**x, "field": "low"}, "x2": end, "tooltip": tooltip},
            },
            {
                "mark": {"type": "tick", "color": ACCENT, "thickness": 3, "size": 18},
                "encoding": {"y": y, "x": {**x, "field": "median"}, "tooltip": tooltip},
            },
            {
                "mark": {"type": "point", "filled": True, "color": ACCENT, "size": 50},
                "encoding": {"y": y, "x": {**x, "field": "mean"}, "tooltip": tooltip},
            },
        ],
    }  # fmt: skip


def wait_changes(changes: Sequence[WaitChange], from_s: float, to_s: float, other: str) -> Spec:
    """Draw how much jobs start later or earlier than in schedule ``other``, by submission time.

    The step is the median of a bin of time; 8 of 10 of its jobs lie in the area.
    """
    rows = [asdict(change) for change in changes]
    most = max((max(abs(change.low), abs(change.high)) for change in changes), default=0.0)
    ticks = _ticks(most)
    values = sorted({*ticks, *(-tick for tick in ticks)})
    y = {
        "field": "median", "type": "quantitative", "title": f"starts later than in {other}",
        "scale": {"type": "symlog", "constant": 60, "domain": [-max(most, 60.0), max(most, 60.0)]},
        "axis": {"values": values, "labelExpr": _WAIT_LABEL, "labelOverlap": True, **_ALIGNED},
    }  # fmt: skip
    x = {**_time_x("start_s", from_s, to_s), "title": "submission, as above"}
    span = {"x": x, "x2": {"field": "end_s"}}
    statistics = [{"field": name, "title": f"{title} [s]", "format": ",.0f"} for name, title in (
        ("low", "1 in 10 below"), ("median", "median"), ("high", "1 in 10 above"))]  # fmt: skip
    tooltip = [{"field": "n", "title": "jobs"}, *statistics]
    return {
        **frame(900, 180),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "rect", "color": ACCENT, "opacity": 0.3, "clip": True},
                "encoding": {
                    **span, "y": {**y, "field": "low"}, "y2": {"field": "high"}, "tooltip": tooltip,
                },
            },
            {
                "mark": {"type": "rule", "color": ACCENT, "strokeWidth": 2.5, "clip": True},
                "encoding": {**span, "y": y, "tooltip": tooltip},
            },
            {
                "data": {"values": [{"zero": 0}]},
                "mark": {"type": "rule", "color": TEXT, "strokeDash": [5, 4]},
                "encoding": {"y": {**y, "field": "zero"}},
            },
        ],
    }  # fmt: skip


def _rows(line: StepLine, *, peaks: bool = False) -> list[Spec]:
    points = line.peaks if peaks else line.points
    return [{"time": at_s, "value": value, "line": line.name} for at_s, value in points]


def _time_x(field: str, from_s: float, to_s: float) -> Spec:
    """Return an axis of time since the first submission, with ticks at whole days, hours, ..."""
    step = next((step_s for step_s in _STEPS_S if to_s - from_s <= 8 * step_s), _STEPS_S[-1])
    first, last = math.ceil(from_s / step), math.floor(to_s / step)
    every = max(1, (last - first) // 8)
    clock = "" if step >= _DAY_S else "%H:%M" if step >= 60 else "%H:%M:%S"
    label = f"floor(datum.value / {_DAY_S}) + ' d'"
    if clock:
        label += f" + utcFormat(1000 * datum.value, ' {clock}')"
    return {
        "field": field, "type": "quantitative", "title": _TIME_TITLE,
        "scale": {"domain": [from_s, to_s], "nice": False, "zero": False},
        "axis": {
            "values": [step * i for i in range(first, last + 1, every)], "labelExpr": label,
            "labelOverlap": True, "grid": False,
        },
    }  # fmt: skip


def _procs_y(field: str, procs: int) -> Spec:
    return {
        "field": field, "type": "quantitative", "title": "processors",
        "scale": {"domain": [0, procs], "nice": False},
        "axis": {"format": "~s", "grid": False, **_ALIGNED},
    }  # fmt: skip


def _ticks(most_s: float) -> list[int]:
    return [tick for tick in _WAIT_TICKS_S if tick <= max(most_s, 60.0)]


COLOURS = (*SERIES[:6], OTHERS)


@dataclass(frozen=True, slots=True)
class FleetPanel:
    """A chart panel with time series of a simulated fleet of machines."""

    title: str
    series: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class FleetDrawing:
    """The data for drawing one simulated fleet of machines."""

    title: str
    panels: tuple[FleetPanel, ...]
    step_h: float


def fleet_picture(drawing: FleetDrawing) -> Spec:
    """Draw the panels of a fleet below each other over a common axis of hours."""
    last = len(drawing.panels) - 1
    return {
        **HEAD,
        "title": {
            "text": drawing.title, "anchor": "start", "color": TEXT, "fontWeight": "normal",
            "fontSize": 15, "offset": 12, "limit": 780,
        },
        "spacing": 14,
        "vconcat": [
            _panel(panel, drawing.step_h, i == last) for i, panel in enumerate(drawing.panels)
        ],
        "resolve": {"scale": {"color": "independent"}},
    }  # fmt: skip


def panel_picture(panel: FleetPanel, step_h: float) -> Spec:
    """Draw one panel of a fleet alone, over hours."""
    return {**HEAD, **_panel(panel, step_h, is_last=True)}


def _panel(panel: FleetPanel, step_h: float, is_last: bool) -> Spec:
    names = list(panel.series)
    values = [
        {"hour": round(i * step_h, 6), "of": name, "value": value}
        for name, series in panel.series.items()
        for i, value in enumerate(series)
    ]
    legend = {"orient": "right"} if len(names) > 1 else None
    colour = nominal("of", names, COLOURS[: len(names)], title=None, legend=legend)
    axis = {"title": "hours since the first submission" if is_last else None}
    return {
        "width": 720,
        "height": 110,
        "title": {"text": panel.title, "anchor": "start", "color": TEXT, "fontSize": 12},
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "hour", "type": "quantitative", "axis": axis, "scale": {"nice": False}},
            "y": {"field": "value", "type": "quantitative", "title": None},
            "color": colour,
        },
    }
