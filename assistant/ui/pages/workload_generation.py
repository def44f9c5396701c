"""*Generate and compare* on *Workload*: models of the log, and workloads generated from them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from assistant.simtools import (
    GENERATORS,
    Generator,
    Model,
    PolicyOption,
    ProfileWindow,
    Workload,
    WorkloadProfile,
    published_model,
)
from assistant.simtools.workload_generation import abbreviated_value
from assistant.ui.intents import FormFieldError, Intent, answer_at, sentence
from assistant.ui.jobs import JobHandle
from assistant.ui.labels import escape_markdown
from assistant.ui.pages import workload_charts
from assistant.ui.pages.workload_background import (
    FitJob,
    FitRequest,
    GenerationJob,
    GenerationRequest,
    GenerationResult,
    generation_jobs,
    job_owner,
    settings_text,
)
from assistant.ui.pages.workload_log import LogSelection

PLACE = "workload-make"
_KEY = "workload-make"
_EVERY_S = 0.5
_FITTED, _PUBLISHED = "Fitted to this log", "Published"
_MOST_SCALE, _MOST_DAYS = 1000.0, 3650.0
_MOST_WHOLE = 2**53 - 1
"""Largest whole number that a browser represents exactly."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The jobs of a log in a window, with their profile; ``identity`` identifies them."""

    selection: LogSelection
    window: ProfileWindow
    log: Workload
    profile: WorkloadProfile
    identity: tuple[object, ...]


def generation_section(view: LogView) -> Intent | None:
    """Draw the choice of a model, its fields, the generated workload, and the comparison."""
    generator = _generator()
    published = generator.published is not None
    choices = [_FITTED, _PUBLISHED] if published else [_FITTED]
    which = st.segmented_control(
        "Parameters", choices, key=f"{_KEY}-parameters-{published}", required=True,
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
    generators = {generator.name: generator for generator in GENERATORS}
    name = st.selectbox(
        "Generator", list(generators), key=f"{_KEY}-generator", persist_state="session",
        help="Each is told in the guide, under *Workloads of your own making*.",
    )  # fmt: skip
    st.caption(escape_markdown(generators[name].summary))
    return generators[name]


def _fit_model(generator: Generator, view: LogView) -> tuple[Intent | None, Model | None]:
    """Draw the settings and the button of a fit; return its intent, and the model if ready."""
    knobs: dict[str, float] = {}
    if generator.knobs:
        with st.expander("How it is fitted"):
            for knob in generator.knobs:
                knobs[knob.name] = _knob(generator, knob)
    wish = FitRequest(generator.name, tuple(sorted(knobs.items())), view.identity)
    result = _latest_result("fit")
    is_there = result is not None and result.wish == wish and result.model is not None
    answer_at(PLACE)
    pressed = st.button(
        "Fit again" if is_there else f"Fit {generator.name} to this log",
        type="secondary" if is_there else "primary", key=f"{_KEY}-fit",
        icon=":material/model_training:",
    )  # fmt: skip
    intent = None
    if pressed:
        intent = _begin("fit", lambda: FitJob(wish, view.selection, view.window))
    if result is None:
        return intent, None
    if result.model is None:
        _not_done(result, "The fit was stopped; there is no model.")
        return intent, None
    if not is_there:
        st.caption("The model that was fitted before is of another log, window or choice.")
        return intent, None
    return intent, result.model


def _knob(generator: Generator, knob: PolicyOption) -> float:
    name, key = _title(knob.name, knob.unit), f"{_KEY}-knob-{generator.name}-{knob.name}"
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
        "Duration [days]", 0.01, _MOST_DAYS, 7.0, format="%g", key=f"{_KEY}-days",
        persist_state="session", help="Jobs are submitted for so long from the first midnight on.",
    )  # fmt: skip
    seed = middle.number_input(
        "Seed", 0, _MOST_WHOLE, 1, key=f"{_KEY}-seed", persist_state="session",
        help="Another one gives another future of the same kind.",
    )  # fmt: skip
    scale = right.number_input(
        "Scale", 0.001, _MOST_SCALE, 1.0, format="%g", key=f"{_KEY}-scale",
        persist_state="session", help="Factor on the rate of arrivals: 2 gives twice the jobs.",
    )  # fmt: skip
    wish = GenerationRequest(model.digest, settings, float(days), int(seed), float(scale))
    if not st.button("Generate", type="primary", key=f"{_KEY}-draw", icon=":material/casino:"):
        return None
    return _begin("draw", lambda: GenerationJob(wish, model))


def _parameters(model: Model) -> str:
    """Draw the parameters of a model as fields; return the changed ones as text."""
    mark = f"{_KEY}-{model.digest[:12]}"
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
                "Others, a line each", key=f"{mark}-more", persist_state="session",
                placeholder="\n".join(f"{name}={abbreviated_value(v)}" for name, v in further[:2]),
                help="NAME=VALUE, with a name of the table below; numbers of lists count from 0.",
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
            raise FormFieldError(PLACE, f"It cannot be started: {error}.") from error
        st.session_state.pop(f"{_KEY}-made-{kind}", None)
        return ""

    return Intent(PLACE, do, "Preparing")


def _latest_result(kind: str) -> GenerationResult | None:
    result_key = f"{_KEY}-made-{kind}"
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
    doing = {"fit": "Fitting", "draw": "Drawing"}[kind]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: {doing} … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{_KEY}-stop-{kind}", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _not_done(result: GenerationResult, stopped: str) -> None:
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
        _not_done(result, "The draw was stopped; nothing was generated.")
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
    workload_charts.download_buttons(result.model, workload, _KEY)
    workload_charts.draw_comparison(view.log, view.profile, workload)


def _title(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name
