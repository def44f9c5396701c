"""HEFT and CPOP: plans for a task graph on processors of different speeds.

H. Topcuoglu, S. Hariri and M.-Y. Wu, Performance-effective and low-complexity task scheduling for
heterogeneous computing, IEEE Transactions on Parallel and Distributed Systems 13(3), 2002. Names
and order of steps are the paper's; functions cite its equations. A processor runs one task at a
time, and communication takes time only between different processors.

Beyond the paper: a task may be unable to run on some processors (infinite cost); there may be
several entry tasks; a graph may arrive after time 0, on processors that have tasks already. Ranks
that differ only by rounding are equal, and then the first task in a topological order by numbers
goes first; equal processors go by number.
"""

import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import ScenarioError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BusyTimes = list[list[tuple[float, float]]]
"""Busy times of each processor: pairs of start and finish, in rising order."""

ROUNDING = 2.0**-40


@dataclass(frozen=True, eq=False)
class Graph:
    """Task graph with the cost of each task on each processor and of each edge.

    Attributes:
        w: float64 [n_tasks, n_processors], seconds of computation; infinite where it cannot run.
        edges: int64 [n_edges, 2], pairs of a parent task and a child task.
        c: float64 [n_edges], seconds of communication between any two different processors, the
            paper's mean communication cost.
    """

    w: Floats
    edges: Ints
    c: Floats

    def __post_init__(self) -> None:
        set_now = object.__setattr__
        set_now(self, "w", np.asarray(self.w, dtype=np.float64))
        set_now(self, "edges", np.asarray(self.edges, dtype=np.int64).reshape(-1, 2))
        set_now(self, "c", np.asarray(self.c, dtype=np.float64))
        n = len(self.w)
        if self.w.ndim != 2 or 0 in self.w.shape or len(self.c) != len(self.edges):
            raise ScenarioError(
                f"a task graph has costs of shape {self.w.shape}, {len(self.edges)} edges and "
                f"{len(self.c)} communication costs; it needs tasks by processors, and a cost for "
                "each edge."
            )
        if not (self.w >= 0).all() or not np.isfinite(self.w).any(axis=1).all():
            raise ScenarioError(
                "costs of tasks must be seconds from 0, and every task must fit some processor."
            )
        if not ((self.c >= 0) & np.isfinite(self.c)).all():
            raise ScenarioError("communication costs must be finite seconds from 0.")
        if ((self.edges < 0) | (self.edges >= n)).any():
            raise ScenarioError(f"edges must join tasks by their numbers, from 0 to {n - 1}.")

    @property
    def n_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.w)

    def mean_w(self) -> Floats:
        """Return each task's mean cost in seconds over the processors that can run the task."""
        can = np.isfinite(self.w)
        return np.asarray(np.where(can, self.w, 0.0).sum(axis=1) / can.sum(axis=1))

    def neighbours(self, side: int) -> list[list[tuple[int, float]]]:
        """Return the parents (side 0) or children (side 1) of each task, with edge costs."""
        neighbours: list[list[tuple[int, float]]] = [[] for _ in range(self.n_tasks)]
        for edge, cost in zip(self.edges.tolist(), self.c.tolist(), strict=True):
            neighbours[edge[1 - side]].append((edge[side], cost))
        return neighbours

    def topological(self) -> list[int]:
        """Return the tasks in an order in which parents precede their children."""
        after, waits = self.neighbours(1), np.bincount(self.edges[:, 1], minlength=self.n_tasks)
        order = np.flatnonzero(waits == 0).tolist()
        for task in order:  # which grows meanwhile
            for child, _ in after[task]:
                waits[child] -= 1
                if waits[child] == 0:
                    order.append(child)
        if len(order) < self.n_tasks:
            stuck = int(np.flatnonzero(waits > 0)[0])
            raise ScenarioError(f"task {stuck} of a task graph waits for itself.")
        return order


@dataclass(frozen=True, eq=False)
class Plan:
    """Schedule of a task graph by HEFT or CPOP, as columns of [n_tasks].

    Attributes:
        processor: int64.
        start_s: float64, the paper's actual start time AST; `finish_s` its AFT.
        order: tasks in the order in which they were planned.
    """

    processor: Ints
    start_s: Floats
    finish_s: Floats
    order: tuple[int, ...]

    @property
    def makespan_s(self) -> float:
        """Return the makespan of the plan: the latest finish time in seconds."""
        return float(self.finish_s.max())


def rank_u(graph: Graph) -> Floats:
    """Return the upward rank of each task: seconds of the longest path from it to an exit task."""
    after, rank = graph.neighbours(1), graph.mean_w()
    for task in reversed(graph.topological()):
        rank[task] += max((cost + rank[child] for child, cost in after[task]), default=0.0)
    return rank


def rank_d(graph: Graph) -> Floats:
    """Return the downward rank of each task: seconds of the longest path from an entry task."""
    before, mean = graph.neighbours(0), graph.mean_w()
    rank = np.zeros(graph.n_tasks)
    for task in graph.topological():
        rank[task] = max(
            (rank[parent] + mean[parent] + cost for parent, cost in before[task]), default=0.0
        )
    return rank


