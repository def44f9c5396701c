"""GRASP in kernel text: the suggestions of `strategies.Grasp`, draw for draw.

The steps and their names are those of `strategies.samplers.grasp`, on flat arrays. The numbers are
the same because level means are sums of the results relative to the first, in their order, over
their count (`DesignModel.fit`), and because neighbours of one distance are shuffled one draw at a
time in the order of `ParameterSpace`: by classes of distance, the first parameter's levels moving
fastest. Only level means (``effects="means"``), without exclusions and closed levels.
"""

import math
from typing import Any

from agents.compiled.jit import Words, below, kernel
from agents.compiled.space_arrays import (
    FREE,
    SEARCH_BOUND,
    TAKEN,
    NeighbourCache,
    SpaceArrays,
    StrategyArrays,
    nearest,
)

ROUNDS = 4
"""Rounds without a free configuration before a random one; `strategies.samplers.grasp.ROUNDS`."""

REJECTION_TRIES = 256
"""Random draws before free ones are listed, as in `strategies.space.parameter_space`."""


@kernel
def observe(ground: SpaceArrays, desk: StrategyArrays, index: int) -> None:
    """Add the result of a run to the level means; a failed run adds nothing."""
    quality = ground.quality[index]
    if math.isnan(quality):
        return
    if desk.tally[0] == 0:
        desk.origin[0] = quality
    desk.tally[0] += 1
    for i in range(ground.n_levels.size):
        place = ground.first[i] + ground.level_ids[index, i]
        desk.sums[place] += quality - desk.origin[0]
        desk.counts[place] += 1


@kernel
def take(desk: StrategyArrays, index: int) -> None:
    """Mark a configuration as taken."""
    if desk.taken[index] == FREE:
        desk.taken[index] = TAKEN
        desk.tally[1] -= 1


@kernel
def reduced_candidate_lists(ground: SpaceArrays, desk: StrategyArrays, beta: float) -> None:
    """List the level ids e with q(e) >= q_min + beta (q_max - q_min), and those without a run."""
    for i in range(ground.n_levels.size):
        first, n = ground.first[i], ground.n_levels[i]
        q_min, q_max = math.inf, -math.inf
        for place in range(first, first + n):
            if desk.counts[place] > 0:
                quality = desk.origin[0] + desk.sums[place] / desk.counts[place]
                q_min, q_max = min(q_min, quality), max(q_max, quality)
        threshold = q_max if beta == 1 else min(q_min + beta * (q_max - q_min), q_max)
        listed = 0
        for place in range(first, first + n):
            is_in = desk.counts[place] == 0
            if not is_in:
                is_in = desk.origin[0] + desk.sums[place] / desk.counts[place] >= threshold
            if is_in:
                desk.candidates[first + listed] = place - first
                listed += 1
        desk.n_candidates[i] = listed


@kernel
def construction(ground: SpaceArrays, desk: StrategyArrays, state: Words) -> Any:
    """Return one random element of the list for every parameter, as a flat index."""
    solution = 0
    for i in range(ground.n_levels.size):
        position = below(state, desk.n_candidates[i])
        solution += desk.candidates[ground.first[i] + position] * ground.strides[i]
    return solution


@kernel
def local_search(
    ground: SpaceArrays,
    near: NeighbourCache,
    desk: StrategyArrays,
    n: int,
    centre: int,
    state: Words,
    so_far: int,
) -> int:
    """Add up to n free neighbours of a solution to the batch, nearest first; return its length."""
    limit, n_visited, begin = so_far + n, 0, 0
    slot = nearest(ground, near, centre)
    for group in range(near.n_groups[slot]):
        total = near.ends[slot, group] - begin
        for at in range(total):
            desk.order[at] = near.indices[slot, begin + at]
        for at in range(total):
            if so_far == limit or n_visited == SEARCH_BOUND:
                return so_far
            position = at + below(state, total - at)
            index = desk.order[position]
            desk.order[position] = desk.order[at]
            n_visited += 1
            if desk.taken[index] == FREE:
                take(desk, index)
                desk.batch[so_far] = index
                so_far += 1
        begin += total
    return so_far


@kernel
def add_round(
    ground: SpaceArrays,
    near: NeighbourCache,
    desk: StrategyArrays,
    neighbours: int,
    state: Words,
    so_far: int,
) -> int:
    """Add one round of Algorithm 1 to the batch; return its length."""
    solution = construction(ground, desk, state)
    n = neighbours
    if desk.taken[solution] == FREE:
        take(desk, solution)
        desk.batch[so_far] = solution
        so_far += 1
    else:
        n = max(n, 1)
    return local_search(ground, near, desk, n, solution, state, so_far)


@kernel
def add_random(ground: SpaceArrays, desk: StrategyArrays, state: Words, so_far: int) -> int:
    """Add a random free configuration to the batch, if any; return its length."""
    if desk.tally[1] == 0:
        return so_far
    index = -1
    for _ in range(REJECTION_TRIES):
        candidate = 0
        for i in range(ground.n_levels.size):
            candidate += below(state, ground.n_levels[i]) * ground.strides[i]
        if desk.taken[candidate] == FREE:
            index = candidate
            break
    if index < 0:
        rest = below(state, desk.tally[1])
        for other in range(desk.taken.size):
            if desk.taken[other] == FREE:
                if rest == 0:
                    index = other
                    break
                rest -= 1
    take(desk, index)
    desk.batch[so_far] = index
    return so_far + 1


@kernel
def random_search(ground: SpaceArrays, desk: StrategyArrays, n: int, state: Words) -> int:
    """Fill the batch with ``n`` random configurations, as `strategies.RandomSearch` does.

    Returns their number; they are taken from now on.
    """
    so_far = 0
    while so_far < n:
        longer = add_random(ground, desk, state, so_far)
        if longer == so_far:
            break
        so_far = longer
    return so_far


@kernel
def suggest(
    ground: SpaceArrays,
    near: NeighbourCache,
    desk: StrategyArrays,
    n: int,
    beta: float,
    neighbours: int,
    state: Words,
) -> int:
    """Fill the batch with ``n`` suggestions, as `strategies.Grasp.suggest` does.

    Returns their number, fewer only if no more is free; they are taken from now on.
    """
    if desk.tally[0] == 0:
        return random_search(ground, desk, n, state)
    reduced_candidate_lists(ground, desk, beta)
    so_far = 0
    while so_far < n:
        longer = so_far
        for _ in range(ROUNDS):
            longer = add_round(ground, near, desk, neighbours, state, so_far)
            if longer > so_far:
                break
        if longer == so_far:
            longer = add_random(ground, desk, state, so_far)
            if longer == so_far:
                break
        so_far = longer
    for at in range(n, so_far):  # the surplus of the last round
        desk.taken[desk.batch[at]] = FREE
        desk.tally[1] += 1
    return min(so_far, n)
