"""Results from before, as a CSV file: parameter columns, then one column per measure."""

import csv
import io
from pathlib import Path

from assistant.errors import SettingsError
from assistant.files import read_text
from assistant.objective import Measure
from assistant.ports import Result
from strategies import ParameterSpace
from strategies.parameter import parse_number


def read_results(path: Path, space: ParameterSpace) -> tuple[Result, ...]:
    """Read one's own past results.

    Args:
        path: a CSV file with a header; every parameter of the space is a column, each further
            column is a measure (an empty cell is unknown).
        space: that the values belong to.

    Raises:
        SettingsError: the file, or a line of it, is not as it should be.
        StrategyError: a value that is no level.
    """
    try:
        text = read_text(path, "the results")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise SettingsError(f"the results '{path}' are not CSV text: {error}") from error
    if not rows:
        raise SettingsError(f"the results '{path}' are empty; a header and lines are needed")
    header = [name.strip() for name in rows[0]]
    for name in header:
        if header.count(name) > 1:
            raise SettingsError(f"the results '{path}' have the column '{name}' twice")
    for name in space.names:
        if name not in header:
            raise SettingsError(f"the results '{path}' lack a column for the parameter '{name}'")
    if len(header) == len(space.names):
        raise SettingsError(f"the results '{path}' have no column with a measure")
    return tuple(
        _result(path, number, header, row, space) for number, row in enumerate(rows[1:], 2)
    )


def _result(
    path: Path, number: int, header: list[str], row: list[str], space: ParameterSpace
) -> Result:
    if len(row) != len(header):
        raise SettingsError(
            f"{path}, line {number}: {len(row)} fields where the header has {len(header)}"
        )
    cells = dict(zip(header, row, strict=True))
    values = {name: space.parse_value(name, cells[name].strip()) for name in space.names}
    measures: dict[str, Measure] = {}
    for name, cell in cells.items():
        if name in values:
            continue
        measure = parse_number(cell.strip())
        measures[name] = None if measure is None else float(measure)
        if measure is None and cell.strip():
            raise SettingsError(
                f"{path}, line {number}: {name} is '{cell}'; a measure is a finite number, or empty"
            )
    return values, measures
