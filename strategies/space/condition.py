"""Conditions of parameters: where a parameter is active, and the one form of a configuration.

A parameter with a condition ``when`` matters only where the condition holds, and is inactive
elsewhere. Its value there means nothing, so a configuration has its first level (id 0) in that
place: configurations that differ only in inactive parameters have one form. A condition on an
inactive parameter does not hold unless another part of it decides, as in `ConfigSpace` (Lindauer et
al. 2019, BOAH).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from strategies.space.errors import ExclusionError, SpaceError
from strategies.space.exclusion import Exclusion
from strategies.space.parameter import Level, Parameter

INACTIVE = -1  # In place of the level id of an inactive parameter
MAX_RESULTS = 100_000  # Most results of one condition that are kept


@dataclass(frozen=True, slots=True, eq=False)
class _Condition:
    """Condition of the parameter at a position, on those at other positions."""

    position: int
    exclusion: Exclusion  # what is asked of a condition and of an exclusion is the same
    positions: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    results: dict[tuple[int, ...], bool] = field(default_factory=dict)

    def holds(self, ids: tuple[int, ...]) -> bool:
        """Return whether it holds for level ids at `positions`, `INACTIVE` where one is."""
        if ids not in self.results:
            values: dict[str, Level | None] = {
                p.name: None if i == INACTIVE else p.levels[i]
                for p, i in zip(self.parameters, ids, strict=True)
            }
            if len(self.results) >= MAX_RESULTS:
                self.results.clear()
            self.results[ids] = self.exclusion.excludes(values)
        return self.results[ids]


class Conditions:
    """Conditions of the parameters of a space; false if there are none.

    Raises `SpaceError` for a condition that cannot be read, names an unknown parameter or compares
    different types, and for conditions that depend on each other.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        conditions = {
            i: _condition(i, parameters) for i, parameter in enumerate(parameters) if parameter.when
        }
        self._ordered = tuple(conditions[i] for i in _order(conditions, parameters))
        self._by_position = {each.position: each for each in self._ordered}
        self.positions = frozenset(conditions)
        self._parents = tuple(sorted({i for each in self._ordered for i in each.positions}))
        self._inactive: dict[tuple[int, ...], frozenset[int]] = {}  # by the levels of parents
        self._ancestors: dict[int, frozenset[int]] = {}
        for each in self._ordered:
            self._ancestors[each.position] = self.involved(each.positions)

    def __bool__(self) -> bool:
        return bool(self._ordered)

    def involved(self, positions: Iterable[int]) -> frozenset[int]:
        """Return positions, and those on which the activity of their parameters depends."""
        nothing: frozenset[int] = frozenset()
        given = frozenset(positions)
        return given.union(*(self._ancestors.get(i, nothing) for i in given))

    def is_active(self, position: int, level_ids: Sequence[int]) -> bool:
        """Return whether the parameter at a position is active in a configuration.

        Only the level ids at the positions that are `involved` count.
        """
        each = self._by_position.get(position)
        return each is None or each.holds(
            tuple(
                [level_ids[i] if self.is_active(i, level_ids) else INACTIVE for i in each.positions]
            )
        )

    def inactive(self, level_ids: Sequence[int]) -> frozenset[int]:
        """Return the positions of the inactive parameters of a configuration."""
        key = tuple([level_ids[i] for i in self._parents])
        if key not in self._inactive:
            inactive: set[int] = set()
            for each in self._ordered:
                ids = tuple([INACTIVE if i in inactive else level_ids[i] for i in each.positions])
                if not each.holds(ids):
                    inactive.add(each.position)
            if len(self._inactive) >= MAX_RESULTS:
                self._inactive.clear()
            self._inactive[key] = frozenset(inactive)
        return self._inactive[key]

    def canonical(self, level_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return level ids with the first level of every inactive parameter."""
        inactive = self.inactive(level_ids)
        return tuple([0 if i in inactive else level_id for i, level_id in enumerate(level_ids)])

    def inactive_in(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return where parameters are inactive in configurations [n, d], bool [n, d]."""
        inactive = np.zeros(ids.shape, dtype=np.bool_)
        for each in self._ordered:
            columns = list(each.positions)
            keys = np.where(inactive[:, columns], INACTIVE, ids[:, columns])
            rows, which = np.unique(keys, axis=0, return_inverse=True)
            holds = np.array([each.holds(tuple(row)) for row in rows.tolist()], dtype=np.bool_)
            inactive[:, each.position] = ~holds[which.reshape(-1)]
        return inactive


def _condition(position: int, parameters: Sequence[Parameter]) -> _Condition:
    parameter = parameters[position]
    try:
        exclusion = Exclusion(parameter.when)
        exclusion.check({p.name: p.family for p in parameters})
    except ExclusionError as error:
        message = str(error).replace("exclusion", "condition", 1)
        raise SpaceError(f"'when' of parameter '{parameter.name}': {message}") from None
    names = exclusion.names
    positions = tuple(i for i, p in enumerate(parameters) if p.name in names)
    return _Condition(position, exclusion, positions, tuple(parameters[i] for i in positions))


def _order(conditions: dict[int, _Condition], parameters: Sequence[Parameter]) -> list[int]:
    """Return the positions of conditional parameters, each after those that it depends on."""
    graph = {i: [j for j in each.positions if j in conditions] for i, each in conditions.items()}
    try:
        return list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        names = " -> ".join(f"'{parameters[i].name}'" for i in reversed(error.args[1]))
        raise SpaceError(
            f"the conditions 'when' of parameters depend on each other, {names}; remove one."
        ) from None
