"""The schedule behind a run: jobs on machines over time, utilisation, waits, and machines.

Nothing is stored. The application is built from the snapshot of the experiment and simulated again;
equal configuration and seed give the same schedule.

Jobs of a schedule: the selected job, changed waits, tables, and the window of time.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import pandas as pd
import streamlit as st

from assistant.applications.extensions.placement import FleetPlacement
from assistant.applications.scheduling_futures import FUTURES
from assistant.config.snapshot import rebuild
from assistant.core.errors import ApplicationError
from assistant.core.events import ExperimentOpened
from assistant.core.experiment import Experiment
from assistant.core.ports import Application
from assistant.core.run import Run, RunState
from assistant.presentation.charts.schedule import (
    BRUSH,
    CATEGORIES,
    CHANGE_COLOURS,
    JOB,
    WAIT_COLOURS,
    ClassWaits,
    FleetDrawing,
    Frame,
    StepLine,
    WaitChange,
    curves,
    gantt,
    overview,
    panel_picture,
    wait_changes,
    waits_by_class,
)
from assistant.presentation.charts.training import TrainingCurve, learning_curve
from assistant.presentation.text.number_format import duration, number, quantity
from assistant.simtools.application_views import fleet_drawing, training_curves
from assistant.simtools.schedule import (
    MOST_POINTS,
    JobClasses,
    JobGrouping,
    JobSchedule,
    ScheduleComparison,
    ScheduledJob,
    TimeWindow,
    WindowDrawing,
    busiest,
    changes,
    classes,
    compare_schedules,
    curve,
    drawing_of,
    schedule_of,
    waits,
)
from assistant.ui import labels
from assistant.ui.charting import low
from assistant.ui.intents import sentence
from assistant.ui.pages.run_tables import difference
from assistant.ui.state import cached_application
from strategies import Level

_UNITS = ((172_800.0, "days", 86_400.0), (7_200.0, "hours", 3_600.0), (0.0, "seconds", 1.0))


def window_of(experiment_id: str, jobs: JobSchedule) -> TimeWindow:
    """Return the shown time window of a schedule, by default around the longest queue."""
    key = _window_key(experiment_id)
    stored: TimeWindow | None = st.session_state.get(key)
    window = busiest(jobs) if stored is None else stored.inside(jobs.span_s)
    if stored is None:
        st.session_state[key] = window
    return window


def go_to(experiment_id: str, window: TimeWindow) -> None:
    """Set the time window of the schedule for the next drawing."""
    key = _window_key(experiment_id)
    st.session_state[key] = window
    st.session_state[f"{key}-n"] = st.session_state.get(f"{key}-n", 0) + 1


def controls(experiment_id: str, jobs: JobSchedule, window: TimeWindow) -> None:
    """Draw a strip of the whole schedule and the fields that change the time window."""
    n = st.session_state.get(f"{_window_key(experiment_id)}-n", 0)  # a new window needs a new strip
    _strip(experiment_id, jobs, window, f"strip-{experiment_id}-{n}")
    span_s = jobs.span_s
    full_span = TimeWindow(0.0, span_s).inside(span_s)
    is_all = window.width_s >= full_span.width_s
    at_start, at_end = window.from_s <= 0, window.to_s >= full_span.to_s
    moves: tuple[tuple[str, str, Callable[[], TimeWindow], bool], ...] = (
        ("Earlier", "arrow_back", lambda: window.moved(-0.5, span_s), at_start),
        ("Later", "arrow_forward", lambda: window.moved(0.5, span_s), at_end),
        ("Zoom in", "zoom_in", lambda: window.zoomed(0.5, span_s), False),
        ("Zoom out", "zoom_out", lambda: window.zoomed(2.0, span_s), is_all),
        ("Longest queue", "hourglass_top", lambda: busiest(jobs), False),
        ("All", "width_full", lambda: full_span, is_all),
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        for name, icon, move, is_off in moves:
            st.button(
                name, icon=f":material/{icon}:", key=f"window-{name}", disabled=is_off,
                on_click=lambda move=move: go_to(experiment_id, move()),
            )  # fmt: skip
    with st.container(horizontal=True):
        _numbers(experiment_id, window, span_s, n)


def _strip(experiment_id: str, jobs: JobSchedule, window: TimeWindow, key: str) -> None:
    full_span = TimeWindow(0.0, jobs.span_s).inside(jobs.span_s)
    line = curve("all", jobs.used(), full_span, jobs.total_procs)

    def brushed() -> None:
        state: Any = st.session_state.get(key)
        times = state["selection"].get(BRUSH, {}).get("time") if state else None
        if times:
            selected = TimeWindow(min(times), max(times))
            go_to(experiment_id, selected.inside(jobs.span_s))

    st.vega_lite_chart(
        low(overview(line, window.from_s, window.to_s)), theme=None, width="stretch", key=key,
        on_select=brushed, selection_mode=[BRUSH],
        alt=f"processors in use over the whole schedule, {duration(jobs.span_s)}",
    )  # fmt: skip


def _numbers(experiment_id: str, window: TimeWindow, span_s: float, n: int) -> None:
    """Draw start and end of the window as numbers, for the keyboard and exact values."""
    unit, unit_s = next((name, size) for least, name, size in _UNITS if span_s >= least)
    keys = f"window-from-{experiment_id}-{n}", f"window-to-{experiment_id}-{n}"

    def typed() -> None:
        first, two = (st.session_state[key] * unit_s for key in keys)
        if first != two:
            go_to(experiment_id, TimeWindow(min(first, two), max(first, two)).inside(span_s))

    for label, key, value_s in zip(("From", "To"), keys, (window.from_s, window.to_s), strict=True):
        st.number_input(
            f"{label} [{unit}]", 0.0, None, value_s / unit_s, step=window.width_s / unit_s / 4,
            format="%.3f", key=key, on_change=typed, width=150,
            help="since the first submission",
        )  # fmt: skip


def _window_key(experiment_id: str) -> str:
    return f"window-{experiment_id}"


_EXTREMES = 10


def choose(experiment_id: str, job_id: int) -> None:
    """Select the job to be shown from the next drawing on."""
    st.session_state[_job_key(experiment_id)] = job_id


def panel(experiment_id: str, schedules: Mapping[int, JobSchedule], window: TimeWindow) -> None:
    """Draw the details of the selected job in each shown run."""
    key = _job_key(experiment_id)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        job_id = st.number_input(
            "Job", 0, None, None, step=1, key=key, placeholder="click one, or type",
            help="its number in the log", width=220, persist_state="session",
        )  # fmt: skip
        rows = {run_id: None if job_id is None else jobs.row_of(int(job_id)) for run_id, jobs in
                schedules.items()}  # fmt: skip
        first = next(iter(schedules))
        row = rows[first]
        job = None if row is None else schedules[first].job(row)
        st.button(
            "Show when it runs", icon=":material/my_location:", key="job-show",
            disabled=job is None or job.start_s is None,
            on_click=lambda: _show(experiment_id, schedules[first], job, window),
        )  # fmt: skip
    if job_id is None:
        return
    if job is None:
        st.warning(f"There is no job {job_id} in this log.", icon=":material/search_off:")
        return
    job_rows = [
        (run_id, schedules[run_id].job(row)) for run_id, row in rows.items() if row is not None
    ]
    st.dataframe(
        job_table(job_rows), hide_index=True, width="stretch", alt=f"details of job {job_id}"
    )


def _show(
    experiment_id: str, jobs: JobSchedule, job: ScheduledJob | None, window: TimeWindow
) -> None:
    if job is None or job.start_s is None or job.end_s is None:
        return
    middle = (job.start_s + job.end_s) / 2
    half = max(window.width_s / 2, (job.end_s - job.start_s) * 0.6)
    go_to(experiment_id, TimeWindow(middle - half, middle + half).inside(jobs.span_s))


def job_table(jobs: Sequence[tuple[int, ScheduledJob]]) -> pd.DataFrame:
    """Return the table of one job's details, with one column for each run."""
    facts: dict[str, list[str]] = {
        "": [
            "state", "submitted", "started", "ended", "waited", "ran", "requested", "processors",
            "bounded slowdown", "partition", "user",
        ],
    }  # fmt: skip
    for run_id, job in jobs:
        procs = f"{job.procs:,}"
        if job.procs != job.asked_procs:
            procs += f" instead of {job.asked_procs:,}"
        facts[f"job {job.id} in run {run_id}"] = [
            job.state,
            moment_in(job.submit_s),
            moment_in(job.start_s),
            moment_in(job.end_s),
            "never" if job.wait_s is None else quantity(job.wait_s, "s"),
            "never" if job.runtime_s is None else quantity(job.runtime_s, "s"),
            quantity(job.requested_s, "s"),
            procs,
            "none" if job.bounded_slowdown is None else number(job.bounded_slowdown),
            job.partition or "none",
            "unknown" if job.user is None else f"user {job.user}",
        ]
    return pd.DataFrame(facts)


