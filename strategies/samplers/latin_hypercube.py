"""Latin hypercube sampling on a grid: balanced levels, spread out or uncorrelated.

McKay, Beckman and Conover's sample takes one value from each of n equal strata of every variable
and pairs them at random. Here the strata are levels: every column holds every level equally often.
With fewer points than levels, an ordinal column takes one level from each of n equal strata of its
ranks, a nominal one n different levels. A batch continues the runs before it: it takes the levels
that have been used least.

The best of `DESIGNS` random pairings is taken, by the least distance between two runs (Morris &
Mitchell 1995) or by the greatest correlation between two parameters (Iman & Conover 1982), existing
runs included. Each criterion settles ties of the other.

References: McKay, Beckman & Conover 1979, A comparison of three methods for selecting values of
input variables in the analysis of output from a computer code; Morris & Mitchell 1995, Exploratory
designs for computational experiments; Iman & Conover 1982, A distribution-free approach to
inducing rank correlation among input variables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from strategies.doe.main_effects import Knowledge
from strategies.samplers.strategy import Batch, StrategyEntry, StrategyOption, Suggestion
from strategies.space.errors import OptionError
from strategies.space.parameter import Parameter
from strategies.space.parameter_space import Configuration, ParameterSpace

Row: TypeAlias = tuple[int, ...]

SWAPS = 64  # Exchanges tried for a point that is excluded, taken or a duplicate

DRAWS = 32  # Draws per point that no exchange could place; the best balanced one is taken


def balanced_design(
    space: ParameterSpace,
    n: int,
    rng: np.random.Generator,
    unavailable: Container[Configuration] = frozenset(),
    so_far: Iterable[Configuration] = (),
) -> tuple[Configuration, ...]:
    """Return up to n free configurations in which levels occur equally often if possible.

    Levels occur equally often (at most one apart) together with those of ``so_far``, as far as
    that is possible. Points that are excluded or taken exchange one level with another point,
    which keeps the balance; where that fails they are drawn again, which may cost some of it.
    Fewer than n are returned only if no allowed configuration is left.
    Raises `OptionError` if n is no whole number from 0 on; `SpaceError` as `ParameterSpace.sample`.
    """
    if type(n) is not int or n < 0:
        raise OptionError(f"a design has n={n!r} points; n must be a whole number from 0 on.")
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
        ids = zip(space.parameters, configuration.level_ids, strict=True)
        inactive = space.inactive(configuration)
        for counter, (parameter, level_id) in zip(counts, ids, strict=True):
            counter[level_id] += parameter.name not in inactive
    return counts


def balanced_column(
    parameter: Parameter,
    by_rank: Sequence[int],
    used: Counter[int],
    n: int,
    rng: np.random.Generator,
) -> list[int]:
    """Return n level ids of one parameter, choosing least used levels, in random order.

    The least used levels come first. A last round that is too short for all of them takes one from
    each of as many equal strata of the ranks, or any, if the parameter is nominal.
    """
    column: list[int] = []
    rounds = {level_id: used[level_id] for level_id in by_rank}
    while len(column) < n:
        fewest = min(rounds.values())
        least = [level_id for level_id in by_rank if rounds[level_id] == fewest]
        n_missing = n - len(column)
        if n_missing < len(least):
            least = _spread(least, n_missing, rng, strata=parameter.kind == "ordinal")
        column += least
        for level_id in least:
            rounds[level_id] += 1
    return [column[i] for i in rng.permutation(n)]


def _spread(
    ordered: Sequence[int], n_levels: int, rng: np.random.Generator, *, strata: bool
) -> list[int]:
    """Return ``n_levels`` different levels: one per stratum, or a simple random sample."""
    if not strata:
        return [ordered[i] for i in rng.choice(len(ordered), n_levels, replace=False)]
    # one shift for all strata: two draws would collide where a stratum ends within a level
    places = (np.arange(n_levels) + rng.random()) / n_levels * len(ordered)
    return [ordered[min(int(place), len(ordered) - 1)] for place in places]


class _Points:
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
        """Return the points of the design in random order."""
        order = self._rng.permutation(len(self._rows))
        return tuple(Configuration(self._rows[i], self._space.lineage) for i in order)

    def add(self, row: Row) -> bool:
        """Add a point to the design if it is free, and return whether it was."""
        row = self._space.canonical(row).level_ids
        if not self._is_free(row):
            return False
        self._rows.append(row)
        self._count(row, 1)
        return True

    def add_by_exchange(self, row: Row) -> bool:
        """Add a point after exchanging one of its levels with an existing point."""
        for _ in range(SWAPS if self._rows else 0):
            place = int(self._rng.integers(len(self._rows)))
            column = int(self._rng.integers(len(row)))
            other = self._rows[place]
            mine, theirs = (
                self._space.canonical(_exchange_level(a, b, column)).level_ids
                for a, b in ((row, other), (other, row))
            )
            if mine != theirs and self._is_free(mine) and self._is_free(theirs):
                self._count(other, -1)
                self._rows[place] = theirs
                self._count(theirs, 1)
                return self.add(mine)
        return False

    def add_drawn(self) -> bool:
        """Add the best balanced of several random free points, and return success."""
        candidates = [
            self._space.canonical(
                tuple(ids[int(self._rng.integers(len(ids)))] for ids in self._space.open_ids)
            ).level_ids
            for _ in range(DRAWS)
        ]
        free = [row for row in candidates if self._is_free(row)]
        if free:
            return self.add(min(free, key=self._use))
        n = DRAWS if self._space.rows else 1
        sampled = (self._space.sample(self._rng, self) for _ in range(n))
        rows = [configuration.level_ids for configuration in sampled if configuration is not None]
        return bool(rows) and self.add(min(rows, key=self._use))

    def _is_free(self, row: Row) -> bool:
        configuration = Configuration(row, self._space.lineage)
        return configuration not in self and self._space.is_allowed(configuration)

    def _use(self, row: Row) -> int:
        return sum(used[level_id] for used, level_id in zip(self._counts, row, strict=True))

    def _count(self, row: Row, change: Literal[1, -1]) -> None:
        conditions = self._space.conditions
        inactive = conditions.inactive(row) if conditions else ()
        for position, (used, level_id) in enumerate(zip(self._counts, row, strict=True)):
            if position not in inactive:
                used[level_id] += change
        (self._seen.add if change == 1 else self._seen.discard)(row)


def _exchange_level(row: Row, other: Row, column: int) -> Row:
    return (*row[:column], other[column], *row[column + 1 :])


Criterion: TypeAlias = Literal["maximin", "correlation"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)

DESIGNS = 20  # Balanced designs of which the best is taken

COMPARED = 200
"""Largest batch for which designs are compared; beyond it random pairing is even enough."""

ROOM = 0.1  # Least share of free combinations for a comparison; below it there is little choice


@dataclass(frozen=True, slots=True)
class LatinHypercube:
    """Strategy that proposes configurations by Latin hypercube sampling of the grid.

    Args:
        criterion: criterion of the best design: ``maximin`` or ``correlation``.
    Raises `OptionError` for another criterion.
    """

    criterion: Criterion = "maximin"

    def __post_init__(self) -> None:
        if self.criterion not in CRITERIA:
            raise OptionError(
                f"latin_hypercube has criterion={self.criterion!r}; allowed are "
                f"{', '.join(CRITERIA)}."
            )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "latin_hypercube"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations whose levels balance those of the runs so far."""
        batch = Batch(self.name, n, knowledge, rng)
        space, taken = knowledge.space, knowledge.taken
        compared = n <= COMPARED and _free_share(knowledge) >= ROOM
        merit = _Merit(space, self.criterion, sorted(taken))
        designs = [
            balanced_design(space, n, rng, taken, taken) for _ in range(DESIGNS if compared else 1)
        ]
        best = max(designs, key=merit.of) if compared else designs[0]
        selection_text = ""
        if compared:
            most = "farthest apart" if self.criterion == "maximin" else "least correlated"
            selection_text = f", the {most} of {DESIGNS} pairings"
        for number, configuration in enumerate(best, start=1):
            reason = (
                f"Point {number} of {len(best)} of a Latin hypercube that evens out how often "
                f"each level is run{selection_text}."
            )
            batch.add(configuration, "design", reason)
        return batch.suggestions


