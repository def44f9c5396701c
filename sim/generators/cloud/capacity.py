"""Capacity planning: the number of servers that generated futures of a workload need.

Bergsma et al., section 6.1. The fluid requirement has the processors (and the memory) of the peak
demand, which no placement can undercut. The packed one places jobs by first fit. First fit with
unlimited servers uses the first k of them and decides as with k servers; with fewer it rejects the
first job that would have used a further one. So one simulation gives the minimum, without a search.

Over many futures the answer is the smallest number that suffices in a share of them. Its interval
is that of a quantile by order statistics, for any distribution (David and Nagaraja, Order
Statistics, 2003, section 7.1). Demand is compared with the 90 % band of many generated windows.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.engines import run
from sim.generators.cloud.batches import clock_of
from sim.generators.generator import Model, generate
from sim.model.cloud_trace import CloudTrace
from sim.model.cluster import ClusterSpec, MachineSpec, Partition
from sim.model.columns import count_text
from sim.model.errors import WorkloadError
from sim.model.scenario import Scenario
from sim.model.tasks import Tasks
from sim.model.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class QuantileBand:
    """Low, median and high quantile of the cores in use per period: float64 [n_periods] each."""

    low: Floats
    median: Floats
    high: Floats

    @property
    def mean_width(self) -> float:
        """Mean width of the band in cores."""
        return float((self.high - self.low).mean())

    def covers(self, cores: Floats) -> float:
        """Return the share of periods whose cores in use lie within the band."""
        return float(((cores >= self.low) & (cores <= self.high)).mean())

    def interval_score(self, cores: Floats, share: float = 0.9) -> float:
        """Return the mean interval score (Gneiting and Raftery, JASA 102, 2007, section 6.2).

        It is the width, plus the distance of values outside times 2 / (1 - share); less is better.
        """
        outside = np.maximum(self.low - cores, 0.0) + np.maximum(cores - self.high, 0.0)
        return float((self.high - self.low + 2.0 / (1.0 - share) * outside).mean())


def cores_in_use(trace: CloudTrace, rng: np.random.Generator) -> Floats:
    """Return the cores of running jobs in each period of the window: float64 [n_periods].

    Censored jobs live to the end of the window. Jobs from before the window are unknown here. The
    generator `rng` draws lifetimes within their bins.
    """
    cores = np.array([flavour.mcpu for flavour in trace.flavours])[trace.flavour] / 1000.0
    lived = np.ceil(trace.bins.seconds(trace.lifetime, rng) / trace.period_s).astype(np.int64)
    begin = trace.period - trace.first_period
    stop = np.where(trace.censored == 1, trace.n_periods, begin + lived)
    change = np.bincount(begin, cores, trace.n_periods + 1).astype(np.float64)
    change -= np.bincount(np.minimum(stop, trace.n_periods), cores, trace.n_periods + 1)
    used: Floats = np.cumsum(change)[: trace.n_periods]
    return used


def band_of(futures: Iterable[Floats], share: float = 0.9) -> QuantileBand:
    """Return the band that contains this share of the futures' cores in use in each period."""
    low, median, high = np.quantile(
        np.stack(list(futures)), (0.5 - share / 2, 0.5, 0.5 + share / 2), axis=0
    )
    return QuantileBand(low, median, high)


LEVEL = 0.95  # of the interval of an answer

MOST_CORES, MOST_BYTES = 2**20, 2**53

CAPACITY_DEFINITIONS: dict[str, str] = {
    "servers": "Smallest number of servers that suffices in the required share of the generated "
    "futures, at every moment of the days.",
    "fluid": "Peak of the processors (and of the memory, if servers have a limit) of all jobs that "
    "live at once without waiting, divided by those of a server. No placement needs fewer servers.",
    "first fit": "Servers in use during the days, if each job, in order of submission, goes to the "
    "first server with room. With fewer servers, first fit rejects a job. A job that is wider than "
    "a server takes whole servers and a rest.",
    "interval": f"{100 * LEVEL:g} % interval, by order statistics over the futures. It has no "
    "upper bound if there are too few futures.",
    "scale": "Factor on the rate of arrivals. Each scale is drawn again with the same seeds; with "
    "few futures, a larger scale may need fewer servers by chance.",
    "warm-up": "Days that are generated before the counted days, because a future begins empty. "
    "Jobs that live longer are missing at the start; their share of the demand is reported.",
}  # meanings of all values, for people


@dataclass(frozen=True)
class ServerSize:
    """Cores and memory of a server.

    Attributes:
        mem_bytes: bytes, or None without memory limits.

    Raises:
        WorkloadError: a number out of range.
    """

    cores: int
    mem_bytes: int | None = None

    def __post_init__(self) -> None:
        for name, value, most in (
            ("cores", self.cores, MOST_CORES), ("mem_bytes", self.mem_bytes, MOST_BYTES),
        ):  # fmt: skip
            if value is None and name == "mem_bytes":
                continue
            if type(value) is not int or not 1 <= value <= most:
                raise WorkloadError(
                    f"{name} of a server is {count_text(value)}; allowed are whole numbers from 1 "
                    f"to {most:,}."
                )


