"""The window of time in which a schedule is drawn: a strip to draw it on, numbers, buttons.

The window belongs to the experiment, so that another run is shown at the same time of its schedule.
"""

from collections.abc import Callable
from typing import Any

import streamlit as st

from assistant.applications.schedule import Schedule
from assistant.applications.schedule_view import Window, busiest, curve
from assistant.charts_run import BRUSH, overview
from assistant.report.words import duration
from assistant.ui.charting import low

_UNITS = ((172_800.0, "days", 86_400.0), (7_200.0, "hours", 3_600.0), (0.0, "seconds", 1.0))


def window_of(experiment_id: str, jobs: Schedule) -> Window:
    """Return the window that is shown; at first about the longest queue."""
    key = _key(experiment_id)
    kept: Window | None = st.session_state.get(key)
    window = busiest(jobs) if kept is None else kept.inside(jobs.span_s)
    if kept is None:
        st.session_state[key] = window
    return window


def go_to(experiment_id: str, window: Window) -> None:
    """Show another window from the next drawing on."""
    key = _key(experiment_id)
    st.session_state[key] = window
    st.session_state[f"{key}-n"] = st.session_state.get(f"{key}-n", 0) + 1


def controls(experiment_id: str, jobs: Schedule, window: Window) -> None:
    """Draw the strip of the whole schedule and what changes the window."""
    n = st.session_state.get(f"{_key(experiment_id)}-n", 0)  # a new window is a new strip
    _strip(experiment_id, jobs, window, f"strip-{experiment_id}-{n}")
    span_s = jobs.span_s
    whole = Window(0.0, span_s).inside(span_s)
    is_all = window.width_s >= whole.width_s
    at_start, at_end = window.from_s <= 0, window.to_s >= whole.to_s
    moves: tuple[tuple[str, str, Callable[[], Window], bool], ...] = (
        ("Earlier", "arrow_back", lambda: window.moved(-0.5, span_s), at_start),
        ("Later", "arrow_forward", lambda: window.moved(0.5, span_s), at_end),
        ("Zoom in", "zoom_in", lambda: window.zoomed(0.5, span_s), False),
        ("Zoom out", "zoom_out", lambda: window.zoomed(2.0, span_s), is_all),
        ("Longest queue", "hourglass_top", lambda: busiest(jobs), False),
        ("All", "width_full", lambda: whole, is_all),
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, icon, move, is_off in moves:
            st.button(
                name, icon=f":material/{icon}:", key=f"window-{name}", disabled=is_off,
                on_click=lambda move=move: go_to(experiment_id, move()),
            )  # fmt: skip
    with st.container(horizontal=True):
        _numbers(experiment_id, window, span_s, n)


def _strip(experiment_id: str, jobs: Schedule, window: Window, key: str) -> None:
    whole = Window(0.0, jobs.span_s).inside(jobs.span_s)
    line = curve("all", jobs.used(), whole, jobs.total_procs)

    def brushed() -> None:
        state: Any = st.session_state.get(key)
        times = state["selection"].get(BRUSH, {}).get("time") if state else None
        if times:
            chosen = Window(min(times), max(times))
            go_to(experiment_id, chosen.inside(jobs.span_s))

    st.vega_lite_chart(
        low(overview(line, window.from_s, window.to_s)), theme=None, width="stretch", key=key,
        on_select=brushed, selection_mode=[BRUSH],
        alt=f"processors in use over the whole schedule, {duration(jobs.span_s)}",
    )  # fmt: skip


def _numbers(experiment_id: str, window: Window, span_s: float, n: int) -> None:
    """Draw from and to as numbers, for the keyboard and for the exact."""
    unit, unit_s = next((name, size) for least, name, size in _UNITS if span_s >= least)
    keys = f"window-from-{experiment_id}-{n}", f"window-to-{experiment_id}-{n}"

    def typed() -> None:
        one, two = (st.session_state[key] * unit_s for key in keys)
        if one != two:
            go_to(experiment_id, Window(min(one, two), max(one, two)).inside(span_s))

    for label, key, value_s in zip(("From", "To"), keys, (window.from_s, window.to_s), strict=True):
        st.number_input(
            f"{label} [{unit}]", 0.0, None, value_s / unit_s, step=window.width_s / unit_s / 4,
            format="%.3f", key=key, on_change=typed, width=150,
            help="since the first submission",
        )  # fmt: skip


def _key(experiment_id: str) -> str:
    return f"window-{experiment_id}"
