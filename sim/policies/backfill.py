"""Backfilling: which waiting jobs may overtake the head of the queue.

Each rule is one decision over one partition that has waiting jobs, at one instant, after all
arrivals and completions of that instant have been applied. It starts jobs through the pool's
transitions, lists them in ``pool.started`` and returns how many there are. The same rules over
named machines are in `sim.policies.backfill_nodes`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sim.errors import ScenarioError, UnknownNameError
from sim.kernel.node import Nodes
from sim.kernel.pool import BLOCK, BLOCK_BITS, NOBODY, Pool, reserve, start, start_from_head, take
from sim.kernel.text import kernel
from sim.model.scenario import Allocation
from sim.policies.backfill_nodes import easy_on_nodes, no_backfill_on_nodes


@dataclass(frozen=True)
class Backfill:
    """A backfilling rule.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people.
        decide: (pool, partition, now_s) to the number of jobs started.
        decide_nodes: the same over named machines; None if the rule cannot.
    """

    name: str
    summary: str
    decide: Callable[[Pool, int, float], int]
    decide_nodes: Callable[[Nodes, int, float], int] | None = None

    def decision(self, allocation: Allocation) -> Callable[[Any, int, float], int]:
        """Return the decision over the state that an allocation needs.

        Raises:
            ScenarioError: the rule cannot decide over it.
        """
        if allocation == "processors":
            return self.decide
        if self.decide_nodes is None:
            able = ", ".join(f"'{rule.name}'" for rule in BACKFILLS if rule.decide_nodes)
            raise ScenarioError(
                f"backfill '{self.name}' cannot allocate whole nodes; choose one that can ({able}) "
                "or allocation='processors'."
            )
        return self.decide_nodes


@kernel
def no_backfill(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs strictly in queue order."""
    return start_from_head(pool, k, now_s)


@kernel
def easy(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order, then let others overtake if the head's reservation holds.

    A job of n processors may start if n <= free and (now + estimate <= shadow or n <= extra).
    Jobs that will run past the shadow time use up extra processors.

    The reservation is computed anew whenever it can have changed: when something ended, or the
    head is another. If jobs only arrived since, then the shadow time is the same, the extra
    processors are those left over, and who could not start before cannot now: there are no more
    processors, and it is later. So only those who came are looked at.
    """
    here = pool.partitions[k]
    n_started = start_from_head(pool, k, now_s)
    if here.head >= here.tail - 1:
        return n_started
    if n_started > 0 or here.look_from <= here.head:
        head_procs = pool.jobs[pool.queue[here.head]].procs
        reserve(pool, k, head_procs)
        here.narrowest = head_procs
        here.look_from = here.head + 1
    return n_started + _overtake(pool, k, now_s, n_started)


@kernel
def _overtake(pool: Pool, k: int, now_s: float, n_before: int) -> int:
    """Start every job from `look_from` on that delays no reservation. Return how many."""
    here = pool.partitions[k]
    free, extra, shadow_s = here.free, here.extra, here.shadow_s
    narrowest, n_started = here.narrowest, n_before
    slot, tail = here.look_from, here.tail
    while slot < tail and free > 0:
        block = pool.blocks[slot >> BLOCK_BITS]
        end = min(tail, (slot | (BLOCK - 1)) + 1)
        if block.procs > free or (block.procs > extra and now_s + block.estimate_s > shadow_s):
            narrowest = min(narrowest, block.procs)
            slot = end
            continue
        least_procs, least_s = NOBODY, math.inf
        is_whole = slot & (BLOCK - 1) == 0
        while slot < end and free > 0:
            job = pool.queue[slot]
            if job >= 0:
                one = pool.jobs[job]
                in_time = now_s + one.estimate_s <= shadow_s
                if one.procs <= (free if in_time else min(free, extra)):
                    start(pool, k, job, now_s, n_started)
                    take(pool, k, slot)
                    n_started += 1
                    free -= one.procs
                    if not in_time:
                        extra -= one.procs
                else:
                    least_procs = min(least_procs, one.procs)
                    least_s = min(least_s, one.estimate_s)
            slot += 1
        narrowest = min(narrowest, least_procs)
        if is_whole and slot == end:
            block.procs, block.estimate_s = least_procs, least_s
    here.extra = extra
    # Who was not looked at, for want of processors, may be the narrowest of all.
    here.narrowest = narrowest if slot >= tail else 1
    here.look_from = tail
    return n_started - n_before


BACKFILLS: tuple[Backfill, ...] = (
    Backfill("none", "no job overtakes another", no_backfill, no_backfill_on_nodes),
    Backfill(
        "easy",
        "a job overtakes if the first in the queue starts no later by the estimates "
        "(Lifka 1995; Mu'alem & Feitelson 2001)",
        easy,
        easy_on_nodes,
    ),
)


def backfill_named(name: str) -> Backfill:
    """Return a registered backfilling rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for backfill in BACKFILLS:
        if backfill.name == name:
            return backfill
    raise UnknownNameError("backfill", name, (backfill.name for backfill in BACKFILLS))
