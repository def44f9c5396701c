"""Future ends that may be moved: a binary heap that knows where each instance is in it.

Which of two equal times comes first does not matter: an instant is a set.
"""

from sim.kernel.text import kernel


@kernel
def put(times_s: list[float], held: list[int], slot_of: list[int], n: int, one: int,
        time_s: float) -> int:  # fmt: skip
    """Put something into a heap of n, or move it there if it is in it (its slot is not -1).

    Returns:
        How many are in it then.
    """
    slot = slot_of[one]
    if slot < 0:
        slot = n
        n += 1
    elif times_s[slot] < time_s:
        _sink(times_s, held, slot_of, n, slot, one, time_s)
        return n
    while slot > 0:
        above = (slot - 1) >> 1
        if times_s[above] <= time_s:
            break
        times_s[slot], held[slot] = times_s[above], held[above]
        slot_of[held[slot]] = slot
        slot = above
    times_s[slot], held[slot] = time_s, one
    slot_of[one] = slot
    return n


@kernel
def drop_first(times_s: list[float], held: list[int], slot_of: list[int], n: int) -> int:
    """Take the top off a heap of n. Return how many are in it then."""
    slot_of[held[0]] = -1
    n -= 1
    if n > 0:
        _sink(times_s, held, slot_of, n, 0, held[n], times_s[n])
    return n


@kernel
def _sink(times_s: list[float], held: list[int], slot_of: list[int], n: int, slot: int, one: int,
          time_s: float) -> None:  # fmt: skip
    """Find the place of something from a slot on downwards, in a heap of n."""
    below = 2 * slot + 1
    while below < n:
        if below + 1 < n and times_s[below + 1] < times_s[below]:
            below += 1
        if times_s[below] >= time_s:
            break
        times_s[slot], held[slot] = times_s[below], held[below]
        slot_of[held[slot]] = slot
        slot, below = below, 2 * below + 1
    times_s[slot], held[slot] = time_s, one
    slot_of[one] = slot
