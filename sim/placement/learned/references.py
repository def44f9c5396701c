"""What a trained scheduler is compared with: heuristics, and a bound that no schedule passes."""

import heapq
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim.engines.compiled import run_instances_interpreted
from sim.model.admission import capacity_of
from sim.model.cluster import UNLIMITED
from sim.model.errors import ScenarioError
from sim.model.scenario import Scenario
from sim.model.tasks import longest_paths
from sim.placement.learned.rewards import FinishedJobs, RewardGiver, reward_giver_named
from sim.policies.orders import ORDERS, TASK_ORDERS

Floats = NDArray[np.float64]

IN_TURN, ANEW, FOR_TIES = "greedy", ("drf", "max_weight", "least_work"), ("fcfs", "upward_rank")
PLACEMENTS = ("first_fit", "best_fit")


def heuristics() -> tuple[tuple[str, str, str], ...]:
    """Return the orders, rules of who is next, and placements that a training is compared with.

    These are every order of jobs and of tasks, and every rule that asks anew who is next (with two
    orders for ties), each with first fit and with best fit.
    """
    turns = [(order.name, IN_TURN) for order in (*ORDERS, *TASK_ORDERS)]
    turns += [(order, rule) for rule in ANEW for order in FOR_TIES]
    return tuple((*turn, placement) for turn in turns for placement in PLACEMENTS)


def heuristic_objective(
    scenario: Scenario, heuristic: tuple[str, str, str], giver: RewardGiver
) -> float:
    """Return the objective under a heuristic; infinite if it cannot place these jobs."""
    order, backfill, placement = heuristic
    try:
        result = run_instances_interpreted(
            replace(scenario, order=order, backfill=backfill, placement=placement)
        )
    except ScenarioError:
        return np.inf
    return giver.objective(FinishedJobs.of(scenario, result))


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
