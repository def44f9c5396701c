"""Text files, plain or gzip: their bytes, lines and CSV tables.

Files that are not text, or are too large, are refused as soon as that is known.
"""

import csv
import gzip
import re
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, cast
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import TraceError, quoted_text

MOST_BYTES = 2**30
"""Limit of unpacked text: ten times the largest log of the Parallel Workloads Archive."""

MOST_LINES = 5_000_000
LONGEST_LINE_BYTES = 2**20
MOST_RATIO = 100
"""Limit of unpacked to packed bytes, from `RATIO_FROM_BYTES` on; logs have ratios of 4 to 10."""

RATIO_FROM_BYTES = 2**24
_CHUNK_BYTES = 2**20
_GZIP = b"\x1f\x8b"
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\0": "compressed by xz",
    b"(\xb5/\xfd": "compressed by zstd",
    b"7z\xbc\xaf": "a 7z archive",
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TAR_AT, _TAR = 257, b"ustar"


def read_bytes(path: Path) -> bytes:
    """Return the content of a text file as bytes, decompressed if it is gzip.

    Raises:
        TraceError: no regular file, unreadable, a broken or another archive, a binary file, or
            more than `MOST_BYTES`, `MOST_LINES`, `LONGEST_LINE_BYTES` or `MOST_RATIO`.
    """
    size = size_of(path)
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            if path.suffix == ".gz" and not packed:
                expected = "the name ends in .gz but this is not gzip; rename it."
                raise TraceError(path, expected=expected)
            # GzipFile reads like any binary file, but its type does not say so.
            text = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            n_bytes = _count_bytes(path, text, size if packed else None)
            text.seek(0)
            return text.read(n_bytes)
    except (OSError, EOFError, zlib.error) as error:
        problem = "the compressed file is broken" if path.suffix == ".gz" else "it cannot be read"
        raise TraceError(path, expected=f"{problem} ({error}); fetch it again.") from None


