"""Placing by an object: against the kernel, against the naive reference, and by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import ScenarioError, Tasks, ThrottleWindow, load_workload, summarise_instances
from sim.placement import Cpop, FirstFit, Heft, LiveCluster, Monitor, RandomFit, simulate_algorithm
from sim.placement.heft import Graph, cpop, heft
from tests.draw.instances import scenario_of_instances
from tests.sim import naive_fleet

GIB = 2**30


def scenario(tasks: Tasks, *machines: MachineSpec, **told: Any) -> Scenario:
    n = tasks.n_jobs
    workload = Workload.from_arrays(
        submit_s=told.pop("submit_s", [0.0] * n), runtime_s=[1.0] * n, procs=[1] * n, tasks=tasks
    )
    cluster = ClusterSpec((Partition.of_machines("main", machines),))
    return Scenario(workload, cluster, **({"backfill": "greedy", "allocation": "instances"} | told))


def as_columns(one: Any) -> tuple[list[int], list[float], list[float]]:
    found = one.instances
    return found.machine.tolist(), found.start_s.tolist(), found.end_s.tolist()


DIAMOND = Tasks.from_arrays(
    job=[0, 0, 0, 0],
    runtime_s=[4, 3, 7, 2],
    instances=[1, 2, 1, 1],
    mcpu=[1000] * 4,
    parents=[[], [0], [0], [1, 2]],
)


@pytest.mark.parametrize("first_seed", range(0, 120, 15))
def test_a_first_fit_object_places_as_the_kernel_does(first_seed: int) -> None:
    """With units, throttles, gangs, GPUs, labels and parents; the result is the same bit by bit."""
    n_ran = n_stuck = 0
    for seed in range(first_seed, first_seed + 15):
        drawn = scenario_of_instances(seed)
        options = dict(drawn.options) | {"all_or_nothing": 0}
        one = replace(drawn, backfill="greedy", options=options)
        try:
            wanted = simulate(one, engine="interpreted")
        except ScenarioError:
            n_stuck += 1
            with pytest.raises(ScenarioError, match="never placed"):
                simulate_algorithm(one, FirstFit())
            continue
        found = simulate_algorithm(one, FirstFit(), monitor=Monitor()).result
        assert replace(found, scenario_digest=wanted.scenario_digest) == wanted, f"seed {seed}"
        assert found.scenario_digest != wanted.scenario_digest, "it is in no cache"
        n_ran += 1
    assert n_ran > n_stuck


def test_children_wait_and_queries_tell_it() -> None:
    seen: list[tuple[float, list[int], list[int], int]] = []

    class Watching(FirstFit):
        def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
            ready = [task.number for task in cluster.ready_tasks]
            waiting = [task.n_waiting for task in cluster.ready_tasks]
            seen.append((clock, ready, waiting, len(cluster.running_instances)))
            return super().algorithm(cluster, clock)

    one = scenario(DIAMOND, MachineSpec("a", 2))
    run = simulate_algorithm(one, Watching())
    assert as_columns(run.result)[1:] == ([0, 4, 4, 7, 14], [4, 7, 7, 14, 16])
    assert seen == [
        (0, [0], [1], 0), (0, [], [], 1),
        (4, [1, 2], [2, 1], 0), (4, [1, 2], [1, 1], 1), (4, [2], [1], 2),
        (7, [2], [1], 0), (7, [], [], 1), (14, [3], [1], 0), (14, [], [], 1), (16, [], [], 0),
    ]  # fmt: skip
    assert run.n_asked == len(seen)


def test_what_machines_tasks_and_jobs_tell() -> None:
    class Asking(FirstFit):
        done = False

        def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
            if clock == 5.0 and not self.done:
                self.done = True
                self.ask(cluster)
            return super().algorithm(cluster, clock)

        def ask(self, cluster: LiveCluster) -> None:
            a, b = cluster.machines
            assert (a.name, a.labels, a.number) == ("a", {"zone": "x"}, 0)
            assert a.capacity == (2000, 4 * GIB, 2**62, 2000)
            assert a.used == (1500, GIB, 0, 1300)
            assert a.free_gpus == (700, 0)
            assert [one.task.number for one in a.running_instances] == [0, 1]
            assert cluster.used == a.used
            assert cluster.capacity[0] == cluster.free[0] + cluster.used[0] == 3000
            first, second = cluster.jobs
            assert cluster.unfinished_jobs == (first, second)
            assert cluster.finished_jobs == ()
            assert (first.job_id, first.submit_s, second.submit_s) == (1, 0.0, 5.0)
            share, whole, last = first.tasks
            assert last.parents == (share, whole)
            assert share.children == (last,)
            assert not last.is_ready
            assert (whole.n_instances, whole.n_waiting, whole.n_running) == (1, 0, 1)
            assert whole.instances[0].machine is a
            assert whole.instances[0].begin_s == 0.0
            assert whole.instances[0].end_s is None
            (new,) = cluster.ready_tasks
            assert new is second.tasks[0]
            assert not a.accommodate(new)
            assert b.accommodate(new)
            assert a.could_hold(new)
            assert not b.could_hold(share), "it has no GPUs"
            assert b.seconds_for(new) == 6.0, "it runs at half its speed"

    tasks = Tasks.from_arrays(
        job=[0, 0, 0, 1], runtime_s=[10, 12, 1, 3], mcpu=[1000, 500, 100, 700],
        mem_bytes=[GIB, 0, 0, 0], mgpu=[300, 1000, 0, 0], parents=[[], [], [0, 1], []],
    )  # fmt: skip
    machines = (
        MachineSpec("a", 2, mem_bytes=4 * GIB, gpus=2, labels={"zone": "x"}),
        MachineSpec("b", 1, mem_bytes=4 * GIB, cpu_throttle=0.5),
    )
    asking = Asking()
    run = simulate_algorithm(scenario(tasks, *machines, submit_s=[0, 5]), asking)
    assert asking.done
    assert run.result.instances is not None
    assert run.result.instances.end_s.tolist() == [10, 12, 13, 11]


def test_the_order_of_the_scenario_is_that_of_ready_tasks() -> None:
    tasks = Tasks.from_arrays(job=[0, 0, 0], runtime_s=[1, 5, 3], mcpu=[1000] * 3)
    one = scenario(tasks, MachineSpec("a", 1), order="critical_path")
    assert as_columns(simulate_algorithm(one, FirstFit()).result)[1] == [8, 0, 5]


def test_a_function_that_is_called_as_in_cloudsimpy_will_do() -> None:
    def last_fit(cluster: LiveCluster, _clock: float) -> Any:
        for task in cluster.ready_tasks:
            for machine in reversed(cluster.machines):
                if machine.accommodate(task):
                    return machine, task
        return None, None

    class Called:
        def __call__(self, cluster: LiveCluster, clock: float) -> Any:
            return last_fit(cluster, clock)

    one = scenario(DIAMOND, MachineSpec("a", 1, count=3))
    for algorithm in (last_fit, Called()):
        found = simulate_algorithm(one, algorithm)  # type: ignore[arg-type]
        assert as_columns(found.result)[0] == [2, 2, 1, 0, 2]


def test_random_placing_is_that_of_its_seed() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 4], instances=[9, 9], mcpu=[500, 300])
    one = scenario(tasks, MachineSpec("a", 1, count=4))
    runs = [simulate_algorithm(one, RandomFit(seed)).result for seed in (3, 3, 4)]
    assert runs[0] == runs[1]
    assert as_columns(runs[0]) != as_columns(runs[2])
    metrics = summarise_instances(one, runs[0])
    assert metrics.n_instances == 18
    placed = runs[0].instances
    assert placed is not None
    for machine in range(4):
        here = placed.machine == machine
        asked = np.where(np.arange(18) < 9, 500, 300)
        for now in placed.start_s:
            at = here & (placed.start_s <= now) & (placed.end_s > now)
            assert asked[at].sum() <= 1000


@pytest.mark.parametrize("tick_s", [1.0, 2.5, 7.0])
@pytest.mark.parametrize("seed", range(4))
def test_ticks_are_those_of_the_naive_reference(tick_s: float, seed: int) -> None:
    one = drawn_jobs(seed)
    found = simulate_algorithm(one, FirstFit(), tick_s=tick_s).result
    assert as_columns(found) == naive_fleet.columns(naive_fleet.simulate(one, tick_s=tick_s))
    assert (np.asarray(as_columns(found)[1]) % tick_s == 0).all()


class FirstFitOfCloudSimPy:
    """CloudSimPy's own, which leaves the inner loop only; see the naive reference."""

    def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
        found = None, None
        for machine in cluster.machines:
            for task in cluster.ready_tasks:
                if machine.accommodate(task):
                    found = machine, task
                    break
        return found


