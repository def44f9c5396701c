"""A Vega-Lite specification of packings at their first failure (Bergsma et al., figure 10)."""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.charts import CONFIG, SCHEMA, TEXT, Spec
from assistant.charts_clouds import KINDS


@dataclass(frozen=True, slots=True)
class Packed:
    """A packing at its first failure: shares of memory and cores allocated, and by which rule."""

    memory: float
    cpu: float
    algorithm: str


def packings(points: Sequence[Packed], algorithms: Sequence[str], least: float) -> Spec:
    """Cores against memory that are allocated at the first failure, a point a packing.

    Args:
        points: packings that failed.
        algorithms: in the order of their colours.
        least: where both axes begin, at which lower shares are drawn; windows beside each other
            have one.
    """
    rows = [{"memory": p.memory, "cpu": p.cpu, "algorithm": p.algorithm} for p in points]
    scale = {"domain": [least, 1], "nice": False, "clamp": True}
    axis = {"format": "%", "tickCount": 5}
    x = {"field": "memory", "type": "quantitative", "title": "memory allocated", "scale": scale,
         "axis": axis}  # fmt: skip
    y = {"field": "cpu", "type": "quantitative", "title": "cores allocated", "scale": scale,
         "axis": axis}  # fmt: skip
    diagonal = [{"memory": least, "cpu": least}, {"memory": 1, "cpu": 1}]
    return {
        "$schema": SCHEMA, "config": CONFIG, "width": 400, "height": 300,
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
                    "color": {
                        "field": "algorithm", "type": "nominal",
                        "scale": {"domain": list(algorithms),
                                  "range": list(KINDS[: len(algorithms)])},
                        "legend": {"title": None, "orient": "top", "columns": 2,
                                   "symbolOpacity": 1, "symbolSize": 50},
                    },
                },
            },
        ],
    }  # fmt: skip