def size_of(path: Path, kind: str = "an SWF log") -> int:
    """Return the size of a file in bytes. Raises TraceError if it is not a regular file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a path with NUL raises ValueError
        expected = f"there is no such file; give the path of {kind}."
        raise TraceError(path, expected=expected) from None
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be read ({error.strerror}).") from None
    if stat.S_ISDIR(status.st_mode):
        raise TraceError(path, expected=f"this is a folder; give the path of {kind}.")
    if not stat.S_ISREG(status.st_mode):
        raise TraceError(
            path, expected="this is not a regular file; write the log into one and give its path."
        )
    return status.st_size


def _count_bytes(path: Path, text: IO[bytes], packed_bytes: int | None) -> int:
    """Return the number of bytes. Raises TraceError at the first sign that this is no log.

    `packed_bytes` is the size of the file if it is compressed.
    """
    n_bytes, line, line_bytes = 0, 1, 0
    while chunk := text.read(_CHUNK_BYTES):
        if n_bytes == 0:
            check_kind(path, chunk)
        if b"\0" in chunk:
            raise TraceError(path, expected="this is a binary file; an SWF log is text.")
        n_bytes += len(chunk)
        if packed_bytes and n_bytes > max(RATIO_FROM_BYTES, MOST_RATIO * packed_bytes):
            expected = (
                f"it unpacks to more than {MOST_RATIO} times its size, unlike any log; unpack it "
                "yourself, check it, and give the path of the text."
            )
            raise TraceError(path, expected=expected)
        if n_bytes > MOST_BYTES:
            expected = f"at most {MOST_BYTES:,} bytes of text are read; give a part of the log."
            raise TraceError(path, expected=expected)
        n_ends = chunk.count(b"\n")
        # A line that is too long within one chunk shows at its first end, or is cut by the next.
        if line_bytes + (chunk.find(b"\n") if n_ends else len(chunk)) > LONGEST_LINE_BYTES:
            most = f"{LONGEST_LINE_BYTES:,} bytes"
            expected = f"this line is longer than {most}; an SWF log has one short line per job."
            raise TraceError(path, line=line, expected=expected)
        line += n_ends
        line_bytes = len(chunk) - chunk.rfind(b"\n") - 1 if n_ends else line_bytes + len(chunk)
        if line > MOST_LINES:
            expected = f"at most {MOST_LINES:,} lines are read; give a part of the log."
            raise TraceError(path, line=MOST_LINES + 1, expected=expected)
    return n_bytes


def check_kind(path: Path, head: bytes, file_kind: str = "an SWF log") -> None:
    """Raise TraceError if the first bytes of a file are those of an archive or UTF-16 text."""
    if head.startswith(_UTF_16):
        raise TraceError(
            path, expected="this is text in UTF-16; save it as UTF-8 (iconv -f UTF-16 -t UTF-8)."
        )
    kind = next((file_kind for mark, file_kind in _ARCHIVES.items() if head.startswith(mark)), None)
    if head[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        kind = "a tar archive"
    if kind is not None:
        expected = f"this is {kind}; unpack it yourself and give the path of {file_kind}."
        raise TraceError(path, expected=expected)


MOST_STREAMED_BYTES = 2**33


def lines_of(path: Path, kind: str) -> Iterator[tuple[int, bytes]]:
    """Yield the line number and the bytes of every non-empty line of a text file.

    `kind` names the kind of file in messages, such as "an SWF log".

    Raises:
        TraceError: no regular file, broken, binary, another archive, or more than `MOST_LINES`,
            `LONGEST_LINE_BYTES`, `MOST_STREAMED_BYTES` or `MOST_RATIO`.
    """
    size = size_of(path, kind)
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            text = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            yield from _lines(path, kind, text, size if packed else None)
    except (OSError, EOFError, zlib.error) as error:
        how = "the compressed file is broken" if packed else "it cannot be read"
        raise TraceError(path, expected=f"{how} ({error}); fetch it again.") from None


def _lines(
    path: Path, kind: str, text: IO[bytes], packed_bytes: int | None
) -> Iterator[tuple[int, bytes]]:
    most = _most_streamed(packed_bytes)
    n_bytes, number = 0, 0
    while line := text.readline(LONGEST_LINE_BYTES + 1):
        number += 1
        n_bytes += len(line)
        if number == 1:
            check_kind(path, line, kind)
        if b"\0" in line:
            raise TraceError(path, line=number, expected=f"this is a binary file; {kind} is text.")
        if len(line) > LONGEST_LINE_BYTES:
            raise _long_line(path, number, kind)
        if n_bytes > most or number > MOST_LINES:
            raise _too_long(path, number, most)
        if not line.isspace():
            yield number, line


def blocks_of(path: Path, kind: str) -> Iterator[tuple[int, bytes]]:
    """Yield the number of the first line and the bytes of whole lines, about a megabyte at a time.

    Lines end with a line feed, also the last one. For arguments and errors see `lines_of`.
    """
    size = size_of(path, kind)
    packed = False
    try:
        with path.open("rb") as file:
            packed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            text = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file
            yield from _blocks(path, kind, text, size if packed else None)
    except (OSError, EOFError, zlib.error) as error:
        how = "the compressed file is broken" if packed else "it cannot be read"
        raise TraceError(path, expected=f"{how} ({error}); fetch it again.") from None


def _blocks(
    path: Path, kind: str, text: IO[bytes], packed_bytes: int | None
) -> Iterator[tuple[int, bytes]]:
    most = _most_streamed(packed_bytes)
    n_bytes, number, rest = 0, 1, b""
    while chunk := text.read(_CHUNK_BYTES):
        if n_bytes == 0:
            check_kind(path, chunk, kind)
        n_bytes += len(chunk)
        if b"\0" in chunk:
            raise TraceError(path, expected=f"this is a binary file; {kind} is text.")
        if n_bytes > most or number > MOST_LINES:
            raise _too_long(path, number, most)
        end = chunk.rfind(b"\n") + 1
        if len(rest) + (end and chunk.find(b"\n")) > LONGEST_LINE_BYTES or (
            not end and len(rest) + len(chunk) > LONGEST_LINE_BYTES
        ):
            raise _long_line(path, number, kind)
        if end:
            block = (rest + chunk[:end]).replace(b"\r\n", b"\n")
            yield number, block
            number += block.count(b"\n")
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield number, rest.removesuffix(b"\r") + b"\n"


def _most_streamed(packed_bytes: int | None) -> int:
    if packed_bytes is None:
        return MOST_STREAMED_BYTES
    return min(MOST_STREAMED_BYTES, max(RATIO_FROM_BYTES, MOST_RATIO * packed_bytes))


def _too_long(path: Path, line: int, most: int) -> TraceError:
    expected = (
        f"the text is too long (at most {most:,} bytes, {MOST_RATIO} times the size of a "
        f"compressed file, and {MOST_LINES:,} lines are read); give a part of it."
    )
    return TraceError(path, line=line, expected=expected)


def _long_line(path: Path, line: int, kind: str) -> TraceError:
    expected = f"this line is longer than {LONGEST_LINE_BYTES:,} bytes; {kind} has no such lines."
    return TraceError(path, line=line, expected=expected)


LARGEST_NUMBER = float(2**53)
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Stricter than `float`, which also accepts ``1_000`` and the digits of every script."""

MOST_COLUMNS = 1000
CSV_DESCRIPTION = "a table of comma-separated values"


