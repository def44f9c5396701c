"""The compiled programs, for each state: an event loop, and a decision per backfilling rule."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sim.engine.loop import Course, new_course, run, run_nodes
from sim.kernel import jit
from sim.kernel.doors import come, leave, let_in
from sim.kernel.node import (
    Nodes,
    empty_nodes,
    hold_whole,
    idle_procs,
    release_machines,
    start_on,
)
from sim.kernel.pool import Pool, arrive, empty_pool, may_start, release, start
from sim.kernel.prepare import prepare
from sim.kernel.ranking import never_scored
from sim.kernel.requeue import preempt, turn
from sim.model.scenario import Allocation
from sim.policies.backfill import decision_of, rules_for
from sim.policies.kinds import Backfill, Order
from sim.policies.order import ORDERS


def _example(allocation: Allocation) -> tuple[Pool | Nodes, Pool, Course]:
    """Return a state, the pool in it and a course, of the types that every simulation has."""
    times_s, ones = np.zeros(1), np.ones(1, dtype=np.int64)
    nowhere = np.zeros(1, dtype=np.int64)
    for column in (times_s, nowhere):
        column.setflags(write=False)
    pool = empty_pool(ones, times_s, nowhere, nowhere, ones)
    course = new_course(times_s, times_s, nowhere, 1)
    if allocation == "processors":
        return pool, pool, course
    nodes = empty_nodes(pool, ones, nowhere, ones[:, None], ones[:, None], nowhere)
    return nodes, pool, course


@cache
def decision(
    backfill: Backfill, allocation: Allocation = "processors", by_plan: bool = False
) -> Any:
    """Return the compiled decision of a rule: (state, partition, now_s) to the number started.

    Raises:
        ScenarioError: the rule cannot decide over the state that the allocation needs.
    """
    decide = decision_of(backfill, allocation, by_plan)
    return jit.compiled(decide, _example(allocation)[0], 0, 0.0, returns=0)


@cache
def score(order: Order) -> Any:
    """Return the compiled score of an order, or what stands in for one whose ranks never change."""
    text = never_scored if order.score_now is None else order.score_now
    return jit.compiled(text, 0.0, 0, 0.0, 0.0, np.zeros(0), returns=0.0)


@cache
def loop(
    backfill: Backfill,
    order: Order,
    allocation: Allocation = "processors",
    by_plan: bool = False,
) -> tuple[Callable[..., bool], Any, Any]:
    """Return the compiled event loop, and the decision and the score to give it.

    Raises:
        ScenarioError: the rule cannot decide over the state that the allocation needs.
    """
    state, pool, course = _example(allocation)
    decide, score_now = decision(backfill, allocation, by_plan), score(order)
    text = run if allocation == "processors" else run_nodes
    given = jit.first_class(decide), jit.first_class(score_now)
    return jit.compiled(text, state, pool, *given, course, 0), decide, score_now


@cache
def transitions(allocation: Allocation = "processors") -> tuple[Any, ...]:
    """Return what the SimPy engine calls beside decisions, in the order of its `Text`."""
    state, pool, course = _example(allocation)
    return (
        jit.compiled(arrive, pool, 0, 0),
        jit.compiled(release if allocation == "processors" else release_machines, state, 0, 0, 0.0),
        jit.compiled(may_start, pool, 0),
        jit.compiled(prepare, pool, 0, 0.0, jit.first_class(score(ORDERS[0]))),
        jit.compiled(come, pool, course.outside, 0, 0),
        jit.compiled(leave, pool, course.outside, 0, 0),
        jit.compiled(let_in, pool, course.outside, 0),
        jit.compiled(turn, pool, 0, 0.0),
        jit.compiled(preempt, pool, 0, 0.0),
    )


def compile_programs(allocation: Allocation) -> None:
    """Compile every program for an allocation, or load it from the disk cache."""
    _, pool, _ = _example(allocation)
    jit.compiled(start, pool, 0, 0, 0.0, 0)
    if allocation != "processors":
        _compile_often_called()
    for order in ORDERS:
        score(order)
    for backfill in rules_for(allocation):
        loop(backfill, ORDERS[0], allocation)
        if allocation == "processors":
            decision(backfill, allocation, by_plan=True)
    transitions(allocation)


def _compile_often_called() -> None:
    """Compile what several programs call with constants; Numba would, anew for each constant."""
    nodes, _, _ = _example("whole_nodes")
    jit.compiled(idle_procs, nodes, 0, 0, True)
    jit.compiled(hold_whole, nodes, 0, 0)
    jit.compiled(start_on, nodes, 0, 0, 0.0, 0, True)
