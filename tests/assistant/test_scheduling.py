"""SchedSim as the paper describes it, over workloads whose answers are known."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.applications.scheduling import (
    ENERGY,
    RECORDED_WAITS,
    ClusterPower,
    CurrentPolicies,
    Scheduling,
)
from assistant.applications.scheduling_parameters import fill_gaps, time_levels, width_levels
from assistant.core.errors import ApplicationError
from sim import NodePower, SimError, Workload, load_workload
from sim.generators import Moldability, default_workload


def workload(procs: list[int], runtime_s: list[float], **more: object) -> Workload:
    n = len(procs)
    return Workload.from_arrays(
        submit_s=np.arange(n, dtype=float),
        runtime_s=np.array(runtime_s),
        procs=np.array(procs),
        requested_s=np.array(runtime_s),
        name="by hand",
        max_procs=8,
        **more,  # type: ignore[arg-type]
    )


def test_the_papers_space_on_a_real_log(shared_data: Path) -> None:
    log = load_workload(shared_data / "swf" / "alea-hpc2n-subset.swf.gz")
    space = Scheduling(log).space
    assert [p.n_levels for p in space.parameters] == [22, 20, 20]
    assert space.size == 8800
    assert space.count_allowed() == 8800 - 399  # today occurs once, not 400 times
    small = space.parameters[0].levels
    assert small[0] == 0
    assert int(small[-1]) == 240 - log.widest_procs  # the widest job still fits beside it


def test_today_is_one_partition_and_is_what_the_simulator_alone_gives() -> None:
    from sim import ClusterSpec, Scenario, simulate, summarise

    jobs = default_workload(seed=5, n_jobs=200)
    application = Scheduling(jobs)
    assert application.baseline["small_procs"] == 0
    measured = application.evaluate(application.baseline, 0)
    scenario = Scenario(jobs, ClusterSpec.single(128), order="fcfs", backfill="easy")
    alone = summarise(scenario, simulate(scenario)).flat()
    assert {name: measured[name] for name in alone} == alone


def test_a_split_keeps_a_place_for_small_jobs() -> None:
    """A long job on 6 of 8 holds up a 4-wide one; the 1-wide job behind goes to the small part."""
    jobs = workload([6, 4, 1, 1], [1000.0, 1000.0, 10.0, 5000.0])
    none = Scheduling(jobs, current_policies=CurrentPolicies(backfill="none"))
    assert none.evaluate(none.baseline, 0)["mean_wait_s"] == pytest.approx(
        (0 + 999 + 998 + 997) / 4
    )
    split = {"small_procs": 2, "small_max_requested_s": 60, "small_max_procs": 1}
    # main has 6: job 1 (0-1000), job 2 from 1000, job 4 beside it from 1000; job 3 at once
    assert none.evaluate(split, 0)["mean_wait_s"] == pytest.approx((0 + 999 + 0 + 997) / 4)


def test_small_jobs_are_those_that_requested_less_than_an_hour() -> None:
    jobs = workload([8, 8, 8], [20_000.0, 3599.0, 3600.0])
    application = Scheduling(jobs)
    measures = application.evaluate(application.baseline, 0)
    assert measures["small_jobs_max_wait_s"] == 19_999.0
    assessed = application.objective.assess(measures)
    assert not assessed.feasible
    assert assessed.violation == pytest.approx((19_999.0 - 10_800.0) / 10_800.0)


def test_no_small_job_means_nothing_to_violate() -> None:
    application = Scheduling(workload([8, 8], [20_000.0, 20_000.0]))
    measures = application.evaluate(application.baseline, 0)
    assert measures["small_jobs_max_wait_s"] is None
    assert application.objective.assess(measures).feasible


def test_a_job_that_fits_no_partition_makes_the_configuration_infeasible() -> None:
    application = Scheduling(workload([8, 1], [10.0, 10.0]), levels={"small_procs": (0, 2)})
    split = {"small_procs": 2, "small_max_requested_s": 60, "small_max_procs": 8}
    measures = application.evaluate(split, 0)
    assert measures["n_rejected"] == 1.0
    assert not application.objective.assess(measures).feasible
    clipping = Scheduling(
        workload([8, 1], [30.0, 10.0]), levels={"small_procs": (0, 2)}, too_wide="clip"
    )
    clipped = clipping.evaluate(split, 0)
    assert clipped["n_rejected"] == 0.0
    assert clipped["max_response_s"] == 40.0  # on 6 instead of 8, for 30 x 8 / 6 seconds


def test_further_parameters() -> None:
    application = Scheduling(
        default_workload(seed=1, n_jobs=100),
        levels={"procs": (96, 128), "order": ("fcfs", "sjf"), "backfill": ("none", "easy")},
    )
    names = [p.name for p in application.space.parameters]
    assert names[3:] == ["procs", "order", "backfill"]
    baseline = dict(application.baseline)
    smaller = application.evaluate({**baseline, "procs": 96}, 0)
    assert smaller["procs"] == 96.0
    assert smaller["mean_wait_s"] >= application.evaluate(baseline, 0)["mean_wait_s"]  # type: ignore[operator]


def test_power_opens_switching_off_and_a_cap_and_measures_energy() -> None:
    """8 nodes of 2 W, 3 W busy; the two jobs of 1 h need 4 nodes each, an hour apart."""
    jobs = Workload.from_arrays(
        submit_s=[0.0, 7200.0], runtime_s=[3600.0, 3600.0], procs=[4, 4], max_procs=8
    )
    application = Scheduling(
        jobs,
        split=False,
        levels={"power_off_after_s": (0, "30m"), "power_cap_w": (0, 18)},
        power=ClusterPower(NodePower(3.0, 2.0, boot_s=60.0, price_per_kwh=10.0)),
    )
    assert dict(application.baseline) == {"power_off_after_s": 0, "power_cap_w": 0}
    on = application.evaluate(application.baseline, 0)
    assert on["energy_kwh"] == pytest.approx((3 * 8 * 2 + 2 * 4) / 1000)
    assert on["energy_cost"] == pytest.approx(0.56)
    assert on["mean_wait_s"] == 0.0
    off = application.evaluate({"power_off_after_s": 1800, "power_cap_w": 0}, 0)
    assert off["mean_wait_s"] == 30.0
    assert off["n_boots"] == 4.0
    assert off["energy_kwh"] < on["energy_kwh"]  # type: ignore[operator]
    capped = application.scenario({"power_off_after_s": 0, "power_cap_w": 18})
    assert [window.procs for window in capped.windows] == [6]  # 16 W idle and 1 W for each
    assert set(ENERGY) <= {*application.measures}
    assert set(on) <= {*application.measures}


HALVED = {"moldable_halvings": (0, 1, 2)}


def test_halvings_are_a_parameter_and_policies_that_have_none_are_left_out() -> None:
    """6 of 8 processors are busy until 100; the second job ends at 160, or on 2 of 4 at 101."""
    jobs = Workload.from_arrays(
        submit_s=[0.0, 1.0], runtime_s=[100.0, 50.0], requested_s=[100.0, 60.0], procs=[6, 4],
        max_procs=8,
    )  # fmt: skip
    linear = Moldability(0, variance=0.0)
    application = Scheduling(jobs, preset="policies", levels=HALVED, moldable=linear)
    assert application.baseline["moldable_halvings"] == 0
    assert set(application.space.parameter("backfill").levels) == {"easy", "none", "greedy"}
    facts = {(fact.label, fact.text) for fact in application.facts}
    assert any(label == "Left out" and "moldable jobs" in text for label, text in facts)
    assert any("up to 2 times" in text and "variance 0" in text for _, text in facts)
    rigid = application.evaluate(application.baseline, 0)
    assert rigid["mean_wait_s"] == 99 / 2
    halved = {**application.baseline, "moldable_halvings": 1}
    assert application.evaluate(halved, 0)["mean_wait_s"] == 0.0
    assert application.scenario(halved).moldable == replace(linear, halvings=1)
    assert application.scenario(application.baseline).moldable is None
    usual = Scheduling(jobs, split=False, levels=HALVED)
    assert usual.scenario({"moldable_halvings": 2}).moldable == Moldability(2)


@pytest.mark.parametrize(
    ("more", "error", "words"),
    [
        ({"levels": {"smal_procs": (0,)}}, ApplicationError, "has no parameter 'smal_procs'"),
        ({"levels": {"small_procs": (4,)}}, ApplicationError, "the current small_procs, 0"),
        ({"procs": 4}, ApplicationError, "widest job"),
        ({"procs": 0}, ApplicationError, "at least 1"),
        ({"current_policies": CurrentPolicies(order="fcfc")}, SimError, "did you mean 'fcfs'"),
        ({"levels": {"backfill": ("easy", "esay")}}, SimError, "did you mean 'easy'"),
        ({"levels": {"power_off_after_s": (0, 60)}}, ApplicationError, "needs the power of a node"),
        ({"levels": {"power_cap_w": (0, 9)}}, ApplicationError, "needs the power of a node"),
        ({"levels": {"moldable_halvings": (0, 21)}}, ApplicationError, "from 0 to 20"),
        (
            {"levels": {**HALVED, "backfill": ("easy", "depth")}, "split": False},
            SimError,
            "'depth' plans starts",
        ),
        (
            {"levels": HALVED, "power": ClusterPower(NodePower(2.0, 1.0, off_after_s=9.0))},
            SimError,
            "moldable jobs and nodes that are switched off",
        ),
        ({"levels": {"power_cap_w": (0, -1)}}, ApplicationError, "power_cap_w has the level -1"),
        ({"power": ClusterPower(NodePower(2.0, 1.0, node_procs=3))}, SimError, "whole number of"),
        ({"power": ClusterPower(NodePower(2.0, 1.0), 7.0)}, SimError, "below the 8 W"),
    ],
)
def test_what_cannot_be_built_is_refused_at_once(more: dict, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        Scheduling(workload([8, 1], [10.0, 10.0]), **more)


def test_a_log_without_a_machine_needs_procs() -> None:
    jobs = Workload.from_arrays(
        submit_s=np.zeros(1), runtime_s=np.ones(1), procs=np.array([3]), name="nameless"
    )
    with pytest.raises(ApplicationError, match="widest job uses 3"):
        Scheduling(jobs)
    assert Scheduling(jobs, procs=4).cluster_procs == 4
    recorded = Workload.from_arrays(
        submit_s=np.zeros(3), runtime_s=np.full(3, 9.0), procs=np.array([3, 3, 1]),
        logged_wait_s=np.array([0.0, 9.0, 5.0]), name="nameless",
    )  # fmt: skip
    with pytest.raises(ApplicationError, match="uses 3, and up to 4 were in use at once"):
        Scheduling(recorded)


@settings(max_examples=60)
@given(st.integers(1, 40_000_000), st.integers(0, 40_000_000))
def test_time_levels_are_distinct_sorted_and_admit_the_longest(least: int, more: int) -> None:
    levels = time_levels(float(least), float(least + more))
    assert list(levels) == sorted(set(levels))
    assert 1 <= len(levels) <= 20
    assert levels[-1] >= least + more


@settings(max_examples=60)
@given(st.integers(1, 5000), st.integers(0, 100_000))
def test_width_levels_are_distinct_sorted_and_reach_both_ends(least: int, more: int) -> None:
    levels = width_levels(least, least + more)
    assert list(levels) == sorted(set(levels))
    assert (levels[0], levels[-1]) == (least, least + more)
    assert len(levels) == min(20, more + 1)


def test_gaps_are_filled_by_ratio() -> None:
    assert fill_gaps([1, 100], 3, step=1) == (1, 10, 100)
    assert fill_gaps([1, 2], 5, step=1) == (1, 2)


def test_a_fact_says_how_far_the_baseline_agrees_with_the_recorded_waits() -> None:
    plain = default_workload(seed=1, n_jobs=60)
    assert RECORDED_WAITS not in {fact.label for fact in Scheduling(plain).facts}
    application = Scheduling(replace(plain, logged_wait_s=np.full(plain.n_jobs, 7_200.0)))
    (text,) = [fact.text for fact in application.facts if fact.label == RECORDED_WAITS]
    mean_wait_s = application.evaluate(application.baseline, 0)["mean_wait_s"]
    assert isinstance(mean_wait_s, float)
    assert f"is {mean_wait_s / 7_200.0:.3g} times the recorded one" in text
