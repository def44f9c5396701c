"""Coverage of a space by runs, and the runs that are missing for an effect or for a block."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.blas_threads import single_blas_thread
from strategies.data.observation import Observation, rank_key
from strategies.doe.factorial_block import FactorialBlock, find_blocks
from strategies.doe.linear_model import MOST_COLUMNS, Coding
from strategies.doe.main_effects import Knowledge
from strategies.space.errors import AnalysisError
from strategies.space.parameter import show
from strategies.space.parameter_space import Configuration, ParameterSpace


@dataclass(frozen=True, slots=True)
class LevelCoverage:
    """Share of the allowed levels of a parameter, or of pairs of levels, that have runs."""

    parameters: tuple[str, ...]  # one name, or two
    n_seen: int  # allowed levels or combinations with a run
    n_allowed: int | None  # their number; None if the exclusions are too many to count
    least: int | None  # fewest runs of one of them, 0 if one has none; None where ``n_allowed`` is
    most: int  # most runs of one of them


@dataclass(frozen=True, slots=True)
class SpaceCoverage:
    """Shares of levels, pairs of levels and configurations of a space that have runs."""

    parameters: tuple[LevelCoverage, ...]  # one entry per parameter, in the space's order
    pairs: tuple[LevelCoverage, ...]  # one entry per pair of parameters
    n_seen: int  # distinct allowed configurations with a run
    n_allowed: int | None  # allowed configurations, None if unknown

    @property
    def share(self) -> float | None:
        """Share of the allowed configurations that have runs, or None if unknown."""
        return self.n_seen / self.n_allowed if self.n_allowed else None


def measure_coverage(space: ParameterSpace, observations: Sequence[Observation]) -> SpaceCoverage:
    """Compute which shares of levels, level pairs and configurations have runs.

    Runs at closed levels or excluded combinations do not count. Raises `SpaceError` if an
    observation is not of this space.
    """
    ids = space.level_ids([o.configuration for o in observations])
    rows = space.allowed_of(list(map(tuple, ids.tolist())))
    marked = space.marked_ids(np.array(rows, dtype=np.int64).reshape(len(rows), ids.shape[1]))
    positions = range(len(space.parameters))
    return SpaceCoverage(
        tuple(_level_coverage(space, (i,), marked) for i in positions),
        tuple(
            _level_coverage(space, pair, marked) for pair in itertools.combinations(positions, 2)
        ),
        len(set(rows)),
        space.count_allowed(),
    )


def _level_coverage(
    space: ParameterSpace, positions: tuple[int, ...], marked: NDArray[np.int64]
) -> LevelCoverage:
    """Return the coverage of level combinations by `ParameterSpace.marked_ids` of the runs."""
    names = tuple(space.names[i] for i in positions)
    n_levels = [space.parameters[i].n_levels for i in positions]
    columns = marked[:, positions]
    active = columns[(columns < n_levels).all(axis=1)]
    counts = np.unique(np.ravel_multi_index(tuple(active.T), n_levels), return_counts=True)[1]
    n_seen, allowed = len(counts), space.allowed_combinations(names)
    most = int(counts.max(initial=0))
    if allowed is None:
        return LevelCoverage(names, n_seen, None, None, most)
    least = int(counts.min()) if n_seen and n_seen == len(allowed) else 0
    return LevelCoverage(names, n_seen, len(allowed), least, most)


MOST_ENTRIES = 4_000_000
"""Greatest number of configurations times design columns, which bounds the memory of the search."""

MOST_ANCHORS = 200  # Number of best runs whose neighbourhood is preferred

OUTSIDE = 1e-9  # Squared length from which on a unit vector counts as outside a space

WELL_CONDITIONED = 1e-6
"""Ratio of the least to the largest squared singular value from which on rows surely span all."""

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EstimationTarget:
    """Main effects, or an interaction, that further runs are to make estimable."""

    # one name for a main effect, two for an interaction (with all main effects in the model),
    # none for all main effects. All open levels are included
    parameters: tuple[str, ...] = ()
    # only this level of the one parameter, against those that have effects already
    level_id: int | None = None

    def __post_init__(self) -> None:
        if len(self.parameters) > 2 or len(set(self.parameters)) < len(self.parameters):
            raise AnalysisError(
                f"{', '.join(self.parameters)} cannot be combined; name one parameter, "
                "two different ones for their interaction, or none for all main effects."
            )
        if self.level_id is not None and len(self.parameters) != 1:
            raise AnalysisError("a level needs exactly one parameter; name only its parameter.")


@dataclass(frozen=True, slots=True)
class MissingRuns:
    """Further runs that would make the effects of a target estimable."""

    target: EstimationTarget  # effects that shall be estimable
    # allowed, not yet run, in the order in which they were chosen
    configurations: tuple[Configuration, ...]
    lacking: int  # dimensions of the target that the runs until now leave unknown
    left: int  # those that stay unknown after these runs, because nothing allowed closes them
    n_waiting: int  # runs that are queued or running; they count as completed
    # whether every allowed configuration was examined, so that ``left`` is due to closed levels,
    # exclusions and failures alone
    looked_at_all: bool

    @property
    def is_smallest(self) -> bool:
        """Whether this set of runs is provably the smallest that reaches the target."""
        return len(self.configurations) == self.lacking - self.left


def missing_runs(knowledge: Knowledge, target: EstimationTarget) -> MissingRuns:
    """Search greedily for the fewest further runs that make the effects of a target estimable.

    Never a configuration that was observed, failed, or waits. Raises `UnknownParameterError` for a
    name, `AnalysisError` for a closed level or a target of more than `MOST_COLUMNS` contrasts.
    """
    space = knowledge.space
    positions = tuple(space.names.index(space.parameter(n).name) for n in target.parameters)
    _check_level(space, target, positions)
    waiting = {*knowledge.pending, *knowledge.running}
    anchors = _anchors(knowledge, waiting)
    coding, looked_at_all = _coding(space, positions, anchors)
    has_runs = bool(knowledge.observations or waiting)
    rows = coding.design(_array(anchors, coding)) if has_runs else None
    search = _Search(coding, rows, _contrasts(coding, positions, target, anchors))
    lacking = search.lacking
    cells: list[Ids] = []
    if lacking:
        cells = _candidates(knowledge, positions, anchors, coding, everything=looked_at_all)
    indices = search.run(coding.design(_array(cells, coding))) if cells else []
    return MissingRuns(
        target,
        tuple(Configuration(cells[i], space.lineage) for i in indices),
        lacking,
        search.lacking,
        len(waiting),
        looked_at_all,
    )


class _Search:
    """Greedy search that extends the row space until the contrasts lie in it."""

    def __init__(
        self,
        coding: Coding,
        rows: NDArray[np.float64] | None,
        contrasts: NDArray[np.float64],
    ) -> None:
        self._contrasts = contrasts
        start = np.zeros((0, coding.n_columns)) if rows is None else rows
        self._known = _span(start)
        self._goal = _span(np.concatenate([self._known.T, contrasts]))

    @property
    def lacking(self) -> int:
        """Number of dimensions of the target contrasts that the runs leave unknown."""
        return int(self._goal.shape[1] - self._known.shape[1])

    def run(self, candidates: NDArray[np.float64]) -> list[int]:
        """Return the positions of the candidates to take."""
        start = self._known
        units = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
        # squared lengths outside both spaces; a new direction takes its share off
        new, astray = _outside(units, self._known), _outside(units, self._goal)
        selection: list[int] = []
        while self.lacking and (place := self._choice(units, new, astray)) is not None:
            if astray[place] > OUTSIDE:
                self._goal, direction = _extended(self._goal, units[place])
                astray = astray - (units @ direction) ** 2
            self._known, direction = _extended(self._known, units[place])
            new = new - (units @ direction) ** 2
            selection.append(place)
        return self._needed(start, units, selection)

    def _choice(
        self, units: NDArray[np.float64], new: NDArray[np.float64], astray: NDArray[np.float64]
    ) -> int | None:
        """Return the candidate to take next, None if none adds a dimension.

        Candidates outside the goal in the same direction all become useful once one is taken.
        """
        direct = np.flatnonzero((new > OUTSIDE) & (astray <= OUTSIDE))
        if direct.size:
            return int(direct[0])
        rest = np.flatnonzero(new > OUTSIDE)
        if not rest.size:
            return None
        # the angle with a fixed direction identifies a direction (except by chance)
        fixed = np.cos(np.arange(1.0, units.shape[1] + 1))
        fixed -= self._goal @ (self._goal.T @ fixed)
        angles = np.round(np.abs(units[rest] @ fixed) / np.sqrt(astray[rest]), 6)
        _, group, sizes = np.unique(angles, return_inverse=True, return_counts=True)
        return int(rest[np.argmax(sizes[group.reshape(-1)])])

    def _needed(
        self, start: NDArray[np.float64], units: NDArray[np.float64], selection: list[int]
    ) -> list[int]:
        """Return the runs that the contrasts need, and drop the others.

        Every chosen run adds a dimension to the row space. It is needed if it adds none to the row
        space and the contrasts together, that is, if it takes part in a linear dependence of them.
        """
        if len(selection) == 0:
            return selection
        goals = _span(self._contrasts)
        vectors = np.concatenate([start, units[selection].T, goals], axis=1)
        _, singular, right = np.linalg.svd(vectors, full_matrices=False)
        inside = right[singular > singular[0] * 1e-9]
        dependences = inside[:, start.shape[1] : start.shape[1] + len(selection)]
        free = 1 - np.sum(dependences**2, axis=0)  # squared length in the space of dependences
        needed = [
            place for place, length in zip(selection, free.tolist(), strict=True) if length > 1e-9
        ]
        self._known = _span(np.concatenate([start.T, units[needed]]))
        self._goal = _span(np.concatenate([self._known.T, self._contrasts]))
        return needed


def _extended(
    basis: NDArray[np.float64], vector: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an orthonormal basis with one more direction, and that direction."""
    direction = vector
    for _ in range(2):
        direction = direction - basis @ (basis.T @ direction)
        direction = direction / np.linalg.norm(direction)
    return np.concatenate([basis, direction[:, None]], axis=1), direction


