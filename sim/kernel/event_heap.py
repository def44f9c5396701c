"""Heaps of future events: binary heaps over columns, with the earliest time on top."""

from sim.kernel.jit import kernel


@kernel
def push(times_s: list[float], jobs: list[int], n: int, time_s: float, job: int) -> None:
    """Add a job's time to a binary heap of n future times."""
    slot = n
    while slot > 0:
        above = (slot - 1) >> 1
        if times_s[above] <= time_s:
            break
        times_s[slot] = times_s[above]
        jobs[slot] = jobs[above]
        slot = above
    times_s[slot] = time_s
    jobs[slot] = job


@kernel
def pop(times_s: list[float], jobs: list[int], n: int) -> None:
    """Remove the earliest time, and its job, from a heap of n future times."""
    last = n - 1
    time_s, job = times_s[last], jobs[last]
    slot, below = 0, 1
    while below < last:
        if below + 1 < last and times_s[below + 1] < times_s[below]:
            below += 1
        if times_s[below] >= time_s:
            break
        times_s[slot] = times_s[below]
        jobs[slot] = jobs[below]
        slot, below = below, 2 * below + 1
    times_s[slot] = time_s
    jobs[slot] = job


@kernel
def withdraw(times_s: list[float], jobs: list[int], n: int, job: int) -> int:
    """Remove a job's end time from a heap of n future ends and return the new length."""
    slot = 0
    while jobs[slot] != job:
        slot += 1
    while slot > 0:  # to the top, as if it were earlier than all
        above = (slot - 1) >> 1
        times_s[slot], jobs[slot] = times_s[above], jobs[above]
        slot = above
    pop(times_s, jobs, n)
    return n - 1


@kernel
def put(times_s: list[float], instances: list[int], slot_of: list[int], n: int, instance: int,
        time_s: float) -> int:  # fmt: skip
    """Insert or move an instance's end time in a heap of n entries and return the new length."""
    slot = slot_of[instance]
    if slot < 0:
        slot = n
        n += 1
    elif times_s[slot] < time_s:
        _sink(times_s, instances, slot_of, n, slot, instance, time_s)
        return n
    while slot > 0:
        above = (slot - 1) >> 1
        if times_s[above] <= time_s:
            break
        times_s[slot], instances[slot] = times_s[above], instances[above]
        slot_of[instances[slot]] = slot
        slot = above
    times_s[slot], instances[slot] = time_s, instance
    slot_of[instance] = slot
    return n


@kernel
def drop_first(times_s: list[float], instances: list[int], slot_of: list[int], n: int) -> int:
    """Remove the earliest end from a heap of n entries and return the new number of entries."""
    slot_of[instances[0]] = -1
    n -= 1
    if n > 0:
        _sink(times_s, instances, slot_of, n, 0, instances[n], times_s[n])
    return n


@kernel
def _sink(times_s: list[float], instances: list[int], slot_of: list[int], n: int, slot: int,
          instance: int, time_s: float) -> None:  # fmt: skip
    """Move an entry down from a slot to its place in a heap of n entries."""
    below = 2 * slot + 1
    while below < n:
        if below + 1 < n and times_s[below + 1] < times_s[below]:
            below += 1
        if times_s[below] >= time_s:
            break
        times_s[slot], instances[slot] = times_s[below], instances[below]
        slot_of[instances[slot]] = slot
        slot, below = below, 2 * below + 1
    times_s[slot], instances[slot] = time_s, instance
    slot_of[instance] = slot
