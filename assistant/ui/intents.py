"""Intents: actions that the user requests on a page, and functions that carry them out.

A refusal is kept as one sentence and drawn beside the field that it concerns. Typed values stay.
"""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from assistant.ui.labels import escape_markdown

_RESULT_KEY = "told"
_OWN_PACKAGES = ("assistant", "strategies", "sim", "agents")


@dataclass(frozen=True, slots=True)
class Intent:
    """Action that the user requested on a page, to be carried out by `perform`.

    Args:
        place: place on the page where the result is drawn.
        do: function that acts and returns the message; it raises if the action is refused.
        waiting: text of the spinner.
        then: name of the page to show afterwards.
    """

    place: str
    do: Callable[[], str]
    waiting: str = "One moment"
    then: str = ""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Message of the last action that the user requested, and whether it was refused."""

    place: str
    text: str
    refused: bool


class FormFieldError(Exception):
    """Error of one form field, shown beside the field."""

    def __init__(self, place: str, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


def sentence(error: Exception) -> str:
    """Return an exception as a sentence for the user, marking internal errors as such.

    >>> sentence(ValueError("x"))
    'Something in Copperline went wrong (ValueError: x).'
    """
    if isinstance(error, FormFieldError) or type(error).__module__.split(".")[0] in _OWN_PACKAGES:
        text = str(error)
        first = text.partition(" ")[0]
        text = text[:1].upper() + text[1:] if first.isalpha() else text  # no change to file names
        return text + ("" if text.endswith((".", "?", "!")) else ".")
    return f"Something in Copperline went wrong ({type(error).__name__}: {error})."


def perform(intent: Intent) -> bool:
    """Carry out a requested action, store its result, and return whether it succeeded."""
    try:
        with st.spinner(f"{intent.waiting} …"):
            result = ActionResult(intent.place, intent.do(), refused=False)
    except Exception as error:
        place = error.place if isinstance(error, FormFieldError) else intent.place
        result = ActionResult(place, sentence(error), refused=True)
    st.session_state[_RESULT_KEY] = result
    return not result.refused


def answer_at(*places: str) -> None:
    """Draw the message of the last requested action here if it belongs to one of the places."""
    result: ActionResult | None = st.session_state.get(_RESULT_KEY)
    with st.container():  # keeps its place when empty, so that nothing below moves
        if result is None or result.place not in places or not result.text:
            return
        if result.refused:
            st.error(escape_markdown(result.text), icon=":material/error:")
        else:
            st.success(escape_markdown(result.text), icon=":material/check:")


def refusal() -> ActionResult | None:
    """Return the result of the last requested action if it was refused, else None."""
    result: ActionResult | None = st.session_state.get(_RESULT_KEY)
    return result if result is not None and result.refused else None


def forget() -> None:
    """Delete the stored result of the last requested action."""
    st.session_state.pop(_RESULT_KEY, None)
