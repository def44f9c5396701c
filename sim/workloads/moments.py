"""Figures of a workload that models state beforehand, measured."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from sim.model.hours import DAY_S
from sim.model.workload import Workload
from sim.workloads.generator import Horizon


def measured(workload: Workload, horizon: Horizon) -> Mapping[str, float]:
    """Return what a workload came to, by the names under which models state it.

    ``jobs_per_day`` over the whole duration; ``log_runtime``, the mean of ln(run time in s), where
    run times below a second count as one; ``log2_procs``, the mean of log2(processors); ``serial``,
    the share of jobs on one processor; and if the jobs have tasks, ``n_tasks``, of a job.
    """
    told = {
        "jobs_per_day": workload.n_jobs / (horizon.duration_s / DAY_S),
        "log_runtime": float(log_runtime(workload.runtime_s).mean()),
        "log2_procs": float(np.log2(workload.procs).mean()),
        "serial": float((workload.procs == 1).mean()),
    }
    if workload.tasks is not None:
        told["n_tasks"] = workload.tasks.n_tasks / workload.n_jobs
    return told


def log_runtime(runtime_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ln(run time in s); run times below a second count as one."""
    logs: NDArray[np.float64] = np.log(np.maximum(runtime_s, 1.0))
    return logs
