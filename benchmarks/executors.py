"""What an executor costs a run, and how many short runs Dask makes with more workers.

`overhead`: runs that do nothing, as many under way as there are workers (two; one for serial), in
milliseconds of wall time per run, beside what starting the executor takes. `throughput`: runs that
wait 50 ms, with 1 to 8 workers of Dask on this machine, beside the ideal of so many at once; waits
take no processor, so that more workers than cores help until Dask's own work is the limit.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from assistant import Measure
from assistant.executors import EXECUTORS, Place, make_executor
from assistant.objective import Objective, Value
from assistant.ports import Executor, Work
from benchmarks.harness import Record, guarded, parser, table
from strategies import Level, Parameter, ParameterSpace

WAIT_S = 0.05
WORKERS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Waiting:
    """An application whose run waits."""

    wait_s: float

    name = "waiting"
    measures = ("waited_s",)
    deterministic = True
    baseline = None
    facts = ()

    @property
    def space(self) -> ParameterSpace:
        """One parameter."""
        return ParameterSpace((Parameter("x", (0, 1, 2, 3)),))

    @property
    def objective(self) -> Objective:
        """Nothing depends on it."""
        return Objective(Value("waited_s"))

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - the protocol's
        """Wait."""
        if self.wait_s:
            time.sleep(self.wait_s)
        return {"waited_s": self.wait_s}


def main() -> None:
    """Measure every executor, then Dask with more workers."""
    options = parser(__doc__ or "")
    options.add_argument("--runs", type=int, default=400)
    told = options.parse_args()
    n_runs = 12 if told.quick else told.runs
    record = Record("executors", told, [0])
    rows = []
    for entry in EXECUTORS:
        workers = 1 if entry.name == "serial" else 2
        start_s, run_s = record.step(
            entry.name, lambda name=entry.name, n=workers: _seconds(name, n, n_runs, 0.0)
        )
        rows.append([entry.name, str(workers), f"{start_s:.2f}", f"{run_s / n_runs * 1e3:.2f}"])
        record.figure(f"ms_per_run {entry.name}", run_s / n_runs * 1e3)
        record.write()
    table(["executor", "workers", "start s", "ms per empty run"], rows)
    sys.stdout.write("\n")
    rows = []
    for workers in WORKERS[:2] if told.quick else WORKERS:
        _, run_s = record.step(
            f"dask {workers}", lambda n=workers: _seconds("dask", n, n_runs, WAIT_S)
        )
        ideal = workers / WAIT_S
        found = n_runs / run_s
        rows.append([str(workers), f"{found:.1f}", f"{ideal:.0f}", f"{found / ideal:.0%}"])
        record.figure(f"runs_per_s dask {workers}", found)
        record.write()
    table(["workers of Dask", "runs of 50 ms per s", "ideal", "of it"], rows)


def _seconds(name: str, workers: int, n_runs: int, wait_s: float) -> tuple[float, float]:
    """Return how long an executor takes to start and to make runs."""
    begun_s = time.perf_counter()
    with make_executor(Waiting(wait_s), workers, Place(name)) as executor:
        _make(executor, workers, workers)  # every worker has been asked once
        started_s = time.perf_counter()
        _make(executor, workers, n_runs)
        ended_s = time.perf_counter()
    return started_s - begun_s, ended_s - started_s


def _make(executor: Executor, workers: int, n_runs: int) -> None:
    under_way, given = 0, 0
    while given < n_runs or under_way:
        while given < n_runs and under_way < workers:
            executor.submit(Work(given, {"x": given % 4}, seed=given))
            given, under_way = given + 1, under_way + 1
        under_way -= len(executor.collect())


if __name__ == "__main__":
    guarded(main)
