"""The event loop of the compiled engine, as kernel text.

One text for every state: `release` is bound to the transition of the state (`sim.kernel.text`),
all else is the pool's, which every state contains. `run` is for a pool, `run_nodes` for machines.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.calendar import pop, push, withdraw
from sim.kernel.doors import come, leave, let_in
from sim.kernel.node import release_machines
from sim.kernel.pool import Pool, arrive, may_start, release
from sim.kernel.prepare import prepare
from sim.kernel.requeue import is_decisive, preempt, turn
from sim.kernel.terms import Outside, nothing_outside
from sim.kernel.text import apart, bound, kernel

NEXT, N_RUNNING, TURNING = 0, 1, 2
"""Where `Course.cursor` holds the next job to arrive, the number of running jobs, and the next
window to begin or end."""


class Course(NamedTuple):
    """What happens from outside, what has happened, and what is going to.

    Attributes:
        submit_s: float64 [n], in rising order.
        runtime_s: float64 [n].
        partition: int64 [n], -1 takes no part.
        start_s: float64 [n], to be filled; NaN until then.
        end_s: float64 [n], to be filled; NaN until then.
        ends_s: float64 [n], heap of future completions.
        ending: int64 [n], their jobs.
        touched: int64 [m], 1 where something happened at this instant.
        outside: doors, and windows to begin and to end.
        cursor: int64 [3], see `NEXT`, `N_RUNNING` and `TURNING`.
    """

    submit_s: list[float]
    runtime_s: list[float]
    partition: list[int]
    start_s: list[float]
    end_s: list[float]
    ends_s: list[float]
    ending: list[int]
    touched: list[int]
    outside: Outside
    cursor: list[int]


def new_course(
    submit_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    partition: NDArray[np.int64],
    n_partitions: int,
    outside: Outside | None = None,
) -> Course:
    """Return a course, made of arrays, before its first event. The columns must be read-only."""
    n_jobs = len(submit_s)
    parts: list[Any] = [
        submit_s,
        runtime_s,
        partition,
        np.full(n_jobs, np.nan),
        np.full(n_jobs, np.nan),
        np.empty(n_jobs),
        np.empty(n_jobs, dtype=np.int64),
        np.zeros(n_partitions, dtype=np.int64),
        nothing_outside() if outside is None else outside,
        np.zeros(3, dtype=np.int64),
    ]
    return Course(*parts)


@kernel
def run(  # noqa: PLR0912, PLR0915 - what few scenarios use is asked for here, not in a call
    state: Any, pool: Pool, decide: Any, score_now: Any, course: Course, n_instants: int
) -> bool:
    """Go through some instants: apply what arrives and ends, then let each partition decide.

    Args:
        state: what the policy decides over.
        pool: the pool in it.
        decide: the policy, (state, partition, now_s) to the number of jobs started.
        score_now: the score of the order, if its ranks change.
        course: arrivals, and the completions to come.
        n_instants: stop after so many; a later call goes on.

    Returns:
        True when no more can happen.
    """
    submit_s, runtime_s, partition = course.submit_s, course.runtime_s, course.partition
    start_s, end_s = course.start_s, course.end_s
    ends_s, ending, touched = course.ends_s, course.ending, course.touched
    n_jobs, n_partitions = len(submit_s), len(pool.partitions)
    coming, n_running = course.cursor[NEXT], course.cursor[N_RUNNING]
    outside, standings = course.outside, pool.terms.standings
    has_turns, has_doors = len(outside.turns_s) > 0, len(outside.doors) > 0
    is_over = False
    while n_instants > 0:
        n_instants -= 1
        now_s = math.inf
        if n_running > 0:
            now_s = ends_s[0]
        if coming < n_jobs:
            now_s = min(now_s, submit_s[coming])
        for k in range(n_partitions):
            now_s = min(now_s, pool.partitions[k].wake_s)
        if has_turns and course.cursor[TURNING] < len(outside.turns_s):
            now_s = min(now_s, outside.turns_s[course.cursor[TURNING]])
        if now_s == math.inf:
            is_over = True
            break
        while n_running > 0 and ends_s[0] == now_s:
            job = ending[0]
            pop(ends_s, ending, n_running)
            n_running -= 1
            release(state, partition[job], job, now_s)
            touched[partition[job]] = 1
            if has_doors:
                leave(pool, outside, partition[job], job)
        while coming < n_jobs and submit_s[coming] == now_s:
            if partition[coming] >= 0:
                if has_doors:
                    come(pool, outside, partition[coming], coming)
                else:
                    arrive(pool, partition[coming], coming)
                touched[partition[coming]] = 1
            coming += 1
        if has_turns:
            n_running = _turn(pool, course, now_s, n_running)
        for k in range(n_partitions):
            if pool.partitions[k].wake_s <= now_s:
                pool.partitions[k].wake_s = math.inf
                touched[k] = 1
            if has_doors and touched[k] == 1:
                let_in(pool, outside, k)
            if touched[k] == 1 and may_start(pool, k):
                prepare(pool, k, now_s, score_now)
                if pool.partitions[k].preempts == 1:
                    n_running = _clear(pool, k, course, now_s, score_now, n_running)
                for i in range(decide(state, k, now_s)):
                    job = pool.started[i]
                    start_s[job] = now_s
                    end_s[job] = now_s + runtime_s[job]
                    push(ends_s, ending, n_running, end_s[job], job)
                    n_running += 1
                    if len(standings) > 0:
                        standings[job].since_s = now_s
            touched[k] = 0
    course.cursor[NEXT] = coming
    course.cursor[N_RUNNING] = n_running
    return is_over


@apart
@kernel
def _turn(pool: Pool, course: Course, now_s: float, n_running: int) -> int:
    """Let windows begin and end. Return how many jobs run then."""
    turns_s, turning = course.outside.turns_s, course.cursor[TURNING]
    while turning < len(turns_s) and turns_s[turning] == now_s:
        event = course.outside.turns[turning]
        for i in range(turn(pool, event, now_s)):
            n_running = withdraw(course.ends_s, course.ending, n_running, pool.started[i])
        if is_decisive(pool, event):
            course.touched[pool.terms.windows[event if event >= 0 else ~event].place] = 1
        turning += 1
    course.cursor[TURNING] = turning
    return n_running


@apart
@kernel
def _clear(pool: Pool, k: int, course: Course, now_s: float, score_now: Any, n_running: int) -> int:
    """Preempt for the first in the queue. Return how many jobs run then."""
    n_killed = preempt(pool, k, now_s)
    for i in range(n_killed):
        n_running = withdraw(course.ends_s, course.ending, n_running, pool.started[i])
    if n_killed > 0:
        prepare(pool, k, now_s, score_now)
    return n_running


run_nodes = bound(run, "nodes", release=release_machines)
