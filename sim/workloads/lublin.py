"""The Lublin-Feitelson model of rigid parallel jobs, with its published parameters.

Lublin and Feitelson, "The workload on parallel supercomputers: modeling the characteristics of
rigid jobs", Journal of Parallel and Distributed Computing 63(11), 2003, and the authors' program
`m_lublin99`. Names of parameters are theirs.

- Processors: serial with probability `serial_prob`; else 2 to the power of a two-stage uniform
  variable, which is rounded to a whole exponent with probability `pow2_prob`.
- Run time: exp of a hyper-gamma variable whose mixture depends on the processors; variables above
  `TOO_MUCH_TIME` are drawn again.
- Arrivals: each job brings exp(gamma(aarr * arar, barr)) / 1800 points, which pay for the half
  hours of a daily cycle; a half hour costs its weight, the share of a gamma(anum, bnum) variable
  that falls into it. The arrival is where the points run out. We compute that as the inverse of
  the cumulative weight, which is the authors' loop in closed form; they also truncate the clock to
  whole seconds after each job, which makes it lose half a second a job, and we do not.
- Quirk, kept: `CYCLIC_DAY_START` is said to be an hour (11 o'clock) but is used as an index of
  half hours, so the modelled day starts at 5:30.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from sim.errors import WorkloadError
from sim.model.workload import Workload

BUCKETS = 48
SECONDS_IN_BUCKET = 1800.0
CYCLIC_DAY_START = 11
TOO_MUCH_TIME = 12.0
TOO_MUCH_ARRIVE_TIME = 13.0


@dataclass(frozen=True)
class LublinParameters:
    """The parameters of one type of job, named as by the authors."""

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
    """Draw a workload from the model.

    Args:
        n_jobs: jobs of all types together, at least 1.
        seed: each type has streams of its own for arrivals, processors and run times, so that a
            longer workload begins with the jobs of a shorter one.
        types: `BOTH_TYPES`, or ``(TYPELESS,)``. The index of the type is the job's queue
            (0 interactive, 1 batch, as the authors' program writes it).
        name: of the workload.

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
    """Draw whole numbers of processors: float64 [n_jobs]."""
    kind, stage, place = rng.random((n_jobs, 3)).T
    low = np.where(stage <= p.u_prob, p.u_low, p.u_med)
    high = np.where(stage <= p.u_prob, p.u_med, p.u_hi)
    exponent = low + place * (high - low)
    power_of_two = kind <= p.serial_prob + p.pow2_prob
    exponent = np.where(power_of_two, np.floor(exponent + 0.5), exponent)
    drawn: NDArray[np.float64] = np.floor(2.0**exponent + 0.5)
    chosen: NDArray[np.float64] = np.where(kind <= p.serial_prob, 1.0, drawn)
    return chosen


def run_times(
    p: LublinParameters, procs: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw run times in whole seconds, given processors: float64 [n_jobs]."""
    share = np.clip(p.pa * procs + p.pb, 0.0, 1.0)
    drawn = np.array([_log_runtime(p, float(one), rng) for one in share])
    seconds: NDArray[np.float64] = np.floor(np.exp(drawn))
    return seconds


def _log_runtime(p: LublinParameters, share: float, rng: np.random.Generator) -> float:
    while True:
        first = rng.random() <= share
        drawn = rng.gamma(p.a1, p.b1) if first else rng.gamma(p.a2, p.b2)
        if drawn <= TOO_MUCH_TIME:
            return float(drawn)


def arrivals(p: LublinParameters, n_jobs: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw submit times in whole seconds since midnight: float64 [n_jobs], not decreasing."""
    drawn = np.array([_log_points(p, rng) for _ in range(n_jobs)])
    points = np.cumsum(np.exp(drawn) / SECONDS_IN_BUCKET)
    cost = bucket_weights(p)
    paid = np.concatenate([[0.0], np.cumsum(cost)])
    days, rest = np.divmod(points, paid[-1])
    bucket = np.clip(np.searchsorted(paid, rest, side="left") - 1, 0, BUCKETS - 1)
    inside = (rest - paid[bucket]) / cost[bucket]
    seconds: NDArray[np.float64] = (days * BUCKETS + bucket + inside) * SECONDS_IN_BUCKET
    return np.floor(seconds)


def _log_points(p: LublinParameters, rng: np.random.Generator) -> float:
    while True:
        drawn = rng.gamma(p.aarr * p.arar, p.barr)
        if drawn <= TOO_MUCH_ARRIVE_TIME:
            return float(drawn)


def bucket_weights(p: LublinParameters) -> NDArray[np.float64]:
    """Return what each half hour of the day costs, from midnight on: float64 [48], mean 1.

    Not a number if nothing of the gamma falls into the day.
    """
    i = np.arange(CYCLIC_DAY_START, BUCKETS + CYCLIC_DAY_START)
    weights = np.empty(BUCKETS)
    weights[(i - 1) % BUCKETS] = gammainc(p.anum, (i + 0.5) / p.bnum) - gammainc(
        p.anum, (i - 0.5) / p.bnum
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled: NDArray[np.float64] = weights / weights.mean()
    return scaled
