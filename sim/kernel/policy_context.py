"""On what terms jobs wait and run, where partitions have more than processors and a queue.

All of it is empty where a scenario uses none of it, and costs nothing then.

What users have used lately, and the fair-share factor that follows from it.

What the policies of a simulation add to its pool.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.jit import kernel, noinline
from sim.kernel.records import rows

PLANNED, DRAIN, FAILURE = 0, 1, 2
"""Kinds of windows; see `sim.model.cluster`."""

AHEAD, OPEN, OVER = 0, 1, 2
"""What `WindowState.state` is."""


class JobStanding:
    """A job's standing among others, and what became of it.

    Attributes:
        tier: of its queue; a higher one goes first.
        door: of its user and its queue; -1 lets in everybody.
        seat: where it waits at that door.
        is_preemptible: 1 if it may be killed for the sake of another.
        since_s: when it started, last.
        n_restarts: how often it was killed and queued again.
        lost_s: how long it had run all those times.
    """

    __slots__ = (
        "door", "is_preemptible", "lost_s", "n_restarts", "seat", "since_s", "tier",
    )  # fmt: skip
    tier: int
    door: int
    seat: int
    is_preemptible: int
    since_s: float
    n_restarts: int
    lost_s: float


class UserLimit:
    """What the jobs of one user in one queue with a limit go through.

    Attributes:
        limit: so many may be inside at once, waiting or running.
        n_inside: so many are.
        best: no seat before this one is held.
        behind: its last seat is before this one.
        next_rung: the door after this one among those at which something happened; -1 is none.
        is_rung: 1 if it is among those.
    """

    __slots__ = ("behind", "best", "is_rung", "limit", "n_inside", "next_rung")
    limit: int
    n_inside: int
    best: int
    behind: int
    next_rung: int
    is_rung: int


class HeldJobSlot:
    """Where a job waits at a door. The seats of a door are side by side, the best rank first.

    Attributes:
        job: the job.
        is_held: 1 while it waits there.
    """

    __slots__ = ("is_held", "job")
    job: int
    is_held: int


class WindowState:
    """A time in which some processors of a partition are not for jobs.

    Attributes:
        place: the partition.
        procs: so many.
        from_s: when it begins.
        until_s: when it is over.
        kind: `PLANNED`, `DRAIN` or `FAILURE`.
        state: `AHEAD`, `OPEN` or `OVER`.
    """

    __slots__ = ("from_s", "kind", "place", "procs", "state", "until_s")
    place: int
    procs: int
    from_s: float
    until_s: float
    kind: int
    state: int


class PoolTerms(NamedTuple):
    """What a pool knows beyond processors, queues and running jobs.

    Attributes:
        standings: [n] rows of `JobStanding`; none if all jobs are alike and none is ever killed.
        windows: rows of `WindowState`.
    """

    standings: Sequence[JobStanding]
    windows: Sequence[WindowState]


class ExternalEvents(NamedTuple):
    """What lies before a pool: doors, and windows to begin and to end.

    Attributes:
        doors: rows of `UserLimit`.
        seats: rows of `HeldJobSlot`.
        rung: int64 [m], for each partition the first door at which something happened; -1 is none.
        turns_s: float64, when windows begin and end, in rising order.
        turns: int64, the window that begins then; ``~window`` if it ends.
    """

    doors: Sequence[UserLimit]
    seats: Sequence[HeldJobSlot]
    rung: list[int]
    turns_s: list[float]
    turns: list[int]


def no_terms() -> PoolTerms:
    """Return the terms, made of arrays, of a scenario that uses none of them."""
    return PoolTerms(rows(JobStanding, 0), rows(WindowState, 0))  # type: ignore[arg-type]


def no_external_events() -> ExternalEvents:
    """Return the same for what lies before a pool."""
    return ExternalEvents(
        rows(UserLimit, 0), rows(HeldJobSlot, 0),  # type: ignore[arg-type]
        np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
        np.zeros(0), np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
    )  # fmt: skip


LN2 = 0.6931471805599453

N_TERMS = 16
"""Of the series, with x up to 1/2: the next is below 1e-19."""

SMALLEST = 1100.0
"""2^-x is 0 beyond."""


class UserUsage:
    """A user; the last row is all of them together.

    Attributes:
        usage: processor-seconds at `last_s`, what is old having been halved.
        last_s: the last time that was reckoned with.
        held: processors that running jobs have held since then.
        share: part of the cluster that is due; 1 for all together.
        half_life_s: of the usage; 0 is no decay.
        fair: the fair-share factor at `fair_s`.
        fair_s: the last time that somebody asked for it; -1 is never.
    """

    __slots__ = ("fair", "fair_s", "half_life_s", "held", "last_s", "share", "usage")
    usage: float
    last_s: float
    held: int
    share: float
    half_life_s: float
    fair: float
    fair_s: float


@dataclass(frozen=True, eq=False)
class UserShares:
    """The users of a simulation.

    Attributes:
        of_job: int64 [n_jobs], the number of each job's user.
        share: float64 [n_users], what part of the cluster is due to each; together 1.
        half_life_s: of what they use; 0 is no decay.
    """

    of_job: NDArray[np.int64]
    share: NDArray[np.float64]
    half_life_s: float


def new_users(shares: UserShares | None) -> tuple[Any, Any]:
    """Return rows of `UserUsage` who have used nothing, and whose each job is; empty for None."""
    users = rows(UserUsage, 0 if shares is None else len(shares.share) + 1)
    if shares is None:
        return users, np.zeros(0, dtype=np.int64)
    users["share"][:-1], users["share"][-1] = shares.share, 1.0
    users["half_life_s"], users["fair_s"] = shares.half_life_s, -1.0
    return users, shares.of_job


@noinline
@kernel
def charge(users: Sequence[UserUsage], user: int, procs: int, now_s: float) -> None:
    """Let a user hold so many more processors from now on; fewer if negative."""
    everybody = len(users) - 1
    _settle(users, user, now_s)
    _settle(users, everybody, now_s)
    users[user].held += procs
    users[everybody].held += procs


@noinline
@kernel
def fair_share(users: Sequence[UserUsage], user: int, now_s: float) -> float:
    """Return the fair-share factor of a user now, 2^(-usage/share); 1 if nobody has used anything.

    Usage is that of the user as part of everybody's.
    """
    usage_row = users[user]
    if usage_row.fair_s != now_s:
        everybody = len(users) - 1
        _settle(users, user, now_s)
        _settle(users, everybody, now_s)
        used = users[everybody].usage
        usage_row.fair = halved(usage_row.usage / used / usage_row.share) if used > 0.0 else 1.0
        usage_row.fair_s = now_s
    return usage_row.fair


@kernel
def _settle(users: Sequence[UserUsage], user: int, now_s: float) -> None:
    """Add to a row what was used until now."""
    usage_row = users[user]
    passed_s = now_s - usage_row.last_s
    if passed_s > 0.0:
        if usage_row.half_life_s == 0.0:
            usage_row.usage += usage_row.held * passed_s
        else:
            x = passed_s / usage_row.half_life_s
            usage_row.usage = usage_row.usage * halved(x) + usage_row.held * (
                usage_row.half_life_s / LN2
            ) * lost(x)
        usage_row.last_s = now_s


@kernel
def halved(x: float) -> float:
    """Return 2^-x, for x from 0."""
    if x > SMALLEST:
        return 0.0
    n = math.floor(x + 0.5)
    return math.ldexp(1.0 + _less_one(x - n), -n)


@kernel
def lost(x: float) -> float:
    """Return 1 - 2^-x, for x from 0; exact in all digits where x is small too."""
    return -_less_one(x) if x < 0.5 else 1.0 - halved(x)


@kernel
def _less_one(x: float) -> float:
    """Return 2^-x - 1, for x from -1/2 to 1/2, by the series of the exponential function."""
    y = -x * LN2
    total = 1.0
    for i in range(N_TERMS, 1, -1):
        total = 1.0 + total * y / i
    return y * total


@dataclass(frozen=True)
class PolicyContext:
    """What policies know beside jobs and partitions.

    Attributes:
        submit_s: float64 [n]; None if no policy asks.
        factor: float64 [n], for the scores.
        options: float64, of the backfilling rule.
        order_options: float64, of the order.
        is_eager: the rule decides also when nobody can start.
        corrects: jobs may outlive their estimates.
        is_ranked_anew: the scores of the order change.
        plans: the rule plans ahead.
        keeps_plan: and keeps the plan from decision to decision.
        users: who they are and what is due to them; None if no policy asks.
        terms: tiers, limits and windows; None if there are none.
    """

    submit_s: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None
    options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    order_options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    is_eager: bool = False
    corrects: bool = False
    is_ranked_anew: bool = False
    plans: bool = False
    keeps_plan: bool = False
    users: UserShares | None = None
    terms: PoolTerms | None = None
