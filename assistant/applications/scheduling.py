"""The paper's SchedSim: how to split a cluster into two partitions, and which jobs go where.

Section 4.1.1 of the Copper paper: a workload of the past, a fixed number of processors, two
variable partitions; parameters are the size of the partitions and the requested time and
processors up to which a job goes to the small one (22 x 20 x 20 = 8,800 combinations, section
4.1.1, figure 5); goals are a low overall response time and, for jobs that requested under one
hour, at most three hours of waiting. The number of processors, the order and the backfill may
be parameters too.

This is the only place where a configuration becomes a simulated scenario.
"""

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from assistant.errors import ApplicationError, RunError
from assistant.events import Fact
from assistant.objective import Constraint, Measure, Objective, Value
from sim.api import (
    ClusterSpec,
    Overrun,
    Partition,
    Scenario,
    SimError,
    SimulationResult,
    TooWide,
    Workload,
    check_backfill,
    check_order,
    format_duration,
    max_wait_s,
    parse_duration,
    simulate,
    simulate_many,
)
from sim.api import measures as measures_of
from strategies import Exclusion, Level, Parameter, ParameterSpace

SMALL_PROCS = "small_procs"
SMALL_MAX_REQUESTED = "small_max_requested_s"
SMALL_MAX_PROCS = "small_max_procs"

N_SPLITS, N_TIMES, N_WIDTHS = 22, 20, 20
MOST_PROCS = 10**12

MEASURES = (
    *(
        f"{statistic}_{measure}"
        for measure in ("wait_s", "response_s", "slowdown", "bounded_slowdown")
        for statistic in ("mean", "median", "p95", "max")
    ),
    "makespan_s",
    "utilisation",
    "utilisation_at_arrival",
    "utilisation_small",
    "utilisation_main",
    "n_jobs",
    "n_rejected",
    "n_killed",
    "small_jobs_max_wait_s",
    "procs",
)
"""Every measure that a run may give; one that there is no job for is missing or unknown."""


@dataclass(frozen=True, slots=True)
class Today:
    """How the cluster is run now: one partition with this order and backfill."""

    order: str = "fcfs"
    backfill: str = "easy"


