"""Pods of Alibaba's GPU-sharing cluster ("openb"), with shares of GPUs.

Source: Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023. The table has a row per pod: ``name,cpu_milli,memory_mib,
num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time``, with times in
seconds since the log began. ``gpu_milli`` is the share of each of ``num_gpu`` GPUs.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError
from sim.model.tasks import Tasks, Term
from sim.model.workload import ReadingNote, Workload
from sim.traces.csv_table import CsvTable, numbered, read_csv, stem_of

OPENB_COLUMNS: Mapping[str, str] = {
    "name": "name", "mcpu": "cpu_milli", "mem_mib": "memory_mib", "gpus": "num_gpu",
    "mgpu": "gpu_milli", "gpu_models": "gpu_spec", "queue": "qos", "phase": "pod_phase",
    "submit_s": "creation_time", "end_s": "deletion_time", "start_s": "scheduled_time",
}  # fmt: skip
"""What is needed, and the column that it usually has."""

GPU_MODEL = "gpu.model"
"""Label of a machine that says which GPUs it has, for pods that demand some of them."""

MILLI, MEBIBYTE, MOST_GPUS = 1000, 2**20, 1000


def read_openb(
    path: str | PathLike[str],
    *,
    pending: Literal["drop", "keep"] = "drop",
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read a table of pods, plain or gzip.

    Args:
        path: the file.
        pending: what to do with pods that never got a machine: without a scheduled time they have
            no run time. ``keep`` takes the time from creation to deletion for it, which is what
            placement studies of these pods do.
        columns: other names of columns, by need; see `OPENB_COLUMNS`.

    Returns:
        Pods by creation, one job of one task each. Processors are whole cores (rounded up, 1 if
        it has none), queues the classes of service in order of their names, and the wait of the
        log is that from creation to scheduling. The log does not say when it began.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, OPENB_COLUMNS, columns)
    submit_s, end_s = table.numbers("submit_s"), table.numbers("end_s")
    start_s = table.numbers("start_s", empty=np.nan)
    ran = ~np.isnan(start_s)
    for name, column in (("end_s", end_s), ("start_s", start_s)):
        early = column < submit_s
        if early.any():
            row = int(np.flatnonzero(early)[0])
            raise table.error(row, name, f"the pod was created later, at {submit_s[row]:.15g}.")
    early = ran & (end_s < start_s)
    if early.any():
        row = int(np.flatnonzero(early)[0])
        raise table.error(row, "end_s", f"the pod was scheduled later, at {start_s[row]:.15g}.")
    mcpu = table.numbers("mcpu", whole=True).astype(np.int64)
    mem_bytes = table.numbers("mem_mib") * MEBIBYTE
    mgpu = _mgpu(table)
    queue, names = numbered(table.texts("queue"))
    kept = ran | (pending == "keep")
    if not kept.any():
        expected = "no pod was ever scheduled; keep them with pending='keep'."
        raise TraceError(file, expected=expected)
    runtime_s = end_s - np.where(ran, start_s, submit_s)
    kinds, demand = _models(table.texts("gpu_models") if table.has("gpu_models") else [])
    rows = np.flatnonzero(kept)
    procs = np.maximum(-(-mcpu // MILLI), 1)
    n_jobs = len(rows)
    texts = {need: table.texts(need) for need in ("name", "queue", "phase") if table.has(need)}
    return Workload.from_arrays(
        submit_s=submit_s[rows],
        runtime_s=runtime_s[rows],
        procs=procs[rows],
        logged_wait_s=(start_s - submit_s)[rows],
        queue=queue[rows],
        mem_bytes_per_proc=np.rint(mem_bytes / procs)[rows],
        name=stem_of(file),
        notes=_notes(ran, end_s, pending, names),
        unsorted="sort",
        tasks=Tasks.from_arrays(
            job=np.arange(n_jobs),
            runtime_s=runtime_s[rows],
            mcpu=mcpu[rows],
            mem_bytes=np.rint(mem_bytes)[rows],
            mgpu=mgpu[rows],
            demand=demand[rows] if len(demand) else None,
            affinities=[(Term(GPU_MODEL, "In", kind),) for kind in kinds],
            texts={need: [column[row] for row in rows] for need, column in texts.items()},
        ),
    )


def _mgpu(table: CsvTable) -> NDArray[np.int64]:
    gpus, share = table.numbers("gpus", whole=True), table.numbers("mgpu", whole=True)
    bad = (share > MILLI) | ((gpus > 1) & (share != MILLI)) | ((gpus > 0) & (share == 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        expected = (
            "allowed are thousandths of a GPU from 1 to 1000; who has more than one GPU has all of "
            "each."
        )
        raise table.error(row, "mgpu", expected)
    if (gpus > MOST_GPUS).any():
        row = int(np.flatnonzero(gpus > MOST_GPUS)[0])
        raise table.error(row, "gpus", f"allowed are at most {MOST_GPUS:,} GPUs.")
    return (gpus * share).astype(np.int64)


def _models(texts: Sequence[str]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    """Return the different demands for models of GPUs, and the place of each pod's (-1: any)."""
    place, kinds = numbered(texts)
    return [tuple(kind.split("|")) for kind in kinds], place


def _notes(
    ran: NDArray[np.bool_],
    end_s: NDArray[np.float64],
    pending: Literal["drop", "keep"],
    names: tuple[str, ...],
) -> list[ReadingNote]:
    notes = []
    n_pending, n_last = int((~ran).sum()), int((end_s == end_s.max()).sum())
    if n_pending:
        what = "dropped" if pending == "drop" else "kept, from creation to deletion"
        sentence = f"{n_pending} pods were never scheduled; {what}."
        notes.append(ReadingNote("pending", n_pending, sentence))
    if n_last > 1:
        sentence = (
            f"{n_last} pods end when the log does; they may have run on, and their run times are "
            "those seen."
        )
        notes.append(ReadingNote("end_of_log", n_last, sentence))
    sentence = f"queues are the classes of service, from 0: {', '.join(names)}."
    notes.append(ReadingNote("queue", len(ran), sentence))
    return notes
