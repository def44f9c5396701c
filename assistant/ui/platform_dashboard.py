"""Dashboard of an AI platform, for a run, a trace or a simulation."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from assistant.presentation.charts.ai_platform import (
    PlatformDrawing,
    PlatformPanel,
    length,
    panel_chart,
)
from assistant.simtools.ai_platform import PlatformDashboard
from assistant.ui.charting import low
from assistant.ui.labels import escape_markdown

_TIME, _DAY, _TABLES = "Over time", "Mean day", "Tables"


def draw_dashboard(board: PlatformDashboard, key: str) -> None:
    """Draw the dashboard of an AI platform; ``key`` is the prefix of its widget keys."""
    _tiles(board)
    if board.words:
        st.markdown("\n".join(f"- {escape_markdown(sentence)}" for sentence in board.words))
    view = st.segmented_control(
        "View of the platform", [_TIME, _DAY, _TABLES], key=f"{key}-view", default=_TIME,
        required=True, persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view == _TIME:
        _charts(board.over_time)
    elif view == _DAY:
        _charts(board.day)
        st.caption(
            "Each hour is the mean of that hour of all days. Steps after a full cluster come later "
            "than steps before it."
        )
    else:
        tables(board)
    if board.parameters:
        with st.expander("Simulated settings"):
            names, values = zip(*board.parameters, strict=True)
            st.dataframe(
                {"parameter": list(names), "value": list(values)}, hide_index=True,
                width="stretch", alt="simulated settings",
            )  # fmt: skip
    st.caption(
        "Only tasks that ended during the simulation are counted; tasks that were waiting or "
        "running at its end are left out."
    )


def _tiles(board: PlatformDashboard) -> None:
    summary = board.summary
    wait = summary.pipeline_wait
    again = sum(n for why, n in summary.started_by.items() if why in ("drift", "age", "data",
                                                                   "schedule"))  # fmt: skip
    with st.container(horizontal=True):
        _tile("Pipelines", f"{summary.n_pipelines:,}", f"{summary.outcomes['deployed']:,} deployed")
        _tile(
            "Wait of a pipeline", length(wait.mean_s), f"90 % below {length(wait.quantiles_s[1])}"
        )
        if summary.fleet is not None and len(summary.fleet["performance"]):
            first, *_, last = summary.fleet["performance"]
            _tile("Performance at the end", f"{last:.3f}", f"{first:.3f} at first")
            late = f"{summary.fleet['late'][-1]:.0f} models too stale"
            _tile("Staleness at the end", f"{summary.fleet['staleness'][-1]:.1%}", late)
        if summary.about is not None and summary.about.n_models:
            about = summary.about
            _tile(
                "SLA misses",
                f"{about.sla_misses:,}",
                f"{about.n_models:,} models; trained {again:,} times",
            )


def _tile(label: str, value: str, below: str | None = None) -> None:
    st.metric(
        label, value, below, delta_color="off", delta_arrow="off", border=True, height="stretch"
    )


def _charts(drawing: PlatformDrawing) -> None:
    if drawing.step_h > 1:
        steps = {3: "3 hours", 6: "6 hours", 24: "a day", 168: "a week"}
        st.caption(f"Each value is the mean of {steps[drawing.step_h]}.")
    for pair in _pairs(drawing.panels):
        columns = st.columns(2, gap="large")
        for column, panel in zip(columns, pair, strict=False):
            with column:
                st.markdown(f"**{panel.title[:1].upper()}{panel.title[1:]}**")
                st.vega_lite_chart(
                    low(panel_chart(panel, drawing)),
                    theme=None,
                    width="stretch",
                    alt=_alt_text(panel),
                )
    with st.expander("As a table"):
        st.dataframe(_frame(drawing), hide_index=True, height=260, alt="the series of the charts")


def _pairs(panels: Sequence[PlatformPanel]) -> list[Sequence[PlatformPanel]]:
    return [panels[at : at + 2] for at in range(0, len(panels), 2)]


def _alt_text(panel: PlatformPanel) -> str:
    parts = []
    for name, series in panel.series.items():
        numbers = [value for value in series if value is not None]
        parts.append(f"{name} up to {max(numbers):.3g}" if numbers else f"{name}: none")
    return f"{panel.title}: {', '.join(parts)}; see the table below"


def _frame(drawing: PlatformDrawing) -> pd.DataFrame:
    n = len(next(iter(drawing.panels[0].series.values())))
    if drawing.is_day:
        columns: dict[str, Sequence[object]] = {"hour": [f"{hour:02d}:00" for hour in range(n)]}
    else:
        columns = {"day": [round((drawing.start_h + i * drawing.step_h) / 24, 3) for i in range(n)]}
    for panel in drawing.panels:
        for name, series in panel.series.items():
            columns[panel.title if len(panel.series) == 1 else f"{panel.title}: {name}"] = series
    return pd.DataFrame(columns)


def tables(board: PlatformDashboard) -> None:
    """Draw the tables of task durations and waiting times of an AI platform."""
    for title, (header, rows) in board.tables.items():
        st.markdown(f"**{title}**")
        st.dataframe(
            pd.DataFrame(rows, columns=list(header)), hide_index=True, width="stretch", alt=title
        )
