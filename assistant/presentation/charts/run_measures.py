"""The chart of one run's intermediate results: a measure over the time since its start."""

from collections.abc import Sequence
from dataclasses import dataclass

from assistant.presentation.charts.axes import value_axis
from assistant.presentation.charts.palette import ACCENT
from assistant.presentation.charts.vega_lite import CONFIG, SCHEMA, Spec, unit_in
from assistant.presentation.text.number_format import duration, quantity


@dataclass(frozen=True, slots=True)
class MeasuredMoment:
    """A measured value, ``at_s`` seconds after the start of the run."""

    at_s: float
    value: float


def measure_over_time(moments: Sequence[MeasuredMoment], title: str) -> Spec:
    """Draw a measure over the time since the start; ``title`` is its name with its unit."""
    unit = unit_in(title)
    rows = [
        {
            "at": moment.at_s, "value": moment.value, "at_text": duration(moment.at_s),
            "text": quantity(moment.value, unit),
        }
        for moment in moments
    ]  # fmt: skip
    times = [moment.at_s for moment in moments]
    return {
        "$schema": SCHEMA,
        "config": CONFIG,
        "width": 640,
        "height": 200,
        "data": {"values": rows},
        "mark": {"type": "line", "color": ACCENT, "strokeWidth": 2,
                 "point": {"size": 30, "color": ACCENT}},
        "encoding": {
            "x": {"field": "at",
                  **value_axis(times, "time since the start [s]", includes_zero=True)},
            "y": {"field": "value", **value_axis([moment.value for moment in moments], title)},
            "tooltip": [{"field": "at_text", "title": "after"}, {"field": "text", "title": title}],
        },
    }  # fmt: skip
