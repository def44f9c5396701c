"""Vega-Lite specification of one run of a fleet of machines: how full it was, and who waited.

What is drawn is made by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.charts import CONFIG, SCHEMA, TEXT, Spec

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")


@dataclass(frozen=True, slots=True)
class FleetPanel:
    """Some series over the time of a simulation.

    Attributes:
        title: what is shown, with the unit.
        series: by name, the mean of each step.
    """

    title: str
    series: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class FleetDrawing:
    """One simulated fleet.

    Attributes:
        title: what was simulated.
        panels: from top to bottom; their series have one length.
        step_h: hours that a value stands for.
    """

    title: str
    panels: tuple[FleetPanel, ...]
    step_h: float


def fleet_picture(drawn: FleetDrawing) -> Spec:
    """Return the panels below each other, over one axis of hours."""
    last = len(drawn.panels) - 1
    return {
        "$schema": SCHEMA,
        "config": CONFIG,
        "title": {
            "text": drawn.title, "anchor": "start", "color": TEXT, "fontWeight": "normal",
            "fontSize": 15, "offset": 12, "limit": 780,
        },
        "spacing": 14,
        "vconcat": [_panel(one, drawn.step_h, i == last) for i, one in enumerate(drawn.panels)],
        "resolve": {"scale": {"color": "independent"}},
    }  # fmt: skip


def panel_picture(panel: FleetPanel, step_h: float) -> Spec:
    """Return one panel as a picture of its own, over hours."""
    return {"$schema": SCHEMA, "config": CONFIG, **_panel(panel, step_h, is_last=True)}


def _panel(panel: FleetPanel, step_h: float, is_last: bool) -> Spec:
    names = list(panel.series)
    values = [
        {"hour": round(i * step_h, 6), "of": name, "value": value}
        for name, series in panel.series.items()
        for i, value in enumerate(series)
    ]
    colour = {
        "field": "of", "type": "nominal", "title": None,
        "scale": {"domain": names, "range": list(COLOURS[: len(names)])},
        "legend": {"orient": "right"} if len(names) > 1 else None,
    }  # fmt: skip
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
