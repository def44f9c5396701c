"""Why a job started when it did: against the kernel, the definition and the schedule itself."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sim import ClusterSpec, Scenario, simulate
from sim.engines.process import run
from sim.explain import JobExplanation, explain_start, reservation
from sim.generators import default_workload
from sim.kernel.pool import Pool
from sim.model.admission import admit
from sim.model.errors import EngineError
from sim.model.result import SimulationResult
from sim.policies.orders import order_named
from tests.draw.workloads import plain_scenarios, scenarios


class Comparison:
    """A witness that compares each reservation that the kernel made with the explanation's."""

    def __init__(self) -> None:
        self.n_compared = 0

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        pass

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        here = pool.partitions[k]
        if here.head >= here.tail or here.look_from != here.tail:
            return  # nobody waits, or EASY made no reservation, since one waits alone
        head_procs = pool.jobs[pool.queue[here.head]].procs
        if head_procs <= here.free:
            return
        before = repr([(job.place, job.estimated_end_s) for job in listed(pool, k)])
        assert reservation(pool, k, head_procs) == (here.shadow_s, here.extra)
        assert reservation(pool, k, head_procs) == by_definition(pool, k, head_procs)
        assert repr([(job.place, job.estimated_end_s) for job in listed(pool, k)]) == before
        self.n_compared += 1


def listed(pool: Pool, k: int) -> list[Any]:
    here = pool.partitions[k]
    slots = pool.running[here.first : here.first + here.n_listed]
    return [pool.jobs[row] for row in slots if row >= 0]


def by_definition(pool: Pool, k: int, procs: int) -> tuple[float, int]:
    """The first estimated end by which enough is free, and what is free then beyond the width."""
    jobs = listed(pool, k)
    for end_s in sorted({job.estimated_end_s for job in jobs}):
        free = pool.partitions[k].free
        free += sum(job.procs for job in jobs if job.estimated_end_s <= end_s)
        if free >= procs:
            return end_s, free - procs
    raise AssertionError("all processors together are not enough")


@given(plain_scenarios())
def test_reservations_are_those_of_the_kernel_and_of_the_definition(scenario: Scenario) -> None:
    easy = Scenario(scenario.workload, scenario.cluster, scenario.order, overrun=scenario.overrun)
    result = run(easy, kernel="interpreted", witness=Comparison())
    assert result == simulate(easy, engine="interpreted")


def crowded(order: str = "fcfs", backfill: str = "easy") -> Scenario:
    workload = default_workload(seed=3, n_jobs=400)
    return Scenario(workload, ClusterSpec.single(workload.widest_procs), order, backfill)


def test_there_are_reservations_to_compare() -> None:
    comparison = Comparison()
    run(crowded(), kernel="interpreted", witness=comparison)
    assert comparison.n_compared > 100


@pytest.mark.parametrize("order", ["fcfs", "sjf"])
@pytest.mark.parametrize("backfill", ["none", "easy"])
def test_explanations_agree_with_a_crowded_schedule(order: str, backfill: str) -> None:
    scenario = crowded(order, backfill)
    result = simulate(scenario, engine="interpreted")
    kinds: set[str] = set()
    for row in range(7, scenario.workload.n_jobs, 25):
        explained = explain_start(scenario, int(scenario.workload.job_id[row]))
        check(explained, scenario, result, row)
        kinds |= {phase.reason.kind for phase in explained.phases}
    others = {"behind"} if backfill == "none" else {"too_few_free", "would_delay"}
    assert kinds == {"is_head"} | others


@given(plain_scenarios(most_jobs=12))
@settings(max_examples=40)
def test_explanations_agree_with_the_schedule(scenario: Scenario) -> None:
    result = simulate(scenario, engine="interpreted")
    for row, job_id in enumerate(scenario.workload.job_id.tolist()):
        check(explain_start(scenario, job_id), scenario, result, row)


def check(
    explained: JobExplanation, scenario: Scenario, result: SimulationResult, row: int
) -> None:
    assert explained.job.start_s == result.start_s[row]
    check_phases(explained, scenario)
    check_start(explained)
    check_against(explained, scenario, result, row)


def check_phases(explained: JobExplanation, scenario: Scenario) -> None:
    """The phases are the wait, without a gap, and no reason contradicts its numbers."""
    job, phases = explained.job, explained.phases
    edges = [job.submit_s, *(phase.to_s for phase in phases)]
    assert [phase.from_s for phase in phases] == edges[:-1]
    assert edges[-1] == job.start_s
    kinds = [phase.reason.kind for phase in phases]
    assert all(kind != then for kind, then in pairwise(kinds))
    for phase in phases:
        assert phase.seconds == phase.to_s - phase.from_s > 0
        reason = phase.reason
        if reason.kind == "would_delay":
            assert scenario.backfill == "easy"
            assert reason.least_late_s > 0
            assert 0 <= reason.most_extra_procs < reason.needed_procs == job.procs
        elif reason.kind == "behind":
            assert scenario.backfill == "none"
            assert reason.most_ahead >= 1
        else:
            assert 0 <= reason.most_free_procs < reason.needed_procs == job.procs
        if reason.kind == "is_head" and phase is phases[-1]:
            assert reason.most_free_procs + reason.ended.procs >= job.procs
    has_been_head = "is_head" in kinds
    assert (explained.expectation is not None) == has_been_head
    if explained.expectation is not None and scenario.order == "fcfs":
        assert job.start_s is not None
        assert explained.expectation.expected_s >= job.start_s  # no estimate is too short


