"""Neighbours of a configuration, nearest first: `ParameterSpace.open_by_distance` in kernel text.

Which configurations are at which distance follows from the space alone, so what was looked up once
is kept. Configurations of one distance stand in the order in which `strategies.neighbourhood`
numbers them, before its shuffle: by their steps per parameter in lexicographic order, then the
first parameter's levels moving fastest, by id, from where the number within the distance leads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.episodes.ground import Ground, Whole, widest
from agents.episodes.jit import kernel

SEARCH_BOUND = 200
"""Nearest combinations that a local search looks at; `strategies.grasp.SEARCH_BOUND`."""

MOST_BYTES = 2**26
"""For what is kept; beyond it neighbourhoods push each other out."""

NOBODY = -1


class Near(NamedTuple):
    """Neighbourhoods that were looked up; one slot each, by the centre modulo their number.

    Args:
        centres: int64 [slots], whose neighbourhood it is; `NOBODY` where it is empty.
        indices: int32 [slots, width], neighbours, nearest first.
        ends: int32 [slots, width], running counts of those at each distance.
        n_groups: int32 [slots], how many distances there are, until `SEARCH_BOUND` is reached.
    """

    centres: Whole
    indices: NDArray[np.int32]
    ends: NDArray[np.int32]
    n_groups: NDArray[np.int32]


def near_of(ground: Ground, most_bytes: int = MOST_BYTES) -> Near:
    """Return room for neighbourhoods, all empty."""
    size = ground.quality.size
    width = min(SEARCH_BOUND + widest(ground), size)
    slots = max(1, min(size, most_bytes // (8 * width)))
    return Near(
        centres=np.full(slots, NOBODY, dtype=np.int64),
        indices=np.empty((slots, width), dtype=np.int32),
        ends=np.empty((slots, width), dtype=np.int32),
        n_groups=np.empty(slots, dtype=np.int32),
    )


@kernel
def choices(ground: Ground, i: int, level_id: int, steps: int) -> int:
    """Count the levels of parameter i that are so many steps away from a level."""
    if steps == 0:
        return 1
    n = ground.n_levels[i]
    if ground.ordinal[i] == 0:
        return n - 1  # type: ignore[no-any-return]
    rank = ground.ranks[ground.first[i] + level_id]
    return (1 if rank >= steps else 0) + (1 if rank + steps < n else 0)


@kernel
def choice(ground: Ground, i: int, level_id: int, steps: int, entry: int) -> int:
    """Return the level id at a place among `choices`, which are in the order of ids."""
    if steps == 0:
        return level_id
    if ground.ordinal[i] == 0:
        return entry if entry < level_id else entry + 1
    first = ground.first[i]
    rank = ground.ranks[first + level_id]
    lower = ground.by_rank[first + max(rank - steps, 0)]
    upper = ground.by_rank[first + min(rank + steps, ground.n_levels[i] - 1)]
    if rank < steps:
        return upper  # type: ignore[no-any-return]
    if rank + steps >= ground.n_levels[i]:
        return lower  # type: ignore[no-any-return]
    return min(lower, upper) if entry == 0 else max(lower, upper)  # type: ignore[no-any-return]


@kernel
def count(ground: Ground, row: int, centre: int) -> int:
    """Count the configurations that a combination of steps leads to from a centre."""
    n = 1
    for i in range(ground.n_levels.size):
        n *= choices(ground, i, ground.level_ids[centre, i], ground.steps[row, i])
    return n


@kernel
def at_number(ground: Ground, row: int, number: int, centre: int) -> int:
    """Return the configuration that a number stands for; as many in a row as `count` counts differ.

    Args:
        ground: of the space.
        row: of `Ground.steps`.
        number: within the distance, from 0.
        centre: where the steps begin.
    """
    found = 0
    for i in range(ground.n_levels.size):
        level_id = ground.level_ids[centre, i]
        n = choices(ground, i, level_id, ground.steps[row, i])
        found += choice(ground, i, level_id, ground.steps[row, i], number % n) * ground.strides[i]
        number //= n
    return found


@kernel
def nearest(ground: Ground, near: Near, centre: int) -> int:
    """Return the slot with the neighbourhood of a centre, looked up now or before."""
    slot = centre % near.centres.size
    if near.centres[slot] == centre:
        return slot
    listed, n_groups = 0, 0
    for group in range(1, ground.groups.size - 1):  # group 0 is the centre itself
        if listed >= SEARCH_BOUND:
            break
        before = listed
        for row in range(ground.groups[group], ground.groups[group + 1]):
            for _ in range(count(ground, row, centre)):
                near.indices[slot, listed] = at_number(ground, row, listed - before, centre)
                listed += 1
        if listed > before:
            near.ends[slot, n_groups] = listed
            n_groups += 1
    near.n_groups[slot] = n_groups
    near.centres[slot] = centre
    return slot
