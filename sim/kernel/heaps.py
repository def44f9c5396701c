"""Heaps of future ends: binary heaps over columns, with the earliest end on top.

`push`, `pop` and `withdraw` work on a heap of job ends. `put` and `drop_first` work on a heap whose
ends can be moved; it knows the slot of each instance. The order of equal times does not matter,
because an instant is a set.
"""

from sim.kernel.jit import kernel


@kernel
def push(times_s: list[float], jobs: list[int], n: int, time_s: float, job: int) -> None:
    """Add the end of a job to a heap of n entries."""
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
    """Remove the earliest end from a heap of n entries."""
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
    """Remove the end of a job from a heap of n entries and return the new number of entries."""
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
    """Put an end into a heap of n entries, or move it if its slot is not -1; return the new n."""
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
