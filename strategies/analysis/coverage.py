"""What share of the space has runs: per parameter, per pair of parameters, and over all."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strategies.observation import Observation
from strategies.space import ParameterSpace


@dataclass(frozen=True, slots=True)
class Covered:
    """How far the allowed levels of a parameter, or combinations of a pair, have runs.

    Args:
        parameters: one name, or two.
        n_seen: allowed levels or combinations with a run.
        n_allowed: how many there are; None if the exclusions are too many to count.
        least: the fewest runs of one, 0 if one has none; None where ``n_allowed`` is.
        most: the most runs of one.
    """

    parameters: tuple[str, ...]
    n_seen: int
    n_allowed: int | None
    least: int | None
    most: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Coverage of a space by runs.

    Args:
        parameters: one entry per parameter, in the space's order.
        pairs: one entry per pair of parameters.
        n_seen: distinct allowed configurations with a run.
        n_allowed: allowed configurations, None if unknown.
    """

    parameters: tuple[Covered, ...]
    pairs: tuple[Covered, ...]
    n_seen: int
    n_allowed: int | None

    @property
    def share(self) -> float | None:
        """Share of the allowed configurations that have runs; None if unknown or none are."""
        return self.n_seen / self.n_allowed if self.n_allowed else None


def coverage(space: ParameterSpace, observations: Sequence[Observation]) -> Coverage:
    """Count levels, pairs of levels and configurations with runs; replicates count as runs.

    Runs at closed levels or excluded combinations count nowhere: they are not allowed now. Raises
    `SpaceError` if an observation is not of this space.
    """
    cells = [o.configuration for o in observations if space.is_allowed(o.configuration)]
    ids = np.array([c.level_ids for c in cells], dtype=np.int64)
    ids = ids.reshape(len(cells), len(space.parameters))
    columns = ids.T.tolist()
    return Coverage(
        tuple(
            _covered(space, (name,), Counter(zip(column, strict=True)))
            for name, column in zip(space.names, columns, strict=True)
        ),
        tuple(
            _covered(space, (first, second), Counter(zip(a, b, strict=True)))
            for (first, a), (second, b) in itertools.combinations(
                zip(space.names, columns, strict=True), 2
            )
        ),
        len(set(cells)),
        space.count_allowed(),
    )


def _covered(
    space: ParameterSpace, names: tuple[str, ...], counts: Counter[tuple[int, ...]]
) -> Covered:
    allowed = space.allowed_combinations(names)
    most = max(counts.values(), default=0)
    if allowed is None:
        return Covered(names, len(counts), None, None, most)
    least = min(counts.values(), default=0) if len(counts) == len(allowed) else 0
    return Covered(names, len(counts), len(allowed), least, most)
