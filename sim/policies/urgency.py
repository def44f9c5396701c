"""Rules that choose the next task again before every instance: the most urgent one goes first.

The order decides only ties. Before every instance the urgency of all waiting tasks that may have
room is computed, and the lowest number goes first. Where tasks of a need always have the same
urgency, a heap of the first task of each need gives the same result faster.
"""

from typing import Any

from sim.kernel.fleet import AMOUNTS, DECISION, N_CHANGED, N_FREED, N_FRESH, N_LIVE, NONE, Fleet
from sim.kernel.instances import first_start, forget_need, place_gang, place_one, remove_first
from sim.kernel.jit import bound, kernel, noinline
from sim.policies.policy import Backfill


@kernel
def urgency(_fleet: Fleet, _task: int) -> float:
    """Stand in for the urgency of a task that waits; the lowest number goes first."""
    return 0.0


@noinline
@kernel
def next_slot(fleet: Fleet) -> int:
    """Return the queue slot of the most urgent task that may have room; or -1."""
    best, best_rank, least = NONE, 0, 0.0
    for i in range(fleet.cursor[N_LIVE]):
        index = fleet.live[i]
        if first_start(fleet, index) == NONE:
            continue
        need = fleet.needs[index]
        for slot in range(need.first, need.first + need.n_waiting):
            mine, rank = urgency(fleet, fleet.queue[slot]), fleet.tasks[fleet.queue[slot]].rank
            if best == NONE or mine < least or (mine == least and rank < best_rank):
                best, best_rank, least = slot, rank, mine
    return best


@noinline
@kernel
def serve_by_urgency(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Place instances one by one, always the next of the most urgent task that has room.

    Everything that ends and is submitted at this time has been applied. Return how many instances
    got an end.
    """
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    slot = next_slot(fleet)
    while slot != NONE:
        task = fleet.queue[slot]
        task_row = fleet.tasks[task]
        need = fleet.needs[task_row.queued_as]
        if need.is_gang == 1:
            has, is_done = place_gang(fleet, choose, task, now_s), True
        else:
            has = place_one(fleet, choose, task, now_s)
            is_done = task_row.placed == task_row.behind
        if not has:
            need.start, need.is_stuck = NONE, 1
        elif is_done:
            need.n_waiting -= 1
            fleet.queue[slot] = fleet.queue[need.first + need.n_waiting]
            if need.n_waiting == 0:
                need.is_stuck = 0
                forget_need(fleet, task_row.queued_as)
        slot = next_slot(fleet)
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]


@kernel
def comes_before(fleet: Fleet, task: int, other: int) -> bool:
    """Return whether a task goes before another one."""
    mine, theirs = urgency(fleet, task), urgency(fleet, other)
    if mine == theirs:
        return fleet.tasks[task].rank < fleet.tasks[other].rank
    return mine < theirs


@noinline
@kernel
def sink(fleet: Fleet, n: int, top: int) -> None:
    """Move a task down to its place in the heap of the n tasks in `Fleet.heads`."""
    task, slot, below = fleet.heads[top], top, 2 * top + 1
    while below < n:
        if below + 1 < n and comes_before(fleet, fleet.heads[below + 1], fleet.heads[below]):
            below += 1
        if comes_before(fleet, task, fleet.heads[below]):
            break
        fleet.heads[slot] = fleet.heads[below]
        slot, below = below, 2 * below + 1
    fleet.heads[slot] = task


@noinline
@kernel
def serve_by_need(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Do the same as `serve_by_urgency` where urgency depends on the need alone.

    Tasks of a need are then equally urgent, and a placement changes only the urgency of its own
    need, so only the top of the heap must be checked again.
    """
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    n = 0
    for i in range(fleet.cursor[N_LIVE]):
        if first_start(fleet, fleet.live[i]) != NONE:
            fleet.heads[n] = fleet.queue[fleet.needs[fleet.live[i]].first]
            n += 1
    for top in range((n >> 1) - 1, -1, -1):
        sink(fleet, n, top)
    while n > 0:
        task = fleet.heads[0]
        task_row = fleet.tasks[task]
        need, goes_on = fleet.needs[task_row.queued_as], True
        if need.is_gang == 1:
            has, is_done = place_gang(fleet, choose, task, now_s), True
        else:
            has = place_one(fleet, choose, task, now_s)
            is_done = task_row.placed == task_row.behind
        if not has:
            need.start, need.is_stuck, goes_on = NONE, 1, False
        elif is_done:
            need.n_waiting -= 1
            remove_first(fleet, fleet.queue, need.first, need.n_waiting)
            if need.n_waiting == 0:
                need.is_stuck, goes_on = 0, False
                forget_need(fleet, task_row.queued_as)
            else:
                fleet.heads[0] = fleet.queue[need.first]
        if not goes_on:
            n -= 1
            fleet.heads[0] = fleet.heads[n]
        if n > 0:
            sink(fleet, n, 0)
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]


def decision_by_urgency(name: str, how_urgent: Any, *, by_need: bool = False) -> Any:
    """Return the decision of a rule that serves by an urgency, (fleet, task) to a number.

    With `by_need`, the number depends on the need of the task alone; see `serve_by_need`.
    """
    if by_need:
        before = bound(comes_before, name, urgency=how_urgent)
        down = noinline(bound(sink, name, comes_before=before))
        return noinline(bound(serve_by_need, name, sink=down))
    text = bound(next_slot, name, urgency=how_urgent)
    return noinline(bound(serve_by_urgency, name, next_slot=noinline(text)))


@kernel
def dominant_share(fleet: Fleet, task: int) -> float:
    """Return the largest share of any resource that the user of a task holds."""
    gauges, most = fleet.gauges, 0.0
    holds = gauges.group_of[fleet.tasks[task].job] * AMOUNTS
    for r in range(AMOUNTS):
        if gauges.total[r] > 0.0:
            most = max(most, float(gauges.group_usage[holds + r]) / gauges.total[r])
    return most


@kernel
def fewest_first(fleet: Fleet, task: int) -> float:
    """Return minus the number of waiting instances with the need of a task."""
    return -1.0 * fleet.needs[fleet.tasks[task].queued_as].n_unplaced


@kernel
def work_left(fleet: Fleet, task: int) -> float:
    """Return the remaining work of the job of a task: sum of n t sum(d_r / max_r) over its tasks.

    n instances have not ended, each takes t seconds, and max_r is the largest amount of any
    machine.
    """
    gauges, gang, work = fleet.gauges, fleet.gangs[fleet.tasks[task].job], 0.0
    for other in range(gang.first_task, gang.behind_task):
        task_row, size = fleet.tasks[other], 0.0
        for r in range(AMOUNTS):
            if gauges.largest[r] > 0.0:
                size += float(fleet.demand[task_row.need * AMOUNTS + r]) / gauges.largest[r]
        work += task_row.n_left * gauges.runtime_s[other] * size
    return work


DRF = Backfill(
    "drf",
    "the user, or job, with the smallest dominant share is next (Ghodsi et al., NSDI 2011)",
    decide_instances=decision_by_urgency("drf", dominant_share),
    counts_holders=True,
)
MAX_WEIGHT = Backfill(
    "max_weight",
    "the request of which most instances wait is next (after Maguluri et al., INFOCOM 2012)",
    decide_instances=decision_by_urgency("max_weight", fewest_first, by_need=True),
)
LEAST_WORK = Backfill(
    "least_work",
    "the job with the least work left is next (the other half of Tetris, Grandl et al. 2014)",
    decide_instances=decision_by_urgency("least_work", work_left),
)
