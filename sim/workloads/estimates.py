"""Models of the requests that users make, for workloads that know only run times."""

import numpy as np
from numpy.typing import NDArray

ROUND_VALUES_S: tuple[float, ...] = (
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 20, 30, 45)),
    *(3600.0 * hours for hours in (1, 1.5, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24, 36, 48, 60, 72, 96)),
)
"""What people ask for; requests above the last are rounded up to whole days."""


def f_model(
    runtime_s: NDArray[np.float64], factor: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return run time * (1 + U(0, factor)), the f-model (Feitelson & Mu'alem Weil, IPPS 1998).

    Args:
        runtime_s: float64 [n].
        factor: 0 is clairvoyant; 1 to 10 are used in the literature.
        rng: where the draws come from.
    """
    return runtime_s * (1.0 + factor * rng.random(len(runtime_s)))


def round_up(requested_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round requests up to the round values that people ask for (Tsafrir et al., JSSPP 2005)."""
    values = np.array(ROUND_VALUES_S)
    place = np.searchsorted(values, requested_s, side="left")
    above = np.ceil(requested_s / 86400.0) * 86400.0
    rounded: NDArray[np.float64] = np.where(
        place < len(values), values[np.minimum(place, len(values) - 1)], above
    )
    return rounded
