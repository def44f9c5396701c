"""A flood model to calibrate: rain, soil and overland flow over a small catchment."""

from sim.testbeds.flood.calibration import (
    LEVELS,
    MEASURES,
    STEP_S,
    STEPS_PER_SAMPLE,
    Calibration,
    ground_of,
    make_calibration,
    truth,
)
from sim.testbeds.flood.routing import Flows, Ground, capacity_m, simulate
from sim.testbeds.flood.storm import STORM, Burst, hyetograph
from sim.testbeds.flood.terrain import Terrain, make_plane, make_terrain

__all__ = [
    "LEVELS",
    "MEASURES",
    "STEPS_PER_SAMPLE",
    "STEP_S",
    "STORM",
    "Burst",
    "Calibration",
    "Flows",
    "Ground",
    "Terrain",
    "capacity_m",
    "ground_of",
    "hyetograph",
    "make_calibration",
    "make_plane",
    "make_terrain",
    "simulate",
    "truth",
]
