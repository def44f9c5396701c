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
    """Node of an account tree, root being the first; see `sim.model.accounts.ShareNodes`.

    Attributes:
        depth: nodes above it.
        usage: decayed processor-seconds of it and all below.
        level: its level fair share.
        effective: its effective usage, as a part of all usage.
        ranked, scratch: of row r, the node of the user with rank r, and room to sort these.
        n_users: of root, the number of users; so are the following.
        period_s: seconds between two calculations; 0 is at every decision.
        done_s, next_s: time of the last calculation, -1 is never, and no calculation before this.
        is_fair_tree: 1 for Fair Tree, 0 for the classic factors.
    """

    __slots__ = (
        "depth", "done_s", "due", "effective", "is_fair_tree", "is_parents", "level",
        "level_shares", "n_users", "next_s", "parent", "period_s", "ranked", "scratch", "usage",
        "user",
    )  # fmt: skip
    parent: int
    user: int
    depth: int
    level_shares: float
    due: float
    is_parents: int
    usage: float
    level: float
    effective: float
    ranked: int
    scratch: int
    n_users: int
    period_s: float
    done_s: float
    next_s: float
    is_fair_tree: int


class FairShare(NamedTuple):
    """Usage and factors of users in a simulation; empty if no policy uses them.

    It is part of the argument of every decision, so it has few arrays.

    Attributes:
        users: [n_users + 1] rows of `UserUsage`.
        of_job: int64 [n_jobs], user of each job.
        nodes: rows of `ShareNode`; empty without a tree.
    """

    users: Sequence[UserUsage]
    of_job: list[int]
    nodes: Sequence[ShareNode]


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
    if shares is None:
        none = np.zeros(0, dtype=np.int64)
        return FairShare(rows(UserUsage, 0), none, rows(ShareNode, 0))  # type: ignore[arg-type]
    users = rows(UserUsage, len(shares.share) + 1)
    users["share"][:-1], users["share"][-1] = shares.share, 1.0
    users["half_life_s"], users["fair_s"] = shares.terms.half_life_s, -1.0
    nodes = rows(ShareNode, 0) if shares.nodes is None else _nodes(shares.terms, shares.nodes)
    return FairShare(users, shares.of_job, nodes)  # type: ignore[arg-type]


def _nodes(terms: UsageTerms, tree: ShareNodes) -> NDArray[np.void]:
    nodes = rows(ShareNode, len(tree.parent))
    for name in ("parent", "user", "level_shares", "due", "is_parents"):
        nodes[name] = getattr(tree, name)
    for node in range(1, len(nodes)):
        nodes["depth"][node] = nodes["depth"][tree.parent[node]] + 1
    users = np.flatnonzero(tree.user >= 0)
    nodes["ranked"][: len(users)] = users
    nodes["n_users"], nodes["is_fair_tree"] = len(users), terms.is_fair_tree
    nodes["period_s"], nodes["done_s"] = terms.period_s, -1.0
    return nodes


@noinline
@kernel
def charge(fair: FairShare, job: int, procs: int, now_s: float) -> None:
    """Change how many processors a job's user holds from now on by `procs`, maybe negative."""
    if len(fair.nodes) > 0 and fair.nodes[0].period_s > 0.0:
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
    if len(fair.nodes) > 0:
        _calculate_if_due(fair, now_s)
    elif usage_row.fair_s != now_s:
        everybody = len(users) - 1
        _settle(users, user, now_s)
        _settle(users, everybody, now_s)
        used = users[everybody].usage
        usage_row.fair = halved(usage_row.usage / used / usage_row.share) if used > 0.0 else 1.0
        usage_row.fair_s = now_s
    return usage_row.fair


@noinline
@kernel
def calculation_s(fair: FairShare, now_s: float) -> float:
    """Return as of when the present factors are, calculated if due; 0 without users.

    They must have a period.
    """
    if len(fair.nodes) == 0:
        return 0.0
    _calculate_if_due(fair, now_s)
    return fair.nodes[0].done_s


@kernel
def _calculate_if_due(fair: FairShare, now_s: float) -> None:
    """Calculate all factors as of the last multiple of the period, unless that is done."""
    root = fair.nodes[0]
    if now_s < root.next_s:
        return
    at_s = now_s
    if root.period_s > 0.0:
        n_periods = math.floor(now_s / root.period_s)
        at_s = min(now_s, n_periods * root.period_s)
        root.next_s = (n_periods + 1) * root.period_s
    if at_s != root.done_s:
        _calculate(fair, at_s)
        root.done_s = at_s


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
    if nodes[0].is_fair_tree == 1:
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
    nodes, n_users = fair.nodes, fair.nodes[0].n_users
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
    _sort_users(nodes)
    rank = n_users
    for place in range(n_users):
        ranked = nodes[place].ranked
        if place > 0 and not _is_tied(nodes, nodes[place - 1].ranked, ranked):
            rank = n_users - place
        fair.users[nodes[ranked].user].fair = rank / n_users


@kernel
def _rounded(x: float) -> float:
    """Return a number above 0 with `LEVEL_BITS` bits."""
    fraction, exponent = math.frexp(x)
    whole = math.floor(math.ldexp(fraction, LEVEL_BITS) + 0.5)
    return math.ldexp(float(whole), exponent - LEVEL_BITS)


@noinline
@kernel
def _sort_users(nodes: Sequence[ShareNode]) -> None:
    """Sort users by their paths, with merges of ever longer runs."""
    n_users, length = nodes[0].n_users, 1
    while length < n_users:
        for first in range(0, n_users, 2 * length):
            left, right = first, min(first + length, n_users)
            middle, end = right, min(first + 2 * length, n_users)
            for place in range(first, end):
                if left < middle and (
                    right >= end or _compare(nodes, nodes[left].ranked, nodes[right].ranked) >= 0
                ):
                    nodes[place].scratch = nodes[left].ranked
                    left += 1
                else:
                    nodes[place].scratch = nodes[right].ranked
                    right += 1
        for place in range(n_users):
            nodes[place].ranked = nodes[place].scratch
        length *= 2


@kernel
def _compare(nodes: Sequence[ShareNode], user: int, other: int) -> int:
    """Return 1 if the path of a user has the larger level where they differ first, -1 if smaller.

    Where they do not differ, the shorter path is 1, the longer -1, and 0 is neither.
    """
    found = min(1, max(-1, nodes[other].depth - nodes[user].depth))
    while nodes[user].depth > nodes[other].depth:
        user = nodes[user].parent
    while nodes[other].depth > nodes[user].depth:
        other = nodes[other].parent
    while user != other:
        if nodes[user].level != nodes[other].level:
            found = 1 if nodes[user].level > nodes[other].level else -1
        user, other = nodes[user].parent, nodes[other].parent
    return found


@kernel
def _is_tied(nodes: Sequence[ShareNode], before: int, user: int) -> bool:
    """Return whether the levels on the path of one user are the first on the path of the next."""
    if nodes[user].depth < nodes[before].depth:
        return False
    above = user
    while nodes[above].depth > nodes[before].depth:
        above = nodes[above].parent
    while above != before:
        if nodes[above].level != nodes[before].level:
            return False
        above, before = nodes[above].parent, nodes[before].parent
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
