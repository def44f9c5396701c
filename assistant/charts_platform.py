"""Vega-Lite specification of one run of an AI platform: the dashboard of the PipeSim paper.

Its figure 11 shows arrivals, the use of resources, waiting and traffic; metrics of models and the
total potential over time are what the paper missed there. What is drawn is made by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.charts import CONFIG, SCHEMA, TEXT, Spec

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")


@dataclass(frozen=True, slots=True)
class Panel:
    """Some series over the hours of a simulation.

    Attributes:
        title: what is shown, with the unit.
        series: by name, a value an hour.
    """

    title: str
    series: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class PlatformDrawing:
    """One simulated platform.

    Attributes:
        title: what was simulated, and what came of it.
        panels: from top to bottom; their series have one length.
        start_h: hour of the week, from Monday midnight, of the first value.
    """

    title: str
    panels: tuple[Panel, ...]
    start_h: int


def platform_picture(drawn: PlatformDrawing) -> Spec:
    """Return the panels below each other, over one axis of days."""
    last = len(drawn.panels) - 1
    return {
        "$schema": SCHEMA,
        "config": CONFIG,
        "title": {
            "text": drawn.title, "anchor": "start", "color": TEXT, "fontWeight": "normal",
            "fontSize": 15, "offset": 12,
        },
        "spacing": 14,
        "vconcat": [_panel(one, drawn.start_h, i == last) for i, one in enumerate(drawn.panels)],
        "resolve": {"scale": {"color": "independent"}},
    }  # fmt: skip


def _panel(panel: Panel, start_h: int, is_last: bool) -> Spec:
    names = list(panel.series)
    values = [
        {"day": (start_h + hour) / 24, "of": name, "value": value}
        for name, series in panel.series.items()
        for hour, value in enumerate(series)
    ]
    axis = {"title": "days since Monday midnight" if is_last else None, "tickMinStep": 1}
    colour = {
        "field": "of", "type": "nominal", "title": None,
        "scale": {"domain": names, "range": list(COLOURS[: len(names)])},
        "legend": {"orient": "right"} if len(names) > 1 else None,
    }  # fmt: skip
    return {
        "width": 720,
        "height": 90,
        "title": {"text": panel.title, "anchor": "start", "color": TEXT, "fontSize": 12},
        "data": {"values": values},
        "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 1.5},
        "encoding": {
            "x": {"field": "day", "type": "quantitative", "axis": axis, "scale": {"nice": False}},
            "y": {"field": "value", "type": "quantitative", "title": None},
            "color": colour,
        },
    }
