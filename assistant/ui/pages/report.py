"""The *Report* page: results, changes, evidence, and files to download."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from assistant.config.snapshot import (
    ClusterSystem,
    cluster_settings,
    group_waits,
    report_content,
    trainings,
)
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.presentation.report.data import (
    GroupWaits,
    MeasureRow,
    ReportSummary,
    class_rows,
    summarise,
)
from assistant.presentation.report.forms import FORMS, downloaded
from assistant.presentation.text.number_format import cell
from assistant.ui import labels
from assistant.ui.intents import Intent, sentence
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.overview_results import front_table, runs_table
from assistant.ui.pages.run_schedule import training_section
from assistant.ui.state import ExperimentView, cached_application


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
    labelled = {form.label: form for form in FORMS}
    chosen = st.segmented_control(
        "Form of the report", list(labelled), required=True, default="HTML", key="report-form"
    )
    form = labelled[chosen or "HTML"]
    missing = form.missing()
    with st.container(horizontal=True):
        st.download_button(
            f"Download the report ({form.label})",
            lambda: downloaded(
                report_content(
                    experiment, view_model.session.events(), state=state,
                    application=lambda: _application(experiment),
                ),
                form.ending,
            ).body,
            file_name=f"{data.experiment_id}{form.download}",
            mime=form.media_type,
            type="primary",
            icon=":material/download:",
            on_click="ignore",
            disabled=missing is not None,
            key="download-report",
        )  # fmt: skip
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
    if missing is None:
        st.caption(
            f"{form.label}: {form.summary}. For Optuna or MLflow: `copperline report "
            f"{data.experiment_id} --optuna sqlite:///study.db`, or `--mlflow ADDRESS`."
        )
    else:
        st.warning(escape_markdown(f"{missing[:1].upper()}{missing[1:]}."))
    _cluster_settings(experiment)
    _tables(data, experiment)
    _waits(experiment)
    _trainings(experiment)
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


_SETTINGS: Mapping[str, Mapping[str, tuple[ClusterSystem, str]]] = {
    "scheduling": {"slurm.conf": ("slurm", "conf"), "Kubernetes": ("kubernetes", "yaml")},
    "placement": {"Kubernetes": ("kubernetes", "yaml")},
}
"""Real clusters for which a configuration is written, by application; the ending of its file."""


def _cluster_settings(experiment: Experiment) -> None:
    """Show on demand what to change on a real cluster for the best configuration."""
    systems = _SETTINGS.get(experiment.opened.application, {})
    if not systems or experiment.best is None:
        return
    chosen = st.segmented_control(
        "What to change on the cluster", list(systems), key="report-cluster",
        help="The best configuration as lines of slurm.conf or objects of Kubernetes, with the "
        "expected effect and what is not simulated.",
    )  # fmt: skip
    if chosen is None:
        return
    system, ending = systems[chosen]
    try:
        text = cluster_settings(experiment, system, application=lambda: _application(experiment))
    except AssistantError as error:
        st.info(escape_markdown(sentence(error)))
        return
    st.code(text, language="yaml" if ending == "yaml" else "ini", height=320)
    st.download_button(
        f"Download it ({chosen})", text, f"{experiment.opened.experiment_id}.{ending}",
        "text/plain", key="download-cluster", icon=":material/download:", on_click="ignore",
    )  # fmt: skip


def _classes(experiment: Experiment) -> None:
    classes = class_rows(experiment)
    if classes:
        st.subheader("Who gains and who loses")
        _compared("mean wait of", classes)


def _waits(experiment: Experiment) -> None:
    """Show who gains and who loses by user and by partition, which a simulation tells."""
    if not class_rows(experiment):
        return
    best, baseline = experiment.best, experiment.baseline
    runs = tuple(run.id for run in (best, baseline) if run is not None)
    with st.spinner("Simulating the current and the best configuration again …"):
        groups = _groups(
            (experiment.opened.experiment_id, experiment.opened.recipe, runs), experiment
        )
    if groups.missing:
        st.info(escape_markdown(f"{groups.missing[:1].upper()}{groups.missing[1:]}."))
    for table in groups.tables:
        st.subheader(f"Who gains and who loses, by {table.group}")
        _compared(f"mean wait of the jobs of a {table.group}", table.rows)
        st.caption(table.note)


def _trainings(experiment: Experiment) -> None:
    """Show how the trained schedulers among the levels became what they are."""
    curves = trainings(experiment, lambda: _application(experiment))
    training_section(experiment.opened.experiment_id, curves)


@st.cache_resource(show_spinner=False, max_entries=8)
def _groups(
    key: tuple[str, Mapping[str, Any], tuple[int, ...]],  # noqa: ARG001 - names the runs
    _experiment: Experiment,
) -> GroupWaits:
    return group_waits(_experiment, lambda: _application(_experiment))


def _application(experiment: Experiment) -> Application:
    opened = experiment.opened
    return cached_application((opened.experiment_id, opened.recipe), opened)


def _compared(name: str, rows: Sequence[MeasureRow]) -> None:
    cells = [(row.name, row.baseline or "unknown", row.best, row.change) for row in rows]
    table = pd.DataFrame(cells, columns=[name, "current", "best", "change"])
    if all(row.baseline is None for row in rows):
        table = table[[name, "best"]]
    st.dataframe(table, hide_index=True, width="stretch", alt=name)


def runs_csv(experiment: Experiment) -> str:
    """Return the table of runs as CSV, with texts protected against formula injection."""
    table = runs_table(experiment).map(
        lambda content: cell(content) if isinstance(content, str) else content
    )
    return table.rename(columns=cell).to_csv(index=False)


def _tables(data: ReportSummary, experiment: Experiment) -> None:
    if data.changes:
        has_current = any(change.baseline is not None for change in data.changes)
        st.subheader("Current and best" if has_current else "Best configuration")
        rows = [
            {
                "parameter": change.parameter,
                "current": change.baseline,
                "best": change.best,
                "change": "yes" if change.differs else "none",
                "description": change.description,
            }
            for change in data.changes
        ]
        table = pd.DataFrame(rows)
        if not has_current:
            table = table.drop(columns=["current", "change"])
        if not any(table["description"]):
            table = table.drop(columns="description")
        st.dataframe(table, hide_index=True, width="stretch", alt="current and best")
    _classes(experiment)
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
        _compared("measure", data.measures)
