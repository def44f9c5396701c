"""Downey's moldable jobs: the speedup, the rules, the laws, and their fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.generators.downey import DOWNEY, fewest_fastest, knee, moldable_jobs, speedup
from sim.generators.generator import Horizon, RandomStreams, fit, generate, published_model
from sim.generators.resampling import measure_moments
from sim.model.errors import WorkloadError

DAY_S = 86400.0
A = st.floats(1.0, 500.0)
CV2 = st.one_of(st.floats(0.01, 5.0), st.sampled_from([0.0, 1.0]))


@pytest.mark.parametrize(
    ("n", "a", "cv2", "expected"),
    [
        (1, 10, 0.7, 1.0),
        (5, 10, 0.0, 5.0),
        (10, 10, 0.0, 10.0),
        (50, 10, 0.0, 10.0),
        (10, 10, 1.0, 100 / 14.5),
        (15, 10, 0.5, 150 / (0.5 * 9.5 + 15 * 0.75)),
        (19, 10, 1.0, 10.0),
        (10, 10, 2.0, 300 / (2 * 19 + 10)),
        (28, 10, 2.0, 10.0),
        (7, 1, 2.0, 1.0),
    ],
)
def test_known_speedups(n: float, a: float, cv2: float, expected: float) -> None:
    assert speedup(n, a, cv2) == pytest.approx(expected)


@given(A, CV2)
def test_speedups_grow_from_1_to_the_parallelism_without_a_step(a: float, cv2: float) -> None:
    n = np.linspace(1.0, 8 * a + 10, 3000)
    told = speedup(n, a, cv2)
    assert told[0] == pytest.approx(1.0)
    assert (np.diff(told) >= -1e-9 * a).all()
    assert (told <= np.minimum(n, a) * (1 + 1e-9)).all()
    assert np.diff(told).max() <= 1.01 * np.diff(n)[0] * (1 + cv2), "no step"
    fastest = fewest_fastest(np.array(a), np.array(cv2))
    assert speedup(fastest, a, cv2) == pytest.approx(a)
    if fastest > 1.01:
        assert speedup(fastest - 0.01, a, cv2) < a


@given(A, CV2)
def test_the_knee_is_where_speedup_times_efficiency_is_largest(a: float, cv2: float) -> None:
    n = np.linspace(1.0, 6 * a + 10, 4000)
    at = knee(np.array(a), np.array(cv2))
    best = (speedup(n, a, cv2) ** 2 / n).max()
    assert speedup(at, a, cv2) ** 2 / at >= best * (1 - 1e-9)


def test_moldable_jobs_run_as_told_on_any_processors() -> None:
    jobs = moldable_jobs(published_model("downey"), Horizon(20 * DAY_S), RandomStreams(1))
    assert np.allclose(jobs.runtimes(1), jobs.work_s)
    assert np.allclose(jobs.runtimes(10**6), jobs.work_s / jobs.parallelism)
    each = np.arange(len(jobs.work_s)) % 64 + 1
    wanted = jobs.work_s / speedup(each, jobs.parallelism, jobs.cv2)
    assert np.array_equal(jobs.runtimes(each), wanted)


@pytest.mark.parametrize("rule", ["average", "knee", "fastest", "any"])
def test_every_rule_draws_what_is_stated(rule: str) -> None:
    model = published_model("downey").with_parameters({"rule": rule})
    horizon = Horizon(100 * DAY_S)
    workload = generate(model, duration_s=horizon.duration_s, seed=3)
    assert DOWNEY.moments is not None
    found = measure_moments(workload, horizon)
    for name, moment in DOWNEY.moments(model).items():
        n = 100 if name == "jobs_per_day" else workload.n_jobs
        assert abs(found[name] - moment.mean) <= 4 * moment.sd / np.sqrt(n), (name, rule)
    jobs = moldable_jobs(model, horizon, RandomStreams(3))
    assert np.array_equal(workload.runtime_s, jobs.runtimes(workload.procs))


def test_the_laws_are_log_uniform() -> None:
    jobs = moldable_jobs(published_model("downey"), Horizon(100 * DAY_S), RandomStreams(2))
    n = len(jobs.work_s)
    for values, low, high in ((jobs.work_s, 10.0, 1e6), (jobs.parallelism, 1.0, 128.0)):
        place = np.sort(np.log(values / low) / np.log(high / low))
        assert np.abs(place - np.arange(n) / n).max() < 1.95 / np.sqrt(n), "Kolmogorov, 0.1 %"


def test_ends_and_weekdays_are_found_again() -> None:
    rates = [300.0, 200.0, 200.0, 200.0, 200.0, 50.0, 20.0]
    told = {"jobs_per_day": rates, "parallelism_low": 4.0, "cv2_low": 1.0, "cv2_high": 1.0}
    model = published_model("downey").with_parameters(told)
    learnt = fit("downey", generate(model, duration_s=140 * DAY_S, seed=4), {"cv2_high": 2.0})
    got = learnt.parameters
    assert got["jobs_per_day"] == pytest.approx(rates, rel=0.2)
    assert got["parallelism_low"] == pytest.approx(4.0, rel=0.1)
    assert got["parallelism_high"] == pytest.approx(128.0, rel=0.1)
    assert got["work_low_s"] == pytest.approx(10.0, rel=0.25)
    assert got["work_high_s"] == pytest.approx(1e6, rel=0.25)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"rule": "some"}, "'rule' of 'downey' is 'some'; allowed are average, knee"),
        ({"work_low_s": 1e7}, "'work_low_s' of 'downey' is above 'work_high_s'"),
        ({"jobs_per_day": [1.0, 2.0]}, "has 2 numbers; allowed are 1, or 7"),
        ({"jobs_per_day": 0.0}, "is 0 on every day"),
        ({"max_procs": 1.5}, "must be a whole number"),
    ],
)
def test_what_cannot_be_is_refused(told: dict[str, object], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        generate(published_model("downey").with_parameters(told), duration_s=DAY_S, seed=1)
