"""Jobs that follow others, in every engine, against the naive reference, bit by bit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import ClusterSpec, Partition, Scenario, simulate
from sim.generators import default_workload
from sim.model.columns import read_only_copy
from tests.differential import naive
from tests.draw import real_logs
from tests.draw.dependencies import dependent_scenario

ENGINES = ("compiled", "interpreted", "process")


def assert_same(scenario: Scenario) -> int:
    """Compare submissions and starts, and return how many jobs were submitted at another time."""
    expected = naive.simulated(scenario)
    logged_s = scenario.workload.submit_s
    for engine in ENGINES:
        result = simulate(scenario, engine=engine)
        assert result.submissions_s(scenario.workload).tolist() == [job.submit for job in expected]
        assert result.start_s.tolist() == [job.start for job in expected], engine
    return int((result.submissions_s(scenario.workload) != logged_s).sum())


def test_random_scenarios_with_ties_are_those_of_the_naive_scheduler() -> None:
    assert sum(assert_same(dependent_scenario(seed)) for seed in range(60)) > 200


@pytest.mark.soak
def test_many_random_scenarios_are_those_of_the_naive_scheduler() -> None:
    for seed in range(60, 200):
        assert_same(dependent_scenario(seed))


@pytest.mark.parametrize("order", ["fcfs", "sjf", "lxf", "multifactor"])
def test_sessions_of_drawn_users_are_those_of_the_naive_scheduler(order: str) -> None:
    """A machine this small is overloaded: users get their results late, and submit later."""
    workload = default_workload(seed=3, n_jobs=300)
    rng = np.random.default_rng(3)
    wait_s = rng.integers(0, 600, workload.n_jobs).astype(float)
    user = rng.integers(1, 100, workload.n_jobs)
    workload = replace(workload, logged_wait_s=read_only_copy(wait_s), user=read_only_copy(user))
    cluster = ClusterSpec((Partition("short", 16, 3600.0), Partition("all", workload.widest_procs)))
    scenario = Scenario(workload, cluster, order, dependencies="sessions")
    assert assert_same(scenario) > 20


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("log", ["UniLu-Gaia-2014-1", "CEA-Curie-2011-2.1-cln"])
def test_sessions_of_real_users_are_those_of_the_naive_scheduler(
    shared_data: Path, log: str
) -> None:
    workload, procs = real_logs.crowded(shared_data, log, 400, share=8)
    for order in ("fcfs", "lxf"):
        scenario = Scenario(workload, ClusterSpec.single(procs), order, dependencies="sessions")
        assert assert_same(scenario) > 20
