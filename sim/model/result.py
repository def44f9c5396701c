"""The result of a simulation: when and where each job ran."""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from sim.model.workload import Workload


class JobState(IntEnum):
    """Final state of a job: completed, killed or rejected."""

    COMPLETED = 0
    KILLED = 1
    REJECTED = 2


@dataclass(frozen=True, eq=False)
class StepSeries:
    """Queue lengths and busy processors of one partition as step functions of time.

    Attributes:
        partition: name of the partition.
        time_s: float64 [n_steps], seconds, strictly increasing.
        n_queued: int64 [n_steps], waiting jobs in all queues on its processors, without jobs that
            the limit of a user holds back.
        used_procs: int64 [n_steps], processors in use; all of a machine that a job holds whole.
    """

    partition: str
    time_s: NDArray[np.float64]
    n_queued: NDArray[np.int64]
    used_procs: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Placement:
    """Machines on which each job ran, as read-only arrays.

    Attributes:
        first: int64 [n_jobs + 1], where the machines of each job begin; the last is the end.
        machine: int64 [...], indices into the `machine_names` of the cluster, those of a job in the
            order in which it took them. A rejected job has none.
    """

    first: NDArray[np.int64]
    machine: NDArray[np.int64]

    @property
    def n_machines(self) -> NDArray[np.int64]:
        """Return how many machines each job ran on: int64 [n_jobs]."""
        return np.diff(self.first)

    def of(self, row: int) -> NDArray[np.int64]:
        """Return the indices of the machines on which one job ran."""
        return self.machine[self.first[row] : self.first[row + 1]]


@dataclass(frozen=True, eq=False)
class Restarts:
    """Restart count of each job, and the seconds that its killed runs lost, [n_jobs] each."""

    n: NDArray[np.int64]
    lost_s: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Holds:
    """Times at which each job took its nodes, before they booted, and freed them, [n_jobs] each."""

    from_s: NDArray[np.float64]
    until_s: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Instances:
    """Machine and times of each task instance, as read-only columns of [n_instances].

    Columns have shape [n_instances], those of a task side by side, tasks in their order. Instances
    of a rejected job have machine -1 and NaN.

    Attributes:
        first: int64 [n_tasks + 1], where the instances of each task begin; the last is the end.
        machine: int64, index into the `machine_names` of the cluster.
        start_s, begin_s, end_s: float64, times of its placement, of the begin of its computation
            (later if its gang was not complete), and of its end.
        device: int64, the GPU of which it has a part, or the first of its whole GPUs, counted over
            all machines in their order; -1 is none.
    """

    first: NDArray[np.int64]
    machine: NDArray[np.int64]
    start_s: NDArray[np.float64]
    begin_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    device: NDArray[np.int64]

    def of(self, task: int) -> slice:
        """Return the slice of the columns that holds the instances of a task."""
        return slice(int(self.first[task]), int(self.first[task + 1]))


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Result of a simulation, as read-only columns of [n_jobs] in workload order.

    Two results are equal when these columns, placement, restarts, instances, holds and the digest
    are equal bit by bit. The engine and the monitor's series do not count, because engines must
    agree.

    Attributes:
        start_s: float64, NaN for a rejected job; the last start of a job that was queued again.
        end_s: float64, start plus run time; NaN for a rejected job.
        partition: int64, index of the partition; -1 for a rejected job.
        state: int8, a `JobState`.
        scenario_digest: digest of the simulated scenario.
        engine: name of the engine.
        series: one per partition if a monitor was requested, else None.
        note: explanation for people of how the result was computed, if useful; not compared either.
        placement: the machines of each job if whole nodes were allocated, else None.
        restarts: restarts of each job; None if no job can be restarted.
        instances: instances of the tasks if these were placed on machines, else None. A job then
            starts with its first instance and ends with its last one.
        holds: when each job held nodes, if idle nodes are switched off, else None. A start is
            `from_s` and the seconds that nodes booted.
        submit_s: float64, when each job was submitted, if some are submitted after the end of
            another one; else None, because all are submitted as logged. The logged time for a
            rejected job.
        procs: int64, processors on which each job ran, if jobs are moldable; else None, because
            all ran on those of their admission.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    partition: NDArray[np.int64]
    state: NDArray[np.int8]
    scenario_digest: str
    engine: str
    series: tuple[StepSeries, ...] | None = None
    note: str | None = None
    placement: Placement | None = None
    restarts: Restarts | None = None
    instances: Instances | None = None
    holds: Holds | None = None
    submit_s: NDArray[np.float64] | None = None
    procs: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for column in self.columns().values():
            column.setflags(write=False)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def columns(self) -> dict[str, NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int8]]:
        """Return, by name, the columns by which two results are compared."""
        columns: dict[str, NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int8]] = {
            "start_s": self.start_s,
            "end_s": self.end_s,
            "partition": self.partition,
            "state": self.state,
        }
        if self.placement is not None:
            columns["placement_first"] = self.placement.first
            columns["placement_machine"] = self.placement.machine
        if self.restarts is not None:
            columns["n_restarts"] = self.restarts.n
            columns["lost_s"] = self.restarts.lost_s
        if self.holds is not None:
            columns["hold_from_s"] = self.holds.from_s
            columns["hold_until_s"] = self.holds.until_s
        if self.submit_s is not None:
            columns["submit_s"] = self.submit_s
        if self.procs is not None:
            columns["procs"] = self.procs
        if self.instances is not None:
            columns |= {
                f"instance_{instance_field.name}": getattr(self.instances, instance_field.name)
                for instance_field in fields(self.instances)
            }
        return columns

    def submissions_s(self, workload: Workload) -> NDArray[np.float64]:
        """Return when the jobs of the simulated workload were submitted: float64 [n_jobs]."""
        return workload.submit_s if self.submit_s is None else self.submit_s

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SimulationResult):
            return NotImplemented
        mine, theirs = self.columns(), other.columns()
        return (
            self.scenario_digest == other.scenario_digest
            and mine.keys() == theirs.keys()
            and all(mine[name].tobytes() == theirs[name].tobytes() for name in mine)
        )

    def __hash__(self) -> int:
        return hash((self.scenario_digest, self.start_s.tobytes()))
