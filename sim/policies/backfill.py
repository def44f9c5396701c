"""Backfilling: which waiting jobs may overtake the head of the queue.

Each rule is one decision pass over one partition, at one instant, after all arrivals and
completions of that instant have been applied. It starts jobs through the pool's transitions,
lists them in ``pool.started`` and returns how many there are.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sim.errors import UnknownNameError
from sim.kernel.jit import compile_needed, jit
from sim.kernel.pool import Pool, compact, start

__all__ = ["BACKFILLS", "Backfill", "backfill_named", "compile_needed"]


@dataclass(frozen=True)
class Backfill:
    """A backfilling rule.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people.
        decide: (pool, partition, now_s) to the number of jobs started.
    """

    name: str
    summary: str
    decide: Callable[[Pool, int, float], int]


@jit
def _start_from_head(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order until one does not fit; return how many started."""
    first = pool.first[k]
    n_started = 0
    while n_started < pool.n_queued[k]:
        slot = first + n_started
        if pool.procs[pool.queue[slot]] > pool.free[k]:
            break
        start(pool, k, slot, now_s, n_started)
        n_started += 1
    return n_started


@jit
def _reserve(pool: Pool, k: int, head: int) -> tuple[float, int]:
    """Return the earliest reservation of a job that does not fit now.

    Returns:
        The shadow time in seconds, when enough running jobs will have ended by their estimates,
        and the extra processors, free at that time beyond what the job needs. All jobs that end
        at the shadow time count.
    """
    slot = pool.first[k]
    last = slot + pool.n_running[k]
    free = pool.free[k]
    shadow_s = 0.0
    while slot < last and (
        free < pool.procs[head] or pool.estimated_end_s[pool.running[slot]] == shadow_s
    ):
        shadow_s = pool.estimated_end_s[pool.running[slot]]
        free += pool.procs[pool.running[slot]]
        slot += 1
    return shadow_s, free - pool.procs[head]


@jit
def no_backfill(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs strictly in queue order."""
    n_started = _start_from_head(pool, k, now_s)
    if n_started > 0:
        compact(pool, k)
    return n_started


@jit
def easy(pool: Pool, k: int, now_s: float) -> int:
    """Start jobs in queue order, then let others overtake if the head's reservation holds.

    A job of n processors may start if n <= free and (now + estimate <= shadow or n <= extra).
    The reservation is computed anew at every pass, and jobs that will run past the shadow time
    use up extra processors.
    """
    n_started = _start_from_head(pool, k, now_s)
    slot = pool.first[k] + n_started
    last = pool.first[k] + pool.n_queued[k]
    if slot < last - 1 and pool.free[k] > 0:
        shadow_s, extra = _reserve(pool, k, pool.queue[slot])
        for candidate in range(slot + 1, last):
            if pool.free[k] == 0:
                break
            job = pool.queue[candidate]
            if pool.procs[job] > pool.free[k]:
                continue
            in_time = now_s + pool.estimate_s[job] <= shadow_s
            if in_time or pool.procs[job] <= extra:
                start(pool, k, candidate, now_s, n_started)
                n_started += 1
                if not in_time:
                    extra -= pool.procs[job]
    if n_started > 0:
        compact(pool, k)
    return n_started


BACKFILLS: tuple[Backfill, ...] = (
    Backfill("none", "no job overtakes another", no_backfill),
    Backfill(
        "easy",
        "a job overtakes if the first in the queue starts no later by the estimates "
        "(Lifka 1995; Mu'alem & Feitelson 2001)",
        easy,
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
