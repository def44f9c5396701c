"""Application "flood": calibrate a flood model, like IFM in the Copper paper (section 4.1.1).

Four parameters of soil, rain and ground with six levels each; the objective is a small difference
to the measurements of sensors. For high values of the first parameter the result stays the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from assistant.applications.extensions import BatchApplication, Measures, Values
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective, SingleMeasure
from sim.testbeds.flood import LEVELS, MEASURES, FloodCalibration, make_calibration, soil_parameters
from strategies import Level, Parameter, ParameterSpace

ABOUT = {
    "conductivity_mmh": ("mm/h", "rate at which wet soil takes in water"),
    "rain_factor": ("", "factor on the rain that the gauge measured"),
    "moisture_deficit": ("", "share of the soil's volume that is free at the beginning"),
    "roughness": ("s/m^(1/3)", "Manning's n of the ground"),
}

HANDBOOK: Mapping[str, Level] = {
    "conductivity_mmh": 6.0,
    "rain_factor": 1.0,
    "moisture_deficit": 0.15,
    "roughness": 0.11,
}
"""Handbook values for a silt loam under crops, with the rain as measured."""


@dataclass(frozen=True)
class Flood(BatchApplication):
    """A flood simulation whose parameters are calibrated against three river sensors.

    Args:
        seed: seed of the catchment, of the true parameters, and of the noise of the sensors.

    Raises:
        SimError: the seed is below 0.
    """

    seed: int = 0

    name = "flood"
    at_once = 16
    measures = MEASURES
    deterministic = True

    def __post_init__(self) -> None:
        self.calibration  # noqa: B018 - raises for a bad seed now

    @property
    def calibration(self) -> FloodCalibration:
        """The calibration data: the catchment, its storm and the sensor measurements."""
        return make_calibration(self.seed)

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameter space of 6 x 6 x 6 x 6 = 1,296 configurations."""
        return ParameterSpace(
            tuple(
                Parameter(name, levels, "ordinal", *ABOUT[name]) for name, levels in LEVELS.items()
            )
        )

    @property
    def objective(self) -> Objective:
        """The objective: a minimal difference between simulated and measured flow."""
        return Objective(SingleMeasure("rmse_m3s"), "minimise", unit="m3/s")

    @property
    def baseline(self) -> Mapping[str, Level]:
        """The handbook values, which are in use before the calibration."""
        return dict(HANDBOOK)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the catchment, the storm and the sensors, for display."""
        terrain, rain = self.calibration.terrain, self.calibration.rain_mmh
        side, high = terrain.rows, terrain.elevation_m.max()
        drained = ", ".join(f"{terrain.drained_cells[cell] / 4:.0f}" for cell in terrain.sensors)
        return (
            Fact(
                "Catchment",
                f"{side} x {side} cells of {terrain.cell_m:g} m, {high:.0f} m from its outlet to "
                f"its highest cell, drawn with seed {self.seed}",
            ),
            Fact("Storm", f"two peaks of up to {rain.max():.0f} mm/h within 3 h 30 min"),
            Fact(
                "Sensors",
                f"the outlet and two streams, which drain {drained} % of the catchment; discharge "
                "every 5 min for 5 h, with noise of 4 %",
            ),
            Fact(
                "Model",
                "infiltration by Green and Ampt, overland flow as a kinematic wave with Manning's "
                "roughness",
            ),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - no randomness
        """Simulate one configuration and compare its flow with the sensor measurements."""
        return self.evaluate_several([values])[0]

    def evaluate_several(self, configurations: Sequence[Values]) -> Sequence[Measures]:
        """Simulate several configurations with results bitwise equal to those of `evaluate`."""
        numbers = [
            {name: float(level) for name, level in values.items()} for values in configurations
        ]
        return self.calibration.measures(soil_parameters(numbers))
