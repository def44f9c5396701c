"""The state `pool`: counted processors per partition, with its transitions.

An instant is a set: everything that arrives or ends at one time is applied first, in any order, and
then each partition decides once. The transitions commute because processors are whole numbers, and
a decision does not depend on the order of insertion: the queue is sorted by rank, running jobs by
estimated end when needed, and ties never matter.

All jobs share flat columns: partition k owns as many slots from ``first`` on as jobs are routed to
it.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import FairShare, charge, new_fair_share
from sim.kernel.jit import kernel
from sim.kernel.policy_context import (
    PolicyContext,
    PoolTerms,
    no_terms,
)
from sim.kernel.records import rows

TAKEN = -1  # Marks an ended job in the list of running jobs. In a queue, every negative number does

BLOCK_BITS = 4  # Binary logarithm of the number of slots of a `QueueBlock`

BLOCK = 1 << BLOCK_BITS

MOST_GAINS = 64  # Rows of `PlanGain` for each partition

UNRANKED = -2.0  # Value of `PartitionState.ranked_s`

NOBODY = 2**62  # Width of the narrowest job where no job waits: larger than every job


class PoolJob:
    """State of a job as the scheduler sees it.

    Attributes:
        rank: place in the queue order, unique; the smallest goes first. Where scores change,
            waiting jobs exchange their ranks (`sim.kernel.job_queue`).
        place, estimated_end_s: slot among the running jobs and end by its estimate, once it runs.
        estimate_s: seconds that the scheduler plans with, never too short.
        factor: input of its score; see `sim.policies.policy.Order`.
        score, until_s: score at the last ranking, and how long it stays, if known; -1 is unknown.
        reserved_s: start of its reservation, under a rule that keeps reservations; -1 is none.
        n_corrected: how often its estimate was prolonged.
    """

    __slots__ = (
        "estimate_s", "estimated_end_s", "factor", "n_corrected", "place", "procs", "rank",
        "reserved_s", "score", "submit_s", "until_s",
    )  # fmt: skip
    procs: int
    rank: int
    place: int
    estimate_s: float
    estimated_end_s: float
    submit_s: float
    factor: float
    score: float
    until_s: float
    reserved_s: float
    n_corrected: int


class PartitionState:
    """Processors, queue and running jobs of one partition.

    Attributes:
        first: its first slot.
        free: processors that no job holds; below 0 if jobs hold processors that a window needs.
        head, tail: slot of the first waiting job, and slot behind the last filled one; equal if the
            queue is empty.
        n_queued: number of waiting jobs.
        narrowest: lower bound of the processors of the waiting jobs.
        look_from: no waiting job before this slot can start until something ends. A value up to
            `head` means that nothing is known.
        n_listed, n_sorted: slots among the running jobs, including the gaps of ended ones, and how
            many of these are sorted by estimated end.
        shadow_s, extra, reserved_for: reservation of the last decision for the first waiting job:
            its start, the processors left then beyond its need, and the job; -1 is none.
        has_ended: 1 if a job ended since the last decision of a rule that keeps reservations; 2 if
            one outlived its estimate.
        corrects: 1 if jobs may outlive their estimates.
        is_eager: 1 if the rule decides even when no job can start.
        keeps_plan: 1 if the rule reads the ended jobs in `Pool.ended`.
        n_ended: jobs listed there, from slot `first` on.
        first_step, n_steps: first slot and number of steps of its plan (`sim.kernel.plan`).
        plan_slot: first slot that its plan may use.
        freed_s, freed: latest time of processors that were given back to its plan since the last
            move of jobs, and how many were free at most where they were given back.
        n_gains, n_lows: how often processors were given back to its plan, and rows of `PlanGain`.
        decides_late: 1 if a decision is due when the estimate of a running job runs out.
        wake_s: time of a decision without arrival or end; infinite is never.
        preempts: 1 if jobs may be killed for the first in the queue.
        n_windows: number of capacity windows.
        keeps_scores: 1 if scores change in steps and never get worse, except with fair shares.
        ranked_s: time of the fair shares by which the whole queue was ranked; -2 is never.
    """

    __slots__ = (
        "corrects", "decides_late", "extra", "first", "first_step", "free", "freed", "freed_s",
        "has_ended", "head", "is_eager", "keeps_plan", "keeps_scores", "look_from", "n_ended",
        "n_gains", "n_listed", "n_lows", "n_queued", "n_sorted", "n_steps", "n_windows",
        "narrowest", "plan_slot", "preempts", "ranked_s", "reserved_for", "shadow_s", "tail",
        "wake_s",
    )  # fmt: skip
    first: int
    free: int
    head: int
    tail: int
    n_queued: int
    narrowest: int
    look_from: int
    n_listed: int
    n_sorted: int
    shadow_s: float
    extra: int
    reserved_for: int
    has_ended: int
    is_eager: int
    corrects: int
    keeps_plan: int
    n_ended: int
    first_step: int
    n_steps: int
    plan_slot: int
    freed_s: float
    freed: int
    n_gains: int
    n_lows: int
    decides_late: int
    wake_s: float
    preempts: int
    n_windows: int
    keeps_scores: int
    ranked_s: float


class QueueBlock:
    """Lower bounds of the fields of the same name of the jobs in a block of slots."""

    __slots__ = ("estimate_s", "procs", "reserved_s", "until_s")
    procs: int
    estimate_s: float
    reserved_s: float
    until_s: float


class JobShape:
    """What is known of all jobs of a partition with the same processors and estimate.

    Attributes:
        from_s: they fit into the plan at no time before this one, unless processors were given
            back to the plan since then.
        n_gains: value of `PartitionState.n_gains` for which this holds.
    """

    __slots__ = ("from_s", "n_gains")
    from_s: float
    n_gains: int


class PlanGain:
    """The earliest time from which processors were given back to a plan, since a certain gain.

    Attributes:
        number: number of the gain.
        from_s: no later gain begins before this time; times rise from row to row.
    """

    __slots__ = ("from_s", "number")
    number: int
    from_s: float


class Pool(NamedTuple):
    """State of a simulation with counted processors, queues and running jobs.

    A slot of a queue holds a waiting job, or ``~job`` after that job has started: so slots stay in
    the order of ranks, and nothing moves when a job overtakes.

    Attributes:
        jobs: [n] rows of `PoolJob`.
        partitions: [m] rows of `PartitionState`.
        blocks: rows of `QueueBlock`, one for `BLOCK` slots of the queue.
        queue: int64 slots, waiting jobs by rank, and gaps.
        running: int64 slots, running jobs and gaps.
        started: int64 [n], jobs started by the last decision, from slot 0.
        options, order_options: float64, option values of the backfilling rule and of the order, in
            declared order.
        sorted_jobs: int64 slots, scratch for ranking the queue; empty if ranks never change.
        ended: int64 slots, running jobs that ended since the last decision; empty if no rule reads
            them.
        steps_s, steps_free: float64 and int64, plans of a rule that plans: times at which the
            number of free processors changes, and the number from then on (`sim.kernel.plan`).
        shapes, shape: rows of `JobShape`, and the row of each job: int64 [n]; none unless a rule
            keeps its plan.
        gains: `MOST_GAINS` rows of `PlanGain` for each partition; likewise.
        fair: usage and factors of users; empty if the order does not use them.
        terms: tiers, limits and windows.
    """

    jobs: Sequence[PoolJob]
    partitions: Sequence[PartitionState]
    blocks: Sequence[QueueBlock]
    queue: list[int]
    running: list[int]
    started: list[int]
    options: list[float]
    order_options: list[float]
    sorted_jobs: list[int]
    ended: list[int]
    steps_s: list[float]
    steps_free: list[int]
    shapes: Sequence[JobShape]
    shape: list[int]
    gains: Sequence[PlanGain]
    fair: FairShare
    terms: PoolTerms


def empty_pool(
    procs: NDArray[np.int64],
    estimate_s: NDArray[np.float64],
    rank: NDArray[np.int64],
    partition: NDArray[np.int64],
    partition_procs: NDArray[np.int64],
    context: PolicyContext | None = None,
) -> Pool:
    """Return the initial state of queues and processors, before the first event, as arrays.

    Args:
        procs: int64 [n]; `estimate_s` float64 [n]; `rank` int64 [n], unique.
        estimate_s: float64 [n].
        rank: int64 [n], unique.
        partition: int64 [n], partition of each job; -1 takes no part.
        partition_procs: int64 [m], processors of each partition.
        context: further input of the policies; None is none.
    """
    context = PolicyContext() if context is None else context
    n_jobs, n_partitions = len(procs), len(partition_procs)
    jobs, partitions = rows(PoolJob, n_jobs), rows(PartitionState, n_partitions)
    jobs["procs"], jobs["estimate_s"], jobs["rank"] = procs, estimate_s, rank
    jobs["reserved_s"], jobs["until_s"] = -1.0, -1.0
    if context.submit_s is not None:
        jobs["submit_s"], jobs["factor"] = context.submit_s, context.factor
    if n_partitions == 1:
        n_blocks = np.array([-(-n_jobs // BLOCK)])
    else:
        n_blocks = -(-np.bincount(partition[partition >= 0], minlength=n_partitions) // BLOCK)
    last = np.cumsum(n_blocks)
    for name in ("first", "head", "tail", "look_from"):
        partitions[name] = BLOCK * (last - n_blocks)
    partitions["free"] = partition_procs
    partitions["narrowest"] = NOBODY
    partitions["reserved_for"] = -1
    partitions["is_eager"], partitions["corrects"] = context.is_eager, context.corrects
    partitions["decides_late"] = context.decides_late
    partitions["wake_s"] = np.inf
    partitions["keeps_scores"], partitions["ranked_s"] = context.keeps_scores, UNRANKED
    blocks = rows(QueueBlock, int(last[-1]))
    blocks["procs"], blocks["estimate_s"], blocks["reserved_s"] = NOBODY, np.inf, np.inf
    blocks["until_s"] = np.inf
    queue: Any = np.empty(len(blocks) * BLOCK, dtype=np.int64)
    running: Any = np.empty(len(blocks) * BLOCK, dtype=np.int64)
    started: Any = np.empty(n_jobs, dtype=np.int64)
    n_sorted = len(queue) if context.is_ranked_anew else 0
    terms = no_terms() if context.terms is None else context.terms
    spare = 8 + 2 * len(terms.windows)
    n_steps = 4 * len(queue) + spare * n_partitions if context.plans else 0
    if context.plans:
        partitions["plan_slot"] = 4 * partitions["first"] + spare * np.arange(n_partitions)
        partitions["first_step"] = partitions["plan_slot"]
    partitions["keeps_plan"] = context.keeps_plan
    n_ended, n_gains = len(queue) if context.keeps_plan else 0, 0
    shape, shapes = np.zeros(0, dtype=np.int64), rows(JobShape, 0)
    if context.keeps_plan:
        n_gains = MOST_GAINS * n_partitions
        shape = _shapes(procs, estimate_s, partition)
        shapes = rows(JobShape, n_jobs)
    return Pool(
        jobs, partitions, blocks, queue, running, started,  # type: ignore[arg-type]
        context.options, context.order_options,  # type: ignore[arg-type]
        np.empty(n_sorted, dtype=np.int64),  # type: ignore[arg-type]
        np.empty(n_ended, dtype=np.int64),  # type: ignore[arg-type]
        np.empty(n_steps), np.empty(n_steps, dtype=np.int64),  # type: ignore[arg-type]
        shapes, shape, rows(PlanGain, n_gains),  # type: ignore[arg-type]
        new_fair_share(context.users),
        terms,
    )  # fmt: skip


def _shapes(
    procs: NDArray[np.int64], estimate_s: NDArray[np.float64], partition: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the same number for jobs of the same partition, processors and estimate."""
    by_shape = np.lexsort((estimate_s, procs, partition))
    is_other = np.zeros(len(procs), dtype=np.int64)
    for column in (procs, estimate_s, partition):
        is_other[1:] |= np.diff(column[by_shape]) != 0
    shape = np.empty(len(procs), dtype=np.int64)
    shape[by_shape] = np.cumsum(is_other)
    return shape


