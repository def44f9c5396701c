"""The compiled programs: one event loop, and one decision per backfilling rule."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from sim.engine.loop import Course, new_course, run
from sim.kernel import jit
from sim.kernel.pool import Pool, arrive, empty_pool, may_start, release
from sim.policies.backfill import BACKFILLS, Backfill


def _example() -> tuple[Pool, Course]:
    """Return a state and a course of the types that every simulation has."""
    times_s, ones = np.zeros(1), np.ones(1, dtype=np.int64)
    nowhere = np.zeros(1, dtype=np.int64)
    for column in (times_s, nowhere):
        column.setflags(write=False)
    return (
        empty_pool(ones, times_s, nowhere, nowhere, ones),
        new_course(times_s, times_s, nowhere, 1),
    )


@cache
def decision(backfill: Backfill) -> Any:
    """Return the compiled decision of a rule: (pool, partition, now_s) to the number started."""
    pool, _ = _example()
    return jit.compiled(backfill.decide, pool, 0, 0.0, returns=0)


@cache
def loop(backfill: Backfill) -> tuple[Callable[..., bool], Any]:
    """Return the compiled event loop, and the decision to give it."""
    pool, course = _example()
    decide = decision(backfill)
    return jit.compiled(run, pool, pool, jit.first_class(decide), course, 0), decide


@cache
def transitions() -> tuple[Any, Any, Any]:
    """Return what the SimPy engine calls beside decisions: arrive, release, may_start."""
    pool, _ = _example()
    return (
        jit.compiled(arrive, pool, 0, 0),
        jit.compiled(release, pool, 0, 0),
        jit.compiled(may_start, pool, 0),
    )


def compile_all() -> None:
    """Compile every program, or load it from the disk cache."""
    for backfill in BACKFILLS:
        loop(backfill)
    transitions()
