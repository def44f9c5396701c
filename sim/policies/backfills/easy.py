"""EASY backfilling, and none.

The same rules over named machines are in `sim.policies.backfills.nodes`.
"""

import math

from sim.kernel.placing import serve_in_turn
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, reserve, start, start_from_head, take
from sim.kernel.sharing import start_heads
from sim.kernel.text import kernel
from sim.policies.backfills.nodes import easy_on_nodes, no_backfill_on_nodes
from sim.policies.backfills.planned import easy_by_plan, no_backfill_by_plan
from sim.policies.kinds import ACTUAL_TIMES, Backfill, switch

EXTRA_PROCS, RESERVES_ANEW = 0, 1
"""Where the options are."""


@kernel
def no_backfill(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs strictly in queue order."""
    return start_from_head(pool, k, now_s)


@kernel
def easy(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order, then let others overtake if the head's reservation holds.

    A job of n processors may start if n <= free and (now + estimate <= shadow or n <= extra).
    Jobs that will run past the shadow time use up extra processors.

    The reservation is computed anew whenever it can have changed: when something ended, or the
    head is another. If jobs only arrived since, then the shadow time is the same, the extra
    processors are those left over, and who could not start before cannot now: there are no more
    processors, and it is later. So only those who came are looked at.

    Other programs mean something else by EASY. Without `extra_processors` only a job that ends by
    the shadow time overtakes; without `reserve_anew` the shadow time of the head stays what it was
    when it became the head. AccaSim 1.1.3 and RLScheduler do both.
    """
    here = pool.partitions[k]
    n_started = start_from_head(pool, k, now_s)
    if here.head >= here.tail - 1 and (
        here.head >= here.tail or pool.options[RESERVES_ANEW] == 1.0
    ):
        return n_started
    if n_started > 0 or here.look_from <= here.head:
        head_job = pool.queue[here.head]
        head_procs = pool.jobs[head_job].procs
        if pool.options[RESERVES_ANEW] == 1.0 or here.reserved_for != head_job:
            reserve(pool, k, head_procs)
            here.reserved_for = head_job
            if pool.options[EXTRA_PROCS] == 0.0:
                here.extra = 0
        here.narrowest = head_procs
        here.look_from = here.head + 1
    return n_started + _overtake(pool, k, now_s, n_started)


@kernel
def _overtake(pool: Pool, k: int, now_s: float, n_before: int) -> int:
    """Start every job from `look_from` on that delays no reservation. Return how many."""
    here = pool.partitions[k]
    free, extra, shadow_s = here.free, here.extra, here.shadow_s
    narrowest, n_started = here.narrowest, n_before
    slot, tail = here.look_from, here.tail
    while slot < tail and free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > free or (block.procs > extra and now_s + block.estimate_s > shadow_s):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and free > 0:
            job = pool.queue[slot]
            if job >= 0:
                one = pool.jobs[job]
                in_time = now_s + one.estimate_s <= shadow_s
                if one.procs <= (free if in_time else min(free, extra)):
                    start(pool, k, job, now_s, n_started)
                    take(pool, k, slot)
                    n_started += 1
                    free -= one.procs
                    if not in_time:
                        extra -= one.procs
                else:
                    least_procs = min(least_procs, one.procs)
                    least_s = min(least_s, one.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    here.extra = extra
    # Who was not looked at, for want of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started - n_before


NONE = Backfill(
    "none",
    "no job overtakes another",
    no_backfill,
    no_backfill_on_nodes,
    start_heads,
    decide_by_plan=no_backfill_by_plan,
    decide_instances=serve_in_turn,
)

EASY = Backfill(
    "easy",
    "a job overtakes if the first in the queue starts no later by the estimates "
    "(Lifka 1995; Mu'alem & Feitelson 2001)",
    easy,
    easy_on_nodes,
    options=(
        switch("extra_processors", True, "a long job may take what the first does not need then"),
        switch("reserve_anew", True, "the reservation is made anew when something ends"),
        ACTUAL_TIMES,
    ),
    is_eager=lambda values: values["reserve_anew"] == 0.0,
    decide_by_plan=easy_by_plan,
)
