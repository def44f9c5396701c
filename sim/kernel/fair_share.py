"""Fair share: the decayed usage of users, and their factors of priority from 0 to 1.

Usage is processor-seconds, halved with every half-life h. With n processors held for t seconds,

    usage' = usage 2^(-t/h) + n (h / ln 2) (1 - 2^(-t/h))

which is the integral of n 2^(-age/h); Slurm adds up at every PriorityCalcPeriod (5 minutes), and
this is the limit of that. Starts and ends of one instant commute. 2^-x is computed here from sums
and products alone, because C libraries and compilers differ, and engines must agree bit by bit.

Without a tree, users are siblings and the factor is 2^(-U/S), with the user's part U of all usage
and S of all shares. With a tree (`sim.model.accounts`), of two kinds:

Classic (https://slurm.schedmd.com/classic_fair_share.html): 2^(-U_E/S), where S is the product of
the shares among siblings from root down, and the effective usage is

    U_E = U_A + (U_E of the parent - U_A) S / (S of all siblings)

with the part U_A of all usage; below root it is U_A.

Fair Tree (https://slurm.schedmd.com/fair_tree.html, R. Cox and L. Morrison; the default since Slurm
19.05): each node has the level fair share LF = S / U, from its parts of the shares and of the usage
of itself and its siblings; without usage it is infinite. The tree is descended in falling LF, users
get falling ranks, and the factor is the rank over the number of users. Sibling users of equal LF
have the same rank; sibling accounts of equal LF are descended as one; a user whose LF is that of a
sibling account has the rank of the best user below it. So users are sorted by the LFs on their
paths from root, where a path that ends goes first, and a user is tied with the one before if the
path of that one is the beginning of its own. LFs are rounded to 40 bits, so that rounding errors
break no tie.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.kernel.jit import kernel, noinline
from sim.kernel.records import rows
from sim.model.accounts import ShareNodes

LN2 = 0.6931471805599453

N_TERMS = 16  # Terms of the series; with x up to 1/2 the next one is below 1e-19

SMALLEST = 1100.0  # From here on 2^-x is 0

LEVEL_BITS = 40  # Bits of a level fair share


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


class ShareNode:
    """Node of an account tree; see `sim.model.accounts.ShareNodes`.

    Attributes:
        usage: decayed processor-seconds of it and all below.
        level: its level fair share.
        effective: its effective usage, as a part of all usage.
    """

    __slots__ = (
        "due", "effective", "is_parents", "level", "level_shares", "parent", "usage", "user",
    )  # fmt: skip
    parent: int
    user: int
    level_shares: float
    due: float
    is_parents: int
    usage: float
    level: float
    effective: float


class ShareCalculation:
    """When and how the factors of a tree are calculated.

    Attributes:
        period_s: seconds between two calculations; 0 is at every decision.
        done_s, next_s: time of the last calculation, -1 is never, and no calculation before this.
        is_fair_tree: 1 for Fair Tree, 0 for the classic factors.
        depth: most nodes on a path from below root to a user.
    """

    __slots__ = ("depth", "done_s", "is_fair_tree", "next_s", "period_s")
    period_s: float
    done_s: float
    next_s: float
    is_fair_tree: int
    depth: int


class FairShare(NamedTuple):
    """Usage and factors of users in a simulation; empty if no policy uses them.

    Attributes:
        users: [n_users + 1] rows of `UserUsage`.
        of_job: int64 [n_jobs], user of each job.
        calculation: one row of `ShareCalculation`; empty without a tree.
        nodes: rows of `ShareNode`.
        paths: int64 [n_users depth], nodes from below root to each user; -1 behind the user.
        ranked, scratch: int64 [n_users], users in the order of their ranks, and room to sort.
    """

    users: Sequence[UserUsage]
    of_job: list[int]
    calculation: Sequence[ShareCalculation]
    nodes: Sequence[ShareNode]
    paths: list[int]
    ranked: list[int]
    scratch: list[int]


@dataclass(frozen=True)
class UsageTerms:
    """How an order uses the usage of users.

    Attributes:
        half_life_s: half-life of the usage in seconds; 0 is no decay.
        period_s: seconds between two calculations of the factors; 0 is at every decision.
        is_fair_tree: factors are those of Fair Tree, instead of the classic ones.
    """

    half_life_s: float
    period_s: float = 0.0
    is_fair_tree: bool = False


@dataclass(frozen=True, eq=False)
class UserShares:
    """User of each job, and the cluster share that is due to each user.

    Attributes:
        of_job: int64 [n_jobs], user of each job.
        share: float64 [n_users], share of the cluster due to each.
        terms: how usage is counted and becomes factors.
        nodes: account tree; None if users are siblings whose factors are classic and calculated at
            every decision.
    """

    of_job: NDArray[np.int64]
    share: NDArray[np.float64]
    terms: UsageTerms
    nodes: ShareNodes | None = None


def new_fair_share(shares: UserShares | None) -> FairShare:
    """Return the state before the first event: nobody has used anything. None gives no users."""
    n_users = 0 if shares is None else len(shares.share)
    users = rows(UserUsage, 0 if shares is None else n_users + 1)
    none = np.zeros(0, dtype=np.int64)
    fair = FairShare(
        users, none, rows(ShareCalculation, 0), rows(ShareNode, 0),  # type: ignore[arg-type]
        none, none, none,  # type: ignore[arg-type]
    )  # fmt: skip
    if shares is None:
        return fair
    users["share"][:-1], users["share"][-1] = shares.share, 1.0
    users["half_life_s"], users["fair_s"] = shares.terms.half_life_s, -1.0
    fair = fair._replace(of_job=shares.of_job)  # type: ignore[arg-type]
    return fair if shares.nodes is None else _with_tree(fair, shares.terms, shares.nodes)


def _with_tree(fair: FairShare, terms: UsageTerms, tree: ShareNodes) -> FairShare:
    nodes = rows(ShareNode, len(tree.parent))
    for name in ("parent", "user", "level_shares", "due", "is_parents"):
        nodes[name] = getattr(tree, name)
    paths = _paths(tree)
    calculation = rows(ShareCalculation, 1)
    calculation["period_s"], calculation["done_s"] = terms.period_s, -1.0
    calculation["is_fair_tree"], calculation["depth"] = terms.is_fair_tree, paths.shape[1]
    n_users = len(paths)
    return fair._replace(
        calculation=calculation,  # type: ignore[arg-type]
        nodes=nodes,  # type: ignore[arg-type]
        paths=paths.ravel(),  # type: ignore[arg-type]
        ranked=np.arange(n_users, dtype=np.int64),  # type: ignore[arg-type]
        scratch=np.zeros(n_users, dtype=np.int64),  # type: ignore[arg-type]
    )


def _paths(tree: ShareNodes) -> NDArray[np.int64]:
    """Return the nodes from below root to each user, then -1: int64 [n_users, depth]."""
    level = np.zeros(len(tree.parent), dtype=np.int64)
    for node in range(1, len(level)):
        level[node] = level[tree.parent[node]] + 1
    paths = np.full((tree.n_users, max(1, int(level.max()))), -1, dtype=np.int64)
    for node in np.flatnonzero(tree.user >= 0).tolist():
        above = node
        while above > 0:
            paths[tree.user[node], level[above] - 1] = above
            above = int(tree.parent[above])
    return paths


@noinline
@kernel
def charge(fair: FairShare, job: int, procs: int, now_s: float) -> None:
    """Change how many processors a job's user holds from now on by `procs`, maybe negative."""
    if len(fair.calculation) > 0 and fair.calculation[0].period_s > 0.0:
        _calculate_if_due(fair, now_s)
    users, user, everybody = fair.users, fair.of_job[job], len(fair.users) - 1
    _settle(users, user, now_s)
    _settle(users, everybody, now_s)
    users[user].held += procs
    users[everybody].held += procs


