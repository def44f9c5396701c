"""Sizes of charts in the browser; the charts themselves are shared with the report."""

from assistant.presentation.charts.vega_lite import Spec


def wide(spec: Spec) -> Spec:
    """Return the chart with the width of its container."""
    return {**spec, "width": "container", "autosize": {"type": "fit", "contains": "padding"}}


def low(spec: Spec) -> Spec:
    """Return a chart of few lines with the width of its container and its own height."""
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
