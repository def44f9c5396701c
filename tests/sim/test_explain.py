"""Why a job started when it did: schedules worked by hand."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from sim import ClusterSpec, Partition, Scenario, Workload
from sim.api import MachineSpec
from sim.explain import (
    BlockedByHead,
    HeadOfQueue,
    JobExplanation,
    ReservationDelay,
    TooFewProcessors,
    WaitPhase,
    explain_start,
)
from sim.model.errors import EngineError, UnknownNameError, WorkloadError
from sim.policies.backfills import BACKFILLS, backfill_named


def scenario_of(
    jobs: list[tuple[float, float, int]],
    requested: list[float] | None = None,
    procs: int = 10,
    cluster: ClusterSpec | None = None,
    **policy: Any,
) -> Scenario:
    """Return a scenario of (submit, runtime, procs) rows, numbered from 1."""
    submit_s, runtime_s, widths = zip(*jobs, strict=True)
    workload = Workload.from_arrays(
        submit_s=submit_s, runtime_s=runtime_s, procs=widths, requested_s=requested
    )
    return Scenario(workload, cluster or ClusterSpec.single(procs), **policy)


def only(explained: JobExplanation) -> WaitPhase:
    (phase,) = explained.phases
    return phase


def spans(explained: JobExplanation) -> list[tuple[float, float, str]]:
    return [(phase.from_s, phase.to_s, phase.reason.kind) for phase in explained.phases]


def test_a_job_that_finds_room_starts_at_once() -> None:
    explained = explain_start(scenario_of([(0, 10, 6), (1, 5, 4)]), 2)
    assert explained.phases == ()
    assert explained.start is not None
    assert (explained.start.how, explained.start.free_procs) == ("at_once", 4)
    assert explained.start.overtaking is None
    assert (explained.job.start_s, explained.job.wait_s, explained.job.end_s) == (1.0, 0.0, 6.0)
    assert (explained.job.partition, explained.job.state) == ("main", "completed")


def test_the_head_waits_for_running_jobs_and_its_turn_comes_as_they_end() -> None:
    # 2 wants all 10: job 1 (3 processors) ends at 10, job 2 (4) at 20; 3 are free all the time.
    explained = explain_start(scenario_of([(0, 10, 3), (0, 20, 4), (1, 5, 10)]), 3)
    phase = only(explained)
    assert (phase.from_s, phase.to_s, phase.seconds) == (1.0, 20.0, 19.0)
    assert isinstance(phase.reason, HeadOfQueue)
    assert (phase.reason.needed_procs, phase.reason.most_free_procs) == (10, 6)
    assert (phase.reason.ended.n, phase.reason.ended.procs) == (2, 7)
    assert [job.job_id for job in phase.reason.ended.named] == [2, 1]  # the widest first
    assert explained.start is not None
    assert (explained.start.how, explained.start.free_procs) == ("in_turn", 10)
    assert [job.job_id for job in explained.start.ended.named] == [2]
    assert explained.expectation is not None
    assert (explained.expectation.seen_s, explained.expectation.expected_s) == (1.0, 20.0)


def test_without_backfilling_a_job_waits_behind_the_head() -> None:
    explained = explain_start(scenario_of([(0, 10, 6), (1, 5, 6), (2, 1, 1)], backfill="none"), 3)
    phase = only(explained)
    assert (phase.from_s, phase.to_s) == (2.0, 10.0)
    assert isinstance(phase.reason, BlockedByHead)
    assert [head.job_id for head in phase.reason.heads.named] == [2]
    assert (phase.reason.most_free_procs, phase.reason.most_ahead) == (4, 1)
    assert explained.start is not None
    assert explained.start.how == "in_turn"
    assert explained.start.free_procs == 4  # job 2 has taken its 6 of 10 before


def test_backfilled_since_it_ends_by_the_reservation() -> None:
    explained = explain_start(scenario_of([(0, 10, 6), (1, 5, 6), (2, 8, 4)]), 3)
    assert explained.phases == ()
    assert explained.start is not None
    overtaking = explained.start.overtaking
    assert overtaking is not None
    assert explained.start.how == "backfilled"
    assert [(job.job_id, job.procs, job.waited_s) for job in overtaking.waiting] == [(2, 6, 1.0)]
    assert overtaking.estimated_end_s == 10.0
    assert overtaking.let_in_by == "ends_before_reservation"
    assert overtaking.reservation is not None
    assert asdict(overtaking.reservation) == {
        "job_id": 2, "procs": 6, "reserved_s": 10.0, "extra_procs": 4,
    }  # fmt: skip


EXTRA = [(0.0, 10.0, 6), (1.0, 5.0, 7), (2.0, 100.0, 2), (3.0, 100.0, 2), (4.0, 100.0, 1)]
"""At 10 all are free and the head takes 7: 3 are extra, 2 for job 3, 1 for job 5, none for 4."""


def test_backfilled_since_it_fits_into_the_extra_processors() -> None:
    for job_id, extra_procs in ((3, 3), (5, 1)):
        start = explain_start(scenario_of(EXTRA), job_id).start
        assert start is not None
        assert start.overtaking is not None
        assert start.overtaking.let_in_by == "fits_extra_processors"
        assert start.overtaking.reservation is not None
        assert start.overtaking.reservation.extra_procs == extra_procs
        waiting = [job.job_id for job in start.overtaking.waiting]
        assert waiting == ([2] if job_id == 3 else [2, 4])


def test_a_job_that_would_delay_the_reservation_waits_and_is_overtaken() -> None:
    explained = explain_start(scenario_of(EXTRA), 4)
    assert spans(explained) == [(3.0, 10.0, "would_delay"), (10.0, 15.0, "is_head")]
    reason = explained.phases[0].reason
    assert isinstance(reason, ReservationDelay)
    assert (reason.needed_procs, reason.most_extra_procs, reason.most_ahead) == (2, 1, 1)
    assert (reason.least_late_s, reason.reserved_s) == (93.0, 10.0)
    assert reason.in_time_by_runtime_s is None
    assert [(head.job_id, head.start_s) for head in reason.heads.named] == [(2, 10.0)]
    assert explained.overtaken_by.n == 1
    assert explained.overtaken_by.procs_h == 100 / 3600
    assert [job.job_id for job in explained.overtaken_by.named] == [5]


def test_a_request_that_is_too_long_is_named_where_the_run_time_would_have_done() -> None:
    jobs = [(0.0, 10.0, 4), (1.0, 5.0, 7), (2.0, 3.0, 4)]
    explained = explain_start(scenario_of(jobs, requested=[10, 5, 20]), 3)
    reason = explained.phases[0].reason
    assert isinstance(reason, ReservationDelay)
    assert (reason.least_late_s, reason.most_extra_procs) == (12.0, 3)
    assert reason.in_time_by_runtime_s == 2.0
    assert explained.job.start_s == 15.0


def test_too_few_free_processors() -> None:
    explained = explain_start(scenario_of([(0, 10, 6), (1, 5, 6), (2, 8, 5)]), 3)
    assert spans(explained) == [(2.0, 10.0, "too_few_free"), (10.0, 15.0, "is_head")]
    reason = explained.phases[0].reason
    assert isinstance(reason, TooFewProcessors)
    assert (reason.needed_procs, reason.most_free_procs, reason.most_ahead) == (5, 4, 1)


def test_the_reservation_was_late_since_the_estimate_of_a_running_job_was_too_long() -> None:
    explained = explain_start(scenario_of([(0, 10, 6), (1, 5, 6)], requested=[100, 5]), 2)
    assert explained.expectation is not None
    assert (explained.expectation.seen_s, explained.expectation.expected_s) == (1.0, 100.0)
    assert explained.job.start_s == 10.0
    reason = only(explained).reason
    assert isinstance(reason, HeadOfQueue)
    assert [(job.end_s, job.estimated_end_s) for job in reason.ended.named] == [(10.0, 100.0)]


def test_under_sjf_a_shorter_job_comes_ahead_and_is_no_overtaker() -> None:
    jobs = [(0, 10, 10), (1, 3, 10), (2, 2, 10), (3, 2, 10)]
    explained = explain_start(scenario_of(jobs, order="sjf", backfill="none"), 2)
    assert spans(explained) == [(1, 2, "is_head"), (2, 12, "behind"), (12, 14, "is_head")]
    reason = explained.phases[1].reason
    assert isinstance(reason, BlockedByHead)
    assert [head.job_id for head in reason.heads.named] == [3, 4]
    assert reason.most_ahead == 2
    assert [job.job_id for job in reason.ended.named] == [1]
    assert [job.job_id for job in reason.taken_by.named] == [3, 4]  # at 10, and at 12 as it ends
    assert explained.overtaken_by.n == 0
    assert [job.job_id for job in explained.preferred.named] == [3, 4]
    assert explained.preferred.procs_h == 40 / 3600
    assert explained.expectation is not None
    assert explained.expectation.expected_s == 10.0  # but others came ahead of it: 14


def test_whom_it_waited_for_and_who_took_what_came_free() -> None:
    # Shortest first: 5, 3, 4, 6. At 10 job 1 gives 4 back: 5, submitted later than 4, takes 3, and
    # 3 is reserved for 15, no processor extra. At 15 job 5 ends and 3 takes its 4; 4 is the head,
    # reserved for 30, 4 extra. At 27 job 3 ends and 6 takes one of these. At 30 job 2 ends.
    jobs = [(0, 10, 4), (0, 30, 6), (1, 12, 4), (2, 20, 6), (3, 5, 3), (4, 25, 1)]
    explained = explain_start(scenario_of(jobs, order="sjf"), 4)
    assert spans(explained) == [(2, 15, "too_few_free"), (15, 30, "is_head")]
    few, head = (phase.reason for phase in explained.phases)
    assert isinstance(few, TooFewProcessors)
    assert (few.most_free_procs, few.most_ahead) == (1, 2)
    assert [job.job_id for job in few.ended.named] == [1]  # 5 began and ended meanwhile
    assert [job.job_id for job in few.taken_by.named] == [3, 5]  # the widest first
    assert (few.taken_by.n, few.taken_by.procs) == (2, 7)
    assert isinstance(head, HeadOfQueue)
    assert [job.job_id for job in head.ended.named] == [2, 3]
    assert [job.job_id for job in explained.preferred.named] == [5]  # 3 was there before
    assert explained.preferred.procs_h == 15 / 3600
    assert [job.job_id for job in explained.overtaken_by.named] == [6]
    assert explained.overtaken_by.procs_h == 25 / 3600


def test_an_arrival_can_let_a_job_in_by_moving_the_reservation() -> None:
    # 3 of 10 are free. Job 3 is reserved for 10, 1 extra: job 4 (2 processors for 30 s) would
    # delay it. At 3 comes job 5, which needs all: reserved for 100, and 3 + 30 is before that.
    jobs = [(0.0, 10.0, 6), (0.0, 100.0, 1), (1.0, 5.0, 8), (2.0, 30.0, 2), (3.0, 1.0, 10)]
    jobs.append((3.0, 200.0, 9))  # comes too, but at the end of the queue
    explained = explain_start(scenario_of(jobs, order="sjf"), 4)
    assert spans(explained) == [(2.0, 3.0, "would_delay")]
    start = explained.start
    assert start is not None
    assert start.how == "backfilled"
    assert start.ended.n == 0
    assert [job.job_id for job in start.arrived] == [5]
    assert start.overtaking is not None
    assert [job.job_id for job in start.overtaking.waiting] == [5, 3]
    assert start.overtaking.reservation is not None
    assert start.overtaking.reservation.reserved_s == 100.0


def test_jobs_without_run_time_begin_and_end_in_one_instant() -> None:
    explained = explain_start(scenario_of([(0, 0, 10), (0, 0, 10), (0, 1, 10)], backfill="none"), 3)
    assert explained.phases == ()
    assert explained.start is not None
    assert explained.start.how == "at_once"
    explained = explain_start(scenario_of([(0, 5, 10), (1, 0, 10), (2, 1, 10)]), 3)
    assert spans(explained) == [(2.0, 5.0, "too_few_free")]
    assert explained.start is not None
    assert explained.start.ended.n == 2
    assert explained.start.how == "in_turn"


def test_a_clipped_job_is_explained_as_the_scheduler_got_it() -> None:
    scenario = scenario_of([(0, 5, 4), (1, 10, 8)], procs=4, too_wide="clip")
    explained = explain_start(scenario, 2)
    assert (explained.job.logged_procs, explained.job.procs) == (8, 4)
    assert (explained.job.runtime_s, explained.job.start_s) == (20.0, 5.0)
    reason = only(explained).reason
    assert isinstance(reason, HeadOfQueue)
    assert reason.needed_procs == 4


def test_a_rejected_job_is_told_why_it_fits_nowhere() -> None:
    cluster = ClusterSpec((Partition("short", 8, max_requested_s=50), Partition("wide", 4)))
    scenario = scenario_of([(0, 1, 1), (1, 100, 6)], cluster=cluster, too_wide="reject")
    explained = explain_start(scenario, 2)
    assert explained.start is None
    assert explained.job.state == "rejected"
    assert (explained.job.partition, explained.job.wait_s) == (None, None)
    reasons = [(each.partition, each.too_wide, each.too_long) for each in explained.refusals]
    assert reasons == [("short", False, True), ("wide", True, False)]
    assert explain_start(scenario, 1).refusals == ()


def test_only_jobs_of_the_same_partition_count() -> None:
    cluster = ClusterSpec((Partition("short", 4, max_requested_s=50), Partition("long", 4)))
    jobs = [(0.0, 100.0, 4), (1.0, 10.0, 4), (2.0, 60.0, 4), (3.0, 1.0, 4), (100.0, 1.0, 1)]
    explained = explain_start(scenario_of(jobs, requested=[100, 10, 60, 1, 1], cluster=cluster), 3)
    assert explained.job.partition == "long"
    reason = only(explained).reason
    assert isinstance(reason, HeadOfQueue)
    assert [job.job_id for job in reason.ended.named] == [1]
    assert explained.overtaken_by.n == 0
    explained = explain_start(scenario_of(jobs, requested=[100, 10, 60, 1, 1], cluster=cluster), 4)
    assert (explained.job.partition, explained.job.start_s) == ("short", 11.0)


def test_a_job_past_its_request_is_reckoned_with_as_the_scenario_says() -> None:
    jobs, requested = [(0.0, 10.0, 10), (1.0, 5.0, 10)], [4.0, 2.0]
    raised = explain_start(scenario_of(jobs, requested=requested), 2)
    assert (raised.job.requested_s, raised.job.estimate_s, raised.job.runtime_s) == (2, 5, 5)
    assert raised.expectation is not None
    assert raised.expectation.expected_s == 10.0
    killed = explain_start(scenario_of(jobs, requested=requested, overrun="kill"), 2)
    assert (killed.job.state, killed.job.runtime_s, killed.job.start_s) == ("killed", 2.0, 4.0)
    assert killed.expectation is not None
    assert killed.expectation.expected_s == 4.0


def test_unknown_names_and_jobs_are_answered_in_a_sentence() -> None:
    scenario = scenario_of([(0, 1, 1), (1, 1, 1), (2, 1, 1)])
    with pytest.raises(WorkloadError, match=r"no job 7 among the 3 jobs .* 1 to 3; the nearest: 3"):
        explain_start(scenario, 7)
    with pytest.raises(WorkloadError, match="no job a number of more than 30 digits"):
        explain_start(scenario, 10**40)
    with pytest.raises(UnknownNameError, match="did you mean 'easy'"):
        explain_start(scenario_of([(0, 1, 1)], backfill="eazy"), 1)


def test_a_rule_that_is_not_known_here_gets_the_reasons_that_fit_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = replace(backfill_named("easy"), name="other", reserves_for_head=False)
    monkeypatch.setattr("sim.policies.backfills.BACKFILLS", (*BACKFILLS, other))
    scenario = scenario_of(EXTRA, backfill="other")
    explained = explain_start(scenario, 4)
    assert spans(explained) == [(3.0, 10.0, "behind"), (10.0, 15.0, "is_head")]
    reason = explained.phases[0].reason
    assert isinstance(reason, BlockedByHead)
    assert reason.most_free_procs == 2
    start = explain_start(scenario, 3).start
    assert start is not None
    assert start.how == "backfilled"
    assert start.overtaking is not None
    assert [job.job_id for job in start.overtaking.waiting] == [2]
    assert (start.overtaking.reservation, start.overtaking.let_in_by) == (None, None)
    few = explain_start(scenario_of([(0, 10, 6), (1, 5, 6), (2, 8, 5)], backfill="other"), 3)
    assert few.phases[0].reason.kind == "too_few_free"


def test_whole_nodes_are_not_explained_yet() -> None:
    cluster = ClusterSpec((Partition.of_machines("main", [MachineSpec("m", 2, count=5)]),))
    with pytest.raises(EngineError, match="'whole_nodes', and only allocation='processors' can"):
        explain_start(scenario_of([(0, 1, 1)], cluster=cluster, allocation="whole_nodes"), 1)
