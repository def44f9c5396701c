"""Simulation of task instances that a user's algorithm object places on machines.

The module has the interface of such an object, its engine, and examples: first fit, random fit, and
the plans of HEFT and CPOP carried out.

The engine is made of SimPy processes. The broker submits jobs at their times. The scheduler calls
the algorithm at the end of every instant with an arrival, an end or a change of speed; with a tick,
at 0, tick, 2 tick ... instead, as CloudSimPy does every second. The monitor records after the
scheduler, by the same rule. An instance that ends and a job that arrives at the exact time of a
tick are seen by that tick. (In CloudSimPy this depends on which event was created first.)
"""

import hashlib
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from simpy.events import Event

from sim.engines.fleet_setup import instances_result, make_fleet
from sim.engines.process import (
    WATCHES,
    Calendar,
    FleetKernel,
    FleetScheduler,
    Steps,
    arrivals,
    throttle_events,
)
from sim.kernel.instances import settle, throttle
from sim.kernel.records import interpretable
from sim.model.errors import ScenarioError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.placement.heft import PLANNERS, BusyTimes, Graph
from sim.placement.live_cluster import LiveCluster, LiveJob, LiveMachine, LiveState, LiveTask
from sim.policies.placements import ALL_OR_NOTHING
from sim.policies.policy_options import options_of

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
        result: result as of any engine, for `summarise_instances`. Its digest is not that of the
            scenario, which does not describe the object: it is in no cache.
        series: records of the monitor; None without one.
        n_asked: number of calls of the algorithm.
    """

    result: SimulationResult
    series: FleetSeries | None
    n_asked: int


PATIENCE = 10_000
"""Maximum of calls in a row that place nothing while nothing computes and nothing arrives."""

LEAST_TICK_S = 1e-6


class _AlgorithmDecider:
    """A decider that calls the algorithm, checks its answers and carries them out."""

    def __init__(
        self, state: LiveState, algorithm: Callable[[LiveCluster, float], Choice], name: str
    ) -> None:
        self.state, self.algorithm, self.name = state, algorithm, name
        self.cluster = LiveCluster(state)
        self.is_due, self.ticks, self.n_asked, self.n_in_vain = True, False, 0, 0

    def decide(self, now_s: float) -> int:
        """Place instances until the algorithm returns (None, None)."""
        state = self.state
        state.new_decision()
        if self.ticks and not self.is_due:
            return 0
        self.is_due, n_placed = False, 0
        while True:
            self.n_asked += 1
            answer = self.algorithm(self.cluster, now_s)
            machine, task = self._checked(answer, now_s)
            if machine is None or task is None:
                break
            state.place(task.number, machine.number, now_s)
            n_placed += 1
        self.n_in_vain = 0 if n_placed or state.n_computing else self.n_in_vain + 1
        return state.n_changed

    def _checked(self, answer: object, now_s: float) -> tuple[LiveMachine | None, LiveTask | None]:
        where = f"algorithm {self.name} at {now_s:.15g} s"
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ScenarioError(
                f"{where} returned {answer!r:.60}; return a machine and a task, or (None, None)."
            )
        machine, task = answer
        if machine is None or task is None:
            return None, None
        if not isinstance(machine, LiveMachine) or not isinstance(task, LiveTask):
            raise ScenarioError(
                f"{where} returned {type(machine).__name__} and {type(task).__name__}; return a "
                "machine of cluster.machines and a task of cluster.ready_tasks, in this order."
            )
        task_text = f"task {task.number} of job {task.job.job_id}"
        if not task.is_ready or task.n_waiting == 0:
            why = "waits for others" if not task.is_ready else "has no instance left to place"
            raise ScenarioError(
                f"{where} chose {task_text}, which {why}; choose from cluster.ready_tasks."
            )
        if not machine.accommodate(task):
            raise ScenarioError(
                f"{where} chose machine '{machine.name}', which has no room for {task_text}; "
                "check machine.accommodate(task) first."
            )
        return machine, task


class _MonitorRecorder:
    """A recorder of the cluster over time."""

    def __init__(self, monitor: Monitor, cluster: LiveCluster, state: LiveState) -> None:
        self.monitor, self.cluster, self.state = monitor, cluster, state
        self.rows: list[tuple[float, ...]] = []
        self.used: list[object] = []
        self.by_machine: list[object] = []

    def look(self, now_s: float) -> None:
        """Record the cluster state, replacing an earlier record of the same time."""
        if self.rows and self.rows[-1][0] == now_s:
            self.rows.pop()
            self.used.pop()
            if self.monitor.machines:
                self.by_machine.pop()
        ready, state = self.cluster.ready_tasks, self.state
        waiting = sum(task.n_waiting for task in ready)
        running = sum(map(len, state.on_machine))
        counts = (len(state.arrived), len(state.unfinished), len(ready), waiting, running)
        self.rows.append((now_s, *counts))
        self.used.append(self.cluster.used)
        if self.monitor.machines:
            self.by_machine.append([machine.used for machine in self.cluster.machines])

    def series(self) -> FleetSeries:
        """Return all records of the monitor as columns over time."""
        columns = list(zip(*self.rows, strict=True))
        counts = [np.array(column, dtype=np.int64) for column in columns[1:]]
        by_machine = np.array(self.by_machine, dtype=np.int64) if self.monitor.machines else None
        submitted, unfinished, ready, waiting, running = counts
        return FleetSeries(
            time_s=np.array(columns[0]),
            n_submitted=submitted,
            n_unfinished=unfinished,
            n_ready=ready,
            n_waiting=waiting,
            n_running=running,
            used=np.array(self.used, dtype=np.int64),
            used_by_machine=by_machine,
        )


def _ticks(
    calendar: Calendar, tick_s: float, is_over: Callable[[], bool], then: Callable[[], None]
) -> Steps:
    n = 0
    while not is_over():
        then()
        n += 1
        yield calendar.at(n * tick_s)


def _looks(
    calendar: Calendar, tick_s: float, is_over: Callable[[], bool], look: Callable[[float], None]
) -> Steps:
    n = 0
    while True:
        last = Event(calendar)
        calendar.at_end_of_instant(last, WATCHES)
        yield last
        look(calendar.now)
        if is_over():
            return
        n += 1
        yield calendar.at(n * tick_s)


def simulate_algorithm(
    scenario: Scenario,
    algorithm: Algorithm,
    *,
    tick_s: float | None = None,
    monitor: Monitor | None = None,
) -> AlgorithmRun:
    """Simulate task instances that a user's algorithm object places on machines.

    Args:
        scenario: scenario with allocation ``instances``. Its order is that of
            `LiveCluster.ready_tasks`; backfill and placement are ignored.
        algorithm: object with a method ``algorithm(cluster, clock)``, or a function, as in
            CloudSimPy. It returns a machine and a task, of which one more instance is placed there,
            or (None, None) when it wants no more.
        tick_s: interval of its calls in seconds, 1 in CloudSimPy; None calls it at the end of every
            instant with an arrival, an end or a change of speed.
        monitor: settings of the records; None records nothing.

    Raises:
        ScenarioError: a task that cannot be placed, an answer that cannot be carried out, or tasks
            that the algorithm leaves waiting for ever.
    """
    checked_algorithm(scenario, tick_s, monitor)
    fleet_arrays, table = make_fleet(scenario)
    fleet, table = interpretable(fleet_arrays), interpretable(table)
    state = LiveState(scenario, fleet)
    choose = getattr(algorithm, "algorithm", algorithm)
    kind = _kind_of(algorithm)
    if not callable(choose):
        name = f"{kind.__module__}.{kind.__qualname__}"
        raise ScenarioError(f"{name} cannot be called; give it a method algorithm(cluster, clock).")
    decider = _AlgorithmDecider(state, choose, kind.__name__)
    watcher = None if monitor is None else _MonitorRecorder(monitor, decider.cluster, state)
    calendar = Calendar()
    sees_all = watcher is not None and monitor is not None and monitor.tick_s is None

    def place(now_s: float) -> int:
        decider.decide(now_s)
        n = settle(fleet, now_s)
        if watcher is not None and sees_all:
            watcher.look(now_s)
        return n

    text = FleetKernel(state.submit, state.end, partial(throttle, fleet), place)
    scheduler = FleetScheduler(calendar, fleet, text)
    turns = list(zip(table.turns_s, table.turning, table.cpu, table.gpu, strict=True))
    n_jobs, last_s = sum(table.takes_part), max([0.0, *table.turns_s])

    def is_done() -> bool:
        """Return whether all jobs have ended, or no further event can happen."""
        if len(state.arrived) < n_jobs or state.n_computing > 0:
            return False
        return not state.unfinished or (calendar.now >= last_s and decider.n_in_vain > PATIENCE)

    def ask() -> None:
        decider.is_due = True
        scheduler.call()

    calendar.process(arrivals(calendar, table.submit_s, table.takes_part, scheduler))
    calendar.process(throttle_events(calendar, turns, scheduler))
    calendar.process(scheduler.run())
    if tick_s is not None:
        decider.ticks = True
        calendar.process(_ticks(calendar, tick_s, is_done, ask))
    if watcher is not None and monitor is not None and monitor.tick_s is not None:
        calendar.process(_looks(calendar, monitor.tick_s, is_done, watcher.look))
    calendar.run()
    stuck = state.never_placed()
    if stuck:
        raise ScenarioError(_why_stuck(state, stuck, kind.__name__, tick_s))
    result = named_result(instances_result(scenario, fleet, table, "process"), algorithm, tick_s)
    return AlgorithmRun(result, None if watcher is None else watcher.series(), decider.n_asked)


def checked_algorithm(
    scenario: Scenario, tick_s: float | None = None, monitor: Monitor | None = None
) -> None:
    """Raise ScenarioError for intervals or options under which no object can place instances."""
    ticks = [("tick_s", tick_s)]
    if monitor is not None:
        ticks.append(("the monitor's tick_s", monitor.tick_s))
    for setting, tick in ticks:
        if tick is not None and not LEAST_TICK_S <= tick < math.inf:
            raise ScenarioError(
                f"{setting} is {tick!r}; allowed are seconds from {LEAST_TICK_S:g}, or None for "
                "every instant with an event."
            )
    if options_of(scenario).values.get(ALL_OR_NOTHING.name) == 1.0:
        raise ScenarioError(
            "all_or_nothing is 1, but an object places instances one by one; leave it out, and let "
            "the algorithm wait until the whole gang has room."
        )


def named_result(
    result: SimulationResult, algorithm: Algorithm, tick_s: float | None = None
) -> SimulationResult:
    """Return a result with the digest of its scenario, of the algorithm, and of its interval.

    An algorithm is known by its class, and by the text of its attribute `digest` if it has one, as
    a trained scheduler has.
    """
    kind, content = _kind_of(algorithm), getattr(algorithm, "digest", "")
    identity = f"{result.scenario_digest} {kind.__module__}.{kind.__qualname__} {tick_s!r}"
    if isinstance(content, str):
        identity += content
    return replace(result, scenario_digest=hashlib.sha256(identity.encode()).hexdigest())


def _kind_of(algorithm: Algorithm) -> Any:
    """Return the class of an algorithm object, or the function itself."""
    return algorithm if hasattr(algorithm, "__qualname__") else type(algorithm)


def _why_stuck(state: LiveState, tasks: list[int], name: str, tick_s: float | None) -> str:
    task = state.all_tasks[tasks[0]]
    more = f" and {len(tasks) - 1:,} other tasks" if len(tasks) > 1 else ""
    way_out = (
        "set tick_s to call it again while there is no event"
        if tick_s is None
        else f"it was called {PATIENCE:,} times in a row without an event"
    )
    return (
        f"algorithm {name} never placed {task.n_waiting:,} instances of task {task.number} of job "
        f"{task.job.job_id}{more}; {way_out}."
    )


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
