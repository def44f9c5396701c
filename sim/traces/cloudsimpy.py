"""Job files of CloudSimPy: a row per task of a job, with so many instances that are all alike.

Source: CloudSimPy (F. Li and B. Hu, "DeepJS: Job Scheduling Based on Deep Reinforcement Learning
in Cloud Data Center", ICBDC 2019; its file is derived from Alibaba's trace of 2017). The columns
are ``submit_time, duration, cpu, memory, job_id, task_id, instances_num, disk`` and one in front
without a name, which counts the rows. Processors are in cores, memory and disk in parts of what a
machine has, which the file does not tell in bytes. No task waits for another one.
"""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.model.columns import MOST_COUNT
from sim.model.task_graphs import longest_paths, widest_cores
from sim.model.tasks import Tasks
from sim.model.workload import ReadingNote, Workload
from sim.traces.csv_table import CsvTable, read_csv, stem_of
from sim.traces.task_rows import (
    MOST_CORES,
    MOST_INSTANCES,
    Rows,
    short,
    tasks_of_all,
    write_rows,
)

CLOUDSIMPY_COLUMNS: Mapping[str, str] = {
    "submit_s": "submit_time", "runtime_s": "duration", "cores": "cpu", "memory": "memory",
    "job": "job_id", "task": "task_id", "instances": "instances_num", "disk": "disk",
}  # fmt: skip
"""What is needed, and the column that it usually has; ``disk`` may be missing."""

MACHINE_BYTES = 2**40
"""Memory 1, a whole machine's, is read as so many bytes, and so is disk 1: 1,024 GiB."""

TASK_ID = "task_id"
"""The column of `Tasks.texts` in which ids of tasks are kept."""

MILLI = 1000


def read_cloudsimpy(
    path: str | PathLike[str],
    *,
    machine_bytes: int = MACHINE_BYTES,
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read a job file of CloudSimPy, plain or gzip.

    Args:
        path: the file.
        machine_bytes: what memory 1 and disk 1 stand for. CloudSimPy's own machines have 64 cores
            and memory and disk of 1: `MachineSpec("m", 64, mem_bytes=machine_bytes)`.
        columns: other names of columns, by need; see `CLOUDSIMPY_COLUMNS`.

    Returns:
        Jobs by submission, then by job id, each with its tasks in the order of the file. A job is
        submitted when its last row says, as CloudSimPy has it. It is as wide as all its instances
        together, in whole cores, and runs as long as its longest task.

    Raises:
        WorkloadError: `machine_bytes` that no machine has.
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    if not 1 <= machine_bytes <= MOST_COUNT:
        raise WorkloadError(
            f"machine_bytes is {machine_bytes}; allowed are whole numbers from 1 to 2**53."
        )
    table = read_csv(file, CLOUDSIMPY_COLUMNS, columns)
    submit_s, job = table.numbers("submit_s"), table.numbers("job", whole=True)
    rows = Rows.of(job)
    instances = _at_most(table, "instances", 1.0, MOST_INSTANCES, whole=True)
    cores = _at_most(table, "cores", 0.0, MOST_CORES)
    memory = _at_most(table, "memory", 0.0, MOST_COUNT / machine_bytes)
    disk = np.zeros(table.n_rows)
    if table.has("disk"):
        disk = _at_most(table, "disk", 0.0, MOST_COUNT / machine_bytes)
    tasks = Tasks.from_arrays(
        job=rows.job,
        runtime_s=table.numbers("runtime_s")[rows.row],
        instances=instances[rows.row],
        mcpu=np.rint(cores * MILLI)[rows.row],
        mem_bytes=np.rint(memory * machine_bytes)[rows.row],
        disk_bytes=np.rint(disk * machine_bytes)[rows.row],
        texts={TASK_ID: np.array(table.texts("task"), dtype=object)[rows.row].tolist()},
    )
    last_s = submit_s[rows.row][rows.last]
    return Workload.from_arrays(
        submit_s=last_s,
        runtime_s=longest_paths(tasks),
        procs=widest_cores(tasks),
        job_id=job[rows.row][rows.first],
        name=stem_of(file),
        notes=_notes(rows, submit_s[rows.row], last_s, machine_bytes),
        unsorted="sort",
        tasks=tasks,
    )


def _at_most(
    table: CsvTable, need: str, least: float, most: float, *, whole: bool = False
) -> NDArray[np.float64]:
    column = table.numbers(need, least=least, whole=whole)
    if (column > most).any():
        row = int(np.flatnonzero(column > most)[0])
        raise table.error(row, need, f"allowed is at most {most:,.15g}.")
    return column


def _notes(
    rows: Rows, submit_s: NDArray[np.float64], last_s: NDArray[np.float64], machine_bytes: int
) -> list[ReadingNote]:
    n_jobs, notes = len(rows.first), []
    n_torn = int((np.maximum.reduceat(submit_s != last_s[rows.job], rows.first)).sum())
    if n_torn:
        sentence = (
            f"{n_torn:,} jobs have rows with different submit times; their last row counts, as in "
            "CloudSimPy."
        )
        notes.append(ReadingNote("torn", n_torn, sentence))
    n_back = int((np.diff(last_s) < 0).sum())
    if n_back:
        sentence = f"submit times step back {n_back:,} times; the jobs were sorted."
        notes.append(ReadingNote("unsorted", n_back, sentence))
    sentence = (
        f"memory and disk are parts of a machine's; 1 is read as {machine_bytes / 2**30:g} GiB."
    )
    notes.append(ReadingNote("parts_of_machines", n_jobs, sentence))
    return notes


def write_cloudsimpy(
    workload: Workload, path: str | PathLike[str], *, machine_bytes: int = MACHINE_BYTES
) -> None:
    """Write the tasks of a workload as a job file of CloudSimPy, ``.gz`` compressed.

    A job without tasks is one task with all its processors. Not in such a file: which tasks wait
    for which, gangs, GPUs, what machines must be like, units of work, users, queues and requests.
    """
    tasks = tasks_of_all(workload)
    ids = tasks.texts.get(TASK_ID, tuple(str(row) for row in range(1, tasks.n_tasks + 1)))
    columns = (
        workload.submit_s[tasks.job].tolist(),
        tasks.runtime_s.tolist(),
        (tasks.mcpu / MILLI).tolist(),
        (tasks.mem_bytes / machine_bytes).tolist(),
        workload.job_id[tasks.job].tolist(),
        ids,
        tasks.instances.tolist(),
        (tasks.disk_bytes / machine_bytes).tolist(),
    )
    rows = (
        (row, short(submit), short(runtime), short(cores), short(memory), job, task, n, short(disk))
        for row, (submit, runtime, cores, memory, job, task, n, disk) in enumerate(
            zip(*columns, strict=True)
        )
    )
    write_rows(Path(path), ("", *CLOUDSIMPY_COLUMNS.values()), rows)
