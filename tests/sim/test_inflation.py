"""Pods drawn until they ask for more GPUs than there are, none of which leaves."""

import numpy as np
import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.api import Tasks, WorkloadError
from sim.generators import inflate_workload
from sim.metrics import fragmentation

CLUSTER = ClusterSpec(
    (Partition.of_machines("main", [MachineSpec("a", 16, 5, gpus=4), MachineSpec("c", 8, 2)]),)
)


def pods() -> Workload:
    n = 40
    rng = np.random.default_rng(3)
    tasks = Tasks.from_arrays(
        job=np.arange(n),
        runtime_s=rng.integers(0, 50, n),
        mcpu=rng.choice([500, 2000], n),
        mgpu=rng.choice([0, 300, 500, 1000, 2000], n),
    )
    return Workload.from_arrays(
        submit_s=np.arange(n), runtime_s=np.ones(n), procs=np.ones(n), tasks=tasks
    )


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("load", [0.4, 1.3])
def test_pods_come_until_they_ask_for_so_much(seed: int, load: float) -> None:
    drawn = inflate_workload(pods(), CLUSTER, load=load, seed=seed)
    assert drawn.tasks is not None
    asked = np.cumsum(drawn.tasks.mgpu)
    assert asked[-1] >= load * 20_000 > asked[-2]
    assert drawn == inflate_workload(pods(), CLUSTER, load=load, seed=seed)
    assert drawn != inflate_workload(pods(), CLUSTER, load=load, seed=seed + 7)
    assert drawn.submit_s.tolist() == list(range(drawn.n_jobs))


def test_nothing_is_given_back_while_they_come() -> None:
    drawn = inflate_workload(pods(), CLUSTER, seed=5)
    scenario = Scenario(drawn, CLUSTER, backfill="greedy", allocation="instances")
    result = simulate(scenario, engine="interpreted")
    here = result.start_s <= drawn.submit_s[-1]
    assert (result.start_s[here] == drawn.submit_s[here]).all()  # at once, or never
    assert not here.all()
    assert drawn.tasks is not None
    found = fragmentation(scenario, result)
    assert found is not None
    free, lost = found.at(drawn.submit_s)
    assert (np.diff(free) <= 0).all()
    held = np.cumsum(drawn.tasks.mgpu * here) / 1000
    assert found.n_gpus - free == pytest.approx(held)
    assert (lost <= free + 1e-9).all()
    assert lost[-1] > 0.5 * free[-1]


def test_what_cannot_fill_gpus_is_refused() -> None:
    bare = ClusterSpec((Partition.of_machines("main", [MachineSpec("c", 8)]),))
    with pytest.raises(WorkloadError, match="cannot fill the GPUs"):
        inflate_workload(pods(), bare)
    with pytest.raises(WorkloadError, match="load is -1"):
        inflate_workload(pods(), CLUSTER, load=-1.0)
