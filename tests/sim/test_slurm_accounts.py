"""Account trees as Slurm prints them, each of the three texts, and what is refused."""

import gzip
from pathlib import Path

import pytest

from sim.formats import AccountTree, Association, read_accounts
from sim.model.errors import TraceError

DUMP = """\
# To edit this file start with a cluster line for the new cluster
# Cluster - 'cluster_name':MaxNodesPerJob=50
Cluster - 'tux':Fairshare=1:QOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'physics':Description='physics: all':Organization='science':Fairshare=40
Account - 'bio':Description='bio':Organization='science':Fairshare=60
Parent - 'physics'
Account - 'optics':Description='optics':Organization='science':Fairshare=2147483647
User - 'ann':DefaultAccount='physics':Fairshare=parent
Parent - 'bio'
User - 'bob':DefaultAccount='bio'
"""

TABLE = """\
Cluster|Account|User|Partition|Share|Par Name
tux|root|||1|
tux|root|root||1|
tux|physics|||40|root
tux|physics|ann||parent|
tux|optics|||parent|physics
tux|bio|||60|root
tux|bio|bob||1|
"""

SSHARE = """\
Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins
root||||1200||1.000000||||cpu=0
 root|root|1|0.009901|0|0.000000|0.000000|1.000000|inf||cpu=0
 bio||60|0.594059|600|0.500000|0.500000||1.188119||cpu=0
  bio|bob|1|1.000000|600|0.500000|1.000000|0.333333|1.000000||cpu=0
 physics||40|0.396040|600|0.500000|0.500000||0.792079||cpu=0
  physics|ann|parent|0.396040|600|0.500000|0.500000|0.666667|inf||cpu=0
  optics||parent|0.396040|0|0.000000|0.000000||0.000000||cpu=0
"""

EXPECTED = {
    Association("root", "root"),
    Association("physics", shares=40),
    Association("physics", "ann", shares=None),
    Association("optics", parent="physics", shares=None),
    Association("bio", shares=60),
    Association("bio", "bob"),
}


def read(tmp_path: Path, text: str) -> AccountTree:
    path = tmp_path / "accounts.txt"
    path.write_text(text)
    return read_accounts(path)


@pytest.mark.parametrize("text", [DUMP, TABLE, SSHARE])
def test_the_three_texts_give_the_same_tree(tmp_path: Path, text: str) -> None:
    tree = read(tmp_path, text)
    assert set(tree.associations) == EXPECTED
    assert (tree.n_accounts, tree.n_users) == (3, 3)
    assert tree.digest == AccountTree(tuple(EXPECTED)).digest


def test_the_file_may_be_gzip(tmp_path: Path) -> None:
    path = tmp_path / "accounts.txt.gz"
    path.write_bytes(gzip.compress(SSHARE.encode()))
    assert set(read_accounts(path).associations) == EXPECTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("Account|User\nbio|bob\n", "line 1.*columns Account, User and Share"),
        ("Account|User|Share\nbio||1\n", "no column ParentName.*sshare -alP"),
        (TABLE.replace("|60|", "|many|"), "line 7.*Share.*'many'.*whole numbers from 0"),
        (TABLE.replace("|60|", "|-1|"), "line 7.*whole numbers"),
        (TABLE.replace("tux|bio|bob", "box|bio|bob"), "line 8.*second cluster"),
        (TABLE.replace("bio|bob|", "bio|bob|debug"), "line 8.*Partition.*debug.*not simulated"),
        (TABLE + "tux|bio|bob||1|\n", "lists user 'bob' of 'bio' twice"),
        (
            TABLE.replace("|60|root", "|60|science"),
            "account 'science', which the tree does not list",
        ),
        (DUMP + "Cluster - 'box'\n", "line 13.*second cluster"),
        (DUMP + "Nonsense\n", "line 13.*'Nonsense'.*begin with Cluster"),
        (DUMP + "User - 'eve':Partition='debug'\n", "line 13.*Partition"),
    ],
)
def test_what_is_no_tree_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read(tmp_path, text)
