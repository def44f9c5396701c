"""Conservative backfilling: every job gets a reservation when it arrives, and keeps it.

A. W. Mu'alem and D. G. Feitelson, Utilization, predictability, workloads, and user runtime
estimates in scheduling the IBM SP2 with backfilling, TPDS 2001, section 2.1: a job is placed where
it delays no earlier one. When a job ends, the schedule is compressed: in queue order each
reservation is made again as early as possible, which is never later. If a job outlives its
estimate, all reservations are made again in queue order.

The plan lasts from decision to decision, and most jobs are not examined. A job that could not start
earlier when it was last examined cannot now, unless its new time overlaps a gain: processors that
were given back since then, by an ended job or by a reservation that moved. So it needs no more
processors than are free somewhere in a gain, and starts before the end of one. Of two places where
it may fit, one lies wholly before its old start: there the search begins where no job of its shape
(`JobShape`) was refused. The other overlaps its own old time, so its processors are free right
before its old start.

With the option `compress_depth`, only so many jobs from the head of the queue on are made again
when a job ends. The others keep their reservations, and may miss a gain until they are among them.
"""

import math

from sim.kernel.jit import kernel
from sim.kernel.job_queue import OVERRUN
from sim.kernel.plan import advance, change, first_fit, free_since, plan_running, planned_s
from sim.kernel.pool import BLOCK, BLOCK_BITS, MOST_GAINS, NOBODY, Pool, start_in
from sim.policies.policy import Backfill, PolicyOption

COMPRESS_DEPTH = 0
"""Position of the option."""


