"""Fitting the Lublin-Feitelson model: each part by likelihood, the rate of arrivals by its mean.

- Processors: shares and the two-stage uniform by expectation and maximisation, for cells of whole
  numbers of processors; the ends of the stages by search in steps of a tenth, as published.
- Run times: expectation and maximisation of two gammas of ln(run time) whose mixture is linear in
  the processors; the shape of a gamma by Minka's iteration ("Estimating a Gamma distribution",
  2002), the line by weighted least squares.
- Daily cycle: the likelihood of the half hours at which jobs are submitted.
- Arrivals: moments of ln(points between two jobs); `arar`, the authors' ratio of all jobs to those
  of the rush hours, is set such that the mean gap is that of the log.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import digamma, gammainc, gammaln, polygamma

from sim.errors import WorkloadError
from sim.model.hours import DAY_S, WallClock
from sim.model.workload import Workload
from sim.policies.kinds import Option
from sim.workloads.estimates import f_model, round_up
from sim.workloads.lublin import (
    BUCKETS,
    SECONDS_IN_BUCKET,
    TOO_MUCH_ARRIVE_TIME,
    TOO_MUCH_TIME,
    TYPELESS,
    LublinParameters,
    bucket_weights,
)
from sim.workloads.model import Model

Floats = NDArray[np.float64]

LEAST_JOBS = 50
"""Of each type: two gammas, two stages and a day need some."""

MOST_ROWS, FEW_ROWS = 20_000, 2_000
"""Run times that the gammas are fitted to, every so-manieth if a log has more: the likeliest of
three starts by few of them, then more."""

ROUNDS = 200
MOST_SHAPE = 5000.0

STRANGE = 1e-3
"""Share of the jobs whose processors no law need explain, so that a few do not rule the ends."""

MOST_LOG = 7.0
"""Of ln(anum) and ln(bnum), up or down; a day without a cycle would let them run away."""

KNOBS: tuple[Option, ...] = (
    Option(
        "interactive_queue",
        -1.0,
        "jobs of this queue are interactive and all others batch; -1 fits one type for all",
        lowest=-1.0,
        is_whole=True,
    ),
)


@dataclass(frozen=True)
class SizeLaw:
    """The law of processors as a mixture of five: serial, and two stages, rounded or not.

    Attributes:
        serial: share of the serial jobs.
        pow2: share of the jobs whose exponent is rounded.
        first: share of the first stage.
        ends: u_low, u_med and u_hi.
    """

    serial: float
    pow2: float
    first: float
    ends: tuple[float, float, float]

    @classmethod
    def of(cls, p: LublinParameters) -> "SizeLaw":
        """Return the law of parameters."""
        return cls(p.serial_prob, p.pow2_prob, p.u_prob, (p.u_low, p.u_med, p.u_hi))

    @property
    def widest(self) -> int:
        """The most processors that it can draw."""
        return int(max(2.0 ** np.floor(self.ends[2] + 0.5), np.floor(2.0 ** self.ends[2] + 0.5)))

    def chances(self, sizes: Floats) -> Floats:
        """Return the chance of each number of processors: float64 [n], of float64 [n]."""
        mixed: Floats = self.shares @ components(sizes, self.ends)
        return mixed

    @property
    def shares(self) -> Floats:
        """Shares of the five components: float64 [5]."""
        free = max(1.0 - self.serial - self.pow2, 0.0)
        stages = np.array([self.first, 1.0 - self.first])
        return np.concatenate([[self.serial], self.pow2 * stages, free * stages])

    def at(self, ends: tuple[float, float, float]) -> "SizeLaw":
        """Return a law of the same shares, none of them 0, with other ends."""
        few = 1e-3
        serial, pow2 = max(self.serial, few), max(self.pow2, few)
        whole = max(serial + pow2 + few, 1.0)
        first = min(max(self.first, few), 1 - few)
        return SizeLaw(serial / whole, pow2 / whole, first, ends)

    def learnt(
        self, sizes: Floats, counts: Floats, rounds: int = ROUNDS
    ) -> tuple["SizeLaw", float]:
        """Return the law of the same ends with the likeliest shares, and the log-likelihood."""
        cells, law = components(sizes, self.ends), self
        for _ in range(rounds):
            joint = law.shares[:, None] * cells
            total = np.maximum(joint.sum(axis=0), 1e-300)
            part = (joint / total * counts).sum(axis=1) / counts.sum()
            parallel = max(part[1:].sum(), 1e-300)
            first = float((part[1] + part[3]) / parallel)
            learnt = replace(law, serial=float(part[0]), pow2=float(part[1:3].sum()), first=first)
            moved = np.abs(learnt.shares - law.shares).max()
            law = learnt
            if moved < 1e-5:
                break
        chances = (1 - STRANGE) * (law.shares @ cells) + STRANGE / len(sizes)
        return law, float((counts * np.log(chances)).sum())


_START = SizeLaw(0.3, 0.4, 0.8, (0.0, 0.0, 0.0))


def components(sizes: Floats, ends: tuple[float, float, float]) -> Floats:
    """Return chances of numbers of processors: float64 [5, n], serial, rounded x 2, free x 2."""
    powers = np.exp2(np.round(np.log2(sizes))) == sizes
    exponents = np.log2(sizes)
    rows = [(sizes == 1).astype(np.float64)]
    lower, upper = np.log2(np.maximum(sizes - 0.5, 1e-9)), np.log2(sizes + 0.5)
    for least, most, asked in ((exponents - 0.5, exponents + 0.5, powers), (lower, upper, True)):
        for low, high in ((ends[0], ends[1]), (ends[1], ends[2])):
            rows.append(np.where(asked, _below(most, low, high) - _below(least, low, high), 0.0))
    return np.array(rows)


def _below(x: Floats, low: float, high: float) -> Floats:
    if high <= low:
        return (x > low).astype(np.float64)
    return np.clip((x - low) / (high - low), 0.0, 1.0)


def fit_sizes(procs: NDArray[np.int64]) -> SizeLaw:
    """Return the likeliest law of processors of jobs."""
    sizes, counts = (column.astype(np.float64) for column in np.unique(procs, return_counts=True))
    widest = float(np.log2(sizes[-1]))
    if widest == 0:
        return SizeLaw(1.0, 0.0, 1.0, (0.0, 0.0, 0.0))
    top, step = round(widest, 1), widest / 12
    lows = np.round(np.arange(0.0, widest + 1e-9, step), 1).tolist()
    starts = [(low, middle, top) for low in lows for middle in lows if low <= middle]
    runs = [_START.at(ends).learnt(sizes, counts, rounds=10) for ends in starts]
    best = max(runs, key=lambda run: run[1])[0].learnt(sizes, counts)
    for _ in range(3):
        before = best
        for place in (2, 1, 0):
            around = np.round(best[0].ends[place] + np.arange(-1.0, 1.01, 0.1), 1)
            for value in around[(around >= 0) & (around < top + 0.65)].tolist():
                low, middle, high = _with(best[0].ends, place, value)
                if low <= middle <= high:
                    found = best[0].at((low, middle, high)).learnt(sizes, counts)
                    best = found if found[1] > best[1] + 1e-9 else best
        if best is before:
            break
    return best[0]


def _with(ends: tuple[float, float, float], place: int, value: float) -> tuple[float, float, float]:
    low, middle, high = (value if i == place else end for i, end in enumerate(ends))
    return low, middle, high


def fit_run_times(
    runtime_s: Floats, procs: NDArray[np.int64]
) -> tuple[float, float, float, float, float, float]:
    """Return a1, b1, a2, b2, pa and pb, the likeliest of three starts."""
    logs = np.log(np.maximum(runtime_s, 1.0) + 0.5)
    few = max(1, -(-len(logs) // FEW_ROWS))
    runs = [
        _hyper_gamma(logs[::few], procs[::few], np.where(logs[::few] <= split, 0.9, 0.1))
        for split in np.quantile(logs, (0.3, 0.5, 0.75)).tolist()
    ]
    a1, b1, a2, b2, pa, pb = max(runs, key=lambda run: run[1])[0]
    step = max(1, -(-len(logs) // MOST_ROWS))
    x, widths = logs[::step], procs[::step]
    share = np.clip(pa * widths + pb, 1e-6, 1 - 1e-6)
    first, second = np.log(share), np.log1p(-share)
    odds = second + _log_density(x, a2, b2) - first - _log_density(x, a1, b1)
    return _hyper_gamma(x, widths, 1.0 / (1.0 + np.exp(np.clip(odds, -50.0, 50.0))))[0]


def _hyper_gamma(
    x: Floats, procs: NDArray[np.int64], mine: Floats
) -> tuple[tuple[float, float, float, float, float, float], float]:
    """Climb from the chances `mine` that each run time is of the first gamma."""
    widths, place = np.unique(procs, return_inverse=True)
    sizes, counts = widths.astype(np.float64), np.bincount(place).astype(np.float64)
    told = -np.inf
    for _ in range(ROUNDS):
        (a1, b1), (a2, b2) = _gamma(x, mine), _gamma(x, 1.0 - mine)
        pa, pb = _line(sizes, np.bincount(place, mine).astype(np.float64), counts)
        share = np.clip(pa * sizes + pb, 1e-6, 1 - 1e-6)[place]
        first = np.log(share) + _log_density(x, a1, b1)
        second = np.log1p(-share) + _log_density(x, a2, b2)
        both = np.logaddexp(first, second)
        mine = np.exp(first - both)
        before, told = told, float(both.mean())
        if abs(told - before) < 1e-6:
            break
    if a1 * b1 > a2 * b2:
        (a1, b1), (a2, b2), (pa, pb) = (a2, b2), (a1, b1), (-pa, 1.0 - pb)
    return (a1, b1, a2, b2, pa, pb), told


def _gamma(x: Floats, weight: Floats) -> tuple[float, float]:
    total = max(float(weight.sum()), 1e-9)
    mean = float((weight * x).sum()) / total
    gap = max(float(np.log(mean) - (weight * np.log(x)).sum() / total), 1e-9)
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(20):
        slope = 1 / shape - float(polygamma(1, shape))
        inverse = 1 / shape + (np.log(shape) - float(digamma(shape)) - gap) / (shape**2 * slope)
        moved, shape = abs(1 / inverse - shape), 1 / inverse
        if moved < 1e-8 * shape:
            break
    shape = float(np.clip(shape, 1e-3, MOST_SHAPE))
    return shape, mean / shape


def _line(sizes: Floats, mine: Floats, counts: Floats) -> tuple[float, float]:
    share = mine / counts
    weight = counts.copy()
    pa, pb = 0.0, float(mine.sum() / counts.sum())
    for _ in range(3):
        told = np.clip(pa * sizes + pb, 0.02, 0.98)
        weight = counts / (told * (1 - told))
        middle = float((weight * sizes).sum() / weight.sum())
        spread = float((weight * (sizes - middle) ** 2).sum())
        level = float((weight * share).sum() / weight.sum())
        pa = float((weight * (sizes - middle) * share).sum()) / spread if spread > 0 else 0.0
        pb = level - pa * middle
    return pa, pb


def _log_density(x: Floats, shape: float, scale: float) -> Floats:
    density: Floats = (shape - 1) * np.log(x) - x / scale - gammaln(shape) - shape * np.log(scale)
    return density


def fit_cycle(clock_s: Floats) -> tuple[float, float]:
    """Return anum and bnum, the likeliest for submissions at times of a day of the wall clock."""
    bucket = np.floor(np.mod(clock_s, DAY_S) / SECONDS_IN_BUCKET).astype(np.int64)
    counts = np.bincount(np.minimum(bucket, BUCKETS - 1), minlength=BUCKETS)

    def unlikely(logs: Floats) -> float:
        if (np.abs(logs) > MOST_LOG).any():
            return 1e18
        weights = bucket_weights(_of_cycle(*np.exp(logs).tolist()))
        if not np.isfinite(weights).all():
            return 1e18
        return float(-(counts * np.log(np.maximum(weights, 1e-6))).sum())

    runs = [
        minimize(unlikely, np.log(start), method="Nelder-Mead", options={"maxiter": 400})
        for start in ((8.0, 4.0), (2.0, 15.0), (20.0, 1.5))
    ]
    anum, bnum = np.exp(min(runs, key=lambda run: float(run.fun)).x).tolist()
    while bucket_weights(_of_cycle(anum, bnum)).min() < 1e-3:
        anum, bnum = anum * 0.9, bnum / 0.9
    return anum, bnum


def _of_cycle(anum: float, bnum: float) -> LublinParameters:
    return replace(TYPELESS, anum=anum, bnum=bnum)


def fit_arrivals(
    clock_s: Floats, anum: float, bnum: float, too_late: float
) -> tuple[float, float, float]:
    """Return aarr, barr and arar for jobs at times of the wall clock that count from a midnight."""
    paid = np.concatenate([[0.0], np.cumsum(bucket_weights(_of_cycle(anum, bnum)))])
    days, rest = np.divmod(clock_s, DAY_S)
    points = days * paid[-1] + np.interp(rest, np.arange(BUCKETS + 1) * SECONDS_IN_BUCKET, paid)
    gaps = np.diff(points) * SECONDS_IN_BUCKET
    logs = np.log(np.maximum(gaps + 0.5, 1.05))
    mean, variance = float(logs.mean()), max(float(logs.var()), 1e-6)
    barr, aarr = variance / mean, mean**2 / variance

    def off(log_ratio: float) -> float:
        return float(np.log(mean_gap(aarr * np.exp(log_ratio), barr, too_late)) - wanted)

    wanted = float(np.log(max(gaps.mean(), 1.05)))
    low, high = -4.0, 4.0
    if off(low) >= 0 or off(high) <= 0:
        return aarr, barr, 1.0
    return aarr, barr, float(np.exp(brentq(off, low, high, xtol=1e-9)))


def mean_gap(shape: float, barr: float, too_late: float) -> float:
    """Return the mean of exp(gamma(shape, barr)) below the bound, in seconds at the mean rate."""
    edges = np.linspace(0.0, too_late, 20_001)
    mass = np.diff(gammainc(shape, edges / barr))
    if mass.sum() < 1e-12:
        return float(np.exp(too_late))
    return float((np.exp((edges[:-1] + edges[1:]) / 2) * mass).sum() / mass.sum())


def fit_requests(workload: Workload) -> float:
    """Return the f-model's factor with the log's median of requested by run time; 0 for none."""
    if workload.requested_is_runtime:
        return 0.0
    ran = workload.runtime_s >= 1.0
    if not ran.any():
        return 0.0
    runtime_s = workload.runtime_s[ran]
    wanted = float(np.median(workload.requested_s[ran] / runtime_s))

    def median_of(factor: float) -> float:
        rng = np.random.default_rng(0)
        return float(np.median(round_up(f_model(runtime_s, factor, rng)) / runtime_s))

    low, high = 0.0, 1000.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if median_of(middle) < wanted else (low, middle)
    return max(low, 0.01)


def fit_lublin(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit all parts to a log.

    Raises:
        WorkloadError: a type has fewer than `LEAST_JOBS` jobs, or all come at one instant.
    """
    clock = WallClock.of(workload)
    clock_s = clock.local_s(workload.submit_s)
    clock_s = clock_s - np.floor(clock_s[0] / DAY_S) * DAY_S
    interactive = workload.queue == int(knobs["interactive_queue"])
    parts = {"typeless": np.ones(workload.n_jobs, dtype=np.bool_)}
    if knobs["interactive_queue"] >= 0:
        parts = {"interactive": interactive, "batch": ~interactive}
    for name, rows in parts.items():
        if rows.sum() < LEAST_JOBS or np.ptp(clock_s[rows]) == 0:
            raise WorkloadError(
                f"'lublin' needs {LEAST_JOBS} jobs or more at different times; {workload.name} has "
                f"{rows.sum()} that are {name}."
            )
    longest = float(np.log(workload.runtime_s.max() + 1.0))
    too_long = max(TOO_MUCH_TIME, longest)
    tables = {
        name: asdict(_fitted(clock_s[rows], workload.runtime_s[rows], workload.procs[rows]))
        for name, rows in parts.items()
    }
    return Model(
        "lublin",
        {
            "types": "both" if len(tables) == 2 else "typeless",
            "request_factor": fit_requests(workload),
            "max_procs": workload.max_procs or workload.widest_procs,
            "truncated_clock": False,
            "too_much_time": too_long,
            "too_much_arrive_time": TOO_MUCH_ARRIVE_TIME,
            **tables,
        },
        source=f"fitted to {workload.name}, {workload.n_jobs} jobs. {clock.sentence}",
    )


def _fitted(clock_s: Floats, runtime_s: Floats, procs: NDArray[np.int64]) -> LublinParameters:
    sizes = fit_sizes(procs)
    a1, b1, a2, b2, pa, pb = fit_run_times(runtime_s, procs)
    anum, bnum = fit_cycle(clock_s)
    aarr, barr, arar = fit_arrivals(np.sort(clock_s), anum, bnum, TOO_MUCH_ARRIVE_TIME)
    return LublinParameters(
        serial_prob=min(sizes.serial, 1.0),
        pow2_prob=min(sizes.pow2, 1.0 - min(sizes.serial, 1.0)),
        u_low=sizes.ends[0],
        u_med=sizes.ends[1],
        u_hi=sizes.ends[2],
        u_prob=min(max(sizes.first, 0.0), 1.0),
        a1=a1, b1=b1, a2=a2, b2=b2, pa=pa, pb=pb,
        aarr=aarr, barr=barr, arar=arar, anum=anum, bnum=bnum,
    )  # fmt: skip
