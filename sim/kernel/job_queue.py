"""The queue before a decision: corrected estimates, new ranks where scores change, and user limits.

A job that outlives its estimate gets a longer one, in steps of 1, 5, 15 and 30 minutes and 1, 2, 5,
10, 20, 50 and 100 hours, until it is in the future (D. Tsafrir, Y. Etsion, D. G. Feitelson,
Backfilling using system-generated predictions rather than user runtime estimates, TPDS 2007,
section 3.2). With `PartitionState.decides_late`, a decision is due at that moment; without, the
estimate is corrected at the next decision for another reason. A user limit holds later jobs of a
user outside the queue, where no order and no rule sees them; when a job inside ends, the held job
with the best rank enters.
"""

import math
from typing import Any

from sim.kernel.fair_share import calculation_s, fair_share
from sim.kernel.jit import kernel, noinline
from sim.kernel.policy_context import ExternalEvents
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, TAKEN, Pool, PoolJob, arrive, note

SPARSE = 4  # A queue with more slots than this per waiting job is closed up

AHEAD_S, LEAST_AHEAD_S = 4096.0, 16.0
"""First and last step ahead in the search for the next change of a score."""


@kernel
def never_scored(
    _waited_s: float, _procs: int, _factor: float, _fair_share: float, _options: list[float]
) -> float:
    """Serve as a placeholder score for queue orders whose ranks never change."""
    return 0.0


@noinline
@kernel
def rank_anew(pool: Pool, k: int, now_s: float, score_now: Any) -> None:
    """Sort the queue of partition k again by present scores, with ties by submission.

    A higher tier goes first whatever the scores; the ranks of a tier are smaller than those of
    lower tiers and stay in it. Jobs that change places exchange their slots and ranks: the best
    gets the smallest. A later job has a greater rank in any case. A job that could not start still
    cannot if the first in the queue is the same and no job overtook that the last decision did not
    examine; a rule that plans may have reserved for more than the first.
    """
    here = pool.partitions[k]
    if here.keeps_scores == 1:
        calculated_s = calculation_s(pool.fair, now_s)
        if calculated_s == here.ranked_s:
            _rank_changed(pool, k, now_s, score_now)
            return
        here.ranked_s = calculated_s
        for number in range(here.head >> BLOCK_BITS, (here.tail + BLOCK - 1) >> BLOCK_BITS):
            pool.blocks[number].until_s = -1.0
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


@kernel
def _score(pool: Pool, job_row: PoolJob, fair: float, now_s: float, score_now: Any) -> float:
    score: float = score_now(
        now_s - job_row.submit_s, job_row.procs, job_row.factor, fair, pool.order_options
    )
    return score


@noinline
@kernel
def _rank_changed(pool: Pool, k: int, now_s: float, score_now: Any) -> None:
    """Rank those jobs of partition k again whose scores may have changed.

    Where scores only get better, these jobs go forward, and all others are in order.
    """
    here = pool.partitions[k]
    for number in range(here.head >> BLOCK_BITS, (here.tail + BLOCK - 1) >> BLOCK_BITS):
        block = pool.blocks[number]
        if block.until_s >= now_s:
            continue
        block.until_s = math.inf
        first = max(here.head, number << BLOCK_BITS)
        for slot in range(first, min(here.tail, (number + 1) << BLOCK_BITS)):
            job = pool.queue[slot]
            if job >= 0 and pool.jobs[job].until_s < now_s:
                _score_until(pool, job, now_s, score_now)
                _go_forward(pool, k, slot)
            note(pool, slot)
    while pool.queue[here.tail - 1] < 0:
        here.tail -= 1
    here.look_from = min(here.look_from, here.tail)
    if here.tail - here.head > SPARSE * here.n_queued:
        _close_gaps(pool, k)


@kernel
def _score_until(pool: Pool, job: int, now_s: float, score_now: Any) -> None:
    """Score a waiting job, and find a time up to which its score stays."""
    job_row, fair = pool.jobs[job], 1.0
    if len(pool.fair.users) > 0:
        fair = fair_share(pool.fair, job, now_s)
    job_row.score = _score(pool, job_row, fair, now_s, score_now)
    job_row.until_s, step_s = now_s, AHEAD_S
    if _score(pool, job_row, fair, now_s + LEAST_AHEAD_S, score_now) != job_row.score:
        return
    while step_s >= LEAST_AHEAD_S:
        if _score(pool, job_row, fair, job_row.until_s + step_s, score_now) == job_row.score:
            job_row.until_s += step_s
        step_s /= 4.0