@dataclass(frozen=True, eq=False)
class CsvTable:
    """A CSV table as unparsed texts, with the column name of each required quantity.

    Attributes:
        columns: name of the column, by needed quantity.
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
        """Number of data rows, without the header."""
        return len(self.rows)

    def has(self, need: str) -> bool:
        """Return whether the table has the column of this quantity."""
        return self.columns.get(need) in self.header

    def texts(self, need: str) -> list[str]:
        """Return the column of a quantity as texts, stripped of surrounding blanks.

        Raises:
            TraceError: the file has no such column.
        """
        at = self._place(need)
        return [row[at].strip() for row in self.rows]

    def numbers(
        self, need: str, *, least: float = 0.0, integer: bool = False, empty: float | None = None
    ) -> NDArray[np.float64]:
        """Return the column of a quantity as numbers, float64 [n_rows].

        Numbers are from `least`; an empty field has the value `empty`, and None refuses it.

        Raises:
            TraceError: no such column, or a field that is not such a number.
        """
        values = np.empty(self.n_rows, dtype=np.float64)
        kind = "whole numbers" if integer else "finite numbers"
        for row, text in enumerate(self.texts(need)):
            if not text and empty is not None:
                values[row] = empty
                continue
            value = float(text) if NUMBER.fullmatch(text) else np.nan
            if not least <= value <= LARGEST_NUMBER or (integer and value != np.floor(value)):
                nothing = "" if empty is None else ", or nothing"
                raise self.error(row, need, f"allowed are {kind} from {least:g} to 2**53{nothing}.")
            values[row] = value
        return values

    def moments(self, need: str, zone: ZoneInfo) -> NDArray[np.float64]:
        """Return a column of dates with times as Unix times in seconds, float64 [n_rows].

        Times without an offset are in `zone`.

        Raises:
            TraceError: no such column, or a field that is no such text.
        """
        values = np.empty(self.n_rows, dtype=np.float64)
        for row, text in enumerate(self.texts(need)):
            try:
                date_time = datetime.fromisoformat(text)
                moment = (
                    date_time if date_time.tzinfo is not None else date_time.replace(tzinfo=zone)
                )
                values[row] = moment.timestamp()
            except (ValueError, OverflowError):
                expected = "allowed are dates with times such as 2017-10-09 07:01:55."
                raise self.error(row, need, expected) from None
        return values

    def error(self, row: int, need: str, expected: str) -> TraceError:
        """Return a `TraceError` that locates one field of one row."""
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
    path: Path,
    usual: Mapping[str, str],
    columns: Mapping[str, str] | None = None,
    separators: str = ",",
) -> CsvTable:
    """Read a UTF-8 CSV table with a header, plain or gzip.

    `usual` has the usual column of each needed quantity, and `columns` others. Of `separators` that
    counts which is most frequent in the header.

    Raises:
        TraceError: the file is missing, broken, empty or no table, or a quantity is unknown.
    """
    needed = checked_columns(path, usual, columns)
    numbered_lines = list(lines_of(path, CSV_DESCRIPTION))
    try:
        texts = [line.decode("utf-8") for _, line in numbered_lines]
    except UnicodeDecodeError as error:
        raise TraceError(path, expected=f"it is not UTF-8 ({error.reason}); convert it.") from None
    texts[:1] = [line.removeprefix("\ufeff") for line in texts[:1]]
    separator = max(separators, key=texts[0].count) if texts else ","
    reader = csv.reader(texts, strict=True, delimiter=separator)
    numbers = [1, *(number for number, _ in numbered_lines)]
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        header = tuple(name.strip() for name in next(reader, []))
        for row in reader:
            if len(row) != len(header):
                expected = f"{len(row)} fields where the header has {len(header)}; fix the line."
                raise TraceError(path, line=numbers[reader.line_num], expected=expected)
            rows.append(row)
            lines.append(numbers[reader.line_num])
    except csv.Error as error:
        line = numbers[reader.line_num]
        raise TraceError(path, line=line, expected=f"it is not CSV: {error}.") from None
    if len(header) > MOST_COLUMNS or len(set(header)) < len(header):
        expected = f"the header needs different names, at most {MOST_COLUMNS:,} of them."
        raise TraceError(path, line=1, expected=expected)
    if not rows:
        raise TraceError(path, expected="there are no rows below the header.")
    return CsvTable(path, header, needed, rows, lines)


def checked_columns(
    path: Path, usual: Mapping[str, str], columns: Mapping[str, str] | None
) -> dict[str, str]:
    """Return the column name of each quantity; `columns` overrides the `usual` names.

    Raises:
        TraceError: an unknown quantity.
    """
    for need in columns or {}:
        if need not in usual:
            expected = f"no column is needed for {quoted_text(need)}; known: {', '.join(usual)}."
            raise TraceError(path, expected=expected)
    return {**usual, **(columns or {})}


def zone_named(path: Path, name: str) -> ZoneInfo:
    """Return a time zone by name. Raises TraceError if this machine does not know the name."""
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        expected = (
            f"time zone {quoted_text(name)} is unknown on this machine; give a name such as 'UTC' "
            "or 'America/Los_Angeles'."
        )
        raise TraceError(path, expected=expected) from None


def stem_of(path: Path) -> str:
    """Return the file name without the endings .csv and .gz."""
    return path.name.removesuffix(".gz").removesuffix(".csv")


def number_texts(texts: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return the index of each text in the sorted unique texts (-1 if empty), and these texts."""
    names = tuple(sorted(set(texts) - {""}))
    place = {name: i for i, name in enumerate(names)} | {"": -1}
    return np.array([place[text] for text in texts], dtype=np.int64), names
