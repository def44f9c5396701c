"""Queues on shared processors, limits, preemption, capacity over time: worked by hand, and more."""

import math
from dataclasses import replace

import pytest
from hypothesis import assume, given

from sim import CapacityWindow, ClusterSpec, Partition, Scenario, Workload, simulate, summarise
from sim.api import SimulationResult, admit, check_scenario, measures
from sim.engines.process import run
from sim.explain import explain_start
from sim.kernel.policy_context import OPEN
from sim.kernel.pool import Pool
from sim.model.errors import ClusterError, EngineError, ScenarioError, UnknownNameError
from tests.draw.capacity import capacity_scenarios
from tests.draw.workloads import scenarios
from tests.sim.test_policies import NobodyFits, Promises

Rows = list[tuple[float, float, int]]

MAIN = Partition("main", 10, tier=1)
SHORT = Partition("short", on="main", max_requested_s=5, tier=2)
SPARE = Partition("spare", on="main", max_requested_s=50, preemptible=True)
"""In front of `MAIN` it gets all jobs that request 50 s at most."""


def scenario_of(
    jobs: Rows,
    *parts: Partition,
    requested: list[float] | None = None,
    user: list[int] | None = None,
    **more: object,
) -> Scenario:
    """Return a scenario of (submit, runtime, procs) rows."""
    submit_s, runtime_s, procs = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=procs, requested_s=requested, user=user
    )
    return Scenario(workload, ClusterSpec(parts or (MAIN,)), **more)  # type: ignore[arg-type]


def outcome(jobs: Rows, *parts: Partition, **more: object) -> SimulationResult:
    return simulate(scenario_of(jobs, *parts, **more), engine="interpreted")  # type: ignore[arg-type]


def starts(jobs: Rows, *parts: Partition, **more: object) -> list[float]:
    found: list[float] = outcome(jobs, *parts, **more).start_s.tolist()
    return found


# -- queues and tiers -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fcfs", "wfp3"])
def test_a_higher_tier_goes_first_on_the_same_processors(order: str) -> None:
    # All wait for the first, until 10. The last one came last and is short: it goes first. Those of
    # main follow as they came; under wfp3 too, (9 / 10)^3 against (8 / 10)^3.
    jobs: Rows = [(0, 10, 10), (1, 10, 10), (2, 10, 10), (3, 5, 10)]
    assert starts(jobs, SHORT, MAIN, order=order) == [0.0, 15.0, 25.0, 10.0]
    equal = (replace(SHORT, tier=1), MAIN)
    last = 30.0 if order == "fcfs" else 10.0  # wfp3: (7 / 5)^3, until the others wait longer
    assert starts(jobs, *equal, order=order)[3] == last


def test_the_first_of_a_higher_tier_gets_the_reservation() -> None:
    # Until 10 there are 4 free. The short one (8), third, is reserved from 10 on, so that 6 s of 4
    # processors start at 4 and end by then. The second follows at 15, and the last at 24.
    jobs: Rows = [(0, 10, 6), (1, 9, 8), (2, 5, 8), (4, 6, 4), (4, 7, 4)]
    assert starts(jobs, SHORT, MAIN) == [0.0, 15.0, 10.0, 4.0, 24.0]


def test_results_name_the_queue_and_utilisations_add_up() -> None:
    jobs: Rows = [(0, 10, 10), (1, 10, 4), (1, 5, 2)]
    scenario = scenario_of(jobs, SHORT, MAIN)
    result = simulate(scenario, engine="interpreted")
    assert result.partition.tolist() == [1, 1, 0]
    metrics = summarise(scenario, result)
    # 20 s of 10 processors: 100 + 40 of main, 10 of short.
    shares = {name: part.utilisation for name, part in metrics.by_partition.items()}
    assert shares == {"short": 10 / 200, "main": 140 / 200}
    assert metrics.utilisation == 150 / 200
    assert measures(scenario, result) == metrics.flat()
    told = explain_start(scenario, 2)
    assert (told.job.partition, told.job.wait_s) == ("main", 9.0)
    assert told.start is not None
    assert [job.job_id for job in told.start.ended.named] == [1]