@single_blas_thread
def _span(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return orthonormal columns that span the rows."""
    if not len(rows):
        return np.zeros((rows.shape[1], 0))
    if len(rows) > rows.shape[1]:
        squares = np.linalg.eigvalsh(rows.T @ rows)
        if squares[0] > squares[-1] * WELL_CONDITIONED:
            return np.eye(rows.shape[1])  # the rows span everything
        _, rows = np.linalg.qr(rows)
    _, singular, right = np.linalg.svd(rows, full_matrices=False)
    rank = int((singular > max(singular[0], 1e-300) * 1e-9).sum())
    return right[:rank].T


def _outside(units: NDArray[np.float64], basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the squared lengths of unit vectors, float64 [n, columns], outside a space."""
    lengths: NDArray[np.float64] = 1 - np.sum((units @ basis) ** 2, axis=1)
    return lengths


def _contrasts(
    coding: Coding, positions: tuple[int, ...], target: EstimationTarget, anchors: Sequence[Ids]
) -> NDArray[np.float64]:
    space = coding.space
    if not positions:
        return np.concatenate([_differences(coding, i) for i in range(len(space.parameters))])
    if len(positions) == 1:
        against = None
        if target.level_id is not None:
            against = _counterpart(coding, positions[0], target.level_id, anchors)
        return _differences(coding, positions[0], target.level_id, against)
    first, second = (_differences(coding, i)[:, coding.blocks[(i,)]] for i in positions)
    rows = np.zeros((len(first) * len(second), coding.n_columns))
    rows[:, coding.blocks[positions]] = np.kron(first, second)
    return rows


def _differences(
    coding: Coding, position: int, level_id: int | None = None, against: int | None = None
) -> NDArray[np.float64]:
    """Return the open levels of a parameter against the first, or a level against another."""
    ids = coding.space.open_ids[position]
    compared_ids, base = (ids[1:], ids[0]) if level_id is None else ((level_id,), against)
    if base is None:
        return np.zeros((0, coding.n_columns))
    places = coding.places(position, np.array([*compared_ids, base], dtype=np.int64))
    rows = coding.within((position,))
    differences: NDArray[np.float64] = rows[places[:-1]] - rows[places[-1]]
    return differences


def _counterpart(
    coding: Coding, position: int, level_id: int, anchors: Sequence[Ids]
) -> int | None:
    """Return the level to compare with: the one with the most different runs, else an open one."""
    ids = [cell[position] for cell in anchors if cell[position] != level_id]
    if ids:
        return max(sorted(set(ids)), key=ids.count)
    alternatives = [i for i in coding.space.open_ids[position] if i != level_id]
    return alternatives[0] if alternatives else None


def _check_level(
    space: ParameterSpace, target: EstimationTarget, positions: tuple[int, ...]
) -> None:
    if target.level_id is None:
        return
    if (target.parameters[0], target.level_id) in space.closed:
        value = show(space.parameters[positions[0]].levels[target.level_id])
        raise AnalysisError(
            f"the level {value} of parameter '{target.parameters[0]}' is closed, so no run with it "
            "is offered; reopen it first."
        )


def _anchors(knowledge: Knowledge, waiting: set[Configuration]) -> list[Ids]:
    """Return the level ids of the runs, best first, then of those that wait.

    Without any run, the level ids of one allowed configuration.
    """
    ordered = sorted(knowledge.observations, key=rank_key, reverse=True)
    configurations = [*(o.configuration for o in ordered), *sorted(waiting)]
    if not configurations:
        first = knowledge.space.sample(np.random.default_rng(0), knowledge.taken)
        configurations = [] if first is None else [first]
    return list(dict.fromkeys(c.level_ids for c in configurations))


def _coding(
    space: ParameterSpace, positions: tuple[int, ...], anchors: Sequence[Ids]
) -> tuple[Coding, bool]:
    """Return the coding of the examined levels, and whether they are all allowed configurations."""
    pairs = [(positions[0], positions[1])] if len(positions) == 2 else []
    anchor_levels = [{cell[i] for cell in anchors} for i in range(len(space.parameters))]
    every = [{*ids, *open_ids} for ids, open_ids in zip(anchor_levels, space.open_ids, strict=True)]
    n_columns = _columns(every, pairs)
    if n_columns <= MOST_COLUMNS and space.open_size * n_columns <= MOST_ENTRIES:
        return Coding.of(space, [sorted(ids) for ids in every], pairs), True
    targets = positions or tuple(range(len(space.parameters)))
    levels = [
        sorted(every[i] if i in targets else anchor_levels[i]) for i in range(len(anchor_levels))
    ]
    return Coding.of(space, levels, pairs), False


def _candidates(
    knowledge: Knowledge,
    positions: tuple[int, ...],
    anchors: Sequence[Ids],
    coding: Coding,
    *,
    everything: bool,
) -> list[Ids]:
    """Return the candidate configurations, in the order of preference."""
    space = knowledge.space
    taken = {configuration.level_ids for configuration in knowledge.taken}
    if everything:
        cells = [c.level_ids for c in space.configurations() if c.level_ids not in taken]
        return _preferred(cells, anchors[:MOST_ANCHORS])
    allowed_cells: dict[Ids, None] = {}
    for cell in _variations(space, positions, anchors, coding.level_ids):
        if cell not in taken and space.is_allowed(Configuration(cell, space.lineage)):
            allowed_cells[cell] = None
        if len(allowed_cells) * coding.n_columns >= MOST_ENTRIES:
            break
    return list(allowed_cells)


def _columns(levels: Sequence[set[int]], pairs: Sequence[tuple[int, int]]) -> int:
    widths = [max(len(ids) - 1, 0) for ids in levels]
    return 1 + sum(widths) + sum(widths[i] * widths[j] for i, j in pairs)


def _preferred(cells: list[Ids], anchors: Sequence[Ids]) -> list[Ids]:
    """Sort by the number of parameters that differ from the nearest run, then by its rank."""
    if not cells or not anchors:
        return cells
    ids, runs = np.array(cells, dtype=np.int64), np.array(anchors, dtype=np.int64)
    differ = np.zeros((len(ids), len(runs)), dtype=np.int16)
    for i in range(ids.shape[1]):
        differ += ids[:, i, None] != runs[None, :, i]
    order = np.lexsort((differ.argmin(axis=1), differ.min(axis=1)))
    return [cells[i] for i in order.tolist()]


def _variations(
    space: ParameterSpace,
    positions: tuple[int, ...],
    anchors: Sequence[Ids],
    levels: Sequence[Sequence[int]],
) -> Iterator[Ids]:
    """Yield runs with the target at other levels, then with one more parameter changed.

    Without any run the anchor itself comes first.
    """
    yield from anchors
    targets = [positions] if positions else [(i,) for i in range(len(space.parameters))]
    moves = [(t, c) for t in targets for c in itertools.product(*(space.open_ids[i] for i in t))]
    for cell, (target, change) in itertools.product(anchors, moves):
        yield _with(cell, target, change)
    for cell, other in itertools.product(anchors, range(len(space.parameters))):
        for level_id in levels[other]:
            for target, change in moves:
                if other not in target:
                    yield _with(cell, (other, *target), (level_id, *change))


def _with(cell: Ids, positions: Sequence[int], level_ids: Sequence[int]) -> Ids:
    changed = list(cell)
    for position, level_id in zip(positions, level_ids, strict=True):
        changed[position] = level_id
    return tuple(changed)


def _array(cells: Sequence[Ids], coding: Coding) -> NDArray[np.int64]:
    return np.array(cells, dtype=np.int64).reshape(len(cells), len(coding.level_ids))


MOST_CELLS = 10_000  # Greatest number of combinations of a block; a larger one is a sweep

MOST_SEEDS = 200  # Greatest number of blocks and of best runs that a completion starts from


@dataclass(frozen=True, slots=True)
class BlockCompletion:
    """Complete factorial block, and the runs that are missing in it."""

    block: FactorialBlock  # the completed block
    # its missing runs, allowed and not failed before; empty if it is complete
    configurations: tuple[Configuration, ...]


def complete_block(knowledge: Knowledge, parameters: Sequence[str] = ()) -> BlockCompletion | None:
    """Return the block of all open levels of the parameters that needs the fewest further runs.

    Without parameters: an existing block extended by one level of any parameter. A run that waits
    counts as run. None if there is no such block: nothing was run, or every one has a combination
    that is excluded or has failed.
    Raises `UnknownParameterError`, `AnalysisError` beyond `MOST_CELLS` combinations.
    """
    space = knowledge.space
    positions = [space.names.index(space.parameter(name).name) for name in parameters]
    n_combinations = math.prod(len(space.open_ids[position]) for position in positions)
    if n_combinations > MOST_CELLS:
        raise AnalysisError(
            f"{' and '.join(parameters)} have {n_combinations:,} combinations of open levels; at "
            f"most {MOST_CELLS:,} are completed to a block, so close levels."
        )
    failed = {failure.configuration for failure in knowledge.failures}
    run_or_waiting = knowledge.taken - failed | {o.configuration for o in knowledge.observations}
    ended = {configuration.level_ids for configuration in run_or_waiting}
    best: tuple[tuple[int, int], Block, tuple[Configuration, ...]] | None = None
    for block, unknown in _proposed(knowledge, positions):
        size = math.prod(len(ids) for ids in block)
        if size > MOST_CELLS:
            continue
        missing = _missing(knowledge, unknown, ended, None if best is None else best[0][0])
        if missing is not None:
            key = (len(missing), -size)
            if best is None or key < best[0]:
                best = key, block, missing
    if best is None:
        return None
    _, block, missing = best
    return BlockCompletion(FactorialBlock(tuple(tuple(sorted(ids)) for ids in block)), missing)


Block: TypeAlias = tuple[Ids, ...]
"""Level ids of each parameter, of which a block has all combinations."""


def _proposed(knowledge: Knowledge, positions: Sequence[int]) -> Iterator[tuple[Block, Block]]:
    """Yield extended blocks, around the existing blocks and then around the best runs.

    The second part is the block of those combinations that can lack a run.
    """
    space = knowledge.space
    blocks = [b.level_ids for b in find_blocks(space, knowledge.observations)[:MOST_SEEDS]]
    ordered = sorted(knowledge.observations, key=rank_key, reverse=True)
    cells = list(dict.fromkeys(o.configuration.level_ids for o in ordered))[:MOST_SEEDS]
    single: list[Block] = [tuple((i,) for i in cell) for cell in cells]
    # a block is maximal, so one more level always lacks a run; a run inside one would be complete
    seeds = [*blocks, *single] if positions or not blocks else blocks
    for seed in seeds:
        if positions:
            ids = list(seed)
            for position in positions:
                ids[position] = tuple(sorted({*ids[position], *space.open_ids[position]}))
            yield tuple(ids), tuple(ids)
            continue
        for position, open_ids in enumerate(space.open_ids):
            before, here, after = seed[:position], seed[position], seed[position + 1 :]
            for level_id in open_ids:
                if level_id not in here:
                    yield (*before, (*here, level_id), *after), (*before, (level_id,), *after)


def _missing(
    knowledge: Knowledge, block: Block, ended: set[Ids], most: int | None
) -> tuple[Configuration, ...] | None:
    """Return the runs that a block lacks, None if they are too many or not possible."""
    missing: list[Configuration] = []
    for level_ids in itertools.product(*block):
        if level_ids in ended:
            continue
        if len(missing) == most:
            return None
        configuration = Configuration(level_ids, knowledge.space.lineage)
        if configuration in knowledge.taken or not knowledge.space.is_allowed(configuration):
            return None
        missing.append(configuration)
    return tuple(missing)
