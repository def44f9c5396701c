"""Input of policies besides jobs and partitions: tiers, limits, windows and usage of users.

`PolicyContext` is the input for the pool of a simulation. A feature that a scenario does not use is
empty and costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.fair_share import UserShares
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


class JobSize:
    """Fewer processors on which a job may start, and by how much its times grow there.

    Attributes:
        procs: processors.
        stretch: run time there as a multiple of that on the requested processors.
    """

    __slots__ = ("procs", "stretch")
    procs: int
    stretch: float


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
    """Events besides arrivals and ends: user limits, window begins and ends, sizes of jobs.

    Attributes:
        doors, seats: rows of `UserLimit` and of `HeldJobSlot`.
        rung: int64 [m], first changed limit of each partition; -1 is none.
        turns_s, turns: float64 and int64, times at which windows begin and end, in rising order,
            and the window that begins then; ``~window`` if it ends.
        sizes: rows of `JobSize`, equally many for each job, widest first; none if jobs are rigid.
    """

    doors: Sequence[UserLimit]
    seats: Sequence[HeldJobSlot]
    rung: list[int]
    turns_s: list[float]
    turns: list[int]
    sizes: Sequence[JobSize]


def no_terms() -> PoolTerms:
    """Return empty `PoolTerms` for a scenario without tiers, preemption and windows."""
    return PoolTerms(rows(JobStanding, 0), rows(WindowState, 0))  # type: ignore[arg-type]


def no_external_events() -> ExternalEvents:
    """Return empty `ExternalEvents` for a scenario without limits and windows."""
    return ExternalEvents(
        rows(UserLimit, 0), rows(HeldJobSlot, 0),  # type: ignore[arg-type]
        np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
        np.zeros(0), np.zeros(0, dtype=np.int64),  # type: ignore[arg-type]
        rows(JobSize, 0),  # type: ignore[arg-type]
    )  # fmt: skip


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
        keeps_scores: they change in steps and never get worse, except with fair shares, which are
            not calculated at every decision.
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
    keeps_scores: bool = False
    plans: bool = False
    keeps_plan: bool = False
    users: UserShares | None = None
    terms: PoolTerms | None = None
