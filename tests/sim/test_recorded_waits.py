"""Simulated against recorded waits: numbers by hand, naive references, and logs made for it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from sim import ClusterSpec, Scenario, ScenarioError, Workload, simulate
from sim.generators import default_workload
from sim.metrics.recorded_waits import (
    RecordedSchedule,
    backtest,
    capacity_windows,
    corrected_replays,
    has_recorded_waits,
    wait_agreement,
)


def recorded(workload: Workload, wait_s: object, **columns: object) -> Workload:
    """Return the workload as if a machine had recorded these waits."""
    return replace(workload, logged_wait_s=np.asarray(wait_s, dtype=np.float64), **columns)  # type: ignore[arg-type]


def three_jobs(wait_min: list[float]) -> Scenario:
    # 10 processors, no backfilling: simulated waits are 0, 9, 13 minutes.
    workload = Workload.from_arrays(
        submit_s=[0, 60, 120], runtime_s=[600, 300, 240], procs=[6, 6, 9],
        requested_s=[540, 3000, 1200], user=[1, 1, 2], queue=[1, 1, 2], status=[1, 1, 5],
        logged_wait_s=[60 * wait for wait in wait_min],
    )  # fmt: skip
    return Scenario(workload, ClusterSpec.single(10), backfill="none")


def test_the_agreement_by_hand() -> None:
    scenario = three_jobs([0, 20, 24])
    tested = backtest(scenario, simulate(scenario))
    assert tested.agreement == wait_agreement(scenario, simulate(scenario))
    assert tested.agreement.ratio == 22 / 44
    assert tested.agreement.mean_difference_s == 60 * 22 / 3
    assert (tested.agreement.recorded.median_s, tested.agreement.simulated.median_s) == (1200, 540)
    assert tested.agreement.recorded.p90_s == pytest.approx(60 * (20 + 0.8 * 4))
    assert tested.agreement.rank == pytest.approx(1.0)
    assert "0.5 times the recorded one" in tested.agreement.sentence
    groups = {(g.kind, g.name): (g.agreement.n, g.agreement.ratio) for g in tested.groups}
    assert groups == {
        ("queue", "1"): (2, 9 / 20),
        ("queue", "2"): (1, 13 / 24),
        ("width", "over 1/8"): (3, 0.5),
        ("user", "half of the work (1)"): (2, 9 / 20),  # 90 of 126 processor-minutes
        ("user", "up to 90 % (1)"): (1, 13 / 24),
        ("week", "1"): (3, 0.5),
    }


def test_the_causes_by_hand() -> None:
    # By the log, in minutes: job 1 runs from 0 to 10, job 2 from 21 to 26, job 3 from 26 to 30.
    # Job 2 has room from 10 to 21, and is first from 1 on. Job 3 has room then, and is never first.
    tested = backtest(three_jobs([0, 20, 24]), simulate(three_jobs([0, 20, 24])))
    shares = {cause.kind: cause.wait_share for cause in tested.causes}
    assert shares["first_with_room"] == pytest.approx(11 / 44)
    assert shares["room"] == pytest.approx(22 / 44)
    assert shares["overrun"] == 0.0
    assert shares["killed"] == pytest.approx(24 / 44)
    assert shares["less_capacity"] == 1.0  # 9 of 10 processors at most
    assert tested.most_busy_procs == 9


def test_jobs_that_follow_another_of_their_user() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 1, 1, 2], runtime_s=[100, 10, 10, 10], procs=[1, 1, 1, 1],
        user=[1, 1, 2, -1], logged_wait_s=[0, 100, 500, 98],
    )  # fmt: skip
    assert RecordedSchedule(workload, 10).after_own_job().tolist() == [False, True, False, False]


def test_equal_records_agree_and_leave_nothing_to_explain() -> None:
    workload = default_workload(seed=4, n_jobs=300)
    scenario = Scenario(workload, ClusterSpec.single(workload.widest_procs), backfill="none")
    result = simulate(scenario)
    own = replace(scenario, workload=recorded(workload, result.start_s - workload.submit_s))
    tested = backtest(own, result)
    assert (tested.agreement.ratio, tested.agreement.mean_difference_s) == (1.0, 0.0)
    assert tested.agreement.rank == pytest.approx(1.0)
    assert tested.agreement.is_close
    assert "first_with_room" not in {cause.kind for cause in tested.causes}


@given(st.data())
def test_room_and_first_in_line_are_those_of_a_naive_count(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 8))
    numbers = st.lists(st.integers(0, 9), min_size=n, max_size=n)
    workload = Workload.from_arrays(
        submit_s=np.sort(data.draw(numbers)), runtime_s=data.draw(numbers),
        procs=np.array(data.draw(numbers)) + 1, logged_wait_s=data.draw(numbers),
    )  # fmt: skip
    procs = data.draw(st.integers(1, 20))
    record = RecordedSchedule(workload, procs)
    start, end = record.start_s, record.end_s

    def busy(at_s: int) -> int:
        return int(workload.procs[(start <= at_s) & (at_s < end)].sum())

    for j in range(n):
        earlier_wait = [start[:j].max()] if j else []
        assert record.first_in_line_s()[j] == max([record.submit_s[j], *earlier_wait])
        seconds = range(int(record.submit_s[j]), int(start[j]))
        naive = sum(busy(at_s) + int(workload.procs[j]) <= procs for at_s in seconds)
        assert record.room_s(record.submit_s)[j] == naive


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=30))
def test_the_rank_agreement_is_that_of_scipy(pairs: list[tuple[int, int]]) -> None:
    # One processor a job and enough of them: a job's simulated wait is 0 unless it is recorded so.
    runtimes = [float(r) for r, _ in pairs]
    workload = Workload.from_arrays(
        submit_s=np.zeros(len(pairs)), runtime_s=runtimes, procs=np.ones(len(pairs), dtype=int),
        logged_wait_s=[float(w) for _, w in pairs],
    )  # fmt: skip
    scenario = Scenario(workload, ClusterSpec.single(1))
    result = simulate(scenario, engine="interpreted")
    rank = wait_agreement(scenario, result).rank
    waits = result.start_s - workload.submit_s
    if len(np.unique(waits)) == 1 or len(np.unique(workload.logged_wait_s)) == 1:
        assert rank is None
    else:
        assert rank == pytest.approx(spearmanr(waits, workload.logged_wait_s).statistic)


def smaller_machine(share: float) -> Scenario:
    """Return the log of a machine of which only a share was up, with the size as installed."""
    workload = default_workload(seed=5, n_jobs=1_500)
    workload = replace(workload, procs=np.maximum(workload.procs // 8, 1))
    installed = 2 * workload.widest_procs
    up = Scenario(workload, ClusterSpec.single(int(share * installed)))
    wait_s = simulate(up).start_s - workload.submit_s
    return Scenario(recorded(workload, wait_s), ClusterSpec.single(installed))


def test_the_capacity_in_use_is_found_and_carries_over() -> None:
    scenario = smaller_machine(0.8)
    corrected = corrected_replays(scenario, simulate)
    assert corrected.replays[0].tested.ratio != pytest.approx(1.0, abs=0.07)
    assert corrected.chosen.name in ("80 %", "by week")
    assert corrected.carries_over
    assert corrected.chosen.tested.is_close
    assert corrected.sentence.endswith("within 7 % on both.")
    for window in capacity_windows(scenario):
        assert window.procs >= scenario.cluster.total_procs - int(
            0.8 * scenario.cluster.total_procs
        )


def test_nothing_is_corrected_if_the_records_are_those_of_the_machine() -> None:
    scenario = smaller_machine(1.0)
    assert corrected_replays(scenario, simulate).chosen.name == "as given"


def test_a_log_without_waits_is_refused() -> None:
    scenario = three_jobs([float("nan")] * 3)
    result = simulate(scenario)
    assert not has_recorded_waits(scenario.workload, result)
    with pytest.raises(ScenarioError, match="records no wait of a job that ran"):
        backtest(scenario, result)
    with pytest.raises(ScenarioError, match="one partition"):
        corrected_replays(scenario, simulate)
