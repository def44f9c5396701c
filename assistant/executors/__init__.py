"""Executors: where runs execute. One line in `EXECUTORS` registers one for the contract suite."""

from collections.abc import Callable
from dataclasses import dataclass

from assistant.core.ports import Application, Executor
from assistant.executors.dask import DaskExecutor
from assistant.executors.process_pool import ProcessPoolExecutor
from assistant.executors.serial import SerialExecutor
from assistant.executors.slurm.executor import SlurmExecutor
from assistant.executors.spec import LOCAL, ExecutorSpec, check_capacity


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """A registered executor: ``build(application, workers)``."""

    name: str
    summary: str
    build: Callable[[Application, int], Executor]


EXECUTORS: tuple[ExecutorEntry, ...] = (
    ExecutorEntry(
        "serial", "in this process, one run at a time", lambda app, _: SerialExecutor(app)
    ),
    ExecutorEntry("process_pool", "several processes on this machine", ProcessPoolExecutor),
    ExecutorEntry("dask", "workers of Dask distributed, here or elsewhere", DaskExecutor),
    ExecutorEntry("slurm", "jobs of Slurm, each making one run after another", SlurmExecutor),
)


def make_executor(application: Application, workers: int, place: ExecutorSpec = LOCAL) -> Executor:
    """Return the specified executor; by default serial for one worker and a process pool for more.

    Raises:
        SettingsError: ``workers`` is below 1, or above for the serial executor.
        ExecutorError: no scheduler or cluster responds.
    """
    place.check(workers)
    check_capacity(place, workers)
    name = place.executor or ("serial" if workers == 1 else "process_pool")
    if name == "dask":
        return DaskExecutor(
            application,
            workers,
            address=place.address,
            certificates=place.certificates,
            batch=place.batch,
            environment=place.environment,
        )
    if name == "slurm":
        return SlurmExecutor(application, workers, place.batch, place.environment)
    entry = next(entry for entry in EXECUTORS if entry.name == name)
    return entry.build(application, workers)
