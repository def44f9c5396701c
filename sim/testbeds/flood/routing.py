"""Water over ground: rain, infiltration and overland flow, many configurations at once.

Each step rain falls on every cell, the soil takes what it can (Green and Ampt 1911), and what is
left runs to the cell below as a kinematic wave (Lighthill and Whitham 1955; Henderson and Wooding
1964): discharge q = sqrt(slope) / n * depth^(5/3) per metre of width, by Manning. What has run on
can still seep away further down. An explicit scheme; a cell never gives more than it holds, so no
water is made or lost and no depth is negative. Kinematic means that water never backs up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.errors import SetupError
from sim.testbeds.flood.storm import MM_PER_HOUR
from sim.testbeds.flood.terrain import Terrain

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ground:
    """What is set, one entry per configuration: float64 [n] each.

    Attributes:
        conductivity_mmh: saturated hydraulic conductivity K of the soil.
        rain_factor: of the rain that was measured.
        moisture_deficit: pore space that is free at the beginning, as a share of the volume.
        roughness: Manning's n in s/m^(1/3).
        suction_m: head at the wetting front, the same for all.
    """

    conductivity_mmh: Floats
    rain_factor: Floats
    moisture_deficit: Floats
    roughness: Floats
    suction_m: float

    def __post_init__(self) -> None:
        columns = (self.conductivity_mmh, self.rain_factor, self.moisture_deficit, self.roughness)
        if len({column.shape for column in columns}) != 1 or self.roughness.ndim != 1:
            raise SetupError("the columns of a ground must all be of one length.")
        if min(float(column.min(initial=0.0)) for column in columns) < 0:
            raise SetupError("nothing of a ground may be below 0.")
        if not (self.roughness > 0).all():
            raise SetupError("Manning's n must be above 0.")

    @property
    def n(self) -> int:
        """How many configurations."""
        return int(self.roughness.size)

    def part(self, start: int, stop: int) -> Ground:
        """Return the configurations from ``start`` until before ``stop``."""
        return Ground(
            self.conductivity_mmh[start:stop],
            self.rain_factor[start:stop],
            self.moisture_deficit[start:stop],
            self.roughness[start:stop],
            self.suction_m,
        )


@dataclass(frozen=True, eq=False)
class Flows:
    """What came of it, one row per configuration.

    Attributes:
        discharge_m3s: float64 [n, n_sensors, n_samples], means over the samples' intervals.
        rain_m3, infiltrated_m3, outflow_m3, stored_m3: float64 [n]; the first is the sum of the
            others.
        deepest_m: float64 [n, n_cells], the most that ever stood on a cell; None if not asked.
    """

    discharge_m3s: Floats
    rain_m3: Floats
    infiltrated_m3: Floats
    outflow_m3: Floats
    stored_m3: Floats
    deepest_m: Floats | None


def capacity_m(taken_m: Floats, conducted_m: Floats, drawn_m: Floats) -> Floats:
    """Return what a soil under water takes in during a step (Green-Ampt).

    The exact K dt = dF - S ln(1 + dF / (F + S)), with the logarithm as 2x / (2 + x), which gives a
    quadratic equation (Li, Stevens and Simons 1976): its error falls with the cube of dF / (F + S).

    Args:
        taken_m: F, what the soil took in before.
        conducted_m: K dt; never more than what is returned.
        drawn_m: S, suction head times moisture deficit.
    """
    less_m = conducted_m - 2.0 * taken_m
    root_m = np.sqrt(less_m * less_m + 8.0 * conducted_m * (taken_m + drawn_m))
    return np.asarray(0.5 * (less_m + root_m))


def simulate(
    terrain: Terrain,
    rain_mmh: Floats,
    ground: Ground,
    *,
    step_s: float,
    sensors: tuple[int, ...],
    steps_per_sample: int,
    deepest: bool = False,
) -> Flows:
    """Let it rain on every configuration; a row is bitwise the same whatever stands beside it.

    Args:
        terrain: where.
        rain_mmh: float64 [n_steps], measured; a multiple of ``steps_per_sample``.
        ground: what is set.
        step_s: length of a step; a wave should not pass more than a cell in it.
        sensors: cells whose discharge is wanted.
        steps_per_sample: a sample is the mean over so many steps.
        deepest: whether the greatest depths are wanted too.

    Raises `SetupError` if the steps are no whole number of samples.
    """
    n_steps = rain_mmh.size
    if steps_per_sample < 1 or n_steps % steps_per_sample or not step_s > 0:
        raise SetupError(
            f"{n_steps} steps of {step_s} s do not make whole samples of {steps_per_sample} steps."
        )
    cell_m2, donors = terrain.cell_m**2, terrain.donors
    shape = (terrain.n_cells, ground.n)
    conducted_m = terrain.soil[:, None] * (ground.conductivity_mmh * (MM_PER_HOUR * step_s))
    drawn_m = np.broadcast_to(ground.suction_m * ground.moisture_deficit, shape)
    rate = np.sqrt(terrain.slope)[:, None] * (step_s / terrain.cell_m / ground.roughness)
    depth_m, taken_m = np.zeros(shape), np.zeros(shape)
    highest_m = np.zeros(shape) if deepest else None
    rained_m, left_m = np.zeros(ground.n), np.zeros(ground.n)
    sampled_m = np.zeros((n_steps // steps_per_sample, len(sensors), ground.n))
    watched = list(sensors)
    for step in range(n_steps):
        fallen_m = ground.rain_factor * (rain_mmh[step] * MM_PER_HOUR * step_s)
        rained_m += fallen_m
        depth_m += fallen_m
        soaked_m = np.minimum(depth_m, capacity_m(taken_m, conducted_m, drawn_m))
        taken_m += soaked_m
        depth_m -= soaked_m
        root = np.cbrt(depth_m)
        given_m = np.minimum(depth_m, rate * (depth_m * (root * root)))
        sampled_m[step // steps_per_sample] += given_m[watched]
        left_m += given_m[terrain.outlet]
        depth_m -= given_m
        depth_m += donors @ given_m
        if highest_m is not None:
            np.maximum(highest_m, depth_m, out=highest_m)
    sample_s = steps_per_sample * step_s
    return Flows(
        discharge_m3s=np.ascontiguousarray(sampled_m.transpose(2, 1, 0)) * (cell_m2 / sample_s),
        rain_m3=rained_m * terrain.n_cells * cell_m2,
        infiltrated_m3=_summed(taken_m) * cell_m2,
        outflow_m3=left_m * cell_m2,
        stored_m3=_summed(depth_m) * cell_m2,
        deepest_m=None if highest_m is None else np.ascontiguousarray(highest_m.T),
    )


def _summed(cells: Floats) -> Floats:
    """Sum over cells in one order, so that a column is the same alone and beside others."""
    return np.asarray(np.ascontiguousarray(cells.T).sum(axis=1))
