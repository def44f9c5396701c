"""Slurm's priority, worked by hand; what users have used; and what must be told."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim import ClusterSpec, Partition, Scenario, Workload, simulate
from sim.api import known_options
from sim.engines.process import run
from sim.generators import default_workload
from sim.kernel.fair_share import UserUsage, halved, lost
from sim.kernel.pool import Pool
from sim.model.errors import ClusterError, ScenarioError
from sim.policies.orders import factors, order_named
from sim.policies.policy import JobFacts
from tests.draw.workloads import contended

Rows = list[tuple[float, float, int]]

NO_WEIGHTS = {"age_weight": 0.0, "size_weight": 0.0}
FAIR = {**NO_WEIGHTS, "fairshare_weight": 1000.0}


def starts(
    jobs: Rows,
    *,
    user: list[int] | None = None,
    queue: list[int] | None = None,
    nodes_of: int | None = None,
    **told: object,
) -> list[float]:
    """Simulate (submit, runtime, procs) rows on 10 processors, or on 2 machines; no backfilling."""
    submit_s, runtime_s, widths = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=widths, user=user, queue=queue
    )
    cluster = ClusterSpec.single(10 if nodes_of is None else 2 * nodes_of)
    if nodes_of is not None:
        cluster, told = cluster.in_machines_of(nodes_of), {**told, "allocation": "whole_nodes"}
    scenario = Scenario(workload, cluster, "multifactor", "none", **told)  # type: ignore[arg-type]
    found: list[float] = simulate(scenario, engine="interpreted").start_s.tolist()
    return found


# -- the factors ----------------------------------------------------------------------------------


def test_age_counts_until_it_is_full_and_size_as_part_of_the_cluster() -> None:
    # At 20 the second has waited 19 s and is 4 of 10 wide, the third 9 s and 10 of 10. Age is full
    # after 10 s: 100 + 20 * 0.4 = 108 and 90 + 20 = 110. After 20 s: 95 + 8 = 103 and 45 + 20 = 65.
    jobs: Rows = [(0, 20, 10), (1, 5, 4), (11, 5, 10)]
    weights = {"age_weight": 100, "size_weight": 20}
    assert starts(jobs, options={**weights, "age_max_s": 10}) == [0.0, 25.0, 20.0]
    assert starts(jobs, options={**weights, "age_max_s": 20}) == [0.0, 20.0, 25.0]


def test_narrow_jobs_can_be_favoured() -> None:
    # 20 * 10/10 against 20 * 2/10; favoured, 20 * (1 - 10/10) = 0 against 20 * (1 - 2/10) = 16.
    jobs: Rows = [(0, 20, 10), (1, 5, 10), (1, 5, 2)]
    told = {"age_weight": 0, "size_weight": 20}
    assert starts(jobs, options=told) == [0.0, 20.0, 25.0]
    assert starts(jobs, options={**told, "favor_small": 1}) == [0.0, 25.0, 20.0]


def test_a_priority_is_a_whole_number_and_ties_fall_to_the_submission() -> None:
    # 4/10 and 9/10 of 1 point are none; of 10 points they are 4 and 9.
    jobs: Rows = [(0, 20, 10), (1, 5, 4), (2, 5, 9)]
    assert starts(jobs, options={**NO_WEIGHTS, "size_weight": 1}) == [0.0, 20.0, 25.0]
    assert starts(jobs, options={**NO_WEIGHTS, "size_weight": 10}) == [0.0, 25.0, 20.0]


def test_rounding_errors_decide_nothing() -> None:
    # 10 points after 1 s: 0.8 s are 8 points, though 0.1 + 0.7 is less than 0.8.
    assert 0.1 + 0.7 < 0.8
    score_now = order_named("multifactor").score_now
    assert score_now is not None
    assert score_now(0.1 + 0.7, 1, 0.0, 1.0, [10.0, 1.0, 0.0, 0.0, 0.0, 0.0]) == -8
    assert score_now(0.799, 1, 0.0, 1.0, [10.0, 1.0, 0.0, 0.0, 0.0, 0.0]) == -7


def test_queues_have_the_priorities_that_were_told() -> None:
    # 100 * 10/40 = 25, 100 * 40/40 = 100, and nothing for queue 3.
    jobs: Rows = [(0, 20, 10), (1, 5, 10), (2, 5, 10), (3, 5, 10)]
    told = {**NO_WEIGHTS, "qos_weight": 100}
    found = starts(jobs, queue=[1, 3, 1, 2], options=told, qos_priority={1: 10, 2: 40})
    assert found == [0.0, 30.0, 25.0, 20.0]


def test_partitions_have_priorities() -> None:
    # 100 * 1/4 and 100 * 4/4; by whose priority everything is divided does not run here.
    cluster = ClusterSpec((Partition("a", 5), Partition("b", 5, priority=4)))
    facts = JobFacts(
        submit_s=np.zeros(3),
        requested_s=np.ones(3),
        procs=np.ones(3, dtype=np.int64),
        partition=np.array([0, 1, 1]),
        queue=np.full(3, -1),
        cluster=cluster,
        qos_priority={},
        options={"size_weight": 0, "favor_small": 0, "partition_weight": 100, "qos_weight": 0},
    )
    assert factors(order_named("multifactor"), facts).tolist() == [25.0, 100.0, 100.0]


# -- fair share -----------------------------------------------------------------------------------

TURNS: Rows = [(0, 10, 10), (1, 10, 10), (2, 10, 10), (3, 10, 10), (4, 10, 10)]
WHOSE = [1, 2, 2, 1, 3]
"""At 10 user 1 has had everything for 10 s, and the second job starts: user 2 has had nothing."""


def test_what_was_used_counts_half_after_every_half_life() -> None:
    # Users 1 to 3 are due 1/3 each. With a half-life of 10 s, at 20 the usages are as 1/2 to 1, in
    # parts 1/3 and 2/3: factors 2^-1 and 2^-2, and 1 for user 3, who starts. At 30 they are as
    # 1/4 to 1/2 to 1, parts 1/7 and 2/7: 2^(-3/7) = 0.743 and 2^(-6/7) = 0.552. User 1 goes first.
    found = starts(TURNS, user=WHOSE, options={**FAIR, "half_life_s": 10})
    assert found == [0.0, 10.0, 40.0, 30.0, 20.0]


def test_without_a_half_life_nothing_is_forgotten() -> None:
    # At 30 users 1 and 2 have used 100 processor-seconds each: a tie, which falls to job 3.
    found = starts(TURNS, user=WHOSE, options={**FAIR, "half_life_s": 0})
    assert found == [0.0, 10.0, 30.0, 40.0, 20.0]


def test_shares_say_what_is_due() -> None:
    # User 2 is due 4/6, the others 1/6. At 30, as above, 2^(-6/7) = 0.552 for user 1 now, and
    # 2^(-2/7 * 6/4) = 2^(-3/7) = 0.743 for user 2.
    told = {"options": {**FAIR, "half_life_s": 10}, "shares": {2: 4.0}}
    assert starts(TURNS, user=WHOSE, **told) == [0.0, 10.0, 30.0, 40.0, 20.0]


def test_a_job_that_still_runs_has_used_something() -> None:
    # At 10 user 1 has had 5 processors for 10 s and goes on; user 2 had 4.
    jobs: Rows = [(0, 100, 5), (0, 10, 4), (1, 10, 5), (2, 10, 5)]
    assert starts(jobs, user=[1, 2, 1, 2], options={**FAIR, "half_life_s": 0}) == [0, 0, 20, 10]


def test_whole_machines_are_used_as_a_whole() -> None:
    # 1 processor and 3, but a machine of 4 each: a tie.
    jobs: Rows = [(0, 10, 1), (0, 10, 3), (1, 10, 8), (2, 10, 8)]
    told = {**FAIR, "half_life_s": 0}
    assert starts(jobs, user=[1, 2, 2, 1], options=told, nodes_of=4) == [0, 0, 10, 20]
    jobs = [(0, 10, 4), (0, 10, 6), (1, 10, 10), (2, 10, 10)]
    assert starts(jobs, user=[1, 2, 2, 1], options=told) == [0, 0, 20, 10]


@given(st.floats(0, 2000))
def test_halving_is_right_to_the_last_digits(x: float) -> None:
    assert halved(x) == pytest.approx(2.0**-x, rel=1e-15)
    assert lost(x) == pytest.approx(-math.expm1(-x * math.log(2)), rel=1e-15)


def test_halving_whole_half_lives_is_exact() -> None:
    assert [halved(x) for x in (0.0, 1.0, 2.0, 1074.0, math.inf)] == [1, 0.5, 0.25, 2.0**-1074, 0]


def usage_at(user: UserUsage, now_s: float) -> float:
    """The usage of a user, carried on to a time."""
    passed_s = now_s - user.last_s
    if user.half_life_s == 0:
        return user.usage + user.held * passed_s
    rate = math.log(2) / user.half_life_s
    return user.usage * math.exp(-rate * passed_s) - user.held / rate * math.expm1(-rate * passed_s)


class Ledger:
    """A witness: everybody's usage is that of all users, and everybody holds what is not free."""

    def __init__(self, total: int) -> None:
        self.total, self.n_seen = total, 0

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        pass

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        *users, everybody = pool.fair.users
        assert everybody.held == sum(user.held for user in users)
        assert everybody.held == self.total - pool.partitions[0].free
        used = sum(usage_at(user, now_s) for user in users)
        assert usage_at(everybody, now_s) == pytest.approx(used, rel=1e-9)
        self.n_seen += used > 0


