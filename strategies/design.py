"""Design of experiments: main effects of a full or partial factorial.

The main effect of a level is the mean response of the runs with that level, less the mean of
all runs. On unbalanced data such means are confounded with the other parameters; the intervals
say how rough they are.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., chapters 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from strategies.configuration import Configuration
from strategies.observation import Observation, responses
from strategies.space import ParameterSpace

CONFIDENCE = 0.95
MIN_RESIDUAL_DF = 2


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """What is known about one level; everything but the count is None without a run.

    Args:
        level_id: the level.
        count: runs with this level.
        mean: their mean response.
        effect: that mean less the grand mean.
        standard_error: of the mean, from the spread within the level; None below two runs.
        interval: 95% t interval of the mean; None below two runs.
    """

    level_id: int
    count: int
    mean: float | None = None
    effect: float | None = None
    standard_error: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """How much a parameter seems to matter.

    Args:
        parameter: its name.
        spread: greatest less smallest level mean, None below two observed levels.
        share: its part of the between-level sums of squares of all parameters, None if those
            are all 0 (nothing seems to matter) or unknown.
        n_levels_observed: levels with at least one run.
    """

    parameter: str
    spread: float | None
    share: float | None
    n_levels_observed: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected response, with a rough 95% interval of one run, None if unknown."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class LevelTable:
    """Sums per level of one parameter, read-only arrays [n_levels].

    Means are relative to the model's origin and NaN where count is 0; ``squares`` is the sum
    of squared deviations within the level.
    """

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    squares: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DesignModel:
    """Main effects fitted to observations; build it with `DesignModel.fit`.

    Args:
        space: the space it was fitted on.
        n_observations: number of observations.
        origin: response that all sums are relative to, so that equal responses give effects
            of exactly 0; None without observations.
        offset: grand mean less the origin.
        tables: one table per parameter.
        residual_squares: sum of squared residuals of the sum of main effects.
        n_distinct: distinct allowed configurations observed.
    """

    space: ParameterSpace
    n_observations: int
    origin: float | None
    offset: float
    tables: tuple[LevelTable, ...]
    residual_squares: float
    n_distinct: int

    @classmethod
    def fit(cls, space: ParameterSpace, observations: Sequence[Observation]) -> DesignModel:
        """Fit main effects to the responses of the observations (see `responses`).

        Raises `SpaceError` if an observation is not of this space.
        """
        n = len(observations)
        distinct = {o.configuration for o in observations if space.is_allowed(o.configuration)}
        ids = np.array([o.configuration.level_ids for o in observations], dtype=np.int64)
        ids = ids.reshape(n, len(space.parameters))
        response = responses(observations)
        origin = float(response[0]) if n else None
        relative = response - (origin or 0.0)
        offset = float(relative.mean()) if n else 0.0
        tables = tuple(
            _level_table(ids[:, i], relative, p.n_levels) for i, p in enumerate(space.parameters)
        )
        predicted = np.full(n, offset)
        for i, table in enumerate(tables):
            predicted += table.means[ids[:, i]] - offset
        residual_squares = float(np.sum((relative - predicted) ** 2))
        return cls(space, n, origin, offset, tables, residual_squares, len(distinct))

    @property
    def grand_mean(self) -> float | None:
        """Mean of all responses, None without observations."""
        return None if self.origin is None else self.origin + self.offset

    @property
    def coverage(self) -> float | None:
        """Observed share of the allowed configurations, None if their number is unknown or 0."""
        n_allowed = self.space.count_allowed()
        return self.n_distinct / n_allowed if n_allowed else None

    def quality(self, parameter: str, level_id: int) -> float | None:
        """Return the paper's q(e): the mean response of a level, None without a run."""
        return self.level(parameter, level_id).mean

    def count(self, parameter: str, level_id: int) -> int:
        """Return the number of runs with a level."""
        return int(self.tables[self._position(parameter)].counts[level_id])

    def q_min(self, parameter: str) -> float | None:
        """Return the least known quality of the parameter's open levels, None if none is."""
        return min(self._known_qualities(parameter), default=None)

    def q_max(self, parameter: str) -> float | None:
        """Return the greatest known quality of the parameter's open levels, None if none is."""
        return max(self._known_qualities(parameter), default=None)

    def level(self, parameter: str, level_id: int) -> LevelEffect:
        """Return what is known about a level.

        Raises `UnknownParameterError`, or `IndexError` for an id that does not exist.
        """
        table = self.tables[self._position(parameter)]
        count = int(table.counts[level_id])
        if count == 0 or self.origin is None:
            return LevelEffect(level_id, 0)
        relative = float(table.means[level_id])
        mean = self.origin + relative
        error = interval = None
        if count > 1:
            error = math.sqrt(float(table.squares[level_id]) / (count - 1) / count)
            half = _t_quantile(count - 1) * error
            interval = (mean - half, mean + half)
        return LevelEffect(level_id, count, mean, relative - self.offset, error, interval)

    def levels(self, parameter: str) -> tuple[LevelEffect, ...]:
        """Return what is known about every level of a parameter, in the order of ids."""
        n_levels = self.space.parameter(parameter).n_levels
        return tuple(self.level(parameter, level_id) for level_id in range(n_levels))

    @cached_property
    def importance(self) -> tuple[Importance, ...]:
        """Importance of every parameter, the most important first."""
        between = [_between_squares(table, self.offset) for table in self.tables]
        total = math.fsum(between)
        entries = []
        for parameter, table, squares in zip(
            self.space.parameters, self.tables, between, strict=True
        ):
            known = table.means[table.counts > 0]
            spread = float(known.max() - known.min()) if known.size > 1 else None
            share = squares / total if total > 0 else None
            entries.append(Importance(parameter.name, spread, share, int(known.size)))
        return tuple(sorted(entries, key=lambda e: (-(e.share or 0.0), -(e.spread or 0.0))))

    def expected(self, configuration: Configuration) -> Expectation | None:
        """Return the grand mean plus the effects of the known levels, None without any run.

        The interval is rough: the residual spread of the additive model, widened for the
        number of fitted effects. It is None if fewer than 2 residual degrees of freedom are
        left, or if a level of the configuration has no run.
        Raises `SpaceError` if the configuration is not of this space.
        """
        names = self.space.values(configuration)
        if self.origin is None:
            return None
        levels = [self.level(n, i) for n, i in zip(names, configuration.level_ids, strict=True)]
        effects = [level.effect for level in levels if level.effect is not None]
        value = self.origin + self.offset + math.fsum(effects)
        n_fitted = 1 + sum(max(int((t.counts > 0).sum()) - 1, 0) for t in self.tables)
        n_free = self.n_observations - n_fitted
        if n_free < MIN_RESIDUAL_DF or len(effects) < len(levels):
            return Expectation(value, None)
        spread = math.sqrt(self.residual_squares / n_free * (1 + n_fitted / self.n_observations))
        half = _t_quantile(n_free) * spread
        return Expectation(value, (value - half, value + half))

    def _position(self, parameter: str) -> int:
        return self.space.names.index(self.space.parameter(parameter).name)

    def _known_qualities(self, parameter: str) -> list[float]:
        position = self._position(parameter)
        counts = self.tables[position].counts
        open_ids = [i for i in self.space.open_ids[position] if counts[i]]
        qualities = (self.quality(parameter, level_id) for level_id in open_ids)
        return [q for q in qualities if q is not None]


def _level_table(
    ids: NDArray[np.int64], relative: NDArray[np.float64], n_levels: int
) -> LevelTable:
    counts: NDArray[np.int64] = np.bincount(ids, minlength=n_levels).astype(np.int64)
    sums = np.bincount(ids, weights=relative, minlength=n_levels)
    means: NDArray[np.float64] = np.full(n_levels, np.nan, dtype=np.float64)
    np.divide(sums, counts, out=means, where=counts > 0)
    deviations = (relative - means[ids]) ** 2
    squares = np.bincount(ids, weights=deviations, minlength=n_levels).astype(np.float64)
    counts.flags.writeable = False
    means.flags.writeable = False
    squares.flags.writeable = False
    return LevelTable(counts, means, squares)


def _between_squares(table: LevelTable, offset: float) -> float:
    known = table.counts > 0
    return float(np.sum(table.counts[known] * (table.means[known] - offset) ** 2))


def _t_quantile(degrees_of_freedom: int) -> float:
    """Return the two-sided 95% quantile of Student's t."""
    return float(stdtrit(degrees_of_freedom, 0.5 + CONFIDENCE / 2))
