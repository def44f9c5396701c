"""CSV tables with one row per task: Copperline's format with task graphs, and CloudSimPy's.

Our format needs ``job_id``, ``submit_s``, ``task`` (a name without blanks, unique in its job),
``parents`` (names of tasks of the same job, with blanks between them) and ``runtime_s``; optional
columns and values: see `TASK_COLUMNS` and `JOB_COLUMNS`.

CloudSimPy: F. Li and B. Hu, "DeepJS: Job Scheduling Based on Deep Reinforcement Learning in Cloud
Data Center", ICBDC 2019; its file is derived from Alibaba's trace of 2017. Columns: a row number
without a name, then ``submit_time, duration, cpu, memory, job_id, task_id, instances_num, disk``.
Processors are in cores, memory and disk in shares of a machine of unknown size. Tasks do not wait
for each other.
"""

import csv
import gzip
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_files import CsvTable, number_texts, read_csv, stem_of
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError, WorkloadError, quoted_text
from sim.model.tasks import Tasks, longest_paths, widest_cores
from sim.model.workload import ReadingNote, Workload

MOST_CORES, MOST_INSTANCES = 1_000_000, 100_000_000
"""Limits of one row, above all machines and jobs in practice."""


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Row indices of a task table, grouped by job in order of each job's first row.

    Attributes:
        row: int64 [n_tasks], rows of the file in the order of the tasks.
        job: int64 [n_tasks], from 0, never falling.
        first, last: int64 [n_jobs], first and last index in `row` of each job.
    """

    row: NDArray[np.int64]
    job: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def of(cls, job_of_row: NDArray[np.float64]) -> Self:
        """Group row indices by job; within a job they stay in file order."""
        _, begins, which = np.unique(job_of_row, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(begins, kind="stable"), kind="stable")[which]
        row = np.argsort(number, kind="stable")
        job = number[row]
        jobs = np.arange(len(begins))
        first = np.searchsorted(job, jobs, side="left")
        last = np.searchsorted(job, jobs, side="right") - 1
        return cls(row, job, first, last)


def tasks_of_all(workload: Workload) -> Tasks:
    """Return a workload's tasks; a job without tasks becomes one task with all its processors."""
    if workload.tasks is not None:
        return workload.tasks
    return Tasks.from_arrays(
        job=np.arange(workload.n_jobs), runtime_s=workload.runtime_s, mcpu=workload.procs * 1000
    )


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV table with a header, gzipped if the name ends in ``.gz``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def short(number: float) -> str:
    """Format a number as the shortest text that parses to the same number."""
    return str(int(number)) if number == int(number) else repr(float(number))


CLOUDSIMPY_COLUMNS: Mapping[str, str] = {
    "submit_s": "submit_time", "runtime_s": "duration", "cores": "cpu", "memory": "memory",
    "job": "job_id", "task": "task_id", "instances": "instances_num", "disk": "disk",
}  # fmt: skip
"""Needed quantities, with the usual names of their columns; ``disk`` is optional."""

MACHINE_BYTES = 2**40  # bytes of a whole machine's memory and of its disk: 1,024 GiB

TASK_ID = "task_id"  # key of the task ids in `Tasks.texts`

MILLI = 1000


