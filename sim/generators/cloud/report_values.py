"""Result types of the evaluation of cloud generators, and the packing of windows onto servers."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.generators.cloud.batches import CloudWindows, WindowJobs, generated_jobs
from sim.generators.cloud.capacity import QuantileBand
from sim.generators.cloud.lifetimes import draw_lifetimes, fit_lifetimes
from sim.generators.cloud.packing import (
    CLOUD_FULL,
    GIB,
    PACKING_RULES,
    PackingRequests,
    PackingResults,
    PackingSummary,
    SchedulingTuple,
    TupleRanges,
    draw_tuples,
    pack_jobs,
)

Floats = NDArray[np.float64]


PROBES = 80  # packings in the choice of ranges

MOSTLY = 0.9  # least share of packings with a failure in suitable ranges

WIDE = 0.01  # largest share of jobs that are wider than the smallest server

HALF = (0.3, 0.7)  # shares limited by cores that count as about half, with 80 packings

TRIES = 6


@dataclass(frozen=True)
class WindowPacking:
    """Packing results of the real window or of one generator: overall, by rule and per tuple."""

    name: str
    every: PackingSummary
    by_algorithm: dict[str, PackingSummary]
    cpu: tuple[float | None, ...]
    memory: tuple[float | None, ...]

    @classmethod
    def of(cls, name: str, packings: PackingResults) -> "WindowPacking":
        """Summarise packing results overall and for each packing rule."""
        rules = [rule.name for rule in PACKING_RULES if rule.name in packings.algorithm]
        return cls(
            name, packings.of(None), {rule: packings.of(rule) for rule in rules},
            _optional_shares(packings.cpu), _optional_shares(packings.memory),
        )  # fmt: skip


@dataclass(frozen=True)
class PackingReport:
    """Packing results of real and generated windows, or the reason for not packing."""

    skipped: str | None
    ranges: TupleRanges | None = None
    tuples: tuple[SchedulingTuple, ...] = ()
    windows: tuple[WindowPacking, ...] = ()


def requests_of_jobs(jobs: WindowJobs, span_s: float, begin_s: float = 0.0) -> PackingRequests:
    """Convert the jobs that start from `begin_s` on to packing requests; memory must be known."""
    is_selected = jobs.start_s >= begin_s
    end_s = np.where(jobs.ended, jobs.start_s + jobs.lived_s, np.inf)
    return PackingRequests(
        start_s=jobs.start_s[is_selected], end_s=end_s[is_selected],
        mcpu=jobs.procs[is_selected] * 1000, mem_bytes=jobs.mem_bytes[is_selected],
        begin_s=begin_s, span_s=span_s - begin_s,
    )  # fmt: skip


def packing_plan(windows: CloudWindows, n: int, seed: int) -> PackingReport:
    """Draw `n` scheduling tuples and pack the real window with them; n = 0 disables packing."""
    reason = _refusal(windows, n)
    if reason is not None:
        return PackingReport(reason)
    ranges = suited_ranges(_taught(windows))
    if ranges is None:
        return PackingReport(
            f"No packing: {windows.names[0]} requests so little at once that even one server is "
            "almost never too small."
        )
    tuples = draw_tuples(n, seed, ranges)
    test = windows.test
    real = pack_jobs(requests_of_jobs(windows.jobs, test.n_periods * test.period_s), tuples)
    if np.isnan(real.cpu).all():
        return PackingReport(
            f"No packing: on servers that {windows.names[0]} fills, every job of "
            f"{windows.names[1]} finds room."
        )
    return PackingReport(None, ranges, tuples, (WindowPacking.of("real", real),))


def _refusal(windows: CloudWindows, n: int) -> str | None:
    if n == 0:
        return "No packing: the number of packings is 0."
    if windows.examples.tasks is not None:
        return (
            "No packing: these jobs consist of tasks; `copperline workload pack` packs them "
            "instance by instance."
        )
    for name, memory in zip(
        windows.names, (windows.examples.mem_bytes_per_proc, windows.jobs.mem_bytes), strict=True
    ):
        if (memory < 0).any() or not memory.any():
            return (
                f"No packing: {name} does not give the memory request of every job; "
                "`copperline workload pack --cores-only` packs by cores."
            )
    return None


def _taught(windows: CloudWindows) -> PackingRequests:
    train, rng = windows.train, np.random.default_rng(0)
    if not train.knows_lifetimes:
        law = fit_lifetimes(windows.lived)
        lived = draw_lifetimes(law, train.flavour, train.batch, len(train.flavours), rng)
        train = replace(train, lifetime=lived, censored=np.zeros_like(lived))
    jobs = generated_jobs(train, windows.examples, rng, rng)
    n_left_out = max(train.n_periods - windows.test.n_periods, 0)
    return requests_of_jobs(jobs, train.n_periods * train.period_s, n_left_out * train.period_s)


def suited_ranges(taught: PackingRequests) -> TupleRanges | None:
    """Return tuple ranges for which cores and memory each limit about half of the packings.

    The default ranges if they do so, with failures in nine packings of ten, and few jobs are too
    wide. Otherwise servers have 2 to 6 times the cores of the 99th percentile of jobs, and
    together up to half of the peak demand, or fewer until they fill; memory is that of jobs per
    core, adjusted until each limits about as often. None if even single servers are not filled in
    half of the packings.
    """
    usual = TupleRanges()
    if float((taught.mcpu > usual.cores[0] * 1000).mean()) <= WIDE:
        summary = _probed(taught, usual)
        if summary.n_failed >= MOSTLY * PROBES and _is_half(summary):
            return usual
    least = 2 * max(1, int(np.ceil(np.quantile(taught.mcpu, 0.99) / 1000)))
    cores = (least, 3 * least)
    for most in _halved(int(_peak(taught) / 2 / (2000 * least))):
        ranges, summary = _balanced(taught, (max(1, most // 5), most), cores)
        if summary.n_failed >= MOSTLY * PROBES or (most == 1 and summary.n_failed >= PROBES / 2):
            return ranges
    return None


def _halved(most: int) -> Iterator[int]:
    most = min(max(most, 1), 10_000)
    while most > 1:
        yield most
        most //= 2
    yield 1


def _balanced(
    taught: PackingRequests, servers: tuple[int, int], cores: tuple[int, int]
) -> tuple[TupleRanges, PackingSummary]:
    lived_s = np.minimum(taught.end_s, taught.begin_s + taught.span_s) - taught.start_s
    lived_s = np.maximum(lived_s, 1.0)
    per_core = float(taught.mem_bytes @ lived_s) / float(taught.mcpu @ lived_s) * 1000.0 / GIB
    low, high = -2.0, 2.0
    best: tuple[float, TupleRanges, PackingSummary] | None = None
    for _ in range(TRIES):
        factor = (low + high) / 2.0
        middle = max(per_core * 2.0**factor, 0.0015)
        ranges = TupleRanges(servers, cores, (2.0 * middle / 3.0, 4.0 * middle / 3.0))
        summary = _probed(taught, ranges)
        by_cores = 0.0 if summary.cpu_limited is None else summary.cpu_limited
        if best is None or abs(by_cores - 0.5) < best[0]:
            best = (abs(by_cores - 0.5), ranges, summary)
        if _is_half(summary) and best[0] <= 0.1:
            break
        low, high = (low, factor) if by_cores > 0.5 else (factor, high)
    assert best is not None  # noqa: S101 - there is a try or more
    return best[1], best[2]


def _probed(taught: PackingRequests, ranges: TupleRanges) -> PackingSummary:
    return pack_jobs(taught, draw_tuples(PROBES, 0, ranges)).of(None)


def _is_half(summary: PackingSummary) -> bool:
    return summary.cpu_limited is not None and HALF[0] <= summary.cpu_limited <= HALF[1]


def _peak(taught: PackingRequests) -> float:
    at_s = np.concatenate([taught.end_s, taught.start_s])  # ends come first
    change = np.concatenate([-taught.mcpu, taught.mcpu])
    return float(np.cumsum(change[np.argsort(at_s, kind="stable")]).max())


@dataclass(eq=False)
class WindowPacker:
    """Packer that distributes the scheduling tuples over a generator's windows."""

    name: str
    tuples: tuple[SchedulingTuple, ...]
    n_windows: int
    cpu: Floats
    memory: Floats

    @classmethod
    def of(cls, name: str, plan: PackingReport, n_windows: int) -> "WindowPacker":
        """Return a packer without results for `n_windows` windows."""
        n = len(plan.tuples)
        return cls(name, plan.tuples, n_windows, np.full(n, np.nan), np.full(n, np.nan))

    def add(self, place: int, jobs: WindowJobs, span_s: float) -> None:
        """Pack the window with index `place`, using its share of the scheduling tuples."""
        turn = slice(place, None, self.n_windows)
        if self.tuples[turn]:
            packings = pack_jobs(requests_of_jobs(jobs, span_s), self.tuples[turn])
            self.cpu[turn], self.memory[turn] = packings.cpu, packings.memory

    def packed(self) -> WindowPacking | None:
        """Return the packing results of all windows, or None without scheduling tuples."""
        if not self.tuples:
            return None
        names = tuple(scheduling_tuple.algorithm for scheduling_tuple in self.tuples)
        return WindowPacking.of(self.name, PackingResults(self.cpu, self.memory, names))


