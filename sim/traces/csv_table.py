"""Tables of comma-separated values as text: a header, rows, and the columns that are asked for.

A reader says what it needs (``submitted``) and which column of the file that usually is
(``timestamp``); an analyst whose file has another header gives the other name.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError, shown_text
from sim.traces.lines import lines_of
from sim.traces.swf_text import MOST, NUMBER

MOST_COLUMNS = 1000
WHAT = "a table of comma-separated values"


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A table as text.

    Attributes:
        path: the file, for messages.
        header: names of the columns of the file.
        columns: what is needed to the name of its column.
        rows: texts; every row has as many as the header.
        line_numbers: 1-based line at which each row ends.
    """

    path: Path
    header: tuple[str, ...]
    columns: Mapping[str, str]
    rows: Sequence[Sequence[str]]
    line_numbers: Sequence[int]

    @property
    def n_rows(self) -> int:
        """Number of rows without the header."""
        return len(self.rows)

    def has(self, need: str) -> bool:
        """Tell whether the file has the column of a need."""
        return self.columns.get(need) in self.header

    def texts(self, need: str) -> list[str]:
        """Return a column as it stands, without blanks around it.

        Raises:
            TraceError: the file has no such column.
        """
        at = self._place(need)
        return [row[at].strip() for row in self.rows]

    def numbers(
        self, need: str, *, least: float = 0.0, whole: bool = False, empty: float | None = None
    ) -> NDArray[np.float64]:
        """Return a column as float64 [n_rows].

        Args:
            need: what is looked for.
            least: the smallest number that is allowed.
            whole: only whole numbers are allowed.
            empty: what an empty field means; None refuses one.

        Raises:
            TraceError: no such column, or a field that is not such a number.
        """
        values = np.empty(self.n_rows, dtype=np.float64)
        kind = "whole numbers" if whole else "finite numbers"
        for row, text in enumerate(self.texts(need)):
            if not text and empty is not None:
                values[row] = empty
                continue
            value = float(text) if NUMBER.fullmatch(text) else np.nan
            if not least <= value <= MOST or (whole and value != np.floor(value)):
                nothing = "" if empty is None else ", or nothing"
                raise self.error(row, need, f"allowed are {kind} from {least:g} to 2**53{nothing}.")
            values[row] = value
        return values

    def moments(self, need: str, zone: ZoneInfo) -> NDArray[np.float64]:
        """Return a column of dates with times as Unix times, float64 [n_rows].

        Args:
            need: what is looked for.
            zone: where the clock hung that shows times without an offset.

        Raises:
            TraceError: no such column, or a field that is no such text.
        """
        values = np.empty(self.n_rows, dtype=np.float64)
        for row, text in enumerate(self.texts(need)):
            try:
                told = datetime.fromisoformat(text)
                moment = told if told.tzinfo is not None else told.replace(tzinfo=zone)
                values[row] = moment.timestamp()
            except (ValueError, OverflowError):
                expected = "allowed are dates with times such as 2017-10-09 07:01:55."
                raise self.error(row, need, expected) from None
        return values

    def error(self, row: int, need: str, expected: str) -> TraceError:
        """Return an error about one field of one row."""
        return TraceError(
            self.path,
            line=self.line_numbers[row],
            field=self.columns[need],
            value=self.rows[row][self._place(need)],
            expected=expected,
        )

    def _place(self, need: str) -> int:
        name = self.columns[need]
        if name not in self.header:
            expected = (
                f"there is no column '{name}' ({need}); its columns are "
                f"{', '.join(self.header[:20])}. Name the right one with columns={{'{need}': ...}}."
            )
            raise TraceError(self.path, line=1, expected=expected)
        return self.header.index(name)


def read_csv(
    path: Path, usual: Mapping[str, str], columns: Mapping[str, str] | None = None
) -> CsvTable:
    """Read a table with a header, plain or gzip, in UTF-8.

    Args:
        path: the file; compression is recognised by content.
        usual: what a reader needs to the name of the column that it usually has.
        columns: other names, by need, for files with another header.

    Raises:
        TraceError: the file is missing, broken, empty or no table, or a need that is none.
    """
    needed = checked_columns(path, usual, columns)
    found = list(lines_of(path, WHAT))
    try:
        text = b"".join(line for _, line in found).decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TraceError(path, expected=f"it is not UTF-8 ({error.reason}); convert it.") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    numbers = [1, *(number for number, _ in found)]
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = tuple(name.strip() for name in next(reader, []))
        for row in reader:
            if len(row) != len(header):
                expected = f"{len(row)} fields where the header has {len(header)}; mend the line."
                raise TraceError(path, line=numbers[reader.line_num], expected=expected)
            rows.append(row)
            lines.append(numbers[reader.line_num])
    except csv.Error as error:
        line = numbers[reader.line_num]
        raise TraceError(path, line=line, expected=f"it is no CSV: {error}.") from None
    if len(header) > MOST_COLUMNS or len(set(header)) < len(header):
        expected = f"the header needs different names, at most {MOST_COLUMNS:,} of them."
        raise TraceError(path, line=1, expected=expected)
    if not rows:
        raise TraceError(path, expected="there is no row below the header; nothing can be read.")
    return CsvTable(path, header, needed, rows, lines)


def checked_columns(
    path: Path, usual: Mapping[str, str], columns: Mapping[str, str] | None
) -> dict[str, str]:
    """Return names of columns by need, the analyst's over the usual ones.

    Raises:
        TraceError: a need that is none.
    """
    for need in columns or {}:
        if need not in usual:
            expected = f"no column is called for by {shown_text(need)}; known: {', '.join(usual)}."
            raise TraceError(path, expected=expected)
    return {**usual, **(columns or {})}


def zone_named(path: Path, name: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        TraceError: it is not known on this machine.
    """
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        expected = (
            f"no time zone {shown_text(name)} is known on this machine; give a name such as 'UTC' "
            "or 'America/Los_Angeles'."
        )
        raise TraceError(path, expected=expected) from None


def stem_of(path: Path) -> str:
    """Return the name of a file without .csv and .gz, for people."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def numbered(texts: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the place of each text in the sorted list of different ones (-1 for empty), and it."""
    names = tuple(sorted(set(texts) - {""}))
    place = {name: i for i, name in enumerate(names)} | {"": -1}
    return np.array([place[text] for text in texts], dtype=np.int64), names