@pytest.mark.parametrize("tick_s", [None, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_fit_of_cloudsimpy_is_another_one(tick_s: float | None, seed: int) -> None:
    one = drawn_jobs(seed)
    found = as_columns(simulate_algorithm(one, FirstFitOfCloudSimPy(), tick_s=tick_s).result)
    theirs = naive_fleet.first_fit_of_cloudsimpy
    assert found == naive_fleet.columns(naive_fleet.simulate(one, theirs, tick_s=tick_s))
    assert found != as_columns(simulate_algorithm(one, FirstFit(), tick_s=tick_s).result)


def drawn_jobs(seed: int, n_jobs: int = 12, **told: Any) -> Scenario:
    """Draw jobs with parents and several instances, and machines of two sizes, that are full."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, n_jobs)
    job = np.repeat(np.arange(n_jobs), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    parents = [[p for p in range(int(first[t]), t) if rng.random() < 0.5] for t in range(len(job))]
    tasks = Tasks.from_arrays(
        job=job, runtime_s=rng.integers(0, 60, len(job)) / 4, parents=parents,
        instances=rng.integers(1, 5, len(job)), mcpu=rng.choice([300, 500, 1000, 2000], len(job)),
        mem_bytes=rng.integers(0, 4, len(job)), disk_bytes=rng.integers(0, 2, len(job)),
    )  # fmt: skip
    machines = (
        MachineSpec("a", 2, count=2, mem_bytes=4, disk_bytes=2), MachineSpec("b", 4, mem_bytes=6),
    )  # fmt: skip
    return scenario(tasks, *machines, submit_s=np.sort(rng.integers(0, 30, n_jobs)), **told)


@pytest.mark.parametrize("seed", range(8))
def test_engines_and_object_place_as_the_naive_reference(seed: int) -> None:
    one = drawn_jobs(seed)
    wanted = naive_fleet.columns(naive_fleet.simulate(one))
    assert as_columns(simulate(one, engine="interpreted")) == wanted
    assert as_columns(simulate(one, engine="process")) == wanted
    assert as_columns(simulate_algorithm(one, FirstFit()).result) == wanted
    assert max(wanted[1]) > 30, "nobody waits: the comparison is empty"


def first_jobs(shared_data: Path, n_jobs: int, n_machines: int) -> Scenario:
    workload = load_workload(shared_data / "cloudsimpy/cloudsimpy_jobs.csv.gz", first=n_jobs)
    machines = [MachineSpec("m", 64, count=n_machines, mem_bytes=2**40)]
    cluster = ClusterSpec((Partition.of_machines("main", machines),))
    return Scenario(workload, cluster, backfill="greedy", allocation="instances")


def in_whole_seconds(one: Scenario) -> Scenario:
    tasks = one.workload.tasks
    assert tasks is not None
    whole = replace(tasks, runtime_s=np.ceil(tasks.runtime_s))
    return replace(one, workload=replace(one.workload, tasks=whole))


def check_against_the_naive_reference(one: Scenario) -> None:
    """Tell that all place alike: at events, and where run times are whole, at every second."""
    wanted = naive_fleet.columns(naive_fleet.simulate(one))
    for engine in ("compiled", "process"):
        assert as_columns(simulate(one, engine=engine)) == wanted, engine
    assert as_columns(simulate_algorithm(one, FirstFit()).result) == wanted
    whole = in_whole_seconds(one)
    polled = naive_fleet.columns(naive_fleet.simulate(whole, tick_s=1.0))
    assert as_columns(simulate(whole, engine="compiled")) == polled, "a second misses nothing"
    ticked = naive_fleet.columns(naive_fleet.simulate(one, tick_s=1.0))
    assert as_columns(simulate_algorithm(one, FirstFit(), tick_s=1.0).result) == ticked
    assert ticked != wanted, "a poll is late"


def test_the_first_jobs_of_cloudsimpys_file(shared_data: Path) -> None:
    check_against_the_naive_reference(first_jobs(shared_data, 2, 1))


@pytest.mark.soak
@pytest.mark.slow
def test_the_first_200_jobs_of_cloudsimpys_file(shared_data: Path) -> None:
    check_against_the_naive_reference(first_jobs(shared_data, 200, 30))


def test_a_monitor_sees_every_instant_or_every_tick() -> None:
    one = scenario(DIAMOND, MachineSpec("a", 1), MachineSpec("b", 1))
    run = simulate_algorithm(one, FirstFit(), monitor=Monitor(machines=True))
    series = run.series
    assert series is not None
    assert series.time_s.tolist() == [0, 4, 7, 14, 16]
    assert series.n_running.tolist() == [1, 2, 1, 1, 0]
    assert series.n_waiting.tolist() == [0, 1, 0, 0, 0]
    assert series.n_ready.tolist() == [0, 1, 0, 0, 0]
    assert series.n_submitted.tolist() == [1] * 5
    assert series.n_unfinished.tolist() == [1, 1, 1, 1, 0]
    assert series.used[:, 0].tolist() == [1000, 2000, 1000, 1000, 0]
    assert series.used_by_machine is not None
    assert series.used_by_machine[:, :, 0].tolist() == [
        [1000, 0], [1000, 1000], [1000, 0], [1000, 0], [0, 0],
    ]  # fmt: skip
    every = simulate_algorithm(one, FirstFit(), monitor=Monitor(tick_s=3)).series
    assert every is not None
    assert every.used_by_machine is None
    assert every.time_s.tolist() == [0, 3, 6, 9, 12, 15, 18]
    assert every.n_running.tolist() == [1, 1, 2, 1, 1, 1, 0]
    assert np.array_equal(every.n_running[:-1], series.n_running[[0, 0, 1, 2, 2, 3]])


def test_windows_change_speeds_between_ticks() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[10], mcpu=[1000])
    window = ThrottleWindow(("a",), 4.5, 8.5, cpu=0.5)
    one = scenario(tasks, MachineSpec("a", 1), throttles=[window])
    found = simulate_algorithm(one, FirstFit(), tick_s=100.0).result
    assert as_columns(found)[2] == [12.0]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda c: None, r"returned None; return a machine and a task"),
        (lambda c: (c.ready_tasks[0], c.machines[0]), "returned LiveTask and LiveMachine"),
        (lambda c: (c.machines[0], c.jobs[0].tasks[3]), "task 3 of job 1, which waits for others"),
        (lambda c: (c.machines[0], c.jobs[0].tasks[0]), "task 0 of job 1, which has no instance"),
        (lambda c: (c.machines[1], c.ready_tasks[-1]), r"'b', which has no room for task 2"),
        (lambda c: (None, None), r"never placed 2 instances of task 1 of job 1 and 2 other tasks"),
    ],
)
def test_answers_that_cannot_be_carried_out(answer: Any, sentence: str) -> None:
    class Bad(FirstFit):
        def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
            return answer(cluster) if clock == 4.0 else super().algorithm(cluster, clock)

    tasks = replace(DIAMOND, mcpu=np.array([1000, 1000, 2000, 1000]))
    with pytest.raises(ScenarioError, match=sentence) as caught:
        simulate_algorithm(scenario(tasks, MachineSpec("a", 2), MachineSpec("b", 1)), Bad())
    assert "Bad" in str(caught.value)


def test_who_waits_for_ever_is_told_and_ticks_end() -> None:
    class Lazy:
        def __init__(self, until: float) -> None:
            self.until = until

        def algorithm(self, cluster: LiveCluster, clock: float) -> Any:
            return FirstFit().algorithm(cluster, clock) if clock >= self.until else (None, None)

    one = scenario(DIAMOND, MachineSpec("a", 2))
    with pytest.raises(ScenarioError, match="set tick_s to call it again"):
        simulate_algorithm(one, Lazy(50))
    found = simulate_algorithm(one, Lazy(50), tick_s=20).result
    assert as_columns(found)[1] == [60, 80, 80, 100, 120]
    with pytest.raises(ScenarioError, match="10,000 times in a row"):
        simulate_algorithm(one, Lazy(1e9), tick_s=1)


@pytest.mark.parametrize(
    ("told", "options", "sentence"),
    [
        ({"tick_s": 0.0}, {}, "tick_s is 0.0; allowed are seconds from 1e-06"),
        ({"monitor": Monitor(tick_s=np.inf)}, {}, "the monitor's tick_s is inf"),
        ({}, {"all_or_nothing": 1}, "an object places instances one by one"),
    ],
)
def test_what_is_refused(told: dict[str, Any], options: dict[str, float], sentence: str) -> None:
    one = scenario(DIAMOND, MachineSpec("a", 2), options=options)
    with pytest.raises(ScenarioError, match=sentence):
        simulate_algorithm(one, FirstFit(), **told)


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ScenarioError, match="int cannot be called; give it a method algorithm"):
        simulate_algorithm(scenario(DIAMOND, MachineSpec("a", 2)), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("algorithm", "plan"), [(Heft, heft), (Cpop, cpop)])
@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_carried_out_as_it_was_made(algorithm: Any, plan: Any, seed: int) -> None:
    """One job, machines of three speeds: the engine starts each instance when the plan says."""
    rng = np.random.default_rng(seed)
    n = 9
    parents = [[p for p in range(t) if rng.random() < 0.35] for t in range(n)]
    tasks = Tasks.from_arrays(
        job=[0] * n, runtime_s=rng.integers(0, 50, n) / 7, mcpu=[500] * n, parents=parents
    )
    speeds = (1.0, 0.7, 0.35)
    one = scenario(tasks, *(MachineSpec(f"m{s}", 4, cpu_throttle=s) for s in speeds))
    edges = [(p, t) for t in range(n) for p in parents[t]]
    w = tasks.runtime_s[:, None] / np.array([1.0 - 1.0 * (1.0 - s) for s in speeds])
    wanted = plan(Graph(w, np.array(edges).reshape(-1, 2), np.zeros(len(edges))))
    machine, start_s, end_s = as_columns(simulate_algorithm(one, algorithm()).result)
    assert start_s == wanted.start_s.tolist()
    assert end_s == wanted.finish_s.tolist()
    assert machine == wanted.processor.tolist()


@pytest.mark.parametrize(("algorithm", "plan"), [(Heft, heft), (Cpop, cpop)])
@pytest.mark.parametrize("seed", range(4))
def test_plans_of_many_jobs_go_into_the_gaps_of_each_other(
    algorithm: Any, plan: Any, seed: int
) -> None:
    """Every instance of every job starts when and where its plan says."""
    one = drawn_jobs(seed)
    tasks = one.workload.tasks
    assert tasks is not None
    naive, machines = naive_fleet.tasks_of(one), naive_fleet.machines_of(one)
    booked: list[list[tuple[float, float]]] = [[] for _ in machines]
    wanted: dict[int, list[tuple[int, float, float]]] = {}
    for job in range(tasks.n_jobs):
        each = [t for t in naive if t.job == job for _ in range(t.n_instances)]
        w = [[t.runtime_s if m.accommodates(t) else np.inf for m in machines] for t in each]
        edges = [(i, j) for j, t in enumerate(each) for i, p in enumerate(each) if p in t.parents]
        graph = Graph(np.array(w), np.array(edges).reshape(-1, 2), np.zeros(len(edges)))
        made = plan(graph, each[0].submit_s, booked)
        for i, t in enumerate(each):
            place = int(made.processor[i]), float(made.start_s[i]), float(made.finish_s[i])
            wanted.setdefault(t.number, []).append(place)
    found = simulate_algorithm(one, algorithm()).result.instances
    assert found is not None
    for t in range(tasks.n_tasks):
        rows = found.of(t)
        columns = (found.machine[rows], found.start_s[rows], found.end_s[rows])
        assert sorted(zip(*map(np.ndarray.tolist, columns), strict=True)) == sorted(wanted[t])


def test_gangs_cannot_be_planned() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[5], instances=[2], gang=[1], mcpu=[1000])
    with pytest.raises(ScenarioError, match="job 1 has a gang, which HEFT and CPOP cannot plan"):
        simulate_algorithm(scenario(tasks, MachineSpec("a", 2)), Heft())
