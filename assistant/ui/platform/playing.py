"""*Set and play*: a level of every parameter, and what the platform does with it."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from assistant.applications import AiPlatform
from assistant.applications.platform_view import FULL_TRAINING, Dashboard, played
from assistant.objective import Measure
from assistant.report.platform import render_dashboard
from assistant.report.words import number, quantity
from assistant.ui import dashboard
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.new import fields
from assistant.ui.new.form import Form
from assistant.ui.words import column, plain
from strategies import Level, Parameter

PLACE = "platform-play"
MOST_DAYS, MOST_MODELS = 30.0, 500
"""Played while one looks: some seconds."""

_SHOWN = f"{PLACE}-shown"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is played; equal wishes give the same."""

    values: tuple[tuple[str, Level], ...]
    days: float
    models: int
    factor: float
    seed: int

    @property
    def application(self) -> AiPlatform:
        """The platform with its future."""
        return AiPlatform(self.seed, self.days, self.models, self.factor)


def section() -> Intent | None:
    """Draw the fields, the buttons, and what was played last."""
    st.caption(
        "A platform for AI pipelines, simulated: pipelines come, train, are checked and deployed, "
        "and deployed models drift until they are trained again. All settings meet the same future."
    )
    with st.container(horizontal=True):
        st.button(
            "Today's settings", icon=":material/restart_alt:", key=f"{PLACE}-today",
            on_click=_set, args=(dict(AiPlatform().baseline),),
        )  # fmt: skip
        st.button(
            "The paper's case: a full training cluster", icon=":material/traffic:",
            key=f"{PLACE}-paper", on_click=_set, args=(dict(FULL_TRAINING),),
            help="Pipelines peak at 16:00, the training cluster is full from then on, and what "
            "comes behind training is late: look at *Mean day*.",
        )  # fmt: skip
    wish = _wish()
    answer_at(PLACE)
    with st.container(horizontal=True):
        pressed = st.button(
            "Play", type="primary", icon=":material/play_arrow:", key=f"{PLACE}-play"
        )
        steer = st.button(
            "Steer this platform", icon=":material/tune:", key=f"{PLACE}-steer",
            help="Fills in *New* with this future; nothing is started.",
        )  # fmt: skip
    if pressed:
        st.session_state[_SHOWN] = wish
    shown: Wish | None = st.session_state.get(_SHOWN)
    if shown is None:
        st.info("Nothing is played yet.", icon=":material/play_circle:")
    else:
        if shown != wish:
            st.caption("Shown is what was played last; the settings have changed since.")
        _result(shown)
    return _to_steer(wish) if steer else None


def _wish() -> Wish:
    application = AiPlatform()
    today, values = application.baseline, {}
    parameters = application.space.parameters
    for at in range(0, len(parameters), 3):  # a row at a time: in a narrow window all in order
        for box, parameter in zip(st.columns(3), parameters[at : at + 3], strict=False):
            with box:
                values[parameter.name] = _level(parameter, today[parameter.name])
    with st.expander("The future that it meets"):
        one, two, three, four = st.columns(4)
        days = one.number_input(
            "Days", 1.0, MOST_DAYS, application.days, 1.0, format="%g", key=f"{PLACE}-days",
            persist_state="session",
        )  # fmt: skip
        models = two.number_input(
            "Deployed models", 1, MOST_MODELS, application.models, key=f"{PLACE}-models",
            persist_state="session",
        )  # fmt: skip
        factor = three.number_input(
            "Gaps between pipelines, times", 1.0, 100.0, application.interarrival_factor, 0.5,
            format="%g", key=f"{PLACE}-factor", persist_state="session",
            help="On the published gaps, 44 s on average.",
        )  # fmt: skip
        seed = four.number_input(
            "Seed", 0, 2**31, application.seed, key=f"{PLACE}-seed", persist_state="session"
        )
    return Wish(tuple(values.items()), float(days), int(models), float(factor), int(seed))


def _level(parameter: Parameter, usual: Level) -> Level:
    key = _field(parameter.name)
    st.session_state.setdefault(key, usual)
    chosen: Level = st.selectbox(
        column(parameter), parameter.levels, key=key, help=parameter.description,
        persist_state="session",
    )  # fmt: skip
    return chosen


def _field(name: str) -> str:
    return f"{PLACE}-level-{name}"


def _set(values: Mapping[str, Level]) -> None:
    """Set every level."""
    for name, value in values.items():
        st.session_state[_field(name)] = value


def _result(wish: Wish) -> None:
    try:
        with st.spinner("Simulating …"):
            board, measures = _played(wish)
    except Exception as error:
        st.error(plain(sentence(error)), icon=":material/error:")
        return
    objective = wish.application.objective
    cost = quantity(objective.assess(measures).value, objective.unit)
    st.markdown(f"**{plain(board.title)}**")
    st.markdown(f"Capacity, late models and waiting cost **{cost}**.")
    dashboard.draw(board, PLACE)
    with st.expander("Measures"):
        st.dataframe(
            pd.DataFrame({"measure": list(measures), "value": [_told(v) for v in
                                                               measures.values()]}),
            hide_index=True, width="stretch", alt="measures of what was played",
        )  # fmt: skip
    st.download_button(
        "Download the dashboard (HTML)", lambda: render_dashboard(board),
        file_name="dashboard.html", mime="text/html", icon=":material/download:",
        on_click="ignore", key=f"{PLACE}-html",
    )  # fmt: skip


def _told(value: Measure) -> str:
    return number(value) if isinstance(value, int | float) else str(value)


@st.cache_resource(max_entries=16, show_spinner=False)
def _played(wish: Wish) -> tuple[Dashboard, Mapping[str, Measure]]:
    return played(wish.application, dict(wish.values))


def _to_steer(wish: Wish) -> Intent:
    def do() -> str:
        fields.begin(Form("platform", kept={"application": future_of(wish)}))
        return ""

    return Intent(PLACE, do, "Taking the platform along", then="new")


def future_of(wish: Wish) -> dict[str, int | float]:
    """Return what a sweep file says of a future, without what is as usual."""
    usual = AiPlatform()
    told = {
        "seed": (wish.seed, usual.seed),
        "days": (wish.days, usual.days),
        "models": (wish.models, usual.models),
        "interarrival_factor": (wish.factor, usual.interarrival_factor),
    }
    return {name: value for name, (value, before) in told.items() if value != before}
