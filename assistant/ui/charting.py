"""Charts in the browser: their size, their ground, and one menu on each page to save them.

The charts themselves are shared with the report. They are saved as this machine draws them, on
white, without a network; Streamlit's own toolbar saves what the screen shows as PNG.
"""

from collections.abc import Iterator
from typing import Any

import streamlit as st

from assistant.presentation.charts.palette import GROUND, TEXT
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.html import drawing

_DARK_GROUND = "#171614"  # Background of the dark theme
_DARK_TEXT = "#9aa5b1"  # Lighter than `TEXT`, which is hard to read on it
_DRAWN = "charts-drawn"
_LONGEST_NAME = 80


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
    """Put a chart into the menu of the page, and return a copy of it on the ground of the page.

    The copy has no description: Streamlit takes the ``alt`` of the chart, and warns of both.
    """
    charts: dict[str, Spec] = st.session_state.setdefault(_DRAWN, {})
    charts[chart_name(spec)] = spec
    spec = {key: value for key, value in spec.items() if key != "description"}
    if st.context.theme.type != "dark":
        return spec
    params = [
        {**param, "value": _DARK_GROUND} if param["name"] == GROUND["name"] else param
        for param in spec.get("params", ())
    ]
    lighter: Spec = _lighter(spec)
    return {**lighter, "params": params} if params else lighter


def _lighter(part: Any) -> Any:
    """Return a part of a chart with lighter texts; its data are not searched."""
    if isinstance(part, dict):
        return {
            key: value if key in ("data", "datasets") else _lighter(value)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [_lighter(value) for value in part]
    return _DARK_TEXT if part == TEXT else part


def chart_name(spec: Spec) -> str:
    """Return the name of a chart: its description, or the titles of its axes and legends.

    >>> chart_name({"encoding": {"x": {"title": "runs"}, "y": {"title": "loss"}}})
    'runs, loss'
    """
    if "description" in spec:
        return str(spec["description"])[:_LONGEST_NAME]
    return (", ".join(dict.fromkeys(_titles(spec))) or "chart")[:_LONGEST_NAME]


def _titles(part: Any) -> Iterator[str]:
    for key, value in part.items() if isinstance(part, dict) else ():
        if key == "encoding":
            for channel in ("x", "y", "color", "fill"):
                title = value.get(channel, {}).get("title")
                if title:
                    yield str(title)
        elif key in ("layer", "vconcat", "hconcat"):
            for inner in value:
                yield from _titles(inner)


def forget_charts() -> None:
    """Empty the menu of charts, before a page is drawn."""
    st.session_state[_DRAWN] = {}


def save_menu() -> None:
    """Draw the menu that saves a chart of the page as SVG or PNG; nothing without a chart."""
    charts: dict[str, Spec] = st.session_state.get(_DRAWN, {})
    if not charts:
        return
    with st.popover("Save a chart", icon=":material/download:"):
        name = st.selectbox("Chart", list(charts), key="charts-save-name")
        spec = charts.get(name or "", next(iter(charts.values())))
        with st.container(horizontal=True):
            for ending, mime in ((".svg", "image/svg+xml"), (".png", "image/png")):
                st.download_button(
                    ending.removeprefix(".").upper(),
                    lambda ending=ending: drawing(spec, ending, name),  # type: ignore[misc]
                    file_name=f"{_file_name(name or 'chart')}{ending}", mime=mime,
                    on_click="ignore", key=f"charts-save{ending}",
                )  # fmt: skip


def _file_name(name: str) -> str:
    words = "".join(c if c.isalnum() else "-" for c in name).split("-")
    return "-".join(filter(None, words))[:60] or "chart"