def test_queues_share_machines() -> None:
    cluster = ClusterSpec.of([SHORT, MAIN]).in_machines_of(5)
    jobs: Rows = [(0, 10, 6), (1, 6, 5), (2, 5, 3)]
    scenario = replace(scenario_of(jobs), cluster=cluster, allocation="whole_nodes")
    for engine in ("interpreted", "process"):
        result = simulate(scenario, engine=engine)
        assert result.start_s.tolist() == [0.0, 10.0, 10.0]
        assert result.placement is not None
        assert [result.placement.of(row).tolist() for row in range(3)] == [[0, 1], [1], [0]]


def test_a_monitor_looks_at_processors_not_at_queues() -> None:
    scenario = scenario_of([(0, 10, 6), (1, 5, 8), (2, 5, 8)], SHORT, MAIN)
    series = simulate(scenario, engine="process", monitor=True).series
    assert series is not None
    assert [one.partition for one in series] == ["main"]
    assert series[0].n_queued.max() == 2


def test_a_monitor_counts_what_jobs_use_not_what_windows_take() -> None:
    # 4 of 10 are used until 10, the window has 6 from 5 to 20, and 8 are used from 20 to 25.
    window = CapacityWindow("main", 6, 5, 20, "drain")
    scenario = scenario_of([(0, 10, 4), (1, 5, 4), (6, 5, 8)], windows=(window,))
    (series,) = simulate(scenario, engine="process", monitor=True).series or ()
    used = dict(zip(series.time_s.tolist(), series.used_procs.tolist(), strict=True))
    assert used == {0.0: 4, 1.0: 8, 5.0: 8, 6.0: 4, 10.0: 0, 20.0: 8, 25.0: 0}


# -- limits per user ------------------------------------------------------------------------------


def test_one_user_runs_no_more_than_allowed_and_blocks_nobody() -> None:
    # Without backfilling the second user's job would wait for the first user's third one, of 10
    # processors, if that one were in the queue.
    limited = replace(MAIN, running_per_user=2)
    jobs: Rows = [(0, 10, 2), (0, 12, 2), (0, 5, 10), (1, 5, 2)]
    found = starts(jobs, limited, user=[1, 1, 1, 2], backfill="none")
    assert found == [0.0, 0.0, 12.0, 1.0]
    assert starts(jobs, user=[1, 1, 1, 2], backfill="none") == [0.0, 0.0, 12.0, 17.0]


def test_the_best_of_those_held_comes_in() -> None:
    limited = replace(MAIN, running_per_user=1)
    jobs: Rows = [(0, 10, 1), (1, 9, 1), (2, 3, 1)]
    assert starts(jobs, limited, user=[7, 7, 7], order="sjf") == [0.0, 13.0, 10.0]
    assert starts(jobs, limited, user=[7, 7, 7], order="fcfs") == [0.0, 10.0, 19.0]
    # An order whose scores change does not know those outside: they come in as they came.
    assert starts(jobs, limited, user=[7, 7, 7], order="lxf") == [0.0, 10.0, 19.0]


def test_who_waits_inside_counts() -> None:
    # One runs, the wide one waits inside; so the third is held, though only one runs.
    limited = replace(MAIN, running_per_user=2)
    jobs: Rows = [(0, 10, 2), (0, 10, 10), (1, 1, 1)]
    assert starts(jobs, limited, user=[1, 1, 1]) == [0.0, 10.0, 20.0]
    assert starts(jobs, limited, user=[1, 1, 2]) == [0.0, 10.0, 1.0]


def test_limits_are_of_a_queue_not_of_the_processors() -> None:
    limited = replace(SHORT, running_per_user=1)
    jobs: Rows = [(0, 9, 1), (0, 9, 1), (0, 5, 1), (0, 5, 1)]
    assert starts(jobs, limited, MAIN, user=[1, 1, 1, 1]) == [0.0, 0.0, 0.0, 5.0]


# -- planned windows ------------------------------------------------------------------------------

ALL = CapacityWindow("main", 10, 10, 20, name="maintenance")
SOME = replace(ALL, procs=6)


@pytest.mark.parametrize("backfill", ["none", "greedy", "easy", "depth", "conservative"])
def test_nobody_starts_who_would_run_into_a_window(backfill: str) -> None:
    # 10 s from 0 end in time; 9 s from 2 do not.
    found = starts([(0, 10, 4), (2, 9, 4)], windows=(ALL,), backfill=backfill)
    assert found == [0.0, 20.0]
    # 4 processors are left over beside 6; the third needs 1 more, until 11.
    found = starts([(0, 10, 4), (2, 9, 4), (3, 9, 1)], windows=(SOME,), backfill=backfill)
    assert found == [0.0, 2.0, 11.0]


