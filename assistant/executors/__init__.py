"""Where runs execute. One line in `EXECUTORS` registers one and gives it the contract suite."""

from collections.abc import Callable
from dataclasses import dataclass

from assistant.errors import SettingsError
from assistant.executors.process_pool import ProcessPoolExecutor
from assistant.executors.serial import SerialExecutor
from assistant.ports import Application, Executor


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
)


def make_executor(application: Application, workers: int) -> Executor:
    """Return the serial executor for one worker, a pool of processes for more.

    Raises:
        SettingsError: ``workers`` is below 1.
    """
    if workers < 1:
        raise SettingsError(f"the number of workers must be at least 1, not {workers}")
    name = "serial" if workers == 1 else "process_pool"
    entry = next(entry for entry in EXECUTORS if entry.name == name)
    return entry.build(application, workers)


__all__ = [
    "EXECUTORS",
    "ExecutorEntry",
    "ProcessPoolExecutor",
    "SerialExecutor",
    "make_executor",
]
