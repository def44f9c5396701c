"""Kinds of claims: sentences, tables and transcripts of a document, beside what measures them.

A number holds if it equals the measured one at the coarser of both precisions; "at least" and "at
most" are bounds. What depends on the machine is a ratio of two measurements of the same run, with
such a bound.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from assistant import AssistantError

REPOSITORY = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
PUBLISHED = "paper"
"""A column whose title has this word holds figures of others, which nobody here can measure."""

NOTHING_FEASIBLE = 3
"""Exit code of a sweep without a feasible run, which is an answer too."""

Relation = Literal["equal", "at least", "at most"]
Figures = Mapping[str, Any]
Span = tuple[int, int]


@dataclass(frozen=True)
class Command:
    """A command of this project that measures something.

    Args:
        line: what follows ``python -m``; ``{data}`` is the folder of shared data, ``{folder}`` the
            folder in which it runs. A benchmark writes its figures as JSON, a command of
            ``assistant.cli`` prints them. Several lines run one after the other.
        cost: how long it takes on a quiet machine.
        packages: of the extra ``bench`` that it needs.
    """

    line: str
    cost: Literal["quick", "minutes", "hours"] = "minutes"
    packages: tuple[str, ...] = ()

    def missing(self, data: Path) -> list[str]:
        """Return the shared data and the packages that it needs and that are not there."""
        parts = re.findall(r"\{data\}/([\w./-]+)", self.line)
        packages = [package for package in self.packages if not find_spec(package)]
        return [part for part in parts if not (data / part).exists()] + packages

    def run(self, data: Path, folder: Path) -> dict[str, Any]:
        """Return its ``figures`` and the ``text`` that it printed.

        Raises `AssistantError` if a line of it fails.
        """
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / "figures.json"
        figures: dict[str, Any] = {}
        texts = []
        env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(REPOSITORY)}
        for line in self.line.splitlines():
            words = [w.format(data=data.resolve(), folder=folder) for w in shlex.split(line)]
            is_benchmark = words[0].startswith("benchmarks.")
            is_last = is_benchmark and "--json" not in words  # others write what it takes
            more = ["--json", str(written), "--resume"] if is_last else []
            done = subprocess.run(
                [sys.executable, "-m", *words, *more],
                cwd=folder, env=env, capture_output=True, text=True, check=False,
            )  # fmt: skip
            if done.returncode not in (0, NOTHING_FEASIBLE):
                raise AssistantError(f"'{line}' failed: {done.stderr.strip()[-500:]}")
            texts.append(done.stdout)
            if is_last:
                figures |= json.loads(written.read_text())["figures"]
            elif "--json" in words and not is_benchmark:
                figures |= json.loads(done.stdout)
        return {"figures": figures, "text": "\n".join(texts)}


@dataclass(frozen=True)
class Comparison:
    """One claimed value beside the measured one."""

    what: str
    claimed: str
    measured: str
    holds: bool


@dataclass(frozen=True)
class Sentence:
    """Numbers in running text.

    Args:
        document: path from the repository's root.
        anchor: regular expression whose groups are the claimed numbers; a blank matches line ends.
        source: the command, or None.
        measured: the command's figures to the numbers, in the order of the groups.
        relation: of the measured number to the claimed one.
    """

    document: str
    anchor: str
    source: Command | None
    measured: Callable[[Figures], Sequence[float]]
    relation: Relation = "equal"

    def _find(self, text: str) -> re.Match[str]:
        pattern = self.anchor.replace(" ", r"\s+")
        found = list(re.finditer(pattern, text, re.DOTALL))
        if len(found) != 1:
            raise AssistantError(f"{self.document} has '{self.anchor}' {len(found)} times.")
        return found[0]

    def spans(self, text: str) -> list[Span]:
        """Return the places of its numbers."""
        found = self._find(text)
        return [found.span(i + 1) for i in range(len(found.groups()))]

    def compare(self, text: str, result: Mapping[str, Any]) -> Iterator[Comparison]:
        """Compare every group with its number."""
        found, relation = self._find(text), "" if self.relation == "equal" else f"{self.relation} "
        measured = self.measured(result.get("figures", {}))
        for claimed, value in zip(found.groups(), measured, strict=True):
            is_right = holds(claimed, value, self.relation)
            what = " ".join(found[0].split())[:60]
            yield Comparison(what, f"{relation}{claimed}", f"{value:.6g}", is_right)


@dataclass(frozen=True)
class Table:
    """A table that a command prints; the document may show some of its rows and columns.

    Args:
        document: path from the repository's root.
        anchor: how its first line begins.
        source: the command that prints a table with these columns.
        keys: how many columns in front say what a row is about.
    """

    document: str
    anchor: str
    source: Command
    keys: int = 1

    def spans(self, text: str) -> list[Span]:
        """Return the place of the whole table."""
        starts = [found.start() for found in re.finditer("^" + re.escape(self.anchor), text, re.M)]
        if len(starts) != 1:
            raise AssistantError(f"{self.document} has '{self.anchor}' {len(starts)} times.")
        end = text.find("\n\n", starts[0])
        return [(starts[0], len(text) if end < 0 else end)]

    def compare(self, text: str, result: Mapping[str, Any]) -> Iterator[Comparison]:
        """Compare every cell but the keys and published figures."""
        ((start, end),) = self.spans(text)
        header, *rows = next(tables(text[start:end]))
        columns = [c for c in range(self.keys, len(header)) if PUBLISHED not in header[c]]
        keys, names = header[: self.keys], [header[c] for c in columns]
        printed = {
            tuple(row[head.index(key)] for key in keys): dict(zip(head, row, strict=True))
            for head, *body in tables(result["text"])
            if {*keys, *names} <= set(head)
            for row in body
        }
        for row in rows:
            measured = printed.get(tuple(row[: self.keys]), {})
            for c in columns:
                cell = measured.get(header[c], "not printed")
                what = f"{', '.join(row[: self.keys])}: {header[c]}"
                yield Comparison(what, row[c], cell, cells_agree(row[c], cell))


@dataclass(frozen=True)
class Transcript:
    """What commands print, in the blocks of a document that begin with ```` ```console ````.

    Args:
        document: path from the repository's root.
        source: the commands of its blocks, in order.
    """

    document: str
    source: Command

    def spans(self, text: str) -> list[Span]:
        """Return the places of the blocks; their commands have to be those of the source."""
        lines = re.findall(r"^\$ copperline (.*)$", text, re.MULTILINE)
        shown = [f"assistant.cli {line}".replace("../shared/data", "{data}") for line in lines]
        if shown != self.source.line.splitlines():
            raise AssistantError(f"{self.document} shows other commands: {shown}.")
        return [one.span(1) for one in re.finditer(r"```console\n(.*?)```", text, re.DOTALL)]

    def compare(self, text: str, result: Mapping[str, Any]) -> Iterator[Comparison]:
        """Compare word by word; dots at the end of a line stand for what is left out."""
        printed = _words(result["text"])
        for start, end in self.spans(text):
            shown = re.sub(r"^\$ .*\n", "...\n", text[start:end], flags=re.MULTILINE)
            for part in filter(None, map(_words, re.split(r"\.\.\.\n", shown))):
                before, found, printed = printed.partition(part)
                yield Comparison("words", part, found or "not there", bool(found))
                printed = printed if found else before


Claim = Sentence | Table | Transcript


def holds(claimed: str, measured: float, relation: Relation) -> bool:
    """Return whether a measured number is what a text claims.

    >>> holds("0.86", 0.857, "equal"), holds("0.87", 0.857, "equal"), holds("20", 31.0, "at least")
    (True, False, True)
    """
    bounds = {"at least": measured >= _number(claimed), "at most": measured <= _number(claimed)}
    return bounds.get(relation, _is_near(claimed, f"{measured:.9f}"))


def cells_agree(claimed: str, measured: str) -> bool:
    """Return whether two cells have the same words and numbers, at the coarser precision.

    >>> cells_agree("590 s", "590.1 s"), cells_agree("33", "32.4"), cells_agree("3 (best)", "3")
    (True, False, False)
    """
    words = {re.sub(r"\s", "", NUMBER.sub("#", cell)) for cell in (claimed, measured)}
    pairs = zip(NUMBER.findall(claimed), NUMBER.findall(measured), strict=False)
    return len(words) == 1 and all(_is_near(one, other) for one, other in pairs)


def tables(text: str) -> Iterator[list[list[str]]]:
    """Yield the cells of every Markdown table, its titles first."""
    rows: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        cells = [cell.strip().strip("`*") for cell in line.strip()[1:-1].split("|")]
        if all(re.fullmatch("-+", cell) for cell in cells) and rows:
            if rows[:-1]:
                yield rows[:-1]
            rows = rows[-1:]
        elif line.startswith("|"):
            rows.append(cells)
        elif rows:
            yield rows
            rows = []


def _is_near(claimed: str, measured: str) -> bool:
    coarse = min(len(text.partition(".")[2]) for text in (claimed, measured))
    return abs(_number(claimed) - _number(measured)) <= 0.5001 * 10.0**-coarse


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _words(text: str) -> str:
    """Return the words of a text, without identifiers of experiments."""
    return " ".join(re.sub(r"-[0-9a-f]{8}\b", "-#", text).split())
