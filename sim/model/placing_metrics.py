"""How well machines were filled with what was asked of them.

Notation: an instance is submitted with its job at s, placed at b and ends at e; it asks for c of a
resource of which the machines have C. T is the last submission.

======================  ====================================================================
placed share            sum(c (e - b)) / sum(c (e - s)): of what is asked, over the time in which
                        it is, what is on a machine; an instance that finds no machine at all is
                        left out, and its job counts as rejected
placed at the end       the same at T: of what was asked until then and has not ended, what is on
                        a machine
allocation at the end   what is on machines at T, of C
slowdown                of a job: (end - submission) / t, t the time that its longest chain of
                        tasks takes at full speed; jobs that take no time are left out
bounded slowdown        max(1, (end - submission) / max(t, 10 s)) (Feitelson)
fragmentation           see `sim.model.fragmentation`: of all GPUs those that are free and of no
                        use, on average from the first submission to the last end, and at T
beyond                  where more processors are promised than there are: of what is held, what
                        is beyond those that there are, sum over machines of max(0, held - real)
======================  ====================================================================
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import UNLIMITED
from sim.model.fragmentation import Fragmentation, Target, fragmentation
from sim.model.metrics import TAU_S, Distribution, distribution
from sim.model.needs import Pace, capacity_of, tasks_of
from sim.model.result import Instances, SimulationResult
from sim.model.scenario import Scenario
from sim.model.tasks import DEMANDS, Tasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

RESOURCE_NAMES = {"mcpu": "cpu", "mem_bytes": "memory", "disk_bytes": "disk", "mgpu": "gpu"}


@dataclass(frozen=True)
class PlacingMetrics:
    """Summary of how instances were placed; see the head of this module for the formulas.

    Attributes:
        placed: share of what was asked that was on machines, by resource: cpu, memory, disk, gpu.
            A resource that nobody asks for is missing.
        placed_at_end: likewise, at the last submission.
        allocation_at_end: share of what there is, at the last submission; a resource is missing
            if a machine has it without limit, or none has any.
        slowdown: of jobs, a ratio.
        bounded_slowdown: likewise.
        fragmented: mean share of all GPUs that is fragments; None without GPUs.
        fragmented_at_end: likewise at the last submission.
        fragmented_of_free: fragments, as a share of the free GPUs, at the last submission; None if
            none is free.
    """

    placed: dict[str, float]
    placed_at_end: dict[str, float]
    allocation_at_end: dict[str, float]
    slowdown: Distribution
    bounded_slowdown: Distribution
    fragmented: float | None
    fragmented_at_end: float | None
    fragmented_of_free: float | None

    def flat(self) -> dict[str, float]:
        """Return the measures by name: ``gpu_placed``, ``mean_slowdown``, ``gpu_fragmented``...

        What is unknown is not among the keys.
        """
        told: dict[str, float | None] = {}
        for what, shares in (
            ("placed", self.placed),
            ("placed_at_end", self.placed_at_end),
            ("allocation_at_end", self.allocation_at_end),
        ):
            told |= {f"{name}_{what}": share for name, share in shares.items()}
        told |= {
            "mean_slowdown": self.slowdown.mean,
            "mean_bounded_slowdown": self.bounded_slowdown.mean,
            "gpu_fragmented": self.fragmented,
            "gpu_fragmented_at_end": self.fragmented_at_end,
            "free_gpu_fragmented_at_end": self.fragmented_of_free,
        }
        return {name: float(value) for name, value in told.items() if value is not None}


def placing_metrics(
    scenario: Scenario,
    result: SimulationResult,
    pace: Pace,
    target: Target | None = None,
) -> PlacingMetrics:
    """Measure how instances were placed.

    Args:
        scenario: what was simulated, with allocation ``instances``.
        result: what `simulate` returned for it.
        pace: work and speed of its tasks.
        target: what usually comes, for fragmentation; None is the workload of the scenario.

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, found = tasks_of(scenario), _instances_of(result)
    submit_s = scenario.workload.submit_s
    last_s = float(submit_s.max())
    ran = ~np.isnan(found.start_s)
    task = np.repeat(np.arange(tasks.n_tasks), tasks.instances)[ran]
    start_s, end_s = found.start_s[ran], found.end_s[ran]
    asked_s = end_s - submit_s[tasks.job[task]]
    demand = tasks.demands[task].astype(np.float64)
    asks_then = end_s > last_s
    is_on = asks_then & (start_s <= last_s)
    slowdown, bounded = _slowdowns(scenario, result, pace)
    capacity = capacity_of(scenario.cluster)
    limited = {
        r: float(capacity[:, r].sum())
        for r in range(len(DEMANDS))
        if capacity[:, r].any() and (capacity[:, r] < UNLIMITED).all()
    }
    held_then = demand[is_on].sum(axis=0)
    fragments = fragmentation(scenario, result, target)
    return PlacingMetrics(
        placed=_shares((demand * (end_s - start_s)[:, None]).sum(axis=0), asked_s @ demand),
        placed_at_end=_shares(held_then, demand[asks_then].sum(axis=0)),
        allocation_at_end={
            RESOURCE_NAMES[DEMANDS[r]]: float(held_then[r]) / most for r, most in limited.items()
        },
        slowdown=slowdown,
        bounded_slowdown=bounded,
        **_fragments(fragments, last_s),
    )