@kernel
def arrive(pool: Pool, k: int, job: int) -> None:
    """Insert an arriving job into the queue of partition k by its rank."""
    here = pool.partitions[k]
    slot = here.tail
    if here.head < slot and rank_at(pool, slot - 1) > pool.jobs[job].rank:
        slot = _make_room(pool, k, pool.jobs[job].rank)
        here.ranked_s = UNRANKED
    else:
        here.tail += 1
    pool.queue[slot] = job
    note(pool, slot)
    here.n_queued += 1
    here.look_from = min(here.look_from, slot)
    here.narrowest = min(here.narrowest, pool.jobs[job].procs)


@kernel
def rank_at(pool: Pool, slot: int) -> int:
    """Return the rank of the job that waits, or has waited, in a slot of the queue."""
    job = pool.queue[slot]
    return pool.jobs[job if job >= 0 else ~job].rank


@kernel
def note(pool: Pool, slot: int) -> None:
    """Lower the bounds of a queue block to include the job in one of its slots."""
    job = pool.queue[slot]
    if job >= 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        block.procs = min(block.procs, pool.jobs[job].procs)
        block.estimate_s = min(block.estimate_s, pool.jobs[job].estimate_s)
        block.reserved_s = min(block.reserved_s, pool.jobs[job].reserved_s)
        block.until_s = min(block.until_s, pool.jobs[job].until_s)


