"""What the report on how well a window was foreseen holds, and what each figure means."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.workloads.cloud.demand import Band
from sim.workloads.cloud.packing import FULL
from sim.workloads.cloud.report_packing import PackedReport

Floats = NDArray[np.float64]

SHARE = 0.9
"""Of generated windows within a band."""

LEVELS: tuple[float, ...] = tuple(np.round(np.linspace(0.01, 0.99, 99), 2).tolist())
"""Quantiles that are held against each other."""

DEFINITIONS: dict[str, str] = {
    "NLL": "Mean negative log-likelihood, in nats, of the next flavour or end of a batch, given "
    "what really came before it. Less is better.",
    "error": "Share of the steps at which the likeliest outcome is not the true one, of all that "
    "could have come (honest). Of lifetimes: of jobs whose end was seen.",
    "error as the paper counts it": "The same for lifetimes, but the likeliest bin is looked for "
    "among those up to the true one only, as the authors' program does. It knows a part of the "
    "answer, so it is no forecast and compares with nothing but the paper's own column.",
    "BCE": "Mean binary cross entropy over the bins that a job is known to have lived through or "
    "to have ended in.",
    "NLL per job": "Negative log-likelihood of the bin of a lifetime, in nats per job.",
    "Survival-MSE": "Mean over the jobs that ended, and over time up to the end of the last bin "
    "(30 days), of the squared difference between the curve foreseen and the true one, which is 1 "
    "until the job ends and 0 from there on (Kvamme and Borgan 2021). CDI: jobs end evenly spread "
    "within their bin; stepped: at its end. Where only bins are known, true lives are spread "
    "evenly within theirs. Less is better.",
    "inside": f"Share of the periods in which the real value lies in the band that holds "
    f"{100 * SHARE:g} % of the generated windows; the nearer to that, the better. Every job of "
    "`naive` is a batch of its own.",
    "width": "Mean width of that band.",
    "interval score": "Width, and what lies outside of the band times 2 / (1 - share), averaged "
    "(Gneiting and Raftery 2007). Less is better.",
    "demand": "Processors of the jobs that live in each period if none had to wait. Jobs that "
    "began before the window count on neither side.",
    "reuse distance": "How many other flavours were asked for since a flavour was asked for last "
    "(Hadary et al. 2020); total variation is half of the summed differences of the shares.",
    "survival": "Share of the jobs that live longer than so many seconds, by Kaplan and Meier; "
    "the distance is the largest difference between the real curve and the mean generated one.",
    "KS": "Kolmogorov-Smirnov distance of a generated window from the real one, with the range "
    "that 90 % of the generated windows have.",
    "Wasserstein": "Wasserstein-1 distance, likewise, in the unit of the values.",
    "first failure": "Share of all cores, or of all memory, of empty servers that is allocated "
    "when the first job has room nowhere (FFAR, section 6.2). Jobs come in their order from a "
    "random start, lie on one server each, and leave at their end; one that is wider than an empty "
    "server is passed over. The larger of the two shares counts, and its resource limits. The real "
    "window and generated ones are packed by the same tuples; beside the median are the shares of "
    f"the packings above {100 * FULL:g} % and of those limited by cores.",
}  # fmt: skip
"""What each figure means, for people."""


@dataclass(frozen=True)
class FlavourRow:
    """How well something foresees the next flavour or end of batch.

    Attributes:
        name: a generator, or a baseline of the paper.
        nll: None if it gives no probabilities.
        error: honest.
    """

    name: str
    nll: float | None
    error: float


@dataclass(frozen=True)
class LifetimeRow:
    """How well something foresees the bin of a lifetime; see `DEFINITIONS`.

    Attributes:
        name: a generator, or a baseline of the paper.
        bce: None if it gives no probabilities.
        nll: per job; likewise.
        error: honest; None if it does not tell bins.
        masked_error: as the paper counts it; None if that is not another figure.
        survival_mse: of jobs that ended, by curves that fall evenly within bins (CDI); None if it
            gives no probabilities.
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
class Course:
    """A number in each period, and the band that generated windows keep it in.

    Attributes:
        band: of the windows: float64 [n_periods] each.
        inside: share of the periods in which the real number is within.
        width: mean.
        score: interval score.
    """

    band: Band
    inside: float
    width: float
    score: float

    @classmethod
    def of(cls, windows: Floats, real: Floats) -> "Course":
        """Hold the real numbers [n_periods] against generated ones [n_windows, n_periods]."""
        tail = (1.0 - SHARE) / 2.0
        low, median, high = np.quantile(windows, (tail, 0.5, 1.0 - tail), axis=0)
        band = Band(low, median, high)
        return cls(band, band.covers(real), band.mean_width, band.interval_score(real, SHARE))


