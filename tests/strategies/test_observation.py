"""Observations, responses, ranking and knowledge."""

import itertools

import numpy as np
import pytest
from hypothesis import given

from strategies import (
    Configuration,
    Failure,
    Knowledge,
    Observation,
    ObservationError,
    Parameter,
    ParameterSpace,
    best,
    is_exhausted,
    rank_key,
    responses,
)
from tests.draw.spaces import histories

SPACE = ParameterSpace((Parameter("a", tuple(range(6))),))
C = SPACE.configuration(0)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), 1e200, "3", None, True]
)
def test_a_quality_that_is_no_finite_number_is_refused(value: float) -> None:
    with pytest.raises(ObservationError, match=r"quality=.*finite"):
        Observation(C, value)


@pytest.mark.parametrize(
    ("feasible", "violation"), [(True, 1.0), (False, 0.0), (False, -1.0), (True, -1.0)]
)
def test_a_violation_goes_with_infeasibility(feasible: bool, violation: float) -> None:
    with pytest.raises(ObservationError, match="violation"):
        Observation(C, 1.0, feasible, violation)


def test_other_numbers_are_checked_too() -> None:
    with pytest.raises(ObservationError, match="violation=nan"):
        Observation(C, 1.0, feasible=False, violation=float("nan"))
    with pytest.raises(ObservationError, match="duration_s"):
        Observation(C, 1.0, duration_s=-1.0)
    assert Observation(C, 3).quality == 3.0
    assert Observation(C, 3).duration_s is None
    assert hash(Observation(C, 1.0, measures={"wait_s": 3.0})) is not None


def test_responses_by_hand() -> None:
    history = [
        Observation(C, 10.0),
        Observation(C, 4.0),
        Observation(C, 99.0, feasible=False, violation=2.0),
        Observation(C, 50.0, feasible=False, violation=1.0),
    ]
    assert responses(history).tolist() == [10.0, 4.0, 4.0 - 6.0, 4.0 - 3.0]
    assert responses(history[1:]).tolist() == [4.0, 0.0, 2.0]  # no spread: max(|4|, 1)
    assert responses(history[2:]).tolist() == [-2.0, -1.0]
    assert responses([]).shape == (0,)


@given(histories(SPACE))
def test_responses_order_as_rank_key_does(history: tuple[Observation, ...]) -> None:
    response = responses(history)
    assert np.all(np.isfinite(response))
    for (i, a), (j, b) in itertools.combinations(enumerate(history), 2):
        if rank_key(a) > rank_key(b):
            # violations apart by less than rounding may share a response, nothing else
            both = not a.feasible and not b.feasible
            assert response[i] >= response[j] if both else response[i] > response[j]
        if rank_key(a) == rank_key(b):
            assert response[i] == response[j]
    top = best(history)
    if top is None:
        assert not history
    else:
        assert all(rank_key(top) >= rank_key(o) for o in history)
        assert top.feasible or not any(o.feasible for o in history)
        assert top is next(o for o in history if rank_key(o) == rank_key(top))


def test_everything_ever_started_is_taken() -> None:
    c = [SPACE.configuration(i) for i in range(6)]
    knowledge = Knowledge(
        SPACE,
        (Observation(c[0], 1.0), Observation(c[0], 2.0)),
        (Failure(c[1], "out of memory"),),
        frozenset({c[2]}),
        (c[3],),
    )
    assert knowledge.taken == set(c[:4])
    assert not is_exhausted(knowledge)
    assert is_exhausted(Knowledge(SPACE, pending=frozenset(c)))
    # runs on levels that were closed since do not count as part of what is left
    closed = SPACE.closing("a", 0).closing("a", 1)
    assert not is_exhausted(Knowledge(closed, pending=frozenset(c[:5])))
    assert is_exhausted(Knowledge(closed, pending=frozenset(c[2:])))


def test_a_run_of_another_space_is_refused() -> None:
    stranger = Configuration((0,), "elsewhere")
    for knowledge in (
        lambda: Knowledge(SPACE, (Observation(stranger, 1.0),)),
        lambda: Knowledge(SPACE, pending=frozenset({stranger})),
    ):
        with pytest.raises(ObservationError, match="of space 'elsewhere'"):
            knowledge()
