"""Refinement of wide parameters: levels are added beside the best one, and the range narrows.

The rule, for each parameter with a range and no step: once both levels next to that of the best
configuration have been tried, the middles of the two gaps become levels. What was run stays valid,
since levels are only added. A best level at an end of the range has one gap. Nothing is added while
fewer runs are left than levels would come, nor in a gap below 1 % of the range. Successive
narrowing around the best is that of Hooke and Jeeves 1961, with results of all runs in the place of
a pattern move.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strategies.space.parameter import Level, show
from strategies.space.parameter_space import Configuration, ParameterSpace


@dataclass(frozen=True, slots=True)
class AddedLevel:
    """Level to add to a parameter, with the reason in words."""

    parameter: str
    value: Level
    reason: str


def refinement(
    space: ParameterSpace,
    best: Configuration,
    tried: Iterable[Configuration],
    runs_left: int | None,
) -> tuple[AddedLevel, ...]:
    """Return the levels to add beside those of the best configuration; none if it is too early.

    ``tried`` are the configurations of ended runs, failed ones included; ``runs_left`` is None
    without a limit.
    """
    if not space.is_wide:
        return ()
    used = [(p.name, set[int]()) for p in space.parameters]
    for configuration in tried:
        inactive = space.inactive(configuration)
        for (name, ids), level_id in zip(used, configuration.level_ids, strict=True):
            if name not in inactive:
                ids.add(level_id)
    inactive = space.inactive(best)
    added = [
        level
        for i, parameter in enumerate(space.parameters)
        if parameter.wide is not None and parameter.name not in inactive
        for level in _beside(space, i, best.level_ids[i], used[i][1])
    ]
    return tuple(added) if runs_left is None or runs_left >= len(added) else ()


def _beside(
    space: ParameterSpace, position: int, best_id: int, tried: set[int]
) -> list[AddedLevel]:
    """Return the middles of the gaps beside the best level, if its neighbours have been tried."""
    parameter = space.parameters[position]
    # levels of which every configuration is excluded are no neighbours, as far as that is known
    allowed = space.allowed_combinations((parameter.name,)) if space.exclusions else None
    ordered = [i for i in space.open_by_rank[position] if allowed is None or (i,) in allowed]
    if best_id not in ordered or parameter.wide is None:
        return []
    place = ordered.index(best_id)
    neighbours = [ordered[j] for j in (place - 1, place + 1) if 0 <= j < len(ordered)]
    if not tried.issuperset(neighbours):
        return []
    levels, added = parameter.levels, list[AddedLevel]()
    for neighbour in neighbours:
        ends = sorted(v for v in (levels[best_id], levels[neighbour]) if not isinstance(v, str))
        middle = parameter.wide.between(*ends)
        if middle is not None and middle not in levels:
            reason = f"between {show(ends[0])} and {show(ends[1])}, beside the best result"
            added.append(AddedLevel(parameter.name, middle, reason))
    return added
