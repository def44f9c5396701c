"""The event loops as kernel functions, and the compiled programs made of them.

`run` is the loop for jobs: `release` is bound to the transition of the state (`sim.kernel.jit`),
and all other transitions are those of the pool in it. `run_fleet` is the loop for instances. A
program is an event loop with a decision of a backfilling rule.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel import jit
from sim.kernel.event_heap import drop_first, pop, push, put, withdraw
from sim.kernel.feedback import (
    N_COMING,
    Feedback,
    let_follow,
    new_feedback,
    submit_together,
)
from sim.kernel.fleet import AMOUNTS, Fleet, GaugeSettings, MachineTable, TaskTable, empty_fleet
from sim.kernel.instances import begin, end, settle, submit, throttle
from sim.kernel.jit import bound, kernel, noinline
from sim.kernel.job_queue import (
    admit_held_jobs,
    arrive_at_limit,
    leave_limit,
    never_scored,
    prepare_decision,
    wake_at_overrun,
)
from sim.kernel.moldable import start_on_fewer, stretch_of
from sim.kernel.node_power import NodeStates, free_nodes, hold_nodes, no_node_states
from sim.kernel.nodes import Nodes, empty_nodes, hold_whole, idle_procs, release_machines, start_on
from sim.kernel.policy_context import ExternalEvents, no_external_events
from sim.kernel.pool import Pool, arrive, empty_pool, may_start, release, start
from sim.kernel.preemption import is_decisive, preempt, turn
from sim.model.cluster import SpeedChanges
from sim.model.scenario import Allocation
from sim.policies.backfills import backfill_named, decision_of, rules_for
from sim.policies.orders import ORDERS
from sim.policies.placements import PLACEMENTS, PlacementRule
from sim.policies.policy import Backfill, Order

NEXT, N_RUNNING, TURNING = 0, 1, 2
"""Positions in `EventState.cursor`: next arrival, number of running jobs, next window event."""


class EventState(NamedTuple):
    """Arrivals, capacity windows, and past and future ends of jobs in a simulation.

    Attributes:
        submit_s: float64 [n], in rising order.
        runtime_s: float64 [n].
        partition: int64 [n], -1 takes no part.
        start_s, end_s: float64 [n], result; NaN until known.
        ends_s, ending: float64 and int64 [n], heap of future completions, and their jobs.
        touched: int64 [m], 1 for a partition with an event at this instant.
        outside: user limits, window events and smaller sizes of jobs.
        nodes: idle times of nodes that are switched off.
        feedback: jobs that are submitted after the end of another one.
        cursor: int64 [3], see `NEXT`, `N_RUNNING` and `TURNING`.
    """

    submit_s: list[float]
    runtime_s: list[float]
    partition: list[int]
    start_s: list[float]
    end_s: list[float]
    ends_s: list[float]
    ending: list[int]
    touched: list[int]
    outside: ExternalEvents
    nodes: NodeStates
    feedback: Feedback
    cursor: list[int]


def new_event_state(
    submit_s: NDArray[np.float64],
    runtime_s: NDArray[np.float64],
    partition: NDArray[np.int64],
    n_partitions: int,
    outside: ExternalEvents | None = None,
    nodes: NodeStates | None = None,
    feedback: Feedback | None = None,
) -> EventState:
    """Return the initial event state of a simulation of jobs, as arrays."""
    n_jobs = len(submit_s)
    parts: list[Any] = [
        submit_s,
        runtime_s,
        partition,
        np.full(n_jobs, np.nan),
        np.full(n_jobs, np.nan),
        np.empty(n_jobs),
        np.empty(n_jobs, dtype=np.int64),
        np.zeros(n_partitions, dtype=np.int64),
        no_external_events() if outside is None else outside,
        no_node_states() if nodes is None else nodes,
        new_feedback() if feedback is None else feedback,
        np.zeros(3, dtype=np.int64),
    ]
    return EventState(*parts)


@kernel
def run(  # noqa: PLR0912, PLR0915 - what few scenarios use is asked for here, not in a call
    state: Any, pool: Pool, decide: Any, decision_state: Any, score_now: Any, course: EventState,
    n_instants: int,
) -> bool:  # fmt: skip
    """Simulate jobs for at most `n_instants` event times; return whether no event is left.

    `pool` is the one in the state. The policy `decide` maps (state, partition, now_s) to the number
    of jobs started; `decision_state` is the state as `decide` takes it, in machine code an address
    (`state_layout`). `score_now` is the score of the order, if its ranks change. After at most
    `n_instants` a later call continues. Return True when no event is left.
    """
    submit_s, runtime_s, partition = course.submit_s, course.runtime_s, course.partition
    start_s, end_s = course.start_s, course.end_s
    ends_s, ending, touched = course.ends_s, course.ending, course.touched
    n_jobs, n_partitions = len(submit_s), len(pool.partitions)
    coming, n_running = course.cursor[NEXT], course.cursor[N_RUNNING]
    outside, standings = course.outside, pool.terms.standings
    has_turns, has_doors = len(outside.turns_s) > 0, len(outside.doors) > 0
    has_nodes, feedback = len(course.nodes.partitions) > 0, course.feedback
    has_feedback, is_moldable = len(feedback.first) > 0, len(outside.sizes) > 0
    delay_s = 0.0
    is_over = False
    while n_instants > 0:
        n_instants -= 1
        now_s = math.inf
        if n_running > 0:
            now_s = ends_s[0]
        if coming < n_jobs:
            now_s = min(now_s, submit_s[coming])
        if has_feedback and feedback.cursor[N_COMING] > 0:
            now_s = min(now_s, feedback.coming_s[0])
        for k in range(n_partitions):
            now_s = min(now_s, pool.partitions[k].wake_s)
        if has_turns and course.cursor[TURNING] < len(outside.turns_s):
            now_s = min(now_s, outside.turns_s[course.cursor[TURNING]])
        if now_s == math.inf:
            is_over = True
            break
        while n_running > 0 and ends_s[0] == now_s:
            job = ending[0]
            pop(ends_s, ending, n_running)
            n_running -= 1
            release(state, partition[job], job, now_s)
            touched[partition[job]] = 1
            if has_nodes:
                free_nodes(course.nodes, partition[job], job, now_s)
            if has_doors:
                leave_limit(pool, outside, partition[job], job)
            if has_feedback:
                let_follow(feedback, submit_s, job, now_s)
        if has_feedback:
            coming = submit_together(pool, feedback, submit_s, partition, touched, coming, now_s)
        while coming < n_jobs and submit_s[coming] == now_s:
            if partition[coming] >= 0:
                if has_doors:
                    arrive_at_limit(pool, outside, partition[coming], coming)
                else:
                    arrive(pool, partition[coming], coming)
                touched[partition[coming]] = 1
            coming += 1
        if has_turns:
            n_running = _turn(pool, course, now_s, n_running)
        for k in range(n_partitions):
            if pool.partitions[k].wake_s <= now_s:
                pool.partitions[k].wake_s = math.inf
                touched[k] = 1
            if has_doors and touched[k] == 1:
                admit_held_jobs(pool, outside, k)
            if touched[k] == 1 and may_start(pool, k):
                if pool.partitions[k].preempts == 1:
                    n_running = _clear(pool, k, course, now_s, score_now, n_running)
                if is_moldable:
                    n_running = _mold(pool, k, course, now_s, score_now, n_running)
                else:
                    prepare_decision(pool, k, now_s, score_now)
                for i in range(decide(decision_state, k, now_s)):
                    job = pool.started[i]
                    if has_nodes:
                        delay_s = hold_nodes(course.nodes, k, job, runtime_s[job], now_s)
                    start_s[job] = now_s + delay_s
                    end_s[job] = now_s + (delay_s + runtime_s[job])
                    push(ends_s, ending, n_running, end_s[job], job)
                    n_running += 1
                    if len(standings) > 0:
                        standings[job].since_s = now_s
                if pool.partitions[k].decides_late == 1:
                    wake_at_overrun(pool, k)
            touched[k] = 0
    course.cursor[NEXT] = coming
    course.cursor[N_RUNNING] = n_running
    return is_over


@noinline
@kernel
def _turn(pool: Pool, course: EventState, now_s: float, n_running: int) -> int:
    """Begin and end windows, and return the new number of running jobs."""
    turns_s, turning = course.outside.turns_s, course.cursor[TURNING]
    while turning < len(turns_s) and turns_s[turning] == now_s:
        event = course.outside.turns[turning]
        for i in range(turn(pool, event, now_s)):
            n_running = withdraw(course.ends_s, course.ending, n_running, pool.started[i])
        if is_decisive(pool, event):
            course.touched[pool.terms.windows[event if event >= 0 else ~event].place] = 1
        turning += 1
    course.cursor[TURNING] = turning
    return n_running


@noinline
@kernel
def _clear(
    pool: Pool, k: int, course: EventState, now_s: float, score_now: Any, n_running: int
) -> int:
    """Preempt for the first in the queue, and return the new number of running jobs."""
    for i in range(make_way(pool, score_now, k, now_s)):
        n_running = withdraw(course.ends_s, course.ending, n_running, pool.started[i])
    return n_running


@noinline
@kernel
def _mold(
    pool: Pool, k: int, course: EventState, now_s: float, score_now: Any, n_running: int
) -> int:
    """Start the first in the queue, on fewer processors if better, and return the running jobs."""
    standings = pool.terms.standings
    for i in range(start_moldable(pool, course.outside, score_now, k, now_s)):
        job = pool.started[i]
        length_s = course.runtime_s[job] * stretch_of(pool, course.outside, job)
        course.start_s[job], course.end_s[job] = now_s, now_s + length_s
        push(course.ends_s, course.ending, n_running, now_s + length_s, job)
        n_running += 1
        if len(standings) > 0:
            standings[job].since_s = now_s
    return n_running


@kernel
def start_moldable(
    pool: Pool, outside: ExternalEvents, score_now: Any, k: int, now_s: float
) -> int:
    """Start moldable jobs of partition k in queue order, and return the number of started jobs.

    They are listed in ``pool.started``. `serve_prepared` makes the decision on the other jobs.
    """
    if not may_start(pool, k):
        return 0
    prepare_decision(pool, k, now_s, score_now)
    return start_on_fewer(pool, outside, k, now_s)


@kernel
def make_way(pool: Pool, score_now: Any, k: int, now_s: float) -> int:
    """Preempt for the first in the queue of partition k, and return the number of killed jobs.

    They are listed in ``pool.started``.
    """
    if not may_start(pool, k):
        return 0
    prepare_decision(pool, k, now_s, score_now)
    return preempt(pool, k, now_s)


@kernel
def serve(
    decision_state: Any, pool: Pool, decide: Any, score_now: Any, k: int, now_s: float
) -> int:
    """Make the scheduling decision of partition k, and return the number of started jobs.

    They are listed in ``pool.started``. `pool` is the one in the state that `decide` takes.
    """
    if not may_start(pool, k):
        return 0
    prepare_decision(pool, k, now_s, score_now)
    return serve_prepared(decision_state, pool, decide, k, now_s)


@kernel
def serve_prepared(decision_state: Any, pool: Pool, decide: Any, k: int, now_s: float) -> int:
    """Make the scheduling decision of partition k, whose estimates and ranks are those of now."""
    n_started: int = decide(decision_state, k, now_s)
    if pool.partitions[k].decides_late == 1:
        wake_at_overrun(pool, k)
    return n_started


run_nodes = bound(run, "nodes", release=release_machines)

NEXT_JOB, N_COMPUTING, NEXT_TURN = 0, 1, 2
"""Positions in `Timetable.cursor`: next job, number of future ends, next change of speed."""


class Timetable(NamedTuple):
    """Arrivals, machine speed changes and future ends in a simulation of instances.

    Attributes:
        submit_s: float64 [n_jobs], in rising order.
        takes_part: int64 [n_jobs], 0 if it is rejected.
        turns_s, turning: float64 and int64 [n_turns], times at which machines change their speed,
            in rising order, and these machines.
        cpu: float64 [n_turns], share of full speed from then on; `gpu` likewise.
        ends_s, ending: float64 and int64 [n_instances], heap of future ends, and their instances.
        slot_of: int64 [n_instances], slot of each in the heap; -1 is none.
        cursor: int64 [3], see `NEXT_JOB`.
    """

    submit_s: list[float]
    takes_part: list[int]
    turns_s: list[float]
    turning: list[int]
    cpu: list[float]
    gpu: list[float]
    ends_s: list[float]
    ending: list[int]
    slot_of: list[int]
    cursor: list[int]


def new_timetable(
    submit_s: NDArray[np.float64],
    takes_part: NDArray[np.bool_],
    turns: SpeedChanges,
    n_instances: int,
) -> Timetable:
    """Return the initial timetable of a simulation of instances, as arrays."""
    parts: list[Any] = [
        submit_s.copy(),
        takes_part.astype(np.int64),
        turns.time_s,
        turns.machine,
        turns.cpu,
        turns.gpu,
        np.empty(n_instances),
        np.empty(n_instances, dtype=np.int64),
        np.full(n_instances, -1),
        np.zeros(3, dtype=np.int64),
    ]
    return Timetable(*parts)


@kernel
def run_fleet(fleet: Fleet, decide: Any, choose: Any, table: Timetable, n_instants: int) -> bool:
    """Simulate instances for at most `n_instants` event times; return whether none is left.

    `decide` is the backfilling rule, (fleet, choose, now_s). After at most `n_instants` a later
    call continues. Return True when no event is left.
    """
    ends_s, ending, slot_of = table.ends_s, table.ending, table.slot_of
    coming, n, turning = table.cursor[NEXT_JOB], table.cursor[N_COMPUTING], table.cursor[NEXT_TURN]
    n_jobs, n_turns = len(table.submit_s), len(table.turns_s)
    is_over = False
    while n_instants > 0:
        n_instants -= 1
        now_s = math.inf
        if n > 0:
            now_s = ends_s[0]
        if coming < n_jobs:
            now_s = min(now_s, table.submit_s[coming])
        if turning < n_turns:
            now_s = min(now_s, table.turns_s[turning])
        if now_s == math.inf:
            is_over = True
            break
        while n > 0 and ends_s[0] == now_s:
            instance = ending[0]
            n = drop_first(ends_s, ending, slot_of, n)
            end(fleet, instance)
        while turning < n_turns and table.turns_s[turning] == now_s:
            throttle(fleet, table.turning[turning], table.cpu[turning], table.gpu[turning])
            turning += 1
        while coming < n_jobs and table.submit_s[coming] == now_s:
            if table.takes_part[coming] == 1:
                submit(fleet, coming)
            coming += 1
        decide(fleet, choose, now_s)
        for i in range(settle(fleet, now_s)):
            instance = fleet.changed[i]
            n = put(ends_s, ending, slot_of, n, instance, fleet.end_s[instance])
    table.cursor[NEXT_JOB], table.cursor[N_COMPUTING], table.cursor[NEXT_TURN] = coming, n, turning
    return is_over


def _pool_example(allocation: Allocation) -> tuple[Pool | Nodes, Pool, EventState]:
    """Return a state, its pool and an event state, of the types that every simulation has."""
    times_s, ones = np.zeros(1), np.ones(1, dtype=np.int64)
    nowhere = np.zeros(1, dtype=np.int64)
    for column in (times_s, nowhere):
        column.setflags(write=False)
    pool = empty_pool(ones, times_s, nowhere, nowhere, ones)
    course = new_event_state(times_s, times_s, nowhere, 1)
    if allocation == "processors":
        return pool, pool, course
    nodes = empty_nodes(pool, ones, nowhere, ones[:, None], ones[:, None], nowhere)
    return nodes, pool, course


@cache
def state_layout(allocation: Allocation = "processors") -> jit.NativeLayout:
    """Return the layout of a state in memory, of which decisions get the address.

    A call with all arrays of the state takes longer than many a decision.
    """
    name = "pool" if allocation == "processors" else "nodes"
    return jit.NativeLayout(f"{name}_state", _pool_example(allocation)[0])


@cache
def compiled_decision(
    backfill: Backfill, allocation: Allocation = "processors", by_plan: bool = False
) -> Any:
    """Return the compiled decision of a backfilling rule for a state of `state_layout`.

    Raises `ScenarioError` if the rule does not support the state of the allocation.
    """
    decide = decision_of(backfill, allocation, by_plan)
    return state_layout(allocation).compiled(decide, (0,), 0, 0.0, returns=0)


@cache
def compiled_score(order: Order) -> Any:
    """Return the compiled score function of a queue order, or a placeholder."""
    text = never_scored if order.score_now is None else order.score_now
    return jit.compiled(text, 0.0, 0, 0.0, 0.0, np.zeros(0), returns=0.0)


@cache
def compiled_loop(
    backfill: Backfill,
    order: Order,
    allocation: Allocation = "processors",
    by_plan: bool = False,
) -> tuple[Callable[..., bool], Any, Any]:
    """Return the compiled event loop for jobs, with its decision and score functions.

    Raises `ScenarioError` if the rule does not support the state of the allocation.
    """
    state, pool, course = _pool_example(allocation)
    decide, score_now = compiled_decision(backfill, allocation, by_plan), compiled_score(order)
    text = run if allocation == "processors" else run_nodes
    more = jit.first_class(decide), 0, jit.first_class(score_now), course, 0
    return jit.compiled(text, state, pool, *more), decide, score_now


class CompiledTransitions(NamedTuple):
    """Compiled functions for the SimPy engine, and the layout of their leading arguments."""

    layout: jit.NativeLayout
    functions: tuple[Any, ...]

    def on(self, *arguments: Any) -> tuple[Callable[..., Any], ...]:
        """Return the functions with their leading arguments filled in."""
        native = jit.NativeArguments(self.layout, arguments)
        return tuple(native.bind(function) for function in self.functions)


@cache
def compiled_transitions(allocation: Allocation = "processors") -> CompiledTransitions:
    """Return the compiled transitions and the decision of jobs for an allocation.

    The layout is of (state, pool, external events, decision, score, state of the decision).
    """
    state, pool, course = _pool_example(allocation)
    decide = compiled_decision(rules_for(allocation)[0], allocation)
    function_types = jit.first_class(decide), jit.first_class(compiled_score(ORDERS[0]))
    name = "processors" if allocation == "processors" else "nodes"
    layout = jit.NativeLayout(name, state, pool, course.outside, *function_types, 0)
    on = layout.compiled
    functions = (
        on(arrive, (1,), 0, 0),
        on(release if allocation == "processors" else release_machines, (0,), 0, 0, 0.0),
        on(serve, (5, 1, 3, 4), 0, 0.0),
        on(arrive_at_limit, (1, 2), 0, 0),
        on(leave_limit, (1, 2), 0, 0),
        on(admit_held_jobs, (1, 2), 0),
        on(turn, (1,), 0, 0.0),
        on(make_way, (1, 4), 0, 0.0),
        on(start_moldable, (1, 2, 4), 0, 0.0),
        on(serve_prepared, (5, 1, 3), 0, 0.0),
    )
    return CompiledTransitions(layout, functions)


def compile_programs(allocation: Allocation) -> None:
    """Compile all programs for an allocation or load them from the disk cache."""
    _, pool, _ = _pool_example(allocation)
    jit.compiled(start, pool, 0, 0, 0.0, 0)
    if allocation != "processors":
        _compile_often_called()
    for order in ORDERS:
        compiled_score(order)
    for backfill in rules_for(allocation):
        compiled_loop(backfill, ORDERS[0], allocation)
        if allocation == "processors":
            compiled_decision(backfill, allocation, by_plan=True)
    compiled_transitions(allocation)


def _compile_often_called() -> None:
    """Compile functions that several programs call; Numba would do so for each constant."""
    nodes, _, _ = _pool_example("whole_nodes")
    jit.compiled(idle_procs, nodes, 0, 0, True)
    jit.compiled(hold_whole, nodes, 0, 0)
    jit.compiled(start_on, nodes, 0, 0, 0.0, 0, True)


COMPILED_FLEET_RULES = ("none", "greedy")
"""Rules that are compiled with the loop, and with the first of the placement rules."""


@cache
def _fleet_example() -> tuple[Fleet, Timetable]:
    """Return a fleet and a timetable of the types that every simulation has."""
    ones, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    amounts, times_s = np.ones((1, AMOUNTS), dtype=np.int64), np.zeros(1)
    plant = MachineTable(amounts, none, times_s, times_s)
    orders = TaskTable(
        none, ones, none, none, none, np.zeros(2, dtype=np.int64), none[:0], amounts,
        np.ones((1, 1), dtype=np.int64), np.zeros((1, 7)),
    )  # fmt: skip
    settings = GaugeSettings(times_s, amounts == 1, True, none, none, True, none, times_s, (1, 1))
    turns = SpeedChanges(times_s, none, times_s, times_s)
    return empty_fleet(plant, orders, settings), new_timetable(times_s, ones == 1, turns, 1)


@cache
def compiled_placement(rule: PlacementRule) -> Any:
    """Return the compiled function by which a placement rule chooses a machine."""
    return jit.compiled(rule.choose, _fleet_example()[0], 0, 0, returns=0)


def compiled_fleet_decision(backfill: Backfill) -> Any:
    """Return the compiled function by which a backfilling rule places instances."""
    return compiled_fleet_text(decision_of(backfill, "instances"))


@cache
def compiled_fleet_text(text: Callable[..., int]) -> Any:
    """Return the compiled function of a decision that places instances, (fleet, choose, now_s)."""
    fleet, choose = _fleet_example()[0], jit.first_class(compiled_placement(PLACEMENTS[0]))
    jit.compiled(begin, fleet, 0, 0.0)
    return jit.compiled(text, fleet, choose, 0.0, returns=0)


@kernel
def place_waiting(fleet: Fleet, decide: Any, choose: Any, now_s: float) -> int:
    """Place waiting instances, and return the number of those that get an end.

    They are listed in ``fleet.changed``.
    """
    decide(fleet, choose, now_s)
    return settle(fleet, now_s)


@cache
def compiled_fleet_transitions() -> CompiledTransitions:
    """Return the compiled transitions and the decision for instances.

    The layout is of (fleet, decision, choice of a machine).
    """
    fleet, _ = _fleet_example()
    for text, *examples in ((submit, 0), (end, 0), (throttle, 0, 0.0, 0.0), (settle, 0.0)):
        jit.compiled(text, fleet, *examples)  # as the loop calls them, too
    choose = jit.first_class(compiled_placement(PLACEMENTS[0]))
    decide = jit.first_class(compiled_fleet_decision(backfill_named(COMPILED_FLEET_RULES[0])))
    layout = jit.NativeLayout("fleet", fleet, decide, choose)
    functions = (
        layout.compiled(submit, (0,), 0),
        layout.compiled(end, (0,), 0),
        layout.compiled(throttle, (0,), 0, 0.0, 0.0),
        layout.compiled(place_waiting, (0, 1, 2), 0.0),
    )
    return CompiledTransitions(layout, functions)


@cache
def compiled_fleet_loop(backfill: Backfill) -> Callable[..., bool]:
    """Return the compiled event loop for task instances under a backfilling rule."""
    fleet, table = _fleet_example()
    compiled_fleet_transitions()
    for text, *more in ((put, 0, 0, 0.0), (drop_first, 0)):
        jit.compiled(text, table.ends_s, table.ending, table.slot_of, *more)
    decide, choose = compiled_fleet_decision(backfill), compiled_placement(PLACEMENTS[0])
    function_types = jit.first_class(decide), jit.first_class(choose)
    program: Callable[..., bool] = jit.compiled(run_fleet, fleet, *function_types, table, 0)
    return program


def compile_fleets() -> None:
    """Compile the programs for placing instances or load them from the disk cache.

    Only the simplest rules are compiled; the others are compiled at first use, in a few seconds
    each.
    """
    for name in COMPILED_FLEET_RULES:
        compiled_fleet_loop(backfill_named(name))
