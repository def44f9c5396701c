"""GRASP in kernel text suggests what `strategies.Copper` suggests, in its order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.compiled import episode_loop as kernel
from agents.compiled import space_arrays
from agents.compiled.jit import compiled, state_of
from agents.compiled.space_arrays import (
    SpaceArrays,
    StrategyArrays,
    space_arrays_of,
    strategy_arrays,
)
from strategies import (
    Copper,
    Failure,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
    RandomSearch,
)
from strategies.samplers import copper as paper
from strategies.space import parameter_space as spaces
from tests.draw.spaces import parameters


def test_the_bounds_are_those_of_the_strategy() -> None:
    assert space_arrays.SEARCH_BOUND == paper.SEARCH_BOUND
    assert kernel.ROUNDS == paper.ROUNDS
    assert kernel.REJECTION_TRIES == spaces.REJECTION_TRIES


def search_both(space: ParameterSpace, rng: np.random.Generator, rounds: int) -> int:
    """Search a space with both until it is used up; return how many suggestions there were."""
    quality = rng.integers(-3, 4, space.size) * float(rng.choice([1.0, 0.1, 1e9]))
    if rng.random() < 0.5:
        quality = rng.normal(size=space.size)
    quality[rng.random(space.size) < rng.choice([0.0, 0.2, 0.6])] = np.nan
    beta, neighbours = float(rng.choice([0.0, 0.3, 0.7, 0.9, 1.0])), int(rng.integers(0, 9))
    n, seed = int(rng.integers(1, 9)), int(rng.integers(2**60))
    ground = space_arrays_of(space.parameters, quality)
    kept = space_arrays.neighbour_cache(ground, int(rng.choice([500, space_arrays.MOST_BYTES])))
    ours, theirs = strategy_arrays(ground, n + max(neighbours, 1)), Copper(beta, neighbours)
    observations: list[Observation] = []
    failures: list[Failure] = []
    suggested: list[int] = []
    for number in range(rounds):
        sequence = np.random.SeedSequence(seed, spawn_key=(1, number))
        drawn = np.random.default_rng(sequence)
        pending = frozenset(map(space.configuration, suggested))
        known = Knowledge(space, tuple(observations), tuple(failures), pending)
        if number == 0:
            wanted = RandomSearch().suggest(n, known, drawn)
            found = compiled(kernel.random_search)(ground, ours, n, state_of(sequence))
        else:
            wanted = theirs.suggest(n, known, drawn)
            found = compiled(kernel.suggest)(
                ground, kept, ours, n, beta, neighbours, state_of(sequence)
            )
            check_means(ground, ours, known)
        indices = [space.index(suggestion.configuration) for suggestion in wanted]
        assert ours.batch[:found].tolist() == indices, number
        suggested += indices
        for index in indices:
            if rng.random() < 0.8:  # the others go on running
                compiled(kernel.observe)(ground, ours, index)
                if np.isnan(quality[index]):
                    failures.append(Failure(space.configuration(index), "it failed"))
                else:
                    configuration = space.configuration(index)
                    observations.append(Observation(configuration, float(quality[index])))
        if not indices:
            break
    return len(suggested)


def check_means(ground: SpaceArrays, ours: StrategyArrays, known: Knowledge) -> None:
    """See that the level means are the design model's to the last bit."""
    for i, name in enumerate(known.space.names):
        for level_id in range(ground.n_levels[i]):
            place = ground.first[i] + level_id
            assert ours.counts[place] == known.model.count(name, level_id)
            if ours.counts[place]:
                mean = ours.origin[0] + ours.sums[place] / ours.counts[place]
                assert mean == known.model.quality(name, level_id)


@given(
    st.integers(1, 3).flatmap(lambda n: st.tuples(*(parameters(name=f"p{i}") for i in range(n)))),
    st.integers(0, 2**32),
)
@settings(max_examples=10, deadline=None)
def test_any_space(drawn: tuple[Parameter, ...], seed: int) -> None:
    space = ParameterSpace(drawn)
    assert search_both(space, np.random.default_rng(seed), 5) > 0


def test_a_small_space_is_used_up_by_both() -> None:
    levels = ((0, 4, 3, 1, 2), ("a", "b", "c"), (5, 1, 3))
    space = ParameterSpace(tuple(Parameter(f"p{i}", own) for i, own in enumerate(levels)))
    assert search_both(space, np.random.default_rng(3), 60) == space.size


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_larger_spaces(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_levels = rng.integers(1, 14, rng.integers(1, 5)).tolist()
    kinds = rng.choice(["ordinal", "nominal"], len(n_levels))
    space = ParameterSpace(
        tuple(
            Parameter(f"p{i}", tuple(rng.permutation(n).tolist()), kind)
            for i, (n, kind) in enumerate(zip(n_levels, kinds, strict=True))
        )
    )
    search_both(space, rng, 60)
