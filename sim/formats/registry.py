"""Registry of workload formats: reading detects the format, writing uses the file name.

A new format is a new line in `FORMATS`. SWF comes last and takes all unknown files, so that its
reader reports the error.
"""

import gzip
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.typing import NDArray

from sim.formats.gpu_clusters import OPENB_COLUMNS, PHILLY_COLUMNS, read_openb, read_philly
from sim.formats.joulie_reader import read_joulie
from sim.formats.joulie_writer import write_joulie
from sim.formats.pbs import is_pbs, read_pbs
from sim.formats.sacct_layout import is_sacct
from sim.formats.slurm_jobs import read_sacct
from sim.formats.swf import ReadingRules, read_swf, rule_choices, scheduler_in, write_swf
from sim.formats.task_table import (
    CLOUDSIMPY_COLUMNS,
    NEEDED,
    read_cloudsimpy,
    read_task_table,
    write_cloudsimpy,
    write_task_table,
)
from sim.formats.vm_trace import is_cloud_text, read_batches
from sim.model.errors import WorkloadError, path_text
from sim.model.files import atomic_file
from sim.model.tasks import Tasks
from sim.model.workload import Workload

BEGIN_BYTES = 65_536  # unpacked bytes from which the format is recognised

MODEL_MARK = "copperline-workload-model"
"""Text in every file of a model; see `sim.generators.generator`."""

_GZIP = b"\x1f\x8b"
_COLUMNS = (
    "submit_s", "runtime_s", "requested_s", "logged_wait_s", "job_id", "procs", "user", "group",
    "queue", "partition", "status", "mem_bytes_per_proc",
)  # fmt: skip


@dataclass(frozen=True)
class Format:
    """A file format of workloads, with its reader and writer.

    Attributes:
        is_it: function that returns whether a text that begins so has this format.
        read: reader of a file, plain or gzip.
        write: writer of a workload; None if the format is only read.
        endings: endings of the names of written files.
        rules: names of the reading rules that apply to it.
        holds: what a written file holds: jobs alone, also their tasks, or also the dependencies of
            the tasks.
        read_pending: reader that keeps the jobs that were never started; None if files of the
            format have none, or `read` keeps them.
        scheduler_in: function that returns the scheduler that ran the jobs of a file that begins
            so, in lower case, or None if the text does not say it.
    """

    name: str
    title: str
    is_it: Callable[[str], bool]
    read: Callable[[Path, ReadingRules | None], Workload]
    write: Callable[[Workload, Path], None] | None = None
    endings: tuple[str, ...] = ()
    rules: frozenset[str] = frozenset()
    holds: Literal["jobs", "tasks", "dependencies"] = "jobs"
    read_pending: Callable[[Path], Workload] | None = None
    scheduler_in: Callable[[str], str | None] = lambda _: None

    @property
    def has_rules(self) -> bool:
        """Whether any reading rules apply to it."""
        return bool(self.rules)

    def check_rules(self, path: Path, rules: ReadingRules | None) -> None:
        """Raise WorkloadError if a rule that does not apply has another choice than its default."""
        for rule in fields(ReadingRules):
            is_set = rules is not None and getattr(rules, rule.name) != rule.default
            if is_set and rule.name not in self.rules:
                allowed = ", ".join(sorted(self.rules))
                which = f"its reading rules are {allowed}" if allowed else "it has no reading rules"
                raise WorkloadError(
                    f"{path_text(str(path))} is {self.title}; {which}; leave out {rule.name}."
                )


def _with_header(columns: Iterable[str]) -> Callable[[str], bool]:
    needed = set(columns)

    def is_it(begin: str) -> bool:
        header = begin.lstrip().partition("\n")[0]
        return needed <= {name.strip().strip('"') for name in header.split(",")}

    return is_it


SLURM_RULES = frozenset({"time_zone", "wait_from", "slurm_cpus", "requeues"})
"""Reading rules for dumps of sacct, and of other accounting, alone."""

