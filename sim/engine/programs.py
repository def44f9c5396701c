"""The compiled programs, for each state: an event loop, and a decision per backfilling rule."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sim.engine.loop import Course, new_course, run, run_nodes
from sim.kernel import jit
from sim.kernel.node import (
    Nodes,
    empty_nodes,
    hold_whole,
    idle_procs,
    release_machines,
    start_on,
)
from sim.kernel.pool import Pool, arrive, empty_pool, may_start, release, start
from sim.model.scenario import Allocation
from sim.policies.backfill import BACKFILLS, Backfill


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
def decision(backfill: Backfill, allocation: Allocation = "processors") -> Any:
    """Return the compiled decision of a rule: (state, partition, now_s) to the number started.

    Raises:
        ScenarioError: the rule cannot decide over the state that the allocation needs.
    """
    decide = backfill.decision(allocation)
    return jit.compiled(decide, _example(allocation)[0], 0, 0.0, returns=0)


@cache
def loop(
    backfill: Backfill, allocation: Allocation = "processors"
) -> tuple[Callable[..., bool], Any]:
    """Return the compiled event loop, and the decision to give it.

    Raises:
        ScenarioError: the rule cannot decide over the state that the allocation needs.
    """
    state, pool, course = _example(allocation)
    decide = decision(backfill, allocation)
    text = run if allocation == "processors" else run_nodes
    return jit.compiled(text, state, pool, jit.first_class(decide), course, 0), decide


@cache
def transitions(allocation: Allocation = "processors") -> tuple[Any, Any, Any]:
    """Return what the SimPy engine calls beside decisions: arrive, release, may_start."""
    state, pool, _ = _example(allocation)
    return (
        jit.compiled(arrive, pool, 0, 0),
        jit.compiled(release if allocation == "processors" else release_machines, state, 0, 0),
        jit.compiled(may_start, pool, 0),
    )


def compile_programs(allocation: Allocation) -> None:
    """Compile every program for an allocation, or load it from the disk cache."""
    _, pool, _ = _example(allocation)
    jit.compiled(start, pool, 0, 0, 0.0, 0)
    if allocation == "whole_nodes":
        _compile_shared()
    for backfill in BACKFILLS:
        if allocation == "processors" or backfill.decide_nodes is not None:
            loop(backfill, allocation)
    transitions(allocation)


def _compile_shared() -> None:
    """Compile what several programs call with constants; Numba would, anew for each constant."""
    nodes, _, _ = _example("whole_nodes")
    jit.compiled(idle_procs, nodes, 0, 0, True)
    jit.compiled(hold_whole, nodes, 0, 0)
    jit.compiled(start_on, nodes, 0, 0, 0.0, 0, True)