@dataclass(frozen=True)
class ServerRequirement:
    """Number of servers that the generated futures of a workload need, with its interval.

    Attributes:
        servers: number that suffices in the requested share of the futures.
        low, high: its interval; `high` is None if there are too few futures.
        median, most: median and maximum over the futures.
        each: number of every future, in order of the seeds.
    """

    servers: int
    low: int
    high: int | None
    median: int
    most: int
    each: tuple[int, ...]

    @classmethod
    def of(cls, each: Sequence[int], share: float) -> "ServerRequirement":
        """Build a requirement from each future's number of servers and the share to satisfy.

        Raises:
            WorkloadError: no future, or a share out of range.
        """
        if not each or not 0.0 < share <= 1.0:
            raise WorkloadError(
                f"share is {share:g} of {len(each)} futures; allowed are shares above 0 to 1 of 1 "
                "future or more."
            )
        from scipy.stats import binom

        ordered = sorted(each)
        n = len(ordered)
        tail = (1.0 - LEVEL) / 2.0
        first = max(int(binom.ppf(tail, n, share)), 1)
        last = int(binom.ppf(1.0 - tail, n, share)) + 1
        high = ordered[last - 1] if last <= n else None
        return cls(
            ordered[_place(n, share)], ordered[first - 1], high, ordered[_place(n, 0.5)],
            ordered[-1], tuple(each),
        )  # fmt: skip

    def suffice(self) -> list[tuple[int, float]]:
        """Return increasing numbers of servers, each with the share of futures it suffices for."""
        numbers, counts = np.unique(self.each, return_counts=True)
        shares = np.cumsum(counts) / len(self.each)
        return list(zip(numbers.tolist(), shares.tolist(), strict=True))


def _place(n: int, share: float) -> int:
    return max(math.ceil(share * n - 1e-9), 1) - 1


@dataclass(frozen=True)
class CapacityCase:
    """A what-if scenario of future demand, with the number of servers it needs.

    Attributes:
        scale: factor on the rate of arrivals.
        settings: parameters of the model with other values.
        missing: share of the demand that is missing at the begin because the warm-up is too short.
        fluid: see `DEFINITIONS`.
        packed: requirement by first fit, or None.
    """

    name: str
    scale: float
    settings: Mapping[str, Any]
    jobs: float
    missing: float
    fluid: ServerRequirement
    packed: ServerRequirement | None