SWF = Format(
    "swf", "a log in the Standard Workload Format", lambda _: True, read_swf, write_swf,
    (".swf", ".swf.gz"), rules=frozenset(rule_choices()) - SLURM_RULES, scheduler_in=scheduler_in,
)  # fmt: skip
JSONL = Format(
    "jsonl", "a trace of Joulie in JSONL", lambda begin: begin.lstrip().startswith("{"),
    lambda path, _: read_joulie(path), write_joulie, (".jsonl", ".jsonl.gz"), holds="tasks",
)  # fmt: skip
OPENB = Format(
    "openb", "a table of openb's pods", _with_header(OPENB_COLUMNS.values()),
    lambda path, _: read_openb(path), read_pending=partial(read_openb, pending="keep"),
)  # fmt: skip
PHILLY = Format(
    "philly", "a table of Philly's jobs",
    _with_header(set(PHILLY_COLUMNS.values()) - {PHILLY_COLUMNS["queue"]}),
    lambda path, _: read_philly(path),
)  # fmt: skip
CLOUDSIMPY = Format(
    "cloudsimpy", "a job file of CloudSimPy",
    _with_header(set(CLOUDSIMPY_COLUMNS.values()) - {CLOUDSIMPY_COLUMNS["disk"]}),
    lambda path, _: read_cloudsimpy(path), write_cloudsimpy,
    (".cloudsimpy.csv", ".cloudsimpy.csv.gz"), holds="tasks",
)  # fmt: skip
TASKS = Format(
    "tasks", "a table of tasks that wait for each other", _with_header(NEEDED),
    lambda path, _: read_task_table(path), write_task_table, (".tasks.csv", ".tasks.csv.gz"),
    holds="dependencies",
)  # fmt: skip
BERGSMA = Format(
    "bergsma", "a trace of batches of Bergsma et al.", is_cloud_text,
    lambda path, _: read_batches(path),
)  # fmt: skip

SACCT = Format(
    "sacct", "a dump of Slurm's sacct", is_sacct, read_sacct,
    rules=SLURM_RULES | {"never_ran", "procs_missing", "requested_missing"},
    scheduler_in=lambda _: "slurm",
)  # fmt: skip

PBS = Format(
    "pbs", "an accounting file of PBS", is_pbs, read_pbs,
    rules=SACCT.rules - {"time_zone"},
)  # fmt: skip

FORMATS: tuple[Format, ...] = (
    JSONL, BERGSMA, SACCT, PBS, OPENB, PHILLY, CLOUDSIMPY, TASKS, SWF,
)  # fmt: skip


def format_of(path: Path) -> Format:
    """Detect the workload format of a file from its content.

    A file that cannot be read or has no known format counts as SWF, whose reader reports the
    error.

    Raises:
        WorkloadError: the file is a model of workloads.
    """
    begin = _begin_of(path)
    if is_model_text(begin):
        where = path_text(str(path))
        raise WorkloadError(
            f"{where} is a model of workloads, not a workload; draw one from it first with "
            f"copperline workload generate {where} --duration 7d --to FILE."
        )
    return next(candidate for candidate in FORMATS if candidate.is_it(begin))


def scheduler_of(path: Path) -> str | None:
    """Return the scheduler that ran the jobs of a file, such as ``slurm``; None if it is unknown.

    Only the beginning of the file is read.
    """
    begin = _begin_of(path)
    return next(entry for entry in FORMATS if entry.is_it(begin)).scheduler_in(begin)


def is_cloud_trace(path: Path) -> bool:
    """Return whether a file is a Bergsma trace of batches of flavours."""
    return is_cloud_text(_begin_of(path))


def is_model(path: Path) -> bool:
    """Return whether a file contains a fitted workload model instead of a workload."""
    return is_model_text(_begin_of(path))


def is_model_text(begin: str) -> bool:
    """Return whether the beginning of a file's text is that of a fitted workload model."""
    return begin.lstrip().startswith("{") and f'"{MODEL_MARK}"' in begin[:1000]


def read_workload(
    path: Path, rules: ReadingRules | None = None, *, pending: bool = False
) -> Workload:
    """Read a workload from a file in any known format.

    Args:
        path: file, plain or gzip.
        rules: reading rules of the format.
        pending: whether to keep jobs that were never started.

    Raises:
        WorkloadError: the file is a model, or its format has no such reading rule.
        TraceError: file, line, field, value and what is allowed.
    """
    source_format = format_of(path)
    source_format.check_rules(path, rules)
    if pending and source_format.read_pending is not None:
        return source_format.read_pending(path)
    return source_format.read(path, rules)


