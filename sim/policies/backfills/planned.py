"""The rules `none`, `greedy` and `easy` where capacity changes: by a plan that knows when.

A job can start if its processors are free for as long as it reckons with, beside the running jobs
and the windows that are known. EASY reserves for the head at the first time at which it can start
so, and nobody overtakes who would delay that.
"""

from sim.kernel.plan import is_free, occupy, plan_running, planned_s
from sim.kernel.pool import Pool, start, take_head
from sim.kernel.text import kernel
from sim.policies.backfills.depth import by_plan


@kernel
def no_backfill_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order until one cannot start."""
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    n_started = 0
    while here.head < here.tail:
        job = pool.queue[here.head]
        procs, until_s = pool.jobs[job].procs, now_s + planned_s(pool.jobs[job].estimate_s)
        if not is_free(pool, k, procs, until_s):
            break
        occupy(pool, k, now_s, until_s, procs)
        start(pool, k, job, now_s, n_started)
        take_head(pool, k)
        n_started += 1
    return n_started


@kernel
def greedy_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Start whoever can start."""
    return by_plan(pool, k, now_s, 0.0)


@kernel
def easy_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Reserve for the head alone."""
    return by_plan(pool, k, now_s, 1.0)