@noinline
@kernel
def fair_share(fair: FairShare, job: int, now_s: float) -> float:
    """Return the present fair-share factor of a job's user."""
    users, user = fair.users, fair.of_job[job]
    usage_row = users[user]
    if len(fair.calculation) > 0:
        _calculate_if_due(fair, now_s)
    elif usage_row.fair_s != now_s:
        everybody = len(users) - 1
        _settle(users, user, now_s)
        _settle(users, everybody, now_s)
        used = users[everybody].usage
        usage_row.fair = halved(usage_row.usage / used / usage_row.share) if used > 0.0 else 1.0
        usage_row.fair_s = now_s
    return usage_row.fair


@kernel
def _calculate_if_due(fair: FairShare, now_s: float) -> None:
    """Calculate all factors as of the last multiple of the period, unless that is done."""
    calculation = fair.calculation[0]
    if now_s < calculation.next_s:
        return
    at_s = now_s
    if calculation.period_s > 0.0:
        n_periods = math.floor(now_s / calculation.period_s)
        at_s = min(now_s, n_periods * calculation.period_s)
        calculation.next_s = (n_periods + 1) * calculation.period_s
    if at_s != calculation.done_s:
        _calculate(fair, at_s)
        calculation.done_s = at_s


@noinline
@kernel
def _calculate(fair: FairShare, now_s: float) -> None:
    nodes = fair.nodes
    for i in range(len(nodes)):
        user = nodes[i].user
        nodes[i].usage = 0.0
        if user >= 0:
            _settle(fair.users, user, now_s)
            nodes[i].usage = fair.users[user].usage
    for i in range(len(nodes) - 1, 0, -1):
        nodes[nodes[i].parent].usage += nodes[i].usage
    if fair.calculation[0].is_fair_tree == 1:
        _rank_users(fair)
    else:
        _classic_factors(fair)


