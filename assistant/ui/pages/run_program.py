"""The program behind a run on the *Run* page: command, output, exit, and its measures over time."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import join
from typing import Any, Literal

import streamlit as st

from assistant.applications.program import Program
from assistant.config.snapshot import rebuild
from assistant.core.errors import AssistantError
from assistant.core.events import ExperimentOpened, RunReported
from assistant.core.experiment import Experiment
from assistant.core.objective import Measure
from assistant.core.run import Run, RunState
from assistant.presentation.charts.vega_lite import MeasuredMoment, measure_over_time
from assistant.presentation.tables.queue import age_words
from assistant.presentation.text.number_format import duration
from assistant.ui import labels
from assistant.ui.charting import wide
from assistant.ui.intents import sentence
from assistant.ui.pages.run_tables import measure_unit, measures_table
from assistant.ui.state import ExperimentView
from strategies import Level

EVERY_S = 2.0
_ENDED = (RunState.COMPLETED, RunState.FAILED)
_LAST_OUTPUT = "; its last output: "


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """Stored output of a run; ``is_whole`` is False where only its last lines are stored."""

    stdout: str
    stderr: str
    is_whole: bool


def stored_output(view_model: ExperimentView, run: Run) -> ProgramOutput | None:
    """Return the output of a run; of an older store the last lines of a failed one."""
    output = view_model.session.output(run.id) if run.state in _ENDED else None
    if output is not None:
        return ProgramOutput(output.stdout, output.stderr, is_whole=True)
    _, separator, lines = (run.failure or "").partition(_LAST_OUTPUT)
    return ProgramOutput("", lines, is_whole=False) if separator else None


def program_section(view_model: ExperimentView, experiment: Experiment, run: Run) -> None:
    """Draw the command of a run, how it ended, and its output."""
    st.subheader("Program", anchor=False)
    values = tuple(experiment.space.values(run.configuration).items())
    opened = experiment.opened
    try:
        st.code(
            _command_line((opened.experiment_id, opened.recipe), values, run.seed, opened),
            language=None, wrap_lines=True,
        )  # fmt: skip
    except Exception as error:
        st.caption(f"Its command cannot be shown: {labels.escape_markdown(sentence(error))}")
    facts = {fact.label: fact.text for fact in opened.facts}
    parts = [_end_words(run)]
    parts += [f"{name.lower()}: {facts[name]}" for name in ("Folder", "Limit") if name in facts]
    parts += [f"measures from {facts['Measures']}"] if "Measures" in facts else []
    st.caption(labels.escape_markdown(". ".join(p[:1].upper() + p[1:] for p in parts) + "."))
    output = stored_output(view_model, run)
    if output is None:
        return
    for name, text in (("Output", output.stdout), ("Errors", output.stderr)):
        if text:
            st.markdown(f"**{name}**" if output.is_whole else f"**{name}**, the last lines")
            st.code(text, language=None, wrap_lines=True, height=_height(text))


def _height(text: str) -> int | Literal["content"]:
    return 360 if text.count("\n") > 14 else "content"


def _end_words(run: Run) -> str:
    if run.state in (RunState.QUEUED, RunState.RUNNING):
        return f"it is {labels.STATES[run.state]}"
    took = "" if run.duration_s is None else f" after {duration(run.duration_s)}"
    if run.state is RunState.COMPLETED:
        return f"stopped early{took}" if run.stopped is not None else f"ended well{took}"
    return f"{labels.STATES[run.state]}{took}"


@st.cache_resource(show_spinner=False, max_entries=64)
def _command_line(
    key: tuple[str, Mapping[str, Any]],  # noqa: ARG001 - names the application
    values: tuple[tuple[str, Level], ...],
    seed: int,
    _opened: ExperimentOpened,
) -> str:
    application = rebuild(_opened)
    if not isinstance(application, Program):
        raise AssertionError("the recipe of an experiment makes its application")
    return join(application.command_line(dict(values), seed))


# -- measures over time ----------------------------------------------------------------------------


@st.fragment(run_every=EVERY_S)
def live_measures(view_model: ExperimentView, run_id: int) -> None:
    """Draw the intermediate results of a running run, renewed every few seconds."""
    try:
        view_model.session.catch_up()
    except AssistantError as error:
        st.warning(f"The progress cannot be read: {labels.escape_markdown(str(error))}.")
        return
    experiment = view_model.session.experiment
    run = experiment.run(run_id)
    if run.state is not RunState.RUNNING:
        st.rerun()  # the page of an ended run is different
    if run.reported is None:
        st.caption("It has no intermediate result so far.")
        return
    age = age_words(run, view_model.session.now_s())
    st.markdown(f"**Intermediate result**, {age}")
    st.dataframe(
        measures_table(experiment, run), hide_index=True, width="stretch",
        alt=f"intermediate measures of run {run_id}",
    )  # fmt: skip
    measures_section(view_model, experiment, run)


def measures_section(view_model: ExperimentView, experiment: Experiment, run: Run) -> None:
    """Draw a measure of a run over time, from its intermediate results; nothing without two."""
    if run.reported is None or run.started_s is None:
        return
    reports = _reports(view_model, run)
    if len(reports) < 2:
        return
    names = _numeric(experiment, [measures for _, measures in reports])
    if not names:
        return
    name = names[0]
    if len(names) > 1:
        name = st.selectbox(
            "Measure over time", names, key=f"run-measure-{experiment.opened.experiment_id}",
            width=320, persist_state="session",
        )  # fmt: skip
    start_s, unit = run.started_s, measure_unit(experiment, name)
    moments = [
        MeasuredMoment(at_s - start_s, float(value))
        for at_s, measures in reports
        if isinstance(value := measures.get(name), int | float)
    ]
    title = labels.measure_title(name, unit)
    st.vega_lite_chart(
        wide(measure_over_time(moments, title)), theme=None, width="stretch",
        alt=f"{title} of run {run.id} over time, {len(moments)} intermediate results",
    )  # fmt: skip


_READ_AGAIN_S = 10.0  # Seconds for which the intermediate results of a running run are reused


@dataclass(frozen=True, slots=True)
class _ReadReports:
    experiment_id: str
    run: Run
    read_s: float
    reports: tuple[tuple[float, Mapping[str, Measure]], ...]

    def is_good(self, experiment_id: str, run: Run, now_s: float) -> bool:
        """Return whether they are those of the run, or of it some seconds ago while it runs."""
        if (self.experiment_id, self.run.id) != (experiment_id, run.id):
            return False
        is_recent = run.state is RunState.RUNNING and now_s - self.read_s < _READ_AGAIN_S
        return is_recent or (self.run.state, self.run.reported_s) == (run.state, run.reported_s)


def _reports(view_model: ExperimentView, run: Run) -> Sequence[tuple[float, Mapping[str, Measure]]]:
    """Return the intermediate results of a run with their times, from the event log."""
    experiment_id, now_s = view_model.experiment.opened.experiment_id, time.monotonic()
    latest: _ReadReports | None = st.session_state.get("run-reports")
    if latest is None or not latest.is_good(experiment_id, run, now_s):
        reports = tuple(
            (event.at_s, event.measures)
            for event in view_model.session.events()
            if isinstance(event, RunReported) and event.run_id == run.id
        )
        latest = _ReadReports(experiment_id, run, now_s, reports)
        st.session_state["run-reports"] = latest
    return latest.reports


def _numeric(experiment: Experiment, results: Sequence[Mapping[str, Measure]]) -> list[str]:
    """Return the measures that are numbers, those of the objective first."""
    numbers = {
        name for measures in results for name, value in measures.items()
        if isinstance(value, int | float)
    }  # fmt: skip
    first = [name for name in experiment.opened.objective.measures if name in numbers]
    return [*first, *sorted(numbers.difference(first))]
