"""Starts on fewer processors: the first in the queue may take what is free now.

Jobs start in queue order. One that does not fit starts on fewer processors if it ends earlier there
than if it waited for its reservation, both by the estimates; among several such numbers, where it
ends first, and of equal ends on the fewest. Where none is better, the backfilling rule decides as
usual, with the requested processors (`sim.model.moldable`).
"""

from sim.kernel.jit import kernel, noinline
from sim.kernel.policy_context import ExternalEvents
from sim.kernel.pool import Pool, reserve, start, take_head


@noinline
@kernel
def start_on_fewer(pool: Pool, outside: ExternalEvents, k: int, now_s: float) -> int:
    """Start jobs of partition k in queue order until one shall wait, and return how many.

    They are listed in ``pool.started``, with the processors on which they start.
    """
    here, n_started = pool.partitions[k], 0
    while here.head < here.tail:
        job = pool.queue[here.head]
        if pool.jobs[job].procs > here.free and not shrink(pool, outside, k, job, now_s):
            break
        start(pool, k, job, now_s, n_started)
        take_head(pool, k)
        n_started += 1
    if n_started > 0:
        here.look_from = here.head
    return n_started


@kernel
def shrink(pool: Pool, outside: ExternalEvents, k: int, job: int, now_s: float) -> bool:
    """Give the first in the queue fewer processors if it ends earlier so; return whether it does.

    The reservation of the last decision stays as it was, for rules that keep it.
    """
    here, job_row = pool.partitions[k], pool.jobs[job]
    n_sizes = len(outside.sizes) // len(pool.jobs)
    behind, best = (job + 1) * n_sizes, -1
    if outside.sizes[behind - 1].procs > here.free:
        return False
    shadow_s, extra = here.shadow_s, here.extra
    reserve(pool, k, job_row.procs)
    first_end_s = here.shadow_s + job_row.estimate_s
    here.shadow_s, here.extra = shadow_s, extra
    for i in range(behind - n_sizes, behind):
        end_s = now_s + job_row.estimate_s * outside.sizes[i].stretch
        if outside.sizes[i].procs <= here.free and (
            end_s < first_end_s or (best >= 0 and end_s == first_end_s)
        ):
            first_end_s, best = end_s, i
    if best < 0:
        return False
    job_row.procs = outside.sizes[best].procs
    job_row.estimate_s *= outside.sizes[best].stretch
    return True


@kernel
def stretch_of(pool: Pool, outside: ExternalEvents, job: int) -> float:
    """Return the run time of a started job as a multiple of that on its requested processors."""
    n_sizes = len(outside.sizes) // len(pool.jobs)
    for i in range(job * n_sizes, (job + 1) * n_sizes):
        if outside.sizes[i].procs == pool.jobs[job].procs:
            return outside.sizes[i].stretch
    return 1.0