def _descending(rank: Floats) -> list[float]:
    """Return ranks to sort by, largest first; ranks that differ only by rounding are equal."""
    unit = float(rank.max()) * ROUNDING or 1.0
    return [-float(number) for number in np.round(rank / unit)]


class _Planner:
    """A planner that puts each task into the first gap that is long enough."""

    def __init__(self, graph: Graph, ready_s: float, booked: BusyTimes | None) -> None:
        n_processors = graph.w.shape[1]
        self.w, self.before, self.ready_s = graph.w.tolist(), graph.neighbours(0), ready_s
        self.booked: BusyTimes = booked if booked is not None else [[] for _ in range(n_processors)]
        self.processor = [-1] * graph.n_tasks
        self.ast, self.aft = [math.nan] * graph.n_tasks, [math.nan] * graph.n_tasks
        self.order: list[int] = []

    def est(self, task: int, processor: int) -> float:
        """Return a task's earliest start on a processor, in a gap or after the last task."""
        ready = self.ready_s
        for parent, cost in self.before[task]:
            sent = 0.0 if self.processor[parent] == processor else cost
            ready = max(ready, self.aft[parent] + sent)
        lasts, begin = self.w[task][processor], ready
        for start, finish in self.booked[processor]:
            if begin + lasts <= start:
                break
            begin = max(begin, finish)
        return begin

    def eft(self, task: int, processor: int) -> float:
        """Return a task's earliest finish time on a processor, in seconds."""
        if self.w[task][processor] == math.inf:
            return math.inf
        return float(self.est(task, processor) + self.w[task][processor])

    def put(self, task: int, processor: int) -> None:
        """Assign a task to a processor at its earliest start time."""
        start = self.est(task, processor)
        finish = start + self.w[task][processor]
        self.processor[task], self.ast[task], self.aft[task] = processor, start, finish
        self.order.append(task)
        if finish > start:
            insort(self.booked[processor], (start, finish))

    def put_first_finished(self, task: int) -> None:
        """Assign a task to the processor on which it finishes earliest."""
        self.put(task, min(range(len(self.booked)), key=lambda p: (self.eft(task, p), p)))

    def plan(self) -> Plan:
        return Plan(
            np.array(self.processor, dtype=np.int64),
            np.array(self.ast),
            np.array(self.aft),
            tuple(self.order),
        )


def heft(graph: Graph, ready_s: float = 0.0, booked: BusyTimes | None = None) -> Plan:
    """Plan a task graph by Heterogeneous Earliest Finish Time (Topcuoglu et al., figure 2).

    Args:
        graph: graph to plan.
        ready_s: earliest start in seconds.
        booked: busy times of the processors; the plan is added to them.

    Raises:
        ScenarioError: the graph has a cycle.
    """
    place = {task: at for at, task in enumerate(graph.topological())}
    behind = _descending(rank_u(graph))
    planner = _Planner(graph, ready_s, booked)
    for task in sorted(range(graph.n_tasks), key=lambda i: (behind[i], place[i])):
        planner.put_first_finished(task)
    return planner.plan()


def critical_path(graph: Graph) -> tuple[int, ...]:
    """Return the tasks on one critical path: those with the largest rank_u + rank_d."""
    behind, after = _descending(rank_u(graph) + rank_d(graph)), graph.neighbours(1)
    not_entries = set(graph.edges[:, 1].tolist())
    entries = [task for task in range(graph.n_tasks) if task not in not_entries]
    path = [min(entries, key=lambda i: (behind[i], i))]
    while after[path[-1]]:
        children = {child for child, _ in after[path[-1]]}
        path.append(min(children, key=lambda i: (behind[i], i)))
    return tuple(path)


def cpop(graph: Graph, ready_s: float = 0.0, booked: BusyTimes | None = None) -> Plan:
    """Plan a task graph by Critical Path on a Processor (CPOP).

    The whole critical path goes to the processor with its lowest cost, if one can run all of it;
    every other task goes to the processor where it finishes first, as does the path otherwise.

    Raises:
        ScenarioError: the graph has a cycle.
    """
    behind = _descending(rank_u(graph) + rank_d(graph))
    set_cp = set(critical_path(graph))
    on_path = graph.w[sorted(set_cp)].sum(axis=0)
    p_cp = int(np.argmin(on_path))
    after = graph.neighbours(1)
    waits = np.bincount(graph.edges[:, 1], minlength=graph.n_tasks).tolist()
    planner = _Planner(graph, ready_s, booked)
    queue = [task for task in range(graph.n_tasks) if waits[task] == 0]
    while queue:
        task = min(queue, key=lambda i: (behind[i], i))
        queue.remove(task)
        if task in set_cp and math.isfinite(on_path[p_cp]):
            planner.put(task, p_cp)
        else:
            planner.put_first_finished(task)
        for child, _ in after[task]:
            waits[child] -= 1
            if waits[child] == 0:
                queue.append(child)
    return planner.plan()


PLANNERS: dict[str, Callable[..., Plan]] = {"heft": heft, "cpop": cpop}
"""Planners by name: (graph, ready_s, booked) to a plan."""
