"""The workload: rigid parallel jobs in columns, one row per job."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.model.columns import (
    checked_counts,
    checked_ids,
    checked_machine,
    checked_times,
    read_only_copy,
)
from sim.model.errors import WorkloadError
from sim.model.tasks import Tasks

FloatColumn = NDArray[np.float64]
IntColumn = NDArray[np.int64]


UNKNOWN = -1  # Value of an id or a status that is not in the log


@dataclass(frozen=True)
class ReadingNote:
    """Number of log rows that a reading rule changed, with a sentence for users.

    Attributes:
        rule, n_rows: name of the rule, as in `sim.formats.swf.ReadingRules`, and the rows it
            changed.
        sentence: the same as text for people.
    """

    rule: str
    n_rows: int
    sentence: str


NOTE_WEIGHTS: Mapping[str, float] = {
    "requested_time": 20.0, "requested_missing": 10.0, "requested_below_runtime": 5.0,
    "header": 0.0, "partition": 0.0, "qos": 0.0, "first": 0.0, "extra_columns": 0.0,
    "unsorted": 0.0, "dependencies": 0.0,
}  # fmt: skip
"""How much a row that a rule changed says about results, by rule; 1 for all others."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload:
    """Jobs sorted by submit time and job id, as read-only columns of [n_jobs].

    Build one with `from_arrays`, which checks every row. Two workloads are equal when their
    columns are, whatever they are called.

    Attributes:
        submit_s: float64, seconds since the first submission; the first is 0.
        runtime_s: float64, seconds that the job computes.
        requested_s: float64, the user's request (wall-clock limit) in seconds, as logged.
        logged_wait_s: float64, the wait in the log; NaN where unknown.
        job_id: int64, unique.
        procs: int64, processors, at least 1.
        user: int64, -1 where unknown; `group`, `queue`, `partition`, `status` likewise.
        mem_bytes_per_proc: int64, requested memory in bytes per processor; -1 where unknown. It
            counts for the digest only if it is known for some job.
        preceding_job: int64, id of the job after whose end the job was submitted; -1 is none.
        think_s: float64, seconds from that end to the submission; NaN where unknown. It and
            `preceding_job` count for the digest only if some job has a preceding one.
        name: name for people; it does not count for equality.
        max_procs: processors of the machine the log comes from; None where unknown.
        start_unix_s: Unix time of the first submission; None where unknown.
        time_zone: time zone of the log, such as ``Europe/Paris``, from its header; None if unknown.
            The name need not be known on this machine.
        scheduler: scheduler that ran the jobs, such as ``slurm``, in lower case; None if unknown.
        notes: notes of the reading rules.
        requested_is_runtime: some requests are the run times themselves (clairvoyant).
        account_names, user_names: names of the groups and users 0, 1, ...; empty where unknown.
            They do not count for equality.
        tasks: tasks of the jobs, for simulations on machines; None if jobs are rigid. They count
            for the digest only if there are any.
    """

    submit_s: FloatColumn
    runtime_s: FloatColumn
    requested_s: FloatColumn
    logged_wait_s: FloatColumn
    job_id: IntColumn
    procs: IntColumn
    user: IntColumn
    group: IntColumn
    queue: IntColumn
    partition: IntColumn
    status: IntColumn
    mem_bytes_per_proc: IntColumn
    preceding_job: IntColumn
    think_s: FloatColumn
    name: str = "workload"
    max_procs: int | None = None
    start_unix_s: float | None = None
    time_zone: str | None = None
    scheduler: str | None = None
    notes: tuple[ReadingNote, ...] = ()
    requested_is_runtime: bool = False
    tasks: Tasks | None = None
    account_names: tuple[str, ...] = ()
    user_names: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        *,
        submit_s: ArrayLike,
        runtime_s: ArrayLike,
        procs: ArrayLike,
        requested_s: ArrayLike | None = None,
        logged_wait_s: ArrayLike | None = None,
        job_id: ArrayLike | None = None,
        user: ArrayLike | None = None,
        group: ArrayLike | None = None,
        queue: ArrayLike | None = None,
        partition: ArrayLike | None = None,
        status: ArrayLike | None = None,
        mem_bytes_per_proc: ArrayLike | None = None,
        preceding_job: ArrayLike | None = None,
        think_s: ArrayLike | None = None,
        name: str = "workload",
        max_procs: int | None = None,
        start_unix_s: float | None = None,
        time_zone: str | None = None,
        scheduler: str | None = None,
        notes: Iterable[ReadingNote] = (),
        requested_is_runtime: bool = False,
        tasks: Tasks | None = None,
        account_names: tuple[str, ...] = (),
        user_names: tuple[str, ...] = (),
        unsorted: Literal["refuse", "sort"] = "refuse",
    ) -> Self:
        """Validate columns of jobs and build a workload from them.

        Args:
            submit_s: seconds on any clock, at least 0; the first submission is subtracted.
            runtime_s: seconds, at least 0.
            procs: whole numbers, at least 1.
            requested_s: seconds, at least 0; None uses the run times instead, which is clairvoyant
                and is stated in `notes` and `requested_is_runtime`.
            logged_wait_s: seconds or NaN; None means unknown everywhere.
            job_id: unique; None numbers the rows from 1. Equal submit times are ordered by it.
            user: at least -1; None means unknown.
            group: as `user`.
            queue: as `user`.
            partition: as `user`.
            status: as `user`.
            mem_bytes_per_proc: whole numbers, at least -1; None means unknown everywhere.
            preceding_job: job ids, at least -1; None means none.
            think_s: seconds, at least 0, or NaN; None means unknown everywhere.
            name: name for people.
            max_procs: machine size, a whole number from 1 to 2**53, or None.
            start_unix_s: Unix time of the first submission, or None.
            time_zone: time zone of the log, or None.
            scheduler: scheduler that ran the jobs, in lower case, or None.
            notes: notes of earlier changes to the rows.
            requested_is_runtime: the given requests are (in part) the run times.
            tasks: tasks of the jobs, in the given order of the jobs.
            account_names: names of the groups 0, 1, ...; empty where unknown.
            user_names: names of the users 0, 1, ...; empty where unknown.
            unsorted: what to do when submit times decrease.

        Raises:
            WorkloadError: a column of another length, a NaN, a negative time, a job without
                processors, more than 2**53 processors, a repeated job id, or decreasing submit
                times unless `unsorted` is ``sort``.
        """
        submit = checked_times("submit_s", submit_s, n_jobs=None)
        n_jobs = len(submit)
        if n_jobs == 0:
            raise WorkloadError("a workload needs at least 1 job; 0 were given.")
        ids = checked_ids(job_id, n_jobs)
        order = _order(submit, ids, unsorted)
        runtime = checked_times("runtime_s", runtime_s, n_jobs)
        all_notes = tuple(notes)
        if requested_s is None:
            requested_s, requested_is_runtime = runtime, True
            sentence = f"no requested times: the run times of all {n_jobs} jobs replace them"
            all_notes = (
                *all_notes,
                ReadingNote("requested_missing", n_jobs, sentence + " (clairvoyant)."),
            )
        if tasks is not None and tasks.n_jobs != n_jobs:
            raise WorkloadError(f"the tasks belong to {tasks.n_jobs} jobs, not to {n_jobs}.")
        if tasks is not None and (np.diff(order) != 1).any():
            tasks = tasks.ordered(order)
        machine = None if max_procs is None else checked_machine(max_procs)
        wait = np.full(n_jobs, np.nan) if logged_wait_s is None else logged_wait_s
        requested = checked_times("requested_s", requested_s, n_jobs)
        waited = checked_times("logged_wait_s", wait, n_jobs, unknown_allowed=True)
        think = np.full(n_jobs, np.nan) if think_s is None else think_s
        thought = checked_times("think_s", think, n_jobs, unknown_allowed=True)
        return cls(
            submit_s=read_only_copy(submit[order] - submit[order[0]]),
            runtime_s=read_only_copy(runtime[order]),
            requested_s=read_only_copy(requested[order]),
            logged_wait_s=read_only_copy(waited[order]),
            job_id=read_only_copy(ids[order]),
            procs=read_only_copy(checked_counts("procs", procs, n_jobs, least=1)[order]),
            user=_labels("user", user, order),
            group=_labels("group", group, order),
            queue=_labels("queue", queue, order),
            partition=_labels("partition", partition, order),
            status=_labels("status", status, order),
            mem_bytes_per_proc=_labels("mem_bytes_per_proc", mem_bytes_per_proc, order),
            preceding_job=_labels("preceding_job", preceding_job, order),
            think_s=read_only_copy(thought[order]),
            name=name,
            max_procs=machine,
            start_unix_s=start_unix_s,
            time_zone=time_zone,
            scheduler=scheduler,
            notes=all_notes,
            requested_is_runtime=requested_is_runtime,
            tasks=tasks,
            account_names=account_names,
            user_names=user_names,
        )

    @property
    def n_jobs(self) -> int:
        """Return the number of jobs."""
        return len(self.submit_s)

    @property
    def ranked_notes(self) -> tuple[ReadingNote, ...]:
        """Return the notes, those that matter most for results first."""
        return tuple(sorted(self.notes, key=lambda n: -NOTE_WEIGHTS.get(n.rule, 1.0) * n.n_rows))

    @property
    def widest_procs(self) -> int:
        """Return the number of processors of the widest job."""
        return int(self.procs.max())

    @property
    def recorded_procs_in_use(self) -> int | None:
        """Return the most processors that the log records in use at once; None without waits."""
        if np.isnan(self.logged_wait_s).any():
            return None
        start_s = self.submit_s + self.logged_wait_s
        return most_procs_in_use(start_s, start_s + self.runtime_s, self.procs)

    @property
    def span_s(self) -> float:
        """Return the seconds from the first to the last submission."""
        return float(self.submit_s[-1] - self.submit_s[0])

    @cached_property
    def digest(self) -> str:
        """Return the machine-independent SHA-256 of the job columns in hexadecimal."""
        sha, absent = hashlib.sha256(), set()
        if (self.mem_bytes_per_proc == UNKNOWN).all():
            absent.add("mem_bytes_per_proc")
        if (self.preceding_job == UNKNOWN).all():
            absent |= {"preceding_job", "think_s"}
        for key, column in self._columns().items():
            if key in absent:
                continue
            sha.update(key.encode())
            if column.dtype == np.float64:
                canonical = np.where(np.isnan(column), np.nan, column + 0.0)
                sha.update(canonical.astype("<f8").tobytes())
            else:
                sha.update(column.astype("<i8").tobytes())
        if self.tasks is not None:
            sha.update(f"tasks {self.tasks.digest}".encode())
        return sha.hexdigest()

    def head(self, n_jobs: int) -> Self:
        """Return the first `n_jobs` jobs in submit order, or all jobs if there are fewer."""
        if n_jobs < 1:
            raise WorkloadError(f"head of {n_jobs} jobs; ask for 1 or more.")
        return self._rows(0, n_jobs)

    def part(self, first: int, stop: int) -> Self:
        """Return the jobs from row `first` up to `stop` (exclusive), in submit order.

        Submit times count from the first of them, and `start_unix_s` moves with it.

        Raises:
            WorkloadError: there is no such job.
        """
        if not 0 <= first < min(stop, self.n_jobs):
            raise WorkloadError(
                f"jobs {first} to {stop} are not in {self.name}; it has {self.n_jobs}, and the "
                "first has the number 0."
            )
        rows, earlier_s = self._rows(first, stop), float(self.submit_s[first])
        start = None if self.start_unix_s is None else self.start_unix_s + earlier_s
        return replace(rows, submit_s=read_only_copy(rows.submit_s - earlier_s), start_unix_s=start)

    def _rows(self, first: int, stop: int) -> Self:
        cut: dict[str, Any] = {}
        for key, column in self._columns().items():
            cut[key] = column[first:stop]
            cut[key].setflags(write=False)
        if self.tasks is not None:
            cut["tasks"] = self.tasks.of_jobs(first, min(stop, self.n_jobs))
        return replace(self, **cut)

    def _columns(self) -> dict[str, FloatColumn | IntColumn]:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {key: value for key, value in values if isinstance(value, np.ndarray)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        for column in self._columns().values():
            column.setflags(write=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def most_procs_in_use(start_s: FloatColumn, end_s: FloatColumn, procs: IntColumn) -> int:
    """Return the most processors in use at once; at one instant ends come before starts.

    >>> start_s, end_s = np.array([0.0, 5.0, 10.0]), np.array([10.0, 9.0, 12.0])
    >>> most_procs_in_use(start_s, end_s, np.array([2, 3, 4]))
    5
    """
    moments = np.concatenate([end_s, start_s])
    change = np.concatenate([-procs, procs])
    order = np.argsort(moments, kind="stable")  # ends first
    return int(np.cumsum(change[order]).max(initial=0))


def _labels(name: str, values: ArrayLike | None, order: NDArray[np.intp]) -> IntColumn:
    if values is None:
        return read_only_copy(np.full(len(order), UNKNOWN, dtype=np.int64))
    return read_only_copy(checked_counts(name, values, len(order), least=UNKNOWN)[order])


def _order(
    submit_s: FloatColumn, job_id: IntColumn, unsorted: Literal["refuse", "sort"]
) -> NDArray[np.intp]:
    steps_back = np.flatnonzero(np.diff(submit_s) < 0)
    if len(steps_back) and unsorted == "refuse":
        row = int(steps_back[0]) + 1
        raise WorkloadError(
            f"submit_s, row {row}: {submit_s[row]:.15g} comes after {submit_s[row - 1]:.15g}; "
            "submit times must not step back. Sort the rows, or pass unsorted='sort'."
        )
    return np.lexsort((job_id, submit_s))