@kernel
def _slot_of(pool: Pool, job: int, low: int, high: int) -> int:
    """Return the first slot before which a job goes; it goes before the one in slot `high`."""
    queue = pool.queue
    while low < high:
        middle = (low + high) // 2
        other = middle
        while other < high and queue[other] < 0:
            other += 1
        if other == high or goes_before(pool, job, queue[other]):
            high = middle
        else:
            low = other + 1
    return low


@kernel
def _nearest_gap(pool: Pool, k: int, low: int, slot: int) -> int:
    """Return the nearest slot without a waiting job, on either side of one, or the last slot."""
    here, queue = pool.partitions[k], pool.queue
    left, right = low - 1, low
    while right < slot and queue[right] >= 0 and left >= here.head and queue[left] >= 0:
        left, right = left - 1, right + 1
    if left >= here.first and right < slot and queue[right] >= 0:
        return left
    while right < slot and queue[right] >= 0:
        right += 1
    return right


@kernel
def _go_forward(pool: Pool, k: int, slot: int) -> None:
    """Move the job in a slot before all that it precedes; those before it are in order.

    Slots keep their ranks. Others make room on the side of the nearest gap, and the job that has
    left it goes to the slot that becomes free.
    """
    here, queue, jobs = pool.partitions[k], pool.queue, pool.jobs
    job, high = queue[slot], slot - 1
    while high >= here.head and queue[high] < 0:
        high -= 1
    if high < here.head or not goes_before(pool, job, queue[high]):
        return
    low = _slot_of(pool, job, here.head, high)
    is_head, gap = low == here.head, _nearest_gap(pool, k, low, slot)
    holder = queue[gap] if queue[gap] >= 0 else ~queue[gap]
    rank, last_rank = jobs[holder].rank, jobs[job].rank
    place, step = gap, 1 if gap < low else -1
    target = low - 1 if gap < low else low
    while place != target:
        other = queue[place + step]
        queue[place] = other
        rank, jobs[other].rank = jobs[other].rank, rank
        note(pool, place)
        place += step
    if holder != job:
        queue[slot] = ~holder
        jobs[holder].rank = last_rank
    queue[target] = job
    jobs[job].rank = rank
    note(pool, target)
    here.head = min(here.head, gap, target)
    if len(pool.steps_s) > 0 or is_head:
        here.look_from = here.head
    elif slot >= here.look_from:
        here.look_from = min(here.look_from, gap, target)


@noinline
@kernel
def _close_gaps(pool: Pool, k: int) -> None:
    """Move the waiting jobs to the slots from the head on."""
    here = pool.partitions[k]
    for slot in range(here.head & ~(BLOCK - 1), here.tail, BLOCK):
        block = pool.blocks[slot >> BLOCK_BITS]
        block.procs, block.estimate_s, block.reserved_s = NOBODY, math.inf, math.inf
        block.until_s = math.inf
    target, look_from = here.head, here.look_from
    for slot in range(here.head, here.tail):
        if slot == here.look_from:
            look_from = target
        job = pool.queue[slot]
        if job >= 0:
            pool.queue[target] = job
            note(pool, target)
            target += 1
    here.look_from = look_from if here.look_from < here.tail else target
    here.tail = target


@kernel
def _sort(pool: Pool, k: int, now_s: float, score_now: Any) -> tuple[int, int, int]:
    """Score the waiting jobs and list them in order, together with the current ranks.

    Insertion sort, because they are nearly in order. Return their number, and the first and the
    last place that holds another job then, the first being behind all if there is none.
    """
    here, listed = pool.partitions[k], pool.sorted_jobs
    n, first, last = 0, NOBODY, 0
    asks, has_tiers, fair = len(pool.fair.users) > 0, len(pool.terms.standings) > 0, 1.0
    worst = -math.inf
    for slot in range(here.head, here.tail):
        job = pool.queue[slot]
        if job >= 0:
            job_row = pool.jobs[job]
            if asks:
                fair = fair_share(pool.fair, job, now_s)
            score = _score(pool, job_row, fair, now_s, score_now)
            job_row.score, job_row.until_s = score, -1.0
            pool.started[n] = job_row.rank
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
    """Return whether one scored job precedes another in the queue."""
    standings = pool.terms.standings
    if len(standings) > 0 and standings[job].tier != standings[other].tier:
        return standings[job].tier > standings[other].tier
    mine, theirs = pool.jobs[job].score, pool.jobs[other].score
    return mine < theirs or (mine == theirs and job < other)


