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
from sim.errors import DamagedCodeError
from sim.kernel.node import Nodes
from sim.kernel.pool import Pool
from sim.kernel.records import interpretable
from sim.model.admission import Admission, admit
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.policies.backfill import backfill_named

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
    fetch = partial(loop, backfill_named(scenario.backfill), scenario.allocation)
    return _run(scenario, *loaded(fetch, scenario.allocation))


def _run(scenario: Scenario, program: Callable[..., bool], decide: Any) -> SimulationResult:
    admission = admit(scenario)
    state = setup.make_state(scenario, admission)
    pool, course = setup.pool_of(state), _course(scenario, admission)
    while not program(state, pool, decide, course, SLICE):
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
            found = loop(backfill_named(scenario.backfill), scenario.allocation)
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
    decide = backfill_named(scenario.backfill).decision(scenario.allocation)
    state = interpretable(setup.make_state(scenario, admission))
    pool, course = setup.pool_of(state), interpretable(_course(scenario, admission))
    go_on = run_nodes if scenario.allocation == "whole_nodes" else run
    while not go_on(state, pool, decide, course, INTERPRETED_SLICE) and not is_in_vain():
        pass
    return admission, state, course


def _never() -> bool:
    return False


def _course(scenario: Scenario, admission: Admission) -> Course:
    return new_course(
        scenario.workload.submit_s,
        admission.runtime_s,
        admission.partition,
        len(scenario.cluster.partitions),
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
    )
