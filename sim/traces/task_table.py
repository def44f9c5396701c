"""Tables of tasks that keep task graphs: a row per task, with the tasks that must end before it.

The format is ours. Needed are ``job_id``, ``submit_s``, ``task`` (a name without blanks, of which a
job has every one once), ``parents`` (such names of the same job, with a blank between them) and
``runtime_s``. What else a task asks for, and what else is known of its job, may be missing, as a
column or in a row: see `TASK_COLUMNS` and `JOB_COLUMNS`.
"""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError, WorkloadError, shown_text
from sim.model.columns import MOST_COUNT
from sim.model.task_graphs import longest_paths, widest_cores
from sim.model.tasks import Tasks
from sim.model.workload import Workload
from sim.traces.cloudsimpy import TASK_ID
from sim.traces.csv_table import CsvTable, numbered, read_csv, stem_of
from sim.traces.task_rows import (
    MOST_CORES,
    MOST_INSTANCES,
    Rows,
    short,
    tasks_of_all,
    write_rows,
)

NEEDED: tuple[str, ...] = ("job_id", "submit_s", "task", "parents", "runtime_s")

TASK_COLUMNS: Mapping[str, float] = {
    "instances": MOST_INSTANCES, "mcpu": 1000 * MOST_CORES, "mem_bytes": MOST_COUNT,
    "disk_bytes": MOST_COUNT, "mgpu": 1000 * MOST_CORES, "gang": 1,
}  # fmt: skip
"""Whole numbers that a task may ask for, as in `sim.model.tasks.Tasks`, and the most of each."""

NAME_COLUMNS: tuple[str, ...] = ("role", "gpu_resource")

JOB_COLUMNS: tuple[str, ...] = (
    "job_runtime_s", "job_procs", "requested_s", "logged_wait_s", "user", "group", "queue",
    "partition", "status", "mem_bytes_per_proc",
)  # fmt: skip
"""What may be known of a job, as in `sim.model.workload.Workload`; all its rows say the same. Its
run time is that of its longest path and its processors those of its widest level, if not told."""

_WHOLE = frozenset(JOB_COLUMNS) - {"job_runtime_s", "requested_s", "logged_wait_s"}
_KNOWN = (*NEEDED, *TASK_COLUMNS, *NAME_COLUMNS, *JOB_COLUMNS)


def read_task_table(path: str | PathLike[str]) -> Workload:
    """Read a table of tasks, plain or gzip.

    Returns:
        Jobs by submission, then by job id, each with its tasks in the order of the file.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, {name: name for name in _KNOWN})
    job = table.numbers("job_id", whole=True)
    submit_s, runtime_s = table.numbers("submit_s"), table.numbers("runtime_s")
    rows = Rows.of(job)
    counts = {name: _counts(table, name, most)[rows.row] for name, most in TASK_COLUMNS.items()}
    names = {name: numbered(table.texts(name) if table.has(name) else [""] * table.n_rows)
             for name in NAME_COLUMNS}  # fmt: skip
    ids, parents = _graph(table, rows)
    told = {name: _of_jobs(table, rows, name) for name in JOB_COLUMNS if table.has(name)}
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
        runtime, procs = told.pop("job_runtime_s", lasts_s), told.pop("job_procs", wide)
        asked = told.pop("requested_s", None)
        for name, column in told.items():
            told[name] = column if name == "logged_wait_s" else np.nan_to_num(column, nan=-1.0)
        return Workload.from_arrays(
            submit_s=first_s,
            runtime_s=np.where(np.isnan(runtime), lasts_s, runtime),
            procs=np.where(np.isnan(procs), wide, procs),
            requested_s=None if asked is None else np.where(np.isnan(asked), runtime, asked),
            job_id=job[rows.row][rows.first],
            name=stem_of(file).removesuffix(".tasks"),
            unsorted="sort",
            tasks=tasks,
            **told,  # type: ignore[arg-type]  # columns of numbers alone
        )
    except TraceError:
        raise
    except WorkloadError as error:  # such as parents in a circle
        raise TraceError(file, expected=str(error)) from None


def _counts(table: CsvTable, name: str, most: float) -> NDArray[np.float64]:
    least = 1.0 if name == "instances" else 0.0
    if not table.has(name):
        return np.full(table.n_rows, least)
    column = table.numbers(name, least=least, whole=True, empty=least)
    if (column > most).any():
        row = int(np.flatnonzero(column > most)[0])
        raise table.error(row, name, f"allowed is at most {most:,.15g}.")
    return column


def _of_jobs(table: CsvTable, rows: Rows, name: str) -> NDArray[np.float64]:
    """Return what is told of each job, NaN for nothing."""
    least = 1.0 if name == "job_procs" else 0.0
    column = table.numbers(name, least=least, whole=name in _WHOLE, empty=np.nan)
    return _same(table, rows, name, column)


def _same(
    table: CsvTable, rows: Rows, name: str, column: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the value of each job; all its rows must have it."""
    of_tasks = column[rows.row]
    of_jobs = of_tasks[rows.first]
    expected = of_jobs[rows.job]
    differ = ~((of_tasks == expected) | (np.isnan(of_tasks) & np.isnan(expected)))
    if differ.any():
        at = int(np.flatnonzero(differ)[0])
        first = table.line_numbers[int(rows.row[rows.first[rows.job[at]]])]
        raise table.error(
            int(rows.row[at]), name, f"all rows of a job say the same, and line {first} does not."
        )
    return of_jobs


