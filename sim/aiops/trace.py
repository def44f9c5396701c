"""What happened, in columns: kept in memory, or written to Parquet as it comes.

Three tables, joined by the number of the pipeline: `pipelines` (what came), `tasks` (what ran
where, and when), `models` (what came of it: a version of a model and its metrics, or why not).
Sums by hour are kept along the way, whatever becomes of the rows.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import HOUR_S
from sim.errors import SetupError

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]

FLUSH_ROWS = 20_000

TASK_COLUMNS = (
    ("pipeline", np.int64), ("task", np.int8), ("resource", np.int8),
    ("asked_s", np.float64), ("started_s", np.float64), ("ended_s", np.float64),
    ("read_bytes", np.float64), ("write_bytes", np.float64),
)  # fmt: skip
MODEL_COLUMNS = (
    ("pipeline", np.int64), ("model", np.int64), ("version", np.int64), ("ended_s", np.float64),
    ("wait_s", np.float64), ("outcome", np.int8), ("performance", np.float64),
    ("clever", np.float64), ("size_bytes", np.float64), ("inference_ms", np.float64),
)  # fmt: skip
OUTCOMES = ("deployed", "trained", "stopped by a gate")


class Trace:
    """Takes rows and makes columns of them.

    Args:
        folder: where Parquet files are written; None keeps the columns in memory.
        names: texts of columns that hold places, by column.

    Raises:
        SetupError: the folder cannot be written.
    """

    def __init__(self, folder: Path | None, names: Mapping[str, Sequence[str]]) -> None:
        self._folder, self._names = folder, names
        self._kept: dict[str, list[Columns]] = {}
        self._writers: dict[str, Any] = {}
        self._waiting: dict[str, list[Columns]] = {}
        self.n_rows: dict[str, int] = {}
        self.tasks: list[tuple[float, ...]] = []
        self.models: list[tuple[float, ...]] = []
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SetupError(f"{folder}: cannot be made ({error.strerror}).") from None

    def flush_tasks(self) -> Columns:
        """Turn the rows of tasks into columns and return them."""
        rows, self.tasks[:] = list(self.tasks), []
        return self.add("tasks", _columns(rows, TASK_COLUMNS))

    def flush_models(self) -> Columns:
        """Turn the rows of models into columns and return them."""
        rows, self.models[:] = list(self.models), []
        return self.add("models", _columns(rows, MODEL_COLUMNS))

    def add(self, table: str, columns: Columns) -> Columns:
        """Keep or write columns of a table; return them."""
        n = len(next(iter(columns.values())))
        self.n_rows[table] = self.n_rows.get(table, 0) + n
        if not n:
            return columns
        if self._folder is None:
            self._kept.setdefault(table, []).append(columns)
            return columns
        waiting = self._waiting.setdefault(table, [])
        waiting.append(columns)  # a row group for every training of a model would be slow to read
        if sum(len(next(iter(part.values()))) for part in waiting) >= FLUSH_ROWS:
            self._write(table)
        return columns

    def _write(self, table: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        assert self._folder is not None  # noqa: S101 - for the type checker
        columns = joined(self._waiting.pop(table))
        arrays = {}
        for name, column in columns.items():
            if name in self._names:
                texts = pa.array(list(self._names[name]), pa.string())
                arrays[name] = pa.DictionaryArray.from_arrays(column.astype(np.int8), texts)
            else:
                arrays[name] = pa.array(column)
        made = pa.table(arrays)
        try:
            if table not in self._writers:
                self._writers[table] = parquet.ParquetWriter(
                    self._folder / f"{table}.parquet", made.schema, compression="zstd"
                )
            self._writers[table].write_table(made)
        except OSError as error:
            raise SetupError(f"{self._folder}: cannot be written ({error}).") from None

    def close(self) -> dict[str, Columns]:
        """Finish the files; return what was kept in memory, a table of columns by name."""
        for table in tuple(self._waiting):
            self._write(table)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        return {table: joined(parts) for table, parts in self._kept.items()}


def joined(parts: Sequence[Columns]) -> Columns:
    """Return some rows and further rows of one table as one."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _columns(rows: Sequence[tuple[float, ...]], about: Sequence[tuple[str, Any]]) -> Columns:
    if not rows:
        return {name: np.empty(0, dtype) for name, dtype in about}
    told = zip(about, zip(*rows, strict=True), strict=True)
    return {name: np.array(column, dtype=dtype) for (name, dtype), column in told}


class Hourly:
    """Sums by hour of several series, which grow as time goes on.

    Args:
        names: of the series.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: np.zeros(24) for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """The series."""
        return tuple(self._sums)

    def have(self, name: str) -> None:
        """Have a series of this name, from 0 if it is new."""
        self._sums.setdefault(name, np.zeros(24))

    def count(self, name: str, at_s: Floats, amount: Floats | None = None) -> None:
        """Add 1, or an amount, at times."""
        if not len(at_s):
            return
        hours = (at_s // HOUR_S).astype(np.int64)
        self._reach(name, int(hours.max()) + 1)
        found = np.bincount(hours, amount, minlength=len(self._sums[name]))
        self._sums[name] += found

    def spread(self, name: str, start_s: Floats, end_s: Floats) -> None:
        """Add the seconds of intervals to the hours that they lie in."""
        if not len(start_s):
            return
        last = int(end_s.max() // HOUR_S) + 2
        self._reach(name, last)
        self._sums[name][:last] += _passed(end_s, start_s, last)

    def _reach(self, name: str, n: int) -> None:
        short = n - len(self._sums[name])
        if short > 0:
            self._sums[name] = np.concatenate([self._sums[name], np.zeros(max(short, 24))])

    def series(self, name: str, n: int) -> Floats:
        """Return the first `n` hours of a series."""
        self._reach(name, n)
        return self._sums[name][:n].copy()


def _passed(end_s: Floats, start_s: Floats, n: int) -> Floats:
    """Return seconds of intervals in each of n hours: what is ahead of an end less of a start."""
    whole = np.zeros(n + 1)
    for times, sign in ((end_s, 1.0), (start_s, -1.0)):
        hours = (times // HOUR_S).astype(np.int64)
        whole[:n] += sign * np.bincount(hours, times - hours * HOUR_S, minlength=n)[:n]
        counts = np.bincount(hours, minlength=n)[:n].astype(float)
        behind = counts.sum() - np.cumsum(counts)  # those that end in a later hour
        whole[:n] += sign * HOUR_S * behind
    return whole[:n]
