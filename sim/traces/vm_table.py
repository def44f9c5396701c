"""Tables of virtual machines: who asked for what, when it was created, and when it was deleted.

A row per virtual machine or instance, as clouds publish them: Alibaba's trace of disaggregated
recommendation models (Duan et al., OSDI 2025) has such columns, and so have Azure's ``vmtable``
and others under other names, which are given by need. What was not deleted within the table's time
is censored; what was there before it began has no creation time and is left out, lest only those be
seen that live long.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError
from sim.model.batches import Flavour
from sim.model.observed import ObservedJobs, kinds_of
from sim.traces.csv_table import CsvTable, numbered, read_csv, stem_of

VM_COLUMNS: Mapping[str, str] = {
    "created_s": "creation_time", "deleted_s": "deletion_time", "user": "app_name",
    "cores": "cpu_request", "gpus": "gpu_request", "memory_gib": "memory_request",
}  # fmt: skip
"""What is needed, and the column that it usually has; cores, gpus and memory may be missing."""

GIB = 2**30
MILLI = 1000
_NEVER = -1.0


def read_vm_table(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    most_flavours: int = 32,
    until_s: float | None = None,
) -> ObservedJobs:
    """Read a table of virtual machines, plain or gzip.

    Args:
        path: the file.
        columns: other names of columns, by need; see `VM_COLUMNS`.
        most_flavours: requests with a flavour of their own; others share one for each power of two
            of cores.
        until_s: when the observation ended, by the table's clock; None is the last creation or
            deletion that it tells.

    Returns:
        What was created within the time of the table, in order of creation.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, VM_COLUMNS, columns)
    created_s = table.numbers("created_s", empty=_NEVER)
    deleted_s = table.numbers("deleted_s", empty=_NEVER)
    known = created_s != _NEVER
    if not known.any():
        raise TraceError(file, expected="no row tells when it was created; nothing can be read.")
    gone = deleted_s != _NEVER
    end_s = max(created_s.max(), deleted_s.max()) if until_s is None else until_s
    wrong = known & gone & (deleted_s < created_s)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise table.error(row, "deleted_s", f"it was created later, at {created_s[row]:g}.")
    user, _ = numbered(table.texts("user"))
    requests = np.column_stack(
        [
            _whole(table, "cores", MILLI),
            _whole(table, "gpus", MILLI),
            _whole(table, "memory_gib", GIB),
        ]
    )
    rows = np.flatnonzero(known & (created_s <= end_s))
    if len(rows) == 0:
        raise TraceError(file, expected=f"no row was created up to {end_s:g} s; nothing is left.")
    rows = rows[np.argsort(created_s[rows], kind="stable")]
    ended = gone[rows] & (deleted_s[rows] <= end_s)
    cores = -(-requests[rows, 0] // MILLI)
    flavour, often, rest = kinds_of(requests[rows], cores, most_flavours)
    names = [
        Flavour(
            f"{mcpu / MILLI:g} cores, {mgpu / MILLI:g} GPUs, {memory / GIB:g} GiB",
            int(mcpu),
            int(memory),
            int(mgpu),
        )
        for mcpu, mgpu, memory in often.tolist()
    ]
    names += [Flavour(f"others up to {2**power} cores", 2**power * MILLI) for power in rest]
    return ObservedJobs(
        begin_s=created_s[rows],
        lived_s=np.where(ended, deleted_s[rows], end_s) - created_s[rows],
        censored=np.where(ended, 0, 1),
        user=user[rows],
        flavour=flavour,
        flavours=tuple(names),
        name=stem_of(file),
    )


def _whole(table: CsvTable, need: str, factor: int) -> NDArray[np.int64]:
    """Return a column in whole units; 0 where the file does not have it or says nothing."""
    if not table.has(need):
        return np.zeros(table.n_rows, dtype=np.int64)
    return np.round(table.numbers(need, empty=0.0) * factor).astype(np.int64)
