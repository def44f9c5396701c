"""Main effects of a full or partial factorial, and `Knowledge`, the input of every strategy.

Three methods, which agree on a full factorial:

- ``means``: the mean response of the runs with a level, less the mean of all runs. Every level
  with a run is known, but on unbalanced data such means are confounded with other parameters.
- ``blocks``: balanced contrasts in complete factorial blocks; see `strategies.doe.factorial_block`.
- ``least_squares``: the additive model; see `strategies.doe.linear_model`.

With the last two, the mean of a level is adjusted: the grand mean plus its effect. The grand mean
is the constant that fits the runs whose levels all have effects (all runs if there is none). A
level may have runs and still be unknown: None, never 0.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., chapters 3 and 5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from strategies.data.earlier_sweep import EarlierSweep
from strategies.data.observation import Failure, Observation, responses
from strategies.doe.factorial_block import FactorialBlock, block_effects, find_blocks
from strategies.doe.linear_model import least_squares_effects, rounded_to_grain
from strategies.space.errors import ObservationError, OptionError
from strategies.space.parameter_space import Configuration, ParameterSpace

Method: TypeAlias = Literal["means", "blocks", "least_squares"]

METHODS: tuple[Method, ...] = get_args(Method)
CONFIDENCE = 0.95
MIN_RESIDUAL_DF = 2


@dataclass(frozen=True, slots=True)
class LevelEffect:
    """Estimated mean, effect and run count of one level, None where unknown."""

    level_id: int
    count: int  # runs with this level
    mean: float | None = None  # their mean response, or the adjusted mean
    effect: float | None = None  # that mean less the grand mean
    # standard error of the mean, from the spread within the level; None below two runs, and for
    # adjusted means
    standard_error: float | None = None
    # 95% t interval of the mean; None where the standard error is
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of a parameter: spread of level means and share of explained variation."""

    parameter: str  # name of the parameter
    spread: float | None  # greatest less smallest level mean, None below two known levels
    # its part of the between-level sums of squares of all parameters, None if those are all 0
    # (nothing seems to matter) or unknown
    share: float | None
    n_levels_observed: int  # levels with at least one run


