"""A storm of two peaks: how hard it rains at every moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.errors import SetupError

MM_PER_HOUR = 1.0 / (1000.0 * 3600.0)
"""Metres per second."""


@dataclass(frozen=True, slots=True)
class Burst:
    """A peak of rain: when, how hard, and the standard deviation of its bell."""

    at_s: float
    peak_mmh: float
    width_s: float


STORM = (Burst(3600.0, 22.0, 900.0), Burst(8100.0, 28.0, 1080.0))
"""Peaks after 1 h and after 2 h 15 min, the second one harder and longer."""

STORM_END_S = 12_600.0
"""It has stopped raining after three and a half hours."""


def hyetograph(
    n_steps: int, step_s: float, bursts: tuple[Burst, ...] = STORM, end_s: float = STORM_END_S
) -> npt.NDArray[np.float64]:
    """Return the rain of every step in mm/h: float64 [n_steps], by the middle of the step.

    Raises `SetupError` for no steps, or steps of no length.
    """
    if n_steps < 1 or not step_s > 0:
        raise SetupError(f"{n_steps} steps of {step_s} s; allowed are 1 or more, of more than 0 s.")
    middle_s = (np.arange(n_steps) + 0.5) * step_s
    rain = np.zeros(n_steps)
    for burst in bursts:
        rain += burst.peak_mmh * np.exp(-0.5 * ((middle_s - burst.at_s) / burst.width_s) ** 2)
    return np.where(middle_s < end_s, rain, 0.0)
