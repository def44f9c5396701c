"""Slurm's rules over machines, worked by hand. Jobs are (submit, runtime, requested, procs)."""

import pytest

from sim import ClusterSpec, MachineSpec, Partition, Scenario, Workload, simulate
from sim.model.errors import ScenarioError

Rows = list[tuple[float, float, float, int]]

AT_ONCE = {"bf_interval_s": 0.0, "bf_resolution_s": 1.0}


def run(
    jobs: Rows, machines: list[MachineSpec], *, backfill: str = "slurm", **options: float
) -> tuple[list[float], list[list[int]]]:
    """Return the start of each job, and the numbers of its machines."""
    submit_s, runtime_s, requested_s, procs = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, requested_s=requested_s, procs=procs
    )
    cluster = ClusterSpec.of([Partition.of_machines("main", machines)])
    told = {**AT_ONCE, **options} if backfill == "slurm" else {}
    result = simulate(
        Scenario(workload, cluster, backfill=backfill, allocation="shared_nodes", options=told),
        engine="interpreted",
    )
    assert result.placement is not None
    return result.start_s.tolist(), [
        result.placement.of(row).tolist() for row in range(workload.n_jobs)
    ]


ONES, FAT = [MachineSpec("n", 1, 8)], [MachineSpec("fat", 8)]


def test_a_booking_takes_machines_by_name_also_idle_ones() -> None:
    """4 of 8 run until 100. The head needs 6 and is booked from 100 on 0 to 5: 0 to 3 and two that
    are idle now. A long job of 2 finds 6 and 7; the next of 2 would find only booked ones."""
    jobs = [(0, 100, 100, 4), (1, 50, 50, 6), (2, 200, 200, 2), (3, 200, 200, 2)]
    starts, machines = run(jobs, ONES)
    assert machines[:3] == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [6, 7]]
    assert starts[:3] == [0, 100, 2]
    assert starts[3] == 150  # booked behind the head; where processors are counted as well


def test_where_machines_are_shared_a_booking_takes_all_of_a_machine() -> None:
    """One machine of 8, of which 4 run until 100. The head needs 6 from then on. Counting
    processors a long job of 2 could start: 2 are extra. But the machine is booked, until the head
    is there."""
    jobs = [(0, 100, 100, 4), (1, 50, 50, 6), (2, 200, 200, 2)]
    assert run(jobs, FAT)[0] == [0, 100, 100]
    assert run(jobs, ONES)[0] == [0, 100, 2]


def test_what_ends_the_very_moment_a_booking_begins_is_in_its_way() -> None:
    jobs = [(0, 100, 100, 4), (1, 50, 50, 6)]
    assert run([*jobs, (2, 97, 97, 2)], FAT)[0][2] == 2  # until 99
    assert run([*jobs, (2, 98, 98, 2)], FAT)[0][2] == 100  # until 100


def test_running_jobs_that_end_within_30_s_end_together() -> None:
    """The head needs 4 and can have them at 100, when the first ends. But another ends 30 s later,
    within the first step: so it is booked for 130, and a job until 120 overtakes. With 31 s
    between the two it is booked for 100, and that job waits."""
    jobs = [(0, 100, 100, 4), (0, 130, 130, 2), (1, 50, 50, 4)]
    assert run([*jobs, (2, 118, 118, 2)], FAT)[0][2:] == [100, 2]
    jobs[1] = (0, 131, 131, 2)
    assert run([*jobs, (2, 118, 118, 2)], FAT)[0][2:] == [100, 100]


def test_bookings_for_all_or_for_the_first() -> None:
    """The head is booked from 100 to 150, the second job for all 8 from 150. A job of 2 that asks
    for 200 may not start if that is a promise, and may if only the head has a booking."""
    jobs = [(0, 100, 100, 6), (1, 50, 50, 6), (2, 50, 50, 8), (3, 200, 200, 2)]
    assert run(jobs, ONES)[0] == [0, 100, 150, 200]
    assert run(jobs, ONES, bf_reserve=1)[0] == [0, 100, 203, 3]


def test_a_pass_waits_for_its_time() -> None:
    """The main scheduler stops at the head; who overtakes waits for the pass at 30."""
    jobs = [(0, 100, 100, 6), (1, 50, 50, 8), (2, 40, 40, 2)]
    assert run(jobs, ONES)[0] == [0, 100, 2]
    assert run(jobs, ONES, bf_interval_s=30)[0] == [0, 100, 30]
    assert run(jobs, ONES, backfill="none")[0] == [0, 100, 150]


