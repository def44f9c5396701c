"""The shipped coefficients: complete, with the signs that were promised, and safe at any input."""

import math
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.analysis.calibration import (
    SHARES,
    TERMS,
    MissModel,
    load_calibration,
    read_calibration,
    write_calibration,
)
from assistant.analysis.forecast_features import CLOSE, FEATURES, ForecastEvidence, features
from assistant.core.errors import CodecError
from assistant.core.forecast import MOST_LEFT
from strategies import strategy_names
from tests.forecast.examples import MADE
from tests.forecast.test_evidence import REACH, evidence

finite = st.floats(-1e9, 1e9)
ONE = evidence([10, 11, 12, 13, 20, 21, 22, 30])
models = st.sampled_from(["goal", "end"]).map(lambda name: getattr(load_calibration(), name))


@st.composite
def evidences(draw: st.DrawFn) -> ForecastEvidence:
    losses = draw(st.lists(finite, min_size=8, max_size=30, unique=True))
    failed = draw(st.integers(4, 50))
    size = draw(st.integers(100, 10**18))
    in_order = (*draw(st.permutations(losses)), *[None] * failed)
    return ForecastEvidence(size, tuple(sorted(losses)), in_order, REACH)


def test_every_strategy_has_an_offset_and_a_threshold() -> None:
    shipped = load_calibration()
    assert set(shipped.goal.offsets) == set(shipped.goal.warn) == set(strategy_names())
    assert set(shipped.end.warn) <= set(shipped.end.offsets) <= set(strategy_names())
    for model in (shipped.goal, shipped.end):
        assert all(0.3 < threshold < 1 for threshold in model.warn.values())
        assert set(model.terms.of) == set(TERMS)
        assert set(model.terms.ranges) == set(FEATURES)
        assert all(low <= high for low, high in model.terms.ranges.values())
    assert set(shipped.best) == set(SHARES)


HARDER = ("covered", "reach", "count", "additive_reach", "additive_count")
"""Features that fall as the goal becomes harder."""


def test_signs_are_those_that_were_promised() -> None:
    for model in (load_calibration().goal, load_calibration().end):
        assert model.terms.of["left"] < 0  # more runs never hurt
        assert all(model.terms.of[name] <= 0 for name in HARDER)  # a harder goal never helps
    assert all(terms.of["left"] >= 0 for terms in load_calibration().best.values())


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"covered"', '"uncovered"'),
        lambda text: text.replace('"intercept": ', '"intercept": NaN, "old": ', 1),
        lambda text: text[:-9],
        lambda text: "[]",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: Callable[[str], str]) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(MADE, path)
    assert read_calibration(path) == MADE
    path.write_text(damage(path.read_text()))
    with pytest.raises(CodecError, match="is no calibration of the forecast"):
        read_calibration(path)


def test_a_refit_is_a_readable_difference_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(load_calibration(), path)
    assert read_calibration(path) == load_calibration()
    own = files("assistant.analysis").joinpath("calibration.json")
    assert path.read_text() == own.read_text()


