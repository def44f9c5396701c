"""Tables written as TOML, so that what was filled in can be kept as a sweep file.

The format: https://toml.io/en/v1.0.0. Scalars come first, then tables, then arrays of tables, so
that reading the text gives the same tables again.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDTH = 96


def toml_text(tables: Mapping[str, Any]) -> str:
    """Return tables as a TOML document.

    Args:
        tables: texts, truth values, numbers, sequences and mappings of them; keys are texts.

    Raises:
        TypeError: a value that TOML has no word for, such as None.

    >>> print(toml_text({"runs": 3, "application": {"kind": "lookup", "table": "a.csv"}}), end="")
    runs = 3
    <BLANKLINE>
    [application]
    kind = "lookup"
    table = "a.csv"
    """
    return "\n".join(_lines(tables, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of one table: what is plain first, for a header would end it."""
    nested = {k: v for k, v in table.items() if isinstance(v, Mapping)}
    arrays = {k: v for k, v in table.items() if not path and _is_array_of_tables(v)}
    for key, value in table.items():
        if key not in nested and key not in arrays:
            yield f"{_key(key)} = {_array(value) if _is_array(value) else _value(value)}"
    for key, value in nested.items():
        here = (*path, _key(key))
        yield from ("", f"[{'.'.join(here)}]")
        yield from _lines(value, here)
    for key, rows in arrays.items():
        for row in rows:
            yield from ("", f"[[{_key(key)}]]")
            yield from (f"{_key(k)} = {_value(v)}" for k, v in row.items())


def _is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_array_of_tables(value: Any) -> bool:
    return _is_array(value) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _array(values: Sequence[Any]) -> str:
    """Return an array, one element a line where it is wide."""
    line = _value(values)
    if len(line) <= _WIDTH:
        return line
    return "[\n" + "".join(f"    {_value(value)},\n" for value in values) + "]"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + "}"
    if _is_array(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no word for {value!r}")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _string(text: str) -> str:
    """Return a basic string; JSON escapes as TOML does, but for one character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
