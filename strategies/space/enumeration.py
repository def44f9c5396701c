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
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.space.errors import ExclusionError
from strategies.space.exclusion import Domain, Exclusion, domain_of
from strategies.space.parameter import Level, Parameter

if TYPE_CHECKING:
    from strategies.space.condition import Conditions

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

WORK_BOUND = 3_000_000
"""Most tests of exclusions for one enumeration, where one test of 50 characters counts 1."""

SEARCH_BOUND = 30_000
"""Most such tests for exclusions whose parameters have more than `EXACT_BOUND` combinations."""

CONDITIONS_BOUND = 300_000
"""Most such tests where parameters have conditions, which leave few of the combinations."""

VERDICTS = 100_000  # Most cached results of the exclusions of one space


@dataclass(frozen=True, slots=True)
class AllowedCombinations:
    """Level combinations of a subset of parameters that occur in allowed configurations.

    Args:
        parts: for each group of parameters that exclusions connect, their places among the
            parameters and their allowed combinations; groups combine freely.
        open_ids: open level ids of each parameter.
    """

    parts: tuple[tuple[tuple[int, ...], frozenset[tuple[int, ...]]], ...]
    open_ids: tuple[frozenset[int], ...]

    def __len__(self) -> int:
        bound = {place for places, _ in self.parts for place in places}
        free = (len(ids) for place, ids in enumerate(self.open_ids) if place not in bound)
        return math.prod(len(part) for _, part in self.parts) * math.prod(free)

    def __contains__(self, level_ids: Sequence[int]) -> bool:
        """Return whether a combination, one level id per parameter, is among them."""
        return all(i in ids for i, ids in zip(level_ids, self.open_ids, strict=True)) and all(
            tuple([level_ids[place] for place in places]) in part for places, part in self.parts
        )


class _TooManyError(Exception):
    """Signal of an enumeration that has passed its bound."""