def format_by_name(path: Path) -> Format:
    """Return the format in which a workload is written to this path, by the file name.

    Raises:
        WorkloadError: no written format has such names.
    """
    name = path.name.lower()
    for candidate in FORMATS:
        if candidate.write is not None and name.endswith(candidate.endings):
            return candidate
    endings = ", ".join(
        ending for candidate in FORMATS if candidate.write for ending in candidate.endings
    )
    raise WorkloadError(
        f"{path_text(str(path))}: the ending of the name gives the format; allowed are {endings}."
    )


def write_workload(workload: Workload, path: Path) -> None:
    """Write a workload atomically, in the format that the file name selects.

    Raises:
        WorkloadError: a name of no format, a workload that the format cannot hold, or a file that
            cannot be written.
    """
    write = format_by_name(path).write
    assert write is not None  # noqa: S101 - `format_by_name` checks it
    with atomic_file(path, raises=WorkloadError, parents=True) as draft:
        write(workload, draft)


def roundtrip_losses(before: Workload, after: Workload) -> tuple[str, ...]:
    """Return sentences on what a workload lost by being written to a file and read back.

    All columns and the tasks are compared, job by job in order of submission.
    """
    if before.n_jobs != after.n_jobs:
        n_gone = before.n_jobs - after.n_jobs
        return (f"{n_gone:,} of {before.n_jobs:,} jobs are not read back; nothing is compared.",)
    losses = [_column_lost(name, before, after) for name in _COLUMNS]
    if before.tasks is not None and after.tasks is None:
        losses.append(
            f"tasks: the {before.tasks.n_tasks:,} tasks of the jobs are left out, with their "
            "requests and their work."
        )
    elif before.tasks is not None and not _say_the_same(before.tasks, after.tasks):
        losses.append("tasks: some values of the tasks are read back differently.")
    for column in fields(Workload):
        if column.name not in ("max_procs", "start_unix_s", "time_zone", "scheduler"):
            continue
        was, now = getattr(before, column.name), getattr(after, column.name)
        if was != now:
            losses.append(
                f"{column.name}: {was} is read back as {'unknown' if now is None else now}."
            )
    return tuple(sentence for sentence in losses if sentence)


def _say_the_same(before: Tasks, after: Tasks | None) -> bool:
    return after is not None and (
        before == after or _with_sorted_names(before) == _with_sorted_names(after)
    )


def _with_sorted_names(tasks: Tasks) -> Tasks:
    role, roles = _renumber(tasks.role, tasks.roles)
    gpu_resource, gpu_resources = _renumber(tasks.gpu_resource, tasks.gpu_resources)
    return replace(
        tasks, role=role, roles=roles, gpu_resource=gpu_resource, gpu_resources=gpu_resources
    )


def _renumber(
    column: NDArray[np.int64], names: tuple[str, ...]
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    used = sorted({names[i] for i in set(column.tolist()) if i >= 0})
    place = {name: i for i, name in enumerate(used)}
    new = [place.get(name, -1) for name in names] + [-1]  # the last is for -1
    return np.array(new, dtype=np.int64)[column], tuple(used)


def _column_lost(name: str, before: Workload, after: Workload) -> str:
    was, now = getattr(before, name), getattr(after, name)
    differs = ~((was == now) | (np.isnan(was) & np.isnan(now)))
    n_differ = int(differs.sum())
    if not n_differ:
        return ""
    unknown = np.isnan(now) if name == "logged_wait_s" else now < 0
    n_unknown = int((differs & unknown).sum())
    how = "unknown" if n_unknown == n_differ else "differently"
    row = int(np.flatnonzero(differs)[0])
    example = "" if how == "unknown" else f" (first: {was[row]:.15g} as {now[row]:.15g})"
    return f"{name}: read back {how} for {n_differ:,} of {before.n_jobs:,} jobs{example}."


def _begin_of(path: Path) -> str:
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            data = _some(file)
        if data.startswith(_GZIP):
            with gzip.open(path, "rb") as packed:
                data = _some(packed)
    except (OSError, ValueError, EOFError, zlib.error):
        return ""
    return data.decode("utf-8-sig", "replace")


def _some(file: IO[bytes] | gzip.GzipFile) -> bytes:
    return bytes(file.read(BEGIN_BYTES))
