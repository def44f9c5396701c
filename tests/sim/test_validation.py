"""Workloads compared: distances as SciPy has them, verdicts that are right as often as said."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from sim.api import Workload, WorkloadError
from sim.generators import WorkloadComparison, compare_workloads
from sim.generators.validation import REPLICATES

DAY_S = 86_400.0
MIDNIGHT_S = 1_704_067_200.0


def drawn(
    seed: int, n_days: int = 14, *, per_day: float = 80.0, longer: float = 1.0, at: float = 0.5
) -> Workload:
    """Return days that differ: each has its own rate and its own kind of jobs."""
    rng = np.random.default_rng(seed)
    submit, runtime, procs = [], [], []
    for day in range(n_days):
        n = rng.poisson(per_day * rng.uniform(0.5, 1.5))
        submit.append(np.sort((day + np.clip(rng.normal(at, 0.15, n), 0, 0.999)) * DAY_S))
        runtime.append(rng.lognormal(6 + 0.5 * rng.normal(), 1.5, n) * longer)
        procs.append(2 ** rng.integers(0, 6, n))
    submit_s = np.concatenate(submit)
    runtime_s = np.concatenate(runtime)
    return Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=np.concatenate(procs),
        requested_s=runtime_s * 2, max_procs=64, start_unix_s=MIDNIGHT_S + float(submit_s[0]),
        time_zone="UTC", name=f"drawn {seed}",
    )  # fmt: skip


def distances(found: WorkloadComparison) -> dict[tuple[str, str], float]:
    return {(one.column, one.metric): one.value for one in found.distances}


def verdicts(found: WorkloadComparison) -> dict[str, str]:
    told = {f"{one.column} {one.metric}": one.verdict for one in found.distances}
    return told | {one.name: one.verdict for one in found.quantities}


def test_distances_are_those_of_scipy() -> None:
    one, two = drawn(1), drawn(2, longer=2.0)
    told = distances(compare_workloads(one, two))
    columns: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {
        "interarrival_s": (np.diff(one.submit_s), np.diff(two.submit_s)),
        "runtime_s": (one.runtime_s, two.runtime_s),
        "procs": (one.procs.astype(float), two.procs.astype(float)),
        "requested_s": (one.requested_s, two.requested_s),
    }
    for name, (a, b) in columns.items():
        assert told[name, "ks"] == pytest.approx(stats.ks_2samp(a, b).statistic)
        assert told[name, "wasserstein"] == pytest.approx(stats.wasserstein_distance(a, b))


def test_hours_and_rates_by_hand() -> None:
    hours = np.array([0, 1, 2, 3])
    days = np.arange(6)
    at = (days[:, None] * 24 + hours).ravel() * 3600.0
    at = np.append(at, 6 * DAY_S)  # so that six whole days lie between the first and the last
    one = Workload.from_arrays(
        submit_s=at, runtime_s=np.full(25, 3600.0), procs=np.full(25, 2), max_procs=4,
        start_unix_s=MIDNIGHT_S,
    )  # fmt: skip
    two = Workload.from_arrays(
        submit_s=at[:24] + 3 * 3600.0, runtime_s=np.full(24, 3600.0), procs=np.full(24, 2),
        max_procs=8, start_unix_s=MIDNIGHT_S + 3 * 3600.0,
    )  # fmt: skip
    found = compare_workloads(one, two)
    # hours 0, 1, 2, 3 have 7, 6, 6, 6 of 25; hours 3, 4, 5, 6 have 6 of 24 each
    apart = 0.5 * (19 / 25 + (1 / 4 - 6 / 25) + 3 / 4)
    assert distances(found)["hour of the day", "total_variation"] == pytest.approx(apart)
    rates = {q.name: q for q in found.quantities}
    assert rates["jobs per day"].one == pytest.approx(4.0)
    assert rates["offered load"].one == pytest.approx(4 * 2 * 3600 / (4 * DAY_S))
    assert any("4 and 8 processors" in note for note in found.notes)
    assert any("Requested times are not compared" in note for note in found.notes)
    assert sum(found.hours[0]) == pytest.approx(1.0)


def test_a_workload_is_like_itself() -> None:
    one = drawn(5)
    found = compare_workloads(one, one)
    assert set(distances(found).values()) == {0.0}
    assert found.differ == 0
    assert found.judged == 9 + 16 + 2
    for quantity in found.quantities:
        assert quantity.ratio == 1.0
        assert quantity.low is not None
        assert quantity.low <= 1.0 <= quantity.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (drawn(9, longer=4.0), ("runtime_s ks", "runtime_s wasserstein", "runtime_s p50")),
        (drawn(9, per_day=240.0), ("interarrival_s ks", "jobs per day", "offered load")),
        (drawn(9, at=0.2), ("hour of the day total_variation",)),
    ],
)
def test_what_differs_is_seen(other: Workload, names: tuple[str, ...]) -> None:
    found = verdicts(compare_workloads(drawn(8), other))
    for name in names:
        assert found[name] == "differs", name
    assert found["procs ks"] == "alike"


@pytest.mark.soak
@pytest.mark.statistical
def test_verdicts_are_wrong_about_as_often_as_said() -> None:
    """Of pairs of one law few figures differ; with few days a bootstrap is a bit too keen."""
    wrong: dict[str, int] = {}
    n_pairs = 100
    for pair in range(n_pairs):
        one, two = drawn(1000 + 2 * pair), drawn(1001 + 2 * pair)
        for name, verdict in verdicts(compare_workloads(one, two)).items():
            assert verdict != "unknown"
            wrong[name] = wrong.get(name, 0) + (verdict == "differs")
    shares = {name: count / n_pairs for name, count in wrong.items()}
    assert 0.01 < float(np.mean(list(shares.values()))) < 0.10, shares
    assert max(shares.values()) < 0.17, shares


def test_too_few_days_give_figures_without_verdicts() -> None:
    found = compare_workloads(drawn(1, 3), drawn(2))
    assert found.judged == 0
    assert {one.verdict for one in found.distances} == {"unknown"}
    assert {one.usual for one in found.distances} == {None}
    assert any("has jobs on 3 days" in note for note in found.notes)


def test_the_same_comparison_again_is_the_same() -> None:
    one, two = drawn(1), drawn(2)
    first = compare_workloads(one, two, seed=4)
    assert first == compare_workloads(one, two, seed=4)
    assert first != compare_workloads(one, two, seed=5)
    assert json.loads(json.dumps(first.to_dict()))["judged"] == first.judged


def test_many_values_are_compared_exactly_though_drawn_coarsely() -> None:
    one, two = drawn(1, 20, per_day=300), drawn(2, 20, per_day=300)
    assert one.n_jobs > 4096 > REPLICATES
    found = compare_workloads(one, two)
    exact = stats.ks_2samp(one.runtime_s, two.runtime_s).statistic
    told = next(d for d in found.distances if (d.column, d.metric) == ("runtime_s", "ks"))
    assert told.value == pytest.approx(exact)
    assert told.low is not None
    assert 0 <= told.low <= told.value <= (told.high or 0)


@pytest.mark.parametrize("procs", [0, -4, 2**54])
def test_no_machine_has_so_many_processors(procs: int) -> None:
    with pytest.raises(WorkloadError, match="a machine has 1 processor or more"):
        compare_workloads(drawn(1), drawn(2), procs=procs)


def test_a_single_job_cannot_be_compared() -> None:
    with pytest.raises(WorkloadError, match="has 1 job; a comparison needs 2 or more"):
        compare_workloads(drawn(1), drawn(2).head(1))


def test_a_span_of_ages_is_refused() -> None:
    ages = Workload.from_arrays(submit_s=[0, 1e10], runtime_s=[1, 1], procs=[1, 1], name="ages")
    with pytest.raises(WorkloadError, match="115,741 days; a comparison allows at most 20,000"):
        compare_workloads(ages, drawn(1))
