"""The event loop of the compiled engine, as kernel text.

One text for every state: `release` is bound to the transition of the state (`sim.kernel.text`),
all else is the pool's, which every state contains. `run` is for a pool, `run_nodes` for machines.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.calendar import pop, push
from sim.kernel.node import release_machines
from sim.kernel.pool import Pool, arrive, may_start, release
from sim.kernel.text import bound, kernel

NEXT, N_RUNNING = 0, 1
"""Where `Course.cursor` holds the next job to arrive and the number of running jobs."""


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
        cursor: int64 [2], see `NEXT` and `N_RUNNING`.
    """

    submit_s: list[float]
    runtime_s: list[float]
    partition: list[int]
    start_s: list[float]
    end_s: list[float]
    ends_s: list[float]
    ending: list[int]
    touched: list[int]
    cursor: list[int]


def new_course(
    submit_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    partition: NDArray[np.int64],
    n_partitions: int,
) -> Course:
    """Return a course, made of arrays, before its first event. The inputs must be read-only."""
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
        np.zeros(2, dtype=np.int64),
    ]
    return Course(*parts)


@kernel
def run(state: Any, pool: Pool, decide: Any, course: Course, n_instants: int) -> bool:
    """Go through some instants: apply what arrives and ends, then let each partition decide.

    Args:
        state: what the policy decides over.
        pool: the pool in it.
        decide: the policy, (state, partition, now_s) to the number of jobs started.
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
    while n_instants > 0 and (coming < n_jobs or n_running > 0):
        n_instants -= 1
        if n_running > 0 and (coming >= n_jobs or ends_s[0] <= submit_s[coming]):
            now_s = ends_s[0]
        else:
            now_s = submit_s[coming]
        while n_running > 0 and ends_s[0] == now_s:
            job = ending[0]
            pop(ends_s, ending, n_running)
            n_running -= 1
            release(state, partition[job], job)
            touched[partition[job]] = 1
        while coming < n_jobs and submit_s[coming] == now_s:
            if partition[coming] >= 0:
                arrive(pool, partition[coming], coming)
                touched[partition[coming]] = 1
            coming += 1
        for k in range(n_partitions):
            if touched[k] == 1 and may_start(pool, k):
                for i in range(decide(state, k, now_s)):
                    job = pool.started[i]
                    start_s[job] = now_s
                    end_s[job] = now_s + runtime_s[job]
                    push(ends_s, ending, n_running, end_s[job], job)
                    n_running += 1
            touched[k] = 0
    course.cursor[NEXT] = coming
    course.cursor[N_RUNNING] = n_running
    return coming >= n_jobs and n_running == 0


run_nodes = bound(run, "nodes", release=release_machines)
