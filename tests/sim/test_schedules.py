"""Schedules worked by hand, and what must hold for every schedule."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim import ClusterSpec, Partition, Scenario, Workload, simulate
from sim.api import known_names
from sim.generators import default_workload
from sim.model.admission import admit
from sim.model.errors import UnknownNameError
from sim.model.result import JobState, SimulationResult
from tests.draw.workloads import scenarios


def run(
    jobs: list[tuple[float, float, int]],
    procs: int = 10,
    requested: list[float] | None = None,
    **policy: str,
) -> list[float]:
    """Simulate (submit, runtime, procs) rows on one partition; return the starts."""
    submit_s, runtime_s, widths = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=widths, requested_s=requested
    )
    scenario = Scenario(workload, ClusterSpec.single(procs), **policy)  # type: ignore[arg-type]
    found: list[float] = simulate(scenario).start_s.tolist()
    return found


def test_fcfs_without_backfilling_lets_nobody_overtake() -> None:
    jobs = [(0.0, 10.0, 6), (1.0, 5.0, 6), (2.0, 1.0, 1)]
    assert run(jobs, backfill="none") == [0.0, 10.0, 10.0]


def test_easy_lets_a_job_overtake_that_ends_by_the_shadow_time() -> None:
    # Head (6 processors) is reserved at 10. Ends at 2 + 8 = 10: allowed. 2 + 9 = 11: not, since
    # at 10 only 10 - 6 = 4 processors are extra and 4 are wanted by each: the first takes them.
    assert run([(0, 10, 6), (1, 5, 6), (2, 8, 4)]) == [0.0, 10.0, 2.0]


def test_easy_lets_a_long_job_use_extra_processors_until_they_are_used_up() -> None:
    # At 10 all 10 processors are free, the head takes 7, so 3 are extra. The first long job
    # takes 2 of them; the second wants 2 and only 1 is left; the third wants 1.
    jobs = [(0, 10, 6), (1, 5, 7), (2, 100, 2), (3, 100, 2), (4, 100, 1)]
    assert run(jobs) == [0.0, 10.0, 2.0, 15.0, 4.0]


def test_a_job_in_time_leaves_the_extra_processors_to_others() -> None:
    # 3 extra. A job that ends by the shadow time takes 2, a long one takes all 2 that are free.
    jobs = [(0, 10, 6), (1, 5, 7), (2, 8, 2), (2, 100, 2)]
    assert run(jobs) == [0.0, 10.0, 2.0, 2.0]


def test_all_jobs_that_end_at_the_shadow_time_count_as_extra() -> None:
    # Both running jobs are expected at 10; the head needs 5 of the 10, so 5 are extra, not 1.
    jobs = [(0, 10, 4), (0, 10, 4), (1, 5, 5), (2, 100, 2)]
    assert run(jobs) == [0.0, 0.0, 10.0, 2.0]


def test_the_reservation_is_computed_anew_when_a_job_ends_early() -> None:
    # The first job asks for 100 and ends at 10; the reservation moves from 100 to 20 with it.
    jobs = [(0, 10, 5), (0, 20, 4), (1, 5, 8), (11, 15, 5)]
    requested = [100.0, 20.0, 5.0, 15.0]
    assert run(jobs, requested=requested) == [0.0, 0.0, 20.0, 25.0]


def test_sjf_takes_the_shortest_request_and_ties_go_by_submission() -> None:
    jobs = [(0, 10, 10), (1, 3, 10), (2, 2, 10), (3, 2, 10)]
    assert run(jobs, order="sjf", backfill="none") == [0.0, 14.0, 10.0, 12.0]


def test_an_instant_is_a_set() -> None:
    # At 10 a job ends and another arrives; the arrival has the shorter request and goes first.
    jobs = [(0, 10, 10), (1, 5, 10), (10, 2, 10)]
    assert run(jobs, order="sjf", backfill="none") == [0.0, 12.0, 10.0]


def test_jobs_without_run_time_end_at_once_and_let_others_in() -> None:
    assert run([(0, 0, 10), (0, 0, 10), (0, 1, 10)], backfill="none") == [0.0, 0.0, 0.0]


def test_arrivals_happen_at_their_very_time() -> None:
    times = [0.0, 5.9, 23.8, 1e9 + 0.3, 1e9 + 0.7]
    assert 5.9 + (23.8 - 5.9) != 23.8  # so a delay would not do
    assert run([(t, 0.05, 1) for t in times]) == times


def test_end_is_start_plus_run_time() -> None:
    scenario = Scenario(default_workload(seed=2, n_jobs=300), ClusterSpec.single(128))
    result = simulate(scenario)
    assert (result.end_s == result.start_s + scenario.workload.runtime_s).all()


def test_partitions_have_queues_of_their_own() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2], runtime_s=[100, 10, 10], procs=[4, 4, 4], requested_s=[100, 100, 10]
    )
    cluster = ClusterSpec((Partition("short", 4, max_requested_s=50), Partition("long", 4)))
    result = simulate(Scenario(workload, cluster, backfill="none"))
    assert result.start_s.tolist() == [0.0, 100.0, 2.0]
    assert result.partition.tolist() == [1, 1, 0]


def in_use(result: SimulationResult, procs: np.ndarray, partition: int) -> int:
    """Most processors of a partition in use at any instant, releases before starts."""
    rows = (result.partition == partition) & (result.end_s > result.start_s)
    times = np.concatenate([result.end_s[rows], result.start_s[rows]])
    change = np.concatenate([-procs[rows], procs[rows]])
    is_start = np.concatenate([np.zeros(rows.sum()), np.ones(rows.sum())])
    return int(np.cumsum(change[np.lexsort((is_start, times))]).max(initial=0))


@given(scenarios())
def test_every_schedule_is_possible(scenario: Scenario) -> None:
    result, workload = simulate(scenario), scenario.workload
    admission = admit(scenario)
    assert np.isfinite(result.end_s).all(), "a feasible job did not finish"
    assert (result.start_s >= workload.submit_s).all(), "a job started before it was submitted"
    assert (result.end_s == result.start_s + admission.runtime_s).all()
    for index, partition in enumerate(scenario.cluster.partitions):
        assert in_use(result, admission.procs, index) <= partition.procs


@given(scenarios())
def test_simulation_is_reproducible(scenario: Scenario) -> None:
    assert simulate(scenario) == simulate(scenario)


@given(scenarios(), st.randoms(use_true_random=False))
def test_the_order_of_input_rows_is_irrelevant(scenario: Scenario, random: object) -> None:
    workload = scenario.workload
    rows = list(range(workload.n_jobs))
    random.shuffle(rows)  # type: ignore[attr-defined]
    shuffled = Workload.from_arrays(
        submit_s=workload.submit_s[rows],
        runtime_s=workload.runtime_s[rows],
        requested_s=workload.requested_s[rows],
        procs=workload.procs[rows],
        job_id=workload.job_id[rows],
        user=workload.user[rows],
        queue=workload.queue[rows],
        unsorted="sort",
    )
    assert shuffled == workload
    assert simulate(replace(scenario, workload=shuffled)) == simulate(scenario)


@given(scenarios())
def test_under_fcfs_without_backfilling_starts_follow_submissions(scenario: Scenario) -> None:
    strict = Scenario(scenario.workload, scenario.cluster, "fcfs", "none")
    result = simulate(strict)
    for index in range(len(strict.cluster.partitions)):
        assert (np.diff(result.start_s[result.partition == index]) >= 0).all()


def test_kill_cuts_a_job_at_its_request() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 0], runtime_s=[10, 3], procs=[1, 1], requested_s=[4, 4]
    )
    result = simulate(Scenario(workload, ClusterSpec.single(2), overrun="kill"))
    assert result.end_s.tolist() == [4.0, 3.0]
    assert result.state.tolist() == [JobState.KILLED, JobState.COMPLETED]


def test_the_monitor_sees_queue_and_processors_and_changes_nothing() -> None:
    workload = Workload.from_arrays(submit_s=[0, 1, 2], runtime_s=[10, 5, 1], procs=[6, 6, 4])
    scenario = Scenario(workload, ClusterSpec.single(10))
    watched = simulate(scenario, monitor=True)
    assert watched == simulate(scenario)
    assert simulate(scenario).series is None
    assert watched.series is not None
    (series,) = watched.series
    assert series.time_s.tolist() == [0.0, 1.0, 2.0, 3.0, 10.0, 15.0]
    assert series.n_queued.tolist() == [0, 1, 1, 1, 0, 0]
    assert series.used_procs.tolist() == [6, 6, 10, 6, 6, 0]


@given(scenarios(most_jobs=12))
@settings(max_examples=20)
def test_the_monitor_never_sees_more_processors_than_there_are(scenario: Scenario) -> None:
    series = simulate(scenario, monitor=True).series
    assert series is not None
    for partition, seen in zip(scenario.cluster.partitions, series, strict=True):
        assert ((seen.used_procs >= 0) & (seen.used_procs <= partition.procs)).all()
        assert (np.diff(seen.time_s) > 0).all()
        assert seen.n_queued[-1] == 0
        assert seen.used_procs[-1] == 0


def test_a_result_survives_pickling_and_is_read_only() -> None:
    scenario = Scenario(default_workload(seed=1, n_jobs=40), ClusterSpec.single(128))
    result = pickle.loads(pickle.dumps(simulate(scenario)))
    assert result == simulate(scenario)
    with pytest.raises(ValueError, match="read-only"):
        result.start_s[0] = 1.0
    copy = pickle.loads(pickle.dumps(scenario))
    assert copy.digest == scenario.digest
    with pytest.raises(ValueError, match="read-only"):
        copy.workload.procs[0] = 1


IN_A_NEW_PROCESS = """
import hashlib
from sim import ClusterSpec, Partition, Scenario, simulate
from sim.generators import default_workload
from sim.kernel.jit import unavailable
workload = default_workload(5, 400)
cluster = ClusterSpec((Partition('short', 16, 7200.0), Partition('all', workload.widest_procs)))
sha = hashlib.sha256()
for order in ('fcfs', 'sjf'):
    for backfill in ('none', 'easy'):
        result = simulate(Scenario(workload, cluster, order, backfill))
        sha.update(result.start_s.tobytes())
