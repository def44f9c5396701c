"""How far what was simulated is from what was observed: quantiles, Kolmogorov, Wasserstein."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import SetupError

Floats = NDArray[np.float64]

PROBABILITIES = tuple(float(p) for p in np.linspace(0.005, 0.995, 100))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two samples side by side.

    Attributes:
        name: of what is compared.
        n_observed: size of the first sample.
        n_simulated: size of the second.
        observed: its quantiles at `PROBABILITIES`.
        simulated: those of the second.
        ks: largest distance between the two empirical distribution functions, 0 to 1.
        ks_critical: what `ks` exceeds in one of twenty cases if both samples are of one
            continuous law (Smirnov's asymptotic 1.358 sqrt((n + m) / nm)).
        wasserstein: mean distance between the two quantile functions, in the unit of the samples.
        log_wasserstein: the same of the logarithms: 0.1 is about 10 percent.
    """

    name: str
    n_observed: int
    n_simulated: int
    observed: tuple[float, ...]
    simulated: tuple[float, ...]
    ks: float
    ks_critical: float
    wasserstein: float
    log_wasserstein: float


def compare(name: str, observed: Floats, simulated: Floats) -> Comparison:
    """Compare two samples of a positive number.

    Raises:
        SetupError: one is empty or holds what is not finite and above 0.
    """
    for which, sample in (("observed", observed), ("simulated", simulated)):
        if not len(sample) or not np.all(np.isfinite(sample)) or np.min(sample) <= 0:
            raise SetupError(f"the {which} sample of '{name}' must be numbers above 0, and some.")
    n, m = len(observed), len(simulated)
    return Comparison(
        name,
        n,
        m,
        tuple(float(q) for q in np.quantile(observed, PROBABILITIES)),
        tuple(float(q) for q in np.quantile(simulated, PROBABILITIES)),
        ks_distance(observed, simulated),
        1.358 * float(np.sqrt((n + m) / (n * m))),
        wasserstein_distance(observed, simulated),
        wasserstein_distance(np.log(observed), np.log(simulated)),
    )


def ks_distance(first: Floats, second: Floats) -> float:
    """Return the largest distance between two empirical distribution functions."""
    places = np.concatenate([first, second])
    return float(np.max(np.abs(_share_below(first, places) - _share_below(second, places))))


def wasserstein_distance(first: Floats, second: Floats) -> float:
    """Return the area between two empirical distribution functions."""
    places = np.sort(np.concatenate([first, second]))
    apart = np.abs(_share_below(first, places) - _share_below(second, places))
    return float(np.sum(apart[:-1] * np.diff(places)))


def _share_below(sample: Floats, places: Floats) -> Floats:
    return np.searchsorted(np.sort(sample), places, side="right") / len(sample)
