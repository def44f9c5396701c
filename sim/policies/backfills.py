"""Backfilling rules: which waiting jobs may overtake the head of the queue.

- `greedy` starts every job that fits and protects none; `easy` protects the head.
- `depth` reserves for the first few jobs: with 0 reservations it is greedy, with 1 EASY.
  Reservations are planned again at every decision; `sim.policies.conservative` keeps its own.
- `..._by_plan` are the rules where capacity changes; `..._on_nodes` where whole nodes are
  allocated.

Rules that choose the next task again before every instance: the most urgent one goes first.
"""

import math
from collections.abc import Callable
from typing import Any, get_args

from sim.kernel.fleet import AMOUNTS, DECISION, N_CHANGED, N_FREED, N_FRESH, N_LIVE, NONE, Fleet
from sim.kernel.instances import (
    first_start,
    forget_need,
    place_gang,
    place_one,
    remove_first,
    serve_in_turn,
    serve_whoever_fits,
)
from sim.kernel.jit import bound, kernel, noinline
from sim.kernel.node_selection import start_heads
from sim.kernel.nodes import Nodes, drop_reservation, idle_procs, reserve_machines, start_on
from sim.kernel.plan import (
    earliest,
    is_free,
    occupy,
    plan_running,
    planned_s,
)
from sim.kernel.pool import (
    BLOCK,
    BLOCK_BITS,
    NOBODY,
    Pool,
    reserve,
    start,
    start_from_head,
    start_in,
    take,
    take_head,
)
from sim.model.errors import ScenarioError, entry_named
from sim.model.scenario import Allocation
from sim.policies.conservative import CONSERVATIVE
from sim.policies.policy import ACTUAL_TIMES, Backfill, PolicyOption, switch
from sim.policies.slurm_backfill import SLURM


@kernel
def urgency(_fleet: Fleet, _task: int) -> float:
    """Serve as a placeholder for a rule's urgency of a waiting task, lowest first."""
    return 0.0


@noinline
@kernel
def next_slot(fleet: Fleet) -> int:
    """Return the queue slot of the most urgent waiting task that may have room, or -1."""
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
    """Place instances one by one, each from the most urgent task that has room.

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
    """Return whether one task precedes another by urgency and rank."""
    mine, theirs = urgency(fleet, task), urgency(fleet, other)
    if mine == theirs:
        return fleet.tasks[task].rank < fleet.tasks[other].rank
    return mine < theirs


@noinline
@kernel
def sink(fleet: Fleet, n: int, top: int) -> None:
    """Restore the heap `Fleet.heads` of n tasks by moving the task at `top` down."""
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
    """Place instances by an urgency that is equal for tasks with the same resource request.

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
    """Return a kernel function that places the task with the lowest urgency value first.

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
    """Return minus the number of waiting instances with the same resource request as a task."""
    return -1.0 * fleet.needs[fleet.tasks[task].queued_as].n_unplaced


@kernel
def work_left(fleet: Fleet, task: int) -> float:
    """Return the remaining work of a task's job: seconds times resource shares, summed.

    The sum of n t sum(d_r / max_r) over its tasks: n instances have not ended, each takes t
    seconds, and max_r is the largest amount of any machine.
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
    "the request with the most waiting instances is next (after Maguluri et al., INFOCOM 2012)",
    decide_instances=decision_by_urgency("max_weight", fewest_first, by_need=True),
)
LEAST_WORK = Backfill(
    "least_work",
    "the job with the least work left is next (the other half of Tetris, Grandl et al. 2014)",
    decide_instances=decision_by_urgency("least_work", work_left),
)


DEPTH = 0


@kernel
def depth(pool: Pool, k: int, now_s: float) -> int:
    """Schedule partition k with reservations for as many jobs as the option `depth` says."""
    return by_plan(pool, k, now_s, pool.options[DEPTH])


