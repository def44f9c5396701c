"""Charts of a workload with text and table, and the comparison of a log with a generated one.

Background jobs of *Workload*: fits of models, generated workloads, and capacity plans.
"""

import io
import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pandas as pd
import streamlit as st

from assistant.presentation.charts import workload as specs
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.charts.workload import ClassShare, LoadPoint
from assistant.presentation.text.number_format import number
from assistant.simtools import (
    CapacityPlan,
    Model,
    ProfileWindow,
    Workload,
    WorkloadComparison,
    WorkloadProfile,
    load_model,
    save_model,
    write_workload,
)
from assistant.simtools import compare_workloads as compare
from assistant.simtools.capacity import plan_from_table
from assistant.simtools.workload_generation import (
    ComparisonRow,
    as_bytes,
    definitions,
    distance_rows,
    quantity_rows,
    read_drawn,
    task_words,
    verdict,
    writable_endings,
)
from assistant.simtools.workload_log import (
    DAYS,
    bin_begin,
    bin_word,
    file_name,
    log_profile,
    percentiles,
    share,
    size_classes,
    summary,
    time_classes,
)
from assistant.ui.charting import low
from assistant.ui.jobs import BackgroundJob, JobRegistry, work_folder
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.workload_log import LogSelection

_CURVES = {
    "procs": ("processors of a job", False),
    "runtime_s": ("run time", True),
    "requested_s": ("requested time", True),
    "interarrival_s": ("time between submissions", True),
}


def draw_profile(profile: WorkloadProfile) -> None:
    """Draw all charts of a workload profile."""
    _load(profile)
    _arrivals(profile)
    st.subheader("Sizes and run times")
    left, right = st.columns(2, gap="large")
    with left:
        _sizes(profile)
    with right:
        _times(profile)
    _requests(profile)
    left, right = st.columns(2, gap="large")
    with left:
        _users(profile)
    with right:
        _between(profile)
    st.subheader("Percentiles")
    table = percentile_table(profile)
    st.dataframe(table, hide_index=True, width="stretch", alt="percentiles of the jobs")


def draw_beside(first_profile: WorkloadProfile, two: WorkloadProfile) -> None:
    """Draw the distributions of two logs together, and their key figures in one table."""
    names = _two_names(first_profile.described.name, two.described.name)
    first, second = summary(first_profile), summary(two)
    rows = [{"": name, names[0]: first[name], names[1]: second[name]} for name in first]
    st.dataframe(
        pd.DataFrame(rows), hide_index=True, width="stretch", height="content",
        alt="key figures of both logs",
    )  # fmt: skip
    columns = st.columns(2, gap="large")
    for i, (key, (title, seconds)) in enumerate(_CURVES.items()):
        curves = {
            name: (profile.curves[key].values, profile.curves[key].shares)
            for name, profile in zip(names, (first_profile, two), strict=True)
            if key in profile.curves
        }
        with columns[i % 2]:
            _curves(title, curves, seconds=seconds)


def percentile_table(profile: WorkloadProfile) -> pd.DataFrame:
    """Return the table of percentiles of a workload's distributions."""
    rows = []
    for row in percentiles(profile):
        statistics = row.summary
        cells = {f"p{100 * float(q):g}": number(value) for q, value in statistics.quantiles.items()}
        name = f"{row.name} [{row.unit}]" if row.unit else row.name
        ends = {"least": number(statistics.least), **cells, "most": number(statistics.most)}
        rows.append({"": name, "mean": number(statistics.mean), **ends})
    return pd.DataFrame(rows)


