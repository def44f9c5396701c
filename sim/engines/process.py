"""The engine `process`: SimPy processes around the shared kernel, for jobs and for instances.

A broker submits jobs, a scheduler decides, a monitor records. Nothing polls: there is one event per
arrival instant, one per completion, and one decision at the end of every instant with an event. The
decision has a lower priority than all others of its time, so an instant is a set. A job without run
time ends at its start instant and wakes the scheduler once more. Only this module and
`sim.placement.algorithms` import SimPy.
"""

import math
from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from sim.engines import compilation, job_setup
from sim.engines.fleet_setup import instances_result, make_fleet
from sim.engines.job_setup import decides_by_plan, outside_of, preempts, restarts_of
from sim.kernel.fleet import Fleet
from sim.kernel.instances import end, settle, submit, throttle
from sim.kernel.job_queue import (
    admit_held_jobs,
    arrive_at_limit,
    leave_limit,
    never_scored,
    prepare_decision,
)
from sim.kernel.nodes import Nodes, release_machines
from sim.kernel.policy_context import OPEN, ExternalEvents
from sim.kernel.pool import Pool, arrive, may_start, release
from sim.kernel.preemption import preempt, turn
from sim.kernel.records import field, first_of, interpretable, set_value, value
from sim.model.admission import NOWHERE, Admission, admit
from sim.model.result import SimulationResult, StepSeries
from sim.model.scenario import Scenario
from sim.policies.backfills import backfill_named, decision_of
from sim.policies.orders import order_named
from sim.policies.placements import placement_named

HAPPENS = EventPriority(1)
DECIDES = EventPriority(2)
WATCHES = EventPriority(3)

Steps = Generator[Event, Any, None]

KernelForm = Literal["auto", "compiled", "interpreted"]


class Calendar(simpy.Environment):
    """SimPy environment that can also schedule events at an absolute time.

    SimPy schedules by delay, and ``now + (t - now)`` is not always t in floating point. Engines
    must agree bit by bit, so arrivals must happen at their exact time.
    """

    def at(self, time_s: float, value: object = None) -> Event:
        """Return an event that is scheduled at an absolute time, now or later."""
        event = Event(self)
        event._ok, event._value = True, value
        heappush(self._queue, (time_s, HAPPENS, next(self._eid), event))
        return event

    def at_end_of_instant(self, event: Event, priority: EventPriority) -> None:
        """Trigger an event now, after all events with a smaller priority number."""
        event._ok, event._value = True, None
        self.schedule(event, priority)


class SchedulerKernel(NamedTuple):
    """Kernel functions of the job scheduler, all compiled or all interpreted.

    Ends and decisions take the state itself, all others the pool in it.
    """

    is_compiled: bool
    arrive: Callable[[Pool, int, int], None]
    release: Callable[[Any, int, int, float], None]
    may_start: Callable[[Pool, int], bool]
    prepare: Callable[[Pool, int, float, Any], None]
    come: Callable[[Pool, ExternalEvents, int, int], None]
    leave: Callable[[Pool, ExternalEvents, int, int], None]
    let_in: Callable[[Pool, ExternalEvents, int], None]
    turn: Callable[[Pool, int, float], int]
    preempt: Callable[[Pool, int, float], int]
    decide: Callable[[Any, int, float], int]
    score_now: Any


