"""Summary of a simulation trace in bounded memory: hourly sums, waiting times and task times.

Rows are read in batches and become sums by hour and histograms of logarithms of seconds, so that
quantiles are exact to half a percent. `about.json` and `fleet.parquet` beside the tables hold
metadata on the simulation and the history of deployed models.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.fleet import RULES, FleetHistory
from sim.aiops.platform import HEADER_BYTES, SEGMENT_BYTES, TASKS
from sim.aiops.platform_statistics import HOUR_S
from sim.aiops.synthesis import PlatformScenario
from sim.aiops.trace import (
    OUTCOMES,
    STARTED_BY,
    Columns,
    HourlySums,
    PlatformResult,
    concatenate_columns,
)
from sim.model.errors import SetupError, TraceError

Floats = NDArray[np.float64]


ABOUT, FLEET = "about.json", "fleet.parquet"
TABLES = ("pipelines", "tasks", "models")
BATCH = 1 << 17  # rows in memory at the same time

QUANTILES = (0.5, 0.9, 0.99)

_LEAST_S = 1e-3
_STEP = 0.01
_BINS = 2_600  # bins up to 1e-3 exp(26) s (6 million years); the first bin holds 0

_NEEDED = {
    "pipelines": ("pipeline", "arrived_s", "started_by", "framework"),
    "tasks": (
        "pipeline", "task", "resource", "asked_s", "started_s", "ended_s", "read_bytes",
        "write_bytes",
    ),
    "models": ("ended_s", "wait_s", "outcome", "performance"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SpreadSummary:
    """Mean and quantiles (to half a percent) of durations; None if there are no durations."""

    n: int
    mean_s: float | None
    quantiles_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TaskSpread:
    """Computing and waiting times of ended tasks of one type, or of one training framework."""

    name: str
    worked: SpreadSummary
    waited: SpreadSummary


@dataclass(frozen=True, slots=True)
class SimulationMetadata:
    """Facts about a simulation that are not in the tables of its trace.

    Attributes:
        start_s: seconds since Monday midnight at time 0.
        resources: name, capacity, discipline and cost per hour of a unit.
        allowed_loss: loss of performance that the SLA allows.
        allowed_share: share of the time in which the loss may be larger.
        sla_misses: number of models that violated the SLA.
    """

    ended_s: float
    start_s: float
    seed: int
    profile: str
    interarrival_factor: float
    resources: tuple[tuple[str, int, str, float], ...]
    n_models: int
    allowed_loss: float
    allowed_share: float
    sla_misses: int
    triggers: tuple[tuple[str, float], ...]
    least: tuple[tuple[str, float], ...]
    source: str


@dataclass(frozen=True, eq=False)
class TraceSummary:
    """Counts, hourly sums and quantiles of a simulation trace.

    Attributes:
        n_pipelines: number of arrived pipelines, retrainings included.
        tasks: tasks by kind, and trainings by framework; only those that occurred.
        hours: float64 [h] by series, sums over each hour: `arrivals`, `renewed` (retrainings),
            `traffic_bytes`, and `busy`, `waited`, `began`, `waited for` (by the hour in which a
            task began, in seconds) with the name of a resource, `asked` with that of a kind of
            task.
        fleet: float64 [h] by series, at the beginning of each hour: `performance`,
            `performance_low`, `staleness`, `staleness_high` (mean and worst twentieth),
            `potential` (sum), `late` (models); None without deployed models or without this data.
    """

    n_pipelines: int
    started_by: Mapping[str, int]
    outcomes: Mapping[str, int]
    pipeline_wait: SpreadSummary
    tasks: tuple[TaskSpread, ...]
    waits: Mapping[str, SpreadSummary]
    resources: tuple[str, ...]
    hours: Mapping[str, Floats]
    fleet: Mapping[str, Floats] | None
    about: SimulationMetadata | None


def simulation_metadata(scenario: PlatformScenario, result: PlatformResult) -> SimulationMetadata:
    """Return the metadata of a simulation: settings, end time and SLA violations."""
    plan, gate = scenario.fleet, scenario.recipe.gate
    late = np.empty(0) if result.fleet is None else result.fleet.late_share
    return SimulationMetadata(
        result.ended_s,
        scenario.start_s,
        scenario.seed,
        scenario.profile,
        scenario.interarrival_factor,
        tuple(
            (resource.name, resource.capacity, resource.discipline, resource.cost_per_h)
            for resource in scenario.platform.resources
        ),
        plan.n_models,
        plan.allowed_loss,
        plan.allowed_share,
        int((late > plan.allowed_share).sum()),
        tuple((rule.kind, rule.limit) for rule in plan.triggers) if plan.n_models else (),
        () if gate is None else tuple((name, limit) for name, limit in gate.least if limit > 0),
        scenario.statistics.source,
    )


def fleet_hours(course: FleetHistory) -> dict[str, Floats]:
    """Return performance, staleness and SLA statistics over all deployed models, by hour."""
    return {
        "performance": course.performance.mean(axis=0),
        "performance_low": np.quantile(course.performance, 0.05, axis=0),
        "staleness": course.staleness.mean(axis=0),
        "staleness_high": np.quantile(course.staleness, 0.95, axis=0),
        "potential": course.potential.sum(axis=0),
        "late": course.late.sum(axis=0).astype(float),
    }


def write_metadata(folder: Path, scenario: PlatformScenario, result: PlatformResult) -> None:
    """Write metadata and fleet history into the folder of a trace.

    Raises:
        SetupError: the folder cannot be written.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        text = json.dumps(asdict(simulation_metadata(scenario, result)), indent=1)
        (folder / ABOUT).write_text(f"{text}\n", encoding="utf-8")
        (folder / FLEET).unlink(missing_ok=True)
        if result.fleet is not None:
            parquet.write_table(pa.table(fleet_hours(result.fleet)), folder / FLEET)
    except OSError as error:
        raise SetupError(f"{folder}: cannot be written ({error}).") from None


