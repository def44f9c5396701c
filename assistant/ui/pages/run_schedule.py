"""The schedule behind a run: jobs on machines over time, utilisation, waits, and machines.

Nothing is stored. The application is built from the snapshot of the experiment and simulated again;
equal configuration and seed give the same schedule.
"""

import math
from typing import Any, get_args

import streamlit as st

from assistant.applications.extensions.placement import FleetPlacement
from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_futures import FUTURES
from assistant.config.snapshot import rebuild
from assistant.core.errors import ApplicationError
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.core.run import Run, RunState
from assistant.presentation.charts.schedule import (
    CATEGORIES,
    CHANGE_COLOURS,
    JOB,
    WAIT_COLOURS,
    FleetDrawing,
    Frame,
    StepLine,
    curves,
    gantt,
    panel_picture,
    waits_by_class,
)
from assistant.presentation.text.number_format import duration
from assistant.simtools.application_views import fleet_drawing
from assistant.simtools.schedule import JobSchedule, schedule_of
from assistant.simtools.schedule_view import (
    MOST_POINTS,
    JobClasses,
    JobGrouping,
    ScheduleComparison,
    TimeWindow,
    WindowDrawing,
    classes,
    compare_schedules,
    curve,
    drawing_of,
    waits,
)
from assistant.ui import labels
from assistant.ui.charting import low
from assistant.ui.intents import sentence
from assistant.ui.pages import run_jobs
from assistant.ui.pages.run_jobs import controls, window_of
from strategies import Level


def fleet_section(experiment: Experiment, run: Run) -> None:
    """Draw the machines of a run over time."""
    if run.state is not RunState.COMPLETED:
        st.info(f"No picture: run {run.id} is {run.state}.", icon=":material/info:")
        return
    opened = experiment.opened
    values = tuple(experiment.space.values(run.configuration).items())
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            drawing = _drawing(opened.experiment_id, values, opened)
    except Exception as error:
        st.info(f"No picture: {labels.escape_markdown(sentence(error))}", icon=":material/info:")
        return
    for panel in drawing.panels:
        maxima = ", ".join(f"{name} {max(series):.3g}" for name, series in panel.series.items())
        text = f"{panel.title}; at most: {maxima}"
        st.vega_lite_chart(
            low(panel_picture(panel, drawing.step_h)), theme=None, width="stretch", alt=text,
            key=f"fleet-{opened.experiment_id}-{panel.title}",
        )  # fmt: skip
        st.caption(text)


@st.cache_resource(max_entries=16, show_spinner=False)
def _drawing(
    experiment_id: str,  # noqa: ARG001 - a part of the key
    values: tuple[tuple[str, Level], ...],
    _opened: ExperimentOpened,
) -> FleetDrawing:
    application = rebuild(_opened)
    if not isinstance(application, FleetPlacement):
        raise ApplicationError("the experiment was opened over something else than machines")
    return fleet_drawing(application, dict(values))[0]


_BYS: tuple[JobGrouping, ...] = get_args(JobGrouping)
_GREY = "#5b6672"
_COLOURS = {"wait": WAIT_COLOURS, "change": (*CHANGE_COLOURS, _GREY)}
_LEGENDS = {
    "wait": "waited (the longer, the darker)",
    "change": "starts, against the other run",
    "requested time": "requested",
}


def schedule_section(experiment: Experiment, run: Run, other: Run | None) -> None:
    """Draw the schedule of a run, and its differences from another run."""
    st.subheader("Schedule")
    opened = experiment.opened
    if opened.application == FleetPlacement.name:
        fleet_section(experiment, run)
        return
    if opened.application != Scheduling.name:
        st.info(
            f"No schedule: the application {labels.escape_markdown(opened.application)} gives "
            "measures only. "
            f"Schedules are drawn where a cluster is simulated (`{Scheduling.name}`).",
            icon=":material/info:",
        )
        return
    if run.state is not RunState.COMPLETED:
        st.info(f"No schedule: run {run.id} is {run.state}.", icon=":material/info:")
        return
    jobs = _schedule(experiment, run)
    if jobs is None:
        return
    futures = next((fact.text for fact in opened.facts if fact.label == FUTURES), None)
    if futures is not None:
        st.caption(f"Drawn is the first of the futures: {labels.escape_markdown(futures)}.")
    _differs(run, jobs)
    there = None
    if other is not None and other.state is RunState.COMPLETED:
        there = _schedule(experiment, other)
    comparison = None if there is None else compare_schedules(jobs, there)
    window = window_of(opened.experiment_id, jobs)
    controls(opened.experiment_id, jobs, window)
    schedules = (
        {run.id: jobs} if there is None or other is None else {run.id: jobs, other.id: there}
    )
    _gantts(experiment, schedules, window, comparison)
    run_jobs.panel(opened.experiment_id, schedules, window)
    _over_time(schedules, window)
    if comparison is not None and other is not None:
        run_jobs.wait_changes_section(run.id, other.id, jobs, comparison, window)
    _waits(opened.experiment_id, schedules, window)


