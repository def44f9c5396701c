"""Backfilling with reservations for the first few who must wait.

With 0 reservations this is greedy, with 1 it is EASY, and with as many as jobs wait everybody
who comes later must respect everybody before. Reservations are planned anew at every decision, so
that none is a promise; `sim.policies.backfills.conservative` keeps its own.
"""

import math

from sim.kernel.plan import earliest, is_free, occupy, plan_running, planned_s
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, start_in
from sim.kernel.text import kernel
from sim.policies.kinds import Backfill, Option

DEPTH = 0


@kernel
def depth(pool: Pool, k: int, now_s: float) -> int:
    """Reserve for as many as was told."""
    return by_plan(pool, k, now_s, pool.options[DEPTH])


@kernel
def by_plan(pool: Pool, k: int, now_s: float, most_reserved: float) -> int:
    """Go through the queue: start who can start now, reserve for the first few others.

    A job can start if its processors are free for as long as it reckons with, beside the running
    jobs and the reservations before it in the queue.

    Who could not start before cannot now, unless something ended or the order changed: there are
    the same reservations, no more processors, and it is later. So beyond the reservations only
    those who came are looked at.
    """
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    n_started, n_reserved = 0, 0
    narrowest = NOBODY
    slot = here.head
    while slot < here.tail and n_reserved < most_reserved:
        job = pool.queue[slot]
        if job >= 0:
            procs, length_s = pool.jobs[job].procs, planned_s(pool.jobs[job].estimate_s)
            if is_free(pool, k, procs, now_s + length_s):
                occupy(pool, k, now_s, now_s + length_s, procs)
                start_in(pool, k, slot, now_s, n_started)
                n_started += 1
            else:
                start_s = earliest(pool, k, procs, length_s)
                occupy(pool, k, start_s, start_s + length_s, procs)
                n_reserved += 1
                narrowest = min(narrowest, procs)
        slot += 1
    if n_started > 0 or here.look_from <= here.head:
        here.look_from = slot
        here.narrowest = narrowest
    return n_started + _overtake(pool, k, now_s, max(slot, here.look_from), n_started)


@kernel
def _overtake(pool: Pool, k: int, now_s: float, slot: int, n_before: int) -> int:
    """Start every job from a slot on that the plan lets start now. Return how many."""
    here = pool.partitions[k]
    narrowest, n_started = here.narrowest, n_before
    tail = here.tail
    while slot < tail and here.free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if not is_free(pool, k, block.procs, now_s + block.estimate_s):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and here.free > 0:
            job = pool.queue[slot]
            if job >= 0:
                one = pool.jobs[job]
                length_s = planned_s(one.estimate_s)
                if is_free(pool, k, one.procs, now_s + length_s):
                    occupy(pool, k, now_s, now_s + length_s, one.procs)
                    start_in(pool, k, slot, now_s, n_started)
                    n_started += 1
                else:
                    least_procs = min(least_procs, one.procs)
                    least_s = min(least_s, one.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    # Who was not looked at, for want of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started - n_before


DEPTH_K = Backfill(
    "depth",
    "a job overtakes if the first k who must wait start no later by the estimates",
    depth,
    options=(Option("depth", 4, "jobs that get a reservation", is_whole=True),),
    plans=True,
)
