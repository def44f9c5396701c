"""A flood model to calibrate: rain, soil and overland flow over a small seeded catchment.

Terrain: each cell drains to one of its eight neighbours (D8: O'Callaghan and Mark 1984), and in
the end to one outlet on the lower edge. A priority flood from the outlet fills pits (Barnes,
Lehman and Mulla 2014), with a least fall from cell to cell.

Water: in each step rain falls, the soil takes what it can (Green and Ampt 1911), and the rest runs
to the cell below as a kinematic wave (Lighthill and Whitham 1955; Henderson and Wooding 1964):
discharge q = sqrt(slope) / n * depth^(5/3) per metre of width, by Manning. Water can infiltrate
further down but never backs up. The scheme is explicit; a cell never gives more than it holds, so
that water is conserved and no depth is negative.

Calibration, after IFM (Singhal et al. 2014), the first application of the Copper paper: find the
soil, rain and roughness that reproduce the sensor series. Where the soil conducts more than it
ever rains, nothing runs off, and no other parameter matters.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.model.errors import SetupError

if TYPE_CHECKING:
    from scipy import sparse


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


MM_PER_HOUR = 1.0 / (1000.0 * 3600.0)  # metres per second


@dataclass(frozen=True, slots=True)
class Burst:
    """A bell-shaped peak of rain: time in s, rate in mm/h and standard deviation in s."""

    at_s: float
    peak_mmh: float
    width_s: float


STORM = (Burst(3600.0, 22.0, 900.0), Burst(8100.0, 28.0, 1080.0))
"""Peaks after 1 h and after 2 h 15 min, the second one harder and longer."""

STORM_END_S = 12_600.0  # end of the rain


def hyetograph(
    n_steps: int, step_s: float, bursts: tuple[Burst, ...] = STORM, end_s: float = STORM_END_S
) -> npt.NDArray[np.float64]:
    """Return the rain rate in mm/h at the middle of every time step: float64 [n_steps].

    Raises:
        SetupError: no steps, or steps of no length.
    """
    if n_steps < 1 or not step_s > 0:
        raise SetupError(f"{n_steps} steps of {step_s} s; allowed are 1 or more, above 0 s.")
    middle_s = (np.arange(n_steps) + 0.5) * step_s
    rain = np.zeros(n_steps)
    for burst in bursts:
        rain += burst.peak_mmh * np.exp(-0.5 * ((middle_s - burst.at_s) / burst.width_s) ** 2)
    return np.where(middle_s < end_s, rain, 0.0)


LEAST_SIZE = 4
LEAST_SLOPE = 0.002  # least fall over distance between a cell and the one it drains to

SOIL_SPREAD = 0.15  # largest relative deviation of a cell's conductivity from that of the soil


@dataclass(frozen=True, eq=False)
class Terrain:
    """A square grid of cells, numbered row by row from the upper left, with drainage directions.

    Attributes:
        elevation_m: float64 [n_cells], pits filled.
        downstream: int64 [n_cells], cell that each drains to; -1 at the outlet.
        slope: float64 [n_cells], fall over distance to that cell.
        soil: float64 [n_cells], factor of the soil's conductivity, within `SOIL_SPREAD` of 1.
    """

    columns: int
    cell_m: float
    elevation_m: Floats
    downstream: Ints
    slope: Floats
    soil: Floats

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return int(self.elevation_m.size)

    @property
    def rows(self) -> int:
        """Number of rows of cells."""
        return self.n_cells // self.columns

    @cached_property
    def outlet(self) -> int:
        """Index of the cell through which the water leaves the catchment."""
        return int(np.flatnonzero(self.downstream < 0)[0])

    @cached_property
    def drained_cells(self) -> Ints:
        """Number of cells that drain through each cell, itself included: int64 [n_cells]."""
        drained = np.ones(self.n_cells, dtype=np.int64)
        for cell in np.argsort(-self.elevation_m, kind="stable"):
            if self.downstream[cell] >= 0:
                drained[self.downstream[cell]] += drained[cell]
        return drained

    @cached_property
    def donors(self) -> sparse.csr_matrix:
        """Matrix [n_cells, n_cells] with 1 where the column's cell drains to the row's cell."""
        from scipy import sparse

        fed = np.flatnonzero(self.downstream >= 0)
        ones = np.ones(fed.size)
        shape = (self.n_cells, self.n_cells)
        return sparse.csr_matrix((ones, (self.downstream[fed], fed)), shape=shape)

    @cached_property
    def sensors(self) -> tuple[int, ...]:
        """Sensor cells: the outlet, and the last cells of the two streams of a confluence."""
        best = 0
        met: tuple[int, ...] = (self.outlet,)
        for cell in range(self.n_cells):
            fed_by = np.flatnonzero(self.downstream == cell)
            if fed_by.size < 2:
                continue
            order = fed_by[np.argsort(-self.drained_cells[fed_by], kind="stable")]
            second = int(self.drained_cells[order[1]])
            if second > best:
                best, met = second, (self.outlet, int(order[0]), int(order[1]))
        return met


def make_terrain(seed: np.random.SeedSequence, size: int = 24, cell_m: float = 50.0) -> Terrain:
    """Draw a catchment: a valley that winds down to the lower edge, with hills on both sides.

    Raises:
        SetupError: fewer than 4 rows, or cells without an edge.
    """
    if size < LEAST_SIZE or not cell_m > 0:
        raise SetupError(
            f"a terrain of {size} x {size} cells of {cell_m} m; allowed are {LEAST_SIZE} rows or "
            "more and an edge above 0 m."
        )
    rng = np.random.default_rng(seed)
    row, column = (axis / (size - 1) for axis in np.mgrid[0:size, 0:size].astype(np.float64))
    bends, phase = rng.uniform(0.8, 1.6), rng.uniform(0.0, 2.0 * np.pi)
    middle = 0.5 + 0.2 * np.sin(2.0 * np.pi * bends * row + phase)
    height_m = 45.0 * (1.0 - row) + 90.0 * np.abs(column - middle) ** 1.4
    for blur, metres in ((size / 8, 14.0), (size / 20, 5.0)):
        height_m = height_m + metres * _smooth(rng, size, blur)
    outlet = int(np.argmin(height_m[-1])) + size * (size - 1)
    filled_m = _fill_sinks(height_m.ravel(), outlet, size, cell_m)
    downstream, slope = _steepest(filled_m, outlet, size, cell_m)
    soil = 1.0 + SOIL_SPREAD * np.clip(0.5 * _smooth(rng, size, size / 8), -1.0, 1.0).ravel()
    return Terrain(size, cell_m, filled_m - filled_m.min(), downstream, slope, soil)


def _smooth(rng: np.random.Generator, size: int, blur: float) -> Floats:
    from scipy import ndimage

    surface = ndimage.gaussian_filter(rng.standard_normal((size, size)), blur, mode="reflect")
    return np.asarray((surface - surface.mean()) / surface.std(), dtype=np.float64)


def _neighbours(cell: int, size: int) -> Iterator[tuple[int, float]]:
    row, column = divmod(cell, size)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            inside = 0 <= row + down < size and 0 <= column + right < size
            if inside and (down or right):
                yield cell + down * size + right, float(np.hypot(down, right))


def _fill_sinks(height_m: Floats, outlet: int, size: int, cell_m: float) -> Floats:
    filled_m = height_m.copy()
    visited = {outlet}
    front = [(float(filled_m[outlet]), outlet)]
    while front:
        level_m, cell = heapq.heappop(front)
        for beside, edges in _neighbours(cell, size):
            if beside in visited:
                continue
            visited.add(beside)
            filled_m[beside] = max(filled_m[beside], level_m + LEAST_SLOPE * cell_m * edges)
            heapq.heappush(front, (float(filled_m[beside]), beside))
    return filled_m


def _steepest(filled_m: Floats, outlet: int, size: int, cell_m: float) -> tuple[Ints, Floats]:
    downstream = np.full(filled_m.size, -1, dtype=np.int64)
    slope = np.full(filled_m.size, LEAST_SLOPE)
    for cell in range(filled_m.size):
        if cell == outlet:
            continue
        falls = [
            ((filled_m[cell] - filled_m[beside]) / (cell_m * edges), beside)
            for beside, edges in _neighbours(cell, size)
        ]
        slope[cell], downstream[cell] = max(falls, key=lambda fall: (fall[0], -fall[1]))
    inflow = slope[downstream == outlet]
    slope[outlet] = inflow.mean()  # the outlet slope is that of its inflow
    return downstream, slope


@dataclass(frozen=True, eq=False)
class SoilParameters:
    """Soil parameters of the flood model, one entry per configuration: float64 [n] each.

    Attributes:
        conductivity_mmh: saturated hydraulic conductivity K of the soil.
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
            raise SetupError("the columns of a ground must all have one length.")
        if min(float(column.min(initial=0.0)) for column in columns) < 0:
            raise SetupError("the values of a ground must be at least 0.")
        if not (self.roughness > 0).all():
            raise SetupError("Manning's n must be above 0.")

    @property
    def n(self) -> int:
        """Number of configurations."""
        return int(self.roughness.size)

    def part(self, start: int, stop: int) -> SoilParameters:
        """Return the configurations with indices from ``start`` to ``stop`` - 1."""
        return SoilParameters(
            self.conductivity_mmh[start:stop],
            self.rain_factor[start:stop],
            self.moisture_deficit[start:stop],
            self.roughness[start:stop],
            self.suction_m,
        )


