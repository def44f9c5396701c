"""Nodes that are off when idle: the engines and the naive reference, and energy is conserved."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from sim import Scenario, SimulationResult, simulate
from sim.metrics.energy import energy_metrics, node_use
from tests.differential import naive_power
from tests.draw.power import busy_power_scenario, power_scenarios

ENGINES = ("compiled", "interpreted", "process")


def assert_as_in_the_naive_one(scenario: Scenario, engines: tuple[str, ...]) -> None:
    runs, nodes = naive_power.simulate(scenario)
    results = [simulate(scenario, engine=engine) for engine in engines]
    for result in results:
        assert result == results[0], result.engine
        assert result.holds is not None
        assert result.start_s.tolist() == [run.start for run in runs], result.engine
        assert result.end_s.tolist() == [run.end for run in runs], result.engine
        assert result.holds.from_s.tolist() == [run.took for run in runs], result.engine
    metrics = energy_metrics(scenario, results[0])
    assert metrics.n_boots == sum(len(node.boots) for part in nodes for node in part.nodes)
    joules = naive_power.energy_j(scenario, runs, nodes)
    assert metrics.energy_kwh * 3.6e6 == pytest.approx(joules, rel=1e-9, abs=1e-6)
    assert_conserved(scenario, results[0])


def assert_conserved(scenario: Scenario, result: SimulationResult) -> None:
    """No node is in two states, and every second of a node and of work counts once."""
    use = node_use(scenario, result)
    assert scenario.power is not None
    assert (np.diff(use.time_s) > 0).all()
    assert (use.off >= 0).all()
    assert (use.booting >= 0).all()
    assert (use.off + use.booting <= use.n_nodes).all()
    room = (use.n_nodes - use.off - use.booting) * scenario.power.node_procs
    assert (use.working <= room).all()
    length_s = np.diff(use.time_s)
    worked_s = float((use.working * length_s).sum())
    run_s = float((scenario.workload.procs * (result.end_s - result.start_s)).sum())
    assert worked_s == pytest.approx(run_s, abs=1e-6)
    one_watt = replace(scenario.power, busy_w=1.0, idle_w=1.0, off_w=1.0, boot_w=1.0)
    joules = float((use.watts(one_watt) * length_s).sum())
    span_s = float(use.time_s[-1] - use.time_s[0])
    assert joules == pytest.approx(use.n_nodes * span_s, abs=1e-6)


@settings(max_examples=40)
@given(power_scenarios())
def test_generated_scenarios_run_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_as_in_the_naive_one(scenario, ENGINES)


@pytest.mark.parametrize("seed", range(8))
def test_busy_scenarios_run_as_in_the_naive_scheduler(seed: int) -> None:
    assert_as_in_the_naive_one(busy_power_scenario(seed), ENGINES)


@pytest.mark.soak
@pytest.mark.slow
@settings(max_examples=150)
@given(power_scenarios(most_jobs=40))
def test_many_generated_scenarios_run_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_as_in_the_naive_one(scenario, ("compiled", "interpreted"))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, 20))
def test_many_busy_scenarios_run_as_in_the_naive_scheduler(seed: int) -> None:
    assert_as_in_the_naive_one(busy_power_scenario(seed), ENGINES)


def test_busy_scenarios_boot_and_delay() -> None:
    """Otherwise the comparison is empty."""
    n_boots = n_delayed = 0
    for seed in range(8):
        scenario = busy_power_scenario(seed)
        result = simulate(scenario, engine="interpreted")
        assert result.holds is not None
        n_boots += energy_metrics(scenario, result).n_boots
        n_delayed += int((result.start_s > result.holds.from_s).sum())
    assert n_boots > 100
    assert n_delayed > 50
