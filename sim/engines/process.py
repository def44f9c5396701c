"""The engine `process`: SimPy processes around the shared kernel, for jobs and for instances.

A broker submits jobs, a scheduler decides, a monitor records. Nothing polls: there is one event per
arrival instant, one per completion, and one decision at the end of every instant with an event. The
decision has a lower priority than all others of its time, so an instant is a set. A job without run
time ends at its start instant and wakes the scheduler once more. Only this module and
`sim.placement.algorithms` import SimPy.
"""

import math
from collections.abc import Callable, Generator
from functools import partial
from heapq import heappush
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import simpy
from simpy.events import Event, EventPriority

from sim.engines import compilation, job_setup
from sim.engines.compilation import load_or_recompile
from sim.engines.event_loop import (
    compiled_decision,
    compiled_fleet_decision,
    compiled_fleet_transitions,
    compiled_placement,
    compiled_score,
    compiled_transitions,
    make_way,
    place_waiting,
    serve,
    serve_prepared,
    start_moldable,
    state_layout,
)
from sim.engines.fleet_setup import instances_result, make_fleet
from sim.engines.job_setup import (
    decides_by_plan,
    feedback_of,
    node_states_of,
    outside_of,
    preempts,
    procs_of,
    restarts_of,
)
from sim.kernel.feedback import submission_s
from sim.kernel.fleet import Fleet
from sim.kernel.instances import end, submit, throttle
from sim.kernel.jit import NativeArguments
from sim.kernel.job_queue import admit_held_jobs, arrive_at_limit, leave_limit, never_scored
from sim.kernel.node_power import free_nodes, hold_nodes
from sim.kernel.nodes import Nodes, release_machines
from sim.kernel.policy_context import OPEN, ExternalEvents
from sim.kernel.pool import Pool, arrive, release
from sim.kernel.preemption import turn
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
        heappush(self._queue, (self._now, priority, next(self._eid), event))


class SchedulerKernel(NamedTuple):
    """State of a simulation of jobs and the kernel functions on it, all compiled or interpreted.

    Attributes:
        state: state of the allocation; `outside` the external events.
        arrive, come: queue a job: (partition, job); `come` where users have job limits.
        release, leave: end a job: (partition, job, now_s), and (partition, job) for job limits.
        let_in: admit held jobs of a partition.
        turn: begin or end a window: (event, now_s) to the number of killed jobs.
        make_way: preempt: (partition, now_s) to the number of killed jobs.
        serve: decide: (partition, now_s) to the number of started jobs.
        start_moldable: start jobs on fewer processors: (partition, now_s) to their number.
            Then `serve_prepared` serves the others.
    """

    state: Pool | Nodes
    outside: ExternalEvents
    arrive: Callable[[int, int], None]
    release: Callable[[int, int, float], None]
    serve: Callable[[int, float], int]
    come: Callable[[int, int], None]
    leave: Callable[[int, int], None]
    let_in: Callable[[int], None]
    turn: Callable[[int, float], int]
    make_way: Callable[[int, float], int]
    start_moldable: Callable[[int, float], int]
    serve_prepared: Callable[[int, float], int]


