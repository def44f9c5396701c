"""Values as YAML 1.2 text, in blocks: tables, lists, texts, whole numbers and truth values.

Texts stand plain where no reader of YAML could take them for something else, and as JSON otherwise,
which is YAML too.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sim.errors import WorkloadError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*(/[A-Za-z0-9_.\-]+)*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"})
MOST_DEPTH = 64


def yaml_text(value: Any) -> str:
    """Return a table or list as a YAML document, which ends with a line end.

    Raises:
        WorkloadError: something in it is none of what the module says.
    """
    return "\n".join(_lines(value, 0)) + "\n"


def _lines(value: Any, depth: int) -> list[str]:
    if depth > MOST_DEPTH:
        raise WorkloadError(f"a manifest is nested more than {MOST_DEPTH} deep.")
    if isinstance(value, Mapping) and value:
        made = []
        for key, one in value.items():
            made += _entry(f"{_text(str(key))}:", one, depth)
        return made
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [line for one in value for line in _item(one, depth)]
    return [_scalar(value)]


def _entry(head: str, value: Any, depth: int) -> list[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        return [head, *(f"  {line}" for line in _lines(value, depth + 1))]
    return [f"{head} {_scalar(value)}"]


def _item(value: Any, depth: int) -> list[str]:
    first, *others = _lines(value, depth + 1)
    return [f"- {first}", *(f"  {line}" for line in others)]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping | list | tuple) and not value:
        return "{}" if isinstance(value, Mapping) else "[]"
    raise WorkloadError(f"a manifest cannot say {value!r}.")


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else _escaped(c) for c in quoted)


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