def _optional_shares(shares: Floats) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(share) else float(share) for share in shares)


SHARE = 0.9  # of generated windows within a band

CLOUD_LEVELS: tuple[float, ...] = tuple(np.round(np.linspace(0.01, 0.99, 99), 2).tolist())
"""Compared quantiles."""

CLOUD_DEFINITIONS: dict[str, str] = {
    "NLL": "Mean negative log-likelihood, in nats, of the next flavour or end of a batch, given "
    "the true history. Less is better.",
    "error": "Share of the steps at which the likeliest of all outcomes is not the true one "
    "(honest). For lifetimes: share of the jobs with an observed end.",
    "error as the paper counts it": "The same for lifetimes, but only bins up to the true one "
    "count as outcomes, as in the authors' program. It uses a part of the answer, so it is not a "
    "forecast; compare it only with the paper's own column.",
    "BCE": "Mean binary cross entropy over the bins in which a job is known to live or end.",
    "NLL per job": "Negative log-likelihood of the bin of a lifetime, in nats per job.",
    "Survival-MSE": "Mean squared difference between the predicted and the true curve, over ended "
    "jobs and over time up to the end of the last bin (30 days). The true curve is 1 until the job "
    "ends and 0 after (Kvamme and Borgan 2021). CDI: ends are spread evenly within a bin; stepped: "
    "at its end. Where only bins are known, true ends are spread evenly within them. Less is "
    "better.",
    "inside": f"Share of the periods in which the real value lies in the band that holds "
    f"{100 * SHARE:g} % of the generated windows; the nearer to that, the better. Each job of "
    "`naive` is a separate batch.",
    "width": "Mean width of that band.",
    "interval score": "Mean of the width plus the distance to the band times 2 / (1 - share) "
    "(Gneiting and Raftery 2007). Less is better.",
    "demand": "Processors of the jobs that live in each period, without waiting. Jobs that began "
    "before the window count in neither window.",
    "reuse distance": "Number of other flavours requested since the last request of a flavour "
    "(Hadary et al. 2020); total variation is half of the summed differences of the shares.",
    "survival": "Share of the jobs that live longer than a number of seconds, by Kaplan and Meier; "
    "the distance is the largest difference between the real curve and the mean generated one.",
    "KS": "Kolmogorov-Smirnov distance of a generated window from the real one, with the range "
    "that 90 % of the generated windows have.",
    "Wasserstein": "Wasserstein-1 distance, likewise, in the unit of the values.",
    "first failure": "Share of the cores or of the memory of all servers that is allocated when "
    "a job first has no room (FFAR, section 6.2). Jobs come in order from a random start, use one "
    "server each, and leave at their end; a job wider than an empty server is skipped. The larger "
    "share counts; its resource is the limit. The real and the generated windows are packed by the "
    "same tuples. The table also gives the shares of the packings above "
    f"{100 * CLOUD_FULL:g} % and of those limited by cores.",
}  # fmt: skip
"""Meanings of all values, for people."""


