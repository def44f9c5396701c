"""Complete factorial blocks among the evaluated configurations, and their main effects.

The paper: "Whenever part of the search space has enough evaluated samples to apply the full
factorial, the DOE model is updated" (section 3.1). A block is such a part: some levels of every
parameter, all combinations of which have been run, so its marginal means are not confounded.

`find_blocks` grows blocks greedily from pairs of evaluated configurations that differ in one
parameter, by the level that makes the block largest (a fixed parameter first, then the lowest
parameter and level id). Seeds with the most evaluated neighbours come first; a seed inside an
earlier block is skipped. So every block is maximal and every such pair lies in a block. The
largest block may be missed, because finding it is hard (maximum biclique).

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., chapter 5 (factorials) and
section 4.4 (the least squares that put effects of incomplete blocks on one scale).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.data.observation import Observation, responses
from strategies.space.parameter_space import ParameterSpace

Effects: TypeAlias = tuple[tuple[float | None, ...], ...]
"""Main effect per parameter and level id, None where it is unknown."""

Cell: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[Cell, Cell, int]
"""Two configurations' level ids and the one position where they differ."""


@dataclass(frozen=True, slots=True)
class FactorialBlock:
    """Subset of levels per parameter of which all combinations have been run."""

    # ascending level ids per parameter; all their combinations have been run. A parameter with
    # one level is held fixed
    level_ids: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of level combinations in the block."""
        return math.prod(len(ids) for ids in self.level_ids)

    @property
    def varied(self) -> tuple[int, ...]:
        """Positions of the parameters with at least two levels."""
        return tuple(i for i, ids in enumerate(self.level_ids) if len(ids) > 1)


def find_blocks(
    space: ParameterSpace, observations: Sequence[Observation]
) -> tuple[FactorialBlock, ...]:
    """Return complete factorial blocks with at least two runs, the largest first.

    The order of the observations does not matter; replicates count once. Raises `SpaceError` if an
    observation is not of this space.
    """
    for observation in observations:
        space.index(observation.configuration)
    evaluated = _EvaluatedCells({o.configuration.level_ids for o in observations})
    blocks = []
    for first, second, position in evaluated.pairs():
        if not evaluated.is_covered(first, second, position):
            block = evaluated.grown(first, second, position)
            evaluated.cover(block)
            blocks.append(block)
    return tuple(sorted(blocks, key=lambda block: (-block.size, block.level_ids)))


def block_effects(
    space: ParameterSpace,
    observations: Sequence[Observation],
    blocks: Sequence[FactorialBlock] | None = None,
) -> Effects:
    """Estimate the main effects of levels from complete factorial blocks.

    In a block in which a parameter has two levels or more, a level's contrast is its marginal
    mean (over means of replicates) less the block mean. Blocks may hold different levels, so
    effects are put on one scale by weighted least squares: marginal mean = a constant of the
    block + the effect of the level, weighted by the runs behind a marginal mean (block size /
    levels of the parameter). Effects sum to zero over the levels compared.

    None for a level that no block varies, and for one that no chain of blocks ties to the
    greatest group of compared levels (the group with the most runs among equals). A parameter
    with one level in all has effect 0 once it has a run. By default the blocks are found.
    """
    if blocks is None:
        blocks = find_blocks(space, observations)
    cells = _cell_means(observations)
    counts = [
        Counter(o.configuration.level_ids[i] for o in observations)
        for i in range(len(space.parameters))
    ]
    effects = []
    for position, parameter in enumerate(space.parameters):
        level_effects: list[float | None] = [None] * parameter.n_levels
        if parameter.n_levels == 1 and cells:
            level_effects = [0.0]
        for level_id, effect in _effects_of(position, blocks, cells, counts[position]):
            level_effects[level_id] = effect
        effects.append(tuple(level_effects))
    return tuple(effects)


class _EvaluatedCells:
    """Evaluated configurations, with the evaluated levels on every line through each.

    A line is a configuration with one parameter left open; its levels are bits of an int.
    """

    def __init__(self, cells: set[Cell]) -> None:
        self._cells = sorted(cells)
        lines: dict[tuple[int, Cell], int] = {}
        for cell in self._cells:
            for position, level_id in enumerate(cell):
                line = _line(cell, position)
                lines[line] = lines.get(line, 0) | 1 << level_id
        self._levels = {
            cell: [lines[_line(cell, position)] for position in range(len(cell))]
            for cell in self._cells
        }
        self._covered: dict[tuple[int, Cell], list[int]] = {}

    def pairs(self) -> list[Pair]:
        """Return pairs of configurations that differ in one parameter, best connected first."""
        degree = {c: sum(mask.bit_count() for mask in m) for c, m in self._levels.items()}
        neighbours = [
            (cell, (*cell[:position], other, *cell[position + 1 :]), position)
            for cell in self._cells
            for position, mask in enumerate(self._levels[cell])
            for other in _bits(mask >> (cell[position] + 1) << (cell[position] + 1))
        ]
        return sorted(neighbours, key=lambda pair: (-degree[pair[0]] - degree[pair[1]], pair))

    def is_covered(self, first: Cell, second: Cell, position: int) -> bool:
        both = 1 << first[position] | 1 << second[position]
        covered = self._covered.get(_line(first, position), ())
        return any(mask & both == both for mask in covered)

    def cover(self, block: FactorialBlock) -> None:
        for position in block.varied:
            mask = sum(1 << level_id for level_id in block.level_ids[position])
            fixed = [ids[:1] if i == position else ids for i, ids in enumerate(block.level_ids)]
            for cell in itertools.product(*fixed):
                self._covered.setdefault(_line(cell, position), []).append(mask)

    def grown(self, first: Cell, second: Cell, position: int) -> FactorialBlock:
        """Extend a pair of configurations to a maximal complete factorial block."""
        levels = [[level_id] for level_id in first]
        levels[position].append(second[position])
        cells = [first, second]
        # levels that every cell of the block has on its line: exactly those can be added
        common = [a & b for a, b in zip(self._levels[first], self._levels[second], strict=True)]
        while (step := _best_step(levels, common)) is not None:
            grows, level_id = step
            anchor = levels[grows][0]
            added = [
                (*cell[:grows], level_id, *cell[grows + 1 :])
                for cell in cells
                if cell[grows] == anchor
            ]
            levels[grows].append(level_id)
            cells += added
            for cell in added:
                common = [a & b for a, b in zip(common, self._levels[cell], strict=True)]
        return FactorialBlock(tuple(tuple(sorted(ids)) for ids in levels))


def _best_step(levels: Sequence[Sequence[int]], common: Sequence[int]) -> tuple[int, int] | None:
    """Return the (position, level id) that makes a block largest, None if it is maximal."""
    best: tuple[int, int, int] | None = None
    for position, (ids, mask) in enumerate(zip(levels, common, strict=True)):
        addable = mask & ~sum(1 << level_id for level_id in ids)
        if addable and (best is None or len(ids) < best[0]):  # growth is 1 + 1 / levels
            best = (len(ids), position, (addable & -addable).bit_length() - 1)
    return None if best is None else best[1:]


def _bits(mask: int) -> list[int]:
    """Return the set bits of a mask, lowest first."""
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


def _line(cell: Cell, position: int) -> tuple[int, Cell]:
    return position, (*cell[:position], *cell[position + 1 :])


def _cell_means(observations: Sequence[Observation]) -> dict[Cell, float]:
    """Return the mean response per configuration less the first response; ties give exactly 0."""
    response = responses(observations)
    sums: dict[Cell, list[float]] = {}
    for observation, value in zip(observations, response, strict=True):
        sums.setdefault(observation.configuration.level_ids, []).append(float(value - response[0]))
    return {cell: math.fsum(values) / len(values) for cell, values in sums.items()}


def _effects_of(
    position: int,
    blocks: Sequence[FactorialBlock],
    cells: dict[Cell, float],
    counts: Mapping[int, int],
) -> list[tuple[int, float]]:
    """Return (level id, effect) of a parameter's levels that blocks put on one scale."""
    varying = [block for block in blocks if len(block.level_ids[position]) > 1]
    compared = sorted({level_id for block in varying for level_id in block.level_ids[position]})
    if not compared:
        return []
    place = {level_id: i for i, level_id in enumerate(compared)}
    normal = np.zeros((len(compared), len(compared)))
    right = np.zeros(len(compared))
    for block in varying:
        index = np.array([place[level_id] for level_id in block.level_ids[position]])
        weight = block.size / index.size
        normal[np.ix_(index, index)] += weight * (np.eye(index.size) - 1 / index.size)
        right[index] += weight * _contrasts(block, position, cells)
    group = max(
        _groups(normal),
        key=lambda g: (len(g), sum(counts[compared[i]] for i in g), -g[0]),
    )
    # the rows sum to zero, and so will the solution: add that constraint to the matrix
    matrix = normal[np.ix_(group, group)] + 1 / len(group)
    solution = np.linalg.solve(matrix, right[group])
    return [(compared[i], float(effect)) for i, effect in zip(group, solution, strict=True)]


def _contrasts(
    block: FactorialBlock, position: int, cells: dict[Cell, float]
) -> NDArray[np.float64]:
    """Return the marginal means of a parameter's levels in a block, less the block mean."""
    shape = [len(ids) for ids in block.level_ids]
    values = np.array([cells[cell] for cell in itertools.product(*block.level_ids)])
    # not reshaped to all parameters at once: numpy allows 64 axes only
    before, after = math.prod(shape[:position]), math.prod(shape[position + 1 :])
    marginal = values.reshape(before, shape[position], after).mean(axis=(0, 2))
    contrasts: NDArray[np.float64] = marginal - marginal.mean()
    return contrasts


def _groups(normal: NDArray[np.float64]) -> list[list[int]]:
    """Return the connected groups of levels, tied by common blocks."""
    left = set(range(len(normal)))
    groups = []
    while left:
        group, frontier = set(), {min(left)}
        while frontier:
            level = frontier.pop()
            group.add(level)
            left.discard(level)
            frontier |= {int(i) for i in np.flatnonzero(normal[level])} & left
        groups.append(sorted(group))
    return groups
