"""Charts in the browser: their size, their ground, and their menu to save them.

The charts themselves are shared with the report. The menu saves a chart as SVG or PNG in the
browser itself; nothing is sent elsewhere.
"""

import streamlit as st

from assistant.presentation.charts.palette import GROUND
from assistant.presentation.charts.vega_lite import Spec

_DARK_GROUND = "#0e1117"  # Background of Streamlit's dark theme
_MENU = {
    "actions": {"export": {"svg": True, "png": True}, "source": False, "compiled": False,
                "editor": False},
    "scaleFactor": {"svg": 1, "png": 2},
}  # fmt: skip


def wide(spec: Spec) -> Spec:
    """Return a copy of a chart specification that is as wide as its container in the browser."""
    return {
        **saveable(spec), "width": "container",
        "autosize": {"type": "fit", "contains": "padding"},
    }  # fmt: skip


def low(spec: Spec) -> Spec:
    """Return a copy of a chart specification as wide as its container, with its own plot height."""
    return {
        **saveable(spec), "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
    }  # fmt: skip


def saveable(spec: Spec) -> Spec:
    """Return a copy of a chart specification with a menu to save it, on the ground of the page."""
    options = {**_MENU, **spec.get("usermeta", {}).get("embedOptions", {})}
    is_dark = st.context.theme.type == "dark"
    params = [
        {**param, "value": _DARK_GROUND} if is_dark and param["name"] == GROUND["name"] else param
        for param in spec.get("params", ())
    ]
    more = {"params": params} if params else {}
    return {**spec, **more, "usermeta": {"embedOptions": options}}
