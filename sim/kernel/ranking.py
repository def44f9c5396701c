"""Ranking a queue anew, where the scores of waiting jobs change."""

import math
from typing import Any

from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, note
from sim.kernel.text import apart, kernel
from sim.kernel.usage import fair_share


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

    If that changes anything, the jobs get the slots from the head on, without gaps, and deal out
    the ranks that they had: the best gets the smallest. A job that comes later has a greater one
    in any case. Nothing is known then of who can start.

    Args:
        pool: its rows of jobs know when they were submitted.
        k: the partition.
        now_s: the time.
        score_now: the score of the order, see `sim.policies.kinds.Order`.
    """
    here = pool.partitions[k]
    head = here.head
    n = _score(pool, k, now_s, score_now)
    if n == 0:
        return
    _sort(pool, n)
    for slot in range(head & ~(BLOCK - 1), here.tail, BLOCK):
        block = pool.blocks[slot >> BLOCK_BITS]
        block.procs, block.estimate_s = NOBODY, math.inf
    for i in range(n):
        job = pool.sorted_jobs[i]
        pool.jobs[job].rank = pool.started[i]
        pool.queue[head + i] = job
        note(pool, head + i)
    here.tail = head + n
    here.look_from = head


@kernel
def _score(pool: Pool, k: int, now_s: float, score_now: Any) -> int:
    """Score and list those who wait, with their ranks.

    Returns:
        How many they are; 0 if they are in order as they stand.
    """
    here = pool.partitions[k]
    n, is_sorted = 0, True
    asks, fair = len(pool.users) > 0, 1.0
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0:
            one = pool.jobs[job]
            if asks:
                fair = fair_share(pool.users, pool.user[job], now_s)
            one.score = score_now(
                now_s - one.submit_s, one.procs, one.factor, fair, pool.order_options
            )
            if n > 0 and goes_before(pool, job, pool.sorted_jobs[n - 1]):
                is_sorted = False
            pool.sorted_jobs[n] = job
            pool.started[n] = one.rank
            n += 1
    return 0 if is_sorted else n


@kernel
def _sort(pool: Pool, n: int) -> None:
    """Insert each listed job where it belongs; they are nearly in order."""
    listed = pool.sorted_jobs
    for i in range(1, n):
        job = listed[i]
        place = i
        while place > 0 and goes_before(pool, job, listed[place - 1]):
            listed[place] = listed[place - 1]
            place -= 1
        listed[place] = job


@kernel
def goes_before(pool: Pool, job: int, other: int) -> bool:
    """Tell whether one of two jobs that have been scored goes before the other."""
    standings = pool.terms.standings
    if len(standings) > 0 and standings[job].tier != standings[other].tier:
        return standings[job].tier > standings[other].tier
    mine, theirs = pool.jobs[job].score, pool.jobs[other].score
    return mine < theirs or (mine == theirs and job < other)
