"""Account trees: who has which shares of a cluster, as Slurm's associations say.

A cluster has accounts, accounts have sub-accounts and users, and each has shares among its
siblings. An account with the shares of its parent (``FairShare=parent``) is no level of its own:
its children are siblings of those of the account above (sacctmgr(1), Slurm 22.05). How shares and
usage become a factor of priority is in `sim.kernel.fair_share`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sim.model.errors import ScenarioError
from sim.model.workload import UNKNOWN, Workload

ROOT = "root"
"""Account above all others; it need not be listed."""

MOST_SHARES = 2**31 - 2

_MOST_NAMES = 5


@dataclass(frozen=True)
class Association:
    """Shares of an account, or of a user in an account.

    Attributes:
        account: name of the account.
        user: name of the user; empty for the account itself.
        parent: account above an account; empty for a user.
        shares: shares among the siblings, a whole number from 0; None for those of the parent.
    """

    account: str
    user: str = ""
    parent: str = ROOT
    shares: int | None = 1

    @property
    def title(self) -> str:
        """Return the account, or the user and the account, for messages."""
        return f"user '{self.user}' of '{self.account}'" if self.user else f"'{self.account}'"


@dataclass(frozen=True)
class AccountTree:
    """The accounts of a cluster and their users, with their shares.

    Users that the tree does not list have 1 share in their account, as Slurm gives by default.

    Attributes:
        associations: accounts and users in any order, each once.

    Raises:
        ScenarioError: no account, one that is listed twice or whose parent is not listed, a circle,
            or shares that are not allowed.
    """

    associations: tuple[Association, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "associations", tuple(self.associations))
        seen = Counter((entry.account, entry.user) for entry in self.associations)
        for entry in self.associations:
            if seen[entry.account, entry.user] > 1:
                raise ScenarioError(f"the account tree lists {entry.title} twice; list it once.")
            self._check(entry)
        if not self._parents:
            raise ScenarioError(
                "the account tree has no account below root; without accounts, give users their "
                "shares (copperline simulate --share)."
            )
        for account in self._parents:
            self._check_circle(account)

    @cached_property
    def _parents(self) -> Mapping[str, str]:
        return {e.account: e.parent for e in self.associations if not e.user and e.account != ROOT}

    def _check(self, entry: Association) -> None:
        above = entry.account if entry.user else entry.parent
        if not entry.account or (above != ROOT and above not in self._parents):
            raise ScenarioError(
                f"{entry.title} of the account tree is in account '{above}', which the tree does "
                "not list; add that account with its parent."
            )
        if entry.shares is None:
            return
        if type(entry.shares) is not int or not 0 <= entry.shares <= MOST_SHARES:
            raise ScenarioError(
                f"the shares of {entry.title} are {entry.shares!r}; allowed are whole numbers from "
                f"0 to {MOST_SHARES}, and the parent's."
            )

    def _check_circle(self, account: str) -> None:
        above, passed = account, {ROOT}
        while above not in passed:
            passed.add(above)
            above = self._parents[above]
        if above != ROOT:
            raise ScenarioError(
                f"account '{account}' of the account tree is not below root: its parents go in a "
                "circle; correct them."
            )

    @property
    def n_accounts(self) -> int:
        """Return the number of accounts below root."""
        return len(self._parents)

    @property
    def n_users(self) -> int:
        """Return the number of listed users, each counted in each of its accounts."""
        return sum(1 for entry in self.associations if entry.user)

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of all associations, in whatever order they are listed."""
        listed = sorted((e.account, e.user, e.parent, str(e.shares)) for e in self.associations)
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class ShareNodes:
    """An account tree of a workload, as columns of [n_nodes]; a parent is before its children.

    Attributes:
        of_job: int64 [n_jobs], user association of each job, from 0.
        parent: int64, node above; node 0 is root, whose parent is itself.
        user: int64, user association; -1 for an account.
        level_shares: float64, shares over those of all siblings.
        due: float64, the product of these from root down: the share of the cluster.
        is_parents: bool, the user has shares and usage of the account above.
    """

    of_job: NDArray[np.int64]
    parent: NDArray[np.int64]
    user: NDArray[np.int64]
    level_shares: NDArray[np.float64]
    due: NDArray[np.float64]
    is_parents: NDArray[np.bool_]

    @property
    def n_users(self) -> int:
        """Return the number of user associations."""
        return int((self.user >= 0).sum())


