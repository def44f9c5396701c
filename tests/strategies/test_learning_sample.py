"""The bounded sample of runs that models learn from: what it always holds, and when it is all."""

from hypothesis import given
from hypothesis import strategies as st

from strategies import Configuration, Failure, Observation, Parameter, ParameterSpace
from strategies.data.learning_sample import (
    MOST_REPLICATES,
    SHARE,
    LearningSample,
    sample_positions,
)

SPACE = ParameterSpace((Parameter("x", tuple(range(200))),))


def configuration(i: int) -> Configuration:
    return SPACE.configuration(i)


def observed(points: list[tuple[int, float]]) -> tuple[Observation, ...]:
    return tuple(Observation(configuration(i), quality) for i, quality in points)


points = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from([0.0, 1.0, 2.0, 3.5])), max_size=120
)
limits = st.integers(10, 60)


@given(points, st.integers(0, 40), limits)
def test_a_sample_is_bounded_deterministic_and_in_order(
    told: list[tuple[int, float]], n_failed: int, most: int
) -> None:
    observations = observed(told)
    failures = tuple(Failure(configuration(100 + i), "no") for i in range(n_failed))
    sample = LearningSample.of(observations, failures, most=most)
    assert sample == LearningSample.of(observations, failures, most=most)
    n = len(observations) + len(failures)
    assert len(sample.observations) + len(sample.failures) <= most
    assert len(sample.observations) + len(sample.failures) + sample.n_left_out == n
    if n <= most:
        assert (sample.observations, sample.failures) == (observations, failures)
        assert not sample.left_out
    ended = {o.configuration for o in observations} | {f.configuration for f in failures}
    inside = {o.configuration for o in (*sample.observations, *sample.failures)}
    assert sample.left_out == ended - inside
    positions = list(sample_positions(observations, most))
    assert positions == sorted(set(positions))


@given(points, limits)
def test_replicates_stay_together(told: list[tuple[int, float]], most: int) -> None:
    observations = observed(told)
    taken = sample_positions(observations, most)
    of = [observations[i].configuration for i in taken]
    for each in set(of):
        times = sum(o.configuration == each for o in observations)
        assert of.count(each) == min(times, MOST_REPLICATES)


def many(n: int = 3_000) -> tuple[Observation, ...]:
    """One run for each of many configurations; the best is in the middle of the time."""
    space = ParameterSpace((Parameter("x", tuple(range(n))),))
    return tuple(Observation(space.configuration(i), -abs(i - n / 2)) for i in range(n))


def test_the_best_the_newest_the_current_and_the_failures_in_their_share_are_in_it() -> None:
    observations = many()
    failures = tuple(Failure(o.configuration, "no") for o in observations[:300])
    current = observations[7].configuration
    sample = LearningSample.of(observations, failures, [current], most=330)
    assert len(sample.failures) == 30, "a tenth of all runs has failed"
    assert sample.failures[-1] == failures[-1], "the newest failure"
    inside = {o.configuration for o in sample.observations}
    assert current in inside
    by_quality = sorted(observations, key=lambda o: -o.quality)
    n_each = 300 // SHARE
    assert {o.configuration for o in by_quality[:n_each]} <= inside
    assert {o.configuration for o in observations[-n_each:]} <= inside
    elsewhere = [o for o in sample.observations if 100 < observations.index(o) < 1_400]
    assert len(elsewhere) > 50, "and others from all times"


def test_a_configuration_with_very_many_runs_keeps_its_newest() -> None:
    same = observed([(1, float(i)) for i in range(200)])
    taken = sample_positions(same, 100)
    assert list(taken) == list(range(200 - MOST_REPLICATES, 200))