@dataclass(frozen=True)
class CapacityPlan:
    """Numbers of servers that suffice for future demand, for one or more scenarios.

    Attributes:
        warm_up_days: days generated before these.
        share: share of the futures in which the servers suffice.
        seed: seed of the first future; further futures have the next ones.
    """

    generator: str
    source: str
    server: ServerSize
    days: float
    warm_up_days: float
    futures: int
    share: float
    seed: int
    cases: tuple[CapacityCase, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready dictionaries, lists, texts and numbers."""
        return {**asdict(self), "definitions": CAPACITY_DEFINITIONS}


def check_countable(workload: Workload, server: ServerSize) -> None:
    """Raise `WorkloadError` if the servers that the jobs need cannot be counted.

    Raises:
        WorkloadError: jobs consist of tasks, have unknown memory, or need more memory per
            processor than a server has.
    """
    if workload.tasks is not None:
        raise WorkloadError(
            f"the jobs of {workload.name} consist of tasks with their own resources; capacity "
            "is planned for jobs that request processors. Place them with copperline simulate."
        )
    if server.mem_bytes is None:
        return
    if (workload.mem_bytes_per_proc < 0).any():
        raise WorkloadError(
            f"jobs of {workload.name} have no known memory; leave out the memory of servers."
        )
    most = int(workload.mem_bytes_per_proc.max())
    if most > server.mem_bytes:
        raise WorkloadError(
            f"a job of {workload.name} needs {most:,} bytes for each processor, and a server has "
            f"{server.mem_bytes:,}."
        )


def peak(start_s: Floats, stop_s: Floats, amount: Ints, begin_s: float, end_s: float) -> int:
    """Return the largest amount in use at any moment between `begin_s` and `end_s`.

    Arrays have shape [n]; ends are exclusive.
    """
    start, stop = np.maximum(start_s, begin_s), np.minimum(stop_s, end_s)
    there = start < stop
    if not there.any():
        return 0
    moment = np.concatenate([stop[there], start[there]])
    change = np.concatenate([-amount[there], amount[there]])
    order = np.argsort(moment, kind="stable")  # ends come before begins at the same time
    return int(np.cumsum(change[order]).max())


def fluid_servers(workload: Workload, server: ServerSize, begin_s: float, end_s: float) -> int:
    """Return a lower bound on the number of servers for a workload under any placement.

    Times `begin_s` and `end_s` count from the first submission.
    """
    start, stop = workload.submit_s, workload.submit_s + workload.runtime_s
    needed = -(-peak(start, stop, workload.procs, begin_s, end_s) // server.cores)
    if server.mem_bytes is not None:
        memory = workload.procs * workload.mem_bytes_per_proc
        needed = max(needed, -(-peak(start, stop, memory, begin_s, end_s) // server.mem_bytes))
    return int(needed)


def missing_share(workload: Workload, warm_up_s: float) -> float:
    """Return the share of the steady-state demand that a warm-up from an empty system misses.

    It is the share of processor-seconds of jobs after they have lived that long.
    """
    every = float(workload.procs @ workload.runtime_s)
    later = float(workload.procs @ np.maximum(workload.runtime_s - warm_up_s, 0.0))
    return later / every if every > 0 else 0.0


def placement_units(workload: Workload, server: ServerSize) -> tuple[Ints, Ints, Ints, Ints]:
    """Split jobs into pieces that fit on a server: wide jobs into whole servers and a remainder.

    Returns:
        int64 [n_pieces] each: row of the job, number of equal pieces, processors and memory of one
            (0 without memory limits).
    """
    procs = workload.procs
    wide = np.full(workload.n_jobs, server.cores, dtype=np.int64)
    per_proc = np.zeros(workload.n_jobs, dtype=np.int64)
    if server.mem_bytes is not None:
        per_proc = workload.mem_bytes_per_proc
        wide = np.minimum(wide, server.mem_bytes // np.maximum(per_proc, 1))
    n_full, rest = procs // wide, procs % wide
    job = np.concatenate([np.flatnonzero(n_full > 0), np.flatnonzero(rest > 0)])
    n = int((n_full > 0).sum())
    alike = np.concatenate([n_full[job[:n]], np.ones(len(job) - n, dtype=np.int64)])
    cores = np.concatenate([wide[job[:n]], rest[job[n:]]])
    order = np.argsort(job, kind="stable")
    job, alike, cores = job[order], alike[order], cores[order]
    return job, alike, cores, cores * per_proc[job]


DAY_S = 86_400.0
MAX_WARM_UP_DAYS = 7

MAX_MISSING_SHARE = 0.01  # Share of the demand that may be missing after the automatic warm-up

MOST_FUTURES = 100_000

PlanningProgress = Callable[[str, int, int], None]


def first_fit_servers(workload: Workload, server: ServerSize, begin_s: float, end_s: float) -> int:
    """Return the number of servers that first fit needs between `begin_s` and `end_s`.

    Both are seconds since the first submission. Jobs are placed from the first on; jobs after the
    end are not placed.
    """
    is_counted = (workload.runtime_s > 0) & (workload.submit_s < end_s)
    if not is_counted.any():
        return 0
    job, alike, cores, memory = placement_units(workload, server)
    there = is_counted[job]
    row = (np.cumsum(is_counted) - 1)[job[there]]
    tasks = Tasks.from_arrays(
        job=row, runtime_s=workload.runtime_s[job[there]], instances=alike[there],
        mcpu=cores[there] * 1000, mem_bytes=memory[there],
    )  # fmt: skip
    # Times count from the first remaining job, as in every workload.
    submit_s = workload.submit_s[is_counted]
    jobs = Workload.from_arrays(
        submit_s=submit_s, runtime_s=workload.runtime_s[is_counted],
        procs=np.ones(int(is_counted.sum()), dtype=np.int64), tasks=tasks,
    )  # fmt: skip
    n_servers = 2 * fluid_servers(workload, server, 0.0, end_s) + 16
    most = int(alike[there].sum())
    while True:
        n_servers = min(n_servers, most)
        spec = MachineSpec("server", server.cores, n_servers, server.mem_bytes)
        cluster = ClusterSpec((Partition.of_machines("servers", (spec,)),))
        scenario = Scenario(
            jobs, cluster, "fcfs", "none", allocation="instances", placement="first_fit"
        )
        instances = run(scenario, "auto", monitor=False).instances
        assert instances is not None  # noqa: S101 - that is what was asked for
        submitted_s = np.repeat(jobs.submit_s[tasks.job], tasks.instances)
        if (instances.start_s <= submitted_s).all() or n_servers == most:
            break
        n_servers *= 2
    first_s = float(submit_s[0])
    there_then = (instances.end_s + first_s > begin_s) & (instances.start_s + first_s < end_s)
    return int(instances.machine[there_then].max()) + 1 if there_then.any() else 0


def plan_capacity(
    model: Model,
    server: ServerSize,
    *,
    days: float,
    futures: int = 200,
    share: float = 0.95,
    scales: Sequence[float] = (1.0,),
    suppositions: Sequence[tuple[str, Model, Mapping[str, Any]]] = (),
    warm_up_days: float | None = None,
    packed: bool = True,
    seed: int = 0,
    progress: PlanningProgress | None = None,
) -> CapacityPlan:
    """Return how many servers suffice in a given share of the futures drawn from a model.

    Every case is drawn with the same seeds, so that differences between cases are not chance.

    Args:
        model: model that draws the futures.
        server: size of each server.
        days: days for which the servers should suffice.
        futures: number of futures for each case, 1 or more.
        share: share of the futures in which they suffice, above 0 to 1.
        scales: factors on the rate of arrivals, one case each.
        suppositions: what-if cases: name, model with other settings, and these settings; each with
            all scales.
        warm_up_days: days generated before the days that count; None takes as many (at most
            `MAX_WARM_UP_DAYS`) as reduce the missing demand to `MAX_MISSING_SHARE`.
        packed: whether jobs are also placed by first fit.
        seed: seed of the first future, from 0.
        progress: callback during the work; it may raise to end it.

    Raises:
        WorkloadError: an impossible number, or jobs that cannot be placed on the servers.
    """
    if not (np.isfinite(days) and days > 0) or not 1 <= futures <= MOST_FUTURES:
        raise WorkloadError(
            f"{futures:,} futures of {days:g} days; allowed are 1 to {MOST_FUTURES:,} futures of "
            "more than 0 days."
        )
    if not 0.0 < share <= 1.0:
        raise WorkloadError(f"share is {share:g}; allowed are numbers above 0 and at most 1.")
    if warm_up_days is not None and not (np.isfinite(warm_up_days) and warm_up_days >= 0):
        raise WorkloadError(f"the warm-up is {warm_up_days:g} days; allowed are numbers from 0.")
    if not scales:
        raise WorkloadError("there is no scale; give one or more, such as 1.")
    say = progress or _silent
    pilot = generate(model, duration_s=days * DAY_S, seed=seed, scale=float(scales[0]))
    check_countable(pilot, server)
    warm_up = float(warm_up_days) if warm_up_days is not None else _warm_up(pilot)
    cases = []
    for name, supposed, settings in (("as it is", model, {}), *suppositions):
        for scale in scales:
            label = f"{name}, {scale:g} times the arrivals" if scale != 1.0 else name
            counts = _case(
                supposed, server, days, warm_up, futures, float(scale), packed, seed,
                partial(_in_case, say, label, futures),
            )  # fmt: skip
            jobs, missing, fluid, by_first_fit = counts
            cases.append(
                CapacityCase(
                    label, float(scale), dict(settings), jobs, missing,
                    ServerRequirement.of(fluid, share),
                    ServerRequirement.of(by_first_fit, share) if packed else None,
                )
            )  # fmt: skip
    return CapacityPlan(
        model.generator, model.source, server, float(days), warm_up, futures, share, seed,
        tuple(cases),
    )  # fmt: skip


def _silent(_what: str, _done: int, _of: int) -> None:
    return None


def _in_case(say: PlanningProgress, label: str, futures: int, done: int) -> None:
    say(label, done, futures)


def _midnight_s(future: Workload) -> float:
    """Return the seconds from the midnight before a future to its first submission."""
    return float(clock_of(future)[0] % DAY_S)


def _warm_up(pilot: Workload) -> float:
    enough = (
        days
        for days in range(MAX_WARM_UP_DAYS)
        if missing_share(pilot, days * DAY_S) <= MAX_MISSING_SHARE
    )
    return float(next(enough, MAX_WARM_UP_DAYS))


def _case(
    model: Model,
    server: ServerSize,
    days: float,
    warm_up: float,
    futures: int,
    scale: float,
    packed: bool,
    seed: int,
    say: Callable[[int], None],
) -> tuple[float, float, list[int], list[int]]:
    """Return mean jobs, missing share, and servers of every future by both ways of counting."""
    fluid, by_first_fit, jobs, missing = [], [], 0.0, 0.0
    for at in range(futures):
        say(at)
        future = generate(model, duration_s=(warm_up + days) * DAY_S, seed=seed + at, scale=scale)
        check_countable(future, server)
        begin_s = warm_up * DAY_S - _midnight_s(future)
        end_s = begin_s + days * DAY_S
        fluid.append(fluid_servers(future, server, begin_s, end_s))
        if packed:
            by_first_fit.append(first_fit_servers(future, server, begin_s, end_s))
        jobs += float((future.submit_s >= begin_s).sum()) / futures
        missing += missing_share(future, warm_up * DAY_S) / futures
    say(futures)
    return jobs, missing, fluid, by_first_fit
