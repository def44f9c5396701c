"""Fields of the config models: their one definition, and the walk over all tables of a sweep file.

A field has its name, type, bounds, default, meaning and label in the model, once. The command
line, the form of the browser, the JSON schema and the reference page read them here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from inspect import isclass
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.fields import FieldInfo

from assistant.applications.process_limits import LARGEST_BYTES
from assistant.core.bounds import DURATION_S, VALUE
from sim.api import SizeError, parse_duration, parse_size

LevelValue = bool | int | float | str
Number = int | float
BoundedNumber = Annotated[Number, VALUE]


def _duration_s(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _size_bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return parse_size(value)
    except SizeError as error:
        raise ValueError(f"should be a size: {error}") from error


TIME, SIZE = "time span", "size"
"""Formats of the JSON schema: of a number of seconds or bytes, or a text with a unit."""

SizeBytes = Annotated[
    int,
    BeforeValidator(_size_bytes),
    Field(gt=0, le=LARGEST_BYTES),
    WithJsonSchema(
        {"type": ["integer", "string"], "minimum": 1, "maximum": LARGEST_BYTES, "format": SIZE}
    ),
]
DurationS = Annotated[
    float,
    BeforeValidator(_duration_s),
    DURATION_S,
    WithJsonSchema(
        {
            "type": ["number", "string"],
            "exclusiveMinimum": DURATION_S.low,
            "maximum": DURATION_S.high,
            "format": TIME,
        }
    ),
]


class StrictModel(BaseModel):
    """Base model of a settings table that rejects unknown keys and wrong types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def setting(
    meaning: str,
    default: Any = ...,
    *,
    usual: str = "",
    title: str = "",
    example: str = "",
    **bounds: Any,
) -> Any:
    """Define a field of a settings table.

    Args:
        meaning: one or two sentences for the reference page and the help of the command line.
        default: value of a key that is left out; a required key has none.
        usual: what a key that is left out means, where the default does not show it.
        title: label of the form field; none if the form does not show it.
        example: a value as a person types it.
        bounds: constraints of pydantic's ``Field``, such as ``ge`` and ``pattern``.
    """
    examples = [example] if example else None
    more: dict[str, Any] | None = {USUAL: usual} if usual else None
    return Field(
        default, description=meaning, title=title or None, examples=examples,
        json_schema_extra=more, **bounds,
    )  # fmt: skip


USUAL = "usual"
"""Keyword of the JSON schema for the meaning of a key that is left out."""


@dataclass(frozen=True, slots=True)
class SettingsTable:
    """One table of a sweep file.

    Args:
        path: names from the top, such as ``("application", "futures")``; empty at the top.
        kind: kind of the application, for one of several models of ``[application]``.
        heading: as TOML writes it, such as ``[[parameters]]``.
    """

    path: tuple[str, ...]
    model: type[BaseModel]
    kind: str = ""
    heading: str = ""


def settings_tables(root: type[BaseModel]) -> Iterator[SettingsTable]:
    """Yield the tables of a sweep file: the top, then each field's table with those inside it."""
    yield SettingsTable((), root)
    yield from _inner_tables(root, (), "")


def _inner_tables(
    model: type[BaseModel], path: tuple[str, ...], array: str
) -> Iterator[SettingsTable]:
    for name, field in model.model_fields.items():
        here = (*path, name)
        dotted = ".".join(here)
        is_array = get_origin(field.annotation) is list
        heading = f"[[{dotted}]]" if is_array else f"{name} of {array}" if array else f"[{dotted}]"
        models = nested_models(field.annotation)
        for inner in models:
            kind = str(_tag(inner)) if len(models) > 1 else ""
            yield SettingsTable(here, inner, kind, heading)
            yield from _inner_tables(inner, here, heading if is_array else "")


def nested_models(annotation: Any) -> tuple[type[BaseModel], ...]:
    """Return the models of tables in the type of a field, such as ``list[ParameterSettings]``."""
    if isclass(annotation) and get_origin(annotation) is None:
        return (annotation,) if issubclass(annotation, BaseModel) else ()
    inner = [model for part in get_args(annotation) for model in nested_models(part)]
    return tuple(dict.fromkeys(inner))


def _tag(model: type[BaseModel]) -> object:
    """Return the value of ``kind`` that selects a model among several; None if it has none."""
    field = model.model_fields.get("kind")
    return None if field is None else next(iter(get_args(field.annotation)), None)


def model_at(root: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    """Return the model of the table that has the key at a location of a pydantic error."""
    models: tuple[type[BaseModel], ...] = (root,)
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        tagged = tuple(model for model in models if len(models) > 1 and _tag(model) == part)
        fields = [model.model_fields[part] for model in models if part in model.model_fields]
        inner = tagged or (nested_models(fields[0].annotation) if fields else ())
        models = inner or models
    return models[0]


def field_at(root: type[BaseModel], path: str, kind: str = "") -> FieldInfo:
    """Return the field of a path such as ``cost.limit``; ``kind`` selects the application."""
    model, name = _owner(root, path, kind)
    return model.model_fields[name]


def _owner(root: type[BaseModel], path: str, kind: str) -> tuple[type[BaseModel], str]:
    models: tuple[type[BaseModel], ...] = (root,)
    *tables, name = path.split(".")
    for table in tables:
        models = nested_models(models[0].model_fields[table].annotation)
        if len(models) > 1:
            models = tuple(model for model in models if _tag(model) == (kind or "scheduling"))
    return models[0], name


def field_schema(root: type[BaseModel], path: str, kind: str = "") -> dict[str, Any]:
    """Return the JSON schema of the field of a path, without the alternative null."""
    model, name = _owner(root, path, kind)
    described: dict[str, Any] = _schema_of(model)["properties"][name]
    choices = [part for part in described.get("anyOf", ()) if part.get("type") != "null"]
    return {**described, **choices[0]} if choices else described


def default_words(described: dict[str, Any]) -> str:
    """Return the default of a field in words, from its JSON schema; empty if it has none."""
    default = described.get("default")
    if USUAL in described:
        return str(described[USUAL])
    if default is None or default in ("", [], {}) or isinstance(default, dict):
        return ""
    if described.get("format") == TIME:
        return next(
            f"{default / seconds:g}{unit}" for unit, seconds in _UNITS.items()
            if default % seconds == 0
        )  # fmt: skip
    return str(default).lower() if isinstance(default, bool) else str(default)


_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()
