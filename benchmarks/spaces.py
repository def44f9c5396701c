"""What searches are measured on: spaces of which every run is known.

Measured tables are real programs; tables of simulated schedules are real logs; generated spaces
are of a known family with a known optimum, so that what a method is good at can be seen. A space is
the full product of levels, and a combination without a value is a failed run; or it is the rows of
a table that holds less than one in a hundred of its combinations, and nothing else can be run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assistant import AssistantError
from strategies import Configuration, MeasuredTable, Parameter, ParameterSpace
from strategies.data.alternatives import merge_alternatives

Kind = Literal["measured", "simulated", "generated", "drawn", "fresh"]

LEAST_SIZE, MOST_SIZE = 1_000, 10_000
MOST_LISTED = 10**8
"""Most combinations of a table's levels; a value of each is in memory."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A space and the objective of all its configurations.

    Args:
        name: of the table, or family and seed.
        kind: measured, simulated, generated, drawn to fit a forecast, or fresh to judge it; figures
            of different kinds are never mixed.
        space: the full product of levels, or the given rows of it.
        objective: float64 [size], minimised; NaN is a run that fails. Its order is that of
            `ParameterSpace.index`, or of the rows where the space has given rows.
        optimum: index of a best configuration, where it is known by construction; else None.
        duration_s: float64 [size], how long each run took; None where that is not recorded.
        noise: standard deviation of the noise in the results over that of the law, where both are
            known by construction; else None.
        run_noise: standard deviation of the noise that every run draws anew, as a share of
            (median - best); `objective` is then what a run has on average.

    Not slotted: the sorted values are cached.
    """

    name: str
    kind: Kind
    space: ParameterSpace
    objective: NDArray[np.float64]
    optimum: int | None = None
    duration_s: NDArray[np.float64] | None = None
    noise: float | None = None
    run_noise: float = 0.0

    @property
    def size(self) -> int:
        """Number of configurations, failing ones included."""
        return len(self.objective)

    @property
    def n_failing(self) -> int:
        """Number of configurations whose runs fail."""
        return self.size - len(self.valid)

    def index(self, configuration: Configuration) -> int:
        """Return the index of a configuration's objective; KeyError if it is no given row."""
        if self.space.rows:
            return self._places[configuration.level_ids]
        return self.space.index(configuration)

    def configuration(self, index: int) -> Configuration:
        """Return the configuration of an index."""
        if self.space.rows:
            return Configuration(self.space.rows[index], self.space.lineage)
        return self.space.configuration(index)

    def nearest(self, level_ids: tuple[int, ...]) -> int:
        """Return the index of the configuration with the fewest other levels, the first of them."""
        if not self.space.rows or level_ids in self._places:
            return self.index(Configuration(level_ids, self.space.lineage))
        return int((self._rows != np.array(level_ids)).sum(axis=1).argmin())

    @cached_property
    def _places(self) -> dict[tuple[int, ...], int]:
        return {row: place for place, row in enumerate(self.space.rows)}

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        return np.array(self.space.rows, dtype=np.int64)

    @cached_property
    def valid(self) -> NDArray[np.float64]:
        """The objective of every run that does not fail, ascending."""
        return np.sort(self.objective[~np.isnan(self.objective)])

    def goal(self, share: float) -> float:
        """Return best + share * (median - best), over the runs that do not fail.

        Not the share of the range: of a long tail nearly all would be within 5 % of it.
        """
        best, median = float(self.valid[0]), float(np.median(self.valid))
        return best + share * (median - best)

    def regret(self, index: int) -> float:
        """Return (objective - best) of a run that does not fail, as a share of (median - best)."""
        best = self.goal(0.0)
        return float((self.objective[index] - best) / (self.goal(1.0) - best))

    def n_within(self, share: float) -> int:
        """Count the combinations that reach the goal."""
        return int((self.valid <= self.goal(share)).sum())


def from_table(path: Path, kind: Kind = "measured") -> Problem:
    """Read a measured table; raises `TableError` as `MeasuredTable.read` does."""
    return of_table(MeasuredTable.read(path), path.stem, kind)


def merged_from_table(path: Path) -> Problem | None:
    """Read a measured table with its alternatives as one parameter each; None if it has none.

    Raises `TableError` as `MeasuredTable.read` does.
    """
    table, alternatives = merge_alternatives(MeasuredTable.read(path))
    return of_table(table, f"{path.stem}, merged", "measured") if alternatives else None


def of_table(table: MeasuredTable, name: str, kind: Kind) -> Problem:
    """Return the problem of a table; raises `AssistantError` for too large a product of levels."""
    size = len(table.space.rows) or table.space.size
    if size > MOST_LISTED:
        raise AssistantError(
            f"{name} has {size:,} combinations; at most {MOST_LISTED:,} are searched."
        )
    problem = Problem(name, kind, table.space, np.full(size, np.nan))
    seconds = np.full(size, np.nan)
    for configuration, measurement in table.measurements.items():
        index = problem.index(configuration)
        problem.objective[index] = measurement.objective
        seconds[index] = np.nan if measurement.duration_s is None else measurement.duration_s
    recorded = None if np.isnan(seconds).all() else seconds
    return replace(problem, duration_s=recorded)


