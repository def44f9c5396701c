"""Columns of delimited text against lists of texts, whatever the hash of a text is."""

import numpy as np
import pytest

import sim.formats.text_columns as text_columns
from sim.formats.clock_texts import clock_durations_s, duration_s, parse_moments
from sim.formats.text_columns import WORD_BYTES, TextCodes, TextColumn, TextNumbers

PIECES = (b"", b"a", b"ab", b"12345678", b"123456789", b"0", b"x" * 15, b"x" * 16, b"x" * 17,
          b"y" * 300, b".", b"\xff", b"1_[2-3]", b"01:02:03", b"99:99:99", b"1:02:03",
          b"2024-03-01T10:00:00", b"2024-03-01T10:00:00Z", b"123456789012345")  # fmt: skip


def column(texts: list[bytes]) -> TextColumn:
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    ends = np.cumsum(lengths + 1) - 1
    return TextColumn(b"|".join(texts) + b"|" * (WORD_BYTES + 1), ends - lengths, ends)


@pytest.fixture(params=[0, 1, 2, 3])
def texts(request: pytest.FixtureRequest) -> list[bytes]:
    rng = np.random.default_rng(request.param)
    return [
        b"".join(PIECES[i] for i in rng.integers(0, len(PIECES), rng.integers(1, 3)))
        for _ in range(200)
    ]


@pytest.mark.parametrize("slot_bits", [1, 16])
def test_equal_numbers_are_equal_texts(
    texts: list[bytes], slot_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_columns, "_SLOT_BITS", slot_bits)  # 1: nearly all texts collide
    codes, expected = TextCodes(), {}
    for some in (texts[:50], texts[50:], texts):
        for short in (some, [text for text in some if len(text) < 20], []):
            numbers = [expected.setdefault(text, len(expected)) for text in short]
            found = codes.of(column(short)).tolist()
            assert dict(zip(found, short, strict=True)) == {
                codes.texts[text]: text for text in short
            }
            assert len(set(found)) == len(set(numbers))


def test_rows_bytes_and_digits(texts: list[bytes]) -> None:
    texts_of = column(texts)
    assert list(texts_of) == texts
    assert [texts_of[row] for row in range(len(texts))] == texts
    short = [text for text in texts if len(text) < 20]
    for some in (texts, short):
        assert column(some).contain(b".").tolist() == [b"." in text for text in some]
    padded = [text.ljust(24, b"\0") for text in short]
    assert [row.tobytes() for row in column(short).chars(20)] == padded
    assert texts_of.first_bytes_in(b"019").tolist() == [
        text[:1] in (b"0", b"1", b"9") for text in texts
    ]
    plain = [text for text in texts if text.isdigit() and len(text) <= 15]
    numbers = column(plain).whole_numbers()
    assert numbers is not None
    assert numbers.tolist() == list(map(int, plain))
    assert column([*plain, b""]).whole_numbers() is None
    assert column([*plain, b"1x"]).whole_numbers() is None
    assert column([*plain, b"1" * 16]).whole_numbers() is None


def test_times_and_durations_as_of_lists(texts: list[bytes]) -> None:
    for found, expected in zip(parse_moments(column(texts)), parse_moments(texts), strict=True):
        np.testing.assert_array_equal(found, expected)
    clocks = clock_durations_s(column(texts))
    assert np.isfinite(clocks).any()
    for seconds, text in zip(clocks.tolist(), texts, strict=True):
        assert np.isnan(seconds) or seconds == duration_s(text)


def test_each_text_is_parsed_once_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text_columns, "_MOST_NUMBERS", 3)
    parsed: list[bytes] = []

    def parse(text: bytes) -> float:
        parsed.append(text)
        return float(text)

    numbers = TextNumbers(parse)
    assert numbers.of(column([b"1", b"2", b"1"])).tolist() == [1, 2, 1]
    assert numbers.of(column([b"2", b"3", b"4"])).tolist() == [2, 3, 4]
    assert parsed == [b"1", b"2", b"3", b"4"]
    assert numbers.of(column([b"4", b"1"])).tolist() == [4, 1]
    assert parsed[4:] == [b"4", b"1"]