print(unavailable() is None, sha.hexdigest())
"""


@pytest.mark.soak
def test_interpreted_kernels_equal_compiled_ones(repository: Path) -> None:
    seen = {}
    for disabled in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", IN_A_NEW_PROCESS],
            cwd=repository,
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            capture_output=True,
            text=True,
            check=True,
        )
        enabled, digest = done.stdout.split()
        seen[enabled] = digest
    assert set(seen) == {"True", "False"}
    assert seen["True"] == seen["False"]


def test_unknown_names_are_answered_with_the_nearest() -> None:
    workload = default_workload(n_jobs=5)
    cluster = ClusterSpec.single(128)
    with pytest.raises(UnknownNameError) as caught:
        simulate(Scenario(workload, cluster, order="fcfc"))
    assert str(caught.value).startswith("no order 'fcfc'; did you mean 'fcfs'? Known: fcfs, sjf,")
    with pytest.raises(UnknownNameError, match=r"no backfill 'eazy'; did you mean 'easy'\? Known"):
        simulate(Scenario(workload, cluster, backfill="eazy"))
    with pytest.raises(UnknownNameError, match=r"no engine 'compile'; did you mean 'compiled'\?"):
        simulate(Scenario(workload, cluster), engine="compile")
    with pytest.raises(UnknownNameError, match="no overrun rule 'prolong'"):
        Scenario(workload, cluster, overrun="prolong")  # type: ignore[arg-type]
    assert known_names()["order"][:2] == ("fcfs", "sjf")
