"""Comparison of two workloads: of a generated one with its log, or of two months.

Workloads are compared by column: distances between distributions, quantiles, hours of the day, and
rates per day. Every value has an interval by the bootstrap over days (Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, chapters 8 and 16): days are drawn, not jobs, because the jobs
of a day resemble each other. A distance is judged against those between two futures drawn from the
days of the first workload alone.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import RandomStreams
from sim.metrics.wall_clock import DAY_S, WallClock
from sim.model.columns import checked_machine
from sim.model.errors import WorkloadError
from sim.model.workload import Workload

Floats = NDArray[np.float64]


HOURS = 24
REPLICATES = 400
MOST_DAYS = 20_000
LEAST_COVER = 0.5  # least covered share of a first or last day whose rates count


@dataclass(frozen=True)
class Days:
    """Daily statistics of a workload: submissions per hour, work and covered seconds.

    Attributes:
        day: int64 [n_jobs], day of each job, from 0.
        hours: float64 [n_days, 24], number of jobs.
        work: float64 [n_days], processor-seconds submitted.
        cover_s: float64 [n_days], seconds of the day between first and last submission.
    """

    day: NDArray[np.int64]
    hours: Floats
    work: Floats
    cover_s: Floats

    @classmethod
    def of(cls, workload: Workload) -> "Days":
        """Return the daily statistics of a workload by the log's own clock.

        Raises:
            WorkloadError: there are more than `MOST_DAYS`.
        """
        if workload.span_s > MOST_DAYS * DAY_S:
            raise WorkloadError(
                f"{workload.name} spans {workload.span_s / DAY_S:,.0f} days; a comparison "
                f"allows at most {MOST_DAYS:,} days."
            )
        local_s = WallClock.of(workload).local_s(workload.submit_s)
        since = np.floor(local_s / DAY_S)
        first = since.min()
        day = (since - first).astype(np.int64)
        n_days = int(day.max()) + 1
        hour = np.minimum(np.floor(np.mod(local_s, DAY_S) / 3600.0).astype(np.int64), HOURS - 1)
        cells = np.bincount(day * HOURS + hour, minlength=n_days * HOURS)
        work_proc_s = workload.procs * workload.runtime_s
        work = np.bincount(day, work_proc_s, minlength=n_days).astype(np.float64)
        begins = (first + np.arange(n_days)) * DAY_S
        ends = np.minimum(begins + DAY_S, local_s.max())
        cover_s = np.maximum(ends - np.maximum(begins, local_s.min()), 0.0)
        return cls(day, cells.reshape(n_days, HOURS).astype(np.float64), work, cover_s)

    @property
    def n_days(self) -> int:
        """Number of days from the first to the last submission, including days without jobs."""
        return len(self.work)

    @property
    def n_with_jobs(self) -> int:
        """Number of days with at least one submission."""
        return int((self.hours.sum(1) > 0).sum())

    def rates(self) -> Floats:
        """Return jobs, work and covered seconds per day, 0 on excluded days: [n_days, 3]."""
        counts = self.cover_s >= LEAST_COVER * DAY_S
        totals = np.column_stack([self.hours.sum(1), self.work, self.cover_s])
        return np.where(counts[:, None], totals, 0.0)


@dataclass(frozen=True)
class DayResamples:
    """Bootstrap resamples of days: how often each resample contains each day.

    Attributes:
        first, two: float64 [REPLICATES, n_days], days of the two workloads.
        own_one, own_two: days of the first workload, as many as the first and the second have; for
            its distances to itself.
    """

    first: Floats
    two: Floats
    own_one: Floats
    own_two: Floats

    @classmethod
    def of(cls, days: tuple[Days, Days], seed: int) -> "DayResamples":
        """Draw bootstrap resamples of the days of two workloads."""
        streams = RandomStreams(seed).inside("validation")
        n_one, n_two = days[0].n_days, days[1].n_days

        def resample(name: str, n_draws: int, n_days: int) -> Floats:
            even = np.full(n_days, 1.0 / n_days)
            counts = streams.of(name).multinomial(n_draws, even, size=REPLICATES)
            floats: Floats = counts.astype(np.float64)
            return floats

        return cls(
            resample("one", n_one, n_one), resample("two", n_two, n_two),
            resample("own one", n_one, n_one), resample("own two", n_two, n_one),
        )  # fmt: skip


Verdict = Literal["alike", "differs", "unknown"]

QUANTILES: tuple[float, ...] = (0.1, 0.5, 0.9, 0.99)
LEVEL = 0.95
LEAST_DAYS = 5  # days with jobs of each workload that intervals and verdicts need

MOST_POINTS = 1024
"""Number of points in the bootstrap of distributions: quantiles of both workloads together."""


@dataclass(frozen=True)
class Distance:
    """A distance between the distributions of two workloads, with interval and verdict.

    Attributes:
        metric: ``ks``, ``wasserstein`` or ``total_variation``, see `DEFINITIONS`.
        low, high: interval of `value`.
        usual: 95 percent quantile of the distance between futures of the first workload's own
            days; None if there are too few days.
        verdict: ``differs`` if `value` is above `usual`.
    """

    column: str
    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    usual: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Quantity:
    """A value of both workloads, such as a quantile, with their ratio, interval and verdict.

    Attributes:
        name: such as ``runtime_s p90``, see `DEFINITIONS`.
        one, two: values of the first and the second workload.
        ratio: two by one; None if one is 0.
        low, high: interval of the ratio.
        verdict: ``differs`` if the interval does not hold 1.
    """

    name: str
    unit: str
    one: float
    two: float
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict


@dataclass(frozen=True)
class WorkloadComparison:
    """Comparison of two workloads by distances between distributions and by quantities.

    Attributes:
        one, two: names of the first (the reference) and the second workload.
        n_days: number of days with submissions, of both.
        procs: processors of which loads are shares; None if unknown, and loads are in processors.
        hours: shares of the jobs by hour of the day, of both.
    """

    one: str
    two: str
    n_jobs: tuple[int, int]
    n_days: tuple[int, int]
    procs: int | None
    seed: int
    distances: tuple[Distance, ...]
    quantities: tuple[Quantity, ...]
    hours: tuple[tuple[float, ...], tuple[float, ...]]
    notes: tuple[str, ...]

    @property
    def judged(self) -> int:
        """Number of compared values that have a verdict other than unknown."""
        return sum(verdict != "unknown" for verdict in self._verdicts())

    @property
    def differ(self) -> int:
        """Number of compared values with the verdict that the workloads differ."""
        return self._verdicts().count("differs")

    def _verdicts(self) -> list[Verdict]:
        return [d.verdict for d in self.distances] + [q.verdict for q in self.quantities]

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as JSON-ready dictionaries, lists, texts and numbers."""
        return {**asdict(self), "judged": self.judged, "differ": self.differ}


