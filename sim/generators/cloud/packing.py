"""Packing of jobs onto empty servers until one fits nowhere: the allocation ratio FFAR.

Bergsma et al., section 6.2: jobs arrive in order from a random start, lie on one server each and
leave at their end, until one fits nowhere; the result is the allocated share of cores and memory,
of which the larger one limits. A job that is wider than an empty server is skipped. Start, servers
and packing rule are scheduling tuples; the authors draw 500 per trace and do not publish them,
ours come from a seed and published ranges, and from files. Free and requested resources are shares
of a whole server; of equal servers the first is taken:

- ``random``: any server with room, each with equal probability;
- ``busiest_fit``: the one with the least free, cores plus memory;
- ``cosine``: the one whose free resources have the smallest angle to the request (the alignment of
  Grandl et al., Multi-resource packing for cluster schedulers, SIGCOMM 2014, section 3.2, divided
  by both lengths);
- ``delta_perp_distance``: the one where the job adds least to the distance of (used cores, used
  memory) from the diagonal (named by Ke et al., Fundy, IEEE Cloud 2021; our reading of the name).
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.kernel import bin_packing as text
from sim.kernel.bin_packing import NOWHERE, Queue, Rack
from sim.kernel.jit import bound, compiled, unavailable
from sim.kernel.records import interpretable
from sim.model.cloud_trace import CloudTrace
from sim.model.errors import TraceError, UnknownNameError, WorkloadError, entry_named
from sim.model.files import write_atomically
from sim.model.workload import UNKNOWN, Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


Pack = Callable[[Queue, Rack, int], int]

GIB = 2**30
MOST_BYTES = 2**26


@dataclass(frozen=True)
class PackingRule:
    """A rule that selects a server with enough free capacity for a job.

    Attributes:
        pack: kernel function, see `sim.kernel.bin_packing.pack`.
        needs_memory: whether the rule needs known memory.
        draws: whether the rule uses a random mark of each job.
    """

    name: str
    summary: str
    pack: Pack
    needs_memory: bool = False
    draws: bool = False


def _least(name: str, cost: Callable[..., float]) -> Pack:
    return bound(text.pack, name, choose=bound(text.choose, name, cost=cost))


PACKING_RULES: tuple[PackingRule, ...] = (
    PackingRule(
        "random",
        "any server with room",
        bound(text.pack, "random", choose=text.at_random),
        draws=True,
    ),
    PackingRule("busiest_fit", "the fullest server with room", text.pack),
    PackingRule(
        "cosine", "the server with free resources like the job", _least("cosine", text.angle), True
    ),
    PackingRule(
        "delta_perp_distance",
        "the server whose use becomes least uneven",
        _least("perp", text.off_diagonal),
        True,
    ),
)


def packing_rule_named(name: str) -> PackingRule:
    """Return the packing rule with this name, or raise `UnknownNameError`."""
    return entry_named("packing algorithm", name, PACKING_RULES)


@dataclass(frozen=True)
class SchedulingTuple:
    """Settings of one packing run: start in the window, number and size of servers, and rule.

    Attributes:
        start: start, as a share of the window from 0 up to 1.
        servers: number of servers, from 1.
        mcpu: thousandths of a core of each, from 1.
        mem_bytes: memory of each, from 1.
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
                f"a scheduling tuple needs a start from 0 up to 1, servers, cores and memory above "
                f"0 and a seed from 0; given: {self.start}, {sizes} and {self.seed}."
            )


COLUMNS = tuple(column.name for column in fields(SchedulingTuple))
LONGEST = 15


@dataclass(frozen=True)
class TupleRanges:
    """Ranges from which scheduling tuples are drawn uniformly, ends included.

    The defaults are those of our figures. By the authors' unpublished ranges, cores and memory
    each limit about half of the packings of Azure's training window. By ours, cores limit 46 %
    (with the lifetimes of the development window).

    Attributes:
        cores: whole cores of a server.
        gib_per_core: memory of a server.
        latest_start: last start, as a share of the window.
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
                    f"{name} from {low:g} to {high:g} is not a range; give two numbers from "
                    f"{least} to 1000000, the lower first."
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
    """Draw `n` scheduling tuples; a larger `n` gives the same tuples and more.

    None takes the default ranges and all rules, which are equally likely.

    Raises:
        WorkloadError: fewer than 1 tuple.
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
    """Write scheduling tuples to a CSV file, completely or not at all.

    Raises:
        WorkloadError: the file cannot be written.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(astuple(scheduling_tuple) for scheduling_tuple in tuples)
    write_atomically(path, text.getvalue(), raises=WorkloadError, parents=True)


def read_tuples(path: Path) -> tuple[SchedulingTuple, ...]:
    """Read scheduling tuples from a CSV file that `write_tuples` wrote.

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
        raise TraceError(path, expected="it is not text; scheduling tuples are CSV.") from None
    rows = list(csv.reader(lines))
    if not rows or tuple(rows[0]) != COLUMNS:
        raise TraceError(path, line=1, expected=f"the first line must be '{','.join(COLUMNS)}'.")
    tuples = [_tuple_of(path, number, row) for number, row in enumerate(rows[1:], start=2) if row]
    if not tuples:
        raise TraceError(path, expected="it contains no scheduling tuples.")
    return tuple(tuples)


