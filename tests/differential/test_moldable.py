"""Moldable jobs in every engine against the naive reference, bit by bit."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim import ClusterSpec, Scenario, simulate
from sim.generators import default_workload
from sim.model.moldable import Moldability
from tests.differential import naive
from tests.draw import real_logs
from tests.draw.moldable import RULES, moldable_scenario

ENGINES = ("compiled", "interpreted", "process")


def assert_same(scenario: Scenario, engines: tuple[str, ...] = ENGINES) -> int:
    """Compare starts, ends and processors; return how many jobs ran on fewer than requested."""
    expected = naive.simulated(scenario)
    for engine in engines:
        result = simulate(scenario, engine=engine)
        assert result.start_s.tolist() == [job.start for job in expected], engine
        assert result.end_s.tolist() == [job.end for job in expected], engine
        assert result.procs is not None
        assert result.procs.tolist() == [job.procs for job in expected], engine
    return sum(job.procs < scenario.workload.procs[job.row] for job in expected)


def test_random_scenarios_with_ties_are_those_of_the_naive_scheduler() -> None:
    n_fewer = [assert_same(moldable_scenario(seed)) for seed in range(80)]
    assert sum(n > 0 for n in n_fewer) > 30


@pytest.mark.soak
def test_many_random_scenarios_are_those_of_the_naive_scheduler() -> None:
    for seed in range(80, 600):
        assert_same(moldable_scenario(seed))


@pytest.mark.parametrize("backfill", sorted(set(RULES)))
def test_a_long_queue_of_moldable_jobs_is_that_of_the_naive_scheduler(backfill: str) -> None:
    workload = default_workload(seed=3, n_jobs=300)
    scenario = Scenario(
        workload, ClusterSpec.single(workload.widest_procs), "fcfs", backfill,
        moldable=Moldability(3, variance=0.5),
    )  # fmt: skip
    assert assert_same(scenario) > 20


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("log", ["UniLu-Gaia-2014-1", "CEA-Curie-2011-2.1-cln"])
def test_moldable_jobs_of_a_real_log_are_those_of_the_naive_scheduler(
    shared_data: Path, log: str
) -> None:
    workload, procs = real_logs.crowded(shared_data, log, 400, share=8)
    scenario = Scenario(workload, ClusterSpec.single(procs), moldable=Moldability(2))
    for order in ("fcfs", "lxf"):
        assert assert_same(replace(scenario, order=order)) > 0
