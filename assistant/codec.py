"""Events as JSON, for the store and whoever reads journals: an object with ``type`` beside fields.

Shapes come from the types themselves (pydantic reads the dataclasses). What is read back is
checked on the way in: an unknown type, a missing or a wrong field is an error, never a guess.
"""

import json
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from assistant.errors import CodecError
from assistant.events import Event

VERSION = 1
"""Of the journal's format; stored with every event, raised when an old reader would misread."""

_TYPES: dict[str, type] = {event.__name__: event for event in get_args(Event)}


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    return TypeAdapter(_TYPES[name])


def encode_event(event: Event) -> str:
    """Return one line of JSON. Raises CodecError for a value that JSON has no word for."""
    try:
        name = type(event).__name__
        body = _adapter(name).dump_python(event, mode="json", warnings="error")
        return json.dumps({"type": name, "v": VERSION, **body}, allow_nan=False)
    except (ValueError, PydanticSerializationError) as error:
        raise CodecError(f"a {type(event).__name__} cannot be stored: {error}") from error


def decode_event(text: str) -> Event:
    """Return the event of one line of JSON. Raises CodecError if it is not one."""
    try:
        body = json.loads(text)
        name, version = body.pop("type"), body.pop("v")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CodecError(f"not an event: {text[:60]!r}") from error
    if name not in _TYPES or version != VERSION:
        raise CodecError(
            f"an event of type '{name}', version {version}, is unknown to this Copperline "
            f"(it knows version {VERSION}); use the newer one that wrote it"
        )
    try:
        event: Event = _adapter(name).validate_python(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CodecError(f"a stored {name} is damaged at '{place}': {first['msg']}") from error
    return event
