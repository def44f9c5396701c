"""Schedules drawn: worked by hand, by properties, and beside what the simulator's monitor saw."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.applications.lookup import Lookup
from assistant.applications.scheduling import Scheduling
from assistant.core.errors import ApplicationError
from assistant.simtools import schedule as schedule_view
from assistant.simtools.schedule import (
    JobSchedule,
    PartitionRange,
    StepFunction,
    TimeWindow,
    at,
    busiest,
    changes,
    classes,
    compare_schedules,
    curve,
    drawing_of,
    means,
    peaks,
    processor_ranges,
    schedule,
    schedule_of,
    waits,
)
from sim.api import ClusterSpec, Partition, Scenario, Workload, simulate
from tests.draw.workloads import scenarios


def by_hand(**changed: Any) -> JobSchedule:
    """Four processors. Jobs 1 and 2 side by side, 3 behind 1, 4 (all four) behind everything.

    ======  ======  =====  ====  =====
    job     submit  start  end   procs
    ======  ======  =====  ====  =====
    1       0       0      10    2
    2       0       0      20    1
    3       5       10     30    3
    4       6       30     40    4
    ======  ======  =====  ====  =====
    """
    columns: dict[str, Any] = {
        "job_id": np.array([1, 2, 3, 4]),
        "submit_s": np.array([0.0, 0.0, 5.0, 6.0]),
        "start_s": np.array([0.0, 0.0, 10.0, 30.0]),
        "end_s": np.array([10.0, 20.0, 30.0, 40.0]),
        "requested_s": np.array([10.0, 4000.0, 20.0, 40_000.0]),
        "asked_procs": np.array([2, 1, 3, 4]),
        "procs": np.array([2, 1, 3, 4]),
        "partition": np.zeros(4, dtype=np.int64),
        "user": np.array([7, 7, 8, -1]),
        "state": np.zeros(4, dtype=np.int8),
        "parts": (PartitionRange("main", 4, 0, 0),),
        "measures": {},
    }
    return JobSchedule(**{**columns, **changed})


def pieces(jobs: JobSchedule) -> dict[int, list[tuple[int, int]]]:
    places, told = jobs.places, {}
    for row, low, high in zip(places.row, places.low, places.high, strict=True):
        told.setdefault(int(jobs.job_id[row]), []).append((int(low), int(high)))
    return told


def test_places_worked_by_hand() -> None:
    """Job 2 keeps processor 2, so job 3 has 0 and 1 and, beyond it, 3."""
    assert pieces(by_hand()) == {1: [(0, 2)], 2: [(2, 3)], 3: [(0, 2), (3, 4)], 4: [(0, 4)]}


def test_a_job_takes_the_lowest_processors_that_lie_together() -> None:
    """Processor 0 is free at 10, but the pair that job 3 needs begins at 2."""
    jobs = by_hand(
        start_s=np.array([0.0, 0.0, 10.0, 30.0]),
        procs=np.array([1, 1, 2, 4]),
    )
    assert pieces(jobs)[3] == [(2, 4)]


def test_partitions_lie_one_above_the_other() -> None:
    jobs = by_hand(
        procs=np.array([2, 1, 2, 2]),
        partition=np.array([0, 1, 1, 0]),
        parts=(PartitionRange("small", 2, 0, 0), PartitionRange("main", 3, 2, 1)),
    )
    assert pieces(jobs) == {1: [(0, 2)], 2: [(2, 3)], 3: [(3, 5)], 4: [(0, 2)]}


def test_jobs_of_a_queue_lie_on_the_processors_of_its_partition() -> None:
    """The queue in front has the processor that the job of the partition leaves."""
    jobs = Workload.from_arrays(
        submit_s=[0, 0, 1], runtime_s=[10, 5, 5], procs=[3, 1, 2], requested_s=[10, 5, 5]
    )
    cluster = ClusterSpec(
        (Partition("front", on="main", tier=1, max_requested_s=5), Partition("main", 4))
    )
    scenario = Scenario(jobs, cluster)
    placed = schedule(scenario, simulate(scenario))
    assert placed.parts == (PartitionRange("front", 4, 0, 1), PartitionRange("main", 4, 0, 1))
    assert placed.total_procs == 4
    assert placed.partition.tolist() == [1, 0, 0]
    assert pieces(placed) == {1: [(0, 3)], 2: [(3, 4)], 3: [(0, 2)]}


def test_a_schedule_that_cannot_be_says_which_job() -> None:
    with pytest.raises(ApplicationError, match="job 4 cannot be drawn: it starts on 5 processors"):
        processor_ranges(by_hand(procs=np.array([2, 1, 3, 5])))


def test_use_and_queue_worked_by_hand() -> None:
    jobs = by_hand()
    used = jobs.used()
    assert used.time_s.tolist() == [0.0, 10.0, 20.0, 30.0, 40.0]
    assert used.value.tolist() == [3.0, 4.0, 3.0, 4.0, 0.0]
    queue = jobs.queue
    assert queue.time_s.tolist() == [0.0, 5.0, 6.0, 10.0, 30.0]
    assert queue.value.tolist() == [0.0, 1.0, 2.0, 1.0, 0.0]
    assert jobs.wait_s.tolist() == [0.0, 0.0, 5.0, 24.0]
    assert jobs.bounded_slowdown.tolist() == [1.0, 1.0, 1.25, 3.4]
    assert jobs.span_s == 40.0
    assert (jobs.row_of(3), jobs.row_of(9)) == (2, None)


def test_means_and_peaks_of_steps_worked_by_hand() -> None:
    steps = StepFunction(np.array([0.0, 10.0, 20.0]), np.array([3.0, 4.0, 0.0]))
    edges = np.array([-5.0, 5.0, 15.0, 25.0])
    assert means(steps, edges).tolist() == [1.5, 3.5, 2.0]
    assert peaks(steps, edges).tolist() == [3.0, 4.0, 4.0]
    assert peaks(steps, np.array([0.0, 10.0, 20.0])).tolist() == [3.0, 4.0]  # what begins later
    assert at(steps, np.array([-1.0, 0.0, 9.9, 10.0, 30.0])).tolist() == [0.0, 3.0, 3.0, 4.0, 0.0]


def test_a_curve_has_every_step_or_means_with_their_peaks() -> None:
    line = curve("all", by_hand().used(), TimeWindow(5.0, 35.0), 4.0)
    assert line.points == ((5.0, 0.75), (10.0, 1.0), (20.0, 0.75), (30.0, 1.0), (35.0, 1.0))
    assert line.peaks == ()
    many = StepFunction(np.arange(2000.0), np.tile([1.0, 3.0], 1000))
    line = curve("all", many, TimeWindow(0.0, 2000.0))
    assert {value for _, value in line.points} == {2.0}
    assert {value for _, value in line.peaks} == {3.0}
    assert (line.points[-1][0], len(line.points)) == (2000.0, 501)


def test_a_window_is_kept_inside() -> None:
    assert TimeWindow(-50.0, 50.0).inside(1000.0) == TimeWindow(0.0, 100.0)
    assert TimeWindow(950.0, 1050.0).inside(1000.0) == TimeWindow(900.0, 1000.0)
    assert TimeWindow(0.0, 9e9).inside(1000.0) == TimeWindow(0.0, 1000.0)
    assert TimeWindow(500.0, 500.0).inside(1000.0) == TimeWindow(500.0, 560.0)
    assert TimeWindow(400.0, 600.0).zoomed(0.5, 1000.0) == TimeWindow(450.0, 550.0)
    assert TimeWindow(400.0, 600.0).moved(-0.5, 1000.0) == TimeWindow(300.0, 500.0)
    assert TimeWindow(0.0, 0.0).inside(0.0) == TimeWindow(0.0, 0.1)  # all jobs at once, none lasts


def test_it_begins_where_the_queue_is_longest() -> None:
    """At 6 two jobs wait; all fits, or no more jobs than may be drawn."""
    jobs = by_hand()
    assert busiest(jobs) == TimeWindow(0.0, 40.0)
    window = busiest(jobs, most=2)
    assert window.from_s <= 6.0 <= window.to_s
    assert 1 <= np.count_nonzero(window.holds(jobs)) <= 2


@pytest.mark.parametrize(
    ("by", "names", "of"),
    [
        ("wait", None, [0, 0, 1, 1]),
        ("requested time", None, [0, 1, 0, 2]),
        ("processors", ("1", "2-8"), [1, 0, 1, 1]),
        ("partition", ("main",), [0, 0, 0, 0]),
        ("user", ("user 7", "unknown", "user 8"), [0, 0, 2, 1]),
    ],
)
def test_classes(by: Any, names: tuple[str, ...] | None, of: list[int]) -> None:
    told = classes(by_hand(), by)
    assert told.of.tolist() == of
    assert names is None or told.names == names


def test_users_beyond_seven_are_others() -> None:
    n = 60
    load = Workload.from_arrays(
        submit_s=np.arange(n), runtime_s=np.ones(n), procs=np.ones(n, dtype=int),
        user=[i % 10 if i < 50 else 0 for i in range(n)], max_procs=4,
    )  # fmt: skip
    application = Scheduling(load)
    told = classes(schedule_of(application, application.baseline, 0), "user")
    assert told.names == (*(f"user {i}" for i in range(7)), "3 others")
    assert set(told.of[7:10].tolist()) == {7}


def test_waits_by_class_worked_by_hand() -> None:
    jobs = by_hand()
    whole = TimeWindow(0.0, 40.0)
    (main,) = waits(jobs, whole, classes(jobs, "partition"))
    assert (main.n, main.mean, main.median, main.low, main.high) == (4, 7.25, 2.5, 0.0, 9.75)
    assert (main.max, main.p95) == (24.0, pytest.approx(5 + 0.85 * 19))
    (late,) = waits(jobs, TimeWindow(5.5, 40.0), classes(jobs, "partition"))
    assert (late.n, late.mean) == (1, 24.0)
    none = waits(jobs, TimeWindow(30.0, 40.0), classes(jobs, "partition"))[0]
    assert (none.n, none.mean, none.p95) == (0, None, None)


def test_a_comparison_worked_by_hand() -> None:
    """There job 3 starts 5 s earlier, job 4 two hours later, and job 2 is turned away."""
    here = by_hand()
    there = by_hand(
        start_s=np.array([0.0, np.nan, 5.0, 7230.0]),
        end_s=np.array([10.0, np.nan, 25.0, 7240.0]),
        partition=np.array([0, -1, 0, 0]),
    )
    told = compare_schedules(here, there)
    assert (told.n, told.n_only_here, told.n_only_there) == (3, 1, 0)
    assert (told.earlier, told.later) == ((1, 7200.0), (1, 5.0))
    assert told.mean_s == pytest.approx(-7195 / 3)
    assert told.extremes(5).tolist() == [3, 2]
    kinds = classes(here, "change", told)
    assert [kinds.names[i] for i in kinds.of] == [
        "at the same time", "not in both", "later", "over 1 h earlier",
    ]  # fmt: skip
    (all_at_once,) = changes(here, told, TimeWindow(0.0, 40.0))
    assert (all_at_once.n, all_at_once.median) == (3, 0.0)
    back = compare_schedules(there, here)
    assert (back.earlier, back.later) == ((1, 5.0), (1, 7200.0))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ApplicationError, match="have different jobs"):
        compare_schedules(by_hand(), by_hand(job_id=np.array([1, 2, 3, 5])))
    with pytest.raises(ApplicationError, match="no other schedule"):
        classes(by_hand(), "change")


def test_of_too_many_jobs_the_largest_are_drawn_and_the_others_shaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Job 1 takes 20 processor-seconds, 2 takes 20, 3 takes 60, 4 takes 40."""
    monkeypatch.setattr(schedule_view, "_AT_ONCE", 1)
    jobs, window = by_hand(), TimeWindow(0.0, 40.0)
    kinds = classes(jobs, "wait")
    all_of_them = drawing_of(jobs, window, kinds)
    assert (all_of_them.n_jobs, all_of_them.n_drawn, all_of_them.shades) == (4, 4, ())
    some = drawing_of(jobs, window, kinds, most=2)
    assert {box.job for box in some.boxes} == {3, 4}
    assert (some.n_jobs, some.n_drawn) == (4, 2)
    assert sum(s.share * (s.end_s - s.start_s) * (s.high - s.low) for s in some.shades) == (
        pytest.approx(40.0)
    )
    fewer = drawing_of(jobs, window, kinds, most_boxes=2)  # job 3 takes two pieces
    assert {box.job for box in fewer.boxes} == {3}
    assert fewer.n_drawn == 1
    assert {(s.low, s.high) for s in some.shades} == {(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)}


