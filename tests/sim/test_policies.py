"""Orders and backfilling rules: worked by hand, by their definitions, and what each promises."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from sim import ClusterSpec, Scenario, Workload, simulate
from sim.api import backfills_for, known_names, known_options, measures
from sim.engines.process import run
from sim.generators import default_workload
from sim.kernel.pool import Pool
from sim.model.errors import ScenarioError, UnknownNameError
from sim.policies.orders import order_named
from sim.policies.policy import JobFacts
from tests.draw.workloads import scenarios

Rows = list[tuple[float, float, int]]


def starts(
    jobs: Rows,
    procs: int = 10,
    requested: list[float] | None = None,
    engine: str = "interpreted",
    **policy: object,
) -> list[float]:
    """Simulate (submit, runtime, procs) rows on one partition; return the starts."""
    submit_s, runtime_s, widths = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=widths, requested_s=requested
    )
    scenario = Scenario(workload, ClusterSpec.single(procs), **policy)  # type: ignore[arg-type]
    found: list[float] = simulate(scenario, engine=engine).start_s.tolist()
    return found


# -- orders -------------------------------------------------------------------------------------


def test_scores_are_the_published_formulas() -> None:
    facts = JobFacts(
        submit_s=np.array([100.0]),
        requested_s=np.array([16.0]),
        procs=np.array([4]),
        partition=np.array([0]),
        queue=np.array([7]),
        cluster=ClusterSpec.single(16),
        qos_priority={7: 10, 8: 40},
        options={"size_weight": 100, "favor_small": 0, "partition_weight": 3, "qos_weight": 20},
    )
    expected = {
        "fcfs": 100.0,
        "sjf": 16.0,
        "ljf": -16.0,
        "saf": 64.0,
        "laf": -64.0,
        "f1": math.log10(16) * 4 + 870 * 2,
        "f2": 4 * 4 + 25_600 * 2,
        "f3": 64 + 6_860_000 * 2,
        "f4": 16 * 2 + 530_000 * 2,
    }
    for name, score in expected.items():
        order = order_named(name)
        assert order.score is not None
        assert order.score(facts)[0] == pytest.approx(score, rel=1e-12), name
    waited = {
        "lxf": -(48 + 16) / 16,
        "wfp3": -(3.0**3) * 4,
        "unicef": -48 / (2 * 16),
        # 200 * 48/96 + 100 * 4/16 + 3 * 1/1 + 20 * 10/40 + 50 * 1/4 = 100 + 25 + 3 + 5 + 12.5
        "multifactor": -145,
    }
    told = [200.0, 96.0, 100.0, 3.0, 20.0, 50.0]
    for name, score in waited.items():
        order = order_named(name)
        assert order.factor is not None
        assert order.score_now is not None
        factor = float(order.factor(facts)[0])
        found = order.score_now(48.0, 4, factor, 0.25, told)
        assert found == pytest.approx(score, rel=1e-12), name
    assert {*expected, *waited} == set(known_names()["order"])


def test_a_job_of_one_processor_goes_before_all_wider_ones_under_unicef() -> None:
    jobs: Rows = [(0, 10, 10), (1, 5, 8), (9, 5, 1)]
    assert starts(jobs, order="unicef", backfill="none") == [0.0, 10.0, 10.0]
    jobs = [(0, 10, 10), (1, 5, 10), (9, 5, 1)]
    assert starts(jobs, order="unicef", backfill="none") == [0.0, 15.0, 10.0]
    assert starts(jobs, order="fcfs", backfill="none") == [0.0, 10.0, 15.0]


def test_the_queue_is_ranked_anew_as_jobs_wait() -> None:
    # Expansion factors at 10: (9 + 9) / 9 = 2 and (1 + 1) / 1 = 2, a tie, by submission; at 11
    # they are 19 / 9 and 3: whoever is looked at a second later has lost the first place.
    jobs: Rows = [(0, 10, 10), (1, 9, 10), (9, 1, 10)]
    assert starts(jobs, order="lxf", backfill="none") == [0.0, 10.0, 19.0]
    jobs = [(0, 11, 10), (1, 9, 10), (9, 1, 10)]
    assert starts(jobs, order="lxf", backfill="none") == [0.0, 12.0, 11.0]


def test_wide_jobs_that_waited_go_first_under_wfp3() -> None:
    # At 10 they have waited 8 and 8: (8 / 10)^3 * 9 against (8 / 10)^3 * 2.
    jobs: Rows = [(0, 10, 10), (2, 10, 2), (2, 10, 9)]
    assert starts(jobs, order="wfp3", backfill="none") == [0.0, 20.0, 10.0]


# -- backfilling --------------------------------------------------------------------------------


def test_greedy_lets_a_wide_job_wait() -> None:
    jobs: Rows = [(0, 10, 6), (1, 5, 6), (2, 20, 4)]
    assert starts(jobs, backfill="easy") == [0.0, 10.0, 2.0]
    jobs = [(0, 10, 6), (1, 5, 7), (2, 20, 4), (3, 20, 3)]
    assert starts(jobs, backfill="easy") == [0.0, 10.0, 15.0, 3.0]
    assert starts(jobs, backfill="greedy") == [0.0, 22.0, 2.0, 10.0]


def test_with_two_reservations_nobody_delays_the_second() -> None:
    # 6 of 10 are used until 10. The head (8) is reserved at 10 to 15, the next (8) at 15 to 20.
    # The last wants 2 for 18 s from 2 to 20, beside both: it starts. If it wanted 4 until 12, it
    # would delay the head; EASY and depth 2 agree there. They differ on who delays the second.
    jobs: Rows = [(0, 10, 6), (1, 5, 8), (1, 5, 9), (2, 18, 2)]
    assert starts(jobs, backfill="easy") == [0.0, 10.0, 20.0, 2.0]
    assert starts(jobs, backfill="depth", options={"depth": 1}) == [0.0, 10.0, 20.0, 2.0]
    assert starts(jobs, backfill="depth", options={"depth": 2}) == [0.0, 10.0, 15.0, 20.0]


def test_conservative_reserves_for_all_and_moves_them_up_when_something_ends_early() -> None:
    # Until 20 by the request, but the first ends at 10. Reserved: second 20-25, third 25-30,
    # fourth (2 for 15 s) beside the first at 3 to 18. At 10 the second moves up to 10, the third
    # to 15, though 2 of 10 are used until 18: both leave 2.
    jobs: Rows = [(0, 10, 6), (1, 5, 8), (2, 5, 8), (3, 15, 2)]
    assert starts(jobs, requested=[20, 5, 5, 15], backfill="conservative") == [0, 10, 15, 3]


@pytest.mark.parametrize(("depth", "last_s"), [(0, 10.0), (1, 20.0), (2, 15.0), (3, 10.0)])
def test_compress_depth_makes_only_the_first_reservations_again(depth: int, last_s: float) -> None:
    # Until 20 by the request, but the first ends at 10. Reserved: second 20-25, third 25-30, fourth
    # (2 for 4 s) beside the second at 20. At 10 the second moves up to 10, if depth is 2 the third
    # to 15, if it is 3 the fourth to 10. At 15 the third is the head, and the fourth behind it.
    jobs: Rows = [(0, 10, 10), (1, 5, 8), (2, 5, 8), (3, 1, 2)]
    options = {"compress_depth": depth}
    found = starts(jobs, requested=[20, 5, 5, 4], backfill="conservative", options=options)
    assert found == [0.0, 10.0, 15.0, last_s]


class Promises:
    """A witness that holds conservative backfilling to its reservations."""

    def __init__(self) -> None:
        self.reserved_s: dict[int, float] = {}
        self.n_moved = 0

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        pass

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        here = pool.partitions[k]
        waiting = [job for job in pool.queue[here.head : here.tail] if job >= 0]
        for job in (*waiting, *started):
            reserved_s = pool.jobs[job].reserved_s
            assert reserved_s <= self.reserved_s.get(job, math.inf), "a reservation was delayed"
            self.n_moved += reserved_s < self.reserved_s.get(job, -math.inf)
            self.reserved_s[job] = reserved_s


@given(scenarios())
def test_no_reservation_is_delayed_under_conservative(scenario: Scenario) -> None:
    overrun = "kill" if scenario.overrun == "kill" else "raise"
    scenario = replace(scenario, backfill="conservative", options={}, overrun=overrun, grace_s=0.0)
    promises = Promises()
    result = run(scenario, kernel="interpreted", witness=promises)
    for job, reserved_s in promises.reserved_s.items():
        assert result.start_s[job] == reserved_s


def test_reservations_do_move() -> None:
    workload = default_workload(seed=3, n_jobs=300)
    promises = Promises()
    scenario = Scenario(
        workload, ClusterSpec.single(workload.widest_procs), backfill="conservative"
    )
    run(scenario, kernel="interpreted", witness=promises)
    assert promises.n_moved > 100


class NobodyFits:
    """A witness that sees whether anybody waits who fits."""

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        pass

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        here = pool.partitions[k]
        waiting = [job for job in pool.queue[here.head : here.tail] if job >= 0]
        assert all(pool.jobs[job].procs > here.free for job in waiting)


@given(scenarios())
def test_greedy_leaves_nobody_waiting_who_fits(scenario: Scenario) -> None:
    scenario = replace(scenario, backfill="greedy", options={})
    run(scenario, kernel="interpreted", witness=NobodyFits())


@given(scenarios())
def test_depth_is_greedy_with_0_reservations_and_easy_with_1(scenario: Scenario) -> None:
    workload = replace(
        scenario.workload, requested_s=np.maximum(scenario.workload.requested_s, 0.1)
    )
    for depth, rule in ((0, "greedy"), (1, "easy")):
        pair = [
            simulate(
                replace(scenario, workload=workload, backfill=name, options=options),
                engine="interpreted",
            ).start_s.tolist()
            for name, options in ((rule, {}), ("depth", {"depth": depth}))
        ]
        assert pair[0] == pair[1]


def test_easy_without_extra_processors_lets_only_short_jobs_overtake() -> None:
    jobs: Rows = [(0, 10, 6), (1, 5, 7), (2, 100, 2), (3, 7, 2)]
    assert starts(jobs) == [0.0, 10.0, 2.0, 3.0]
    told = {"extra_processors": 0}
    assert starts(jobs, options=told) == [0.0, 10.0, 10.0, 3.0]


def test_a_reservation_that_is_not_made_anew_stays_too_late() -> None:
    # The first asks for 100 and ends at 10, where the head still cannot start; its reservation
    # stays at 100, so that somebody may start at 11 who lets it wait until 60.
    jobs: Rows = [(0, 10, 5), (0, 20, 4), (1, 5, 8), (11, 49, 5)]
    requested = [100.0, 20.0, 5.0, 49.0]
    assert starts(jobs, requested=requested) == [0.0, 0.0, 20.0, 25.0]
    told = {"reserve_anew": 0}
    assert starts(jobs, requested=requested, options=told) == [0.0, 0.0, 60.0, 11.0]


def test_actual_times_let_in_who_asked_for_more() -> None:
    jobs: Rows = [(0, 10, 6), (1, 5, 10), (2, 5, 4)]
    requested = [10.0, 5.0, 60.0]
    assert starts(jobs, requested=requested) == [0.0, 10.0, 15.0]
    assert starts(jobs, requested=requested, options={"actual_times": 1}) == [0.0, 10.0, 2.0]


# -- requests that are outlived -------------------------------------------------------------------


def test_a_grace_is_given_before_a_job_is_killed() -> None:
    workload = Workload.from_arrays(
        submit_s=[0, 0, 0], runtime_s=[10, 5, 3], procs=[1, 1, 1], requested_s=[4, 4, 4]
    )
    result = simulate(
        Scenario(workload, ClusterSpec.single(3), overrun="kill", grace_s=2.0),
        engine="interpreted",
    )
    assert result.end_s.tolist() == [6.0, 5.0, 3.0]
    assert result.state.tolist() == [1, 0, 0]


def test_who_outlives_its_request_is_expected_ever_later() -> None:
    # The first asked for 10 and runs 500. At 2 the head (10 processors) is expected to start at
    # 10; at 20 the first is expected at 10 + 60 = 70. So 45 s from 20 on delay nobody; 55 s do, and
    # from 65 on, when the others ended, still. Nothing happens then until 500.
    jobs: Rows = [(0, 500, 6), (2, 5, 10), (20, 45, 4), (20, 55, 4)]
    requested = [10.0, 5.0, 45.0, 55.0]
    found = starts(jobs, requested=requested, overrun="extend_at_events")
    assert found == [0.0, 500.0, 20.0, 505.0]
    # With a decision at 70, when that estimate runs out, it is expected at 370: room for 55 s.
    assert starts(jobs, requested=requested, overrun="extend") == [0.0, 500.0, 20.0, 70.0]
    # At 71 it is expected at 70 + 300: now there is room for 55 s.
    jobs.append((71, 1, 10))
    found = starts(jobs, requested=[*requested, 1.0], overrun="extend_at_events")
    assert found == [0.0, 500.0, 20.0, 71.0, 505.0]


def test_a_grace_needs_somebody_to_kill() -> None:
    workload = default_workload(seed=1, n_jobs=5)
    with pytest.raises(ScenarioError, match=r"grace_s is 5 but overrun is 'raise'"):
        Scenario(workload, ClusterSpec.single(128), grace_s=5.0)
    with pytest.raises(ScenarioError, match=r"allowed is a finite number of seconds from 0"):
        Scenario(workload, ClusterSpec.single(128), overrun="kill", grace_s=-1.0)


# -- options --------------------------------------------------------------------------------------


def test_options_are_checked_in_words() -> None:
    workload, cluster = default_workload(seed=1, n_jobs=5), ClusterSpec.single(128)
    with pytest.raises(UnknownNameError, match=r"no option .* 'depht'; did you mean 'depth'\?"):
        simulate(Scenario(workload, cluster, backfill="depth", options={"depht": 2}))
    with pytest.raises(UnknownNameError, match=r"Known: none\."):
        simulate(Scenario(workload, cluster, backfill="greedy", options={"depth": 2}))
    for bad in (-1, 0.5, math.nan, math.inf, "4"):
        with pytest.raises(ScenarioError, match=r"option 'depth' .* allowed are whole numbers"):
            simulate(
                Scenario(workload, cluster, backfill="depth", options={"depth": bad})  # type: ignore[dict-item]
            )
    nodes = cluster.in_machines_of(8)
    with pytest.raises(ScenarioError, match=r"'extra_processors' of .* is 0 but allocation"):
        simulate(
            Scenario(workload, nodes, allocation="whole_nodes", options={"extra_processors": 0})
        )
    assert [option.name for option in known_options("backfill", "depth")] == ["depth"]
    assert known_options("order", "fcfs") == ()


def test_options_decide_the_digest() -> None:
    workload, cluster = default_workload(seed=1, n_jobs=5), ClusterSpec.single(128)
    digests = {
        Scenario(workload, cluster, backfill="depth", options=options).digest
        for options in ({}, {"depth": 2}, {"depth": 3})
    }
    assert len(digests) == 3


@pytest.mark.soak
@pytest.mark.slow
def test_every_policy_gives_the_same_in_machine_code() -> None:
    workload = default_workload(seed=5, n_jobs=500)
    cluster = ClusterSpec.single(workload.widest_procs)
    seen = set()
    for order in known_names()["order"]:
        for backfill in backfills_for("processors"):
            scenario = Scenario(workload, cluster, order, backfill)
            compiled = simulate(scenario, engine="compiled")
            assert compiled == simulate(scenario, engine="interpreted")
            seen.add(round(measures(scenario, compiled)["mean_wait_s"], 6))
    assert len(seen) > 50  # they are different policies