@kernel
def conservative(pool: Pool, k: int, now_s: float) -> int:
    """Schedule partition k by conservative backfilling: every waiting job has a reservation."""
    here = pool.partitions[k]
    if here.n_steps == 0 or here.has_ended == OVERRUN:
        _begin_anew(pool, k, now_s)
    else:
        _continue_plan(pool, k, now_s)
    freed_s, freed, n_left = 0.0, 0, NOBODY
    slot = here.look_from
    if here.has_ended == 1:
        freed_s, here.freed_s = here.freed_s, 0.0
        freed, here.freed = here.freed, 0
        slot = here.head
        if pool.options[COMPRESS_DEPTH] > 0.0:
            freed_s, freed, n_left = math.inf, NOBODY, int(pool.options[COMPRESS_DEPTH])
    slot = max(here.head, slot & ~(BLOCK - 1))
    while slot < here.tail:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(here.tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > freed and block.reserved_s >= 0.0:
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        while slot < end:
            job = pool.queue[slot]
            if job >= 0:
                job_row = pool.jobs[job]
                if n_left == 0:
                    freed = 0
                n_left -= 1
                if job_row.reserved_s < 0.0:
                    _put(pool, k, job)
                elif job_row.procs <= freed:
                    behind_s = _move(pool, k, job, freed_s)
                    if behind_s > 0.0:
                        freed_s, freed = max(freed_s, behind_s), max(freed, here.freed)
                least_procs = min(least_procs, job_row.procs)
                least_s = min(least_s, job_row.reserved_s)
            slot += 1
        block.procs, block.reserved_s = least_procs, least_s
    here.look_from = here.tail
    here.has_ended, here.n_ended = 0, 0
    return _start(pool, k, now_s)


@kernel
def _continue_plan(pool: Pool, k: int, now_s: float) -> None:
    """Advance the plan of partition k to now, and give back what ended jobs still held in it."""
    here = pool.partitions[k]
    advance(pool, k, now_s)
    for i in range(here.first, here.first + here.n_ended):
        job_row = pool.jobs[pool.ended[i]]
        until_s = max(job_row.estimated_end_s, job_row.reserved_s + planned_s(job_row.estimate_s))
        if until_s > now_s:
            here.freed = max(here.freed, change(pool, k, now_s, until_s, -job_row.procs))
            here.freed_s = max(here.freed_s, until_s)
            _note_gain(pool, k, now_s)


@kernel
def _begin_anew(pool: Pool, k: int, now_s: float) -> None:
    """Plan the running jobs of partition k, and drop every reservation."""
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    _note_gain(pool, k, -math.inf)
    here.look_from = here.head
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0:
            pool.jobs[job].reserved_s = -1.0
            pool.blocks[slot >> BLOCK_BITS].reserved_s = -1.0


@kernel
def _note_gain(pool: Pool, k: int, from_s: float) -> None:
    """Record that processors were given back to the plan of partition k from a time on.

    If there are too many rows, the last one stands for two gains, from the earlier time of both.
    """
    here = pool.partitions[k]
    first, n = k * MOST_GAINS, here.n_lows
    here.n_gains += 1
    while n > 0 and pool.gains[first + n - 1].from_s >= from_s:
        n -= 1
    if n == MOST_GAINS:
        pool.gains[first + n - 1].number = here.n_gains
    else:
        pool.gains[first + n].from_s = from_s
        pool.gains[first + n].number = here.n_gains
        n += 1
    here.n_lows = n


@kernel
def _not_before(pool: Pool, k: int, job: int) -> float:
    """Return a time before which no job of the same shape fits into the plan of partition k."""
    here, shape = pool.partitions[k], pool.shapes[pool.shape[job]]
    if shape.n_gains < here.n_gains:
        row = k * MOST_GAINS + here.n_lows - 1
        while row > k * MOST_GAINS and pool.gains[row - 1].number > shape.n_gains:
            row -= 1
        from_s = pool.gains[row].from_s - planned_s(pool.jobs[job].estimate_s)
        shape.from_s = min(shape.from_s, from_s)
        shape.n_gains = here.n_gains
    return shape.from_s


@kernel
def _put(pool: Pool, k: int, job: int) -> None:
    """Put a new job into the plan of partition k, as early as possible."""
    job_row = pool.jobs[job]
    length_s = planned_s(job_row.estimate_s)
    start_s = first_fit(
        pool, k, job_row.procs, length_s, _not_before(pool, k, job), math.inf, math.inf
    )
    change(pool, k, start_s, start_s + length_s, job_row.procs)
    job_row.reserved_s = start_s
    pool.shapes[pool.shape[job]].from_s = start_s


@kernel
def _move(pool: Pool, k: int, job: int, freed_s: float) -> float:
    """Move a job in the plan if it can start earlier than planned, and before `freed_s`.

    Return the time until which it gave processors back; 0 if it was not moved.
    """
    here, job_row = pool.partitions[k], pool.jobs[job]
    procs, length_s, before_s = job_row.procs, planned_s(job_row.estimate_s), job_row.reserved_s
    from_s = _not_before(pool, k, job)
    start_s = math.inf
    if from_s + length_s <= before_s:
        start_s = first_fit(pool, k, procs, length_s, from_s, freed_s, before_s)
    if start_s == math.inf:
        start_s = free_since(pool, k, procs, before_s)
    shape = pool.shapes[pool.shape[job]]
    shape.from_s = max(from_s, start_s)
    if start_s == before_s:
        return 0.0
    behind_s, end_s = before_s + length_s, start_s + length_s
    change(pool, k, start_s, min(end_s, before_s), procs)
    gain_s = max(end_s, before_s)
    if gain_s < behind_s:
        here.freed = max(here.freed, change(pool, k, gain_s, behind_s, -procs))
        here.freed_s = max(here.freed_s, behind_s)
        _note_gain(pool, k, gain_s)
    job_row.reserved_s = start_s
    return behind_s


@kernel
def _start(pool: Pool, k: int, now_s: float) -> int:
    """Start the jobs whose reservation begins now, set the next wake time, and return how many."""
    here = pool.partitions[k]
    n_started, slot = 0, here.head
    wake_s = math.inf
    tail = here.tail
    while slot < tail:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.reserved_s >= wake_s:
            slot = end
            continue
        least_s = math.inf
        while slot < end:
            job = pool.queue[slot]
            if job >= 0:
                if pool.jobs[job].reserved_s == now_s:
                    start_in(pool, k, slot, now_s, n_started)
                    n_started += 1
                else:
                    least_s = min(least_s, pool.jobs[job].reserved_s)
            slot += 1
        block.reserved_s = least_s
        wake_s = min(wake_s, least_s)
    here.wake_s = wake_s
    return n_started


CONSERVATIVE = Backfill(
    "conservative",
    "a job overtakes if no earlier job starts later by the estimates (Mu'alem & Feitelson 2001)",
    conservative,
    options=(
        PolicyOption(
            "compress_depth",
            0,
            "jobs whose reservations are made again when a job ends; 0 is all",
            is_whole=True,
        ),
    ),
    is_eager=lambda _values: True,
    plans=True,
    keeps_plan=True,
    wakes=True,
)