def test_an_application_without_jobs_says_so() -> None:
    table = Lookup.parse("size,objective\n1,3\n2,2\n")
    with pytest.raises(ApplicationError, match="has no schedule; only 'scheduling'"):
        schedule_of(table, {"size": 1}, 0)


def test_the_schedule_of_a_run_has_the_measures_of_the_run() -> None:
    load = Workload.from_arrays(
        submit_s=[0, 1, 2, 3], runtime_s=[30, 10, 10, 5], procs=[8, 1, 1, 2], max_procs=8
    )
    application = Scheduling(load, levels={"small_procs": (0, 2)}, too_wide="clip")
    values = {"small_procs": 2, "small_max_requested_s": 60, "small_max_procs": 1}
    jobs = schedule_of(application, values, 3)
    assert jobs.measures == application.evaluate(values, 3)
    assert (jobs.asked_procs[0], jobs.procs[0], jobs.end_s[0]) == (8, 6, 40.0)
    assert jobs.parts == (PartitionRange("small", 2, 0, 0), PartitionRange("main", 6, 2, 1))
    assert pieces(jobs)[1] == [(2, 8)]


def told_by(scenario: Scenario) -> JobSchedule:
    return schedule(scenario, simulate(scenario, engine="interpreted"))


@given(scenarios())
def test_no_two_jobs_have_a_processor_at_once_and_none_is_lost(scenario: Scenario) -> None:
    jobs = told_by(scenario)
    places = jobs.places
    start, end = jobs.start_s[places.row], jobs.end_s[places.row]
    both_s = np.minimum.outer(end, end) - np.maximum.outer(start, start)
    both = np.minimum.outer(places.high, places.high) - np.maximum.outer(places.low, places.low)
    overlap = (both_s > 0) & (both > 0)
    np.fill_diagonal(overlap, val=False)
    assert not overlap.any()
    width = np.bincount(places.row, places.high - places.low, jobs.n_jobs)
    lasts = jobs.end_s > jobs.start_s
    assert (width[lasts] == jobs.procs[lasts]).all()
    assert not width[~lasts].any()
    first = np.array([part.first for part in jobs.parts])[jobs.partition[places.row]]
    size = np.array([part.procs for part in jobs.parts])[jobs.partition[places.row]]
    assert (places.low >= first).all()
    assert (places.high <= first + size).all()
    assert (places.high > places.low).all()
    again = processor_ranges(jobs)
    assert again.low.tolist() == places.low.tolist()


