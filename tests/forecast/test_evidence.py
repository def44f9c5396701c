"""What a forecast looks at: known answers, and what it says while that is too little."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.analysis.calibration import ForecastEvidence, stale_share
from strategies import AnovaModel, Knowledge, Observation, UntriedPredictions
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


def evidence(losses: list[float], used: int = 20) -> ForecastEvidence:
    return ForecastEvidence(used, 6250, tuple(sorted(losses)), 0.5, UntriedPredictions.of(known()))


def test_the_step_is_the_mean_distance_of_the_three_behind_the_best() -> None:
    one = evidence([10, 11, 12, 13, 20, 21, 22, 30])
    assert one.spread == 16.5 - 10
    assert one.step == 2.0
    assert one.steps_to(6.0) == 2.0
    assert one.steps_to(10.0) == 0.0
    assert one.tail == pytest.approx(math.log(0.01 + 13.5 / 6.5))
    assert one.floor == 0.0
    assert evidence([-1.0, 2.0]).floor == -math.inf


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
            ForecastEvidence(20, 24, tuple(map(float, range(20))), 0.1, None),
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
    reach, model = UntriedPredictions.of(knowledge), AnovaModel.of(knowledge)
    assert reach is not None
    assert model is not None
    assert len(reach.mean) == SPACE.size - 16
    best = max(o.quality for o in knowledge.observations)
    goals = [best + x for x in (0.0, 0.5, 1.0, 3.0, 100.0)]
    told = [reach.beyond(goal) for goal in goals]
    assert told == sorted(told, reverse=True)
    assert told[0] > told[3]
    top = reach.targets.knots[-1]
    assert reach.beyond(best) == pytest.approx(((reach.mean - top) / reach.deviation).max())


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