def scheduler_kernel(scenario: Scenario, kernel: KernelForm) -> SchedulerKernel:
    """Return the kernel functions for a scenario.

    Args:
        scenario: scenario with the backfilling rule and the allocation.
        kernel: ``auto`` uses compiled ones if they are ready, and starts to compile them if not.

    Raises:
        EngineError: compiled ones are required and there is no compiler.
        ScenarioError: the rule does not support the allocation.
        UnknownNameError: no such backfilling rule.
    """
    order, backfill = order_named(scenario.order), backfill_named(scenario.backfill)
    allocation, by_plan = scenario.allocation, decides_by_plan(scenario)
    if kernel == "auto":
        compilation.begin_to_compile()
    elif kernel == "compiled":
        compilation.wait(allocation)
    if kernel == "interpreted" or not compilation.is_ready(allocation):
        let_go = release if allocation == "processors" else release_machines
        decide = decision_of(backfill, allocation, by_plan)
        score_now = order.score_now or never_scored
        beyond = (arrive_at_limit, leave_limit, admit_held_jobs, turn, preempt)
        return SchedulerKernel(
            False, arrive, let_go, may_start, prepare_decision, *beyond, decide, score_now
        )
    from sim.engines.compilation import load_or_recompile
    from sim.engines.event_loop import compiled_decision, compiled_score, compiled_transitions

    def fetch() -> SchedulerKernel:
        decide = compiled_decision(backfill, allocation, by_plan)
        return SchedulerKernel._make(
            (True, *compiled_transitions(allocation), decide, compiled_score(order))
        )

    return load_or_recompile(fetch, allocation)


class DecisionObserver(Protocol):
    """Passive observer of the pool before and after every scheduling decision.

    With whole nodes it gets the pool in them; see `sim.kernel.nodes.Nodes`.
    """

    def before(self, pool: Pool, k: int, now_s: float) -> None:
        """Observe partition k after all arrivals and ends of this instant."""

    def after(self, pool: Pool, k: int, now_s: float, started: list[int]) -> None:
        """Observe partition k after its decision, with the jobs that were started."""


