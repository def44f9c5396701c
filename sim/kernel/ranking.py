"""Ranking a queue anew, where the scores of waiting jobs change."""

import math
from typing import Any

from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, note
from sim.kernel.text import apart, kernel
from sim.kernel.usage import fair_share

SPARSE = 4
"""A queue of more slots for each who waits is closed up."""


@kernel
def never_scored(
    _waited_s: float, _procs: int, _factor: float, _fair_share: float, _options: list[float]
) -> float:
    """Stand in for the score of an order whose ranks never change."""
    return 0.0


@apart
@kernel
def rank_anew(pool: Pool, k: int, now_s: float, score_now: Any) -> None:
    """Sort the queue of partition k by the scores of this moment; ties go by submission.

    Who is of a higher tier goes first whatever the scores. The ranks of a tier, which are smaller
    than those of lower ones, stay in it.

    If that changes anything, those who change places deal out the slots and the ranks that they
    had: the best gets the smallest. A job that comes later has a greater rank in any case. Who
    could not start still cannot if the first in the queue is the same, and nobody passed whom the
    last decision did not look at; a rule that plans may have reserved for more than the first.

    Args:
        pool: its rows of jobs know when they were submitted.
        k: the partition.
        now_s: the time.
        score_now: the score of the order, see `sim.policies.kinds.Order`.
    """
    here = pool.partitions[k]
    n, first, last = _sort(pool, k, now_s, score_now)
    if first == n:
        return
    place, first_slot, slot = 0, here.head, here.head
    while place <= last:
        if pool.queue[slot] >= 0:
            if place >= first:
                job = pool.sorted_jobs[place]
                pool.jobs[job].rank = pool.started[place]
                pool.queue[slot] = job
                note(pool, slot)
                first_slot = slot if place == first else first_slot
            place += 1
        slot += 1
    if len(pool.steps_s) > 0 or first == 0:
        here.look_from = here.head
    elif slot > here.look_from:
        here.look_from = min(here.look_from, first_slot)
    if here.tail - here.head > SPARSE * n:
        _close_gaps(pool, k)


@apart
@kernel
def _close_gaps(pool: Pool, k: int) -> None:
    """Let those who wait have the slots from the head on."""
    here = pool.partitions[k]
    for slot in range(here.head & ~(BLOCK - 1), here.tail, BLOCK):
        block = pool.blocks[slot >> BLOCK_BITS]
        block.procs, block.estimate_s = NOBODY, math.inf
    kept, look_from = here.head, here.look_from
    for slot in range(here.head, here.tail):
        if slot == here.look_from:
            look_from = kept
        job = pool.queue[slot]
        if job >= 0:
            pool.queue[kept] = job
            note(pool, kept)
            kept += 1
    here.look_from = look_from if here.look_from < here.tail else kept
    here.tail = kept


@kernel
def _sort(pool: Pool, k: int, now_s: float, score_now: Any) -> tuple[int, int, int]:
    """Score who waits and list them as they go, with the ranks in the order as they stand.

    Each is inserted where it belongs; they are nearly in order.

    Returns:
        How many they are; the first and the last place where another job is then, the first being
        behind all if there is none.
    """
    here, listed = pool.partitions[k], pool.sorted_jobs
    n, first, last = 0, NOBODY, 0
    asks, has_tiers, fair = len(pool.users) > 0, len(pool.terms.standings) > 0, 1.0
    worst = -math.inf
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0:
            one = pool.jobs[job]
            if asks:
                fair = fair_share(pool.users, pool.user[job], now_s)
            score = score_now(now_s - one.submit_s, one.procs, one.factor, fair, pool.order_options)
            one.score = score
            pool.started[n] = one.rank
            place = n
            if score <= worst or has_tiers:
                while place > 0 and goes_before(pool, job, listed[place - 1]):
                    listed[place] = listed[place - 1]
                    place -= 1
            listed[place] = job
            if place < n:
                first, last = min(first, place), n
            worst = max(worst, score)
            n += 1
    return n, min(first, n), last


@kernel
def goes_before(pool: Pool, job: int, other: int) -> bool:
    """Tell whether one of two jobs that have been scored goes before the other."""
    standings = pool.terms.standings
    if len(standings) > 0 and standings[job].tier != standings[other].tier:
        return standings[job].tier > standings[other].tier
    mine, theirs = pool.jobs[job].score, pool.jobs[other].score
    return mine < theirs or (mine == theirs and job < other)
