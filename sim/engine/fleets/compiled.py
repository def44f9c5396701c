"""The loop for a fleet in machine code, and the same text run by Python."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from sim.engine import preparation
from sim.engine.fleets.loop import Timetable, new_timetable, run_fleet
from sim.engine.fleets.setup import finished, make_fleet
from sim.engine.loading import loaded
from sim.kernel import jit
from sim.kernel.agenda import drop_first, put
from sim.kernel.fleet import AMOUNTS, Fleet, Orders, Plant, empty_fleet
from sim.kernel.gauges import Asked
from sim.kernel.placing import end, submit
from sim.kernel.progress import begin, settle, throttle
from sim.kernel.records import interpretable
from sim.model.result import SimulationResult
from sim.model.scenario import Scenario
from sim.model.throttle import Turns
from sim.policies.backfill import backfill_named, decision_of
from sim.policies.kinds import Backfill
from sim.policies.placement import PLACEMENTS, placement_named
from sim.policies.placements.kinds import PlacementRule

SLICE = 2_000_000
"""Instants between two looks at whether somebody interrupts."""

AHEAD = ("none", "greedy")
"""Rules that are compiled with the loop, and with the first of the placement rules."""

SMALL = 5_000
"""So many instances are simulated in Python while there is no machine code."""


@cache
def _example() -> tuple[Fleet, Timetable]:
    """Return a fleet and a timetable of the types that every simulation has."""
    one, none = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    amounts, times_s = np.ones((1, AMOUNTS), dtype=np.int64), np.zeros(1)
    plant = Plant(amounts, none, times_s, times_s)
    orders = Orders(
        none, one, none, none, none, np.zeros(2, dtype=np.int64), none[:0], amounts,
        np.ones((1, 1), dtype=np.int64), np.zeros((1, 7)),
    )  # fmt: skip
    asked = Asked(times_s, amounts == 1, True, none, none, True, none, times_s, (1, 1))
    turns = Turns(times_s, none, times_s, times_s)
    return empty_fleet(plant, orders, asked), new_timetable(times_s, one == 1, turns, 1)


@cache
def choice(rule: PlacementRule) -> Any:
    """Return the compiled choice of a placement rule."""
    return jit.compiled(rule.choose, _example()[0], 0, 0, returns=0)


@cache
def decision(backfill: Backfill) -> Any:
    """Return the compiled decision of a backfilling rule, for any placement rule.

    Raises:
        ScenarioError: it cannot place instances.
    """
    fleet, choose = _example()[0], jit.first_class(choice(PLACEMENTS[0]))
    text = decision_of(backfill, "instances")
    jit.compiled(begin, fleet, 0, 0.0)
    return jit.compiled(text, fleet, choose, 0.0, returns=0)


@cache
def transitions() -> tuple[Any, ...]:
    """Return what the SimPy engine calls beside decisions."""
    fleet, _ = _example()
    return (
        jit.compiled(submit, fleet, 0),
        jit.compiled(end, fleet, 0),
        jit.compiled(throttle, fleet, 0, 0.0, 0.0),
        jit.compiled(settle, fleet, 0.0),
    )


@cache
def loop(backfill: Backfill) -> Callable[..., bool]:
    """Return the compiled loop."""
    fleet, table = _example()
    transitions()
    for text, *more in ((put, 0, 0, 0.0), (drop_first, 0)):
        jit.compiled(text, table.ends_s, table.ending, table.slot_of, *more)
    decide, choose = decision(backfill), choice(PLACEMENTS[0])
    given = jit.first_class(decide), jit.first_class(choose)
    program: Callable[..., bool] = jit.compiled(run_fleet, fleet, *given, table, 0)
    return program


def compile_fleets() -> None:
    """Compile what every fleet needs, or load it from the disk cache.

    Of the rules only the simplest are compiled; the others are when they are first used, which
    takes a few seconds each.
    """
    for name in AHEAD:
        loop(backfill_named(name))


def run_compiled(scenario: Scenario) -> SimulationResult:
    """Simulate in machine code; waits for the compiler if it has to.

    Raises:
        EngineError: there is no compiler.
        ScenarioError: what cannot be placed.
    """
    if not preparation.is_ready("instances"):
        preparation.wait("instances")
    program, decide, choose = loaded(partial(_program, scenario), "instances")
    fleet, table = make_fleet(scenario)
    while not program(fleet, decide, choose, table, SLICE):
        pass
    return finished(scenario, fleet, table, "compiled")


def _program(scenario: Scenario) -> tuple[Callable[..., bool], Any, Any]:
    backfill = backfill_named(scenario.backfill)
    return loop(backfill), decision(backfill), choice(placement_named(scenario.placement))


def run_interpreted(scenario: Scenario) -> SimulationResult:
    """Simulate in Python, without compiler and without SimPy."""
    decide = decision_of(backfill_named(scenario.backfill), "instances")
    choose = placement_named(scenario.placement).choose
    made, given = make_fleet(scenario)
    fleet, table = interpretable(made), interpretable(given)
    while not run_fleet(fleet, decide, choose, table, SLICE):
        pass
    return finished(scenario, fleet, table, "interpreted")


def run_fastest(scenario: Scenario) -> SimulationResult:
    """Simulate in machine code if it is there, or if it is worth to be waited for."""
    tasks = scenario.workload.tasks
    is_small = tasks is not None and tasks.n_instances <= SMALL
    if jit.unavailable() is not None or (is_small and not preparation.is_ready("instances")):
        return run_interpreted(scenario)
    return run_compiled(scenario)