@given(models, evidences(), finite, st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_more_runs_never_lower_the_chance(
    model: MissModel, one: ForecastEvidence, goal: float, some: float, more: float
) -> None:
    hardness = model.hardness(one, goal, 0.0)
    less, most = model.chance(hardness, np.array([some, some + more]))
    assert 0.0 <= less <= most <= 1.0
    assert model.chance(hardness, np.zeros(1))[0] == 0.0


@given(models, evidences(), finite, st.floats(0.0, 1e9))
def test_a_harder_goal_never_helps(
    model: MissModel, one: ForecastEvidence, goal: float, harder: float
) -> None:
    easy, hard = (model.hardness(one, x, 0.0) for x in (goal, goal - harder))
    assert easy <= hard + 1e-9
    assert model.hardness(one, goal, 0.5) == pytest.approx(easy + 0.5)


@given(models, evidences(), finite, st.lists(st.floats(0.01, 0.99), min_size=1))
def test_runs_needed_are_the_inverse_of_the_chance(
    model: MissModel, one: ForecastEvidence, goal: float, shares: list[float]
) -> None:
    hardness = model.hardness(one, goal, 0.0)
    runs = model.runs_by(hardness, np.array(shares))
    within = (runs > 1e-200) & (runs <= MOST_LEFT)
    back = model.chance(hardness, runs)
    assert back[within] == pytest.approx(np.array(shares)[within])


@given(evidences(), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_the_best_at_the_end_is_ordered_and_never_worse_than_today(
    one: ForecastEvidence, some: float, more: float
) -> None:
    best = one.losses[0]
    early, late = (load_calibration().best_after(one, 0.0, runs) for runs in (some, some + more))
    for told in (early, late):
        assert list(told) == sorted(told)
        assert all(x <= best for x in told)
        assert best <= 0 or all(x > 0 for x in told)
    assert all(b <= a for a, b in zip(early, late, strict=True))
    assert load_calibration().best_after(one, 0.0, 0.0) == (best,) * 3


def test_nothing_is_told_of_more_runs_than_were_tested() -> None:
    hardness = MADE.goal.hardness(ONE, 9.0, 0.0)
    some, most, far = MADE.goal.chance(hardness, np.array([99.0, 100.0, 7_660.0]))
    assert some < most == far
    at_most = MADE.best_after(ONE, 0.0, 100.0)
    assert MADE.best_after(ONE, 0.0, 7_660.0) == at_most
    assert MADE.best_after(ONE, 0.0, 99.0) != at_most


def test_a_logistic_by_hand() -> None:
    told, of = features(ONE, 9.0), MADE.goal.terms.of
    by_hand = 3.0 - 4.0 * told["covered"] - 0.1 * told["reach"] + 2.0 * told["levels"]
    hardness = MADE.goal.hardness(ONE, 9.0, 0.25)
    assert hardness == pytest.approx(by_hand + 0.25)
    logit = by_hand + 0.25 - math.log(30.0)
    assert of["left"] == -1.0
    assert MADE.goal.chance(hardness, np.array([30.0]))[0] == pytest.approx(
        1 / (1 + math.exp(logit))
    )
    at_the_end = MADE.end_hardness(ONE, 1.0)
    assert at_the_end == pytest.approx(4.0 + ONE.stale + 1.0)


def test_the_best_by_hand() -> None:
    """The median log is 0 + 0.3 ln R + half the ln of the doubt, less 0.2 of a worse strategy."""
    mean = float(np.mean(list(MADE.goal.offsets.values())))
    doubt = features(ONE, 10.0)["doubt"]
    for worse in (0.0, 1.0):
        log = 0.3 * math.log(30.0) + 0.5 * doubt - 0.2 * worse
        n_steps = math.exp(log) - CLOSE
        best = MADE.best_after(ONE, mean + worse, 30.0)[1]
        assert best == pytest.approx(10.0 * math.exp(-n_steps * ONE.step / 10.0))


def test_a_feature_counts_no_further_than_the_fit_went() -> None:
    terms = replace(MADE.goal.terms, ranges={**MADE.goal.terms.ranges, "covered": (0.4, 0.9)})
    assert terms.at({"covered": 0.1}) == pytest.approx(3.0 - 4.0 * 0.4)
    assert terms.at({"covered": 0.5}) == pytest.approx(3.0 - 4.0 * 0.5)
    assert terms.at({"covered": 7.0}) == pytest.approx(3.0 - 4.0 * 0.9)


def test_an_unknown_strategy_has_the_mean_offset_and_is_called_uncalibrated() -> None:
    mean = np.mean(list(MADE.goal.offsets.values()))
    assert MADE.goal.offset("my_own") == pytest.approx(mean)
    assert MADE.cautions(ONE, "my_own", 30)[0] == (
        "the forecast is not calibrated for the strategy my_own"
    )
    assert MADE.cautions(ONE, "grasp", 30) == ()
    far = MADE.cautions(ONE, "grasp", 86)
    assert "the forecast was tested with at most 85 runs left" in far
    large = ForecastEvidence(10**9, ONE.losses, (*ONE.in_order, *[None] * 71), ONE.reach)
    assert large.used == 91
    assert len(MADE.cautions(large, "grasp", None)) == 2


def test_exploitation_levels_are_interpolated() -> None:
    goal = MADE.goal
    for name, told in goal.exploitation.items():
        for level, more in told.items():
            assert goal.offset(name, level) == pytest.approx(goal.offset(name) + more)
    assert goal.offset("grasp", 0.35) == pytest.approx(0.35)  # half of what 0.7 adds
    assert goal.offset("grasp", 1.0) == pytest.approx(0.7)  # no further than was measured
    assert goal.offset("copper", 0.5) == pytest.approx(1.0 + (0.05 - 0.4) / 2)
    both = goal.offset("random", 0.7) - goal.offset("random")
    assert both == pytest.approx((0.7 - 0.4) / 2)  # the mean of those that were measured


def test_a_split_harms_the_default_and_helps_grasp_as_shipped() -> None:
    goal = load_calibration().goal
    assert goal.offset("grasp", 0.7) > goal.offset("grasp")
    assert goal.offset("copper", 0.7) < goal.offset("copper")
