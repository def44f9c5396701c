"""Regions of good results that lie close together (section 3.2 of the Copper paper).

DBSCAN finds dense groups among the good configurations, without a given number of groups; isolated
good ones are in no region. Distances are in level steps, so that an ``eps`` means the same for a
parameter of 3 levels and for one of 80. A configuration lies in a region if it is within ``eps``
steps of a member or in the region's box. Regions may overlap.

Reference: Ester et al. 1996, A density-based algorithm for discovering clusters.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from strategies.data.observation import Observation, best, responses
from strategies.doe.main_effects import Knowledge
from strategies.space.errors import OptionError
from strategies.space.parameter import Parameter
from strategies.space.parameter_space import Configuration, ParameterSpace

Cell = tuple[int, ...]
ROUNDING = 1e-9  # Relative tolerance for a radius such as sqrt(2)


def squared_steps(parameters: Sequence[Parameter], first: Cell, second: Cell) -> int:
    """Return the squared distance of two configurations in level steps."""
    return sum(_term(p, a, b) for p, a, b in zip(parameters, first, second, strict=True))


def squared_radius(eps: float) -> int:
    """Return the square of a radius of ``eps`` level steps, rounded down to a whole number."""
    return int(eps * eps * (1 + ROUNDING))


def step_coordinates(
    space: ParameterSpace, configurations: Sequence[Configuration]
) -> NDArray[np.float64]:
    """Return coordinates [n, d] of configurations, with Euclidean distances in level steps.

    Ranks for ordinal parameters; one-hot over sqrt(2) for nominal ones, over the levels that occur.
    """
    ids = _level_ids(space, configurations)
    columns = []
    for parameter, column in zip(space.parameters, ids.T, strict=True):
        if parameter.kind == "nominal":
            levels, inverse = np.unique(column, return_inverse=True)
            columns.append(np.eye(levels.size)[inverse] / math.sqrt(2))
        else:
            columns.append(np.array(parameter.ranks, dtype=np.float64)[column].reshape(-1, 1))
    return np.concatenate(columns, axis=1)


def by_steps(
    parameters: Sequence[Parameter],
    allowed_ids: Sequence[Sequence[int]],
    centre: Cell,
    radius: int | None = None,
) -> Iterator[tuple[int, Cell]]:
    """Yield (squared steps, level ids) of level combinations, nearest to a centre first.

    Equally near ones come in a fixed order. The centre is included, if it is a combination.
    ``radius`` is the greatest squared distance, None for no limit.
    """
    choices = [
        sorted((_term(p, centre_level, level_id), level_id) for level_id in ids)
        for p, ids, centre_level in zip(parameters, allowed_ids, centre, strict=True)
    ]
    if not all(choices):
        return
    longest = math.inf if radius is None else radius
    nearest = tuple(c[0][1] for c in choices)
    gaps = [c[1][0] - c[0][0] if len(c) > 1 else None for c in choices]
    # a vector is flat pairs (minus position, entry above 0), which sort as whole vectors do
    order = sorted((gap, -i) for i, gap in enumerate(gaps) if gap is not None)
    heap: list[tuple[int, tuple[int, ...], int]] = []

    def push(distance: int, vector: tuple[int, ...], place: int) -> None:
        """Add the next vector that moves one more parameter, from a place in the order on."""
        last = -vector[-2] if vector else -1
        for at in range(place, len(order)):
            gap, position = order[at]
            if distance + gap > longest:
                return
            if -position > last:
                heapq.heappush(heap, (distance + gap, (*vector, position, 1), at))
                return

    start = sum(c[0][0] for c in choices)
    if start <= longest:
        heap.append((start, (), -1))
    while heap:
        distance, vector, place = heapq.heappop(heap)
        level_ids = list(nearest)
        for position, entry in zip(vector[::2], vector[1::2], strict=True):
            level_ids[-position] = choices[-position][entry][1]
        yield distance, tuple(level_ids)
        push(distance, vector, 0)
        if not vector:
            continue
        *before, position, entry = vector
        terms = choices[-position]
        if entry == 1:  # the vector that follows among those of the same parent
            push(distance - terms[1][0] + terms[0][0], tuple(before), place + 1)
        if entry + 1 < len(terms):
            farther = distance + terms[entry + 1][0] - terms[entry][0]
            if farther <= longest:
                heapq.heappush(heap, (farther, (*before, position, entry + 1), -1))


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
    for distance, which, level_ids in heapq.merge(*walks, key=lambda entry: entry[:2]):
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


Good: TypeAlias = Literal["threshold", "quantile", "verdicts"]
PendingRule: TypeAlias = Literal["queued", "near", "box"]

GOODS: tuple[Good, ...] = get_args(Good)
PENDING_RULES: tuple[PendingRule, ...] = get_args(PendingRule)

Step: TypeAlias = tuple[int, Configuration, Configuration]
"""Squared distance in level steps, a configuration, and the nearest member of the region."""

DEFAULT_EPS = 1.5
"""Level steps: a neighbour in one or two parameters is close, three at once are not."""

LISTED = 1_000  # Most pending configurations that are listed; the count may be larger

WALK_BOUND = 200_000  # Combinations that are examined for a count; beyond it the count is unknown
WALK_LEVELS = 4_000_000  # Most levels in those combinations, for spaces of many parameters


@dataclass(frozen=True, slots=True)
class RegionRule:
    """Settings that define which configurations are good, and how dense a region must be.

    Args:
        good: ``threshold`` (feasible, with at least that quality), ``quantile`` (the best share
            of the evaluated configurations, feasible ones first, ties included) or ``verdicts``
            (the analyst's last verdict on it was good).
        threshold: the quality for ``threshold``, None otherwise.
        quantile: the share for ``quantile``, above 0 and at most 1.
        eps: greatest distance of neighbours, in level steps; None for `DEFAULT_EPS`.
        min_samples: good configurations within ``eps``, itself included, that make one dense.
    Raises `OptionError` for anything else.
    """

    good: Good = "quantile"
    threshold: float | None = None
    quantile: float = 0.3
    eps: float | None = None
    min_samples: int = 3

    def __post_init__(self) -> None:
        if self.good not in GOODS:
            raise OptionError(
                f"a region rule has good={self.good!r}; allowed are {', '.join(GOODS)}."
            )
        if self.good == "threshold" and not _is_number(self.threshold):
            raise OptionError(
                f"a region rule has threshold={self.threshold!r}; with good='threshold' it must "
                "be a finite quality."
            )
        if self.good != "threshold" and self.threshold is not None:
            raise OptionError(
                f"a region rule has threshold={self.threshold!r} and good={self.good!r}; "
                "use a threshold only with good='threshold'."
            )
        if not _is_number(self.quantile) or not 0 < self.quantile <= 1:
            raise OptionError(
                f"a region rule has quantile={self.quantile!r}; it must be above 0 and at most 1."
            )
        if self.eps is not None and (not _is_number(self.eps) or self.eps <= 0):
            raise OptionError(
                f"a region rule has eps={self.eps!r}; it must be a number of level steps above 0, "
                f"or None for {DEFAULT_EPS:g}."
            )
        if type(self.min_samples) is not int or self.min_samples < 1:
            raise OptionError(
                f"a region rule has min_samples={self.min_samples!r}; it must be a whole number "
                "from 1 on."
            )

    @property
    def radius(self) -> float:
        """Neighbourhood radius in level steps: ``eps`` or its default."""
        return DEFAULT_EPS if self.eps is None else float(self.eps)


@dataclass(frozen=True, slots=True)
class Region:
    """Cluster of good configurations found by DBSCAN, with its bounding box."""

    id: int  # 1 for the region with the best mean quality, then ascending
    members: tuple[Configuration, ...]  # good configurations, the best first
    evaluated: int  # completed runs in the region, good or not
    # queued and running configurations in the region, by level ids
    pending: tuple[Configuration, ...]
    mean_quality: float  # mean response of the evaluated runs (the quality, where all is feasible)
    measured_mean: float  # mean quality of the evaluated runs, constraints not counted in
    best: Observation  # best run of a member
    # level ids per parameter: for ordinal ones all between the least and the greatest level of a
    # member, by rank; for nominal ones those of members
    box: tuple[tuple[int, ...], ...]

    def is_in_box(self, configuration: Configuration) -> bool:
        """Return whether a configuration lies in the bounding box of the region."""
        return all(
            level_id in ids for level_id, ids in zip(configuration.level_ids, self.box, strict=True)
        )

    def contains(self, space: ParameterSpace, configuration: Configuration, eps: float) -> bool:
        """Return whether a configuration is in the box or within ``eps`` steps of a member."""
        return self.contains_each(space, [configuration], eps)[0]

    def contains_each(
        self, space: ParameterSpace, configurations: Sequence[Configuration], eps: float
    ) -> list[bool]:
        """Return which configurations are in the box or within ``eps`` steps of a member."""
        n = len(self.members)
        everywhere = [*self.members, *configurations]
        points, ids = step_coordinates(space, everywhere), _level_ids(space, everywhere)
        inside = _near(points[:n], points[n:], eps) | _in_box(space, self.box, ids[n:])
        return [bool(is_inside) for is_inside in inside]


@dataclass(frozen=True, slots=True)
class PendingRuns:
    """Number and configurations of the pending runs in a region."""

    count: int | None  # their number, None if it exceeds the bounds of counting
    # the first of them, at most `LISTED`, nearest to the members first
    configurations: tuple[Configuration, ...]


def find_regions(knowledge: Knowledge, rule: RegionRule) -> tuple[Region, ...]:
    """Find dense regions of good configurations, in decreasing order of mean quality.

    Replicates count as one configuration, with the mean of their responses and the last verdict.
    Ties in the mean go to the better best run, then to the lower level ids.
    """
    space, observations = knowledge.space, knowledge.observations
    good = good_configurations(observations, rule)
    if len(good) < rule.min_samples:
        return ()
    from sklearn.cluster import DBSCAN  # slow to import

    points = step_coordinates(space, good)
    eps = math.sqrt(squared_radius(rule.radius) + 0.5)  # squared distances are whole numbers
    labels = DBSCAN(eps=eps, min_samples=rule.min_samples).fit(points).labels_
    groups = [
        [c for c, group_label in zip(good, labels, strict=True) if group_label == label]
        for label in sorted({int(label) for label in labels} - {-1})
    ]
    run = _PlacedRuns(knowledge)
    regions = [run.region(members, rule.radius) for members in groups]
    regions.sort(key=lambda r: (-r.mean_quality, -r.best.quality, min(r.members)))
    return tuple(replace(region, id=i) for i, region in enumerate(regions, start=1))


def good_configurations(
    observations: Sequence[Observation], rule: RegionRule
) -> tuple[Configuration, ...]:
    """Return the configurations that are good by a rule, best first."""
    response = responses(observations)
    runs: dict[Configuration, list[tuple[float, Observation]]] = {}
    for value, observation in zip(response, observations, strict=True):
        runs.setdefault(observation.configuration, []).append((float(value), observation))
    means = {
        c: math.fsum(v for v, _ in replicates) / len(replicates) for c, replicates in runs.items()
    }
    ranked = sorted(means, key=lambda c: (-means[c], c))
    if rule.good == "verdicts":
        verdicts = {o.configuration: o.good for o in observations if o.good is not None}
        return tuple(c for c in ranked if verdicts.get(c))
    if rule.good == "threshold" and rule.threshold is not None:
        feasible = {c for c, replicates in runs.items() if all(o.feasible for _, o in replicates)}
        return tuple(c for c in ranked if c in feasible and means[c] >= rule.threshold)
    if not ranked:
        return ()
    cut = means[ranked[math.ceil(rule.quantile * len(ranked)) - 1]]
    return tuple(c for c in ranked if means[c] >= cut)


def pending_in_region(
    space: ParameterSpace, region: Region, knowledge: Knowledge, rule: PendingRule, eps: float
) -> PendingRuns:
    """Return the pending runs of a region, as defined by the given rule.

    ``queued`` are queued and running runs in the region. ``near`` are the allowed configurations
    without a result within ``eps`` level steps of a member, ``box`` those in the region's box;
    both include queued and running ones, but not failed ones.

    The count of ``near`` is None if more than `WALK_BOUND` combinations (or `WALK_LEVELS` levels)
    are that near. That of
    ``box`` is arithmetic, so exact for a box of any size without exclusions; with exclusions it
    is None where `ParameterSpace.count_allowed` is. Raises `OptionError` for another rule.
    """
    done = knowledge.tried
    if rule == "queued":
        return PendingRuns(len(region.pending), region.pending[:LISTED])
    if rule == "near":
        return _pending_near(space, region, done, squared_radius(eps))
    if rule == "box":
        pending = dict[Configuration, None]()
        most = min(WALK_BOUND, WALK_LEVELS // len(space.parameters))
        for _, configuration, _ in itertools.islice(in_box(space, region), most):
            if configuration not in done and space.is_allowed(configuration):
                pending[configuration] = None
                if len(pending) == LISTED:
                    break
        return PendingRuns(_count_box(space, region, done), tuple(pending))
    raise OptionError(
        f"the rule for pending runs is {rule!r}; allowed are {', '.join(PENDING_RULES)}."
    )


def _pending_near(
    space: ParameterSpace, region: Region, done: Collection[Configuration], radius: int
) -> PendingRuns:
    """Return the pending runs within a squared distance of any member."""
    most = min(WALK_BOUND, WALK_LEVELS // len(space.parameters))
    centres = [member.level_ids for member in region.members]
    found = _within(space.parameters, space.open_ids, centres, radius, most)
    cells: Iterable[Cell] = found or ()
    if found is None:
        walk = nearest_to_any(space.parameters, space.open_ids, centres, radius)
        cells = (ids for _, ids, _ in itertools.islice(walk, most))
    configurations = (Configuration(ids, space.lineage) for ids in dict.fromkeys(cells))
    pending = (c for c in configurations if c not in done and space.is_allowed(c))
    listed = tuple(itertools.islice(pending, LISTED))
    if found is None:
        return PendingRuns(None, listed)
    return PendingRuns(len(listed) + sum(1 for _ in pending), listed)


def _squared_steps(parameter: Parameter) -> NDArray[np.int64]:
    """Return the squared steps between the levels of a parameter, int64 [levels, levels]."""
    if parameter.kind == "nominal":
        return 1 - np.eye(parameter.n_levels, dtype=np.int64)
    ranks = np.array(parameter.ranks, dtype=np.int64)
    return (ranks[:, None] - ranks) ** 2


def _within(
    parameters: Sequence[Parameter],
    allowed_ids: Sequence[Sequence[int]],
    centres: Sequence[Cell],
    radius: int,
    most: int,
) -> list[Cell] | None:
    """Return the combinations within a squared distance of each centre, nearest first.

    One that is near several centres comes several times. None if they are more than ``most``.
    """
    positions = np.array(centres, dtype=np.int64)  # [centres, d]
    terms = [
        _squared_steps(parameter)[:, list(ids)]
        for parameter, ids in zip(parameters, allowed_ids, strict=True)
    ]
    least = np.array(
        [term.min(axis=1, initial=radius + 1)[positions[:, i]] for i, term in enumerate(terms)]
    )
    rest = least.sum(axis=0)  # the fewest steps that the parameters not yet chosen add
    which = np.flatnonzero(rest <= radius)
    steps = np.zeros(which.size, dtype=np.int64)
    chosen = np.zeros((which.size, 0), dtype=np.int64)
    for i, (term, ids) in enumerate(zip(terms, allowed_ids, strict=True)):
        rest = rest - least[i]
        further = steps[:, None] + term[positions[which, i]]
        rows, columns = np.nonzero(further + rest[which, None] <= radius)
        if rows.size > most:
            return None
        which, steps = which[rows], further[rows, columns]
        new = np.array(ids, dtype=np.int64)[columns]
        chosen = np.concatenate((chosen[rows], new[:, None]), axis=1)
    return list(map(tuple, chosen[np.lexsort((which, steps))].tolist()))


def near_region(space: ParameterSpace, region: Region, eps: float) -> Iterator[Step]:
    """Yield (squared distance, configuration, member) within ``eps`` of a member, nearest first.

    Lazy; a configuration comes once for every member it is near, the nearest first. Excluded and
    evaluated ones are included.
    """
    return _walk(space, region, space.open_ids, squared_radius(eps))


def in_box(space: ParameterSpace, region: Region) -> Iterator[Step]:
    """Yield (squared distance, configuration, member) in a region's box, nearest first."""
    return _walk(space, region, _open_box(space, region), None)


def _walk(
    space: ParameterSpace,
    region: Region,
    allowed_ids: Sequence[Sequence[int]],
    radius: int | None,
) -> Iterator[Step]:
    centres = [member.level_ids for member in region.members]
    walk = nearest_to_any(space.parameters, allowed_ids, centres, radius)
    for squared, ids, centre in walk:
        yield squared, Configuration(ids, space.lineage), Configuration(centre, space.lineage)


def _open_box(space: ParameterSpace, region: Region) -> list[tuple[int, ...]]:
    open_sets = [set(open_ids) for open_ids in space.open_ids]
    return [
        tuple(level_id for level_id in ids if level_id in open_set)
        for ids, open_set in zip(region.box, open_sets, strict=True)
    ]


def _count_box(space: ParameterSpace, region: Region, done: Set[Configuration]) -> int | None:
    open_box = _open_box(space, region)
    if not all(open_box):
        return 0
    outside = {
        (parameter.name, level_id)
        for parameter, ids in zip(space.parameters, open_box, strict=True)
        for level_id in set(range(parameter.n_levels)) - set(ids)
    }
    n_allowed = replace(space, closed=space.closed | outside).count_allowed()
    if n_allowed is None:
        return None
    return n_allowed - sum(1 for c in done if region.is_in_box(c) and space.is_allowed(c))


class _PlacedRuns:
    """Completed and pending runs of an experiment, with their places for all its regions."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._space, self._observations = knowledge.space, knowledge.observations
        self._waiting = sorted(knowledge.pending.union(knowledge.running))
        configurations = [*(o.configuration for o in self._observations), *self._waiting]
        self._ids = _level_ids(self._space, configurations)
        self._points = step_coordinates(self._space, configurations)
        self._places: dict[Configuration, list[int]] = {}
        for place, observation in enumerate(self._observations):
            self._places.setdefault(observation.configuration, []).append(place)
        self._values = responses(self._observations)
        self._qualities = np.array([o.quality for o in self._observations], dtype=np.float64)

    def region(self, members: Sequence[Configuration], eps: float) -> Region:
        """Return the region of some configurations that have a completed run, without its id."""
        places = sorted(place for member in members for place in self._places[member])
        best_run = best(self._observations[place] for place in places)
        assert best_run is not None  # noqa: S101 (members come from observations)
        box = tuple(
            _span(p, {m.level_ids[i] for m in members})
            for i, p in enumerate(self._space.parameters)
        )
        inside = _near(self._points[[self._places[m][-1] for m in members]], self._points, eps)
        inside |= _in_box(self._space, box, self._ids)
        n = len(self._observations)
        evaluated = inside[:n]
        n_evaluated = int(evaluated.sum())
        pending = tuple(c for c, at in zip(self._waiting, inside[n:], strict=True) if at)
        return Region(
            id=0,
            members=tuple(members),
            evaluated=n_evaluated,
            pending=pending,
            mean_quality=math.fsum(self._values[evaluated]) / n_evaluated,
            measured_mean=math.fsum(self._qualities[evaluated]) / n_evaluated,
            best=best_run,
            box=box,
        )


def _level_ids(space: ParameterSpace, configurations: Sequence[Configuration]) -> NDArray[np.int64]:
    """Return the level ids of n configurations for each of d parameters, int64 [n, d]."""
    ids = np.array([c.level_ids for c in configurations], dtype=np.int64)
    return ids.reshape(len(configurations), len(space.parameters))


def _in_box(
    space: ParameterSpace, box: Sequence[Sequence[int]], ids: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which level ids [n, d] are in the box for every parameter, bool [n]."""
    inside = np.ones(len(ids), dtype=np.bool_)
    for parameter, column, allowed in zip(space.parameters, ids.T, box, strict=True):
        is_in = np.zeros(parameter.n_levels, dtype=np.bool_)
        is_in[list(allowed)] = True
        inside &= is_in[column]
    return inside


def _near(
    members: NDArray[np.float64], points: NDArray[np.float64], eps: float
) -> NDArray[np.bool_]:
    """Return which points [n, d] are within ``eps`` level steps of a member [m, d], bool [n]."""
    from scipy.spatial import cKDTree  # slow to import

    reach = math.sqrt(squared_radius(eps) + 0.5)  # squared distances are whole numbers
    low, high = members.min(axis=0) - reach, members.max(axis=0) + reach
    close = np.flatnonzero(((points >= low) & (points <= high)).all(axis=1))
    near = np.zeros(len(points), dtype=np.bool_)
    if close.size:
        distances, _ = cKDTree(members).query(points[close], distance_upper_bound=reach)
        near[close] = np.isfinite(distances)
    return near


def _span(parameter: Parameter, level_ids: set[int]) -> tuple[int, ...]:
    """Return the level ids between the least and greatest rank; of a nominal parameter, the set."""
    if parameter.kind == "nominal":
        return tuple(sorted(level_ids))
    ranks = parameter.ranks
    low, high = min(ranks[i] for i in level_ids), max(ranks[i] for i in level_ids)
    return tuple(i for i in range(parameter.n_levels) if low <= ranks[i] <= high)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]