def test_a_pass_looks_at_so_many_jobs() -> None:
    jobs = [(0, 100, 100, 6), (1, 50, 50, 8), (2, 50, 50, 8), (3, 40, 40, 2)]
    assert run(jobs, ONES)[0][3] == 3
    assert run(jobs, ONES, bf_max_job_test=2)[0][3] == 200


def test_beyond_the_window_nothing_is_booked() -> None:
    """The head could start at 100. A pass that looks 50 s ahead does not book for it."""
    jobs = [(0, 100, 100, 6), (1, 50, 50, 8), (2, 300, 300, 2)]
    assert run(jobs, ONES)[0] == [0, 100, 150]
    assert run(jobs, ONES, bf_window_s=50)[0] == [0, 302, 2]


def test_bookings_are_rounded() -> None:
    """Booked for 100, by the minute from 60: a job until 90 is in the way of that."""
    jobs = [(0, 100, 100, 6), (1, 50, 50, 8), (2, 88, 88, 2)]
    assert run(jobs, ONES)[0] == [0, 100, 2]
    assert run(jobs, ONES, bf_resolution_s=60)[0] == [0, 100, 150]


def test_the_smallest_run_of_neighbours_that_suffices_is_taken() -> None:
    """After 10 s machines 0 to 2 and 5 to 6 are idle: 2 fit best on 5 and 6, 4 need both runs, the
    larger first."""
    before = [(0, 10, 10, 3), (0, 99, 99, 2), (0, 10, 10, 2), (0, 99, 99, 1)]
    assert run([*before, (20, 5, 5, 2)], ONES)[1][-1] == [5, 6]
    assert run([*before, (20, 5, 5, 4)], ONES)[1][-1] == [0, 1, 2, 5]


def test_memory_is_shared_too() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 0, 0], runtime_s=[10, 10, 10], procs=[2, 1, 2], mem_bytes_per_proc=[3, 3, 0]
    )
    machines = [MachineSpec("a", 4, mem_bytes=8), MachineSpec("b", 4, mem_bytes=4)]
    cluster = ClusterSpec.of([Partition.of_machines("main", machines)])
    result = simulate(Scenario(workload, cluster, backfill="slurm", allocation="shared_nodes"))
    assert result.start_s.tolist() == [0, 0, 0]
    assert result.placement is not None
    # a has memory for 2 processes of 3 bytes, b for one; who needs none begins with a again.
    assert [result.placement.of(row).tolist() for row in range(3)] == [[0], [1], [0]]
    refused = Scenario(workload, cluster, allocation="shared_nodes", backfill="none")
    assert simulate(refused).start_s.tolist() == [0, 0, 0]
    wide = Workload.from_arrays(
        submit_s=[0], runtime_s=[10], procs=[4], mem_bytes_per_proc=[3]
    )  # 2 and 1 processes fit
    with pytest.raises(ScenarioError, match="and no partition that admits it has machines"):
        simulate(Scenario(wide, cluster, backfill="slurm", allocation="shared_nodes"))


def test_the_rule_needs_machines_and_says_so() -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[1])
    with pytest.raises(ScenarioError) as no:
        simulate(Scenario(workload, ClusterSpec.single(4), backfill="slurm"))
    assert str(no.value) == (
        "backfill 'slurm' cannot decide with allocation='processors'; choose one that can ('none', "
        "'greedy', 'easy', 'depth', 'conservative') or allocation='whole_nodes' or "
        "allocation='shared_nodes'."
    )


def test_a_job_holds_its_processors_until_they_are_cleaned_up() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2], runtime_s=[10, 10, 3], requested_s=[10, 10, 3], procs=[3, 4, 1]
    )
    plain = simulate(Scenario(workload, ClusterSpec.single(4)))
    assert (plain.start_s.tolist(), plain.end_s.tolist()) == ([0, 10, 2], [10, 20, 5])
    slow = simulate(Scenario(workload, ClusterSpec.single(4), cleanup_s=6))
    # held until 16; the third would hold its processor until 2 + 3 + 6 = 11, in time.
    assert (slow.start_s.tolist(), slow.end_s.tolist()) == ([0, 16, 2], [10, 26, 5])
    with pytest.raises(ScenarioError, match="cleanup_s is -1; allowed is a finite number"):
        Scenario(workload, ClusterSpec.single(4), cleanup_s=-1)