def test_none_lets_nobody_overtake_who_waits_for_a_window() -> None:
    jobs: Rows = [(0, 11, 4), (1, 2, 4)]
    assert starts(jobs, windows=(ALL,), backfill="none") == [20.0, 20.0]
    assert starts(jobs, windows=(ALL,), backfill="easy") == [20.0, 1.0]


def test_easy_reserves_beside_windows() -> None:
    # The head (8 for 5 s) cannot start before 10, when the first has ended, nor beside SOME until
    # 20; from then on it is reserved. 3 processors for 18 s would delay it; 2 would not.
    jobs: Rows = [(0, 10, 4), (1, 5, 8), (2, 19, 3), (2, 19, 2)]
    assert starts(jobs, windows=(SOME,)) == [0.0, 20.0, 25.0, 2.0]
    # Without a reservation 3 processors are taken from 2 to 21, which with SOME leave 1, and at 20
    # the 2 others start: the head has 8 from 21 on.
    found = starts(jobs, windows=(SOME,), backfill="greedy")
    assert found == [0.0, 21.0, 2.0, 20.0]


def test_depth_and_conservative_plan_around_windows() -> None:
    # Reserved: the second (8 for 5 s) 20-25, the third (9 for 5 s) 25-30. 2 processors from 2 to 28
    # would delay the third, which EASY does not mind.
    jobs: Rows = [(0, 10, 4), (1, 5, 8), (1, 5, 9), (2, 26, 2)]
    for backfill in ("depth", "conservative"):
        found = starts(jobs, windows=(SOME,), backfill=backfill)
        assert found == [0.0, 20.0, 25.0, 30.0]
    assert starts(jobs, windows=(SOME,), backfill="easy") == [0.0, 20.0, 28.0, 2.0]


def test_a_window_takes_what_is_free_and_then_what_comes_free() -> None:
    # Until 12 a job runs that should have ended at 5, so at 10 the window gets 4 of its 10, at 12
    # the rest; nobody is killed, and nobody starts until 20.
    jobs: Rows = [(0, 12, 6), (11, 1, 4), (13, 1, 1)]
    requested = [5.0, 1.0, 1.0]
    result = outcome(jobs, requested=requested, overrun="extend", windows=(ALL,))
    assert result.start_s.tolist() == [0.0, 20.0, 20.0]
    assert result.restarts is None


# -- preemption -----------------------------------------------------------------------------------


def killed(result: SimulationResult) -> tuple[list[int], list[float]]:
    assert result.restarts is not None
    return result.restarts.n.tolist(), result.restarts.lost_s.tolist()


def test_the_youngest_makes_room_and_begins_again() -> None:
    # At 5 there are 2 free and 6 wanted, for 60 s: the second, started at 1, gives up 4. The first
    # goes on until 20; then there is room for the second again.
    jobs: Rows = [(0, 20, 4), (1, 20, 4), (5, 60, 6)]
    scenario = scenario_of(jobs, SPARE, MAIN)
    result = simulate(scenario, engine="interpreted")
    assert result.start_s.tolist() == [0.0, 20.0, 5.0]
    assert result.end_s.tolist() == [20.0, 40.0, 65.0]
    assert killed(result) == ([0, 1, 0], [0.0, 4.0, 0.0])
    metrics = summarise(scenario, result)
    assert (metrics.n_restarts, metrics.lost_proc_s) == (1, 16.0)
    assert measures(scenario, result) == metrics.flat()


def test_of_two_that_started_together_the_later_one_is_killed() -> None:
    jobs: Rows = [(0, 20, 4), (0, 20, 4), (5, 60, 6)]
    assert killed(outcome(jobs, SPARE, MAIN))[0] == [0, 1, 0]


def test_who_can_be_spared_is_not_killed() -> None:
    # 7 are wanted and 1 is free: 2 of the youngest do not suffice, 7 more of the next do, and then
    # the youngest is not needed.
    jobs: Rows = [(0, 20, 7), (1, 20, 2), (5, 60, 7)]
    result = outcome(jobs, SPARE, MAIN)
    assert killed(result)[0] == [1, 0, 0]
    assert result.start_s.tolist() == [65.0, 1.0, 5.0]


