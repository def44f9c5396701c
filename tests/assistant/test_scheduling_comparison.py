"""Lanes, waits by class, and the check on later jobs, against schedules written out by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.applications.scheduling import Scheduling
from assistant.applications.scheduling_comparison import (
    LATER,
    OF_CLASSES,
    SLACK_S,
    WaitProfile,
    compared,
    compared_later,
)
from assistant.core.errors import ApplicationError
from sim import Workload, simulate
from sim.generators import default_workload

PROCS = 64


def jobs(n: int = 40, seed: int = 1) -> Workload:
    """Return jobs of all classes that keep the cluster busier than it can be."""
    rng = np.random.default_rng(seed)
    requested_s = rng.choice([600.0, 3_600.0, 7_200.0, 21_600.0, 43_200.0], n)
    return Workload.from_arrays(
        submit_s=np.sort(rng.uniform(0, 40_000, n)).round(),
        runtime_s=(requested_s * rng.uniform(0.2, 1, n)).round(),
        requested_s=requested_s,
        procs=rng.choice([1, 2, 8, 9, 40, 64], n),
        max_procs=PROCS,
        name="by hand",
    )


def test_the_space_is_orders_times_lanes() -> None:
    space = Scheduling(jobs(), preset="lanes").space
    assert space.names == ("order", "lane_max_requested_s", "lane_max_procs")
    assert space.parameter("lane_max_procs").levels == (1, 4, 16, 64)
    assert space.count_allowed() == 3 * (1 + 3 * 4)


def test_what_slurm_can_do_is_five_orders_times_lanes() -> None:
    space = Scheduling(jobs(), preset="slurm_lanes").space
    assert space.parameter("order").levels == ("fcfs", "multifactor")
    assert space.count_allowed() == (1 + 2 * 2) * (1 + 3 * 4)  # two weights, narrow or wide first


def test_a_lane_goes_first_on_the_same_processors() -> None:
    lane = {"order": "fcfs", "lane_max_requested_s": 3_600, "lane_max_procs": 4}
    log = Workload.from_arrays(  # the whole machine, the whole machine, and a short narrow job
        submit_s=[0, 1, 2], runtime_s=[100, 100, 100], requested_s=[7_200, 7_200, 100],
        procs=[PROCS, PROCS, 1], max_procs=PROCS, name="by hand",
    )  # fmt: skip
    application = Scheduling(log, preset="lanes", train_share=1.0)
    scenario = application.scenario(lane)
    assert scenario.cluster.total_procs == PROCS
    assert [(p.name, p.on, p.tier) for p in scenario.cluster.partitions] == [
        ("express", "main", 1), ("main", None, 0),
    ]  # fmt: skip
    order = np.argsort(simulate(scenario).start_s, kind="stable")
    assert order[:3].tolist() == [0, 2, 1]  # the short job overtakes, though FCFS has it last


def test_means_by_class_are_those_of_a_loop() -> None:
    application = Scheduling(jobs(), preset="lanes", train_share=1.0)
    scenario, result = application.simulated(application.baseline, 0)
    by_name: dict[str, list[float]] = {name: [] for name in OF_CLASSES}
    log = scenario.workload
    for wait_s, procs, requested_s in zip(
        result.start_s - log.submit_s, log.procs, log.requested_s, strict=True
    ):
        width = "narrow" if procs * 64 <= PROCS else "medium" if procs * 8 <= PROCS else "wide"
        length = "short" if requested_s <= 3_600 else "middle" if requested_s <= 21_600 else "long"
        for name in (width, length):
            by_name[f"{name}_jobs_mean_wait_s"].append(wait_s)
    measures = application.evaluate(application.baseline, 0)
    for name, waits in by_name.items():
        assert waits, "every class has a job"
        assert measures[name] == pytest.approx(np.mean(waits))


@given(st.floats(0, 1e5), st.floats(1, 1e5), st.floats(1, 2))
def test_a_ratio_is_in_its_bound_where_the_wait_is(
    mine: float, current: float, bound: float
) -> None:
    def of(longest_s: float) -> WaitProfile:
        return WaitProfile({}, 0.0, longest_s, 0.0, np.zeros(10), np.ones(10))

    is_in = of(mine).longest_ratio_to(of(current)) <= bound
    if abs(mine - (bound * current + SLACK_S)) > 1e-6 * mine:
        assert is_in == (mine <= bound * current + SLACK_S)


def test_the_current_configuration_is_within_every_bound_of_itself() -> None:
    application = Scheduling(jobs(), preset="lanes")
    measures = application.evaluate(application.baseline, 0)
    assert application.objective.assess(measures).feasible
    assert measures["later_wait_ratio"] == 1.0
    assert (measures["later_wait_ratio_low"], measures["later_wait_ratio_high"]) == (1.0, 1.0)


def test_runs_simulate_the_first_jobs_alone_and_the_later_ones_meet_their_backlog() -> None:
    log = jobs(60)
    application = Scheduling(log, preset="lanes")
    values = {**application.baseline, "order": "saf"}
    measures = application.evaluate(values, 0)
    assert set(LATER) <= set(application.measures)
    assert measures["n_jobs"] == 30
    alone = Scheduling(log.head(30), preset="lanes", train_share=1.0)
    assert measures["mean_wait_s"] == alone.evaluate(values, 0)["mean_wait_s"]
    assert not set(LATER) & set(alone.measures)
    whole = simulate(application.scenario(values, 0, log))
    assert measures["later_mean_wait_s"] == pytest.approx(
        (whole.start_s - log.submit_s)[30:].mean()
    )
    ((_, many),) = application.evaluate_many([values])
    assert many == measures


def test_an_interval_is_the_bootstrap_of_the_ratio_of_sums() -> None:
    rng = np.random.default_rng(5)
    sums, others = rng.uniform(50, 150, 10), rng.uniform(100, 200, 10)
    sizes = np.full(10, 5.0)
    mine = WaitProfile({}, sums.sum() / 50, 0, 0, sums, sizes)
    current = WaitProfile({}, others.sum() / 50, 0, 0, others, sizes)
    draws = np.random.default_rng(9).integers(0, 10, (20_000, 10))
    expected = np.quantile(sums[draws].sum(axis=1) / others[draws].sum(axis=1), (0.025, 0.975))
    assert mine.ratio_interval_to(current) == pytest.approx(tuple(expected), abs=0.01)
    few = WaitProfile({}, 1.0, 0, 0, sums, np.array([1.0] * 9 + [0.0]))
    assert few.ratio_interval_to(few) is None


def test_without_jobs_measures_are_unknown() -> None:
    assert set(compared(None, None).values()) == {None}
    assert set(compared_later(None, None).values()) == {None}


def test_backfill_is_opened_only_where_there_is_none() -> None:
    from assistant.applications.scheduling import CurrentPolicies

    log = default_workload(seed=3, n_jobs=60)
    space = Scheduling(log, preset="lanes", current_policies=CurrentPolicies("fcfs", "none")).space
    assert space.parameter("backfill").levels == ("none", "easy")
    other = CurrentPolicies("sjf", "conservative")
    space = Scheduling(log, preset="lanes", current_policies=other).space
    assert "backfill" not in space.names
    assert set(space.parameter("order").levels) == {"fcfs", "saf", "lxf", "sjf"}


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_a_share_of_jobs_is_above_0_and_up_to_1(share: float) -> None:
    with pytest.raises(ApplicationError, match="train_share is"):
        Scheduling(jobs(), preset="lanes", train_share=share)