@dataclass(frozen=True)
class Scheduling:
    """Two partitions over one workload, simulated.

    Args:
        workload: the jobs of the past.
        procs: processors of the cluster; the log's own number if None.
        today: order and backfill now; with one partition of ``procs`` it is the baseline.
        levels: levels for any parameter by name, instead of the computed ones: the three of the
            paper, and ``procs``, ``order``, ``backfill``, which are fixed unless named here.
        small_job_below_s: jobs that requested less are small jobs (paper: 1 h).
        small_job_wait_s: small jobs shall wait at most this long (paper: 3 h).
        too_wide: what becomes of a job that fits no partition: ``reject`` makes the
            configuration infeasible, ``clip`` runs it narrower and longer.
        overrun: what becomes of a job that outlives its request: ``raise`` lets it run on (the
            scheduler is told), ``kill`` ends it there.

    Raises:
        ApplicationError: a size is unknown or too small, or a parameter cannot be built.
        SimError: an order or a backfill that nobody registered.
    """

    workload: Workload
    procs: int | None = None
    today: Today = field(default_factory=Today)
    levels: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    small_job_below_s: float = 3600.0
    small_job_wait_s: float = 3 * 3600.0
    too_wide: TooWide = "reject"
    overrun: Overrun = "raise"

    name = "scheduling"
    measures = MEASURES
    deterministic = True

    def __post_init__(self) -> None:
        known = (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS, "procs", "order", "backfill")
        for parameter in self.levels:
            if parameter not in known:
                raise ApplicationError(
                    f"the scheduling application has no parameter '{parameter}'; "
                    f"it has {', '.join(known)}"
                )
        object.__setattr__(
            self, "levels", {name: _checked(name, given) for name, given in self.levels.items()}
        )
        if self.cluster_procs < 1:
            raise ApplicationError(
                f"the cluster must have at least 1 processor, not {self.cluster_procs}"
            )
        if self.too_wide != "clip" and self.workload.widest_procs > self.cluster_procs:
            raise ApplicationError(
                f"the widest job of {self.workload.name} needs {self.workload.widest_procs} "
                f"processors and the cluster has {self.cluster_procs}; name more processors "
                "with procs, or let such jobs run narrower and longer with too_wide = 'clip'"
            )
        self._scenario(self.baseline)  # refuse what cannot be now, not in a run
        for order in (self.today.order, *self.levels.get("order", ())):
            check_order(str(order))
        for backfill in (self.today.backfill, *self.levels.get("backfill", ())):
            check_backfill(str(backfill))

    @cached_property
    def cluster_procs(self) -> int:
        """Processors of the cluster today."""
        procs = self.procs if self.procs is not None else self.workload.max_procs
        if procs is None:
            raise ApplicationError(
                f"{self.workload.name} does not say how many processors its cluster has; "
                f"name them with procs (its widest job uses {self.workload.widest_procs})"
            )
        return procs

    @cached_property
    def space(self) -> ParameterSpace:
        """The paper's three parameters, then those that the analyst opened.

        Today's configuration has no small partition; the thresholds mean nothing then, so of
        those combinations exactly one is allowed.
        """
        chosen = {**self._computed_levels(), **self.levels}
        parameters = [
            Parameter(name, tuple(chosen[name]), **_DESCRIBED[name])  # type: ignore[arg-type]
            for name in (*_computed_names(), *(n for n in self.levels if n in _OPTIONAL))
        ]
        exclusions = []
        if 0 in chosen[SMALL_PROCS]:
            last_s, last_procs = chosen[SMALL_MAX_REQUESTED][-1], chosen[SMALL_MAX_PROCS][-1]
            exclusions.append(
                Exclusion.parse(
                    f"{SMALL_PROCS} == 0 and ({SMALL_MAX_REQUESTED} != {last_s!r} "
                    f"or {SMALL_MAX_PROCS} != {last_procs!r})"
                )
            )
        return ParameterSpace(tuple(parameters), exclusions=tuple(exclusions))

    def _computed_levels(self) -> dict[str, tuple[Level, ...]]:
        room = max(self.cluster_procs - self.workload.widest_procs, 0)
        if self.too_wide == "clip":
            room = max(room, self.cluster_procs // 2)
        splits = np.unique(np.linspace(0, room, N_SPLITS).round().astype(int))
        requested_s, procs = self.workload.requested_s, self.workload.procs
        return {
            SMALL_PROCS: tuple(splits.tolist()),
            SMALL_MAX_REQUESTED: _times(float(requested_s.min()), float(requested_s.max())),
            SMALL_MAX_PROCS: _widths(int(procs.min()), int(procs.max())),
        }

    @cached_property
    def baseline(self) -> Mapping[str, Level]:
        """Today's configuration."""
        parameters = {p.name: p for p in self.space.parameters}
        today: dict[str, Level] = {
            SMALL_PROCS: 0,
            SMALL_MAX_REQUESTED: parameters[SMALL_MAX_REQUESTED].levels[-1],
            SMALL_MAX_PROCS: parameters[SMALL_MAX_PROCS].levels[-1],
            "procs": self.cluster_procs,
            "order": self.today.order,
            "backfill": self.today.backfill,
        }
        values = {name: value for name, value in today.items() if name in parameters}
        for name, value in values.items():
            if value not in parameters[name].levels:
                raise ApplicationError(
                    f"today's {name}, {value}, is not among its levels "
                    f"({', '.join(map(str, parameters[name].levels))}); add it, so that there "
                    "is something to compare with"
                )
        return values

    @property
    def objective(self) -> Objective:
        """Minimise the mean response; small jobs wait at most so long; no job is turned away."""
        return Objective(
            Value("mean_response_s"),
            "minimise",
            (
                Constraint(
                    "small_jobs_max_wait_s",
                    at_most=self.small_job_wait_s,
                    label=(
                        f"jobs that requested under {format_duration(self.small_job_below_s)} "
                        f"wait at most {format_duration(self.small_job_wait_s)}"
                    ),
                ),
                Constraint("n_rejected", at_most=0.0, label="every job finds a partition"),
            ),
            unit="s",
        )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The data, the rules by which it was read, and the assumptions."""
        load = self.workload
        width = f"{load.n_jobs:,} jobs over {format_duration(load.span_s)}"
        too_wide = {
            "reject": "is turned away, which makes the configuration infeasible",
            "clip": "runs on all of the widest partition, for longer, with the same work",
        }
        overrun = {
            "raise": "runs on, and the scheduler plans with its run time",
            "kill": "is ended",
        }
        return (
            Fact("Workload", f"{load.name}: {width}, up to {load.widest_procs:,} processors"),
            Fact("Cluster", f"{self.cluster_procs:,} processors"),
            Fact(
                "Today", f"one partition, order {self.today.order}, backfill {self.today.backfill}"
            ),
            Fact("Routing", "a job within both limits goes to the small partition, others to main"),
            Fact("A job that fits no partition", too_wide.get(self.too_wide, self.too_wide)),
            Fact("A job that outlives its request", overrun.get(self.overrun, self.overrun)),
            *(Fact("Reading the log", note.sentence) for note in load.notes),
            Fact("Workload digest", load.digest[:16]),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:
        """Simulate one configuration. Raises RunError if the simulator refuses the scenario."""
        try:
            scenario = self._scenario(values, seed)
            result = simulate(scenario)
        except SimError as error:
            raise RunError(str(error)) from error
        return self._measured(scenario, result)

    def evaluate_many(
        self,
        configurations: Iterable[Mapping[str, Level]],
        *,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[Mapping[str, Level], Mapping[str, Measure]]]:
        """Simulate many configurations on all cores and yield each with its measures, in order.

        One that `evaluate` would refuse with a RunError is left out.

        Args:
            configurations: taken one by one, not far ahead.
            threads: how many work side by side; None is one per core.
            progress: called with the number of configurations done.

        Raises:
            RunError: the simulator refuses a scenario.
        """
        taken: deque[Mapping[str, Level]] = deque()

        def scenarios() -> Iterator[Scenario]:
            for values in configurations:
                try:
                    scenario = self._scenario(values)
                except RunError:
                    continue
                taken.append(values)
                yield scenario

        try:
            for measures in simulate_many(
                scenarios(), each=self._measured, threads=threads, progress=progress
            ):
                yield taken.popleft(), measures
        except SimError as error:
            raise RunError(str(error)) from error

    def _measured(self, scenario: Scenario, result: SimulationResult) -> Mapping[str, Measure]:
        measures: dict[str, Measure] = dict(measures_of(scenario, result))
        measures["small_jobs_max_wait_s"] = max_wait_s(
            scenario, result, requested_below_s=self.small_job_below_s
        )
        measures["procs"] = float(scenario.cluster.total_procs)
        return measures

    def _scenario(self, values: Mapping[str, Level], seed: int = 0) -> Scenario:
        try:
            return Scenario(
                workload=self.workload,
                cluster=self._cluster(values),
                order=str(values.get("order", self.today.order)),
                backfill=str(values.get("backfill", self.today.backfill)),
                overrun=self.overrun,
                too_wide=self.too_wide,
                seed=seed,
            )
        except SimError as error:
            raise ApplicationError(str(error)) from error

    def _cluster(self, values: Mapping[str, Level]) -> ClusterSpec:
        total = int(values.get("procs", self.cluster_procs))
        small = int(values[SMALL_PROCS])
        if small == 0:
            return ClusterSpec.single(total)
        if small >= total:
            raise RunError(
                f"a small partition of {small} processors leaves none of {total} for the main one"
            )
        return ClusterSpec(
            (
                Partition(
                    "small",
                    small,
                    max_requested_s=float(values[SMALL_MAX_REQUESTED]),
                    max_procs=min(int(values[SMALL_MAX_PROCS]), small),
                ),
                Partition("main", total - small),
            )
        )


def _checked(name: str, given: Sequence[Level]) -> tuple[Level, ...]:
    """Return levels of one parameter as they are simulated; durations may be texts such as '2h'.

    Raises:
        ApplicationError: a level that means nothing for this parameter.
    """
    if name in ("order", "backfill"):
        return tuple(given)
    if name == SMALL_MAX_REQUESTED:
        return tuple(_seconds(value) for value in given)
    least = 0 if name == SMALL_PROCS else 1
    return tuple(_whole(name, value, least) for value in given)


def _whole(name: str, value: Level, least: int) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and least <= value <= MOST_PROCS and value == int(value):  # type: ignore[operator]
        return int(value)
    raise ApplicationError(
        f"{name} has the level {value!r}; allowed are whole numbers from {least} to {MOST_PROCS:,}"
    )


def _seconds(value: Level) -> Level:
    try:
        seconds = parse_duration(value)
    except (SimError, TypeError) as error:
        raise ApplicationError(f"{SMALL_MAX_REQUESTED} has the level {value!r}: {error}") from error
    if seconds <= 0:
        raise ApplicationError(
            f"{SMALL_MAX_REQUESTED} has the level {value!r}; allowed are times above 0"
        )
    return int(seconds) if seconds.is_integer() else seconds


_OPTIONAL = ("procs", "order", "backfill")

_DESCRIBED: Mapping[str, Mapping[str, str]] = {
    SMALL_PROCS: {"unit": "processors", "description": "size of the small partition; 0 is none"},
    SMALL_MAX_REQUESTED: {
        "unit": "s",
        "description": "jobs that request at most this long may go to the small partition",
    },
    SMALL_MAX_PROCS: {
        "unit": "processors",
        "description": "jobs that request at most so many may go to the small partition",
    },
    "procs": {"unit": "processors", "description": "size of the whole cluster"},
    "order": {"description": "which waiting job comes first"},
    "backfill": {"description": "which later jobs may overtake"},
}


def _computed_names() -> tuple[str, ...]:
    return (SMALL_PROCS, SMALL_MAX_REQUESTED, SMALL_MAX_PROCS)


_ROUND_TIMES_S = tuple(
    size * count
    for size, counts in (
        (60, (1, 2, 5, 10, 15, 20, 30, 45)),
        (3_600, (1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20)),
        (86_400, (1, 1.5, 2, 3, 4, 5, 7, 10, 14, 21, 30, 60, 120, 365)),
    )
    for count in counts
)


def _times(least_s: float, most_s: float) -> tuple[Level, ...]:
    """Return up to 20 round durations from the shortest request to one that admits the longest."""
    inside = [int(t) for t in _ROUND_TIMES_S if least_s <= t < most_s]
    last = next((int(t) for t in _ROUND_TIMES_S if t >= most_s), int(-(-most_s // 60)) * 60)
    if len(inside) > N_TIMES - 1:
        picked = np.linspace(0, len(inside) - 1, N_TIMES - 1).round().astype(int)
        inside = [inside[i] for i in picked]
    return _filled([*inside, last], N_TIMES, step=60)


def _widths(least: int, most: int) -> tuple[Level, ...]:
    """Return up to 20 numbers of processors, evenly on a log scale, the last the widest job's."""
    raw = np.unique(np.geomspace(least, most, N_WIDTHS).round().astype(int)).tolist()
    return _filled(raw, N_WIDTHS, step=1)


def _filled(levels: list[int], count: int, step: int) -> tuple[Level, ...]:
    """Add multiples of ``step`` in the widest gaps (by ratio) until there are ``count`` levels.

    Fewer come back only if there is no room between the first and the last.
    """
    chosen = sorted(set(levels))
    while len(chosen) < count:
        gaps = [(b / a, a, b) for a, b in itertools.pairwise(chosen) if b - a >= 2 * step]
        if not gaps:
            break
        _, low, high = max(gaps)
        middle = round(math.sqrt(low * high) / step) * step
        chosen = sorted({*chosen, min(max(middle, low + step), high - step)})
    return tuple(chosen)