def test_nobody_is_killed_in_vain() -> None:
    # The third needs all 10, and the second, which may not be killed, has 6.
    jobs: Rows = [(0, 20, 4), (0, 60, 6), (5, 60, 10)]
    result = outcome(jobs, SPARE, MAIN)
    assert killed(result)[0] == [0, 0, 0]
    assert result.start_s.tolist() == [0.0, 0.0, 60.0]
    # Nor for another one behind it.
    result = outcome([*jobs, (6, 60, 4)], SPARE, MAIN, backfill="none")
    assert killed(result)[0] == [0, 0, 0, 0]


def test_nobody_is_killed_for_a_start_that_a_window_forbids() -> None:
    # 60 s from 5 on run into the window at 10, whoever is killed.
    jobs: Rows = [(0, 10, 8), (5, 60, 6)]
    result = outcome(jobs, SPARE, MAIN, windows=(ALL,))
    assert killed(result)[0] == [0, 0]
    assert result.start_s.tolist() == [0.0, 20.0]
    result = outcome(jobs, SPARE, MAIN, windows=(replace(ALL, procs=4),))
    assert killed(result)[0] == [1, 0]
    assert result.start_s.tolist() == [65.0, 5.0]


# -- drains and failures --------------------------------------------------------------------------


def test_a_failure_kills_and_a_drain_waits() -> None:
    # At 5 nothing is free. A failure of 4 kills the second, started at 1, which begins again at 8.
    # A drain of 4 is over before anything ends.
    jobs: Rows = [(0, 20, 6), (1, 10, 4)]
    failure = CapacityWindow("main", 4, 5, 8, "failure")
    result = outcome(jobs, windows=(failure,))
    assert result.start_s.tolist() == [0.0, 8.0]
    assert killed(result) == ([0, 1], [0.0, 4.0])
    result = outcome(jobs, windows=(replace(failure, kind="drain"),))
    assert result.start_s.tolist() == [0.0, 1.0]
    # A drain until 30 has the 4 from 11 on; who comes at 12 needs 5.
    drain = replace(failure, kind="drain", until_s=30)
    assert starts([*jobs, (12, 5, 5)], windows=(drain,)) == [0.0, 1.0, 20.0]


def test_a_failure_takes_what_is_free_first() -> None:
    failure = CapacityWindow("main", 4, 5, 8, "failure")
    result = outcome([(0, 20, 6)], windows=(failure,))
    assert killed(result)[0] == [0]
    # 5 fail and 4 are free: the job of 6 is killed, and has 5 processors until 8.
    result = outcome([(0, 20, 6)], windows=(replace(failure, procs=5),))
    assert killed(result) == ([1], [5.0])
    assert result.start_s.tolist() == [8.0]


def test_a_failure_is_not_foreseen_and_its_end_is() -> None:
    # 9 s from 0 start, since nobody knows of the failure of all at 5. Of those that come at 6, one
    # is reserved from 20 on.
    failure = replace(ALL, from_s=5, kind="failure")
    result = outcome([(0, 9, 10), (6, 1, 10)], windows=(failure,))
    assert killed(result) == ([1, 0], [5.0, 0.0])
    assert result.start_s.tolist() == [20.0, 29.0]


def test_a_failure_does_not_kill_for_what_a_drain_is_owed() -> None:
    # At 4 a drain wants 3 and gets none, and at 5 a failure of 2 has the second killed, which gives
    # up 4: 2 for the failure, and 2 for the drain, which waits for the third.
    jobs: Rows = [(0, 20, 6), (1, 20, 4)]
    drain = CapacityWindow("main", 3, 4, 50, "drain")
    failure = CapacityWindow("main", 2, 5, 50, "failure")
    result = outcome(jobs, windows=(drain, failure))
    assert killed(result)[0] == [0, 1]
    assert result.start_s.tolist() == [0.0, 20.0]  # beside 3 and 2 there is room for 4


