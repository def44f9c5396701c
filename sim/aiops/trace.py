"""The trace of a platform simulation, in columns: in memory, or in Parquet files.

Three tables share the number of the pipeline: `pipelines` (arrivals), `tasks` (what ran where, and
when), `models` (model versions with metrics, or the reason why there is none). Sums by hour are
collected at the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.fleet import RULES, DeployedModel, FleetHistory, fleet_history
from sim.aiops.platform import HEADER_BYTES, SEGMENT_BYTES, TASKS
from sim.aiops.platform_statistics import CELLS, HOUR_S
from sim.aiops.synthesis import PREDICTIONS, PROTOTYPES, Plans, PlatformScenario, Synthesiser
from sim.model.errors import SetupError

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


class PlatformTrace:
    """Collector of trace rows, which become columns in memory or in Parquet files.

    Args:
        folder: folder of the Parquet files; None keeps the columns in memory.
        names: texts of the columns that hold indices, by column.

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
        """Store all pending task rows as columns and return these columns."""
        rows, self.tasks[:] = list(self.tasks), []
        return self.add("tasks", _columns(rows, TASK_COLUMNS))

    def flush_models(self) -> Columns:
        """Store all pending model rows as columns and return these columns."""
        rows, self.models[:] = list(self.models), []
        return self.add("models", _columns(rows, MODEL_COLUMNS))

    def add(self, table: str, columns: Columns) -> Columns:
        """Store columns of a table in memory or in its Parquet file and return them."""
        n = len(next(iter(columns.values())))
        self.n_rows[table] = self.n_rows.get(table, 0) + n
        if not n:
            return columns
        if self._folder is None:
            self._kept.setdefault(table, []).append(columns)
            return columns
        waiting = self._waiting.setdefault(table, [])
        waiting.append(columns)  # a row group for every retraining would be slow to read
        if sum(len(next(iter(part.values()))) for part in waiting) >= FLUSH_ROWS:
            self._write(table)
        return columns

    def _write(self, table: str) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        assert self._folder is not None  # noqa: S101 - for the type checker
        columns = concatenate_columns(self._waiting.pop(table))
        arrays = {}
        for name, column in columns.items():
            if name in self._names:
                texts = pa.array(list(self._names[name]), pa.string())
                arrays[name] = pa.DictionaryArray.from_arrays(column.astype(np.int8), texts)
            else:
                arrays[name] = pa.array(column)
        batch = pa.table(arrays)
        try:
            if table not in self._writers:
                self._writers[table] = parquet.ParquetWriter(
                    self._folder / f"{table}.parquet", batch.schema, compression="zstd"
                )
            self._writers[table].write_table(batch)
        except OSError as error:
            raise SetupError(f"{self._folder}: cannot be written ({error}).") from None

    def close(self) -> dict[str, Columns]:
        """Finish the Parquet files and return the tables that are in memory."""
        for table in tuple(self._waiting):
            self._write(table)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        return {table: concatenate_columns(parts) for table, parts in self._kept.items()}


def concatenate_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate several parts of one table, column by column."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _columns(rows: Sequence[tuple[float, ...]], about: Sequence[tuple[str, Any]]) -> Columns:
    if not rows:
        return {name: np.empty(0, dtype) for name, dtype in about}
    typed_columns = zip(about, zip(*rows, strict=True), strict=True)
    return {name: np.array(column, dtype=dtype) for (name, dtype), column in typed_columns}


