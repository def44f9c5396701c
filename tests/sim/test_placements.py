"""Placement rules: examples worked by hand, rules of one's own, and who is next."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import (
    PlacementRule,
    ScenarioError,
    Tasks,
    UnknownNameError,
    has_room,
    kernel,
    known_options,
    placement_by_score,
    register_placement,
)
from sim.kernel.fleet import Fleet
from sim.policies import placements as registry

ENGINES = ("interpreted", "process", "compiled")
GIB = 2**30


def scenario(tasks: Tasks, *machines: MachineSpec, user: Any = None, **told: Any) -> Scenario:
    n = tasks.n_jobs
    workload = Workload.from_arrays(
        submit_s=[0.0] * n, runtime_s=[1.0] * n, procs=[1] * n, user=user, tasks=tasks
    )
    cluster = ClusterSpec((Partition.of_machines("main", machines),))
    usual = {"backfill": "greedy", "allocation": "instances"}
    return Scenario(workload, cluster, **(usual | told))


def on(one: Scenario, *engines: str) -> list[int]:
    """The machine of every instance, as all engines say."""
    results = [simulate(one, engine=engine) for engine in engines or ("interpreted",)]
    assert all(result == results[0] for result in results)
    assert results[0].instances is not None
    return results[0].instances.machine.tolist()


HOSTS = (
    MachineSpec("a", 8, mem_bytes=8 * GIB),
    MachineSpec("b", 4, mem_bytes=8 * GIB),
    MachineSpec("c", 16, mem_bytes=4 * GIB),
)


@pytest.mark.parametrize(
    ("rule", "machine", "why"),
    [
        ("first_fit", 0, "a is the first"),
        ("best_fit", 1, "left of 16 cores and 8 GiB: a 6/16 + 7/8, b 2/16 + 7/8, c 14/16 + 3/8"),
        ("worst_fit", 0, "the same: a 1.25, b 1.0, c 1.25; a is the first"),
        ("busiest_fit", 0, "all are idle"),
        ("least_allocated", 0, "left (75 + 87) / 2, b (50 + 87) / 2, as a; balance 93, 81, 93"),
        ("most_allocated", 1, "used (25 + 12) / 2 = 18, 31, 18; and balance 93, 81, 93"),
        ("cosine_similarity", 0, "(1/4, 1/8) and (1/8, 1/4) are as near to (1, 1), a is first"),
        ("tetris", 1, "sums of shares: a 3/8, b 5/8, c 3/8"),
        ("dot_product", 1, "a 2/16 x 8/16 + 1/8 = 3/16, b 2/16 x 4/16 + 1/8 = 5/32, c 3/16"),
        ("perp_distance", 0, "shares apart by 1/8 on a and c, by 3/8 on b"),
    ],
)
def test_a_first_instance_by_hand(rule: str, machine: int, why: str) -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[1], mcpu=[2000], mem_bytes=[GIB])
    assert on(scenario(tasks, *HOSTS, placement=rule)) == [machine], why


def test_weights_say_what_counts() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[1], mcpu=[2000], mem_bytes=[GIB])
    one = scenario(tasks, *HOSTS, placement="best_fit", options={"cpu_weight": 0})
    assert on(one) == [2], "only memory counts, of which c has least"
    assert [o.name for o in known_options("placement", "fgd")][-1] == "typical_share"
    with pytest.raises(UnknownNameError, match="typical_share"):
        simulate(replace(one, options={"typical_share": 0.5}))


def test_the_busiest_gets_the_next() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1, 2], runtime_s=[9, 9, 9], mcpu=[9000, 3000, 1000], mem_bytes=[0, 0, 0]
    )
    # The first fits c only, which is half busy then: 7/16 and 4/4 are free; b is 1/4 and 8/8.
    assert on(scenario(tasks, *HOSTS, placement="busiest_fit")) == [2, 2, 2]
    assert on(scenario(tasks, *HOSTS, placement="worst_fit")) == [2, 0, 0]


def test_scores_of_kube_scheduler_are_whole_percent_of_a_node() -> None:
    """A node of 10 cores and 100 GiB, and one of 20 and 100, each with a pod that asks for memory.

    20 GiB are 20 %. With 1 core the pod leaves 90 or 95 % of the cores: (90 + 80) / 2 = 85 and
    (95 + 80) / 2 = 87; apart by 10 and 15 %, balanced by 95 and 92 of 100. Together 180 and 179.
    """
    hosts = (MachineSpec("s", 10, mem_bytes=100 * GIB), MachineSpec("l", 20, mem_bytes=100 * GIB))
    tasks = Tasks.from_arrays(job=[0], runtime_s=[9], mcpu=[1000], mem_bytes=[20 * GIB])
    least = {"placement": "least_allocated"}
    assert on(scenario(tasks, *hosts, **least)) == [0]
    assert on(scenario(tasks, *hosts, **least, options={"balance_weight": 0})) == [1]
    assert on(scenario(tasks, *hosts, placement="most_allocated", options={"mem_weight": 0})) == [0]
    with_gpus = (MachineSpec("g", 8, gpus=4), MachineSpec("h", 20, gpus=8))
    pods = Tasks.from_arrays(job=[0, 1], runtime_s=[9, 9], mcpu=[1000, 1000], mgpu=[6000, 0])
    # The first fits h alone, where 2 of 8 GPUs are left. For one without GPUs cores alone count:
    # 7 of 8 would be left on g, 18 of 20 on h.
    assert on(scenario(pods, *with_gpus, **least)) == [1, 1]


def test_a_part_of_a_gpu_goes_where_the_rule_says() -> None:
    hosts = (MachineSpec("a", 8, gpus=2), MachineSpec("b", 8, gpus=2))
    # 700 on a GPU of a; then 300: beside it (packed), or on the other (worst fit: the loosest).
    tasks = Tasks.from_arrays(job=[0, 1, 2], runtime_s=[9] * 3, mgpu=[700, 300, 1000])
    for rule in ("best_fit", "gpu_packing", "fgd", "dot_product"):
        assert on(scenario(tasks, *hosts, placement=rule)) == [0, 0, 0], rule
    assert on(scenario(tasks, *hosts, placement="worst_fit"))[:2] == [0, 1]
    # 400, then 300 that fits beside it. First fit of 600 takes the second GPU of a, and 2,000 b.
    tasks = Tasks.from_arrays(job=[0, 1, 2], runtime_s=[9] * 3, mgpu=[400, 300, 600])
    assert on(scenario(tasks, *hosts, placement="gpu_packing")) == [0, 0, 0]


def test_clusters_are_of_those_who_ask_alike() -> None:
    hosts = tuple(MachineSpec(name, 8, gpus=4) for name in "abc")
    tasks = Tasks.from_arrays(
        job=[0, 1, 2, 3, 4], runtime_s=[9] * 5, mgpu=[500, 1000, 2000, 1000, 300]
    )
    found = on(scenario(tasks, *hosts, placement="gpu_clustering"))
    assert found == [0, 1, 2, 1, 0], "parts on a, single GPUs on b, pairs on c"


def test_the_gradient_keeps_whole_gpus_for_typical_needs() -> None:
    # Nine of ten want both GPUs of a machine. The part goes to c, whose only GPU they cannot use.
    hosts = (MachineSpec("a", 9, gpus=2), MachineSpec("b", 9, gpus=2), MachineSpec("c", 9, gpus=1))
    tasks = Tasks.from_arrays(job=[0, 1], runtime_s=[9, 9], instances=[1, 9], mgpu=[500, 2000])
    one = scenario(tasks, *hosts, placement="fgd", options={"typical_share": 1})
    assert on(one)[:3] == [2, 0, 1]
    assert on(replace(one, placement="first_fit", options={}))[:2] == [0, 1]


def test_lots_are_fair_and_go_by_the_seed() -> None:
    tasks = Tasks.from_arrays(job=[0], runtime_s=[1], instances=[4000], mcpu=[1])
    hosts = tuple(MachineSpec(name, 4) for name in "abcd")
    one = scenario(tasks, *hosts, placement="random", seed=5)
    found = on(one)
    counts = Counter(found)
    assert set(counts) == {0, 1, 2, 3}
    # 1,000 each is expected, with a standard deviation of 27.4: five of them.
    assert all(abs(n - 1000) < 137 for n in counts.values()), counts
    assert on(one) == found
    assert on(replace(one, seed=6)) != found


def test_a_smaller_dominant_share_is_next() -> None:
    # DRF's example (Ghodsi et al. 2011): 9 cores, 18 GiB; A asks for 1 and 4, B for 3 and 1.
    # Both hold two thirds of what they ask for most at the end: three of A, two of B.
    tasks = Tasks.from_arrays(
        job=[0, 1], runtime_s=[5, 5], instances=[10, 10], mcpu=[1000, 3000],
        mem_bytes=[4 * GIB, GIB],
    )  # fmt: skip
    host = MachineSpec("m", 9, mem_bytes=18 * GIB)
    result = simulate(scenario(tasks, host, backfill="drf"), engine="interpreted")
    assert result.instances is not None
    at_first = result.instances.start_s == 0
    assert [int(at_first[:10].sum()), int(at_first[10:].sum())] == [3, 2]
    same = simulate(scenario(tasks, host, backfill="drf", user=[4, 4]), engine="interpreted")
    assert same.instances is not None
    at_first = same.instances.start_s == 0
    assert [int(at_first[:10].sum()), int(at_first[10:].sum())] == [4, 1], "one user, in turn"


def test_weight_and_work_say_who_is_next() -> None:
    tasks = Tasks.from_arrays(
        job=[0, 1, 2], runtime_s=[8, 1, 30], instances=[2, 5, 1], mcpu=[1000, 1000, 500]
    )
    starts = {}
    for rule in ("max_weight", "least_work"):
        found = simulate(scenario(tasks, MachineSpec("m", 1), backfill=rule), engine="interpreted")
        starts[rule] = found.start_s.tolist()
    # Jobs 0 and 1 need the same; 7 instances of it wait. Ties go by submission: job 0 is first.
    assert starts["max_weight"] == [0.0, 16.0, 21.0]
    # Work left: 16, 5 and 15 core seconds. 3 is next when 2 is done, and half a core is idle then.
    assert starts["least_work"] == [35.0, 0.0, 5.0]


@kernel
def last_fit(fleet: Fleet, need: int, start: int) -> int:
    """Return the last machine that has room."""
    for machine in range(len(fleet.hosts) - 1, start - 1, -1):
        if has_room(fleet, need, machine):
            return machine
    return -1


@kernel
def most_cores_used(fleet: Fleet, _need: int, machine: int) -> float:
    """Return the free thousandths of cores of a machine."""
    return float(fleet.free[machine * 4])


@pytest.fixture
def own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_others", {})
    register_placement(PlacementRule("last_fit", "the last machine", last_fit))
    register_placement(placement_by_score("fewest_cores", "fewest free cores", most_cores_used))


@pytest.mark.usefixtures("own_rules")
@pytest.mark.parametrize(
    "engines", [("interpreted",), pytest.param(ENGINES, marks=pytest.mark.slow)]
)
def test_a_rule_of_ones_own_runs_in_every_engine(engines: tuple[str, ...]) -> None:
    rng = np.random.default_rng(3)
    n = 60
    tasks = Tasks.from_arrays(
        job=np.arange(n), runtime_s=rng.integers(1, 20, n), instances=rng.integers(1, 4, n),
        mcpu=rng.choice([500, 1000, 3000], n),
    )  # fmt: skip
    one = scenario(tasks, *HOSTS, placement="last_fit")
    assert on(one, *engines)[0] == 2
    assert on(replace(one, placement="fewest_cores"), *engines)[0] == 1


@pytest.mark.usefixtures("own_rules")
def test_what_cannot_be_registered() -> None:
    with pytest.raises(ScenarioError, match="'best_fit' is built in"):
        register_placement(PlacementRule("best_fit", "", last_fit))
    with pytest.raises(ScenarioError, match="mark it with @kernel"):
        register_placement(PlacementRule("mine", "", lambda _fleet, _need, start: start))
    with pytest.raises(UnknownNameError, match="last_fit"):
        simulate(scenario(Tasks.from_arrays(job=[0], runtime_s=[1]), *HOSTS, placement="last"))
