"""Slurm's priority from its definition, for the reference schedulers: usage is an integral.

What each user has used is added up anew from all jobs that have started, whenever somebody asks.
"""

import math
from dataclasses import dataclass, field

from sim import Scenario

WEEK = 7 * 24 * 3600


@dataclass(frozen=True)
class Stay:
    """A job has held processors, from its start to its end or until further notice."""

    row: int
    procs: int
    start: float
    end: float


def used(stays: list[Stay], now: float, half_life: float) -> float:
    """The integral of processors times 2^(-age / half-life) over the past."""
    total = 0.0
    for stay in stays:
        end = min(stay.end, now)
        if half_life == 0:
            total += stay.procs * (end - stay.start)
        else:
            rate = math.log(2) / half_life
            total += (
                stay.procs
                * math.exp(-rate * (now - end))
                * -math.expm1(-rate * (end - stay.start))
                / rate
            )
    return total


def fair_share(scenario: Scenario, row: int, now: float, stays: list[Stay]) -> float:
    """The fair-share factor of the user of a job, as it was when it was calculated last."""
    half_life = scenario.options.get("half_life_s", WEEK)
    period = scenario.options.get("calc_period_s", 0)
    if period:
        now = min(now, now // period * period)
    whose = keys(scenario)
    usages = dict.fromkeys(whose, 0.0)
    for stay in stays:
        if stay.start < now:
            usages[whose[stay.row]] += used([stay], now, half_life)
    factors = fair_tree if scenario.options.get("fair_tree") else classic
    return factors(family(scenario, usages))[whose[row]]


def keys(scenario: Scenario) -> list[tuple[str, str]]:
    """Account and user of each job; all users are in one account where there is no tree."""
    w = scenario.workload
    if scenario.accounts is None:
        return [("root", str(user)) for user in w.user.tolist()]
    return [(str(g), str(u)) for g, u in zip(w.group.tolist(), w.user.tolist(), strict=True)]


@dataclass(eq=False)
class Node:
    """Root, an account, or a user (with a key) somewhere in the tree."""

    shares: float | None
    key: tuple[str, str] | None = None
    usage: float = 0.0
    children: list["Node"] = field(default_factory=list)

    @property
    def total(self) -> float:
        return self.usage + sum(child.total for child in self.children)


def family(scenario: Scenario, usages: dict[tuple[str, str], float]) -> Node:
    """The whole tree; users that are not listed have one share."""
    root = Node(None)
    if scenario.accounts is None:
        for key, usage in usages.items():
            root.children.append(Node(scenario.shares.get(int(key[1]), 1.0), key, usage))
        return root
    listed = scenario.accounts.associations
    accounts = {"root": root} | {e.account: Node(e.shares) for e in listed if not e.user}
    for entry in listed:
        if not entry.user:
            accounts[entry.parent].children.append(accounts[entry.account])
    shares = {(e.account, e.user): e.shares for e in listed if e.user}
    for key in {**dict.fromkeys(shares), **usages}:
        user = Node(shares.get(key, 1), key, usages.get(key, 0.0))
        accounts[key[0]].children.append(user)
    flatten(root)
    return root


def flatten(node: Node) -> None:
    """Accounts with the shares of their parent hand their children to it."""
    for child in node.children:
        flatten(child)
    children: list[Node] = []
    for child in node.children:
        dissolves = child.key is None and child.shares is None
        children.extend(child.children if dissolves else [child])
    node.children = children


def level(child: Node, siblings: list[Node]) -> float:
    """Level fair share, LF = S / U."""
    if child.shares is None:
        return math.inf
    if child.shares == 0:
        return 0.0
    if child.total == 0:
        return math.inf
    shares = child.shares / sum(one.shares or 0 for one in siblings)
    return shares / (child.total / sum(one.total for one in siblings))


def fair_tree(root: Node) -> dict[tuple[str, str], float]:
    """Slurm's page on Fair Tree, step by step: a descent with merged lists of tied accounts."""
    ranks: dict[tuple[str, str], int] = {}
    rank = n = count(root)

    def visit(children: list[tuple[float, Node]], tied_with: int | None) -> None:
        nonlocal rank
        while children:
            best = max(value for value, _ in children)
            tied = [one for value, one in children if math.isclose(value, best, rel_tol=1e-10)]
            children = [(v, one) for v, one in children if all(one is not two for two in tied)]
            users = [one for one in tied if one.key is not None]
            mine = rank if tied_with is None else tied_with
            for user in users:
                assert user.key is not None
                ranks[user.key] = mine
                rank -= 1
            below = [
                (level(child, account.children), child)
                for account in tied
                if account.key is None
                for child in account.children
                if count(child)
            ]
            if below:
                visit(below, mine if users or tied_with is not None else None)
            tied_with = None

    visit([(level(one, root.children), one) for one in root.children if count(one)], None)
    return {key: place / n for key, place in ranks.items()}


def count(node: Node) -> int:
    return (node.key is not None) + sum(count(child) for child in node.children)


def classic(root: Node) -> dict[tuple[str, str], float]:
    """2^(-U_E / S) for each user, from root down."""
    everything, factors = root.total, dict[tuple[str, str], float]()

    def visit(node: Node, share: float, effective: float) -> None:
        together = sum(child.shares or 0 for child in node.children)
        for child in node.children:
            if child.shares is None:
                mine, theirs = share, effective
            else:
                part = child.shares / together if together else 0.0
                actual = child.total / everything if everything else 0.0
                theirs = actual if node is root else actual + (effective - actual) * part
                mine = share * part
            if child.key is None:
                visit(child, mine, theirs)
            else:
                factors[child.key] = 2 ** -(theirs / mine) if mine else 0.0

    visit(root, 1.0, 1.0 if everything else 0.0)
    return factors


def priority(
    scenario: Scenario, row: int, place: int, now: float, stays: list[Stay],
    submit: float | None = None,
) -> int:  # fmt: skip
    """Points of a job that waits; whole ones, but what is all but the next whole one is that."""
    told, w, parts = scenario.options, scenario.workload, scenario.cluster.partitions
    waited = now - (float(w.submit_s[row]) if submit is None else submit)
    age = min(waited / told.get("age_max_s", WEEK), 1.0)
    size = int(w.procs[row]) / sum(part.procs for part in parts)
    if told.get("favor_small"):
        size = 1 - size
    most = max(part.priority for part in parts)
    partition = parts[place].priority / most if most else 0.0
    most_of_queues = max(scenario.qos_priority.values(), default=0)
    asked = scenario.qos_priority.get(int(w.queue[row]), 0)
    qos = asked / most_of_queues if most_of_queues else 0.0
    weights = [
        told.get(f"{name}_weight", usual)
        for name, usual in (
            ("age", 1000), ("size", 1000), ("partition", 0), ("qos", 0), ("fairshare", 0),
        )
    ]  # fmt: skip
    factors = [age, size, partition, qos, 0.0]
    if weights[-1]:
        factors[-1] = fair_share(scenario, row, now, stays)
    points = math.fsum(weight * factor for weight, factor in zip(weights, factors, strict=True))
    return math.floor(points + 1e-6)
