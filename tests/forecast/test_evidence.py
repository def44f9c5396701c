"""What a forecast looks at: known answers, and what it says while that is too little."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assistant.analysis.forecast_features import (
    FEATURES,
    ForecastEvidence,
    features,
    stale_share,
)
from strategies import (
    AnovaModel,
    Knowledge,
    Observation,
    Parameter,
    ParameterSpace,
    UntriedPredictions,
)
from strategies.gp.anova_model import Targets
from strategies.gp.untried_predictions import RIDGES, AdditiveRegression
from tests.assistant.examples import Bowl, Hills

SPACE = Hills().space


def known(n: int = 16, size: int = 6250) -> Knowledge:
    observed = []
    for i in range(n):
        configuration = SPACE.configuration((i * 977) % size)
        values = SPACE.values(configuration)
        quality = -sum(abs(int(values[name]) - 2) for name in "abcde")
        observed.append(Observation(configuration, float(quality)))
    return Knowledge(SPACE, tuple(observed))


REACH = UntriedPredictions.of(known())


def evidence(losses: list[float], used: int = 20) -> ForecastEvidence:
    """Return evidence of results that became better run by run, and of runs without a result."""
    ordered = sorted(losses)
    in_order = (*reversed(ordered), *[None] * (used - len(ordered)))
    return ForecastEvidence(6250, tuple(ordered), in_order, REACH)


def test_the_step_is_the_mean_distance_of_the_three_behind_the_best() -> None:
    one = evidence([10, 11, 12, 13, 20, 21, 22, 30])
    assert one.spread == 16.5 - 10
    assert one.step == 2.0
    assert one.steps_to(6.0) == 2.0
    assert one.steps_to(10.0) == 0.0
    assert one.tail == pytest.approx(math.log(0.01 + 13.5 / 6.5))
    assert one.used == 20
    assert one.stale == 13 / 20  # the best was the eighth of the 20 runs


def test_equal_top_results_leave_a_least_step() -> None:
    one = evidence([10.0] * 4 + [20.0] * 6)
    assert one.step == pytest.approx(0.02 * one.spread)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            evidence([1, 2, 3, 4, 5, 6, 7, 8, 9], used=11),
            "11 runs have ended, and a forecast needs",
        ),
        (evidence([1.0], used=1), "1 run has ended"),
        (evidence([1, 2, 3, 4, 5, 6, 7]), "7 configurations have a result"),
        (evidence([5.0] * 12), "all results are equal"),
        (
            ForecastEvidence(24, tuple(map(float, range(20))), tuple(map(float, range(20))), None),
            "no configuration is left to try",
        ),
        (evidence([1, 2, 3, 4, 5, 6, 7, 8]), ""),
    ],
)
def test_too_little_has_a_sentence(one: ForecastEvidence, said: str) -> None:
    assert one.silence.startswith(said)
    assert bool(one.silence) == bool(said)


@given(st.lists(st.none() | st.floats(-1e6, 1e6), min_size=1))
def test_stale_is_the_share_since_the_last_improvement(losses: list[float | None]) -> None:
    share = stale_share(losses)
    assert 0 < share <= 1
    runs = round(share * len(losses))
    told = [x for x in losses if x is not None]
    if told:
        assert losses[len(losses) - runs] == min(told)
        later = [x for x in losses[len(losses) - runs + 1 :] if x is not None]
        assert all(x >= min(told) for x in later)


def test_reach_is_the_greatest_standardised_distance_over_what_is_untried() -> None:
    knowledge = known()
    reach = REACH
    assert reach is not None
    assert len(reach.mean) == SPACE.size - 16
    best = max(o.quality for o in knowledge.observations)
    top = float(reach.targets.knots[-1])
    assert reach.target(best) == pytest.approx(top)
    targets = [reach.target(best + x) for x in (0.0, 0.5, 1.0, 3.0, 1e9)]
    assert targets == sorted(targets)
    assert targets[-1] == top + 6.0
    for told in (reach.beyond, reach.ln_count, reach.additive.beyond, reach.additive.ln_count):
        falling = [told(target) for target in targets]
        assert falling == sorted(falling, reverse=True)
    assert reach.beyond(top) == pytest.approx(((reach.mean - top) / reach.deviation).max())


def test_there_is_no_reach_without_two_distinct_results_or_with_nothing_untried() -> None:
    assert UntriedPredictions.of(Knowledge(SPACE, ())) is None
    assert UntriedPredictions.of(known(1)) is None
    bowl = Bowl().space
    everything = Knowledge(
        bowl, tuple(Observation(c, float(i)) for i, c in enumerate(bowl.configurations()))
    )
    assert UntriedPredictions.of(everything) is None
    equal = Knowledge(SPACE, tuple(Observation(o.configuration, 1.0) for o in known().observations))
    assert UntriedPredictions.of(equal) is None


# -- by hand -----------------------------------------------------------------------------------

LOSSES = (10.0, 11.0, 12.0, 13.0, 20.0, 21.0, 22.0, 30.0)
MADE_REACH = UntriedPredictions(
    mean=np.array([0.0, 1.0]),
    deviation=np.array([1.0, 0.5]),
    succeeds=np.array([1.0, 0.5]),
    targets=Targets(
        np.array([-1.0, 0.0, 1.0, 2.0]),
        np.array([-1.0, 0.0, 1.0, 2.0]),
        np.array([-40.0, -30.0, -20.0, -10.0]),  # 0.1 of a target per unit of the response
    ),
    additive=AdditiveRegression(np.array([0.0, 1.5]), error=0.5, r_squared=0.6),
    doubt=2.0,
    neighbours=3,
    at_end=0.5,
    n_levels=(1, 2, 4, 5),
    is_ordered=(False, False, True, True),
)


def normal_tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def test_the_features_by_hand() -> None:
    in_order = (None, *reversed(LOSSES), None, 30.0, None)
    one = ForecastEvidence(40, LOSSES, in_order, MADE_REACH)
    hill = sum(math.log(10.0 / x) for x in (1.0, 2.0, 3.0, 10.0)) / 4
    # a goal of 5 is a response of -5, half a target beyond the best one, at 2.5
    by_hand = {
        "used": math.log(12),
        "stale": 4 / 12,
        "tail": math.log(0.01 + 13.5 / 6.5),
        "exponent": 1.0 / (hill + 1e-3),
        "distinct": 1.0,
        "covered": 6.5 / 11.5,
        "reach": -2.5,
        "count": math.log(1e-8 + normal_tail(2.5) + 0.5 * normal_tail(3.0)),
        "additive_reach": -2.0,
        "additive_count": math.log(1e-4 + math.exp(-12.5) + math.exp(-2.0)),
        "additive_r2": 0.6,
        "doubt": math.log(2.0),
        "neighbours": math.log(4.0),
        "at_end": 0.5,
        "parameters": 3.0,
        "levels": math.log(2 * 4 * 5) / 4,
        "ordered": 0.5,
        "binary": 0.25,
    }
    assert tuple(by_hand) == FEATURES
    assert features(one, 5.0) == pytest.approx(by_hand)


def test_equal_results_next_to_the_best_have_the_exponent_of_no_growth() -> None:
    assert features(evidence([10.0] * 6 + [12.0, 13.0, 14.0]), 5.0)["exponent"] == 5.0
    doubled = features(evidence([10.0, 10.0, 11.0, 11.0, 12.0, 12.0, 13.0, 13.0]), 5.0)
    assert doubled["distinct"] == 0.5


def test_too_little_has_no_features() -> None:
    with pytest.raises(ValueError, match="too little evidence"):
        features(evidence([1, 2, 3, 4, 5, 6, 7]), 0.5)


SMALL = ParameterSpace((Parameter.range("x", 0, 4, 1), Parameter("mode", ("a", "b", "c"))))


def design_of(rows: list[tuple[int, str]]) -> np.ndarray:
    """Return position, square and half an indicator of x, and indicators of the mode."""
    return np.array(
        [
            [x / 4 - 0.5, (x / 4 - 0.5) ** 2 - 1 / 12]
            + [0.5 * (x == level) for level in range(5)]
            + [float(mode == level) for level in "abc"]
            for x, mode in rows
        ]
    )


def refitted(design: np.ndarray, z: np.ndarray, ridge: float, ahead: np.ndarray) -> np.ndarray:
    """Fit by least squares, with a row for each penalised weight and a free intercept."""
    n, d = design.shape
    whole = np.vstack([np.hstack([np.ones((n, 1)), design]), np.zeros((d, d + 1))])
    whole[n:, 1:] = math.sqrt(ridge) * np.eye(d)
    weights = np.linalg.lstsq(whole, np.concatenate([z, np.zeros(d)]), rcond=None)[0]
    return np.asarray(weights[0] + ahead @ weights[1:])


def test_the_additive_regression_is_a_ridge_whose_rows_are_left_out_one_by_one() -> None:
    everything = list(SMALL.configurations())
    tried = [everything[i] for i in (0, 2, 3, 5, 7, 8, 10, 12, 13)]
    quality = [3.0, -1.0, 4.0, 1.5, -9.0, 2.6, 5.3, 5.8, -7.0]
    knowledge = Knowledge(SMALL, tuple(map(Observation, tried, quality)))
    found, model = UntriedPredictions.of(knowledge), AnovaModel.of(knowledge)
    assert found is not None
    assert model is not None

    def rows(configurations: list) -> list[tuple[int, str]]:  # type: ignore[type-arg]
        values = [SMALL.values(configuration) for configuration in configurations]
        return [(int(one["x"]), str(one["mode"])) for one in values]

    design, z = design_of(rows(tried)), model.targets.z
    squares = {}
    for ridge in RIDGES:
        errors = []
        for i in range(len(tried)):
            rest = [k for k in range(len(tried)) if k != i]
            (told,) = refitted(design[rest], z[rest], ridge, design[[i]])
            errors.append(z[i] - told)
        squares[ridge] = float(np.mean(np.square(errors)))
    ridge = min(squares, key=squares.__getitem__)
    untried = [one for one in everything if one not in tried]
    ahead = design_of(rows(untried))
    assert found.additive.error == pytest.approx(math.sqrt(squares[ridge]))
    assert found.additive.r_squared == pytest.approx(1.0 - squares[ridge] / z.var())
    assert found.additive.predicted == pytest.approx(refitted(design, z, ridge, ahead))
    assert found.n_levels == (5, 3)
    assert found.is_ordered == (True, False)
    best = rows([tried[quality.index(5.8)]])[0]
    assert found.at_end == float(best[0] in (0, 4))
    apart = [(one[0] != best[0]) + (one[1] != best[1]) for one in rows(untried)]
    assert found.neighbours == apart.count(1)


# -- steps from the best -----------------------------------------------------------------------

positive = st.lists(st.floats(1e-9, 1e9), min_size=8, max_size=20, unique=True)


@given(positive, st.booleans(), st.floats(0.0, 50.0))
def test_steps_from_the_best_are_the_inverse_of_the_loss_after_them(
    losses: list[float], below_zero: bool, n_steps: float
) -> None:
    one = evidence([x - 2e9 for x in losses] if below_zero else losses)
    best = one.losses[0]
    assume(one.step > 1e-6 * abs(best))  # else the difference is lost to rounding
    assume(best < 0 or n_steps * one.step < 500 * best)
    loss = one.after_steps(n_steps)
    assert loss <= best
    assert one.steps_from_best(loss) == pytest.approx(n_steps, rel=1e-6, abs=1e-6)


@given(positive, st.floats(0.0, 1e30), st.floats(0.0, 1e30))
def test_a_positive_loss_falls_but_never_reaches_0(
    losses: list[float], n_steps: float, more: float
) -> None:
    one = evidence(losses)
    near, far = one.after_steps(n_steps), one.after_steps(n_steps + more)
    assert 0.0 < far <= near <= one.losses[0]
    assert one.after_steps(0.0) == one.losses[0]


def test_a_small_step_is_the_same_on_both_scales() -> None:
    one = evidence(list(LOSSES))  # steps of 2 from 10
    assert one.after_steps(0.01) == pytest.approx(10.0 - 0.02, rel=1e-5)
    assert evidence([x - 100.0 for x in LOSSES]).after_steps(3.0) == pytest.approx(-96.0)
    assert one.steps_from_best(-2.0) == 6.0  # no factor leads below 0: by the difference