@pytest.mark.soak
@given(scenarios(), st.integers(1, 6), st.floats(0, 30), st.floats(0.5, 30))
def test_what_is_not_drawn_is_shaded(
    scenario: Scenario, most: int, from_s: float, width_s: float
) -> None:
    jobs = told_by(scenario)
    window = TimeWindow(from_s, from_s + width_s)
    told = drawing_of(jobs, window, classes(jobs, "wait"), most)
    seen_s = np.clip(
        np.minimum(jobs.end_s, window.to_s) - np.maximum(jobs.start_s, window.from_s), 0, None
    )
    boxed = sum(
        (min(box.end_s, window.to_s) - max(box.start_s, window.from_s)) * (box.high - box.low)
        for box in told.boxes
    )
    shaded = sum(s.share * (s.end_s - s.start_s) * (s.high - s.low) for s in told.shades)
    assert boxed + shaded == pytest.approx(float((jobs.procs * seen_s).sum()), abs=1e-6)
    assert len({box.job for box in told.boxes}) == told.n_drawn == min(most, told.n_jobs)
    assert all(s.share <= 1 + 1e-9 for s in told.shades)


@pytest.mark.soak
@given(scenarios())
def test_use_and_queue_are_what_the_monitor_saw(scenario: Scenario) -> None:
    """The simulator's monitor counts inside the event loop; here the columns are summed."""
    jobs = told_by(scenario)
    watched = simulate(scenario, engine="process", monitor=True).series
    assert watched is not None
    queued = sum(
        at(StepFunction(one.time_s, one.n_queued.astype(float)), jobs.queue.time_s)
        for one in watched
    )
    assert jobs.queue.value.tolist() == np.asarray(queued).tolist()
    for i, one in enumerate(watched):
        used = jobs.used(i)
        seen = at(StepFunction(one.time_s, one.used_procs.astype(float)), used.time_s)
        assert used.value.tolist() == seen.tolist()
    for moment in jobs.queue.time_s:
        balance = (jobs.submit_s <= moment).sum() - (jobs.start_s <= moment).sum()
        assert at(jobs.queue, np.array([moment]))[0] == balance


@given(scenarios(), st.lists(st.floats(0, 60), min_size=2, max_size=8, unique=True))
def test_means_and_peaks_agree_with_a_slow_walk(scenario: Scenario, raw: list[float]) -> None:
    edges = np.array(sorted(raw))
    if (np.diff(edges) < 1e-6).any():
        return
    steps = told_by(scenario).used()
    for i, (low, high) in enumerate(itertools.pairwise(edges)):
        cuts = [low, *(t for t in steps.time_s if low < t < high), high]
        held = [at(steps, np.array([t]))[0] for t in cuts[:-1]]
        area = sum(v * (b - a) for v, a, b in zip(held, cuts[:-1], cuts[1:], strict=True))
        assert means(steps, edges)[i] == pytest.approx(area / (high - low), abs=1e-6)
        assert peaks(steps, edges)[i] == max(held)
