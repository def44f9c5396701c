"""The state `pool`: counted processors per partition, with its transitions.

An instant is a set. Everything that arrives or ends at one time is applied first, in any order,
and then each partition decides once. The transitions commute because processors are whole
numbers, and what a decision sees does not depend on the order of insertion (the queue is kept by
rank; the running jobs are sorted by estimated end when somebody looks, and ties never matter).

All jobs of all partitions share flat columns: partition k owns the slots from ``first`` on, as
many as jobs were routed to it, and each job arrives once. Nothing here knows an engine.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.records import rows
from sim.kernel.text import kernel

TAKEN = -1
"""In a list of jobs: the job of this slot has been started, or has ended."""

NOBODY = 2**62
"""Narrower than this is every job; the narrowest of none."""


class Job:
    """A job as the scheduler knows it.

    Attributes:
        procs: processors.
        rank: place in the queue order, unique; the smallest goes first.
        place: slot among the running jobs, once it runs.
        estimate_s: seconds that the scheduler reckons with, never too short.
        estimated_end_s: once it runs.
    """

    __slots__ = ("estimate_s", "estimated_end_s", "place", "procs", "rank")
    procs: int
    rank: int
    place: int
    estimate_s: float
    estimated_end_s: float


class Here:
    """A partition.

    Attributes:
        first: its first slot.
        free: processors that no job holds.
        head: slot of the first waiting job.
        tail: slot behind the last waiting job; the queue is empty if it is `head`.
        narrowest: no waiting job has fewer processors.
        look_from: no waiting job before this slot can start until something ends. Up to `head`
            means that nothing is known.
        n_listed: slots among the running jobs, the gaps of ended ones too.
        n_sorted: how many of these are sorted by estimated end.
        shadow_s: start of the reservation of the first waiting job; of the last decision.
        extra: processors left at that time beyond what that job needs; of the last decision.
    """

    __slots__ = (
        "extra", "first", "free", "head", "look_from", "n_listed", "n_sorted", "narrowest",
        "shadow_s", "tail",
    )  # fmt: skip
    first: int
    free: int
    head: int
    tail: int
    narrowest: int
    look_from: int
    n_listed: int
    n_sorted: int
    shadow_s: float
    extra: int


class Pool(NamedTuple):
    """Processors, queues and running jobs.

    Attributes:
        jobs: [n] rows of `Job`.
        partitions: [m] rows of `Here`.
        queue: int64 [n] slots, waiting jobs by rank.
        running: int64 [n] slots, running jobs and gaps.
        started: int64 [n], jobs started by the last decision, from slot 0.
    """

    jobs: Sequence[Job]
    partitions: Sequence[Here]
    queue: list[int]
    running: list[int]
    started: list[int]


def empty_pool(
    procs: NDArray[np.int64],
    estimate_s: NDArray[np.float64],
    rank: NDArray[np.int64],
    partition: NDArray[np.int64],
    partition_procs: NDArray[np.int64],
) -> Pool:
    """Return a pool, made of arrays, in which nothing has happened yet.

    Args:
        procs: int64 [n].
        estimate_s: float64 [n].
        rank: int64 [n], unique.
        partition: int64 [n], where each job is routed; -1 takes no part.
        partition_procs: int64 [m], processors of each partition.
    """
    n_jobs, n_partitions = len(procs), len(partition_procs)
    jobs, partitions = rows(Job, n_jobs), rows(Here, n_partitions)
    jobs["procs"], jobs["estimate_s"], jobs["rank"] = procs, estimate_s, rank
    if n_partitions == 1:
        first = np.zeros(1, dtype=np.int64)
    else:
        routed = np.bincount(partition[partition >= 0], minlength=n_partitions)
        first = np.cumsum(routed) - routed
    for name in ("first", "head", "tail", "look_from"):
        partitions[name] = first
    partitions["free"] = partition_procs
    partitions["narrowest"] = NOBODY
    slots: list[Any] = [np.empty(n_jobs, dtype=np.int64) for _ in range(3)]
    return Pool(jobs, partitions, *slots)  # type: ignore[arg-type]


@kernel
def arrive(pool: Pool, k: int, job: int) -> None:
    """Put a job into the queue of partition k, at its rank."""
    here = pool.partitions[k]
    queue = pool.queue
    slot = here.tail
    rank = pool.jobs[job].rank
    if slot > here.head and pool.jobs[queue[slot - 1]].rank > rank:
        low = _slot_of(pool, k, rank)
        if here.head > here.first and low - here.head < slot - low:
            for each in range(here.head, low):
                queue[each - 1] = queue[each]
            if here.look_from < low:
                here.look_from -= 1
            here.head -= 1
            slot = low - 1
        else:
            for each in range(slot, low, -1):
                queue[each] = queue[each - 1]
            here.tail += 1
            slot = low
    else:
        here.tail += 1
    queue[slot] = job
    here.look_from = min(here.look_from, slot)
    here.narrowest = min(here.narrowest, pool.jobs[job].procs)


@kernel
def _slot_of(pool: Pool, k: int, rank: int) -> int:
    """Return the first slot of a waiting job whose rank is not smaller."""
    low, high = pool.partitions[k].head, pool.partitions[k].tail
    while low < high:
        middle = (low + high) // 2
        if pool.jobs[pool.queue[middle]].rank < rank:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def release(pool: Pool, k: int, job: int) -> None:
    """Take back the processors of a job that ends in partition k."""
    here = pool.partitions[k]
    pool.running[pool.jobs[job].place] = TAKEN
    here.free += pool.jobs[job].procs
    here.look_from = here.head


@kernel
def may_start(pool: Pool, k: int) -> bool:
    """Tell whether any decision could start a job in partition k: one waits that may fit."""
    here = pool.partitions[k]
    return here.head < here.tail and here.free >= here.narrowest


@kernel
def start(pool: Pool, k: int, job: int, now_s: float, n_started: int) -> None:
    """Give processors of partition k to a waiting job, and list it as started.

    The decision that calls this counts what it starts, and takes the job out of the queue:
    `start_from_head` by moving the head, others by marking the slot and `close_gaps`.
    """
    here = pool.partitions[k]
    one = pool.jobs[job]
    here.free -= one.procs
    one.estimated_end_s = now_s + one.estimate_s
    one.place = here.first + here.n_listed
    pool.running[one.place] = job
    here.n_listed += 1
    pool.started[n_started] = job


@kernel
def start_from_head(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order until one does not fit. Return how many started."""
    here = pool.partitions[k]
    n_started = 0
    while here.head < here.tail:
        job = pool.queue[here.head]
        if pool.jobs[job].procs > here.free:
            break
        start(pool, k, job, now_s, n_started)
        here.head += 1
        n_started += 1
    if here.head == here.tail:
        here.narrowest = NOBODY
    return n_started


