"""Submissions that follow the end of another job: dependencies and think times.

A follower is submitted a think time after its preceding job has ended; without a known think time,
at its logged time, but not before that end (`sim.model.dependencies`). All jobs that are submitted
at one time get their places in the queue order together, by their row in the workload, so an
instant stays a set. A job without run time divides its instant in two.
"""

from typing import Any, NamedTuple

import numpy as np

from sim.kernel.event_heap import pop, push
from sim.kernel.jit import kernel, noinline
from sim.kernel.pool import Pool, arrive
from sim.model.dependencies import Dependencies

N_COMING, N_ARRIVED = 0, 1
"""Positions in `Feedback.cursor`: known future submissions of followers, jobs submitted so far."""


class Feedback(NamedTuple):
    """Followers of each job, and their submissions; all empty if jobs arrive as logged.

    Attributes:
        first: int64 [n + 1], where the followers of each job begin in `followers`; the last is the
            end.
        followers: int64 [n_followers], by preceding job and then by row.
        think_s: float64 [n], think time of each follower; -1 is unknown.
        follows: int64 [n], 1 for a follower.
        submitted_s: float64 [n], result: time of the submission.
        coming_s, coming: float64 and int64 [n_followers], heap of known future submissions.
        arriving: int64 [n], scratch for the jobs that are submitted at one time.
        cursor: int64 [2], see `N_COMING`.
    """

    first: list[int]
    followers: list[int]
    think_s: list[float]
    follows: list[int]
    submitted_s: list[float]
    coming_s: list[float]
    coming: list[int]
    arriving: list[int]
    cursor: list[int]


def new_feedback(dependencies: Dependencies | None = None) -> Feedback:
    """Return the initial state of the submissions of followers, as arrays; empty for None."""
    n_jobs = 0 if dependencies is None else len(dependencies.preceding)
    first, rows = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    follows, think_s = np.zeros(n_jobs, dtype=np.int64), np.zeros(n_jobs)
    if dependencies is not None:
        preceding = dependencies.preceding
        rows = np.flatnonzero(preceding >= 0)
        rows = rows[np.argsort(preceding[rows], kind="stable")]
        first = np.searchsorted(preceding[rows], np.arange(n_jobs + 1)).astype(np.int64)
        follows[rows] = 1
        think_s = np.where(np.isnan(dependencies.think_s), -1.0, dependencies.think_s)
    parts: list[Any] = [
        first,
        rows.astype(np.int64),
        think_s,
        follows,
        np.full(n_jobs, np.nan),
        np.empty(len(rows)),
        np.empty(len(rows), dtype=np.int64),
        np.empty(n_jobs, dtype=np.int64),
        np.zeros(2, dtype=np.int64),
    ]
    return Feedback(*parts)


@kernel
def submission_s(feedback: Feedback, logged_s: float, job: int, ended_s: float) -> float:
    """Return when a follower is submitted, from the end of its preceding job."""
    think_s = feedback.think_s[job]
    return max(logged_s, ended_s) if think_s < 0.0 else ended_s + think_s


@noinline
@kernel
def let_follow(feedback: Feedback, logged_s: list[float], job: int, now_s: float) -> None:
    """Schedule the submissions of the followers of a job that ends."""
    for i in range(feedback.first[job], feedback.first[job + 1]):
        follower = feedback.followers[i]
        time_s = submission_s(feedback, logged_s[follower], follower, now_s)
        push(feedback.coming_s, feedback.coming, feedback.cursor[N_COMING], time_s, follower)
        feedback.cursor[N_COMING] += 1


@noinline
@kernel
def submit_together(pool: Pool, feedback: Feedback, logged_s: list[float], partition: list[int],
                    touched: list[int], coming: int, now_s: float) -> int:  # fmt: skip
    """Queue all jobs that are submitted now, and return the next row that may be.

    The rank of a job before its submission is that of the first of all jobs with its score; the
    number of jobs submitted before it is added.

    Args:
        pool: queues and processors.
        feedback: submissions of followers.
        logged_s: float64 [n], logged submissions.
        partition: int64 [n], partition of each job; -1 takes no part.
        touched: int64 [m], set to 1 for each partition with a submission.
        coming: first row that has not been reached yet.
        now_s: time of the submissions.
    """
    arriving, n = feedback.arriving, 0
    while coming < len(logged_s) and logged_s[coming] == now_s:
        if partition[coming] >= 0 and feedback.follows[coming] == 0:
            arriving[n] = coming
            n += 1
        coming += 1
    while feedback.cursor[N_COMING] > 0 and feedback.coming_s[0] == now_s:
        job, place = feedback.coming[0], n
        pop(feedback.coming_s, feedback.coming, feedback.cursor[N_COMING])
        feedback.cursor[N_COMING] -= 1
        while place > 0 and arriving[place - 1] > job:
            arriving[place] = arriving[place - 1]
            place -= 1
        arriving[place] = job
        n += 1
    for i in range(n):
        job = arriving[i]
        feedback.submitted_s[job] = now_s
        pool.jobs[job].submit_s = now_s
        pool.jobs[job].rank += feedback.cursor[N_ARRIVED]
        feedback.cursor[N_ARRIVED] += 1
        arrive(pool, partition[job], job)
        touched[partition[job]] = 1
    return coming
