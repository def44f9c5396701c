"""Tasks of the jobs of a workload, with their resource requests, dependencies and work.

A job is the user's unit, a task is a set of instances that are scheduled alike, and an instance is
one replica. Rigid parallel jobs have no tasks; Kubernetes pods (Joulie) and CloudSimPy job files
do. One row is one task.

The ranks are those of H. Topcuoglu, S. Hariri and M.-Y. Wu, Performance-effective and
low-complexity task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, without
communication (`sim.placement.heft` has it). With w the time of a task (of one of its instances):

    upward     rank_u(i) = w(i) + max over children j of rank_u(j)       (their equation 5)
    downward   rank_d(i) = max over parents j of rank_d(j) + w(j)        (their equation 7)
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.model.columns import MOST_SECONDS, checked_counts, checked_times, read_only_copy
from sim.model.errors import WorkloadError

FloatColumn = NDArray[np.float64]
IntColumn = NDArray[np.int64]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


DEMANDS: tuple[str, ...] = ("mcpu", "mem_bytes", "disk_bytes", "mgpu")
"""Resources of an instance: thousandths of a core, bytes, bytes, thousandths of a GPU."""

SIGNALS: tuple[str, ...] = (
    "cpu_utilisation", "gpu_utilisation", "memory_intensity", "io_intensity", "cpu_feed_intensity",
)  # fmt: skip
"""Signals of the profile of a Joulie workload, each from 0 to 1."""

PHASE_SLACK = 1e-6

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True)
class Term:
    """Condition on a machine label, as in Kubernetes node affinity.

    Attributes:
        key: key of the label.
        operator: ``In`` and ``NotIn`` compare with `values`, and a missing label is not in any;
            ``Exists`` and ``DoesNotExist`` ignore `values`.
        values: allowed or forbidden values.
    """

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        if self.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            raise WorkloadError(
                f"label '{self.key}': operator is {self.operator!r}; allowed are In, NotIn, "
                "Exists and DoesNotExist."
            )
        if not self.key or (self.operator in ("In", "NotIn")) != bool(self.values):
            raise WorkloadError(
                f"label '{self.key}', operator {self.operator}: a term has a key, and values "
                "with In and NotIn only."
            )

    def allows(self, labels: dict[str, str]) -> bool:
        """Return whether a machine with these labels satisfies the condition."""
        if self.operator == "Exists":
            return self.key in labels
        if self.operator == "DoesNotExist":
            return self.key not in labels
        return (labels.get(self.key) in self.values) == (self.operator == "In")


@dataclass(frozen=True, eq=False, kw_only=True)
class TaskWork:
    """CPU and GPU work of each task, and how strongly throttling slows it down.

    All columns have one row per task and are read-only.

    Attributes:
        cpu_units, gpu_units: float64, work of an instance; at full speed on its request it does one
            unit per core (or GPU), second and unit of utilisation. 0 is none.
        cpu_sensitivity, gpu_sensitivity: float64 from 0 to 1, share of a throttling that it feels.
        cpu_class: int64, index into `classes`; -1 is none. `gpu_class` likewise.
        profile: float64 [n_tasks, 5], see `SIGNALS`.
        classes: names, such as ``gpu.compute_bound``.
        phases: float64 [n_tasks, n_phases, 6], the phases of the profile in order of time: share of
            the task's work, then the signals of the phase. The shares of a task sum to 1 (0 is a
            phase that it does not have), and the signals average to its profile. None if only the
            profile is known.
    """

    cpu_units: FloatColumn
    gpu_units: FloatColumn
    cpu_sensitivity: FloatColumn
    gpu_sensitivity: FloatColumn
    cpu_class: IntColumn
    gpu_class: IntColumn
    profile: FloatColumn
    classes: tuple[str, ...] = ()
    phases: FloatColumn | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Tasks:
    """Tasks of a workload, ordered by job, as columns of [n_tasks].

    Build one with `from_arrays`, which checks every row.

    Attributes:
        job: int64, row of the workload, from 0 and non-decreasing; every job has a task.
        instances: int64, at least 1.
        runtime_s: float64, seconds that an instance computes on a machine of full speed.
        mcpu: int64, thousandths of a core per instance; `mem_bytes`, `disk_bytes` and `mgpu`
            (thousandths of a GPU) likewise, from 0.
        gang: int64, 1 if the task computes only after all instances of all gang tasks of its job
            are on machines.
        role: int64, index into `roles`; -1 is none.
        demand: int64, index into `affinities`; -1 is none.
        gpu_resource: int64, index into `gpu_resources`: the kind of its GPUs; -1 takes any.
        parent_task: int64 [...], tasks (rows) that must end before; those of task i are
            ``parent_task[first_parent[i]:first_parent[i + 1]]``, all of the same job.
        first_parent: int64 [n_tasks + 1].
        roles: names, such as ``worker``.
        affinities: conditions on machines, as terms that must all hold.
        gpu_resources: names, such as ``nvidia.com/gpu``.
        work: units, sensitivities and profiles; None if only run times are known.
        texts: other text columns of a file, which the simulation ignores, by name.
    """

    job: IntColumn
    instances: IntColumn
    runtime_s: FloatColumn
    mcpu: IntColumn
    mem_bytes: IntColumn
    disk_bytes: IntColumn
    mgpu: IntColumn
    gang: IntColumn
    role: IntColumn
    demand: IntColumn
    gpu_resource: IntColumn
    parent_task: IntColumn
    first_parent: IntColumn
    roles: tuple[str, ...] = ()
    affinities: tuple[tuple[Term, ...], ...] = ()
    gpu_resources: tuple[str, ...] = ()
    work: TaskWork | None = None
    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_arrays(
        cls,
        *,
        job: ArrayLike,
        runtime_s: ArrayLike,
        instances: ArrayLike | None = None,
        mcpu: ArrayLike | None = None,
        mem_bytes: ArrayLike | None = None,
        disk_bytes: ArrayLike | None = None,
        mgpu: ArrayLike | None = None,
        gang: ArrayLike | None = None,
        role: ArrayLike | None = None,
        demand: ArrayLike | None = None,
        gpu_resource: ArrayLike | None = None,
        parents: Sequence[Sequence[int]] | None = None,
        edges: tuple[ArrayLike, ArrayLike] | None = None,
        roles: Sequence[str] = (),
        affinities: Sequence[Sequence[Term]] = (),
        gpu_resources: Sequence[str] = (),
        work: TaskWork | None = None,
        texts: dict[str, Sequence[str]] | None = None,
    ) -> Self:
        """Validate columns and return them as tasks, with defaults for missing columns.

        Parents are a list per task, or `edges`: (`first_parent`, `parent_task`).

        Raises:
            WorkloadError: a column of another length or with impossible values, jobs out of order
                or without a task, a parent of another job, or a cycle of parents.
        """
        run = checked_times("task runtime_s", runtime_s, n_jobs=None)
        n = len(run)

        def counts(name: str, column: ArrayLike | None, usual: int, least: int) -> IntColumn:
            if column is None:
                return read_only_copy(np.full(n, usual, dtype=np.int64))
            return read_only_copy(checked_counts(f"task {name}", column, n, least=least))

        jobs = counts("job", job, 0, 0)
        if n == 0 or jobs[0] != 0 or not np.isin(np.diff(jobs), (0, 1)).all():
            raise WorkloadError(
                "task job: the tasks of job 0 must come first, then those of job 1, and so on; "
                "every job needs one or more."
            )
        first_parent, parent_task = _parents(parents, edges, jobs)
        result = cls(
            job=jobs,
            instances=counts("instances", instances, 1, 1),
            runtime_s=read_only_copy(run),
            mcpu=counts("mcpu", mcpu, 0, 0),
            mem_bytes=counts("mem_bytes", mem_bytes, 0, 0),
            disk_bytes=counts("disk_bytes", disk_bytes, 0, 0),
            mgpu=counts("mgpu", mgpu, 0, 0),
            gang=counts("gang", gang, 0, 0),
            role=counts("role", role, -1, -1),
            demand=counts("demand", demand, -1, -1),
            gpu_resource=counts("gpu_resource", gpu_resource, -1, -1),
            first_parent=first_parent,
            parent_task=parent_task,
            roles=tuple(roles),
            affinities=tuple(tuple(terms) for terms in affinities),
            gpu_resources=tuple(gpu_resources),
            work=work,
            texts={name: tuple(column) for name, column in (texts or {}).items()},
        )
        result._check_indices()
        return result

    @property
    def n_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.job)

    @property
    def n_jobs(self) -> int:
        """Return the number of jobs."""
        return int(self.job[-1]) + 1

    @property
    def n_instances(self) -> int:
        """Return the number of instances of all tasks."""
        return int(self.instances.sum())

    @property
    def demands(self) -> NDArray[np.int64]:
        """Return the resources of an instance of each task: int64 [n_tasks, len(DEMANDS)]."""
        return np.column_stack([getattr(self, name) for name in DEMANDS])

    @cached_property
    def digest(self) -> str:
        """Return the machine-independent SHA-256 of the task columns in hexadecimal."""
        sha = hashlib.sha256()
        for holder in (self, self.work):
            for column in () if holder is None else fields(holder):
                value = getattr(holder, column.name)
                if isinstance(value, np.ndarray):
                    plain = value + 0.0 if value.dtype.kind == "f" else value  # no minus zero
                    little = np.ascontiguousarray(plain).astype(plain.dtype.newbyteorder("<"))
                    sha.update(f"{column.name} {little.shape}".encode() + little.tobytes())
        labels = (self.roles, self.affinities, self.gpu_resources, sorted(self.texts.items()))
        sha.update(repr(labels).encode())
        sha.update(repr(self.work and self.work.classes).encode())
        return sha.hexdigest()

    def of_jobs(self, first: int, stop: int) -> Self:
        """Return the tasks of the jobs from row `first` up to `stop`, with jobs numbered from 0."""
        low, high = np.searchsorted(self.job, (first, stop), side="left").tolist()
        return self._at(np.arange(low, high), self.job[low:high] - first)

    def ordered(self, jobs: NDArray[np.intp]) -> Self:
        """Return the tasks in a new job order, where new job i is the old job `jobs[i]`.

        A job may occur several times, or not at all.
        """
        begins = np.searchsorted(self.job, jobs, side="left")
        counts = np.searchsorted(self.job, jobs, side="right") - begins
        behind = np.cumsum(counts)
        rows = np.arange(behind[-1]) + np.repeat(begins - (behind - counts), counts)
        return self._at(rows, np.repeat(np.arange(len(jobs)), counts))

    def _at(self, rows: NDArray[np.intp], job: NDArray[np.int64]) -> Self:
        n_parents = np.diff(self.first_parent)[rows]
        behind = np.cumsum(n_parents)
        of_parents = np.arange(n_parents.sum()) + np.repeat(
            self.first_parent[rows] - (behind - n_parents), n_parents
        )
        moved = np.repeat(np.arange(len(rows)) - rows, n_parents)  # a job's tasks stay together
        cut: dict[str, Any] = {
            task_field.name: read_only_copy(getattr(self, task_field.name)[rows])
            for task_field in fields(self)
            if task_field.name not in ("parent_task", "first_parent")
            and isinstance(getattr(self, task_field.name), np.ndarray)
        }
        cut |= {
            "job": read_only_copy(job.astype(np.int64)),
            "parent_task": read_only_copy((self.parent_task[of_parents] + moved).astype(np.int64)),
            "first_parent": read_only_copy(np.concatenate([[0], behind]).astype(np.int64)),
            "texts": {name: tuple(column[i] for i in rows) for name, column in self.texts.items()},
        }
        if self.work is not None:
            cut["work"] = replace(
                self.work,
                **{
                    task_field.name: read_only_copy(getattr(self.work, task_field.name)[rows])
                    for task_field in fields(self.work)
                    if isinstance(getattr(self.work, task_field.name), np.ndarray)
                },
            )
        return replace(self, **cut)

    def _check_indices(self) -> None:
        indices = (
            ("role", self.role, len(self.roles)),
            ("demand", self.demand, len(self.affinities)),
            ("gpu_resource", self.gpu_resource, len(self.gpu_resources)),
            ("gang", self.gang, 2),
        )
        for name, column, n in indices:
            if (column >= n).any():
                row = int(np.flatnonzero(column >= n)[0])
                raise WorkloadError(
                    f"task {name}, row {row}: {column[row]}; allowed are numbers below {n}."
                )
        for name, texts in self.texts.items():
            if len(texts) != self.n_tasks:
                raise WorkloadError(f"task {name} has {len(texts)} rows, not {self.n_tasks}.")
        if self.work is not None:
            _check_work(self.work, self.n_tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tasks) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


def _check_work(work: TaskWork, n_tasks: int) -> None:
    for column in fields(work):
        value = getattr(work, column.name)
        if not isinstance(value, np.ndarray) or column.name == "phases":
            continue
        shape = (n_tasks, len(SIGNALS)) if column.name == "profile" else (n_tasks,)
        if value.shape != shape:
            raise WorkloadError(f"task {column.name} has shape {value.shape}, not {shape}.")
        least, most, allowed = 0.0, 1.0, "numbers from 0 to 1"
        if column.name.endswith("_class"):
            least, most, allowed = -1.0, len(work.classes) - 1.0, "numbers of classes, or -1"
        elif column.name.endswith("_units"):
            most, allowed = MOST_SECONDS, "finite numbers from 0"
        if not ((value >= least) & (value <= most)).all():
            raise WorkloadError(f"task {column.name} has an invalid value; allowed are {allowed}.")
        value.setflags(write=False)
    if work.phases is not None:
        _check_phases(work.phases, work.profile)


def _check_phases(phases: FloatColumn, profile: FloatColumn) -> None:
    n_tasks, n_each = len(profile), 1 + len(SIGNALS)
    if phases.ndim != 3 or phases.shape != (n_tasks, max(phases.shape[1], 1), n_each):
        raise WorkloadError(
            f"task phases has shape {phases.shape}, not ({n_tasks}, 1 or more, {n_each})."
        )
    if not ((phases >= 0) & (phases <= 1)).all():
        raise WorkloadError("task phases has an invalid value; allowed are numbers from 0 to 1.")
    share = phases[:, :, 0]
    sums_to_one = np.abs(share.sum(axis=1) - 1.0) <= PHASE_SLACK
    mean = np.einsum("tp,tps->ts", share, phases[:, :, 1:])
    same = (np.abs(mean - profile) <= PHASE_SLACK).all(axis=1)
    if not (sums_to_one & same).all():
        row = int(np.flatnonzero(~(sums_to_one & same))[0])
        raise WorkloadError(
            f"task phases, row {row}: the shares must sum to 1 and the signals average to the "
            f"profile, {profile[row].tolist()}; they sum to {share[row].sum():.6g} and average to "
            f"{mean[row].round(6).tolist()}."
        )
    phases.setflags(write=False)


def _parents(
    parents: Sequence[Sequence[int]] | None,
    edges: tuple[ArrayLike, ArrayLike] | None,
    job: IntColumn,
) -> tuple[IntColumn, IntColumn]:
    n_tasks = len(job)
    if edges is not None:
        first = checked_counts("task first_parent", edges[0], n_tasks + 1, least=0)
        flat = np.asarray(edges[1], dtype=np.int64)
        if first[0] != 0 or (np.diff(first) < 0).any() or first[-1] != len(flat):
            raise WorkloadError(
                "task first_parent must begin with 0, never fall, and end with the number of edges."
            )
    elif parents is None:
        return read_only_copy(np.zeros(n_tasks + 1, dtype=np.int64)), read_only_copy(
            np.zeros(0, dtype=np.int64)
        )
    elif len(parents) != n_tasks:
        raise WorkloadError(f"task parents has {len(parents)} rows, not {n_tasks}.")
    else:
        first = np.concatenate(
            [[0], np.cumsum([len(task_parents) for task_parents in parents])]
        ).astype(np.int64)
        flat = np.array([p for task_parents in parents for p in task_parents], dtype=np.int64)
    child = np.repeat(np.arange(n_tasks), np.diff(first))
    if len(flat) and (flat.min() < 0 or flat.max() >= n_tasks or (job[flat] != job[child]).any()):
        raise WorkloadError("task parents: a parent must be a task (row) of the same job.")
    _check_acyclic(first, flat, child)
    return read_only_copy(first), read_only_copy(flat)


def _check_acyclic(first: IntColumn, flat: IntColumn, child: NDArray[np.intp]) -> None:
    """Raise WorkloadError if some tasks wait for each other (Kahn 1962, in rounds)."""
    waits = np.diff(first)
    ended = np.zeros(len(waits), dtype=np.bool_)
    ready = np.flatnonzero(waits == 0)
    while len(ready):
        ended[ready] = True
        waits = waits - np.bincount(child[np.isin(flat, ready)], minlength=len(waits))
        ready = np.flatnonzero((waits == 0) & ~ended)
    if not ended.all():
        row = int(np.flatnonzero(~ended)[0])
        raise WorkloadError(f"task parents: task {row} waits for itself through its parents.")


MOST_CORES = 2.0**53


def levels(tasks: Tasks) -> Ints:
    """Return the depth of each task in its task graph, 0 without parents: int64 [n_tasks]."""
    none = np.zeros(tasks.n_tasks)
    return _along(tasks.first_parent, tasks.parent_task, none, none + 1).astype(np.int64)


def longest_paths(tasks: Tasks) -> Floats:
    """Return the longest path through the tasks of each job, in seconds: float64 [n_jobs]."""
    ends = _along(tasks.first_parent, tasks.parent_task, tasks.runtime_s, np.zeros(tasks.n_tasks))
    return np.maximum.reduceat(ends, np.searchsorted(tasks.job, np.arange(tasks.n_jobs)))


def widest_cores(tasks: Tasks) -> Ints:
    """Return the cores that each job's widest task level needs, rounded up: int64 [n_jobs]."""
    level = levels(tasks)
    keys, where = np.unique(tasks.job * (int(level.max()) + 1) + level, return_inverse=True)
    taken = np.bincount(where, weights=tasks.mcpu.astype(np.float64) * tasks.instances)
    job = keys // (int(level.max()) + 1)
    widest = np.maximum.reduceat(taken, np.searchsorted(job, np.arange(tasks.n_jobs)))
    cores: Ints = np.clip(np.ceil(widest / 1000), 1, MOST_CORES).astype(np.int64)
    return cores


