"""What users have used lately, and the fair-share factor that follows from it.

Usage is processor-seconds, halved with every half-life. It is kept in continuous time: with n
processors held for t seconds and half-life h,

    usage' = usage 2^(-t/h) + n (h / ln 2) (1 - 2^(-t/h))

which is the integral of n 2^(-age/h). Slurm adds up what was used at every PriorityCalcPeriod (5
minutes), and this is what that tends to. Nothing is added in no time, so the starts and ends of one
instant commute.

2^-x is computed here, from sums and products alone: those of the C library differ from platform to
platform and from what a compiler makes of them, and engines must agree bit by bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.kernel.records import rows
from sim.kernel.text import apart, kernel

LN2 = 0.6931471805599453

N_TERMS = 16
"""Of the series, with x up to 1/2: the next is below 1e-19."""

SMALLEST = 1100.0
"""2^-x is 0 beyond."""


class User:
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
class Users:
    """The users of a simulation.

    Attributes:
        of_job: int64 [n_jobs], the number of each job's user.
        share: float64 [n_users], what part of the cluster is due to each; together 1.
        half_life_s: of what they use; 0 is no decay.
    """

    of_job: NDArray[np.int64]
    share: NDArray[np.float64]
    half_life_s: float


def new_users(told: Users | None) -> tuple[Any, Any]:
    """Return rows of `User` who have used nothing, and whose each job is; empty for None."""
    users = rows(User, 0 if told is None else len(told.share) + 1)
    if told is None:
        return users, np.zeros(0, dtype=np.int64)
    users["share"][:-1], users["share"][-1] = told.share, 1.0
    users["half_life_s"], users["fair_s"] = told.half_life_s, -1.0
    return users, told.of_job


@apart
@kernel
def charge(users: Sequence[User], user: int, procs: int, now_s: float) -> None:
    """Let a user hold so many more processors from now on; fewer if negative."""
    everybody = len(users) - 1
    _settle(users, user, now_s)
    _settle(users, everybody, now_s)
    users[user].held += procs
    users[everybody].held += procs


@apart
@kernel
def fair_share(users: Sequence[User], user: int, now_s: float) -> float:
    """Return the fair-share factor of a user now, 2^(-usage/share); 1 if nobody has used anything.

    Usage is that of the user as part of everybody's.
    """
    one = users[user]
    if one.fair_s != now_s:
        everybody = len(users) - 1
        _settle(users, user, now_s)
        _settle(users, everybody, now_s)
        used = users[everybody].usage
        one.fair = halved(one.usage / used / one.share) if used > 0.0 else 1.0
        one.fair_s = now_s
    return one.fair


@kernel
def _settle(users: Sequence[User], user: int, now_s: float) -> None:
    """Add to a row what was used until now."""
    one = users[user]
    passed_s = now_s - one.last_s
    if passed_s > 0.0:
        if one.half_life_s == 0.0:
            one.usage += one.held * passed_s
        else:
            x = passed_s / one.half_life_s
            one.usage = one.usage * halved(x) + one.held * (one.half_life_s / LN2) * lost(x)
        one.last_s = now_s


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
