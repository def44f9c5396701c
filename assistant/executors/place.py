"""Where runs are to be executed, as it was asked for: values only."""

from dataclasses import dataclass, field
from pathlib import Path

from assistant.errors import SettingsError, hint
from assistant.executors.dask_address import Certificates, check_address, check_own_workers
from assistant.ports import Environment

NAMES = ("serial", "process_pool", "dask", "slurm")
"""The registered executors; the registry `EXECUTORS` has them in this order."""


@dataclass(frozen=True, slots=True)
class BatchSystem:
    """What a batch system is told of the jobs in which runs are executed.

    Attributes:
        system: its kind.
        partition: of the cluster; None is the usual one.
        account: that the jobs are charged to; None is the usual one.
        walltime_s: how long a job may last; None is what the partition allows.
        options: more of them, handed over as they are, one argument each.
        host: address of this machine as the nodes of the cluster reach it.
        folder: that this machine and the nodes share.
    """

    system: str = "slurm"
    partition: str | None = None
    account: str | None = None
    walltime_s: float | None = None
    options: tuple[str, ...] = ()
    host: str | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        told = {"partition": self.partition, "account": self.account, "host": self.host}
        texts = {name: (text,) for name, text in told.items() if text is not None}
        for name, several in {**texts, "options": self.options}.items():
            for text in several:
                if not text or not text.isprintable():
                    raise SettingsError(f"[executor]: {name} is empty or not printable: {text!r}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where runs are to be executed.

    Attributes:
        executor: a registered name; None is serial for one worker, and a pool for more.
        address: of a scheduler of Dask; None starts workers here.
        certificates: of TLS, for it.
        batch: the batch system that starts workers; None where none does.
        environment: what each run needs.
    """

    executor: str | None = None
    address: str | None = None
    certificates: Certificates | None = None
    batch: BatchSystem | None = None
    environment: Environment = field(default_factory=Environment)

    def __post_init__(self) -> None:
        if self.executor not in (None, *NAMES):
            raise SettingsError(
                f"no executor '{self.executor}'" + hint(str(self.executor), list(NAMES))
            )
        if self.executor == "dask" and self.batch is not None:
            check_own_workers(self.address, self.certificates)
        elif self.executor == "dask":
            check_address(self.address, self.certificates)
        elif self.address is not None or self.certificates is not None:
            raise SettingsError("an address and certificates go with the executor 'dask'")
        if self.batch is not None and self.executor not in ("dask", "slurm"):
            raise SettingsError(
                "system, partition, account, walltime, options, host and folder go with the "
                "executors 'slurm' and 'dask', whose jobs they are about"
            )

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
