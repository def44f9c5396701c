"""Features of pairs of a ready task and a machine with room for one more instance of it.

Three sets, each with those before it. ``pairs`` are those of DeepJS: free resources of the machine;
resources, run time, waiting, running and finished instances of the task. ``graph`` adds the task's
place in the graph of its job. ``jobs`` adds what Decima (Mao et al., SIGCOMM 2019) looks at: the
work left of the job, its running instances and its age; and the product of request and free
resources of Tetris.

Amounts are shares of the largest machine; times are log(1 + time / scale); counts log(1 + n).
"""

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.cluster import UNLIMITED
from sim.placement.live_cluster import LiveCluster, LiveJob, LiveTask

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RESOURCES = ("cpu", "memory", "disk", "gpu")
PAIRS = (
    *(f"free_{name}" for name in RESOURCES), *(f"asked_{name}" for name in RESOURCES),
    "run_time", "waiting", "instances", "running", "finished",
)  # fmt: skip
GRAPH = ("path_to_end", "depth", "children", "behind")
JOBS = ("work_left", "path", "running_of_job", "age", "alignment")

FEATURES: dict[str, tuple[str, ...]] = {
    "pairs": PAIRS,
    "graph": (*PAIRS, *GRAPH),
    "jobs": (*PAIRS, *GRAPH, *JOBS),
}
"""Names of the features of each set, in their order."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Pairs of a ready task and a machine with room; of machines that are alike only the first.

    Attributes:
        tasks, machines: int64 [n], places in the ready tasks and in the machines.
        features: float64 [n, n_features].
    """

    tasks: Ints
    machines: Ints
    features: Floats


