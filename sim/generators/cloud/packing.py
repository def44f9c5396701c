"""How full servers are when the first job fits nowhere: the first-failure allocation ratio (FFAR).

Bergsma et al., section 6.2. Servers are empty; jobs arrive in order from a random start, lie on one
server each and leave at their end, until one has room nowhere; then so much of the cores and of the
memory is allocated. The resource with the larger share is the one that limits. How many servers
there are, how large they are, where it begins and by which rule a job gets a server is drawn
(`sim.generators.cloud.packing`).

A job that is wider than an empty server is passed over: no scheduler of such servers would get it.

Scheduling tuples: where a packing begins, on which servers, and by which rule jobs get them.

Bergsma et al., section 6.2, draw 500 of them for each trace and do not publish them. Ours are drawn
from a seed and published ranges, and written to a file, so that others can pack by the same ones.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import write_whole
from sim.kernel import bin_packing as text
from sim.kernel.bin_packing import NOWHERE, Queue, Rack
from sim.kernel.jit import bound, compiled, unavailable
from sim.kernel.records import interpretable
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import TraceError, UnknownNameError, WorkloadError
from sim.model.workload import UNKNOWN, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


Pack = Callable[[Queue, Rack, int], int]

GIB = 2**30
MOST_BYTES = 2**26


@dataclass(frozen=True)
class PackingRule:
    """Which of the servers with room a job gets.

    Attributes:
        name: see the head of this module.
        summary: one line for people.
        pack: kernel text, see `sim.kernel.bin_packing.pack`.
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


COLUMNS = tuple(column.name for column in fields(SchedulingTuple))
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
        ranges = {"servers": self.servers, "cores": self.cores, "gib_per_core": self.gib_per_core}
        for name, (low, high) in ranges.items():
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
    tuple_ranges = ranges or TupleRanges()
    names = [packing_rule_named(name).name for name in algorithms or ()]
    names = names or [rule.name for rule in PACKING_RULES]
    rng, tuples = np.random.default_rng(seed), []
    for place in range(n):
        share, per_core = rng.random(2)
        servers, cores = (
            int(rng.integers(low, high + 1))
            for low, high in (tuple_ranges.servers, tuple_ranges.cores)
        )
        low, high = tuple_ranges.gib_per_core
        tuples.append(
            SchedulingTuple(
                start=float(np.round(share * tuple_ranges.latest_start, 6)),
                servers=servers,
                mcpu=cores * 1000,
                mem_bytes=max(1, round(cores * (low + per_core * (high - low)) * GIB)),
                algorithm=names[int(rng.integers(len(names)))],
                seed=place,
            )
        )
    return tuple(tuples)


