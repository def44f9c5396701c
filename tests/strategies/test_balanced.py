"""Balanced level designs: counts of levels, re-derived."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    Exclusion,
    OptionError,
    Parameter,
    ParameterSpace,
    balanced_design,
)
from strategies.samplers.latin_hypercube import balanced_column
from tests.draw.spaces import all_of, configurations, grid, spaces


def counts_of(design: tuple[Configuration, ...], position: int) -> Counter[int]:
    return Counter(point.level_ids[position] for point in design)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("n", [1, 6, 7, 10, 24, 30])
def test_every_level_comes_equally_often_at_most_one_apart(n: int, seed: int) -> None:
    space = grid(2, 3, 4, 10)
    design = balanced_design(space, n, np.random.default_rng(seed))
    assert len(set(design)) == n
    for position, ids in enumerate(space.open_ids):
        counts = [counts_of(design, position)[level_id] for level_id in ids]
        assert max(counts) - min(counts) <= 1


def test_a_latin_hypercube_where_points_and_levels_are_equally_many() -> None:
    design = balanced_design(grid(8, 8, 8), 8, np.random.default_rng(1))
    for position in range(3):
        assert sorted(point.level_ids[position] for point in design) == list(range(8))


@pytest.mark.parametrize("seed", range(20))
def test_fewer_points_than_levels_take_one_from_each_stratum_of_the_ranks(seed: int) -> None:
    # ids in another order than values: strata are of ranks
    levels = tuple(int(v) for v in np.random.default_rng(9).permutation(100))
    space = ParameterSpace((Parameter("a", levels), Parameter("b", tuple(range(20)))))
    design = balanced_design(space, 10, np.random.default_rng(seed))
    values = [space.values(point) for point in design]
    assert sorted(int(v["a"]) // 10 for v in values) == list(range(10))
    assert sorted(int(v["b"]) // 2 for v in values) == list(range(10))


def test_what_was_run_counts_and_closed_levels_do_not() -> None:
    space = grid(4, 5).closing("p1", 2)
    so_far = [Configuration(ids, space.lineage) for ids in ((0, 0), (0, 1), (1, 2))]
    design = balanced_design(space, 5, np.random.default_rng(2), frozenset(so_far), so_far)
    assert counts_of((*so_far, *design), 0) == {0: 2, 1: 2, 2: 2, 3: 2}
    together = counts_of((*so_far, *design), 1)
    assert sorted(together[level_id] for level_id in (0, 1, 3, 4)) == [1, 2, 2, 2]
    assert min(counts_of(design, 1)[level_id] for level_id in (3, 4)) >= 1


@given(
    st.integers(1, 6), st.lists(st.integers(0, 4), max_size=6), st.integers(1, 20), st.integers(0)
)
def test_a_column_evens_out_the_use_of_levels(
    n_levels: int, used: list[int], n: int, seed: int
) -> None:
    before = Counter({i: times for i, times in enumerate(used) if i < n_levels})
    parameter = Parameter("p", tuple(range(n_levels)))
    column = balanced_column(
        parameter, range(n_levels), Counter(before), n, np.random.default_rng(seed)
    )
    assert len(column) == n
    after = before + Counter(column)
    fewest = min(after[i] for i in range(n_levels))
    # nobody was given a level beyond the level of the least used one but for the last round
    assert all(after[i] <= fewest + 1 for i in set(column))


@given(st.data())
def test_a_design_is_free_distinct_and_as_long_as_can_be(data: st.DataObject) -> None:
    space = data.draw(spaces())
    taken = frozenset(data.draw(st.lists(configurations(space), max_size=8)))
    n = data.draw(st.integers(0, 30))
    rng = np.random.default_rng(data.draw(st.integers(0, 3)))
    design = balanced_design(space, n, rng, taken, taken)
    free = set(all_of(space, space.is_allowed)) - taken
    assert len(set(design)) == len(design) == min(n, len(free))
    assert set(design) <= free


@pytest.mark.parametrize("seed", range(10))
def test_exclusions_are_met_by_exchanges_that_keep_the_balance(seed: int) -> None:
    space = ParameterSpace(grid(6, 6, 6).parameters, (Exclusion("p0 == p1"),))
    design = balanced_design(space, 12, np.random.default_rng(seed))
    assert len(design) == 12
    for position in range(3):
        assert set(counts_of(design, position).values()) == {2}


def test_the_whole_space_is_a_design_too() -> None:
    space = ParameterSpace(grid(4, 5).parameters, (Exclusion("p0 + p1 == 3"),))
    design = balanced_design(space, 100, np.random.default_rng(1))
    assert sorted(design) == sorted(all_of(space, space.is_allowed))


def test_the_same_generator_state_gives_the_same_design() -> None:
    first, second, other = (
        balanced_design(grid(5, 5, 5), 9, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert first == second != other


@pytest.mark.parametrize("n", [-1, 2.0, True])
def test_a_number_of_points_that_cannot_be_is_refused(n: int) -> None:
    with pytest.raises(OptionError, match="whole number from 0"):
        balanced_design(grid(2), n, np.random.default_rng(1))


def test_what_cannot_be_exchanged_is_drawn_where_levels_are_used_least() -> None:
    space = grid(3, 3)
    so_far = [Configuration(ids, space.lineage) for ids in [(0, 0)] * 5 + [(1, 1)]]
    taken = frozenset({Configuration((2, 2), space.lineage)})  # the most balanced one by far
    for seed in range(10):
        (point,) = balanced_design(space, 1, np.random.default_rng(seed), taken, so_far)
        assert point.level_ids in {(1, 2), (2, 1)}
