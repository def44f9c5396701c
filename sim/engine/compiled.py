"""The engines `compiled` and `interpreted`: one event loop, one text, machine code or Python.

The interpreted one needs no compiler. It is what answers on a cold machine while the programs are
compiled in the background, and as soon as they are there it gives over to them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sim.engine import preparation, setup
from sim.engine.loop import Course, new_course, run
from sim.engine.programs import loop
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
    if not preparation.is_ready():
        preparation.wait()
    admission = admit(scenario)
    program, decide = loop(backfill_named(scenario.backfill))
    pool = setup.make_pool(scenario, admission)
    course = _course(scenario, admission)
    while not program(pool, pool, decide, course, SLICE):
        pass
    return setup.finished(scenario, admission, *_times(course), engine="compiled")


def run_interpreted(scenario: Scenario) -> SimulationResult:
    """Simulate in Python, without compiler and without SimPy."""
    course = _interpret(scenario, _never)
    return setup.finished(scenario, admit(scenario), *_times(course), engine="interpreted")


def run_fastest(scenario: Scenario) -> SimulationResult:
    """Simulate in machine code if it is there; else begin to compile and answer in Python.

    As soon as the machine code is there it takes over, from the beginning: it needs less time for
    the whole than Python for the rest.
    """
    if not preparation.is_ready():
        preparation.begin()
        course = _interpret(scenario, preparation.is_ready)
        if not preparation.is_ready():
            note = (
                "simulated without compiled code, which gives the same more slowly; "
                f"compiled code is {preparation.compilation().readiness}"
            )
            times = _times(course)
            return setup.finished(scenario, admit(scenario), *times, "interpreted", note=note)
    return run_compiled(scenario)


def _interpret(scenario: Scenario, is_in_vain: Callable[[], bool]) -> Course:
    """Return the course at its end, or where it was when a look said that it is in vain."""
    admission = admit(scenario)
    decide = backfill_named(scenario.backfill).decide
    pool = interpretable(setup.make_pool(scenario, admission))
    course = interpretable(_course(scenario, admission))
    while not run(pool, pool, decide, course, INTERPRETED_SLICE) and not is_in_vain():
        pass
    return course


def _never() -> bool:
    return False


def _course(scenario: Scenario, admission: Admission) -> Course:
    return new_course(
        scenario.workload.submit_s,
        admission.runtime_s,
        admission.partition,
        len(scenario.cluster.partitions),
    )


def _times(course: Course) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.asarray(course.start_s), np.asarray(course.end_s)
