"""Sizes of charts in the browser; the charts themselves are shared with the report."""

from assistant.presentation.charts.vega_lite import Spec


def wide(spec: Spec) -> Spec:
    """Return a chart specification with the width of its container."""
    return {**spec, "width": "container", "autosize": {"type": "fit", "contains": "padding"}}


def low(spec: Spec) -> Spec:
    """Return a chart specification with its container's width and a height of its own."""
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