def share_nodes(tree: AccountTree, workload: Workload) -> ShareNodes:
    """Return an account tree with the jobs of a workload.

    The account of a job is its group. Names are those in the log, or else numbers as texts.

    Raises:
        ScenarioError: the account of a job is unknown or not in the tree.
    """
    names, of_job = _names_of_jobs(workload)
    listed = {e.account for e in tree.associations} | {ROOT}
    missing = Counter[str]()
    for (account, _), n_jobs in zip(names, np.bincount(of_job, minlength=len(names)), strict=True):
        if account not in listed:
            missing[account] += int(n_jobs)
    if missing:
        raise ScenarioError(_missing(missing, workload))
    users = {(e.account, e.user): e for e in tree.associations if e.user}
    for account, user in names:
        users.setdefault((account, user), Association(account, user))
    return _nodes(tree, list(users.values()), names, of_job)


def sibling_nodes(shares: Mapping[int, float], workload: Workload) -> ShareNodes:
    """Return a tree of one level: all users of a workload below root, with their shares (or 1)."""
    users, of_job = np.unique(workload.user, return_inverse=True)
    raw = np.array([shares.get(user, 1.0) for user in users.tolist()])
    level = np.concatenate([[1.0], raw / raw.sum()])
    return ShareNodes(
        of_job.astype(np.int64),
        np.zeros(len(level), dtype=np.int64),
        np.arange(-1, len(users), dtype=np.int64),
        level,
        level,
        np.zeros(len(level), dtype=np.bool_),
    )


def _names_of_jobs(workload: Workload) -> tuple[list[tuple[str, str]], NDArray[np.int64]]:
    """Return the (account, user) pairs of a workload, and the pair of each job."""
    width = int(workload.user.max()) + 2
    coded = (workload.group + 1) * width + workload.user + 1
    pairs, of_job = np.unique(coded, return_inverse=True)
    accounts, users = workload.account_names, workload.user_names
    names = [
        (_name(accounts, pair // width - 1), _name(users, pair % width - 1))
        for pair in pairs.tolist()
    ]
    return names, of_job.astype(np.int64)


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


def _missing(missing: Counter[str], workload: Workload) -> str:
    unknown = missing.pop(str(UNKNOWN), 0)
    if unknown:
        return (
            f"{unknown:,} of {workload.n_jobs:,} jobs of '{workload.name}' have no known account "
            "(SWF field 13, the group; sacct field Account), which the account tree needs; use a "
            "log with accounts, or leave the tree out."
        )
    most = [f"'{name}' ({n:,} jobs)" for name, n in missing.most_common(_MOST_NAMES)]
    more = len(missing) - len(most)
    numbers = "" if workload.account_names else " (this log has numbers; a dump of sacct has names)"
    return (
        f"jobs of '{workload.name}' have accounts that are not in the account tree: "
        f"{', '.join(most)}{f' and {more} more' if more else ''}; add them with parent and "
        f"shares{numbers}."
    )


def _nodes(
    tree: AccountTree,
    users: list[Association],
    names: list[tuple[str, str]],
    of_job: NDArray[np.int64],
) -> ShareNodes:
    """Return the nodes level by level, without accounts that have the shares of their parent."""
    accounts = {e.account: e for e in tree.associations if not e.user and e.account != ROOT}

    def level_of(account: str) -> str:
        while account != ROOT and accounts[account].shares is None:
            account = accounts[account].parent
        return account

    children: dict[str, list[Association]] = {}
    for entry in (*users, *(e for e in accounts.values() if e.shares is not None)):
        above = level_of(entry.account if entry.user else entry.parent)
        children.setdefault(above, []).append(entry)
    parent, user, level, due, is_parents = [0], [-1], [1.0], [1.0], [False]
    number: dict[tuple[str, str], int] = {}
    waiting = [(ROOT, 0)]
    for account, node in waiting:
        siblings = children.get(account, [])
        together = sum(entry.shares or 0 for entry in siblings)
        for entry in siblings:
            share = (entry.shares or 0) / together if together else 0.0
            parent.append(node)
            level.append(share)
            due.append(due[node] if entry.shares is None else share * due[node])
            is_parents.append(entry.shares is None)
            user.append(len(number) if entry.user else -1)
            if entry.user:
                number[entry.account, entry.user] = user[-1]
            else:
                waiting.append((entry.account, len(parent) - 1))
    pairs = np.array([number[pair] for pair in names], dtype=np.int64)
    return ShareNodes(
        pairs[of_job],
        np.array(parent, dtype=np.int64),
        np.array(user, dtype=np.int64),
        np.array(level),
        np.array(due),
        np.array(is_parents),
    )