@kernel
def close_gaps(pool: Pool, k: int, low: int, high: int) -> None:
    """Close the gaps that a decision left in the queue, from the shorter side.

    Args:
        pool: the state.
        k: the partition.
        low: the lowest slot that was taken.
        high: the highest.
    """
    here = pool.partitions[k]
    queue = pool.queue
    if high - here.head < here.tail - low:
        kept = high
        for slot in range(high, here.head - 1, -1):
            if queue[slot] != TAKEN:
                queue[kept] = queue[slot]
                kept -= 1
        here.head = kept + 1
    else:
        kept = low
        for slot in range(low, here.tail):
            if queue[slot] != TAKEN:
                queue[kept] = queue[slot]
                kept += 1
        here.tail = kept


@kernel
def sort_running(pool: Pool, k: int) -> None:
    """Sort the running jobs of partition k by estimated end and drop the gaps.

    Each job is inserted once, so that a partition whose queue is never blocked never sorts.
    """
    here = pool.partitions[k]
    running, jobs = pool.running, pool.jobs
    kept = here.first
    for slot in range(here.first, here.first + here.n_sorted):
        job = running[slot]
        if job != TAKEN:
            if kept != slot:
                running[kept] = job
                jobs[job].place = kept
            kept += 1
    for slot in range(here.first + here.n_sorted, here.first + here.n_listed):
        job = running[slot]
        if job != TAKEN:
            end_s = jobs[job].estimated_end_s
            place = kept
            while place > here.first and jobs[running[place - 1]].estimated_end_s > end_s:
                running[place] = running[place - 1]
                jobs[running[place]].place = place
                place -= 1
            running[place] = job
            jobs[job].place = place
            kept += 1
    here.n_listed = kept - here.first
    here.n_sorted = here.n_listed


@kernel
def reserve(pool: Pool, k: int, procs: int) -> None:
    """Note the earliest reservation of a width that is not free now.

    The shadow time is when enough running jobs will have ended by their estimates; the extra
    processors are free then beyond the width. All jobs that end at the shadow time count.
    """
    here = pool.partitions[k]
    sort_running(pool, k)
    free = here.free
    shadow_s = 0.0
    for slot in range(here.first, here.first + here.n_listed):
        one = pool.jobs[pool.running[slot]]
        if free >= procs and one.estimated_end_s != shadow_s:
            break
        shadow_s = one.estimated_end_s
        free += one.procs
    here.shadow_s = shadow_s
    here.extra = free - procs
