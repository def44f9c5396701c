"""Metrics against numbers worked by hand."""

import json

import numpy as np
import pytest

from sim import ClusterSpec, Partition, Scenario, Workload, simulate, summarise
from sim.metrics.schedule_metrics import max_wait_s
from sim.metrics.workload_profile import describe, offered_load


def three_jobs(**policy: str) -> Scenario:
    # 10 processors, no backfilling: starts 0, 10, 15; waits 0, 9, 13; ends 10, 15, 19.
    workload = Workload.from_arrays(
        submit_s=[0, 1, 2],
        runtime_s=[10, 5, 4],
        procs=[6, 6, 9],
        requested_s=[100, 50, 20],
        max_procs=10,
        user=[1, 1, 2],
    )
    return Scenario(workload, ClusterSpec.single(10), backfill="none", **policy)  # type: ignore[arg-type]


def test_the_formulas() -> None:
    scenario = three_jobs()
    metrics = summarise(scenario, simulate(scenario))
    assert (metrics.wait.mean, metrics.wait.median, metrics.wait.max) == (22 / 3, 9.0, 13.0)
    assert metrics.wait.p95 == pytest.approx(9 + 0.9 * 4)
    assert (metrics.response.mean, metrics.response.max) == (41 / 3, 17.0)
    assert metrics.slowdown.mean == pytest.approx((10 / 10 + 14 / 5 + 17 / 4) / 3)
    assert metrics.bounded_slowdown.mean == pytest.approx((1.0 + 14 / 10 + 17 / 10) / 3)
    assert metrics.makespan_s == 19.0
    assert metrics.utilisation == pytest.approx((60 + 30 + 36) / (10 * 19))
    # From 0 to 2 only the first job runs: 6 of 10 processors.
    assert metrics.utilisation_at_arrival == pytest.approx(0.6)
    assert (metrics.n_jobs, metrics.n_rejected, metrics.n_killed) == (3, 0, 0)
    assert {name: group.n_jobs for name, group in metrics.by_size_class.items()} == {
        "2-8": 2,
        "9-64": 1,
    }
    assert metrics.by_size_class["9-64"].wait.max == 13.0


def test_flat_names() -> None:
    scenario = three_jobs()
    flat = summarise(scenario, simulate(scenario)).flat()
    assert flat["mean_wait_s"] == 22 / 3
    assert flat["p95_wait_s"] == pytest.approx(12.6)
    assert flat["max_bounded_slowdown"] == 1.7
    assert flat["makespan_s"] == 19.0
    assert flat["n_killed"] == 0.0
    assert {"median_response_s", "mean_slowdown", "utilisation", "n_rejected"} <= set(flat)


def test_partitions_by_hand() -> None:
    # small, 4 processors: 4 for 10 s from 0, then (after it) 2 for 5 s from 10.
    # main, 10 processors: 8 for 20 s from 4. idle, 6 processors: nothing. Makespan 0 to 24.
    workload = Workload.from_arrays(
        submit_s=[0, 2, 4], runtime_s=[10, 5, 20], procs=[4, 2, 8], requested_s=[10, 10, 50]
    )
    parts = (Partition("small", 4, 10.0), Partition("main", 10), Partition("idle", 6))
    scenario = Scenario(workload, ClusterSpec(parts))
    metrics = summarise(scenario, simulate(scenario))
    small, main, idle = (metrics.by_partition[name] for name in ("small", "main", "idle"))
    assert metrics.makespan_s == 24.0
    assert (small.makespan_s, main.makespan_s, idle.makespan_s) == (15.0, 20.0, None)
    assert small.utilisation == pytest.approx(50 / (4 * 24))
    assert main.utilisation == pytest.approx(160 / (10 * 24))
    assert idle.utilisation == 0.0
    weighted = 4 * small.utilisation + 10 * main.utilisation  # type: ignore[operator]
    assert metrics.utilisation == pytest.approx(weighted / 20) == pytest.approx(210 / (20 * 24))
    for group in metrics.by_size_class.values():
        assert (group.utilisation, group.makespan_s) == (None, None)
    flat = metrics.flat()
    assert {name for name in flat if name.startswith("utilisation_")} == {
        "utilisation_at_arrival",
        "utilisation_small",
        "utilisation_main",
        "utilisation_idle",
    }
    assert flat["utilisation_small"] == small.utilisation


