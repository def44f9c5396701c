"""Statistics of a platform: distributions of data, tasks, models and arrivals.

Times are seconds since the beginning of the simulation. The arrival profiles `random` and
`realistic` are those of section V-A3 of the PipeSim paper, where a gap is drawn from the hour in
which it begins, so that long gaps of a quiet night reach into the morning and busy hours lose
arrivals. The profile `calendar` is ours: at the end of an hour, the rest of the gap is scaled to
the mean of the next hour, so that each hour gets its expected number of arrivals. Numbers that the
paper does not print are our defaults.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.aiops.distributions import Mixture, PositiveDistribution, PreprocessingCurve, mixture_of
from sim.generators.generator import Json, Model, RandomStreams
from sim.model.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]


HOUR_S = 3600.0
CELLS = 168  # hours of a week, counted from Monday midnight

BLOCK = 4096
_DRAWN = 512


@dataclass(frozen=True)
class PipelineArrivals:
    """Distributions of the seconds between pipeline arrivals, overall and per hour of the week.

    Attributes:
        everywhere: distribution of all gaps, for `random`.
        cells: one distribution per hour of the week from Monday midnight, for `realistic` and
            `calendar`; or empty.
        recorded: rising times of arrival in seconds from the beginning of a record, for `replay`.

    Raises:
        SetupError: a number of cells other than 0 or 168, or a record that does not rise from 0.
    """

    everywhere: PositiveDistribution
    cells: tuple[PositiveDistribution, ...] = ()
    recorded: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if len(self.cells) not in (0, CELLS):
            raise SetupError(f"there are {len(self.cells)} laws of hours; allowed are 0 and 168.")
        times = np.asarray(self.recorded, dtype=float)
        if len(times) and not (times[0] >= 0 and np.all(np.diff(times) >= 0)):
            raise SetupError("recorded arrivals must rise, from 0 s.")

    def hourly(self) -> Floats:
        """Return the expected arrivals in each hour of the week, float64 [168]."""
        laws = self.cells or (self.everywhere,) * CELLS
        return np.array([HOUR_S / law.mean for law in laws])


def arrival_blocks(
    arrivals: PipelineArrivals,
    streams: RandomStreams,
    *,
    profile: str = "realistic",
    factor: float = 1.0,
    start_s: float = 0.0,
    until_s: float = math.inf,
) -> Iterator[Floats]:
    """Yield increasing arrival times in seconds, in blocks, until `until_s`.

    Args:
        arrivals: distributions of gaps.
        streams: random streams; every hour of the week has its own.
        profile: one of `PROFILES`.
        factor: factor on every gap; 2 halves the arrivals.
        start_s: seconds since Monday midnight at time 0.
        until_s: end; all arrivals are before it.

    Raises:
        UnknownNameError: no such profile.
        SetupError: a factor that is not above 0, or a profile without its distributions.
    """
    selected = PROFILES.get(profile)
    if selected is None:
        raise UnknownNameError("arrival profile", profile, PROFILES)
    if not (math.isfinite(factor) and factor > 0):
        raise SetupError(f"the interarrival factor is {factor!r}; allowed are numbers above 0.")
    times = selected(arrivals, streams, factor, start_s, until_s)
    block: list[float] = []
    for time in times:
        if time >= until_s:
            break
        block.append(time)
        if len(block) == BLOCK:
            yield np.array(block)
            block = []
    if block:
        yield np.array(block)


class _Draws:
    def __init__(self, law: PositiveDistribution, rng: np.random.Generator) -> None:
        self._law, self._rng = law, rng
        self._left: list[float] = []

    def __call__(self) -> float:
        if not self._left:
            self._left = self._law.sample(self._rng, _DRAWN).tolist()
        return self._left.pop()


def _hours(arrivals: PipelineArrivals, streams: RandomStreams, profile: str) -> list[_Draws]:
    """Return the draws of gaps for each hour of the week, each from a stream of its own."""
    if not arrivals.cells:
        raise SetupError(
            f"profile '{profile}' needs laws by hour; without them, use profile 'random'."
        )
    return [_Draws(law, streams.of(f"hour {cell}")) for cell, law in enumerate(arrivals.cells)]


def _random(
    arrivals: PipelineArrivals, streams: RandomStreams, factor: float, _start_s: float, _end: float
) -> Iterator[float]:
    draw, time = _Draws(arrivals.everywhere, streams.of("gaps")), 0.0
    while True:
        time += draw() * factor
        yield time


def _realistic(
    arrivals: PipelineArrivals, streams: RandomStreams, factor: float, start_s: float, _end: float
) -> Iterator[float]:
    draws, time = _hours(arrivals, streams, "realistic"), 0.0
    while True:
        time += draws[int((time + start_s) // HOUR_S) % CELLS]() * factor
        yield time


def _calendar(
    arrivals: PipelineArrivals,
    streams: RandomStreams,
    factor: float,
    start_s: float,
    until_s: float,
) -> Iterator[float]:
    draws = _hours(arrivals, streams, "calendar")
    means = [law.mean for law in arrivals.cells]
    if not all(map(math.isfinite, means)):
        raise SetupError("profile 'calendar' needs laws with a mean in every hour.")
    hour, within = divmod(start_s, HOUR_S)
    time, cell, border = 0.0, int(hour) % CELLS, HOUR_S - within
    while time < until_s:
        left = draws[cell]() * factor
        while time + left >= border:
            following = (cell + 1) % CELLS
            left = (time + left - border) * means[following] / means[cell]
            time, cell, border = border, following, border + HOUR_S
            if time >= until_s:
                return
        time += left
        yield time


def _replay(
    arrivals: PipelineArrivals, _streams: RandomStreams, factor: float, _start_s: float, _end: float
) -> Iterator[float]:
    if not arrivals.recorded:
        raise SetupError("profile 'replay' needs recorded arrivals; there are none.")
    return (time * factor for time in arrivals.recorded)


ArrivalTimes = Callable[[PipelineArrivals, RandomStreams, float, float, float], Iterator[float]]
"""Function of arrivals, random streams, factor, start and end, to rising times in seconds."""

PROFILES: Mapping[str, ArrivalTimes] = {
    "random": _random, "realistic": _realistic, "calendar": _calendar, "replay": _replay,
}  # fmt: skip


GENERATOR = "ai-platform"  # name of the generator in a model of statistics

GRID = tuple(float(u) for u in np.linspace(0.0, 1.0, 101))
"""Probabilities of the quantiles of performance."""

_MIXTURE = ("weights", "means", "covariances", "lowest", "highest")


@dataclass(frozen=True, eq=False)
class PlatformStatistics:
    """Distributions of a platform's data sizes, task durations, models and arrivals.

    Attributes:
        assets: rows, columns and bytes of a data set.
        preprocess: seconds by rows x columns.
        seconds: seconds of tasks that do not depend on training: `evaluate`, `deploy`, `monitor`.
        mix: share of the training jobs, by framework; sums to 1.
        like_training: for tasks that take about as long as training (`compress`, `harden`):
            standard deviation of the Gaussian noise, as a share of the training time.
        estimators: share of each estimator type, by framework; each sums to 1.
        performance: quantiles at `GRID` by estimator type, from 0 to 1, rising.

    Raises:
        SetupError: shares that do not sum to 1, a framework or an estimator without distributions,
            or quantiles that do not rise within 0 and 1.
    """

    assets: Mixture
    preprocess: PreprocessingCurve
    train: Mapping[str, Mixture]
    seconds: Mapping[str, Mixture]
    mix: Mapping[str, float]
    like_training: Mapping[str, float]
    estimators: Mapping[str, Mapping[str, float]]
    performance: Mapping[str, Floats]
    arrivals: PipelineArrivals
    source: str = ""

    def __post_init__(self) -> None:
        if self.assets.dimensions != 3:
            raise SetupError("data sets need a mixture of 3 numbers: rows, columns and bytes.")
        check_shares("frameworks", self.mix)
        for framework, shares in {name: self.estimators.get(name, {}) for name in self.mix}.items():
            if framework not in self.train:
                raise SetupError(f"framework '{framework}' has no law of training.")
            check_shares(f"estimators of '{framework}'", shares)
            for estimator in shares:
                if estimator not in self.performance:
                    raise SetupError(f"estimator '{estimator}' has no law of performance.")
        for estimator, quantiles in self.performance.items():
            inside = len(quantiles) == len(GRID) and quantiles[0] >= 0 and quantiles[-1] <= 1
            if not (inside and np.all(np.diff(quantiles) >= 0)):
                raise SetupError(f"'{estimator}' needs 101 rising quantiles from 0 to 1.")

    def model(self) -> Model:
        """Convert the statistics to a `Model`, which can be saved as JSON and npz."""
        mixtures = {"assets": self.assets}
        mixtures |= {f"train {name}": mixture for name, mixture in self.train.items()}
        mixtures |= {f"seconds {name}": mixture for name, mixture in self.seconds.items()}
        arrays: dict[str, NDArray[Any]] = {
            f"{name}|{part}": getattr(mixture, part)
            for name, mixture in mixtures.items()
            for part in _MIXTURE
        }
        arrays |= {f"performance {name}": q for name, q in self.performance.items()}
        arrays["recorded"] = np.asarray(self.arrivals.recorded, dtype=float)
        parameters: dict[str, Json] = {
            "preprocess": self.preprocess.to_dict(),
            "train": sorted(self.train),
            "seconds": sorted(self.seconds),
            "mix": dict(self.mix),
            "like_training": dict(self.like_training),
            "estimators": {name: dict(shares) for name, shares in self.estimators.items()},
            "performance": sorted(self.performance),
            "everywhere": self.arrivals.everywhere.to_dict(),
            "cells": [law.to_dict() for law in self.arrivals.cells],
        }
        return Model(GENERATOR, parameters, arrays, self.source)


def statistics_of(model: Model) -> PlatformStatistics:
    """Return the platform statistics that are stored in a `Model`.

    Raises:
        SetupError: a model of another generator, or a missing part.
    """
    if model.generator != GENERATOR:
        raise SetupError(f"the model is of '{model.generator}'; allowed is '{GENERATOR}'.")
    parameters, arrays = model.parameters, model.arrays
    try:
        return PlatformStatistics(
            _mixture(model, "assets"),
            PreprocessingCurve.read(parameters["preprocess"]),
            {name: _mixture(model, f"train {name}") for name in parameters["train"]},
            {name: _mixture(model, f"seconds {name}") for name in parameters["seconds"]},
            parameters["mix"],
            parameters["like_training"],
            parameters["estimators"],
            {name: arrays[f"performance {name}"] for name in parameters["performance"]},
            PipelineArrivals(
                PositiveDistribution.read(parameters["everywhere"]),
                tuple(PositiveDistribution.read(law) for law in parameters["cells"]),
                tuple(arrays["recorded"].tolist()),
            ),
            model.source,
        )
    except (KeyError, TypeError) as error:
        raise SetupError(f"the model of the platform lacks a part: {error}.") from None


def _mixture(model: Model, name: str) -> Mixture:
    return Mixture(*(model.arrays[f"{name}|{part}"] for part in _MIXTURE))


def check_shares(subject: str, shares: Mapping[str, float]) -> None:
    """Raise `SetupError` unless all shares are at least 0 and sum to 1."""
    if not shares or min(shares.values()) < 0 or abs(sum(shares.values()) - 1) > 1e-6:
        listing = ", ".join(f"{name} {share:g}" for name, share in shares.items()) or "none"
        raise SetupError(
            f"the shares of {subject} are {listing}; allowed are shares that sum to 1."
        )


MIX = {"SparkML": 0.63, "TensorFlow": 0.32, "PyTorch": 0.03, "Caffe": 0.01, "other": 0.01}
MEDIAN_S = {"SparkML": 10.0, "TensorFlow": 180.0, "PyTorch": 240.0, "Caffe": 300.0, "other": 60.0}
MEAN_GAP_S = 44.0

_PARTS = {
    "SparkML": ((0.70, 8.0, 0.6), (0.25, 25.0, 0.9), (0.05, 300.0, 1.0)),
    "TensorFlow": ((0.55, 90.0, 1.0), (0.33, 500.0, 0.9), (0.12, 5_000.0, 1.0)),
    "PyTorch": ((0.55, 120.0, 1.0), (0.33, 700.0, 0.9), (0.12, 6_000.0, 1.0)),
    "Caffe": ((0.60, 150.0, 1.0), (0.40, 900.0, 1.0)),
    "other": ((1.0, 60.0, 1.4),),
}
_LONGEST_S = {"SparkML": 86_400.0}
_LONGEST_OTHER_S = 5 * 86_400.0

_NETWORK = {"network": 1.0}
_ESTIMATORS = {
    "SparkML": {"linear": 0.45, "forest": 0.35, "boosting": 0.20},
    "TensorFlow": _NETWORK,
    "PyTorch": _NETWORK,
    "Caffe": _NETWORK,
    "other": {"linear": 0.5, "network": 0.5},
}
_PERFORMANCE = {
    "linear": (6.0, 2.2),
    "forest": (8.0, 1.9),
    "boosting": (9.0, 1.8),
    "network": (10.0, 1.7),
}
"""Shapes a, b of Kumaraswamy's F(x) = 1 - (1 - x^a)^b, whose quantile has a closed form."""