def moment_in(seconds: float | None) -> str:
    """Format a time (s since the first submission) as text, such as ``1 d 01:01:02``.

    >>> moment_in(0.0), moment_in(90_061.5), moment_in(None)
    ('0 d 00:00:00', '1 d 01:01:02', 'never')
    """
    if seconds is None:
        return "never"
    days, rest = divmod(round(seconds), 86_400)
    return f"{days} d {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def drawn_jobs_table(run_id: int, drawing: WindowDrawing) -> None:
    """Draw the jobs of a Gantt chart as a table in an expander."""
    opened = st.expander(
        f"The {drawing.n_drawn:,} jobs of run {run_id} as a table", key=f"gantt-table-{run_id}",
        on_change="rerun",
    )  # fmt: skip
    if not opened.open:
        return
    with opened:
        frame = pd.DataFrame(
            {
                "job": box.job,
                "submitted [s]": box.submit_s,
                "started [s]": box.start_s,
                "ended [s]": box.end_s,
                "waited": box.wait,
                "processors": box.procs,
                "class": box.kind,
            }
            for box in {box.job: box for box in drawing.boxes}.values()
        )
        st.dataframe(frame, hide_index=True, width="stretch", alt=f"jobs of run {run_id}")


def wait_changes_section(
    run_id: int,
    other_id: int,
    jobs: JobSchedule,
    comparison: ScheduleComparison,
    window: TimeWindow,
) -> None:
    """Draw how the waiting times of jobs differ between a run and another run."""
    st.markdown(f"**Waits beside run {other_id}**")
    st.markdown(wait_changes_words(run_id, other_id, comparison))
    wait_differences = changes(jobs, comparison, window)
    if wait_differences:
        name = f"run {other_id}"
        st.vega_lite_chart(
            low(wait_changes(wait_differences, window.from_s, window.to_s, name)),
            theme=None, width="stretch",
            alt=f"by how much jobs of run {run_id} start later than in {name}; see the table below",
        )  # fmt: skip
        st.caption(
            "Jobs submitted in the window, by time of submission. Line: the median of a period of "
            "time. Area: 8 of 10 jobs of that period. Below 0 a job starts earlier in "
            f"run {run_id}. The scale is logarithmic beyond a minute."
        )
        with st.expander("Changes as a table"):
            st.dataframe(
                changes_table(wait_differences), hide_index=True, width="stretch",
                alt=f"by how much jobs of run {run_id} start later than in {name}",
            )  # fmt: skip
    rows = comparison.extremes(_EXTREMES).tolist()
    if not rows:
        return
    with st.expander(f"The {len(rows)} jobs that moved most"):
        st.dataframe(
            pd.DataFrame(
                {
                    "job": int(jobs.job_id[row]),
                    f"waits in run {run_id}": quantity(float(jobs.wait_s[row]), "s"),
                    "difference": difference(float(comparison.later_s[row]), "s"),
                    "submitted": moment_in(float(jobs.submit_s[row])),
                    "processors": int(jobs.procs[row]),
                }
                for row in rows
            ),
            hide_index=True, width="stretch", alt="jobs that moved most",
        )  # fmt: skip