def _load(profile: WorkloadProfile) -> None:
    series, stretch = profile.load, bin_word(profile.load.width_s)
    st.subheader(f"Load by {stretch}")
    begin_s = series.first_local_s or 0.0
    room = series.width_s * (profile.procs or 1)
    points = [
        LoadPoint(
            begin_s + bin_load.start_s,
            begin_s + bin_load.start_s + series.width_s,
            bin_begin(profile, bin_load.start_s),
            bin_load.n_jobs,
            bin_load.offered_proc_s / room,
            bin_load.demand_proc_s / room,
        )
        for bin_load in series.bins
    ]
    unit = "load" if profile.procs else "processors"
    spec = specs.load_over_time(
        points, dated=series.first_local_s is not None, stretch=stretch, unit=unit,
        full=profile.procs is not None,
    )  # fmt: skip
    most = max(points, key=lambda point: point.offered)
    alt = (
        f"load of {len(points)} {stretch}s; the largest load starts at {most.name}, "
        f"{number(most.offered)}{' of the capacity' if profile.procs else ' processors'}"
    )
    table = pd.DataFrame(
        {
            "from": p.name,
            "jobs": p.n_jobs,
            f"submitted [{unit}]": number(p.offered),
            f"running if no job waited [{unit}]": number(p.demand),
        }
        for p in points
    )
    caption = (
        f"Grey bars: work by {stretch} of submission. Copper line: work by time of execution if "
        "every job started at once. Where it is above the dashed line, jobs must wait."
    )
    if profile.procs is None:
        caption = (
            "The log does not contain the number of processors. Enter it above, under *Jobs and "
            "machine*, to see loads relative to it."
        )
    described_chart(low(spec), alt, table, caption)


def _arrivals(profile: WorkloadProfile) -> None:
    st.subheader("Arrivals by hour of the week")
    arrivals = profile.arrivals
    has_days = arrivals.basis != "unknown"
    days = DAYS if has_days else tuple(f"day {day + 1}" for day in range(7))
    title = f"hour ({arrivals.zone})" if has_days else "hours since the first submission of the day"
    by_day = [sum(n or 0 for n in of_day) for of_day in arrivals.counts]
    busiest = max(range(7), key=by_day.__getitem__)
    alt = (
        f"jobs by weekday and hour; most on {days[busiest]}, "
        f"{share(by_day[busiest], profile.described.n_jobs)} of them"
    )
    table = pd.DataFrame(
        {
            "day": days[day],
            **{str(hour): "" if n is None else n for hour, n in enumerate(of_day)},
            "all": by_day[day],
        }
        for day, of_day in enumerate(arrivals.counts)
        if any(n is not None for n in of_day)
    )
    described_chart(
        low(specs.hours_of_the_week(arrivals.counts, days, title)), alt, table, arrivals.sentence
    )


def _sizes(profile: WorkloadProfile) -> None:
    n_jobs = profile.described.n_jobs
    work = profile.work_proc_s or 1.0
    names = size_classes(profile)
    shares = [
        ClassShare(name, s.n_jobs / n_jobs, s.work_proc_s / work, s.n_at_most / n_jobs)
        for name, s in zip(names, profile.sizes, strict=True)
    ]
    alt = (
        f"shares of jobs and work by processors; {share(profile.n_serial, n_jobs)} of the jobs are "
        f"serial, {share(profile.n_power_of_two, n_jobs)} take a power of two"
    )
    table = pd.DataFrame(
        {
            "processors": name,
            "jobs": s.n_jobs,
            "of these at a power of two": s.n_at_most,
            "share of the jobs": share(s.n_jobs, n_jobs),
            "share of the work": share(s.work_proc_s, profile.work_proc_s),
        }
        for name, s in zip(names, profile.sizes, strict=True)
    )
    caption = "Strong copper: jobs on a power of two of processors. Faint: on any other number."
    described_chart(low(specs.classes(shares, "processors")), alt, table, caption)


def _times(profile: WorkloadProfile) -> None:
    n_jobs, work = profile.described.n_jobs, profile.work_proc_s or 1.0
    classes = list(zip(time_classes(profile), profile.times, strict=True))
    shares = [ClassShare(name, t.n_jobs / n_jobs, t.work_proc_s / work) for name, t in classes]
    most_work = max(classes, key=lambda entry: entry[1].work_proc_s)
    alt = (
        "shares of jobs and work by run time; most work is in the class "
        f"{most_work[0]} ({share(most_work[1].work_proc_s, profile.work_proc_s)})"
    )
    table = pd.DataFrame(
        {
            "run time": name,
            "jobs": t.n_jobs,
            "share of the jobs": share(t.n_jobs, n_jobs),
            "share of the work": share(t.work_proc_s, profile.work_proc_s),
        }
        for name, t in classes
    )
    caption = "Each class begins where the previous one ends."
    described_chart(low(specs.classes(shares, "run time")), alt, table, caption)