DEFINITIONS: dict[str, str] = {
    "ks": "Kolmogorov-Smirnov: the largest difference between the two shares of jobs up to a "
    "value; from 0 (the same) to 1 (nothing in common).",
    "wasserstein": "Wasserstein-1: how far values must be moved on average to turn one "
    "distribution into the other, in their unit.",
    "total_variation": "Total variation: the share of the jobs at a different hour; half of "
    "the summed differences of the shares of the 24 hours.",
    "quantiles": "p10, p50, p90, p99: upper bounds of the values of 10, 50, 90, 99 % of the "
    "jobs; compared by their ratio.",
    "jobs per day": "Jobs submitted in 24 h, for days with at least half in the workload.",
    "offered load": "Processor-seconds submitted per processor-second of the same days; in "
    "processors if the machine is unknown.",
    "interval": f"From {REPLICATES} draws of the days of both workloads, with replacement: "
    f"{LEVEL:.0%} of the draws lie in it. Intervals of distances are a little too high, because "
    "draws add noise.",
    "usual": f"{LEVEL:.0%} of the distances between two futures drawn from the days of the first "
    "workload alone, as long as the two; a distance above it differs.",
}  # meanings of all values, for people


def compare_workloads(
    first: Workload, two: Workload, *, procs: int | None = None, seed: int = 0
) -> WorkloadComparison:
    """Compare the distributions and quantities of two workloads; the first is the reference.

    Loads are shares of `procs` processors; None takes those of the first, else of the second.

    Raises:
        WorkloadError: a workload has fewer than 2 jobs, or no machine has so many processors.
    """
    for workload in (first, two):
        if workload.n_jobs < 2:
            raise WorkloadError(f"{workload.name} has 1 job; a comparison needs 2 or more.")
    machine = procs if procs is not None else first.max_procs or two.max_procs
    machine = None if machine is None else checked_machine(machine)
    days = (Days.of(first), Days.of(two))
    enough = min(workload_days.n_with_jobs for workload_days in days) >= LEAST_DAYS
    draws = DayResamples.of(days, seed) if enough else None
    notes = list(_notes(first, two, days, machine))
    distances: list[Distance] = []
    quantities: list[Quantity] = []
    for name, unit, values in _columns(first, two, notes):
        sampled = _ColumnSample.of(values, days, draws)
        for metric in _METRICS:
            distances.append(sampled.distance(name, metric, "" if metric == "ks" else unit))
        quantities += sampled.quantities(name, unit)
    distances.append(_hours(days, draws))
    quantities += _rates(days, machine, draws)
    shares = tuple(tuple((f.hours.sum(0) / f.hours.sum()).tolist()) for f in days)
    return WorkloadComparison(
        first.name, two.name, (first.n_jobs, two.n_jobs),
        (days[0].n_with_jobs, days[1].n_with_jobs), machine, seed, tuple(distances),
        tuple(quantities), (shares[0], shares[1]), tuple(notes),
    )  # fmt: skip


