"""Greedy backfilling: whoever fits starts, and nobody is protected."""

from sim.kernel.placing import serve_whoever_fits
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, start, start_from_head, take
from sim.kernel.text import kernel
from sim.policies.backfills.planned import greedy_by_plan
from sim.policies.kinds import Backfill


@kernel
def greedy(pool: Pool, k: int, now_s: float) -> int:
    """Start every waiting job that fits, in queue order.

    Who did not fit does not until something ends, so only those who came since are looked at.
    """
    here = pool.partitions[k]
    n_started = start_from_head(pool, k, now_s)
    if here.head >= here.tail:
        return n_started
    if n_started > 0 or here.look_from <= here.head:
        here.narrowest = pool.jobs[pool.queue[here.head]].procs
        here.look_from = here.head + 1
    narrowest = here.narrowest
    slot, tail = here.look_from, here.tail
    while slot < tail and here.free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > here.free:
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs = NOBODY
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and here.free > 0:
            job = pool.queue[slot]
            if job >= 0:
                procs = pool.jobs[job].procs
                if procs <= here.free:
                    start(pool, k, job, now_s, n_started)
                    take(pool, k, slot)
                    n_started += 1
                else:
                    least_procs = min(least_procs, procs)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs = least_procs
    # Who was not looked at, for want of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started


GREEDY = Backfill(
    "greedy",
    "whoever fits starts; a wide job may wait for ever",
    greedy,
    decide_by_plan=greedy_by_plan,
    decide_instances=serve_whoever_fits,
)