def upward_ranks(tasks: Tasks, takes_s: Floats) -> Floats:
    """Return the seconds from each task's start to its job's end, by the longest path."""
    children = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    by_parent = np.argsort(tasks.parent_task, kind="stable")
    n_children = np.bincount(tasks.parent_task, minlength=tasks.n_tasks)
    first = np.concatenate([[0], np.cumsum(n_children)])
    return _along(first, children[by_parent], takes_s, np.zeros(tasks.n_tasks))


def downward_ranks(tasks: Tasks, takes_s: Floats) -> Floats:
    """Return the seconds from a job's start to each task's start, by the longest path."""
    return _along(tasks.first_parent, tasks.parent_task, np.zeros(tasks.n_tasks), takes_s)


def _along(first: Ints, neighbours: Ints, base: Floats, beyond: Floats) -> Floats:
    """Return `base` plus the largest sum of a neighbour's result and its `beyond`: float64 [n]."""
    waiting = np.flatnonzero(np.diff(first))
    values = base.astype(np.float64)
    if len(waiting) == 0:
        return values
    begins = first[waiting]
    while True:  # as many rounds as the deepest job has levels
        theirs = values[neighbours] + beyond[neighbours]
        moved = base[waiting] + np.maximum.reduceat(theirs, begins)
        if np.array_equal(moved, values[waiting]):
            return values
        values[waiting] = moved
