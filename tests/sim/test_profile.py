"""The profile of a workload: worked out by hand, and what must hold for every workload."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import Workload
from sim.api import ProfileWindow, describe, offered_load, profile
from sim.metrics.workload_profile import MOST_BINS, MOST_POINTS, TIME_ENDS_S
from sim.model.errors import WorkloadError
from tests.draw.workloads import workloads

# Five jobs from Monday 5 January 1970, 08:30 UTC, on 8 processors.
MONDAY_S = 4 * 86400.0 + 8.5 * 3600
BY_HAND = Workload.from_arrays(
    submit_s=[0.0, 0.0, 1800.0, 7200.0, 86400.0],
    runtime_s=[3600.0, 60.0, 1.0, 100.0, 7200.0],
    requested_s=[3600.0, 600.0, 60.0, 50.0, 14400.0],
    procs=[1, 4, 3, 8, 2],
    user=[7, 7, 9, -1, 9],
    logged_wait_s=[0.0, 10.0, np.nan, np.nan, 20.0],
    max_procs=8,
    start_unix_s=MONDAY_S,
    time_zone="UTC",
)
WORK = (3600.0, 240.0, 3.0, 800.0, 14400.0)


def test_jobs_by_weekday_and_hour() -> None:
    told = profile(BY_HAND).arrivals
    cells = {(d, h): n for d, of_day in enumerate(told.counts) for h, n in enumerate(of_day) if n}
    assert cells == {(0, 8): 2, (0, 9): 1, (0, 10): 1, (1, 8): 1}
    assert (told.basis, told.zone) == ("local", "UTC")
    elsewhere = profile(BY_HAND, time_zone="Asia/Tokyo").arrivals.counts
    assert (elsewhere[0][17], elsewhere[1][17]) == (2, 1)
    covered = {
        (d, h) for d, of_day in enumerate(told.counts) for h in range(24) if of_day[h] is not None
    }
    assert covered == {
        (h // 24, h % 24) for h in range(8, 24 + 9)
    }  # nothing of later days is known


def test_load_by_the_hour() -> None:
    told = profile(BY_HAND)
    assert told.offered_load == offered_load(BY_HAND, 8) == sum(WORK) / (8 * 86400)
    series = told.load
    assert (series.width_s, len(series.bins)) == (3600.0, 25)
    assert series.first_local_s == MONDAY_S
    assert series.bins[0].start_s == -1800.0  # a full hour by the clock
    offered = {i: one.offered_proc_s for i, one in enumerate(series.bins) if one.offered_proc_s}
    assert offered == {0: 3840.0, 1: 3.0, 2: 800.0, 24: 14400.0}
    # The first job computes from 8:30 to 9:30, half of it in the bin of nine o'clock.
    demand = [one.demand_proc_s for one in series.bins]
    assert demand[:3] == pytest.approx([1800 + 240, 1800 + 3, 800])
    assert demand[24] == pytest.approx(2 * 1800)
    assert series.demand_after_proc_s == pytest.approx(2 * 5400)


def test_sizes() -> None:
    told = profile(BY_HAND)
    rows = [(one.most, one.n_jobs, one.n_at_most, one.work_proc_s) for one in told.sizes]
    assert rows == [(1, 1, 1, 3600.0), (2, 1, 1, 14400.0), (4, 2, 1, 243.0), (8, 1, 1, 800.0)]
    assert (told.n_serial, told.serial_work_proc_s, told.n_power_of_two) == (1, 3600.0, 4)


def test_run_times_and_requests() -> None:
    told = profile(BY_HAND)
    counted = {one.most_s: one.n_jobs for one in told.times if one.n_jobs}
    assert counted == {1.0: 1, 60.0: 1, 600.0: 1, 3600.0: 1, 10800.0: 1}
    requests = told.requests
    assert requests is not None
    assert (requests.n_jobs, requests.n_left_out, requests.n_exceeded) == (5, 0, 1)
    # Used of the request: 100 %, 10 %, 1.7 %, 200 % and 50 %.
    assert requests.used == (2, 0, 0, 0, 1, 0, 0, 0, 0, 1)
    assert requests.factor.quantiles["0.5"] == 2.0
    classes = (*TIME_ENDS_S, None)
    cells = {
        (classes[asked], classes[ran]): n
        for asked, of_class in enumerate(requests.grid)
        for ran, n in enumerate(of_class)
        if n
    }
    assert cells == {
        (3600.0, 3600.0): 1, (600.0, 60.0): 1, (60.0, 1.0): 1, (60.0, 600.0): 1,
        (21600.0, 10800.0): 1,
    }  # fmt: skip


def test_users_waits_and_gaps() -> None:
    told = profile(BY_HAND)
    users = told.users
    assert users is not None
    assert [(u.user, u.n_jobs, u.work_proc_s) for u in users.top] == [
        (9, 2, 14403.0), (7, 2, 3840.0),
    ]  # fmt: skip
    assert (users.n_users, users.n_jobs_unknown) == (2, 1)
    assert users.tenth_share == pytest.approx(14403 / 18243)
    # Two users, of whom one has the share s >= 1/2: Gini is s - 1/2.
    assert users.gini == pytest.approx(14403 / 18243 - 0.5)
    assert told.logged_wait_s is not None
    assert (told.logged_wait_s.mean, told.logged_wait_s.most) == (10.0, 20.0)
    gaps = np.array([0, 1800, 5400, 79200])
    assert told.interarrival_cv == pytest.approx(gaps.std() / gaps.mean())
    assert told.n_together == 1
    assert told.curves["procs"].values == (1.0, 2.0, 3.0, 4.0, 8.0)
    assert told.curves["procs"].shares == (0.2, 0.4, 0.6, 0.8, 1.0)


def test_gini_of_a_known_spread() -> None:
    # Work of 1, 2, 3 and 4: the mean absolute difference is 1.25, the mean 2.5; G = 1.25 / 5.
    jobs = Workload.from_arrays(
        submit_s=[0] * 4, runtime_s=[1, 2, 3, 4], procs=[1] * 4, user=[1, 2, 3, 4]
    )
    users = profile(jobs).users
    assert users is not None
    assert users.gini == pytest.approx(0.25)
    assert users.tenth_share == pytest.approx(0.4)


def test_run_times_that_stand_in_for_requests_are_not_compared() -> None:
    told = profile(Workload.from_arrays(submit_s=[0, 1], runtime_s=[5, 6], procs=[1, 1]))
    assert told.requests is None
    assert (told.procs, told.offered_load, told.users, told.logged_wait_s) == (None,) * 4
    some = Workload.from_arrays(
        submit_s=[0, 1], runtime_s=[5, 6], requested_s=[5, 12], procs=[1, 1],
        requested_is_runtime=True,
    )  # fmt: skip
    requests = profile(some).requests
    assert requests is not None
    assert (requests.n_jobs, requests.n_left_out) == (1, 1)


@given(workloads(), st.sampled_from([None, 0.0, 1.3e9, 1.3e9 + 1799.5]))
def test_every_job_and_all_work_is_counted_once(workload: Workload, start_s: float | None) -> None:
    workload = replace(workload, start_unix_s=start_s, time_zone="Europe/Paris")
    told = profile(workload, procs=16)
    work = float((workload.procs * workload.runtime_s).sum())
    n_jobs = workload.n_jobs
    assert told.work_proc_s == pytest.approx(work)
    hours = [n for of_day in told.arrivals.counts for n in of_day]
    assert sum(n or 0 for n in hours) == n_jobs
    span_h = float(np.ptp(workload.submit_s)) / 3600 if n_jobs else 0.0
    assert sum(n is not None for n in hours) >= min(span_h, 7 * 24)
    for parts in (told.load.bins, told.sizes, told.times):
        assert sum(one.n_jobs for one in parts) == n_jobs
    assert sum(one.work_proc_s for one in told.sizes) == pytest.approx(work)
    assert sum(one.work_proc_s for one in told.times) == pytest.approx(work)
    bins = told.load.bins
    assert sum(one.offered_proc_s for one in bins) == pytest.approx(work)
    demand = sum(one.demand_proc_s for one in bins) + told.load.demand_after_proc_s
    assert demand == pytest.approx(work, abs=1e-6)
    assert 1 <= len(bins) <= MOST_BINS
    assert bins[0].start_s <= 0.0
    assert bins[-1].start_s <= workload.span_s < bins[-1].start_s + told.load.width_s
    if told.requests is not None:
        requests = told.requests
        assert sum(requests.used) + requests.n_exceeded == requests.n_jobs
        assert sum(map(sum, requests.grid)) == requests.n_jobs
        assert requests.n_jobs + requests.n_left_out == n_jobs
    assert told.described == describe(workload)
    json.dumps(told.to_dict(), allow_nan=False)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=900))
def test_the_points_of_a_curve_are_exact(runtime_s: list[float]) -> None:
    jobs = Workload.from_arrays(
        submit_s=[0] * len(runtime_s), runtime_s=runtime_s, procs=[1] * len(runtime_s)
    )
    curve = profile(jobs).curves["runtime_s"]
    column = np.array(runtime_s)
    assert len(curve.values) <= MOST_POINTS
    assert curve.shares[-1] == 1.0
    for value, share in zip(curve.values, curve.shares, strict=True):
        assert share == (column <= value).mean()


@pytest.mark.parametrize("span_s", [0.0, 1.0, 3600.0, 20 * 86400.0, 1e9, 2.0**53])
def test_any_span_has_few_bins(span_s: float) -> None:
    jobs = Workload.from_arrays(submit_s=[0, span_s], runtime_s=[2.0**53] * 2, procs=[2**53] * 2)
    told = profile(jobs, procs=1)
    assert len(told.load.bins) <= MOST_BINS
    assert sum(one.n_jobs for one in told.load.bins) == 2
    json.dumps(told.to_dict(), allow_nan=False)


def test_long_logs_are_told_by_the_week_from_monday() -> None:
    # From Wednesday 7 January 1970 for 500 days.
    jobs = Workload.from_arrays(
        submit_s=[0, 500 * 86400], runtime_s=[1, 1], procs=[1, 1], start_unix_s=6 * 86400.0
    )
    series = profile(jobs).load
    assert (series.width_s, series.bins[0].start_s) == (7 * 86400.0, -2 * 86400.0)


def test_the_smallest_run_time_has_a_factor() -> None:
    jobs = Workload.from_arrays(submit_s=[0], runtime_s=[5e-324], requested_s=[2.0**53], procs=[1])
    requests = profile(jobs).requests
    assert requests is not None
    assert requests.factor.most == 2.0**53


@pytest.mark.parametrize(
    ("window", "ids", "start_s"),
    [
        (ProfileWindow(), [1, 2, 3, 4, 5], MONDAY_S),
        (ProfileWindow(leave_out=2), [3, 4, 5], MONDAY_S + 1800),
        (ProfileWindow(from_s=1.0, to_s=86400.0), [3, 4], MONDAY_S + 1800),
        (ProfileWindow(leave_out=1, to_s=1800.0), [2], MONDAY_S),
    ],
)
def test_a_window(window: ProfileWindow, ids: list[int], start_s: float) -> None:
    part = window.of(BY_HAND)
    assert part.job_id.tolist() == ids
    assert (part.submit_s[0], part.start_unix_s) == (0.0, start_s)
    assert profile(part).described.n_jobs == len(ids)


@pytest.mark.parametrize(
    "window",
    [
        ProfileWindow(leave_out=5),
        ProfileWindow(from_s=86401.0),
        ProfileWindow(to_s=0.0),
        ProfileWindow(leave_out=99),
    ],
)
def test_an_empty_window_is_refused(window: ProfileWindow) -> None:
    with pytest.raises(WorkloadError, match="no job of workload is left in the window; it has 5"):
        window.of(BY_HAND)


@pytest.mark.parametrize(("first", "stop"), [(-1, 2), (2, 2), (5, 9), (3, 1)])
def test_a_part_needs_jobs(first: int, stop: int) -> None:
    with pytest.raises(WorkloadError, match="are not in workload; it has 5"):
        BY_HAND.part(first, stop)


def test_a_part_is_a_workload_of_its_own() -> None:
    part = BY_HAND.part(2, 5)
    assert part.submit_s.tolist() == [0.0, 5400.0, 84600.0]
    with pytest.raises(ValueError, match="read-only"):
        part.submit_s[0] = 1.0
    assert BY_HAND.part(0, 5) == BY_HAND
