"""Distances in level steps: how far configurations are as people count.

One rank apart in an ordinal parameter is one step, another level of a nominal one is one step,
and steps of several parameters add as in Euclid: one step in two parameters is sqrt(2). Unlike the
coordinates in [0, 1], a step is the same for a parameter of 3 levels and for one of 80.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from strategies.configuration import Configuration
from strategies.parameter import Parameter
from strategies.space import ParameterSpace

Cell = tuple[int, ...]
ROUNDING = 1e-9
"""Relative room for a radius such as sqrt(2)."""


def squared_steps(parameters: Sequence[Parameter], first: Cell, second: Cell) -> int:
    """Return the squared distance in level steps."""
    return sum(_term(p, a, b) for p, a, b in zip(parameters, first, second, strict=True))


def squared_radius(eps: float) -> int:
    """Return the greatest squared distance within a radius of ``eps`` steps."""
    return int(eps * eps * (1 + ROUNDING))


def step_coordinates(
    space: ParameterSpace, configurations: Sequence[Configuration]
) -> NDArray[np.float64]:
    """Return coordinates [n, d] whose Euclidean distances are those in level steps.

    Ranks for ordinal parameters; one-hot over sqrt(2) for nominal ones, over the levels that occur.
    """
    ids = np.array([c.level_ids for c in configurations], dtype=np.int64)
    ids = ids.reshape(len(configurations), len(space.parameters))
    columns = []
    for parameter, own in zip(space.parameters, ids.T, strict=True):
        if parameter.kind == "nominal":
            levels, inverse = np.unique(own, return_inverse=True)
            columns.append(np.eye(levels.size)[inverse] / math.sqrt(2))
        else:
            columns.append(np.array(parameter.ranks, dtype=np.float64)[own].reshape(-1, 1))
    return np.concatenate(columns, axis=1)


def by_steps(
    parameters: Sequence[Parameter],
    allowed_ids: Sequence[Sequence[int]],
    centre: Cell,
    radius: int | None = None,
) -> Iterator[tuple[int, Cell]]:
    """Yield (squared steps, level ids) of combinations of levels, nearest first, lazily.

    Equally near ones come in a fixed order. The centre comes too, if it is one.

    Args:
        parameters: the parameters.
        allowed_ids: level ids per parameter to combine.
        centre: level ids of the middle.
        radius: greatest squared distance, None for no end.
    """
    choices = [
        sorted((_term(p, own, level_id), level_id) for level_id in ids)
        for p, ids, own in zip(parameters, allowed_ids, centre, strict=True)
    ]
    if not all(choices):
        return
    start = (0,) * len(choices)
    heap = [(sum(c[0][0] for c in choices), start)]
    while heap and (radius is None or heap[0][0] <= radius):
        distance, vector = heapq.heappop(heap)
        yield distance, tuple(c[i][1] for c, i in zip(choices, vector, strict=True))
        # every vector has one parent: itself with its last non-zero entry lowered
        last = max((i for i, entry in enumerate(vector) if entry), default=0)
        for i in range(last, len(vector)):
            entry = vector[i] + 1
            if entry < len(choices[i]):
                extra = choices[i][entry][0] - choices[i][entry - 1][0]
                child = (*vector[:i], entry, *vector[i + 1 :])
                heapq.heappush(heap, (distance + extra, child))


def nearest_to_any(
    parameters: Sequence[Parameter],
    allowed_ids: Sequence[Sequence[int]],
    centres: Sequence[Cell],
    radius: int | None = None,
) -> Iterator[tuple[int, Cell, Cell]]:
    """Yield (squared steps, level ids, centre), nearest first, around several centres.

    A combination comes once for every centre, its nearest first; of two equally near, the earlier.
    """
    walks = [
        _numbered(which, by_steps(parameters, allowed_ids, centre, radius))
        for which, centre in enumerate(centres)
    ]
    for distance, which, level_ids in heapq.merge(*walks, key=lambda found: found[:2]):
        yield distance, level_ids, centres[which]


def _numbered(which: int, walk: Iterator[tuple[int, Cell]]) -> Iterator[tuple[int, int, Cell]]:
    for distance, level_ids in walk:
        yield distance, which, level_ids


def _term(parameter: Parameter, a: int, b: int) -> int:
    if a == b:
        return 0
    if parameter.kind == "nominal":
        return 1
    return int(parameter.ranks[a] - parameter.ranks[b]) ** 2
