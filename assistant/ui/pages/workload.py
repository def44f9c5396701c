"""The *Workload* page: profile of a job log, generated workloads, and server capacity plan.

*Generate and compare* on *Workload*: models of the log, and workloads generated from them.
"""

import math
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from assistant.presentation.charts import capacity as specs
from assistant.presentation.text.number_format import duration
from assistant.simtools import CAPACITY_DEFINITIONS as DEFINITIONS
from assistant.simtools import (
    CapacityPlan,
    Generator,
    Model,
    PolicyOption,
    ProfileWindow,
    Workload,
    WorkloadProfile,
    published_model,
    registered_generators,
)
from assistant.simtools.capacity import HEADINGS, answer, curves, notes, rows, share_words
from assistant.simtools.workload_generation import abbreviated_value
from assistant.simtools.workload_log import (
    days_of,
    highlights,
    log_profile,
    profile_csv,
    share,
    window_of_days,
)
from assistant.ui.charting import low
from assistant.ui.intents import FormFieldError, Intent, answer_at, sentence
from assistant.ui.jobs import JobHandle
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import new_fields, workload_charts
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.workload_charts import (
    FitJob,
    FitRequest,
    GenerationJob,
    GenerationRequest,
    GenerationResult,
    PlanJob,
    PlanRequest,
    PlanResult,
    described_chart,
    generation_jobs,
    job_owner,
    plan_jobs,
    settings_text,
)
from assistant.ui.pages.workload_log import LogSelection, choose_log

GENERATION_PLACE = "workload-make"
_GENERATION_KEY = "workload-make"
_EVERY_S = 0.5
_FITTED, _PUBLISHED = "Fitted to this log", "Published"
_MOST_SCALE, _MOST_GENERATED_DAYS = 1000.0, 3650.0
_MOST_WHOLE = 2**53 - 1  # Largest whole number that a browser represents exactly


@dataclass(frozen=True, slots=True)
class LogView:
    """Jobs of a log in a time window, with a profile; ``identity`` identifies log and window."""

    selection: LogSelection
    window: ProfileWindow
    log: Workload
    profile: WorkloadProfile
    identity: tuple[object, ...]


def generation_section(view: LogView) -> Intent | None:
    """Draw the generation of a workload and its comparison with the log; return a request."""
    generator = _generator()
    published = generator.published is not None
    choices = [_FITTED, _PUBLISHED] if published else [_FITTED]
    which = st.segmented_control(
        "Parameters", choices, key=f"{_GENERATION_KEY}-parameters-{published}", required=True,
        default=_FITTED, persist_state="session",
    )  # fmt: skip
    intent: Intent | None = None
    model: Model | None
    if which == _PUBLISHED:
        model = published_model(generator.name)
    else:
        intent, model = _fit_model(generator, view)
    if model is None:
        return intent
    st.caption(escape_markdown(model.source))
    drawing = _draw(model)
    result = _latest_result("draw")
    if result is not None:
        _result(result, view)
    return intent or drawing


def _generator() -> Generator:
    generators_by_name = {generator.name: generator for generator in registered_generators()}
    name = st.selectbox(
        "Generator", list(generators_by_name),
        key=f"{_GENERATION_KEY}-generator", persist_state="session",
        help="The documentation describes them, under *Generators of workloads*.",
    )  # fmt: skip
    st.caption(escape_markdown(generators_by_name[name].summary))
    return generators_by_name[name]


def _fit_model(generator: Generator, view: LogView) -> tuple[Intent | None, Model | None]:
    """Draw the settings and the button of a fit; return its intent, and the model if ready."""
    knobs: dict[str, float] = {}
    if generator.knobs:
        with st.expander("Options of the fit"):
            for knob in generator.knobs:
                knobs[knob.name] = _knob(generator, knob)
    wish = FitRequest(generator.name, tuple(sorted(knobs.items())), view.identity)
    result = _latest_result("fit")
    is_there = result is not None and result.wish == wish and result.model is not None
    answer_at(GENERATION_PLACE)
    pressed = st.button(
        "Fit again" if is_there else f"Fit {generator.name} to this log",
        type="secondary" if is_there else "primary", key=f"{_GENERATION_KEY}-fit",
        icon=":material/model_training:",
    )  # fmt: skip
    intent = None
    if pressed:
        intent = _begin("fit", lambda: FitJob(wish, view.selection, view.window))
    if result is None:
        return intent, None
    if result.model is None:
        _generation_not_done(result, "The fit was stopped; there is no model.")
        return intent, None
    if not is_there:
        st.caption("The previous model is for another log, window or setting.")
        return intent, None
    return intent, result.model