def beyond(scenario: Scenario, result: SimulationResult, real_mcpu: Ints) -> float:
    """Return the share of the processors held that is beyond those that there really are.

    Args:
        scenario: what was simulated; its machines may promise more than they have.
        result: what `simulate` returned for it.
        real_mcpu: int64 [n_machines], thousandths of cores that each really has.

    Raises:
        ScenarioError: the result has no instances.
    """
    tasks, found = tasks_of(scenario), _instances_of(result)
    rows = np.flatnonzero((found.machine >= 0) & (found.end_s > found.start_s))
    mcpu = np.repeat(tasks.mcpu, tasks.instances)[rows]
    where = np.concatenate([found.machine[rows]] * 2)
    time_s = np.concatenate([found.start_s[rows], found.end_s[rows]])
    order = np.lexsort((time_s, where))
    where, time_s = where[order], time_s[order]
    held = np.cumsum(np.concatenate([mcpu, -mcpu])[order])[:-1]  # each machine ends with 0
    lasts_s = np.where(np.diff(where) == 0, np.diff(time_s), 0.0)
    over = np.maximum(held - real_mcpu[where[:-1]], 0)
    total = float((held * lasts_s).sum())
    return float((over * lasts_s).sum()) / total if total else 0.0


def chains_s(tasks: Tasks, lasts_s: Floats) -> Floats:
    """Return how long the longest chain of tasks of each job takes: float64 [n_jobs].

    Args:
        tasks: of the jobs.
        lasts_s: float64 [n_tasks], how long each takes.
    """
    ends_s = lasts_s.astype(np.float64)
    child = np.repeat(np.arange(tasks.n_tasks), np.diff(tasks.first_parent))
    changed = len(child) > 0
    while changed:  # once for each task of the longest chain
        latest_s = np.zeros(tasks.n_tasks)
        np.maximum.at(latest_s, child, ends_s[tasks.parent_task])
        later_s = latest_s + lasts_s
        changed = bool((later_s > ends_s).any())
        ends_s = later_s
    first = np.searchsorted(tasks.job, np.arange(tasks.n_jobs))
    return np.maximum.reduceat(ends_s, first)


def _instances_of(result: SimulationResult) -> Instances:
    if result.instances is None:
        raise ScenarioError("the result has no instances; simulate with allocation='instances'.")
    return result.instances


def _slowdowns(
    scenario: Scenario, result: SimulationResult, pace: Pace
) -> tuple[Distribution, Distribution]:
    tasks = tasks_of(scenario)
    least_s = chains_s(
        tasks, np.maximum(pace.cpu_work / pace.cpu_rate, pace.gpu_work / pace.gpu_rate)
    )
    response_s = result.end_s - scenario.workload.submit_s
    ran = ~np.isnan(response_s)
    some = ran & (least_s > 0)
    bounded = np.maximum(response_s[ran] / np.maximum(least_s[ran], TAU_S), 1.0)
    return distribution(response_s[some] / least_s[some]), distribution(bounded)


def _shares(part: Floats, whole: Floats) -> dict[str, float]:
    told = zip(DEMANDS, part, whole, strict=True)
    return {RESOURCE_NAMES[name]: float(some / all_) for name, some, all_ in told if all_}


def _fragments(found: Fragmentation | None, last_s: float) -> dict[str, float | None]:
    if found is None:
        return {"fragmented": None, "fragmented_at_end": None, "fragmented_of_free": None}
    free, fragmented = (float(one[0]) for one in found.at(np.array([last_s])))
    return {
        "fragmented": found.means()[1] / found.n_gpus,
        "fragmented_at_end": fragmented / found.n_gpus,
        "fragmented_of_free": fragmented / free if free else None,
    }