def summarise(scenario: PlatformScenario, result: PlatformResult) -> TraceSummary:
    """Summarise a simulation whose trace is in memory.

    Raises:
        SetupError: the trace was written to a folder; use `summarise_folder`.
    """
    if "pipelines" not in result.tables and result.n_rows.get("pipelines"):
        raise SetupError("the trace is in a folder; read it with summarise_folder.")
    adding = _SummaryBuilder(result.texts)
    for table in TABLES:
        if table in result.tables:
            adding.add(table, result.tables[table])
    fleet = None if result.fleet is None else fleet_hours(result.fleet)
    return adding.summary(simulation_metadata(scenario, result), fleet)


def summarise_folder(folder: Path) -> TraceSummary:
    """Summarise the trace that a simulation wrote into a folder.

    Raises:
        TraceError: the folder holds no trace, or cannot be read.
    """
    adding = _SummaryBuilder({})
    for table in TABLES:
        for columns, texts in _batches(folder / f"{table}.parquet", _NEEDED[table]):
            adding.texts.update(texts)
            adding.add(table, columns)
    return adding.summary(_read_metadata(folder / ABOUT), _fleet(folder / FLEET))


def _batches(
    path: Path, needed: Sequence[str]
) -> Iterator[tuple[Columns, dict[str, tuple[str, ...]]]]:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.is_file():
        if path.name == "models.parquet":  # no pipeline ended
            return
        raise TraceError(path, expected="no such file; a trace has pipelines, tasks and models.")
    try:
        with parquet.ParquetFile(path, pre_buffer=False) as file:  # else all is read
            missing = [name for name in needed if name not in file.schema_arrow.names]
            if missing:
                raise TraceError(path, field=missing[0], expected="this column is missing.")
            texts: dict[str, tuple[str, ...]] = {}
            parts: list[Columns] = []
            n = 0
            for batch in file.iter_batches(BATCH, columns=list(needed)):
                columns = {}
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    is_text = isinstance(column, pa.DictionaryArray)
                    if is_text:
                        texts[name] = tuple(column.dictionary.to_pylist())
                    numbers = column.indices if is_text else column
                    columns[name] = numbers.to_numpy(zero_copy_only=False)
                parts.append(columns)
                n += batch.num_rows
                if n >= BATCH:  # row groups are small, and each addition has a fixed cost
                    yield concatenate_columns(parts), texts
                    parts, n = [], 0
            if parts:
                yield concatenate_columns(parts), texts
    except (OSError, pa.ArrowException) as error:
        raise TraceError(path, expected=f"it is not a table of a trace ({error}).") from None