@dataclass(frozen=True, slots=True)
class ExpectedResponse:
    """Expected response of a configuration, with an approximate 95% interval of a single run."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class LevelTable:
    """Run counts, mean responses and sums of squares for each level of a parameter.

    Means are relative to the model's origin and NaN where unknown; ``squares`` is the sum of
    squared deviations within the level.
    """

    counts: NDArray[np.int64]
    means: NDArray[np.float64]
    squares: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DesignModel:
    """Model of the main effects of all levels, fitted to observations."""

    space: ParameterSpace  # space of the observations
    n_observations: int  # number of observations
    # response that all sums are relative to, so that equal responses give effects of exactly 0;
    # None without observations
    origin: float | None
    offset: float  # grand mean less the origin
    tables: tuple[LevelTable, ...]  # one table per parameter
    residual_squares: float  # sum of squared residuals of the sum of main effects
    n_distinct: int  # distinct allowed configurations observed
    method: Method = "means"  # how effects are estimated
    n_fitted: int = 0  # observations behind the residuals, those whose levels are all known
    # complete factorial blocks that were used; empty for other methods
    blocks: tuple[FactorialBlock, ...] = ()

    @classmethod
    def fit(
        cls,
        space: ParameterSpace,
        observations: Sequence[Observation],
        method: Method = "means",
    ) -> DesignModel:
        """Fit main effects to the observations by one of three methods.

        Raises `SpaceError` if an observation is not of this space, `OptionError` for an unknown
        method.
        """
        require_method(method)
        n = len(observations)
        distinct = {o.configuration for o in observations if space.is_allowed(o.configuration)}
        ids = np.array([o.configuration.level_ids for o in observations], dtype=np.int64)
        ids = ids.reshape(n, len(space.parameters))
        response = responses(observations)
        origin = float(response[0]) if n else None
        relative = response - (origin or 0.0)
        offset = float(relative.mean()) if n else 0.0
        inactive = space.inactive_in(ids)
        tables = tuple(
            _level_table(ids[~inactive[:, i], i], relative[~inactive[:, i]], p.n_levels)
            for i, p in enumerate(space.parameters)
        )
        blocks = find_blocks(space, observations) if method == "blocks" else ()
        fitted = np.ones(n, dtype=np.bool_)
        if method != "means":
            if method == "blocks":
                effects = block_effects(space, observations, blocks)
            else:
                effects = least_squares_effects(space, observations)
            rows = [_settled(row, relative) for row in effects]
            offset, fitted = _grand_mean(rows, ids, relative, inactive)
            tables = tuple(_adjusted(t, row, offset) for t, row in zip(tables, rows, strict=True))
        predicted = np.full(n, offset)
        for i, table in enumerate(tables):
            predicted += np.nan_to_num(table.means[ids[:, i]] - offset) * ~inactive[:, i]
        residual_squares = float(np.sum((relative - predicted)[fitted] ** 2))
        return cls(
            space, n, origin, offset, tables, residual_squares, len(distinct), method,
            int(fitted.sum()), blocks,
        )  # fmt: skip

    @property
    def grand_mean(self) -> float | None:
        """Mean response, or None; adjusted for unbalanced data unless the method is ``means``."""
        return None if self.origin is None else self.origin + self.offset

    @property
    def coverage(self) -> float | None:
        """Share of the allowed configurations that were observed, or None if unknown."""
        n_allowed = self.space.count_allowed()
        return self.n_distinct / n_allowed if n_allowed else None

    def quality(self, parameter: str, level_id: int) -> float | None:
        """Return q(e), the mean response of a level (Copper paper), or None if unknown."""
        return self.level(parameter, level_id).mean

    def count(self, parameter: str, level_id: int) -> int:
        """Return the number of runs that have a given level."""
        return int(self.tables[self._position(parameter)].counts[level_id])

    def q_min(self, parameter: str) -> float | None:
        """Return the lowest known mean response among a parameter's open levels, or None."""
        return min(self._known_qualities(parameter), default=None)

    def q_max(self, parameter: str) -> float | None:
        """Return the highest known mean response among a parameter's open levels, or None."""
        return max(self._known_qualities(parameter), default=None)

    def level(self, parameter: str, level_id: int) -> LevelEffect:
        """Return the estimated mean and effect of one level.

        Raises `UnknownParameterError`, or `IndexError` for an id that does not exist.
        """
        table = self.tables[self._position(parameter)]
        count = int(table.counts[level_id])
        relative = float(table.means[level_id])
        if self.origin is None or math.isnan(relative):
            return LevelEffect(level_id, count)
        mean = self.origin + relative
        error = interval = None
        if count > 1 and self.method == "means":
            error = math.sqrt(float(table.squares[level_id]) / (count - 1) / count)
            half = _t_quantile(count - 1) * error
            interval = (mean - half, mean + half)
        return LevelEffect(level_id, count, mean, relative - self.offset, error, interval)

    def levels(self, parameter: str) -> tuple[LevelEffect, ...]:
        """Return the estimated mean and effect of every level of a parameter."""
        n_levels = self.space.parameter(parameter).n_levels
        return tuple(self.level(parameter, level_id) for level_id in range(n_levels))

    @cached_property
    def importance(self) -> tuple[Importance, ...]:
        """Importance of every parameter, in decreasing order."""
        between = [_between_squares(table, self.offset) for table in self.tables]
        total = math.fsum(between)
        entries = []
        for parameter, table, squares in zip(
            self.space.parameters, self.tables, between, strict=True
        ):
            means = table.means[_is_estimated(table)]
            spread = float(means.max() - means.min()) if means.size > 1 else None
            share = squares / total if total > 0 else None
            n_observed = int((table.counts > 0).sum())
            entries.append(Importance(parameter.name, spread, share, n_observed))
        return tuple(sorted(entries, key=lambda e: (-(e.share or 0.0), -(e.spread or 0.0))))

    def expected(self, configuration: Configuration) -> ExpectedResponse | None:
        """Return the expected response of a configuration, from known main effects, or None.

        The interval is rough: the residual spread of the additive model, widened for the
        number of fitted effects. It is None with fewer than 2 residual degrees of freedom, or if
        a level of the configuration is unknown.
        Raises `SpaceError` if the configuration is not of this space.
        """
        names = self.space.values(configuration)
        if self.origin is None:
            return None
        levels = [
            self.level(name, i)
            for name, i in zip(self.space.names, configuration.level_ids, strict=True)
            if name in names
        ]
        effects = [level.effect for level in levels if level.effect is not None]
        value = self.origin + self.offset + math.fsum(effects)
        n_effects = 1 + sum(max(int(_is_estimated(t).sum()) - 1, 0) for t in self.tables)
        n_free = self.n_fitted - n_effects
        if n_free < MIN_RESIDUAL_DF or len(effects) < len(levels):
            return ExpectedResponse(value, None)
        spread = math.sqrt(self.residual_squares / n_free * (1 + n_effects / self.n_fitted))
        half = _t_quantile(n_free) * spread
        return ExpectedResponse(value, (value - half, value + half))

    def _position(self, parameter: str) -> int:
        return self.space.names.index(self.space.parameter(parameter).name)

    def _known_qualities(self, parameter: str) -> list[float]:
        open_ids = self.space.open_ids[self._position(parameter)]
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


def require_method(method: str) -> None:
    """Raise `OptionError` unless `method` is a name in `METHODS`."""
    if method not in METHODS:
        raise OptionError(f"the method of effects is {method!r}; allowed are {', '.join(METHODS)}.")