def read_cloudsimpy(
    path: str | PathLike[str],
    *,
    machine_bytes: int = MACHINE_BYTES,
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read a workload from a CloudSimPy job file (CSV), plain or gzip.

    Args:
        path: path of the file.
        machine_bytes: bytes of memory 1 and of disk 1. CloudSimPy's own machines have 64 cores and
            memory and disk of 1: `MachineSpec("m", 64, mem_bytes=machine_bytes)`.
        columns: other names of columns, by quantity; see `CLOUDSIMPY_COLUMNS`.

    Returns:
        Jobs by submission, then by job id, each with its tasks in the order of the file. The
            submit time of a job is that of its last row, as in CloudSimPy. Its width is that of
            all its instances together, in whole cores, and its run time that of its longest task.

    Raises:
        WorkloadError: `machine_bytes` out of range.
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    if not 1 <= machine_bytes <= MOST_COUNT:
        raise WorkloadError(
            f"machine_bytes is {machine_bytes}; allowed are whole numbers from 1 to 2**53."
        )
    table = read_csv(file, CLOUDSIMPY_COLUMNS, columns)
    submit_s, job = table.numbers("submit_s"), table.numbers("job", integer=True)
    rows = TaskRows.of(job)
    instances = _bounded_numbers(table, "instances", 1.0, MOST_INSTANCES, integer=True)
    cores = _bounded_numbers(table, "cores", 0.0, MOST_CORES)
    memory = _bounded_numbers(table, "memory", 0.0, MOST_COUNT / machine_bytes)
    disk = np.zeros(table.n_rows)
    if table.has("disk"):
        disk = _bounded_numbers(table, "disk", 0.0, MOST_COUNT / machine_bytes)
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


def _bounded_numbers(
    table: CsvTable, need: str, least: float, most: float, *, integer: bool = False
) -> NDArray[np.float64]:
    column = table.numbers(need, least=least, integer=integer)
    if (column > most).any():
        row = int(np.flatnonzero(column > most)[0])
        raise table.error(row, need, f"allowed is at most {most:,.15g}.")
    return column


def _notes(
    rows: TaskRows, submit_s: NDArray[np.float64], last_s: NDArray[np.float64], machine_bytes: int
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
        f"memory and disk are shares of a machine; 1 is read as {machine_bytes / 2**30:g} GiB."
    )
    notes.append(ReadingNote("parts_of_machines", n_jobs, sentence))
    return notes


def write_cloudsimpy(
    workload: Workload, path: str | PathLike[str], *, machine_bytes: int = MACHINE_BYTES
) -> None:
    """Write a workload's tasks as a CloudSimPy job file, gzipped if the name ends in ``.gz``.

    A job without tasks is one task with all its processors. Parents, gangs, GPUs, demands on
    machines, work units, users, queues and requests are not written.
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


NEEDED: tuple[str, ...] = ("job_id", "submit_s", "task", "parents", "runtime_s")

TASK_COLUMNS: Mapping[str, float] = {
    "instances": MOST_INSTANCES, "mcpu": 1000 * MOST_CORES, "mem_bytes": MOST_COUNT,
    "disk_bytes": MOST_COUNT, "mgpu": 1000 * MOST_CORES, "gang": 1,
}  # fmt: skip
"""Optional whole numbers of a task, as in `sim.model.tasks.Tasks`, and their upper limits."""

NAME_COLUMNS: tuple[str, ...] = ("role", "gpu_resource")

JOB_COLUMNS: tuple[str, ...] = (
    "job_runtime_s", "job_procs", "requested_s", "logged_wait_s", "user", "group", "queue",
    "partition", "status", "mem_bytes_per_proc",
)  # fmt: skip
"""Optional values of a job, as in `sim.model.workload.Workload`, equal in all its rows.
Defaults are the run time of the longest path and the processors of the widest level."""

_WHOLE = frozenset(JOB_COLUMNS) - {"job_runtime_s", "requested_s", "logged_wait_s"}
_ALL_COLUMNS = (*NEEDED, *TASK_COLUMNS, *NAME_COLUMNS, *JOB_COLUMNS)


def read_task_table(path: str | PathLike[str]) -> Workload:
    """Read a workload from a CSV table with one row per task, plain or gzip.

    Returns:
        Jobs by submission, then by job id, each with its tasks in the order of the file.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, {name: name for name in _ALL_COLUMNS})
    job = table.numbers("job_id", integer=True)
    submit_s, runtime_s = table.numbers("submit_s"), table.numbers("runtime_s")
    rows = TaskRows.of(job)
    counts = {name: _counts(table, name, most)[rows.row] for name, most in TASK_COLUMNS.items()}
    names = {name: number_texts(table.texts(name) if table.has(name) else [""] * table.n_rows)
             for name in NAME_COLUMNS}  # fmt: skip
    ids, parents = _graph(table, rows)
    job_columns = {name: _of_jobs(table, rows, name) for name in JOB_COLUMNS if table.has(name)}
    first_s = _same(table, rows, "submit_s", submit_s)
    try:
        tasks = Tasks.from_arrays(
            job=rows.job,
            runtime_s=runtime_s[rows.row],
            instances=counts["instances"],
            mcpu=counts["mcpu"],
            mem_bytes=counts["mem_bytes"],
            disk_bytes=counts["disk_bytes"],
            mgpu=counts["mgpu"],
            gang=counts["gang"],
            role=names["role"][0][rows.row],
            roles=names["role"][1],
            gpu_resource=names["gpu_resource"][0][rows.row],
            gpu_resources=names["gpu_resource"][1],
            parents=parents,
            texts={TASK_ID: ids} if ids != _plain_ids(rows) else None,
        )
        lasts_s, wide = longest_paths(tasks), widest_cores(tasks).astype(np.float64)
        runtime, procs = (
            job_columns.pop("job_runtime_s", lasts_s),
            job_columns.pop("job_procs", wide),
        )
        requested_s = job_columns.pop("requested_s", None)
        for name, column in job_columns.items():
            job_columns[name] = (
                column if name == "logged_wait_s" else np.nan_to_num(column, nan=-1.0)
            )
        return Workload.from_arrays(
            submit_s=first_s,
            runtime_s=np.where(np.isnan(runtime), lasts_s, runtime),
            procs=np.where(np.isnan(procs), wide, procs),
            requested_s=None
            if requested_s is None
            else np.where(np.isnan(requested_s), runtime, requested_s),
            job_id=job[rows.row][rows.first],
            name=stem_of(file).removesuffix(".tasks"),
            unsorted="sort",
            tasks=tasks,
            **job_columns,  # type: ignore[arg-type]  # columns of numbers alone
        )
    except TraceError:
        raise
    except WorkloadError as error:  # such as parents in a circle
        raise TraceError(file, expected=str(error)) from None


