"""Draw account trees and scenarios whose users compete for shares; ties are likely."""

from dataclasses import replace

import numpy as np

from sim import ClusterSpec, Partition, Scenario, Workload
from sim.model.accounts import ROOT, AccountTree, Association

SHARES = (1, 1, 1, 2, 3, 0, None)


def drawn_tree(rng: np.random.Generator) -> AccountTree:
    """Draw up to 7 accounts with the names 0, 1, ... and users 0 to 5, some without jobs."""
    n_accounts = int(rng.integers(1, 8))
    entries = [
        Association(
            str(i),
            parent=str(rng.integers(i)) if i and rng.random() < 0.6 else ROOT,
            shares=SHARES[rng.integers(len(SHARES))],
        )
        for i in range(n_accounts)
    ]
    entries += [
        Association(str(account), str(user), shares=SHARES[rng.integers(len(SHARES))])
        for account in (*range(n_accounts), ROOT)
        for user in range(6)
        if rng.random() < 0.2
    ]
    places = rng.permutation(len(entries)).tolist()
    return AccountTree(tuple(entries[place] for place in places))


def shared_workload(rng: np.random.Generator, n_accounts: int) -> Workload:
    """Draw up to 30 jobs of few sizes and times, so that users use the same amount."""
    n_jobs = int(rng.integers(4, 31))
    return Workload.from_arrays(
        submit_s=np.sort(rng.choice([0.0, 0.0, 1.0, 2.0, 4.0, 7.0, 8.0, 30.0], n_jobs)),
        runtime_s=rng.choice([0.0, 1.0, 2.0, 4.0, 8.0], n_jobs),
        procs=rng.choice([1, 2, 2, 4], n_jobs),
        user=rng.integers(0, 4, n_jobs),
        group=rng.integers(0, n_accounts, n_jobs),
    )


def shared_scenario(seed: int) -> Scenario:
    """Draw a scenario in which fair shares alone, or nearly so, decide who goes first."""
    rng = np.random.default_rng(seed)
    tree = drawn_tree(rng)
    workload = shared_workload(rng, tree.n_accounts)
    parts = (Partition("all", int(rng.integers(4, 7))),)
    if rng.random() < 0.2:
        parts = (Partition("short", 4, 2.0), *parts)
    options = {
        "age_weight": float(rng.choice([0, 0, 1])),
        "age_max_s": 8.0,
        "size_weight": float(rng.choice([0, 100, 200])),
        "fairshare_weight": float(rng.choice([100_000, 100, 300])),
        "half_life_s": float(rng.choice([0, 0, 4, 1000])),
        "calc_period_s": float(rng.choice([0, 0, 1, 2.5, 8])),
        "fair_tree": float(rng.random() < 0.6),
    }
    scenario = Scenario(
        workload,
        ClusterSpec(parts),
        order="multifactor",
        backfill=str(rng.choice(["none", "easy", "easy", "greedy", "conservative"])),
        options=options,
        accounts=tree,
    )
    if rng.random() < 0.15:
        shares = {1: 2.0} if rng.random() < 0.5 else {}
        return replace(scenario, accounts=None, shares=shares)
    return scenario