def scheduler_kernel(
    scenario: Scenario, admission: Admission, kernel: KernelForm
) -> SchedulerKernel:
    """Return the initial state of a scenario and the kernel functions on it.

    Args:
        scenario: scenario with order, backfilling rule and allocation.
        admission: its admitted jobs.
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
    state = job_setup.make_state(scenario, admission)
    outside = outside_of(scenario, admission)
    if kernel == "interpreted" or not compilation.is_ready(allocation):
        state, outside = interpretable(state), interpretable(outside)
        decide = decision_of(backfill, allocation, by_plan)
        return _interpreted(state, outside, decide, order.score_now or never_scored)

    def fetch() -> SchedulerKernel:
        functions = compiled_decision(backfill, allocation, by_plan), compiled_score(order)
        on_state = compiled_transitions(allocation).on
        native = NativeArguments(state_layout(allocation), (state,))
        bound = on_state(state, job_setup.pool_of(state), outside, *functions, native)
        return SchedulerKernel(state, outside, *bound)

    return load_or_recompile(fetch, allocation)


def _interpreted(
    state: Pool | Nodes, outside: ExternalEvents, decide: Any, score_now: Any
) -> SchedulerKernel:
    pool = job_setup.pool_of(state)
    let_go: Any = release if state is pool else release_machines
    return SchedulerKernel(
        state,
        outside,
        arrive=partial(arrive, pool),
        release=partial(let_go, state),
        serve=partial(serve, state, pool, decide, score_now),
        come=partial(arrive_at_limit, pool, outside),
        leave=partial(leave_limit, pool, outside),
        let_in=partial(admit_held_jobs, pool, outside),
        turn=partial(turn, pool),
        make_way=partial(make_way, pool, score_now),
        start_moldable=partial(start_moldable, pool, outside, score_now),
        serve_prepared=partial(serve_prepared, state, pool, decide),
    )


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
        self.state = text.state
        self.pool = job_setup.pool_of(self.state)
        self.moldable = scenario.moldable
        self.requested_procs = admission.procs
        self.place: list[int] = admission.place.tolist()
        self.runtime_s: list[float] = admission.runtime_s.tolist()
        self.start_s = [float("nan")] * n_jobs
        self.end_s = [float("nan")] * n_jobs
        self.monitor: QueueMonitor | None = None
        self.witness: DecisionObserver | None = None
        self._touched: set[int] = set()
        self.has_alarms = backfill_named(scenario.backfill).wakes or any(
            field(self.pool.partitions, "decides_late")
        )
        self._alarms: list[set[float]] = [set() for _ in scenario.cluster.partitions]
        self.preempts = preempts(scenario).tolist()
        self.has_doors = len(text.outside.doors) > 0
        self.has_standings = len(self.pool.terms.standings) > 0
        self.nodes = interpretable(node_states_of(scenario, admission))
        self.has_nodes = len(self.nodes.partitions) > 0
        self.feedback = interpretable(feedback_of(scenario, admission))
        self.has_feedback = len(self.feedback.first) > 0
        self.logged_s: list[float] = scenario.workload.submit_s.tolist()
        self._arriving: list[int] = []
        self._n_arrived = 0
        self._endings: dict[int, Event] = {}
        self._turning: list[int] = []
        self._wake = Event(calendar)
        self._is_decisive = [window.kind != "planned" for window in scenario.windows]
        self._window_of = [scenario.cluster.names.index(w.partition) for w in scenario.windows]
        for time_s, turning in zip(text.outside.turns_s, text.outside.turns, strict=True):
            self.calendar.at(float(time_s), int(turning)).callbacks.append(self._turns)

    def arrive(self, job: int) -> None:
        """Queue a submitted job, or hold it back at its user's job limit."""
        k = self.place[job]
        if self.has_feedback:
            self._arriving.append(job)  # they enter together, at the end of the instant
        elif self.has_doors:
            self.text.come(k, job)
        else:
            self.text.arrive(k, job)
        self._touch(k)

    def run(self) -> Steps:
        """Decide for each changed partition at the end of every instant with an event."""
        while True:
            yield self._wake
            self._wake = Event(self.calendar)
            if self._arriving:
                self._enter_together()
            if self._turning:
                turning, self._turning = self._turning, []
                for event in turning:
                    self._turn(event)
            touched, self._touched = self._touched, set()
            for k in sorted(touched):
                self._decide(k, self.calendar.now)
            if self.monitor is not None:
                self.monitor.wake()

    def _enter_together(self) -> None:
        arriving, self._arriving = sorted(self._arriving), []
        for job in arriving:
            self.feedback.submitted_s[job] = self.calendar.now
            set_value(self.pool.jobs, job, "submit_s", self.calendar.now)
            rank = value(self.pool.jobs, job, "rank") + self._n_arrived
            set_value(self.pool.jobs, job, "rank", rank)
            self.text.arrive(self.place[job], job)
            self._n_arrived += 1

    def _let_follow(self, job: int) -> None:
        """Schedule the submissions of the followers of a job that ended."""
        followers = self.feedback.followers
        for follower in followers[self.feedback.first[job] : self.feedback.first[job + 1]]:
            logged_s, now_s = self.logged_s[follower], self.calendar.now
            time_s = submission_s(self.feedback, logged_s, follower, now_s)
            self.calendar.at(time_s, follower).callbacks.append(self._follows)

    def _follows(self, submission: Event) -> None:
        follower: Any = submission.value
        self.arrive(follower)

    def _decide(self, k: int, now_s: float) -> None:
        if self.has_doors:
            self.text.let_in(k)
        if self.witness is not None:
            self.witness.before(self.pool, k, now_s)
        if self.preempts[k]:
            self._call_off(self.text.make_way(k, now_s))
        started: list[int] = []
        if self.moldable is None:
            n_started = self.text.serve(k, now_s)
        else:
            started += first_of(self.pool.started, self.text.start_moldable(k, now_s))
            n_started = self.text.serve_prepared(k, now_s)
        if self.has_alarms:
            self._set_alarm(k)
        started += first_of(self.pool.started, n_started) if n_started else []
        if self.witness is not None:
            self.witness.after(self.pool, k, now_s, started)
        for job in started:
            delay_s, runtime_s = 0.0, self._length_s(job)
            if self.has_nodes:
                delay_s = hold_nodes(self.nodes, k, job, runtime_s, now_s)
            end_s = now_s + (delay_s + runtime_s)
            self.start_s[job], self.end_s[job] = now_s + delay_s, end_s
            ending = self.calendar.at(end_s, job)
            ending.callbacks.append(self._ended)
            if self.has_standings:
                set_value(self.pool.terms.standings, job, "since_s", now_s)
                self._endings[job] = ending

    def _length_s(self, job: int) -> float:
        """Return the run time of a started job on its processors."""
        if self.moldable is None:
            return self.runtime_s[job]
        procs = np.int64(value(self.pool.jobs, job, "procs"))
        stretch = self.moldable.stretch(self.requested_procs[job], procs)
        return self.runtime_s[job] * float(stretch)

    def _turns(self, turning: Event) -> None:
        """Record that a window begins or ends; it is applied after all other events."""
        event: Any = turning.value
        self._wake_up()
        self._turning.append(event)

    def _turn(self, event: int) -> None:
        window = event if event >= 0 else ~event
        self._call_off(self.text.turn(event, self.calendar.now))
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
        k = self.place[job]
        self.text.release(k, job, self.calendar.now)
        if self.has_nodes:
            free_nodes(self.nodes, k, job, self.calendar.now)
        if self.has_doors:
            self.text.leave(k, job)
        if self.has_feedback:
            self._let_follow(job)
        if self.has_standings:
            self._endings.pop(job, None)
        self._touch(k)

    def _touch(self, k: int) -> None:
        if not self._touched:
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
    text = scheduler_kernel(scenario, admission, kernel)
    scheduler = JobScheduler(calendar, scenario, admission, text)
    scheduler.witness = witness
    watcher = QueueMonitor(calendar, scenario, scheduler.pool) if monitor else None
    takes_part = admission.partition != NOWHERE
    if scheduler.has_feedback:
        takes_part &= np.asarray(scheduler.feedback.follows) == 0
    jobs: list[int] = np.flatnonzero(takes_part).tolist()
    calendar.process(broker(calendar, scheduler.logged_s, jobs, scheduler))
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
        hold_from_s=np.array(scheduler.nodes.from_s, dtype=np.float64),
        submitted_s=scheduler.feedback.submitted_s,
        procs=procs_of(scenario, scheduler.pool),
    )


