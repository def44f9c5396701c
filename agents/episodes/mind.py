"""The analyst's intuition and learning in kernel text; `agents.analyst` says what they do.

The steps are those of `agents.intuition` and `agents.learning`, draw for draw and sum for sum. One
thing is done otherwise with the same outcome: the median of what she has seen is not looked up in a
sorted list but followed by a pointer over the distinct qualities of the table.
"""

from typing import NamedTuple

from agents.episodes.ground import FREE, Desk, Flags, Ground, Real, Whole
from agents.episodes.jit import kernel
from agents.episodes.stream import Words, uniform

TRIES = 32
"""Draws that may meet a configuration that has a run; `agents.intuition.TRIES`."""

SUBSET, LEVELS, SPACE = 0, 1, 2
"""Wells, where a configuration of her own was drawn from; Copperline's are from none of them."""

N_FREE, N_SEEN, MEDIAN, N_BELOW = 0, 1, 2, 3
"""Places in `Mind.tally`: members without a run, qualities seen, the grade of the one at position
``n // 2`` of them in ascending order, how many of them are below that."""


class Mind(NamedTuple):
    """What one analyst believes and has seen.

    Args:
        learns: 1 if results move her, else 0.
        gain: factor by which a weight grows in a good result, and shrinks in a bad one.
        most: greatest weight; the smallest is 1 / most.
        members: int64 [m], her subset, none without insight.
        weights: float64 [m], of its members.
        cumulative: float64 [m], their running sums.
        is_member: uint8 [size].
        levels: float64 [levels], weights of the levels; read if she learns.
        totals: float64 [d], scratch for their sums.
        trust: float64 [2], weights of subset and levels.
        seen: int64 [grades], how often she has seen each distinct quality.
        tally: int64 [4], see `N_FREE` and what follows it.
        state: uint64 [6], the stream "intuition".
    """

    learns: int
    gain: float
    most: float
    members: Whole
    weights: Real
    cumulative: Real
    is_member: Flags
    levels: Real
    totals: Real
    trust: Real
    seen: Whole
    tally: Whole
    state: Words


@kernel
def notice(mind: Mind, index: int) -> None:
    """Take notice of a run, whoever wanted it; it was free so far."""
    mind.tally[N_FREE] -= mind.is_member[index]


@kernel
def share_of(u: float, n: int) -> int:
    """Return the whole number from 0 to n - 1 that a draw from [0, 1) stands for."""
    return min(int(u * n), n - 1)


@kernel
def choose_well(mind: Mind) -> int:
    """Choose between the subset, the levels and the whole space."""
    if mind.tally[N_FREE] == 0:
        return LEVELS if mind.learns == 1 else SPACE
    if mind.learns == 0:
        return SUBSET
    target = uniform(mind.state) * (mind.trust[0] + mind.trust[1])
    return SUBSET if mind.trust[0] > target else LEVELS


@kernel
def from_subset(desk: Desk, mind: Mind) -> int:
    """Draw a free member of the subset; there is one."""
    n = mind.members.size
    for _ in range(TRIES):
        target = uniform(mind.state) * mind.cumulative[n - 1]
        at, end = 0, n
        while at < end:  # the first whose running sum exceeds the target
            middle = (at + end) // 2
            if mind.cumulative[middle] > target:
                end = middle
            else:
                at = middle + 1
        index = mind.members[min(at, n - 1)]
        if desk.taken[index] == FREE:
            return index  # type: ignore[no-any-return]
    total = 0.0
    for i in range(n):
        if desk.taken[mind.members[i]] == FREE:
            total += mind.weights[i]
    target, running, found = uniform(mind.state) * total, 0.0, -1
    for i in range(n):
        if desk.taken[mind.members[i]] == FREE:
            running += mind.weights[i]
            found = mind.members[i]
            if running > target:
                break
    return found


@kernel
def from_levels(ground: Ground, desk: Desk, mind: Mind) -> int:
    """Draw a free configuration level by level; -1 if that meets none."""
    d = ground.n_levels.size
    for i in range(d):
        total = 0.0
        for place in range(ground.first[i], ground.first[i] + ground.n_levels[i]):
            total += mind.levels[place]
        mind.totals[i] = total
    for _ in range(TRIES):
        index = 0
        for i in range(d):
            target, running = uniform(mind.state) * mind.totals[i], 0.0
            level_id, last = 0, ground.n_levels[i] - 1
            while level_id <= last:
                running += mind.levels[ground.first[i] + level_id]
                if running > target:
                    break
                level_id += 1
            index += min(level_id, last) * ground.strides[i]
        if desk.taken[index] == FREE:
            return index
    return -1


@kernel
def from_space(desk: Desk, mind: Mind, n_free: int) -> int:
    """Draw a free configuration of the whole space; there is one."""
    for _ in range(TRIES):
        index = share_of(uniform(mind.state), desk.taken.size)
        if desk.taken[index] == FREE:
            return index
    rest = share_of(uniform(mind.state), n_free)
    for index in range(desk.taken.size):
        if desk.taken[index] == FREE:
            if rest == 0:
                return index
            rest -= 1
    return -1


@kernel
def judge(mind: Mind, grade: int) -> int:
    """Judge a result by those before it, then remember it: 1 is good, -1 bad, 0 neither.

    Args:
        mind: hers.
        grade: place of the quality among the distinct ones; -1 is a failed run.
    """
    if grade < 0:
        return -1
    n = mind.tally[N_SEEN]
    verdict = 0
    if n == 0:
        mind.tally[MEDIAN] = grade
    else:
        median = mind.tally[MEDIAN]
        verdict = (1 if grade > median else 0) - (1 if grade < median else 0)
    mind.seen[grade] += 1
    mind.tally[N_SEEN] = n + 1
    if grade < mind.tally[MEDIAN]:
        mind.tally[N_BELOW] += 1
    position = (n + 1) // 2
    while mind.tally[N_BELOW] > position:
        mind.tally[MEDIAN] -= 1
        mind.tally[N_BELOW] -= mind.seen[mind.tally[MEDIAN]]
    while mind.tally[N_BELOW] + mind.seen[mind.tally[MEDIAN]] <= position:
        mind.tally[N_BELOW] += mind.seen[mind.tally[MEDIAN]]
        mind.tally[MEDIAN] += 1
    return verdict


@kernel
def moved(mind: Mind, weight: float, verdict: int) -> float:
    """Return a weight after a good or a bad result."""
    weight = weight * mind.gain if verdict > 0 else weight / mind.gain
    return min(max(weight, 1.0 / mind.most), mind.most)


@kernel
def learn(ground: Ground, mind: Mind, index: int, well: int) -> None:
    """See a result; one who does not learn is not moved by it.

    Args:
        ground: of the space.
        mind: hers.
        index: what was run.
        well: where it was drawn from; `SPACE` if it was not hers, too.
    """
    if mind.learns == 0:
        return
    verdict = judge(mind, ground.grades[index])
    if verdict == 0:
        return
    for i in range(ground.n_levels.size):
        place = ground.first[i] + ground.level_ids[index, i]
        mind.levels[place] = moved(mind, mind.levels[place], verdict)
    if well != SPACE:
        mind.trust[well] = moved(mind, mind.trust[well], verdict)