def _requests(profile: WorkloadProfile) -> None:
    st.subheader("Requested against actual run time")
    requests = profile.requests
    if requests is None:
        st.info("No requested times are known, so there is nothing to compare.")
        return
    names = time_classes(profile)
    factor = requests.factor.quantiles["0.5"]
    left, right = st.columns(2, gap="large")
    with left:
        rows = [{"requested": names[i], **dict(zip(names, of, strict=True))}
                for i, of in enumerate(requests.grid)]  # fmt: skip
        alt = (
            "jobs by requested time and run time; half of them request "
            f"{number(factor)} times their run time or more"
        )
        caption = "In the cells with a rim, jobs run about as long as requested."
        described_chart(low(specs.requests(requests.grid, names)), alt, pd.DataFrame(rows), caption)
    with right:
        tenths = [f"{10 * i}-{10 * i + 10} %" for i in range(len(requests.used))] + ["over 100 %"]
        counts = [*requests.used, requests.n_exceeded]
        alt = (
            f"jobs by how much of their request they used; {share(counts[0], requests.n_jobs)} "
            f"used up to a tenth, {share(requests.n_exceeded, requests.n_jobs)} ran longer"
        )
        table = pd.DataFrame(
            {"used of the request": name, "jobs": n, "share": share(n, requests.n_jobs)}
            for name, n in zip(tenths, counts, strict=True)
        )
        caption = f"{requests.n_left_out:,} jobs without a request of their own are left out."
        described_chart(
            low(specs.used_shares(tenths, counts)),
            alt,
            table,
            caption if requests.n_left_out else "",
        )


def _users(profile: WorkloadProfile) -> None:
    st.subheader("Users")
    users = profile.users
    if users is None:
        st.info("The log does not contain the users of its jobs.")
        return
    n_jobs, work = profile.described.n_jobs, profile.work_proc_s or 1.0
    shares = [ClassShare(str(u.user), u.n_jobs / n_jobs, u.work_proc_s / work) for u in users.top]
    alt = (
        f"share of the work of the {len(users.top)} users with the most, of {users.n_users:,}; the "
        f"first has {share(users.top[0].work_proc_s, profile.work_proc_s)}"
    )
    table = pd.DataFrame(
        {
            "user": u.user,
            "jobs": u.n_jobs,
            "share of the jobs": share(u.n_jobs, n_jobs),
            "share of the work": share(u.work_proc_s, profile.work_proc_s),
        }
        for u in users.top
    )
    spread = "" if users.gini is None else f"Gini coefficient of the work {users.gini:.2f}. "
    top = "" if users.tenth_share is None else (
        f"The top tenth of the users has {share(users.tenth_share, 1.0)} of it. ")  # fmt: skip
    unknown = f"{users.n_jobs_unknown:,} jobs have no known user." if users.n_jobs_unknown else ""
    described_chart(low(specs.users(shares)), alt, table, f"{spread}{top}{unknown}")


def _between(profile: WorkloadProfile) -> None:
    st.subheader("Time between submissions")
    curve = profile.curves.get("interarrival_s")
    if curve is None:
        st.info("There is one job only.")
        return
    caption = "" if profile.interarrival_cv is None else (
        f"The times vary {profile.interarrival_cv:.2g} times as much as those of a Poisson process "
        "(coefficient of variation); above 1, jobs come in bursts."
    )  # fmt: skip
    curves = {"": (curve.values, curve.shares)}
    _curves("time between submissions", curves, seconds=True, caption=caption)


def _curves(
    title: str,
    curves_by_name: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    seconds: bool,
    caption: str = "",
) -> None:
    unit = "s" if seconds else "processors"
    halves = [
        f"{name + ': ' if name else ''}half up to {number(_at(values, shares, 0.5))} {unit}"
        for name, (values, shares) in curves_by_name.items()
    ]
    quantiles = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    table = pd.DataFrame(
        {"share of the jobs": share(q, 1.0)}
        | {
            f"{name or title} [{unit}]": number(_at(*curve, q))
            for name, curve in curves_by_name.items()
        }
        for q in quantiles
    )
    spec: Spec = specs.curves(curves_by_name, title, seconds=seconds)
    described_chart(low(spec), f"distribution of the {title}; {'; '.join(halves)}", table, caption)


def _at(values: Sequence[float], shares: Sequence[float], quantile: float) -> float:
    """Return the smallest value whose cumulative share reaches a quantile."""
    return next(
        value for value, cumulative in zip(values, shares, strict=True) if cumulative >= quantile
    )