@noinline
@kernel
def _classic_factors(fair: FairShare) -> None:
    """Set the classic factors, 2^(-U_E/S), from root down."""
    nodes, used = fair.nodes, fair.nodes[0].usage
    nodes[0].effective = 1.0 if used > 0.0 else 0.0
    for i in range(1, len(nodes)):
        node = nodes[i]
        above = nodes[node.parent].effective
        if node.is_parents == 1:
            node.effective = above
        else:
            actual = node.usage / used if used > 0.0 else 0.0
            node.effective = actual
            if node.parent > 0:
                node.effective += (above - actual) * node.level_shares
        if node.user >= 0:
            fair.users[node.user].fair = halved(node.effective / node.due) if node.due > 0 else 0.0


@noinline
@kernel
def _rank_users(fair: FairShare) -> None:
    """Set the factors of Fair Tree: falling ranks over the number of users."""
    nodes, n_users = fair.nodes, len(fair.ranked)
    for i in range(1, len(nodes)):
        node = nodes[i]
        if node.is_parents == 1:
            node.level = math.inf
        elif node.level_shares == 0.0:
            node.level = 0.0
        elif node.usage == 0.0:
            node.level = math.inf
        else:
            node.level = _rounded(node.level_shares / (node.usage / nodes[node.parent].usage))
    _sort_users(fair)
    rank = n_users
    for place in range(n_users):
        user = fair.ranked[place]
        if place > 0 and not _is_tied(fair, fair.ranked[place - 1], user):
            rank = n_users - place
        fair.users[user].fair = rank / n_users


@kernel
def _rounded(x: float) -> float:
    """Return a number above 0 with `LEVEL_BITS` bits."""
    fraction, exponent = math.frexp(x)
    whole = math.floor(math.ldexp(fraction, LEVEL_BITS) + 0.5)
    return math.ldexp(float(whole), exponent - LEVEL_BITS)


@noinline
@kernel
def _sort_users(fair: FairShare) -> None:
    """Sort users by their paths, with merges of ever longer runs."""
    n_users, length = len(fair.ranked), 1
    runs, merged = fair.ranked, fair.scratch
    while length < n_users:
        for first in range(0, n_users, 2 * length):
            left, right = first, min(first + length, n_users)
            middle, end = right, min(first + 2 * length, n_users)
            for place in range(first, end):
                if left < middle and (right >= end or not _precedes(fair, runs[right], runs[left])):
                    merged[place] = runs[left]
                    left += 1
                else:
                    merged[place] = runs[right]
                    right += 1
        runs, merged = merged, runs
        length *= 2
    for place in range(n_users):
        fair.ranked[place] = runs[place]


@kernel
def _precedes(fair: FairShare, user: int, other: int) -> bool:
    """Return whether the path of a user has the larger level where they differ, or ends before."""
    depth = fair.calculation[0].depth
    for i in range(depth):
        mine, theirs = fair.paths[user * depth + i], fair.paths[other * depth + i]
        if mine < 0 or theirs < 0:
            return mine < 0 and theirs >= 0
        if fair.nodes[mine].level != fair.nodes[theirs].level:
            return fair.nodes[mine].level > fair.nodes[theirs].level
    return False


@kernel
def _is_tied(fair: FairShare, before: int, user: int) -> bool:
    """Return whether the levels on the path of one user are the first on the path of another."""
    depth = fair.calculation[0].depth
    for i in range(depth):
        mine, theirs = fair.paths[user * depth + i], fair.paths[before * depth + i]
        if theirs < 0:
            return True
        if mine < 0 or fair.nodes[mine].level != fair.nodes[theirs].level:
            return False
    return True


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
