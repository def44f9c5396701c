"""Whole nodes: schedules and placements worked by hand, and what machines and scenarios refuse."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate, summarise
from sim.api import JobState, SimulationResult
from sim.engines import job_setup
from sim.engines.compiled import _interpret
from sim.kernel.nodes import Nodes
from sim.model.admission import admit
from sim.model.errors import ClusterError, ScenarioError, UnknownNameError
from sim.model.result import Placement
from sim.policies.backfills import backfill_named, decision_of, easy
from sim.policies.policy import Backfill
from tests.draw.workloads import node_scenarios

Rows = list[tuple[float, float, int] | tuple[float, float, int, int]]


def scenario_of(jobs: Rows, machines: list[MachineSpec], **policy: object) -> Scenario:
    """Return a scenario of (submit, runtime, procs[, memory per processor]) rows."""
    submit_s, runtime_s, procs = zip(*(job[:3] for job in jobs), strict=True)
    memory = [job[3] if len(job) > 3 else -1 for job in jobs]
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=procs, mem_bytes_per_proc=memory
    )
    cluster = ClusterSpec.of([Partition.of_machines("main", machines)])
    return Scenario(workload, cluster, allocation="whole_nodes", **policy)  # type: ignore[arg-type]


def run(
    jobs: Rows, machines: list[MachineSpec], **policy: object
) -> tuple[list[float], list[list[str]]]:
    """Simulate; return the start of each job and the names of its machines."""
    scenario = scenario_of(jobs, machines, **policy)
    result = simulate(scenario)
    names, placement = scenario.cluster.machine_names, result.placement
    assert placement is not None
    told = [[names[i] for i in placement.of(row)] for row in range(len(jobs))]
    return result.start_s.tolist(), told


def test_jobs_take_the_first_idle_machines_and_take_them_whole() -> None:
    # 5 processors are two machines of 4. The last job needs 1, and 3 + 3 are idle with the others.
    jobs: Rows = [(0, 10, 5), (0, 20, 1), (1, 5, 1), (12, 5, 1)]
    starts, names = run(jobs, [MachineSpec("n", 4, count=3)])
    assert starts == [0.0, 0.0, 10.0, 12.0]
    assert names == [["n1", "n2"], ["n3"], ["n1"], ["n2"]]


def test_machines_without_memory_enough_are_passed_over() -> None:
    machines = [MachineSpec("thin", 4, mem_bytes=8), MachineSpec("fat", 4, mem_bytes=32)]
    starts, names = run([(0, 10, 4, 4), (0, 10, 4, 2), (1, 5, 4, 3)], machines)
    assert names == [["fat"], ["thin"], ["fat"]]
    assert starts == [0.0, 0.0, 10.0]


def test_a_narrow_job_has_no_more_processes_than_processors() -> None:
    # One process of 8 bytes on a machine of 4 processors needs 8, not 32.
    assert run([(0, 1, 1, 8)], [MachineSpec("thin", 4, mem_bytes=8)])[1] == [["thin"]]


def test_memory_that_nobody_told_limits_nobody() -> None:
    machines = [MachineSpec("a", 1), MachineSpec("b", 1, mem_bytes=1)]
    scenario = scenario_of([(0, 5, 1, 2**50), (0, 5, 1)], machines)
    result = simulate(scenario)
    assert result.start_s.tolist() == [0.0, 0.0]
    said = "1 of 2 jobs have no memory request; it counts as none"
    assert str(result.note).endswith(said)
    assert simulate(scenario_of([(0, 5, 1)], machines[:1]), engine="process").note is None


def test_unlike_machines_are_taken_in_order_until_their_processors_suffice() -> None:
    # 2 processors take the machine of 1 and the machine of 8, so the next job has to wait.
    machines = [MachineSpec("one", 1), MachineSpec("eight", 8)]
    starts, names = run([(0, 10, 2), (1, 1, 1), (1, 1, 8)], machines)
    assert starts == [0.0, 10.0, 10.0]
    assert names == [["one", "eight"], ["one"], ["eight"]]


FAT_AND_THIN = [MachineSpec("thin", 1, mem_bytes=1), MachineSpec("fat", 1, count=2, mem_bytes=9)]
TWO_FAT: Rows = [(0, 10, 1, 9), (1, 5, 2, 9)]
"""One fat machine is busy until 10; then the head takes both. So it reserves the other, fat2."""


def test_a_reservation_keeps_a_particular_machine() -> None:
    # A long job takes the thin machine; the next finds only fat2 idle, which is kept till 10.
    starts, names = run([*TWO_FAT, (2, 100, 1), (3, 100, 1)], FAT_AND_THIN)
    assert starts == [0.0, 10.0, 2.0, 15.0]
    assert names == [["fat1"], ["fat1", "fat2"], ["thin"], ["fat1"]]


def test_a_job_in_time_takes_reserved_machines_first() -> None:
    # It ends at 10 and takes fat2, though thin comes first; so the long job still finds thin.
    starts, names = run([*TWO_FAT, (2, 8, 1), (2, 100, 1)], FAT_AND_THIN)
    assert starts == [0.0, 10.0, 2.0, 2.0]
    assert names == [["fat1"], ["fat1", "fat2"], ["fat2"], ["thin"]]


def test_a_job_in_time_may_take_reserved_machines_and_others() -> None:
    starts, names = run([*TWO_FAT, (2, 8, 2), (2, 1, 1)], FAT_AND_THIN)
    assert starts == [0.0, 10.0, 2.0, 10.0]
    assert names[2:] == [["fat2", "thin"], ["thin"]]


def test_a_reservation_prefers_machines_that_are_not_idle_now() -> None:
    # At 10 n1 and n2 come free and are enough, so n3 is nobody's and a long job may have it.
    starts, names = run([(0, 10, 2), (1, 5, 2), (2, 100, 1)], [MachineSpec("n", 1, count=3)])
    assert starts == [0.0, 10.0, 2.0]
    assert names == [["n1", "n2"], ["n1", "n2"], ["n3"]]


def test_all_machines_that_come_free_at_the_shadow_time_count() -> None:
    # n1 and n2 both come free at 10; the head needs one machine and n3 stays open.
    jobs: Rows = [(0, 10, 2), (0, 10, 2), (1, 5, 3), (2, 100, 2)]
    starts, names = run(jobs, [MachineSpec("n", 2, count=3)])
    assert starts == [0.0, 0.0, 10.0, 2.0]
    assert names[2:] == [["n1", "n2"], ["n3"]]


def test_the_shadow_time_counts_only_machines_that_suit_the_head() -> None:
    # thin comes free at 3, which is of no use to the head; so a job that ends at 10 is in time.
    jobs: Rows = [(0, 3, 1), (0, 10, 1, 9), (1, 5, 2, 9), (2, 8, 1)]
    starts, names = run(jobs, FAT_AND_THIN)
    assert starts == [0.0, 0.0, 10.0, 2.0]
    assert names == [["thin"], ["fat1"], ["fat1", "fat2"], ["fat2"]]


def test_the_reservation_is_made_anew_when_a_job_in_time_took_its_machines() -> None:
    # At 1 the head (10 processors) is promised busy at 10, and keeps small and big besides. At 2 a
    # job that is too large for small takes big until 10. Then busy and big will do for the head,
    # so small is nobody's and a long job may have it.
    machines = [
        MachineSpec("busy", 4, mem_bytes=100),
        MachineSpec("small", 1, mem_bytes=4),
        MachineSpec("big", 8, mem_bytes=100),
    ]
    starts, names = run([(0, 10, 4, 5), (1, 5, 10), (2, 8, 1, 5), (3, 100, 1)], machines)
    assert starts == [0.0, 10.0, 2.0, 3.0]
    assert names == [["busy"], ["busy", "big"], ["big"], ["small"]]


def test_none_lets_nobody_overtake_even_on_machines_the_head_cannot_use() -> None:
    jobs: Rows = [(0, 10, 1, 9), (1, 5, 2, 9), (2, 1, 1)]
    assert run(jobs, FAT_AND_THIN, backfill="none")[0] == [0.0, 10.0, 10.0]


def test_partitions_have_machines_of_their_own() -> None:
    parts = [
        Partition.of_machines("short", [MachineSpec("s", 2)], max_requested_s=5),
        Partition.of_machines("long", [MachineSpec("l", 2, count=2)]),
    ]
    workload = Workload.from_arrays(
        submit_s=[0, 0, 0, 0], runtime_s=[9, 9, 5, 5], procs=[1, 3, 1, 2]
    )
    result = simulate(Scenario(workload, ClusterSpec.of(parts), allocation="whole_nodes"))
    assert result.partition.tolist() == [1, 1, 0, 0]
    assert result.start_s.tolist() == [0.0, 9.0, 0.0, 5.0]
    assert result.placement is not None
    assert result.placement.machine.tolist() == [1, 1, 2, 0, 0]
    assert result.placement.n_machines.tolist() == [1, 2, 1, 1]


def test_the_monitor_counts_whole_machines() -> None:
    scenario = scenario_of([(0, 10, 5), (1, 5, 8)], [MachineSpec("n", 4, count=3)])
    watched = simulate(scenario, monitor=True)
    assert watched == simulate(scenario)
    assert watched.series is not None
    (series,) = watched.series
    assert series.time_s.tolist() == [0.0, 1.0, 10.0, 15.0]
    assert series.used_procs.tolist() == [8, 8, 8, 0]
    assert series.n_queued.tolist() == [0, 1, 0, 0]


def test_utilisation_counts_what_jobs_need_and_not_what_idles_with_them() -> None:
    scenario = scenario_of([(0, 10, 1)], [MachineSpec("n", 4)])
    assert summarise(scenario, simulate(scenario)).utilisation == 0.25


@given(node_scenarios(most_jobs=15))
def test_in_the_end_every_machine_has_everything_back(scenario: Scenario) -> None:
    before = job_setup.make_state(scenario, admit(scenario))
    assert isinstance(before, Nodes)
    _, after, _ = _interpret(scenario, lambda: False)
    assert isinstance(after, Nodes)
    assert list(after.free) == list(after.capacity) == before.free.tolist()  # type: ignore[attr-defined]
    assert not any(machine.n_holders for machine in after.machines)
    ends = [*(kind.first for kind in after.kinds[1:]), len(after.machines)]
    for kind, end in zip(after.kinds, ends, strict=True):
        assert (kind.n_idle, kind.first) == (end - kind.first, kind.first)
        assert kind.first <= kind.lowest < end
    for here, part in zip(after.pool.partitions, scenario.cluster.partitions, strict=True):
        assert here.free == part.procs


def test_a_job_that_no_machines_can_hold_is_refused_or_rejected() -> None:
    jobs: Rows = [(0, 5, 2, 5), (0, 5, 1, 9), (0, 5, 4, 9)]
    with pytest.raises(ScenarioError) as caught:
        simulate(scenario_of(jobs, [MachineSpec("n", 4, mem_bytes=10)]))
    assert str(caught.value) == (
        "job 3 of 'workload' needs 4 processors with 9 bytes of memory each, and no partition "
        "that admits it has machines with as much; give them more memory, or choose "
        "too_wide='reject'."
    )
    machines = [MachineSpec("n", 4, mem_bytes=10)]
    result = simulate(scenario_of(jobs, machines, too_wide="reject"))
    assert result.state.tolist() == [JobState.COMPLETED, JobState.COMPLETED, JobState.REJECTED]
    assert result.placement is not None
    assert result.placement.of(2).tolist() == []
    with pytest.raises(ScenarioError, match="4 processors with 9 bytes of memory each"):
        simulate(scenario_of([(0, 5, 8, 9)], machines, too_wide="clip"))


def test_clipping_takes_every_machine_of_the_widest_partition() -> None:
    scenario = scenario_of([(0, 5, 8)], [MachineSpec("n", 2, count=2)], too_wide="clip")
    result = simulate(scenario)
    assert result.end_s.tolist() == [10.0]
    assert result.placement is not None
    assert result.placement.machine.tolist() == [0, 1]


def test_a_placement_is_read_only_survives_pickling_and_counts_for_equality() -> None:
    result = simulate(scenario_of([(0, 10, 5), (0, 5, 1)], [MachineSpec("n", 4, count=3)]))
    copy: SimulationResult = pickle.loads(pickle.dumps(result))
    assert copy == result
    assert copy.placement is not None
    with pytest.raises(ValueError, match="read-only"):
        copy.placement.machine[0] = 1
    elsewhere = Placement(copy.placement.first, copy.placement.machine[::-1].copy())
    assert replace(result, placement=elsewhere) != result
    assert replace(result, placement=None) != result
    assert list(result.columns())[-2:] == ["placement_first", "placement_machine"]


def test_a_rule_that_cannot_do_nodes_says_which_can() -> None:
    pool_only = Backfill("odd", "for this test", easy)
    assert decision_of(pool_only, "processors") is easy
    with pytest.raises(ScenarioError) as caught:
        decision_of(pool_only, "whole_nodes")
    assert str(caught.value) == (
        "backfill 'odd' cannot decide with allocation='whole_nodes'; choose one that can "
        "('none', 'easy', 'slurm') or allocation='processors'."
    )
    assert decision_of(backfill_named("easy"), "whole_nodes") is not easy


@pytest.mark.parametrize(
    ("machine", "sentence"),
    [
        (("", 4), "a machine has an empty name; give it one."),
        (("n", 0), "machine 'n': procs is 0; allowed are whole numbers from 1 to 2**53."),
        (("n", 1, 0), "machine 'n': count is 0; allowed are whole numbers from 1 to 2**53."),
        (("n", 1, 1, 0), "machine 'n': mem_bytes is 0; allowed are whole numbers from 1 to 2**53."),
        (("n", 1, 1, 1.5), "machine 'n': mem_bytes is 1.5; allowed"),
    ],
)
def test_a_machine_that_cannot_be_is_refused(machine: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(ClusterError) as caught:
        MachineSpec(*machine)  # type: ignore[arg-type]
    assert str(caught.value).startswith(sentence)


def test_a_cluster_of_machines_that_cannot_be_is_refused() -> None:
    with pytest.raises(ClusterError, match="procs is 8 and its machines have 12; they must agree"):
        Partition("main", 8, machines=(MachineSpec("n", 4, count=3),))
    with pytest.raises(ClusterError, match="'main' needs at least 1 machine; 0 were given"):
        Partition.of_machines("main", [])
    with pytest.raises(ClusterError, match="two machines are called 'n1'; names must be unique"):
        ClusterSpec.of([Partition.of_machines("a", [MachineSpec("n", 1, 2), MachineSpec("n1", 1)])])
    with pytest.raises(ClusterError, match="has 1000001 machines; allowed are at most 1,000,000"):
        ClusterSpec.single(1_000_001).in_machines_of(1)
    with pytest.raises(ClusterError, match="'main' has 10 processors, which is not a whole number"):
        ClusterSpec.single(10).in_machines_of(4)
    with pytest.raises(ClusterError, match="a machine: procs is 0; allowed are whole numbers"):
        ClusterSpec.single(10).in_machines_of(0)


def test_a_cluster_cut_into_machines() -> None:
    limits = Partition("a", 4, max_requested_s=60, max_procs=2)
    cluster = ClusterSpec.of([limits, Partition("b", 2)]).in_machines_of(2, mem_bytes=7)
    assert cluster.machine_names == ("a1", "a2", "b")
    assert cluster.n_machines == 3
    assert cluster.machine_capacity().tolist() == [[2, 7]] * 3
    assert cluster.machine_partition().tolist() == [0, 0, 1]
    assert (cluster.partitions[0].max_requested_s, cluster.partitions[0].max_procs) == (60, 2)
    assert ClusterSpec.single(4).machine_capacity().shape == (0, 2)


def test_whole_nodes_need_machines_and_the_allocation_a_known_name() -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1])
    with pytest.raises(ScenarioError, match="partition 'main' has no machines; make it with"):
        Scenario(workload, ClusterSpec.single(4), allocation="whole_nodes")
    with pytest.raises(UnknownNameError, match="no allocation 'nodes'"):
        Scenario(workload, ClusterSpec.single(4), allocation="nodes")  # type: ignore[arg-type]


def test_allocation_and_machines_are_part_of_the_digest() -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1])
    cut = ClusterSpec.single(4).in_machines_of
    told = [
        Scenario(workload, cut(2)),
        Scenario(workload, cut(2), allocation="whole_nodes"),
        Scenario(workload, cut(4), allocation="whole_nodes"),
        Scenario(workload, cut(4, mem_bytes=1), allocation="whole_nodes"),
    ]
    assert len({scenario.digest for scenario in told}) == 4


def test_with_counted_processors_machines_make_no_difference() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 0], runtime_s=[5, 5], procs=[1, 3], mem_bytes_per_proc=[9, 9]
    )
    bare = simulate(Scenario(workload, ClusterSpec.single(4)))
    cut = simulate(Scenario(workload, ClusterSpec.single(4).in_machines_of(2, mem_bytes=1)))
    assert bare.start_s.tolist() == cut.start_s.tolist() == [0.0, 0.0]
    assert cut.placement is None


def test_memory_is_a_column_that_counts_only_where_it_is_known() -> None:
    bare = Workload.from_arrays(submit_s=[0, 1], runtime_s=[1, 1], procs=[1, 1])
    assert bare.mem_bytes_per_proc.tolist() == [-1, -1]
    known = replace(bare, mem_bytes_per_proc=np.array([-1, 5]))
    assert known.digest != bare.digest
    assert known.head(1).digest == bare.head(1).digest
    with pytest.raises(Exception, match="mem_bytes_per_proc, row 0: -2; allowed are whole"):
        Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1], mem_bytes_per_proc=[-2])
