"""Registry of the executors, their settings, and the check of cores and memory of this machine.

The contract tests cover every entry of `EXECUTORS`. Settings are values: TLS certificates, Dask
addresses, batch systems, cores and memory.
"""

import ipaddress
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from assistant.core.errors import SettingsError, hint
from assistant.core.ports import Application, Environment, Executor


@dataclass(frozen=True)
class TlsCertificates:
    """Paths of TLS files (PEM): certificate authority, client certificate and client key."""

    authority: Path
    certificate: Path
    key: Path


def check_address(address: str | None, certificates: TlsCertificates | None) -> None:
    """Raise SettingsError if the address of a Dask scheduler is invalid or not encrypted.

    Raises SettingsError if Dask is not installed, or the address is invalid, or neither on this
    machine nor encrypted.
    """
    if _is_missing("distributed"):
        raise SettingsError("Dask is not installed; pip install 'copperline[dask]' installs it")
    if address is None:
        if certificates is not None:
            raise SettingsError(
                "certificates need the address of a scheduler; a local cluster uses loopback and "
                "needs no certificates"
            )
        return
    parts = urlsplit(address)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("tcp", "tls") or not parts.hostname or port is None:
        raise SettingsError(
            f"the Dask address '{address}' is not of the form tls://HOST:PORT (or tcp://HOST:PORT "
            "on this machine)"
        )
    if parts.scheme == "tls" and certificates is None:
        raise SettingsError(
            f"the Dask address '{address}' needs certificates: authority, certificate and key"
        )
    if parts.scheme == "tcp" and not is_loopback(parts.hostname):
        raise SettingsError(
            f"the Dask address '{address}' is not on this machine, and tcp is not encrypted: "
            "anyone who reaches a Dask scheduler can run programs. Use tls:// with certificates"
        )
    _check_files(certificates)


def check_own_workers(address: str | None, certificates: TlsCertificates | None) -> None:
    """Raise SettingsError if Dask workers cannot be started through a batch system.

    Raises SettingsError if dask-jobqueue is not installed, or a scheduler address is set too.
    """
    if _is_missing("distributed") or _is_missing("dask_jobqueue"):
        raise SettingsError(
            "dask-jobqueue is not installed; pip install 'copperline[slurm]' installs it"
        )
    if address is not None:
        raise SettingsError(
            f"the Dask scheduler at {address} has its own workers; set either its address or "
            "the system that starts workers"
        )
    _check_files(certificates)


def _check_files(certificates: TlsCertificates | None) -> None:
    if certificates is not None:
        for name in ("authority", "certificate", "key"):
            path = getattr(certificates, name)
            if not path.is_file():
                raise SettingsError(f"the file '{path}' ({name} of TLS) is missing")


def _is_missing(package: str) -> bool:
    from importlib.util import find_spec

    return find_spec(package) is None


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address, such as 127.0.0.1."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class BatchSystem:
    """Batch system of a cluster (Slurm), with the options for its jobs.

    Attributes:
        partition: partition of the cluster; None for the default.
        account: account that pays for the jobs; None for the default.
        walltime_s: time limit of a job; None for the limit of the partition.
        options: further options of the submit command, one argument each.
        host: address of this machine for the nodes.
        folder: folder that this machine and the nodes share.
        setup: lines of the shell that a job executes before its program.
    """

    system: str = "slurm"
    partition: str | None = None
    account: str | None = None
    walltime_s: float | None = None
    options: tuple[str, ...] = ()
    host: str | None = None
    folder: Path | None = None
    setup: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        optional_texts = {"partition": self.partition, "account": self.account, "host": self.host}
        texts = {name: (text,) for name, text in optional_texts.items() if text is not None}
        for name, several in {**texts, "options": self.options, "setup": self.setup}.items():
            for text in several:
                if not text or not text.isprintable():
                    raise SettingsError(f"[executor]: {name} is empty or not printable: {text!r}")


@dataclass(frozen=True, slots=True)
class ExecutorEntry:
    """Registry entry of an executor.

    Attributes:
        build: function of an application, a number of workers, and the values that it takes.
        takes: fields of `ExecutorSpec` that it takes; the others stay unset.
        is_serial: whether it executes one run at a time.
        needs_batch: whether it always starts its runs through a batch system.
    """

    name: str
    summary: str
    build: Callable[..., Executor]
    takes: tuple[str, ...] = ()
    is_serial: bool = False
    needs_batch: bool = False


def _serial(application: Application, _workers: int) -> Executor:
    from assistant.executors.serial import SerialExecutor

    return SerialExecutor(application)


def _deferred(target: str) -> Callable[..., Executor]:
    """Return a constructor whose module is imported when it is called."""

    def build(*arguments: Any, **options: Any) -> Executor:
        module, name = target.split(":")
        executor: Executor = getattr(import_module(module), name)(*arguments, **options)
        return executor

    return build


