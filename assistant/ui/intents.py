"""What a page wants done: it returns an intent, and this is where intents are carried out.

A refusal is kept as one sentence and drawn at the place the intent names, beside its field, with
everything that was typed still there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from assistant.ui.labels import escape_markdown

_RESULT_KEY = "told"
_OWN_PACKAGES = ("assistant", "strategies", "sim", "agents")


@dataclass(frozen=True, slots=True)
class Intent:
    """A wish of the person at the screen.

    Args:
        place: where the answer is shown.
        do: carries it out and returns what to say; raises what is refused.
        waiting: what is said while it is done.
        then: the page to go to afterwards, by its name.
    """

    place: str
    do: Callable[[], str]
    waiting: str = "One moment"
    then: str = ""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of the last intent."""

    place: str
    text: str
    refused: bool


class FormFieldError(Exception):
    """A refusal that belongs beside one field."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def sentence(error: Exception) -> str:
    """Return what went wrong for people; a fault of the program is named as one.

    >>> sentence(ValueError("x"))
    'Something in Copperline went wrong (ValueError: x).'
    """
    if isinstance(error, FormFieldError) or type(error).__module__.split(".")[0] in _OWN_PACKAGES:
        text = str(error)
        first = text.partition(" ")[0]
        text = text[:1].upper() + text[1:] if first.isalpha() else text  # a file keeps its name
        return text + ("" if text.endswith((".", "?", "!")) else ".")
    return f"Something in Copperline went wrong ({type(error).__name__}: {error})."


def perform(intent: Intent) -> bool:
    """Carry an intent out and keep what came of it. Returns whether it was done."""
    try:
        with st.spinner(f"{intent.waiting} …"):
            result = ActionResult(intent.place, intent.do(), refused=False)
    except Exception as error:
        place = error.place if isinstance(error, FormFieldError) else intent.place
        result = ActionResult(place, sentence(error), refused=True)
    st.session_state[_RESULT_KEY] = result
    return not result.refused


def answer_at(*places: str) -> None:
    """Draw what came of the last intent, if it belongs to one of these places."""
    result: ActionResult | None = st.session_state.get(_RESULT_KEY)
    with st.container():  # keeps its place when empty, so that what follows does not move
        if result is None or result.place not in places or not result.text:
            return
        if result.refused:
            st.error(escape_markdown(result.text), icon=":material/error:")
        else:
            st.success(escape_markdown(result.text), icon=":material/check:")


def refusal() -> ActionResult | None:
    """Return the last answer if it was a refusal."""
    result: ActionResult | None = st.session_state.get(_RESULT_KEY)
    return result if result is not None and result.refused else None


def forget() -> None:
    """Drop the last answer."""
    st.session_state.pop(_RESULT_KEY, None)
