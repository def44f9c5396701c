"""*Generate and compare*: a model of the log or of a paper, and what is drawn from it beside it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

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
from sim.generators.generator import Generator, Model
from sim.generators.registry import GENERATORS, published_model
from sim.metrics.workload_profile import ProfileWindow, WorkloadProfile
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption

PLACE = "workload-make"
_KEY = "workload-make"
_EVERY_S = 0.5
_FITTED, _PUBLISHED = "Fitted to this log", "Published"
_MOST_SCALE, _MOST_DAYS = 1000.0, 3650.0
_MOST_WHOLE = 2**53 - 1
"""That a browser can tell from the next."""


@dataclass(frozen=True, slots=True)
class LogView:
    """The log that the page shows.

    Args:
        found: how it was chosen.
        window: which of its jobs.
        log: those jobs.
        seen: their profile.
        identity: everything that they depend on.
    """

    found: LogSelection
    window: ProfileWindow
    log: Workload
    seen: WorkloadProfile
    identity: tuple[object, ...]


def generation_section(shown: LogView) -> Intent | None:
    """Draw the choice of a model, its fields, what was drawn from it, and the comparison."""
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
        intent, model = _fit_model(generator, shown)
    if model is None:
        return intent
    st.caption(escape_markdown(model.source))
    drawing = _draw(model)
    made = _latest_result("draw")
    if made is not None:
        _result(made, shown)
    return intent or drawing


def _generator() -> Generator:
    named = {one.name: one for one in GENERATORS}
    name = st.selectbox(
        "Generator", list(named), key=f"{_KEY}-generator", persist_state="session",
        help="Each is told in the guide, under *Workloads of your own making*.",
    )  # fmt: skip
    st.caption(escape_markdown(named[name].summary))
    return named[name]


def _fit_model(generator: Generator, shown: LogView) -> tuple[Intent | None, Model | None]:
    """Draw the knobs and the button of a fit; return its wish, and the model if it is there."""
    knobs: dict[str, float] = {}
    if generator.knobs:
        with st.expander("How it is fitted"):
            for knob in generator.knobs:
                knobs[knob.name] = _knob(generator, knob)
    wish = FitRequest(generator.name, tuple(sorted(knobs.items())), shown.identity)
    made = _latest_result("fit")
    is_there = made is not None and made.wish == wish and made.model is not None
    answer_at(PLACE)
    pressed = st.button(
        "Fit again" if is_there else f"Fit {generator.name} to this log",
        type="secondary" if is_there else "primary", key=f"{_KEY}-fit",
        icon=":material/model_training:",
    )  # fmt: skip
    intent = None
    if pressed:
        intent = _begin("fit", lambda: FitJob(wish, shown.found, shown.window))
    if made is None:
        return intent, None
    if made.model is None:
        _not_done(made, "The fit was stopped; there is no model.")
        return intent, None
    if not is_there:
        st.caption("The model that was fitted before is of another log, window or choice.")
        return intent, None
    return intent, made.model


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
        whole = st.number_input(
            name, int(knob.lowest), most, int(knob.usual), 1, key=key, help=knob.summary,
            persist_state="session",
        )  # fmt: skip
        return float(whole)
    told: float = st.number_input(
        name, float(knob.lowest), highest, float(knob.usual), format="%g", key=key,
        help=knob.summary, persist_state="session",
    )  # fmt: skip
    return told


def _draw(model: Model) -> Intent | None:
    """Draw the fields of a model and of the draw; return the wish to draw from it."""
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
    """Draw the parameters of a model as fields; return those that differ from its own."""
    mark = f"{_KEY}-{model.digest[:12]}"
    fields = {name: value for name, value in model.parameters.items() if _is_plain(value)}
    told: dict[str, Any] = {}
    with st.expander(f"Parameters of the model ({len(model.parameters):,})"):
        columns = st.columns(3)
        for number, (name, value) in enumerate(fields.items()):
            with columns[number % 3]:
                given = _field(f"{mark}-{name}", name, value)
            if given != value:
                told[name] = given
        others = _leaves({k: v for k, v in model.parameters.items() if k not in fields})
        lines: list[str] = []
        if others:
            text = st.text_area(
                "Others, a line each", key=f"{mark}-more", persist_state="session",
                placeholder="\n".join(f"{name}={abbreviated_value(v)}" for name, v in others[:2]),
                help="NAME=VALUE, with a name of the table below; numbers of lists count from 0.",
            )  # fmt: skip
            lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
            st.dataframe(
                {"name": [n for n, _ in others], "value": [abbreviated_value(v) for _, v in others]},
                hide_index=True, height=240, alt="the other parameters of the model",
            )  # fmt: skip
    return settings_text(told, lines)


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
    """Return the entries of tables and lists by their dotted names, as far as they are plain."""
    found: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            found += _leaves(value, f"{before}{name}.")
        elif isinstance(value, list) and any(isinstance(one, list | Mapping) for one in value):
            found += _leaves({str(i): one for i, one in enumerate(value)}, f"{before}{name}.")
        else:
            found.append((f"{before}{name}", value))
    return found


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
    """Return what came of the last fit or draw; draw it while it goes on."""
    kept = f"{_KEY}-made-{kind}"
    try:
        made = generation_jobs().fetch(job_owner(kind))
    except Exception as error:
        st.error(escape_markdown(sentence(error)), icon=":material/error:")
        return None
    if made is not None:
        st.session_state[kept] = made
    if generation_jobs().of(job_owner(kind)) is not None:
        with st.container(border=True):
            st.fragment(_watch, run_every=_EVERY_S)(kind)
    found: GenerationResult | None = st.session_state.get(kept)
    return found


def _watch(kind: str) -> None:
    """Draw how long it has taken, and the button that ends it."""
    attempt: JobHandle[GenerationResult] | None = generation_jobs().of(job_owner(kind))
    if attempt is None or attempt.is_over:
        st.rerun()
    doing = {"fit": "Fitting", "draw": "Drawing"}[kind]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/hourglass_top: {doing} … {attempt.seconds:.0f} s")
        if st.button("Stop", key=f"{_KEY}-stop-{kind}", icon=":material/stop:"):
            attempt.stop()
            st.rerun()


def _not_done(made: GenerationResult, stopped: str) -> None:
    if made.state == "stopped":
        st.info(stopped, icon=":material/stop_circle:")
    else:
        st.error(escape_markdown(made.sentence), icon=":material/error:")


def _result(made: GenerationResult, shown: LogView) -> None:
    """Draw what was drawn from a model, beside the log."""
    if made.workload is None or made.model is None or not isinstance(made.wish, GenerationRequest):
        _not_done(made, "The draw was stopped; nothing was generated.")
        return
    wish, workload = made.wish, made.workload
    st.subheader("Generated")
    scale = "" if wish.scale == 1.0 else f" at {wish.scale:g} times the arrivals"
    st.markdown(
        f"**{escape_markdown(workload.name)}**: {workload.n_jobs:,} jobs in {wish.days:g} days{scale}, drawn "
        f"from `{made.model.generator}` with seed {wish.seed}."
    )
    for note in made.notes:
        st.caption(escape_markdown(note))
    workload_charts.download_buttons(made.model, workload, _KEY)
    workload_charts.draw_comparison(shown.log, shown.seen, workload)


def _title(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name
