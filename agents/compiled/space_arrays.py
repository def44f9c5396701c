"""Arrays of a space, of a strategy's state and of neighbourhoods, for compiled functions.

Configurations are flat indices of the full product, the last parameter moving fastest. Levels of
all parameters stand in one row, those of the first parameter first. Neighbours are listed nearest
first, as by `ParameterSpace.open_by_distance`.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.compiled.jit import kernel

Whole = NDArray[np.int64]
Real = NDArray[np.float64]
Flags = NDArray[np.uint8]


FREE, TAKEN = 0, 1  # Whether a configuration may be suggested (not suggested or run before)


class SpaceArrays(NamedTuple):
    """Read-only arrays of a parameter space and the quality of each configuration."""

    n_levels: Whole  # int64 [d], levels per parameter
    first: Whole  # int64 [d], position of a parameter's first level in the row of all levels
    strides: Whole  # int64 [d], difference of flat indices between two levels
    ordinal: Flags  # uint8 [d], 1 where distances count steps, 0 where all levels are equally far
    ranks: Whole  # int64 [levels], rank of each level within its parameter
    by_rank: Whole  # int64 [levels], level id of each rank
    # int64 [m, d], all combinations of steps away from a configuration (0 or 1 for a nominal
    # parameter), by the distance that they make, then in lexicographic order
    steps: Whole
    groups: Whole  # int64 [g + 1], rows of ``steps`` where a new distance begins; the end at last
    level_ids: Whole  # int64 [size, d]
    quality: Real  # float64 [size], NaN where a run fails
    # int64 [size], position of the quality among the distinct ones, ascending; -1 where a run
    # fails
    grades: Whole


class StrategyArrays(NamedTuple):
    """Arrays of a compiled strategy: its state and working memory."""

    taken: Flags  # uint8 [size], `FREE` or `TAKEN`
    sums: Real  # float64 [levels], sums of results relative to the first one, in their order
    counts: Whole  # int64 [levels], results per level
    origin: Real  # float64 [1], quality of the first result
    tally: Whole  # int64 [2], numbers of results and of free configurations
    candidates: Whole  # int64 [levels], level ids that a construction draws from
    n_candidates: Whole  # int64 [d], number of candidates of each parameter
    batch: Whole  # int64 [n], suggestions of the batch
    order: Whole  # int64 [widest], scratch of the local search


def space_arrays_of(parameters: Sequence[Any], quality: Real) -> SpaceArrays:
    """Return the arrays of a parameter space that has no exclusions and no closed levels.

    ``quality`` is float64 [size], maximised, NaN where a run fails.
    """
    n_levels = [int(parameter.n_levels) for parameter in parameters]
    steps, groups = _steps(parameters)
    succeeded = ~np.isnan(quality)
    grades = np.full(quality.size, -1, dtype=np.int64)
    grades[succeeded] = np.unique(quality[succeeded], return_inverse=True)[1]
    ranks = [parameter.ranks for parameter in parameters]
    level_ids = np.stack(np.unravel_index(np.arange(quality.size), n_levels), axis=1)
    return SpaceArrays(
        n_levels=_whole(n_levels),
        first=_whole([0, *itertools.accumulate(n_levels[:-1])]),
        strides=_whole([math.prod(n_levels[i + 1 :]) for i in range(len(n_levels))]),
        ordinal=np.array([p.kind == "ordinal" for p in parameters], dtype=np.uint8),
        ranks=_whole([rank for level_ranks in ranks for rank in level_ranks]),
        by_rank=_whole(
            [
                i
                for level_ranks in ranks
                for i in sorted(range(len(level_ranks)), key=level_ranks.__getitem__)
            ]
        ),
        steps=steps,
        groups=groups,
        level_ids=np.ascontiguousarray(level_ids, dtype=np.int64),
        quality=np.array(quality, dtype=np.float64),
        grades=grades,
    )


def strategy_arrays(ground: SpaceArrays, longest_batch: int) -> StrategyArrays:
    """Return the arrays of a compiled strategy in the state before the first run."""
    size, n_levels = ground.quality.size, int(ground.n_levels.sum())
    arrays = StrategyArrays(
        taken=np.empty(size, dtype=np.uint8),
        sums=np.empty(n_levels),
        counts=np.empty(n_levels, dtype=np.int64),
        origin=np.empty(1),
        tally=np.empty(2, dtype=np.int64),
        candidates=np.empty(n_levels, dtype=np.int64),
        n_candidates=np.empty(ground.n_levels.size, dtype=np.int64),
        batch=np.empty(longest_batch, dtype=np.int64),
        order=np.empty(widest(ground), dtype=np.int64),
    )
    clear(arrays)
    return arrays


def clear(used: StrategyArrays) -> None:
    """Reset the arrays of a compiled strategy to the state before the first run."""
    used.taken[:] = FREE
    used.sums[:] = 0.0
    used.counts[:] = 0
    used.tally[0] = 0
    used.tally[1] = used.taken.size


def widest(ground: SpaceArrays) -> int:
    """Return the largest possible number of neighbours at one distance from a configuration."""
    choices = np.where(ground.ordinal == 1, 2, np.maximum(ground.n_levels - 1, 1))
    widths = np.prod(np.where(ground.steps == 0, 1, choices), axis=1)
    return int(np.add.reduceat(widths, ground.groups[:-1]).max())


def _steps(parameters: Sequence[Any]) -> tuple[Whole, Whole]:
    """Return `SpaceArrays.steps` and `.groups`; distances are whole, so that ties are exact."""
    ordinal = [p.kind == "ordinal" and p.n_levels > 1 for p in parameters]
    scale = math.lcm(
        *((p.n_levels - 1) ** 2 for p, o in zip(parameters, ordinal, strict=True) if o)
    )
    terms = []
    for parameter, is_ordinal in zip(parameters, ordinal, strict=True):
        n = parameter.n_levels
        if is_ordinal:
            terms.append([step * step * (scale // (n - 1) ** 2) for step in range(n)])
        else:
            terms.append([0, scale][: min(n, 2)])
    kind: Any = np.int64 if scale * len(terms) < 2**62 else object
    counts = [len(distances) for distances in terms]
    steps = np.stack(np.unravel_index(np.arange(math.prod(counts)), counts), axis=1)
    total = sum(np.array(distances, dtype=kind)[steps[:, i]] for i, distances in enumerate(terms))
    distance = np.unique(total, return_inverse=True)[1]
    order = np.argsort(distance, kind="stable")  # rows are in lexicographic order
    starts = np.flatnonzero(np.diff(distance[order], prepend=-1))
    return (
        np.ascontiguousarray(steps[order], dtype=np.int64),
        _whole([*starts.tolist(), len(order)]),
    )


def _whole(values: Sequence[int]) -> Whole:
    return np.array(values, dtype=np.int64)


SEARCH_BOUND = 200
"""Nearest combinations that a local search examines; `strategies.samplers.copper.SEARCH_BOUND`."""

MOST_BYTES = 2**26  # Memory of the cached neighbourhoods; beyond it they replace each other

NOBODY = -1


class NeighbourCache(NamedTuple):
    """Direct-mapped cache of the neighbours of configurations."""

    centres: Whole  # int64 [slots], centre of each neighbourhood; `NOBODY` where the slot is empty
    indices: NDArray[np.int32]  # int32 [slots, width], neighbours, nearest first
    ends: NDArray[np.int32]  # int32 [slots, width], running counts of those at each distance
    # int32 [slots], number of distances until `SEARCH_BOUND` is reached
    n_groups: NDArray[np.int32]


def neighbour_cache(ground: SpaceArrays, most_bytes: int = MOST_BYTES) -> NeighbourCache:
    """Return an empty neighbour cache of about `most_bytes` bytes at most."""
    size = ground.quality.size
    width = min(SEARCH_BOUND + widest(ground), size)
    slots = max(1, min(size, most_bytes // (8 * width)))
    return NeighbourCache(
        centres=np.full(slots, NOBODY, dtype=np.int64),
        indices=np.empty((slots, width), dtype=np.int32),
        ends=np.empty((slots, width), dtype=np.int32),
        n_groups=np.empty(slots, dtype=np.int32),
    )


@kernel
def choices(ground: SpaceArrays, i: int, level_id: int, steps: int) -> int:
    """Return how many levels of parameter i are exactly `steps` steps from a level."""
    if steps == 0:
        return 1
    n = ground.n_levels[i]
    if ground.ordinal[i] == 0:
        return n - 1  # type: ignore[no-any-return]
    rank = ground.ranks[ground.first[i] + level_id]
    return (1 if rank >= steps else 0) + (1 if rank + steps < n else 0)


@kernel
def choice(ground: SpaceArrays, i: int, level_id: int, steps: int, entry: int) -> int:
    """Return the id of level `entry` of those that are exactly `steps` steps from a level."""
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
def count(ground: SpaceArrays, row: int, centre: int) -> int:
    """Count the configurations at a given number of steps per parameter from a centre."""
    n = 1
    for i in range(ground.n_levels.size):
        n *= choices(ground, i, ground.level_ids[centre, i], ground.steps[row, i])
    return n


@kernel
def at_number(ground: SpaceArrays, row: int, number: int, centre: int) -> int:
    """Return the flat index of one of the configurations at given steps from a centre.

    ``row`` is a row of `SpaceArrays.steps`, ``centre`` the flat index where the steps begin.
    """
    flat_index = 0
    for i in range(ground.n_levels.size):
        level_id = ground.level_ids[centre, i]
        n = choices(ground, i, level_id, ground.steps[row, i])
        flat_index += (
            choice(ground, i, level_id, ground.steps[row, i], number % n) * ground.strides[i]
        )
        number //= n
    return flat_index


@kernel
def nearest(ground: SpaceArrays, near: NeighbourCache, centre: int) -> int:
    """Return the cache slot of a centre's nearest neighbours, after filling it if necessary."""
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
