"""Backfilling on named machines: the rules of `sim.policies.backfill` for whole-node allocation.

On machines of one processor each they decide exactly as those over counted processors do.
"""

import math

from sim.kernel.node import Nodes, drop_reservation, idle_procs, reserve_machines, start_on
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, take, take_head
from sim.kernel.text import kernel


@kernel
def no_backfill_on_nodes(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs in queue order, each on the first idle machines that suit it, until one must wait.

    Returns:
        How many started. If any did, no machine is reserved any more.
    """
    here = nodes.pool.partitions[k]
    n_started = 0
    while here.head < here.tail:
        job = nodes.pool.queue[here.head]
        if nodes.pool.jobs[job].procs > idle_procs(nodes, k, job, True):
            break
        if n_started == 0:
            drop_reservation(nodes, k)
        start_on(nodes, k, job, now_s, n_started, False)
        take_head(nodes.pool, k)
        n_started += 1
    return n_started


@kernel
def easy_on_nodes(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs in queue order, then let others overtake if the head's reservation holds.

    The reservation names machines (`sim.kernel.node.reserve_machines`). A job that ends by the
    shadow time may start on any idle machines that suit it, and takes reserved ones first, which
    leaves the others to jobs that run longer: these may only take machines that are not reserved.

    The reservation is computed anew whenever that could give another: when something ended, or
    the head is another, and in the same decision when a choosy job overtook in time, until nobody
    more can start. Jobs that run past the shadow time leave reserved machines alone. One that is
    in time and not choosy takes the first of them, and the head still needs the others; a choosy
    one may pass over some that the head does not need any more. If the reservation is the same,
    then who could not start before cannot now.
    """
    here = nodes.pool.partitions[k]
    n_started = no_backfill_on_nodes(nodes, k, now_s)
    if here.head >= here.tail - 1:
        return n_started
    if n_started > 0:
        here.look_from = here.head
    is_over = False
    while not is_over:
        if here.look_from <= here.head:
            head = nodes.pool.queue[here.head]
            reserve_machines(nodes, k, head)
            here.narrowest = nodes.pool.jobs[head].procs
            here.look_from = here.head + 1
        n_started += _overtake_on(nodes, k, now_s, n_started)
        is_over = here.look_from > here.head
    return n_started


@kernel
def _overtake_on(nodes: Nodes, k: int, now_s: float, n_before: int) -> int:
    """Start every job from `look_from` on that delays no reservation. Return how many."""
    pool, stock = nodes.pool, nodes.stocks[k]
    here = pool.partitions[k]
    shadow_s, narrowest = here.shadow_s, here.narrowest
    free, kept = here.free, stock.kept
    n_started, n_choosy = n_before, 0
    slot, tail = here.look_from, here.tail
    while slot < tail and free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        is_late = now_s + block.estimate_s > shadow_s
        if block.procs > (free - kept if is_late else free):
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
                most = free if in_time else free - kept
                if one.procs <= most and one.procs <= idle_procs(nodes, k, job, in_time):
                    start_on(nodes, k, job, now_s, n_started, in_time)
                    take(pool, k, slot)
                    free, kept = here.free, stock.kept
                    n_started += 1
                    if in_time:
                        n_choosy += nodes.claims[job].is_choosy
                else:
                    least_procs = min(least_procs, one.procs)
                    least_s = min(least_s, one.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    # Who was not looked at, for want of machines, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = here.tail if n_choosy == 0 else here.head
    return n_started - n_before
