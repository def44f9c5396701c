"""The engine `process`: SimPy processes around the shared kernel. The only importer of SimPy.

A broker submits jobs, a scheduler decides, a monitor watches. Nothing polls: there is one event
per arrival instant, one per completion, and one decision at the end of every instant at which
something happened. That one has a priority behind all others of its time, so an instant is a set.
A job without run time ends at the instant of its start and wakes the scheduler once more.
"""

from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from sim.engine import preparation, setup
from sim.kernel.node import Nodes, release_machines
from sim.kernel.pool import Pool, arrive, may_start, release
from sim.kernel.records import field, first_of, interpretable
from sim.model.admission import NOWHERE, Admission, admit
from sim.model.result import SimulationResult, StepSeries
from sim.model.scenario import Scenario
from sim.policies.backfill import backfill_named

HAPPENS = EventPriority(1)
DECIDES = EventPriority(2)
WATCHES = EventPriority(3)

Steps = Generator[Event, Any, None]

Kernel = Literal["auto", "compiled", "interpreted"]


class Calendar(simpy.Environment):
    """A SimPy environment that can also schedule at an absolute time.

    SimPy schedules by delay, and ``now + (t - now)`` is not always t in floating point. Engines
    must agree bit by bit, so arrivals have to happen at their very time.
    """

    def at(self, time_s: float) -> Event:
        """Return an event that happens at a time that is not in the past."""
        event = Event(self)
        event._ok, event._value = True, None
        heappush(self._queue, (time_s, HAPPENS, next(self._eid), event))
        return event

    def at_end_of_instant(self, event: Event, priority: EventPriority) -> None:
        """Let a pending event happen now, after everything of a smaller priority."""
        event._ok, event._value = True, None
        self.schedule(event, priority)


class Text(NamedTuple):
    """The kernel functions that the scheduler calls, all compiled or all interpreted.

    Arrivals and looks concern the pool in the state; ends and decisions the state itself.
    """

    arrive: Callable[[Pool, int, int], None]
    release: Callable[[Any, int, int], None]
    may_start: Callable[[Pool, int], bool]
    decide: Callable[[Any, int, float], int]
    is_compiled: bool


def text_for(scenario: Scenario, kernel: Kernel) -> Text:
    """Return the kernel functions for a scenario.

    Args:
        scenario: names the backfilling rule and what is allocated.
        kernel: ``auto`` takes compiled ones if they are ready, and lets them be compiled if not.

    Raises:
        EngineError: compiled ones are asked for and there is no compiler.
        ScenarioError: the rule cannot decide over what is allocated.
        UnknownNameError: no such backfilling rule.
    """
    backfill, allocation = backfill_named(scenario.backfill), scenario.allocation
    if kernel == "auto":
        preparation.begin()
    elif kernel == "compiled":
        preparation.wait(allocation)
    if kernel == "interpreted" or not preparation.is_ready(allocation):
        let_go = release_machines if allocation == "whole_nodes" else release
        decide = backfill.decision(allocation)
        return Text(arrive, let_go, may_start, decide, is_compiled=False)
    from sim.engine.loading import loaded
    from sim.engine.programs import decision, transitions

    def fetch() -> Text:
        return Text(*transitions(allocation), decision(backfill, allocation), is_compiled=True)

    return loaded(fetch, allocation)


class Witness(Protocol):
    """Looks at the pool around every decision, and changes nothing.

    Where whole nodes are allocated it is the pool in them; see `sim.kernel.node.Nodes`.
    """

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        """Look at partition k when all that arrived and ended at this instant has been applied."""

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        """Look at partition k and at what has just been started there."""


