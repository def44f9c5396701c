"""The first jobs of CloudSimPy's file, task by task, under every rule: engines and naive polls."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, simulate
from sim.api import SimulationResult, backfills_for
from sim.policies.placements import PLACEMENTS
from tests.sim import naive_fleet, naive_rules
from tests.sim.test_objects import drawn_jobs, first_jobs

TIB = 2**40
ALL = [rule.name for rule in PLACEMENTS]
FOR_GPUS = {"gpu_packing", "gpu_clustering", "fgd"}
ASKED_ANEW = ["drf", "max_weight", "least_work"]
PAIRS = [(placement, "greedy") for placement in ALL]
PAIRS += [("first_fit", backfill) for backfill in ("none", *ASKED_ANEW)]
PAIRS += [("tetris", "least_work")]


def as_in_the_reference(one: Scenario, *engines: str) -> SimulationResult:
    """See engines give each instance the machine, start and end that naive polls give it."""
    choose = naive_rules.chooser(one.placement, one.backfill, one.seed)
    wanted = naive_fleet.columns(naive_fleet.simulate(one, choose))
    results = [simulate(one, engine=engine) for engine in engines]
    for result in results:
        found = result.instances
        assert found is not None
        for name, column in zip(("machine", "start_s", "end_s"), wanted, strict=True):
            differ = np.flatnonzero(getattr(found, name) != np.array(column))
            assert len(differ) == 0, (
                f"{one.placement}, {one.backfill}, {result.engine}, {name}: {len(differ)} differ, "
                f"the first is instance {differ[0]}"
            )
        assert result == results[0], f"{result.engine} differs"
    return results[0]


def on_unlike_machines(one: Scenario, n_of_each: int) -> Scenario:
    """Machines of three shapes instead, on which no two rules for resources are the same."""
    shapes = (("a", 64, 1.0), ("b", 16, 0.25), ("c", 96, 0.125))
    machines = [
        MachineSpec(name, cores, count=n_of_each, mem_bytes=int(memory * TIB))
        for name, cores, memory in shapes
    ]
    return replace(one, cluster=ClusterSpec((Partition.of_machines("main", machines),)))


def share_that_waits(one: Scenario, result: SimulationResult) -> float:
    tasks = one.workload.tasks
    assert tasks is not None
    assert result.instances is not None
    submit_s = np.repeat(one.workload.submit_s[tasks.job], tasks.instances)
    return float((result.instances.start_s > submit_s).mean())


def test_every_rule_is_among_the_pairs() -> None:
    assert {placement for placement, _ in PAIRS} == set(ALL)
    assert {backfill for _, backfill in PAIRS} == set(backfills_for("instances"))


@pytest.mark.parametrize(("placement", "backfill"), PAIRS)
def test_drawn_jobs_on_unlike_machines(placement: str, backfill: str) -> None:
    """With parents, disks and little room, in Python alone."""
    for seed in range(3):
        one = replace(drawn_jobs(seed), placement=placement, backfill=backfill, seed=seed)
        as_in_the_reference(one, "interpreted")


@pytest.fixture(scope="module")
def jobs(shared_data: Path) -> Scenario:
    """The first 200 jobs on 30 machines such as CloudSimPy has."""
    return first_jobs(shared_data, 200, 30)


def head(one: Scenario, n_jobs: int) -> Scenario:
    return replace(one, workload=one.workload.head(n_jobs))


@pytest.mark.parametrize(("placement", "backfill"), PAIRS)
def test_the_first_jobs_in_python_alone(jobs: Scenario, placement: str, backfill: str) -> None:
    one = on_unlike_machines(head(jobs, 3 if backfill == "greedy" else 1), 1)
    one = replace(one, placement=placement, backfill=backfill, seed=1)
    as_in_the_reference(one, "interpreted")


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("placement", ALL)
def test_the_first_200_jobs(jobs: Scenario, placement: str) -> None:
    """65,041 instances, of which two thirds wait."""
    one = replace(jobs, placement=placement, seed=2)
    result = as_in_the_reference(one, "compiled", "process")
    assert result.instances is not None
    assert len(result.instances.machine) == 65_041
    assert share_that_waits(one, result) > 2 / 3


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize(("placement", "backfill"), PAIRS[len(ALL) :])
def test_the_first_jobs_by_who_is_next(jobs: Scenario, placement: str, backfill: str) -> None:
    """The naive reference takes long over these, so that it has 40 jobs, 15,963 instances."""
    few = Partition.of_machines("main", [MachineSpec("m", 64, count=10, mem_bytes=TIB)])
    one = replace(head(jobs, 40), cluster=ClusterSpec((few,)), seed=2)
    one = replace(one, placement=placement, backfill=backfill)
    result = as_in_the_reference(one, "compiled", "process")
    assert share_that_waits(one, result) > 2 / 3


@pytest.mark.soak
@pytest.mark.slow
def test_the_first_jobs_on_machines_that_are_not_alike(jobs: Scenario) -> None:
    """Where every rule for resources goes another way than every other."""
    one = on_unlike_machines(head(jobs, 20), 2)
    gone: dict[tuple[int, ...], str] = {}
    for placement in ALL:
        told = replace(one, placement=placement, seed=3)
        result = as_in_the_reference(told, "compiled", "process")
        assert result.instances is not None
        if placement not in FOR_GPUS:
            way = tuple(result.instances.machine.tolist())
            assert way not in gone, f"{placement} goes the way of {gone[way]}"
            gone[way] = placement