def test_one_partition_adds_no_measure() -> None:
    scenario = three_jobs()
    metrics = summarise(scenario, simulate(scenario))
    alone = metrics.by_partition["main"]
    assert (alone.utilisation, alone.makespan_s) == (metrics.utilisation, metrics.makespan_s)
    assert "utilisation_main" not in metrics.flat()


def test_a_partition_called_as_a_measure_does_not_hide_it() -> None:
    cluster = ClusterSpec((Partition("at_arrival", 8), Partition("b", 10)))
    scenario = Scenario(three_jobs().workload, cluster)
    metrics = summarise(scenario, simulate(scenario))
    assert metrics.flat()["utilisation_at_arrival"] == metrics.utilisation_at_arrival
    assert metrics.utilisation_at_arrival != metrics.by_partition["at_arrival"].utilisation


def test_max_wait_of_short_requests() -> None:
    scenario = three_jobs()
    result = simulate(scenario)
    assert max_wait_s(scenario, result, 100.0) == 13.0
    assert max_wait_s(scenario, result, 20.0) is None


def test_killed_jobs_are_measured_as_they_ran() -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[10], procs=[2], requested_s=[4])
    scenario = Scenario(workload, ClusterSpec.single(4), overrun="kill")
    metrics = summarise(scenario, simulate(scenario))
    assert (metrics.response.mean, metrics.n_killed, metrics.utilisation) == (4.0, 1, 0.5)
    assert metrics.utilisation_at_arrival is None


def test_jobs_without_run_time_have_no_slowdown() -> None:
    workload = Workload.from_arrays(submit_s=[0, 0], runtime_s=[0, 20], procs=[1, 1])
    scenario = Scenario(workload, ClusterSpec.single(1))
    metrics = summarise(scenario, simulate(scenario))
    assert (metrics.slowdown.n, metrics.bounded_slowdown.n) == (1, 2)


def test_rejected_jobs_are_counted_and_in_no_distribution() -> None:
    workload = Workload.from_arrays(submit_s=[0, 5], runtime_s=[1, 1], procs=[9, 1])
    cluster = ClusterSpec((Partition("a", 2), Partition("b", 2)))
    scenario = Scenario(workload, cluster, too_wide="reject")
    result = simulate(scenario)
    assert np.isnan(result.start_s[0])
    metrics = summarise(scenario, result)
    assert (metrics.n_rejected, metrics.wait.n, metrics.makespan_s) == (1, 1, 1.0)
    assert metrics.by_partition["b"].wait.mean is None
    assert metrics.by_partition["a"].n_jobs == 1


def test_if_every_job_is_rejected_nothing_is_invented() -> None:
    workload = Workload.from_arrays(submit_s=[0], runtime_s=[1], procs=[9])
    scenario = Scenario(workload, ClusterSpec.single(2), too_wide="reject")
    flat = summarise(scenario, simulate(scenario)).flat()
    assert flat == {"n_jobs": 1.0, "n_rejected": 1.0, "n_killed": 0.0}


def test_describe_counts_and_loads() -> None:
    workload = three_jobs().workload
    told = describe(workload)
    assert told.offered_load == offered_load(workload, 10) == (60 + 30 + 36) / (10 * 2)
    assert (told.n_jobs, told.n_users, told.widest_procs, told.span_s) == (3, 2, 9, 2.0)
    assert told.size_classes == {"1": 0, "2-8": 2, "9-64": 1, "65-512": 0, ">512": 0}
    assert told.runtime_s.quantiles["0.5"] == 5.0
    assert json.loads(json.dumps(told.to_dict()))["requested_s"]["most"] == 100.0
    lone = describe(workload.head(1))
    assert lone.interarrival_s is None
    assert lone.offered_load is None
