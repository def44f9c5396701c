"""Registry of the executors, which execute runs; the contract tests cover every entry of it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from assistant.core.ports import Application, Executor
from assistant.executors.serial import SerialExecutor
from assistant.executors.spec import LOCAL, ExecutorSpec, check_capacity


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """Registry entry of an executor: its name, a summary, and the function that builds it."""

    name: str
    summary: str
    build: Callable[..., Executor]


def _deferred(target: str) -> Callable[..., Executor]:
    """Return a constructor whose module is imported when it is called."""

    def build(*arguments: Any, **options: Any) -> Executor:
        module, name = target.split(":")
        executor: Executor = getattr(import_module(module), name)(*arguments, **options)
        return executor

    return build


EXECUTORS: tuple[ExecutorEntry, ...] = (
    ExecutorEntry(
        "serial", "in this process, one run at a time", lambda app, _: SerialExecutor(app)
    ),
    ExecutorEntry(
        "process_pool",
        "several processes on this machine",
        _deferred("assistant.executors.process_pool:ProcessPoolExecutor"),
    ),
    ExecutorEntry(
        "dask",
        "workers of Dask distributed, here or elsewhere",
        _deferred("assistant.executors.dask:DaskExecutor"),
    ),
    ExecutorEntry(
        "slurm",
        "jobs of Slurm, each with one run after another",
        _deferred("assistant.executors.slurm.executor:SlurmExecutor"),
    ),
)


def make_executor(application: Application, workers: int, place: ExecutorSpec = LOCAL) -> Executor:
    """Build the executor given by ``place``; by default serial for 1 worker, else a process pool.

    Raises:
        SettingsError: ``workers`` is below 1, or above for the serial executor.
        ExecutorError: no scheduler or cluster responds.
    """
    place.check(workers)
    check_capacity(place, workers)
    name = place.executor or ("serial" if workers == 1 else "process_pool")
    entry = next(entry for entry in EXECUTORS if entry.name == name)
    options: dict[str, Any] = {}
    if name in ("dask", "slurm"):
        options |= {"batch": place.batch, "environment": place.environment}
    if name == "dask":
        options |= {"address": place.address, "certificates": place.certificates}
    return entry.build(application, workers, **options)
