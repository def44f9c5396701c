"""Presets: a question about a cluster, as the parameters that are opened for it. One entry each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from assistant.applications.scheduling.variation import KINDS, Kind, numbers_in_order
from assistant.errors import ApplicationError, hint
from sim.api import Allocation, SimError, known_names
from strategies import Level

EVERY: Final = "every"
"""All orders or rules that are registered and that can simulate the workload."""

DEFAULT_PRESET = "paper"


@dataclass(frozen=True, slots=True)
class Preset:
    """A question, and the parameters that are opened for it.

    Attributes:
        name: how settings call it.
        summary: one line for people.
        levels: of what is opened beside the split, by name; today's level comes to them. A preset
            exists if all policies that it names are registered.
        split: whether the paper's three parameters are opened; without them there is one partition.
        allocation: what a job is given, if nobody says otherwise, as in `sim.api.Scenario`.
    """

    name: str
    summary: str
    levels: Mapping[str, tuple[Level, ...] | Literal["every"]] = field(default_factory=dict)
    split: bool = False
    allocation: Allocation = "processors"

    @property
    def exists(self) -> bool:
        """Whether the policies that it names are registered."""
        known = known_names()
        named = {kind: self.levels.get(kind, ()) for kind in KINDS}
        return all(levels == EVERY or set(levels) <= {*known[k]} for k, levels in named.items())


_DAY_S = 86_400

PRESETS: tuple[Preset, ...] = (
    Preset("paper", "a part of the cluster for small jobs, as in the paper", split=True),
    Preset("policies", "which order with which backfill", {"order": EVERY, "backfill": EVERY}),
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
        "how far Slurm's backfilling looks, and how often",
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
    """Return the presets whose policies are registered."""
    return tuple(preset for preset in PRESETS if preset.exists)


def preset_named(name: str) -> Preset:
    """Return a preset. Raises ApplicationError if there is none of that name."""
    known = {preset.name: preset for preset in presets()}
    if name not in known:
        raise ApplicationError(f"there is no preset '{name}'{hint(name, known)}")
    return known[name]


@dataclass(frozen=True, slots=True)
class Filled:
    """A preset's levels for one cluster.

    Attributes:
        levels: by name, today's among them; what would have one level only is not opened.
        left_out: ``order`` or ``backfill``, and which of them cannot simulate the workload and why.
    """

    levels: Mapping[str, tuple[Level, ...]]
    left_out: tuple[tuple[str, str], ...]


def filled(
    preset: Preset, today: Mapping[str, Level], check: Callable[[Kind, str], None]
) -> Filled:
    """Return what a preset opens.

    Args:
        preset: one that exists.
        today: what is so now, where it means something.
        check: raises SimError if a policy cannot simulate the workload.
    """
    opened: dict[str, tuple[Level, ...]] = {}
    left_out: list[tuple[str, str]] = []
    wanted: tuple[Level, ...]
    for name, levels in preset.levels.items():
        if levels == EVERY:
            wanted, unable = _able(cast("Kind", name), check)
            left_out += [(name, reason) for reason in unable]
        else:
            wanted = levels
        if name in today and today[name] not in wanted:
            wanted = tuple(numbers_in_order((today[name], *wanted)))
        if len(wanted) > 1:
            opened[name] = wanted
    return Filled(opened, tuple(left_out))


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