def _schedule(experiment: Experiment, run: Run) -> JobSchedule | None:
    opened = experiment.opened
    values = tuple(experiment.space.values(run.configuration).items())
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            key = opened.experiment_id, opened.recipe
            return _simulate_cached(key, values, run.seed, _cached_application(key, opened))
    except Exception as error:
        st.info(f"No schedule: {labels.escape_markdown(sentence(error))}", icon=":material/info:")
        return None


@st.cache_resource(show_spinner=False, max_entries=3)
def _cached_application(key: tuple[str, str], _opened: ExperimentOpened) -> Application:  # noqa: ARG001
    """Return the application of an experiment; only the key is hashed."""
    return rebuild(_opened)


@st.cache_resource(show_spinner=False, max_entries=6)
def _simulate_cached(
    key: tuple[str, str],  # noqa: ARG001 - names the application
    values: tuple[tuple[str, Level], ...],
    seed: int,
    _application: Application,
) -> JobSchedule:
    jobs = schedule_of(_application, dict(values), seed)
    _ = jobs.places  # compute places here once, under the spinner
    return jobs


def _differs(run: Run, jobs: JobSchedule) -> None:
    measures = {} if run.outcome is None else run.outcome.measures
    other = [
        name
        for name, value in measures.items()
        if isinstance(value, float) and isinstance(again := jobs.measures.get(name), float)
        and not math.isclose(value, again, rel_tol=1e-9, abs_tol=1e-9)
    ]  # fmt: skip
    if other:
        why = (
            "this is a result from before, measured elsewhere"
            if run.source == "imported"
            else "the log, or Copperline itself, is not what it was when the run was made"
        )
        st.warning(
            f"Simulated again, run {run.id} has another {', '.join(other[:3])}: {why}. What is "
            "drawn is the schedule of now.",
            icon=":material/difference:",
        )


def _gantts(
    experiment: Experiment,
    schedules: dict[int, JobSchedule],
    window: TimeWindow,
    comparison: ScheduleComparison | None,
) -> None:
    bys = [by for by in _BYS if by != "change" or comparison is not None]
    key = f"colour-{experiment.opened.experiment_id}-{comparison is not None}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = st.selectbox(
            "Colour by", bys, index=len(bys) - 1 if comparison is not None else 0, key=key,
            persist_state="session", width=220,
        )  # fmt: skip
        both = comparison is not None and st.toggle(
            "Draw the other run as well", key=f"{key}-both", persist_state="session"
        )
    drawn_schedules = list(schedules.items()) if both else list(schedules.items())[:1]
    for run_id, jobs in drawn_schedules:
        if len(drawn_schedules) > 1:
            st.markdown(f"**Run {run_id}**")
        kinds = classes(next(iter(schedules.values())) if by == "change" else jobs, by, comparison)
        _gantt(experiment.opened.experiment_id, run_id, jobs, window, kinds, by)


def _gantt(
    experiment_id: str,
    run_id: int,
    jobs: JobSchedule,
    window: TimeWindow,
    kinds: JobClasses,
    by: JobGrouping,
) -> None:
    drawing = drawing_of(jobs, window, kinds)
    colours = _COLOURS.get(by, CATEGORIES)
    frame = Frame(
        window.from_s,
        window.to_s,
        jobs.total_procs,
        tuple((part.name, part.first) for part in jobs.parts),
        tuple((name, colours[i % len(colours)]) for i, name in enumerate(kinds.names)),
        _LEGENDS.get(by, by),
    )
    key = f"gantt-{experiment_id}-{run_id}"

    def clicked() -> None:
        state: Any = st.session_state.get(key)
        picked = state["selection"].get(JOB) if state else None
        if picked:
            run_jobs.choose(experiment_id, int(picked[0][JOB]))

    st.vega_lite_chart(
        low(gantt(drawing.boxes, drawing.shades, frame)), theme=None, width="stretch", key=key,
        on_select=clicked, selection_mode=[JOB],
        alt=f"Gantt chart of run {run_id}: {drawing.n_drawn:,} of {drawing.n_jobs:,} jobs on "
        f"{jobs.total_procs:,} processors; see the table below",
    )  # fmt: skip
    _schedule_caption(jobs, drawing, window)
    run_jobs.drawn_jobs_table(run_id, drawing)


