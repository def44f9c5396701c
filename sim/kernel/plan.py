"""The plan of a partition: how many processors are free when, and when a job can start.

A plan is a list of steps: a number of processors is free from a time until the time of the next
step, or for ever. The first step is now. Partition k has `PartitionState.n_steps` of them, from
slot `PartitionState.first_step` on. A job occupies its processors for its estimate, and for at
least 1 s.
"""

from sim.kernel.jit import kernel
from sim.kernel.policy_context import AHEAD, OPEN, PLANNED
from sim.kernel.pool import Pool, sort_running

LEAST_S = 1.0


@kernel
def planned_s(estimate_s: float) -> float:
    """Return the seconds for which a plan reserves processors for a job, always above 0."""
    return estimate_s if estimate_s > 0.0 else LEAST_S


@kernel
def plan_running(pool: Pool, k: int, now_s: float) -> None:
    """Rebuild the plan of partition k from known windows and running jobs' estimates."""
    here = pool.partitions[k]
    sort_running(pool, k)
    steps_s, steps_free = pool.steps_s, pool.steps_free
    free, last = here.free, here.first_step
    if here.n_windows > 0:
        free += _closed(pool, k)
    steps_s[last], steps_free[last] = now_s, free
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.jobs[pool.running[slot]]
        free += job.procs
        if job.estimated_end_s > steps_s[last]:
            last += 1
            steps_s[last] = job.estimated_end_s
        steps_free[last] = free
    here.n_steps = last + 1 - here.first_step
    if here.n_windows > 0:
        _close(pool, k, now_s)


@kernel
def _closed(pool: Pool, k: int) -> int:
    """Return how many processors of partition k the open windows need."""
    procs = 0
    for i in range(len(pool.terms.windows)):
        window = pool.terms.windows[i]
        if window.place == k and window.state == OPEN:
            procs += window.procs
    return procs


@kernel
def _close(pool: Pool, k: int, now_s: float) -> None:
    """Occupy the processors of the windows of partition k that are open or planned."""
    for i in range(len(pool.terms.windows)):
        window = pool.terms.windows[i]
        is_planned = window.kind == PLANNED and window.state == AHEAD
        if window.place == k and (window.state == OPEN or is_planned):
            occupy(pool, k, max(now_s, window.from_s), window.until_s, window.procs)


@kernel
def move_on(pool: Pool, k: int, now_s: float) -> None:
    """Advance the start of a plan to now and merge steps of equal free processors."""
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    first, end = here.first_step, here.first_step + here.n_steps
    i = first
    while i + 1 < end and steps_s[i + 1] <= now_s:
        i += 1
    free, n = steps_free[i], 1
    steps_s[first], steps_free[first] = now_s, free
    for i in range(i + 1, end):  # noqa: B020 - from where the past ends
        if steps_free[i] != free:
            free = steps_free[i]
            steps_s[first + n], steps_free[first + n] = steps_s[i], free
            n += 1
    here.n_steps = n


@kernel
def is_free(pool: Pool, k: int, procs: int, until_s: float) -> bool:
    """Return whether processors are free from now until a time."""
    here = pool.partitions[k]
    i, end = here.first_step, here.first_step + here.n_steps
    while i < end and (i == here.first_step or pool.steps_s[i] < until_s):
        if pool.steps_free[i] < procs:
            return False
        i += 1
    return True


@kernel
def earliest(pool: Pool, k: int, procs: int, length_s: float) -> float:
    """Return the first time at which a job of given width and length fits into a plan.

    It exists if the partition has enough processors, because the last step never ends.
    """
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    start = i = here.first_step
    end = start + here.n_steps
    while i < end:
        if i > start and steps_s[i] >= steps_s[start] + length_s:
            break
        if steps_free[i] < procs:
            start = i + 1
        i += 1
    return steps_s[min(start, end - 1)]


@kernel
def earlier(
    pool: Pool, k: int, procs: int, length_s: float, planned_at_s: float, before_s: float
) -> float:
    """Return the first earlier start possible for a planned job, or its planned start.

    The processors that the job itself occupies count as free. An earlier start lies before
    `before_s`.
    """
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    start = i = here.first_step
    end, behind_s = start + here.n_steps, planned_at_s + length_s
    before_s = min(before_s, planned_at_s)
    while start < end and steps_s[start] < before_s:
        if i == end or (i > start and steps_s[i] >= steps_s[start] + length_s):
            return steps_s[start]
        if steps_free[i] < procs and not planned_at_s <= steps_s[i] < behind_s:
            start = i + 1
        i += 1
    return planned_at_s


@kernel
def most_free(pool: Pool, k: int, before_s: float) -> int:
    """Return the maximum number of free processors in a plan before the time `before_s`."""
    here = pool.partitions[k]
    i, end, most = here.first_step, here.first_step + here.n_steps, 0
    while i < end and pool.steps_s[i] < before_s:
        most = max(most, pool.steps_free[i])
        i += 1
    return most


@kernel
def step_at(pool: Pool, k: int, time_s: float) -> int:
    """Return the slot of the last step of a plan that begins at a time or before it."""
    here = pool.partitions[k]
    low, high = here.first_step, here.first_step + here.n_steps - 1
    while low < high:
        middle = (low + high + 1) >> 1
        if pool.steps_s[middle] <= time_s:
            low = middle
        else:
            high = middle - 1
    return low


@kernel
def _split(pool: Pool, k: int, time_s: float) -> int:
    """Make sure that a step exists at a time, which is not in the past, and return its slot."""
    here = pool.partitions[k]
    i = step_at(pool, k, time_s)
    if pool.steps_s[i] == time_s:
        return i
    for slot in range(here.first_step + here.n_steps, i + 1, -1):
        pool.steps_s[slot] = pool.steps_s[slot - 1]
        pool.steps_free[slot] = pool.steps_free[slot - 1]
    pool.steps_s[i + 1] = time_s
    pool.steps_free[i + 1] = pool.steps_free[i]
    here.n_steps += 1
    return i + 1


@kernel
def occupy(pool: Pool, k: int, start_s: float, end_s: float, procs: int) -> None:
    """Reserve processors in a plan for a time span, or release them if `procs` is negative."""
    first = _split(pool, k, start_s)
    for slot in range(first, _split(pool, k, end_s)):
        pool.steps_free[slot] -= procs
