"""Preemption and failures: running jobs are killed and queued again.

A killed job loses its work and waits at its old rank, as if it had never started. The job that
started last is killed first; among jobs that started together, the last in the workload.
"""

import math

from sim.kernel.fair_share import charge
from sim.kernel.jit import kernel, noinline
from sim.kernel.job_queue import OVERRUN
from sim.kernel.plan import is_free, occupy, plan_running, planned_s
from sim.kernel.policy_context import DRAIN, FAILURE, OPEN, OVER, PLANNED
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, TAKEN, Pool, arrive, note, sort_running

CONDEMNED = 2  # Value of `JobStanding.is_preemptible` for a job that is killed at this instant


@noinline
@kernel
def turn(pool: Pool, event: int, now_s: float) -> int:
    """Begin or end a capacity window and return the number of jobs killed for the window.

    A planned one or a drain takes the free processors, and then all that become free until it has
    its number; until then the count of free processors is negative. A failure takes the free ones
    too, and kills jobs for the rest.

    Returns:
        Number of killed jobs; they are listed in ``pool.started``.
    """
    window = pool.terms.windows[event if event >= 0 else ~event]
    here = pool.partitions[window.place]
    if event < 0:
        window.state = OVER
        here.free += window.procs
        here.look_from = here.head
        return 0
    window.state = OPEN
    owed = min(here.free, 0)
    here.free -= window.procs
    if window.kind == PLANNED:
        return 0
    here.look_from = here.head
    here.has_ended = OVERRUN
    n_killed = 0
    while window.kind == FAILURE and here.free < owed:
        job = _youngest(pool, window.place, False, math.inf, NOBODY)
        requeue(pool, window.place, job, now_s)
        pool.started[n_killed] = job
        n_killed += 1
    return n_killed


@kernel
def is_decisive(pool: Pool, event: int) -> bool:
    """Return whether the begin or end of a window requires a scheduling decision.

    The begin of a planned window changes nothing, because it was known.
    """
    return event < 0 or pool.terms.windows[event].kind >= DRAIN


@noinline
@kernel
def _youngest(pool: Pool, k: int, preempts: bool, before_s: float, before: int) -> int:
    """Return the running job that started last, among those before another; -1 is none.

    With `preempts`, consider only preemptible jobs that are not condemned yet. `before_s` is the
    start of the other job; of two that started together the smaller number counts as before.
    """
    here, standings = pool.partitions[k], pool.terms.standings
    youngest, since_s = -1, -math.inf
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.running[slot]
        if job == TAKEN or (preempts and standings[job].is_preemptible != 1):
            continue
        mine_s = standings[job].since_s
        is_older = mine_s < before_s or (mine_s == before_s and job < before)
        if is_older and (mine_s > since_s or (mine_s == since_s and job > youngest)):
            youngest, since_s = job, mine_s
    return youngest


@noinline
@kernel
def requeue(pool: Pool, k: int, job: int, now_s: float) -> None:
    """Kill a running job of partition k and return the job to the queue."""
    here, job_row, standing = pool.partitions[k], pool.jobs[job], pool.terms.standings[job]
    pool.running[job_row.place] = TAKEN
    here.free += job_row.procs
    if len(pool.fair.users) > 0:
        charge(pool.fair, job, -job_row.procs, now_s)
    here.has_ended = OVERRUN
    job_row.reserved_s = -1.0
    job_row.until_s = -1.0
    job_row.n_corrected = 0
    if standing.is_preemptible == CONDEMNED:
        standing.is_preemptible = 1
    standing.n_restarts += 1
    standing.lost_s += now_s - standing.since_s
    sort_running(pool, k)  # which makes room, as the queue needs it too: each job has one slot
    _close_up(pool, k)
    arrive(pool, k, job)


@noinline
@kernel
def _close_up(pool: Pool, k: int) -> None:
    """Move the waiting jobs of partition k to its first slots, without gaps."""
    here, queue = pool.partitions[k], pool.queue
    slot, head, tail = here.first, here.head, here.tail
    for number in range(here.first >> BLOCK_BITS, (tail + BLOCK - 1) >> BLOCK_BITS):
        block = pool.blocks[number]
        block.procs, block.estimate_s, block.reserved_s = NOBODY, math.inf, math.inf
    for other in range(head, tail):
        if queue[other] >= 0:
            queue[slot] = queue[other]
            note(pool, slot)
            slot += 1
    here.head, here.tail, here.look_from = here.first, slot, here.first


@noinline
@kernel
def preempt(pool: Pool, k: int, now_s: float) -> int:
    """Kill preemptible jobs of partition k where waiting jobs can then start at once.

    The queue is processed in order, until a job cannot start even so, or is preemptible itself. A
    job that can start beside the running jobs and known windows kills none. For another job the
    youngest are condemned one after another until it can start; then those whose processors it does
    not need are spared, the youngest first.

    Returns:
        Number of killed jobs; they are listed in ``pool.started``.
    """
    here, standings = pool.partitions[k], pool.terms.standings
    plan_running(pool, k, now_s)
    n_killed, slot, can = 0, here.head, True
    while can and slot < here.tail:
        job = pool.queue[slot]
        if job >= 0:
            if standings[job].is_preemptible == 1:
                break
            n_given = _give_up(pool, k, job, now_s, n_killed)
            can = n_given >= 0
            if can:
                n_killed += n_given
                occupy(
                    pool, k, now_s, now_s + planned_s(pool.jobs[job].estimate_s),
                    pool.jobs[job].procs,
                )  # fmt: skip
        slot += 1
    for i in range(n_killed):
        requeue(pool, k, pool.started[i], now_s)
    return n_killed


@noinline
@kernel
def _give_up(pool: Pool, k: int, job: int, now_s: float, n_before: int) -> int:
    """List the jobs to kill so that a job can start now; return how many, or -1 if it cannot."""
    procs, until_s = pool.jobs[job].procs, now_s + planned_s(pool.jobs[job].estimate_s)
    n, can = n_before, is_free(pool, k, procs, until_s)
    since_s, last = math.inf, NOBODY
    while not can:
        last = _youngest(pool, k, True, since_s, last)
        if last < 0:
            break
        since_s = pool.terms.standings[last].since_s
        occupy(pool, k, now_s, pool.jobs[last].estimated_end_s, -pool.jobs[last].procs)
        pool.started[n] = last
        n += 1
        can = is_free(pool, k, procs, until_s)
    n_victims = n_before
    for i in range(n_before, n):
        other = pool.started[i]
        end_s, width = pool.jobs[other].estimated_end_s, pool.jobs[other].procs
        occupy(pool, k, now_s, end_s, width)
        if can and not is_free(pool, k, procs, until_s):
            occupy(pool, k, now_s, end_s, -width)
            pool.terms.standings[other].is_preemptible = CONDEMNED
            pool.started[n_victims] = other
            n_victims += 1
    return n_victims - n_before if can else -1