class JobScheduler:
    """SimPy process that owns queues and processors and decides which waiting jobs start."""

    def __init__(
        self, calendar: Calendar, scenario: Scenario, admission: Admission, text: SchedulerKernel
    ) -> None:
        n_jobs = scenario.workload.n_jobs
        self.calendar = calendar
        self.text = text
        state = job_setup.make_state(scenario, admission)
        self.state: Pool | Nodes = state if text.is_compiled else interpretable(state)
        self.pool = job_setup.pool_of(self.state)
        self.place: list[int] = admission.place.tolist()
        self.runtime_s: list[float] = admission.runtime_s.tolist()
        self.start_s = [float("nan")] * n_jobs
        self.end_s = [float("nan")] * n_jobs
        self.monitor: QueueMonitor | None = None
        self.witness: DecisionObserver | None = None
        self._touched: set[int] = set()
        self.has_alarms = backfill_named(scenario.backfill).wakes
        self._alarms: list[set[float]] = [set() for _ in scenario.cluster.partitions]
        self.preempts = preempts(scenario).tolist()
        outside = outside_of(scenario, admission)
        self.outside = outside if text.is_compiled else interpretable(outside)
        self.has_doors = len(outside.doors) > 0
        self.has_standings = len(self.pool.terms.standings) > 0
        self._endings: dict[int, Event] = {}
        self._turning: list[int] = []
        self._wake = Event(calendar)
        self._is_decisive = [window.kind != "planned" for window in scenario.windows]
        self._window_of = [scenario.cluster.names.index(w.partition) for w in scenario.windows]
        for time_s, turning in zip(outside.turns_s, outside.turns, strict=True):
            self.calendar.at(float(time_s), int(turning)).callbacks.append(self._turns)

    def arrive(self, job: int) -> None:
        """Queue a submitted job, or hold it back at its user's job limit."""
        if self.has_doors:
            self.text.come(self.pool, self.outside, self.place[job], job)
        else:
            self.text.arrive(self.pool, self.place[job], job)
        self._touch(self.place[job])

    def run(self) -> Steps:
        """Decide for each changed partition at the end of every instant with an event."""
        while True:
            yield self._wake
            self._wake = Event(self.calendar)
            turning, self._turning = self._turning, []
            for event in turning:
                self._turn(event)
            touched, self._touched = sorted(self._touched), set()
            for k in touched:
                self._decide(k)
            if self.monitor is not None:
                self.monitor.wake()

    def _decide(self, k: int) -> None:
        now_s = self.calendar.now
        if self.has_doors:
            self.text.let_in(self.pool, self.outside, k)
        if self.witness is not None:
            self.witness.before(self.pool, k, now_s)
        n_started = 0
        if self.text.may_start(self.pool, k):
            self.text.prepare(self.pool, k, now_s, self.text.score_now)
            if self.preempts[k]:
                n_killed = self.text.preempt(self.pool, k, now_s)
                self._call_off(n_killed)
                if n_killed:
                    self.text.prepare(self.pool, k, now_s, self.text.score_now)
            n_started = self.text.decide(self.state, k, now_s)
            if self.has_alarms:
                self._set_alarm(k)
        started = first_of(self.pool.started, n_started)
        if self.witness is not None:
            self.witness.after(self.pool, k, now_s, started)
        for job in started:
            runtime_s = self.runtime_s[job]
            self.start_s[job] = now_s
            self.end_s[job] = now_s + runtime_s
            ending = self.calendar.timeout(runtime_s, job)
            ending.callbacks.append(self._ended)
            if self.has_standings:
                set_value(self.pool.terms.standings, job, "since_s", now_s)
                self._endings[job] = ending

    def _turns(self, turning: Event) -> None:
        """Record that a window begins or ends; it is applied after all other events."""
        event: Any = turning.value
        self._wake_up()
        self._turning.append(event)

    def _turn(self, event: int) -> None:
        window = event if event >= 0 else ~event
        self._call_off(self.text.turn(self.pool, event, self.calendar.now))
        if event < 0 or self._is_decisive[window]:
            self._touched.add(self._window_of[window])

    def _call_off(self, n_killed: int) -> None:
        """Cancel the ends of the jobs that have just been killed."""
        for job in first_of(self.pool.started, n_killed):
            callbacks = self._endings.pop(job).callbacks
            if callbacks is not None:
                callbacks.clear()

    def _set_alarm(self, k: int) -> None:
        """Schedule a wake-up at the time that the rule requested, unless it exists already."""
        wake_s = float(value(self.pool.partitions, k, "wake_s"))
        if wake_s < math.inf and wake_s not in self._alarms[k]:
            self._alarms[k].add(wake_s)
            self.calendar.at(wake_s, k).callbacks.append(self._rang)

    def _rang(self, alarm: Event) -> None:
        k: Any = alarm.value
        self._alarms[k].discard(self.calendar.now)
        if value(self.pool.partitions, k, "wake_s") <= self.calendar.now:
            set_value(self.pool.partitions, k, "wake_s", math.inf)
            self._touch(k)

    def _ended(self, ending: Event) -> None:
        job: Any = ending.value
        self.text.release(self.state, self.place[job], job, self.calendar.now)
        if self.has_doors:
            self.text.leave(self.pool, self.outside, self.place[job], job)
        self._endings.pop(job, None)
        self._touch(self.place[job])

    def _touch(self, k: int) -> None:
        self._wake_up()
        self._touched.add(k)

    def _wake_up(self) -> None:
        if not self._touched and not self._turning:
            self.calendar.at_end_of_instant(self._wake, DECIDES)


class QueueMonitor:
    """A monitor that records queue lengths and processors in use after every decision.

    All processors of a machine that a job holds whole are in use; those of a window are not.
    """

    def __init__(self, calendar: Calendar, scenario: Scenario, pool: Pool) -> None:
        self.calendar, self.pool = calendar, pool
        self.partitions = scenario.cluster.partitions
        self._times_s: list[float] = []
        self._queued: list[list[int]] = []
        self._free: list[list[int]] = []
        self._wake = Event(calendar)

    def wake(self) -> None:
        """Request one record at the end of this instant, for any number of calls."""
        if not self._wake.triggered:
            self.calendar.at_end_of_instant(self._wake, WATCHES)

    def run(self) -> Steps:
        """Record the state after every wake-up, replacing an earlier record of the same time."""
        while True:
            yield self._wake
            self._wake = Event(self.calendar)
            if self._times_s and self._times_s[-1] == self.calendar.now:
                for column in (self._times_s, self._queued, self._free):
                    column.pop()
            self._times_s.append(self.calendar.now)
            self._queued.append(field(self.pool.partitions, "n_queued"))
            self._free.append(self._unused())

    def _unused(self) -> list[int]:
        """Return the processors of each partition that no job holds."""
        unused, windows = field(self.pool.partitions, "free"), self.pool.terms.windows
        columns = (field(windows, name) for name in ("place", "procs", "state"))
        for place, procs, state in zip(*columns, strict=True):
            unused[place] += procs if state == OPEN else 0
        return unused

    def series(self) -> tuple[StepSeries, ...]:
        """Return one series of records per partition that has its own processors."""
        shape = (-1, len(self.partitions))
        queued = np.array(self._queued, dtype=np.int64).reshape(shape)
        free = np.array(self._free, dtype=np.int64).reshape(shape)
        time_s = np.array(self._times_s, dtype=np.float64)
        return tuple(
            StepSeries(partition.name, time_s, queued[:, k], partition.procs - free[:, k])
            for k, partition in enumerate(self.partitions)
            if partition.on is None
        )


