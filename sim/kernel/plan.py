"""The plan of a partition: how many processors are free when, and when a job can start.

A plan is a list of steps: a number of processors is free from a time until the time of the next
step, or for ever. The first step is now. Partition k has `PartitionState.n_steps` of them, from
slot `PartitionState.first_step` on. A job occupies its processors for its estimate, and for at
least 1 s.
"""

import math

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
    here.first_step = here.plan_slot
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
def advance(pool: Pool, k: int, now_s: float) -> None:
    """Advance the start of a plan to now by dropping the steps before it.

    The plan moves back to its first slot when it has dropped as many steps as it has.
    """
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    first, last = here.first_step, here.first_step + here.n_steps - 1
    while first < last and (
        steps_s[first + 1] <= now_s or steps_free[first + 1] == steps_free[first]
    ):
        first += 1
    steps_s[first] = now_s
    here.first_step, here.n_steps = first, last + 1 - first
    if first - here.plan_slot > here.n_steps:
        _slide(pool, first, last + 1, here.plan_slot - first)
        here.first_step = here.plan_slot


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
def first_fit(
    pool: Pool, k: int, procs: int, length_s: float, from_s: float, before_s: float, until_s: float
) -> float:
    """Return the first start of a job in a plan that is not before `from_s`, or infinity.

    It lies before `before_s`, and the job ends at `until_s` or earlier.
    """
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    start, end = here.first_step, here.first_step + here.n_steps
    if from_s > steps_s[start]:
        start = step_at(pool, k, from_s)
        if steps_s[start] < from_s:
            start += 1
    i = start
    while start < end and steps_s[start] < before_s and steps_s[start] + length_s <= until_s:
        behind_s = steps_s[start] + length_s
        while i < end and steps_free[i] >= procs and steps_s[i] < behind_s:
            i += 1
        if i == end or steps_s[i] >= behind_s:
            return steps_s[start]
        while i < end and steps_free[i] < procs:
            i += 1
        start = i
    return math.inf


@kernel
def free_since(pool: Pool, k: int, procs: int, time_s: float) -> float:
    """Return from when on so many processors are free until a time; that time if they are not."""
    here = pool.partitions[k]
    i = step_at(pool, k, time_s)
    if pool.steps_s[i] == time_s:
        i -= 1
    since_s = time_s
    while i >= here.first_step and pool.steps_free[i] >= procs:
        since_s = pool.steps_s[i]
        i -= 1
    return since_s


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


@kernel
def _slide(pool: Pool, low: int, high: int, by: int) -> None:
    """Move the steps in the slots from `low` to before `high` by a number of slots."""
    steps_s, steps_free = pool.steps_s, pool.steps_free
    if by < 0:
        for slot in range(low, high):
            steps_s[slot + by] = steps_s[slot]
            steps_free[slot + by] = steps_free[slot]
    elif by > 0:
        for slot in range(high - 1, low - 1, -1):
            steps_s[slot + by] = steps_s[slot]
            steps_free[slot + by] = steps_free[slot]


@kernel
def change(  # noqa: PLR0912, PLR0915 - a kernel calls nothing it can spare
    pool: Pool, k: int, start_s: float, end_s: float, procs: int
) -> int:
    """Do as `occupy` does, and merge steps of equal free processors at both ends.

    Only the steps from the one end to the other move, and those on the shorter side if the number
    of steps changes. Return the largest number of processors that are then free in the time span.
    """
    if end_s <= start_s:
        return 0
    here = pool.partitions[k]
    steps_s, steps_free = pool.steps_s, pool.steps_free
    first, end = here.first_step, here.first_step + here.n_steps
    i = step_at(pool, k, start_s)
    more_at_start, more_at_end = 0, 0
    before = steps_free[i]
    if steps_s[i] != start_s:
        more_at_start = 1
    elif i > first and before - procs == steps_free[i - 1]:
        more_at_start = -1
    most, after = before - procs, before
    inner = i + 1
    behind = inner
    while behind < end and steps_s[behind] < end_s:
        after = steps_free[behind]
        steps_free[behind] = after - procs
        most = max(most, after - procs)
        behind += 1
    if behind == end or steps_s[behind] != end_s:
        more_at_end = 1
    elif steps_free[behind] == after - procs:
        more_at_end = -1
    if more_at_start == 0:
        steps_free[i] = before - procs
    more = more_at_start + more_at_end
    rest = behind + 1 if more_at_end < 0 else behind
    kept = i if more_at_start < 0 else inner
    if more == 0:
        _slide(pool, inner, behind, more_at_start)
        kept_by = 0
    elif end - rest <= kept - first or first - more < here.plan_slot:
        if more > 0:
            _slide(pool, rest, end, more)
            _slide(pool, inner, behind, more_at_start)
        else:
            _slide(pool, inner, behind, more_at_start)
            _slide(pool, rest, end, more)
        kept_by = 0
    else:
        if more > 0:
            _slide(pool, first, kept, -more)
            _slide(pool, inner, behind, -more_at_end)
        else:
            _slide(pool, inner, behind, -more_at_end)
            _slide(pool, first, kept, -more)
        kept_by = -more
        here.first_step -= more
    here.n_steps += more
    if more_at_start > 0:
        steps_s[kept + kept_by], steps_free[kept + kept_by] = start_s, before - procs
    if more_at_end > 0:
        slot = behind + more_at_start + kept_by
        steps_s[slot], steps_free[slot] = end_s, after
    return most
