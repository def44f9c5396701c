"""Who may run where: routing, jobs that fit nowhere, and what the scheduler is told."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import ClusterSpec, Partition
from sim.model.columns import frozen
from sim.model.scenario import Scenario
from sim.model.workload import Workload
from sim.units import format_duration

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class Admission:
    """The jobs as the scheduler gets them. Columns have shape [n_jobs] and are read-only.

    Attributes:
        partition: int64, index of the partition; -1 for a rejected job.
        procs: int64, processors, after clipping.
        runtime_s: float64, seconds that the job will run, after clipping and killing.
        estimate_s: float64, seconds that the scheduler reckons with, never below `runtime_s`.
        requested_s: float64, the request after clipping.
        killed: bool, the run is cut at its request.
    """

    partition: NDArray[np.int64]
    procs: NDArray[np.int64]
    runtime_s: NDArray[np.float64]
    estimate_s: NDArray[np.float64]
    requested_s: NDArray[np.float64]
    killed: NDArray[np.bool_]


def route(workload: Workload, cluster: ClusterSpec) -> NDArray[np.int64]:
    """Send every job to the first partition that admits its request and its width.

    Returns:
        int64 [n_jobs], index into `cluster.partitions`; -1 where no partition admits the job.
    """
    return _route(workload.procs, workload.requested_s, cluster)


def admit(scenario: Scenario) -> Admission:
    """Apply routing, `too_wide` and `overrun` to the workload.

    Raises:
        ScenarioError: a job fits nowhere and `too_wide` does not say what to do with it.
    """
    workload, cluster = scenario.workload, scenario.cluster
    procs, runtime_s = workload.procs, workload.runtime_s
    requested_s = workload.requested_s
    if scenario.too_wide == "clip":
        width = np.int64(cluster.widest.widest_procs)
        stretch = np.maximum(procs, width) / width
        procs = np.minimum(procs, width)
        runtime_s, requested_s = runtime_s * stretch, requested_s * stretch
    partition = _route(procs, requested_s, cluster)
    if scenario.too_wide != "reject" and (partition == NOWHERE).any():
        row = int(np.flatnonzero(partition == NOWHERE)[0])
        n_others = int((partition == NOWHERE).sum()) - 1
        raise ScenarioError(_why_nowhere(scenario, row, requested_s, n_others))
    killed = np.zeros(workload.n_jobs, dtype=np.bool_)
    estimate_s = np.maximum(requested_s, runtime_s)
    if scenario.overrun == "kill":
        killed = (runtime_s > requested_s) & (partition != NOWHERE)
        runtime_s, estimate_s = np.minimum(runtime_s, requested_s), requested_s
    killed.setflags(write=False)
    return Admission(
        partition=frozen(partition),
        procs=frozen(procs),
        runtime_s=frozen(runtime_s),
        estimate_s=frozen(estimate_s),
        requested_s=frozen(requested_s),
        killed=killed,
    )


def _route(
    procs: NDArray[np.int64], requested_s: NDArray[np.float64], cluster: ClusterSpec
) -> NDArray[np.int64]:
    chosen = np.full(len(procs), NOWHERE, dtype=np.int64)
    for index in reversed(range(len(cluster.partitions))):
        partition = cluster.partitions[index]
        admitted = procs <= partition.widest_procs
        if partition.max_requested_s is not None:
            admitted &= requested_s <= partition.max_requested_s
        chosen[admitted] = index
    return chosen


def _why_nowhere(
    scenario: Scenario, row: int, requested_s: NDArray[np.float64], n_others: int
) -> str:
    workload, cluster = scenario.workload, scenario.cluster
    job, width = int(workload.job_id[row]), int(workload.procs[row])
    others = f" (and {n_others} more jobs fit nowhere)" if n_others else ""
    widest = cluster.widest
    if scenario.too_wide == "refuse" and width > widest.widest_procs:
        return (
            f"job {job} of '{workload.name}' needs {width} processors and the widest partition, "
            f"'{widest.name}', gives a job {widest.widest_procs}{others}; make that partition "
            "wider, or choose too_wide='reject' or too_wide='clip'."
        )
    asked = format_duration(float(requested_s[row]))
    wide_enough = [
        p for p in cluster.partitions if p.widest_procs >= min(width, widest.widest_procs)
    ]
    limits = ", ".join(_limit(partition) for partition in wide_enough)
    return (
        f"job {job} of '{workload.name}' ({width} processors) requests {asked}, above the time "
        f"limit of every partition that is wide enough ({limits}){others}; raise max_requested_s "
        "there, or choose too_wide='reject'."
    )


def _limit(partition: Partition) -> str:
    return f"'{partition.name}': {format_duration(partition.max_requested_s)}"
