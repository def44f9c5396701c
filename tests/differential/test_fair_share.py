"""Fair-share trees: factors and starts, against a recursive reading of Slurm's pages."""

import numpy as np
import pytest

from sim import Scenario, simulate
from sim.engines.job_setup import make_pool
from sim.kernel.fair_share import charge, fair_share
from sim.kernel.records import interpretable
from sim.model.admission import admit
from tests.differential import naive, naive_priority
from tests.draw.accounts import shared_scenario

ENGINES = ("compiled", "interpreted", "process")


def assert_same_starts(scenario: Scenario) -> None:
    expected = naive.starts(scenario)
    for engine in ENGINES:
        assert simulate(scenario, engine=engine).start_s.tolist() == expected, engine


def test_random_trees_with_ties_start_as_in_the_naive_scheduler() -> None:
    for seed in range(80):
        assert_same_starts(shared_scenario(seed))


@pytest.mark.soak
def test_many_random_trees_start_as_in_the_naive_scheduler() -> None:
    for seed in range(80, 400):
        assert_same_starts(shared_scenario(seed))


def assert_same_factors(seed: int) -> bool:
    """Charge at random times and compare all factors; return whether some users are tied."""
    rng = np.random.default_rng(seed)
    scenario = shared_scenario(seed)
    pool = interpretable(make_pool(scenario, admit(scenario)))
    stays: dict[int, naive_priority.Stay] = {}
    now, is_tied = 0.0, False
    procs = scenario.workload.procs.tolist()
    for _ in range(12):
        now += float(rng.choice([0.0, 1.0, 2.0, 4.0]))
        job = int(rng.integers(scenario.workload.n_jobs))
        if job not in stays:
            stays[job] = naive_priority.Stay(job, procs[job], now, np.inf)
            charge(pool.fair, job, procs[job], now)
        elif stays[job].end == np.inf:
            stays[job] = naive_priority.Stay(job, procs[job], stays[job].start, now)
            charge(pool.fair, job, -procs[job], now)
        if rng.random() < 0.5:
            continue
        found = [fair_share(pool.fair, row, now) for row in range(len(procs))]
        expected = [
            naive_priority.fair_share(scenario, row, now, list(stays.values()))
            for row in range(len(procs))
        ]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12), (seed, now)
        whose = naive_priority.keys(scenario)
        is_tied |= len(set(found)) < len(set(whose))
    return is_tied


def test_factors_are_those_of_the_pages_of_slurm() -> None:
    assert sum(assert_same_factors(seed) for seed in range(60)) > 20


@pytest.mark.soak
def test_many_factors_are_those_of_the_pages_of_slurm() -> None:
    for seed in range(60, 2500):
        assert_same_factors(seed)
