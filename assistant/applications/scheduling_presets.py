"""Presets of the scheduling application: questions, each of which opens some parameters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

from assistant.applications.scheduling_parameters import (
    KINDS,
    LANE_MAX_PROCS,
    LANE_MAX_REQUESTED,
    Kind,
    OptionOwner,
    lane_widths,
    numbers_in_order,
    options_of,
)
from assistant.core.errors import ApplicationError, hint
from sim.api import Allocation, SimError, known_names, known_options
from sim.formats import scheduler_of
from strategies import Level

EVERY: Final = "every"  # Stands for all registered orders or rules that can simulate the workload

DEFAULT_PRESET = "paper"

LOG_PRESET = "lanes"
"""What a sweep over a job log asks if nobody says otherwise."""

SLURM = "slurm"
"""The scheduler of which every answer to the question can be written as lines of slurm.conf."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A named selection of the scheduling parameters that vary, with their levels.

    Attributes:
        levels: levels of the parameters besides the split, by name; the current level is added.
        split: whether the paper's three parameters are opened; else there is one partition.
        allocation: default allocation to a job, as in `sim.api.Scenario`.
        only_where: parameters that are opened only where their current level is this one.
        lane: whether a lane for short requests is opened.
        is_bounded: whether the mean wait is minimised such that no class of jobs and not the
            longest wait gets worse.
        train_share: share of the jobs, the first ones, that a run simulates; the others check it.
        weights: parameters that count relative to each other. Their levels are for a largest
            current weight of `LARGEST_WEIGHT`, and grow with it.
        usual_backfill: backfilling rule in use if nobody says otherwise.
        scheduler: scheduler that can be set up as every answer says, as in `Workload.scheduler`;
            None if no particular one. The first preset of a scheduler is what its logs are asked.
    """

    name: str
    summary: str
    levels: Mapping[str, tuple[Level, ...] | Literal["every"]] = field(default_factory=dict)
    split: bool = False
    allocation: Allocation = "processors"
    only_where: Mapping[str, Level] = field(default_factory=dict)
    lane: bool = False
    is_bounded: bool = False
    train_share: float = 1.0
    weights: tuple[str, ...] = ()
    usual_backfill: str = "easy"
    scheduler: str | None = None

    @property
    def exists(self) -> bool:
        """Whether all scheduling policies of the preset are registered."""
        names = known_names()
        by_kind = {kind: self.levels.get(kind, ()) for kind in KINDS}
        return all(levels == EVERY or set(levels) <= {*names[k]} for k, levels in by_kind.items())

    @property
    def backfill(self) -> str | None:
        """The backfilling rule whose options vary; None if those of no rule do."""
        for rule in self.levels.get("backfill", ()):
            if any(option.name in self.levels for option in known_options("backfill", str(rule))):
                return str(rule)
        return None


LARGEST_WEIGHT = 1_000
_WEIGHTS = ("age_weight", "size_weight", "fairshare_weight")

_HOUR_S, _DAY_S = 3_600, 86_400
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
        is_bounded=True,
        train_share=0.5,
    ),
    Preset(
        "slurm_lanes",
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
        is_bounded=True,
        train_share=0.5,
        weights=_WEIGHTS,
        scheduler=SLURM,
    ),
    Preset("paper", "a part of the cluster for small jobs, as in the paper", split=True),
    Preset("policies", "combinations of order and backfill", {"order": EVERY, "backfill": EVERY}),
    Preset(
        "slurm_priorities",
        "the weights of Slurm's multifactor priorities",
        {
            "order": ("multifactor",),
            "age_weight": (0, 1_000),
            "size_weight": (0, 1_000, 10_000),
            "fairshare_weight": (0, 1_000, 10_000),
            "half_life_s": (_DAY_S, 7 * _DAY_S),
            "favor_small": (0, 1),
        },
        is_bounded=True,
        train_share=0.5,
        weights=_WEIGHTS,
        scheduler=SLURM,
    ),
    Preset(
        "slurm_backfill",
        "how many jobs, how far ahead and how finely Slurm's backfilling plans",
        {
            "backfill": ("slurm",),
            "bf_max_job_test": (100, 500),
            "bf_window_s": (6 * _HOUR_S, _DAY_S, 7 * _DAY_S),
            "bf_resolution_s": (60, 300, 600),
            "bf_reserve": (0, 1, 4),
        },
        allocation="whole_nodes",
        is_bounded=True,
        train_share=0.5,
        scheduler=SLURM,
    ),
    Preset(
        "kueue",
        "the queueing strategy of a ClusterQueue of Kueue, and a priority class for short requests",
        {"backfill": ("none", "greedy"), LANE_MAX_REQUESTED: _LANE_TIMES_S},
        lane=True,
        is_bounded=True,
        train_share=0.5,
        usual_backfill="greedy",
    ),
    Preset(
        "kueue_quotas",
        "the queueing strategy of Kueue, and a ClusterQueue with a quota of its own for small jobs",
        {"backfill": ("none", "greedy")},
        split=True,
        is_bounded=True,
        train_share=0.5,
        usual_backfill="greedy",
    ),
)


def presets() -> tuple[Preset, ...]:
    """Return the presets whose scheduling policies are all registered."""
    return tuple(preset for preset in PRESETS if preset.exists)


def presets_for(scheduler: str) -> tuple[Preset, ...]:
    """Return the presets of which a scheduler can be set up as every answer says."""
    return tuple(preset for preset in presets() if preset.scheduler == scheduler)


def preset_of_log(path: Path) -> str:
    """Return what a job log is asked if nobody says otherwise: what its scheduler can do, if known.

    Only the beginning of the file is read.
    """
    return _by_scheduler().get(scheduler_of(path), LOG_PRESET)


def presets_of_logs() -> frozenset[str]:
    """Return the presets that some log is asked if nobody says otherwise."""
    return frozenset({LOG_PRESET, *_by_scheduler().values()})


def _by_scheduler() -> dict[str | None, str]:
    """Return the first preset of each scheduler."""
    schedulers = {preset.scheduler for preset in presets()} - {None}
    return {name: presets_for(str(name))[0].name for name in schedulers}


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


CheckPolicy = Callable[[Kind, str, Mapping[str, Level]], None]
"""Raises SimError if a policy with these options cannot simulate the workload."""


def fill_preset(preset: Preset, baseline: Mapping[str, Level], check: CheckPolicy) -> PresetLevels:
    """Return the parameter levels of a preset for a cluster, without those that fail ``check``."""
    opened: dict[str, tuple[Level, ...]] = {}
    left_out: list[tuple[str, str]] = []
    unit = _weight_unit(preset, baseline)
    candidates: tuple[Level, ...]
    for name, levels in preset.levels.items():
        if name in preset.only_where and baseline[name] != preset.only_where[name]:
            continue
        if levels == EVERY:
            candidates, unable = _able(cast("Kind", name), check)
            left_out += [(name, reason) for reason in unable]
        else:
            candidates = levels
        if name in preset.weights:
            candidates = tuple(round(unit * float(level)) for level in candidates)
        if name in baseline and baseline[name] not in candidates:
            candidates = tuple(numbers_in_order((baseline[name], *candidates)))
        owners = _owners(name, opened, baseline)
        candidates, unable = _allowed(name, candidates, owners, check)
        left_out += [(name, reason) for reason in unable[:1]]
        if len(candidates) > 1 and not _is_idle(owners, opened, baseline):
            opened[name] = candidates
    if preset.lane:
        opened[LANE_MAX_PROCS] = lane_widths(int(baseline["procs"]))
    return PresetLevels(opened, tuple(left_out))


def _weight_unit(preset: Preset, baseline: Mapping[str, Level]) -> float:
    """Return the factor of the levels of weights: the largest current one over the usual one."""
    largest = max(float(baseline.get(name, 0)) for name in (*preset.weights, ""))
    return largest / LARGEST_WEIGHT if largest else 1.0


def _owners(
    name: str, opened: Mapping[str, tuple[Level, ...]], baseline: Mapping[str, Level]
) -> tuple[OptionOwner, ...]:
    """Return the policies that a run may have and that have an option of this name."""
    policies = {kind: map(str, opened.get(kind, (baseline[kind],))) for kind in KINDS}
    return options_of(policies).get(name, ())


def _allowed(
    name: str, levels: tuple[Level, ...], owners: tuple[OptionOwner, ...], check: CheckPolicy
) -> tuple[tuple[Level, ...], list[str]]:
    """Return the levels of an option with which its policies can simulate, and why not others."""
    allowed: list[Level] = []
    unable: list[str] = []
    for level in levels:
        try:
            for entry in owners:
                check(entry.kind, entry.policy, {name: level})
        except SimError as error:
            unable.append(f"{name}: {error}")
        else:
            allowed.append(level)
    return tuple(allowed), unable


def _is_idle(
    owners: tuple[OptionOwner, ...],
    opened: Mapping[str, tuple[Level, ...]],
    baseline: Mapping[str, Level],
) -> bool:
    """Return whether an option needs another one that is 0 in every run."""
    return bool(owners) and all(
        entry.option.needs
        and entry.option.needs not in opened
        and not baseline.get(entry.option.needs, _usual(entry))
        for entry in owners
    )


def _usual(entry: OptionOwner) -> Level:
    """Return the usual value of the option that an option needs."""
    options = known_options(entry.kind, entry.policy)
    return next(option.usual for option in options if option.name == entry.option.needs)


def _able(kind: Kind, check: CheckPolicy) -> tuple[tuple[Level, ...], list[str]]:
    able: list[Level] = []
    unable: list[str] = []
    for policy in known_names()[kind]:
        try:
            check(kind, policy, {})
        except SimError as error:
            unable.append(f"{kind} {policy}: {error}")
        else:
            able.append(policy)
    return tuple(able), unable