@kernel
def by_plan(pool: Pool, k: int, now_s: float, most_reserved: float) -> int:
    """Start jobs that delay no reservation, and reserve for the first `most_reserved` others.

    A job can start if its processors are free for its whole estimate, beside the running jobs and
    the reservations before it in the queue. A job that could not start before cannot now, unless
    something ended or the order changed: the reservations are the same, no more processors are
    free, and it is later. So beyond the reservations only new jobs are examined.
    """
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    n_started, n_reserved = 0, 0
    narrowest = NOBODY
    slot = here.head
    while slot < here.tail and n_reserved < most_reserved:
        job = pool.queue[slot]
        if job >= 0:
            procs, length_s = pool.jobs[job].procs, planned_s(pool.jobs[job].estimate_s)
            if is_free(pool, k, procs, now_s + length_s):
                occupy(pool, k, now_s, now_s + length_s, procs)
                start_in(pool, k, slot, now_s, n_started)
                n_started += 1
            else:
                start_s = earliest(pool, k, procs, length_s)
                occupy(pool, k, start_s, start_s + length_s, procs)
                n_reserved += 1
                narrowest = min(narrowest, procs)
        slot += 1
    if n_started > 0 or here.look_from <= here.head:
        here.look_from = slot
        here.narrowest = narrowest
    return n_started + _overtake_by_plan(pool, k, now_s, max(slot, here.look_from), n_started)


