"""Charts of an AI platform: dashboard and comparisons with a log, after figures of PipeSim.

The dashboard (figure 11) also shows metrics of models and their total potential over time, which
the paper lists as missing. Compared with a log are data sets (figure 8), preprocessing by size
(9a), training times (9b), quantiles of durations, and arrivals by hour (12).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assistant.presentation.charts.palette import ACCENT, MUTED, OTHERS, SERIES, TEXT
from assistant.presentation.charts.vega_lite import HEAD, Spec, frame

COLOURS = (*SERIES[:6], OTHERS)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])

SECONDS_TICKS = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 360000, 3600000)
FINE_TICKS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600, 1200, 3600, 7200, 18000,
)  # fmt: skip
_SECONDS_WORDS = (
    "datum.value < 60 ? datum.value + ' s' : datum.value < 3600 ? "
    "format(datum.value / 60, '.3~r') + ' min' : format(datum.value / 3600, '.3~r') + ' h'"
)


Rows = tuple[tuple[str, ...], list[tuple[str, ...]]]

_LENGTHS = ((172_800.0, 86_400.0, "d"), (7_200.0, 3_600.0, "h"), (120.0, 60.0, "min"))


def length(seconds: float | None) -> str:
    """Format a duration in seconds as text for a table.

    >>> length(None), length(0.0), length(12.345), length(5400.0), length(9000.0)
    ('-', '0 s', '12.3 s', '90 min', '2.5 h')
    """
    if seconds is None:
        return "-"
    for least, size, unit in _LENGTHS:
        if seconds >= least:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


@dataclass(frozen=True, slots=True)
class PlatformPanel:
    """A chart panel with time series over the hours of a platform simulation."""

    title: str
    series: Mapping[str, tuple[float | None, ...]]


@dataclass(frozen=True, slots=True)
class PlatformDrawing:
    """The data for drawing one simulated AI platform.

    Attributes:
        panels: panels from top to bottom; their series have the same length.
        start_h: hour of the week of the first value, from Monday midnight.
        step_h: hours between two values.
        is_day: whether the series are means by hour of the day, from midnight on.
    """

    title: str
    panels: tuple[PlatformPanel, ...]
    start_h: int
    step_h: int = 1
    is_day: bool = False


@dataclass(frozen=True, slots=True)
class QuantileComparison:
    """The quantiles of an observed and a simulated sample of durations, with distances.

    Attributes:
        simulated: quantiles of the second sample at the same probabilities.
        ks: largest distance of their distribution functions, from 0 to 1.
        ks_critical: 95 % quantile of `ks` for two samples of one distribution.
        wasserstein_s: mean distance of their quantiles.
        log_wasserstein: mean distance of the logarithms of their quantiles.
    """

    name: str
    observed: tuple[float, ...]
    simulated: tuple[float, ...]
    n_observed: int
    n_simulated: int
    ks: float
    ks_critical: float
    wasserstein_s: float
    log_wasserstein: float

    @property
    def is_alike(self) -> bool:
        """Whether the samples differ only by chance (Kolmogorov-Smirnov test at 5 %)."""
        return self.ks <= self.ks_critical

    @property
    def apart(self) -> float:
        """Mean relative distance of the quantiles, where 0.1 is 10 %."""
        return math.expm1(self.log_wasserstein)


@dataclass(frozen=True, slots=True)
class WeekBands:
    """Observed and simulated mean arrivals in each hour of a week from Monday midnight.

    Attributes:
        low: lower end of the band that holds 95 of 100 simulated means.
        high: upper end of the band.
        within: share of the hours whose simulated mean lies in the band.
    """

    observed: tuple[float, ...]
    simulated: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    within: float


Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class ScatterPoints:
    """Points of two quantities in the log and in the simulation, both above 0.

    Attributes:
        name: name of the y axis over that of the x axis.
        x, y: names of the quantities.
        curve: a fitted function of x; empty if there is none.
    """

    name: str
    x: str
    y: str
    observed: Points
    simulated: Points
    curve: Points


@dataclass(frozen=True, slots=True)
class HistogramBars:
    """Shares of the observed and of the simulated durations in equally wide bins from 0.

    Attributes:
        edges_s: edges of the bins, one more than there are shares.
    """

    name: str
    edges_s: tuple[float, ...]
    observed: tuple[float, ...]
    simulated: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlatformComparison:
    """A comparison of the log of an AI platform with a simulation of the platform.

    Attributes:
        n_observed: executed tasks in the log.
        n_simulated: simulated pipelines.
        tasks: durations of each kind of task, and of training by framework.
        gaps: gaps between arrivals, by profile.
        hours: arrivals by hour of the week, by profile.
        scatters: data sets and preprocessing.
        histograms: training times by framework.
    """

    log: str
    n_observed: int
    n_simulated: int
    weeks: int
    seed: int
    source: str
    tasks: tuple[QuantileComparison, ...]
    gaps: tuple[QuantileComparison, ...]
    hours: Mapping[str, WeekBands]
    scatters: tuple[ScatterPoints, ...]
    histograms: tuple[HistogramBars, ...]

    @property
    def headline(self) -> str:
        """The result of the comparison in one sentence."""
        several = [*self.tasks, *self.gaps]
        alike = sum(comparison.is_alike for comparison in several)
        furthest = max(several, key=lambda comparison: comparison.ks)
        return (
            f"{alike} of {len(several)} samples differ from the log only by chance (KS test, 5 %); "
            f"the largest difference is in '{furthest.name}', KS {furthest.ks:.3f}."
        )


def platform_picture(drawing: PlatformDrawing) -> Spec:
    """Draw the panels of an AI platform below each other, over days or over hours of the day."""
    last = len(drawing.panels) - 1
    return {
        **HEAD,
        "title": {
            "text": _folded(drawing.title), "anchor": "start", "color": TEXT,
            "fontWeight": "normal", "fontSize": 15, "offset": 12,
        },
        "spacing": 14,
        "vconcat": [
            {**_panel(panel, drawing, titled=i == last), "width": 720, "height": 90,
             "title": _title(panel.title)}
            for i, panel in enumerate(drawing.panels)
        ],
        "resolve": {"scale": {"color": "independent", "strokeDash": "independent"}},
    }  # fmt: skip


def panel_chart(panel: PlatformPanel, drawing: PlatformDrawing) -> Spec:
    """Draw one panel of an AI platform alone, without its title."""
    spec = _panel(panel, drawing, titled=True)
    for channel in ("color", "strokeDash"):
        if spec["encoding"][channel]["legend"] is not None:
            spec["encoding"][channel]["legend"] = {"orient": "top", "title": None}
    return {**frame(420, 170), **spec}


def qq_chart(quantiles: QuantileComparison) -> Spec:
    """Draw simulated quantiles over observed quantiles, both on log scales."""
    rows = [{"observed": o, "simulated": s}
            for o, s in zip(quantiles.observed, quantiles.simulated, strict=True)]  # fmt: skip
    ends = (
        min(quantiles.observed + quantiles.simulated),
        max(quantiles.observed + quantiles.simulated),
    )
    scale = {"type": "log", "domain": list(ends), "nice": False}
    ticks, fine = (
        [tick for tick in several if ends[0] <= tick <= ends[1]]
        for several in (SECONDS_TICKS, FINE_TICKS)
    )
    ticks = ticks if len(ticks) > 2 else fine
    axis: dict[str, Any] = {"labelExpr": _SECONDS_WORDS, "labelOverlap": True}
    if len(ticks) > 1:
        axis["values"] = ticks
    x = {"field": "observed", "type": "quantitative", "title": "observed", "scale": scale,
         "axis": axis}  # fmt: skip
    y = {**x, "field": "simulated", "title": "simulated"}
    tooltip = [{"field": name, "title": f"{name} [s]", "format": ".3~g"}
            for name in ("observed", "simulated")]  # fmt: skip
    return {
        **frame(220, 220),
        "layer": [
            {
                "data": {"values": [{"observed": end, "simulated": end} for end in ends]},
                "mark": {"type": "line", "color": MUTED, "strokeDash": [5, 4], "strokeWidth": 1.2},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": rows},
                "mark": {"type": "point", "filled": True, "size": 22, "color": ACCENT,
                         "opacity": 0.85},
                "encoding": {"x": x, "y": y, "tooltip": tooltip},
            },
        ],
    }  # fmt: skip


_SIDES = ("observed", "simulated")
_SIDE_COLOURS: Spec = {
    "type": "nominal", "scale": {"domain": list(_SIDES), "range": [MUTED, ACCENT]},
    "legend": {"orient": "top", "title": None},
}  # fmt: skip


def scatter_chart(scatter: ScatterPoints) -> Spec:
    """Draw observed and simulated points on log scales, with the fitted curve if there is one."""
    rows: list[Spec] = [
        {"of": side, "x": x, "y": y} for side in _SIDES for x, y in getattr(scatter, side)
    ]  # fmt: skip

    def axis(channel: str, name: str) -> Spec:
        words: Spec = {"format": "~s"}
        if name == "seconds":
            values = [row[channel] for row in rows]
            ticks = [tick for tick in FINE_TICKS if min(values) <= tick <= max(values)]
            words = {"labelExpr": _SECONDS_WORDS, "values": ticks}
        return {
            "field": channel, "type": "quantitative", "title": name, "scale": {"type": "log"},
            "axis": {"tickCount": 5, "labelOverlap": True, **words},
        }  # fmt: skip

    x, y = axis("x", scatter.x), axis("y", scatter.y)
    tooltip = [{"field": "of", "title": "side"}] + [
        {"field": channel, "title": name, "format": ".4~g"}
        for channel, name in (("x", scatter.x), ("y", scatter.y))
    ]
    layers: list[Spec] = [
        {
            "data": {"values": rows},
            "mark": {"type": "point", "filled": True, "size": 16, "opacity": 0.6},
            "encoding": {
                "x": x, "y": y, "color": {"field": "of", **_SIDE_COLOURS}, "tooltip": tooltip,
            },
        }
    ]  # fmt: skip
    if scatter.curve:
        layers.append({
            "data": {"values": [{"x": x, "y": y} for x, y in scatter.curve]},
            "mark": {"type": "line", "color": SERIES[1], "strokeWidth": 2},
            "encoding": {"x": x, "y": y},
        })  # fmt: skip
    return {**frame(300, 220), "layer": layers}


def histogram_chart(histogram: HistogramBars) -> Spec:
    """Draw the shares of observed and simulated durations as two step lines."""
    rows = [
        {"of": side, "edge_s": edge_s, "share": share}
        for side in _SIDES
        for edge_s, share in zip(
            histogram.edges_s, (*getattr(histogram, side), 0.0), strict=True
        )
    ]  # fmt: skip
    return {
        **frame(300, 220),
        "data": {"values": rows},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.8},
        "encoding": {
            "x": {"field": "edge_s", "type": "quantitative", "title": "seconds",
                  "axis": {"tickCount": 6, "labelExpr": _SECONDS_WORDS}},
            "y": {"field": "share", "type": "quantitative", "title": "share of the tasks",
                  "axis": {"format": ".0%", "tickCount": 5}},
            "color": {"field": "of", **_SIDE_COLOURS},
        },
    }  # fmt: skip


def week_chart(bands: WeekBands) -> Spec:
    """Draw observed and simulated mean arrivals by hour of the week, with a band."""
    columns = (bands.observed, bands.simulated, bands.low, bands.high)
    rows = [
        {"day": hour / 24, "observed": o, "simulated": s, "low": max(low, 0.0), "high": high}
        for hour, (o, s, low, high) in enumerate(zip(*columns, strict=True))
    ]
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    x = {
        "field": "day", "type": "quantitative", "title": None,
        "scale": {"domain": [0, 7], "nice": False},
        "axis": {"values": list(range(7)), "labelExpr": f"{list(days)}[datum.value]",
                 "labelAlign": "left"},
    }  # fmt: skip

    def line(name: str, width: float) -> Spec:
        y = {"field": name, "type": "quantitative", "title": "mean arrivals per hour"}
        return {
            "mark": {"type": "line", "strokeWidth": width},
            "encoding": {"x": x, "y": y, "color": {**_SIDE_COLOURS, "datum": name}},
        }

    return {
        **frame(720, 220),
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "area", "color": MUTED, "opacity": 0.25},
                "encoding": {
                    "x": x,
                    "y": {"field": "low", "type": "quantitative"},
                    "y2": {"field": "high"},
                },
            },
            line("observed", 2.5),
            line("simulated", 1.5),
        ],
    }


def _folded(text: str, width: int = 100) -> list[str]:
    lines = [""]
    for part in text.split(", "):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines[-1] += ","
            lines.append("")
        lines[-1] += (", " if lines[-1] else "") + part
    return lines


def _title(text: str) -> Spec:
    return {"text": text, "anchor": "start", "color": TEXT, "fontSize": 12}


def _panel(panel: PlatformPanel, drawing: PlatformDrawing, *, titled: bool) -> Spec:
    names = list(panel.series)
    values = [
        {"at": _at(place, drawing), "of": name, "value": value}
        for name, series in panel.series.items()
        for place, value in enumerate((*series, *series[-1:]))  # end of the last step
        if value is not None
    ]
    return {
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": _axis(drawing, titled=titled),
            "y": {"field": "value", "type": "quantitative", "title": None,
                  "axis": {"tickCount": 4}},
            "color": _told_apart(names, "range", COLOURS),
            "strokeDash": _told_apart(names, "range", DASHES),
        },
    }  # fmt: skip


def _at(place: int, drawing: PlatformDrawing) -> float:
    return float(place) if drawing.is_day else (drawing.start_h + place * drawing.step_h) / 24


def _axis(drawing: PlatformDrawing, *, titled: bool) -> Spec:
    x: Spec = {"field": "at", "type": "quantitative", "scale": {"nice": False}}
    if drawing.is_day:
        clock = "(datum.value < 10 ? '0' : '') + datum.value + ':00'"
        ticks: Spec = {"values": list(range(0, 25, 4)), "labelExpr": clock}
        title = "hour of the day"
    else:
        ticks, title = {"tickMinStep": 1}, "days since Monday midnight"
    return {**x, "title": title if titled else None, "axis": ticks}


def _told_apart(names: Sequence[str], channel: str, marks: Sequence[Any]) -> Spec:
    return {
        "field": "of", "type": "nominal", "title": None,
        "scale": {"domain": list(names), channel: [marks[i % len(marks)] for i in
                                                   range(len(names))]},
        "legend": {"orient": "right"} if len(names) > 1 else None,
    }  # fmt: skip
