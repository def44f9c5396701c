"""Complete factorial blocks and their effects: known answers, and brute force."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    Configuration,
    FactorialBlock,
    Observation,
    Parameter,
    ParameterSpace,
    SpaceError,
    block_effects,
    find_blocks,
)
from tests.draw.spaces import grid, histories, observe_all, spaces

SPACE = grid(4, 4)


def test_a_full_2x3_inside_a_4x4_is_found_whole() -> None:
    cells = [*itertools.product((0, 2), (0, 1, 3)), (3, 2), (1, 2)]
    blocks = find_blocks(SPACE, observe_all(SPACE, cells))
    assert blocks == (FactorialBlock(((0, 2), (0, 1, 3))), FactorialBlock(((1, 3), (2,))))
    assert [block.size for block in blocks] == [6, 2]
    assert [block.varied for block in blocks] == [(0, 1), (0,)]


def test_an_l_shape_gives_both_of_its_arms() -> None:
    cells = [*itertools.product((0, 1), range(4)), *itertools.product(range(4), (0, 1))]
    blocks = find_blocks(SPACE, observe_all(SPACE, cells))
    assert set(blocks) == {
        FactorialBlock(((0, 1), (0, 1, 2, 3))),
        FactorialBlock(((0, 1, 2, 3), (0, 1))),
    }


def test_a_full_factorial_is_one_block_whatever_the_order_and_replicates() -> None:
    space = grid(3, 2, 4)
    cells = list(itertools.product(range(3), range(2), range(4)))
    history = observe_all(space, [*cells, *cells[::2]])
    wanted = (FactorialBlock(((0, 1, 2), (0, 1), (0, 1, 2, 3))),)
    assert find_blocks(space, history) == find_blocks(space, history[::-1]) == wanted


def test_nothing_to_compare_is_no_block() -> None:
    diagonal = observe_all(SPACE, [(0, 0), (1, 1), (2, 2), (2, 2)])
    assert find_blocks(SPACE, ()) == find_blocks(SPACE, diagonal) == ()
    assert block_effects(SPACE, diagonal) == ((None,) * 4, (None,) * 4)
    assert block_effects(SPACE, ()) == ((None,) * 4, (None,) * 4)


def test_a_foreign_observation_is_refused() -> None:
    foreign = Observation(Configuration((0, 0), "elsewhere"), 1.0)
    with pytest.raises(SpaceError, match="elsewhere"):
        find_blocks(SPACE, (foreign,))


def test_effects_of_one_block_are_its_balanced_contrasts() -> None:
    # a replicated cell counts once, and the lonely (3, 2) does not count
    values = {(0, 0): 1.0, (0, 1): 3.0, (2, 0): 5.0, (2, 1): 11.0, (3, 2): 1000.0}
    history = observe_all(SPACE, [*values, (0, 0)], [*values.values(), 1.0])
    a, b = block_effects(SPACE, history)
    # marginals of a: 2 and 8; of b: 3 and 7; block mean 5
    assert a == (pytest.approx(-3), None, pytest.approx(3), None)
    assert b == (pytest.approx(-2), pytest.approx(2), None, None)


def test_blocks_with_different_levels_are_put_on_one_scale() -> None:
    """Two lines of a that share level 1, at levels of b that differ by 100."""
    space = grid(3, 2)
    history = observe_all(space, [(0, 0), (1, 0), (1, 1), (2, 1)], [1.0, 3.0, 103.0, 107.0])
    a, b = block_effects(space, history)
    # differences 2 and 4 chain to 0, 2, 6, less their mean 8/3; the 100 is b's
    assert a == pytest.approx((-8 / 3, -2 / 3, 10 / 3))
    assert b == pytest.approx((-50, 50))


def test_weights_are_the_runs_behind_a_marginal_mean() -> None:
    """Level 0 and 1 differ by 6 in a block of 2x2, by 0 in a block of 2x1: 2 to 1 gives 4."""
    space = grid(2, 2, 2)
    cells = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1), (1, 0, 1)]
    history = observe_all(space, cells, [0.0, 0.0, 6.0, 6.0, 9.0, 9.0])
    chosen = (FactorialBlock(((0, 1), (0, 1), (0,))), FactorialBlock(((0, 1), (0,), (1,))))
    a, _, _ = block_effects(space, history, chosen)
    assert a == pytest.approx((-2, 2))


def test_groups_that_no_block_ties_are_not_compared() -> None:
    """Levels 0, 1 and 2 are tied, 3 and 4 only to each other: these are unknown."""
    space = grid(5, 2)
    history = observe_all(space, [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1)], [1, 2, 3, 50, 60])
    a, b = block_effects(space, history)
    assert a == (pytest.approx(-1), pytest.approx(0), pytest.approx(1), None, None)
    assert b == (None, None)


def test_a_parameter_with_one_level_in_all_has_no_effect_and_that_is_known() -> None:
    space = ParameterSpace((Parameter("a", (1, 2)), Parameter("b", ("only",))))
    assert block_effects(space, observe_all(space, [(0, 0), (1, 0)], [1, 3])) == (
        (pytest.approx(-1), pytest.approx(1)),
        (0.0,),
    )
    assert block_effects(space, ()) == ((None, None), (None,))


@given(st.data())
def test_blocks_are_complete_maximal_and_cover_every_pair(data: st.DataObject) -> None:
    space = data.draw(spaces(exclusions=False))
    history = data.draw(histories(space, max_size=30))
    blocks = find_blocks(space, history)
    cells = {o.configuration.level_ids for o in history}
    covered = set()
    for block in blocks:
        inside = set(itertools.product(*block.level_ids))
        assert inside <= cells
        assert len(inside) == block.size > 1
        covered |= set(itertools.combinations(sorted(inside), 2))
        for i, parameter in enumerate(space.parameters):
            for level_id in set(range(parameter.n_levels)) - set(block.level_ids[i]):
                more = [[level_id] if j == i else ids for j, ids in enumerate(block.level_ids)]
                assert not set(itertools.product(*more)) <= cells
    pairs = {
        (first, second)
        for first, second in itertools.combinations(sorted(cells), 2)
        if sum(x != y for x, y in zip(first, second, strict=True)) == 1
    }
    assert pairs <= covered
    assert [b.size for b in blocks] == sorted((b.size for b in blocks), reverse=True)
    assert len(set(blocks)) == len(blocks)


@pytest.mark.soak
@given(st.data())
def test_additive_responses_give_their_effects_back_wherever_they_are_known(
    data: st.DataObject,
) -> None:
    space = data.draw(spaces(exclusions=False))
    cells = [o.configuration.level_ids for o in data.draw(histories(space, max_size=30))]
    truth = [data.draw(st.lists(st.integers(-9, 9), min_size=p.n_levels, max_size=p.n_levels))
             for p in space.parameters]  # fmt: skip
    values = [float(sum(t[i] for t, i in zip(truth, cell, strict=True))) for cell in cells]
    blocks = find_blocks(space, history := observe_all(space, cells, values))
    for i, row in enumerate(block_effects(space, history, blocks)):
        known = [level_id for level_id, effect in enumerate(row) if effect is not None]
        in_blocks = {e for b in blocks if len(b.level_ids[i]) > 1 for e in b.level_ids[i]}
        if space.parameters[i].n_levels > 1:
            assert set(known) <= in_blocks
            assert bool(known) == bool(in_blocks)
        mean = math.fsum(truth[i][e] for e in known) / max(len(known), 1)
        for level_id in known:
            assert row[level_id] == pytest.approx(truth[i][level_id] - mean, abs=1e-8)


def test_many_observations_of_ten_parameters_are_bounded() -> None:
    """500 cells of 2^9, then of a half-filled 10x10x10: pairs by the thousand."""
    space = grid(*[10] * 10)
    full = list(itertools.product((0, 1), repeat=9))[:500]
    blocks = find_blocks(space, observe_all(space, [(*cell, 0) for cell in full]))
    assert blocks[0].size == 256
    assert len(blocks) < 20
    rng = np.random.default_rng(1)
    half = [c for c in itertools.product(range(10), repeat=3) if rng.random() < 0.5]
    blocks = find_blocks(space, observe_all(space, [(*cell, *[0] * 7) for cell in half]))
    assert blocks[0].size >= 16
