"""Fair-share trees: the examples of Slurm's pages, worked by hand; and what is refused."""

import numpy as np
import pytest

from sim import ClusterSpec, Scenario, Workload, simulate
from sim.engines.job_setup import make_pool
from sim.kernel.fair_share import charge, fair_share
from sim.kernel.records import interpretable
from sim.model.accounts import ROOT, AccountTree, Association
from sim.model.admission import admit
from sim.model.errors import ScenarioError


def factors(
    tree: AccountTree, used: dict[tuple[str, str], int], **options: float
) -> dict[tuple[str, str], float]:
    """Return the factors after 1 s in which each (account, user) held so many processors."""
    accounts = tuple(sorted({account for account, _ in used}))
    users = tuple(sorted({user for _, user in used}))
    workload = Workload.from_arrays(
        submit_s=np.zeros(len(used)),
        runtime_s=np.ones(len(used)),
        procs=np.ones(len(used)),
        group=[accounts.index(account) for account, _ in used],
        user=[users.index(user) for _, user in used],
        account_names=accounts,
        user_names=users,
    )
    scenario = Scenario(
        workload,
        ClusterSpec.single(1000),
        "multifactor",
        options={"fairshare_weight": 1000.0, "half_life_s": 0.0, **options},
        accounts=tree,
    )
    fair = interpretable(make_pool(scenario, admit(scenario))).fair
    for job, procs in enumerate(used.values()):
        charge(fair, job, procs, 0.0)
    return {key: fair_share(fair, job, 1.0) for job, key in enumerate(used)}


# The example of https://slurm.schedmd.com/classic_fair_share.html, figure 3.
CLASSIC = AccountTree(
    (
        Association("A", shares=40), Association("B", parent="A", shares=30),
        Association("C", parent="A", shares=10), Association("D", shares=60),
        Association("E", parent="D", shares=25), Association("F", parent="D", shares=35),
    )
)  # fmt: skip
USED = {
    ("B", "1"): 20,
    ("C", "2"): 25,
    ("C", "3"): 0,
    ("E", "4"): 25,
    ("F", "5"): 0,
    (ROOT, "x"): 30,
}


def test_the_classic_factors_are_those_of_the_example() -> None:
    # The page leaves 30 % of the usage to others; here a user of root with no shares has it.
    tree = AccountTree((*CLASSIC.associations, Association(ROOT, "x", shares=0)))
    found = list(factors(tree, USED).values())
    expected = [0.408479, 0.022097, 0.125, 0.5, 0.749154, 0.0]
    assert found == pytest.approx(expected, abs=5e-6)


def test_ranks_follow_the_levels_from_root_down() -> None:
    # LF of A 40/100 / (45/100) = 0.89, of D 60/100 / (25/100) = 2.4; 0 without shares. In D: E has
    # 25/60 / 1 and F no usage; in A: B 30/40 / (20/45) = 1.69 and C 10/40 / (25/45) = 0.45.
    tree = AccountTree((*CLASSIC.associations, Association(ROOT, "x", shares=0)))
    found = factors(tree, USED, fair_tree=1)
    best_first = ["5", "4", "1", "3", "2", "x"]
    assert [found[key] for user in best_first for key in found if key[1] == user] == [
        6 / 6, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6,
    ]  # fmt: skip


def test_tied_accounts_are_descended_as_one_and_a_tied_user_has_the_best_rank_below() -> None:
    # A and B have 2 shares and 20 of 50, and user u of root 1 share and 10 of 50: all LF 1. Merged,
    # a1 has LF 1/2 / (5/20) = 2, b1 and b2 1 each, a2 1/2 / (15/20) = 2/3. So u ties with a1; below
    # follow b1 and b2, the third and fourth, and a2.
    tree = AccountTree((Association("A", shares=2), Association("B", shares=2)))
    used = {
        ("A", "a1"): 5, ("A", "a2"): 15, ("B", "b1"): 10, ("B", "b2"): 10, (ROOT, "u"): 10,
    }  # fmt: skip
    found = list(factors(tree, used, fair_tree=1).values())
    assert found == [5 / 5, 1 / 5, 3 / 5, 3 / 5, 5 / 5]


def test_children_of_an_account_with_the_shares_of_its_parent_are_those_of_the_parent() -> None:
    # B dissolves in A, so that b has 1 of 4 shares there. User p ranks first, as if unused, but in
    # classic terms has S and U of A: 2^-1. Effective 15/60 of 1/4 and 30/60 of 3/4.
    tree = AccountTree(
        (
            Association("A"), Association("B", parent="A", shares=None),
            Association("A", "a", shares=3), Association("A", "p", shares=None),
        )
    )  # fmt: skip
    used = {("A", "a"): 30, ("A", "p"): 15, ("B", "b"): 15}
    # U_E of b: 15/60 + (1 - 15/60) 1/4 = 0.4375; of a: 1/2 + 1/2 3/4 = 0.875
    classic = [2 ** -(0.875 / 0.75), 0.5, 2 ** -(0.4375 / 0.25)]
    assert list(factors(tree, used).values()) == pytest.approx(classic)
    # LF: a 3/4 / (1/2) = 1.5, b 1/4 / (1/4) = 1
    assert list(factors(tree, used, fair_tree=1).values()) == [2 / 3, 3 / 3, 1 / 3]