def _graph(table: CsvTable, rows: Rows) -> tuple[list[str], list[list[int]]]:
    """Return ids and parents of the tasks, in their order."""
    in_file, wanted = table.texts("task"), table.texts("parents")
    ids = [in_file[row] for row in rows.row.tolist()]
    parents: list[list[int]] = []
    for first, last in zip(rows.first.tolist(), rows.last.tolist(), strict=True):
        place: dict[str, int] = {}
        for at in range(first, last + 1):
            if place.setdefault(ids[at], at) != at or len(ids[at].split()) != 1:
                expected = "tasks have names without blanks, of which a job has every one once."
                raise table.error(int(rows.row[at]), "task", expected)
        for at in range(first, last + 1):
            names = wanted[int(rows.row[at])].split()
            strange = next((name for name in names if name not in place), None)
            if strange is not None:
                expected = (
                    f"its job has no task {shown_text(strange)}; parents are tasks of the same "
                    "job, with blanks between them."
                )
                raise table.error(int(rows.row[at]), "parents", expected)
            parents.append([place[name] for name in names])
    return ids, parents


def _plain_ids(rows: Rows) -> list[str]:
    """Return the ids of tasks that have no names: 1, 2, ... in each job."""
    return [str(n) for n in (np.arange(len(rows.job)) - rows.first[rows.job] + 1).tolist()]


def write_task_table(workload: Workload, path: str | PathLike[str]) -> None:
    """Write a workload as a table of tasks, compressed if the name ends in ``.gz``.

    A job without tasks is one task with all its processors. Columns that would say of nobody more
    than is usual are left out. Not in such a table: what machines must be like, units of work, the
    machine of the log and when it began.
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
    for name, known in (("role", tasks.roles), ("gpu_resource", tasks.gpu_resources)):
        column = getattr(tasks, name)
        if (column >= 0).any():
            columns[name] = [known[i] if i >= 0 else "" for i in column.tolist()]
    for name, of_jobs in _told_of_jobs(workload, tasks):
        columns[name] = ["" if np.isnan(v) else short(v) for v in of_jobs[tasks.job].tolist()]
    write_rows(Path(path), tuple(columns), zip(*columns.values(), strict=True))


def _told_of_jobs(workload: Workload, tasks: Tasks) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Yield what is known of jobs beyond what is usual, NaN where it is not known."""
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
    """Return names of tasks: their own if a table can hold them, else 1, 2, ... in each job."""
    own = tasks.texts.get(TASK_ID, ())
    known = {(job, name) for job, name in zip(tasks.job.tolist(), own, strict=False)}
    if own and len(known) == len(own) and all(len(n.split()) == 1 and n == n.strip() for n in own):
        return list(own)
    return [str(n) for n in (np.arange(tasks.n_tasks) - begins[tasks.job] + 1).tolist()]
