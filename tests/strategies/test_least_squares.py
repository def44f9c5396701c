"""Least squares against closed forms, a reference solver and the other methods."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import (
    METHODS,
    Copper,
    DesignModel,
    Knowledge,
    Observation,
    OptionError,
    Parameter,
    ParameterSpace,
    least_squares_effects,
)
from strategies.samplers.copper import reduced_candidate_list
from strategies.samplers.strategy import construction_reason
from tests.draw.spaces import grid, histories, observe_all, spaces

SPACE = grid(2, 2)


def test_confounded_data_where_means_are_wrong_and_least_squares_right() -> None:
    """a adds 1 and b adds 10; a=1 was mostly run with b=0, so that means reverse the sign of a."""
    cells = [(0, 0), (0, 1), (0, 1), (0, 1), (1, 0), (1, 0), (1, 0), (1, 1)]
    history = observe_all(SPACE, cells, [a + 10.0 * b for a, b in cells])
    means = DesignModel.fit(SPACE, history)
    fitted = DesignModel.fit(SPACE, history, method="least_squares")
    blocks = DesignModel.fit(SPACE, history, method="blocks")
    assert [e.effect for e in means.levels("p0")] == pytest.approx([2, -2])
    for model in (fitted, blocks):
        assert [e.effect for e in model.levels("p0")] == pytest.approx([-0.5, 0.5])
        assert [e.effect for e in model.levels("p1")] == pytest.approx([-5, 5])
        assert model.grand_mean == pytest.approx(5.5)
        assert model.count("p0", 0) == 4
        assert (model.q_min("p0"), model.q_max("p0")) == pytest.approx((5, 6))
        expected = model.expected(SPACE.configuration(3))
        assert expected is not None
        assert expected.value == pytest.approx(11)
        assert expected.interval == pytest.approx((11, 11))
        assert model.importance[0].parameter == "p1"
    assert reduced_candidate_list(means, SPACE, "p0", 1.0) == (0,)
    assert reduced_candidate_list(fitted, SPACE, "p0", 1.0) == (1,)


def test_an_unbalanced_closed_form() -> None:
    """Three cells of a 2x2: the fourth follows, so effects are half of the differences."""
    history = observe_all(SPACE, [(0, 0), (0, 1), (1, 0)], [1.0, 4.0, 9.0])
    a, b = least_squares_effects(SPACE, history)
    assert a == pytest.approx((-4, 4))
    assert b == pytest.approx((-1.5, 1.5))


def test_replicates_count_each() -> None:
    """A line of two levels with 3 runs of one: the difference of the means, 6 - 2."""
    space = grid(2)
    history = observe_all(space, [(0,), (1,), (1,), (1,)], [2.0, 5.0, 6.0, 7.0])
    assert least_squares_effects(space, history) == (pytest.approx((-2, 2)),)


def test_what_cannot_be_told_apart_is_unknown() -> None:
    """a and b always change together; c is balanced over both."""
    space = grid(2, 2, 2)
    history = observe_all(space, [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)], [0, 1, 5, 6])
    a, b, c = least_squares_effects(space, history)
    assert a == b == (None, None)
    assert c == pytest.approx((-0.5, 0.5))
    model = DesignModel.fit(space, history, method="least_squares")
    assert model.quality("p0", 0) is None
    assert model.count("p0", 0) == 2
    assert model.q_max("p0") is None
    assert reduced_candidate_list(model, space, "p0", 1.0) == (0, 1)
    shares = {i.parameter: i.share for i in model.importance}
    assert shares == {"p2": pytest.approx(1), "p0": pytest.approx(0), "p1": pytest.approx(0)}
    spreads = {i.parameter: i.spread for i in model.importance}
    assert spreads == {"p2": pytest.approx(1), "p0": None, "p1": None}


def test_one_run_with_two_new_levels_leaves_the_others_known() -> None:
    space = grid(3, 3)
    cells = [*itertools.product((0, 1), (0, 1)), (2, 2)]
    a, b = least_squares_effects(space, observe_all(space, cells, [0, 10, 1, 11, 500]))
    assert a == (pytest.approx(-0.5), pytest.approx(0.5), None)
    assert b == (pytest.approx(-5), pytest.approx(5), None)


def test_a_level_without_a_run_and_no_runs_at_all_are_unknown() -> None:
    space = ParameterSpace((Parameter("a", (1, 2, 3)), Parameter("b", ("only",))))
    assert least_squares_effects(space, ()) == ((None, None, None), (None,))
    a, b = least_squares_effects(space, observe_all(space, [(0, 0), (2, 0)], [1, 3]))
    assert a == (pytest.approx(-1), None, pytest.approx(1))
    assert b == (0.0,)
    single = least_squares_effects(space, observe_all(space, [(0, 0)], [7]))
    assert single == ((None, None, None), (0.0,))


@given(st.data())
def test_the_three_methods_agree_on_a_full_factorial(data: st.DataObject) -> None:
    space = data.draw(spaces(max_parameters=3, max_levels=3, exclusions=False))
    n = data.draw(st.integers(1, 2))
    cells = [space.configuration(i).level_ids for i in range(space.size)] * n
    values = data.draw(st.lists(st.integers(-50, 50), min_size=len(cells), max_size=len(cells)))
    history = observe_all(space, cells, [float(v) for v in values])
    first, *others = (DesignModel.fit(space, history, method=m) for m in METHODS)
    for other in others:
        assert other.grand_mean == pytest.approx(first.grand_mean)
        for parameter in space.parameters:
            for mine, theirs in zip(
                first.levels(parameter.name), other.levels(parameter.name), strict=True
            ):
                assert theirs.effect == pytest.approx(mine.effect, abs=1e-9)
                assert theirs.mean == pytest.approx(mine.mean, abs=1e-9)
                assert theirs.count == mine.count
        for configuration in map(space.configuration, range(space.size)):
            a, b = first.expected(configuration), other.expected(configuration)
            assert a is not None
            assert b is not None
            assert b.value == pytest.approx(a.value, abs=1e-9)
            assert (a.interval is None) == (b.interval is None)
            if a.interval and b.interval:
                assert b.interval == pytest.approx(a.interval, abs=1e-6)


@given(st.data())
def test_known_effects_are_those_that_every_solution_shares(data: st.DataObject) -> None:
    """Differences of levels are known exactly if all least squares solutions agree on them."""
    space = data.draw(spaces(exclusions=False))
    history = data.draw(histories(space, infeasible=False))
    effects = least_squares_effects(space, history)
    if not history:
        return
    columns = [(i, e) for i, p in enumerate(space.parameters) for e in range(p.n_levels)]
    design = np.array(
        [[1.0] + [float(o.configuration.level_ids[i] == e) for i, e in columns] for o in history]
    )
    response = np.array([o.quality for o in history])
    solution = np.linalg.lstsq(design, response, rcond=None)[0]
    rank = np.linalg.matrix_rank(design)
    scale = max(1.0, float(np.abs(response).max()))
    for i, row in enumerate(effects):
        own = [1 + columns.index((i, e)) for e in range(len(row))]
        known = [e for e, effect in enumerate(row) if effect is not None]
        seen = {o.configuration.level_ids[i] for o in history}
        largest = 1
        for e in seen:
            tied = 0
            for f in seen:
                contrast = np.zeros(design.shape[1])
                contrast[own[e]] += 1
                contrast[own[f]] -= 1
                tied += bool(np.linalg.matrix_rank(np.vstack([design, contrast])) == rank)
            largest = max(largest, tied)
        if len(row) > 1:
            assert len(known) == (largest if largest > 1 else 0)
        for e, f in itertools.combinations(known, 2):
            difference = solution[own[e]] - solution[own[f]]
            assert row[e] - row[f] == pytest.approx(difference, abs=1e-7 * scale)  # type: ignore[operator]
        assert math.fsum(row[e] or 0.0 for e in known) == pytest.approx(0, abs=1e-8 * scale)


@pytest.mark.soak
@given(st.data())
def test_every_method_reads_alike_and_never_takes_unknown_for_0(data: st.DataObject) -> None:
    space = data.draw(spaces())
    history = data.draw(histories(space))
    knowledge = Knowledge(space, history)
    for method in METHODS:
        model = knowledge.model_by(method)
        assert model.method == method
        assert model is knowledge.model_by(method)
        assert (model.grand_mean is None) == (not history)
        for name in space.names:
            for level in model.levels(name):
                assert (level.mean is None) == (level.effect is None)
                assert level.count == knowledge.model.count(name, level.level_id)
                assert level.count > 0 or level.mean is None
            listed = reduced_candidate_list(model, space, name, 1.0)
            assert {model.quality(name, e) for e in listed} <= {model.q_max(name), None}
        shares = [i.share for i in model.importance if i.share is not None]
        assert not shares or sum(shares) == pytest.approx(1)
    assert knowledge.model is knowledge.model_by("means")


def test_equal_responses_have_effects_of_exactly_zero() -> None:
    space = grid(3, 2)
    history = observe_all(space, [(0, 0), (1, 0), (2, 1), (0, 1), (0, 1)], [0.1] * 5)
    for method in METHODS:
        model = DesignModel.fit(space, history, method=method)
        assert {e.effect for e in model.levels("p0")} == {0.0}
        assert {i.share for i in model.importance} == {None}


def test_an_unknown_method_is_refused_in_a_sentence() -> None:
    with pytest.raises(OptionError, match="allowed are means, blocks, least_squares"):
        DesignModel.fit(SPACE, (), method="anova")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="allowed are means, blocks, least_squares"):
        Copper(effects="anova")  # type: ignore[arg-type]


def test_grasp_names_levels_that_have_runs_but_no_effect() -> None:
    space = grid(3, 3)
    history = (
        *observe_all(space, [(0, 0), (0, 1)], [1, 2]),
        Observation(space.from_values({"p0": 1, "p1": 2}), 9.0),
    )
    model = DesignModel.fit(space, history, method="blocks")
    assert construction_reason(model, space.configuration(4), 1.0) == (
        "p1=1 (of 2 levels compared) has the best quality estimated by complete blocks; "
        "p0=1 has runs, but no runs to compare with yet."
    )
    assert "p0=2 is untried" in construction_reason(model, space.configuration(7), 1.0)
    batch = Copper(beta=1.0, neighbours=0, effects="blocks").suggest(
        2, Knowledge(space, history), np.random.default_rng(1)
    )
    assert {s.configuration.level_ids[1] for s in batch} <= {1, 2}  # 0 is known to be worse
