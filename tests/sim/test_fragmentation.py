"""Fragments of GPUs and how machines are filled: by hand, and against a plain recount."""

from typing import Any

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import ScenarioError, SimulationResult, Tasks, Term, summarise_placing
from sim.generators import default_workload
from sim.metrics import fragmentation, overcommitted_share
from sim.metrics import placement_metrics as module
from sim.metrics.placement_metrics import critical_paths_s
from sim.model.admission import placement_problem


def of_tasks(
    tasks: Tasks, *machines: MachineSpec, submit_s: list[float] | None = None, **told: Any
) -> Scenario:
    n = tasks.n_jobs
    workload = Workload.from_arrays(
        submit_s=submit_s or [0.0] * n, runtime_s=[1.0] * n, procs=[1] * n, tasks=tasks
    )
    cluster = ClusterSpec((Partition.of_machines("main", machines),))
    usual = {"backfill": "greedy", "allocation": "instances"}
    return Scenario(workload, cluster, **(usual | told))


def ran(scenario: Scenario) -> SimulationResult:
    return simulate(scenario, engine="interpreted")


def test_a_part_of_a_gpu_leaves_what_others_cannot_use() -> None:
    """Two GPUs; 0.3 of one is taken: half of the workload wants 1 GPU, half 0.3."""
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 10], mcpu=[1000] * 2, mgpu=[300, 1000])
    scenario = of_tasks(tasks, MachineSpec("a", 2, gpus=2), submit_s=[0.0, 4.0])
    found = fragmentation(scenario, ran(scenario))
    assert found is not None
    assert found.n_gpus == 2
    # from 0: cores for either; a GPU with 0.7 is too little for the one. From 4: no core is left
    # for either, so that 0.7 are lost to both. From 10: one core and the GPU with 1 are free.
    assert found.time_s.tolist() == [0.0, 4.0, 10.0, 14.0]
    assert found.free == pytest.approx([1.7, 0.7, 1.0, 2.0])
    assert found.fragmented == pytest.approx([0.35, 0.7, 0.0, 0.0])
    assert found.means() == pytest.approx(((1.7 * 4 + 0.7 * 6 + 4) / 14, (1.4 + 4.2) / 14))


def test_who_asks_for_no_gpu_finds_all_of_them_fragments() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[1, 1], mcpu=[1000] * 2, mgpu=[0, 1000])
    scenario = of_tasks(tasks, MachineSpec("a", 8, gpus=4), submit_s=[0.0, 5.0])
    found = fragmentation(scenario, ran(scenario))
    assert found is not None
    assert found.fragmented == pytest.approx([2.0, 2.0, 1.5, 2.0])


def test_without_gpus_there_are_no_fragments() -> None:
    scenario = of_tasks(Tasks.from_arrays(job=[0], runtime_s=[1], mcpu=[10]), MachineSpec("a", 1))
    assert fragmentation(scenario, ran(scenario)) is None
    assert "gpu_fragmented" not in summarise_placing(scenario, ran(scenario)).flat()


def drawn(seed: int) -> Scenario:
    """A small crowd of pods, whole and shared, some with demands on labels, on mixed machines."""
    rng = np.random.default_rng(seed)
    n = 60
    gpus = rng.choice([0, 200, 350, 500, 1000, 2000, 4000], n)
    tasks = Tasks.from_arrays(
        job=np.arange(n),
        runtime_s=rng.integers(0, 40, n),
        instances=rng.integers(1, 4, n),
        mcpu=rng.choice([500, 1000, 3000], n),
        mem_bytes=rng.choice([1, 2, 5], n),
        mgpu=gpus,
        demand=rng.choice([-1, -1, 0], n),
        affinities=[(Term("gpu.model", "In", ("T4",)),)],
    )
    machines = (
        MachineSpec("v", 8, 2, mem_bytes=40, gpus=4),
        MachineSpec("t", 6, 2, mem_bytes=12, gpus=4, labels={"gpu.model": "T4"}),
        MachineSpec("c", 16, 1),
    )
    submit_s = np.sort(rng.integers(0, 60, n)).astype(float).tolist()
    placement = "fgd" if seed % 2 else "first_fit"  # which of the GPUs counts too
    return of_tasks(tasks, *machines, submit_s=submit_s, too_wide="reject", placement=placement)


