"""How full servers are when the first job fits nowhere: the first-failure allocation ratio (FFAR).

Bergsma et al., section 6.2. Servers are empty; jobs arrive in order from a random start, lie on one
server each and leave at their end, until one has room nowhere; then so much of the cores and of the
memory is allocated. The resource with the larger share is the one that limits. How many servers
there are, how large they are, where it begins and by which rule a job gets a server is drawn
(`sim.workloads.cloud.tuples`).

A job that is wider than an empty server is passed over: no scheduler of such servers would get it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.errors import WorkloadError
from sim.kernel.jit import compiled, unavailable
from sim.kernel.packing import NOWHERE, Queue, Rack
from sim.kernel.records import interpretable
from sim.model.batches import CloudTrace
from sim.model.workload import UNKNOWN, Workload
from sim.workloads.cloud.tuples import SchedulingTuple, packing_rule_named

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FULL = 0.95
"""Packings whose limiting resource is allocated to more than this are told apart (Table 5)."""


@dataclass(frozen=True, eq=False)
class Requests:
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


def requests_of_trace(trace: CloudTrace, rng: np.random.Generator, name: str = "jobs") -> Requests:
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
    memory = np.array([one.mem_bytes for one in trace.flavours], dtype=np.int64)[trace.flavour]
    known = bool((memory >= 0).all())
    return Requests(
        start_s=start_s,
        end_s=np.where(trace.censored == 1, np.inf, end_s),
        mcpu=np.array([one.mcpu for one in trace.flavours], dtype=np.int64)[trace.flavour],
        mem_bytes=memory if known else np.zeros_like(memory),
        begin_s=trace.first_period * trace.period_s,
        span_s=trace.n_periods * trace.period_s,
        knows_memory=known,
        name=name,
    )


def requests_of(workload: Workload) -> Requests:
    """Return what a workload asks for: every job, or every instance of its tasks where it has any.

    Each arrives when it was submitted and leaves when it has run for its run time.
    """
    if workload.tasks is not None:
        tasks = workload.tasks
        row = np.repeat(np.arange(tasks.n_tasks), tasks.instances)
        start_s = workload.submit_s[tasks.job[row]]
        mcpu, memory = tasks.mcpu[row], tasks.mem_bytes[row]
        runtime_s, known = tasks.runtime_s[row], bool((tasks.mem_bytes > 0).any())
    else:
        start_s, runtime_s = workload.submit_s, workload.runtime_s
        per_proc = workload.mem_bytes_per_proc
        mcpu, memory = workload.procs * 1000, per_proc * workload.procs
        known = bool((per_proc != UNKNOWN).all())
    return Requests(
        start_s=start_s,
        end_s=start_s + runtime_s,
        mcpu=mcpu,
        mem_bytes=memory if known else np.zeros_like(memory),
        begin_s=0.0,
        span_s=max(workload.span_s, 1.0),
        knows_memory=known,
        name=workload.name,
    )


@dataclass(frozen=True, eq=False)
class Packings:
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
        wanted = np.array([algorithm in (None, name) for name in self.algorithm], dtype=bool)
        failed = wanted & ~np.isnan(self.cpu)
        cpu, memory = self.cpu[failed], self.memory[failed]
        limiting, n = np.maximum(cpu, memory), int(failed.sum())
        return PackingSummary(
            n_tuples=int(wanted.sum()),
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
    requests: Requests,
    tuples: Iterable[SchedulingTuple],
    *,
    departures: bool = True,
    by_memory: bool = True,
    interpreted: bool = False,
) -> Packings:
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
    told = tuple(tuples)
    for one in told:
        if not by_memory and packing_rule_named(one.algorithm).needs_memory:
            raise WorkloadError(
                f"algorithm '{one.algorithm}' looks at cores and memory together; packing by cores "
                "only allows random and busiest_fit."
            )
    memory = requests.mem_bytes if by_memory else np.zeros_like(requests.mem_bytes)
    end_s = requests.end_s if departures else np.full(requests.n_jobs, np.inf)
    for column in (memory, end_s):
        column.setflags(write=False)
    shares = [
        _packed(requests, memory, end_s, one, interpreted or unavailable() is not None)
        for one in told
    ]
    both = np.array(shares, dtype=np.float64).reshape(-1, 2)
    return Packings(both[:, 0], both[:, 1], tuple(one.algorithm for one in told))


def _packed(
    requests: Requests, memory: Ints, end_s: Floats, one: SchedulingTuple, interpreted: bool
) -> tuple[float, float]:
    """Return the shares of cores and memory at the first failure, NaN if there was none."""
    rule, first = packing_rule_named(one.algorithm), requests.first_job(one.start)
    marks = np.zeros(requests.n_jobs)
    if one.algorithm == "random":
        marks[first:] = np.random.default_rng(one.seed).random(requests.n_jobs - first)
    marks.setflags(write=False)
    queue = Queue(requests.start_s, end_s, requests.mcpu, memory, marks)
    rack = _rack(one, requests.n_jobs)
    run: Any = rule.pack
    if interpreted:
        queue, rack = interpretable(queue), interpretable(rack)
    else:
        run = compiled(rule.pack, queue, rack, first)
    if run(queue, rack, first) == NOWHERE:
        return np.nan, np.nan
    free = (float(np.sum(rack.mcpu)), float(np.sum(rack.mem_bytes)))
    whole = (float(one.mcpu) * one.servers, float(one.mem_bytes) * one.servers)
    return 1.0 - free[0] / whole[0], 1.0 - free[1] / whole[1]


def _rack(one: SchedulingTuple, n_jobs: int) -> Rack:
    return Rack(
        mcpu=np.full(one.servers, one.mcpu, dtype=np.int64),
        mem_bytes=np.full(one.servers, one.mem_bytes, dtype=np.int64),
        leaves_s=np.zeros(n_jobs),
        leaving=np.zeros(n_jobs, dtype=np.int64),
        server_of=np.zeros(n_jobs, dtype=np.int64),
        whole=np.array([one.mcpu, one.mem_bytes], dtype=np.int64),
    )
