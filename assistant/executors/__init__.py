"""Executors, which execute runs; `EXECUTORS` is their registry."""

from assistant.core.ports import Application, Executor
from assistant.executors.serial import SerialExecutor as SerialExecutor
from assistant.executors.spec import EXECUTORS as EXECUTORS
from assistant.executors.spec import LOCAL, ExecutorSpec, check_capacity
from assistant.executors.spec import ExecutorEntry as ExecutorEntry


def make_executor(application: Application, workers: int, place: ExecutorSpec = LOCAL) -> Executor:
    """Build the executor given by ``place``; by default serial for 1 worker, else a process pool.

    Raises:
        SettingsError: ``workers`` is below 1, or above for the serial executor.
        ExecutorError: no scheduler or cluster responds.
    """
    place.check(workers)
    check_capacity(place, workers)
    entry = place.entry(workers)
    return entry.build(application, workers, **{name: getattr(place, name) for name in entry.takes})