STEPS_S = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18e3, 36e3, 72e3, 18e4, 36e4)
"""Steps by which an estimate is prolonged, one after the other; the last one repeats."""


@kernel
def prepare_decision(pool: Pool, k: int, now_s: float, score_now: Any) -> None:
    """Update estimates and ranks of partition k before a scheduling decision.

    `score_now` is the score of the order, if its ranks change (`sim.policies.policy.Order`).
    """
    if pool.partitions[k].corrects == 1:
        _correct(pool, k, now_s)
    if len(pool.sorted_jobs) > 0:
        rank_anew(pool, k, now_s, score_now)


@noinline
@kernel
def _correct(pool: Pool, k: int, now_s: float) -> None:
    """Prolong the estimates of running jobs that should have ended by now."""
    here = pool.partitions[k]
    if here.decides_late == 1:
        here.wake_s = math.inf  # the decision and `wake_at_overrun` set it anew
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.running[slot]
        if job != TAKEN and pool.jobs[job].estimated_end_s <= now_s:
            job_row = pool.jobs[job]
            while job_row.estimated_end_s <= now_s:
                job_row.estimated_end_s += STEPS_S[min(job_row.n_corrected, len(STEPS_S) - 1)]
                job_row.n_corrected += 1
            here.n_sorted = 0
            here.look_from = here.head
            here.has_ended = OVERRUN


@noinline
@kernel
def wake_at_overrun(pool: Pool, k: int) -> None:
    """Let partition k decide when the first estimate of its running jobs runs out, if not before.

    Call it after every decision of a partition with `PartitionState.decides_late`: all estimates
    are in the future then.
    """
    here = pool.partitions[k]
    if here.head == here.tail:
        return
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.running[slot]
        if job != TAKEN:
            here.wake_s = min(here.wake_s, pool.jobs[job].estimated_end_s)


OVERRUN = 2  # Value of `PartitionState.has_ended` after an overrun: no reservation is reliable


@noinline
@kernel
def arrive_at_limit(pool: Pool, outside: ExternalEvents, k: int, job: int) -> None:
    """Queue an arriving job in partition k, or hold it back at its user's job limit."""
    standing = pool.terms.standings[job]
    if standing.door < 0:
        arrive(pool, k, job)
        return
    door = outside.doors[standing.door]
    outside.seats[standing.seat].is_held = 1
    door.best = min(door.best, standing.seat)
    _mark_limit(outside, k, standing.door)


@noinline
@kernel
def leave_limit(pool: Pool, outside: ExternalEvents, k: int, job: int) -> None:
    """Remove a job that ended in partition k from the count of its user's job limit."""
    door = pool.terms.standings[job].door
    if door >= 0:
        outside.doors[door].n_inside -= 1
        _mark_limit(outside, k, door)


@kernel
def _mark_limit(outside: ExternalEvents, k: int, number: int) -> None:
    """Record that a limit of partition k changed."""
    door = outside.doors[number]
    if door.is_rung == 0:
        door.is_rung = 1
        door.next_rung = outside.rung[k]
        outside.rung[k] = number


@noinline
@kernel
def admit_held_jobs(pool: Pool, outside: ExternalEvents, k: int) -> None:
    """Queue held jobs of partition k as far as the job limits of their users now allow."""
    while outside.rung[k] >= 0:
        door = outside.doors[outside.rung[k]]
        outside.rung[k] = door.next_rung
        door.is_rung = 0
        while door.best < door.behind and door.n_inside < door.limit:
            seat = outside.seats[door.best]
            if seat.is_held == 1:
                seat.is_held = 0
                door.n_inside += 1
                arrive(pool, k, seat.job)
            door.best += 1