class PairReader:
    """A reader of the features of one simulation, which keeps what does not change.

    Args:
        cluster: view of the simulation.
        kind: a set of `FEATURES`.
        scale_s: unit of times in seconds.
    """

    def __init__(self, cluster: LiveCluster, kind: str, scale_s: float) -> None:
        self.cluster, self.kind, self.scale_s = cluster, kind, scale_s
        capacity = np.array([machine.capacity for machine in cluster.machines], dtype=np.int64)
        largest = np.where(capacity < UNLIMITED, capacity, 0).max(axis=0)
        self._largest = np.where(largest > 0, largest, np.inf)
        self._suits: dict[int, NDArray[np.bool_]] = {}
        self._of_task: dict[int, tuple[float, ...]] = {}
        self._seconds: dict[tuple[int, float, float], float] = {}
        self._path_s: dict[int, float] = {}
        self._work_s: dict[int, float] = {}
        self._work_left: dict[int, float] = {}
        self._clock_s = -math.inf

    def choices(self, clock_s: float) -> Choices | None:
        """Return all pairs of a ready task and a machine with room for it; None without any."""
        if clock_s != self._clock_s:
            self._clock_s = clock_s
            self._work_left.clear()
        ready, machines = self.cluster.ready_tasks, self.cluster.machines
        if not ready:
            return None
        first_alike: dict[object, int] = {}
        for machine in machines:
            key = (machine.kind, machine.speeds, machine.free, machine.free_gpus)
            first_alike.setdefault(key, machine.number)
        alike = np.fromiter(first_alike.values(), dtype=np.int64)
        free = np.array([machines[i].free for i in alike.tolist()], dtype=np.int64)
        asked = np.array([task.takes for task in ready], dtype=np.int64)
        has_room = np.all(free[None] >= asked[:, None], axis=2)
        for row, task in enumerate(ready):
            if task.takes.mgpu > 0:
                has_room[row] = [machines[i].accommodate(task) for i in alike.tolist()]
            else:
                has_room[row] &= self._suiting(task)[alike]
        tasks, places = np.nonzero(has_room)
        if len(tasks) == 0:
            return None
        features = self._features(ready, tasks, places, alike, free, asked)
        return Choices(tasks, alike[places], features)

    def _suiting(self, task: LiveTask) -> NDArray[np.bool_]:
        """Return which machines could hold a task when idle: bool [n_machines]."""
        if task.need not in self._suits:
            could = [machine.could_hold(task) for machine in self.cluster.machines]
            self._suits[task.need] = np.array(could)
        return self._suits[task.need]

    def _features(
        self,
        ready: tuple[LiveTask, ...],
        tasks: Ints,
        places: Ints,
        alike: Ints,
        free: Ints,
        asked: Ints,
    ) -> Floats:
        free_shares = np.minimum(free / self._largest, 1.0)
        asked_shares = asked / self._largest
        used = sorted(set(tasks.tolist()))
        run_s = np.array(
            [self._run_s(ready[t], int(alike[m])) for t, m in zip(tasks, places, strict=True)]
        )
        counts = np.zeros((len(ready), 4))
        for t in used:
            task = ready[t]
            counts[t] = task.n_waiting, task.n_instances, task.n_running, task.n_finished
        columns = [
            free_shares[places], asked_shares[tasks], np.log1p(run_s / self.scale_s)[:, None],
            np.log1p(counts)[tasks],
        ]  # fmt: skip
        if self.kind != "pairs":
            graph = np.zeros((len(ready), len(GRAPH)))
            for t in used:
                graph[t] = self._graph_of(ready[t])
            columns.append(graph[tasks])
        if self.kind == "jobs":
            running = Counter(one.task.job.number for one in self.cluster.running_instances)
            job = np.zeros((len(ready), 4))
            for t in used:
                job[t] = self._job_of(ready[t].job, running)
            alignment = (free_shares[places] * asked_shares[tasks]).sum(axis=1)
            columns += [job[tasks], alignment[:, None]]
        return np.hstack(columns)

    def _run_s(self, task: LiveTask, machine: int) -> float:
        cpu, gpu = self.cluster.machines[machine].speeds
        key = (task.number, cpu, gpu)
        if key not in self._seconds:
            self._seconds[key] = self.cluster.machines[machine].seconds_for(task)
        return self._seconds[key]

    def _log(self, time_s: float) -> float:
        return math.log1p(time_s / self.scale_s)

    def _graph_of(self, task: LiveTask) -> tuple[float, ...]:
        if task.number not in self._of_task:
            self._read_graph(task.job)
        return self._of_task[task.number]

    def _read_graph(self, job: LiveJob) -> None:
        """Keep the places of a job's tasks in its graph, parents first and children first."""
        order: list[LiveTask] = []
        waits = {task.number: len(task.parents) for task in job.tasks}
        depth = dict.fromkeys(waits, 0)
        order += [task for task in job.tasks if waits[task.number] == 0]
        for task in order:  # which grows meanwhile
            for child in task.children:
                depth[child.number] = max(depth[child.number], depth[task.number] + 1)
                waits[child.number] -= 1
                if waits[child.number] == 0:
                    order.append(child)
        to_end_s: dict[int, float] = {}
        below: dict[int, set[int]] = {}
        for task in reversed(order):
            children = task.children
            longest = max((to_end_s[child.number] for child in children), default=0.0)
            to_end_s[task.number] = task.runtime_s + longest
            below[task.number] = {c.number for c in children}.union(
                *(below[child.number] for child in children)
            )
            self._of_task[task.number] = (
                self._log(to_end_s[task.number]), math.log1p(depth[task.number]),
                math.log1p(len(children)), math.log1p(len(below[task.number])),
            )  # fmt: skip
            share = float((np.array(task.takes) / self._largest).max())
            self._work_s[task.number] = task.runtime_s * share
        self._path_s[job.number] = max(to_end_s.values())

    def _job_of(self, job: LiveJob, running: Counter[int]) -> tuple[float, ...]:
        if job.number not in self._path_s:
            self._read_graph(job)
        if job.number not in self._work_left:
            self._work_left[job.number] = sum(
                (task.n_instances - task.n_finished) * self._work_s[task.number]
                for task in job.tasks
            )
        return (
            self._log(self._work_left[job.number]),
            self._log(self._path_s[job.number]),
            math.log1p(running[job.number]),
            self._log(self._clock_s - job.submit_s),
        )