@kernel
def _make_room(pool: Pool, k: int, rank: int) -> int:
    """Free the slot for a rank by moving others to the nearest gap, on the shorter side."""
    here = pool.partitions[k]
    queue = pool.queue
    low, high = here.head, here.tail
    while low < high:
        middle = (low + high) // 2
        if rank_at(pool, middle) < rank:
            low = middle + 1
        else:
            high = middle
    if here.head > here.first and low - here.head < here.tail - low:
        gap = low - 1
        while gap >= here.head and queue[gap] >= 0:
            gap -= 1
        here.head = min(here.head, gap)
        for slot in range(gap, low - 1):
            queue[slot] = queue[slot + 1]
            if (slot + 1) & (BLOCK - 1) == 0:
                note(pool, slot)
        if gap < here.look_from:
            here.look_from -= 1
        return low - 1
    gap = low
    while gap < here.tail and queue[gap] >= 0:
        gap += 1
    here.tail = max(here.tail, gap + 1)
    for slot in range(gap, low, -1):
        queue[slot] = queue[slot - 1]
        if slot & (BLOCK - 1) == 0:
            note(pool, slot)
    return low


@kernel
def release(pool: Pool, k: int, job: int, now_s: float) -> None:
    """Take back the processors of a job that ends in partition k."""
    here = pool.partitions[k]
    pool.running[pool.jobs[job].place] = TAKEN
    here.free += pool.jobs[job].procs
    here.look_from = here.head
    here.has_ended = max(here.has_ended, 1)
    if here.keeps_plan == 1:
        pool.ended[here.first + here.n_ended] = job
        here.n_ended += 1
    if len(pool.fair.users) > 0:
        charge(pool.fair, job, -pool.jobs[job].procs, now_s)


