"""Codec between events and JSON: each event is a JSON object with its ``type`` and its fields.

Shapes come from the types themselves (pydantic reads the dataclasses). What is read back is
checked on the way in: an unknown type, a missing or a wrong field is an error, never a guess.
"""

import json
import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from assistant.core.errors import AssistantError, CodecError
from assistant.core.events import EVENT_TAGS, Event
from strategies.space.errors import StrategyError

VERSION = 3
"""Version of the event log's format, stored with every event; raised on incompatible changes.

Version 1 had other names of strategies, see `_STRATEGIES_OF_VERSION_1`. Up to version 2 the
settings of a sweep (`ExperimentOpened.recipe`) were JSON in a text.
"""

_STRATEGIES_OF_VERSION_1: Mapping[str, str] = {"anova": "grasp", "grasp": "copper"}
"""Present names of strategies, by their names in events of version 1."""

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""Where one half of a pair of surrogates may be without the other."""

_SHOWN = 60

_STORED_NAMES: Mapping[str, Mapping[str, str]] = {
    "AdviceGiven": {"warning": "advice"},
    "ExperimentOpened": {"warning_policy": "watch"},
    "HandedOver": {"auto_steering": "automatic", "auto_steering.warnings": "advice"},
    "WatchChanged": {"warning_policy": "watch"},
}
"""By tag, paths of fields that have another name in a stored log. Like a tag, it never changes."""

_FIELD_NAMES: Mapping[str, Mapping[str, str]] = {
    "AdviceGiven": {"advice": "warning"},
    "ExperimentOpened": {"watch": "warning_policy"},
    "HandedOver": {"automatic": "auto_steering", "automatic.advice": "warnings"},
    "WatchChanged": {"watch": "warning_policy"},
}
"""The same read backwards: from the path in a stored log to the name of the field."""

_TAG_OF = {kind: tag for tag, kind in EVENT_TAGS.items()}


def event_tag(event: Event) -> str:
    """Return the name that identifies the type of an event in a stored event log."""
    return _TAG_OF[type(event)]


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(EVENT_TAGS[name])


def encode_event(event: Event) -> str:
    """Encode an event as one line of JSON, or raise CodecError for an unsupported value."""
    try:
        name = event_tag(event)
        body = _adapter(name).dump_python(event, mode="json", warnings="error")
        body = _renamed(body, _STORED_NAMES[name]) if name in _STORED_NAMES else body
        return json.dumps({"type": name, "v": VERSION, **body}, allow_nan=False)
    except (ValueError, PydanticSerializationError) as error:
        raise CodecError(f"a {type(event).__name__} cannot be stored: {error}") from error


def decode_event(text: str) -> Event:
    """Decode an event from one line of JSON, or raise CodecError if the line is invalid."""
    try:
        body = decode_json(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise CodecError(f"not an event: {str(text)[:_SHOWN]!r}") from error
    return decode_event_object(body)


def decode_event_object(value: object) -> Event:
    """Decode an event from the value of its JSON (`decode_json`), or raise CodecError."""
    try:
        if not isinstance(value, dict):
            raise TypeError("an event is an object")
        body: dict[str, Any] = dict(value)
        name, version = body.pop("type"), body.pop("v")
        is_supported = name in EVENT_TAGS and type(version) is int and 1 <= version <= VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise CodecError(f"not an event: {str(value)[:_SHOWN]!r}") from error
    if not is_supported:
        raise CodecError(
            f"an event of type {str(name)[:_SHOWN]!r}, version {str(version)[:_SHOWN]}, is unknown "
            f"to this Copperline (it knows 1 to {VERSION}); use the newer one that wrote it"
        )
    try:
        body = _renamed(body, _FIELD_NAMES[name]) if name in _FIELD_NAMES else body
        body = _with_tables(body) if isinstance(body.get("recipe"), str) else body
        body = _upgraded(body) if version == 1 else body
        event: Event = _adapter(name).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))[:_SHOWN]
        why = " ".join(first["msg"].split())[: 4 * _SHOWN]
        raise CodecError(f"a stored {name} is damaged at '{place}': {why}") from error
    except (AssistantError, StrategyError) as error:
        raise CodecError(f"a stored {name} is damaged: {str(error)[: 4 * _SHOWN]}") from error
    return event


def _renamed(body: Mapping[str, Any], names: Mapping[str, str], path: str = "") -> dict[str, Any]:
    """Return a body with other field names, by their path; the order stays."""
    renamed: dict[str, Any] = {}
    for key, value in body.items():
        place = path + key
        is_outer = isinstance(value, dict) and any(name.startswith(f"{place}.") for name in names)
        inner = _renamed(value, names, f"{place}.") if is_outer else value
        renamed[names.get(place, key)] = inner
    return renamed


def _upgraded(value: Any) -> Any:
    """Return a value of version 1 with the present names of strategies, in the settings too."""
    if isinstance(value, list):
        return [_upgraded(item) for item in value]
    if not isinstance(value, dict):
        return value
    upgraded = {key: _upgraded(item) for key, item in value.items()}
    if isinstance(strategy := upgraded.get("strategy"), str):
        upgraded["strategy"] = _STRATEGIES_OF_VERSION_1.get(strategy, strategy)
    elif isinstance(strategy, dict) and isinstance(name := strategy.get("name"), str):
        strategy["name"] = _STRATEGIES_OF_VERSION_1.get(name, name)
    return upgraded


_RENAMED_KEYS = (
    ("", "advice", "warnings"),
    ("", "watch", "warning_policy"),
    ("application", "today", "baseline"),
    ("application.futures", "judge", "aggregate"),
)
"""Keys that settings in a text may have: the path of their table, the old and the present name."""


def _with_tables(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of an opening with its settings as tables, which were JSON in a text.

    Keys of older versions are renamed. Raises CodecError if they are no JSON.
    """
    text = body["recipe"]
    try:
        tables: Any = decode_json(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise CodecError(f"a stored ExperimentOpened is damaged at 'recipe': {error}") from error
    for path, old, new in _RENAMED_KEYS:
        table = tables
        for name in filter(None, path.split(".")):
            table = table.get(name) if isinstance(table, dict) else None
        if isinstance(table, dict) and old in table:
            table[new] = table.pop(old)
    return {**body, "recipe": tables}


def decode_json(text: str) -> Any:
    """Return the value of a JSON text, in which all is finite and can be written again.

    Raises:
        ValueError: it is no JSON, or holds NaN, an infinite number or half a character.
        RecursionError: it is nested too deeply.
    """
    value = _DECODER.decode(text)
    if not text.isascii():
        text.encode()
    if "\\u" in text and _HALF.search(text):
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:_SHOWN]} is not finite")
    return number


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
