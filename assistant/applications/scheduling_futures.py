"""The scheduling application over futures, which are several workloads drawn from a model.

A sweep over one log overfits to that log. Over k futures it measures what a configuration does
to workloads of the same kind. All configurations meet the same futures (common random numbers:
Law, Simulation Modeling and Analysis, 5th edition, section 11.2), so that differences between
two configurations come from the configurations.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import islice
from statistics import fmean, stdev
from typing import Any, Literal, get_args

import numpy as np

from assistant.applications.scheduling import Scheduling
from assistant.core.errors import ApplicationError, RunError
from assistant.core.events import Fact
from assistant.core.objective import Measure
from sim.api import (
    Scenario,
    SimError,
    SimulationResult,
    Workload,
    format_duration,
    simulate,
    simulate_many,
)
from sim.generators import Model, RandomStreams, generate
from strategies import Level

FutureAggregate = Literal["mean", "quantile", "worst"]

MOST_FUTURES = 1_000
WEEK_S = 7 * 86_400.0

STATISTICS = ("mean", "worst", "spread")
"""Statistics over the futures, besides the value of a measure: ``mean_wait_s.worst`` etc."""

SAME = ("procs",)  # Measures that are equal in all futures

_MORE_IS_BETTER = "utilisation"
_KEPT_DRAWS = 2


@dataclass(frozen=True, slots=True)
class WorkloadFutures:
    """Settings for drawing futures (generated workloads) and combining their measures.

    Attributes:
        count: number of futures, 1 to 1,000.
        duration_s: length of the submission window of each future, in seconds.
        scale: factor on the rate of arrivals.
        seed: seed of the futures; independent of the seeds of sweeps and runs. A larger count with
            the same seed begins with the same futures.
        aggregate: value of a measure: ``mean`` over the futures, a ``quantile`` or the ``worst``.
        quantile: share of the futures that are no worse, above 0 and up to 1; 0.9 of 10 futures is
            the second worst.
        anew: True if every run draws its own futures from its seed. Then results vary from run to
            run, and two configurations have no common random numbers.

    Raises:
        ApplicationError: a number is out of range.
    """

    model: Model
    count: int = 10
    duration_s: float = WEEK_S
    scale: float = 1.0
    seed: int = 0
    aggregate: FutureAggregate = "mean"
    quantile: float = 0.9
    anew: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_FUTURES:
            raise ApplicationError(
                f"the number of futures is {self.count}; allowed are 1 to {MOST_FUTURES:,}"
            )
        if self.aggregate not in get_args(FutureAggregate):
            raise ApplicationError(
                f"futures are aggregated by mean, quantile or worst, not by '{self.aggregate}'"
            )
        if not 0 < self.quantile <= 1:
            raise ApplicationError(
                f"the quantile of the futures is {self.quantile}; allowed are numbers above 0 and "
                "up to 1, such as 0.9"
            )

    def draw(self, of_run: int | None = None) -> tuple[Workload, ...]:
        """Draw the futures, from the run seed ``of_run`` if ``anew`` is set. Raises SimError."""
        run_seed = of_run if self.anew else None
        return _drawn(self.model, self.count, self.duration_s, self.scale, self.seed, run_seed)

    @property
    def digest(self) -> str:
        """The SHA-256 of all futures in hexadecimal, which is equal on every machine."""
        digests = "\n".join(workload.digest for workload in self.draw())
        return hashlib.sha256(digests.encode()).hexdigest()

    def judged(self, each: Sequence[Mapping[str, Measure]]) -> dict[str, Measure]:
        """Combine the measures of one run on every future into the measures of the run.

        A future without a value (the wait of small jobs if there are none) is left out. The worst
        is the lowest utilisation, and the highest value of every other measure; a quantile counts
        from the same side.
        """
        names = dict.fromkeys(name for measures in each for name in measures)
        summary: dict[str, Measure] = {}
        for name in names:
            numbers = [value for measures in each if isinstance(value := measures.get(name), float)]
            if name in SAME:
                summary[name] = numbers[0] if numbers else None
                continue
            statistics = self._told(name, numbers)
            summary[name] = statistics[self.aggregate]
            summary |= {f"{name}.{statistic}": statistics[statistic] for statistic in STATISTICS}
        return summary

    def _told(self, name: str, numbers: Sequence[float]) -> dict[str, float | None]:
        if not numbers:
            return dict.fromkeys(("quantile", *STATISTICS))
        from_best = sorted(numbers, reverse=name.startswith(_MORE_IS_BETTER))
        rank = math.ceil(self.quantile * len(numbers) - 1e-9)
        return {
            "mean": fmean(numbers),
            "quantile": from_best[rank - 1],
            "worst": from_best[-1],
            "spread": stdev(numbers) if len(numbers) > 1 else None,
        }

    def __str__(self) -> str:
        by = f"quantile {self.quantile:g}" if self.aggregate == "quantile" else self.aggregate
        faster = "" if self.scale == 1.0 else f" at {self.scale:g} times the arrival rate"
        shared = "each run draws its own" if self.anew else "the same for every configuration"
        return (
            f"{self.count:,} of {format_duration(self.duration_s)}{faster}, drawn from a model of "
            f"'{self.model.generator}' with seed {self.seed}, {shared}; a measure is the {by} over "
            "them"
        )


def measured_over_futures(names: Sequence[str]) -> tuple[str, ...]:
    """Return the given measure names and the names of their statistics over all futures."""
    more = (f"{name}.{s}" for name in names if name not in SAME for s in STATISTICS)
    return (*names, *more)


@lru_cache(maxsize=_KEPT_DRAWS)
def _drawn(
    model: Model, count: int, duration_s: float, scale: float, seed: int, of_run: int | None
) -> tuple[Workload, ...]:
    """Draw the futures; the cache finds a model by its digest."""
    streams = RandomStreams(seed).inside("futures")
    if of_run is not None:
        streams = streams.inside(f"run {of_run}")
    return tuple(
        generate(model, duration_s=duration_s, scale=scale, seed=streams.inside(str(number)))
        for number in range(count)
    )


_COLUMNS = (
    "submit_s", "runtime_s", "requested_s", "procs", "user", "group", "queue", "partition",
    "mem_bytes_per_proc",
)  # fmt: skip


def concatenated_workload(workloads: Sequence[Workload], name: str) -> Workload:
    """Join the jobs of several workloads for display only, as the result cannot be simulated."""
    first = workloads[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(item, name) for item in workloads]) for name in _COLUMNS
    }
    return Workload.from_arrays(
        **columns,
        name=name,
        max_procs=first.max_procs,
        start_unix_s=first.start_unix_s,
        time_zone=first.time_zone,
        notes=[
            replace(item, sentence=f"in the first future {item.sentence}") for item in first.notes
        ],
        requested_is_runtime=any(item.requested_is_runtime for item in workloads),
        unsorted="sort",
    )


Values = Mapping[str, Level]

_RIGID = "every job is simulated as one rigid job, without its tasks and their order"

FUTURES = "Futures"

FUTURES_DIGEST = "Futures digest"


@dataclass(frozen=True)
class FutureScheduling(Scheduling):
    """A simulated cluster whose configurations are measured on several generated workloads.

    Levels are computed from the jobs of all futures together, so that every configuration can be
    simulated on every future.

    Args:
        threads: number of futures of one run that are simulated in parallel; None: one per core.
    """

    futures: WorkloadFutures = field(kw_only=True)
    threads: int | None = field(default=None, kw_only=True)

    @property
    def is_checked(self) -> bool:
        """False: every run simulates all jobs of every future."""
        return False

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The futures: generated workloads on which each configuration is simulated."""
        return self.futures.draw()

    @cached_property
    def have_tasks(self) -> bool:
        """Whether the jobs of the futures consist of tasks."""
        return any(workload.tasks is not None for workload in self.workloads)

    @property
    def deterministic(self) -> bool:
        """Whether every run of a configuration uses the same futures.

        Then a second run gives the same result: a future is not a replicate.
        """
        return not self.futures.anew

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures over all futures, with their statistics."""
        return measured_over_futures(super().measures)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the cluster and on the futures, for display."""
        workload, *more = super().facts
        digest = Fact(FUTURES_DIGEST, self.futures.digest[:16])
        source = Fact("Model", self.futures.model.source or self.futures.model.generator)
        rigid = [Fact("Tasks", _RIGID) for _ in range(self.have_tasks)]
        return (workload, Fact(FUTURES, str(self.futures)), source, *rigid, *more, digest)

    def evaluate(self, values: Values, seed: int) -> Mapping[str, Measure]:
        """Simulate one configuration on every future. Raises RunError if a scenario fails."""
        return self.futures.judged(self.each(values, seed))

    def each(self, values: Values, seed: int = 0) -> tuple[Mapping[str, Measure], ...]:
        """Return the measures of one configuration on each future. Raises RunError."""
        results: list[Mapping[str, Measure]] = []
        try:
            futures = self.futures.draw(seed)
            scenarios = [self.scenario(values, seed, item) for item in futures]
            for item in simulate_many(scenarios, each=self.measured, threads=self.threads):
                results.append(item)
        except SimError as error:
            which = f"future {len(results) + 1} of {self.futures.count}"
            raise RunError(f"{which}: {error}") from error
        return tuple(results)

    def simulated(self, values: Values, seed: int) -> tuple[Scenario, SimulationResult]:
        """Simulate a configuration on the first future and return scenario and result."""
        try:
            scenario = self.scenario(values, seed, self.futures.draw(seed)[0])
            return scenario, simulate(scenario)
        except SimError as error:
            raise RunError(str(error)) from error

    def evaluate_many(
        self,
        configurations: Iterable[Values],
        *,
        threads: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[tuple[Values, Mapping[str, Measure]]]:
        """Simulate configurations on every future in parallel, and yield them in order.

        All meet the futures of the settings' own seed. For the rest see `Scheduling.evaluate_many`;
        ``progress`` counts configurations.

        Raises:
            RunError: the simulator refuses a scenario.
        """
        taken: list[Values] = []

        def scenarios() -> Iterator[Scenario]:
            for values in configurations:
                try:
                    on_each = [self.scenario(values, 0, workload) for workload in self.workloads]
                except RunError:
                    continue
                taken.append(values)
                yield from on_each

        results = simulate_many(scenarios(), each=self.measured, threads=threads)
        done = 0
        try:
            while each := list(islice(results, len(self.workloads))):
                done += 1
                if progress is not None:
                    progress(done)
                yield taken.pop(0), self.futures.judged(each)
        except SimError as error:
            raise RunError(str(error)) from error


def future_scheduling(
    futures: WorkloadFutures, *, threads: int | None = None, **settings: Any
) -> FutureScheduling:
    """Draw the futures and return the scheduling application that simulates them."""
    workloads: Sequence[Workload] = futures.draw()
    jobs = concatenated_workload(
        workloads, f"{futures.count:,} futures of '{futures.model.generator}' together"
    )
    return FutureScheduling(jobs, futures=futures, threads=threads, **settings)