@kernel
def may_start(pool: Pool, k: int) -> bool:
    """Return whether partition k needs a scheduling decision at this instant."""
    here = pool.partitions[k]
    return here.head < here.tail and (here.free >= here.narrowest or here.is_eager == 1)


@kernel
def start(pool: Pool, k: int, job: int, now_s: float, n_started: int) -> None:
    """Allocate processors of partition k to a waiting job and list the job as started.

    The calling decision counts the started jobs, and then removes the job from the queue with
    `take_head` or `take`.
    """
    here = pool.partitions[k]
    job_row = pool.jobs[job]
    here.free -= job_row.procs
    job_row.estimated_end_s = now_s + job_row.estimate_s
    job_row.place = here.first + here.n_listed
    pool.running[job_row.place] = job
    here.n_listed += 1
    pool.started[n_started] = job
    if len(pool.fair.users) > 0:
        charge(pool.fair, job, job_row.procs, now_s)


@kernel
def take(pool: Pool, k: int, slot: int) -> None:
    """Remove a started job from its queue slot, which is not the head, leaving a gap."""
    pool.queue[slot] = ~pool.queue[slot]
    pool.partitions[k].n_queued -= 1


@kernel
def take_head(pool: Pool, k: int) -> None:
    """Move the head of the queue to the next waiting job."""
    here = pool.partitions[k]
    here.head += 1
    while here.head < here.tail and pool.queue[here.head] < 0:
        here.head += 1
    here.n_queued -= 1
    if here.n_queued == 0:
        here.narrowest = NOBODY


