"""The engines `compiled` and `interpreted`: one event loop as machine code or as Python.

The interpreted engine needs no compiler. It answers while the programs are compiled in the
background, and lets them continue when they are ready.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim.engines import compilation, job_setup
from sim.engines.compilation import load_or_recompile
from sim.engines.event_loop import (
    EventState,
    compiled_fleet_decision,
    compiled_fleet_loop,
    compiled_loop,
    compiled_placement,
    new_event_state,
    run,
    run_fleet,
    run_nodes,
    state_layout,
)
from sim.engines.fleet_setup import instances_result, make_fleet
from sim.engines.job_setup import (
    decides_by_plan,
    feedback_of,
    node_states_of,
    outside_of,
    procs_of,
    restarts_of,
)
from sim.kernel import jit
from sim.kernel.job_queue import never_scored
from sim.kernel.nodes import Nodes
from sim.kernel.pool import Pool
from sim.kernel.records import interpretable
from sim.model.admission import Admission, admit
from sim.model.errors import DamagedCodeError
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.policies.backfills import backfill_named, decision_of
from sim.policies.orders import order_named
from sim.policies.placements import placement_named

FIRST_SLICE, LONGEST_SLICE, SLICE_S = 2_000, 2_000_000, 0.2
"""Instants of the first call and of the longest, and about how long a call shall take (s)."""

INTERPRETED_SLICE = 2_000
"""Instants between two checks for a finished compiler."""


def next_slice(n_instants: int, took_s: float) -> int:
    """Return the instants of the next call: for `SLICE_S`, at most four times as many as before."""
    wanted = 4 * n_instants if took_s <= 0.0 else round(n_instants * min(4.0, SLICE_S / took_s))
    return max(1, min(LONGEST_SLICE, wanted))


def advance(step: Callable[[int], bool]) -> None:
    """Call a step with a number of instants until it returns that no event is left.

    Signals, such as Ctrl-C, are handled between two calls: an instant takes microseconds in a short
    queue and milliseconds in a long one with conservative backfilling.
    """
    n_instants, begun_s = FIRST_SLICE, time.perf_counter()
    while not step(n_instants):
        now_s = time.perf_counter()
        n_instants, begun_s = next_slice(n_instants, now_s - begun_s), now_s


def run_compiled(scenario: Scenario) -> SimulationResult:
    """Simulate jobs in machine code, waiting for the compilation if necessary.

    Raises:
        EngineError: there is no compiler.
        ScenarioError: a job fits nowhere and `too_wide` is ``refuse``.
        UnknownNameError: no such order or backfilling rule.
    """
    if not compilation.is_ready(scenario.allocation):
        compilation.wait(scenario.allocation)
    return _run(scenario, *load_or_recompile(partial(_program, scenario), scenario.allocation))


def _program(scenario: Scenario) -> tuple[Callable[..., bool], Any, Any]:
    order, rule = order_named(scenario.order), backfill_named(scenario.backfill)
    return compiled_loop(rule, order, scenario.allocation, decides_by_plan(scenario))


def _run(
    scenario: Scenario, program: Callable[..., bool], decide: Any, score_now: Any
) -> SimulationResult:
    admission = admit(scenario)
    state = job_setup.make_state(scenario, admission)
    pool, course = job_setup.pool_of(state), _course(scenario, admission)
    native = jit.NativeArguments(state_layout(scenario.allocation), (state,))
    advance(
        lambda n_instants: program(
            state, pool, decide, native.address, score_now, course, n_instants
        )
    )
    return _finished(scenario, admission, state, course, "compiled")


def run_interpreted(scenario: Scenario) -> SimulationResult:
    """Simulate jobs in pure Python, without compiler and without SimPy."""
    return _finished(scenario, *_interpret(scenario, _never), "interpreted")


def run_fastest(scenario: Scenario) -> SimulationResult:
    """Simulate jobs in machine code if ready, otherwise in Python while compiling.

    When the machine code becomes ready it starts again from the beginning, which takes less time
    than the rest in Python.
    """
    is_ready = partial(compilation.is_ready, scenario.allocation)
    if is_ready():
        try:
            program = _program(scenario)
        except DamagedCodeError:
            compilation.discard()
        else:
            return _run(scenario, *program)
    compilation.begin_to_compile()
    reached = _interpret(scenario, is_ready)
    if is_ready():
        return run_compiled(scenario)
    state = compilation.compilation_state()
    note = (
        "simulated without compiled code: same results, but slower; compiled code is "
        f"{state.readiness}" + (f": {state.reason}" if state.reason else "")
    )
    return _finished(scenario, *reached, "interpreted", note=note)


def _interpret(
    scenario: Scenario, is_in_vain: Callable[[], bool]
) -> tuple[Admission, Pool | Nodes, EventState]:
    """Return the state and the event state at the end, or at the first check that stops the run."""
    admission = admit(scenario)
    rule = backfill_named(scenario.backfill)
    decide = decision_of(rule, scenario.allocation, decides_by_plan(scenario))
    score_now = order_named(scenario.order).score_now or never_scored
    state = interpretable(job_setup.make_state(scenario, admission))
    pool, course = job_setup.pool_of(state), interpretable(_course(scenario, admission))
    go_on = run if scenario.allocation == "processors" else run_nodes
    while not go_on(state, pool, decide, state, score_now, course, INTERPRETED_SLICE):
        if is_in_vain():
            break
    return admission, state, course


def _never() -> bool:
    return False


def _course(scenario: Scenario, admission: Admission) -> EventState:
    return new_event_state(
        scenario.workload.submit_s,
        admission.runtime_s,
        admission.place,
        len(scenario.cluster.partitions),
        outside_of(scenario, admission),
        node_states_of(scenario, admission),
        feedback_of(scenario, admission),
    )


def _finished(
    scenario: Scenario,
    admission: Admission,
    state: Pool | Nodes,
    course: EventState,
    engine: str,
    note: str | None = None,
) -> SimulationResult:
    start_s, end_s = np.asarray(course.start_s), np.asarray(course.end_s)
    return job_setup.job_result(
        scenario,
        admission,
        start_s,
        end_s,
        engine,
        note=note,
        placement=job_setup.placement_of(state),
        restarts=restarts_of(scenario, job_setup.pool_of(state)),
        hold_from_s=np.asarray(course.nodes.from_s),
        submitted_s=course.feedback.submitted_s,
        procs=procs_of(scenario, job_setup.pool_of(state)),
    )


MAX_INTERPRETED_INSTANCES = 5_000


def run_instances_compiled(scenario: Scenario) -> SimulationResult:
    """Simulate task instances in machine code, waiting for the compilation if necessary.

    Raises:
        EngineError: there is no compiler.
        ScenarioError: an instance cannot be placed.
    """
    if not compilation.is_ready("instances"):
        compilation.wait("instances")
    program, decide, choose = load_or_recompile(partial(_instances_program, scenario), "instances")
    fleet, table = make_fleet(scenario)
    advance(lambda n_instants: program(fleet, decide, choose, table, n_instants))
    return instances_result(scenario, fleet, table, "compiled")


def _instances_program(scenario: Scenario) -> tuple[Callable[..., bool], Any, Any]:
    backfill = backfill_named(scenario.backfill)
    return (
        compiled_fleet_loop(backfill),
        compiled_fleet_decision(backfill),
        compiled_placement(placement_named(scenario.placement)),
    )


def run_instances_interpreted(scenario: Scenario) -> SimulationResult:
    """Simulate task instances in pure Python, without compiler and without SimPy."""
    decide = decision_of(backfill_named(scenario.backfill), "instances")
    choose = placement_named(scenario.placement).choose
    fleet_arrays, table_arrays = make_fleet(scenario)
    fleet, table = interpretable(fleet_arrays), interpretable(table_arrays)
    while not run_fleet(fleet, decide, choose, table, LONGEST_SLICE):
        pass
    return instances_result(scenario, fleet, table, "interpreted")


def run_instances_fastest(scenario: Scenario) -> SimulationResult:
    """Simulate task instances in machine code if ready or worth waiting for, else in Python."""
    tasks = scenario.workload.tasks
    is_small = tasks is not None and tasks.n_instances <= MAX_INTERPRETED_INSTANCES
    if jit.unavailable() is not None or (is_small and not compilation.is_ready("instances")):
        return run_instances_interpreted(scenario)
    return run_instances_compiled(scenario)
