"""Jobs of Microsoft's Philly clusters: when they came, how long they ran, and on how many GPUs.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019. The table has a row per job with the columns ``timestamp``,
``duration``, ``num_gpus``, ``gpu_time`` and ``cluster``, which is the virtual cluster. It tells no
cores, no memory and no users.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError
from sim.model.tasks import Tasks
from sim.model.workload import ReadingNote, Workload
from sim.traces.csv_table import numbered, read_csv, stem_of, zone_named

PHILLY_COLUMNS: Mapping[str, str] = {
    "submitted": "timestamp", "runtime_s": "duration", "gpus": "num_gpus", "queue": "cluster",
}  # fmt: skip
"""What is needed, and the column that it usually has; ``queue`` may be missing."""

MILLI = 1000
MOST_GPUS = 100_000


def read_philly(
    path: str | PathLike[str],
    *,
    time_zone: str = "UTC",
    gpus_per_machine: int = 8,
    never_ran: Literal["drop", "refuse"] = "drop",
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read a Philly table, plain or gzip.

    Args:
        path: the file.
        time_zone: of the clock that the submissions show; the file does not tell it.
        gpus_per_machine: jobs with more GPUs become a gang of the fewest equal tasks that have no
            more (Philly's machines had 2, 4 or 8).
        never_ran: what to do with jobs of run time 0.
        columns: other names of columns, by need; see `PHILLY_COLUMNS`.

    Returns:
        Jobs by submission, each with one task of one or more instances. Processors are its GPUs
        (1 if it has none), queues the virtual clusters in order of their names. Cores and memory
        are unknown and demanded as 0.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, PHILLY_COLUMNS, columns)
    zone = zone_named(file, time_zone)
    if gpus_per_machine < 1:
        raise TraceError(file, expected=f"gpus_per_machine is {gpus_per_machine}; at least 1 is.")
    submitted_s = table.moments("submitted", zone)
    runtime_s = table.numbers("runtime_s")
    gpus = table.numbers("gpus", whole=True)
    if (gpus > MOST_GPUS).any():
        row = int(np.flatnonzero(gpus > MOST_GPUS)[0])
        raise table.error(row, "gpus", f"allowed are at most {MOST_GPUS:,} GPUs.")
    queue, names = numbered(table.texts("queue") if table.has("queue") else [""] * table.n_rows)
    ran = runtime_s > 0
    if never_ran == "refuse" and not ran.all():
        row = int(np.flatnonzero(~ran)[0])
        expected = "this job never ran; drop such jobs with never_ran='drop'."
        raise table.error(row, "runtime_s", expected)
    if not ran.any():
        raise TraceError(file, expected=f"none of its {table.n_rows} jobs ran; nothing is left.")
    notes = []
    if not ran.all():
        dropped = int((~ran).sum())
        sentence = f"{dropped} jobs never ran (run time 0); dropped."
        notes.append(ReadingNote("never_ran", dropped, sentence))
    n_back = int((np.diff(submitted_s) < 0).sum())
    if n_back:
        sentence = f"submit times step back {n_back} times; the jobs were sorted."
        notes.append(ReadingNote("unsorted", n_back, sentence))
    n_jobs = int(ran.sum())
    sentence = "the table tells no cores and no memory; every task demands 0 of them."
    notes.append(ReadingNote("demands_unknown", n_jobs, sentence))
    sentence = f"times are read as those of {time_zone}; the table does not name its time zone."
    notes.append(ReadingNote("time_zone", n_jobs, sentence))
    n_gpus = gpus[ran].astype(np.int64)
    instances, of_each = machines_for(n_gpus, gpus_per_machine)
    texts: dict[str, Sequence[str]] = (
        {"queue": [names[i] if i >= 0 else "" for i in queue[ran]]} if names else {}
    )
    return Workload.from_arrays(
        submit_s=submitted_s[ran] - submitted_s[ran].min(),
        runtime_s=runtime_s[ran],
        procs=np.maximum(n_gpus, 1),
        queue=queue[ran],
        name=stem_of(file),
        start_unix_s=float(submitted_s[ran].min()),
        time_zone=time_zone,
        notes=notes,
        unsorted="sort",
        tasks=Tasks.from_arrays(
            job=np.arange(n_jobs),
            runtime_s=runtime_s[ran],
            instances=instances,
            mgpu=of_each * MILLI,
            gang=(instances > 1).astype(np.int64),
            texts=texts,
        ),
    )


def machines_for(gpus: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split GPUs into the fewest equal tasks of at most `most`: their number, and GPUs of each."""
    counts, which = np.unique(gpus, return_inverse=True)
    instances = np.ones(len(counts), dtype=np.int64)
    for i, count in enumerate(counts.tolist()):
        fewest = max(-(-count // most), 1)
        instances[i] = next(n for n in range(fewest, count + 1) if count % n == 0) if count else 1
    return instances[which], (counts // instances)[which]