class HourlySums:
    """Hourly sums of several named series, which lengthen as simulated time passes."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: np.zeros(24) for name in names}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the series, in order of their creation."""
        return tuple(self._sums)

    def have(self, name: str) -> None:
        """Add a series of zeros if no series has this name."""
        self._sums.setdefault(name, np.zeros(24))

    def count(self, name: str, at_s: Floats, amount: Floats | None = None) -> None:
        """Add 1, or `amount`, to the hours that contain the times `at_s`."""
        if not len(at_s):
            return
        hours = (at_s // HOUR_S).astype(np.int64)
        self._reach(name, int(hours.max()) + 1)
        sums = np.bincount(hours, amount, minlength=len(self._sums[name]))
        self._sums[name] += sums

    def spread(self, name: str, start_s: Floats, end_s: Floats) -> None:
        """Add the seconds of each interval to the hours that it overlaps."""
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
        """Return the sums of the first `n` hours of a series."""
        self._reach(name, n)
        return self._sums[name][:n].copy()


def _passed(end_s: Floats, start_s: Floats, n: int) -> Floats:
    """Return the seconds of intervals in each of n hours: time before the ends less the starts."""
    totals = np.zeros(n + 1)
    for times, sign in ((end_s, 1.0), (start_s, -1.0)):
        hours = (times // HOUR_S).astype(np.int64)
        totals[:n] += sign * np.bincount(hours, times - hours * HOUR_S, minlength=n)[:n]
        counts = np.bincount(hours, minlength=n)[:n].astype(float)
        behind = counts.sum() - np.cumsum(counts)  # those that end in a later hour
        totals[:n] += sign * HOUR_S * behind
    return totals[:n]


STARTED_BY = ("arrival", "submission", "deployed before", *RULES)

QUIET_SHARE = 0.25
"""Share of the hours of a week that count as low load: those with the fewest expected arrivals."""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A trace row of a retraining: model, pipeline number, time, version and trigger rule."""

    plans: Plans
    place: int
    number: int
    now_s: float
    version: int
    rule: str


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """Count, mean computing time and mean wait of ended tasks of one type."""

    n: int
    mean_s: float | None
    mean_wait_s: float | None


@dataclass(frozen=True, eq=False)
class PlatformResult:
    """Result of a platform simulation: trace tables, statistics and fleet history.

    Attributes:
        n_pipelines: number of arrived pipelines, retrainings included.
        wait_s: mean wait of an ended pipeline for resources; None if none ended.
        hours: float64 [h] by series, sums over each hour: `arrivals`, `started` (tasks), `busy
            NAME` (seconds of a resource), `waited NAME` (seconds spent in its queue), `asked KIND`
            (tasks of a type that were ready), `traffic_bytes` (with TCP headers).
        tables: `pipelines`, `tasks` and `models` in columns, if there is no folder.
    """

    ended_s: float
    n_pipelines: int
    outcomes: Mapping[str, int]
    wait_s: float | None
    tasks: Mapping[str, TaskStatistics]
    utilisation: Mapping[str, float]
    cost: float
    hours: Mapping[str, Floats]
    tables: Mapping[str, Columns]
    texts: Mapping[str, tuple[str, ...]]
    n_rows: Mapping[str, int]
    fleet: FleetHistory | None
    trainings: Mapping[str, int]


class Collector:
    """Collector of the trace and statistics of a running simulation."""

    def __init__(
        self, scenario: PlatformScenario, synthesiser: Synthesiser, folder: Path | None
    ) -> None:
        self._scenario = scenario
        self._resources = tuple(resource.name for resource in scenario.platform.resources)
        self._texts = {
            "task": TASKS, "resource": self._resources, "outcome": OUTCOMES,
            "framework": synthesiser.frameworks, "estimator": synthesiser.estimators,
            "prediction": tuple(PREDICTIONS), "prototype": PROTOTYPES, "started_by": STARTED_BY,
        }  # fmt: skip
        self.trace = PlatformTrace(folder, self._texts)
        busy = [f"{state} {name}" for state in ("busy", "waited") for name in self._resources]
        request_columns = [f"asked {kind}" for kind in TASKS]
        self._hourly = HourlySums(["arrivals", "started", "traffic_bytes", *busy, *request_columns])
        self._sums = np.zeros((len(TASKS), 3))
        self._outcomes = np.zeros(len(OUTCOMES), dtype=int)
        self._waited_s = 0.0
        self._n_pipelines = 0
        self._trainings = dict.fromkeys(RULES, 0)
        self._tables: dict[str, Columns] = {}
        hourly = scenario.statistics.arrivals.hourly()
        self._is_quiet = hourly <= np.quantile(hourly, QUIET_SHARE)

    def planned(self, plans: Plans, started_by: str = "arrival") -> None:
        """Record planned pipelines before they arrive."""
        numbers = plans.first + np.arange(len(plans))
        self._add(plans, np.arange(len(plans)), numbers, plans.arrived_s, 1, started_by, numbers)
        if started_by != "deployed before":
            self._hourly.count("arrivals", plans.arrived_s)
            self._n_pipelines += len(plans)

    def renewed(self, row: PipelineRow) -> None:
        """Record the start of a retraining of a deployed model."""
        number, at = np.array([row.number]), np.array([row.now_s])
        place = np.array([row.place])
        model = row.plans.first + place
        self._add(row.plans, place, number, at, row.version, row.rule, model)
        self._hourly.count("arrivals", at)
        self._n_pipelines += 1
        self._trainings[row.rule] += 1

    def _add(
        self,
        plans: Plans,
        which: NDArray[np.int64],
        numbers: NDArray[np.int64],
        at_s: Floats,
        version: int,
        started_by: str,
        model: NDArray[np.int64],
    ) -> None:
        n = len(which)
        self.trace.add(
            "pipelines",
            {
                "pipeline": numbers,
                "arrived_s": at_s,
                "started_by": np.full(n, STARTED_BY.index(started_by), dtype=np.int8),
                "model": model,
                "version": np.full(n, version),
                "user": plans.user[which].astype(np.int32),
                "framework": plans.framework[which].astype(np.int8),
                "estimator": plans.estimator[which].astype(np.int8),
                "prediction": plans.prediction[which].astype(np.int8),
                "prototype": plans.prototype[which].astype(np.int8),
                "priority": plans.priority[which].astype(np.int8),
                "rows": plans.sizes[which, 0].astype(np.int64),
                "columns": plans.sizes[which, 1].astype(np.int32),
                "bytes": plans.sizes[which, 2].astype(np.int64),
                "layers": plans.layers[which].astype(np.int16),
                "pruned": plans.pruned[which],
            },
        )

    def flush(self) -> None:
        """Convert pending rows to columns and add them to the hourly sums."""
        tasks = self.trace.flush_tasks()
        queued, started, ended = tasks["asked_s"], tasks["started_s"], tasks["ended_s"]
        kinds = tasks["task"].astype(np.int64)
        n = len(TASKS)
        for column, amount in enumerate((None, ended - started, started - queued)):
            self._sums[:, column] += np.bincount(kinds, amount, minlength=n)[:n]
        self._hourly.count("started", started)
        payload = tasks["read_bytes"] + tasks["write_bytes"]
        moved = payload + np.ceil(payload / SEGMENT_BYTES) * HEADER_BYTES
        self._hourly.count("traffic_bytes", ended, moved)
        for place, name in enumerate(self._resources):
            which = tasks["resource"] == place
            self._hourly.spread(f"busy {name}", started[which], ended[which])
            self._hourly.spread(f"waited {name}", queued[which], started[which])
        for place, kind in enumerate(TASKS):
            self._hourly.count(f"asked {kind}", queued[kinds == place])
        models = self.trace.flush_models()
        self._outcomes += np.bincount(models["outcome"], minlength=len(OUTCOMES))
        self._waited_s += float(models["wait_s"].sum())

    def until_quiet(self, now_s: float) -> float:
        """Return the seconds until an hour of low load: 0 during such an hour, at most a day."""
        hour = int((now_s + self._scenario.start_s) // HOUR_S)
        for ahead in range(25):
            if self._is_quiet[(hour + ahead) % CELLS]:
                begins = (hour + ahead) * HOUR_S - self._scenario.start_s
                return max(begins - now_s, 0.0)
        return 24 * HOUR_S

    def close(self) -> None:
        """Convert the last pending rows to columns and finish the files."""
        self.flush()
        self._tables = self.trace.close()

    def result(self, fleet: list[DeployedModel], ended_s: float) -> PlatformResult:
        """Return the result of the simulation, after `close`."""
        scenario = self._scenario
        span = max(ended_s, scenario.duration_s)
        n_hours = int(-(-span // HOUR_S))
        hours = {name: self._hourly.series(name, n_hours) for name in self._hourly.names}
        n_ended = int(self._outcomes.sum())
        tasks = {}
        for kind, (n, worked, waited) in zip(TASKS, self._sums.tolist(), strict=True):
            tasks[kind] = TaskStatistics(
                int(n), worked / n if n else None, waited / n if n else None
            )
        grid = np.arange(0.0, scenario.duration_s, HOUR_S)
        return PlatformResult(
            span,
            self._n_pipelines,
            {name: int(n) for name, n in zip(OUTCOMES, self._outcomes, strict=True)},
            self._waited_s / n_ended if n_ended else None,
            tasks,
            {
                resource.name: float(hours[f"busy {resource.name}"].sum())
                / (resource.capacity * span)
                for resource in scenario.platform.resources
            },
            scenario.platform.cost_per_h * span / HOUR_S,
            hours,
            self._tables,
            {name: tuple(texts) for name, texts in self._texts.items()},
            dict(self.trace.n_rows),
            fleet_history(fleet, scenario.fleet, grid) if fleet else None,
            dict(self._trainings),
        )