def recounted(scenario: Scenario, result: SimulationResult, time_s: float) -> tuple[float, float]:
    """Free and fragmented GPUs at a time, machine by machine and GPU by GPU."""
    tasks, found, needs = scenario.workload.tasks, result.instances, placement_problem(scenario)
    assert tasks is not None
    assert found is not None
    task_of = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
    free = [list(row) for row in needs.capacity.tolist()]
    first = np.concatenate([[0], np.cumsum(needs.capacity[:, 3] // 1000)])
    gpus = [[1000] * (row[3] // 1000) for row in needs.capacity.tolist()]
    on = [i for i in range(len(task_of)) if found.start_s[i] <= time_s < found.end_s[i]]
    for i in sorted(on, key=lambda i: tasks.mgpu[task_of[i]] >= 1000):  # parts first
        machine, demand = int(found.machine[i]), tasks.demands[task_of[i]].tolist()
        free[machine] = [a - b for a, b in zip(free[machine], demand, strict=True)]
        assert min(free[machine]) >= 0
        if 0 < demand[3] < 1000:
            gpus[machine][int(found.device[i] - first[machine])] -= demand[3]
        for _ in range(demand[3] // 1000):
            gpus[machine][gpus[machine].index(1000)] = 0
    lost = 0.0
    weights = np.bincount(needs.of_task, weights=tasks.instances)
    for m, weight in enumerate(weights / weights.sum()):
        demand = needs.demand[m].tolist()
        for machine, parts in enumerate(gpus):
            least = min(demand[3], 1000)
            n_fit = sum(part >= least for part in parts)
            has_room = (
                all(a >= b for a, b in zip(free[machine][:3], demand[:3], strict=True))
                and needs.suits[m, needs.machine_kind[machine]] == 1
                and n_fit >= max(demand[3] // 1000, 1)
            )
            useless = [part for part in parts if not has_room or demand[3] == 0 or part < least]
            lost += weight * sum(useless)
    return sum(map(sum, gpus)) / 1000, lost / 1000


@pytest.mark.parametrize("seed", range(4))
def test_sums_along_events_are_what_a_recount_gives(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = drawn(seed)
    result = ran(scenario)
    found = fragmentation(scenario, result)
    assert found is not None
    assert len(found.time_s) > 30
    for step in range(0, len(found.time_s), 3):
        time_s = float(found.time_s[step])
        expected = pytest.approx(recounted(scenario, result, time_s), abs=1e-9)
        assert (found.free[step], found.fragmented[step]) == expected
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 7)  # machine by machine
    again = fragmentation(scenario, result)
    assert again is not None
    assert again.fragmented == pytest.approx(found.fragmented)


def test_measures_of_placing_by_hand() -> None:
    """One machine of 2 cores: jobs of 2, 1 and 1 cores, submitted at 0, 2 and 4, 10 s each."""
    tasks = Tasks.from_arrays(job=[0, 1, 2], runtime_s=[10] * 3, mcpu=[2000, 1000, 1000])
    scenario = of_tasks(tasks, MachineSpec("a", 2), submit_s=[0.0, 2.0, 4.0])
    told = summarise_placing(scenario, ran(scenario)).flat()
    # asked: 2 cores for 10 s, 1 for 18 s, 1 for 16 s; placed: 20, 10 and 10 core-seconds
    assert told["cpu_placed"] == pytest.approx(40 / 54)
    assert told["cpu_placed_at_end"] == pytest.approx(2 / 4)
    assert told["cpu_allocation_at_end"] == 1.0
    assert "memory_allocation_at_end" not in told
    assert told["mean_slowdown"] == pytest.approx((1.0 + 1.8 + 1.6) / 3)
    assert told["mean_bounded_slowdown"] == pytest.approx((1.0 + 1.8 + 1.6) / 3)


def test_processors_beyond_those_that_there_are() -> None:
    """3 cores promised, 2 real: for 5 of 15 s three are held, for the rest one or two."""
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 10], mcpu=[2000, 1000])
    scenario = of_tasks(tasks, MachineSpec("a", 3), submit_s=[0.0, 5.0])
    assert overcommitted_share(scenario, ran(scenario), np.array([2000])) == pytest.approx(5 / 30)
    assert overcommitted_share(scenario, ran(scenario), np.array([3000])) == 0.0


def test_the_longest_chain_of_a_job() -> None:
    parents = [[], [0], [0], [1, 2], []]
    tasks = Tasks.from_arrays(
        job=[0, 0, 0, 0, 1], runtime_s=[1, 5, 2, 1, 9], mcpu=[1] * 5, parents=parents
    )
    assert critical_paths_s(tasks, tasks.runtime_s).tolist() == [7.0, 9.0]


def test_what_was_not_placed_by_instances_is_refused() -> None:
    scenario = Scenario(default_workload(seed=1, n_jobs=5), ClusterSpec.single(2048))
    with pytest.raises(ScenarioError, match="instances"):
        fragmentation(scenario, simulate(scenario, engine="interpreted"))