def _two_names(first: str, two: str) -> tuple[str, str]:
    return (first, two) if first != two else (f"{first} (above)", two)


def described_chart(spec: Spec, alt: str, table: pd.DataFrame, caption: str = "") -> None:
    """Draw a chart with its alternative text, caption and data table."""
    st.vega_lite_chart(spec, theme=None, width="stretch", alt=alt)
    if caption:
        st.caption(escape_markdown(caption))
    with st.expander("As a table"):
        st.dataframe(table, hide_index=True, width="stretch", alt=alt)


_MIMES = {".swf": "text/plain", ".jsonl": "application/jsonl"}


def draw_comparison(log: Workload, profile: WorkloadProfile, generated: Workload) -> None:
    """Draw how similar the generated workload is to the log."""
    with st.spinner("Comparing …"):
        comparison = _cached_comparison(
            _identity(log), _identity(generated), profile.procs, log, generated
        )
        other = _cached_profile(_identity(generated), profile.procs, generated)
    st.subheader("Similarity to the log")
    st.markdown("\n".join(f"- {escape_markdown(line)}" for line in verdict(comparison)))
    for sentence in (*task_words(generated), *comparison.notes):
        st.caption(escape_markdown(sentence))
    st.markdown("**Distances**")
    _distances(comparison)
    _hours(comparison)
    st.markdown("**Key figures and curves of both**")
    draw_beside(profile, other)
    st.markdown("**Quantiles, rates and load**")
    names = {
        "one": comparison.one,
        "two": comparison.two,
        "value": "generated / log",
        "interval": "interval",
    }
    _table(quantity_rows(comparison), names, "quantiles and rates of both workloads")
    with st.expander("What the figures mean"):
        st.markdown(
            "\n".join(f"- **{name}**: {escape_markdown(text)}" for name, text in definitions())
        )


def download_buttons(model: Model, workload: Workload, key: str) -> None:
    """Draw the download buttons for a generated workload and its model."""
    name = file_name(workload.name)
    with st.container(horizontal=True):
        for ending in writable_endings():
            st.download_button(
                f"Download as {ending.removeprefix('.').upper()}",
                partial(_bytes, workload, ending), file_name=f"{name}{ending}",
                mime=_MIMES.get(ending, "text/plain"), icon=":material/download:",
                on_click="ignore", key=f"{key}-get{ending}",
            )  # fmt: skip
        ending = ".zip" if model.arrays else ".json"
        st.download_button(
            "Download the model", partial(_model_bytes, model),
            file_name=f"{model.generator}{ending}",
            mime="application/zip" if model.arrays else "application/json",
            icon=":material/download:", on_click="ignore", key=f"{key}-get-model",
        )  # fmt: skip


def _distances(comparison: WorkloadComparison) -> None:
    names = {"value": "distance", "interval": "interval", "usual": "usual between days of the log"}
    _table(
        distance_rows(comparison), names, "distances between the distributions of both workloads"
    )


def _table(rows: Iterable[ComparisonRow], names: dict[str, str], alt: str) -> None:
    table = pd.DataFrame(
        {"": row.quantity, **{title: getattr(row, name) or "-" for name, title in names.items()},
         "verdict": row.verdict}
        for row in rows
    )  # fmt: skip
    st.dataframe(table, hide_index=True, width="stretch", height="content", alt=alt)


def _hours(comparison: WorkloadComparison) -> None:
    names = (
        comparison.one,
        comparison.two if comparison.two != comparison.one else f"{comparison.two} (generated)",
    )
    shares = dict(zip(names, comparison.hours, strict=True))
    table = pd.DataFrame(
        {"hour": hour, **{name: share(of[hour], 1.0) for name, of in shares.items()}}
        for hour in range(24)
    )
    busiest = [max(range(24), key=of.__getitem__) for of in comparison.hours]
    alt = (
        f"share of the jobs by hour of the day; {names[0]} is busiest from {busiest[0]} to "
        f"{busiest[0] + 1} h, {names[1]} from {busiest[1]} to {busiest[1] + 1} h"
    )
    st.markdown("**Hours of the day**")
    described_chart(low(specs.hours_of_the_day(shares)), alt, table)