def _columns(
    first: Workload, two: Workload, notes: list[str]
) -> Iterator[tuple[str, str, tuple[Floats, Floats]]]:
    gaps = tuple(np.diff(w.submit_s, prepend=np.nan) for w in (first, two))
    yield "interarrival_s", "s", (gaps[0], gaps[1])
    yield "runtime_s", "s", (first.runtime_s, two.runtime_s)
    yield "procs", "processors", (first.procs.astype(np.float64), two.procs.astype(np.float64))
    without = [w.name for w in (first, two) if w.requested_is_runtime]
    if without:
        names = " and ".join(dict.fromkeys(without))
        notes.append(f"Requested times are not compared: in {names} run times replace some or all.")
        return
    yield "requested_s", "s", (first.requested_s, two.requested_s)


@dataclass(frozen=True)
class _ResampledShares:
    """Shares of the values up to each point, in every draw: float64 [n_draws, n_points]."""

    points: Floats
    first: Floats
    two: Floats
    null: tuple[Floats, Floats]


@dataclass(frozen=True)
class _ColumnSample:
    """A column of both workloads.

    Attributes:
        every: float64 [n], all values that occur, rising.
        shares: float64 [n] of both, of the values up to each of these.
        resampled: shares in draws of days, at fewer points; None if there are too few days.
    """

    values: tuple[Floats, Floats]
    every: Floats
    shares: tuple[Floats, Floats]
    resampled: _ResampledShares | None

    @classmethod
    def of(
        cls, values: tuple[Floats, Floats], days: tuple[Days, Days], draws: DayResamples | None
    ) -> "_ColumnSample":
        ones, twos = (column[~np.isnan(column)] for column in values)
        every = np.unique(np.concatenate([ones, twos]))
        shares = [np.searchsorted(np.sort(c), every, "right") / len(c) for c in (ones, twos)]
        resampled = None
        if draws is not None:
            points = every
            if len(every) > MOST_POINTS:
                levels = np.linspace(0, 1, MOST_POINTS // 2)
                points = np.unique([np.quantile(c, levels) for c in (ones, twos)])
            first, two = (_table(v, d, points) for v, d in zip(values, days, strict=True))
            null = (_shares(draws.own_one @ first), _shares(draws.own_two @ first))
            resampled = _ResampledShares(
                points, _shares(draws.first @ first), _shares(draws.two @ two), null
            )
        return cls((ones, twos), every, (shares[0], shares[1]), resampled)

    def distance(self, column: str, metric: str, unit: str) -> Distance:
        between, resampled = _METRICS[metric], self.resampled
        value = float(between(self.every, self.shares[0][None], self.shares[1][None])[0])
        if resampled is None:
            return Distance(column, metric, unit, value, None, None, None, "unknown")
        spread = between(resampled.points, resampled.first, resampled.two)
        return _distance_with_verdict(
            column, metric, unit, value, spread, between(resampled.points, *resampled.null)
        )

    def quantities(self, name: str, unit: str) -> Iterator[Quantity]:
        for q in QUANTILES:
            first, two = (float(np.quantile(c, q, method="inverted_cdf")) for c in self.values)
            pairs = None
            if self.resampled is not None:
                points = self.resampled.points
                pairs = (
                    _quantile(points, self.resampled.first, q),
                    _quantile(points, self.resampled.two, q),
                )
            yield _quantity(f"{name} p{100 * q:g}", unit, first, two, pairs)


def _table(values: Floats, days: Days, points: Floats) -> Floats:
    """Count values by day and by the first point not below: float64 [n_days, n_points]."""
    keep = ~np.isnan(values)
    cell = np.minimum(np.searchsorted(points, values[keep]), len(points) - 1)
    counts = np.bincount(days.day[keep] * len(points) + cell, minlength=days.n_days * len(points))
    return counts.reshape(days.n_days, len(points)).astype(np.float64)


def _shares(counts: Floats) -> Floats:
    """Return shares up to each point from counts: float64 [n, n_points]; of empty draws NaN."""
    summed = np.cumsum(counts, axis=1)
    every = np.where(summed[:, -1:] > 0, summed[:, -1:], np.nan)
    return np.asarray(summed / every)


def _quantile(points: Floats, shares: Floats, q: float) -> Floats:
    places = np.argmax(shares >= q - 1e-12, axis=1)
    return np.where(np.isnan(shares[:, 0]), np.nan, points[places])


def _ks(_points: Floats, first: Floats, two: Floats) -> Floats:
    return np.asarray(np.abs(first - two).max(axis=1))


def _wasserstein(points: Floats, first: Floats, two: Floats) -> Floats:
    return np.asarray(np.abs(first - two)[:, :-1] @ np.diff(points))


_METRICS: dict[str, Callable[[Floats, Floats, Floats], Floats]] = {
    "ks": _ks, "wasserstein": _wasserstein,
}  # fmt: skip


def _distance_with_verdict(
    column: str, metric: str, unit: str, value: float, spread: Floats, null: Floats
) -> Distance:
    low, high = _interval(spread[~np.isnan(spread)])
    usual = float(np.quantile(null[~np.isnan(null)], LEVEL))
    verdict: Verdict = "differs" if value > usual else "alike"
    return Distance(column, metric, unit, value, low, high, usual, verdict)


def _hours(days: tuple[Days, Days], draws: DayResamples | None) -> Distance:
    first, two = (workload_days.hours for workload_days in days)

    def apart(ones: Floats, twos: Floats) -> Floats:
        has_jobs = (ones.sum(1) > 0) & (twos.sum(1) > 0)
        a, b = ones[has_jobs], twos[has_jobs]
        differences = np.abs(a / a.sum(1, keepdims=True) - b / b.sum(1, keepdims=True))
        return np.asarray(0.5 * differences.sum(1))

    value = float(apart(first.sum(0)[None], two.sum(0)[None])[0])
    if draws is None:
        return Distance(
            "hour of the day", "total_variation", "", value, None, None, None, "unknown"
        )
    spread = apart(draws.first @ first, draws.two @ two)
    null = apart(draws.own_one @ first, draws.own_two @ first)
    return _distance_with_verdict("hour of the day", "total_variation", "", value, spread, null)


def _rates(
    days: tuple[Days, Days], procs: int | None, draws: DayResamples | None
) -> Iterator[Quantity]:
    rates = tuple(workload_days.rates() for workload_days in days)
    if any(table[:, 2].sum() == 0 for table in rates):
        return
    for name, unit, column, factor in (
        ("jobs per day", "jobs", 0, DAY_S),
        ("offered load", "" if procs else "processors", 1, 1.0 / (procs or 1)),
    ):
        first, two = (float(t[:, column].sum() / t[:, 2].sum()) * factor for t in rates)
        pairs = None
        if draws is not None:
            resampled = []
            for counts, table in zip((draws.first, draws.two), rates, strict=True):
                summed = counts @ table
                seconds = np.where(summed[:, 2] > 0, summed[:, 2], np.nan)
                resampled.append(summed[:, column] / seconds * factor)
            pairs = (resampled[0], resampled[1])
        yield _quantity(name, unit, first, two, pairs)


def _quantity(
    name: str, unit: str, first: float, two: float, pairs: tuple[Floats, Floats] | None
) -> Quantity:
    ratio = two / first if first else None
    if pairs is None or ratio is None:
        return Quantity(name, unit, first, two, ratio, None, None, "unknown")
    ones, twos = pairs
    comparable = (ones > 0) & np.isfinite(ones) & np.isfinite(twos)
    if not comparable.any():
        return Quantity(name, unit, first, two, ratio, None, None, "unknown")
    low, high = _interval(twos[comparable] / ones[comparable])
    verdict: Verdict = "alike" if low <= 1.0 <= high else "differs"
    return Quantity(name, unit, first, two, ratio, low, high, verdict)


def _interval(values: Floats) -> tuple[float, float]:
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(values, (tail, 1.0 - tail))
    return float(low), float(high)


def _notes(
    first: Workload, two: Workload, days: tuple[Days, Days], procs: int | None
) -> Iterator[str]:
    for workload, workload_days in zip((first, two), days, strict=True):
        if workload_days.n_with_jobs < LEAST_DAYS:
            yield (
                f"{workload.name} has jobs on {workload_days.n_with_jobs} days; intervals and "
                f"verdicts need {LEAST_DAYS} or more of both."
            )
        if WallClock.of(workload).basis == "unknown":
            yield (
                f"The start of {workload.name} is unknown, so its hours count from its first job."
            )
        if workload_days.rates()[:, 2].sum() == 0:
            yield f"{workload.name} is shorter than half a day: it has no values of days."
    if procs is None:
        yield "No machine is known, so loads are in processors."
    elif first.max_procs and two.max_procs and first.max_procs != two.max_procs:
        yield (
            f"The machines have {first.max_procs:,} and {two.max_procs:,} processors; both loads "
            f"are relative to {procs:,}."
        )
