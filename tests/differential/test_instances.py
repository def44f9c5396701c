"""Instances on machines: every engine against the naive reference, task by task."""

from dataclasses import replace

import numpy as np
import pytest

from sim import Scenario, Workload, simulate
from sim.api import ScenarioError, SimulationResult
from sim.engines.process import run_instances as run_process
from sim.policies.placements import PLACEMENTS
from tests.differential import naive_instances
from tests.draw.instances import scenario_of_instances

ENGINES = ("interpreted", "process", "compiled")


def as_in_the_reference(
    scenario: Scenario, seed: int, engines: tuple[str, ...] = ENGINES
) -> SimulationResult | None:
    """See engines place each instance as the reference did; None if that got stuck."""
    try:
        pods = naive_instances.schedule(scenario)
    except naive_instances.StuckError:
        for engine in engines:
            with pytest.raises(ScenarioError, match=r"forever|has no room"):
                simulate(scenario, engine=engine)
        return None
    results = [simulate(scenario, engine=engine) for engine in engines]
    expected = {
        "machine": np.array([-1 if p.machine is None else p.machine.number for p in pods]),
        "start_s": np.array([p.start for p in pods]),
        "begin_s": np.array([p.begin for p in pods]),
        "end_s": np.array([np.nan if p.machine is None else p.finish for p in pods]),
    }
    for result in results:
        assert result.instances is not None
        for name, column in expected.items():
            found = getattr(result.instances, name)
            differ = np.flatnonzero(~((found == column) | (np.isnan(found) & np.isnan(column))))
            assert len(differ) == 0, (
                f"seed {seed}, {result.engine}, {name}: {len(differ)} differ, first instance "
                f"{differ[0]}: naive {column[differ[0]]!r}, found {found[differ[0]]!r}"
            )
        assert result == results[0], f"seed {seed}: {result.engine} differs"
    return results[0]


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_drawn_scenarios_run_as_in_the_naive_scheduler(first_seed: int) -> None:
    n_waited = n_stuck = n_late = 0
    for seed in range(first_seed, first_seed + 50):
        result = as_in_the_reference(scenario_of_instances(seed), seed)
        if result is None:
            n_stuck += 1
            continue
        assert result.instances is not None
        n_late += int((result.instances.begin_s > result.instances.start_s).sum())
        n_waited += int((result.start_s > scenario_of_instances(seed).workload.submit_s).sum())
    assert n_waited > 20, "nobody waits: the comparison is empty"
    assert n_late > 0, "no gang waits for itself: the comparison is empty"
    assert n_stuck < 25


def placed_by(rule: str, seed: int) -> Scenario:
    """A drawn scenario with a placement rule, and half of the time with options for it."""
    drawn = scenario_of_instances(seed)
    rng = np.random.default_rng((seed, 7))
    told: dict[str, float] = {"typical_share": 1.0} if rule == "fgd" else {}
    if rule in ("best_fit", "worst_fit") and seed % 2:
        weights = rng.choice([0.0, 0.5, 1.0, 3.0], 4).tolist()
        told = dict(
            zip(("cpu_weight", "mem_weight", "disk_weight", "gpu_weight"), weights, strict=True)
        )
    return replace(drawn, placement=rule, seed=seed, options=dict(drawn.options) | told)


@pytest.mark.parametrize("rule", [rule.name for rule in PLACEMENTS])
def test_every_placement_chooses_as_the_naive_one(rule: str) -> None:
    n_elsewhere = 0
    for seed in range(1000, 1030):
        scenario = placed_by(rule, seed)
        result = as_in_the_reference(scenario, seed, ("interpreted",))
        if result is None:
            continue
        try:
            first = simulate(scenario_of_instances(seed), engine="interpreted")
        except ScenarioError:
            continue
        assert result.instances is not None
        assert first.instances is not None
        n_elsewhere += int((result.instances.machine != first.instances.machine).sum())
    assert rule == "first_fit" or n_elsewhere > 20, "as first fit: the comparison is empty"


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("rule", [rule.name for rule in PLACEMENTS])
def test_every_placement_is_the_same_in_every_engine(rule: str) -> None:
    n_ran = 0
    for seed in range(2000, 2025):
        n_ran += as_in_the_reference(placed_by(rule, seed), seed) is not None
    assert n_ran > 12


def of_users(rule: str, seed: int) -> Scenario:
    """A drawn scenario in which a rule asks who is next, with users every other time."""
    rng = np.random.default_rng((seed, 8))
    drawn = scenario_of_instances(seed)
    users = rng.integers(0, 3, drawn.workload.n_jobs) if seed % 2 else None
    workload = Workload.from_arrays(
        submit_s=drawn.workload.submit_s,
        runtime_s=drawn.workload.runtime_s,
        requested_s=drawn.workload.requested_s,
        procs=drawn.workload.procs,
        user=users,
        tasks=drawn.workload.tasks,
    )
    placement = str(rng.choice(["first_fit", "best_fit", "random"]))
    return replace(drawn, workload=workload, backfill=rule, placement=placement)


@pytest.mark.parametrize("rule", ["drf", "max_weight", "least_work"])
def test_the_most_urgent_is_next_as_in_the_naive_scheduler(rule: str) -> None:
    n_others = 0
    for seed in range(3000, 3040):
        scenario = of_users(rule, seed)
        result = as_in_the_reference(scenario, seed, ("interpreted",))
        if result is not None:
            try:
                greedy = simulate(replace(scenario, backfill="greedy"), engine="interpreted")
            except ScenarioError:
                continue
            n_others += int((result.start_s != greedy.start_s).sum())
    assert n_others > 5, "all go as in greedy: the comparison is empty"


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["drf", "max_weight", "least_work"])
def test_urgency_is_the_same_in_every_engine(rule: str) -> None:
    for seed in range(4000, 4015):
        as_in_the_reference(replace(scenario_of_instances(seed), backfill=rule), seed)


def test_the_simpy_engine_gives_the_same_whichever_text_it_calls() -> None:
    n_ran = 0
    for seed in range(40):
        scenario = scenario_of_instances(seed)
        try:
            found = run_process(scenario, kernel="interpreted")
        except ScenarioError:
            continue
        assert found == run_process(scenario, kernel="compiled"), f"seed {seed}"
        n_ran += 1
    assert n_ran > 20