class Scheduler:
    """Owns the state; wakes once at the end of every instant at which something happened."""

    def __init__(
        self, calendar: Calendar, scenario: Scenario, admission: Admission, text: Text
    ) -> None:
        n_jobs = scenario.workload.n_jobs
        self.calendar = calendar
        self.text = text
        state = setup.make_state(scenario, admission)
        self.state: Pool | Nodes = state if text.is_compiled else interpretable(state)
        self.pool = setup.pool_of(self.state)
        self.partition: list[int] = admission.partition.tolist()
        self.runtime_s: list[float] = admission.runtime_s.tolist()
        self.start_s = [float("nan")] * n_jobs
        self.end_s = [float("nan")] * n_jobs
        self.monitor: Monitor | None = None
        self.witness: Witness | None = None
        self._touched: set[int] = set()
        self._wake = Event(calendar)

    def arrive(self, job: int) -> None:
        """Take a submitted job into its queue."""
        self.text.arrive(self.pool, self.partition[job], job)
        self._touch(self.partition[job])

    def run(self) -> Steps:
        """Decide at the end of every instant at which a partition was touched."""
        while True:
            yield self._wake
            self._wake = Event(self.calendar)
            touched, self._touched = sorted(self._touched), set()
            for k in touched:
                self._decide(k)
            if self.monitor is not None:
                self.monitor.wake()

    def _decide(self, k: int) -> None:
        now_s = self.calendar.now
        if self.witness is not None:
            self.witness.before(self.pool, k, now_s)
        may_start = self.text.may_start(self.pool, k)
        n_started = self.text.decide(self.state, k, now_s) if may_start else 0
        started = first_of(self.pool.started, n_started)
        if self.witness is not None:
            self.witness.after(self.pool, k, now_s, started)
        for job in started:
            runtime_s = self.runtime_s[job]
            self.start_s[job] = now_s
            self.end_s[job] = now_s + runtime_s
            self.calendar.timeout(runtime_s, job).callbacks.append(self._ended)

    def _ended(self, ending: Event) -> None:
        job: Any = ending.value
        self.text.release(self.state, self.partition[job], job)
        self._touch(self.partition[job])

    def _touch(self, k: int) -> None:
        if not self._touched:
            self.calendar.at_end_of_instant(self._wake, DECIDES)
        self._touched.add(k)


class Monitor:
    """Records queue lengths and processors in use after every decision.

    All processors of a machine are in use while a job holds it.
    """

    def __init__(self, calendar: Calendar, scenario: Scenario, pool: Pool) -> None:
        self.calendar, self.pool = calendar, pool
        self.partitions = scenario.cluster.partitions
        self._times_s: list[float] = []
        self._queued: list[list[int]] = []
        self._free: list[list[int]] = []
        self._wake = Event(calendar)

    def wake(self) -> None:
        """Look at the pool at the end of this instant, once however often it is asked."""
        if not self._wake.triggered:
            self.calendar.at_end_of_instant(self._wake, WATCHES)

    def run(self) -> Steps:
        """Record the state whenever woken; of several looks at one time the last counts."""
        while True:
            yield self._wake
            self._wake = Event(self.calendar)
            if self._times_s and self._times_s[-1] == self.calendar.now:
                for column in (self._times_s, self._queued, self._free):
                    column.pop()
            self._times_s.append(self.calendar.now)
            self._queued.append(field(self.pool.partitions, "n_queued"))
            self._free.append(field(self.pool.partitions, "free"))

    def series(self) -> tuple[StepSeries, ...]:
        """Return what was seen, one series per partition."""
        shape = (-1, len(self.partitions))
        queued = np.array(self._queued, dtype=np.int64).reshape(shape)
        free = np.array(self._free, dtype=np.int64).reshape(shape)
        time_s = np.array(self._times_s, dtype=np.float64)
        return tuple(
            StepSeries(partition.name, time_s, queued[:, k], partition.procs - free[:, k])
            for k, partition in enumerate(self.partitions)
        )


def broker(
    calendar: Calendar, submit_s: list[float], jobs: list[int], scheduler: Scheduler
) -> Steps:
    """Submit jobs at their times."""
    for job in jobs:
        if submit_s[job] != calendar.now:
            yield calendar.at(submit_s[job])
        scheduler.arrive(job)


def run(
    scenario: Scenario,
    *,
    monitor: bool = False,
    kernel: Kernel = "auto",
    witness: Witness | None = None,
) -> SimulationResult:
    """Simulate a scenario.

    Args:
        scenario: what to simulate.
        monitor: also record queue lengths and processors in use.
        kernel: which form of the kernel functions to call; the result is the same.
        witness: looks on; give ``interpreted`` with it, so that it sees rows as objects.

    Raises:
        EngineError: compiled kernel functions are asked for and there is no compiler.
        ScenarioError: a job fits nowhere and the scenario does not say what to do with it.
        UnknownNameError: no such order or backfilling rule.
    """
    admission = admit(scenario)
    calendar = Calendar()
    scheduler = Scheduler(calendar, scenario, admission, text_for(scenario, kernel))
    scheduler.witness = witness
    watcher = Monitor(calendar, scenario, scheduler.pool) if monitor else None
    jobs: list[int] = np.flatnonzero(admission.partition != NOWHERE).tolist()
    calendar.process(broker(calendar, scenario.workload.submit_s.tolist(), jobs, scheduler))
    calendar.process(scheduler.run())
    if watcher is not None:
        scheduler.monitor = watcher
        calendar.process(watcher.run())
    calendar.run()
    return setup.finished(
        scenario,
        admission,
        np.array(scheduler.start_s, dtype=np.float64),
        np.array(scheduler.end_s, dtype=np.float64),
        engine="process",
        series=None if watcher is None else watcher.series(),
        placement=setup.placement_of(scheduler.state),
    )