class AllowedConfigurations:
    """Enumeration of a space's allowed configurations as tuples of level ids.

    All names in the exclusions are parameters; open level ids are ascending, none empty.
    Exclusions that share parameters with two or more open levels form a group; groups combine
    freely, so that their numbers are multiplied and never their lists. A parameter with a condition
    is in a group with those that its condition depends on: it has an open level where it is active,
    and the first level, open or closed, where it is not. Where rows are given, all parameters are
    one group, and only rows are allowed.
    """

    def __init__(
        self,
        parameters: Sequence[Parameter],
        exclusions: Sequence[Exclusion],
        open_ids: tuple[tuple[int, ...], ...],
        conditions: Conditions | None = None,
        rows: Collection[tuple[int, ...]] = (),
    ) -> None:
        self.parameters = tuple(parameters)
        self._conditions = conditions
        self._rows = frozenset(rows)
        self._drawn_ids = open_ids
        self._open_sets = tuple(frozenset(ids) for ids in open_ids)
        counts = [parameter.n_levels for parameter in self.parameters]
        self._is_open = [len(ids) for ids in self._open_sets] == counts
        n_kept = VERDICTS // max(1, len(exclusions))
        self._exclusion_tests = tuple(
            _ExclusionTest(self.parameters, exclusion, n_kept, conditions)
            for exclusion in exclusions
        )
        self._judges: tuple[_Test, ...] = self._exclusion_tests
        self.open_ids = open_ids
        if conditions is not None:
            self._judges += tuple(
                _ActivityTest(i, open_ids[i], conditions) for i in sorted(conditions.positions)
            )
            self.open_ids = tuple(
                tuple(sorted({0, *ids})) if i in conditions.positions else ids
                for i, ids in enumerate(open_ids)
            )
        named = {i for judge in self._judges for i in judge.positions}
        self._named = tuple(range(len(self.parameters)) if rows else sorted(named))

    def closed_at(self, level_ids: Sequence[int]) -> int | None:
        """Return the position of the first closed level, or None if all levels are open."""
        if self._is_open:
            return None
        inactive = self._conditions.inactive(level_ids) if self._conditions else ()
        for position, (level_id, ids) in enumerate(zip(level_ids, self._open_sets, strict=True)):
            if level_id not in ids and position not in inactive:
                return position
        return None

    def excluded_by(self, level_ids: Sequence[int]) -> Exclusion | None:
        """Return the first exclusion that forbids these levels, or None."""
        for judge in self._exclusion_tests:
            if judge.excludes(level_ids):
                return judge.exclusion
        return None

    def is_excluded(self, level_ids: tuple[int, ...]) -> bool:
        """Return whether these levels are in no row, or forbidden by an exclusion."""
        is_in_no_row = bool(self._rows) and level_ids not in self._rows
        return is_in_no_row or self.excluded_by(level_ids) is not None

    def admits(self, level_ids: tuple[int, ...]) -> bool:
        """Return whether all given levels are open and not excluded in combination.

        That of an inactive parameter is the first one.
        """
        if self._conditions and self._conditions.canonical(level_ids) != level_ids:
            return False
        return self.closed_at(level_ids) is None and not self.is_excluded(level_ids)

    def count(self) -> int | None:
        """Count the allowed configurations exactly, or return None if that is too costly.

        Exact while the parameters of every group of exclusions have at most `EXACT_BOUND`
        combinations of open levels, and for larger groups of which that many can be searched; 0 if
        one group alone allows nothing.
        """
        groups = self._groups
        if any(group.rows == 0 for group in groups):
            return 0
        bound = {position for group in groups for position in group.positions}
        free = (len(ids) for i, ids in enumerate(self.open_ids) if i not in bound)
        n_rows = [group.rows for group in groups if group.rows is not None]
        return math.prod(n_rows) * math.prod(free) if len(n_rows) == len(groups) else None

    def parts(
        self, positions: Sequence[int]
    ) -> tuple[tuple[tuple[int, ...], frozenset[tuple[int, ...]]], ...] | None:
        """Return the allowed level combinations of the given parameters, by group of exclusions.

        Of each group the places among ``positions`` and the combinations, of active parameters
        only; parameters of no group combine freely. None where the count is unknown.
        """
        count = self.count()
        if not count:
            return None if count is None else (((), frozenset()),)
        places = {position: place for place, position in enumerate(positions)}
        parts = []
        for group in self._groups:
            columns = [c for c, position in enumerate(group.positions) if position in places]
            if columns:
                at = tuple(places[group.positions[c]] for c in columns)
                rows = zip(*(group.columns[c] for c in columns), strict=True)
                combinations = frozenset(
                    row for row, is_active in zip(rows, self._active(group, columns), strict=True)
                    if is_active
                )  # fmt: skip
                parts.append((at, combinations))
        return tuple(parts)

    def _active(self, group: _ExclusionGroup, columns: Sequence[int]) -> NDArray[np.bool_]:
        """Return the rows of a group in which the parameters of some columns are all active."""
        rows = group.array()
        if self._conditions is None:
            return np.ones(len(rows), dtype=np.bool_)
        ids = np.zeros((len(rows), len(self.parameters)), dtype=np.int64)
        ids[:, list(group.positions)] = rows
        inactive = self._conditions.inactive_in(ids)[:, [group.positions[c] for c in columns]]
        active: NDArray[np.bool_] = ~np.any(inactive, axis=1)
        return active

    def all(self) -> Iterator[tuple[int, ...]]:
        """Yield the level ids of all allowed configurations, with the last varying fastest.

        A prefix without allowed combinations is skipped at once, because 10^10 combinations could
        precede the first allowed one. That is exact while `count` is; beyond, a prefix is skipped
        once an exclusion has all the levels that it names.
        """
        count = self.count()
        if count == 0:
            return
        end = self._named[-1] + 1 if self._named else 0
        heads = self._heads(end) if count is None else self._exact_heads(end)
        for head in heads:
            for tail in self._tails(end):
                yield head + tail

    def _tails(self, end: int) -> Iterator[tuple[int, ...]]:
        """Yield the combinations of the parameters from ``end`` on, which no exclusion names."""
        ids = self.open_ids[end:]
        return _odometer(len(ids), ids.__getitem__, lambda _: True)

    def _heads(self, end: int) -> Iterator[tuple[int, ...]]:
        """Yield the first ``end`` levels of the combinations that no exclusion forbids."""
        ready: dict[int, list[_Test]] = {}
        for judge in self._judges:
            ready.setdefault(max(judge.positions, default=0), []).append(judge)

        def may_begin(head: list[int]) -> bool:
            return not any(judge.excludes(head) for judge in ready.get(len(head) - 1, ()))

        return _odometer(end, self.open_ids.__getitem__, may_begin)

    def _exact_heads(self, end: int) -> Iterator[tuple[int, ...]]:
        """Yield the first ``end`` levels of the allowed combinations, by the rows of the groups."""
        place_of = {
            position: (group, column)
            for group in self._groups
            for column, position in enumerate(group.positions)
        }
        ranges: dict[tuple[int, int], tuple[int, int]] = {}

        def may_begin(head: list[int]) -> bool:
            position = len(head) - 1
            if position not in place_of:
                return True
            group, column = place_of[position]
            number = id(group)
            low, high = (0, group.rows or 0) if column == 0 else ranges[number, column - 1]
            ids = group.columns[column]
            low = bisect.bisect_left(ids, head[-1], low, high)
            high = bisect.bisect_right(ids, head[-1], low, high)
            ranges[number, column] = (low, high)
            return low < high

        return _odometer(end, self.open_ids.__getitem__, may_begin)

    def grid(self) -> NDArray[np.int64]:
        """Return the level ids [m, d] of all allowed configurations, for small spaces.

        The parameters that exclusions name move slowest.
        """
        count = self.count()
        if count is None or count > EXACT_BOUND:
            raise AssertionError("a grid is for a space with a small number of configurations")
        level_ids = np.tile(np.array([ids[0] for ids in self.open_ids], dtype=np.int64), (count, 1))
        if not count:
            return level_ids
        bound = {position for group in self._groups for position in group.positions}
        blocks = [(group.positions, group.array()) for group in self._groups]
        blocks += [
            ((i,), np.array(ids, dtype=np.int64).reshape(-1, 1))
            for i, ids in enumerate(self.open_ids)
            if i not in bound and len(ids) > 1
        ]
        n_left = count
        for positions, block in blocks:
            n_left //= len(block)
            column = np.tile(np.repeat(block, n_left, axis=0), (count // (n_left * len(block)), 1))
            level_ids[:, list(positions)] = column
        varying = [i for i, ids in enumerate(self.open_ids) if len(ids) > 1]
        keys = [i for i in varying if i in self._named] + [
            i for i in varying if i not in self._named
        ]
        if not keys:
            return level_ids
        return level_ids[np.lexsort([level_ids[:, i] for i in reversed(keys)])]

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw an open level uniformly for each parameter, ignoring exclusions.

        Inactive parameters then get their first level, as in `ConfigSpace`.
        """
        level_ids = tuple(ids[below(rng, len(ids))] for ids in self._drawn_ids)
        return self._conditions.canonical(level_ids) if self._conditions else level_ids

    def draw_allowed(self, rng: np.random.Generator) -> tuple[int, ...] | None:
        """Draw an allowed configuration uniformly; None if none exists or they are not counted."""
        if not self.count():
            return None
        level_ids = list(self.draw(rng))
        for group in self._groups:
            row = below(rng, group.rows or 1)
            for position, ids in zip(group.positions, group.columns, strict=True):
                level_ids[position] = ids[row]
        return tuple(level_ids)

    @cached_property
    def _groups(self) -> tuple[_ExclusionGroup, ...]:
        """Groups of exclusions that share no parameter with two or more open levels."""
        if self._rows:
            return (self._row_group(),)
        members: list[tuple[set[int], list[_Test]]] = []
        for judge in self._judges:
            positions = {i for i in judge.positions if len(self.open_ids[i]) > 1}
            judges = [judge]
            apart = []
            for other_positions, other_judges in members:
                if positions.isdisjoint(other_positions):
                    apart.append((other_positions, other_judges))
                else:
                    positions |= other_positions
                    judges += other_judges
            members = [*apart, (positions, judges)]
        order = {id(judge): number for number, judge in enumerate(self._judges)}
        first = [ids[0] for ids in self.open_ids]
        groups, work = [], WORK_BOUND
        for positions, judges in sorted(members, key=lambda member: sorted(member[0])):
            judges.sort(key=lambda judge: order[id(judge)])
            search = _GroupSearch(tuple(sorted(positions)), judges, self.open_ids, first, work)
            groups.append(search.group())
            work -= search.spent
        return tuple(groups)

    def _row_group(self) -> _ExclusionGroup:
        """Return the group of all parameters, whose combinations are the allowed rows."""
        allowed = sorted(filter(self.admits, self._rows))
        positions = tuple(range(len(self.parameters)))
        columns = tuple(array("i", [row[i] for row in allowed]) for i in positions)
        return _ExclusionGroup(positions, columns, len(allowed))


def _odometer(
    n: int, choices: Callable[[int], Sequence[int]], may_begin: Callable[[list[int]], bool]
) -> Iterator[tuple[int, ...]]:
    """Yield the combinations of n choices, the last varying fastest, without refused beginnings.

    Choices are by place, and may depend on those of the places before. Without recursion, since a
    space may have more parameters than Python has frames.
    """
    if n == 0:
        yield ()
        return
    head: list[int] = []
    iterators = [iter(choices(0))]
    while iterators:
        for level_id in iterators[-1]:
            head.append(level_id)
            if not may_begin(head):
                head.pop()
                continue
            if len(head) == n:
                yield tuple(head)
                head.pop()
                continue
            iterators.append(iter(choices(len(head))))
            break
        else:
            iterators.pop()
            if head:
                head.pop()


@dataclass(frozen=True, slots=True)
class _ExclusionGroup:
    """Parameters that exclusions connect, with the columns of their allowed combinations.

    Rows are in lexicographic order. Their number is None if it is unknown; then there are no
    columns.
    """

    positions: tuple[int, ...]
    columns: tuple[array[int], ...]
    rows: int | None

    def array(self) -> NDArray[np.int64]:
        """Return the allowed combinations, int64 [rows, positions]."""
        ids = [np.frombuffer(column, dtype=np.int32) for column in self.columns if len(column)]
        stacked = np.array(ids, dtype=np.int64)
        return stacked.reshape(len(self.positions), self.rows or 0).T


class _GroupSearch:
    """Search for the allowed combinations of one group, within a bound on its work."""

    def __init__(
        self,
        positions: tuple[int, ...],
        judges: Sequence[_Test],
        open_ids: Sequence[tuple[int, ...]],
        first: Sequence[int],
        work: int,
    ) -> None:
        self._positions, self._open_ids = positions, open_ids
        self._level_ids = list(first)
        n_combinations = math.prod(len(open_ids[i]) for i in positions)
        self._is_small = n_combinations <= EXACT_BOUND
        has_conditions = any(isinstance(judge, _ActivityTest) for judge in judges)
        bound = CONDITIONS_BOUND if has_conditions else SEARCH_BOUND
        self._work = work if self._is_small else min(work, bound)
        self.spent = 0
        self._ready: dict[int, list[_Test]] = {}
        self._activity: dict[int, _ActivityTest] = {}  # of parameters after all they depend on
        for judge in judges:
            depth = max((d for d, i in enumerate(positions) if i in judge.positions), default=-1)
            if isinstance(judge, _ActivityTest) and positions[depth] == judge.position:
                self._activity[depth] = judge
            else:
                self._ready.setdefault(depth, []).append(judge)
        self._judges = [judge for judge in judges if judge not in self._activity.values()]

    def group(self) -> _ExclusionGroup:
        """Return the group with its allowed combinations, or without if they are too many."""
        columns = tuple(array("i") for _ in self._positions)
        rows = 0
        try:
            if not self._positions:
                return _ExclusionGroup((), (), 0 if self._is_excluded() else 1)
            if not self._is_small and self._is_certain(()):
                return _ExclusionGroup(self._positions, columns, 0)
            for part in _odometer(len(self._positions), self._choices, self._may_begin):
                for column, level_id in zip(columns, part, strict=True):
                    column.append(level_id)
                rows += 1
                if rows > EXACT_BOUND:
                    raise _TooManyError
        except _TooManyError:
            return _ExclusionGroup(self._positions, (), None)
        return _ExclusionGroup(self._positions, columns, rows)

    def _choices(self, depth: int) -> Sequence[int]:
        test = self._activity.get(depth)
        if test is None:
            return self._open_ids[self._positions[depth]]
        return test.choices(self._level_ids)

    def _may_begin(self, head: list[int]) -> bool:
        depth = len(head) - 1
        self._level_ids[self._positions[depth]] = head[-1]
        if depth + 1 == len(self._positions):
            return not self._is_excluded()
        for judge in self._ready.get(depth, ()):
            try:
                if self._excludes(judge):
                    return False
            except ExclusionError:  # an earlier exclusion may guard it, so the whole decides
                continue
        return self._is_small or not self._is_certain(head)

    def _is_excluded(self) -> bool:
        return any(self._excludes(judge) for judge in self._judges)

    def _excludes(self, judge: _Test) -> bool:
        self._spend(judge.cost)
        return judge.excludes(self._level_ids)

    def _is_certain(self, head: Sequence[int]) -> bool:
        """Return whether an exclusion surely excludes everything that begins with ``head``."""
        assigned = dict(zip(self._positions, head, strict=False))
        for judge in self._judges:
            if not isinstance(judge, _ExclusionTest):
                continue
            self._spend(10 * judge.cost)
            if judge.surely_excludes(assigned, self._open_ids):
                return True
        return False

    def _spend(self, cost: int) -> None:
        self.spent += cost
        if self.spent > self._work:
            raise _TooManyError


class _Test(Protocol):
    """Test of the level ids at some positions, of a cost in units of 50 characters."""

    positions: tuple[int, ...]
    cost: int

    def excludes(self, level_ids: Sequence[int]) -> bool: ...


class _ActivityTest:
    """Test that a parameter has an open level where it is active, else the first one."""

    cost = 1

    def __init__(self, position: int, open_ids: Sequence[int], conditions: Conditions) -> None:
        self.positions = tuple(sorted(conditions.involved((position,))))
        self.position, self._open_ids, self._conditions = position, tuple(open_ids), conditions

    def choices(self, level_ids: Sequence[int]) -> tuple[int, ...]:
        """Return the ids that are allowed with the levels of the other parameters, ascending."""
        is_active = self._conditions.is_active(self.position, level_ids)
        return self._open_ids if is_active else (0,)

    def excludes(self, level_ids: Sequence[int]) -> bool:
        return level_ids[self.position] not in self.choices(level_ids)


class _ExclusionTest:
    """One exclusion, with its results cached per combination of the levels it names."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        exclusion: Exclusion,
        n_kept: int,
        conditions: Conditions | None,
    ) -> None:
        self.exclusion = exclusion
        names = exclusion.names
        named = frozenset(i for i, p in enumerate(parameters) if p.name in names)
        self._conditions = None
        if conditions is not None and named & conditions.positions:
            self._conditions = conditions
            named = conditions.involved(named)
        self.positions = tuple(sorted(named))
        self.cost = 1 + len(exclusion.text) // 50
        self._parameters = tuple(parameters[i] for i in self.positions)
        self._verdicts: dict[tuple[int, ...], bool] = {}
        self._n_kept = n_kept
        self._open: dict[int, Domain] = {}

    def excludes(self, level_ids: Sequence[int]) -> bool:
        part = tuple([level_ids[i] for i in self.positions])
        verdict = self._verdicts.get(part)
        if verdict is None:
            inactive = self._conditions.inactive(level_ids) if self._conditions else ()
            values: dict[str, Level | None] = {
                p.name: None if position in inactive else p.levels[i]
                for p, i, position in zip(self._parameters, part, self.positions, strict=True)
            }
            verdict = self.exclusion.excludes(values)
            if len(self._verdicts) < self._n_kept:
                self._verdicts[part] = verdict
        return verdict

    def surely_excludes(
        self, assigned: Mapping[int, int], open_ids: Sequence[tuple[int, ...]]
    ) -> bool:
        """Return whether it excludes all combinations of open levels with the assigned ones."""
        if self._conditions is not None:
            return False
        domains: dict[str, Domain] = {}
        for position, parameter in zip(self.positions, self._parameters, strict=True):
            level_id = assigned.get(position)
            if level_id is not None:
                domains[parameter.name] = domain_of((parameter.levels[level_id],))
                continue
            if position not in self._open:
                ids = open_ids[position]
                self._open[position] = domain_of([parameter.levels[i] for i in ids])
            domains[parameter.name] = self._open[position]
        return self.exclusion.surely_excludes(domains)


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


def level_terms(parameter: Parameter, scale: int, centre_id: int) -> NDArray[np.object_]:
    """Return squared distances of all levels [levels] to one, whole numbers of any size."""
    terms = [_term(parameter, scale, centre_id, i) for i in range(parameter.n_levels)]
    return np.array(terms, dtype=object)


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
    """Yield lists of class vectors of equal total distance, nearest first.

    A vector has the pairs (minus position, entry) of its entries above 0, flat, in the order of
    the positions: it sorts as the whole vector does, and a space of 1,000 parameters costs little.
    The vectors after a group are farther, so they are not made before the next group is wanted.
    """
    heap: list[tuple[int, tuple[int, ...]]] = [(sum(c[0][0] for c in classes), ())]
    while heap:
        distance = heap[0][0]
        group = []
        while heap and heap[0][0] == distance:
            group.append(heapq.heappop(heap)[1])
        yield group
        for vector in group:
            for child, extra in _children(classes, vector):
                heapq.heappush(heap, (distance + extra, child))


def _children(
    classes: Sequence[DistanceClasses], vector: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield (vector, added distance) one class further in one parameter.

    Only parameters from the last moved one on are advanced, which gives every vector exactly
    one parent: itself with its last non-zero entry lowered.
    """
    last = -vector[-2] if vector else 0
    for i in range(last, len(classes)):
        before, entry = (vector[:-2], vector[-1] + 1) if vector and i == last else (vector, 1)
        if entry < len(classes[i]):
            extra = classes[i][entry][0] - classes[i][entry - 1][0]
            yield (*before, -i, entry), extra


def _shuffled(
    classes: Sequence[DistanceClasses],
    group: Sequence[tuple[int, ...]],
    rng: np.random.Generator,
) -> Iterator[tuple[int, ...]]:
    """Yield all combinations of a group's class vectors in uniformly random order."""
    nearest = math.prod(len(c[0][1]) for c in classes)
    ends = list(itertools.accumulate(_size(classes, vector, nearest) for vector in group))
    for number in permuted(rng, ends[-1]):
        entries = _entries(group[bisect.bisect_right(ends, number)])
        rest = number
        level_ids = []
        for i, c in enumerate(classes):
            ids = c[entries.get(i, 0)][1]
            rest, entry = divmod(rest, len(ids))
            level_ids.append(ids[entry])
        yield tuple(level_ids)


def _size(classes: Sequence[DistanceClasses], vector: tuple[int, ...], nearest: int) -> int:
    """Return how many combinations a class vector has; ``nearest`` is that of the first vector."""
    for i, entry in _entries(vector).items():
        nearest = nearest // len(classes[i][0][1]) * len(classes[i][entry][1])
    return nearest


def _entries(vector: tuple[int, ...]) -> dict[int, int]:
    """Return the entries above 0 of a class vector, by position."""
    return dict(zip((-i for i in vector[::2]), vector[1::2], strict=True))
