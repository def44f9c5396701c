"""The engines `compiled` and `interpreted`: one event loop, one text, machine code or Python.

The interpreted one needs no compiler. It is what answers on a cold machine while the programs are
compiled in the background, and as soon as they are there it gives over to them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sim.engine import preparation, setup
from sim.engine.loading import loaded
from sim.engine.loop import Course, new_course, run, run_nodes
from sim.engine.programs import loop
from sim.engine.standing import decides_by_plan, outside_of, restarts_of
from sim.errors import DamagedCodeError
from sim.kernel.node import Nodes
from sim.kernel.pool import Pool
from sim.kernel.ranking import never_scored
from sim.kernel.records import interpretable
from sim.model.admission import Admission, admit
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.policies.backfill import backfill_named, decision_of
from sim.policies.order import order_named

SLICE, INTERPRETED_SLICE = 2_000_000, 2_000
"""Instants between two looks at what else is wanted: an interruption, a compiler that is done."""


def run_compiled(scenario: Scenario) -> SimulationResult:
    """Simulate in machine code; waits for the compiler if it has to.

    Raises:
        EngineError: there is no compiler.
        ScenarioError: a job fits nowhere and the scenario does not say what to do with it.
        UnknownNameError: no such order or backfilling rule.
    """
    if not preparation.is_ready(scenario.allocation):
        preparation.wait(scenario.allocation)
    return _run(scenario, *loaded(partial(_program, scenario), scenario.allocation))


def _program(scenario: Scenario) -> tuple[Callable[..., bool], Any, Any]:
    order, rule = order_named(scenario.order), backfill_named(scenario.backfill)
    return loop(rule, order, scenario.allocation, decides_by_plan(scenario))


def _run(
    scenario: Scenario, program: Callable[..., bool], decide: Any, score_now: Any
) -> SimulationResult:
    admission = admit(scenario)
    state = setup.make_state(scenario, admission)
    pool, course = setup.pool_of(state), _course(scenario, admission)
    while not program(state, pool, decide, score_now, course, SLICE):
        pass
    return _finished(scenario, admission, state, course, "compiled")


def run_interpreted(scenario: Scenario) -> SimulationResult:
    """Simulate in Python, without compiler and without SimPy."""
    return _finished(scenario, *_interpret(scenario, _never), "interpreted")


def run_fastest(scenario: Scenario) -> SimulationResult:
    """Simulate in machine code if it is there; else begin to compile and answer in Python.

    As soon as the machine code is there it takes over, from the beginning: it needs less time for
    the whole than Python for the rest.
    """
    is_ready = partial(preparation.is_ready, scenario.allocation)
    if is_ready():
        try:
            found = _program(scenario)
        except DamagedCodeError:
            preparation.discard()
        else:
            return _run(scenario, *found)
    preparation.begin()
    reached = _interpret(scenario, is_ready)
    if is_ready():
        return run_compiled(scenario)
    told = preparation.compilation()
    note = (
        "simulated without compiled code, which gives the same more slowly; compiled code is "
        f"{told.readiness}" + (f": {told.reason}" if told.reason else "")
    )
    return _finished(scenario, *reached, "interpreted", note=note)


def _interpret(
    scenario: Scenario, is_in_vain: Callable[[], bool]
) -> tuple[Admission, Pool | Nodes, Course]:
    """Return state and course at the end, or where they were when a look said it is in vain."""
    admission = admit(scenario)
    rule = backfill_named(scenario.backfill)
    decide = decision_of(rule, scenario.allocation, decides_by_plan(scenario))
    score_now = order_named(scenario.order).score_now or never_scored
    state = interpretable(setup.make_state(scenario, admission))
    pool, course = setup.pool_of(state), interpretable(_course(scenario, admission))
    go_on = run if scenario.allocation == "processors" else run_nodes
    while not go_on(state, pool, decide, score_now, course, INTERPRETED_SLICE):
        if is_in_vain():
            break
    return admission, state, course


def _never() -> bool:
    return False


def _course(scenario: Scenario, admission: Admission) -> Course:
    return new_course(
        scenario.workload.submit_s,
        admission.runtime_s,
        admission.place,
        len(scenario.cluster.partitions),
        outside_of(scenario, admission),
    )


def _finished(
    scenario: Scenario,
    admission: Admission,
    state: Pool | Nodes,
    course: Course,
    engine: str,
    note: str | None = None,
) -> SimulationResult:
    start_s, end_s = np.asarray(course.start_s), np.asarray(course.end_s)
    return setup.finished(
        scenario,
        admission,
        start_s,
        end_s,
        engine,
        note=note,
        placement=setup.placement_of(state),
        restarts=restarts_of(scenario, setup.pool_of(state)),
    )
