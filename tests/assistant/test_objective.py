"""From measures to one quality: wrappers, constraints, and what is refused."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant import Constraint, Objective, Rmse, SecondObjective, SingleMeasure, WeightedSum
from assistant.core.errors import ObjectiveError

finite = st.floats(-1e6, 1e6)


@given(finite)
def test_the_sign_is_handled_once(value: float) -> None:
    for goal, sign in (("minimise", -1.0), ("maximise", 1.0)):
        objective = Objective(SingleMeasure("v"), goal)  # type: ignore[arg-type]
        assessed = objective.assess({"v": value})
        assert assessed.quality == sign * value
        assert objective.value_of(assessed.quality) == value


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=30))
def test_rmse_is_zero_only_for_equal_series_and_matches_the_formula(
    pairs: list[tuple[float, float]],
) -> None:
    series, reference = zip(*pairs, strict=True)
    got = Rmse("s", reference).of({"s": series})
    assert got == pytest.approx(math.sqrt(sum((a - b) ** 2 for a, b in pairs) / len(pairs)))
    assert Rmse("s", reference).of({"s": reference}) == 0.0


def test_feasibility_and_violation() -> None:
    objective = Objective(
        SingleMeasure("v"),
        "minimise",
        (Constraint("wait_s", at_most=100.0), Constraint("share", at_least=0.5)),
    )
    met = objective.assess({"v": 1.0, "wait_s": 100.0, "share": 0.5})
    assert (met.feasible, met.violation) == (True, 0.0)
    missed = objective.assess({"v": 1.0, "wait_s": 150.0, "share": 0.25})
    assert not missed.feasible
    assert missed.violation == pytest.approx(0.5 + 0.25)


def test_an_unknown_measure_violates_nothing_but_a_missing_one_is_an_error() -> None:
    constraint = Constraint("small_wait_s", at_most=10.0)
    assert constraint.violation({"small_wait_s": None}) == 0.0
    with pytest.raises(ObjectiveError, match="gave no measure 'small_wait_s'"):
        constraint.violation({"other": 1.0})


@pytest.mark.parametrize(
    ("measures", "words"),
    [
        ({}, "gave no measure 'v'; it gave: none"),
        ({"v": None}, "unknown"),
        ({"v": float("inf")}, "not finite"),
        ({"v": (1.0, 2.0)}, "series of 2"),
    ],
)
def test_a_measure_that_cannot_be_judged_is_named(measures: dict, words: str) -> None:
    with pytest.raises(ObjectiveError, match=words):
        Objective(SingleMeasure("v")).assess(measures)


def test_series_of_another_length_is_refused() -> None:
    with pytest.raises(ObjectiveError, match="has 1 numbers, the reference has 2"):
        Rmse("s", (1.0, 2.0)).of({"s": (1.0,)})


@pytest.mark.parametrize("bounds", [{}, {"at_most": float("nan")}, {"at_most": 1, "at_least": 2}])
def test_a_constraint_needs_possible_bounds(bounds: dict) -> None:
    with pytest.raises(ObjectiveError):
        Constraint("v", **bounds)


def test_weighted_sum() -> None:
    assert WeightedSum((("a", 2.0), ("b", -1.0))).of({"a": 3.0, "b": 4.0}) == 2.0
    with pytest.raises(ObjectiveError, match="at least one"):
        WeightedSum(())


def test_a_second_measure_has_a_sign_of_its_own() -> None:
    objective = Objective(
        WeightedSum((("wait_s", 1.0), ("procs", 2.0))),
        "minimise",
        (Constraint("power_w", at_most=9.0),),
        second=SecondObjective(SingleMeasure("utilisation"), "maximise"),
    )
    assessed = objective.assess({"wait_s": 3.0, "procs": 2.0, "utilisation": 0.5, "power_w": 1.0})
    assert (assessed.quality, assessed.second_value, assessed.second) == (-7.0, 0.5, 0.5)
    assert objective.measures == ("wait_s", "procs", "utilisation", "power_w")
    assert str(objective).endswith(" and maximise utilisation")
    less = SecondObjective(SingleMeasure("cost"), "minimise")
    assert less.quality_of(4.0) == -4.0
    assert less.value_of(-4.0) == 4.0
    with pytest.raises(ObjectiveError, match="gave no measure 'utilisation'"):
        objective.assess({"wait_s": 3.0, "procs": 2.0, "power_w": 1.0})
    with pytest.raises(ObjectiveError, match="cannot be assessed"):
        Objective(SingleMeasure("v"), second=SecondObjective(SingleMeasure("w"))).assess(
            {"v": 1.0, "w": 1e200}
        )
    with pytest.raises(ObjectiveError, match="'minimise' or 'maximise'"):
        SecondObjective(SingleMeasure("w"), "least")  # type: ignore[arg-type]
    with pytest.raises(ObjectiveError, match="is the first one already"):
        Objective(SingleMeasure("v"), second=SecondObjective(SingleMeasure("v"), "maximise"))
