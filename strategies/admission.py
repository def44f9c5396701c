"""Which configurations of a space may be proposed, without walking the whole space.

An exclusion looks at few parameters, so its verdict is remembered per combination of their
levels, and the allowed configurations are counted over those parameters alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from strategies.exclusion import Exclusion
from strategies.parameter import Parameter
from strategies.randomness import below

EXACT_BOUND = 200_000
"""Combinations that may be walked one by one; beyond it answers are lazy or unknown."""


class Admission:
    """Open levels and exclusions of one space, over bare level ids.

    Args:
        parameters: the space's parameters.
        exclusions: conditions whose names are all parameters.
        open_ids: open level ids per parameter, ascending, none empty.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        exclusions: Sequence[Exclusion],
        open_ids: tuple[tuple[int, ...], ...],
    ) -> None:
        self.parameters = tuple(parameters)
        self.open_ids = open_ids
        self._open_sets = tuple(frozenset(ids) for ids in open_ids)
        self._judges = tuple(_Judge(self.parameters, exclusion) for exclusion in exclusions)
        self._named = tuple(sorted({i for judge in self._judges for i in judge.positions}))

    def closed_at(self, level_ids: Sequence[int]) -> int | None:
        """Return the first position with a closed level, None if all are open."""
        for position, (level_id, ids) in enumerate(zip(level_ids, self._open_sets, strict=True)):
            if level_id not in ids:
                return position
        return None

    def excluded_by(self, level_ids: Sequence[int]) -> Exclusion | None:
        """Return the first exclusion that forbids these levels, None if none does."""
        for judge in self._judges:
            if judge.excludes(level_ids):
                return judge.exclusion
        return None

    def admits(self, level_ids: Sequence[int]) -> bool:
        """Return whether all levels are open and no exclusion forbids them."""
        return self.closed_at(level_ids) is None and self.excluded_by(level_ids) is None

    def count(self) -> int | None:
        """Count the allowed configurations.

        Exact while the parameters named by exclusions have at most `EXACT_BOUND` combinations
        of open levels; None beyond.
        """
        if self._admitted_parts is None:
            return None
        free = (len(ids) for i, ids in enumerate(self.open_ids) if i not in self._named)
        return len(self._admitted_parts) * math.prod(free)

    def parts(self, positions: Sequence[int]) -> frozenset[tuple[int, ...]] | None:
        """Return the allowed combinations of those of these parameters that exclusions name.

        Their level ids, in the order of ``positions``; the other parameters combine freely with
        them. None where the count is unknown.
        """
        if self._admitted_parts is None:
            return None
        places = [self._named.index(position) for position in positions if position in self._named]
        return frozenset(tuple(part[place] for place in places) for part in self._admitted_parts)

    def all(self) -> Iterator[tuple[int, ...]]:
        """Yield the allowed level ids lazily, the last parameter moving fastest."""
        for level_ids in itertools.product(*self.open_ids):
            if self.excluded_by(level_ids) is None:
                yield level_ids

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw open levels uniformly; exclusions are not looked at."""
        return tuple(ids[below(rng, len(ids))] for ids in self.open_ids)

    def draw_allowed(self, rng: np.random.Generator) -> tuple[int, ...] | None:
        """Draw allowed levels uniformly, or None where the count is unknown or 0."""
        if not self._admitted_parts:
            return None
        level_ids = list(self.draw(rng))
        part = self._admitted_parts[below(rng, len(self._admitted_parts))]
        for position, level_id in zip(self._named, part, strict=True):
            level_ids[position] = level_id
        return tuple(level_ids)

    @cached_property
    def _admitted_parts(self) -> tuple[tuple[int, ...], ...] | None:
        """Allowed combinations of the parameters named by exclusions; None beyond the bound."""
        named_ids = [self.open_ids[i] for i in self._named]
        if math.prod(len(ids) for ids in named_ids) > EXACT_BOUND:
            return None
        level_ids = [ids[0] for ids in self.open_ids]
        admitted = []
        for part in itertools.product(*named_ids):
            for position, level_id in zip(self._named, part, strict=True):
                level_ids[position] = level_id
            if self.excluded_by(level_ids) is None:
                admitted.append(part)
        return tuple(admitted)


class _Judge:
    """One exclusion, with its verdicts remembered per combination of the levels it names."""

    def __init__(self, parameters: Sequence[Parameter], exclusion: Exclusion) -> None:
        self.exclusion = exclusion
        named = exclusion.names
        self.positions = tuple(i for i, p in enumerate(parameters) if p.name in named)
        self._parameters = tuple(parameters[i] for i in self.positions)
        self._verdicts: dict[tuple[int, ...], bool] = {}

    def excludes(self, level_ids: Sequence[int]) -> bool:
        part = tuple([level_ids[i] for i in self.positions])
        verdict = self._verdicts.get(part)
        if verdict is None:
            levels = zip(self._parameters, part, strict=True)
            verdict = self.exclusion.excludes({p.name: p.levels[i] for p, i in levels})
            if len(self._verdicts) < EXACT_BOUND:
                self._verdicts[part] = verdict
        return verdict
