"""How a window and what is foreseen of it pack onto servers, for the report (section 6.2).

The same scheduling tuples serve the real window and all generated ones. Their ranges follow the
paper's rule: cores and memory each limit in about half of the packings of what is learnt from, here
of its last part that is as long as the window foreseen. The usual ranges are kept where they do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim.workloads.cloud.lifetimes import draw_lifetimes, fit_lifetimes
from sim.workloads.cloud.packing import Packings, PackingSummary, Requests, pack
from sim.workloads.cloud.report_windows import Jobs, Windows, generated_jobs
from sim.workloads.cloud.tuples import (
    GIB,
    PACKING_RULES,
    SchedulingTuple,
    TupleRanges,
    draw_tuples,
)

PROBES = 80
"""Packings by which ranges are chosen."""

MOSTLY = 0.9
"""Of the packings find no room for a job, where ranges suit."""

WIDE = 0.01
"""Of the jobs may be wider than the smallest server."""

HALF = (0.3, 0.7)
"""Shares limited by cores that count as about half: with 80 packings one more or less by chance."""

TRIES = 6

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PackedWindow:
    """What became of a window, or of the windows of a generator.

    Attributes:
        name: ``real``, or of the generator.
        every: of all packings.
        by_algorithm: by the names of the rules.
        cpu: share of all cores that is allocated at the first failure, by tuple; None where every
            job found room.
        memory: likewise.
    """

    name: str
    every: PackingSummary
    by_algorithm: dict[str, PackingSummary]
    cpu: tuple[float | None, ...]
    memory: tuple[float | None, ...]

    @classmethod
    def of(cls, name: str, told: Packings) -> "PackedWindow":
        """Return what packings say."""
        rules = [rule.name for rule in PACKING_RULES if rule.name in told.algorithm]
        return cls(
            name, told.of(None), {rule: told.of(rule) for rule in rules}, _known(told.cpu),
            _known(told.memory),
        )  # fmt: skip


@dataclass(frozen=True)
class PackedReport:
    """How the real window and generated ones pack.

    Attributes:
        skipped: one sentence that says why nothing was packed; None if it was.
        ranges: that tuples are drawn from.
        tuples: of all windows.
        windows: the real one, and by generator.
    """

    skipped: str | None
    ranges: TupleRanges | None = None
    tuples: tuple[SchedulingTuple, ...] = ()
    windows: tuple[PackedWindow, ...] = ()


def requests_of_jobs(jobs: Jobs, span_s: float, begin_s: float = 0.0) -> Requests:
    """Return what the jobs of a window ask for, from `begin_s` on.

    Args:
        jobs: whose memory is known.
        span_s: length of the window.
        begin_s: jobs that began before are left out.
    """
    kept = jobs.start_s >= begin_s
    end_s = np.where(jobs.ended, jobs.start_s + jobs.lived_s, np.inf)
    return Requests(
        start_s=jobs.start_s[kept], end_s=end_s[kept], mcpu=jobs.procs[kept] * 1000,
        mem_bytes=jobs.mem_bytes[kept], begin_s=begin_s, span_s=span_s - begin_s,
    )  # fmt: skip


def packing_plan(windows: Windows, n: int, seed: int) -> PackedReport:
    """Choose ranges, draw tuples and pack the real window by them.

    Args:
        windows: both.
        n: packings; 0 packs nothing.
        seed: of the tuples.
    """
    reason = _refusal(windows, n)
    if reason is not None:
        return PackedReport(reason)
    ranges = suited_ranges(_taught(windows))
    if ranges is None:
        return PackedReport(
            f"Nothing is packed: of {windows.names[0]} so little is asked for at once that even "
            "one server is hardly ever too small."
        )
    tuples = draw_tuples(n, seed, ranges)
    test = windows.test
    real = pack(requests_of_jobs(windows.jobs, test.n_periods * test.period_s), tuples)
    if np.isnan(real.cpu).all():
        return PackedReport(
            f"Nothing is packed: on servers that {windows.names[0]} fills, every job of "
            f"{windows.names[1]} finds room."
        )
    return PackedReport(None, ranges, tuples, (PackedWindow.of("real", real),))


def _refusal(windows: Windows, n: int) -> str | None:
    if n == 0:
        return "Nothing is packed: no packings were asked for."
    if windows.examples.tasks is not None:
        return (
            "Nothing is packed: jobs consist of tasks here; `copperline workload pack` packs them "
            "instance by instance."
        )
    for name, memory in zip(
        windows.names, (windows.examples.mem_bytes_per_proc, windows.jobs.mem_bytes), strict=True
    ):
        if (memory < 0).any() or not memory.any():
            return (
                f"Nothing is packed: {name} does not tell how much memory every job asks for; "
                "`copperline workload pack --cores-only` packs by cores."
            )
    return None


def _taught(windows: Windows) -> Requests:
    """Return what is learnt from as requests: its last part, as long as the window foreseen."""
    train, rng = windows.train, np.random.default_rng(0)
    if not train.knows_lifetimes:
        law = fit_lifetimes(windows.lived)
        lived = draw_lifetimes(law, train.flavour, train.batch, len(train.flavours), rng)
        train = replace(train, lifetime=lived, censored=np.zeros_like(lived))
    jobs = generated_jobs(train, windows.examples, rng, rng)
    n_left_out = max(train.n_periods - windows.test.n_periods, 0)
    return requests_of_jobs(jobs, train.n_periods * train.period_s, n_left_out * train.period_s)


def suited_ranges(taught: Requests) -> TupleRanges | None:
    """Return ranges by which cores and memory each limit in about half of the packings.

    Servers of the usual ranges if they do, in nine packings of ten, and hardly a job is too wide
    for them. Otherwise servers have 2 to 6 times the cores that 99 of 100 jobs do with, and are so
    many that together they have up to half of the peak of the demand, or fewer until they fill;
    memory is what jobs ask for by the core, made more or less until each limits about as often.

    Args:
        taught: what is learnt from; memory is known.

    Returns:
        None if even single servers are not filled in half of the packings.
    """
    usual = TupleRanges()
    if float((taught.mcpu > usual.cores[0] * 1000).mean()) <= WIDE:
        told = _probed(taught, usual)
        if told.n_failed >= MOSTLY * PROBES and _is_half(told):
            return usual
    least = 2 * max(1, int(np.ceil(np.quantile(taught.mcpu, 0.99) / 1000)))
    cores = (least, 3 * least)
    for most in _halved(int(_peak(taught) / 2 / (2000 * least))):
        ranges, told = _balanced(taught, (max(1, most // 5), most), cores)
        if told.n_failed >= MOSTLY * PROBES or (most == 1 and told.n_failed >= PROBES / 2):
            return ranges
    return None


def _halved(most: int) -> Iterator[int]:
    most = min(max(most, 1), 10_000)
    while most > 1:
        yield most
        most //= 2
    yield 1


def _balanced(
    taught: Requests, servers: tuple[int, int], cores: tuple[int, int]
) -> tuple[TupleRanges, PackingSummary]:
    """Return ranges of memory by which cores limit in the share nearest to half of the packings."""
    lived_s = np.minimum(taught.end_s, taught.begin_s + taught.span_s) - taught.start_s
    lived_s = np.maximum(lived_s, 1.0)
    per_core = float(taught.mem_bytes @ lived_s) / float(taught.mcpu @ lived_s) * 1000.0 / GIB
    low, high = -2.0, 2.0
    best: tuple[float, TupleRanges, PackingSummary] | None = None
    for _ in range(TRIES):
        factor = (low + high) / 2.0
        middle = max(per_core * 2.0**factor, 0.0015)
        ranges = TupleRanges(servers, cores, (2.0 * middle / 3.0, 4.0 * middle / 3.0))
        told = _probed(taught, ranges)
        by_cores = 0.0 if told.cpu_limited is None else told.cpu_limited
        if best is None or abs(by_cores - 0.5) < best[0]:
            best = (abs(by_cores - 0.5), ranges, told)
        if _is_half(told) and best[0] <= 0.1:
            break
        low, high = (low, factor) if by_cores > 0.5 else (factor, high)
    assert best is not None  # noqa: S101 - there is a try or more
    return best[1], best[2]


def _probed(taught: Requests, ranges: TupleRanges) -> PackingSummary:
    return pack(taught, draw_tuples(PROBES, 0, ranges)).of(None)


def _is_half(told: PackingSummary) -> bool:
    return told.cpu_limited is not None and HALF[0] <= told.cpu_limited <= HALF[1]


def _peak(taught: Requests) -> float:
    """Return the most thousandths of a core that are asked for at once."""
    at_s = np.concatenate([taught.end_s, taught.start_s])  # who leaves makes room first
    change = np.concatenate([-taught.mcpu, taught.mcpu])
    return float(np.cumsum(change[np.argsort(at_s, kind="stable")]).max())


@dataclass(eq=False)
class Packer:
    """Packs the windows of a generator, which take turns with the tuples.

    Attributes:
        name: of the generator.
        tuples: of all windows; none packs nothing.
        n_windows: how many windows come.
        cpu: float64 [n_tuples], grows by every window; `memory` likewise.
        memory: see above.
    """

    name: str
    tuples: tuple[SchedulingTuple, ...]
    n_windows: int
    cpu: Floats
    memory: Floats

    @classmethod
    def of(cls, name: str, plan: PackedReport, n_windows: int) -> "Packer":
        """Return one that has packed nothing."""
        n = len(plan.tuples)
        return cls(name, plan.tuples, n_windows, np.full(n, np.nan), np.full(n, np.nan))

    def add(self, place: int, jobs: Jobs, span_s: float) -> None:
        """Pack a window by its share of the tuples."""
        turn = slice(place, None, self.n_windows)
        if self.tuples[turn]:
            told = pack(requests_of_jobs(jobs, span_s), self.tuples[turn])
            self.cpu[turn], self.memory[turn] = told.cpu, told.memory

    def packed(self) -> PackedWindow | None:
        """Return what became of all windows; None if nothing is packed."""
        if not self.tuples:
            return None
        names = tuple(one.algorithm for one in self.tuples)
        return PackedWindow.of(self.name, Packings(self.cpu, self.memory, names))


def _known(shares: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(one) else float(one) for one in shares)