def write_tuples(tuples: Sequence[SchedulingTuple], path: Path) -> None:
    """Write tuples as CSV, whole or not at all.

    Raises:
        TraceError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(astuple(scheduling_tuple) for scheduling_tuple in tuples)
    try:
        write_whole(path, text.getvalue().encode())
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
    tuples = [_tuple_of(path, number, row) for number, row in enumerate(rows[1:], start=2) if row]
    if not tuples:
        raise TraceError(path, expected="there are no scheduling tuples in it.")
    return tuple(tuples)


def _tuple_of(path: Path, line: int, row: list[str]) -> SchedulingTuple:
    if len(row) != len(COLUMNS):
        raise TraceError(path, line=line, expected=f"a line has {len(COLUMNS)} fields.")
    fields_of_row = dict(zip(COLUMNS, row, strict=True))
    integers = {}
    for name in ("servers", "mcpu", "mem_bytes", "seed"):
        value = fields_of_row[name]
        if not (value.isascii() and value.isdigit() and len(value) <= LONGEST):
            expected = f"a whole number of {LONGEST} digits at most is expected."
            raise TraceError(path, line=line, field=name, value=value, expected=expected)
        integers[name] = int(value)
    try:
        start = float(fields_of_row["start"])
    except ValueError:
        raise TraceError(
            path, line=line, field="start", value=fields_of_row["start"],
            expected="a share of the window from 0 up to 1 is expected.",
        ) from None  # fmt: skip
    try:
        return SchedulingTuple(start=start, algorithm=fields_of_row["algorithm"], **integers)
    except (WorkloadError, UnknownNameError) as error:
        raise TraceError(path, line=line, expected=str(error)) from None


FULL = 0.95
"""Packings whose limiting resource is allocated to more than this are told apart (Table 5)."""


@dataclass(frozen=True, eq=False)
class PackingRequests:
    """What is packed: jobs in the order of arrival; each column has shape [n_jobs], read-only.

    Attributes:
        start_s: float64, never falling, seconds on any clock.
        end_s: float64, when each leaves; infinite if it is not known to leave.
        mcpu: int64, thousandths of a core.
        mem_bytes: int64; 0 of all where `knows_memory` is not set.
        begin_s: of the window.
        span_s: length of the window.
        knows_memory: whether memory is known of every job.
        name: for people.
    """

    start_s: Floats
    end_s: Floats
    mcpu: Ints
    mem_bytes: Ints
    begin_s: float
    span_s: float
    knows_memory: bool = True
    name: str = field(default="jobs", compare=False)

    def __post_init__(self) -> None:
        for name, kind in (
            ("start_s", np.float64), ("end_s", np.float64), ("mcpu", np.int64),
            ("mem_bytes", np.int64),
        ):  # fmt: skip
            column = np.array(getattr(self, name), dtype=kind)
            column.setflags(write=False)
            object.__setattr__(self, name, column)

    @property
    def n_jobs(self) -> int:
        """Number of jobs."""
        return len(self.start_s)

    def first_job(self, start: float) -> int:
        """Return the first job from a share of the window on."""
        return int(np.searchsorted(self.start_s, self.begin_s + start * self.span_s, side="left"))


def requests_of_trace(
    trace: CloudTrace, rng: np.random.Generator, name: str = "jobs"
) -> PackingRequests:
    """Return what a trace of batches asks for, evenly apart within periods (section 2.4).

    Args:
        trace: with lifetimes; a job that was still there when the window was over never leaves.
        rng: draws how long jobs live within their bins.
        name: for people.

    Raises:
        WorkloadError: lifetimes are unknown.
    """
    if not trace.knows_lifetimes:
        raise WorkloadError("the lifetimes of this trace are unknown; pack one that tells them.")
    _, first, which, counts = np.unique(
        trace.period, return_index=True, return_inverse=True, return_counts=True
    )
    rank = np.arange(trace.n_jobs) - first[which]
    start_s = (trace.period + rank / counts[which]) * trace.period_s
    end_s = start_s + trace.bins.seconds(trace.lifetime, rng)
    memory = np.array([flavour.mem_bytes for flavour in trace.flavours], dtype=np.int64)[
        trace.flavour
    ]
    has_memory = bool((memory >= 0).all())
    return PackingRequests(
        start_s=start_s,
        end_s=np.where(trace.censored == 1, np.inf, end_s),
        mcpu=np.array([flavour.mcpu for flavour in trace.flavours], dtype=np.int64)[trace.flavour],
        mem_bytes=memory if has_memory else np.zeros_like(memory),
        begin_s=trace.first_period * trace.period_s,
        span_s=trace.n_periods * trace.period_s,
        knows_memory=has_memory,
        name=name,
    )


def requests_of(workload: Workload) -> PackingRequests:
    """Return what a workload asks for: every job, or every instance of its tasks where it has any.

    Each arrives when it was submitted and leaves when it has run for its run time.
    """
    if workload.tasks is not None:
        tasks = workload.tasks
        row = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
        start_s = workload.submit_s[tasks.job[row]]
        mcpu, memory = tasks.mcpu[row], tasks.mem_bytes[row]
        runtime_s, has_memory = tasks.runtime_s[row], bool((tasks.mem_bytes > 0).any())
    else:
        start_s, runtime_s = workload.submit_s, workload.runtime_s
        per_proc = workload.mem_bytes_per_proc
        mcpu, memory = workload.procs * 1000, per_proc * workload.procs
        has_memory = bool((per_proc != UNKNOWN).all())
    return PackingRequests(
        start_s=start_s,
        end_s=start_s + runtime_s,
        mcpu=mcpu,
        mem_bytes=memory if has_memory else np.zeros_like(memory),
        begin_s=0.0,
        span_s=max(workload.span_s, 1.0),
        knows_memory=has_memory,
        name=workload.name,
    )


@dataclass(frozen=True, eq=False)
class PackingResults:
    """What was allocated at the first failure, by tuple; NaN where every job found room.

    Attributes:
        cpu: float64 [n_tuples], share of all cores.
        memory: float64 [n_tuples], share of all memory; 0 if packed by cores only.
        algorithm: name of the rule of each.
    """

    cpu: Floats
    memory: Floats
    algorithm: tuple[str, ...]

    def of(self, algorithm: str | None) -> "PackingSummary":
        """Return the summary of one rule, or of all (None)."""
        is_selected = np.array([algorithm in (None, name) for name in self.algorithm], dtype=bool)
        failed = is_selected & ~np.isnan(self.cpu)
        cpu, memory = self.cpu[failed], self.memory[failed]
        limiting, n = np.maximum(cpu, memory), int(failed.sum())
        return PackingSummary(
            n_tuples=int(is_selected.sum()),
            n_failed=n,
            median=float(np.median(limiting)) if n else None,
            above=float((limiting > FULL).mean()) if n else None,
            cpu_limited=float((cpu > memory).mean()) if n else None,
        )


@dataclass(frozen=True)
class PackingSummary:
    """What packings have in common; shares are None where none failed.

    Attributes:
        n_tuples: how many were tried.
        n_failed: in how many a job found no room; the others tell nothing.
        median: of the share of the limiting resource.
        above: share of the packings in which that is more than `FULL`.
        cpu_limited: share of the packings in which more of the cores is allocated than of the
            memory.
    """

    n_tuples: int
    n_failed: int
    median: float | None
    above: float | None
    cpu_limited: float | None


def pack(
    requests: PackingRequests,
    tuples: Iterable[SchedulingTuple],
    *,
    departures: bool = True,
    by_memory: bool = True,
    interpreted: bool = False,
) -> PackingResults:
    """Pack jobs once for each tuple.

    Args:
        requests: what is packed.
        tuples: how.
        departures: whether jobs leave.
        by_memory: pack by cores and memory; otherwise by cores only.
        interpreted: run the kernel's text in Python, slowly and to the same result.

    Raises:
        WorkloadError: memory is unknown, or an algorithm makes no sense without it.
    """
    if by_memory and not requests.knows_memory:
        raise WorkloadError(
            f"{requests.name}: it is not known how much memory every job asks for; pack by cores "
            "only, with random and busiest_fit."
        )
    scheduling_tuples = tuple(tuples)
    for scheduling_tuple in scheduling_tuples:
        if not by_memory and packing_rule_named(scheduling_tuple.algorithm).needs_memory:
            raise WorkloadError(
                f"algorithm '{scheduling_tuple.algorithm}' looks at cores and memory together; packing by cores "
                "only allows random and busiest_fit."
            )
    memory = requests.mem_bytes if by_memory else np.zeros_like(requests.mem_bytes)
    end_s = requests.end_s if departures else np.full(requests.n_jobs, np.inf)
    for column in (memory, end_s):
        column.setflags(write=False)
    shares = [
        _pack_tuple(
            requests, memory, end_s, scheduling_tuple, interpreted or unavailable() is not None
        )
        for scheduling_tuple in scheduling_tuples
    ]
    both = np.array(shares, dtype=np.float64).reshape(-1, 2)
    return PackingResults(
        both[:, 0],
        both[:, 1],
        tuple(scheduling_tuple.algorithm for scheduling_tuple in scheduling_tuples),
    )


def _pack_tuple(
    requests: PackingRequests,
    memory: Ints,
    end_s: Floats,
    scheduling_tuple: SchedulingTuple,
    interpreted: bool,
) -> tuple[float, float]:
    """Return the shares of cores and memory at the first failure, NaN if there was none."""
    rule, first = (
        packing_rule_named(scheduling_tuple.algorithm),
        requests.first_job(scheduling_tuple.start),
    )
    marks = np.zeros(requests.n_jobs)
    if scheduling_tuple.algorithm == "random":
        marks[first:] = np.random.default_rng(scheduling_tuple.seed).random(requests.n_jobs - first)
    marks.setflags(write=False)
    queue = Queue(requests.start_s, end_s, requests.mcpu, memory, marks)
    rack = _rack(scheduling_tuple, requests.n_jobs)
    run: Any = rule.pack
    if interpreted:
        queue, rack = interpretable(queue), interpretable(rack)
    else:
        run = compiled(rule.pack, queue, rack, first)
    if run(queue, rack, first) == NOWHERE:
        return np.nan, np.nan
    free = (float(np.sum(rack.mcpu)), float(np.sum(rack.mem_bytes)))
    capacity = (
        float(scheduling_tuple.mcpu) * scheduling_tuple.servers,
        float(scheduling_tuple.mem_bytes) * scheduling_tuple.servers,
    )
    return 1.0 - free[0] / capacity[0], 1.0 - free[1] / capacity[1]


def _rack(scheduling_tuple: SchedulingTuple, n_jobs: int) -> Rack:
    return Rack(
        mcpu=np.full(scheduling_tuple.servers, scheduling_tuple.mcpu, dtype=np.int64),
        mem_bytes=np.full(scheduling_tuple.servers, scheduling_tuple.mem_bytes, dtype=np.int64),
        leaves_s=np.zeros(n_jobs),
        leaving=np.zeros(n_jobs, dtype=np.int64),
        server_of=np.zeros(n_jobs, dtype=np.int64),
        server_size=np.array([scheduling_tuple.mcpu, scheduling_tuple.mem_bytes], dtype=np.int64),
    )
