"""How the browser draws a chart that a report draws too."""

from assistant.presentation.charts.vega_lite import Spec


def wide(spec: Spec) -> Spec:
    """Return a chart that takes the width of its container."""
    return {**spec, "width": "container", "autosize": {"type": "fit", "contains": "padding"}}


def low(spec: Spec) -> Spec:
    """Return a chart of a few lines that takes the width of its container and keeps its height."""
    return {**spec, "width": "container", "autosize": {"type": "fit-x", "contains": "padding"}}
