"""The runs of an experiment as rows, for CSV, Parquet and pandas."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.files import write_atomically
from assistant.core.objective import Measure
from assistant.core.run import Run
from strategies import Level, ParameterSpace

if TYPE_CHECKING:
    import pandas as pd

Cell = str | int | float | bool | tuple[float, ...] | None
RunRow = Mapping[str, Cell]

_FIRST = ("run", "state", "source")
_LAST = ("feasible", "seed", "submitted_s", "started_s", "ended_s", "duration_s", "why")


def run_rows(experiment: Experiment) -> tuple[RunRow, ...]:
    """Return one row per run, all with the same columns, in the order of submission.

    Columns: number, state and source; the parameters; the measures; feasibility, seed, times in
    seconds since 1970-01-01 UTC, and why it ran, or why it failed or was cancelled. A name that is
    taken becomes ``parameter.NAME`` or ``measure.NAME``. Unknown values are None.
    """
    fixed = {*_FIRST, *_LAST}
    names = {n: f"parameter.{n}" if n in fixed else n for n in experiment.space.names}
    measured = dict.fromkeys(name for run in experiment.runs for name in _measures(run))
    taken = {*fixed, *names}
    columns = {name: f"measure.{name}" if name in taken else name for name in measured}
    return tuple(
        {
            "run": run.id,
            "state": str(run.state),
            "source": run.source,
            **{names[n]: v for n, v in experiment.space.all_values(run.configuration).items()},
            **{column: _measures(run).get(name) for name, column in columns.items()},
            "feasible": None if run.outcome is None else run.outcome.feasible,
            "seed": run.seed,
            "submitted_s": run.submitted_s,
            "started_s": run.started_s,
            "ended_s": run.ended_s,
            "duration_s": run.duration_s,
            "why": run.failure or run.cancelled or run.reason,
        }
        for run in experiment.runs
    )


def configuration_rows(
    rows: "pd.DataFrame | Mapping[str, Level] | Iterable[Mapping[str, Level]]",
    space: ParameterSpace,
) -> tuple[Mapping[str, Level], ...]:
    """Return the values of the parameters of each row, by name.

    Args:
        rows: a data frame with a column per parameter, such as that of `run_rows`, or mappings of
            parameter values; a mapping alone is one row.
        space: space with the parameters; what other columns hold is ignored.
    """
    if isinstance(rows, Mapping):
        return (rows,)
    table: Any = rows
    if not hasattr(table, "to_dict"):
        return tuple(table)  # mappings: the space checks their names
    found = []
    for row in table.to_dict("records"):
        of = {name: row.get(f"parameter.{name}", row.get(name)) for name in space.names}
        found.append({name: value for name, value in of.items() if value is not None})
    return tuple(found)


def _measures(run: Run) -> Mapping[str, Measure]:
    return {} if run.outcome is None else run.outcome.measures


def runs_frame(rows: Sequence[RunRow]) -> "pd.DataFrame":
    """Return the rows as a pandas data frame; series are lists."""
    import pandas as pd

    return pd.DataFrame(
        [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in rows]
    )


def write_runs_csv(rows: Sequence[RunRow], path: Path) -> None:
    """Write the rows as CSV (series as JSON), whole or not at all; raise SettingsError."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(rows[0] if rows else (*_FIRST, *_LAST))
    for row in rows:
        writer.writerow(
            json.dumps(cell) if isinstance(cell, tuple) else cell for cell in row.values()
        )
    write_atomically(path, text.getvalue(), raises=SettingsError)


def write_runs_parquet(rows: Sequence[RunRow], path: Path) -> None:
    """Write the rows as Parquet, whole or not at all; raise SettingsError if that is impossible."""
    buffer = io.BytesIO()
    try:
        runs_frame(rows).to_parquet(buffer, index=False)
    except ImportError as error:
        raise SettingsError(
            "Parquet needs the package pyarrow, which is not installed; install it, or use --csv"
        ) from error
    write_atomically(path, buffer.getvalue(), raises=SettingsError)
