"""Bindings of form fields to keys of a sweep file: one table for drawing, writing and reading.

Label, help, choices, bounds and default of a field come from its key in the config models.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Protocol, TypeVar

from pydantic.fields import FieldInfo

from assistant.config.fields import TIME, default_words, field_at, field_schema
from assistant.config.sweep_file import SweepSettings, check_value
from assistant.ui.intents import FormFieldError, sentence
from strategies.space.parameter import parse_number

F = TypeVar("F")

_EXACT = 2.0**53
_TIME_HINT = "Enter a time such as 90s, 30m or 2h, or leave the field empty."


@dataclass(frozen=True, slots=True)
class Binding:
    """Form field that edits one key of a sweep file.

    Args:
        path: the key, such as ``cost.limit``.
        attribute: of the form, such as ``terms.cost_limit``; a text there is as typed.
        place: last part of the key of the widget; made of the last name of the path if empty.
        beside: place of its error message; that of the field itself if empty.
        kind: application of the key.
        values: value of the key by the value of the attribute, where they differ.
        lines: whether a typed text has one element of a list per line.
        words: label of a field that is not that of its key.
    """

    path: str
    attribute: str
    place: str = ""
    beside: str = ""
    kind: str = ""
    values: Mapping[Any, Any] | None = None
    lines: bool = False
    words: str = ""

    @property
    def key(self) -> FieldInfo:
        """Field of the key in its config model."""
        return field_at(SweepSettings, self.path, self.kind)

    @property
    def schema(self) -> Mapping[str, Any]:
        """JSON schema of the key."""
        return field_schema(SweepSettings, self.path, self.kind)

    @property
    def label(self) -> str:
        """Label of the field."""
        return self.words or label(self.path, self.kind)

    @property
    def help(self) -> str | None:
        """Meaning of the key, if the label does not say it."""
        meaning = (self.key.description or "").replace("`", "")
        return None if meaning.rstrip(".").casefold() == self.label.casefold() else meaning

    @property
    def placeholder(self) -> str:
        """What an empty field means, and an example."""
        usual, examples = default_words(dict(self.schema)), self.key.examples or ()
        return ", or ".join(str(part) for part in (usual, *examples) if part)

    def widget(self, form: str) -> str:
        """Return the key of the widget on the page of a form, such as ``new-run-limit``."""
        return f"{form}-{self.place or self.path.rpartition('.')[2].replace('_', '-')}"

    def message_place(self, form: str) -> str:
        """Return the place of the field's error messages."""
        return f"{form}-{self.beside}" if self.beside else self.widget(form)

    def value_in(self, form: object, name: str) -> Any:
        """Return the value of the key that a form has; None if it is left out.

        Raises FormFieldError for the page of the form ``name`` if the value is invalid.
        """
        entered = attrgetter(self.attribute)(form)
        value = self.values[entered] if self.values is not None else entered
        if isinstance(value, str):
            value = self._parsed(value.strip(), self.message_place(name))
        if value is None or value == self.default:
            return None
        try:
            check_value(self.path, value, "the form", self.kind)
        except Exception as error:
            hint = f" {_TIME_HINT}" if self.schema.get("format") == TIME else ""
            raise FormFieldError(self.message_place(name), f"{sentence(error)}{hint}") from error
        return value

    @property
    def default(self) -> Any:
        """Value of a key that is left out."""
        key = self.key
        return None if key.is_required() else key.get_default(call_default_factory=True)

    def _parsed(self, text: str, place: str) -> Any:
        if self.lines:
            return [line.strip() for line in text.splitlines() if line.strip()]
        form = self.schema.get("type")
        if not text or form not in ("number", "integer"):
            return text or None
        number = parse_number(text)
        if form == "integer" and not isinstance(number, int):
            raise FormFieldError(place, f"'{text}' is not a whole number.")
        if number is None:
            raise FormFieldError(
                place, f"'{text}' is not a number; use a decimal point and no commas."
            )
        return number

    def entered_for(self, value: Any, usual: Any) -> Any:
        """Return the value of the attribute for that of the key.

        ``usual`` is that of a new form, which shows how it is entered.
        """
        if self.values is not None:
            return next(entered for entered, x in self.values.items() if x == value)
        if self.lines:
            return "\n".join(value)
        if not isinstance(usual, str):
            return value
        is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _EXACT
        return as_typed(int(value) if is_whole else value)


def label(path: str, kind: str = "") -> str:
    """Return the label of the field of a key; ``kind`` selects the application."""
    return field_at(SweepSettings, path, kind).title or path


class FaultRecorder(Protocol):
    """Recorder of errors beside the fields of a form."""

    def beside(self, place: str) -> AbstractContextManager[None]:
        """Record an error in the block as one of the field at this place."""


def write(
    bindings: Iterable[Binding], form: object, name: str, faults: FaultRecorder
) -> Iterator[tuple[str, Any]]:
    """Yield path and value of the keys that the fields of a form set, without invalid ones."""
    for binding in bindings:
        value = None
        with faults.beside(binding.message_place(name)):
            value = binding.value_in(form, name)
        if value is not None:
            yield binding.path, value


def put(tables: dict[str, Any], path: str, value: Any) -> None:
    """Set the key at a path of settings tables, and make the tables around it."""
    *outer, name = path.split(".")
    for key in outer:
        tables = tables.setdefault(key, {})
    tables[name] = value


def read(bindings: Iterable[Binding], tables: Mapping[str, Any], form: F) -> F:
    """Return a form with its fields filled from settings tables.

    A text field of a key that is left out stays as in a new form; another one gets the default.
    """
    for binding in bindings:
        usual = attrgetter(binding.attribute)(form)
        value = at_path(tables, binding.path)
        if value is None and isinstance(usual, str) and not binding.lines:
            continue
        value = binding.default if value is None else value
        form = changed(form, binding.attribute, binding.entered_for(value, usual))
    return form


def at_path(tables: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path of settings tables; None if it is left out."""
    value: Any = tables
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def changed(form: F, attribute: str, value: Any) -> F:
    """Return a form with another value of an attribute, such as ``terms.goal``."""
    first, _, rest = attribute.partition(".")
    inner = changed(getattr(form, first), rest, value) if rest else value
    return replace(form, **{first: inner})  # type: ignore[type-var]


def as_typed(value: object) -> str:
    """Return a value of a sweep file as a person types it; None is an empty field."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