@dataclass(frozen=True, eq=False)
class Flows:
    """Results of a flood simulation, one row per configuration.

    Attributes:
        discharge_m3s: float64 [n, n_sensors, n_samples], means over the samples' intervals.
        rain_m3, infiltrated_m3, outflow_m3, stored_m3: float64 [n]; the first is the sum of the
            others.
        deepest_m: float64 [n, n_cells], largest depth on a cell, or None.
    """

    discharge_m3s: Floats
    rain_m3: Floats
    infiltrated_m3: Floats
    outflow_m3: Floats
    stored_m3: Floats
    deepest_m: Floats | None


def capacity_m(taken_m: Floats, conducted_m: Floats, drawn_m: Floats) -> Floats:
    """Return the Green-Ampt infiltration in m of ponded soil during one step.

    The exact K dt = dF - S ln(1 + dF / (F + S)), with the logarithm as 2x / (2 + x), gives a
    quadratic equation (Li, Stevens and Simons 1976): its error falls with the cube of dF / (F +
    S).

    Args:
        taken_m: F, infiltration before the step.
        conducted_m: K dt; never more than the result.
        drawn_m: S, suction head times moisture deficit.
    """
    less_m = conducted_m - 2.0 * taken_m
    root_m = np.sqrt(less_m * less_m + 8.0 * conducted_m * (taken_m + drawn_m))
    return np.asarray(0.5 * (less_m + root_m))


