"""The Lublin-Feitelson model of rigid parallel jobs: its parameters, draws, and fit.

Lublin and Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, and the authors' program
`m_lublin99`. Names of parameters are theirs.

- Processors: serial with probability `serial_prob`; else 2 to the power of a two-stage uniform
  variable, which is rounded to a whole exponent with probability `pow2_prob`. Fit: expectation
  maximisation over cells of whole numbers; ends of the stages by search in steps of a tenth.
- Run time: exp of a hyper-gamma variable whose mixture is linear in the processors; variables
  above `TOO_MUCH_TIME` are drawn again. Fit: expectation maximisation of two gammas, shapes by
  Minka's iteration ("Estimating a Gamma distribution", 2002), the line by weighted least squares.
- Arrivals: each job brings exp(gamma(aarr * arar, barr)) / 1800 points, which pay for the half
  hours of a daily cycle; a half hour costs its weight, the share of a gamma(anum, bnum) variable
  in it. The arrival is where the points run out, here the inverse of the cumulative weight. The
  authors also truncate the clock to whole seconds after each job, which loses half a second per
  job; we do not. Fit: the cycle by the likelihood of the half hours; moments of ln(points between
  two jobs); `arar`, the authors' ratio of all jobs to those of the rush hours, such that the mean
  gap is that of the log.
- Quirk, kept: `CYCLIC_DAY_START` is documented as an hour (11 o'clock) but used as an index of
  half hours, so the modelled day starts at 5:30.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import digamma, gammainc, gammaln, polygamma

from sim.generators.generator import Model
from sim.metrics.wall_clock import DAY_S, WallClock
from sim.model.errors import WorkloadError
from sim.model.workload import Workload
from sim.policies.policy import PolicyOption

Floats = NDArray[np.float64]


BUCKETS = 48
SECONDS_IN_BUCKET = 1800.0
CYCLIC_DAY_START = 11
TOO_MUCH_TIME = 12.0
TOO_MUCH_ARRIVE_TIME = 13.0


@dataclass(frozen=True)
class LublinParameters:
    """Parameters of the Lublin-Feitelson model for one type of job, with the authors' names."""

    serial_prob: float
    pow2_prob: float
    u_low: float
    u_med: float
    u_hi: float
    u_prob: float
    a1: float
    b1: float
    a2: float
    b2: float
    pa: float
    pb: float
    aarr: float
    barr: float
    anum: float
    bnum: float
    arar: float


# fmt: off
INTERACTIVE = LublinParameters(
    serial_prob=0.1541, pow2_prob=0.625, u_low=1, u_med=3, u_hi=5.5, u_prob=0.705,
    a1=3.8351, b1=0.6605, a2=7.073, b2=0.6856, pa=-0.0118, pb=0.9156,
    aarr=6.5510, barr=0.6621, anum=8.9186, bnum=3.6680, arar=0.9797,
)
BATCH = LublinParameters(
    serial_prob=0.2927, pow2_prob=0.6686, u_low=1.2, u_med=5, u_hi=7, u_prob=0.875,
    a1=6.57, b1=0.823, a2=639.1, b2=0.0156, pa=-0.003, pb=0.6986,
    aarr=6.0415, barr=0.8531, anum=6.1271, bnum=5.2740, arar=1.0519,
)
TYPELESS = LublinParameters(
    serial_prob=0.244, pow2_prob=0.576, u_low=0.8, u_med=4.5, u_hi=7, u_prob=0.86,
    a1=4.2, b1=0.94, a2=312, b2=0.03, pa=-0.0054, pb=0.78,
    aarr=10.2303, barr=0.4871, anum=8.1737, bnum=3.9631, arar=1.0225,
)
# fmt: on

BOTH_TYPES: tuple[LublinParameters, ...] = (INTERACTIVE, BATCH)


def lublin(
    n_jobs: int,
    seed: int | np.random.SeedSequence = 0,
    *,
    types: tuple[LublinParameters, ...] = BOTH_TYPES,
    name: str = "lublin-feitelson",
) -> Workload:
    """Draw `n_jobs` jobs from the Lublin-Feitelson model as a workload.

    Args:
        n_jobs: number of jobs of all types together, at least 1.
        seed: seed; each type has its own streams for arrivals, processors and run times, so that a
            longer workload begins with the jobs of a shorter one.
        types: `BOTH_TYPES`, or ``(TYPELESS,)``. The index of the type is the job's queue (0
            interactive, 1 batch, as in the authors' program).
        name: name of the workload.

    Returns:
        Whole seconds, whole processors; requests are the run times (clairvoyant, flagged).
    """
    if n_jobs < 1:
        raise WorkloadError(f"{n_jobs} jobs; ask for 1 or more.")
    root = np.random.SeedSequence(seed) if isinstance(seed, int) else seed
    parts = [
        _jobs_of_type(p, n_jobs, s) for p, s in zip(types, root.spawn(len(types)), strict=True)
    ]
    submit_s, procs, runtime_s = (np.concatenate(column) for column in zip(*parts, strict=True))
    queue = np.repeat(np.arange(len(types)), n_jobs)
    order = np.lexsort((queue, submit_s))[:n_jobs]
    return Workload.from_arrays(
        submit_s=submit_s[order],
        runtime_s=runtime_s[order],
        procs=procs[order],
        queue=queue[order],
        name=name,
        max_procs=2 ** int(np.ceil(max(p.u_hi for p in types))),
    )


