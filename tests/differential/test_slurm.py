"""Slurm's rules over machines, whole and shared: every engine against the naive reference."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sim import ClusterSpec, Scenario, load_workload, simulate
from sim.api import SimulationResult
from sim.engines.compiled import _interpret
from sim.engines.process import run as run_process
from sim.kernel.nodes import Nodes
from sim.model.scenario import Allocation
from tests.differential import naive_slurm
from tests.differential.machines import assert_same_on_machines
from tests.draw.workloads import crowded_slurm, slurm_scenarios


def assert_as_in_the_reference(scenario: Scenario) -> SimulationResult:
    return assert_same_on_machines(scenario, naive_slurm.schedule(scenario))


@pytest.mark.soak
@given(slurm_scenarios())
def test_generated_scenarios_run_as_in_the_naive_reference(scenario: Scenario) -> None:
    assert_as_in_the_reference(scenario)


@pytest.mark.parametrize("first_seed", range(0, 120, 40))
def test_crowded_machines_run_as_in_the_naive_reference(first_seed: int) -> None:
    n_waited = 0
    for seed in range(first_seed, first_seed + 40):
        scenario = crowded_slurm(seed)
        result = assert_as_in_the_reference(scenario)
        n_waited += int((result.start_s > scenario.workload.submit_s).sum())
    assert n_waited > 400


@given(slurm_scenarios())
def test_the_simpy_engine_gives_the_same_whichever_text_it_calls(scenario: Scenario) -> None:
    assert run_process(scenario, kernel="compiled") == run_process(scenario, kernel="interpreted")


@pytest.mark.soak
@given(slurm_scenarios())
def test_no_machine_is_ever_overfull(scenario: Scenario) -> None:
    _, state, course = _interpret(scenario, lambda: False)
    assert isinstance(state, Nodes)
    capacity, demand = np.array(state.capacity), np.array(state.demand).reshape(-1, 2)
    start_s, end_s = np.array(course.start_s), np.array(course.end_s)
    for moment in np.unique(start_s[~np.isnan(start_s)]):
        held = np.zeros(capacity.shape, dtype=np.int64).reshape(-1, 2)
        for row in np.flatnonzero((start_s <= moment) & (moment < end_s)):
            claim, got = state.claims[row], 0
            for place in range(claim.first_place, claim.first_place + claim.n_places):
                machine = state.places[place]
                if scenario.allocation == "shared_nodes":
                    assert state.shares[place] > 0
                    held[machine] += state.shares[place] * demand[row]
                    got += state.shares[place]
                else:
                    held[machine] += capacity.reshape(-1, 2)[machine]
                    got += capacity.reshape(-1, 2)[machine, 0]
            assert got == scenario.workload.procs[row] + claim.waste
        assert (held.ravel() <= capacity).all()
    assert state.free == state.capacity, "all of it came back"


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(
    ("allocation", "backfill"),
    [("shared_nodes", "none"), ("shared_nodes", "slurm"), ("whole_nodes", "slurm")],
)
@pytest.mark.parametrize("procs", [1, 8, 32])
def test_a_real_log_runs_as_in_the_naive_reference(
    shared_data: Path, procs: int, allocation: Allocation, backfill: str
) -> None:
    workload = load_workload(shared_data / "swf" / "alea-hpc2n-subset.swf.gz", first=150)
    n_procs = -(-workload.widest_procs // 32) * 32
    cluster = ClusterSpec.single(n_procs).in_machines_of(procs)
    scenario = Scenario(workload, cluster, backfill=backfill, allocation=allocation)
    result = assert_as_in_the_reference(scenario)
    assert (result.start_s > workload.submit_s).sum() > 20, "nobody waits: nothing is compared"


@given(slurm_scenarios())
def test_machines_of_one_processor_may_be_whole_or_shared(scenario: Scenario) -> None:
    bare = [replace(part, machines=()) for part in scenario.cluster.partitions]
    slurm = replace(scenario, cluster=ClusterSpec.of(bare).in_machines_of(1), backfill="slurm")
    whole, shared = (
        simulate(replace(slurm, allocation=allocation))
        for allocation in ("whole_nodes", "shared_nodes")
    )
    assert whole.start_s.tobytes() == shared.start_s.tobytes()
    for row in range(scenario.workload.n_jobs):
        assert whole.placement is not None
        assert shared.placement is not None
        assert whole.placement.of(row).tolist() == shared.placement.of(row).tolist()
