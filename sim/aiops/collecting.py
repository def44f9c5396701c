"""What is noted while a platform moves, and what it comes to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.aiops.arrivals import CELLS, HOUR_S
from sim.aiops.graph import TASKS
from sim.aiops.platform import HEADER_BYTES, SEGMENT_BYTES
from sim.aiops.scenario import PlatformScenario
from sim.aiops.state import Deployed, FleetCourse, course_of
from sim.aiops.synthesis import PREDICTIONS, PROTOTYPES, Plans, Synthesiser
from sim.aiops.trace import OUTCOMES, Columns, Hourly, Trace
from sim.aiops.triggers import RULES

Floats = NDArray[np.float64]

STARTED_BY = ("arrival", "submission", "deployed before", *RULES)

QUIET_SHARE = 0.25
"""Of the hours of a week are hours of low load: those with the fewest expected arrivals."""


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A training of a deployed model: place of its model in the plans, number, time, cause."""

    plans: Plans
    place: int
    number: int
    now_s: float
    version: int
    rule: str


@dataclass(frozen=True, slots=True)
class TaskStatistics:
    """Of one type of task: how many ended, mean seconds of computing and of waiting."""

    n: int
    mean_s: float | None
    mean_wait_s: float | None


@dataclass(frozen=True, eq=False)
class PlatformResult:
    """What a simulation comes to.

    Attributes:
        ended_s: seconds that were simulated.
        n_pipelines: that came, trainings of deployed models among them.
        outcomes: pipelines that ended, by `OUTCOMES`.
        wait_s: mean seconds that a pipeline which ended had waited for resources; None if none did.
        tasks: by type of task.
        utilisation: by resource, share of its capacity over the time.
        cost: of all capacity over the time.
        hours: float64 [h] by series, sums over each hour of the time: `arrivals`, `started` (of
            tasks), `busy NAME` (seconds of a resource), `waited NAME` (seconds spent in its queue),
            `asked KIND` (tasks of a type that were ready), `traffic_bytes` (with TCP's headers).
        tables: `pipelines`, `tasks` and `models` in columns, if no folder was told.
        texts: of the columns that hold places, by column.
        n_rows: by table, wherever it is.
        fleet: what became of deployed models; None if there were none.
        trainings: of deployed models that were started, by rule.
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
    fleet: FleetCourse | None
    trainings: Mapping[str, int]


class Collector:
    """Notes what happens.

    Args:
        scenario: what is simulated.
        synthesiser: for the names of what its plans hold.
        folder: see `Trace`.
    """

    def __init__(
        self, scenario: PlatformScenario, synthesiser: Synthesiser, folder: Path | None
    ) -> None:
        self._scenario = scenario
        self._resources = tuple(one.name for one in scenario.platform.resources)
        self._texts = {
            "task": TASKS, "resource": self._resources, "outcome": OUTCOMES,
            "framework": synthesiser.frameworks, "estimator": synthesiser.estimators,
            "prediction": tuple(PREDICTIONS), "prototype": PROTOTYPES, "started_by": STARTED_BY,
        }  # fmt: skip
        self.trace = Trace(folder, self._texts)
        busy = [f"{what} {name}" for what in ("busy", "waited") for name in self._resources]
        asked = [f"asked {kind}" for kind in TASKS]
        self._hourly = Hourly(["arrivals", "started", "traffic_bytes", *busy, *asked])
        self._sums = np.zeros((len(TASKS), 3))
        self._outcomes = np.zeros(len(OUTCOMES), dtype=int)
        self._waited_s = 0.0
        self._n_pipelines = 0
        self._trainings = dict.fromkeys(RULES, 0)
        self._tables: dict[str, Columns] = {}
        hourly = scenario.statistics.arrivals.hourly()
        self._is_quiet = hourly <= np.quantile(hourly, QUIET_SHARE)

    def planned(self, plans: Plans, started_by: str = "arrival") -> None:
        """Note pipelines that will come."""
        numbers = plans.first + np.arange(len(plans))
        self._add(plans, np.arange(len(plans)), numbers, plans.arrived_s, 1, started_by, numbers)
        if started_by != "deployed before":
            self._hourly.count("arrivals", plans.arrived_s)
            self._n_pipelines += len(plans)

    def renewed(self, row: PipelineRow) -> None:
        """Note a training of a deployed model."""
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
        """Turn rows into columns, and add them up by hour."""
        tasks = self.trace.flush_tasks()
        asked, started, ended = tasks["asked_s"], tasks["started_s"], tasks["ended_s"]
        kinds = tasks["task"].astype(np.int64)
        n = len(TASKS)
        for column, amount in enumerate((None, ended - started, started - asked)):
            self._sums[:, column] += np.bincount(kinds, amount, minlength=n)[:n]
        self._hourly.count("started", started)
        payload = tasks["read_bytes"] + tasks["write_bytes"]
        moved = payload + np.ceil(payload / SEGMENT_BYTES) * HEADER_BYTES
        self._hourly.count("traffic_bytes", ended, moved)
        for place, name in enumerate(self._resources):
            which = tasks["resource"] == place
            self._hourly.spread(f"busy {name}", started[which], ended[which])
            self._hourly.spread(f"waited {name}", asked[which], started[which])
        for place, kind in enumerate(TASKS):
            self._hourly.count(f"asked {kind}", asked[kinds == place])
        models = self.trace.flush_models()
        self._outcomes += np.bincount(models["outcome"], minlength=len(OUTCOMES))
        self._waited_s += float(models["wait_s"].sum())

    def until_quiet(self, now_s: float) -> float:
        """Return seconds until an hour of low load begins; 0 in one, and a day at most."""
        hour = int((now_s + self._scenario.start_s) // HOUR_S)
        for ahead in range(25):
            if self._is_quiet[(hour + ahead) % CELLS]:
                begins = (hour + ahead) * HOUR_S - self._scenario.start_s
                return max(begins - now_s, 0.0)
        return 24 * HOUR_S

    def close(self) -> None:
        """Turn the last rows into columns and finish the files."""
        self.flush()
        self._tables = self.trace.close()

    def result(self, fleet: list[Deployed], ended_s: float) -> PlatformResult:
        """Return what it comes to, once closed."""
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
                one.name: float(hours[f"busy {one.name}"].sum()) / (one.capacity * span)
                for one in scenario.platform.resources
            },
            scenario.platform.cost_per_h * span / HOUR_S,
            hours,
            self._tables,
            {name: tuple(texts) for name, texts in self._texts.items()},
            dict(self.trace.n_rows),
            course_of(fleet, scenario.fleet, grid) if fleet else None,
            dict(self._trainings),
        )
