"""Reader of Slurm's account tree: what ``sacctmgr dump``, ``sacctmgr -P`` and ``sshare -P`` print.

Three texts are read (sacctmgr(1) and sshare(1), Slurm 22.05):

* ``sacctmgr dump CLUSTER file=FILE``: lines such as ``Account - 'physics':Fairshare=10`` below
  ``Parent - 'root'``;
* a table with the columns Account, User, Share and ParentName, as from ``sacctmgr -P show
  associations format=account,user,share,parentname``, or written by hand;
* ``sshare -alP``, in which spaces before an account say how deep it is.

Associations of partitions are refused, and so is a file of several clusters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path

from sim.formats.text_files import lines_of
from sim.model.accounts import ROOT, AccountTree, Association
from sim.model.errors import ScenarioError, TraceError

__all__ = ["AccountTree", "Association", "read_accounts"]

_KINDS = "a dump of sacctmgr, or a table of sacctmgr -P show associations or sshare -alP"
_WRITE = (
    "write it with sshare -alP, or with sacctmgr -P show associations "
    "format=account,user,share,parentname"
)
_PARENTS = ("parent", "2147483647")
"""What stands for ``FairShare=parent``; the number is that of a dump."""

_ENTRY = re.compile(r"(Cluster|Parent|Account|User) - '?([^':]*)'?(?::(.*))?")
_OPTION = re.compile(r"(\w+)=('[^']*'|[^:]*)")

Line = tuple[int, str]


def read_accounts(path: str | PathLike[str]) -> AccountTree:
    """Read the account tree of a cluster, plain or gzip.

    Args:
        path: path of the file.

    Raises:
        TraceError: file, line, field, value and what is allowed; or the accounts are no tree.
    """
    file = Path(path)
    texts = ((n, line.decode("utf-8", "replace")) for n, line in lines_of(file, "an account tree"))
    lines = [(n, line.rstrip()) for n, line in texts if line.strip() and not line.startswith("#")]
    if not lines:
        raise TraceError(file, expected=f"the file is empty; expected is {_KINDS}.")
    is_dump = _ENTRY.fullmatch(lines[0][1]) is not None
    entries = _of_dump(file, lines) if is_dump else _of_table(file, lines)
    try:
        return AccountTree(tuple(entries))
    except ScenarioError as error:
        raise TraceError(file, expected=str(error)) from None


def _of_dump(file: Path, lines: Sequence[Line]) -> Iterator[Association]:
    parent, n_clusters = ROOT, 0
    for number, line in lines:
        match = _ENTRY.fullmatch(line)
        if match is None:
            expected = "lines of a dump begin with Cluster, Parent, Account or User, and ' - '."
            raise TraceError(file, line=number, field="entry", value=line, expected=expected)
        kind, name, more = match.groups()
        options = {key.lower(): value.strip("'") for key, value in _OPTION.findall(more or "")}
        if kind == "Cluster":
            n_clusters += 1
            _check_clusters(file, number, n_clusters)
        elif kind == "Parent":
            parent = name
        else:
            _check_partition(file, number, options.get("partition", ""))
            shares = _shares(file, number, options.get("fairshare", "1"))
            if kind == "User":
                yield Association(parent, name, shares=shares)
            elif name != ROOT:
                yield Association(name, parent=parent, shares=shares)


def _of_table(file: Path, lines: Sequence[Line]) -> Iterator[Association]:
    header = [name.strip().lower().replace(" ", "") for name in lines[0][1].split("|")]
    usual = {"rawshares": "share", "parname": "parent", "parentname": "parent"}
    header = [usual.get(name, name) for name in header]
    if not {"account", "user", "share"} <= set(header):
        raise TraceError(
            file,
            line=lines[0][0],
            field="header",
            value=lines[0][1],
            expected=f"the columns Account, User and Share or RawShares, with | between; {_WRITE}.",
        )
    rows = [
        (number, dict(zip(header, line.split("|"), strict=False))) for number, line in lines[1:]
    ]
    clusters: dict[str, None] = {}
    for number, row in rows:
        clusters[row.get("cluster", "").strip()] = None
        _check_clusters(file, number, len(clusters))
        _check_partition(file, number, row.get("partition", "").strip())
    parents = _parents(file, rows, has_column="parent" in header)
    for (number, row), parent in zip(rows, parents, strict=True):
        account, user = row["account"].strip(), row.get("user", "").strip()
        if user or account != ROOT:
            shares = _shares(file, number, row.get("share", "").strip())
            yield Association(account, user, parent=ROOT if user else parent, shares=shares)


def _parents(
    file: Path, rows: Sequence[tuple[int, Mapping[str, str]]], *, has_column: bool
) -> Iterator[str]:
    """Yield the parent of the account of each row, from its column or the spaces before it."""
    if not has_column and not any(row["account"].startswith(" ") for _, row in rows):
        raise TraceError(
            file,
            expected="there is no column ParentName, and no account has spaces before it, so it is "
            f"unknown which account is above which; {_WRITE}.",
        )
    above: list[tuple[int, str]] = []
    for _, row in rows:
        account = row["account"]
        depth = len(account) - len(account.lstrip(" "))
        while above and above[-1][0] >= depth:
            above.pop()
        by_depth = above[-1][1] if above else ROOT
        yield (row.get("parent", "").strip() or ROOT) if has_column else by_depth
        if not row.get("user", "").strip():
            above.append((depth, account.strip()))


def _shares(file: Path, number: int, text: str) -> int | None:
    if text.lower() in _PARENTS:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        expected = "shares are whole numbers from 0, or parent."
        raise TraceError(file, line=number, field="Share", value=text, expected=expected)
    return int(text)


def _check_clusters(file: Path, number: int, n_clusters: int) -> None:
    if n_clusters > 1:
        expected = "this is a second cluster; keep the accounts of one, such as with cluster=NAME."
        raise TraceError(file, line=number, expected=expected)


def _check_partition(file: Path, number: int, partition: str) -> None:
    if partition:
        raise TraceError(
            file,
            line=number,
            field="Partition",
            value=partition,
            expected="associations of partitions are not simulated; remove their rows, and the "
            "user's jobs belong to the account.",
        )