class FleetKernel(NamedTuple):
    """Functions on the state of a fleet: all compiled, or all interpreted.

    Attributes:
        submit: queue the tasks of a job; `end` ends an instance.
        throttle: set the speeds of a machine: (machine, CPU, GPU).
        place: decide at a time, and return how many instances have a new end.
    """

    submit: Callable[[int], None]
    end: Callable[[int], None]
    throttle: Callable[[int, float, float], None]
    place: Callable[[float], int]


def fleet_kernel(scenario: Scenario, fleet: Fleet, kernel: KernelForm) -> tuple[Fleet, FleetKernel]:
    """Return a fleet as the kernel functions need it, and these functions on it.

    ``auto`` uses compiled ones if they are ready. The given fleet has arrays.
    """
    backfill, rule = backfill_named(scenario.backfill), placement_named(scenario.placement)
    decide = decision_of(backfill, "instances")
    if kernel == "interpreted" or (kernel == "auto" and not compilation.is_ready("instances")):
        fleet = interpretable(fleet)
        return fleet, FleetKernel(
            partial(submit, fleet),
            partial(end, fleet),
            partial(throttle, fleet),
            partial(place_waiting, fleet, decide, rule.choose),
        )
    compilation.wait("instances")

    def fetch() -> FleetKernel:
        functions = compiled_fleet_decision(backfill), compiled_placement(rule)
        return FleetKernel(*compiled_fleet_transitions().on(fleet, *functions))

    return fleet, load_or_recompile(fetch, "instances")


class FleetScheduler:
    """SimPy process that owns the machines and decides where waiting instances are placed."""

    def __init__(self, calendar: Calendar, fleet: Fleet, text: FleetKernel) -> None:
        self.calendar, self.fleet, self.text = calendar, fleet, text
        self._ends: dict[int, Event] = {}
        self._wake = Event(calendar)
        self._is_called = False

    def arrive(self, job: int) -> None:
        """Queue the tasks of a submitted job."""
        self.text.submit(job)
        self.call()

    def turn(self, machine: int, cpu: float, gpu: float) -> None:
        """Set the CPU and GPU speeds of a machine, as shares of full speed."""
        self.text.throttle(machine, cpu, gpu)
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
            n_changed = self.text.place(self.calendar.now)
            for instance in first_of(self.fleet.changed, n_changed):
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
        self.text.end(instance)
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
    fleet_arrays, table = make_fleet(scenario)
    table = interpretable(table)
    fleet, text = fleet_kernel(scenario, fleet_arrays, kernel)
    calendar = Calendar()
    scheduler = FleetScheduler(calendar, fleet, text)
    turns = list(zip(table.turns_s, table.turning, table.cpu, table.gpu, strict=True))
    calendar.process(arrivals(calendar, table.submit_s, table.takes_part, scheduler))
    calendar.process(throttle_events(calendar, turns, scheduler))
    calendar.process(scheduler.run())
    calendar.run()
    return instances_result(scenario, fleet, table, "process")
