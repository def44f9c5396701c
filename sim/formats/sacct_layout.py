"""The fields of a dump of Slurm's sacct: from its header, or as Open XDMoD asks for them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path

from sim.model.errors import TraceError

KIND = "a dump of sacct"
NO_JOBS = f"it contains no jobs; {KIND} has one line per job."

LAYOUTS: tuple[tuple[str, ...], ...] = tuple(
    tuple(
        f"jobid,jobidraw,cluster,partition,{qos}account,group,gid,user,uid,submit,eligible,start,"
        f"end,elapsed,exitcode,state,nnodes,ncpus,reqcpus,reqmem,{gres}reqtres,{alloc}timelimit,"
        "nodelist,jobname".split(",")
    )
    for qos, gres, alloc in product(("", "qos,"), ("reqgres,", ""), ("alloctres,", ""))
)
"""Fields of dumps without a header, as the versions of Open XDMoD ask for them."""

NEEDED: tuple[tuple[str, ...], ...] = (
    ("jobid", "jobidraw"), ("submit", "eligible"), ("start",), ("elapsed", "elapsedraw", "end"),
    ("ncpus", "alloccpus", "alloctres", "reqcpus"),
)  # fmt: skip
"""Fields of which a dump with a header needs one each, in lower case."""

FREE_TEXTS = ("jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir")
"""Fields in which users may write the separator."""

MOMENTS = ("submit", "eligible", "start", "end")
SEPARATOR = b"|"
BOM = b"\xef\xbb\xbf"
_MOST_EXTRA = 100  # Fields too many in a row with several free texts
_NEVER = 1_000  # More than there are free texts
_MOMENT = re.compile(rb"(?i:\d{4}-\d\d-\d\d[T ]\S*|\d{1,12}|unknown|none|n/a|invalid|nan|)")
_COUNT = re.compile(rb"[\d.]*[KMGTP]?")
_TIME_LIMIT = re.compile(
    rb"(?i:[\d:.-]*|unlimited|infinite|partition_limit|unknown|none|n/a|invalid)"
)
FORMS: Mapping[str, re.Pattern[bytes]] = {
    **dict.fromkeys(MOMENTS, _MOMENT),
    **dict.fromkeys(("nnodes", "ncpus", "reqcpus", "alloccpus", "allocnodes"), _COUNT),
    **dict.fromkeys(("elapsed", "elapsedraw", "timelimit", "timelimitraw"), _TIME_LIMIT),
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(rb"\d.*")),
    **dict.fromkeys(("reqtres", "alloctres"), re.compile(rb"(?:[^=,]+=[^,]*(?:,|$))*")),
    "reqgres": re.compile(rb"[^=]*"),
    "state": re.compile(rb"[A-Z_+]*(?: by .*)?"),
}
"""Forms of fields that a row has where its fields are not shifted."""


def is_sacct(begin: str) -> bool:
    """Return whether a file that begins with this text is taken for a dump of sacct.

    Its first line has a header with a job id, or fields separated as sacct separates them.
    """
    first = begin.lstrip("\ufeff \t\r\n").partition("\n")[0].lower()
    fields = [name.strip() for name in first.split("|")]
    if {"jobid", "jobidraw"} & set(fields):
        return len(fields) > 1
    return len(fields) >= min(len(layout) for layout in LAYOUTS)


@dataclass(frozen=True)
class Layout:
    """The names of the fields of a dump, in lower case; the last is empty after --parsable."""

    names: tuple[str, ...]

    def at(self, *names: str) -> int | None:
        """Return the place of the first of these fields that the dump has."""
        return next((self.names.index(name) for name in names if name in self.names), None)

    @cached_property
    def free_texts(self) -> tuple[int, ...]:
        """The places of the fields in which a user may have written the separator."""
        return tuple(at for at, name in enumerate(self.names) if name in FREE_TEXTS)

    @cached_property
    def anchors(self) -> tuple[tuple[int, re.Pattern[bytes]], ...]:
        """The places of fields that have a form, and their forms."""
        return tuple((at, FORMS[name]) for at, name in enumerate(self.names) if name in FORMS)

    def evened(self, fields: list[bytes]) -> list[bytes] | None:
        """Return a row with too many fields with as many as there are names, or None.

        Separators in free texts become blanks. With several free texts, those fields are joined
        that leave every anchor its form; as few free texts as possible have separators, the first
        ones if there is a choice.
        """
        extra = len(fields) - len(self.names)
        if extra <= 0 or not self.free_texts:
            return None
        if len(self.free_texts) == 1:
            return _with_joined(fields, {self.free_texts[0]: extra})
        joined = None if extra > _MOST_EXTRA else self._joined(fields, extra)
        return None if joined is None else _with_joined(fields, joined)

    def has_forms(self, row: list[bytes]) -> bool:
        """Return whether the fields of a row have their forms."""
        return all(form.fullmatch(row[at].strip()) for at, form in self.anchors)

    @cached_property
    def _anchors_behind(self) -> tuple[tuple[tuple[int, re.Pattern[bytes]], ...], ...]:
        """The anchors before the first free text, and those behind each up to the next."""
        ends = (-1, *self.free_texts, len(self.names))
        return tuple(
            tuple((at, form) for at, form in self.anchors if first < at < last)
            for first, last in pairwise(ends)
        )

    def _joined(self, fields: Sequence[bytes], extra: int) -> dict[int, int] | None:
        """Return how many fields are joined to that of each free text which is joined, or None.

        Backwards over free texts: how far the anchors behind one are shifted is all that counts.
        """

        def have_forms(text: int, shift: int) -> bool:
            anchors = self._anchors_behind[text + 1]
            return all(form.fullmatch(fields[at + shift].strip()) for at, form in anchors)

        if not have_forms(-1, 0):
            return None
        n_texts = len(self.free_texts)
        fewest = [_NEVER] * extra + [0]  # texts still to be joined, by the shift so far
        choices: list[list[int]] = []  # shift behind each text, by that before it
        for text in reversed(range(n_texts)):
            behind = [
                n if n < _NEVER and have_forms(text, shift) else _NEVER
                for shift, n in enumerate(fewest)
            ]
            choice, best = list(range(extra + 1)), extra
            for shift in reversed(range(extra)):
                if behind[shift + 1] <= behind[best]:
                    best = shift + 1
                if behind[best] + 1 <= behind[shift]:
                    choice[shift] = best
            fewest = [behind[after] + (after > shift) for shift, after in enumerate(choice)]
            choices.append(choice)
        if fewest[0] >= _NEVER:
            return None
        joined, shift = {}, 0
        for place, choice in zip(self.free_texts, reversed(choices), strict=True):
            if choice[shift] > shift:
                joined[place] = choice[shift] - shift
            shift = choice[shift]
        return joined


def _with_joined(fields: list[bytes], joined: Mapping[int, int]) -> list[bytes]:
    """Return the fields, at each place joined with so many after it."""
    row = list(fields)
    for place, extra in joined.items():
        row[place : place + extra + 1] = [b" ".join(row[place : place + extra + 1])]
    return row


def layout_of(path: Path, lines: Sequence[bytes]) -> Layout:
    """Return the layout of a dump from its first lines.

    Raises:
        TraceError: fields are missing in the header; or there is none, and the fields are not
            those of `LAYOUTS`.
    """
    if not lines:
        raise TraceError(path, expected=NO_JOBS)
    text = lines[0].removeprefix(BOM).strip().decode("utf-8", "replace").lower()
    names = tuple(name.strip() for name in text.split("|"))
    if {"jobid", "jobidraw"} & set(names):
        _check_header(path, names)
        return Layout(names)
    rows = [line.split(SEPARATOR) for line in lines]
    scores = [sum(_fits(layout, row) for row in rows) for layout in LAYOUTS]
    if max(scores) > len(rows) // 2:
        layout = LAYOUTS[scores.index(max(scores))]
        ends = sum(len(row) == len(layout) + 1 and not row[-1] for row in rows)
        return Layout((*layout, "") if ends > len(rows) // 2 else layout)
    expected = (
        f"there is no header, and the {len(rows[0])} fields are not those that Open XDMoD asks "
        "for; leave out --noheader when you run sacct, or give it the --format of the "
        "documentation (From sacct to an answer)."
    )
    raise TraceError(path, line=1, expected=expected)


def _check_header(path: Path, names: tuple[str, ...]) -> None:
    twice = sorted(name for name, n in Counter(names).items() if name and n > 1)
    if twice:
        expected = f"the header has '{twice[0]}' twice; give sacct each field once."
        raise TraceError(path, line=1, expected=expected)
    missing = [" or ".join(some) for some in NEEDED if not set(some) & set(names)]
    if missing:
        expected = (
            f"the header has no {', and no '.join(missing)}; add it to the --format of sacct. "
            "(With timelimit, user, partition and state more can be said.)"
        )
        raise TraceError(path, line=1, expected=expected)


def _fits(layout: tuple[str, ...], row: list[bytes]) -> bool:
    """Return whether the fields have their forms; `LAYOUTS` name those before the job's name."""
    return len(row) >= len(layout) and Layout(layout).has_forms(row)