def broker(
    calendar: Calendar, submit_s: list[float], jobs: list[int], scheduler: JobScheduler
) -> Steps:
    """Submit each job to the scheduler at its submission time."""
    for job in jobs:
        if submit_s[job] != calendar.now:
            yield calendar.at(submit_s[job])
        scheduler.arrive(job)


def run(
    scenario: Scenario,
    *,
    monitor: bool = False,
    kernel: KernelForm = "auto",
    witness: DecisionObserver | None = None,
) -> SimulationResult:
    """Simulate a scenario of jobs with SimPy processes.

    Args:
        scenario: what to simulate.
        monitor: whether to record queue lengths and processors in use.
        kernel: form of the kernel functions; the result is the same.
        witness: observer of the decisions; it needs ``interpreted``, so that rows are objects.

    Raises:
        EngineError: compiled kernel functions are required and there is no compiler.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
        UnknownNameError: no such order or backfilling rule.
    """
    admission = admit(scenario)
    calendar = Calendar()
    scheduler = JobScheduler(calendar, scenario, admission, scheduler_kernel(scenario, kernel))
    scheduler.witness = witness
    watcher = QueueMonitor(calendar, scenario, scheduler.pool) if monitor else None
    jobs: list[int] = np.flatnonzero(admission.partition != NOWHERE).tolist()
    calendar.process(broker(calendar, scenario.workload.submit_s.tolist(), jobs, scheduler))
    calendar.process(scheduler.run())
    if watcher is not None:
        scheduler.monitor = watcher
        calendar.process(watcher.run())
    calendar.run()
    return job_setup.job_result(
        scenario,
        admission,
        np.array(scheduler.start_s, dtype=np.float64),
        np.array(scheduler.end_s, dtype=np.float64),
        engine="process",
        series=None if watcher is None else watcher.series(),
        placement=job_setup.placement_of(scheduler.state),
        restarts=restarts_of(scenario, scheduler.pool),
    )


class FleetKernel(NamedTuple):
    """Kernel functions of the instance scheduler, all compiled or all interpreted."""

    submit: Callable[[Fleet, int], None]
    end: Callable[[Fleet, int], None]
    throttle: Callable[[Fleet, int, float, float], None]
    settle: Callable[[Fleet, float], int]
    decide: Callable[[Fleet, Any, float], int]
    choose: Any


def fleet_kernel(scenario: Scenario, kernel: KernelForm) -> tuple[FleetKernel, bool]:
    """Return the kernel functions of the instance scheduler, and whether they are compiled.

    ``auto`` uses compiled ones if they are ready.
    """
    backfill, rule = backfill_named(scenario.backfill), placement_named(scenario.placement)
    decide = decision_of(backfill, "instances")
    if kernel == "interpreted" or (kernel == "auto" and not compilation.is_ready("instances")):
        return FleetKernel(submit, end, throttle, settle, decide, rule.choose), False
    from sim.engines.compilation import load_or_recompile
    from sim.engines.event_loop import (
        compiled_fleet_decision,
        compiled_fleet_transitions,
        compiled_placement,
    )

    compilation.wait("instances")

    def fetch() -> FleetKernel:
        return FleetKernel._make(
            (
                *compiled_fleet_transitions(),
                compiled_fleet_decision(backfill),
                compiled_placement(rule),
            )
        )

    return load_or_recompile(fetch, "instances"), True


