"""A cluster over a log of jobs, simulated: its partitions and its policies are what is steered."""

from assistant.applications.scheduling.application import Scheduling, Today
from assistant.applications.scheduling.computed import (
    N_SPLITS,
    SMALL_MAX_PROCS,
    SMALL_MAX_REQUESTED,
    SMALL_PROCS,
)
from assistant.applications.scheduling.foreseen import FUTURES, FUTURES_DIGEST, Foreseen, foreseen
from assistant.applications.scheduling.futures import Futures, Judge
from assistant.applications.scheduling.given import MEASURES
from assistant.applications.scheduling.presets import DEFAULT_PRESET, Preset, preset_named, presets
from assistant.applications.scheduling.variation import Openable, openable

__all__ = [
    "DEFAULT_PRESET",
    "FUTURES",
    "FUTURES_DIGEST",
    "MEASURES",
    "N_SPLITS",
    "SMALL_MAX_PROCS",
    "SMALL_MAX_REQUESTED",
    "SMALL_PROCS",
    "Foreseen",
    "Futures",
    "Judge",
    "Openable",
    "Preset",
    "Scheduling",
    "Today",
    "foreseen",
    "openable",
    "preset_named",
    "presets",
]
