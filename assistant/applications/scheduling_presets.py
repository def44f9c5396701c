"""Presets of the scheduling application: questions, each of which opens some parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from assistant.applications.scheduling_parameters import (
    KINDS,
    LANE_MAX_PROCS,
    LANE_MAX_REQUESTED,
    Kind,
    lane_widths,
    numbers_in_order,
)
from assistant.core.errors import ApplicationError, hint
from sim.api import Allocation, SimError, known_names
from strategies import Level

EVERY: Final = "every"  # Stands for all registered orders or rules that can simulate the workload

DEFAULT_PRESET = "paper"

LOG_PRESET = "lanes"
"""What a sweep over a job log asks if nobody says otherwise."""

SLURM_PRESET = "slurm_lanes"
"""What it asks of a log from Slurm: every answer can be written as lines of slurm.conf."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named selection of the scheduling parameters that vary, with their levels.

    Attributes:
        levels: levels of the parameters besides the split, by name; the current level is added.
        split: whether the paper's three parameters are opened; else there is one partition.
        allocation: default allocation to a job, as in `sim.api.Scenario`.
        only_where: parameters that are opened only where their current level is this one.
        lane: whether a lane for short requests is opened. Then the mean wait is minimised such that
            no class of jobs and not the longest wait gets worse, on the first part of the log.
        train_share: share of the jobs, the first ones, that a run simulates; the others check it.
    """

    name: str
    summary: str
    levels: Mapping[str, tuple[Level, ...] | Literal["every"]] = field(default_factory=dict)
    split: bool = False
    allocation: Allocation = "processors"
    only_where: Mapping[str, Level] = field(default_factory=dict)
    lane: bool = False
    train_share: float = 1.0

    @property
    def exists(self) -> bool:
        """Whether all scheduling policies of the preset are registered."""
        names = known_names()
        by_kind = {kind: self.levels.get(kind, ()) for kind in KINDS}
        return all(levels == EVERY or set(levels) <= {*names[k]} for k, levels in by_kind.items())


_DAY_S = 86_400
_LANE_TIMES_S: tuple[Level, ...] = (0, 900, 3_600, 14_400)

PRESETS: tuple[Preset, ...] = (
    Preset(
        "lanes",
        "the order of the queue, and a lane for short requests",
        {
            "order": ("fcfs", "saf", "lxf"),
            "backfill": ("easy",),
            LANE_MAX_REQUESTED: _LANE_TIMES_S,
        },
        only_where={"backfill": "none"},
        lane=True,
        train_share=0.5,
    ),
    Preset(
        SLURM_PRESET,
        "the order of Slurm's queue, and a lane for short requests",
        {
            "order": ("fcfs", "multifactor"),
            "backfill": ("easy",),
            "size_weight": (100, 1_000),
            "favor_small": (0, 1),
            LANE_MAX_REQUESTED: _LANE_TIMES_S,
        },
        only_where={"backfill": "none"},
        lane=True,
        train_share=0.5,
    ),
    Preset("paper", "a part of the cluster for small jobs, as in the paper", split=True),
    Preset("policies", "combinations of order and backfill", {"order": EVERY, "backfill": EVERY}),
    Preset(
        "slurm_priorities",
        "the weights of Slurm's multifactor priorities",
        {
            "order": ("multifactor",),
            "age_weight": (0, 100, 1_000, 10_000),
            "size_weight": (0, 100, 1_000, 10_000),
            "fairshare_weight": (0, 100, 1_000, 10_000),
            "half_life_s": (_DAY_S, 7 * _DAY_S, 14 * _DAY_S),
            "favor_small": (0, 1),
        },
    ),
    Preset(
        "slurm_backfill",
        "how far ahead Slurm's backfilling plans, and how often",
        {
            "backfill": ("slurm",),
            "bf_max_job_test": (10, 50, 100, 500, 1_000),
            "bf_window_s": (_DAY_S // 4, _DAY_S, 2 * _DAY_S, 7 * _DAY_S),
            "bf_resolution_s": (60, 300, 600),
            "bf_interval_s": (10, 30, 60, 300),
            "bf_reserve": (0, 1, 4, 16),
        },
        allocation="whole_nodes",
    ),
)


def presets() -> tuple[Preset, ...]:
    """Return the presets whose scheduling policies are all registered."""
    return tuple(preset for preset in PRESETS if preset.exists)


def preset_named(name: str) -> Preset:
    """Return a preset by name. Raises ApplicationError if there is none."""
    by_name = {preset.name: preset for preset in presets()}
    if name not in by_name:
        raise ApplicationError(f"there is no preset '{name}'{hint(name, by_name)}")
    return by_name[name]


@dataclass(frozen=True, slots=True)
class PresetLevels:
    """The parameter levels that a preset gives for one cluster and workload.

    Attributes:
        levels: levels by name, with the current one; a parameter with only one level is not opened.
        left_out: ``order`` or ``backfill``, with a policy that cannot simulate the workload and
            why.
    """

    levels: Mapping[str, tuple[Level, ...]]
    left_out: tuple[tuple[str, str], ...]


def fill_preset(
    preset: Preset, baseline: Mapping[str, Level], check: Callable[[Kind, str], None]
) -> PresetLevels:
    """Return the parameter levels of a preset for a cluster, without policies failing ``check``."""
    opened: dict[str, tuple[Level, ...]] = {}
    left_out: list[tuple[str, str]] = []
    candidates: tuple[Level, ...]
    for name, levels in preset.levels.items():
        if name in preset.only_where and baseline[name] != preset.only_where[name]:
            continue
        if levels == EVERY:
            candidates, unable = _able(cast("Kind", name), check)
            left_out += [(name, reason) for reason in unable]
        else:
            candidates = levels
        if name in baseline and baseline[name] not in candidates:
            candidates = tuple(numbers_in_order((baseline[name], *candidates)))
        if len(candidates) > 1:
            opened[name] = candidates
    if preset.lane:
        opened[LANE_MAX_PROCS] = lane_widths(int(baseline["procs"]))
    return PresetLevels(opened, tuple(left_out))


def _able(kind: Kind, check: Callable[[Kind, str], None]) -> tuple[tuple[Level, ...], list[str]]:
    able: list[Level] = []
    unable: list[str] = []
    for policy in known_names()[kind]:
        try:
            check(kind, policy)
        except SimError as error:
            unable.append(f"{kind} {policy}: {error}")
        else:
            able.append(policy)
    return tuple(able), unable
