"""The wait of a job cut into phases, each with its reason."""

from bisect import bisect_right
from itertools import groupby, pairwise
from operator import itemgetter

from sim.engine.explain.schedule import Schedule
from sim.engine.explain.values import (
    Behind,
    ExplainedJob,
    IsHead,
    Phase,
    Reason,
    TooFewFree,
    WouldDelay,
)
from sim.engine.explain.watching import Look, Watch

Span = tuple[Look, float]
"""A decision that left the job waiting, and the time of the next one."""


def spans_of(looks: list[Look]) -> list[Span]:
    """Return the looks that lasted, each with its end; of an instant that is the last one."""
    return [(look, then.now_s) for look, then in pairwise(looks) if then.now_s > look.now_s]


def phases_of(
    spans: list[Span], job: ExplainedJob, backfill: str, watch: Watch, schedule: Schedule
) -> tuple[Phase, ...]:
    """Return the phases: adjacent spans with the same kind of reason are one.

    Args:
        spans: in order of time, without gaps.
        job: who waits.
        backfill: name of the rule.
        watch: saw who started ahead of it in its partition.
        schedule: who ran when.
    """
    phases: list[Phase] = []
    if not spans:
        return ()
    ends = schedule.ends(watch.partition, spans[0][0].now_s, spans[-1][1])
    for kind, group in groupby(spans, key=lambda span: _kind(span[0], job.procs, backfill)):
        same = list(group)
        from_s, to_s = same[0][0].now_s, same[-1][1]
        looks = [look for look, _ in same]
        most_free, most_ahead = _most_free(looks), _most_ahead(looks)
        ended = schedule.jobs(schedule.ended(ends, from_s, to_s), by="procs")
        first, after = (bisect_right(watch.passed, at, key=itemgetter(0)) for at in (from_s, to_s))
        taken = (row for _, row in watch.passed[first:after])
        reason: Reason
        if kind == "is_head":
            reason = IsHead(job.procs, most_free, ended)
        elif kind == "too_few_free":
            taken_by = schedule.jobs(taken, by="procs")
            reason = TooFewFree(job.procs, most_free, most_ahead, ended, taken_by)
        elif kind == "behind":
            heads = schedule.heads((look.ahead[0], look.now_s) for look in looks)
            reason = Behind(heads, most_free, most_ahead, ended, schedule.jobs(taken, by="procs"))
        else:
            reason = _would_delay(looks, job, schedule)
        phases.append(Phase(from_s, to_s, to_s - from_s, reason))
    return tuple(phases)


def _kind(look: Look, procs: int, backfill: str) -> str:
    """Return why a decision did not start the job.

    Without backfilling it does not matter how many processors are free for one who is not the
    head; with any rule nobody starts on too few. What else forbids it is known of EASY alone.
    """
    if not look.ahead:
        return "is_head"
    if backfill != "none" and look.free_procs < procs:
        return "too_few_free"
    return "behind" if look.held is None else "would_delay"


def _would_delay(looks: list[Look], job: ExplainedJob, schedule: Schedule) -> WouldDelay:
    held = [(look.now_s, look.held) for look in looks if look.held is not None]
    late_s, reserved_s = min(
        (now_s + job.estimate_s - each.reserved_s, each.reserved_s) for now_s, each in held
    )
    in_time_s = (now_s for now_s, each in held if now_s + job.runtime_s <= each.reserved_s)
    return WouldDelay(
        needed_procs=job.procs,
        heads=schedule.heads((look.ahead[0], look.now_s) for look in looks),
        least_late_s=late_s,
        reserved_s=reserved_s,
        most_extra_procs=max(each.extra_procs for _, each in held),
        most_ahead=_most_ahead(looks),
        in_time_by_runtime_s=next(in_time_s, None),
    )


def _most_free(looks: list[Look]) -> int:
    return max(look.free_procs for look in looks)


def _most_ahead(looks: list[Look]) -> int:
    return max(look.n_ahead for look in looks)