def changes_table(changes: Sequence[WaitChange]) -> pd.DataFrame:
    """Return the table of jobs with changed waiting times, by time of submission."""
    return pd.DataFrame(
        {
            "submitted from": moment_in(change.start_s),
            "to": moment_in(change.end_s),
            "jobs": change.n,
            "1 in 10 below": difference(change.low, "s"),
            "median": difference(change.median, "s"),
            "1 in 10 above": difference(change.high, "s"),
        }
        for change in changes
    )


def wait_changes_words(run_id: int, other_id: int, comparison: ScheduleComparison) -> str:
    """Describe how many jobs start earlier or later than in another run, and by how much."""
    if comparison.mean_s is None:
        return "No job runs in both."
    (n_earlier, gain_s), (n_later, loss_s) = comparison.earlier, comparison.later
    same = comparison.n - n_earlier - n_later
    earlier = f", by {duration(gain_s)} in the mean" if n_earlier else ""
    later = f", by {duration(loss_s)} in the mean" if n_later else ""
    text = (
        f"Of {comparison.n:,} jobs {n_earlier:,} start earlier in run {run_id} than in run "
        f"{other_id}{earlier}; {n_later:,} start later{later}; {same:,} start at the same time. "
        f"The mean wait differs by {difference(comparison.mean_s, 's')}."
    )
    only = ((comparison.n_only_here, run_id), (comparison.n_only_there, other_id))
    return text + "".join(f" {n:,} jobs run in run {only_in} only." for n, only_in in only if n)


