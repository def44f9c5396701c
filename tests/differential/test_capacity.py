"""Queues on shared processors, limits, preemption, windows: the engines and the naive reference."""

import pytest
from hypothesis import given, settings

from sim import Scenario, simulate
from tests.differential import naive_capacity
from tests.draw.capacity import busy_scenario, capacity_scenarios


def assert_as_in_the_naive_one(scenario: Scenario, engines: tuple[str, ...]) -> None:
    expected = naive_capacity.schedule(scenario)
    for engine in engines:
        result = simulate(scenario, engine=engine)
        assert result.start_s.tolist() == [job.start for job in expected], engine
        if result.restarts is not None:
            assert result.restarts.n.tolist() == [job.restarts for job in expected], engine
            assert result.restarts.lost_s.tolist() == [job.lost for job in expected], engine
        else:
            assert not any(job.restarts for job in expected)


@given(capacity_scenarios())
def test_generated_scenarios_run_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_as_in_the_naive_one(scenario, ("compiled", "interpreted", "process"))


@pytest.mark.parametrize("seed", range(10))
def test_busy_scenarios_run_as_in_the_naive_scheduler(seed: int) -> None:
    assert_as_in_the_naive_one(busy_scenario(seed), ("compiled", "interpreted", "process"))


@pytest.mark.soak
@pytest.mark.slow
@settings(max_examples=150)
@given(capacity_scenarios(most_jobs=40))
def test_many_generated_scenarios_run_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_as_in_the_naive_one(scenario, ("compiled", "interpreted"))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_many_busy_scenarios_run_as_in_the_naive_scheduler(seed: int) -> None:
    assert_as_in_the_naive_one(busy_scenario(seed), ("compiled", "interpreted", "process"))


def test_busy_scenarios_are_busy() -> None:
    """Otherwise the comparison is empty."""
    n_restarts = n_waited = 0
    for seed in range(10):
        scenario = busy_scenario(seed)
        result = simulate(scenario, engine="interpreted")
        n_restarts += 0 if result.restarts is None else int(result.restarts.n.sum())
        n_waited += int((result.start_s > scenario.workload.submit_s).sum())
    assert n_restarts > 20
    assert n_waited > 500
