"""Sizes of charts in the browser; the charts themselves are shared with the report."""

from assistant.presentation.charts.vega_lite import Spec


def wide(spec: Spec) -> Spec:
    """Return a copy of a chart specification that is as wide as its container in the browser."""
    return {**spec, "width": "container", "autosize": {"type": "fit", "contains": "padding"}}


def low(spec: Spec) -> Spec:
    """Return a copy of a chart specification as wide as its container, with its own plot height."""
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