def test_who_begins_again_is_reckoned_with_as_at_first() -> None:
    # The first asked for 10 s and runs 100. When the third comes, at 20, that is prolonged by 60.
    # At 50 it is killed, and begins again at 51; when the last comes, at 62, it is prolonged by 60
    # again, to 121, and not by the next step, 300: the second, of 10 processors, is reserved then,
    # and the last, which would end at 162, has to wait.
    jobs: Rows = [(0, 100, 6), (20, 1, 10), (20, 5, 4), (62, 100, 4)]
    failure = CapacityWindow("main", 10, 50, 51, "failure")
    requested = [10.0, 1.0, 5.0, 100.0]
    result = outcome(jobs, requested=requested, overrun="extend_at_events", windows=(failure,))
    assert result.start_s.tolist() == [51.0, 151.0, 20.0, 152.0]
    # If the scheduler also decides when an estimate runs out, the last starts at 121, when the
    # first is prolonged to 421.
    result = outcome(jobs, requested=requested, overrun="extend", windows=(failure,))
    assert result.start_s.tolist() == [51.0, 221.0, 20.0, 121.0]


# -- what always holds ----------------------------------------------------------------------------


class Books:
    """A witness that counts processors anew."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.least_free = 0
        self.queue_of = admit(scenario).partition.tolist()

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        pass

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        here, part = pool.partitions[k], self.scenario.cluster.partitions[k]
        listed = pool.running[here.first : here.first + here.n_listed]
        running = [job for job in listed if job >= 0]
        used = sum(pool.jobs[job].procs for job in running)
        closed = sum(w.procs for w in pool.terms.windows if w.place == k and w.state == OPEN)
        assert used <= part.procs
        assert here.free == part.procs - used - closed
        self.least_free = min(self.least_free, here.free)
        self._check_users(running)

    def _check_users(self, running: list[int]) -> None:
        limits = [part.running_per_user for part in self.scenario.cluster.partitions]
        ran: dict[tuple[int, int], int] = {}
        for job in running:
            of = (int(self.scenario.workload.user[job]), self.queue_of[job])
            ran[of] = ran.get(of, 0) + 1
        for (_, queue), n in ran.items():
            assert n <= (limits[queue] or n)


@given(capacity_scenarios())
def test_processors_and_limits_are_kept(scenario: Scenario) -> None:
    books = Books(scenario)
    result = run(scenario, kernel="interpreted", witness=books)
    assert not any(math.isnan(start_s) for start_s in result.start_s)
    is_known = not scenario.overrun.startswith("extend") and scenario.grace_s == 0.0
    if is_known and all(window.kind == "planned" for window in scenario.windows):
        assert books.least_free == 0, "a planned window did not get what it wanted"


@pytest.mark.soak
@given(capacity_scenarios())
def test_no_reservation_is_delayed_by_windows_that_are_planned(scenario: Scenario) -> None:
    assume(not any(part.preemptible for part in scenario.cluster.partitions))
    parts = tuple(replace(part, tier=0) for part in scenario.cluster.partitions)
    planned = tuple(replace(window, kind="planned") for window in scenario.windows)
    scenario = replace(
        scenario, cluster=ClusterSpec(parts), windows=planned, backfill="conservative",
        options={}, overrun="raise", grace_s=0.0,
    )  # fmt: skip
    promises = Promises()
    result = run(scenario, kernel="interpreted", witness=promises)
    for job, reserved_s in promises.reserved_s.items():
        assert result.start_s[job] == reserved_s


@given(capacity_scenarios())
def test_greedy_leaves_nobody_in_the_queue_who_fits(scenario: Scenario) -> None:
    scenario = replace(scenario, backfill="greedy", options={}, windows=())
    run(scenario, kernel="interpreted", witness=NobodyFits())


@pytest.mark.soak
@given(scenarios())
def test_one_processor_more_that_is_never_there_changes_nothing(scenario: Scenario) -> None:
    """Rules by plan are the same rules: a window over what was added leaves what was."""
    assume(scenario.overrun == "raise")
    requested_s = scenario.workload.requested_s.clip(0.1)
    scenario = replace(
        scenario, workload=replace(scenario.workload, requested_s=requested_s), options={}
    )
    last = scenario.cluster.partitions[-1]
    wider = replace(last, procs=last.procs + 1, max_procs=last.procs)
    closed = CapacityWindow("last", 1, 0, 1e9)
    told = replace(
        scenario,
        cluster=ClusterSpec((*scenario.cluster.partitions[:-1], wider)),
        windows=(closed,),
    )
    pair = [simulate(one, engine="interpreted").start_s.tolist() for one in (scenario, told)]
    assert pair[0] == pair[1]


# -- what cannot be -------------------------------------------------------------------------------


def test_queues_that_cannot_be_are_refused_in_words() -> None:
    with pytest.raises(ClusterError, match=r"'a' is a queue on the processors of 'b' and has 4"):
        Partition("a", 4, on="b")
    with pytest.raises(ClusterError, match=r"'a': procs is 0; allowed are whole numbers from 1"):
        Partition("a")
    with pytest.raises(ClusterError, match=r"'short' is a queue on .* processors: big\."):
        ClusterSpec((SHORT, Partition("big", 10)))
    with pytest.raises(ClusterError, match=r"partitions with processors: main\."):
        ClusterSpec((MAIN, SHORT, Partition("shorter", on="short")))
    with pytest.raises(ClusterError, match=r"tier is -1; allowed are whole numbers from 0"):
        Partition("a", 4, tier=-1)
    with pytest.raises(ClusterError, match=r"running_per_user is 0; allowed are whole"):
        Partition("a", 4, running_per_user=0)
    with pytest.raises(ClusterError, match=r"'spare' is preemptible .* give 'main' a higher tier"):
        ClusterSpec((SPARE, replace(MAIN, tier=0)))


def test_limits_need_users() -> None:
    limited = replace(MAIN, running_per_user=1)
    with pytest.raises(ScenarioError, match=r"job 1 of .* has no known user.*\(2 such jobs\)"):
        check_scenario(scenario_of([(0, 1, 1), (0, 1, 1)], limited))


def test_windows_that_cannot_be_are_refused_in_words() -> None:
    jobs: Rows = [(0, 1, 1)]
    with pytest.raises(UnknownNameError, match=r"no kind of capacity window 'broken'"):
        replace(ALL, kind="broken")
    with pytest.raises(ScenarioError, match=r"'maintenance' on 'main': it is from 10 to 10 s"):
        replace(ALL, until_s=10)
    with pytest.raises(ScenarioError, match=r"procs is 0; allowed are whole numbers from 1"):
        replace(ALL, procs=0)
    with pytest.raises(ScenarioError, match=r"no partition of that name .* processors: main\."):
        scenario_of(jobs, SHORT, MAIN, windows=(replace(ALL, partition="short"),))
    with pytest.raises(ScenarioError, match=r"15 s all windows together take 16 processors of 10"):
        scenario_of(jobs, windows=(ALL, replace(SOME, from_s=15)))
    assert scenario_of(jobs, windows=(ALL, replace(ALL, from_s=20, until_s=21))).windows


def test_rules_refuse_what_they_cannot() -> None:
    jobs: Rows = [(0, 1, 1)]
    with pytest.raises(ScenarioError, match=r"'spare' is preemptible, but backfill 'conservative'"):
        check_scenario(scenario_of(jobs, SPARE, MAIN, backfill="conservative"))
    with pytest.raises(ScenarioError, match=r"option 'extra_processors' .* capacity windows"):
        check_scenario(scenario_of(jobs, windows=(ALL,), options={"extra_processors": 0}))
    check_scenario(scenario_of(jobs, windows=(ALL,), options={"actual_times": 1}))
    nodes = ClusterSpec((SPARE, MAIN)).in_machines_of(5)
    for more in ({"cluster": nodes}, {"windows": (ALL,)}):
        with pytest.raises(ScenarioError, match=r"allocation is 'whole_nodes' but "):
            replace(scenario_of(jobs), allocation="whole_nodes", **more)
    for scenario in (scenario_of(jobs, windows=(ALL,)), scenario_of(jobs, SPARE, MAIN)):
        with pytest.raises(EngineError, match="explained so far"):
            explain_start(scenario, 1)


def test_all_of_it_decides_the_digest() -> None:
    base = scenario_of([(0, 1, 1)])
    others = [
        replace(base, windows=(ALL,)),
        replace(base, windows=(SOME,)),
        replace(base, cluster=ClusterSpec((SHORT, MAIN))),
        replace(base, cluster=ClusterSpec((replace(MAIN, running_per_user=3),))),
        replace(base, cluster=ClusterSpec((replace(MAIN, preemptible=True),))),
        replace(base, cluster=ClusterSpec((replace(MAIN, tier=5),))),
    ]
    assert len({one.digest for one in (base, *others)}) == 7