EXECUTORS: tuple[ExecutorEntry, ...] = (
    ExecutorEntry("serial", "in this process, one run at a time", _serial, is_serial=True),
    ExecutorEntry(
        "process_pool",
        "several processes on this machine",
        _deferred("assistant.executors.process_pool:ProcessPoolExecutor"),
    ),
    ExecutorEntry(
        "dask",
        "workers of Dask distributed, here or elsewhere",
        _deferred("assistant.executors.dask:DaskExecutor"),
        takes=("address", "certificates", "batch", "environment"),
    ),
    ExecutorEntry(
        "slurm",
        "jobs of Slurm, each with one run after another",
        _deferred("assistant.executors.slurm.executor:SlurmExecutor"),
        takes=("batch", "environment"),
        needs_batch=True,
    ),
)


def executor_entry(name: str) -> ExecutorEntry:
    """Return the registered executor with a name.

    Raises:
        SettingsError: there is none.
    """
    for entry in EXECUTORS:
        if entry.name == name:
            return entry
    raise SettingsError(f"no executor '{name}'{hint(name, [e.name for e in EXECUTORS])}")


def _takers(field_name: str) -> str:
    return " and ".join(f"'{entry.name}'" for entry in EXECUTORS if field_name in entry.takes)


@dataclass(frozen=True, slots=True)
class ExecutorSpec:
    """Specification of an executor: its name, address, certificates and batch system.

    Attributes:
        executor: registered name; None is serial for one worker, and a pool for more.
        address: address of a Dask scheduler; None starts workers here.
    """

    executor: str | None = None
    address: str | None = None
    certificates: TlsCertificates | None = None
    batch: BatchSystem | None = None
    environment: Environment = field(default_factory=Environment)

    def __post_init__(self) -> None:
        entry = self.entry(1)
        if "address" in entry.takes:
            check = check_address if self.batch is None else check_own_workers
            check(self.address, self.certificates)
        elif self.address is not None or self.certificates is not None:
            raise SettingsError(
                f"only the executor {_takers('address')} takes an address and certificates"
            )
        if self.batch is not None and "batch" not in entry.takes:
            raise SettingsError(
                f"only the executors {_takers('batch')} take system, partition, account, walltime, "
                "options, host and folder"
            )
        if self.batch is not None and self.batch.setup and not entry.needs_batch:
            only = next(other.name for other in EXECUTORS if other.needs_batch)
            raise SettingsError(f"only the executor '{only}' takes setup, the lines of its jobs")

    def entry(self, workers: int) -> ExecutorEntry:
        """Return the registered executor; without a name, the usual one for so many workers."""
        return executor_entry(self.executor or ("serial" if workers == 1 else "process_pool"))

    def check(self, workers: int) -> None:
        """Raise SettingsError if the executor does not support this number of workers."""
        if workers < 1:
            raise SettingsError(f"the number of workers must be at least 1, not {workers}")
        entry = self.entry(workers)
        if entry.is_serial and workers > 1:
            raise SettingsError(
                f"the executor '{entry.name}' executes one run at a time, not {workers}"
            )


LOCAL = ExecutorSpec()

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class MachineCapacity:
    """Number of cores and bytes of memory that programs may use on a machine."""

    cores: int
    memory_bytes: int


def this_machine() -> MachineCapacity:
    """Return the cores and memory that this process may use, within its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit_text = _CGROUP_LIMIT.read_text().strip()
    except OSError:
        limit_text = ""
    return MachineCapacity(
        cores or 1, min(memory_bytes, int(limit_text)) if limit_text.isdigit() else memory_bytes
    )


def is_here(place: ExecutorSpec) -> bool:
    """Return whether the executor executes all runs on this machine."""
    is_batch = place.batch is not None or place.entry(1).needs_batch
    return place.address is None and not is_batch


def check_capacity(
    place: ExecutorSpec, workers: int, machine: MachineCapacity | None = None
) -> None:
    """Raise SettingsError if parallel runs need more cores or memory than the machine has.

    ``machine`` is this one if None; executors on other machines are not checked.
    """
    needs = place.environment
    if (needs.cores is None and needs.memory_bytes is None) or not is_here(place):
        return
    has = machine or this_machine()
    at_once = "a run" if workers == 1 else f"{workers} runs at once"
    out = (
        "; reduce the needs in [environment]"
        + ", use fewer workers" * (workers > 1)
        + ", or choose an executor with other machines in [executor]"
    )
    if needs.cores is not None and workers * needs.cores > has.cores:
        each = "" if workers == 1 else f" with {needs.cores} each"
        raise SettingsError(
            f"{at_once}{each} would need {workers * needs.cores} cores and this machine has "
            f"{has.cores}{out}"
        )
    if needs.memory_bytes is not None and workers * needs.memory_bytes > has.memory_bytes:
        each = "" if workers == 1 else f" with {_gib(needs.memory_bytes)} each"
        raise SettingsError(
            f"{at_once}{each} would need {_gib(workers * needs.memory_bytes)} of memory "
            f"and this machine has {_gib(has.memory_bytes)}{out}"
        )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 30):,.1f}".removesuffix(".0") + " GiB"
