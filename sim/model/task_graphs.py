"""Tasks that wait for each other: levels, longest paths, how wide a job is, and ranks.

The ranks are those of H. Topcuoglu, S. Hariri and M.-Y. Wu, Performance-effective and
low-complexity task scheduling for heterogeneous computing, IEEE TPDS 13(3), 2002, without
communication, which machines here do not know (`sim.policies.heft` does). With w what a task takes,

    upward     rank_u(i) = w(i) + max over children j of rank_u(j)       (their equation 5)
    downward   rank_d(i) = max over parents j of rank_d(j) + w(j)        (their equation 7)

A task of several instances takes as long as one of them.
"""

import numpy as np
from numpy.typing import NDArray

from sim.model.tasks import Tasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_CORES = 2.0**53
"""What a workload can count."""


def levels(tasks: Tasks) -> Ints:
    """Return how many tasks at most lie before each task on a path to it: int64 [n_tasks]."""
    none = np.zeros(tasks.n_tasks)
    return _along(tasks.first_parent, tasks.parent_task, none, none + 1).astype(np.int64)


def longest_paths(tasks: Tasks) -> Floats:
    """Return the seconds of each job on machines without end: float64 [n_jobs]."""
    ends = _along(tasks.first_parent, tasks.parent_task, tasks.runtime_s, np.zeros(tasks.n_tasks))
    return np.maximum.reduceat(ends, np.searchsorted(tasks.job, np.arange(tasks.n_jobs)))


def widest_cores(tasks: Tasks) -> Ints:
    """Return the whole cores of the widest level of each job, at least 1: int64 [n_jobs]."""
    level = levels(tasks)
    keys, where = np.unique(tasks.job * (int(level.max()) + 1) + level, return_inverse=True)
    taken = np.bincount(where, weights=tasks.mcpu.astype(np.float64) * tasks.instances)
    job = keys // (int(level.max()) + 1)
    widest = np.maximum.reduceat(taken, np.searchsorted(job, np.arange(tasks.n_jobs)))
    cores: Ints = np.clip(np.ceil(widest / 1000), 1, MOST_CORES).astype(np.int64)
    return cores


def upward_ranks(tasks: Tasks, takes_s: Floats) -> Floats:
    """Return the longest path from each task to the end of its job, itself included: [n_tasks]."""
    children = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    by_parent = np.argsort(tasks.parent_task, kind="stable")
    n_children = np.bincount(tasks.parent_task, minlength=tasks.n_tasks)
    first = np.concatenate([[0], np.cumsum(n_children)])
    return _along(first, children[by_parent], takes_s, np.zeros(tasks.n_tasks))


def downward_ranks(tasks: Tasks, takes_s: Floats) -> Floats:
    """Return the longest path from the begin of its job to each task, without it: [n_tasks]."""
    return _along(tasks.first_parent, tasks.parent_task, np.zeros(tasks.n_tasks), takes_s)


def _along(first: Ints, neighbours: Ints, own: Floats, beyond: Floats) -> Floats:
    """Return `own` plus the largest of what neighbours have and `beyond` them: float64 [n]."""
    waiting = np.flatnonzero(np.diff(first))
    values = own.astype(np.float64)
    if len(waiting) == 0:
        return values
    begins = first[waiting]
    while True:  # as many rounds as the deepest job has levels
        theirs = values[neighbours] + beyond[neighbours]
        moved = own[waiting] + np.maximum.reduceat(theirs, begins)
        if np.array_equal(moved, values[waiting]):
            return values
        values[waiting] = moved
