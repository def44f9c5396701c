"""Main effects against closed forms."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strategies import DesignModel, Knowledge, Observation, Parameter, ParameterSpace, responses
from tests.draw.spaces import histories, spaces

SPACE = ParameterSpace((Parameter("a", (1, 2, 3)), Parameter("b", ("x", "y"))))


def factorial(noise: float = 0.0) -> tuple[Observation, ...]:
    """A full 3x2 factorial, two replicates: 10 + {-2, 0, 2} + {-3, 3} +- noise."""
    cells = itertools.product(range(3), range(2), (-1, 1))
    return tuple(
        Observation(SPACE.configuration(2 * a + b), 10 + 2 * (a - 1) + 3 * (2 * b - 1) + noise * s)
        for a, b, s in cells
    )


def test_a_balanced_factorial_gives_its_effects_back() -> None:
    model = DesignModel.fit(SPACE, factorial(noise=0.5))
    assert model.grand_mean == pytest.approx(10)
    assert [level.effect for level in model.levels("a")] == pytest.approx([-2, 0, 2])
    assert [level.effect for level in model.levels("b")] == pytest.approx([-3, 3])
    assert [level.count for level in model.levels("a")] == [4, 4, 4]
    assert model.count("b", 1) == 6
    assert (model.q_min("a"), model.q_max("a")) == pytest.approx((8, 12))
    assert model.coverage == 1.0
    b, a = model.importance
    assert (b.parameter, a.parameter) == ("b", "a")
    assert (b.spread, a.spread) == pytest.approx((6, 4))
    # between-level sums of squares: a 4 (4 + 0 + 4) = 32, b 6 (9 + 9) = 108
    assert (b.share, a.share) == pytest.approx((108 / 140, 32 / 140))


def test_expectation_and_interval_in_closed_form() -> None:
    model = DesignModel.fit(SPACE, factorial(noise=0.5))
    expected = model.expected(SPACE.configuration(5))
    assert expected is not None
    assert expected.value == pytest.approx(15)
    # 12 residuals of +-0.5, 12 - 1 - 2 - 1 degrees of freedom
    half = stats.t.ppf(0.975, 8) * np.sqrt(12 * 0.25 / 8 * (1 + 4 / 12))
    assert expected.interval == pytest.approx((15 - half, 15 + half))


def test_a_level_interval_is_students() -> None:
    model = DesignModel.fit(SPACE, factorial(noise=0.5))
    sample = [o.quality for o in factorial(noise=0.5) if o.configuration.level_ids[0] == 2]
    level = model.level("a", 2)
    assert level.standard_error == pytest.approx(stats.sem(sample))
    low, high = stats.t.interval(0.95, len(sample) - 1, np.mean(sample), stats.sem(sample))
    assert level.interval == pytest.approx((low, high))


def test_what_was_not_seen_is_unknown() -> None:
    empty = DesignModel.fit(SPACE, ())
    assert empty.grand_mean is None
    assert empty.quality("a", 0) is None
    assert (empty.q_min("a"), empty.q_max("a")) == (None, None)
    assert empty.expected(SPACE.configuration(0)) is None
    assert empty.coverage == 0.0
    assert {i.share for i in empty.importance} == {None}
    one = DesignModel.fit(SPACE, (Observation(SPACE.configuration(0), 7.0),))
    assert one.level("a", 0).interval is None
    assert one.level("a", 0).mean == 7.0
    assert one.level("a", 1).effect is None
    assert {(i.spread, i.share) for i in one.importance} == {(None, None)}
    expected = one.expected(SPACE.configuration(5))
    assert expected is not None
    assert (expected.value, expected.interval) == (7.0, None)


def test_equal_responses_have_effects_of_exactly_zero() -> None:
    history = tuple(Observation(SPACE.configuration(i % 6), 0.1) for i in range(11))
    model = DesignModel.fit(SPACE, history)
    for name in SPACE.names:
        assert {level.effect for level in model.levels(name)} == {0.0}
        assert model.q_min(name) == model.q_max(name) == 0.1
    assert {i.share for i in model.importance} == {None}


def test_closed_levels_do_not_set_the_scale_but_are_remembered() -> None:
    space = SPACE.closing("a", 3)
    model = DesignModel.fit(space, factorial())
    assert model.quality("a", 2) == pytest.approx(12)
    assert model.q_max("a") == pytest.approx(10)
    assert model.coverage == 1.0  # of what is allowed now


def test_infeasible_observations_count_by_their_response() -> None:
    history = (
        Observation(SPACE.configuration(0), 5.0),
        Observation(SPACE.configuration(1), 7.0),
        Observation(SPACE.configuration(2), 100.0, feasible=False, violation=3.0),
    )
    assert Knowledge(SPACE, history).model.quality("a", 1) == 3.0


@given(st.data())
def test_level_means_by_brute_force(data: st.DataObject) -> None:
    space = data.draw(spaces())
    history = data.draw(histories(space))
    model = DesignModel.fit(space, history)
    response = responses(history)
    for i, parameter in enumerate(space.parameters):
        for level_id in range(parameter.n_levels):
            chosen = [
                r
                for r, o in zip(response, history, strict=True)
                if o.configuration.level_ids[i] == level_id
            ]
            level = model.level(parameter.name, level_id)
            assert level.count == len(chosen)
            if not chosen:
                assert (level.mean, level.effect, level.interval) == (None, None, None)
                continue
            assert level.mean is not None
            assert level.mean == pytest.approx(np.mean(chosen), rel=1e-9, abs=1e-6)
            assert level.effect == pytest.approx(
                np.mean(chosen) - response.mean(), rel=1e-9, abs=1e-6
            )
            assert (level.interval is None) == (len(chosen) < 2)
    shares = [i.share for i in model.importance if i.share is not None]
    assert not shares or sum(shares) == pytest.approx(1)
    seen = {o.configuration for o in history if space.is_allowed(o.configuration)}
    n_allowed = space.count_allowed()
    assert model.coverage == (len(seen) / n_allowed if n_allowed else None)
