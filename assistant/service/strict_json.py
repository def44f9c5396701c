"""Parser for strict JSON, which refuses texts that other parsers could read differently.

RFC 8259 leaves to the reader what duplicate keys, numbers out of range and lone surrogates mean;
two programs could therefore see two requests in one.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import NoReturn

from assistant.core.errors import AssistantError

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 64
MAX_DIGITS = 4300  # of a number: Python's limit for integers (sys.int_info)

INT64 = 2**63

# Possessive, so that no text makes it backtrack: a string, closed or not, or a bracket.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class RefusedJsonError(AssistantError):
    """Error for a text that is not JSON or is ambiguous, with the HTTP status of the response.

    ``status`` is that of HTTP: 400 for invalid JSON and duplicate keys, 413 for a text that is too
    large, 422 for values that are not allowed here.
    """

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(status, sentence)

    def __str__(self) -> str:
        return str(self.args[1])


def read_json(body: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Json:
    """Parse strict JSON from UTF-8 bytes within limits of size and nesting depth.

    Integers are within 64 bits, numbers finite, texts representable in UTF-8. The nesting of arrays
    and objects is checked before parsing, because parsers recurse.

    Raises:
        RefusedJsonError: any other text.
    """
    if len(body) > max_bytes:
        raise RefusedJsonError(413, f"{len(body)} bytes are too many; {max_bytes} are allowed")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise RefusedJsonError(
            400, f"byte {error.start + 1} is not UTF-8; send JSON in UTF-8"
        ) from error
    if not text.strip():
        raise RefusedJsonError(400, "the body is empty; send a JSON object")
    _check_depth(body, max_depth)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_number,
            parse_int=_integer,
        )
    except json.JSONDecodeError as error:
        raise RefusedJsonError(
            400, f"not JSON at line {error.lineno}, column {error.colno}: {error.msg.lower()}"
        ) from error
    if _SURROGATE.search(body):
        _check_texts(value)
    return value


def _check_depth(body: bytes, max_depth: int) -> None:
    if body.count(b"[") + body.count(b"{") <= max_depth:
        return
    depth = 0
    for token in _TOKEN.finditer(body):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
            if depth > max_depth:
                raise RefusedJsonError(
                    400, f"nested deeper than {max_depth}, at byte {token.start() + 1}"
                )
        elif first in b"]}":
            depth -= 1


def _object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise RefusedJsonError(400, f"the key {_shown(name)} is given twice in one object")
            names.add(name)
    return mapping


def _no_number(word: str) -> NoReturn:
    raise RefusedJsonError(422, f"{word} is not a number here; omit the field or send null")


def _number(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise RefusedJsonError(400, f"a number has {len(text)} characters; at most {MAX_DIGITS}")
    value = float(text)
    if not math.isfinite(value):
        raise RefusedJsonError(422, f"{_shown(text)} is too large for a 64-bit number")
    return value


def _integer(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise RefusedJsonError(400, f"an integer has {len(text)} characters; at most {MAX_DIGITS}")
    value = int(text)
    if not -INT64 <= value < INT64:
        raise RefusedJsonError(422, f"{_shown(text)} is outside the range of a 64-bit integer")
    return value


def _check_texts(value: Json) -> None:
    for text in _texts(value):
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RefusedJsonError(
                422, f"the text {_shown(text)} contains half a character (a lone surrogate)"
            ) from error


def _texts(value: Json) -> Iterator[str]:
    """Yield all texts and keys, without recursion."""
    waiting: list[Json] = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            yield from node
            waiting.extend(node.values())


def _shown(text: str, longest: int = 40) -> str:
    return ascii(text if len(text) <= longest else f"{text[:longest]}...")
