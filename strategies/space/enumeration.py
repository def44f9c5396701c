"""Enumeration of allowed configurations: counting, drawing, and walking by distance.

Walks by distance use a heap over per-parameter distance classes (enumeration of the smallest sums
of squared distances, after Lawler 1972), each combination having one parent only. Distances are
whole numbers over a common denominator: ties are exact, and are broken uniformly at random. Only
the frontier is in memory, so 10^12 points are no more work than 100.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.space.exclusion import Exclusion
from strategies.space.parameter import Parameter

_INT64_END = 2**63


def below(rng: np.random.Generator, n: int) -> int:
    """Draw a uniform random integer from 0 to n - 1, where n may exceed 64 bits."""
    if n < _INT64_END:
        return int(rng.integers(n))
    n_bits = n.bit_length()
    while True:
        draw = int.from_bytes(rng.bytes((n_bits + 7) // 8)) >> (-n_bits % 8)
        if draw < n:
            return draw


def permuted(rng: np.random.Generator, n: int) -> Iterator[int]:
    """Yield the integers 0 to n - 1 in uniformly random order, using little memory.

    Fisher-Yates on a sparse array (Knuth, The Art of Computer Programming, vol. 2, 3.4.2 P).
    """
    moved: dict[int, int] = {}
    for i in range(n):
        j = i + below(rng, n - i)
        here = moved.pop(i, i)
        if j == i:
            yield here
        else:
            yield moved.get(j, j)
            moved[j] = here


EXACT_BOUND = 200_000
"""Most combinations that are enumerated; beyond it answers are lazy or unknown."""


@dataclass(frozen=True, slots=True)
class AllowedCombinations:
    """Level combinations of a subset of parameters that occur in allowed configurations."""

    # allowed combinations of those parameters that exclusions name
    parts: frozenset[tuple[int, ...]]
    bound: tuple[bool, ...]  # whether exclusions name each parameter; the others combine freely
    open_ids: tuple[frozenset[int], ...]  # open level ids of each parameter

    def __len__(self) -> int:
        free = (len(ids) for ids, is_bound in zip(self.open_ids, self.bound, strict=True)
                if not is_bound)  # fmt: skip
        return len(self.parts) * math.prod(free)

    def __contains__(self, level_ids: Sequence[int]) -> bool:
        """Return whether a combination, one level id per parameter, is among them."""
        part = tuple(i for i, is_bound in zip(level_ids, self.bound, strict=True) if is_bound)
        levels = zip(level_ids, self.open_ids, strict=True)
        return part in self.parts and all(i in ids for i, ids in levels)


class AllowedConfigurations:
    """Enumeration of a space's allowed configurations as tuples of level ids.

    All names in the exclusions are parameters; open level ids are ascending, none empty.
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
        self._judges = tuple(_ExclusionTest(self.parameters, exclusion) for exclusion in exclusions)
        self._named = tuple(sorted({i for judge in self._judges for i in judge.positions}))

    def closed_at(self, level_ids: Sequence[int]) -> int | None:
        """Return the position of the first closed level, or None if all levels are open."""
        for position, (level_id, ids) in enumerate(zip(level_ids, self._open_sets, strict=True)):
            if level_id not in ids:
                return position
        return None

    def excluded_by(self, level_ids: Sequence[int]) -> Exclusion | None:
        """Return the first exclusion that forbids these levels, or None."""
        for judge in self._judges:
            if judge.excludes(level_ids):
                return judge.exclusion
        return None

    def admits(self, level_ids: Sequence[int]) -> bool:
        """Return whether all given levels are open and not excluded in combination."""
        return self.closed_at(level_ids) is None and self.excluded_by(level_ids) is None

    def count(self) -> int | None:
        """Count the allowed configurations exactly, or return None if that is too costly.

        Exact while the parameters named by exclusions have at most `EXACT_BOUND` combinations
        of open levels; None beyond.
        """
        if self._admitted_parts is None:
            return None
        free = (len(ids) for i, ids in enumerate(self.open_ids) if i not in self._named)
        return len(self._admitted_parts) * math.prod(free)

    def parts(self, positions: Sequence[int]) -> frozenset[tuple[int, ...]] | None:
        """Return the allowed level combinations of the given parameters that exclusions name.

        In the order of ``positions``; the other parameters combine freely with them. None where
        the count is unknown.
        """
        if self._admitted_parts is None:
            return None
        places = [self._named.index(position) for position in positions if position in self._named]
        return frozenset(tuple(part[place] for place in places) for part in self._admitted_parts)

    def all(self) -> Iterator[tuple[int, ...]]:
        """Yield the level ids of all allowed configurations, with the last varying fastest.

        A prefix without allowed combinations is skipped at once, because 10^10 combinations could
        precede the first allowed one. That is exact while `count` is; beyond, a prefix is skipped
        once an exclusion has all the levels that it names.
        """
        if self._admitted_parts == ():
            return
        end = self._named[-1] + 1 if self._named else 0
        for head in self._heads((), end):
            for tail in itertools.product(*self.open_ids[end:]):
                yield head + tail

    def _heads(self, head: tuple[int, ...], end: int) -> Iterator[tuple[int, ...]]:
        """Yield the first ``end`` levels of the allowed combinations that begin with ``head``."""
        if len(head) == end:
            yield head
            return
        for level_id in self.open_ids[len(head)]:
            longer = (*head, level_id)
            if self._may_begin(longer):
                yield from self._heads(longer, end)

    def _may_begin(self, head: tuple[int, ...]) -> bool:
        position = len(head) - 1
        if self._beginnings is None:
            ready = (j for j in self._judges if max(j.positions, default=0) == position)
            return not any(judge.excludes(head) for judge in ready)
        if position not in self._named:
            return True
        return tuple([head[i] for i in self._named if i <= position]) in self._beginnings

    def grid(self) -> NDArray[np.int64]:
        """Return the level ids [m, d] of all allowed configurations, for small spaces.

        The parameters that exclusions name move slowest.
        """
        parts = np.array(self._admitted_parts or ((),), dtype=np.int64)
        parts = parts.reshape(-1 if self._named else 1, len(self._named))
        free = [i for i in range(len(self.parameters)) if i not in self._named]
        combinations = list(itertools.product(*(self.open_ids[i] for i in free)))
        rest = np.array(combinations, dtype=np.int64).reshape(len(combinations), len(free))
        level_ids = np.empty((len(parts) * len(rest), len(self.parameters)), dtype=np.int64)
        level_ids[:, list(self._named)] = np.repeat(parts, len(rest), axis=0)
        level_ids[:, free] = np.tile(rest, (len(parts), 1))
        return level_ids

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw an open level uniformly for each parameter, ignoring exclusions."""
        return tuple(ids[below(rng, len(ids))] for ids in self.open_ids)

    def draw_allowed(self, rng: np.random.Generator) -> tuple[int, ...] | None:
        """Draw an allowed configuration uniformly; None if none exists or they are not counted."""
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

    @cached_property
    def _beginnings(self) -> frozenset[tuple[int, ...]] | None:
        """Prefixes of the admitted parts; None beyond the bound."""
        if self._admitted_parts is None:
            return None
        n = len(self._named)
        return frozenset(part[:i] for part in self._admitted_parts for i in range(1, n + 1))


class _ExclusionTest:
    """One exclusion, with its results cached per combination of the levels it names."""

    def __init__(self, parameters: Sequence[Parameter], exclusion: Exclusion) -> None:
        self.exclusion = exclusion
        names = exclusion.names
        self.positions = tuple(i for i, p in enumerate(parameters) if p.name in names)
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


DistanceClasses: TypeAlias = tuple[tuple[int, tuple[int, ...]], ...]
"""Per parameter: (squared distance in units of 1 / scale, level ids), distances ascending."""


def squared_scale(parameters: Sequence[Parameter]) -> int:
    """Return the common denominator of the squared distances along all parameters."""
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
    """Yield every combination of open levels except the centre, nearest to the centre first.

    Closed levels still count as steps between open ones, and the centre may have some. Ties come
    in random order.
    """
    scale = squared_scale(parameters)
    classes = [
        _distance_classes(parameter, ids, level_id, scale)
        for parameter, ids, level_id in zip(parameters, open_ids, centre, strict=True)
    ]
    centre_ids = tuple(centre)
    for group in _groups(classes):
        for level_ids in _shuffled(classes, group, rng):
            if level_ids != centre_ids:
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