def _grand_mean(
    rows: Sequence[NDArray[np.float64]],
    ids: NDArray[np.int64],
    relative: NDArray[np.float64],
    inactive: NDArray[np.bool_],
) -> tuple[float, NDArray[np.bool_]]:
    """Return the constant of the additive model, and the observations that it is fitted to.

    A parameter without any known effect is left out; otherwise a level without effect leaves
    its runs out, unless that leaves none.
    """
    fitted = np.ones(len(ids), dtype=np.bool_)
    rest = relative.copy()
    for i, row in enumerate(rows):
        run_effects = np.where(inactive[:, i], 0.0, row[ids[:, i]])
        rest -= np.nan_to_num(run_effects)
        if not np.isnan(row).all():
            fitted &= ~np.isnan(run_effects)
    if not fitted.any():
        fitted[:] = True
    return (float(rest[fitted].mean()) if len(ids) else 0.0), fitted


def _adjusted(table: LevelTable, effects: NDArray[np.float64], offset: float) -> LevelTable:
    means = effects + offset
    means.flags.writeable = False
    return LevelTable(table.counts, means, table.squares)


def _settled(effects: Sequence[float | None], relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return effects rounded to the grain, NaN where unknown."""
    values = np.array([np.nan if e is None else e for e in effects], dtype=np.float64)
    return rounded_to_grain(values, relative)


def _is_estimated(table: LevelTable) -> NDArray[np.bool_]:
    return ~np.isnan(table.means)


def _between_squares(table: LevelTable, offset: float) -> float:
    estimated = _is_estimated(table)
    return float(np.sum(table.counts[estimated] * (table.means[estimated] - offset) ** 2))


def _t_quantile(degrees_of_freedom: int) -> float:
    return float(stdtrit(degrees_of_freedom, 0.5 + CONFIDENCE / 2))


@dataclass(frozen=True)
class Knowledge:
    """Space, results and unfinished runs of an experiment, as input for strategies.

    Args:
        space: current version of the space.
        observations: completed runs, oldest first.
        failures: runs without a result.
        pending: configurations that wait for a run.
        running: configurations of the current runs.
        others: configurations of further ended runs, where the observations and failures are a
            sample (`strategies.data.learning_sample`).
        n_others: number of the ended runs that the sample leaves out.
        earlier: earlier sweeps to learn from, see `strategies.gp.transfer`.
    Raises `ObservationError` if a configuration is of another lineage than the space.

    Not slotted: `taken` and the models are cached on first use.
    """

    space: ParameterSpace
    observations: tuple[Observation, ...] = ()
    failures: tuple[Failure, ...] = ()
    pending: frozenset[Configuration] = frozenset()
    running: tuple[Configuration, ...] = ()
    others: frozenset[Configuration] = frozenset()
    n_others: int = 0
    earlier: tuple[EarlierSweep, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "observations", tuple(self.observations))
        object.__setattr__(self, "failures", tuple(self.failures))
        object.__setattr__(self, "pending", frozenset(self.pending))
        object.__setattr__(self, "running", tuple(self.running))
        for configuration in self.taken:
            if configuration.lineage != self.space.lineage:
                raise ObservationError(
                    f"a configuration of space '{configuration.lineage}' is among the runs of "
                    f"space '{self.space.lineage}'; use one experiment per lineage."
                )

    @cached_property
    def taken(self) -> frozenset[Configuration]:
        """Configurations that were observed, failed, or are pending or running."""
        return self.pending.union(self.running, self.tried)

    @cached_property
    def tried(self) -> frozenset[Configuration]:
        """Configurations with an ended run."""
        observed = (observation.configuration for observation in self.observations)
        failed = (failure.configuration for failure in self.failures)
        return self.others.union(observed, failed)

    @property
    def n_ended(self) -> int:
        """Number of ended runs, those that a sample leaves out included."""
        return len(self.observations) + len(self.failures) + self.n_others

    @cached_property
    def model(self) -> DesignModel:
        """Main effects of the observations, from level means."""
        return self.model_by("means")

    def model_by(self, method: Method) -> DesignModel:
        """Return the main effects estimated by a given method.

        Raises `OptionError` for an unknown method.
        """
        if method not in self._models:
            self._models[method] = DesignModel.fit(self.space, self.observations, method)
        return self._models[method]

    @cached_property
    def _models(self) -> dict[Method, DesignModel]:
        return {}


def is_exhausted(knowledge: Knowledge) -> bool:
    """Return whether every allowed configuration has been run or is planned."""
    space, taken = knowledge.space, knowledge.taken
    n_allowed = space.count_allowed()
    if n_allowed is not None and n_allowed > len(taken):
        return False
    return all(configuration in taken for configuration in space.configurations())
