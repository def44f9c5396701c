"""What tables with a row per task have in common: rows of jobs brought together, and written."""

import csv
import gzip
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.model.tasks import Tasks
from sim.model.workload import Workload

MOST_CORES, MOST_INSTANCES = 1_000_000, 100_000_000
"""Of one row: more than any machine has, and than any job ran."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, those of a job side by side, jobs by their first rows.

    Attributes:
        row: int64 [n_tasks], rows of the file in the order of the tasks.
        job: int64 [n_tasks], from 0, never falling.
        first: int64 [n_jobs], the place in `row` where each job begins; `last` where it ends.
    """

    row: NDArray[np.int64]
    job: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, job_of_row: NDArray[np.float64]) -> Self:
        """Bring the rows of each job together, in the order of the file."""
        _, begins, which = np.unique(job_of_row, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(begins, kind="stable"), kind="stable")[which]
        row = np.argsort(number, kind="stable")
        job = number[row]
        jobs = np.arange(len(begins))
        first = np.searchsorted(job, jobs, side="left")
        last = np.searchsorted(job, jobs, side="right") - 1
        return cls(row, job, first, last)


def tasks_of_all(workload: Workload) -> Tasks:
    """Return the tasks of a workload; a job without is one task with all its processors."""
    if workload.tasks is not None:
        return workload.tasks
    return Tasks.from_arrays(
        job=np.arange(workload.n_jobs), runtime_s=workload.runtime_s, mcpu=workload.procs * 1000
    )


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table, compressed if the name ends in ``.gz``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def short(number: float) -> str:
    """Return the shortest text that is read back as the same number."""
    return str(int(number)) if number == int(number) else repr(float(number))