@pytest.mark.parametrize("seed", range(6))
def test_usage_adds_up(seed: int) -> None:
    workload = default_workload(seed=seed, n_jobs=150)
    scenario = Scenario(workload, ClusterSpec.single(workload.widest_procs))
    ledger = Ledger(workload.widest_procs)
    run(contended(scenario, seed), kernel="interpreted", witness=ledger)
    assert ledger.n_seen > 150


def test_one_user_alone_changes_nothing() -> None:
    workload = replace(default_workload(seed=2, n_jobs=200), user=np.full(200, 7))
    cluster = ClusterSpec.single(workload.widest_procs)
    fair, plain = (
        simulate(
            Scenario(workload, cluster, "multifactor", options={"fairshare_weight": weight}),
            engine="interpreted",
        ).start_s.tolist()
        for weight in (2000, 0)  # halves of it are whole: nothing else is rounded
    )
    assert fair == plain


# -- what must be told ----------------------------------------------------------------------------


def test_what_a_weight_needs_must_be_told() -> None:
    workload, cluster = default_workload(seed=1, n_jobs=5), ClusterSpec.single(128)
    bare = replace(workload, queue=np.full(5, -1))

    def tried(jobs: Workload = workload, **told: object) -> None:
        scenario = Scenario(jobs, cluster, "multifactor", **told)  # type: ignore[arg-type]
        simulate(scenario, engine="interpreted")

    tried()
    with pytest.raises(ScenarioError, match=r"fairshare_weight is 9 but .* has no known users"):
        tried(options={"fairshare_weight": 9})
    with pytest.raises(ScenarioError, match=r"qos_weight is 9 but no queue has a priority"):
        tried(options={"qos_weight": 9})
    with pytest.raises(ScenarioError, match=r"qos_weight is 9 but .* has no known queues"):
        tried(bare, options={"qos_weight": 9}, qos_priority={1: 2})
    with pytest.raises(ScenarioError, match=r"'age_max_s' .* is 0; allowed are numbers from 1"):
        tried(options={"age_max_s": 0})


