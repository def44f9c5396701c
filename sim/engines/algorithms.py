"""Algorithms: user-defined objects that place tasks, their interface, and examples.

The examples are first fit, random fit, and the plans of HEFT and CPOP carried out.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.engines.live_cluster import LiveCluster, LiveJob, LiveMachine, LiveTask
from sim.model.errors import ScenarioError
from sim.model.result import SimulationResult
from sim.policies.heft import PLANNERS, BusyTimes, Graph

Choice = tuple[LiveMachine, LiveTask] | tuple[None, None]


class Algorithm(Protocol):
    """Object that decides which task is placed on which machine next.

    As in CloudSimPy, the scheduler calls it again and again, until the answer is (None, None). Each
    answer places one instance, and the cluster shows it at once.
    """

    def algorithm(self, cluster: LiveCluster, clock: float, /) -> Choice:
        """Return a machine and the task to place one instance of, or (None, None) to stop.

        `clock` is the time in seconds since the first submission.
        """
        ...


@dataclass(frozen=True)
class Monitor:
    """Settings for recording the cluster during the simulation.

    Attributes:
        tick_s: interval of records in seconds, from 0 until all has ended; None records the end of
            every instant with an event.
        machines: whether to record the used resources of each machine.
    """

    tick_s: float | None = None
    machines: bool = False


@dataclass(frozen=True, eq=False)
class FleetSeries:
    """Recorded cluster state as step functions of time, in read-only columns of [n_steps].

    Attributes:
        time_s: float64, seconds, strictly increasing.
        n_submitted, n_unfinished: int64, submitted jobs, and those of them that have not ended.
        n_ready, n_waiting, n_running: int64, tasks that can be placed, their instances that are on
            no machine, and instances on machines.
        used: int64 [n_steps, 4], thousandths of cores, bytes of memory and disk, thousandths of
            GPUs in use.
        used_by_machine: int64 [n_steps, n_machines, 4]; None if it was not requested.
    """

    time_s: NDArray[np.float64]
    n_submitted: NDArray[np.int64]
    n_unfinished: NDArray[np.int64]
    n_ready: NDArray[np.int64]
    n_waiting: NDArray[np.int64]
    n_running: NDArray[np.int64]
    used: NDArray[np.int64]
    used_by_machine: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for column in vars(self).values():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)


@dataclass(frozen=True)
class AlgorithmRun:
    """Outcome of a simulation in which an `Algorithm` object placed the tasks.

    Attributes:
        result: result as of any engine, for `summarise_instances`. Its digest is unique, because a
            scenario does not describe the object: it is in no cache.
        series: records of the monitor; None without one.
        n_asked: number of calls of the algorithm.
    """

    result: SimulationResult
    series: FleetSeries | None
    n_asked: int


MOST_EDGES = 1_000_000


class FirstFit:
    """Algorithm that places the first ready task that fits, on the first machine with room.

    Equal to placement ``first_fit`` with backfill ``greedy``, instance by instance. Room only
    shrinks within one instant, so a machine without room is not examined again.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}

    def algorithm(self, cluster: LiveCluster, _clock: float) -> Choice:
        """Return the first machine with room for the first ready task that fits, and this task."""
        for task in cluster.ready_tasks:
            for machine in cluster.machines[self._first.get(task.need, 0) :]:
                self._first[task.need] = machine.number
                if machine.accommodate(task):
                    return machine, task
            self._first[task.need] = len(cluster.machines)
        self._first.clear()
        return None, None


class RandomFit:
    """Algorithm that places a random ready task on a random machine with room.

    Args:
        seed: seed of its random generator.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def algorithm(self, cluster: LiveCluster, _clock: float) -> Choice:
        """Return a uniformly random pair of a machine and a ready task with room there."""
        pairs = [
            (machine, task)
            for task in cluster.ready_tasks
            for machine in cluster.machines
            if machine.accommodate(task)
        ]
        return pairs[int(self.rng.integers(len(pairs)))] if pairs else (None, None)


class _PlannedAlgorithm:
    """An algorithm that plans each job when it arrives, and then keeps the plan.

    Each instance is a task of the paper, and each machine a processor, which runs one task at a
    time. A job is planned into the gaps of earlier ones. Communication costs nothing here. Run
    times are known, as in the paper.
    """

    planner: str

    def __init__(self) -> None:
        self._n_planned = 0
        self._booked: BusyTimes = []
        self._lines: list[deque[tuple[float, float, LiveTask]]] = []

    def algorithm(self, cluster: LiveCluster, clock: float) -> Choice:
        """Return an idle machine with the next planned instance, if the task is ready."""
        if not self._lines:
            self._booked = [[] for _ in cluster.machines]
            self._lines = [deque() for _ in cluster.machines]
        for job in cluster.jobs[self._n_planned :]:
            self._plan(cluster, job)
            self._n_planned += 1
        for machine, line in zip(cluster.machines, self._lines, strict=True):
            if (
                line
                and line[0][0] <= clock
                and line[0][2].is_ready
                and not machine.running_instances
            ):
                return machine, line.popleft()[2]
        return None, None

    def _plan(self, cluster: LiveCluster, job: LiveJob) -> None:
        come_s = job.submit_s
        self._booked = [
            [interval for interval in busy if interval[1] > come_s] for busy in self._booked
        ]
        instances = [task for task in job.tasks for _ in range(task.n_instances)]
        graph = _graph(cluster, job, instances)
        plan = PLANNERS[self.planner](graph, come_s, self._booked)
        columns = (plan.processor, plan.start_s, plan.finish_s)
        rows = zip(*(column.tolist() for column in columns), instances, strict=True)
        for processor, start_s, finish_s, task in rows:
            self._lines[processor].append((start_s, finish_s, task))
        for i, line in enumerate(self._lines):
            self._lines[i] = deque(sorted(line, key=lambda interval: interval[:2]))


class Heft(_PlannedAlgorithm):
    """Algorithm that plans each arriving job by HEFT and places tasks by that plan."""

    planner = "heft"


class Cpop(_PlannedAlgorithm):
    """Algorithm that plans each arriving job by CPOP and places tasks by that plan."""

    planner = "cpop"


def _graph(cluster: LiveCluster, job: LiveJob, instances: list[LiveTask]) -> Graph:
    """Return the graph of a job's instances, with the time of each on each machine."""
    if any(task.is_gang for task in job.tasks):
        raise ScenarioError(
            f"job {job.job_id} has a gang, which HEFT and CPOP cannot plan: they run one instance "
            "at a time on a machine; choose another algorithm."
        )
    of_task = {
        task.number: [
            machine.seconds_for(task) if machine.could_hold(task) else math.inf
            for machine in cluster.machines
        ]
        for task in job.tasks
    }
    first, place = 0, {}
    for task in job.tasks:
        place[task.number] = range(first, first + task.n_instances)
        first += task.n_instances
    n_edges = sum(
        parent.n_instances * task.n_instances for task in job.tasks for parent in task.parents
    )
    if n_edges > MOST_EDGES:
        raise ScenarioError(
            f"job {job.job_id} has {n_edges:,} edges between its instances; HEFT and CPOP plan at "
            f"most {MOST_EDGES:,}, so choose an order such as 'upward_rank' instead."
        )
    edges = [
        (i, j)
        for task in job.tasks
        for parent in task.parents
        for i in place[parent.number]
        for j in place[task.number]
    ]
    w = np.array([of_task[task.number] for task in instances])
    return Graph(w, np.array(edges, dtype=np.int64).reshape(-1, 2), np.zeros(len(edges)))