def _read_metadata(path: Path) -> SimulationMetadata | None:
    if not path.is_file():
        return None
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("resources", "triggers", "least"):
            content[name] = tuple(tuple(row) for row in content[name])
        return SimulationMetadata(**content)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TraceError(path, expected=f"it does not describe a simulation ({error}).") from None


def _fleet(path: Path) -> dict[str, Floats] | None:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.is_file():
        return None
    try:
        table = parquet.read_table(path)
        return {
            name: np.asarray(table.column(name).to_numpy(), float) for name in table.column_names
        }
    except (OSError, pa.ArrowException) as error:
        raise TraceError(path, expected=f"it is not a time series of models ({error}).") from None


class _Counts:
    """Histograms of the logarithms of durations, one for each of `n` kinds."""

    def __init__(self, n: int) -> None:
        self.bins = np.zeros((n, _BINS), dtype=np.int64)
        self.sums = np.zeros(n)

    def add(self, kinds: NDArray[Any], seconds: Floats) -> None:
        """Add durations in seconds to the histograms of their kinds."""
        n = len(self.sums)
        places = np.zeros(len(seconds), dtype=np.int64)
        long = seconds >= _LEAST_S
        places[long] = 1 + np.log(seconds[long] / _LEAST_S) / _STEP
        np.minimum(places, _BINS - 1, out=places)
        flat = kinds.astype(np.int64) * _BINS + places
        self.bins += np.bincount(flat, minlength=n * _BINS).reshape(n, _BINS)
        self.sums += np.bincount(kinds, seconds, minlength=n)

    def spread(self, kind: int) -> SpreadSummary:
        """Return the mean and quantiles of the durations of one kind."""
        n = int(self.bins[kind].sum())
        if not n:
            return SpreadSummary(0, None, (None,) * len(QUANTILES))
        ranks = np.ceil(np.array(QUANTILES) * n)
        at = np.searchsorted(np.cumsum(self.bins[kind]), ranks)
        middles = np.where(at == 0, 0.0, _LEAST_S * np.exp((at - 0.5) * _STEP))
        return SpreadSummary(n, float(self.sums[kind] / n), tuple(middles.tolist()))


