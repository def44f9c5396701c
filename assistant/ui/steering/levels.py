"""Which levels and combinations may be proposed, and which are preferred: fields of *Steer*."""

from collections.abc import Callable, Sequence

import streamlit as st

from assistant import Experiment
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import FieldError, Intent, answer_at
from strategies import Level, ParameterSpace

Pair = tuple[str, Level]


def section(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the fields. Returns what the person wants changed."""
    space, session = experiment.space, desk.session
    open_ones = [
        (parameter.name, value)
        for parameter in space.parameters
        for value in words.open_levels(space, parameter)
    ]
    answer_at("levels")
    st.caption(
        "A closed level is not proposed any more; what was run with it stays. Half of the "
        "suggestions keep to preferred levels, if there are any."
    )
    closed, preferred = words.closed_levels(space), words.preferred_levels(space)
    wanted = [  # all are drawn, whatever was pressed, so that nothing typed is lost
        _choice(
            "Open level",
            "close-level",
            open_ones,
            {
                "close": ("Close", session.close_level, "is closed."),
                "prefer": ("Prefer", session.prefer_level, "is preferred."),
            },
        ),
        _choice(
            "Closed level",
            f"reopen-level-{len(closed)}",
            closed,
            {"reopen": ("Reopen", session.reopen_level, "is open again.")},
        ),
        _choice(
            "Preferred level",
            f"unprefer-level-{len(preferred)}",
            preferred,
            {"unprefer": ("Prefer no more", session.unprefer_level, "is preferred no more.")},
        ),
        _new_level(desk, space),
        _exclusion(desk, space),
    ]
    return next((intent for intent in wanted if intent is not None), None)


_Action = tuple[str, Callable[[str, Level], None], str]


def _choice(
    label: str, key: str, pairs: Sequence[Pair], actions: dict[str, _Action]
) -> Intent | None:
    """Draw a choice of levels with a button for each action on it."""
    intent = None
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            label, pairs, format_func=_text, key=key, width=320,
            placeholder="none",
        )  # fmt: skip
        for name, (title, change, said) in actions.items():
            if st.button(title, key=name, disabled=chosen is None) and chosen is not None:

                def do(
                    pair: Pair = chosen,
                    change: Callable[[str, Level], None] = change,
                    said: str = said,
                ) -> str:
                    change(*pair)
                    return f"{_text(pair)} {said}"

                intent = Intent("levels", do)
    return intent


def _text(pair: Pair) -> str:
    return f"{pair[0]} = {pair[1]}"


def _new_level(desk: Desk, space: ParameterSpace) -> Intent | None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("Parameter", space.names, key="add-parameter", width=200)
        text = st.text_input("New level", key="add-level", width=160)
        asked = st.button("Add", key="add")
    answer_at("add-level")
    if not asked:
        return None

    def do() -> str:
        if not text.strip():
            raise FieldError("add-level", "Say which level is added.")
        value = space.parameter(name).read(text)
        desk.session.add_level(name, value)
        return f"{name} = {value} is added."

    return Intent("add-level", do)


def _exclusion(desk: Desk, space: ParameterSpace) -> Intent | None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Never propose what meets", key="exclude", width=440,
            placeholder=f"{space.names[0]} == {space.parameters[0].levels[0]!r}",
        )  # fmt: skip
        asked = st.button("Forbid", key="forbid")
    answer_at("exclude")
    for exclusion in space.exclusions:
        st.caption(f"Forbidden: {words.plain(exclusion.text)}")
    if not asked:
        return None

    def do() -> str:
        if not text.strip():
            raise FieldError("exclude", "Say which combinations, by a condition on parameters.")
        desk.session.exclude(text.strip())
        return f"Nothing that meets '{text.strip()}' is proposed any more."

    return Intent("exclude", do)