@kernel
def _overtake_by_plan(pool: Pool, k: int, now_s: float, slot: int, n_before: int) -> int:
    """Start every job from a slot on that the plan permits now, and return how many."""
    here = pool.partitions[k]
    narrowest, n_started = here.narrowest, n_before
    tail = here.tail
    while slot < tail and here.free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if not is_free(pool, k, block.procs, now_s + block.estimate_s):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and here.free > 0:
            job = pool.queue[slot]
            if job >= 0:
                job_row = pool.jobs[job]
                length_s = planned_s(job_row.estimate_s)
                if is_free(pool, k, job_row.procs, now_s + length_s):
                    occupy(pool, k, now_s, now_s + length_s, job_row.procs)
                    start_in(pool, k, slot, now_s, n_started)
                    n_started += 1
                else:
                    least_procs = min(least_procs, job_row.procs)
                    least_s = min(least_s, job_row.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    # A job that was not examined, for lack of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started - n_before


DEPTH_K = Backfill(
    "depth",
    "a job overtakes if the first k waiting jobs start no later by the estimates",
    depth,
    options=(PolicyOption("depth", 4, "jobs that get a reservation", is_whole=True),),
    plans=True,
)


@kernel
def no_backfill_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order until one does not fit beside planned capacity windows."""
    here = pool.partitions[k]
    plan_running(pool, k, now_s)
    n_started = 0
    while here.head < here.tail:
        job = pool.queue[here.head]
        procs, until_s = pool.jobs[job].procs, now_s + planned_s(pool.jobs[job].estimate_s)
        if not is_free(pool, k, procs, until_s):
            break
        occupy(pool, k, now_s, until_s, procs)
        start(pool, k, job, now_s, n_started)
        take_head(pool, k)
        n_started += 1
    return n_started


@kernel
def greedy_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Start every job that fits beside running jobs and planned capacity windows."""
    return by_plan(pool, k, now_s, 0.0)


@kernel
def easy_by_plan(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs by EASY backfilling, considering planned capacity windows."""
    return by_plan(pool, k, now_s, 1.0)


@kernel
def no_backfill_on_nodes(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs in queue order on idle machines until one must wait, and count them.

    A start drops the reservation of machines.
    """
    here = nodes.pool.partitions[k]
    n_started = 0
    while here.head < here.tail:
        job = nodes.pool.queue[here.head]
        if nodes.pool.jobs[job].procs > idle_procs(nodes, k, job, True):
            break
        if n_started == 0:
            drop_reservation(nodes, k)
        start_on(nodes, k, job, now_s, n_started, False)
        take_head(nodes.pool, k)
        n_started += 1
    return n_started


@kernel
def easy_on_nodes(nodes: Nodes, k: int, now_s: float) -> int:
    """Start jobs on whole machines by EASY backfilling: only the head has a reservation.

    The reservation names machines (`sim.kernel.nodes.reserve_machines`). A job that ends by the
    shadow time may start on any idle machines that suit it, and takes reserved ones first; jobs
    that run longer may only take machines that are not reserved.

    The reservation is computed again whenever it could change: when something ended, or the head is
    another, or a choosy job overtook in time in the same decision. Jobs past the shadow time leave
    reserved machines alone. A job in time that is not choosy takes the first reserved machines, and
    the head still needs the others; a choosy one may skip some that the head no longer needs. If
    the reservation is the same, a job that could not start before cannot now.
    """
    here = nodes.pool.partitions[k]
    n_started = no_backfill_on_nodes(nodes, k, now_s)
    if here.head >= here.tail - 1:
        return n_started
    if n_started > 0:
        here.look_from = here.head
    is_over = False
    while not is_over:
        if here.look_from <= here.head:
            head = nodes.pool.queue[here.head]
            reserve_machines(nodes, k, head)
            here.narrowest = nodes.pool.jobs[head].procs
            here.look_from = here.head + 1
        n_started += _overtake_on(nodes, k, now_s, n_started)
        is_over = here.look_from > here.head
    return n_started


@kernel
def _overtake_on(nodes: Nodes, k: int, now_s: float, n_before: int) -> int:
    """Start every job from `look_from` on that delays no reservation, and return how many."""
    pool, stock = nodes.pool, nodes.stocks[k]
    here = pool.partitions[k]
    shadow_s, narrowest = here.shadow_s, here.narrowest
    free, reserved = here.free, stock.kept
    n_started, n_choosy = n_before, 0
    slot, tail = here.look_from, here.tail
    while slot < tail and free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        is_late = now_s + block.estimate_s > shadow_s
        if block.procs > (free - reserved if is_late else free):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and free > 0:
            job = pool.queue[slot]
            if job >= 0:
                job_row = pool.jobs[job]
                in_time = now_s + job_row.estimate_s <= shadow_s
                most = free if in_time else free - reserved
                if job_row.procs <= most and job_row.procs <= idle_procs(nodes, k, job, in_time):
                    start_on(nodes, k, job, now_s, n_started, in_time)
                    take(pool, k, slot)
                    free, reserved = here.free, stock.kept
                    n_started += 1
                    if in_time:
                        n_choosy += nodes.claims[job].is_choosy
                else:
                    least_procs = min(least_procs, job_row.procs)
                    least_s = min(least_s, job_row.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    # A job that was not examined, for lack of machines, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = here.tail if n_choosy == 0 else here.head
    return n_started - n_before


EXTRA_PROCS, RESERVES_ANEW = 0, 1  # Positions of the options


@kernel
def no_backfill(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs strictly in queue order, until one does not fit."""
    return start_from_head(pool, k, now_s)


@kernel
def easy(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs by EASY backfilling: others may overtake but not delay the head of the queue.

    A job of n processors may start if n <= free and (now + estimate <= shadow or n <= extra). Jobs
    that run past the shadow time use up extra processors.

    The reservation is computed again whenever it can have changed: when something ended, or the
    head is another. If jobs only arrived since, the shadow time is the same, the extra processors
    are those left over, and only new jobs are examined: an older one cannot start, because no more
    processors are free and it is later.

    Other programs define EASY differently. Without `extra_processors` only a job that ends by the
    shadow time overtakes; without `reserve_anew` the shadow time of the head stays what it was when
    it became the head. AccaSim 1.1.3 and RLScheduler do both.
    """
    here = pool.partitions[k]
    n_started = start_from_head(pool, k, now_s)
    if here.head >= here.tail - 1 and (
        here.head >= here.tail or pool.options[RESERVES_ANEW] == 1.0
    ):
        return n_started
    if n_started > 0 or here.look_from <= here.head:
        head_job = pool.queue[here.head]
        head_procs = pool.jobs[head_job].procs
        if pool.options[RESERVES_ANEW] == 1.0 or here.reserved_for != head_job:
            reserve(pool, k, head_procs)
            here.reserved_for = head_job
            if pool.options[EXTRA_PROCS] == 0.0:
                here.extra = 0
        here.narrowest = head_procs
        here.look_from = here.head + 1
    return n_started + _overtake(pool, k, now_s, n_started)


@kernel
def _overtake(pool: Pool, k: int, now_s: float, n_before: int) -> int:
    """Start every job from `look_from` on that delays no reservation, and return how many."""
    here = pool.partitions[k]
    free, extra, shadow_s = here.free, here.extra, here.shadow_s
    narrowest, n_started = here.narrowest, n_before
    slot, tail = here.look_from, here.tail
    while slot < tail and free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > free or (block.procs > extra and now_s + block.estimate_s > shadow_s):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and free > 0:
            job = pool.queue[slot]
            if job >= 0:
                job_row = pool.jobs[job]
                in_time = now_s + job_row.estimate_s <= shadow_s
                if job_row.procs <= (free if in_time else min(free, extra)):
                    start(pool, k, job, now_s, n_started)
                    take(pool, k, slot)
                    n_started += 1
                    free -= job_row.procs
                    if not in_time:
                        extra -= job_row.procs
                else:
                    least_procs = min(least_procs, job_row.procs)
                    least_s = min(least_s, job_row.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    here.extra = extra
    # A job that was not examined, for lack of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started - n_before


NO_BACKFILL = Backfill(
    "none",
    "no job overtakes another",
    no_backfill,
    no_backfill_on_nodes,
    start_heads,
    decide_by_plan=no_backfill_by_plan,
    decide_instances=serve_in_turn,
    overtakes=False,
    starts_head=True,
)

EASY = Backfill(
    "easy",
    "a job overtakes if the first in the queue starts no later by the estimates "
    "(Lifka 1995; Mu'alem & Feitelson 2001)",
    easy,
    easy_on_nodes,
    options=(
        switch("extra_processors", True, "a long job may take processors left by the first"),
        switch("reserve_anew", True, "the reservation is renewed when a job ends"),
        ACTUAL_TIMES,
    ),
    is_eager=lambda values: values["reserve_anew"] == 0.0,
    reserves_for_head=True,
    decide_by_plan=easy_by_plan,
    starts_head=True,
)


@kernel
def greedy(pool: Pool, k: int, now_s: float) -> int:
    """Start every waiting job that fits, in queue order.

    A job that did not fit does not fit until something ends, so only new jobs are examined.
    """
    here = pool.partitions[k]
    n_started = start_from_head(pool, k, now_s)
    if here.head >= here.tail:
        return n_started
    if n_started > 0 or here.look_from <= here.head:
        here.narrowest = pool.jobs[pool.queue[here.head]].procs
        here.look_from = here.head + 1
    narrowest = here.narrowest
    slot, tail = here.look_from, here.tail
    while slot < tail and here.free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > here.free:
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs = NOBODY
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and here.free > 0:
            job = pool.queue[slot]
            if job >= 0:
                procs = pool.jobs[job].procs
                if procs <= here.free:
                    start(pool, k, job, now_s, n_started)
                    take(pool, k, slot)
                    n_started += 1
                else:
                    least_procs = min(least_procs, procs)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs = least_procs
    # A job that was not examined, for lack of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started


GREEDY = Backfill(
    "greedy",
    "any job that fits starts; a wide job may wait forever",
    greedy,
    decide_by_plan=greedy_by_plan,
    decide_instances=serve_whoever_fits,
    starts_head=True,
)

BACKFILLS: tuple[Backfill, ...] = (
    NO_BACKFILL, GREEDY, EASY, DEPTH_K, CONSERVATIVE, SLURM, DRF, MAX_WEIGHT, LEAST_WORK,
)  # fmt: skip


def backfill_named(name: str) -> Backfill:
    """Return a registered backfilling rule; `UnknownNameError` if no rule has that name."""
    return entry_named("backfill", name, BACKFILLS)


def decision_of(
    backfill: Backfill, allocation: Allocation, by_plan: bool = False
) -> Callable[..., Any]:
    """Return the kernel function by which a backfilling rule decides for an allocation.

    It decides by a plan if `by_plan`, which changing capacity needs.

    Raises:
        ScenarioError: the rule does not support this state.
    """
    decide = _decides(backfill, allocation, by_plan)
    if decide is None:
        rules = ", ".join(f"'{rule.name}'" for rule in rules_for(allocation))
        alternatives = (other for other in get_args(Allocation) if _decides(backfill, other))
        able = " or ".join(f"allocation='{other}'" for other in alternatives)
        raise ScenarioError(
            f"backfill '{backfill.name}' cannot decide with allocation='{allocation}'; choose one "
            f"that can ({rules}) or {able}."
        )
    return decide


def rules_for(allocation: Allocation) -> tuple[Backfill, ...]:
    """Return the rules that support an allocation."""
    return tuple(rule for rule in BACKFILLS if _decides(rule, allocation))


def _decides(
    rule: Backfill, allocation: Allocation, by_plan: bool = False
) -> Callable[..., Any] | None:
    if allocation == "processors" and by_plan and rule.decide_by_plan is not None:
        return rule.decide_by_plan
    return {
        "processors": rule.decide,
        "whole_nodes": rule.decide_nodes,
        "shared_nodes": rule.decide_shared,
        "instances": rule.decide_instances,
    }[allocation]
