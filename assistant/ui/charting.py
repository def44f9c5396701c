"""How the browser draws a chart that a report draws too."""

from assistant.charts import Spec


def wide(spec: Spec) -> Spec:
    """Return a chart that takes the width of its container."""
    return {**spec, "width": "container", "autosize": {"type": "fit", "contains": "padding"}}