class FleetScheduler:
    """SimPy process that owns the machines and decides where waiting instances are placed."""

    def __init__(self, calendar: Calendar, fleet: Fleet, text: FleetKernel) -> None:
        self.calendar, self.fleet, self.text = calendar, fleet, text
        self._ends: dict[int, Event] = {}
        self._wake = Event(calendar)
        self._is_called = False

    def arrive(self, job: int) -> None:
        """Queue the tasks of a submitted job."""
        self.text.submit(self.fleet, job)
        self.call()

    def turn(self, machine: int, cpu: float, gpu: float) -> None:
        """Set the CPU and GPU speeds of a machine, as shares of full speed."""
        self.text.throttle(self.fleet, machine, cpu, gpu)
        self.call()

    def call(self) -> None:
        """Schedule a decision for the end of this instant, unless there is one already."""
        if not self._is_called:
            self._is_called = True
            self.calendar.at_end_of_instant(self._wake, DECIDES)

    def run(self) -> Steps:
        """Decide at the end of every instant, and schedule the new ends."""
        while True:
            yield self._wake
            self._wake, self._is_called = Event(self.calendar), False
            now_s = self.calendar.now
            self.text.decide(self.fleet, self.text.choose, now_s)
            for instance in first_of(self.fleet.changed, self.text.settle(self.fleet, now_s)):
                self._plan(instance)

    def _plan(self, instance: int) -> None:
        earlier = self._ends.pop(instance, None)
        if earlier is not None and earlier.callbacks is not None:
            earlier.callbacks.clear()
        ending = self.calendar.at(float(self.fleet.end_s[instance]), instance)
        self._ends[instance] = ending
        ending.callbacks.append(self._ended)

    def _ended(self, ending: Event) -> None:
        instance: Any = ending.value
        del self._ends[instance]
        self.text.end(self.fleet, instance)
        self.call()


def arrivals(
    calendar: Calendar, submit_s: list[float], takes_part: list[int], scheduler: FleetScheduler
) -> Steps:
    """Submit each job of tasks to the scheduler at its submission time."""
    for job, time_s in enumerate(submit_s):
        if not takes_part[job]:
            continue
        if time_s != calendar.now:
            yield calendar.at(time_s)
        scheduler.arrive(job)


def throttle_events(
    calendar: Calendar, turns: list[tuple[float, int, float, float]], scheduler: FleetScheduler
) -> Steps:
    """Change machine speeds at the times at which throttle windows begin or end."""
    for time_s, machine, cpu, gpu in turns:
        if time_s != calendar.now:
            yield calendar.at(time_s)
        scheduler.turn(machine, cpu, gpu)


def run_instances(scenario: Scenario, *, kernel: KernelForm = "auto") -> SimulationResult:
    """Simulate a scenario of task instances with SimPy processes.

    Args:
        scenario: what to simulate.
        kernel: form of the kernel functions; the result is the same.

    Raises:
        EngineError: compiled kernel functions are required and there is no compiler.
        ScenarioError: an instance cannot be placed.
    """
    text, is_compiled = fleet_kernel(scenario, kernel)
    fleet_arrays, table = make_fleet(scenario)
    table = interpretable(table)
    fleet = fleet_arrays if is_compiled else interpretable(fleet_arrays)
    calendar = Calendar()
    scheduler = FleetScheduler(calendar, fleet, text)
    turns = list(zip(table.turns_s, table.turning, table.cpu, table.gpu, strict=True))
    calendar.process(arrivals(calendar, table.submit_s, table.takes_part, scheduler))
    calendar.process(throttle_events(calendar, turns, scheduler))
    calendar.process(scheduler.run())
    calendar.run()
    return instances_result(scenario, fleet, table, "process")
