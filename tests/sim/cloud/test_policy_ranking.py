"""Rankings of policies compared: Kendall's tau beside SciPy's, ties, the ceiling, the same load."""

import argparse
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from benchmarks import policy_ranking
from benchmarks.rankings import among, between, differs, ranked, regret, signs, taus, tied_share
from sim import ClusterSpec, Scenario, Workload, simulate
from sim.api import measures, offered_load
from sim.generators import default_workload, scale_load

ROWS = np.array([[1.0, 2.0, 3.0], [1.0, 3.0, 2.0], [3.0, 2.0, 1.0], [2.0, 2.0, 5.0]])


def test_tau_is_scipys_with_ties() -> None:
    rng = np.random.default_rng(1)
    one, other = (np.exp(rng.integers(0, 5, size=(12, 8)) / 2.0) for _ in range(2))
    found = taus(one, other)
    wanted = [[kendalltau(a, b).statistic for b in other] for a in one]
    assert found == pytest.approx(np.array(wanted), abs=1e-12)


def test_tau_by_hand() -> None:
    found = taus(ROWS, ROWS)
    assert found[0] == pytest.approx([1.0, 1 / 3, -1.0, 2 / np.sqrt(6)])
    assert (taus(np.ones((1, 3)), ROWS) == 0).all(), "a week that ties all ranks nothing"


def test_what_is_within_the_tolerance_is_tied() -> None:
    told = signs(np.array([[100.0, 109.0, 111.0]]), 0.1)
    assert told.tolist() == [[0.0, 1.0, 0.0]]
    assert tied_share(np.array([[100.0, 109.0, 111.0]]), 0.1) == pytest.approx(2 / 3)


def test_the_ceiling_sets_no_week_beside_itself() -> None:
    found = among(ROWS[:3])
    assert found.mean == pytest.approx((1 / 3 - 1 - 1 / 3) / 3)
    assert found.low <= found.mean <= found.high
    alike = among(np.tile(ROWS[0], (5, 1)))
    assert (alike.mean, alike.low, alike.high) == (1.0, 1.0, 1.0)


def test_means_and_differences_over_all_pairs() -> None:
    real, same, turned = ROWS[:1], ROWS[:1], ROWS[2:3]
    assert between(real, ROWS[:3]).mean == pytest.approx((1 + 1 / 3 - 1) / 3)
    gap = differs(real, same, turned)
    assert (gap.mean, gap.low, gap.high) == (2.0, 2.0, 2.0)


def test_regret_is_of_the_policy_that_was_chosen() -> None:
    assert regret(ROWS[:1], ROWS[:1]) == 1.0
    assert regret(ROWS[:1], ROWS[2:3]) == pytest.approx(3.0)
    assert ranked(("a", "b", "c"), ROWS[2:3]) == ["c", "b", "a"]


def test_the_interval_covers_as_it_says() -> None:
    """Of 50 drawn sets of weeks whose mean tau is 0, about 1 in 20 excludes it."""
    rng = np.random.default_rng(3)
    out = 0
    for _ in range(50):
        found = between(*(np.exp(rng.normal(size=(12, 6))) for _ in range(2)))
        out += not found.low <= 0 <= found.high
    assert out <= 8


@pytest.mark.parametrize("by", ["gaps", "machine"])
def test_every_week_is_brought_to_the_same_load(by: str) -> None:
    for seed in (1, 2):
        week = default_workload(seed, 400)
        jobs, procs = policy_ranking.loaded(week, 0.85, 240, by)
        assert offered_load(jobs, procs) == pytest.approx(0.85, rel=0.01)
        assert (jobs == week) == (by == "machine")


def test_slowdowns_are_those_of_the_simulator_and_edges_are_left_out() -> None:
    jobs = scale_load(default_workload(4, 300), load=1.2, procs=64)
    scenario = Scenario(jobs, ClusterSpec.single(64), too_wide="clip")
    result = simulate(scenario, engine="interpreted")
    every, inside = policy_ranking.slowdowns(scenario, result)
    assert every == pytest.approx(measures(scenario, result)["mean_bounded_slowdown"])
    kept = (jobs.submit_s >= jobs.span_s / 7) & (jobs.submit_s <= jobs.span_s * 6 / 7)
    assert 0.5 < kept.mean() < 1
    assert every > 1
    assert inside != every


def test_weeks_follow_each_other_and_the_last_third_is_held_back() -> None:
    log = Workload.from_arrays(
        submit_s=np.arange(30) * 86_400.0, runtime_s=np.ones(30), procs=np.ones(30, dtype=int)
    )
    assert policy_ranking.n_weeks(log) == 4
    assert [policy_ranking.week_of(log, week).n_jobs for week in range(4)] == [7] * 4
    assert [policy_ranking.held_back(weeks) for weeks in (12, 27, 36)] == [6, 9, 12]


@pytest.mark.slow
def test_a_week_has_a_mean_for_every_policy() -> None:
    options = argparse.Namespace(load=0.85, by="gaps")
    told: dict[str, Any] = policy_ranking.simulated(default_workload(1, 300), options, 240)
    assert len(told["all"]) == len(policy_ranking.POLICIES) == 8
    assert min(told["all"]) >= 1
    assert 0 < told["hourly_cv"] < 10