def generated(family: str, seed: int) -> Problem:
    """Draw one space of a family; the same seed gives the same space.

    Raises KeyError for a family that is not in `FAMILIES`.
    """
    rng = np.random.default_rng([seed, *family.encode()])
    space = _draw_space(rng, *_SHAPES[family])
    ids = level_ids(space)
    best = np.array([rng.integers(parameter.n_levels) for parameter in space.parameters])
    objective, best = FAMILIES[family](space, ids, best, rng)
    optimum = int(np.ravel_multi_index(tuple(best), [p.n_levels for p in space.parameters]))
    return Problem(f"{family} {seed}", "generated", space, objective, optimum)


Ids = NDArray[np.int64]
Values = NDArray[np.float64]


def additive(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """Every parameter counts for itself: a sum of curves with one valley each."""
    total = np.full(len(ids), 10.0)
    for i, parameter in enumerate(space.parameters):
        away = np.arange(parameter.n_levels) - best[i]
        slopes = rng.uniform(0.3, 1.0, size=2)
        curve = np.where(away < 0, slopes[0], slopes[1]) * np.abs(away) ** rng.uniform(1.0, 2.0)
        total += rng.gamma(1.0) * (curve / curve.max())[ids[:, i]]
    return total, best


def interacting(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """A valley that runs askew to the axes: a quadratic form with strong products of pairs."""
    n = len(space.parameters)
    away = _positions(space, ids) - _positions(space, best[None, :])
    skew = rng.normal(size=(n, n)) * np.sqrt(rng.gamma(0.7, size=(n, 1)))
    form = skew.T @ skew / n + 0.02 * np.eye(n)  # positive definite: the optimum is the only one
    return 1.0 + np.einsum("ri,ij,rj->r", away, form, away), best


def categorical(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """Levels without an order: main effects and effects of pairs, all drawn, none below 0."""
    total = np.full(len(ids), 5.0)
    n = len(space.parameters)
    for i in range(n):
        effect = rng.gamma(0.8) * rng.exponential(size=space.parameters[i].n_levels)
        effect[best[i]] = 0.0
        total += effect[ids[:, i]]
    for i in range(n):
        for j in range(i):
            shape = (space.parameters[i].n_levels, space.parameters[j].n_levels)
            effect = rng.gamma(0.3) * rng.exponential(size=shape)
            effect[best[i], best[j]] = 0.0
            total += effect[ids[:, i], ids[:, j]]
    return total, best


def rugged(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """An NK landscape with K = 2: each parameter's part depends on the next two, by a drawn table.

    The neighbours are adjacent and do not wrap, so the optimum follows by eliminating one
    parameter after the other.

    Reference: Kauffman & Weinberger 1989, The NK model of rugged fitness landscapes; Wright,
    Thompson & Zhang 2000 for the elimination.
    """
    del best  # it is where the tables put it
    n_levels = [parameter.n_levels for parameter in space.parameters]
    n = len(n_levels)
    tables = [rng.uniform(size=n_levels[i : i + 3]) for i in range(n - 2)]
    total = np.ones(len(ids))
    for i, table in enumerate(tables):
        total += table[ids[:, i], ids[:, i + 1], ids[:, i + 2]]
    return total, np.array(_eliminate(tables))


def plateau(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """Terraces without noise: most steps change nothing, and the last ones a little."""
    smooth, best = interacting(space, ids, best, rng)
    ranks = np.argsort(np.argsort(smooth)) / (len(smooth) - 1)
    return 1.0 + np.floor(14 * np.sqrt(ranks)), best


def gaps(
    space: ParameterSpace, ids: Ids, best: Ids, rng: np.random.Generator
) -> tuple[Values, Ids]:
    """A skew valley, part of which fails: two demands that add up, and a level that needs another.

    The optimum lies at the border of what works, as it does where more is better until it no
    longer fits.
    """
    objective, best = interacting(space, ids, best, rng)
    wide = np.argsort([-parameter.n_levels for parameter in space.parameters])[:4]
    a, b, c, d = (int(i) for i in wide)
    fails = ids[:, a] + ids[:, b] > best[a] + best[b]
    fails |= (ids[:, c] == (best[c] + 1) % space.parameters[c].n_levels) & (ids[:, d] % 2 == 1)
    return np.where(fails, np.nan, objective), best


def one_hot(seed: int, n_columns: int = 0) -> Problem:
    """Draw a sample of a configurable program's builds, one column of 0 and 1 per feature.

    Two columns in five belong to sets of 2 to 5 alternatives, of which a row has one; the others
    are options, of which a few need another. The logarithm of the objective is a sum of effects of
    features and of pairs of them, most of them small, and for two seeds in three of noise.

    Args:
        seed: of the draw; the same one gives the same space.
        n_columns: 20 to 60, drawn, if it is 0.

    Reference: Siegmund, Grebhahn, Apel & Kaestner 2015, Performance-influence models for highly
    configurable systems, equation 1.
    """
    rng = np.random.default_rng([20_261_128, seed, n_columns])
    d = n_columns or int(rng.integers(20, 60, endpoint=True))
    ids = _builds(rng, d, int(rng.integers(1_500, 4_500)))
    columns = ids.astype(np.float64)
    weights = rng.gamma(0.3, size=d)
    law = columns @ (weights * rng.choice([-1.0, 1.0], size=d))
    for _ in range(d):
        i, j = rng.choice(d, 2, replace=False, p=(weights + 0.05) / (weights + 0.05).sum())
        law += rng.normal() * np.sqrt(weights[i] * weights[j]) * columns[:, i] * columns[:, j]
    law = (law - law.mean()) / law.std()
    noise = (0.0, 0.05, 0.2)[seed % 3]
    law += noise * rng.normal(size=len(law))
    space = ParameterSpace(
        tuple(Parameter(f"f{i}", (0, 1)) for i in range(d)),
        rows=tuple(tuple(row) for row in ids.tolist()),
    )
    objective = 100.0 * np.exp(0.4 * law)
    return Problem(f"one_hot {seed}, {d} columns", "generated", space, objective, noise=noise)


def _builds(rng: np.random.Generator, d: int, n: int) -> Ids:
    """Return at most n distinct rows of d columns of 0 and 1, ascending."""
    sets, at = [], 0
    while at < 0.4 * d:
        width = min(int(rng.integers(2, 5, endpoint=True)), d - at)
        sets.append((at, width))
        at += width
    needs = [rng.choice(np.arange(at, d), 2, replace=False) for _ in range(3)]
    ids = (rng.random((n, d)) < rng.uniform(0.3, 0.7, size=d)).astype(np.int64)
    for first, width in sets:
        ids[:, first : first + width] = np.eye(width, dtype=np.int64)[rng.integers(width, size=n)]
    for option, needed in needs:
        ids[:, option] &= ids[:, needed]
    return np.asarray(np.unique(ids, axis=0))


FAMILIES: dict[
    str,
    Callable[[ParameterSpace, Ids, Ids, np.random.Generator], tuple[Values, Ids]],
] = {
    "additive": additive,
    "interacting": interacting,
    "categorical": categorical,
    "rugged": rugged,
    "plateau": plateau,
    "gaps": gaps,
}

_SHAPES = {  # levels of a parameter from, to; share of the parameters without an order
    "additive": (2, 8, 0.2),
    "interacting": (3, 8, 0.0),
    "categorical": (2, 6, 0.9),
    "rugged": (2, 5, 0.5),
    "plateau": (2, 8, 0.2),
    "gaps": (2, 9, 0.2),
}


def _draw_space(
    rng: np.random.Generator, least: int, most: int, unordered: float
) -> ParameterSpace:
    while True:
        n_levels = rng.integers(least, most, size=rng.integers(6, 9), endpoint=True)
        if LEAST_SIZE <= np.prod(n_levels) <= MOST_SIZE:
            break
    parameters = []
    for i, n in enumerate(n_levels):
        if rng.random() < unordered:
            levels: tuple[str | int, ...] = tuple(f"v{level}" for level in range(n))
        else:
            doubling = rng.random() < 0.5  # sizes double, counts go up by one
            levels = tuple(2**level if doubling else level + 1 for level in range(n))
        parameters.append(Parameter(f"p{i}", levels))
    return ParameterSpace(tuple(parameters))


def level_ids(space: ParameterSpace) -> Ids:
    """Return the level ids of every combination, int64 [size, d], the last moving fastest."""
    shape = tuple(parameter.n_levels for parameter in space.parameters)
    return np.stack(np.unravel_index(np.arange(space.size), shape), axis=1).astype(np.int64)


def _positions(space: ParameterSpace, ids: Ids) -> Values:
    n_levels = np.array([parameter.n_levels for parameter in space.parameters])
    return np.asarray(ids / (n_levels - 1), dtype=np.float64)


def _eliminate(tables: list[Values]) -> list[int]:
    """Return the levels with the least sum of tables over three adjacent parameters each."""
    cost = np.zeros(tables[0].shape[:2])
    choices = []
    for table in tables:
        total = cost[:, :, None] + table
        choices.append(total.argmin(axis=0))
        cost = total.min(axis=0)
    last = [int(i) for i in np.unravel_index(cost.argmin(), cost.shape)]
    for choice in reversed(choices):
        last.insert(0, int(choice[last[0], last[1]]))
    return last