HOURS = (
    0.35, 0.28, 0.24, 0.22, 0.24, 0.32, 0.45, 0.66, 0.92, 1.18, 1.36, 1.42,
    1.34, 1.44, 1.66, 1.90, 2.10, 1.84, 1.46, 1.14, 0.92, 0.74, 0.58, 0.45,
)  # fmt: skip
"""Arrivals by hour of the day, before scaling; the peak is the hour from 16:00."""

WEEKDAYS = (1.10, 1.20, 1.20, 1.15, 1.05, 0.65, 0.65)
GAP_SHAPES = (1.6, 0.72)
"""Shapes a, c of the exponentiated Weibull gaps: somewhat burstier than a Poisson process."""


@cache
def published_statistics() -> PlatformStatistics:
    """Return platform statistics from the PipeSim paper, with defaults where it prints none."""
    return PlatformStatistics(
        _assets(),
        PreprocessingCurve(0.03, 1.5, 2.0, PositiveDistribution("lognorm", (0.9,), 1.5)),
        {
            name: mixture_of(parts, 0.5, _LONGEST_S.get(name, _LONGEST_OTHER_S)).with_median(
                MEDIAN_S[name]
            )
            for name, parts in _PARTS.items()
        },
        {
            "evaluate": mixture_of(((0.85, 12.0, 0.7), (0.15, 90.0, 1.0)), 0.5, 36_000.0),
            "deploy": mixture_of(((1.0, 20.0, 0.4),), 1.0, 3_600.0),
            "monitor": mixture_of(((1.0, 30.0, 0.6),), 1.0, 7_200.0),
        },
        MIX,
        {"compress": 0.1, "harden": 0.2},
        _ESTIMATORS,
        {name: _kumaraswamy(*shapes) for name, shapes in _PERFORMANCE.items()},
        published_arrivals(),
        "numbers of the PipeSim paper where it prints them, else defaults of Copperline",
    )