def _bytes(workload: Workload, ending: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        return as_bytes(workload, ending, Path(folder))


def _model_bytes(model: Model) -> bytes:
    with tempfile.TemporaryDirectory(prefix="copperline-") as folder:
        path = Path(folder) / f"{model.generator}.json"
        save_model(model, path)
        if not model.arrays:
            return path.read_bytes()
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as into:
            for file in sorted(Path(folder).iterdir()):
                into.write(file, file.name)
        return packed.getvalue()


def _identity(log: Workload) -> tuple[object, ...]:
    return log.name, log.digest, log.max_procs, log.start_unix_s, log.time_zone


@st.cache_resource(max_entries=4, show_spinner=False)
def _cached_comparison(
    log_key: tuple[object, ...],  # noqa: ARG001 - a part of the key
    two: tuple[object, ...],  # noqa: ARG001 - a part of the key
    procs: int | None,
    _log: Workload,
    _generated: Workload,
) -> WorkloadComparison:
    return compare(_log, _generated, procs=procs)


@st.cache_resource(max_entries=4, show_spinner=False)
def _cached_profile(
    identity: tuple[object, ...],  # noqa: ARG001 - a part of the key
    procs: int | None,
    _log: Workload,
) -> WorkloadProfile:
    return log_profile(_log, ProfileWindow(), procs, None)


MOST_GENERATION_JOBS = 8

_OWNER = "workload-state-owner"

Failed = Literal["refused", "stopped", "broken"]


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Request to fit a workload model to the log and window that ``log`` identifies."""

    generator: str
    knobs: tuple[tuple[str, float], ...]
    log: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """Request to generate a workload, where equal requests give equal workloads."""

    model: str
    settings: str
    days: float
    seed: int
    scale: float


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Result of fitting a model or generating a workload; ``notes`` name parts not written."""

    wish: FitRequest | GenerationRequest
    state: Literal["done", "refused", "stopped", "broken"]
    model: Model | None = None
    workload: Workload | None = None
    sentence: str = ""
    notes: tuple[str, ...] = ()


class FitJob(BackgroundJob):
    """Background fit of a workload model, which raises OSError or SimError if it cannot start."""

    def __init__(self, wish: FitRequest, selection: LogSelection, window: ProfileWindow) -> None:
        folder = work_folder("copperline-fit-")
        self._wish, self._model = wish, Path(folder.name) / "model.json"
        log = log_file(selection, Path(folder.name))
        command = ["workload", "fit", wish.generator, log, "--to", str(self._model), "--json"]
        for name, value in wish.knobs:
            command += ["--knob", f"{name}={value!r}"]
        for rule, choice in selection.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        command += ["--leave-out", str(window.leave_out), "--from", seconds_argument(window.from_s)]
        if window.to_s is not None:
            command += ["--until", seconds_argument(window.to_s)]
        super().__init__([command], folder)

    def result(self) -> GenerationResult | None:
        """Return the model (only once) and remove the files, or None while the fit goes on."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failure_result(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            return failed or GenerationResult(self._wish, "done", load_model(self._model))
        finally:
            self.close()


class GenerationJob(BackgroundJob):
    """Background generation of a workload, which raises OSError if it cannot start."""

    def __init__(self, wish: GenerationRequest, model: Model) -> None:
        folder = work_folder("copperline-draw-")
        file = Path(folder.name) / "model.json"
        save_model(model, file)
        target = Path(folder.name) / f"{model.generator}-seed-{wish.seed}"
        self._wish, self._model = wish, model
        command = [
            "workload", "generate", str(file), "--to", str(target), "--json",
            "--duration", seconds_argument(wish.days * 86_400.0), "--seed", str(wish.seed),
            "--scale", repr(wish.scale),
        ]  # fmt: skip
        for setting in json.loads(wish.settings):
            command += ["--set", setting]
        super().__init__([command], folder)

    def result(self) -> GenerationResult | None:
        """Return the workload (only once) and remove the files, or None while running."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = _failure_result(self._wish, ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return failed
            output = json.loads(ended.out)
            workload = read_drawn(Path(output["file"]))
            return GenerationResult(
                self._wish, "done", self._model, workload, notes=tuple(output["not_written"])
            )
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def generation_jobs() -> JobRegistry[GenerationResult]:
    """Return the registry of model fits and workload generations of this process."""
    return JobRegistry(MOST_GENERATION_JOBS)


def job_owner(kind: str) -> str:
    """Return the owner key of this browser in the job registry, for a kind of job."""
    name: str = st.session_state.setdefault(_OWNER, uuid4().hex)
    return f"{name}-{kind}"


def settings_text(settings: Mapping[str, Any], more: Sequence[str]) -> str:
    """Combine field values and typed ``name=value`` lines into a JSON list of such lines."""
    lines = [f"{name}={json.dumps(value)}" for name, value in settings.items()]
    return json.dumps([*lines, *more])


def _failure_result(
    wish: FitRequest | GenerationRequest, code: int, last_word: str, *, stopped: bool
) -> GenerationResult | None:
    reason = failure_reason(code, last_word, stopped=stopped)
    return None if reason is None else GenerationResult(wish, reason[0], sentence=reason[1])


def failure_reason(code: int, last_word: str, *, stopped: bool) -> tuple[Failed, str] | None:
    """Return the state (such as ``stopped``) and message of a failed command, None on success."""
    if stopped:
        return "stopped", ""
    if code == 0:
        return None
    if code == 2:
        return "refused", f"{last_word[:1].upper()}{last_word[1:]}"
    return "broken", (
        f"Something in Copperline went wrong: it ended with exit code {code}; its last line: "
        f"{last_word}"
    )


def log_file(selection: LogSelection, folder: Path) -> str:
    """Return the path of a job log's file, writing one into the folder if necessary."""
    if selection.path is not None:
        return str(Path(selection.path).absolute())
    if selection.upload is not None:
        path = folder / file_name(selection.upload[0])
        path.write_bytes(selection.upload[1])
    else:
        path = folder / f"{file_name(selection.log.name)}.swf"
        write_workload(selection.log, path)
    return str(path)


def seconds_argument(number: float) -> str:
    """Format a number of seconds as a command-line argument, such as ``1.500000s``."""
    return f"{number:.6f}s"


MOST_PLANS = 4


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Request for a capacity plan, where equal requests give equal plans.

    Args:
        mem_bytes: memory of a server; 0 ignores memory.
        days: length of each future.
        share: share of the futures in which the servers must suffice.
        scales: factors of the load, one case each.
        settings: changes of the model, ``NAME=VALUE``.
        log: identity of the log and its window.
    """

    generator: str
    cores: int
    mem_bytes: int
    days: float
    futures: int
    share: float
    scales: tuple[str, ...]
    settings: tuple[str, ...]
    seed: int
    log: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Result of computing a capacity plan: the plan, or the reason for its absence."""

    wish: PlanRequest
    state: Literal["done", "refused", "stopped", "broken"]
    plan: CapacityPlan | None = None
    sentence: str = ""


class PlanJob(BackgroundJob):
    """Background capacity planning, which raises OSError or SimError if it cannot start."""

    def __init__(self, wish: PlanRequest, selection: LogSelection, window: ProfileWindow) -> None:
        folder = work_folder("copperline-capacity-")
        self._wish = wish
        command = [
            "workload", "capacity", log_file(selection, Path(folder.name)), "--json",
            "--generator", wish.generator, "--cores-per-server", str(wish.cores),
            "--days", repr(wish.days), "--futures", str(wish.futures),
            "--share", repr(wish.share), "--seed", str(wish.seed),
            "--leave-out", str(window.leave_out), "--from", seconds_argument(window.from_s),
        ]  # fmt: skip
        if window.to_s is not None:
            command += ["--until", seconds_argument(window.to_s)]
        if wish.mem_bytes:
            command += ["--memory-per-server", str(wish.mem_bytes)]
        for scale in wish.scales:
            command += ["--scale", scale]
        for setting in wish.settings:
            command += ["--set", setting]
        for rule, choice in selection.reading.items():
            command += ["--reading", f"{rule}={choice}"]
        super().__init__([command], folder)

    def result(self) -> PlanResult | None:
        """Return the plan (only once) and remove the files, or None while the job goes on."""
        ended = self.ended()
        if ended is None:
            return None
        try:
            failed = failure_reason(ended.code, ended.last_word, stopped=ended.stopped)
            if failed is not None:
                return PlanResult(self._wish, failed[0], sentence=failed[1])
            return PlanResult(self._wish, "done", plan_from_table(json.loads(ended.out)))
        finally:
            self.close()


@st.cache_resource(max_entries=1, show_spinner=False)
def plan_jobs() -> JobRegistry[PlanResult]:
    """Return the registry of capacity plan jobs of this process."""
    return JobRegistry(MOST_PLANS)