def _tuple_of(path: Path, line: int, row: list[str]) -> SchedulingTuple:
    if len(row) != len(COLUMNS):
        raise TraceError(path, line=line, expected=f"a line must have {len(COLUMNS)} fields.")
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


CLOUD_FULL = 0.95  # allocated share of the limiting resource of a full server (Table 5)


@dataclass(frozen=True, eq=False)
class PackingRequests:
    """Jobs to pack onto servers in order of arrival, as read-only columns [n_jobs].

    Attributes:
        start_s: float64, never falling, seconds on any clock.
        end_s: float64, end of each; infinite if unknown.
        mcpu: int64, thousandths of a core.
        mem_bytes: int64; all 0 if `knows_memory` is not set.
        begin_s, span_s: begin and length of the window.
        knows_memory: whether the memory of every job is known.
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
        """Return the row of the first job from the share `start` of the window onwards."""
        return int(np.searchsorted(self.start_s, self.begin_s + start * self.span_s, side="left"))


def requests_of_trace(
    trace: CloudTrace, rng: np.random.Generator, name: str = "jobs"
) -> PackingRequests:
    """Convert a trace's jobs to packing requests, evenly spaced within each period.

    Censored jobs never leave; `rng` draws lifetimes within their bins.

    Raises:
        WorkloadError: lifetimes are unknown.
    """
    if not trace.knows_lifetimes:
        raise WorkloadError("the lifetimes of this trace are unknown; pack a trace with lifetimes.")
    start_s = trace.starts_s()
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
    """Convert a workload's jobs, or its task instances, to packing requests."""
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
    """Allocated shares of cores and memory, per scheduling tuple, when a job first fits nowhere.

    Attributes:
        cpu: float64 [n_tuples], share of all cores; NaN if all jobs fit.
        memory: float64 [n_tuples], share of all memory; 0 if packed by cores only.
    """

    cpu: Floats
    memory: Floats
    algorithm: tuple[str, ...]

    def of(self, algorithm: str | None) -> "PackingSummary":
        """Summarise the packings that used the rule `algorithm`, or all packings if None."""
        is_selected = np.array([algorithm in (None, name) for name in self.algorithm], dtype=bool)
        failed = is_selected & ~np.isnan(self.cpu)
        cpu, memory = self.cpu[failed], self.memory[failed]
        limiting, n = np.maximum(cpu, memory), int(failed.sum())
        return PackingSummary(
            n_tuples=int(is_selected.sum()),
            n_failed=n,
            median=float(np.median(limiting)) if n else None,
            above=float((limiting > CLOUD_FULL).mean()) if n else None,
            cpu_limited=float((cpu > memory).mean()) if n else None,
        )


@dataclass(frozen=True)
class PackingSummary:
    """Summary of packings up to the first failure; shares are None if no packing failed.

    Attributes:
        n_failed: number of packings in which a job found no room; only these count below.
        median: median share of the limiting resource.
        above: share of the packings in which that is more than `CLOUD_FULL`.
        cpu_limited: share of the packings with a larger share of cores than of memory.
    """

    n_tuples: int
    n_failed: int
    median: float | None
    above: float | None
    cpu_limited: float | None


def pack_jobs(
    requests: PackingRequests,
    tuples: Iterable[SchedulingTuple],
    *,
    departures: bool = True,
    by_memory: bool = True,
    interpreted: bool = False,
) -> PackingResults:
    """Pack jobs onto empty servers until the first failure, once for each scheduling tuple.

    Args:
        requests: jobs.
        tuples: scheduling tuples.
        departures: whether jobs leave.
        by_memory: whether to pack by cores and memory instead of cores only.
        interpreted: whether to run the kernel in Python, slowly and with the same result.

    Raises:
        WorkloadError: memory is unknown, or an algorithm needs it.
    """
    if by_memory and not requests.knows_memory:
        raise WorkloadError(
            f"{requests.name}: the memory of some jobs is unknown; pack by cores "
            "only, with random and busiest_fit."
        )
    scheduling_tuples = tuple(tuples)
    for scheduling_tuple in scheduling_tuples:
        if not by_memory and packing_rule_named(scheduling_tuple.algorithm).needs_memory:
            raise WorkloadError(
                f"algorithm '{scheduling_tuple.algorithm}' needs cores and memory together; "
                "packing by cores only allows random and busiest_fit."
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
    rule, first = (
        packing_rule_named(scheduling_tuple.algorithm),
        requests.first_job(scheduling_tuple.start),
    )
    marks = np.zeros(requests.n_jobs)
    if rule.draws:
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
