"""The engine for algorithms: SimPy processes around an object that places tasks.

The broker submits jobs at their times. The scheduler calls the algorithm at the end of every
instant with an arrival, an end or a change of speed; with a tick, at 0, tick, 2 tick ... instead,
as CloudSimPy does every second. The monitor records after the scheduler, by the same rule. An
instance that ends and a job that arrives at the exact time of a tick are seen by that tick. (In
CloudSimPy this depends on which event was created first.)
"""

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from simpy.events import Event

from sim.engines.algorithms import Algorithm, AlgorithmRun, Choice, FleetSeries, Monitor
from sim.engines.fleet_setup import instances_result, make_fleet
from sim.engines.live_cluster import LiveCluster, LiveMachine, LiveState, LiveTask
from sim.engines.process import (
    WATCHES,
    Calendar,
    FleetKernel,
    FleetScheduler,
    Steps,
    arrivals,
    throttle_events,
)
from sim.kernel.fleet import Fleet
from sim.kernel.instances import settle, throttle
from sim.kernel.records import interpretable
from sim.model.errors import ScenarioError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.policies.placements import ALL_OR_NOTHING
from sim.policies.policy_options import options_of

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

    def decide(self, _fleet: Fleet, _choose: object, now_s: float) -> int:
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


def run(
    scenario: Scenario,
    algorithm: Algorithm,
    *,
    tick_s: float | None = None,
    monitor: Monitor | None = None,
) -> AlgorithmRun:
    """Simulate a scenario in which an algorithm object places the tasks."""
    _check(scenario, tick_s, monitor)
    fleet_arrays, table = make_fleet(scenario)
    fleet, table = interpretable(fleet_arrays), interpretable(table)
    state = LiveState(scenario, fleet)
    choose = getattr(algorithm, "algorithm", algorithm)
    kind: Any = algorithm if hasattr(algorithm, "__qualname__") else type(algorithm)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if not callable(choose):
        raise ScenarioError(f"{name} cannot be called; give it a method algorithm(cluster, clock).")
    decider = _AlgorithmDecider(state, choose, kind.__name__)
    watcher = None if monitor is None else _MonitorRecorder(monitor, decider.cluster, state)
    calendar = Calendar()
    sees_all = watcher is not None and monitor is not None and monitor.tick_s is None

    def settled(fleet: Fleet, now_s: float) -> int:
        n = settle(fleet, now_s)
        if watcher is not None and sees_all:
            watcher.look(now_s)
        return n

    text = FleetKernel(state.submit, state.end, throttle, settled, decider.decide, None)
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
    result = _named(instances_result(scenario, fleet, table, "process"), name, tick_s)
    return AlgorithmRun(result, None if watcher is None else watcher.series(), decider.n_asked)


def _check(scenario: Scenario, tick_s: float | None, monitor: Monitor | None) -> None:
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


def _named(result: SimulationResult, name: str, tick_s: float | None) -> SimulationResult:
    identity = f"{result.scenario_digest} {name} {tick_s!r}"
    return replace(result, scenario_digest=hashlib.sha256(identity.encode()).hexdigest())


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
