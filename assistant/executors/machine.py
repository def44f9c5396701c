"""What this machine has, and whether runs that are to be executed here fit into it."""

import os
from dataclasses import dataclass
from pathlib import Path

from assistant.errors import SettingsError
from assistant.executors.place import Place

_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """Cores and memory that programs may use."""

    cores: int
    memory_bytes: int


def this_machine() -> Machine:
    """Return what this process may use: its affinity, and the limit of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        told = _CGROUP_LIMIT.read_text().strip()
    except OSError:
        told = ""
    return Machine(cores or 1, min(memory_bytes, int(told)) if told.isdigit() else memory_bytes)


def is_here(place: Place) -> bool:
    """Whether all runs are executed on this machine."""
    if place.executor in (None, "serial", "process_pool"):
        return True
    return place.executor == "dask" and place.address is None and place.batch is None


def check_room(place: Place, workers: int, machine: Machine | None = None) -> None:
    """Refuse runs at once that do not fit into the machine that executes them.

    Args:
        place: where they are to be executed; elsewhere than here is not judged.
        workers: how many at once.
        machine: this one if None.

    Raises:
        SettingsError: they need more cores or more memory together than it has.
    """
    wanted = place.environment
    if (wanted.cores is None and wanted.memory_bytes is None) or not is_here(place):
        return
    has = machine or this_machine()
    at_once = "a run" if workers == 1 else f"{workers} runs at once"
    out = (
        "; ask for less in [environment]"
        + ", for fewer workers" * (workers > 1)
        + ", or for an executor with other machines in [executor]"
    )
    if wanted.cores is not None and workers * wanted.cores > has.cores:
        each = "" if workers == 1 else f" with {wanted.cores} each"
        raise SettingsError(
            f"{at_once}{each} would need {workers * wanted.cores} cores and this machine has "
            f"{has.cores}{out}"
        )
    if wanted.memory_bytes is not None and workers * wanted.memory_bytes > has.memory_bytes:
        each = "" if workers == 1 else f" with {_gib(wanted.memory_bytes)} each"
        raise SettingsError(
            f"{at_once}{each} would need {_gib(workers * wanted.memory_bytes)} of memory "
            f"and this machine has {_gib(has.memory_bytes)}{out}"
        )


def _gib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 30):,.1f}".removesuffix(".0") + " GiB"
