"""When a job would have started with one change: by hand, and equal to a simulation of it."""

from dataclasses import replace

import numpy as np
import pytest

from sim import CapacityWindow, ClusterSpec, Partition, Scenario, Workload, WorkloadError, simulate
from sim.counterfactuals import changed_starts
from sim.generators import default_workload


def jobs(*rows: tuple[float, float, int, float]) -> Workload:
    """Return jobs of one user: submission, run time, processors and request."""
    submit_s, runtime_s, procs, requested_s = zip(*rows, strict=True)
    return Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=procs, requested_s=requested_s,
        user=[1] * len(rows),
    )  # fmt: skip


def starts(scenario: Scenario, job_id: int) -> dict[str, float | None]:
    changed = changed_starts(scenario, job_id)
    return {"now": changed.start_s} | {each.kind: each.start_s for each in changed.changes}


def test_a_request_that_is_too_long() -> None:
    # Job 2 is first, reserved for 10; job 3 would end at 102, or with its run time at 10.
    log = jobs((0, 10, 6, 10), (1, 5, 10, 5), (2, 8, 4, 100))
    assert starts(Scenario(log, ClusterSpec.single(10)), 3) == {
        "now": 15.0,
        "own_request": 2.0,
        "half_width": 15.0,  # it would end at 202
        "all_requests": 2.0,
    }


def test_windows_and_limits_of_users() -> None:
    log = jobs((0, 10, 2, 10), (0, 10, 2, 10))
    window = CapacityWindow("main", 9, 0.0, 50.0)
    closed = Scenario(log, ClusterSpec.single(10), windows=(window,))
    # One processor is there: narrowed, job 2 takes it at once, as job 1 needs two.
    assert starts(closed, 2) == {"now": 50.0, "half_width": 0.0, "no_windows": 0.0}
    limited = Scenario(log, ClusterSpec((Partition("main", 10, running_per_user=1),)))
    assert starts(limited, 2) == {"now": 10.0, "half_width": 10.0, "no_user_limits": 0.0}


def test_tiers() -> None:
    # Both wait for job 1; job 3, short, goes to the higher tier, and needs all processors.
    log = jobs((0, 10, 8, 10), (1, 20, 8, 20), (2, 5, 8, 5))
    express = Partition("express", on="main", max_requested_s=5.0, tier=1)
    scenario = Scenario(log, ClusterSpec((express, Partition("main", 8))), backfill="none")
    changed = starts(scenario, 2)
    assert (changed["now"], changed["one_tier"]) == (15.0, 10.0)


def test_whole_nodes() -> None:
    log = jobs((0, 10, 1, 10), (0, 10, 5, 10))
    cluster = ClusterSpec.single(8).in_machines_of(4)
    changed = starts(Scenario(log, cluster, allocation="whole_nodes"), 2)
    assert (changed["now"], changed["counted_processors"]) == (10.0, 0.0)


def test_each_answer_is_that_of_a_simulation_with_the_change() -> None:
    log = default_workload(seed=3, n_jobs=300)
    scenario = Scenario(log, ClusterSpec.single(log.widest_procs))
    exact = np.minimum(log.requested_s, log.runtime_s)
    for row in range(11, 300, 60):
        changed = starts(scenario, int(log.job_id[row]))
        requested = log.requested_s.copy()
        requested[row] = exact[row]
        for kind, then in (("own_request", requested), ("all_requests", exact)):
            rebuilt = Workload.from_arrays(
                submit_s=log.submit_s, runtime_s=log.runtime_s, procs=log.procs, requested_s=then
            )
            result = simulate(replace(scenario, workload=rebuilt), engine="interpreted")
            if kind in changed:
                assert changed[kind] == result.start_s[row]
        assert changed["now"] == simulate(scenario).start_s[row]


def test_an_unknown_job_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no job 9 among the jobs of"):
        changed_starts(Scenario(jobs((0, 1, 1, 1)), ClusterSpec.single(1)), 9)
