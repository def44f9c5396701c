"""Fields of a form that is kept as a value: what is typed survives every change of page and step.

A field takes its value from the draft when it comes onto the screen and gives back what was typed.
The places of refusals are kept while the page is drawn, and filled once all fields are known.
"""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assistant.ui.intents import forget
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_sweep_file import FormFault
from assistant.ui.state import seed

T = TypeVar("T")

_DRAFT = "new-form"
_STATE = "new-state-"
"""What begins so, and the draft, are not fields."""


def draft() -> Form:
    """Return what was filled in so far."""
    form: Form = st.session_state.setdefault(_DRAFT, Form())
    return form


def keep(form: Form) -> None:
    """Keep what is filled in now; a refusal of what it was before is forgotten."""
    if form != st.session_state.get(_DRAFT):
        st.session_state[_DRAFT] = form
        forget()


def begin(form: Form) -> None:
    """Fill everything in anew. To be called before the fields are drawn, or from elsewhere."""
    for key in [key for key in st.session_state if str(key).startswith("new-")]:
        if key != _DRAFT:
            del st.session_state[key]
    st.session_state[_DRAFT] = form


def change_form(change: Callable[[Form], Form]) -> None:
    """Change the draft from a button that adds or removes a row."""
    keep(change(draft()))


def put(key: str, value: object) -> None:
    """Show another value in a field that is drawn afterwards."""
    st.session_state[key] = value


def leave(beginning: str) -> None:
    """Forget what was typed in the fields whose keys begin so; they are drawn anew."""
    for key in [key for key in st.session_state if str(key).startswith(beginning)]:
        del st.session_state[key]


def follow(key: str, usual: Sequence[str]) -> None:
    """Let a choice of several that is as usual stay so when that has become something else."""
    usual_key = f"{_STATE}usual-{key}"
    before = st.session_state.get(usual_key)
    if before != list(usual):
        st.session_state[usual_key] = list(usual)
        if before is not None and st.session_state.get(key) == before:
            st.session_state[key] = list(usual)


def text(key: str, label: str, value: str, **more: Any) -> str:
    """Draw a line of text."""
    seed(key, value)
    return st.text_input(label, key=key, **more) or ""


def area(key: str, label: str, value: str, **more: Any) -> str:
    """Draw several lines of text."""
    seed(key, value)
    return st.text_area(label, key=key, **more) or ""


def choice(key: str, label: str, value: T, options: Sequence[T], **more: Any) -> T:
    """Draw a choice of one; a value that is no option any more is shown as one."""
    entries = list(options) if value in options else [*options, value]
    seed(key, value)
    if st.session_state[key] not in entries:
        entries.append(st.session_state[key])
    selected: T = st.selectbox(label, entries, key=key, **more)
    return selected


def several(
    key: str,
    label: str,
    values: Sequence[str],
    options: Sequence[str],
    *,
    accept_new: bool = True,
    **more: Any,
) -> tuple[str, ...]:
    """Draw a choice of several; ``accept_new``: further ones can be typed, one by one or ``1, 2``."""
    seed(key, list(values))
    known_texts = {*options, *values}
    now = apart(st.session_state[key], known_texts)
    if now != st.session_state[key]:
        st.session_state[key] = now
    entries = list(dict.fromkeys([*options, *values, *now]))
    return tuple(st.multiselect(label, entries, key=key, accept_new_options=accept_new, **more))


def apart(texts: Sequence[str], known_texts: Collection[str] = ()) -> list[str]:
    """Return what was typed with commas and blanks between as one level each.

    >>> apart(["1, 2,  4", "1,5", "a, b"], known_texts=["a, b"])
    ['1', '2', '4', '1,5', 'a, b']
    """
    parts = [[text] if text in known_texts else re.split(r",\s+", text) for text in texts]
    return list(dict.fromkeys(part.strip() for some in parts for part in some if part.strip()))


def tick(key: str, label: str, value: bool, **more: Any) -> bool:
    """Draw something that is so or is not."""
    seed(key, value)
    return st.checkbox(label, key=key, **more)


def count(
    key: str, label: str, value: int | None, low: int, high: int | None = None, **more: Any
) -> int | None:
    """Draw a whole number; None is empty."""
    seed(key, value)
    number = st.number_input(label, low, high, value=None, step=1, key=key, **more)
    return None if number is None else int(number)


class FieldMessages:
    """The places beside fields, which are told what is wrong once everything is read."""

    def __init__(self) -> None:
        self._places: dict[str, DeltaGenerator] = {}

    def at(self, *places: str) -> None:
        """Keep room here for what is wrong with these fields."""
        room = st.container()
        for place in places:
            self._places[place] = room

    def tell(self, faults: Sequence[FormFault], *, missing: bool) -> list[FormFault]:
        """Say what is wrong beside its field, and return what has no room here.

        Args:
            faults: of the whole form.
            missing: whether empty fields are told, too.
        """
        elsewhere = []
        for fault in faults:
            room = self._places.get(fault.place)
            if room is None:
                elsewhere.append(fault)
            elif not fault.missing:
                room.error(escape_markdown(fault.text), icon=":material/error:")
            elif missing:
                room.warning(escape_markdown(fault.text), icon=":material/edit:")
        return elsewhere
