"""Conservative backfilling: every job gets a reservation when it arrives, and keeps it.

A. W. Mu'alem and D. G. Feitelson, Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling, TPDS 2001, section 2.1: a job is placed where
it delays no earlier one. When a job ends, the schedule is compressed: in queue order each
reservation is made again as early as possible, which is never later. If a job outlives its
estimate, all reservations are made again in queue order.
"""

import math

from sim.kernel.jit import kernel
from sim.kernel.job_queue import OVERRUN
from sim.kernel.plan import earlier, earliest, most_free, move_on, occupy, plan_running, planned_s
from sim.kernel.pool import Pool, start_in
from sim.policies.policy import Backfill


@kernel
def conservative(pool: Pool, k: int, now_s: float) -> int:
    """Reserve for new jobs, compress after an end, and start the jobs that are due.

    The plan lasts from decision to decision: the rest of an early end is given back to it. It is
    made again only after a job outlived its estimate. A job can start earlier than planned only
    before the end of processors that were given back since it was last examined: by an ended job,
    or by a reservation that moved, as later ones in the queue did after that.
    """
    here = pool.partitions[k]
    if here.n_steps == 0 or here.has_ended == OVERRUN:
        _begin_anew(pool, k, now_s)
    else:
        move_on(pool, k, now_s)
        for i in range(here.first, here.first + here.n_ended):
            ended_job = pool.jobs[pool.ended[i]]
            until_s = max(
                ended_job.estimated_end_s, ended_job.reserved_s + planned_s(ended_job.estimate_s)
            )
            if until_s > now_s:
                occupy(pool, k, now_s, until_s, -ended_job.procs)
                here.freed_s = max(here.freed_s, until_s)
    freed_s = 0.0
    if here.has_ended == 1:
        freed_s, here.freed_s = here.freed_s, 0.0
    most = most_free(pool, k, freed_s)
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0 and pool.jobs[job].reserved_s < 0.0:
            _put(pool, k, job)
        elif job >= 0 and pool.jobs[job].procs <= most:
            behind_s = _move(pool, k, job, freed_s)
            if behind_s > 0.0:
                freed_s, here.freed_s = max(freed_s, behind_s), max(here.freed_s, behind_s)
                most = most_free(pool, k, freed_s)
    here.has_ended, here.n_ended = 0, 0
    return _start(pool, k, now_s)


@kernel
def _begin_anew(pool: Pool, k: int, now_s: float) -> None:
    """Plan the running jobs of partition k, and drop every reservation."""
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0:
            pool.jobs[job].reserved_s = -1.0


@kernel
def _put(pool: Pool, k: int, job: int) -> None:
    """Put a new job into the plan of partition k, as early as possible."""
    job_row = pool.jobs[job]
    length_s = planned_s(job_row.estimate_s)
    job_row.reserved_s = earliest(pool, k, job_row.procs, length_s)
    occupy(pool, k, job_row.reserved_s, job_row.reserved_s + length_s, job_row.procs)


@kernel
def _move(pool: Pool, k: int, job: int, freed_s: float) -> float:
    """Move a job in the plan if it can start earlier than planned, and before `freed_s`.

    Return the time until which it gave processors back; 0 if it was not moved.
    """
    job_row = pool.jobs[job]
    length_s, before_s = planned_s(job_row.estimate_s), job_row.reserved_s
    start_s = earlier(pool, k, job_row.procs, length_s, before_s, freed_s)
    if start_s == before_s:
        return 0.0
    occupy(pool, k, before_s, before_s + length_s, -job_row.procs)
    occupy(pool, k, start_s, start_s + length_s, job_row.procs)
    job_row.reserved_s = start_s
    return before_s + length_s


@kernel
def _start(pool: Pool, k: int, now_s: float) -> int:
    """Start the jobs whose reservation begins now, set the next wake time, and return how many."""
    here = pool.partitions[k]
    n_started, slot = 0, here.head
    wake_s = math.inf
    while slot < here.tail:
        job = pool.queue[slot]
        if job >= 0:
            if pool.jobs[job].reserved_s == now_s:
                start_in(pool, k, slot, now_s, n_started)
                n_started += 1
            else:
                wake_s = min(wake_s, pool.jobs[job].reserved_s)
        slot += 1
    here.wake_s = wake_s
    return n_started


CONSERVATIVE = Backfill(
    "conservative",
    "a job overtakes if nobody who came before starts later by the estimates "
    "(Mu'alem & Feitelson 2001)",
    conservative,
    is_eager=lambda _values: True,
    plans=True,
    keeps_plan=True,
    wakes=True,
)
