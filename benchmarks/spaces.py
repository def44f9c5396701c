"""What searches are measured on: spaces of which every run is known.

Measured tables are real programs; tables of simulated schedules are real logs; generated spaces
are of a known family with a known optimum, so that what a method is good at can be seen. Every
one is the full product of levels, and a combination without a value is a failed run.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from assistant import AssistantError
from strategies import MeasuredTable, Parameter, ParameterSpace
from strategies.data.alternatives import merge_alternatives

Kind = Literal["measured", "simulated", "generated", "drawn", "fresh"]

LEAST_SIZE, MOST_SIZE = 1_000, 10_000
MOST_LISTED = 10**8
"""Most combinations of a table's levels; a value of each is in memory."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A space and the objective of all its combinations.

    Args:
        name: of the table, or family and seed.
        kind: measured, simulated, generated, drawn to fit a forecast, or fresh to judge it; figures
            of different kinds are never mixed.
        space: the full product of levels.
        objective: float64 [space.size], minimised, in the order of `ParameterSpace.index`; NaN is
            a run that fails.
        optimum: index of a best combination, where it is known by construction; else None.
        duration_s: float64 [space.size], how long each run took; None where that is not recorded.

    Not slotted: the sorted values are cached.
    """

    name: str
    kind: Kind
    space: ParameterSpace
    objective: NDArray[np.float64]
    optimum: int | None = None
    duration_s: NDArray[np.float64] | None = None

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
    if table.space.size > MOST_LISTED:
        raise AssistantError(
            f"{name} has {table.space.size:,} combinations; at most {MOST_LISTED:,} are searched."
        )
    objective = np.full(table.space.size, np.nan)
    seconds = np.full(table.space.size, np.nan)
    for configuration, measurement in table.measurements.items():
        index = table.space.index(configuration)
        objective[index] = measurement.objective
        seconds[index] = np.nan if measurement.duration_s is None else measurement.duration_s
    recorded = None if np.isnan(seconds).all() else seconds
    return Problem(name, kind, table.space, objective, duration_s=recorded)


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