def curves_table(lines: Sequence[StepLine], queues: Sequence[StepLine]) -> None:
    """Draw the curves of the schedule as a table in an expander."""
    opened = st.expander("As a table", key="curves-table", on_change="rerun")
    if not opened.open:
        return
    with opened:
        frame = pd.DataFrame(
            {
                "what": f"{name}, {line.name}",
                "from": moment_in(at_s),
                "value": f"{value:.1%}" if name == "utilisation" else number(value),
            }
            for name, some in (("utilisation", lines), ("waiting jobs", queues))
            for line in some
            for at_s, value in line.points[:-1]
        )
        st.dataframe(frame, hide_index=True, width="stretch", alt="the curves in numbers")


def waits_table(run_id: int, waits: Sequence[ClassWaits]) -> None:
    """Draw a table of waiting times by job class."""
    with st.expander(f"Waits of run {run_id} as a table"):
        frame = pd.DataFrame(
            {
                "class": class_waits.name,
                "jobs": class_waits.n,
                "mean": _wait(class_waits.mean),
                "median": _wait(class_waits.median),
                "95 of 100 below": _wait(class_waits.p95),
                "longest": _wait(class_waits.max),
            }
            for class_waits in waits
        )
        st.dataframe(frame, hide_index=True, width="stretch", alt=f"waits of run {run_id} by class")


def _wait(seconds: float | None) -> str:
    return "no job" if seconds is None else quantity(seconds, "s")


def _job_key(experiment_id: str) -> str:
    return f"job-{experiment_id}"


def fleet_section(experiment: Experiment, run: Run) -> None:
    """Draw the machines of a completed run over time, by simulating the run again."""
    st.subheader("Schedule")
    if run.state is not RunState.COMPLETED:
        st.info(f"No picture: run {run.id} is {labels.STATES[run.state]}.", icon=":material/info:")
        return
    opened = experiment.opened
    values = tuple(experiment.space.values(run.configuration).items())
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            drawing, curves = _drawing(opened.experiment_id, values, opened)
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
    training_section(opened.experiment_id, [c for c in curves if c.name in dict(values).values()])


def training_section(experiment_id: str, curves: Sequence[TrainingCurve]) -> None:
    """Draw the trainings of schedulers."""
    if curves:
        st.subheader("Training")
    for training in curves:
        st.vega_lite_chart(
            low(learning_curve(training)), theme=None, width="stretch", alt=training.sentence,
            key=f"training-{experiment_id}-{training.name}",
        )  # fmt: skip
        st.caption(labels.escape_markdown(training.sentence))


@st.cache_resource(max_entries=16, show_spinner=False)
def _drawing(
    experiment_id: str,  # noqa: ARG001 - a part of the key
    values: tuple[tuple[str, Level], ...],
    _opened: ExperimentOpened,
) -> tuple[FleetDrawing, tuple[TrainingCurve, ...]]:
    application = rebuild(_opened)
    if not isinstance(application, FleetPlacement):
        raise ApplicationError("the application of the experiment is not a placement on machines")
    return fleet_drawing(application, dict(values))[0], training_curves(application)


_BYS: tuple[JobGrouping, ...] = get_args(JobGrouping)
_GREY = "#5b6672"
_COLOURS = {"wait": WAIT_COLOURS, "change": (*CHANGE_COLOURS, _GREY)}
_LEGENDS = {
    "wait": "waited (the longer, the darker)",
    "change": "starts, against the other run",
    "requested time": "requested",
}


