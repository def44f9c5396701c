"""Whole nodes: every engine against the naive reference, and against the pool where they agree."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from sim import ClusterSpec, MachineSpec, Partition, Scenario, load_workload, simulate
from sim.api import ReadingRules, SimulationResult
from sim.engines.process import run as run_process
from sim.kernel.pool import Pool, may_start
from tests.differential import naive_nodes
from tests.differential.machines import ENGINES, assert_same_on_machines
from tests.draw.workloads import contended, crowded_nodes, node_scenarios, scenarios_for_nodes

POLICIES = [(o, b) for o in ("fcfs", "sjf") for b in ("none", "easy")]


def assert_as_in_the_reference(scenario: Scenario) -> SimulationResult:
    return assert_same_on_machines(scenario, naive_nodes.schedule(scenario))


@pytest.mark.soak
@given(node_scenarios())
def test_generated_scenarios_run_as_in_the_naive_scheduler(scenario: Scenario) -> None:
    assert_as_in_the_reference(scenario)


@pytest.mark.parametrize("first_seed", range(0, 300, 50))
def test_crowded_machines_run_as_in_the_naive_scheduler(first_seed: int) -> None:
    n_waited = 0
    for seed in range(first_seed, first_seed + 50):
        scenario = crowded_nodes(seed)
        result = assert_as_in_the_reference(scenario)
        n_waited += int((result.start_s > scenario.workload.submit_s).sum())
    assert n_waited > 500


def test_users_who_compete_for_machines_start_as_in_the_naive_scheduler() -> None:
    n_moved = 0
    for seed in range(30):
        scenario = contended(crowded_nodes(seed), seed)
        result = assert_as_in_the_reference(scenario)
        unfair = replace(scenario, options={**scenario.options, "fairshare_weight": 0.0})
        n_moved += int((simulate(unfair).start_s != result.start_s).sum())
    assert n_moved > 100


@pytest.mark.soak
@given(node_scenarios())
def test_the_simpy_engine_gives_the_same_whichever_text_it_calls(scenario: Scenario) -> None:
    assert run_process(scenario, kernel="compiled") == run_process(scenario, kernel="interpreted")


def unlike_machines(procs: int) -> tuple[MachineSpec, ...]:
    """Three kinds in turn, wide ones last, with about so many processors."""
    wide = max(1, procs // 20)
    return (
        MachineSpec("thin", max(1, wide // 4), count=16),
        MachineSpec("fat", 2 * wide, count=3),
        MachineSpec("wide", wide, count=max(1, procs // wide - 10)),
    )


LOGS = {
    "alea-hpc2n-subset": ReadingRules(),
    "lublin_256": ReadingRules(machine_size="max_nodes"),
    "wagap-2013": ReadingRules(
        negative="unknown", extra_columns="drop", requested_time="field_6", unsorted="sort"
    ),
}


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(("order", "backfill"), POLICIES)
def test_real_logs_run_as_in_the_naive_scheduler(
    shared_data: Path, log: str, order: str, backfill: str
) -> None:
    path = shared_data / "swf" / f"{log}.swf.gz"
    workload = load_workload(path, rules=LOGS[log], first=300 if order == "fcfs" else 200)
    procs = max(workload.widest_procs, (workload.max_procs or 0) // 3)
    cluster = ClusterSpec((Partition.of_machines("main", unlike_machines(procs)),))
    scenario = Scenario(
        workload, cluster, order, backfill, too_wide="reject", allocation="whole_nodes"
    )
    result = assert_as_in_the_reference(scenario)
    waits_s = (result.start_s - workload.submit_s)[~np.isnan(result.start_s)]
    assert (waits_s > 0).sum() > 50, "nobody waits: the comparison is empty"


def test_easy_and_none_differ_on_a_real_log(shared_data: Path) -> None:
    path = shared_data / "swf" / "lublin_256.swf.gz"
    workload = load_workload(path, rules=LOGS["lublin_256"], first=600)
    cluster = ClusterSpec.single(256).in_machines_of(8)
    easy, none = (
        simulate(Scenario(workload, cluster, backfill=name, allocation="whole_nodes")).start_s
        for name in ("easy", "none")
    )
    assert (easy != none).sum() > 100


@pytest.mark.soak
@given(scenarios_for_nodes())
def test_on_machines_of_one_processor_it_is_the_pool(scenario: Scenario) -> None:
    nodes = replace(scenario, cluster=scenario.cluster.in_machines_of(1), allocation="whole_nodes")
    for engine in ENGINES:
        pool, found = simulate(scenario, engine=engine), simulate(nodes, engine=engine)
        assert found.start_s.tobytes() == pool.start_s.tobytes()
        assert found.end_s.tobytes() == pool.end_s.tobytes()
        assert (found.partition == pool.partition).all()


@given(scenarios_for_nodes())
def test_on_identical_machines_it_is_a_pool_of_machines(scenario: Scenario) -> None:
    if scenario.order not in ("fcfs", "sjf", "ljf", "lxf"):  # the others ask for the width
        scenario = replace(scenario, order="lxf")
    each = 3
    parts = [
        replace(part, procs=each * part.procs, max_procs=part.max_procs and each * part.max_procs)
        for part in scenario.cluster.partitions
    ]
    # 1, 2 or 3 processors each of which needs a machine of 3 as the pool's job needs 1 processor.
    short = scenario.workload.job_id % each
    wider = replace(scenario.workload, procs=each * scenario.workload.procs - short)
    nodes = replace(
        scenario,
        workload=wider,
        cluster=ClusterSpec.of(parts).in_machines_of(each),
        allocation="whole_nodes",
    )
    pool, found = simulate(scenario), simulate(nodes)
    assert found.placement is not None
    ran = found.partition == pool.partition
    if ran.all():  # a limit on width may route a job elsewhere when it is a few processors less
        assert found.start_s.tobytes() == pool.start_s.tobytes()
        assert (found.placement.n_machines == scenario.workload.procs).all()


@pytest.mark.soak
@given(node_scenarios())
def test_no_machine_holds_two_jobs_and_every_job_holds_enough(scenario: Scenario) -> None:
    result, workload = simulate(scenario), scenario.workload
    assert result.placement is not None
    procs = scenario.cluster.machine_capacity()[:, 0]
    memory = scenario.cluster.machine_capacity()[:, 1]
    partition = scenario.cluster.machine_partition()
    held: dict[int, list[tuple[float, float]]] = {}
    for row in range(workload.n_jobs):
        machines = result.placement.of(row)
        if result.partition[row] < 0:
            assert len(machines) == 0
            continue
        assert len(set(machines.tolist())) == len(machines)
        assert procs[machines].sum() >= workload.procs[row]
        assert procs[machines[:-1]].sum() < workload.procs[row], "one machine less would do"
        assert (partition[machines] == result.partition[row]).all()
        processes = np.minimum(procs[machines], workload.procs[row])
        wanted = max(0, int(workload.mem_bytes_per_proc[row]))
        assert (processes * wanted <= memory[machines]).all()
        for machine in machines.tolist():
            held.setdefault(machine, []).append((result.start_s[row], result.end_s[row]))
    for spans in held.values():
        spans.sort()
        for (_, end), (start, _) in pairwise(spans):
            assert start >= end


class Promises:
    """A witness: the first reservation that each job was given as head of its queue."""

    def __init__(self) -> None:
        self.shadow_s: dict[int, float] = {}
        self.decides = False

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        """Note whether there will be a decision."""
        self.decides = may_start(pool, k)

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        """Note the reservation of the head, unless nobody was waiting behind it."""
        here = pool.partitions[k]
        if self.decides and here.n_queued > 1:
            self.shadow_s.setdefault(pool.queue[here.head], here.shadow_s)


@pytest.mark.soak
@given(node_scenarios())
def test_no_head_starts_later_than_it_was_promised(scenario: Scenario) -> None:
    promises = Promises()
    overrun = "kill" if scenario.overrun == "kill" else "raise"  # who outlives it promises nothing
    fcfs = replace(scenario, order="fcfs", backfill="easy", options={}, overrun=overrun)
    result = run_process(fcfs, kernel="interpreted", witness=promises)
    for job, shadow_s in promises.shadow_s.items():
        assert result.start_s[job] <= shadow_s
