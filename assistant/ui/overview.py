"""One experiment at a glance: the answer, progress, what matters, every run, the report.

This page reads the store and changes nothing; sweeps are started from the command line.
"""

from dataclasses import asdict
from pathlib import Path

import pandas as pd
import streamlit as st

from assistant import AssistantError, Experiment
from assistant.charts import best_so_far, level_means
from assistant.report import ReportData, collect, render_html
from assistant.report.words import moment, quantity
from assistant.store import SqliteStore

N_CHARTS_A_ROW = 3


def page(store: Path) -> None:
    """Draw the page over a store file, which may not exist yet."""
    st.title("Copperline")
    if not store.exists():
        st.info(f"No experiment is stored in `{store}` yet. Start one in a terminal:")
        st.code("copperline demo\ncopperline sweep --log your.swf.gz --runs 60", language="bash")
        return
    try:
        opened = SqliteStore(store)
        stored = opened.experiments()
        if not stored:
            st.info(f"`{store}` holds no experiment yet.")
            return
        labels = {e.id: f"{e.name} · {moment(e.opened_s)} · {e.id}" for e in stored}
        chosen = st.selectbox("Experiment", list(labels), format_func=labels.__getitem__)
        experiment = Experiment.replay(opened.load(chosen))
    except AssistantError as error:
        st.error(str(error))
        return
    _experiment(experiment)


def _experiment(experiment: Experiment) -> None:
    data = collect(experiment)
    found = data.answer.verdict not in ("nothing_feasible", "no_runs")
    show = st.success if found else st.warning
    show(f"**{data.answer.headline}**\n\n" + "\n\n".join(data.answer.sentences))
    _numbers(data)
    title = f"{data.value_name} [{data.unit}]" if data.unit else data.value_name
    if data.points:
        st.subheader("Best so far")
        st.vega_lite_chart(best_so_far(data.points, data.today_value, title), theme=None)
    if data.effects:
        st.subheader("What matters")
        st.caption(
            "Mean of the runs at each level; parameters with the widest range first. "
            "A level without a run shows nothing: its effect is unknown."
        )
        columns = st.columns(min(N_CHARTS_A_ROW, len(data.effects)))
        for i, effect in enumerate(data.effects):
            chart = level_means(effect.levels, effect.parameter, effect.unit, title)
            columns[i % N_CHARTS_A_ROW].vega_lite_chart(chart, theme=None)
    st.subheader("Every run")
    st.dataframe(_table(data), hide_index=True, width="stretch")
    st.download_button(
        "Download the report",
        render_html(data),
        file_name=f"{data.experiment_id}.html",
        mime="text/html",
    )
    with st.expander("What this rests on"):
        for fact in data.facts:
            st.markdown(f"**{fact.label}**: {fact.text}")


def _numbers(data: ReportData) -> None:
    runs, today, changed = st.columns(3)
    budget = "" if data.max_runs is None else f" of {data.max_runs}"
    runs.metric("Runs completed", f"{data.n_completed}{budget}")
    today.metric("Today", quantity(data.today_value, data.unit))
    improvement = data.answer.improvement
    text = "unknown" if improvement is None else f"{improvement:.1%}"
    changed.metric("Better than today by", text)


def _table(data: ReportData) -> pd.DataFrame:
    rows = [asdict(run) for run in data.runs]
    flat = [
        {
            "run": row["id"],
            "from": row["source"],
            "state": row["state"],
            **row["values"],
            data.value_name: row["value"],
            "meets constraints": row["feasible"],
            "why": row["failure"] or row["reason"],
        }
        for row in rows
    ]
    return pd.DataFrame(flat)
