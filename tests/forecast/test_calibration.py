"""The shipped coefficients: complete, with the signs that were promised, and safe at any input."""

import math
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.analysis.calibration import (
    NEAR,
    SHARES,
    TERMS,
    ForecastEvidence,
    load_calibration,
    model_inputs,
    read_calibration,
    write_calibration,
)
from assistant.core.forecast import MOST_LEFT
from strategies import UntriedPredictions, strategy_names
from tests.forecast.test_evidence import evidence, known

finite = st.floats(-1e9, 1e9)
ONE = evidence([10, 11, 12, 13, 20, 21, 22, 30])


@st.composite
def evidences(draw: st.DrawFn) -> ForecastEvidence:
    losses = sorted(draw(st.lists(finite, min_size=8, max_size=30, unique=True)))
    used = draw(st.integers(len(losses), 10_000))
    size = draw(st.integers(used + 1, 10**18))
    return ForecastEvidence(
        used, size, tuple(losses), draw(st.floats(0.01, 1.0)), UntriedPredictions.of(known())
    )


def test_every_strategy_has_an_offset_and_a_threshold() -> None:
    assert set(load_calibration().offsets) == set(strategy_names())
    assert set(load_calibration().warn) == set(strategy_names())
    assert all(0.3 < threshold < 1 for threshold in load_calibration().warn.values())
    assert set(load_calibration().missed.of) == set(TERMS)
    assert set(load_calibration().best) == set(SHARES)


def test_signs_are_those_that_were_promised() -> None:
    of = load_calibration().missed.of
    assert of["left"] < 0  # more runs never hurt
    assert of["reach"] <= 0  # a harder goal never helps
    assert all(terms.of["left"] >= 0 for terms in load_calibration().best.values())


def test_a_refit_is_a_readable_difference_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(load_calibration(), path)
    assert read_calibration(path) == load_calibration()
    own = files("assistant.analysis").joinpath("calibration.json")
    assert path.read_text() == own.read_text()


@given(evidences(), finite, st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_more_runs_never_lower_the_chance(
    one: ForecastEvidence, goal: float, some: float, more: float
) -> None:
    hardness = load_calibration().hardness(one, goal, 0.0)
    less, most = load_calibration().chance(hardness, np.array([some, some + more]))
    assert 0.0 <= less <= most <= 1.0
    assert load_calibration().chance(hardness, np.zeros(1))[0] == 0.0


@given(evidences(), finite, st.floats(0.0, 1e9))
def test_a_harder_goal_never_helps(one: ForecastEvidence, goal: float, harder: float) -> None:
    easy, hard = (load_calibration().hardness(one, x, 0.0) for x in (goal, goal - harder))
    assert easy <= hard
    assert load_calibration().hardness(one, goal, 0.5) == pytest.approx(easy + 0.5)


@given(evidences(), finite, st.lists(st.floats(0.01, 0.99), min_size=1))
def test_runs_needed_are_the_inverse_of_the_chance(
    one: ForecastEvidence, goal: float, shares: list[float]
) -> None:
    hardness = load_calibration().hardness(one, goal, 0.0)
    runs = load_calibration().runs_by(hardness, np.array(shares))
    within = (runs > 1e-200) & (runs <= MOST_LEFT)
    back = load_calibration().chance(hardness, runs)
    assert back[within] == pytest.approx(np.array(shares)[within])


@given(evidences(), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_the_best_at_the_end_is_ordered_and_never_worse_than_today(
    one: ForecastEvidence, some: float, more: float
) -> None:
    best = one.losses[0]
    early, late = (load_calibration().best_after(one, 0.0, runs) for runs in (some, some + more))
    for told in (early, late):
        assert list(told) == sorted(told)
        assert all(one.floor <= x <= best for x in told)
    assert all(b <= a for a, b in zip(early, late, strict=True))
    assert load_calibration().best_after(one, 0.0, 0.0) == (best,) * 3


def test_nothing_is_told_of_more_runs_than_were_tested() -> None:
    hardness = load_calibration().hardness(ONE, 9.0, 0.0)
    some, most, far = load_calibration().chance(hardness, np.array([99.0, 100.0, 7_660.0]))
    assert some < most == far
    at_most = load_calibration().best_after(ONE, 0.0, 100.0)
    assert load_calibration().best_after(ONE, 0.0, 7_660.0) == at_most
    assert load_calibration().best_after(ONE, 0.0, 99.0) != at_most


def test_a_logistic_by_hand() -> None:
    told, terms = model_inputs(ONE, 9.0), load_calibration().missed
    assert told["used"] == math.log(20)
    assert told["size"] == math.log(6250)
    by_hand = terms.intercept + sum(terms.of[name] * told[name] for name in told)
    by_hand += terms.of["left"] * math.log(30.0) + 0.25
    hardness = load_calibration().hardness(ONE, 9.0, 0.25)
    assert load_calibration().chance(hardness, np.array([30.0]))[0] == pytest.approx(
        1 / (1 + math.exp(by_hand))
    )
    terms_of_best = load_calibration().best[0.5]
    log = terms_of_best.at(model_inputs(ONE, 10.0)) + terms_of_best.of["left"] * math.log(30.0)
    own = float(np.mean(list(load_calibration().offsets.values())))
    best = load_calibration().best_after(ONE, own, 30.0)[1]
    assert best == pytest.approx(10.0 - ONE.step * max(math.exp(log) - NEAR, 0.0))


def test_an_unknown_strategy_has_the_mean_offset_and_is_called_uncalibrated() -> None:
    mean = np.mean(list(load_calibration().offsets.values()))
    assert load_calibration().offset("my_own") == pytest.approx(mean)
    assert load_calibration().cautions(ONE, "my_own", 30)[0] == (
        "the forecast is not calibrated for the strategy my_own"
    )
    assert load_calibration().cautions(ONE, "anova", 30) == ()
    far = load_calibration().cautions(ONE, "anova", 86)
    assert "the forecast was tested with at most 85 runs left" in far
    large = ForecastEvidence(91, 10**9, ONE.losses, 0.5, ONE.reach)
    assert len(load_calibration().cautions(large, "anova", None)) == 2


def test_exploitation_levels_are_interpolated() -> None:
    for name, told in load_calibration().exploitation.items():
        plain, levels = load_calibration().offset(name), {0.0: 0.0, **told}
        assert set(levels) == {0.0, 0.3, 0.7, 1.0}
        for level, more in levels.items():
            assert load_calibration().offset(name, level) == pytest.approx(plain + more)
        between = load_calibration().offset(name, 0.5) - plain
        assert between == pytest.approx((levels[0.3] + levels[0.7]) / 2)
    both = [
        load_calibration().offset(name, 0.7) - load_calibration().offset(name)
        for name in ("anova", "grasp")
    ]
    assert both[0] > 0.2 > 0 > both[1]  # it helps GRASP and harms the default
    other = load_calibration().offset("random", 0.7) - load_calibration().offset("random")
    assert other == pytest.approx(sum(both) / 2)