def _knob(generator: Generator, knob: PolicyOption) -> float:
    name, key = _title(knob.name, knob.unit), f"{_GENERATION_KEY}-knob-{generator.name}-{knob.name}"
    highest = None if math.isinf(knob.highest) else float(knob.highest)
    if knob.names:
        kind = st.selectbox(
            name, knob.names, int(knob.usual), key=key, help=knob.summary, persist_state="session"
        )
        return float(knob.names.index(kind))
    if knob.is_whole:
        most = None if highest is None else int(highest)
        integer = st.number_input(
            name, int(knob.lowest), most, int(knob.usual), 1, key=key, help=knob.summary,
            persist_state="session",
        )  # fmt: skip
        return float(integer)
    number: float = st.number_input(
        name, float(knob.lowest), highest, float(knob.usual), format="%g", key=key,
        help=knob.summary, persist_state="session",
    )  # fmt: skip
    return number


def _draw(model: Model) -> Intent | None:
    settings = _parameters(model)
    left, middle, right = st.columns(3)
    days = left.number_input(
        "Duration [days]", 0.01, _MOST_GENERATED_DAYS, 7.0, format="%g",
        key=f"{_GENERATION_KEY}-days", persist_state="session",
        help="Time in which jobs are submitted, from the first midnight on.",
    )  # fmt: skip
    seed = middle.number_input(
        "Seed", 0, _MOST_WHOLE, 1, key=f"{_GENERATION_KEY}-seed", persist_state="session",
        help="Another seed gives another workload of the same kind.",
    )  # fmt: skip
    scale = right.number_input(
        "Scale", 0.001, _MOST_SCALE, 1.0, format="%g", key=f"{_GENERATION_KEY}-scale",
        persist_state="session", help="Factor on the rate of arrivals: 2 gives twice the jobs.",
    )  # fmt: skip
    wish = GenerationRequest(model.digest, settings, float(days), int(seed), float(scale))
    if not st.button(
        "Generate", type="primary", key=f"{_GENERATION_KEY}-draw", icon=":material/casino:"
    ):
        return None
    return _begin("draw", lambda: GenerationJob(wish, model))


def _parameters(model: Model) -> str:
    """Draw the parameters of a model as fields; return the changed ones as text."""
    mark = f"{_GENERATION_KEY}-{model.digest[:12]}"
    fields = {name: value for name, value in model.parameters.items() if _is_plain(value)}
    changes: dict[str, Any] = {}
    with st.expander(f"Parameters of the model ({len(model.parameters):,})"):
        columns = st.columns(3)
        for number, (name, value) in enumerate(fields.items()):
            with columns[number % 3]:
                typed = _field(f"{mark}-{name}", name, value)
            if typed != value:
                changes[name] = typed
        further = _leaves({k: v for k, v in model.parameters.items() if k not in fields})
        lines: list[str] = []
        if further:
            text = st.text_area(
                "Other parameters, one per line", key=f"{mark}-more", persist_state="session",
                placeholder="\n".join(f"{name}={abbreviated_value(v)}" for name, v in further[:2]),
                help="NAME=VALUE, with a name from the table below; list indices start at 0.",
            )  # fmt: skip
            lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
            st.dataframe(
                {
                    "name": [n for n, _ in further],
                    "value": [abbreviated_value(v) for _, v in further],
                },
                hide_index=True, height=240, alt="the other parameters of the model",
            )  # fmt: skip
    return settings_text(changes, lines)