def test_users_without_jobs_have_ranks_and_nobody_has_used_anything_at_first() -> None:
    tree = AccountTree((Association("A"), *(Association("A", f"idle{i}") for i in range(3))))
    assert list(factors(tree, {("A", "busy"): 1}, fair_tree=1).values()) == [1 / 4]
    assert list(factors(tree, {("A", "new"): 0}, fair_tree=1).values()) == [1.0]
    assert list(factors(tree, {("A", "new"): 0}).values()) == [1.0]


def test_rounding_errors_break_no_tie() -> None:
    # Both users hold 1 processor from 0 to 3, but one is looked at in between.
    tree = AccountTree((Association("A"),))
    workload = Workload.from_arrays(
        submit_s=[0, 0, 0], runtime_s=[1, 1, 1], procs=[1, 1, 1], user=[0, 1, 1], group=[0, 0, 0],
        account_names=("A",),
    )  # fmt: skip
    options = {"fairshare_weight": 1.0, "half_life_s": 0.7, "fair_tree": 1.0}
    scenario = Scenario(
        workload, ClusterSpec.single(9), "multifactor", options=options, accounts=tree
    )
    fair = interpretable(make_pool(scenario, admit(scenario))).fair
    charge(fair, 0, 1, 0.0)
    charge(fair, 1, 1, 0.0)
    for now_s in (0.3, 0.9, 1.1, 1.7, 2.3):
        charge(fair, 2, 1, now_s)
        charge(fair, 2, -1, now_s)
    found = [fair_share(fair, job, 3.0) for job in (0, 1)]
    assert fair.users[0].usage != fair.users[1].usage
    assert found == [1.0, 1.0]


def test_factors_stay_until_the_next_period() -> None:
    # At 10 user 1 has used 10 of A's processors for 10 s. Calculated at 8, when both were unused
    # but for user 1, who is last; with a period of 16, at 0, when all were tied.
    jobs = Workload.from_arrays(
        submit_s=[0, 1, 2],
        runtime_s=[10, 5, 5],
        procs=[10, 10, 10],
        user=[1, 1, 2],
        group=[0, 0, 0],
    )
    starts = {}
    for period_s in (0.0, 8.0, 16.0):
        scenario = Scenario(
            jobs, ClusterSpec.single(10), "multifactor", "none",
            options={
                "age_weight": 0, "size_weight": 0, "fairshare_weight": 1000, "fair_tree": 1,
                "calc_period_s": period_s,
            },
            accounts=AccountTree((Association("0"),)),
        )  # fmt: skip
        starts[period_s] = simulate(scenario, engine="interpreted").start_s.tolist()
    assert starts == {0.0: [0, 15, 10], 8.0: [0, 15, 10], 16.0: [0, 10, 15]}


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([], "no account below root"),
        ([Association("A"), Association("A")], "lists 'A' twice"),
        ([Association("A", "u"), Association("A", "u"), Association("A")], "user 'u' of 'A' twice"),
        ([Association("A", parent="B")], "in account 'B', which the tree does not list"),
        ([Association("A"), Association("C", "u")], "user 'u' of 'C' of the account tree is in"),
        ([Association("A", parent="B"), Association("B", parent="A")], "in a circle"),
        ([Association("A", shares=-1)], "whole numbers from 0"),
        ([Association("A", shares=1.5)], "whole numbers from 0"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_tree_is_refused(entries: list[Association], words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        AccountTree(tuple(entries))


def refused(**told: object) -> str:
    jobs = Workload.from_arrays(
        submit_s=[0, 1, 2],
        runtime_s=[1, 1, 1],
        procs=[1, 1, 1],
        user=[1, 1, 1],
        **told.pop("of", {}),
    )  # type: ignore[arg-type]
    options = {"fairshare_weight": 1.0}
    with pytest.raises(ScenarioError) as caught:
        simulate(Scenario(jobs, ClusterSpec.single(1), "multifactor", options=options, **told))  # type: ignore[arg-type]
    return str(caught.value)


def test_jobs_of_other_accounts_are_refused() -> None:
    tree = AccountTree((Association("A"),))
    assert "3 of 3 jobs of 'workload' have no known account" in refused(accounts=tree)
    words = refused(accounts=tree, of={"group": [0, 1, 1], "account_names": ("A", "B")})
    assert "accounts that are not in the account tree: 'B' (2 jobs)" in words
    assert "'7' (3 jobs)" in refused(accounts=tree, of={"group": [7, 7, 7]})


def test_shares_are_in_the_tree_or_beside_it() -> None:
    tree = AccountTree((Association("A"),))
    assert "leave either out" in refused(accounts=tree, shares={1: 2.0})
