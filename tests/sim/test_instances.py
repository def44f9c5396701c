"""Instances on machines: examples worked by hand, what is refused, and what is measured."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import (
    ClusterError,
    EngineError,
    ResultCache,
    ScenarioError,
    Tasks,
    TaskWork,
    Term,
    ThrottleWindow,
    UnknownNameError,
    admit,
    check_scenario,
    known_names,
    known_options,
    simulate_many,
    summarise_instances,
)
from sim.generators import default_workload
from sim.model.result import Instances

ENGINES = ("interpreted", "process", "compiled")
GIB = 2**30


def cluster(*machines: MachineSpec) -> ClusterSpec:
    return ClusterSpec((Partition.of_machines("main", machines),))


def scenario(
    tasks: Tasks, *machines: MachineSpec, submit_s: list[float] | None = None, **told: Any
) -> Scenario:
    n = tasks.n_jobs
    workload = Workload.from_arrays(
        submit_s=submit_s or [0.0] * n, runtime_s=[1.0] * n, procs=[1] * n, tasks=tasks
    )
    return Scenario(
        workload,
        cluster(*machines),
        **({"backfill": "greedy", "allocation": "instances"} | told),
    )


def placed(one: Scenario) -> Instances:
    """Simulate on every engine, see that they agree, and return what they say."""
    results = [simulate(one, engine=engine) for engine in ENGINES]
    assert results[0] == results[1] == results[2]
    assert results[0].instances is not None
    return results[0].instances


def units(n: int, **columns: Any) -> TaskWork:
    usual = {
        "cpu_units": np.zeros(n),
        "gpu_units": np.zeros(n),
        "cpu_sensitivity": np.ones(n),
        "gpu_sensitivity": np.ones(n),
        "cpu_class": np.full(n, -1),
        "gpu_class": np.full(n, -1),
        "profile": np.tile([1.0, 1.0, 0.0, 0.0, 0.0], (n, 1)),
    }
    classes = columns.pop("classes", ())
    told = {name: np.asarray(column) for name, column in columns.items()}
    return TaskWork(**(usual | told), classes=classes)


def test_instances_take_the_first_machine_that_has_room() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 4], instances=[3, 1], mcpu=[1500, 500])
    found = placed(scenario(tasks, MachineSpec("a", 2), MachineSpec("b", 2)))
    assert found.first.tolist() == [0, 3, 4]
    assert found.machine.tolist() == [0, 1, 0, 0]
    assert found.start_s.tolist() == [0, 0, 10, 0], "the last fits beside the first"
    assert found.end_s.tolist() == [10, 10, 20, 4]


def test_without_backfilling_nobody_passes_who_waits() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 4], instances=[3, 1], mcpu=[1500, 500])
    machines = (MachineSpec("a", 2), MachineSpec("b", 2))
    found = placed(scenario(tasks, *machines, backfill="none"))
    assert found.start_s.tolist() == [0, 0, 10, 10]


def test_children_wait_for_all_instances_of_their_parents() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 0, 0],
        runtime_s=[5, 3, 1],
        instances=[2, 1, 1],
        mcpu=[1000, 1000, 1000],
        parents=[[], [], [0, 1]],
    )
    found = placed(scenario(tasks, MachineSpec("a", 1), MachineSpec("b", 1)))
    assert found.start_s.tolist() == [0, 0, 5, 8]
    assert found.end_s.tolist() == [5, 5, 8, 9]


def test_a_gang_computes_when_all_of_it_is_placed() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1], runtime_s=[10, 7], instances=[1, 2], mcpu=[1000, 1000], gang=[0, 1]
    )
    machines = (MachineSpec("a", 1), MachineSpec("b", 1))
    part = placed(scenario(tasks, *machines))
    assert part.start_s.tolist() == [0, 0, 10], "one of the gang holds a machine and waits"
    assert part.begin_s.tolist() == [0, 10, 10]
    assert part.end_s.tolist() == [10, 17, 17]
    whole = placed(scenario(tasks, *machines, options={"all_or_nothing": 1}))
    assert whole.start_s.tolist() == [0, 10, 10]
    assert whole.end_s.tolist() == [10, 17, 17]


def test_gangs_that_hold_what_each_other_needs_are_told_with_the_way_out() -> None:
    # Job 2 holds the left machine when the right one is free, and job 3, which is shorter, gets it.
    left, right = [Term("side", "In", ("left",))], [Term("side", "In", ("right",))]
    tasks = Tasks.from_arrays(
        job=[0, 1, 1, 2, 2],
        runtime_s=[10, 5, 5, 5, 5],
        mcpu=[1000] * 5,
        gang=[0, 1, 1, 1, 1],
        demand=[1, 0, 1, 0, 1],
        affinities=[left, right],
    )
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2], runtime_s=[10, 5, 5], requested_s=[10, 7, 6], procs=[1] * 3, tasks=tasks
    )
    machines = cluster(
        MachineSpec("l", 1, labels={"side": "left"}), MachineSpec("r", 1, labels={"side": "right"})
    )
    one = Scenario(workload, machines, "sjf", "greedy", allocation="instances")
    for engine in ENGINES:
        with pytest.raises(ScenarioError, match=r"jobs 2, 3 hold .* all_or_nothing=1"):
            simulate(one, engine=engine)
    found = placed(replace(one, options={"all_or_nothing": 1}))
    assert found.start_s.tolist() == [0, 15, 15, 10, 10]


def test_a_gang_that_never_has_room_is_told() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[5], instances=[3], mcpu=[1000], gang=[1])
    for told in ({}, {"options": {"all_or_nothing": 1}}):
        with pytest.raises(ScenarioError, match=r"^the gangs? of jobs? 1"):
            simulate(scenario(tasks, MachineSpec("a", 2), **told))


@pytest.mark.parametrize(
    ("term", "machine"),
    [
        (Term("zone", "In", ("b", "c")), 1),
        (Term("zone", "NotIn", ("a",)), 1),
        (Term("eco", "Exists"), 2),
        (Term("zone", "DoesNotExist"), 2),
    ],
)
def test_affinity_is_as_kubernetes_says(term: Term, machine: int) -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[1], mcpu=[1000], demand=[0], affinities=[[term]])
    machines = (
        MachineSpec("a", 1, labels={"zone": "a"}),
        MachineSpec("b", 1, labels={"zone": "b"}),
        MachineSpec("c", 1, labels={"eco": "yes"}),
    )
    assert placed(scenario(tasks, *machines)).machine.tolist() == [machine]


def test_gpus_are_single_devices() -> None:
    # 600 and 600 do not fit on one GPU of 1,000; 2,000 need two whole ones.
    tasks = Tasks.from_arrays(
        job=[0, 1, 2, 3], runtime_s=[10, 20, 5, 5], mgpu=[600, 600, 400, 2000]
    )
    found = placed(scenario(tasks, MachineSpec("a", 1, gpus=2)))
    assert found.start_s.tolist() == [0, 0, 0, 20]
    four = placed(scenario(tasks, MachineSpec("a", 1, gpus=4)))
    assert four.start_s.tolist() == [0, 0, 0, 0]


def test_gpus_are_asked_for_by_name() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1], runtime_s=[1, 1], mgpu=[1000, 1000], gpu_resource=[0, -1],
        gpu_resources=["amd.com/gpu"],
    )  # fmt: skip
    machines = (
        MachineSpec("n", 1, gpus=1),
        MachineSpec("a", 1, gpus=1, gpu_resource="amd.com/gpu"),
    )
    assert placed(scenario(tasks, *machines)).machine.tolist() == [1, 0]


def test_throttling_by_hand() -> None:
    # U 1, M 0, I 0: impact 0.6 + 0.25 + 0.15 = 1. Half speed, sensitivity 0.5: 1 - 0.5 * 0.5.
    tasks = Tasks.from_arrays(
        job=[0, 1, 2], runtime_s=[1, 1, 1], mcpu=[2000] * 3,
        work=units(
            3, cpu_units=[30.0, 30.0, 30.0], cpu_sensitivity=[0.5, 1.0, 1.0],
            cpu_class=[-1, -1, 0], classes=("cpu.io_bound",),
        ),
    )  # fmt: skip
    found = placed(scenario(tasks, MachineSpec("a", 6, cpu_throttle=0.5)))
    assert found.end_s.tolist() == [30 / (2 * 0.75), 30 / (2 * 0.5), 30 / (2 * (1 - 0.25 * 0.5))]


def test_utilisation_counts_unless_told_otherwise() -> None:
    profile = np.array([[0.5, 0.05, 0.0, 0.0, 0.0]])
    tasks = Tasks.from_arrays(
        job=[0], runtime_s=[1], mcpu=[4000], mgpu=[1000],
        work=units(1, cpu_units=[20.0], gpu_units=[0.5], profile=profile),
    )  # fmt: skip
    one = scenario(tasks, MachineSpec("a", 4, gpus=1))
    assert placed(one).end_s.tolist() == [10.0], "20 units at 4 cores x 0.5"
    asked = placed(replace(one, options={"by_utilisation": 0}))
    assert asked.end_s.tolist() == [5.0], "as Joulie's simulator: 4 cores do 4 units a second"
    fast = placed(replace(one, options={"cpu_unit_rate": 10, "gpu_unit_rate": 1}))
    assert fast.end_s.tolist() == [0.5 / 0.1], "the GPU is last, at a tenth"


def test_the_processors_feed_the_gpu() -> None:
    # GPU 10 units at 1 x (1 - 0.8 * (1 - 0.5)) of its speed, throttled, x (1 - 1 * 0.5 * 0.4) fed.
    profile = np.array([[1.0, 1.0, 0.0, 0.0, 0.5]])
    tasks = Tasks.from_arrays(
        job=[0], runtime_s=[1], mcpu=[1000], mgpu=[1000],
        work=units(1, gpu_units=[10.0], gpu_sensitivity=[0.8], profile=profile),
    )  # fmt: skip
    one = scenario(tasks, MachineSpec("a", 1, gpus=1, cpu_throttle=0.6, gpu_throttle=0.5))
    assert placed(one).end_s[0] == pytest.approx(10 / (0.6 * 0.8), rel=1e-14)


def test_what_is_left_when_a_window_begins_is_done_at_the_new_speed() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 10], mcpu=[1000, 1000], mgpu=[0, 1000])
    one = scenario(
        tasks,
        MachineSpec("a", 2, gpus=1),
        throttles=[ThrottleWindow(("a",), 4, 8, cpu=0.5), ThrottleWindow(("a",), 6, 7, cpu=0.25)],
    )
    # 4 s, then 2 s at 1/2, 1 s at 1/4, 1 s at 1/2: 5.75 s of work by 8 s, and 4.25 s are left.
    assert placed(one).end_s.tolist() == [12.25, 10.0], "a GPU does not mind the processors"


def test_even_shares_are_a_kth_of_the_speed() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[10, 4], mcpu=[1000, 1000])
    one = scenario(tasks, MachineSpec("a", 4), submit_s=[0, 6], options={"even_shares": 1})
    # 6 s alone; then both at a half: 4 s of the first last until 14, and so do those of the other.
    assert placed(one).end_s.tolist() == [14.0, 14.0]


def test_orders_go_by_the_job() -> None:
    tasks = Tasks.from_arrays(job=[0, 1, 2], runtime_s=[5, 3, 1], mcpu=[1000] * 3)
    workload = Workload.from_arrays(
        submit_s=[0, 0, 0], runtime_s=[5, 3, 1], procs=[1, 1, 1], tasks=tasks
    )
    one = Scenario(workload, cluster(MachineSpec("a", 1)), "sjf", "none", allocation="instances")
    assert placed(one).start_s.tolist() == [4, 1, 0]
    with pytest.raises(ScenarioError, match="needs fixed scores"):
        simulate(replace(one, order="wfp3"))


def test_jobs_for_which_no_machine_is_large_enough() -> None:
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[5, 3], mcpu=[3000, 1000], mem_bytes=[1, 2])
    one = scenario(tasks, MachineSpec("a", 2))
    with pytest.raises(ScenarioError, match=r"job 1: .*3,000 mcpu, 1 mem_bytes"):
        simulate(one)
    with pytest.raises(ScenarioError, match="no machine can hold"):
        check_scenario(one)
    result = simulate(replace(one, too_wide="reject"))
    assert result.instances is not None
    assert result.instances.machine.tolist() == [-1, 0]
    assert np.isnan(result.start_s[0])
    assert result.partition.tolist() == [-1, 0]
    metrics = summarise_instances(replace(one, too_wide="reject"), result)
    assert metrics.n_rejected == 1


def test_what_is_measured() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1], runtime_s=[10, 10], instances=[1, 2], mcpu=[1000, 1000],
        mem_bytes=[GIB, GIB], mgpu=[0, 500], gang=[0, 1],
        work=units(2, cpu_units=[10.0, 0.0], gpu_units=[0.0, 5.0]),
    )  # fmt: skip
    one = scenario(
        tasks, MachineSpec("a", 1, gpus=1, mem_bytes=4 * GIB), MachineSpec("b", 1, gpus=1,
        mem_bytes=4 * GIB), submit_s=[0, 5],
    )  # fmt: skip
    found = placed(one)
    assert found.begin_s.tolist() == [0, 10, 10]
    metrics = summarise_instances(one, simulate(one))
    assert metrics.makespan_s == 20.0
    assert metrics.gang_wait.max == 5.0
    assert metrics.wait.max == 0.0
    assert metrics.instance_wait.max == 5.0
    assert metrics.response.max == 15.0
    assert metrics.stretch.max == 1.0
    held_s = 10 + 15 + 10
    assert metrics.allocation == {
        "cpu": held_s / 40, "memory": held_s / (8 * 20), "gpu": 0.5 * 25 / 40,
    }  # fmt: skip
    assert metrics.utilisation == {"cpu": 10 / 40, "gpu": 10 / 40}
    assert metrics.flat()["gpu_allocation"] == 0.5 * 25 / 40
    assert "disk_allocation" not in metrics.flat()


def test_results_are_kept_and_cross_processes(tmp_path: Path) -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[5], instances=[2], mcpu=[1000])
    one = scenario(tasks, MachineSpec("a", 1, labels={"zone": "a"}))
    assert pickle.loads(pickle.dumps(one)) == one
    result = simulate(one)
    assert pickle.loads(pickle.dumps(result)) == result
    ResultCache(folder=tmp_path).put(result)
    found = ResultCache(folder=tmp_path).get(one.digest)
    assert found == result
    assert list(simulate_many([one, one], threads=2)) == [result, result]
    assert result.instances is not None
    assert result.instances.of(0) == slice(0, 2)


def test_digests_of_what_has_no_instances_are_as_ever() -> None:
    plain = ClusterSpec.single(8).in_machines_of(4, 10)
    one = Scenario(default_workload(1, 5), plain, allocation="whole_nodes")
    assert one.digest == "9c4b217d217962ce464349449d9788a40e266f6f52652a20869105920c1336f4"
    spec = plain.partitions[0].machines[0]
    for told in ({"gpus": 1}, {"labels": {"a": "b"}}, {"cpu_throttle": 0.5}, {"disk_bytes": 7}):
        other = cluster(replace(spec, **told))
        assert replace(one, cluster=other).digest != replace(one, cluster=cluster(spec)).digest


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"gpus": -1}, "machine 'a': gpus is -1"),
        ({"disk_bytes": 0}, "disk_bytes is 0"),
        ({"labels": {"": "b"}}, "label ''"),
        ({"labels": {"a": 3}}, "label 'a' is 3"),
        ({"cpu_throttle": 0.0}, "cpu_throttle is 0.0"),
        ({"gpu_throttle": 1.5}, "gpu_throttle is 1.5"),
        ({"gpu_throttle": True}, "gpu_throttle is True"),
    ],
)
def test_machines_that_cannot_be(told: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ClusterError, match=sentence):
        MachineSpec("a", 1, **told)


def test_what_is_refused() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[5], mcpu=[1000])
    a = MachineSpec("a", 1)
    one = scenario(tasks, a)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"workload": default_workload(1, 5)}, "have no tasks"),
        ({"cluster": ClusterSpec((Partition.of_machines("x", [a]), Partition.of_machines(
            "y", [MachineSpec("b", 1)])))}, "one partition"),
        ({"overrun": "kill"}, "run to their end"),
        ({"too_wide": "clip"}, "not clipped"),
        ({"backfill": "easy"}, r"cannot decide .*'none', 'greedy', 'drf'"),
        ({"allocation": "shared_nodes", "placement": "best"}, "has no placement"),
        ({"throttles": [ThrottleWindow(("b",), 0, 1)]}, "no machine 'b'"),
        ({"options": {"all_or_nothing": 2}}, "all_or_nothing"),
    ]  # fmt: skip
    for told, sentence in refused:
        with pytest.raises(ScenarioError, match=sentence):
            simulate(replace(one, **told))
    with pytest.raises(UnknownNameError, match="first_fit"):
        simulate(replace(one, placement="first_fitt"))
    with pytest.raises(EngineError, match="monitor"):
        simulate(one, engine="process", monitor=True)
    with pytest.raises(ScenarioError, match="summarise_instances"):
        admit(one)
    with pytest.raises(ScenarioError, match="allocation='instances'"):
        summarise_instances(replace(one, allocation="whole_nodes"), simulate(one))


def test_tasks_that_cannot_run_are_refused() -> None:
    a = MachineSpec("a", 4, gpus=4)
    part = Tasks.from_arrays(job=[0], runtime_s=[5], mgpu=[1500])
    with pytest.raises(ScenarioError, match="1500 thousandths"):
        simulate(scenario(part, a))
    idle = Tasks.from_arrays(job=[0], runtime_s=[5], work=units(1, cpu_units=[1.0]))
    with pytest.raises(ScenarioError, match="1 units for processors but requests none"):
        check_scenario(scenario(idle, a))
    chain = Tasks.from_arrays(
        job=[0, 0, 0], runtime_s=[1, 1, 1], gang=[1, 0, 1], parents=[[], [0], [1]]
    )
    with pytest.raises(ScenarioError, match="task 2 of the gang of job 1"):
        simulate(scenario(chain, a))


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"machines": ()}, "no machine"),
        ({"until_s": 0.0}, "from 0.0 to 0.0"),
        ({"cpu": 0.0}, "cpu is 0.0"),
    ],
)
def test_windows_that_cannot_be(told: dict[str, Any], sentence: str) -> None:
    usual: dict[str, Any] = {"machines": ("a",), "from_s": 0.0, "until_s": 1.0}
    with pytest.raises(ScenarioError, match=sentence):
        ThrottleWindow(**(usual | told))


def test_names_and_options_are_told() -> None:
    assert known_names()["placement"][:2] == ("first_fit", "best_fit")
    assert "all_or_nothing" in {option.name for option in known_options("placement", "first_fit")}
    with pytest.raises(UnknownNameError):
        known_options("placement", "nothing")
