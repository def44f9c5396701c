"""FCFS and EASY as one would write them in an afternoon with Numba alone.

One loop over arrivals and ends for one partition, and nothing else: no orders, rules, limits or
windows, no checks, no result but the start times. No code of ours is used but the workload's
columns, so it also judges the schedules of `sim`: start times must be equal.
"""

import math
from typing import Any

import numba
import numpy as np

from sim import Workload


def fcfs(workload: Workload, procs: int) -> list[float]:
    """Return start times in seconds by row, first come, first served, without backfilling."""
    return _starts(workload, procs, backfills=False)


def easy(workload: Workload, procs: int) -> list[float]:
    """Return start times in seconds by row, first come, first served with EASY backfilling.

    EASY as in Mu'alem & Feitelson (2001), with estimates max(requested, run time).
    """
    return _starts(workload, procs, backfills=True)


def _starts(workload: Workload, procs: int, *, backfills: bool) -> list[float]:
    start_s: list[float] = columns(workload, procs, backfills=backfills).tolist()
    return start_s


def columns(workload: Workload, procs: int, *, backfills: bool) -> Any:
    """Return the start times as an array, which is what the kernel alone takes."""
    estimate_s = np.maximum(workload.requested_s, workload.runtime_s)
    start_s = np.empty(workload.n_jobs)
    args = workload.submit_s, workload.runtime_s, estimate_s, workload.procs
    _simulate(*args, procs, backfills, start_s)
    return start_s


_njit: Any = numba.njit


@_njit
def _push(keys: Any, jobs: Any, n: int, key: float, job: int) -> None:
    slot = n
    while slot > 0 and keys[(slot - 1) >> 1] > key:
        keys[slot], jobs[slot] = keys[(slot - 1) >> 1], jobs[(slot - 1) >> 1]
        slot = (slot - 1) >> 1
    keys[slot], jobs[slot] = key, job


@_njit
def _pop(keys: Any, jobs: Any, n: int) -> None:
    key, job = keys[n - 1], jobs[n - 1]
    slot, child = 0, 1
    while child < n - 1:
        if child + 1 < n - 1 and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[slot], jobs[slot] = keys[child], jobs[child]
        slot, child = child, 2 * child + 1
    keys[slot], jobs[slot] = key, job


@_njit
def _simulate(  # noqa: PLR0912, PLR0915 - one loop, as one would write it
    submit_s: Any, runtime_s: Any, estimate_s: Any, procs: Any, total: int, backfills: bool,
    start_s: Any,
) -> None:  # fmt: skip
    """Simulate one partition.

    `running` is sorted by estimated end. While only jobs arrive and the head stays blocked, the
    reservation holds, and only new jobs can start.
    """
    n = len(submit_s)
    ends_s, ending = np.empty(n), np.empty(n, dtype=np.int64)
    running, until_s = np.empty(n, dtype=np.int64), np.empty(n)
    queue = np.empty(n, dtype=np.int64)
    n_ending, n_running, head, tail, coming, free = 0, 0, 0, 0, 0, total
    seen, shadow_s, extra = 0, 0.0, 0
    while coming < n or n_ending > 0:
        now_s = ends_s[0] if n_ending > 0 else math.inf
        if coming < n and submit_s[coming] < now_s:
            now_s = submit_s[coming]
        while n_ending > 0 and ends_s[0] == now_s:
            job = ending[0]
            _pop(ends_s, ending, n_ending)
            n_ending -= 1
            free += procs[job]
            if backfills:
                low, high = 0, n_running
                while low < high:
                    middle = (low + high) >> 1
                    if until_s[running[middle]] < until_s[job]:
                        low = middle + 1
                    else:
                        high = middle
                while running[low] != job:
                    low += 1
                for slot in range(low, n_running - 1):
                    running[slot] = running[slot + 1]
                n_running -= 1
            seen = head
        while coming < n and submit_s[coming] == now_s:
            queue[tail] = coming
            tail += 1
            coming += 1
        slot, keeps, is_blocked = head, head, False
        if seen > head:
            slot, keeps, is_blocked = seen, seen, True
        while slot < tail:
            job = queue[slot]
            width = procs[job]
            if not is_blocked and width > free:
                is_blocked = True
                if not backfills:
                    break
                left, shadow_s = free, now_s
                for i in range(n_running):
                    if left >= width and until_s[running[i]] > shadow_s:
                        break
                    left += procs[running[i]]
                    shadow_s = until_s[running[i]]
                extra = left - width
                queue[keeps] = job
                keeps += 1
                slot += 1
                continue
            if is_blocked:
                if free == 0:
                    break
                in_time = now_s + estimate_s[job] <= shadow_s
                if width > free or (not in_time and width > extra):
                    queue[keeps] = job
                    keeps += 1
                    slot += 1
                    continue
                if not in_time:
                    extra -= width
            start_s[job] = now_s
            free -= width
            _push(ends_s, ending, n_ending, now_s + runtime_s[job], job)
            n_ending += 1
            if backfills:
                until_s[job] = now_s + estimate_s[job]
                place = n_running
                while place > 0 and until_s[running[place - 1]] > until_s[job]:
                    running[place] = running[place - 1]
                    place -= 1
                running[place] = job
                n_running += 1
            if not is_blocked:
                head += 1
                keeps = head
            slot += 1
        if is_blocked and backfills:
            while slot < tail:
                queue[keeps] = queue[slot]
                keeps += 1
                slot += 1
            tail = keeps
            seen = tail
        if head == tail:
            head = tail = seen = 0