def _counts(table: CsvTable, name: str, most: float) -> NDArray[np.float64]:
    least = 1.0 if name == "instances" else 0.0
    if not table.has(name):
        return np.full(table.n_rows, least)
    column = table.numbers(name, least=least, integer=True, empty=least)
    if (column > most).any():
        row = int(np.flatnonzero(column > most)[0])
        raise table.error(row, name, f"allowed is at most {most:,.15g}.")
    return column


def _of_jobs(table: CsvTable, rows: TaskRows, name: str) -> NDArray[np.float64]:
    least = 1.0 if name == "job_procs" else 0.0
    column = table.numbers(name, least=least, integer=name in _WHOLE, empty=np.nan)
    return _same(table, rows, name, column)


def _same(
    table: CsvTable, rows: TaskRows, name: str, column: NDArray[np.float64]
) -> NDArray[np.float64]:
    of_tasks = column[rows.row]
    of_jobs = of_tasks[rows.first]
    expected = of_jobs[rows.job]
    differ = ~((of_tasks == expected) | (np.isnan(of_tasks) & np.isnan(expected)))
    if differ.any():
        at = int(np.flatnonzero(differ)[0])
        first = table.line_numbers[int(rows.row[rows.first[rows.job[at]]])]
        raise table.error(
            int(rows.row[at]), name, f"all rows of a job must agree, but line {first} differs."
        )
    return of_jobs


