"""Jobs of a schedule: the selected job, changed waits, tables, and the window of time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from assistant.presentation.charts.schedule import (
    BRUSH,
    ClassWaits,
    StepLine,
    WaitChange,
    overview,
    wait_changes,
)
from assistant.presentation.text.number_format import duration, number, quantity
from assistant.simtools.schedule import JobSchedule, ScheduledJob
from assistant.simtools.schedule_view import (
    ScheduleComparison,
    TimeWindow,
    WindowDrawing,
    busiest,
    changes,
    curve,
)
from assistant.ui.charting import low
from assistant.ui.pages.run_tables import difference

_UNITS = ((172_800.0, "days", 86_400.0), (7_200.0, "hours", 3_600.0), (0.0, "seconds", 1.0))


def window_of(experiment_id: str, jobs: JobSchedule) -> TimeWindow:
    """Return the window of time; by default it surrounds the longest queue."""
    key = _window_key(experiment_id)
    stored: TimeWindow | None = st.session_state.get(key)
    window = busiest(jobs) if stored is None else stored.inside(jobs.span_s)
    if stored is None:
        st.session_state[key] = window
    return window


def go_to(experiment_id: str, window: TimeWindow) -> None:
    """Show another window from the next drawing on."""
    key = _window_key(experiment_id)
    st.session_state[key] = window
    st.session_state[f"{key}-n"] = st.session_state.get(f"{key}-n", 0) + 1


def controls(experiment_id: str, jobs: JobSchedule, window: TimeWindow) -> None:
    """Draw the strip of the whole schedule and the fields that change the window."""
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
    """Select the job that is shown from the next drawing on."""
    st.session_state[_job_key(experiment_id)] = job_id


def panel(experiment_id: str, schedules: Mapping[int, JobSchedule], window: TimeWindow) -> None:
    """Draw the facts of one job in each shown run."""
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
        job_table(job_rows), hide_index=True, width="stretch", alt=f"what is known of job {job_id}"
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
    """Return the table of a job, with one column for each run."""
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
    """Return a time of a schedule in words, counted from the first submission.

    >>> moment_in(0.0), moment_in(90_061.5), moment_in(None)
    ('0 d 00:00:00', '1 d 01:01:02', 'never')
    """
    if seconds is None:
        return "never"
    days, rest = divmod(round(seconds), 86_400)
    return f"{days} d {rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def drawn_jobs_table(run_id: int, drawing: WindowDrawing) -> None:
    """Draw the jobs of a Gantt chart as a table, once it is opened."""
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
    """Draw the changes of waits against another run."""
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
            "By time of submission, for the jobs submitted in the window. Line: the median of a "
            "stretch of time; 8 of 10 of its jobs lie in the area. Below 0 a job starts earlier in "
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
    """Return the table of changed waits, by time of submission."""
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
    """Return in words how many jobs start earlier and later in the schedule, and by how much."""
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
    """Draw the curves as a table, once it is opened."""
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
            for name, some in (("utilisation", lines), ("jobs that wait", queues))
            for line in some
            for at_s, value in line.points[:-1]
        )
        st.dataframe(frame, hide_index=True, width="stretch", alt="the curves in numbers")


def waits_table(run_id: int, waits: Sequence[ClassWaits]) -> None:
    """Draw waits by class as a table."""
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