@dataclass(frozen=True)
class Spread:
    """A figure of generated windows: its mean, and the range of 90 % of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """Return the spread of a figure over windows."""
        tail = (1.0 - SHARE) / 2.0
        low, high = np.quantile(values, (tail, 1.0 - tail))
        return cls(float(values.mean()), float(low), float(high))


@dataclass(frozen=True, eq=False)
class Likeness:
    """How like the values of a column are to the real ones.

    Attributes:
        column: what is distributed.
        unit: of the values.
        ks: distance, see `DEFINITIONS`.
        wasserstein: likewise.
        real: float64 [len(LEVELS)], quantiles of the real values.
        low: float64 [len(LEVELS)], of generated windows; `median` and `high` likewise.
        median: see above.
        high: see above.
    """

    column: str
    unit: str
    ks: Spread
    wasserstein: Spread
    real: Floats
    low: Floats
    median: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Generated:
    """What a generator makes of the window.

    Attributes:
        name: of the generator.
        source: what it was fitted to, for people.
        n_jobs: in a window.
        batches: that begin in each period.
        jobs: likewise.
        cores: demand in each period.
        reuse: float64 [n_flavours], shares of the reuse distances.
        reuse_variation: total variation from the real ones.
        survival: float64 [n_bins - 1] each, at the ends of the bins.
        survival_distance: from the real curve.
        columns: by column.
        picture: see `Picture`.
    """

    name: str
    source: str
    n_jobs: Spread
    batches: Course
    jobs: Course
    cores: Course
    reuse: Floats
    reuse_variation: float
    survival: Band
    survival_distance: float
    columns: tuple[Likeness, ...]
    picture: "Picture"


@dataclass(frozen=True, eq=False)
class Picture:
    """Some periods as in figure 1 of the paper: a row each, its jobs in order.

    Attributes:
        period: int64 [n], row of each job, from 0.
        batch: int64 [n], from 0 in each row.
        flavour: int64 [n].
        lifetime: int64 [n], bin.
        left_out: int64 [n_rows], further jobs of the row that are not shown.
    """

    period: NDArray[np.int64]
    batch: NDArray[np.int64]
    flavour: NDArray[np.int64]
    lifetime: NDArray[np.int64]
    left_out: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class CloudReport:
    """How well generators that learnt from one window foresee another.

    Attributes:
        train: name of what was learnt from.
        test: name of what was foreseen.
        n_jobs: of both.
        n_batches: of both.
        days: of both.
        period_s: length of a period.
        n_windows: that each generator drew.
        seed: of the draws.
        flavours: names, in their order.
        ends_s: float64 [n_bins - 1], where bins of lifetimes end.
        notes: what had to be decided.
        next_flavour: scores.
        next_lifetime: scores.
        batches: float64 [n_periods], real; `jobs`, `cores` likewise.
        jobs: see above.
        cores: see above.
        reuse: float64 [n_flavours], real.
        survival: float64 [n_bins - 1], real.
        picture: of the real window.
        generators: what each made.
        packing: how the windows pack onto servers.
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
    picture: Picture
    generators: tuple[Generated, ...]
    packing: PackedReport

    def to_dict(self) -> dict[str, Any]:
        """Return plain dictionaries, lists, texts and numbers, ready for JSON."""
        told: dict[str, Any] = _plain(asdict(self))
        return {**told, "levels": list(LEVELS), "definitions": DEFINITIONS}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value
