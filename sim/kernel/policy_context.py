"""Input of policies besides jobs and partitions: tiers, limits, windows and usage of users.

`PolicyContext` is the input for the pool of a simulation. A feature that a scenario does not use is
empty and costs nothing.

Usage is processor-seconds, halved with every half-life h. With n processors held for t seconds,

    usage' = usage 2^(-t/h) + n (h / ln 2) (1 - 2^(-t/h))

which is the integral of n 2^(-age/h); Slurm adds up at every PriorityCalcPeriod (5 minutes), and
this is the limit of that. Starts and ends of one instant commute. 2^-x is computed here from sums
and products alone, because C libraries and compilers differ, and engines must agree bit by bit.
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

PLANNED, DRAIN, FAILURE = 0, 1, 2  # Kinds of windows; see `sim.model.cluster`

AHEAD, OPEN, OVER = 0, 1, 2  # Values of `WindowState.state`


class JobStanding:
    """Priority tier, user limit and restart count of a job.

    Attributes:
        tier: tier of its queue; a higher one goes first.
        door, seat: `UserLimit` of its user and its queue, -1 is none, and its slot among the jobs
            held by it.
        is_preemptible: 1 if it may be killed for another job.
        since_s: time of its last start.
        n_restarts, lost_s: how often it was killed and queued again, and the seconds of the lost
            runs.
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
    """Limit on how many jobs of one user may wait or run in one queue.

    Attributes:
        limit, n_inside: maximum of jobs inside at once, waiting or running, and jobs inside now.
        best, behind: no slot before the first number holds a job; the second is the end of its
            slots.
        next_rung, is_rung: next limit in the list of changed limits, -1 is none; 1 if it is in that
            list.
    """

    __slots__ = ("behind", "best", "is_rung", "limit", "n_inside", "next_rung")
    limit: int
    n_inside: int
    best: int
    behind: int
    next_rung: int
    is_rung: int


class HeldJobSlot:
    """Slot for a job that is held back by a user limit, sorted by rank within the limit."""

    __slots__ = ("is_held", "job")
    job: int
    is_held: int


class WindowState:
    """Kind and state (ahead, open or over) of a `CapacityWindow` in a simulation."""

    __slots__ = ("from_s", "kind", "place", "procs", "state", "until_s")
    place: int
    procs: int
    from_s: float
    until_s: float
    kind: int
    state: int


class PoolTerms(NamedTuple):
    """Tiers and restarts of jobs, and states of capacity windows; empty where unused."""

    standings: Sequence[JobStanding]
    windows: Sequence[WindowState]


class ExternalEvents(NamedTuple):
    """Events besides arrivals and ends: user limits, and window begins and ends.

    Attributes:
        doors, seats: rows of `UserLimit` and of `HeldJobSlot`.
        rung: int64 [m], first changed limit of each partition; -1 is none.
        turns_s, turns: float64 and int64, times at which windows begin and end, in rising order,
            and the window that begins then; ``~window`` if it ends.
    """

    doors: Sequence[UserLimit]
    seats: Sequence[HeldJobSlot]
    rung: list[int]
    turns_s: list[float]
    turns: list[int]


def no_terms() -> PoolTerms:
    """Return empty `PoolTerms` for a scenario without tiers, preemption and windows."""
    return PoolTerms(rows(JobStanding, 0), rows(WindowState, 0))  # type: ignore[arg-type]


def no_external_events() -> ExternalEvents:
    """Return empty `ExternalEvents` for a scenario without limits and windows."""
    return ExternalEvents(
        rows(UserLimit, 0), rows(HeldJobSlot, 0),  # type: ignore[arg-type]
        np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
        np.zeros(0), np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
    )  # fmt: skip


LN2 = 0.6931471805599453

N_TERMS = 16  # Terms of the series; with x up to 1/2 the next one is below 1e-19

SMALLEST = 1100.0  # From here on 2^-x is 0


class UserUsage:
    """Decayed processor usage of one user, or of all users together in the last row.

    Attributes:
        usage, last_s: decayed processor-seconds, and the time of their last update.
        held: processors that running jobs have held since then.
        share: share of the cluster that is due to the user; 1 for all together.
        half_life_s: half-life of the usage; 0 is no decay.
        fair, fair_s: fair-share factor, and the time of its last computation; -1 is never.
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
    """User of each job, and the cluster share that is due to each user.

    Attributes:
        of_job: int64 [n_jobs], user of each job.
        share: float64 [n_users], share of the cluster due to each; the sum is 1.
        half_life_s: half-life of the usage in seconds; 0 is no decay.
    """

    of_job: NDArray[np.int64]
    share: NDArray[np.float64]
    half_life_s: float


def new_users(shares: UserShares | None) -> tuple[Any, Any]:
    """Return zero usage for each user and the user of each job, or empty arrays for None."""
    users = rows(UserUsage, 0 if shares is None else len(shares.share) + 1)
    if shares is None:
        return users, np.zeros(0, dtype=np.int64)
    users["share"][:-1], users["share"][-1] = shares.share, 1.0
    users["half_life_s"], users["fair_s"] = shares.half_life_s, -1.0
    return users, shares.of_job


@noinline
@kernel
def charge(users: Sequence[UserUsage], user: int, procs: int, now_s: float) -> None:
    """Change how many processors a user holds from now on by `procs`, which may be negative."""
    everybody = len(users) - 1
    _settle(users, user, now_s)
    _settle(users, everybody, now_s)
    users[user].held += procs
    users[everybody].held += procs


@noinline
@kernel
def fair_share(users: Sequence[UserUsage], user: int, now_s: float) -> float:
    """Return a user's present fair-share factor, 2^(-usage/share), or 1 without usage.

    Usage is the share of the user in the usage of all users.
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
    """Add the usage since the last update to a row."""
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
    """Return 2^-x for x >= 0, with the same bits on every platform."""
    if x > SMALLEST:
        return 0.0
    n = math.floor(x + 0.5)
    return math.ldexp(1.0 + _less_one(x - n), -n)


@kernel
def lost(x: float) -> float:
    """Return 1 - 2^-x for x >= 0, to full precision even for small x."""
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
    """Input of the policies besides jobs and partitions.

    Attributes:
        submit_s: float64 [n]; None if no policy uses it.
        factor, options, order_options: float64 [n], input of the scores; float64, option values of
            the backfilling rule and of the order.
        is_eager: the rule decides even when no job can start.
        corrects: jobs may outlive their estimates.
        decides_late: a decision is due when the estimate of a running job runs out.
        is_ranked_anew: the scores of the order change.
        plans, keeps_plan: the rule plans ahead; and it keeps its plan from decision to decision.
        users: users and their shares; None if no policy uses them.
        terms: tiers, limits and windows; None if there are none.
    """

    submit_s: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None
    options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    order_options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    is_eager: bool = False
    corrects: bool = False
    decides_late: bool = False
    is_ranked_anew: bool = False
    plans: bool = False
    keeps_plan: bool = False
    users: UserShares | None = None
    terms: PoolTerms | None = None
