"""Columns of delimited text, read as machine words: no Python object per field.

A block of 26 fields for 450,000 jobs has twelve million fields, and a `bytes` object for each costs
more than all that is computed from them. A `TextColumn` has places in the block alone, and
`TextCodes` numbers its texts by a hash table, a column at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Places = NDArray[np.int64]

WORD_BYTES = 8
_MASKS = np.array([2 ** (8 * n) - 1 for n in range(WORD_BYTES + 1)], dtype="<u8")
_MOST_DIGITS = 15  # of a whole number that is exact as a float
_SLOT_BITS = 16
_LONGEST_HASHED = 256  # bytes of a text; longer ones are rare
_MOST_NUMBERS = 100_000
_MIX, _SPREAD = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint8(ord("0"))


@dataclass(frozen=True, eq=False)
class TextColumn:
    """One field of each row of a block of text without NUL bytes.

    Attributes:
        block: the text, followed by at least `WORD_BYTES` other bytes.
        starts, ends: int64 [n], where the field of each row starts, and where it ends.
    """

    block: bytes
    starts: Places
    ends: Places

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> bytes:
        return self.block[self.starts[row] : self.ends[row]]

    def __iter__(self) -> Iterator[bytes]:
        block, places = self.block, zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return (block[start:end] for start, end in places)

    def of_rows(self, rows: NDArray[Any]) -> "TextColumn":
        """Return the column of some rows, by number or bool."""
        return TextColumn(self.block, self.starts[rows], self.ends[rows])

    @cached_property
    def lengths(self) -> Places:
        """Number of bytes of each text, int64 [n]."""
        return self.ends - self.starts

    def words(self, n_words: int) -> Words:
        """Return the first bytes of each text as little-endian words, filled with zeros, [n, k]."""
        last = len(self.block) - WORD_BYTES
        every = np.ndarray((last + 1,), "<u8", self.block, 0, (1,))
        offsets = WORD_BYTES * np.arange(n_words)
        words: Words = every[np.minimum(self.starts[:, None] + offsets, last)]
        words &= _MASKS[np.clip(self.lengths[:, None] - offsets, 0, WORD_BYTES)]
        return words

    def chars(self, width: int) -> NDArray[np.uint8]:
        """Return the first bytes of each text, filled with zeros, uint8 [n, `width` or more]."""
        return self.words(-(-width // WORD_BYTES)).view(np.uint8)

    def first_bytes_in(self, allowed: bytes) -> NDArray[np.bool_]:
        """Return whether each text begins with one of some bytes, bool [n]."""
        return np.isin(self.chars(1)[:, 0], np.frombuffer(allowed, dtype=np.uint8))

    def contain(self, byte: bytes) -> NDArray[np.bool_]:
        """Return whether each text contains a byte, bool [n]."""
        longest = int(self.lengths.max(initial=0))
        if longest > _LONGEST_HASHED:
            return np.array([byte in text for text in self], dtype=np.bool_)
        contain: NDArray[np.bool_] = (self.chars(longest) == ord(byte)).any(axis=1)
        return contain

    def whole_numbers(self) -> NDArray[np.int64] | None:
        """Return the texts as whole numbers; None if one is not of 1 to 15 digits."""
        n_digits = self.lengths
        if not len(self) or n_digits.min() < 1 or n_digits.max() > _MOST_DIGITS:
            return None
        width = int(n_digits.max())
        digits = self.chars(width)[:, :width] - _ZERO  # of uint8: what comes before 0 becomes large
        inside = np.arange(width) < n_digits[:, None]
        if (digits[inside] > 9).any():
            return None
        numbers = np.zeros(len(self), dtype=np.int64)
        for at in range(width):
            numbers = np.where(inside[:, at], numbers * 10 + digits[:, at], numbers)
        return numbers


class TextCodes:
    """Numbers of texts, in the order of their first appearance.

    A hash table holds the words of each text, and a text whose words are not in its slot goes
    through a dictionary: equal codes are equal texts, whatever the hash.

    Attributes:
        texts: the number of each text.
    """

    def __init__(self) -> None:
        self.texts: dict[bytes, int] = {}
        self._slots = np.zeros(1 << _SLOT_BITS, dtype=np.int32)
        self._lengths = np.full(1, -1, dtype=np.int64)  # by number
        self._words: Words = np.zeros((1, 1), dtype="<u8")

    def of(self, column: TextColumn) -> NDArray[np.int64]:
        """Return the number of each text, int64 [n]."""
        longest = int(column.lengths.max(initial=0))
        if longest > _LONGEST_HASHED:
            return np.array([self.code(text) for text in column], dtype=np.int64)
        n_words = max(1, -(-longest // WORD_BYTES))
        words = column.words(n_words)
        slots = _slots_of(words)
        codes = self._slots[slots].astype(np.int64)
        same = self._lengths[codes] == column.lengths
        for at in range(min(n_words, self._words.shape[1])):
            same &= self._words[codes, at] == words[:, at]
        rows = np.flatnonzero(~same)
        if len(rows):
            codes[rows] = [self.code(text) for text in column.of_rows(rows)]
            self._store(codes[rows], column.lengths[rows], words[rows], slots[rows])
        return codes

    def code(self, text: bytes) -> int:
        """Return the number of a text."""
        return self.texts.setdefault(text, len(self.texts))

    def _store(self, codes: Places, lengths: Places, words: Words, slots: Places) -> None:
        n_codes, n_words = self._words.shape
        if len(self.texts) > n_codes or words.shape[1] > n_words:
            more = 2 * len(self.texts) if len(self.texts) > n_codes else n_codes
            wider = np.zeros((more, max(n_words, words.shape[1])), dtype="<u8")
            wider[:n_codes, :n_words] = self._words
            self._words = wider
            self._lengths = np.append(self._lengths, np.full(more - n_codes, -1))
        self._lengths[codes] = lengths
        self._words[codes, : words.shape[1]] = words
        self._slots[slots] = codes


def _slots_of(words: Words) -> Places:
    key = words[:, 0].astype(np.uint64)
    for at in range(1, words.shape[1]):
        key = (key ^ (key >> np.uint64(32))) * _MIX ^ words[:, at]
    return (key * _SPREAD >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)


class TextNumbers:
    """Numbers of texts, each parsed once; all are forgotten when there are too many.

    Args:
        parse: gives the number of a text.
        parse_column: gives the numbers of many texts at once, NaN where `parse` is to be called.
    """

    def __init__(
        self,
        parse: Callable[[bytes], float],
        parse_column: Callable[[TextColumn], NDArray[np.float64]] | None = None,
    ) -> None:
        self._parse, self._parse_column = parse, parse_column
        self._forget()

    def _forget(self) -> None:
        self._codes, self._numbers = TextCodes(), np.zeros(0)

    def of(self, column: TextColumn) -> NDArray[np.float64]:
        """Return the number of each text, float64 [n]."""
        if self._parse_column is None:
            return self._parsed(column)
        numbers = self._parse_column(column)
        rows = np.flatnonzero(np.isnan(numbers))
        if len(rows):
            numbers[rows] = self._parsed(column.of_rows(rows))
        return numbers

    def _parsed(self, column: TextColumn) -> NDArray[np.float64]:
        if len(self._numbers) >= _MOST_NUMBERS:
            self._forget()
        codes, texts = self._codes.of(column), self._codes.texts
        if len(texts) > len(self._numbers):
            new = [self._parse(text) for text in islice(texts, len(self._numbers), None)]
            self._numbers = np.append(self._numbers, new)
        return self._numbers[codes]