def _free_share(knowledge: Knowledge) -> float:
    space = knowledge.space
    n_allowed = space.count_allowed()
    n_at_most = space.open_size if n_allowed is None else n_allowed
    return (n_at_most - len(knowledge.taken)) / space.open_size if n_at_most else 0.0


class _Merit:
    def __init__(
        self, space: ParameterSpace, criterion: Criterion, run: Sequence[Configuration]
    ) -> None:
        self._space = space
        self._criterion = criterion
        self._coordinates = space.coordinates(run)
        self._ranks = _ranks(space, run)

    def of(self, design: Sequence[Configuration]) -> tuple[float, float]:
        """Return a design's score by the chosen criterion, with the other one to break ties."""
        distance = least_distance(self._space.coordinates(design), self._coordinates)
        ranks = np.concatenate([_ranks(self._space, design), self._ranks])
        apart = -greatest_correlation(ranks)
        return (distance, apart) if self._criterion == "maximin" else (apart, distance)


def least_distance(points: NDArray[np.float64], reference_points: NDArray[np.float64]) -> float:
    """Return the least Euclidean distance from a point to any other or to a reference point.

    Points are float64 [n, d], reference points [m, d]. Infinity if there is nothing to compare.
    """
    everything = np.concatenate([points, reference_points])
    if len(everything) < 2 or not len(points):
        return float("inf")
    neighbours = cKDTree(everything).query(points, k=2)
    distances: NDArray[np.float64] = np.asarray(neighbours[0], dtype=np.float64)
    # rounded, because equal distances differ by the order of summation
    return float(np.round(distances[:, 1].min(), 12))


def greatest_correlation(ranks: NDArray[np.float64]) -> float:
    """Return the greatest absolute correlation of two columns of ``ranks`` [n, d]; 0 if none."""
    varying = ranks[:, np.ptp(ranks, axis=0) > 0] if len(ranks) else ranks
    if not len(ranks) or varying.shape[1] < 2:
        return 0.0
    correlations: NDArray[np.float64] = np.asarray(np.corrcoef(varying, rowvar=False))
    np.fill_diagonal(correlations, 0.0)
    return float(np.round(np.abs(correlations).max(), 12))


def _ranks(space: ParameterSpace, configurations: Sequence[Configuration]) -> NDArray[np.float64]:
    """Return ranks of the ordinal parameters, float64 [n, ordinal parameters]."""
    ordinal = [i for i, p in enumerate(space.parameters) if p.kind == "ordinal"]
    rows = [[space.parameters[i].ranks[c.level_ids[i]] for i in ordinal] for c in configurations]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(ordinal))


LATIN_HYPERCUBE = StrategyEntry(
    "latin_hypercube",
    "Every level about equally often, counting earlier runs; ignores results.",
    LatinHypercube,
    (
        StrategyOption(
            "criterion", str, "maximin",
            summary="points far apart, or parameters least correlated",
            choices=CRITERIA,
        ),
    ),
    starts=True,
)  # fmt: skip