@kernel
def start_in(pool: Pool, k: int, slot: int, now_s: float, n_started: int) -> None:
    """Start the job in a queue slot and remove the job from the queue."""
    start(pool, k, pool.queue[slot], now_s, n_started)
    if slot == pool.partitions[k].head:
        take_head(pool, k)
    else:
        take(pool, k, slot)


@kernel
def start_from_head(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order until one does not fit, and return their number."""
    here = pool.partitions[k]
    n_started = 0
    while here.head < here.tail:
        job = pool.queue[here.head]
        if pool.jobs[job].procs > here.free:
            break
        start(pool, k, job, now_s, n_started)
        take_head(pool, k)
        n_started += 1
    return n_started


@kernel
def sort_running(pool: Pool, k: int) -> None:
    """Sort the running jobs of partition k by estimated end and drop the gaps.

    Each job is inserted once, and only if the queue is ever blocked.
    """
    here = pool.partitions[k]
    running, jobs = pool.running, pool.jobs
    target = here.first
    for slot in range(here.first, here.first + here.n_sorted):
        job = running[slot]
        if job != TAKEN:
            if target != slot:
                running[target] = job
                jobs[job].place = target
            target += 1
    for slot in range(here.first + here.n_sorted, here.first + here.n_listed):
        job = running[slot]
        if job != TAKEN:
            end_s = jobs[job].estimated_end_s
            place = target
            while place > here.first and jobs[running[place - 1]].estimated_end_s > end_s:
                running[place] = running[place - 1]
                jobs[running[place]].place = place
                place -= 1
            running[place] = job
            jobs[job].place = place
            target += 1
    here.n_listed = target - here.first
    here.n_sorted = here.n_listed


@kernel
def reserve(pool: Pool, k: int, procs: int) -> None:
    """Compute when `procs` processors will be free and how many are left over then.

    The shadow time is when enough running jobs have ended by their estimates, including all that
    end at this time; the extra processors are those free then beyond the need.
    """
    here = pool.partitions[k]
    sort_running(pool, k)
    free = here.free
    shadow_s = 0.0
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.jobs[pool.running[slot]]
        if free >= procs and job.estimated_end_s != shadow_s:
            break
        shadow_s = job.estimated_end_s
        free += job.procs
    here.shadow_s = shadow_s
    here.extra = free - procs
