"""The shipped coefficients: complete, with the signs that were promised, and safe at any input."""

import math
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.forecast.calibration import (
    NEAR,
    SHARES,
    TERMS,
    inputs,
    read_calibration,
    shipped,
    write_calibration,
)
from assistant.forecast.evidence import Evidence
from assistant.forecasts import MOST_LEFT
from strategies import Reach, strategy_names
from tests.forecast.test_evidence import evidence, known

finite = st.floats(-1e9, 1e9)
ONE = evidence([10, 11, 12, 13, 20, 21, 22, 30])


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    losses = sorted(draw(st.lists(finite, min_size=8, max_size=30, unique=True)))
    used = draw(st.integers(len(losses), 10_000))
    size = draw(st.integers(used + 1, 10**18))
    return Evidence(used, size, tuple(losses), draw(st.floats(0.01, 1.0)), Reach.of(known()))


def test_every_strategy_has_an_offset_and_a_threshold() -> None:
    assert set(shipped().offsets) == set(strategy_names())
    assert set(shipped().warn) == set(strategy_names())
    assert all(0.3 < threshold < 1 for threshold in shipped().warn.values())
    assert set(shipped().missed.of) == set(TERMS)
    assert set(shipped().best) == set(SHARES)


def test_signs_are_those_that_were_promised() -> None:
    of = shipped().missed.of
    assert of["left"] < 0  # more runs never hurt
    assert of["reach"] <= 0  # a harder goal never helps
    assert all(terms.of["left"] >= 0 for terms in shipped().best.values())


def test_a_refit_is_a_readable_difference_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    write_calibration(shipped(), path)
    assert read_calibration(path) == shipped()
    own = files("assistant.forecast").joinpath("calibration.json")
    assert path.read_text() == own.read_text()


@given(evidences(), finite, st.floats(0.0, 1e9), st.floats(0.0, 1e9))
def test_more_runs_never_lower_the_chance(
    one: Evidence, goal: float, some: float, more: float
) -> None:
    hardness = shipped().hardness(one, goal, 0.0)
    less, most = shipped().chance(hardness, np.array([some, some + more]))
    assert 0.0 <= less <= most <= 1.0
    assert shipped().chance(hardness, np.zeros(1))[0] == 0.0


@given(evidences(), finite, st.floats(0.0, 1e9))
def test_a_harder_goal_never_helps(one: Evidence, goal: float, harder: float) -> None:
    easy, hard = (shipped().hardness(one, x, 0.0) for x in (goal, goal - harder))
    assert easy <= hard
    assert shipped().hardness(one, goal, 0.5) == pytest.approx(easy + 0.5)


@given(evidences(), finite, st.lists(st.floats(0.01, 0.99), min_size=1))
def test_runs_needed_are_the_inverse_of_the_chance(
    one: Evidence, goal: float, shares: list[float]
) -> None:
    hardness = shipped().hardness(one, goal, 0.0)
    runs = shipped().runs_by(hardness, np.array(shares))
    within = (runs > 1e-200) & (runs <= MOST_LEFT)
    back = shipped().chance(hardness, runs)
    assert back[within] == pytest.approx(np.array(shares)[within])


@given(evidences(), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_the_best_at_the_end_is_ordered_and_never_worse_than_today(
    one: Evidence, some: float, more: float
) -> None:
    best = one.losses[0]
    early, late = (shipped().best_after(one, 0.0, runs) for runs in (some, some + more))
    for told in (early, late):
        assert list(told) == sorted(told)
        assert all(one.floor <= x <= best for x in told)
    assert all(b <= a for a, b in zip(early, late, strict=True))
    assert shipped().best_after(one, 0.0, 0.0) == (best,) * 3


def test_nothing_is_told_of_more_runs_than_were_tested() -> None:
    hardness = shipped().hardness(ONE, 9.0, 0.0)
    some, most, far = shipped().chance(hardness, np.array([99.0, 100.0, 7_660.0]))
    assert some < most == far
    at_most = shipped().best_after(ONE, 0.0, 100.0)
    assert shipped().best_after(ONE, 0.0, 7_660.0) == at_most
    assert shipped().best_after(ONE, 0.0, 99.0) != at_most


def test_a_logistic_by_hand() -> None:
    told, terms = inputs(ONE, 9.0), shipped().missed
    assert told["used"] == math.log(20)
    assert told["size"] == math.log(6250)
    by_hand = terms.intercept + sum(terms.of[name] * told[name] for name in told)
    by_hand += terms.of["left"] * math.log(30.0) + 0.25
    hardness = shipped().hardness(ONE, 9.0, 0.25)
    assert shipped().chance(hardness, np.array([30.0]))[0] == pytest.approx(
        1 / (1 + math.exp(by_hand))
    )
    terms_of_best = shipped().best[0.5]
    log = terms_of_best.at(inputs(ONE, 10.0)) + terms_of_best.of["left"] * math.log(30.0)
    own = float(np.mean(list(shipped().offsets.values())))
    best = shipped().best_after(ONE, own, 30.0)[1]
    assert best == pytest.approx(10.0 - ONE.step * max(math.exp(log) - NEAR, 0.0))


def test_an_unknown_strategy_has_the_mean_offset_and_is_called_uncalibrated() -> None:
    mean = np.mean(list(shipped().offsets.values()))
    assert shipped().offset("my_own") == pytest.approx(mean)
    assert shipped().cautions(ONE, "my_own", 30)[0] == (
        "the strategy my_own was not tested: uncalibrated"
    )
    assert shipped().cautions(ONE, "anova", 30) == ()
    assert "tested with at most 85 runs left" in shipped().cautions(ONE, "anova", 86)
    large = Evidence(91, 10**9, ONE.losses, 0.5, ONE.reach)
    assert len(shipped().cautions(large, "anova", None)) == 2


def test_exploitation_levels_are_interpolated() -> None:
    for name, told in shipped().exploitation.items():
        plain, levels = shipped().offset(name), {0.0: 0.0, **told}
        assert set(levels) == {0.0, 0.3, 0.7, 1.0}
        for level, more in levels.items():
            assert shipped().offset(name, level) == pytest.approx(plain + more)
        between = shipped().offset(name, 0.5) - plain
        assert between == pytest.approx((levels[0.3] + levels[0.7]) / 2)
    both = [shipped().offset(name, 0.7) - shipped().offset(name) for name in ("anova", "grasp")]
    assert both[0] > 0.2 > 0 > both[1]  # it helps GRASP and harms the default
    other = shipped().offset("random", 0.7) - shipped().offset("random")
    assert other == pytest.approx(sum(both) / 2)