def test_priorities_and_shares_are_checked_in_words() -> None:
    workload, cluster = default_workload(seed=1, n_jobs=5), ClusterSpec.single(128)
    for told, words in (
        ({"qos_priority": {1: -1}}, r"qos_priority of queue 1 is -1; allowed are numbers from 0"),
        ({"qos_priority": {1: math.nan}}, r"queue 1 is nan; allowed are numbers from 0 to 9\.0"),
        ({"qos_priority": {"long": 1}}, r"queue 'long'; allowed are whole numbers from -1"),
        ({"shares": {3: 0}}, r"shares of user 3 is 0; allowed are numbers above 0"),
        ({"shares": {-2: 1}}, r"shares of user -2; allowed are whole numbers from -1"),
    ):
        with pytest.raises(ScenarioError, match=words):
            Scenario(workload, cluster, **told)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"'a': priority is -1; allowed are whole numbers from"):
        Partition("a", 1, priority=-1)


def test_priorities_and_shares_decide_the_digest() -> None:
    workload = default_workload(seed=1, n_jobs=5)
    scenarios = [
        Scenario(workload, ClusterSpec.single(128)),
        Scenario(workload, ClusterSpec((Partition("main", 128, priority=2),))),
        Scenario(workload, ClusterSpec.single(128), qos_priority={1: 2}),
        Scenario(workload, ClusterSpec.single(128), qos_priority={1: 3}),
        Scenario(workload, ClusterSpec.single(128), shares={1: 3}),
    ]
    assert len({scenario.digest for scenario in scenarios}) == len(scenarios)


def test_options_bear_the_names_of_slurm() -> None:
    told = {option.name: option.summary for option in known_options("order", "multifactor")}
    for name, of in {
        "age_weight": "PriorityWeightAge",
        "age_max_s": "PriorityMaxAge",
        "size_weight": "PriorityWeightJobSize",
        "partition_weight": "PriorityWeightPartition",
        "qos_weight": "PriorityWeightQOS",
        "fairshare_weight": "PriorityWeightFairshare",
        "half_life_s": "PriorityDecayHalfLife",
        "calc_period_s": "PriorityCalcPeriod",
        "fair_tree": "PriorityFlags",
        "favor_small": "PriorityFavorSmall",
    }.items():
        assert of in told.pop(name)
    assert not told


@pytest.mark.parametrize("backfill", ["easy", "conservative"])
def test_ranking_only_changed_jobs_gives_the_starts_of_ranking_all(backfill: str) -> None:
    # Fair shares of every decision make it rank all jobs; of this weight they change no priority.
    drawn = default_workload(0, 150)
    workload = Workload.from_arrays(
        submit_s=np.round(drawn.submit_s / 4.0),
        runtime_s=drawn.runtime_s,
        requested_s=drawn.requested_s,
        procs=drawn.procs,
        user=np.arange(150) % 7,
    )
    cluster = ClusterSpec.single(int(drawn.procs.max()))
    starts = [
        simulate(
            Scenario(workload, cluster, "multifactor", backfill, options={"fairshare_weight": w}),
            engine="interpreted",
        ).start_s
        for w in (0.0, 1e-9)
    ]
    np.testing.assert_array_equal(*starts)
