"""Where runs execute. One line in `EXECUTORS` registers one and gives it the contract suite."""

from collections.abc import Callable
from dataclasses import dataclass

from assistant.errors import SettingsError, hint
from assistant.executors.dask import DaskExecutor
from assistant.executors.dask_address import Certificates, check_address
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
    ExecutorEntry("dask", "workers of Dask distributed, here or elsewhere", DaskExecutor),
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are to be executed.

    Attributes:
        executor: a registered name; None is serial for one worker, and a pool for more.
        address: of a scheduler of Dask; None starts workers here.
        certificates: of TLS, for it.
    """

    executor: str | None = None
    address: str | None = None
    certificates: Certificates | None = None

    def __post_init__(self) -> None:
        if self.executor not in (None, *(entry.name for entry in EXECUTORS)):
            raise SettingsError(
                f"no executor '{self.executor}'"
                + hint(str(self.executor), [entry.name for entry in EXECUTORS])
            )
        if self.executor == "dask":
            check_address(self.address, self.certificates)
        elif self.address is not None or self.certificates is not None:
            raise SettingsError("an address and certificates go with the executor 'dask'")

    def check(self, workers: int) -> None:
        """Refuse a number of runs at once that cannot be.

        Raises:
            SettingsError: it is below 1, or above for the serial executor.
        """
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        if self.executor == "serial" and workers > 1:
            raise SettingsError(f"the executor 'serial' makes one run at a time, not {workers}")


HERE = Place()


def make_executor(application: Application, workers: int, place: Place = HERE) -> Executor:
    """Return the serial executor for one worker and a pool of processes for more, or what is said.

    Raises:
        SettingsError: ``workers`` is below 1, or above for the serial executor.
        ExecutorError: nothing answers where the runs should be.
    """
    place.check(workers)
    name = place.executor or ("serial" if workers == 1 else "process_pool")
    if name == "dask":
        return DaskExecutor(
            application, workers, address=place.address, certificates=place.certificates
        )
    entry = next(entry for entry in EXECUTORS if entry.name == name)
    return entry.build(application, workers)


__all__ = [
    "EXECUTORS",
    "HERE",
    "Certificates",
    "DaskExecutor",
    "ExecutorEntry",
    "Place",
    "ProcessPoolExecutor",
    "SerialExecutor",
    "make_executor",
]