def _jobs_of_type(
    p: LublinParameters, n_jobs: int, seed: np.random.SeedSequence
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    of_arrivals, of_procs, of_runtimes = (np.random.default_rng(s) for s in seed.spawn(3))
    submit_s = arrivals(p, n_jobs, of_arrivals)
    procs = processors(p, n_jobs, of_procs)
    return submit_s, procs, run_times(p, procs, of_runtimes)


def processors(p: LublinParameters, n_jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the number of processors of each job: float64 [n_jobs], whole numbers."""
    kind, stage, place = rng.random((n_jobs, 3)).T
    low = np.where(stage <= p.u_prob, p.u_low, p.u_med)
    high = np.where(stage <= p.u_prob, p.u_med, p.u_hi)
    exponent = low + place * (high - low)
    power_of_two = kind <= p.serial_prob + p.pow2_prob
    exponent = np.where(power_of_two, np.floor(exponent + 0.5), exponent)
    parallel: NDArray[np.float64] = np.floor(2.0**exponent + 0.5)
    procs: NDArray[np.float64] = np.where(kind <= p.serial_prob, 1.0, parallel)
    return procs


def run_times(
    p: LublinParameters, procs: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw run times in whole seconds, given the processors of each job: float64 [n_jobs]."""
    share = np.clip(p.pa * procs + p.pb, 0.0, 1.0)
    logs = np.array([_log_runtime(p, float(job_share), rng) for job_share in share])
    seconds: NDArray[np.float64] = np.floor(np.exp(logs))
    return seconds


def _log_runtime(p: LublinParameters, share: float, rng: np.random.Generator) -> float:
    while True:
        first = rng.random() <= share
        log_s = rng.gamma(p.a1, p.b1) if first else rng.gamma(p.a2, p.b2)
        if log_s <= TOO_MUCH_TIME:
            return float(log_s)


def arrivals(p: LublinParameters, n_jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw submit times in whole seconds since midnight, not decreasing: float64 [n_jobs]."""
    log_points = np.array([_log_points(p, rng) for _ in range(n_jobs)])
    points = np.cumsum(np.exp(log_points) / SECONDS_IN_BUCKET)
    cost = bucket_weights(p)
    paid = np.concatenate([[0.0], np.cumsum(cost)])
    days, rest = np.divmod(points, paid[-1])
    bucket = np.clip(np.searchsorted(paid, rest, side="left") - 1, 0, BUCKETS - 1)
    inside = (rest - paid[bucket]) / cost[bucket]
    seconds: NDArray[np.float64] = (days * BUCKETS + bucket + inside) * SECONDS_IN_BUCKET
    return np.floor(seconds)


def _log_points(p: LublinParameters, rng: np.random.Generator) -> float:
    while True:
        log_gap = rng.gamma(p.aarr * p.arar, p.barr)
        if log_gap <= TOO_MUCH_ARRIVE_TIME:
            return float(log_gap)


def bucket_weights(p: LublinParameters) -> NDArray[np.float64]:
    """Return the weight of each half hour in the daily arrival cycle: float64 [48], mean 1.

    It is NaN if no part of the gamma falls into the day.
    """
    i = np.arange(CYCLIC_DAY_START, BUCKETS + CYCLIC_DAY_START)
    weights = np.empty(BUCKETS)
    weights[(i - 1) % BUCKETS] = gammainc(p.anum, (i + 0.5) / p.bnum) - gammainc(
        p.anum, (i - 0.5) / p.bnum
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled: NDArray[np.float64] = weights / weights.mean()
    return scaled


ROUND_VALUES_S: tuple[float, ...] = (
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(3600.0 * hours for hours in (1, 1.5, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24, 36, 48, 60, 72, 96)),
)
"""Usual requests; those above the last are rounded up to whole days."""


def f_model(
    runtime_s: NDArray[np.float64], factor: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return requested times as run time * (1 + U(0, factor)), the f-model (IPPS 1998).

    The factor 0 is clairvoyant; 1 to 10 are used in the literature.
    """
    return runtime_s * (1.0 + factor * rng.random(len(runtime_s)))


def round_up(requested_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round requested times up to values that users usually request (JSSPP 2005)."""
    values = np.array(ROUND_VALUES_S)
    place = np.searchsorted(values, requested_s, side="left")
    above = np.ceil(requested_s / 86400.0) * 86400.0
    rounded: NDArray[np.float64] = np.where(
        place < len(values), values[np.minimum(place, len(values) - 1)], above
    )
    return rounded


LEAST_JOBS = 50  # of each type, for two gammas, two stages and a day

MOST_ROWS, FEW_ROWS = 20_000, 2_000
"""Largest numbers of run times in a fit (of more, every n-th): few choose one of three starts."""

ROUNDS = 200
MOST_SHAPE = 5000.0

STRANGE = 1e-3
"""Share of the jobs whose processors need no explanation, so that outliers do not set the ends."""

MOST_LOG = 7.0  # bound of |ln(anum)| and |ln(bnum)|, which diverge for a day without a cycle

KNOBS: tuple[PolicyOption, ...] = (
    PolicyOption(
        "interactive_queue",
        -1.0,
        "queue of the interactive jobs; all others are batch. -1 fits one type for all",
        lowest=-1.0,
        is_whole=True,
    ),
)


@dataclass(frozen=True)
class SizeLaw:
    """The distribution of processors per job: 1, or 2 to the power of a two-stage uniform variable.

    `pow2` is the share with a rounded exponent, `first` that of the first stage.
    """

    serial: float
    pow2: float
    first: float
    ends: tuple[float, float, float]

    @classmethod
    def of(cls, p: LublinParameters) -> "SizeLaw":
        """Return the distribution of processors that these model parameters describe."""
        return cls(p.serial_prob, p.pow2_prob, p.u_prob, (p.u_low, p.u_med, p.u_hi))

    @property
    def widest(self) -> int:
        """Largest number of processors that the distribution can draw."""
        return int(max(2.0 ** np.floor(self.ends[2] + 0.5), np.floor(2.0 ** self.ends[2] + 0.5)))

    def chances(self, sizes: Floats) -> Floats:
        """Return the probability of each number of processors in `sizes`: float64 [n]."""
        mixed: Floats = self.shares @ components(sizes, self.ends)
        return mixed

    @property
    def shares(self) -> Floats:
        """Shares of the five mixture components: float64 [5]."""
        free = max(1.0 - self.serial - self.pow2, 0.0)
        stages = np.array([self.first, 1.0 - self.first])
        return np.concatenate([[self.serial], self.pow2 * stages, free * stages])

    def at(self, ends: tuple[float, float, float]) -> "SizeLaw":
        """Return a copy with these stage ends, in which no share is 0."""
        few = 1e-3
        serial, pow2 = max(self.serial, few), max(self.pow2, few)
        total = max(serial + pow2 + few, 1.0)
        first = min(max(self.first, few), 1 - few)
        return SizeLaw(serial / total, pow2 / total, first, ends)

    def learnt(
        self, sizes: Floats, counts: Floats, rounds: int = ROUNDS
    ) -> tuple["SizeLaw", float]:
        """Fit the shares to job sizes by maximum likelihood; return copy and log-likelihood."""
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
    """Return the probability of each size under the five mixture components: float64 [5, n]."""
    powers = np.exp2(np.round(np.log2(sizes))) == sizes
    exponents = np.log2(sizes)
    rows = [(sizes == 1).astype(np.float64)]
    lower, upper = np.log2(np.maximum(sizes - 0.5, 1e-9)), np.log2(sizes + 0.5)
    for least, most, allowed in ((exponents - 0.5, exponents + 0.5, powers), (lower, upper, True)):
        for low, high in ((ends[0], ends[1]), (ends[1], ends[2])):
            rows.append(np.where(allowed, _below(most, low, high) - _below(least, low, high), 0.0))
    return np.array(rows)


def _below(x: Floats, low: float, high: float) -> Floats:
    if high <= low:
        return (x > low).astype(np.float64)
    return np.clip((x - low) / (high - low), 0.0, 1.0)


def fit_sizes(procs: NDArray[np.int64]) -> SizeLaw:
    """Fit the distribution of processors to jobs by maximum likelihood."""
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
                    candidate = best[0].at((low, middle, high)).learnt(sizes, counts)
                    best = candidate if candidate[1] > best[1] + 1e-9 else best
        if best is before:
            break
    return best[0]


def _with(ends: tuple[float, float, float], place: int, value: float) -> tuple[float, float, float]:
    low, middle, high = (value if i == place else end for i, end in enumerate(ends))
    return low, middle, high


def fit_run_times(
    runtime_s: Floats, procs: NDArray[np.int64]
) -> tuple[float, float, float, float, float, float]:
    """Fit the run-time parameters a1, b1, a2, b2, pa and pb; keep the best of three starts."""
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
    """Climb from the probabilities `mine` that each run time is of the first gamma."""
    widths, place = np.unique(procs, return_inverse=True)
    sizes, counts = widths.astype(np.float64), np.bincount(place).astype(np.float64)
    log_likelihood = -np.inf
    for _ in range(ROUNDS):
        (a1, b1), (a2, b2) = _gamma(x, mine), _gamma(x, 1.0 - mine)
        pa, pb = _line(sizes, np.bincount(place, mine).astype(np.float64), counts)
        share = np.clip(pa * sizes + pb, 1e-6, 1 - 1e-6)[place]
        first = np.log(share) + _log_density(x, a1, b1)
        second = np.log1p(-share) + _log_density(x, a2, b2)
        both = np.logaddexp(first, second)
        mine = np.exp(first - both)
        before, log_likelihood = log_likelihood, float(both.mean())
        if abs(log_likelihood - before) < 1e-6:
            break
    if a1 * b1 > a2 * b2:
        (a1, b1), (a2, b2), (pa, pb) = (a2, b2), (a1, b1), (-pa, 1.0 - pb)
    return (a1, b1, a2, b2, pa, pb), log_likelihood


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
        probability = np.clip(pa * sizes + pb, 0.02, 0.98)
        weight = counts / (probability * (1 - probability))
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
    """Fit the daily-cycle parameters anum and bnum to wall-clock submit times in seconds."""
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
    """Fit the arrival parameters aarr, barr and arar to wall-clock submit times in seconds."""
    paid = np.concatenate([[0.0], np.cumsum(bucket_weights(_of_cycle(anum, bnum)))])
    days, rest = np.divmod(clock_s, DAY_S)
    points = days * paid[-1] + np.interp(rest, np.arange(BUCKETS + 1) * SECONDS_IN_BUCKET, paid)
    gaps = np.diff(points) * SECONDS_IN_BUCKET
    logs = np.log(np.maximum(gaps + 0.5, 1.05))
    mean, variance = float(logs.mean()), max(float(logs.var()), 1e-6)
    barr, aarr = variance / mean, mean**2 / variance

    def off(log_ratio: float) -> float:
        return float(np.log(mean_gap(aarr * np.exp(log_ratio), barr, too_late)) - log_mean_gap)

    log_mean_gap = float(np.log(max(gaps.mean(), 1.05)))
    low, high = -4.0, 4.0
    if off(low) >= 0 or off(high) <= 0:
        return aarr, barr, 1.0
    return aarr, barr, float(np.exp(brentq(off, low, high, xtol=1e-9)))


def mean_gap(shape: float, barr: float, too_late: float) -> float:
    """Return the mean gap between jobs in seconds; its logarithm is a truncated gamma variable."""
    edges = np.linspace(0.0, too_late, 20_001)
    mass = np.diff(gammainc(shape, edges / barr))
    if mass.sum() < 1e-12:
        return float(np.exp(too_late))
    return float((np.exp((edges[:-1] + edges[1:]) / 2) * mass).sum() / mass.sum())


def fit_requests(workload: Workload) -> float:
    """Return the factor of `f_model` for the log's median ratio of requested to run time, or 0."""
    if workload.requested_is_runtime:
        return 0.0
    ran = workload.runtime_s >= 1.0
    if not ran.any():
        return 0.0
    runtime_s = workload.runtime_s[ran]
    median_ratio = float(np.median(workload.requested_s[ran] / runtime_s))

    def median_of(factor: float) -> float:
        rng = np.random.default_rng(0)
        return float(np.median(round_up(f_model(runtime_s, factor, rng)) / runtime_s))

    low, high = 0.0, 1000.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if median_of(middle) < median_ratio else (low, middle)
    return max(low, 0.01)


def fit_lublin(workload: Workload, knobs: Mapping[str, float]) -> Model:
    """Fit all parameters of the Lublin-Feitelson model to a log.

    Raises:
        WorkloadError: a type has fewer than `LEAST_JOBS` jobs, or all at one time.
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
        name: asdict(_fit_type(clock_s[rows], workload.runtime_s[rows], workload.procs[rows]))
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


def _fit_type(clock_s: Floats, runtime_s: Floats, procs: NDArray[np.int64]) -> LublinParameters:
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
