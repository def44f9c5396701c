"""Answers as lines of ``name=value``, for programs that read no JSON, such as a shell script.

What is inside another thing has both names with a dot between them, a list gives a line for each
entry, and what is unknown is empty. Nothing is quoted or escaped, so a line is what it says:
``${line%%=*}`` is the name, ``${line#*=}`` the value. What a line cannot carry is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from assistant.service.problems import refusal

MEDIA_TYPE = "text/plain"


def wants_lines(accept: str) -> bool:
    """Return whether a header Accept asks for lines; anything else is given JSON."""
    return accept.partition(";")[0].strip().lower() == MEDIA_TYPE


def lines_of(told: Mapping[str, Any]) -> str:
    """Return an answer as lines.

    Raises:
        ProblemError: 406, a name or a value holds what a line cannot carry.
    """
    return "".join(f"{line}\n" for line in _lines("", told))


def _lines(prefix: str, told: Mapping[str, Any]) -> Iterator[str]:
    for key, value in told.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _lines(f"{name}.", value)
            continue
        for one in value if isinstance(value, list | tuple) else (value,):
            text = _text(one)
            if "=" in name or not _is_one_line(name) or not _is_one_line(text):
                raise refusal(
                    406,
                    f"'{name[:100]!a}' cannot be told in plain lines: a name has no '=', and "
                    "neither a name nor a value has a line break or another control character",
                    hint="ask for JSON: Accept: application/json",
                )
            yield f"{name}={text}"


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_one_line(text: str) -> bool:
    return not any(ord(c) < 0x20 or 0x7F <= ord(c) <= 0x9F for c in text)
