"""Scheduling tuples: where a packing begins, on which servers, and by which rule jobs get them.

Bergsma et al., section 6.2, draw 500 of them for each trace and do not publish them. Ours are drawn
from a seed and published ranges, and written to a file, so that others can pack by the same ones.

What is free of a server and what a job asks for are shares of a whole server, and of equal servers
the first is taken:

- ``random``: any server with room, each as likely;
- ``busiest_fit``: the one with the least free, cores and memory added up;
- ``cosine``: the one whose free resources have the smallest angle to what the job asks for (the
  alignment of Grandl et al., Multi-resource packing for cluster schedulers, SIGCOMM 2014, section
  3.2, divided by both lengths);
- ``delta_perp_distance``: the one where the job adds least to the distance of (used cores, used
  memory) from the diagonal, on which both are used as much (named by Ke et al., Fundy, IEEE Cloud
  2021, whose text we do not have; this is our reading of the name).
"""

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from sim.errors import TraceError, UnknownNameError, WorkloadError
from sim.kernel import packing as text
from sim.kernel.packing import Queue, Rack
from sim.kernel.text import bound
from sim.workloads.model import write_whole

Pack = Callable[[Queue, Rack, int], int]

GIB = 2**30
MOST_BYTES = 2**26


@dataclass(frozen=True)
class PackingRule:
    """Which of the servers with room a job gets.

    Attributes:
        name: see the head of this module.
        summary: one line for people.
        pack: kernel text, see `sim.kernel.packing.pack`.
        needs_memory: whether it makes sense only where memory is known.
    """

    name: str
    summary: str
    pack: Pack
    needs_memory: bool = False


def _least(name: str, cost: Callable[..., float]) -> Pack:
    return bound(text.pack, name, choose=bound(text.choose, name, cost=cost))


PACKING_RULES: tuple[PackingRule, ...] = (
    PackingRule(
        "random", "any server with room", bound(text.pack, "random", choose=text.at_random)
    ),
    PackingRule("busiest_fit", "the fullest server with room", text.pack),
    PackingRule(
        "cosine", "what is free looks most like the job", _least("cosine", text.angle), True
    ),
    PackingRule(
        "delta_perp_distance",
        "cores and memory stay used as much",
        _least("perp", text.off_diagonal),
        True,
    ),
)


