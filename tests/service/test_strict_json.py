"""Strict JSON: the same value as the library's where it is taken, one status where it is not."""

import json
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.service.strict_json import INT64, MAX_DEPTH, RefusedJsonError, read_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-INT64, INT64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values, st.booleans())
def test_what_is_taken_is_what_was_meant(value: object, escaped: bool) -> None:
    body = json.dumps(value, ensure_ascii=escaped).encode()
    found = read_json(body)
    assert found == value
    assert json.dumps(found) == json.dumps(value)  # 1 is not 1.0 and not true


@given(st.binary(max_size=60) | st.text(alphabet='[]{}",:\\ud8019.-eEtrufalsN \n').map(str.encode))
def test_any_bytes_are_taken_or_refused_with_a_status(body: bytes) -> None:
    refused: RefusedJsonError | None = None
    try:
        found = read_json(body)
    except RefusedJsonError as error:
        refused = error
    if refused is not None:
        assert refused.status in (400, 413, 422)
        assert str(refused).isprintable()
        return
    assert json.loads(body) == found
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()


@given(st.integers(1, 2 * MAX_DEPTH), st.booleans())
def test_depth_is_counted_exactly(depth: int, in_objects: bool) -> None:
    text = '{"[{":' * depth + '"]"' + "}" * depth if in_objects else "[" * depth + "]" * depth
    if depth <= MAX_DEPTH:
        assert read_json(text.encode()) == json.loads(text)
        return
    with pytest.raises(RefusedJsonError, match="nested deeper than 64") as refused:
        read_json(text.encode())
    assert refused.value.status == 400


def test_brackets_in_texts_and_side_by_side_are_no_depth() -> None:
    text = json.dumps({"a": '\\"[[[' * 100, "b": [[] for _ in range(1000)]})
    assert read_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10**6,
        b'{"a":' * 200_000,
        b'["' + b'\\"' * 500_000,
        b'["' + b"\\" * 999_999,
        b'"' * 10**6,
        b"[" + b"1" * 10**6 + b"]",
        b"[0." + b"1" * 10**6 + b"]",
        b"[" + b'"\\ud800",' * 100_000 + b"0]",
    ],
    ids=lambda body: repr(body[:8]),
)
def test_the_worst_texts_are_refused_at_once(body: bytes) -> None:
    started_s = time.process_time()
    with pytest.raises(RefusedJsonError):
        read_json(body)
    assert time.process_time() - started_s < 2.0


@pytest.mark.parametrize("number", ["1e308", "-0.0", "1e-999", "0", "-9223372036854775808"])
def test_numbers_within_bounds(number: str) -> None:
    found = read_json(number.encode())
    assert isinstance(found, int | float)
    assert math.isfinite(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' is given twice"),
        ('{"\x1b[31m": 1}', "not JSON at line 1, column 3"),
        ('{\n  "a": +1\n}', "line 2, column 8"),
        ('{"' + "k" * 90 + '": 1, "' + "k" * 90 + '": 2}', r"'k{40}\.\.\.' is given twice"),
    ],
)
def test_the_sentence_says_where(text: str, words: str) -> None:
    with pytest.raises(RefusedJsonError, match=words):
        read_json(text.encode())


def test_size_is_an_argument() -> None:
    assert read_json(b"[1]", max_bytes=3) == [1]
    with pytest.raises(RefusedJsonError, match="4 bytes are too many; 3 are allowed") as refused:
        read_json(b"[12]", max_bytes=3)
    assert refused.value.status == 413
