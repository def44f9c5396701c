"""A cluster filled with pods that never leave, until they ask for more than it has.

Source: Weng et al., "Beware of Fragmentation", USENIX ATC 2023, section 6: tasks are drawn from a
trace, with replacement, and submitted one by one until they ask for so much of the GPUs of the
cluster. Who finds no room when it comes never finds any, since nobody leaves.
"""

from dataclasses import replace

import numpy as np

from sim.errors import WorkloadError
from sim.model.cluster import ClusterSpec
from sim.model.columns import frozen
from sim.model.needs import capacity_of
from sim.model.tasks import DEMANDS
from sim.model.workload import ReadingNote, Workload
from sim.workloads.generator import MOST_JOBS, checked_number
from sim.workloads.streams import Streams

_GPU = DEMANDS.index("mgpu")


def inflated(
    workload: Workload, cluster: ClusterSpec, *, load: float = 1.3, seed: int = 0
) -> Workload:
    """Return jobs drawn from a workload, one a second, until they ask for so many GPUs.

    All end at one and the same time, twice as late as the last one comes: until then nothing is
    given back, and whoever starts behind it would have been turned away.

    Args:
        workload: its jobs have tasks, some of which ask for GPUs.
        cluster: has GPUs.
        load: share of these that the drawn jobs ask for together, at least; above 0.
        seed: of the draw.

    Raises:
        WorkloadError: nobody asks for a GPU, or there is none, or a load that cannot be.
    """
    most = checked_number("load", load, 0.0) * float(capacity_of(cluster)[:, _GPU].sum())
    tasks = workload.tasks
    if tasks is None or not tasks.mgpu.any() or not most:
        raise WorkloadError(
            f"'{workload.name}' cannot fill the GPUs of the cluster: its tasks ask for none, or "
            "there are none; take pods and machines with GPUs, and a load above 0."
        )
    asked = np.bincount(tasks.job, weights=tasks.mgpu * tasks.instances).astype(np.int64)
    rng = Streams(seed).of("inflation")
    drawn = np.zeros(0, dtype=np.int64)
    while asked[drawn].sum() < most:
        n_more = max(int(1.1 * (most - asked[drawn].sum()) / asked.mean()), 100)
        if len(drawn) + n_more > MOST_JOBS:
            raise WorkloadError(
                f"load is {load:g}, which takes more than {MOST_JOBS:,} jobs; take a smaller one."
            )
        drawn = np.concatenate([drawn, rng.integers(0, workload.n_jobs, n_more)])
    drawn = drawn[: int(np.searchsorted(np.cumsum(asked[drawn]), most)) + 1]
    submit_s = np.arange(len(drawn), dtype=np.float64)
    runtime_s = 2.0 * len(drawn) - submit_s
    theirs = tasks.ordered(drawn)
    sentence = f"drawn with replacement until they ask for {load:.0%} of the GPUs; none leaves."
    return Workload.from_arrays(
        submit_s=submit_s,
        runtime_s=runtime_s,
        procs=workload.procs[drawn],
        mem_bytes_per_proc=workload.mem_bytes_per_proc[drawn],
        name=f"{workload.name}, inflated to {load:.0%}",
        notes=[ReadingNote("inflated", len(drawn), sentence)],
        tasks=replace(
            theirs,
            runtime_s=frozen(runtime_s[theirs.job]),
            parent_task=theirs.parent_task[:0],
            first_parent=frozen(np.zeros(theirs.n_tasks + 1, dtype=np.int64)),
            work=None,
        ),
    )