def _graph(table: CsvTable, rows: TaskRows) -> tuple[list[str], list[list[int]]]:
    in_file, parent_texts = table.texts("task"), table.texts("parents")
    ids = [in_file[row] for row in rows.row.tolist()]
    parents: list[list[int]] = []
    for first, last in zip(rows.first.tolist(), rows.last.tolist(), strict=True):
        place: dict[str, int] = {}
        for at in range(first, last + 1):
            if place.setdefault(ids[at], at) != at or len(ids[at].split()) != 1:
                expected = "task names must be unique within a job and have no blanks."
                raise table.error(int(rows.row[at]), "task", expected)
        for at in range(first, last + 1):
            names = parent_texts[int(rows.row[at])].split()
            strange = next((name for name in names if name not in place), None)
            if strange is not None:
                expected = (
                    f"its job has no task {quoted_text(strange)}; name tasks of the same "
                    "job, separated by blanks."
                )
                raise table.error(int(rows.row[at]), "parents", expected)
            parents.append([place[name] for name in names])
    return ids, parents


def _plain_ids(rows: TaskRows) -> list[str]:
    return [str(n) for n in (np.arange(len(rows.job)) - rows.first[rows.job] + 1).tolist()]


def write_task_table(workload: Workload, path: str | PathLike[str]) -> None:
    """Write a workload as a CSV table with one row per task, gzipped for ``.gz``.

    A job without tasks is one task with all its processors. Columns with only usual values are
    left out. Demands on machines, work units, and the machine and begin of the log are not
    written.
    """
    tasks = tasks_of_all(workload)
    begins = np.searchsorted(tasks.job, np.arange(tasks.n_jobs), side="left")
    ids = _ids(tasks, begins)
    first = tasks.first_parent.tolist()
    parent = tasks.parent_task.tolist()
    columns: dict[str, Sequence[object]] = {
        "job_id": workload.job_id[tasks.job].tolist(),
        "submit_s": [short(s) for s in workload.submit_s[tasks.job].tolist()],
        "task": ids,
        "parents": [
            " ".join(ids[p] for p in parent[first[row] : first[row + 1]])
            for row in range(tasks.n_tasks)
        ],
        "runtime_s": [short(s) for s in tasks.runtime_s.tolist()],
    }
    for name in TASK_COLUMNS:
        column = getattr(tasks, name)
        if (column != (name == "instances")).any():
            columns[name] = column.tolist()
    for name, column_names in (("role", tasks.roles), ("gpu_resource", tasks.gpu_resources)):
        column = getattr(tasks, name)
        if (column >= 0).any():
            columns[name] = [column_names[i] if i >= 0 else "" for i in column.tolist()]
    for name, of_jobs in _unusual_job_columns(workload, tasks):
        columns[name] = ["" if np.isnan(v) else short(v) for v in of_jobs[tasks.job].tolist()]
    write_rows(Path(path), tuple(columns), zip(*columns.values(), strict=True))


def _unusual_job_columns(
    workload: Workload, tasks: Tasks
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    if (workload.runtime_s != longest_paths(tasks)).any():
        yield "job_runtime_s", workload.runtime_s
    if (workload.procs != widest_cores(tasks)).any():
        yield "job_procs", workload.procs.astype(np.float64)
    for name in JOB_COLUMNS[2:]:
        column = getattr(workload, name).astype(np.float64)
        if name in _WHOLE:
            column = np.where(column < 0, np.nan, column)
        is_usual = np.isnan(column).all()
        if name == "requested_s":
            is_usual = workload.requested_is_runtime and (column == workload.runtime_s).all()
        if not is_usual:
            yield name, column


def _ids(tasks: Tasks, begins: NDArray[np.intp]) -> list[str]:
    task_ids = tasks.texts.get(TASK_ID, ())
    job_task_pairs = {(job, name) for job, name in zip(tasks.job.tolist(), task_ids, strict=False)}
    if (
        task_ids
        and len(job_task_pairs) == len(task_ids)
        and all(len(n.split()) == 1 and n == n.strip() for n in task_ids)
    ):
        return list(task_ids)
    return [str(n) for n in (np.arange(tasks.n_tasks) - begins[tasks.job] + 1).tolist()]
