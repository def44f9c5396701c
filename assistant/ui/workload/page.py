"""Workload: what a job log holds, before anything is simulated."""

import zoneinfo
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import streamlit as st

from assistant.applications.workloads import (
    Window,
    Workload,
    WorkloadProfile,
    days_of,
    highlights,
    look,
    profile_csv,
    share,
    window_of_days,
)
from assistant.report.words import duration
from assistant.ui.intents import FieldError, Intent, answer_at, sentence
from assistant.ui.new import fields
from assistant.ui.new.form import Form
from assistant.ui.words import plain
from assistant.ui.workload import capacity, generate
from assistant.ui.workload import drawing as charts
from assistant.ui.workload.generate import Shown
from assistant.ui.workload.log import Chosen, choose

_KEY = "workload"
_THIS, _MAKE, _PLAN = "This log", "Generate and compare", "Capacity"
_DAY_S = 86_400.0
_MOST_PROCS = 10**12
LOGS = Path("copperline-out") / "logs"
"""Where an uploaded log is kept if a sweep shall use it, unless the person says otherwise."""


def page(chosen: str | None = None) -> Intent | None:
    """Draw the page. Returns the wish to tune the scheduler for the log, if there is one.

    Args:
        chosen: path of the log of the open experiment, which is shown first.
    """
    st.subheader("Workload")
    found = choose(_KEY, chosen)
    if found is None:
        return None
    try:
        window, procs, zone = _which(found.log)
        with st.spinner("Counting …"):
            seen = _seen(_identity(found.log), window, procs, zone, found.log)
    except Exception as error:
        st.error(plain(sentence(error)), icon=":material/error:")
        return None
    _glance(found.log, seen)
    intent = _acts(found, seen, is_part=window != Window())
    _notes(found.log)
    view = st.segmented_control(
        "View", [_THIS, _MAKE, _PLAN], key=f"{_KEY}-view", default=_THIS, required=True,
        persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view != _THIS:
        identity = (*_identity(found.log), window)
        shown = Shown(found, window, window.of(found.log), seen, identity)
        section = generate.section if view == _MAKE else capacity.section
        return intent or section(shown)
    charts.draw(seen)
    _compare(seen)
    return intent


def _which(log: Workload) -> tuple[Window, int | None, str | None]:
    """Draw which jobs are looked at, and against which machine."""
    mark = f"{_KEY}-{log.digest[:12]}"
    with st.expander("Which jobs, and on which machine"):
        left, middle, right = st.columns(3)
        n_out = left.number_input(
            "First jobs to leave out", 0, log.n_jobs - 1, 0, key=f"{mark}-out",
            persist_state="session",
            help="A machine that starts empty is not yet what it will be: leave its warm-up out.",
        )  # fmt: skip
        procs = middle.number_input(
            "Processors of the machine", 1, _MOST_PROCS, log.max_procs, key=f"{mark}-procs",
            placeholder="unknown", persist_state="session",
            help="What loads are told against; first what the log says.",
        )  # fmt: skip
        zone = None
        if log.start_unix_s is not None:
            own = log.time_zone or "UTC, as the log does not say"
            zone = right.selectbox(
                "Time zone of the log", ["", *_zones()], format_func=lambda name: name or own,
                key=f"{mark}-zone", persist_state="session",
            ) or None  # fmt: skip
        window = _days(log, mark, zone)
    return Window(int(n_out), window.from_s, window.to_s), procs, zone


def _days(log: Workload, mark: str, zone: str | None) -> Window:
    """Draw the choice of days; the whole log if it has one day only."""
    days = days_of(log, zone)
    if days is None:
        n_days = int(log.span_s // _DAY_S) + 1
        if n_days == 1:
            return Window()
        first, last = st.slider(
            "Days, counted from the first submission", 1, n_days, (1, n_days),
            key=f"{mark}-numbers", persist_state="session",
        )  # fmt: skip
        if (first, last) == (1, n_days):
            return Window()
        return Window(from_s=(first - 1) * _DAY_S, to_s=last * _DAY_S)
    if days[0] == days[1]:
        return Window()
    begin, end = st.slider(
        "Days", *days, days, format="YYYY-MM-DD", key=f"{mark}-days-{zone}",
        persist_state="session", help="Both ends are in.",
    )  # fmt: skip
    return Window() if (begin, end) == days else window_of_days(log, begin, end, zone)


def _glance(log: Workload, seen: WorkloadProfile) -> None:
    """Draw the tiles and what stands out."""
    told = seen.described
    st.markdown(f"**{plain(told.name)}**")
    with st.container(horizontal=True):
        part = f"of {log.n_jobs:,}" if told.n_jobs != log.n_jobs else None
        _tile("Jobs", f"{told.n_jobs:,}", part)
        _tile("Users", "unknown" if told.n_users is None else f"{told.n_users:,}")
        _tile("Span", duration(told.span_s))
        load = "unknown" if seen.offered_load is None else f"{seen.offered_load:.2f}"
        on = "machine unknown" if seen.procs is None else f"of {seen.procs:,} processors"
        _tile("Offered load", load, on)
        _tile("Serial jobs", share(seen.n_serial, told.n_jobs))
        _tile("Median run time", duration(told.runtime_s.quantiles["0.5"]))
    st.markdown("\n".join(f"- {plain(one)}" for one in highlights(seen)))


def _tile(label: str, value: str, below: str | None = None) -> None:
    st.metric(
        label, value, below, delta_color="off", delta_arrow="off", border=True, height="stretch"
    )


def _acts(found: Chosen, seen: WorkloadProfile, *, is_part: bool) -> Intent | None:
    """Draw what can be done with the log."""
    keep = ""
    if found.upload is not None:
        keep = st.text_input(
            "Keep the uploaded log as", str(LOGS / Path(found.upload[0]).name),
            key=f"{_KEY}-keep", persist_state="session",
            help="A sweep reads its log again whenever it goes on, so it needs a file.",
        ) or ""  # fmt: skip
    answer_at(_KEY)
    with st.container(horizontal=True):
        tune = st.button(
            "Tune the scheduler for this log", type="primary", key=f"{_KEY}-tune",
            icon=":material/tune:",
        )  # fmt: skip
        st.download_button(
            "Download the profile (CSV)",
            lambda: profile_csv(seen),
            file_name=f"{seen.described.name}-profile.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=f"{_KEY}-csv",
        )
    if is_part:
        st.caption("A sweep uses the whole log; the window above is for looking only.")
    if not tune:
        return None

    def do() -> str:
        path = found.path or ""
        if found.upload is not None:
            path = _kept(found.upload[1], keep)
        fields.begin(_form(path, found.reading))
        return ""

    return Intent(_KEY, do, "Taking the log along", then="new")


def _form(path: str, reading: Mapping[str, str]) -> Form:
    """Return *New* filled in with a log and the rules that it is read by; the example without."""
    if not path:
        return Form()
    kept = {"application": {"reading": dict(reading)}} if reading else {}
    return Form("log", path=path, kept=kept)


def _kept(data: bytes, wanted: str) -> str:
    """Write an uploaded log where it is wanted and return the path.

    Raises:
        FieldError: another file is there, or it cannot be written.
    """
    if not wanted.strip():
        raise FieldError(_KEY, "Say where the uploaded log shall be kept.")
    path = Path(wanted.strip()).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        if path.is_dir() or path.read_bytes() != data:
            raise FieldError(
                _KEY, f"There is another file at '{path}'; name a new one, nothing was written."
            ) from None
    except (OSError, ValueError) as error:
        raise FieldError(_KEY, f"Cannot write '{path}': {error}.") from error
    return str(path)


def _notes(log: Workload) -> None:
    """Draw what reading had to decide."""
    if not log.notes:
        return
    label = "1 note" if len(log.notes) == 1 else f"{len(log.notes)} notes"
    with st.expander(f"{label} from reading the log", icon=":material/info:"):
        st.markdown("\n".join(f"- {plain(note.sentence)}" for note in log.notes))
        st.caption("They count the whole log.")


def _compare(seen: WorkloadProfile) -> None:
    """Draw a second log beside this one, if asked for."""
    st.subheader("Compare with another log")
    wanted = st.toggle("Compare", key=f"{_KEY}-compare", persist_state="session")
    if not wanted:
        st.caption("Distributions of both over each other, and their figures side by side.")
        return
    other = choose(f"{_KEY}-other")
    if other is None:
        return
    with st.spinner("Counting …"):
        beside = _seen(_identity(other.log), Window(), None, None, other.log)
    charts.draw_beside(seen, beside)


def _identity(log: Workload) -> tuple[object, ...]:
    """Return everything that a profile depends on."""
    return log.name, log.digest, log.max_procs, log.start_unix_s, log.time_zone


@st.cache_resource(max_entries=16, show_spinner=False)
def _seen(
    identity: tuple[object, ...],  # noqa: ARG001 - a part of the key
    window: Window,
    procs: int | None,
    zone: str | None,
    _log: Workload,
) -> WorkloadProfile:
    return look(_log, window, procs, zone)


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(zoneinfo.available_timezones()))
