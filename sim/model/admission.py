"""Who may run where: routing, jobs that fit nowhere, and what the scheduler is told."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import ClusterSpec, Partition
from sim.model.columns import frozen
from sim.model.scenario import Scenario
from sim.model.workload import UNKNOWN, Workload
from sim.units import format_duration, format_size

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Admission:
    """The jobs as the scheduler gets them. Columns have shape [n_jobs] and are read-only.

    Attributes:
        partition: int64, index of the partition; -1 for a rejected job.
        place: int64, index of the partition whose processors it takes: another one if `partition`
            is a queue on those; -1 for a rejected job.
        procs: int64, processors, after clipping.
        runtime_s: float64, seconds that the job will hold what it is given: that it runs, after
            clipping and killing, and the cleanup after that.
        estimate_s: float64, seconds that the scheduler reckons with; below `runtime_s` only if
            `may_overrun`.
        requested_s: float64, the request after clipping.
        killed: bool, the run is cut at its request, or when the grace after that is over.
        demand: int64 [n_jobs, len(RESOURCES) - 1], what each of its processors needs of every
            resource but processors, as far as it was told; None if counted processors are
            allocated.
        may_overrun: some job may outlive its estimate.
        ran_s: float64, `runtime_s` without the cleanup.
    """

    partition: NDArray[np.int64]
    place: NDArray[np.int64]
    procs: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    killed: NDArray[np.bool_]
    ran_s: NDArray[np.float64]
    demand: NDArray[np.int64] | None = None
    may_overrun: bool = False


def route(workload: Workload, cluster: ClusterSpec) -> NDArray[np.int64]:
    """Send every job to the first partition that admits its request and its width.

    Returns:
        int64 [n_jobs], index into `cluster.partitions`; -1 where no partition admits the job.
    """
    return _route(workload.procs, workload.requested_s, cluster)


def admit(scenario: Scenario) -> Admission:
    """Apply routing, `too_wide` and `overrun` to the workload.

    With whole nodes a partition admits a job only if those of its machines that have memory
    enough for the job have the processors for it; with shared ones, if all of them together can
    hold its processes. Memory that was not told counts as none.

    Raises:
        ScenarioError: a job fits nowhere and `too_wide` does not say what to do with it; or it is
            routed to a partition that limits what each user runs, and does not tell its user; or
            instances of tasks are placed.
    """
    if scenario.allocation == "instances":
        raise ScenarioError(
            "allocation is 'instances', where tasks are placed and jobs are not admitted; measure "
            "such a schedule with summarise_instances."
        )
    workload, cluster = scenario.workload, scenario.cluster
    procs, runtime_s = workload.procs, workload.runtime_s
    requested_s = workload.requested_s
    if scenario.too_wide == "clip":
        width = np.int64(cluster.widest_procs(cluster.widest))
        stretch = np.maximum(procs, width) / width
        procs = np.minimum(procs, width)
        runtime_s, requested_s = runtime_s * stretch, requested_s * stretch
    demand = None if scenario.allocation == "processors" else demands(workload)
    is_shared = scenario.allocation == "shared_nodes"
    partition = _route(procs, requested_s, cluster, demand, is_shared=is_shared)
    if scenario.too_wide != "reject" and (partition == NOWHERE).any():
        row = int(np.flatnonzero(partition == NOWHERE)[0])
        n_others = int((partition == NOWHERE).sum()) - 1
        raise ScenarioError(_why_nowhere(scenario, row, procs, requested_s, n_others))
    _check_users(scenario, partition)
    killed = np.zeros(workload.n_jobs, dtype=np.bool_)
    estimate_s = np.maximum(requested_s, runtime_s)
    if scenario.overrun == "kill":
        longest_s = requested_s + scenario.grace_s
        killed = (runtime_s > longest_s) & (partition != NOWHERE)
        runtime_s = np.minimum(runtime_s, longest_s)
    if scenario.overrun != "raise":
        estimate_s = requested_s
    ran_s = runtime_s
    if scenario.cleanup_s > 0:
        runtime_s, estimate_s = runtime_s + scenario.cleanup_s, estimate_s + scenario.cleanup_s
    killed.setflags(write=False)
    partition = frozen(partition)
    return Admission(
        partition=partition,
        place=_places(partition, cluster),
        procs=frozen(procs),
        runtime_s=frozen(runtime_s),
        estimate_s=frozen(estimate_s),
        requested_s=frozen(requested_s),
        killed=killed,
        demand=demand,
        may_overrun=bool((runtime_s > estimate_s).any()),
        ran_s=frozen(ran_s),
    )


def demands(workload: Workload) -> NDArray[np.int64]:
    """Return what each processor of a job needs of every resource but processors.

    Returns:
        int64 [n_jobs, len(RESOURCES) - 1], in the order of `RESOURCES`; what is unknown is 0.
    """
    known = np.maximum(workload.mem_bytes_per_proc, 0).reshape(-1, 1)
    known.setflags(write=False)
    return known


def n_unknown_demands(scenario: Scenario) -> int:
    """Return how many jobs do not tell the memory they need, if machines tell theirs."""
    if all(m.mem_bytes is None for part in scenario.cluster.partitions for m in part.machines):
        return 0
    return int((scenario.workload.mem_bytes_per_proc == UNKNOWN).sum())


def _places(partition: NDArray[np.int64], cluster: ClusterSpec) -> NDArray[np.int64]:
    """Return the index of the partition whose processors each job takes: int64 [n_jobs]."""
    if all(part.on is None for part in cluster.partitions):
        return partition
    return frozen(np.where(partition == NOWHERE, NOWHERE, cluster.hosts()[partition]))


def _route(
    procs: NDArray[np.int64],
    requested_s: NDArray[np.float64],
    cluster: ClusterSpec,
    demand: NDArray[np.int64] | None = None,
    *,
    is_shared: bool = False,
) -> NDArray[np.int64]:
    chosen = np.full(len(procs), NOWHERE, dtype=np.int64)
    for index in reversed(range(len(cluster.partitions))):
        partition = cluster.partitions[index]
        admitted = procs <= cluster.widest_procs(partition)
        if partition.max_requested_s is not None:
            admitted &= requested_s <= partition.max_requested_s
        if demand is not None and demand.any():
            holds = _most_processes if is_shared else _suitable_procs
            admitted &= procs <= holds(procs, demand, cluster.host(partition))
        chosen[admitted] = index
    return chosen


def _check_users(scenario: Scenario, partition: NDArray[np.int64]) -> None:
    workload = scenario.workload
    for k, part in enumerate(scenario.cluster.partitions):
        if part.running_per_user is None:
            continue
        unknown = np.flatnonzero((partition == k) & (workload.user == UNKNOWN))
        if len(unknown):
            raise ScenarioError(
                f"job {workload.job_id[unknown[0]]} of '{workload.name}' does not tell its user, "
                f"and partition '{part.name}' limits what each user runs ({len(unknown):,} such "
                f"job{'' if len(unknown) == 1 else 's'}); use a log with users, or leave out "
                "running_per_user."
            )


def _suitable_procs(
    procs: NDArray[np.int64], demand: NDArray[np.int64], partition: Partition
) -> NDArray[np.int64]:
    """Return the processors of the machines of a partition that suit each job: int64 [n_jobs].

    A job has one process per processor of a machine, but no more than it has processors; each of
    them needs what the job demands.
    """
    found = np.zeros(len(procs), dtype=np.int64)
    for machine in partition.machines:
        n_processes = np.minimum(procs, machine.procs)
        share = np.array(machine.capacity[1:], dtype=np.int64) // n_processes[:, None]
        found[(demand <= share).all(axis=1)] += machine.procs * machine.count
    return found


def _most_processes(
    procs: NDArray[np.int64], demand: NDArray[np.int64], partition: Partition
) -> NDArray[np.int64]:
    """Return how many processes of each job the idle machines of a partition hold: int64 [n_jobs].

    Each process needs one processor and what the job demands.
    """
    found = np.zeros(len(procs), dtype=np.int64)
    for machine in partition.machines:
        room = np.array(machine.capacity[1:], dtype=np.int64) // np.maximum(demand, 1)
        room[demand == 0] = machine.procs
        found += np.minimum(machine.procs, room.min(axis=1)) * machine.count
    return found


def _why_nowhere(
    scenario: Scenario,
    row: int,
    procs: NDArray[np.int64],
    requested_s: NDArray[np.float64],
    n_others: int,
) -> str:
    workload, cluster = scenario.workload, scenario.cluster
    job, width = int(workload.job_id[row]), int(workload.procs[row])
    others = f" (and {n_others} more jobs fit nowhere)" if n_others else ""
    widest, most = cluster.widest, cluster.widest_procs(cluster.widest)
    if scenario.too_wide == "refuse" and width > most:
        return (
            f"job {job} of '{workload.name}' needs {width} processors and the widest partition, "
            f"'{widest.name}', gives a job {most}{others}; make that partition "
            "wider, or choose too_wide='reject' or too_wide='clip'."
        )
    one = slice(row, row + 1)
    if _route(procs[one], requested_s[one], cluster)[0] != NOWHERE:
        return (
            f"job {job} of '{workload.name}' needs {int(procs[row])} processors with "
            f"{format_size(int(workload.mem_bytes_per_proc[row]))} of memory each, and no "
            f"partition that admits it has machines with so much{others}; give them more memory, "
            "or choose too_wide='reject'."
        )
    asked = format_duration(float(requested_s[row]))
    wide_enough = [p for p in cluster.partitions if cluster.widest_procs(p) >= min(width, most)]
    limits = ", ".join(_limit(partition) for partition in wide_enough)
    return (
        f"job {job} of '{workload.name}' ({width} processors) requests {asked}, above the time "
        f"limit of every partition that is wide enough ({limits}){others}; raise max_requested_s "
        "there, or choose too_wide='reject'."
    )


def _limit(partition: Partition) -> str:
    return f"'{partition.name}': {format_duration(partition.max_requested_s)}"
