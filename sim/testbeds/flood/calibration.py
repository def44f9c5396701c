"""The question: which soil, rain and roughness make the model give what the sensors measured?

A calibration in the spirit of IFM (Singhal et al. 2014), the first application of the Copper
paper: parameters of the incoming rain and of the soil, and the difference from sensors' series is
to be small. Where the soil conducts more than it ever rains, all rain seeps away where it falls:
nothing runs off, and no other parameter matters any more.

The sensors are the model's own, run once with a truth that lies between the levels, with noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from sim.errors import SetupError
from sim.testbeds.flood.routing import Flows, Ground, simulate
from sim.testbeds.flood.storm import hyetograph
from sim.testbeds.flood.terrain import Terrain, make_terrain

Floats = npt.NDArray[np.float64]

LEVELS: Mapping[str, tuple[float, ...]] = {
    "conductivity_mmh": (1.5, 3.0, 6.0, 12.0, 40.0, 120.0),
    "rain_factor": (0.7, 0.8, 0.9, 1.0, 1.1, 1.2),
    "moisture_deficit": (0.02, 0.06, 0.1, 0.15, 0.2, 0.3),
    "roughness": (0.04, 0.055, 0.08, 0.11, 0.15, 0.22),
}
"""6 x 6 x 6 x 6 = 1,296. Conductivities of clay loam, loam, silt loam, sandy loam, loamy sand and
sand (Rawls, Brakensiek and Miller 1983, rounded); Manning's n of bare ground to dense grass (Engman
1986)."""

TRUTH: Mapping[str, tuple[float, float]] = {
    "conductivity_mmh": (2.2, 7.0),
    "rain_factor": (0.9, 1.1),
    "moisture_deficit": (0.05, 0.13),
    "roughness": (0.05, 0.12),
}
"""Between these the truth is drawn, evenly in its logarithm."""

SUCTION_M = 0.11
"""Suction head at the wetting front, of sandy loam (Rawls, Brakensiek and Miller 1983)."""

STEP_S = 15.0
STEPS_PER_SAMPLE = 20
N_SAMPLES = 60
"""Sensors tell the mean of five minutes, for five hours."""

NOISE = 0.04
"""Standard deviation of the logarithm of what a sensor tells."""

TOGETHER = 16
"""Configurations simulated side by side: what fits into the cache of a processor."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """One catchment, its storm and what its sensors told.

    Attributes:
        seed: that it was drawn by.
        terrain: the catchment; its sensors are the outlet and two streams.
        rain_mmh: float64 [n_steps], as a gauge measured it.
        observed_m3s: float64 [n_sensors, n_samples].
    """

    seed: int
    terrain: Terrain
    rain_mmh: Floats
    observed_m3s: Floats

    @cached_property
    def spread_m3s(self) -> Floats:
        """Standard deviation of every observed series: float64 [n_sensors]."""
        return np.asarray(self.observed_m3s.std(axis=1))

    def run(self, ground: Ground, *, deepest: bool = False) -> Flows:
        """Simulate every configuration of ``ground``."""
        return simulate(
            self.terrain,
            self.rain_mmh,
            ground,
            step_s=STEP_S,
            sensors=self.terrain.sensors,
            steps_per_sample=STEPS_PER_SAMPLE,
            deepest=deepest,
        )

    def measures(self, ground: Ground) -> list[dict[str, float]]:
        """Simulate every configuration and compare it with the sensors, in order."""
        measured: list[dict[str, float]] = []
        for start in range(0, ground.n, TOGETHER):
            flows = self.run(ground.part(start, min(start + TOGETHER, ground.n)))
            measured.extend(self.compared(flows, row) for row in range(flows.rain_m3.size))
        return measured

    def compared(self, flows: Flows, row: int) -> dict[str, float]:
        """Return the measures of one configuration.

        ``rmse_m3s`` is over all sensors and samples; ``nse`` the mean over sensors of Nash and
        Sutcliffe's efficiency (1970), 1 at best; errors of peak and volume are the outlet's, in per
        cent of what was observed.
        """
        simulated = flows.discharge_m3s[row]
        off = simulated - self.observed_m3s
        peak, runoff = float(simulated[0].max()), float(simulated[0].sum())
        seen_peak, seen_runoff = (
            float(self.observed_m3s[0].max()),
            float(self.observed_m3s[0].sum()),
        )
        squares = (off * off).mean(axis=1)
        return {
            "rmse_m3s": float(np.sqrt((off * off).mean())),
            "nse": float((1.0 - squares / self.spread_m3s**2).mean()),
            "peak_error_pct": 100.0 * (peak - seen_peak) / seen_peak,
            "volume_error_pct": 100.0 * (runoff - seen_runoff) / seen_runoff,
            "peak_m3s": peak,
            "runoff_m3": float(flows.outflow_m3[row]),
            "infiltrated_pct": 100.0 * float(flows.infiltrated_m3[row] / flows.rain_m3[row]),
        }


MEASURES = (
    "rmse_m3s", "nse", "peak_error_pct", "volume_error_pct", "peak_m3s", "runoff_m3",
    "infiltrated_pct",
)  # fmt: skip


def ground_of(configurations: Iterable[Mapping[str, float]]) -> Ground:
    """Return configurations as columns. Raises SetupError for a name that is missing."""
    chosen = list(configurations)
    return Ground(**{name: _column(chosen, name) for name in LEVELS}, suction_m=SUCTION_M)


def _column(configurations: Sequence[Mapping[str, float]], name: str) -> Floats:
    try:
        return np.array([float(values[name]) for values in configurations], dtype=np.float64)
    except KeyError:
        raise SetupError(
            f"a configuration has no '{name}'; it needs {', '.join(LEVELS)}."
        ) from None


@cache
def make_calibration(seed: int = 0) -> Calibration:
    """Draw a catchment, a truth and what the sensors told of it.

    Raises `SetupError` for a seed below 0.
    """
    if seed < 0:
        raise SetupError(f"seed is {seed}; allowed are whole numbers from 0.")
    of_terrain, _, of_noise = np.random.SeedSequence(seed).spawn(3)
    terrain = make_terrain(of_terrain)
    rain_mmh = hyetograph(N_SAMPLES * STEPS_PER_SAMPLE, STEP_S)
    silent = Calibration(seed, terrain, rain_mmh, np.zeros((len(terrain.sensors), N_SAMPLES)))
    exact = silent.run(ground_of([truth(seed)])).discharge_m3s[0]
    noise = np.random.default_rng(of_noise).standard_normal(exact.shape)
    return Calibration(seed, terrain, rain_mmh, exact * np.exp(NOISE * noise))


def truth(seed: int) -> dict[str, float]:
    """Return what the sensors of a seed were made with; a search shall not ask."""
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[1])
    return {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in TRUTH.items()}
