"""Balanced level designs: every level of every parameter about equally often.

On a finite grid this is what a Latin hypercube becomes (McKay, Beckman & Conover 1979): a column
per parameter that holds every level equally often, columns paired at random. With fewer points
than levels, an ordinal column takes one level from each of n equal strata of its ranks, as theirs
does; a nominal one takes n different levels.

Reference: McKay, Beckman & Conover 1979, A comparison of three methods for selecting values of
input variables in the analysis of output from a computer code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from strategies.configuration import Configuration
from strategies.errors import OptionError
from strategies.parameter import Parameter
from strategies.space import ParameterSpace

Row: TypeAlias = tuple[int, ...]

SWAPS = 64
"""Exchanges tried for a point that is excluded, taken or there already."""

DRAWS = 32
"""Draws per point that no exchange could place; the one that balances best is taken."""


def balanced_design(
    space: ParameterSpace,
    n: int,
    rng: np.random.Generator,
    unavailable: Container[Configuration] = frozenset(),
    so_far: Iterable[Configuration] = (),
) -> tuple[Configuration, ...]:
    """Return n distinct, allowed configurations outside ``unavailable``, balanced in their levels.

    Levels occur equally often (at most one apart) together with those of ``so_far``, as far as
    that is possible. Points that are excluded or taken exchange one level with another point,
    which keeps the balance; where that fails they are drawn again, which may cost some of it.
    Fewer than n come back only if no allowed configuration is left.

    Args:
        space: where.
        n: how many points, from 0 on.
        rng: pairs the columns and breaks ties.
        unavailable: configurations that must not be among the points.
        so_far: configurations whose levels count as used already.
    Raises `OptionError` if n is no whole number from 0 on; `SpaceError` as `ParameterSpace.sample`.
    """
    if type(n) is not int or n < 0:
        raise OptionError(f"a design of n={n!r} points was asked for; n is a whole number from 0.")
    n = min(n, space.open_size)
    counts = level_counts(space, so_far)
    columns = [
        balanced_column(parameter, by_rank, used, n, rng)
        for parameter, by_rank, used in zip(
            space.parameters, space.open_by_rank, counts, strict=True
        )
    ]
    points = _Points(space, unavailable, counts, rng)
    left = [row for row in zip(*columns, strict=True) if not points.add(row)]
    left = [row for row in left if not points.add_by_exchange(row)]
    for _ in left:
        if not points.add_drawn():
            break
    return points.configurations()


def level_counts(
    space: ParameterSpace, configurations: Iterable[Configuration]
) -> tuple[Counter[int], ...]:
    """Return how often every level id occurs, per parameter."""
    counts: tuple[Counter[int], ...] = tuple(Counter() for _ in space.parameters)
    for configuration in configurations:
        for counter, level_id in zip(counts, configuration.level_ids, strict=True):
            counter[level_id] += 1
    return counts


def balanced_column(
    parameter: Parameter,
    by_rank: Sequence[int],
    used: Counter[int],
    n: int,
    rng: np.random.Generator,
) -> list[int]:
    """Return n level ids in random order that even out how often each of ``by_rank`` is used.

    The least used levels come first. Where a last round is too short for all of them, it takes
    one from each of as many equal strata of the ranks, or any, if the parameter is nominal.
    """
    column: list[int] = []
    rounds = {level_id: used[level_id] for level_id in by_rank}
    while len(column) < n:
        fewest = min(rounds.values())
        least = [level_id for level_id in by_rank if rounds[level_id] == fewest]
        wanted = n - len(column)
        if wanted < len(least):
            least = _spread(least, wanted, rng, strata=parameter.kind == "ordinal")
        column += least
        for level_id in least:
            rounds[level_id] += 1
    return [column[i] for i in rng.permutation(n)]


def _spread(
    ordered: Sequence[int], wanted: int, rng: np.random.Generator, *, strata: bool
) -> list[int]:
    """Return ``wanted`` different ones: one per stratum, or a simple random sample."""
    if not strata:
        return [ordered[i] for i in rng.choice(len(ordered), wanted, replace=False)]
    # one shift for all strata: two draws would meet where a stratum ends within a level
    places = (np.arange(wanted) + rng.random()) / wanted * len(ordered)
    return [ordered[min(int(place), len(ordered) - 1)] for place in places]


class _Points:
    """The points of one design so far, free and distinct; holds what may not be added."""

    def __init__(
        self,
        space: ParameterSpace,
        unavailable: Container[Configuration],
        counts: Sequence[Counter[int]],
        rng: np.random.Generator,
    ) -> None:
        self._space = space
        self._unavailable = unavailable
        self._counts = [Counter(used) for used in counts]
        self._rng = rng
        self._rows: list[Row] = []
        self._seen: set[Row] = set()

    def __contains__(self, configuration: object) -> bool:
        """Return whether a configuration is among the points or unavailable."""
        if not isinstance(configuration, Configuration):
            return False
        return configuration.level_ids in self._seen or configuration in self._unavailable

    def configurations(self) -> tuple[Configuration, ...]:
        """Return the points in random order, or those that were moved would come last."""
        order = self._rng.permutation(len(self._rows))
        return tuple(Configuration(self._rows[i], self._space.lineage) for i in order)

    def add(self, row: Row) -> bool:
        """Add a point if it is free; return whether it was."""
        if not self._is_free(row):
            return False
        self._rows.append(row)
        self._count(row, 1)
        return True

    def add_by_exchange(self, row: Row) -> bool:
        """Add a point after exchanging one level with a point that is there, if both are free."""
        for _ in range(SWAPS if self._rows else 0):
            place = int(self._rng.integers(len(self._rows)))
            column = int(self._rng.integers(len(row)))
            other = self._rows[place]
            mine, theirs = _exchanged(row, other, column), _exchanged(other, row, column)
            if mine != theirs and self._is_free(mine) and self._is_free(theirs):
                self._count(other, -1)
                self._rows[place] = theirs
                self._count(theirs, 1)
                return self.add(mine)
        return False

    def add_drawn(self) -> bool:
        """Add the best balanced of some random free points; return False if none is left."""
        drawn = [
            tuple(ids[int(self._rng.integers(len(ids)))] for ids in self._space.open_ids)
            for _ in range(DRAWS)
        ]
        free = [row for row in drawn if self._is_free(row)]
        if free:
            return self.add(min(free, key=self._use))
        last = self._space.sample(self._rng, self)
        return last is not None and self.add(last.level_ids)

    def _is_free(self, row: Row) -> bool:
        configuration = Configuration(row, self._space.lineage)
        return configuration not in self and self._space.is_allowed(configuration)

    def _use(self, row: Row) -> int:
        return sum(used[level_id] for used, level_id in zip(self._counts, row, strict=True))

    def _count(self, row: Row, change: Literal[1, -1]) -> None:
        for used, level_id in zip(self._counts, row, strict=True):
            used[level_id] += change
        (self._seen.add if change == 1 else self._seen.discard)(row)


def _exchanged(row: Row, other: Row, column: int) -> Row:
    return (*row[:column], other[column], *row[column + 1 :])
