"""The published platform: what the PipeSim paper prints, and for the rest defaults of ours.

Printed there: the shares of the frameworks (section IV-B1), 50 percent of the TensorFlow jobs below
180 s and of the Spark ML jobs below 10 s (V-A2), one pipeline every 44 s over a year (VI-C), a peak
around 16:00 (VI-A), data sets of 50 rows and 2 columns at least (V-A1). Everything else is ours,
chosen to be plausible and round, and said so where it stands.
"""

from functools import cache

import numpy as np

from sim.aiops.arrivals import CELLS, HOUR_S, Arrivals
from sim.aiops.curve import Curve
from sim.aiops.laws import Law
from sim.aiops.mixture import Mixture, mixture_of
from sim.aiops.statistics import GRID, Floats, Statistics

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
"""Shapes a, b of Kumaraswamy's law, F(x) = 1 - (1 - x^a)^b, which has a quantile in closed form."""

HOURS = (
    0.35, 0.28, 0.24, 0.22, 0.24, 0.32, 0.45, 0.66, 0.92, 1.18, 1.36, 1.42,
    1.34, 1.44, 1.66, 1.90, 2.10, 1.84, 1.46, 1.14, 0.92, 0.74, 0.58, 0.45,
)  # fmt: skip
"""Arrivals by hour of the day, before scaling; the peak is the hour from 16:00."""

WEEKDAYS = (1.10, 1.20, 1.20, 1.15, 1.05, 0.65, 0.65)
GAP_SHAPES = (1.6, 0.72)
"""a and c of the exponentiated Weibull law of a gap: somewhat burstier than a Poisson process."""


@cache
def published() -> Statistics:
    """Return the statistics of the published platform."""
    return Statistics(
        _assets(),
        Curve(0.03, 1.5, 2.0, Law("lognorm", (0.9,), 1.5)),
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
        "printed in the PipeSim paper where it prints a number, else defaults of Copperline",
    )


def published_arrivals(mean_gap_s: float = MEAN_GAP_S) -> Arrivals:
    """Return arrivals of so many seconds apart on average over a week, by hour and weekday."""
    unit = Law("exponweib", GAP_SHAPES, 1.0)
    weights = np.array([day * hour for day in WEEKDAYS for hour in HOURS])
    per_hour = HOUR_S / mean_gap_s * weights * (CELLS / weights.sum())
    cells = tuple(unit.scaled(float(HOUR_S / rate / unit.mean)) for rate in per_hour)
    return Arrivals(unit.scaled(mean_gap_s / unit.mean), cells)


def _assets() -> Mixture:
    """Three kinds of tables: small and narrow, long and narrow, wide; 6 to 10 bytes a cell."""
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
