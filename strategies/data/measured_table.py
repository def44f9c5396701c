"""Measured tables: parameter spaces whose results were measured before and are read from CSV.

A CSV file has one column per parameter, `objective` (minimised) and optionally `duration_s`.
The space is the product of the distinct values per column; a combination without a row is a
failed run. Where less than one in a hundred of the combinations has a row, the table is a sample,
and only its rows are configurations.
"""

from __future__ import annotations

import csv
import io
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from strategies.space.errors import SpaceError, TableError
from strategies.space.parameter import Level, Parameter, float_of, parse_number
from strategies.space.parameter_space import Configuration, ParameterSpace

OBJECTIVE = "objective"
DURATION = "duration_s"
LEAST_SHARE = 0.01
"""Least share of its combinations that a table measures, if others are to be proposed too."""

MOST_BYTES = 2**28
NOT_FINITE = frozenset({"nan", "inf", "infinity", "na", "n/a", "null", "none"})


@dataclass(frozen=True, slots=True)
class Measurement:
    """Row of a measured table: objective value (minimised), and duration if recorded."""

    objective: float
    duration_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTable:
    """Parameter space with measured results for all or a part of its configurations."""

    name: str  # file name without its suffix, or the source of the text
    space: ParameterSpace  # product of the distinct values per column
    measurements: Mapping[Configuration, Measurement]  # one per measured configuration
    n_repeated: int = 0  # configurations with several rows, of which these are the means

    @classmethod
    def read(cls, path: Path | str) -> MeasuredTable:
        """Read a measured table from a CSV file.

        Raises `TableError`, naming file, line, field and value, for a file that cannot be
        read, is empty, has no `objective`, or has a ragged or non-finite row. Rows of the same
        configuration are repetitions: their mean is its measurement.
        """
        return cls.parse(_text(Path(path)), str(path), Path(path).stem)

    @classmethod
    def parse(cls, text: str, source: str, name: str = "") -> MeasuredTable:
        """Parse a measured table from CSV text; error messages name ``source`` as its origin."""
        header, lines = _split(source, _rows(source, text))
        names = [name for name in header if name not in (OBJECTIVE, DURATION)]
        columns = {name: _column(source, name, header.index(name), lines) for name in names}
        space = _space(source, columns)
        rows: dict[Configuration, list[Measurement]] = {}
        for i, (line, row) in enumerate(lines):
            configuration = space.from_values({name: columns[name][i] for name in names})
            measurement = _measurement(source, line, header, row)
            rows.setdefault(configuration, []).append(measurement)
        measurements = {configuration: _mean(repeated) for configuration, repeated in rows.items()}
        n_repeated = sum(len(repeated) > 1 for repeated in rows.values())
        return cls(name or source, space, measurements, n_repeated).limited()

    @property
    def n_rows(self) -> int:
        """Number of measured configurations."""
        return len(self.measurements)

    def limited(self) -> MeasuredTable:
        """Return the table with its rows as the only configurations, if it is a sample.

        Raises `TableError` for a sample of too many rows.
        """
        if self.n_rows >= LEAST_SHARE * self.space.size:
            return self
        rows = tuple(sorted(configuration.level_ids for configuration in self.measurements))
        try:
            return replace(self, space=replace(self.space, rows=rows))
        except SpaceError as error:
            raise TableError(f"{self.name} is a sample of its combinations: {error}") from None

    def lookup(self, configuration: Configuration) -> Measurement | None:
        """Return the measurement of a configuration, or None if the table has no such row.

        Raises `SpaceError` if the configuration is not of this table's space.
        """
        self.space.index(configuration)  # raises for a configuration of another space
        return self.measurements.get(configuration)


