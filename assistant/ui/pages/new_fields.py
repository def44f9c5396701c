"""Form fields that keep their typed text when the user changes the page or the form step.

Room for messages is reserved while the page is drawn, and filled once all fields are read.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assistant.ui.bindings import changed
from assistant.ui.intents import forget
from assistant.ui.labels import escape_markdown
from assistant.ui.pages.new_form import BINDINGS, Form
from assistant.ui.pages.new_sweep_file import FormFault
from assistant.ui.state import seed

T = TypeVar("T")

FIRST = Form("command")
"""The form of a new experiment before anything is filled in."""

_DRAFT = "new-form"
_STATE = "new-state-"  # Prefix of the keys in the session state that are not fields


def draft() -> Form:
    """Return the current draft of the form for a new experiment."""
    form: Form = st.session_state.setdefault(_DRAFT, FIRST)
    return form


def keep(form: Form) -> None:
    """Store the form as the draft, and delete the last error message if the form has changed."""
    if form != st.session_state.get(_DRAFT):
        st.session_state[_DRAFT] = form
        forget()


def begin(form: Form) -> None:
    """Store a form as the draft and clear the values of all fields, before they are drawn."""
    for key in [key for key in st.session_state if str(key).startswith("new-")]:
        if key != _DRAFT:
            del st.session_state[key]
    st.session_state[_DRAFT] = form


def change_form(change: Callable[[Form], Form]) -> None:
    """Replace the draft by the result of a function, for buttons that add or remove a row."""
    keep(change(draft()))


def leave(beginning: str) -> None:
    """Delete the values of all fields with a key prefix, so that they are drawn anew."""
    for key in [key for key in st.session_state if str(key).startswith(beginning)]:
        del st.session_state[key]


def follow(key: str, usual: Sequence[str]) -> None:
    """Set a multiple-choice field to a new default if the user kept the old default."""
    usual_key = f"{_STATE}usual-{key}"
    before = st.session_state.get(usual_key)
    if before != list(usual):
        st.session_state[usual_key] = list(usual)
        if before is not None and st.session_state.get(key) == before:
            st.session_state[key] = list(usual)


def text(key: str, label: str, value: str, **more: Any) -> str:
    """Draw a one-line text field and return its content."""
    seed(key, value)
    return st.text_input(label, key=key, **more) or ""


def area(key: str, label: str, value: str, **more: Any) -> str:
    """Draw a multi-line text field and return its content."""
    seed(key, value)
    return st.text_area(label, key=key, **more) or ""


def choice(key: str, label: str, value: T, options: Sequence[T], **more: Any) -> T:
    """Draw a selection list, which also contains the old ``value``, and return the choice."""
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
    are_numbers: bool = True,
    **more: Any,
) -> tuple[str, ...]:
    """Draw a multiple-choice field and return its values; ``accept_new`` permits typed ones.

    Several typed at once are separated; ``are_numbers`` says whether they may be a range.
    """
    seed(key, list(values))
    known_texts = {*options, *values}
    now = apart(st.session_state[key], known_texts, are_numbers=are_numbers)
    if now != st.session_state[key]:
        st.session_state[key] = now
    entries = list(dict.fromkeys([*options, *values, *now]))
    return tuple(st.multiselect(label, entries, key=key, accept_new_options=accept_new, **more))


_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(\s+{_NUMBER})+")
_RANGE = re.compile(rf"({_NUMBER}?)\s*(?:\.\.|to)\s*({_NUMBER})(?:\s*(?:by|step)\s*({_NUMBER}))?")
MOST_IN_RANGE = 1_000  # Levels of a typed range; a longer one is not taken for a range


def apart(
    texts: Sequence[str], known_texts: Collection[str] = (), *, are_numbers: bool = True
) -> list[str]:
    """Split texts into unique levels at commas, numbers also at blanks; keep known texts whole.

    With ``are_numbers``, a range is the numbers that it has.

    >>> apart(["1,2, 4", "8 16", "a b", "c, d"], known_texts=["c, d"])
    ['1', '2', '4', '8', '16', 'a b', 'c, d']
    >>> apart(["1..4", "0.1 to 0.3 by 0.1"]), apart(["1 2", "1..4"], are_numbers=False)
    (['1', '2', '3', '4', '0.1', '0.2', '0.3'], ['1 2', '1..4'])
    """
    parts: list[str] = []
    for text in texts:
        for piece in [text] if text in known_texts else re.split(r"[,;]", text):
            level = piece.strip()
            if are_numbers and level not in known_texts:
                parts += _range(level) or _blanks_apart(level)
            else:
                parts.append(level)
    return list(dict.fromkeys(part for part in parts if part))


def _blanks_apart(text: str) -> list[str]:
    return text.split() if _NUMBERS.fullmatch(text) else [text]


def _range(text: str) -> list[str]:
    """Return the numbers of a range, such as ``1..8`` or ``0 to 1 by 0.1``; [] if it is none."""
    match = _RANGE.fullmatch(text)
    if match is None or not match[1]:
        return []
    low, high, step = Decimal(match[1]), Decimal(match[2]), Decimal(match[3] or 1)
    if low >= high or step <= 0 or (high - low) / step >= MOST_IN_RANGE:
        return []
    n = int((high - low) / step) + 1
    return [f"{(low + i * step).normalize():f}" for i in range(n)]


def tick(key: str, label: str, value: bool, **more: Any) -> bool:
    """Draw a checkbox and return its state."""
    seed(key, value)
    return st.checkbox(label, key=key, **more)


def count(
    key: str, label: str, value: int | None, low: int, high: int | None = None, **more: Any
) -> int | None:
    """Draw a field for a whole number and return the number, or None if the field is empty."""
    seed(key, value)
    number = st.number_input(label, low, high, value=None, step=1, key=key, **more)
    return None if number is None else int(number)


def bound(form: Form, path: str, *, words: Mapping[Any, str] | None = None, **more: Any) -> Form:
    """Draw the field that edits a key of a sweep file, and return the changed form.

    ``path`` is the key, such as ``deadline``, of `BINDINGS`; ``words`` are the labels of values
    to choose from; ``more`` is what the widget takes, such as ``width``.
    """
    binding = BINDINGS[path]
    key, label = binding.widget("new"), binding.label
    entered = attrgetter(binding.attribute)(form)
    more = {"help": binding.help, **more}
    schema = binding.schema
    value: Any
    if words is not None:
        value = choice(key, label, entered, list(words), format_func=partial(_word, words), **more)
    elif isinstance(entered, bool):
        value = tick(key, label, entered, **more)
    elif binding.lines:
        value = area(key, label, entered, **more)
    elif schema.get("type") == "integer" and not isinstance(entered, str):
        low, high = schema["minimum"], min(schema["maximum"], _MOST_IN_BROWSER)
        placeholder = {"placeholder": binding.placeholder} if binding.default is None else {}
        value = count(key, label, entered, low, high, **{**placeholder, **more})
        value = binding.default if value is None else value
    else:
        value = text(key, label, entered, **{"placeholder": binding.placeholder, **more})
    return changed(form, binding.attribute, value)


_MOST_IN_BROWSER = 2**53 - 1


def _word(words: Mapping[Any, str], value: Any) -> str:
    return words.get(value, str(value))


class FieldMessages:
    """Placeholders beside form fields, filled with messages once all fields are read."""

    def __init__(self) -> None:
        self._places: dict[str, DeltaGenerator] = {}

    def at(self, *places: str) -> None:
        """Reserve space at this point of the page for messages of the given fields."""
        room = st.container()
        for place in places:
            self._places[place] = room

    def tell(self, faults: Sequence[FormFault], *, missing: bool) -> list[FormFault]:
        """Draw field errors beside their fields and return those without a reserved space."""
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
