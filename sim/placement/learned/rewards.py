"""Reward givers: what a policy is rewarded for, as DeepJS has them, and what no policy can reach.

Between two decisions a reward giver takes away what the unfinished jobs cost in that time, so that
the sum of all rewards is minus the objective: 1 a second for the makespan; 1 a second and job for
average completion; and 1 / (seconds of the job's longest path) for average slowdown. Jobs count
from their submission. (CloudSimPy counts single tasks, and averages them from their first start.)
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.admission import capacity_of
from sim.model.cluster import UNLIMITED
from sim.model.errors import ScenarioError, entry_named
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import longest_paths

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FinishedJobs:
    """Times of the jobs of one simulation, in seconds since the first submission.

    Attributes:
        submit_s, end_s: float64 [n_jobs].
        path_s: float64 [n_jobs], longest path through the tasks at full speed, the least time that
            the job can take.
    """

    submit_s: Floats
    end_s: Floats
    path_s: Floats

    @classmethod
    def of(cls, scenario: Scenario, result: SimulationResult) -> "FinishedJobs":
        """Return the times of a simulation; jobs that were rejected are left out."""
        tasks = scenario.workload.tasks
        if tasks is None:
            raise ScenarioError("rewards are for jobs of tasks; use a workload with tasks.")
        ended = ~np.isnan(result.end_s)
        submit_s = scenario.workload.submit_s - scenario.workload.submit_s[0]
        return cls(submit_s[ended], result.end_s[ended], longest_paths(tasks)[ended])


@dataclass(frozen=True)
class RewardGiver:
    """A reward giver: the cost of unfinished jobs per second.

    Attributes:
        name, summary: name in the command line, and one line for people.
        unit: of the objective; empty for a ratio.
        weights: function of the longest paths of jobs, float64 [n_jobs], to the cost of each
            unfinished job per second; None costs 1 a second until the last job has ended.
    """

    name: str
    summary: str
    unit: str
    weights: Callable[[Floats], Floats] | None

    def objective(self, jobs: FinishedJobs) -> float:
        """Return the objective, which is to be low: minus the sum of all rewards."""
        return -float(self.returns(jobs, np.zeros(1))[0])

    def returns(self, jobs: FinishedJobs, time_s: Floats) -> Floats:
        """Return the sum of all rewards after each time (the return to go): float64 [n]."""
        if self.weights is None:
            left_s: Floats = np.maximum(jobs.end_s.max(initial=0.0) - time_s, 0.0)
            return -left_s
        weights = self.weights(jobs.path_s)
        from_s = np.maximum(jobs.submit_s[None], time_s[:, None])
        returns: Floats = -(np.maximum(jobs.end_s[None] - from_s, 0.0) @ weights)
        return returns


def _per_job(path_s: Floats) -> Floats:
    return np.full(len(path_s), 1.0 / max(len(path_s), 1))


def _per_path(path_s: Floats) -> Floats:
    some = path_s > 0  # a job that takes no time has no slowdown
    return np.where(some, 1.0 / np.where(some, path_s, 1.0), 0.0) / max(int(some.sum()), 1)


REWARD_GIVERS: tuple[RewardGiver, ...] = (
    RewardGiver("makespan", "the end of the last job", "s", None),
    RewardGiver("slowdown", "mean of response over the job's longest path", "", _per_path),
    RewardGiver("completion", "mean time from submission to the end of a job", "s", _per_job),
)


def reward_giver_named(name: str) -> RewardGiver:
    """Return the reward giver with a name, or raise `UnknownNameError`."""
    return entry_named("objective", name, REWARD_GIVERS)


def hindsight_bound(scenario: Scenario, objective: str) -> float:
    """Return a value of an objective that no schedule can go below; machines run at full speed.

    Makespan: every job needs its longest path; and from any submission on, what is submitted then
    or later keeps each resource of the whole cluster busy for some time. Completion: the same two,
    for means. If the cluster were one machine that splits jobs at will, shortest remaining time
    first would have the least mean (Schrage 1968), and no cluster of its size does better.
    Slowdown: the longest paths alone, which is 1.

    Args:
        scenario: scenario with allocation ``instances`` in which every job fits.
        objective: name of a reward giver.

    Raises:
        UnknownNameError: no such objective.
        ScenarioError: the jobs have no tasks, or have units of work, whose times are not fixed.
    """
    giver, tasks = reward_giver_named(objective), scenario.workload.tasks
    if tasks is None or tasks.work is not None:
        raise ScenarioError("a bound needs jobs of tasks with fixed run times, not units of work.")
    submit_s = scenario.workload.submit_s - scenario.workload.submit_s[0]
    path_s = longest_paths(tasks)
    by_path = giver.objective(FinishedJobs(submit_s, submit_s + path_s, path_s))
    total = capacity_of(scenario.cluster).astype(np.float64).sum(axis=0)
    work = tasks.demands * (tasks.runtime_s * tasks.instances)[:, None]
    of_job = np.array([np.bincount(tasks.job, column, tasks.n_jobs) for column in work.T]).T
    limited = (total > 0) & (total < UNLIMITED)
    busy_s = of_job[:, limited] / total[limited]
    if giver.weights is None:
        later = np.cumsum(busy_s[::-1], axis=0)[::-1].max(axis=1)
        return max(by_path, float((submit_s + later).max()))
    weights = giver.weights(path_s)
    if np.ptp(weights) > 0:
        return by_path  # the argument is for jobs that weigh the same
    means = [_mean_of_shortest_first(submit_s, column) for column in busy_s.T]
    return max([by_path, *(float(weights.sum()) * mean for mean in means)])


def _mean_of_shortest_first(submit_s: Floats, busy_s: Floats) -> float:
    """Return the mean time in a system of one machine by shortest remaining time first."""
    left: list[float] = []
    total_s, now_s = 0.0, 0.0
    for come_s, new_s in [*zip(submit_s.tolist(), busy_s.tolist(), strict=True), (np.inf, 0.0)]:
        while left and now_s + left[0] <= come_s:
            now_s += heapq.heappop(left)
            total_s += now_s
        if left:
            heapq.heapreplace(left, left[0] - (come_s - now_s))
        now_s = come_s
        heapq.heappush(left, new_s)
    return (total_s - float(submit_s.sum())) / len(submit_s)
