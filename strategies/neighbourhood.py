"""Configurations in increasing Euclidean distance from one of them, lazily.

Squared distances are sums of per-parameter terms, so the order comes from a heap over
per-parameter distance classes (enumeration of the smallest sums, after Lawler 1972), each
combination having one parent only. Distances are whole numbers over a common denominator:
ties are exact, and are broken uniformly at random. Nothing is materialised but the frontier,
so 10^12 points are no more work than 100.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from strategies.parameter import Parameter
from strategies.randomness import permuted

DistanceClasses: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Per parameter: (squared distance in units of 1 / scale, level ids), distances ascending."""


def squared_scale(parameters: Sequence[Parameter]) -> int:
    """Return the common denominator of all squared per-parameter distances."""
    steps = (p.n_levels - 1 for p in parameters if p.kind == "ordinal" and p.n_levels > 1)
    return math.lcm(*(n * n for n in steps))


def squared_distance(
    parameters: Sequence[Parameter], first: Sequence[int], second: Sequence[int]
) -> int:
    """Return the squared distance of two configurations in units of 1 / `squared_scale`."""
    scale = squared_scale(parameters)
    return sum(
        _term(parameter, scale, a, b)
        for parameter, a, b in zip(parameters, first, second, strict=True)
    )


def by_distance(
    parameters: Sequence[Parameter],
    open_ids: Sequence[Sequence[int]],
    centre: Sequence[int],
    rng: np.random.Generator,
) -> Iterator[tuple[int, ...]]:
    """Yield every combination of open levels but the centre, nearest first.

    Args:
        parameters: the parameters; closed levels still count as steps between open ones.
        open_ids: open level ids per parameter.
        centre: level ids of the configuration in the middle; they may be closed.
        rng: breaks ties, uniformly.
    """
    scale = squared_scale(parameters)
    classes = [
        _distance_classes(parameter, ids, level_id, scale)
        for parameter, ids, level_id in zip(parameters, open_ids, centre, strict=True)
    ]
    own = tuple(centre)
    for group in _groups(classes):
        for level_ids in _shuffled(classes, group, rng):
            if level_ids != own:
                yield level_ids


def _term(parameter: Parameter, scale: int, a: int, b: int) -> int:
    if a == b:
        return 0
    if parameter.kind == "nominal":
        return scale
    steps = parameter.ranks[a] - parameter.ranks[b]
    return steps * steps * (scale // (parameter.n_levels - 1) ** 2)


def _distance_classes(
    parameter: Parameter, open_ids: Sequence[int], centre_id: int, scale: int
) -> DistanceClasses:
    by_term: dict[int, list[int]] = {}
    for level_id in open_ids:
        by_term.setdefault(_term(parameter, scale, centre_id, level_id), []).append(level_id)
    return tuple((term, tuple(by_term[term])) for term in sorted(by_term))


def _groups(classes: Sequence[DistanceClasses]) -> Iterator[list[tuple[int, ...]]]:
    """Yield lists of class vectors of equal total distance, nearest first."""
    start = (0,) * len(classes)
    heap = [(sum(c[0][0] for c in classes), start)]
    while heap:
        distance = heap[0][0]
        group = []
        while heap and heap[0][0] == distance:
            _, vector = heapq.heappop(heap)
            group.append(vector)
            for child, extra in _children(classes, vector):
                heapq.heappush(heap, (distance + extra, child))
        yield group


def _children(
    classes: Sequence[DistanceClasses], vector: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield (vector, added distance) one class further in one parameter.

    Only parameters from the last moved one on are advanced, which gives every vector exactly
    one parent: itself with its last non-zero entry lowered.
    """
    last = max((i for i, entry in enumerate(vector) if entry), default=0)
    for i in range(last, len(vector)):
        entry = vector[i] + 1
        if entry < len(classes[i]):
            extra = classes[i][entry][0] - classes[i][entry - 1][0]
            yield (*vector[:i], entry, *vector[i + 1 :]), extra


def _shuffled(
    classes: Sequence[DistanceClasses],
    group: Sequence[tuple[int, ...]],
    rng: np.random.Generator,
) -> Iterator[tuple[int, ...]]:
    """Yield all combinations of a group's class vectors in uniformly random order."""
    choices = [[c[entry][1] for c, entry in zip(classes, v, strict=True)] for v in group]
    ends = list(itertools.accumulate(math.prod(map(len, levels)) for levels in choices))
    for number in permuted(rng, ends[-1]):
        which = bisect.bisect_right(ends, number)
        rest = number
        level_ids = []
        for ids in choices[which]:
            rest, entry = divmod(rest, len(ids))
            level_ids.append(ids[entry])
        yield tuple(level_ids)