@dataclass(frozen=True)
class FlavourRow:
    """Scores of one model's next-token predictions: log loss `nll` (None if unknown) and error."""

    name: str
    nll: float | None
    error: float


@dataclass(frozen=True)
class LifetimeRow:
    """Scores of a prediction of lifetime bins; `DEFINITIONS` explains the scores.

    Attributes:
        bce, nll: None without probabilities; `nll` is per job.
        error: honest error; None without bins.
        masked_error: as the paper counts it; None if that is the same.
        survival_mse: for jobs that ended, by curves that fall evenly within bins (CDI); None
            without probabilities.
        survival_mse_stepped: by curves that fall at the ends of bins.
    """

    name: str
    bce: float | None
    nll: float | None
    error: float | None
    masked_error: float | None
    survival_mse: float | None = None
    survival_mse_stepped: float | None = None


@dataclass(frozen=True, eq=False)
class PredictionBand:
    """Prediction band of a per-period value over generated windows, with its coverage."""

    band: QuantileBand
    inside: float
    width: float
    score: float

    @classmethod
    def of(cls, windows: Floats, real: Floats) -> "PredictionBand":
        """Compare real values with the band of generated ones, [n_windows, n_periods]."""
        tail = (1.0 - SHARE) / 2.0
        low, median, high = np.quantile(windows, (tail, 0.5, 1.0 - tail), axis=0)
        band = QuantileBand(low, median, high)
        return cls(band, band.covers(real), band.mean_width, band.interval_score(real, SHARE))