def _schedule_caption(jobs: JobSchedule, drawing: WindowDrawing, window: TimeWindow) -> None:
    """Draw which jobs are shown and which are not, and that places are not simulated."""
    if drawing.n_jobs > drawing.n_drawn:
        st.info(
            f"{drawing.n_jobs:,} jobs run in this window. The {drawing.n_drawn:,} largest of them, "
            "by processors and time, are drawn; the other "
            f"{drawing.n_jobs - drawing.n_drawn:,} are shaded grey: the darker, the more of the "
            "processors they take. Zoom in to see each job.",
            icon=":material/zoom_in:",
        )
    elif drawing.n_jobs == 0:
        st.info("No job runs in this window.", icon=":material/info:")
    text = (
        f"{drawing.n_jobs:,} jobs in {duration(window.width_s)}. A click on one tells about it. "
        "The simulator counts processors and does not name them: when and how wide a job ran is "
        "simulated, its place is drawn, the lowest that are free."
    )
    away = jobs.n_jobs - int(jobs.ran.sum())
    instant = int((jobs.end_s == jobs.start_s).sum())
    text += f" {away:,} jobs were turned away and are not drawn." if away else ""
    text += f" {instant:,} jobs took no time and are not drawn." if instant else ""
    st.caption(text)


def _over_time(schedules: dict[int, JobSchedule], window: TimeWindow) -> None:
    lines: list[StepLine] = []
    queues: list[StepLine] = []
    for run_id, jobs in schedules.items():
        name = f"run {run_id}" if len(schedules) > 1 else "cluster"
        parts = jobs.parts if len(schedules) == 1 and len(jobs.parts) > 1 else ()
        lines.append(curve(name, jobs.used(), window, jobs.total_procs))
        lines += [
            curve(part.name, jobs.used(i), window, part.procs) for i, part in enumerate(parts)
        ]
        queues.append(curve(name, jobs.queue, window))
    for title, curve_lines, percent in (
        ("Utilisation", lines, True),
        ("Jobs that wait", queues, False),
    ):
        st.markdown(f"**{title} over time**")
        st.vega_lite_chart(
            low(curves(curve_lines, window.from_s, window.to_s, title.lower(), percent=percent)),
            theme=None, width="stretch",
            alt=f"{title} over time: {_alt_text(curve_lines, percent)}",
        )  # fmt: skip
    if any(line.peaks for line in [*lines, *queues]):
        step = duration(window.width_s / MOST_POINTS)
        st.caption(
            f"Where there is more than can be drawn, each point is the mean of {step}; the thin "
            "line above it is the longest queue in that time."
        )
    run_jobs.curves_table(lines, queues)


def _alt_text(lines: list[StepLine], percent: bool) -> str:
    parts = []
    for line in lines:
        most = max(value for _, value in line.peaks or line.points)
        parts.append(
            f"{line.name} up to {most:.0%}" if percent else f"{line.name} up to {most:,.0f}"
        )
    return ", ".join(parts)


def _waits(experiment_id: str, schedules: dict[int, JobSchedule], window: TimeWindow) -> None:
    st.markdown("**Waits of the jobs submitted in the window**")
    by: JobGrouping = st.selectbox(
        "By", ["requested time", "processors", "partition", "user"],
        key=f"waits-{experiment_id}", persist_state="session", width=220,
    )  # fmt: skip
    each = {run_id: waits(jobs, window, classes(jobs, by)) for run_id, jobs in schedules.items()}
    most_s = max(
        (entry.max or 0.0 for class_waits in each.values() for entry in class_waits), default=0.0
    )
    for run_id, class_waits in each.items():
        if len(schedules) > 1:
            st.markdown(f"Run {run_id}")
        if not any(entry.n for entry in class_waits):
            st.info("No job was submitted in this window.", icon=":material/info:")
            continue
        st.vega_lite_chart(
            low(waits_by_class(class_waits, most_s)), theme=None, width="stretch",
            alt=f"waits of run {run_id} by {by}; see the table below",
        )  # fmt: skip
        run_jobs.waits_table(run_id, class_waits)
    st.caption(
        "Bar: the middle half of the jobs. Tick: the median. Dot: the mean. Line: up to the wait "
        "that 95 of 100 jobs stay below. The scale is logarithmic above a minute."
    )
