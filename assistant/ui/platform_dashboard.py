"""The dashboard of an AI platform, drawn wherever one is shown: a run, a trace, a trial."""

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
    """Draw everything that is shown of a platform.

    Args:
        board: what is shown.
        key: begins the keys of the fields.
    """
    _tiles(board)
    if board.words:
        st.markdown("\n".join(f"- {escape_markdown(one)}" for one in board.words))
    view = st.segmented_control(
        "View of the platform", [_TIME, _DAY, _TABLES], key=f"{key}-view", default=_TIME,
        required=True, persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view == _TIME:
        _charts(board.over_time)
    elif view == _DAY:
        _charts(board.day)
        st.caption(
            "Each hour is the mean of that hour of all days. What comes behind a full cluster "
            "comes later than what is before it."
        )
    else:
        tables(board)
    if board.parameters:
        with st.expander("What was simulated"):
            names, values = zip(*board.parameters, strict=True)
            st.dataframe(
                {"parameter": list(names), "value": list(values)}, hide_index=True,
                width="stretch", alt="what was simulated",
            )  # fmt: skip
    st.caption(
        "Counted are tasks that ended before the simulation did; what waited or ran at its end is "
        "left out."
    )


def _tiles(board: PlatformDashboard) -> None:
    seen = board.summary
    wait = seen.pipeline_wait
    again = sum(n for why, n in seen.started_by.items() if why in ("drift", "age", "data",
                                                                   "schedule"))  # fmt: skip
    with st.container(horizontal=True):
        _tile("Pipelines", f"{seen.n_pipelines:,}", f"{seen.outcomes['deployed']:,} deployed")
        _tile(
            "Wait of a pipeline", length(wait.mean_s), f"90 % below {length(wait.quantiles_s[1])}"
        )
        if seen.fleet is not None and len(seen.fleet["performance"]):
            first, *_, last = seen.fleet["performance"]
            _tile("Performance at the end", f"{last:.3f}", f"{first:.3f} at first")
            late = f"{seen.fleet['late'][-1]:.0f} models too stale"
            _tile("Staleness at the end", f"{seen.fleet['staleness'][-1]:.1%}", late)
        if seen.about is not None and seen.about.n_models:
            about = seen.about
            _tile(
                "SLA misses",
                f"{about.sla_misses:,}",
                f"{about.n_models:,} models; trained {again:,} times",
            )


def _tile(label: str, value: str, below: str | None = None) -> None:
    st.metric(
        label, value, below, delta_color="off", delta_arrow="off", border=True, height="stretch"
    )


def _charts(drawn: PlatformDrawing) -> None:
    if drawn.step_h > 1:
        steps = {3: "3 hours", 6: "6 hours", 24: "a day", 168: "a week"}
        st.caption(f"Each value is the mean of {steps[drawn.step_h]}.")
    for pair in _pairs(drawn.panels):
        columns = st.columns(2, gap="large")
        for column, panel in zip(columns, pair, strict=False):
            with column:
                st.markdown(f"**{panel.title[:1].upper()}{panel.title[1:]}**")
                st.vega_lite_chart(
                    low(panel_chart(panel, drawn)),
                    theme=None,
                    width="stretch",
                    alt=_alt_text(panel),
                )
    with st.expander("The same as a table"):
        st.dataframe(_frame(drawn), hide_index=True, height=260, alt="the series of the charts")


def _pairs(panels: Sequence[PlatformPanel]) -> list[Sequence[PlatformPanel]]:
    return [panels[at : at + 2] for at in range(0, len(panels), 2)]


def _alt_text(panel: PlatformPanel) -> str:
    told = []
    for name, series in panel.series.items():
        known = [value for value in series if value is not None]
        told.append(f"{name} up to {max(known):.3g}" if known else f"{name}: none")
    return f"{panel.title}: {', '.join(told)}; see the table below"


def _frame(drawn: PlatformDrawing) -> pd.DataFrame:
    n = len(next(iter(drawn.panels[0].series.values())))
    if drawn.is_day:
        columns: dict[str, Sequence[object]] = {"hour": [f"{hour:02d}:00" for hour in range(n)]}
    else:
        columns = {"day": [round((drawn.start_h + i * drawn.step_h) / 24, 3) for i in range(n)]}
    for panel in drawn.panels:
        for name, series in panel.series.items():
            columns[panel.title if len(panel.series) == 1 else f"{panel.title}: {name}"] = series
    return pd.DataFrame(columns)


def tables(board: PlatformDashboard) -> None:
    """Draw tasks and waits as tables."""
    for title, (header, rows) in board.tables.items():
        st.markdown(f"**{title}**")
        st.dataframe(
            pd.DataFrame(rows, columns=list(header)), hide_index=True, width="stretch", alt=title
        )