def packing_rule_named(name: str) -> PackingRule:
    """Return a rule.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for rule in PACKING_RULES:
        if rule.name == name:
            return rule
    raise UnknownNameError("packing algorithm", name, (rule.name for rule in PACKING_RULES))


@dataclass(frozen=True)
class SchedulingTuple:
    """One packing, but for the jobs.

    Attributes:
        start: where in the window it begins, as a share of it from 0 up to 1.
        servers: how many there are, from 1.
        mcpu: thousandths of a core of each, from 1.
        mem_bytes: of each, from 1.
        algorithm: name of a rule.
        seed: of what the rule draws.
    """

    start: float
    servers: int
    mcpu: int
    mem_bytes: int
    algorithm: str
    seed: int

    def __post_init__(self) -> None:
        packing_rule_named(self.algorithm)
        sizes = (self.servers, self.mcpu, self.mem_bytes)
        if not (0.0 <= self.start < 1.0 and min(sizes) >= 1 and self.seed >= 0):
            raise WorkloadError(
                f"a scheduling tuple has a start from 0 up to 1, servers, cores and memory above 0 "
                f"and a seed from 0; these are {self.start}, {sizes} and {self.seed}."
            )


COLUMNS = tuple(one.name for one in fields(SchedulingTuple))
LONGEST = 15


@dataclass(frozen=True)
class TupleRanges:
    """From which ranges tuples are drawn, evenly and with both ends.

    The usual ones are those of our figures. The authors' are not published but for what they are
    for: cores and memory each limit in about half of the packings of Azure's training window. Ours
    do (46 % are limited by cores, with the lifetimes of the development window).

    Attributes:
        servers: whole numbers.
        cores: of a server, whole numbers.
        gib_per_core: of a server.
        latest_start: the last start, as a share of the window.
    """

    servers: tuple[int, int] = (40, 200)
    cores: tuple[int, int] = (32, 96)
    gib_per_core: tuple[float, float] = (2.0, 4.0)
    latest_start: float = 0.6

    def __post_init__(self) -> None:
        told = {"servers": self.servers, "cores": self.cores, "gib_per_core": self.gib_per_core}
        for name, (low, high) in told.items():
            least = 0.001 if name == "gib_per_core" else 1
            if not least <= low <= high <= 1e6:
                raise WorkloadError(
                    f"{name} from {low:g} to {high:g} is no range; give two numbers from {least} "
                    "to 1000000, the lower first."
                )
        if not 0.0 <= self.latest_start < 1.0:
            raise WorkloadError(
                f"latest_start is {self.latest_start:g}; allowed is from 0 up to 1, without 1."
            )


def draw_tuples(
    n: int,
    seed: int,
    ranges: TupleRanges | None = None,
    algorithms: Sequence[str] | None = None,
) -> tuple[SchedulingTuple, ...]:
    """Draw tuples; the first k of n are those that are drawn if k are asked for.

    Args:
        n: how many, from 1.
        seed: from 0.
        ranges: None is the usual ones.
        algorithms: names of rules, each as likely; None is all.

    Raises:
        WorkloadError: fewer than 1 are asked for.
        UnknownNameError: there is no such rule.
    """
    if n < 1 or seed < 0:
        raise WorkloadError(f"{n} tuples with seed {seed}; ask for 1 or more, and a seed from 0.")
    told = ranges or TupleRanges()
    names = [packing_rule_named(name).name for name in algorithms or ()]
    names = names or [rule.name for rule in PACKING_RULES]
    rng, found = np.random.default_rng(seed), []
    for place in range(n):
        share, per_core = rng.random(2)
        servers, cores = (
            int(rng.integers(low, high + 1)) for low, high in (told.servers, told.cores)
        )
        low, high = told.gib_per_core
        found.append(
            SchedulingTuple(
                start=float(np.round(share * told.latest_start, 6)),
                servers=servers,
                mcpu=cores * 1000,
                mem_bytes=max(1, round(cores * (low + per_core * (high - low)) * GIB)),
                algorithm=names[int(rng.integers(len(names)))],
                seed=place,
            )
        )
    return tuple(found)


def write_tuples(tuples: Sequence[SchedulingTuple], path: Path) -> None:
    """Write tuples as CSV, whole or not at all.

    Raises:
        TraceError: the file cannot be written.
    """
    told = io.StringIO()
    writer = csv.writer(told, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(astuple(one) for one in tuples)
    try:
        write_whole(path, told.getvalue().encode())
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be written ({error.strerror}).") from error


def read_tuples(path: Path) -> tuple[SchedulingTuple, ...]:
    """Read tuples that `write_tuples` wrote, or others of that form.

    Raises:
        TraceError: file, line, field, value and what is allowed.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise TraceError(path, expected=f"it has more than {MOST_BYTES:,} bytes.")
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TraceError(path, expected=f"it cannot be read ({error.strerror}).") from error
    except ValueError:
        raise TraceError(path, expected="it is no text; scheduling tuples are CSV.") from None
    rows = list(csv.reader(lines))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise TraceError(path, line=1, expected=f"the first line is '{','.join(COLUMNS)}'.")
    found = [_tuple_of(path, number, row) for number, row in enumerate(rows[1:], start=2) if row]
    if not found:
        raise TraceError(path, expected="there are no scheduling tuples in it.")
    return tuple(found)


def _tuple_of(path: Path, line: int, row: list[str]) -> SchedulingTuple:
    if len(row) != len(COLUMNS):
        raise TraceError(path, line=line, expected=f"a line has {len(COLUMNS)} fields.")
    told = dict(zip(COLUMNS, row, strict=True))
    whole = {}
    for name in ("servers", "mcpu", "mem_bytes", "seed"):
        value = told[name]
        if not (value.isascii() and value.isdigit() and len(value) <= LONGEST):
            expected = f"a whole number of {LONGEST} digits at most is expected."
            raise TraceError(path, line=line, field=name, value=value, expected=expected)
        whole[name] = int(value)
    try:
        start = float(told["start"])
    except ValueError:
        raise TraceError(
            path, line=line, field="start", value=told["start"],
            expected="a share of the window from 0 up to 1 is expected.",
        ) from None  # fmt: skip
    try:
        return SchedulingTuple(start=start, algorithm=told["algorithm"], **whole)
    except (WorkloadError, UnknownNameError) as error:
        raise TraceError(path, line=line, expected=str(error)) from None
