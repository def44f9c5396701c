"""What an executor costs a run, and how many short runs Dask makes with more workers.

`overhead`: runs that do nothing, as many under way as there are workers (two; one for serial), in
milliseconds of wall time per run, beside what starting the executor takes. `throughput`: runs that
wait 50 ms, with 1 to 8 workers of Dask on this machine, beside the ideal of so many at once; waits
take no processor, so that more workers than cores help until Dask's own work is the limit.

Slurm is measured where one answers; ``--slurm FOLDER`` starts one on this machine, with the scripts
of that folder (as `benchmarks.slurm_fidelity` does).
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assistant import Measure
from assistant.core.errors import AssistantError
from assistant.core.objective import Objective, SingleMeasure
from assistant.core.ports import ExecutionRequest, Executor
from assistant.executors import EXECUTORS, make_executor
from assistant.executors.slurm import jobs
from assistant.executors.spec import ExecutorSpec
from benchmarks.harness import Record, guarded, parser, table
from benchmarks.slurm_measure import Plan, check, cluster
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
        return Objective(SingleMeasure("waited_s"))

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - the protocol's
        """Wait."""
        if self.wait_s:
            time.sleep(self.wait_s)
        return {"waited_s": self.wait_s}


def main() -> None:
    """Measure every executor, then Dask with more workers."""
    options = parser(__doc__ or "")
    options.add_argument("--runs", type=int, default=400)
    options.add_argument("--slurm", type=Path, help="folder of the scripts that start a Slurm")
    told = options.parse_args()
    n_runs = 12 if told.quick else told.runs
    record = Record("executors", told, [0])
    rows = []
    for entry in EXECUTORS:
        if entry.name == "slurm" and told.slurm is None and not _slurm_answers():
            sys.stderr.write("no Slurm answers here: it is not measured (--slurm starts one)\n")
            continue
        workers = 1 if entry.name == "serial" else 2
        start_s, run_s = record.step(
            entry.name, lambda name=entry.name, n=workers: _measured(name, n, n_runs, told.slurm)
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


def _slurm_answers() -> bool:
    """Return whether there is a Slurm whose controller answers."""
    try:
        return shutil.which("sinfo") is not None and jobs.is_local_slurm(None)
    except AssistantError:
        return False


@contextmanager
def _slurm(scripts: Path | None) -> Iterator[None]:
    """Start a Slurm and let its commands here find it, or take the one that is there."""
    if scripts is None:
        yield
        return
    plan = Plan(scripts, Path(), "easy", nodes=1, cpus=8, n_jobs=9, span_s=1, port=26_500)
    check(plan)
    with cluster(plan) as environment:
        before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = environment["SLURM_CONF"]
        try:
            yield
        finally:
            if before is None:
                del os.environ["SLURM_CONF"]
            else:
                os.environ["SLURM_CONF"] = before


def _measured(name: str, workers: int, n_runs: int, scripts: Path | None) -> tuple[float, float]:
    """Return what `_seconds` does, of runs that do nothing."""
    if name != "slurm":
        return _seconds(name, workers, n_runs, 0.0)
    with _slurm(scripts):
        return _seconds(name, workers, n_runs, 0.0)


def _seconds(name: str, workers: int, n_runs: int, wait_s: float) -> tuple[float, float]:
    """Return how long an executor takes to start and to make runs."""
    from benchmarks.executors import Waiting  # by its name, not as a part of __main__

    begun_s = time.perf_counter()
    with make_executor(Waiting(wait_s), workers, ExecutorSpec(name)) as executor:
        _make(executor, workers, workers)  # every worker has been asked once
        started_s = time.perf_counter()
        _make(executor, workers, n_runs)
        ended_s = time.perf_counter()
    return started_s - begun_s, ended_s - started_s


def _make(executor: Executor, workers: int, n_runs: int) -> None:
    under_way, given = 0, 0
    while given < n_runs or under_way:
        while given < n_runs and under_way < workers:
            executor.submit(ExecutionRequest(given, {"x": given % 4}, seed=given))
            given, under_way = given + 1, under_way + 1
        under_way -= len(executor.collect())


if __name__ == "__main__":
    guarded(main)
