"""Charts in the browser: their size, their ground, and one menu on each page to save them.

The charts themselves are shared with the report. They are saved as this machine draws them, on
white, without a network; Streamlit's own toolbar saves what the screen shows as PNG.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import streamlit as st

from assistant.presentation.charts.palette import GROUND, INK, TEXT
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.report.html import drawing

_DARK_GROUND = "#171614"  # Background of the dark theme
_DARK_TEXT = "#9aa5b1"  # Lighter than `TEXT`, which is hard to read on it
_LEAST_CONTRAST = 3.0  # Of a mark to its ground (WCAG 2.1, 1.4.11)
_LEAST_SHADE = 0.38  # Share of viridis below which its colours are too dark for lines on the ground
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
    """Return a part of a chart with lighter texts and marks; its data are not searched."""
    if isinstance(part, dict):
        same = {key: value for key, value in part.items() if key in ("data", "datasets")}
        lighter = {key: _lighter(value) for key, value in part.items() if key not in same}
        if "extent" in part:
            lighter["extent"] = [max(_LEAST_SHADE, part["extent"][0]), part["extent"][1]]
        return {**same, **lighter}
    if isinstance(part, list):
        return [_lighter(value) for value in part]
    if part == TEXT:
        return _DARK_TEXT
    is_colour = isinstance(part, str) and re.fullmatch("#[0-9a-f]{6}", part) and part != INK
    return visible(part) if is_colour else part


@cache
def visible(colour: str) -> str:
    """Return a colour that stands out from the dark ground: itself, or a lighter one.

    >>> visible("#e69f00"), visible("#46327e")
    ('#e69f00', '#6b5b98')
    """
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    for percent in range(100):
        mixed = [round(part + (255 - part) * percent / 100) for part in parts]
        if (_luminance(mixed) + 0.05) / (_GROUND_LUMINANCE + 0.05) >= _LEAST_CONTRAST:
            return "#" + "".join(f"{part:02x}" for part in mixed)
    return "#ffffff"


def _luminance(parts: list[int]) -> float:
    """Return the relative luminance of red, green and blue, each 0 to 255 (WCAG 2.1)."""
    linear = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
        for share in (part / 255 for part in parts)
    )
    return sum(w * part for w, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


_GROUND_LUMINANCE = _luminance([int(_DARK_GROUND[i : i + 2], 16) for i in (1, 3, 5)])


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