@dataclass(frozen=True)
class WindowSpread:
    """Mean of a value over generated windows, with the range that contains 90 % of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> "WindowSpread":
        """Return mean and 90 % range of one value per generated window."""
        tail = (1.0 - SHARE) / 2.0
        low, high = np.quantile(values, (tail, 1.0 - tail))
        return cls(float(values.mean()), float(low), float(high))


@dataclass(frozen=True, eq=False)
class DistributionDistance:
    """Distances between a job column's distributions in generated and real windows.

    Attributes:
        ks, wasserstein: distances, see `DEFINITIONS`.
        real: float64 [len(LEVELS)], quantiles of the real values.
        low, median, high: float64 [len(LEVELS)], quantiles of generated windows.
    """

    column: str
    unit: str
    ks: WindowSpread
    wasserstein: WindowSpread
    real: Floats
    low: Floats
    median: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class GeneratorReport:
    """Evaluation results of one generator on the test window.

    Attributes:
        batches, jobs: begins in each period.
        reuse: float64 [n_flavours], shares of the reuse distances.
        reuse_variation: total variation from the real shares.
        survival: float64 [n_bins - 1] each, at the ends of the bins.
    """

    name: str
    source: str
    n_jobs: WindowSpread
    batches: PredictionBand
    jobs: PredictionBand
    cores: PredictionBand
    reuse: Floats
    reuse_variation: float
    survival: QuantileBand
    survival_distance: float
    columns: tuple[DistributionDistance, ...]
    picture: "BatchSample"


@dataclass(frozen=True, eq=False)
class BatchSample:
    """Jobs of a few periods, for a plot like figure 1 of Bergsma et al., one row per period.

    Attributes:
        period: int64 [n], row of each job, from 0.
        batch: int64 [n], from 0 in each row.
        flavour, lifetime: int64 [n]; lifetimes are bins.
        left_out: int64 [n_rows], number of further jobs of the row.
    """

    period: NDArray[np.int64]
    batch: NDArray[np.int64]
    flavour: NDArray[np.int64]
    lifetime: NDArray[np.int64]
    left_out: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CloudReport:
    """Evaluation of generators that were fitted to one window and tested on the next.

    Attributes:
        train, test: names of the windows.
        n_jobs, n_batches, days: numbers of both windows.
        ends_s: float64 [n_bins - 1], ends of bins of lifetimes.
        next_flavour, next_lifetime: scores.
        batches, jobs, cores: float64 [n_periods], real.
        reuse: float64 [n_flavours], real.
        survival: float64 [n_bins - 1], real.
    """

    train: str
    test: str
    n_jobs: tuple[int, int]
    n_batches: tuple[int, int]
    days: tuple[float, float]
    period_s: float
    n_windows: int
    seed: int
    flavours: tuple[str, ...]
    ends_s: Floats
    notes: tuple[str, ...]
    next_flavour: tuple[FlavourRow, ...]
    next_lifetime: tuple[LifetimeRow, ...]
    batches: Floats
    jobs: Floats
    cores: Floats
    reuse: Floats
    survival: Floats
    picture: BatchSample
    generators: tuple[GeneratorReport, ...]
    packing: PackingReport

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON-ready dictionaries, lists, texts and numbers."""
        plain: dict[str, Any] = _plain(asdict(self))
        return {**plain, "levels": list(CLOUD_LEVELS), "definitions": CLOUD_DEFINITIONS}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
