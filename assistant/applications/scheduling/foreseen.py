"""A cluster over many futures: what is steered, judged by all of them at once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

from assistant.applications.scheduling.application import Scheduling
from assistant.applications.scheduling.futures import (
    Futures,
    measured_over_futures,
    together,
)
from assistant.errors import RunError
from assistant.events import Fact
from assistant.objective import Measure
from sim.api import Scenario, SimError, SimulationResult, Workload, simulate, simulate_many
from strategies import Level

Values = Mapping[str, Level]

_RIGID = "every job is simulated as one rigid job, without its tasks and their order"

FUTURES = "Futures"
"""Label of the fact that says which futures runs are judged on."""

FUTURES_DIGEST = "Futures digest"
"""Label of the fact that tells the futures of an experiment from all others."""


@dataclass(frozen=True)
class Foreseen(Scheduling):
    """One cluster over the futures of its workload. Make one with `foreseen`.

    Levels are computed from the jobs of all futures together, so that every configuration can be
    simulated on every future.

    Args:
        futures: which, and how they judge.
        threads: how many futures of one run are simulated side by side; None is one per core.
    """

    futures: Futures = field(kw_only=True)
    threads: int | None = field(default=None, kw_only=True)

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        """The futures."""
        return self.futures.drawn()

    @cached_property
    def have_tasks(self) -> bool:
        """Whether jobs of the futures consist of tasks."""
        return any(one.tasks is not None for one in self.workloads)

    @property
    def deterministic(self) -> bool:
        """Whether a configuration meets the same futures in every run.

        Then a second run says nothing new: a future is no replicate.
        """
        return not self.futures.anew

    @property
    def measures(self) -> tuple[str, ...]:
        """Every measure over the futures, and what is told of each."""
        return measured_over_futures(super().measures)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Those of the cluster, and which futures there are."""
        workload, *others = super().facts
        digest = Fact(FUTURES_DIGEST, self.futures.digest[:16])
        source = Fact("Model", self.futures.model.source or self.futures.model.generator)
        rigid = [Fact("Tasks", _RIGID) for _ in range(self.have_tasks)]
        return (workload, Fact(FUTURES, str(self.futures)), source, *rigid, *others, digest)

    def evaluate(self, values: Values, seed: int) -> Mapping[str, Measure]:
        """Simulate one configuration on every future.

        Raises:
            RunError: the simulator refuses one of them; the sentence says which.
        """
        return self.futures.judged(self.each(values, seed))

    def each(self, values: Values, seed: int = 0) -> tuple[Mapping[str, Measure], ...]:
        """Return the measures of one configuration on each future. Raises as `evaluate`."""
        found: list[Mapping[str, Measure]] = []
        try:
            futures = self.futures.drawn(seed)
            scenarios = [self.scenario(values, seed, one) for one in futures]
            for one in simulate_many(scenarios, each=self.measured, threads=self.threads):
                found.append(one)
        except SimError as error:
            which = f"future {len(found) + 1} of {self.futures.count}"
            raise RunError(f"{which}: {error}") from error
        return tuple(found)

    def simulated(self, values: Values, seed: int) -> tuple[Scenario, SimulationResult]:
        """Return the first future of a configuration, with its schedule. Raises as `evaluate`."""
        try:
            scenario = self.scenario(values, seed, self.futures.drawn(seed)[0])
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
        """Simulate many configurations on every future, all side by side; yield them in order.

        All meet the futures of the futures' own seed. As `Scheduling.evaluate_many` otherwise;
        ``progress`` counts configurations.

        Raises:
            RunError: the simulator refuses a scenario.
        """
        taken: list[Values] = []

        def scenarios() -> Iterator[Scenario]:
            for values in configurations:
                try:
                    on_each = [self.scenario(values, 0, one) for one in self.workloads]
                except RunError:
                    continue
                taken.append(values)
                yield from on_each

        found = simulate_many(scenarios(), each=self.measured, threads=threads)
        done = 0
        try:
            while each := list(islice(found, len(self.workloads))):
                done += 1
                if progress is not None:
                    progress(done)
                yield taken.pop(0), self.futures.judged(each)
        except SimError as error:
            raise RunError(str(error)) from error


def foreseen(futures: Futures, *, threads: int | None = None, **settings: Any) -> Foreseen:
    """Return the application over futures.

    Args:
        futures: which, and how they judge.
        threads: as of `Foreseen`.
        settings: as of `Scheduling`, without the workload.

    Raises:
        ApplicationError, SimError: as `Scheduling`, and what drawing refuses.
    """
    drawn: Sequence[Workload] = futures.drawn()
    jobs = together(drawn, f"{futures.count:,} futures of '{futures.model.generator}' together")
    return Foreseen(jobs, futures=futures, threads=threads, **settings)