def _text(path: Path) -> str:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise TableError(f"{path} is not an ordinary file; give a CSV file.")
        if status.st_size > MOST_BYTES:
            raise TableError(
                f"{path} has {status.st_size:,} bytes; at most {MOST_BYTES:,} are allowed."
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise TableError(f"{path} is not UTF-8 text; give a CSV file.") from None
    except ValueError:  # a path with a NUL
        raise TableError(f"{str(path)!r} is not a valid file name; give a CSV file.") from None
    if "\x00" in text:
        raise TableError(
            f"{path} has NUL characters and may be UTF-16; save it as UTF-8 "
            f"(iconv -f UTF-16 -t UTF-8)."
        )
    return text


def _rows(source: str, text: str) -> list[tuple[int, list[str]]]:
    """Return (line number, stripped cells) of every non-blank line."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        return [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except csv.Error as error:
        raise TableError(f"{source}, line {reader.line_num} is not CSV: {error}.") from None


def _split(
    source: str, rows: list[tuple[int, list[str]]]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    if not rows:
        raise TableError(f"{source} is empty; it needs a header and at least one row.")
    line, header = rows[0]
    if OBJECTIVE not in header:
        raise TableError(
            f"{source}, line {line} has no column '{OBJECTIVE}'; its columns are "
            f"{', '.join(header)}."
        )
    repeated = next((name for name in header if header.count(name) > 1), None)
    if repeated is not None:
        raise TableError(f"{source}, line {line} has the column '{repeated}' twice.")
    if not set(header) - {OBJECTIVE, DURATION}:
        raise TableError(f"{source}, line {line} has no parameter columns; it needs at least one.")
    if len(rows) == 1:
        raise TableError(f"{source} has a header but no rows; it needs at least one.")
    for line, row in rows[1:]:
        if len(row) != len(header):
            raise TableError(
                f"{source}, line {line} has {len(row)} fields, but the header has {len(header)}."
            )
    return header, rows[1:]


def _column(
    source: str, name: str, index: int, lines: Sequence[tuple[int, list[str]]]
) -> list[Level]:
    """Return a parameter column as numbers if all its cells are, else as texts."""
    cells = [row[index] for _, row in lines]
    for (line, _), cell in zip(lines, cells, strict=True):
        if not cell:
            raise TableError(f"{source}, line {line}, field '{name}' is empty; give a value.")
    numbers = [parse_number(cell) for cell in cells]
    odd = [i for i, number in enumerate(numbers) if number is None]
    if not odd:
        return [number for number in numbers if number is not None]
    if len(odd) < len(cells):
        for i in odd:
            if cells[i].lower().lstrip("+-") in NOT_FINITE:
                raise _not_finite(source, lines[i][0], name, cells[i])
    return list(cells)


def _space(source: str, columns: Mapping[str, list[Level]]) -> ParameterSpace:
    try:
        return ParameterSpace(
            tuple(Parameter(name, _levels(values)) for name, values in columns.items())
        )
    except SpaceError as error:
        raise TableError(f"{source} does not define a space: {error}") from None


def _levels(values: Sequence[Level]) -> tuple[Level, ...]:
    distinct = tuple(dict.fromkeys(values))
    numbers = [value for value in distinct if not isinstance(value, str)]
    return tuple(sorted(numbers)) if len(numbers) == len(distinct) else distinct


def _measurement(source: str, line: int, header: Sequence[str], row: Sequence[str]) -> Measurement:
    cells = dict(zip(header, row, strict=True))
    objective = parse_number(cells[OBJECTIVE])
    if objective is None:
        raise _not_finite(source, line, OBJECTIVE, cells[OBJECTIVE])
    try:
        value = float_of(objective)
    except ValueError as error:
        raise TableError(f"{source}, line {line}, field '{OBJECTIVE}': {error}.") from None
    if not cells.get(DURATION):
        return Measurement(value, None)
    duration_s = parse_number(cells[DURATION])
    if duration_s is None or duration_s < 0:
        raise TableError(
            f"{source}, line {line}, field '{DURATION}' is '{cells[DURATION]}'; it must be a "
            "finite number of seconds from 0 on, or empty."
        )
    return Measurement(value, float(duration_s))


def _mean(rows: Sequence[Measurement]) -> Measurement:
    """Return the mean of a configuration's rows; of the durations those that are recorded."""
    if len(rows) == 1:
        return rows[0]
    durations_s = [row.duration_s for row in rows if row.duration_s is not None]
    return Measurement(
        mean(row.objective for row in rows), mean(durations_s) if durations_s else None
    )


def _not_finite(source: str, line: int, field: str, cell: str) -> TableError:
    return TableError(
        f"{source}, line {line}, field '{field}' is '{cell}'; it must be a finite number "
        "(leave out the rows of failed runs)."
    )