class _SummaryBuilder:
    """Sums over batches of the tables; pipelines must come first."""

    def __init__(self, texts: Mapping[str, tuple[str, ...]]) -> None:
        self.texts = dict(texts)
        self._frameworks = np.empty(0, dtype=np.int8)
        self._started = np.zeros(len(STARTED_BY), dtype=np.int64)
        self._outcomes = np.zeros(len(OUTCOMES), dtype=np.int64)
        self._hourly: HourlySums | None = None
        self._counts: dict[str, _Counts] = {}
        self._models = _Counts(1)
        self._last_s = 0.0

    def add(self, table: str, columns: Columns) -> None:
        """Add a batch of rows of a trace table to the summary."""
        if len(next(iter(columns.values()))):
            {"pipelines": self._pipelines, "tasks": self._tasks, "models": self._made}[table](
                columns
            )

    def _pipelines(self, columns: Columns) -> None:
        number, why = columns["pipeline"], columns["started_by"].astype(np.int64)
        short = int(number.max()) + 1 - len(self._frameworks)
        if short > 0:
            more = np.zeros(max(short, len(self._frameworks)), dtype=np.int8)
            self._frameworks = np.concatenate([self._frameworks, more])
        self._frameworks[number] = columns["framework"]
        self._started += np.bincount(why, minlength=len(STARTED_BY))
        came = why != STARTED_BY.index("deployed before")
        self._hours().count("arrivals", columns["arrived_s"][came])
        again = np.isin(why, [STARTED_BY.index(rule) for rule in RULES])
        self._hours().count("renewed", columns["arrived_s"][again])
        self._last_s = max(self._last_s, float(columns["arrived_s"].max()))

    def _tasks(self, columns: Columns) -> None:
        hours, kinds = self._hours(), columns["task"].astype(np.int64)
        queued, began, ended = (columns[name] for name in ("asked_s", "started_s", "ended_s"))
        of = columns["resource"].astype(np.int64)
        payload = columns["read_bytes"] + columns["write_bytes"]
        moved = payload + np.ceil(payload / SEGMENT_BYTES) * HEADER_BYTES
        hours.count("traffic_bytes", ended, moved)
        waited, worked = began - queued, ended - began
        for place, name in enumerate(self.texts["resource"]):
            which = of == place
            hours.spread(f"busy {name}", began[which], ended[which])
            hours.spread(f"waited {name}", queued[which], began[which])
            hours.count(f"began {name}", began[which])
            hours.count(f"waited for {name}", began[which], waited[which])
        for place, kind in enumerate(TASKS):
            hours.count(f"asked {kind}", queued[kinds == place])
        self._of("worked", len(TASKS)).add(kinds, worked)
        self._of("waited", len(TASKS)).add(kinds, waited)
        self._of("resource", len(self.texts["resource"])).add(of, waited)
        train = kinds == TASKS.index("train")
        framework = self._frameworks[columns["pipeline"][train]]
        n = len(self.texts["framework"])
        self._of("trained", n).add(framework, worked[train])
        self._of("waited to train", n).add(framework, waited[train])
        self._last_s = max(self._last_s, float(ended.max()))

    def _made(self, columns: Columns) -> None:
        self._outcomes += np.bincount(columns["outcome"], minlength=len(OUTCOMES))
        self._models.add(np.zeros(len(columns["outcome"]), dtype=np.int64), columns["wait_s"])
        deployed = columns["outcome"] == OUTCOMES.index("deployed")
        at = columns["ended_s"][deployed]
        self._hours().count("built", at)
        self._hours().count("built performance", at, columns["performance"][deployed])

    def _hours(self) -> HourlySums:
        if self._hourly is None:
            self._hourly = HourlySums(
                ["arrivals", "renewed", "traffic_bytes", "built", "built performance"]
            )
        if "resource" in self.texts:
            for name in self.texts["resource"]:
                for state in ("busy", "waited", "began", "waited for"):
                    self._hourly.have(f"{state} {name}")
        for kind in TASKS:
            self._hourly.have(f"asked {kind}")
        return self._hourly

    def _of(self, name: str, n: int) -> _Counts:
        return self._counts.setdefault(name, _Counts(n))

    def summary(
        self, metadata: SimulationMetadata | None, fleet: Mapping[str, Floats] | None
    ) -> TraceSummary:
        """Return the summary of all batches added so far."""
        span = self._last_s if metadata is None else metadata.ended_s
        n_hours = max(int(-(-span // HOUR_S)), 1)
        hourly, resources = self._hours(), self.texts.get("resource", ())
        tasks = []
        if "worked" in self._counts:
            rows = [("worked", "waited", TASKS, ""), ("trained", "waited to train",
                    self.texts["framework"], "train ")]  # fmt: skip
            for worked, waited, names, before in rows:
                for place, name in enumerate(names):
                    spreads = self._counts[worked].spread(place), self._counts[waited].spread(place)
                    tasks.append(TaskSpread(before + name, *spreads))
        n_known = int(self._started.sum()) - int(self._started[STARTED_BY.index("deployed before")])
        waits = self._of("resource", len(resources))
        return TraceSummary(
            n_known,
            {name: int(n) for name, n in zip(STARTED_BY, self._started, strict=True) if n},
            {name: int(n) for name, n in zip(OUTCOMES, self._outcomes, strict=True)},
            self._models.spread(0),
            tuple(task for task in tasks if task.worked.n),
            {name: waits.spread(place) for place, name in enumerate(resources)},
            tuple(resources),
            {name: hourly.series(name, n_hours) for name in hourly.names},
            fleet,
            metadata,
        )