def simulate(
    terrain: Terrain,
    rain_mmh: Floats,
    ground: SoilParameters,
    *,
    step_s: float,
    sensors: tuple[int, ...],
    steps_per_sample: int,
    deepest: bool = False,
) -> Flows:
    """Simulate a flood for every configuration; the results do not depend on each other.

    Args:
        terrain: catchment.
        rain_mmh: float64 [n_steps], measured; n_steps is a multiple of ``steps_per_sample``.
        ground: parameters of the configurations.
        step_s: length of a step, in which a wave should not pass more than a cell.
        sensors: cells whose discharge is returned.
        steps_per_sample: number of steps of which a sample is the mean.
        deepest: whether to return the largest depths.

    Raises:
        SetupError: the steps are no whole number of samples.
    """
    n_steps = rain_mmh.size
    if steps_per_sample < 1 or n_steps % steps_per_sample or not step_s > 0:
        raise SetupError(
            f"{n_steps} steps of {step_s} s are no multiple of samples of {steps_per_sample} steps."
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
    """Sum over cells in one order, so that a column's sum is independent of the others."""
    return np.asarray(np.ascontiguousarray(cells.T).sum(axis=1))


LEVELS: Mapping[str, tuple[float, ...]] = {
    "conductivity_mmh": (1.5, 3.0, 6.0, 12.0, 40.0, 120.0),
    "rain_factor": (0.7, 0.8, 0.9, 1.0, 1.1, 1.2),
    "moisture_deficit": (0.02, 0.06, 0.1, 0.15, 0.2, 0.3),
    "roughness": (0.04, 0.055, 0.08, 0.11, 0.15, 0.22),
}
"""6 x 6 x 6 x 6 = 1,296. Conductivities are near those of sandy clay loam to sand (Rawls,
Brakensiek and Miller 1983); Manning's n goes from bare ground to dense grass (Engman 1986)."""

TRUTH: Mapping[str, tuple[float, float]] = {
    "conductivity_mmh": (2.2, 7.0),
    "rain_factor": (0.9, 1.1),
    "moisture_deficit": (0.05, 0.13),
    "roughness": (0.05, 0.12),
}  # bounds of the truth, which is log-uniform

SUCTION_M = 0.11
"""Suction head at the wetting front, of sandy loam (Rawls, Brakensiek and Miller 1983)."""

STEP_S = 15.0
STEPS_PER_SAMPLE = 20
N_SAMPLES = 60  # samples are means of five minutes, for five hours

NOISE = 0.04  # standard deviation of the logarithm of sensor values

TOGETHER = 16  # configurations that are simulated together: they fit into a processor's cache


@dataclass(frozen=True, eq=False)
class FloodCalibration:
    """A calibration problem: a catchment, a storm and the observed discharge at sensors.

    Attributes:
        terrain: catchment; its sensors are the outlet and two streams.
        rain_mmh: float64 [n_steps], measured by a gauge.
        observed_m3s: float64 [n_sensors, n_samples].
    """

    seed: int
    terrain: Terrain
    rain_mmh: Floats
    observed_m3s: Floats

    @cached_property
    def spread_m3s(self) -> Floats:
        """Standard deviation of each sensor's observed discharge: float64 [n_sensors]."""
        return np.asarray(self.observed_m3s.std(axis=1))

    def run(self, ground: SoilParameters, *, deepest: bool = False) -> Flows:
        """Simulate the storm for every configuration."""
        return simulate(
            self.terrain,
            self.rain_mmh,
            ground,
            step_s=STEP_S,
            sensors=self.terrain.sensors,
            steps_per_sample=STEPS_PER_SAMPLE,
            deepest=deepest,
        )

    def measures(self, ground: SoilParameters) -> list[dict[str, float]]:
        """Simulate every configuration and return its measures of fit to the sensors."""
        measured: list[dict[str, float]] = []
        for start in range(0, ground.n, TOGETHER):
            flows = self.run(ground.part(start, min(start + TOGETHER, ground.n)))
            measured.extend(self.compared(flows, row) for row in range(flows.rain_m3.size))
        return measured

    def compared(self, flows: Flows, row: int) -> dict[str, float]:
        """Return one simulated configuration's measures of fit to the sensors.

        ``rmse_m3s`` is over all sensors and samples; ``nse`` the mean over sensors of Nash and
        Sutcliffe's efficiency (1970), 1 at best; errors of peak and volume are the outlet's, in
        per cent of the observation.
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


def soil_parameters(configurations: Iterable[Mapping[str, float]]) -> SoilParameters:
    """Convert configurations to `SoilParameters`. Raises SetupError for a missing name."""
    rows = list(configurations)
    return SoilParameters(**{name: _column(rows, name) for name in LEVELS}, suction_m=SUCTION_M)


def _column(configurations: Sequence[Mapping[str, float]], name: str) -> Floats:
    try:
        return np.array([float(values[name]) for values in configurations], dtype=np.float64)
    except KeyError:
        raise SetupError(
            f"a configuration has no '{name}'; it needs {', '.join(LEVELS)}."
        ) from None


@cache
def make_calibration(seed: int = 0) -> FloodCalibration:
    """Draw a calibration problem: a catchment, true parameters and noisy observations.

    Raises:
        SetupError: a seed below 0.
    """
    if seed < 0:
        raise SetupError(f"seed is {seed}; allowed are whole numbers from 0.")
    of_terrain, _, of_noise = np.random.SeedSequence(seed).spawn(3)
    terrain = make_terrain(of_terrain)
    rain_mmh = hyetograph(N_SAMPLES * STEPS_PER_SAMPLE, STEP_S)
    silent = FloodCalibration(seed, terrain, rain_mmh, np.zeros((len(terrain.sensors), N_SAMPLES)))
    exact = silent.run(soil_parameters([truth(seed)])).discharge_m3s[0]
    noise = np.random.default_rng(of_noise).standard_normal(exact.shape)
    return FloodCalibration(seed, terrain, rain_mmh, exact * np.exp(NOISE * noise))


def truth(seed: int) -> dict[str, float]:
    """Return the true parameters of a seed's calibration problem; a search must not use them."""
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(3)[1])
    return {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in TRUTH.items()}