def _is_plain(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= _MOST_WHOLE
    return isinstance(value, float | str)


def _field(key: str, name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return st.toggle(name, value, key=key, persist_state="session")
    if isinstance(value, int):
        return st.number_input(name, value=value, step=1, key=key, persist_state="session")
    if isinstance(value, float):
        return st.number_input(name, value=value, format="%g", key=key, persist_state="session")
    return st.text_input(name, value, key=key, persist_state="session")


def _leaves(parameters: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """Return the scalar entries of nested tables and lists by their dotted names."""
    leaves: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            leaves += _leaves(value, f"{before}{name}.")
        elif isinstance(value, list) and any(isinstance(entry, list | Mapping) for entry in value):
            leaves += _leaves({str(i): entry for i, entry in enumerate(value)}, f"{before}{name}.")
        else:
            leaves.append((f"{before}{name}", value))
    return leaves


def _begin(kind: str, make: Callable[[], JobHandle[GenerationResult]]) -> Intent:
    def do() -> str:
        try:
            generation_jobs().begin(job_owner(kind), make)
        except OSError as error:
            raise FormFieldError(GENERATION_PLACE, f"It cannot be started: {error}.") from error
        st.session_state.pop(f"{_GENERATION_KEY}-made-{kind}", None)
        return ""

    return Intent(GENERATION_PLACE, do, "Preparing")


def _latest_result(kind: str) -> GenerationResult | None:
    result_key = f"{_GENERATION_KEY}-made-{kind}"
    try:
        result = generation_jobs().fetch(job_owner(kind))
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return None
    if result is not None:
        st.session_state[result_key] = result
    if generation_jobs().of(job_owner(kind)) is not None:
        with st.container(border=True):
            st.fragment(_watch, run_every=_EVERY_S)(kind)
    latest: GenerationResult | None = st.session_state.get(result_key)
    return latest


def _watch(kind: str) -> None:
    attempt: JobHandle[GenerationResult] | None = generation_jobs().of(job_owner(kind))
    if attempt is None or attempt.is_over:
        st.rerun()
    doing = {"fit": "Fitting", "draw": "Generating"}[kind]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: {doing} … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{_GENERATION_KEY}-stop-{kind}", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _generation_not_done(result: GenerationResult, stopped: str) -> None:
    if result.state == "stopped":
        st.info(stopped, icon=":material/stop_circle:")
    else:
        st.error(escape_markdown(result.sentence), icon=":material/error:")


def _result(result: GenerationResult, view: LogView) -> None:
    if (
        result.workload is None
        or result.model is None
        or not isinstance(result.wish, GenerationRequest)
    ):
        _generation_not_done(result, "The generation was stopped; there is no workload.")
        return
    wish, workload = result.wish, result.workload
    st.subheader("Generated")
    scale = "" if wish.scale == 1.0 else f" at {wish.scale:g} times the arrivals"
    st.markdown(
        f"**{escape_markdown(workload.name)}**: {workload.n_jobs:,} jobs in {wish.days:g} days"
        f"{scale}, drawn from `{result.model.generator}` with seed {wish.seed}."
    )
    for note in result.notes:
        st.caption(escape_markdown(note))
    workload_charts.download_buttons(result.model, workload, _GENERATION_KEY)
    workload_charts.draw_comparison(view.log, view.profile, workload)


def _title(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


PLACE = "workload-capacity"
_CAPACITY_KEY = "workload-capacity"
_KIND = "capacity"
_MOST_CORES, _MOST_DAYS, _MOST_FUTURES = 2**20, 365.0, 5000
_GIB = 2**30
_COLUMNS = (
    "case", "jobs", "servers, fluid", "interval (fluid)", "servers, first fit",
    "interval (first fit)", "median", "most",
)  # fmt: skip
"""Column names for `HEADINGS`; pandas needs different names."""


def capacity_section(view: LogView) -> Intent | None:
    """Draw the fields and result of a capacity plan and return a request to make one, or None."""
    wish = _plan_fields(view)
    planned = _latest_plan()
    answer_at(PLACE)
    pressed = st.button(
        "How many servers?", type="primary", key=f"{_CAPACITY_KEY}-plan", icon=":material/dns:"
    )
    if planned is not None:
        if planned.plan is None:
            _not_done(planned)
        else:
            if planned.wish != wish:
                st.caption("The plan below is for another log, window or setting.")
            _plan(planned.plan)
    if not pressed:
        return None

    def do() -> str:
        try:
            plan_jobs().begin(job_owner(_KIND), lambda: PlanJob(wish, view.selection, view.window))
        except OSError as error:
            raise FormFieldError(PLACE, f"It cannot be started: {error}.") from error
        st.session_state.pop(f"{_CAPACITY_KEY}-made", None)
        return ""

    return Intent(PLACE, do, "Preparing")


def _plan_fields(view: LogView) -> PlanRequest:
    names = [entry.name for entry in registered_generators()]
    usual = "resampling" if view.profile.described.n_users is None else "three_stage"
    first, second, third = st.columns(3)
    generator = first.selectbox(
        "Generator", names, names.index(usual), key=f"{_CAPACITY_KEY}-generator",
        persist_state="session",
        help="It is fitted to this log and generates the futures.",
    )  # fmt: skip
    cores = second.number_input(
        "Processors of a server",
        1,
        _MOST_CORES,
        64,
        key=f"{_CAPACITY_KEY}-cores",
        persist_state="session",
    )
    memory = third.number_input(
        "Memory of a server [GiB]", 0.0, 1e6, 0.0, format="%g", key=f"{_CAPACITY_KEY}-memory",
        persist_state="session", help="0 ignores memory.",
    )  # fmt: skip
    first, second, third = st.columns(3)
    days = first.number_input(
        "Days", 0.01, _MOST_DAYS, 7.0, format="%g", key=f"{_CAPACITY_KEY}-days",
        persist_state="session", help="Length of each future.",
    )  # fmt: skip
    share = second.number_input(
        "Share of the futures [%]", 1.0, 100.0, 95.0, format="%g", key=f"{_CAPACITY_KEY}-share",
        persist_state="session", help="Share in which the servers suffice at every moment.",
    )  # fmt: skip
    futures = third.number_input(
        "Futures", 1, _MOST_FUTURES, 200, key=f"{_CAPACITY_KEY}-futures", persist_state="session"
    )
    first, second, third = st.columns(3)
    scales = first.text_input(
        "Scales", "1, 1.5, 2", key=f"{_CAPACITY_KEY}-scales", persist_state="session",
        help="Factors on the rate of arrivals, separated by commas; one case each.",
    )  # fmt: skip
    settings = second.text_area(
        "Other values, one per line", key=f"{_CAPACITY_KEY}-settings", persist_state="session",
        placeholder="end_odds=0.5", height=68,
        help="NAME=VALUE: another value of a model parameter, as a further case.",
    )  # fmt: skip
    seed = third.number_input(
        "Seed", 0, 2**31, 0, key=f"{_CAPACITY_KEY}-seed", persist_state="session",
        help="Seed of the first future; each next future adds 1.",
    )  # fmt: skip
    return PlanRequest(
        generator, int(cores), round(memory * _GIB), float(days), int(futures),
        round(float(share) / 100.0, 6), _parts(scales, ","), _parts(settings, "\n"), int(seed),
        view.identity,
    )  # fmt: skip


def _parts(text: str | None, by: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(by) if part.strip())


def _latest_plan() -> PlanResult | None:
    result_key = f"{_CAPACITY_KEY}-made"
    try:
        planned = plan_jobs().fetch(job_owner(_KIND))
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return None
    if planned is not None:
        st.session_state[result_key] = planned
    if plan_jobs().of(job_owner(_KIND)) is not None:
        with st.container(border=True):
            st.fragment(_plan_progress, run_every=_EVERY_S)()
    latest: PlanResult | None = st.session_state.get(result_key)
    return latest


def _plan_progress() -> None:
    attempt: JobHandle[PlanResult] | None = plan_jobs().of(job_owner(_KIND))
    if attempt is None or attempt.is_over:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: Drawing futures … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{_CAPACITY_KEY}-stop", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _not_done(planned: PlanResult) -> None:
    if planned.state == "stopped":
        st.info("The plan was stopped; there is no result.", icon=":material/stop_circle:")
    else:
        st.error(escape_markdown(planned.sentence), icon=":material/error:")


def _plan(plan: CapacityPlan) -> None:
    st.subheader("Servers")
    st.markdown(f"**{escape_markdown(answer(plan))}**")
    st.caption(escape_markdown(plan.source))
    for note in notes(plan):
        st.caption(escape_markdown(note))
    table = pd.DataFrame(rows(plan), columns=list(_COLUMNS))
    st.dataframe(
        table, hide_index=True, width="stretch", height="content",
        alt="sufficient servers by case",
    )  # fmt: skip
    steps_by_case = curves(plan)
    every = pd.DataFrame(
        {"case": name, "servers": n, "futures": f"{share:.1%}"}
        for name, steps in steps_by_case.items()
        for n, share in steps
    )
    alt = f"share of the futures by sufficient servers; {answer(plan)}"
    caption = f"The dashed line is {share_words(plan)} of the futures."
    described_chart(low(specs.servers(steps_by_case, plan.share)), alt, every, caption)
    with st.expander("What the figures mean"):
        definitions = DEFINITIONS.items()
        st.markdown(
            "\n".join(f"- **{name}**: {escape_markdown(text)}" for name, text in definitions)
        )


assert len(_COLUMNS) == len(HEADINGS)  # noqa: S101 - the same table as on the console

_KEY = "workload"
_THIS, _MAKE, _PLAN = "This log", "Generate and compare", "Capacity"
_DAY_S = 86_400.0
_MOST_PROCS = 10**12
LOGS = Path("copperline-out") / "logs"  # Default folder of an uploaded log that a sweep uses


def page(first_path: str | None = None) -> Intent | None:
    """Draw the workload page and return the user's request, such as to tune the scheduler."""
    st.subheader("Workload")
    selection = choose_log(_KEY, first_path)
    if selection is None:
        return None
    try:
        window, procs, zone = _selection_fields(selection.log)
        with st.spinner("Counting …"):
            profile = _cached_profile(_identity(selection.log), window, procs, zone, selection.log)
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return None
    _summary_tiles(selection.log, profile)
    intent = _log_actions(selection, profile, is_part=window != ProfileWindow())
    _notes(selection.log)
    view = st.segmented_control(
        "View", [_THIS, _MAKE, _PLAN], key=f"{_KEY}-view", default=_THIS, required=True,
        persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    if view != _THIS:
        identity = (*_identity(selection.log), window)
        log_view = LogView(selection, window, window.of(selection.log), profile, identity)
        section = generation_section if view == _MAKE else capacity_section
        return intent or section(log_view)
    workload_charts.draw_profile(profile)
    _compare(profile)
    return intent


def _selection_fields(log: Workload) -> tuple[ProfileWindow, int | None, str | None]:
    """Draw the choice of the jobs, and of the machine size."""
    mark = f"{_KEY}-{log.digest[:12]}"
    with st.expander("Jobs and machine"):
        left, middle, right = st.columns(3)
        n_out = left.number_input(
            "First jobs to leave out", 0, log.n_jobs - 1, 0, key=f"{mark}-out",
            persist_state="session",
            help="The machine starts empty, so its first jobs are not typical. Leave them out.",
        )  # fmt: skip
        procs = middle.number_input(
            "Processors of the machine", 1, _MOST_PROCS, log.max_procs, key=f"{mark}-procs",
            placeholder="unknown", persist_state="session",
            help="Loads are relative to this number. The default is that of the log.",
        )  # fmt: skip
        zone = None
        if log.start_unix_s is not None:
            log_zone = log.time_zone or "UTC (not in the log)"
            zone = right.selectbox(
                "Time zone of the log", ["", *_zones()], format_func=lambda name: name or log_zone,
                key=f"{mark}-zone", persist_state="session",
            ) or None  # fmt: skip
        window = _days(log, mark, zone)
    return ProfileWindow(int(n_out), window.from_s, window.to_s), procs, zone


def _days(log: Workload, mark: str, zone: str | None) -> ProfileWindow:
    days = days_of(log, zone)
    if days is None:
        n_days = int(log.span_s // _DAY_S) + 1
        if n_days == 1:
            return ProfileWindow()
        first, last = st.slider(
            "Days, counted from the first submission", 1, n_days, (1, n_days),
            key=f"{mark}-numbers", persist_state="session",
        )  # fmt: skip
        if (first, last) == (1, n_days):
            return ProfileWindow()
        return ProfileWindow(from_s=(first - 1) * _DAY_S, to_s=last * _DAY_S)
    if days[0] == days[1]:
        return ProfileWindow()
    begin, end = st.slider(
        "Days", *days, days, format="YYYY-MM-DD", key=f"{mark}-days-{zone}",
        persist_state="session", help="Both days are included.",
    )  # fmt: skip
    return ProfileWindow() if (begin, end) == days else window_of_days(log, begin, end, zone)


def _summary_tiles(log: Workload, profile: WorkloadProfile) -> None:
    described = profile.described
    st.markdown(f"**{escape_markdown(described.name)}**")
    with st.container(horizontal=True):
        part = f"of {log.n_jobs:,}" if described.n_jobs != log.n_jobs else None
        _tile("Jobs", f"{described.n_jobs:,}", part)
        _tile("Users", "unknown" if described.n_users is None else f"{described.n_users:,}")
        _tile("Span", duration(described.span_s))
        load = "unknown" if profile.offered_load is None else f"{profile.offered_load:.2f}"
        on = "machine unknown" if profile.procs is None else f"of {profile.procs:,} processors"
        _tile("Offered load", load, on)
        _tile("Serial jobs", share(profile.n_serial, described.n_jobs))
        _tile("Median run time", duration(described.runtime_s.quantiles["0.5"]))
    with st.container(key=f"later-{_KEY}"):
        st.markdown(
            "\n".join(f"- {escape_markdown(highlight)}" for highlight in highlights(profile))
        )


def _tile(label: str, value: str, below: str | None = None) -> None:
    st.metric(
        label, value, below, delta_color="off", delta_arrow="off", border=True, height="stretch"
    )


def _log_actions(
    selection: LogSelection, profile: WorkloadProfile, *, is_part: bool
) -> Intent | None:
    keep = ""
    if selection.upload is not None:
        keep = st.text_input(
            "Keep the uploaded log as", str(LOGS / Path(selection.upload[0]).name),
            key=f"{_KEY}-keep", persist_state="session",
            help="A sweep reads its log again when it continues, so it needs a file.",
        ) or ""  # fmt: skip
    answer_at(_KEY)
    with st.container(horizontal=True):
        tune = st.button(
            "Tune the scheduler for this log", type="primary", key=f"{_KEY}-tune",
            icon=":material/tune:",
        )  # fmt: skip
        st.download_button(
            "Download the profile (CSV)",
            lambda: profile_csv(profile),
            file_name=f"{profile.described.name}-profile.csv",
            mime="text/csv",
            icon=":material/download:",
            on_click="ignore",
            key=f"{_KEY}-csv",
        )
    if is_part:
        st.caption("A sweep uses the whole log; the window above affects only this page.")
    if not tune:
        return None

    def do() -> str:
        path = selection.path or ""
        if selection.upload is not None:
            path = _keep_upload(selection.upload[1], keep)
        new_fields.begin(_form(path, selection.reading))
        return ""

    return Intent(_KEY, do, "Preparing the sweep", then="new")


def _form(path: str, reading: Mapping[str, str]) -> Form:
    if not path:
        return Form()
    extra_tables = {"application": {"reading": dict(reading)}} if reading else {}
    return Form("log", path=path, extra_tables=extra_tables)


def _keep_upload(data: bytes, target: str) -> str:
    """Write an uploaded log; raise FormFieldError if another file is there or writing fails."""
    if not target.strip():
        raise FormFieldError(_KEY, "Enter a file name for the uploaded log.")
    path = Path(target.strip()).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        if path.is_dir() or path.read_bytes() != data:
            raise FormFieldError(
                _KEY, f"There is another file at '{path}'; nothing was written. Enter a new name."
            ) from None
    except (OSError, ValueError) as error:
        raise FormFieldError(_KEY, f"Cannot write '{path}': {error}.") from error
    return str(path)


def _notes(log: Workload) -> None:
    if not log.notes:
        return
    label = "1 note" if len(log.notes) == 1 else f"{len(log.notes)} notes"
    with st.expander(f"{label} from reading the log", icon=":material/info:"):
        st.markdown("\n".join(f"- {escape_markdown(note.sentence)}" for note in log.notes))
        st.caption("They refer to the whole log.")


def _compare(profile: WorkloadProfile) -> None:
    st.subheader("Compare with another log")
    is_comparing = st.toggle("Compare", key=f"{_KEY}-compare", persist_state="session")
    if not is_comparing:
        st.caption("Shows the distributions and key figures of both logs side by side.")
        return
    other = choose_log(f"{_KEY}-other")
    if other is None:
        return
    with st.spinner("Counting …"):
        beside = _cached_profile(_identity(other.log), ProfileWindow(), None, None, other.log)
    workload_charts.draw_beside(profile, beside)


def _identity(log: Workload) -> tuple[object, ...]:
    """Return the values on which a profile depends."""
    return log.name, log.digest, log.max_procs, log.start_unix_s, log.time_zone


@st.cache_resource(max_entries=16, show_spinner=False)
def _cached_profile(
    identity: tuple[object, ...],  # noqa: ARG001 - a part of the key
    window: ProfileWindow,
    procs: int | None,
    zone: str | None,
    _log: Workload,
) -> WorkloadProfile:
    return log_profile(_log, window, procs, zone)


@cache
def _zones() -> tuple[str, ...]:
    return tuple(sorted(zoneinfo.available_timezones()))