def check_start(explained: JobExplanation) -> None:
    start, job = explained.start, explained.job
    assert start is not None
    assert start.free_procs >= job.procs
    assert (start.how == "backfilled") == (start.overtaking is not None)
    if job.wait_s:
        assert start.how != "at_once"
        assert start.ended.n or (start.how == "backfilled" and start.arrived)
    else:
        assert start.how != "in_turn"
    if start.overtaking is None:
        return
    assert explained.backfill == "easy"
    assert start.overtaking.waiting
    reserved = start.overtaking.reservation
    assert reserved is not None
    if start.overtaking.let_in_by == "ends_before_reservation":
        assert start.overtaking.estimated_end_s <= reserved.reserved_s
    else:
        assert start.overtaking.let_in_by == "fits_extra_processors"
        assert start.overtaking.estimated_end_s > reserved.reserved_s
        assert job.procs <= reserved.extra_procs


def check_against(
    explained: JobExplanation, scenario: Scenario, result: SimulationResult, row: int
) -> None:
    """Whom it overtook and who overtook it, and what was free, as starts and ends tell."""
    workload, admission = scenario.workload, admit(scenario)
    key = workload.submit_s if scenario.order == "fcfs" else admission.requested_s
    rank = np.lexsort((workload.job_id, workload.submit_s, key)).argsort()
    here = result.partition == result.partition[row]
    start_s, submit_s = result.start_s[row], workload.submit_s[row]

    better = here & (rank < rank[row]) & (workload.submit_s <= start_s)
    surely = set(workload.job_id[better & (result.start_s > start_s)].tolist())
    perhaps = set(workload.job_id[better & (result.start_s >= start_s)].tolist())
    assert explained.start is not None
    overtaking = explained.start.overtaking
    waiting = {job.job_id for job in overtaking.waiting} if overtaking is not None else set()
    assert surely <= waiting <= perhaps
    assert surely == waiting or (admission.runtime_s == 0).any()

    if explained.job.wait_s:
        ended = here & (result.end_s == start_s)
        n_ended = int((ended & (result.start_s < start_s)).sum())
        assert n_ended <= explained.start.ended.n <= ended.sum()

    overtakers = here & (rank > rank[row]) & (result.start_s >= submit_s)
    overtakers &= result.start_s < start_s
    assert explained.overtaken_by.n == overtakers.sum()
    procs_s = (admission.procs * admission.runtime_s)[overtakers].sum()
    assert explained.overtaken_by.procs_h == pytest.approx(procs_s / 3600)

    preferred = here & (rank < rank[row]) & (workload.submit_s > submit_s)
    preferred &= result.start_s < start_s
    assert explained.preferred.n == preferred.sum()
    procs_s = (admission.procs * admission.runtime_s)[preferred].sum()
    assert explained.preferred.procs_h == pytest.approx(procs_s / 3600)

    size = scenario.cluster.partitions[int(result.partition[row])].procs
    for phase in explained.phases:
        runs = here & (result.start_s <= phase.from_s) & (result.end_s > phase.from_s)
        free = size - int(admission.procs[runs].sum())
        if phase.reason.kind != "would_delay":
            ended = runs & (result.end_s <= phase.to_s)
            assert phase.reason.ended.n == ended.sum()
            assert phase.reason.ended.procs == admission.procs[ended].sum()
        if phase.reason.kind in ("too_few_free", "behind"):
            taken = here & (rank < rank[row]) & (result.start_s > phase.from_s)
            taken &= result.start_s <= phase.to_s
            before = taken & (result.start_s < phase.to_s)
            assert before.sum() <= phase.reason.taken_by.n <= taken.sum()
            if (admission.runtime_s > 0).all():  # or one may start later at the very same time
                assert phase.reason.taken_by.n == taken.sum()
                assert phase.reason.taken_by.procs == admission.procs[taken].sum()
        if phase.reason.kind != "would_delay":
            assert free <= phase.reason.most_free_procs
            continue
        head = int(np.flatnonzero(workload.job_id == phase.reason.heads.named[0].job_id)[0])
        assert rank[head] < rank[row]
        assert result.start_s[head] >= phase.from_s
        ends_s = (result.start_s + admission.estimate_s)[runs]
        freed = [
            (end_s, free + int(admission.procs[runs][ends_s <= end_s].sum()))
            for end_s in sorted(set(ends_s.tolist()))
        ]
        shadow_s = next(end_s for end_s, n in freed if n >= admission.procs[head])
        assert phase.from_s + admission.estimate_s[row] > shadow_s
        assert phase.reason.least_late_s <= phase.from_s + admission.estimate_s[row] - shadow_s


@given(scenarios(most_jobs=8))
@settings(max_examples=30)
def test_every_rule_gets_a_wait_without_a_gap(scenario: Scenario) -> None:
    """What is known of a rule or not: the phases are the wait, and the start is the schedule's."""
    if order_named(scenario.order).score_now is not None:
        with pytest.raises(EngineError, match="ranks the queue anew"):
            explain_start(scenario, int(scenario.workload.job_id[0]))
        return
    result = simulate(scenario, engine="interpreted")
    for row, job_id in enumerate(scenario.workload.job_id.tolist()):
        explained = explain_start(scenario, job_id)
        assert explained.job.start_s == result.start_s[row]
        phases = explained.phases
        edges = [explained.job.submit_s, *(phase.to_s for phase in phases)]
        assert [phase.from_s for phase in phases] == edges[:-1]
        assert edges[-1] == result.start_s[row]