def schedule_section(experiment: Experiment, run: Run, other: Run | None) -> None:
    """Draw the job schedule of a run and its differences from another run."""
    st.subheader("Schedule")
    opened = experiment.opened
    if run.state is not RunState.COMPLETED:
        st.info(f"No schedule: run {run.id} is {labels.STATES[run.state]}.", icon=":material/info:")
        return
    jobs = _schedule(experiment, run)
    if jobs is None:
        return
    futures = next((fact.text for fact in opened.facts if fact.label == FUTURES), None)
    if futures is not None:
        st.caption(f"The chart shows the first of the futures: {labels.escape_markdown(futures)}.")
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
    panel(opened.experiment_id, schedules, window)
    _over_time(schedules, window)
    if comparison is not None and other is not None:
        wait_changes_section(run.id, other.id, jobs, comparison, window)
    _waits(opened.experiment_id, schedules, window)


def _schedule(experiment: Experiment, run: Run) -> JobSchedule | None:
    opened = experiment.opened
    values = tuple(experiment.space.values(run.configuration).items())
    try:
        with st.spinner(f"Simulating run {run.id} again …"):
            key = opened.experiment_id, opened.recipe
            return _simulate_cached(key, values, run.seed, cached_application(key, opened))
    except Exception as error:
        st.info(f"No schedule: {labels.escape_markdown(sentence(error))}", icon=":material/info:")
        return None


@st.cache_resource(show_spinner=False, max_entries=6)
def _simulate_cached(
    key: tuple[str, Mapping[str, Any]],  # noqa: ARG001 - names the application
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
            "this result was imported and measured elsewhere"
            if run.source == "imported"
            else "the log, or Copperline itself, has changed since the run"
        )
        st.warning(
            f"Simulated again, run {run.id} has another {', '.join(other[:3])}: {why}. The "
            "chart shows the new simulation.",
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
        tuple((part.name, part.first) for i, part in enumerate(jobs.parts) if part.on == i),
        tuple((name, colours[i % len(colours)]) for i, name in enumerate(kinds.names)),
        _LEGENDS.get(by, by),
    )
    key = f"gantt-{experiment_id}-{run_id}"

    def clicked() -> None:
        state: Any = st.session_state.get(key)
        picked = state["selection"].get(JOB) if state else None
        if picked:
            choose(experiment_id, int(picked[0][JOB]))

    st.vega_lite_chart(
        low(gantt(drawing.boxes, drawing.shades, frame)), theme=None, width="stretch", key=key,
        on_select=clicked, selection_mode=[JOB],
        alt=f"Gantt chart of run {run_id}: {drawing.n_drawn:,} of {drawing.n_jobs:,} jobs on "
        f"{jobs.total_procs:,} processors; see the table below",
    )  # fmt: skip
    _schedule_caption(jobs, drawing, window)
    drawn_jobs_table(run_id, drawing)


def _schedule_caption(jobs: JobSchedule, drawing: WindowDrawing, window: TimeWindow) -> None:
    """Draw which jobs are shown and which are not, and that places are not simulated."""
    if drawing.n_jobs > drawing.n_drawn:
        st.info(
            f"{drawing.n_jobs:,} jobs run in this window. The {drawing.n_drawn:,} largest of them, "
            "by processors and time, are drawn; the other "
            f"{drawing.n_jobs - drawing.n_drawn:,} are shaded grey; a darker shade means more "
            "processors. Zoom in to see each job.",
            icon=":material/zoom_in:",
        )
    elif drawing.n_jobs == 0:
        st.info("No job runs in this window.", icon=":material/info:")
    text = (
        f"{drawing.n_jobs:,} jobs in {duration(window.width_s)}. Click a job to see its details. "
        "The simulator counts processors and does not number them: time and width of a job are "
        "simulated, its place is the lowest free processors."
    )
    away = jobs.n_jobs - int(jobs.ran.sum())
    instant = int((jobs.end_s == jobs.start_s).sum())
    text += f" {away:,} jobs were rejected and are not drawn." if away else ""
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
        ("Waiting jobs", queues, False),
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
            f"With too many values to draw, each point is the mean of {step}; the thin "
            "line above it is the longest queue in that time."
        )
    curves_table(lines, queues)


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
        waits_table(run_id, class_waits)
    st.caption(
        "Bar: the middle half of the jobs. Tick: the median. Dot: the mean. Line: up to the wait "
        "that 95 of 100 jobs stay below. The scale is logarithmic above a minute."
    )
