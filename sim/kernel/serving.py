"""Who is next when that changes with every instance that is placed.

The order decides ties only: before every instance the waiting tasks for which there may be room
are asked how urgent they are, and the least number goes first. All are looked at each time, so that
it does not matter how the queue of a need is sorted.
"""

from typing import Any

from sim.kernel.fleet import (
    AMOUNTS,
    DECISION,
    N_CHANGED,
    N_FREED,
    N_FRESH,
    N_LIVE,
    NONE,
    Fleet,
)
from sim.kernel.placing import first_start, forget_need, place_gang, place_one
from sim.kernel.text import apart, bound, kernel


@kernel
def urgency(_fleet: Fleet, _task: int) -> float:
    """Stand in for the urgency of a task that waits; the least number is the next."""
    return 0.0


@apart
@kernel
def next_slot(fleet: Fleet) -> int:
    """Return where in the queue the most urgent task lies for which there may be room; or -1."""
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


@apart
@kernel
def serve_by_urgency(fleet: Fleet, choose: Any, now_s: float) -> int:
    """Place instances one by one, always the next of the most urgent task that has room.

    Args:
        fleet: all that ends and is submitted at this time has been applied.
        choose: the placement rule.
        now_s: the time.

    Returns:
        How many instances have got an end.
    """
    fleet.cursor[DECISION] += 1
    fleet.cursor[N_CHANGED] = 0
    slot = next_slot(fleet)
    while slot != NONE:
        task = fleet.queue[slot]
        one = fleet.tasks[task]
        need = fleet.needs[one.queued_as]
        if need.is_gang == 1:
            has, is_done = place_gang(fleet, choose, task, now_s), True
        else:
            has = place_one(fleet, choose, task, now_s)
            is_done = one.placed == one.behind
        if not has:
            need.start, need.is_stuck = NONE, 1
        elif is_done:
            need.n_waiting -= 1
            fleet.queue[slot] = fleet.queue[need.first + need.n_waiting]
            if need.n_waiting == 0:
                need.is_stuck = 0
                forget_need(fleet, one.queued_as)
        slot = next_slot(fleet)
    fleet.cursor[N_FREED] = 0
    fleet.cursor[N_FRESH] = 0
    return fleet.cursor[N_CHANGED]


def served_by(name: str, how_urgent: Any) -> Any:
    """Return the decision that serves by an urgency, kernel text (fleet, task) to a number."""
    text = bound(next_slot, name, urgency=how_urgent)
    return apart(bound(serve_by_urgency, name, next_slot=apart(text)))


@kernel
def dominant_share(fleet: Fleet, task: int) -> float:
    """Return the largest share of any resource that the user of a task holds."""
    gauges, most = fleet.gauges, 0.0
    holds = gauges.group_of[fleet.tasks[task].job] * AMOUNTS
    for r in range(AMOUNTS):
        if gauges.total[r] > 0.0:
            most = max(most, float(gauges.held[holds + r]) / gauges.total[r])
    return most


@kernel
def fewest_first(fleet: Fleet, task: int) -> float:
    """Return minus the instances that wait and need what an instance of a task does."""
    return -1.0 * fleet.needs[fleet.tasks[task].queued_as].n_unplaced


@kernel
def work_left(fleet: Fleet, task: int) -> float:
    """Return the work that the job of a task has left: sum of n t sum(d_r / max_r) over its tasks.

    n instances have not ended, each takes t seconds, and max_r is the most that any machine has.
    """
    gauges, gang, work = fleet.gauges, fleet.gangs[fleet.tasks[task].job], 0.0
    for other in range(gang.first_task, gang.behind_task):
        one, size = fleet.tasks[other], 0.0
        for r in range(AMOUNTS):
            if gauges.largest[r] > 0.0:
                size += float(fleet.demand[one.need * AMOUNTS + r]) / gauges.largest[r]
        work += one.n_left * gauges.runtime_s[other] * size
    return work