def published_arrivals(mean_gap_s: float = MEAN_GAP_S) -> PipelineArrivals:
    """Return the default arrivals per hour of the week, after PipeSim, with this mean gap in s."""
    unit = PositiveDistribution("exponweib", GAP_SHAPES, 1.0)
    weights = np.array([day * hour for day in WEEKDAYS for hour in HOURS])
    per_hour = HOUR_S / mean_gap_s * weights * (CELLS / weights.sum())
    cells = tuple(unit.scaled(float(HOUR_S / rate / unit.mean)) for rate in per_hour)
    return PipelineArrivals(unit.scaled(mean_gap_s / unit.mean), cells)


def _assets() -> Mixture:
    """Return three kinds of tables: small, long, wide; 6 to 10 bytes per cell."""
    medians = np.array([[800.0, 12.0], [60_000.0, 25.0], [8_000.0, 300.0]])
    spreads = np.array([[1.0, 0.6], [1.6, 0.7], [1.3, 0.9]])
    means = np.column_stack([np.log(medians), np.log(medians).sum(axis=1) + np.log(8.0)])
    covariances = np.zeros((3, 3, 3))
    for k, (rows, columns) in enumerate(spreads**2):
        covariances[k] = [
            [rows, 0.0, rows],
            [0.0, columns, columns],
            [rows, columns, rows + columns + 0.5**2],
        ]
    return Mixture(
        np.array([0.45, 0.40, 0.15]), means, covariances,
        np.array([50.0, 2.0, 400.0]), np.array([2e8, 2e4, 1e12]),
    )  # fmt: skip


def _kumaraswamy(a: float, b: float) -> Floats:
    return np.asarray((1 - (1 - np.array(GRID)) ** (1 / b)) ** (1 / a))
