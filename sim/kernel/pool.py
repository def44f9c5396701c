"""The state `pool`: counted processors per partition, with its transitions.

An instant is a set. Everything that arrives or ends at one time is applied first, in any order,
and then each partition decides once. The transitions commute because processors are whole
numbers, and every list is kept in an order that does not depend on the order of insertion
(the queue by rank, the running jobs by estimated end, where ties never matter).

All jobs of all partitions share flat arrays: partition k owns the slots from ``first[k]`` on, as
many as jobs were routed to it. Nothing here knows an engine.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.jit import jit

TAKEN = -1
"""In a queue during a pass: the job of this slot has just been started."""


class Pool(NamedTuple):
    """Processors, queues and running jobs. Shapes: [n] per job, [m] per partition, [n] slots.

    Attributes:
        procs: int64 [n], processors of each job.
        estimate_s: float64 [n], seconds that the scheduler reckons with, never too short.
        rank: int64 [n], place in the queue order, unique; the smallest goes first.
        first: int64 [m], first slot of each partition.
        free: int64 [m], processors that no job holds.
        n_queued: int64 [m].
        n_running: int64 [m].
        queue: int64 [n] slots, waiting jobs by rank.
        running: int64 [n] slots, running jobs by estimated end.
        estimated_end_s: float64 [n], of running jobs.
        started: int64 [n], jobs started by the last pass, from slot 0.
    """

    procs: NDArray[np.int64]
    estimate_s: NDArray[np.float64]
    rank: NDArray[np.int64]
    first: NDArray[np.int64]
    free: NDArray[np.int64]
    n_queued: NDArray[np.int64]
    n_running: NDArray[np.int64]
    queue: NDArray[np.int64]
    running: NDArray[np.int64]
    estimated_end_s: NDArray[np.float64]
    started: NDArray[np.int64]


def empty_pool(
    procs: NDArray[np.int64],
    estimate_s: NDArray[np.float64],
    rank: NDArray[np.int64],
    partition: NDArray[np.int64],
    partition_procs: NDArray[np.int64],
) -> Pool:
    """Return a pool in which nothing has happened yet.

    Args:
        procs: int64 [n].
        estimate_s: float64 [n].
        rank: int64 [n], unique.
        partition: int64 [n], where each job is routed; -1 takes no part.
        partition_procs: int64 [m], processors of each partition.
    """
    n_jobs, n_partitions = len(procs), len(partition_procs)
    routed = np.bincount(partition[partition >= 0], minlength=n_partitions)
    return Pool(
        procs=np.ascontiguousarray(procs, dtype=np.int64),
        estimate_s=np.ascontiguousarray(estimate_s, dtype=np.float64),
        rank=np.ascontiguousarray(rank, dtype=np.int64),
        first=(np.cumsum(routed) - routed).astype(np.int64),
        free=partition_procs.astype(np.int64),
        n_queued=np.zeros(n_partitions, dtype=np.int64),
        n_running=np.zeros(n_partitions, dtype=np.int64),
        queue=np.zeros(n_jobs, dtype=np.int64),
        running=np.zeros(n_jobs, dtype=np.int64),
        estimated_end_s=np.zeros(n_jobs, dtype=np.float64),
        started=np.zeros(n_jobs, dtype=np.int64),
    )


@jit
def arrive(pool: Pool, k: int, job: int) -> None:
    """Put a job into the queue of partition k, at its rank."""
    first = pool.first[k]
    low, high = first, first + pool.n_queued[k]
    while low < high:
        middle = (low + high) // 2
        if pool.rank[pool.queue[middle]] < pool.rank[job]:
            low = middle + 1
        else:
            high = middle
    for slot in range(first + pool.n_queued[k], low, -1):
        pool.queue[slot] = pool.queue[slot - 1]
    pool.queue[low] = job
    pool.n_queued[k] += 1


@jit
def release(pool: Pool, k: int, job: int) -> None:
    """Take back the processors of a job that ends in partition k."""
    last = pool.first[k] + pool.n_running[k] - 1
    slot = _first_ending_at(pool, k, pool.estimated_end_s[job])
    while pool.running[slot] != job:
        slot += 1
    while slot < last:
        pool.running[slot] = pool.running[slot + 1]
        slot += 1
    pool.n_running[k] -= 1
    pool.free[k] += pool.procs[job]


@jit
def start(pool: Pool, k: int, slot: int, now_s: float, n_started: int) -> None:
    """Give processors of partition k to the job in a queue slot and mark the slot as taken.

    The pass that calls this counts what it starts and ends with `compact`.
    """
    job = pool.queue[slot]
    pool.queue[slot] = TAKEN
    pool.started[n_started] = job
    pool.free[k] -= pool.procs[job]
    pool.estimated_end_s[job] = now_s + pool.estimate_s[job]
    place = _first_ending_at(pool, k, pool.estimated_end_s[job])
    for later in range(pool.first[k] + pool.n_running[k], place, -1):
        pool.running[later] = pool.running[later - 1]
    pool.running[place] = job
    pool.n_running[k] += 1


@jit
def compact(pool: Pool, k: int) -> None:
    """Close the gaps that a pass left in the queue of partition k."""
    first = pool.first[k]
    kept = first
    for slot in range(first, first + pool.n_queued[k]):
        if pool.queue[slot] != TAKEN:
            pool.queue[kept] = pool.queue[slot]
            kept += 1
    pool.n_queued[k] = kept - first


@jit
def _first_ending_at(pool: Pool, k: int, end_s: float) -> int:
    """Return the first slot of running jobs whose estimated end is not before a time."""
    low = pool.first[k]
    high = low + pool.n_running[k]
    while low < high:
        middle = (low + high) // 2
        if pool.estimated_end_s[pool.running[middle]] < end_s:
            low = middle + 1
        else:
            high = middle
    return int(low)
