"""SWF as text: the file, its header, and a table of 18 numbers a row. No meaning yet.

Format: Chapin et al., JSSPP 1999; version 2.2 of the Parallel Workloads Archive. Comment lines
start with ``;``, header lines are ``; Key: value`` with any indentation, and keys may repeat.
"""

import re
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError
from sim.traces.rules import ReadingRules
from sim.traces.swf_bytes import read_bytes

FIELDS: tuple[str, ...] = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
WHOLE: tuple[int, ...] = (0, 4, 7, 10, 11, 12, 14, 15)
"""Columns that must be whole numbers, because they become int64."""

BYTES_PER_KB = 1024
"""Memory is in kilobytes per processor in SWF, and in bytes in a workload."""

MOST = float(2**53)
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Python's own reading of a number takes ``1_000`` and the digits of every script besides."""


@dataclass(frozen=True, eq=False)
class SwfText:
    """A log as text and numbers.

    Attributes:
        path: the file, for messages.
        header: key to its values, in order of appearance.
        lines: the data lines as text.
        line_numbers: int64 [n_rows], 1-based line of each row.
        table: float64 [n_rows, 18].
        n_extra: rows with more than 18 fields.
        n_negative: fields that held a negative number other than -1 and now hold -1.
    """

    path: Path
    header: dict[str, tuple[str, ...]]
    lines: list[str]
    line_numbers: NDArray[np.int64]
    table: NDArray[np.float64]
    n_extra: int
    n_negative: int

    def only(self, rows: NDArray[np.bool_]) -> "SwfText":
        """Return the log with some of its rows; `n_extra` and `n_negative` stay the whole file's.

        Args:
            rows: bool [n_rows], the rows to keep.
        """
        return replace(
            self,
            lines=list(compress(self.lines, rows.tolist())),
            line_numbers=self.line_numbers[rows],
            table=self.table[rows],
        )

    def error(self, row: int, column: int, expected: str) -> TraceError:
        """Return an error about one field of one row."""
        return TraceError(
            self.path,
            line=int(self.line_numbers[row]),
            field=FIELDS[column],
            value=self.lines[row].split()[column],
            expected=expected,
        )


def read_text(path: Path, rules: ReadingRules) -> SwfText:
    """Read a log into a table.

    Raises:
        TraceError: the file is missing, broken or empty, or a row is not 18 numbers.
    """
    header: dict[str, list[str]] = {}
    lines: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(_content(path, rules).split("\n"), start=1):
        text = line.strip()
        if text.startswith(";"):
            key, colon, value = text[1:].partition(":")
            if colon and _KEY.fullmatch(key.strip()):
                header.setdefault(key.strip(), []).append(value.strip())
        elif text:
            lines.append(text)
            numbers.append(number)
    if not lines:
        raise TraceError(path, expected="there is no job in it; an SWF log has one line per job.")
    line_numbers = np.array(numbers, dtype=np.int64)
    table, n_extra = _table(path, lines, line_numbers, rules)
    kept = {key: tuple(values) for key, values in header.items()}
    negative = (table < 0) & (table != -1)
    table[negative] = -1.0
    return SwfText(path, kept, lines, line_numbers, table, n_extra, int(negative.sum()))


def _content(path: Path, rules: ReadingRules) -> str:
    data = read_bytes(path)
    try:
        return data.decode(rules.encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        expected = "this line is not UTF-8; if the log is text, read it with encoding='latin-1'."
        raise TraceError(path, line=line, expected=expected) from None


def _table(
    path: Path, lines: list[str], line_numbers: NDArray[np.int64], rules: ReadingRules
) -> tuple[NDArray[np.float64], int]:
    """Parse all rows at once; if anything is odd, go row by row and name the first bad field."""
    counts = {len(line.split()) for line in (lines[0], lines[-1])}
    if counts == {len(FIELDS)} and all(line.isascii() for line in lines):
        try:
            table = np.loadtxt(lines, dtype=np.float64, comments=None, ndmin=2)
        except ValueError:
            table = np.empty((0, 0))
        if table.shape == (len(lines), len(FIELDS)) and _acceptable(table, rules):
            return table, 0
    return _table_row_by_row(path, lines, line_numbers, rules)


def _acceptable(table: NDArray[np.float64], rules: ReadingRules) -> bool:
    whole = table[:, WHOLE]
    least = -1.0 if rules.negative == "refuse" else -MOST
    in_range = (table >= least) & (table <= MOST) & ((table >= 0) | (table <= -1))
    return bool(in_range.all() and (whole == np.floor(whole)).all())


def _table_row_by_row(
    path: Path, lines: list[str], line_numbers: NDArray[np.int64], rules: ReadingRules
) -> tuple[NDArray[np.float64], int]:
    rows, n_extra = [], 0
    for line, number in zip(lines, line_numbers.tolist(), strict=True):
        texts = line.split()
        if len(texts) < len(FIELDS):
            expected = f"{len(texts)} fields where SWF has 18; complete the line or remove it."
            raise TraceError(path, line=number, expected=expected)
        if len(texts) > len(FIELDS):
            if rules.extra_columns == "refuse":
                expected = (
                    f"{len(texts)} fields where SWF has 18; remove the others, or read the first "
                    "18 with extra_columns='drop'."
                )
                raise TraceError(path, line=number, expected=expected)
            n_extra += 1
        rows.append([_number(path, number, i, text, rules) for i, text in enumerate(texts[:18])])
    return np.array(rows, dtype=np.float64), n_extra


def _number(path: Path, line: int, column: int, text: str, rules: ReadingRules) -> float:
    expected = None
    value = float(text) if NUMBER.fullmatch(text) else np.nan
    if not np.isfinite(value):
        expected = "allowed are finite numbers, and -1 for unknown."
    elif abs(value) > MOST:
        expected = "allowed are numbers up to 2**53; larger ones are not told apart."
    elif -1 < value < 0 or (value < 0 and value != -1 and rules.negative == "refuse"):
        expected = (
            "allowed are numbers from 0, and -1 for unknown; other negative numbers are read as "
            "unknown with negative='unknown'."
        )
    elif column in WHOLE and value != np.floor(value):
        expected = "allowed are whole numbers, and -1 for unknown."
    if expected is not None:
        raise TraceError(path, line=line, field=FIELDS[column], value=text, expected=expected)
    return float(value)
