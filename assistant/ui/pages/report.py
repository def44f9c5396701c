"""The *Report* page: results, changes, evidence, and files to download."""

import pandas as pd
import streamlit as st

from assistant.core.experiment import Experiment
from assistant.presentation.report.data import ReportSummary, collect, summarise
from assistant.presentation.report.html import render_html
from assistant.presentation.text.number_format import cell
from assistant.ui import labels
from assistant.ui.intents import Intent
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.overview_results import front_table, runs_table
from assistant.ui.state import ExperimentView


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the report page of an experiment, which offers no actions."""
    state = view_model.snapshot.state
    data = summarise(experiment)
    has_result = data.answer.verdict not in ("nothing_feasible", "no_runs")
    show = st.success if has_result else st.warning
    sentences = [*data.answer.sentences]
    if data.recommendation is not None:
        sentences.append(data.recommendation.sentence)
    show(f"**{data.answer.headline}**\n\n" + "\n\n".join(sentences))
    with st.container(horizontal=True):
        st.download_button(
            "Download the report (HTML)",
            lambda: render_html(collect(experiment, view_model.session.events(), state=state)),
            file_name=f"{data.experiment_id}.html",
            mime="text/html",
            type="primary",
            icon=":material/download:",
            on_click="ignore",
            key="download-report",
        )
        st.download_button(
            "Download the runs (CSV)",
            lambda: runs_csv(experiment),
            file_name=f"{data.experiment_id}.csv",
            mime="text/csv",
            icon=":material/table:",
            on_click="ignore",
            disabled=not experiment.runs,
            key="download-runs",
        )
    st.caption("The report is one file: it opens without Copperline and without a network.")
    _tables(data)
    st.subheader("Basis of this report")
    for fact in data.facts:
        st.markdown(f"**{escape_markdown(fact.label)}**: {escape_markdown(fact.text)}")
    limits = "; ".join(data.constraints) or "none"
    st.markdown(
        f"**Objective**: {escape_markdown(data.objective)}. "
        f"**Constraints**: {escape_markdown(limits)}."
    )
    st.markdown(f"**Strategy**: {escape_markdown(data.strategy)}. **Seed**: {data.seed}.")
    return None


def runs_csv(experiment: Experiment) -> str:
    """Return the table of runs as CSV, with texts protected against formula injection."""
    table = runs_table(experiment).map(
        lambda content: cell(content) if isinstance(content, str) else content
    )
    return table.rename(columns=cell).to_csv(index=False)


def _tables(data: ReportSummary) -> None:
    if data.changes:
        st.subheader("Current and best")
        rows = [
            {
                "parameter": change.parameter,
                "current": change.baseline or "unknown",
                "best": change.best,
                "change": "yes" if change.differs else "none",
                "description": change.description,
            }
            for change in data.changes
        ]
        st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="current and best")
    if data.sla:
        st.subheader("SLA")
        rows = [
            {"term": use.title, "value": use.agreed, "used": use.used_text, "state": use.verdict}
            for use in data.sla
        ]
        st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="sla")
    if data.front:
        title = labels.measure_title(data.value_name, data.unit)
        also = labels.measure_title(data.second_name or "", data.second_unit)
        st.subheader(escape_markdown(f"Pareto front: {data.value_name} against {data.second_name}"))
        st.dataframe(
            front_table(data.front, title, also), hide_index=True, width="stretch", alt="the front"
        )
    if data.measures:
        st.subheader("Measures")
        rows = [
            {
                "measure": row.name,
                "current": row.baseline or "unknown",
                "best": row.best,
                "change": row.change,
            }
            for row in data.measures
        ]
        st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="measures")
