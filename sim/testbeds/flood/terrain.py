"""A small seeded catchment: elevations, where the water of every cell goes, how soils differ.

Every cell drains to one of its eight neighbours (D8: O'Callaghan and Mark 1984), and in the end to
one outlet on the lower edge. Pits are filled up by a priority flood from the outlet (Barnes,
Lehman and Mulla 2014), with a least fall from cell to cell.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sim.errors import SetupError

if TYPE_CHECKING:
    from scipy import sparse

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_SIZE = 4
LEAST_SLOPE = 0.002
"""Fall over distance between a cell and the one that it drains to, at least."""

SOIL_SPREAD = 0.15
"""A cell takes in water as fast as the soil's conductivity says, give or take this share."""


@dataclass(frozen=True, eq=False)
class Terrain:
    """Cells of a square grid, numbered row by row from the upper left.

    Attributes:
        columns: cells of a row.
        cell_m: edge of a cell.
        elevation_m: float64 [n_cells], pits filled.
        downstream: int64 [n_cells], the cell that each drains to; -1 at the outlet.
        slope: float64 [n_cells], fall over distance along that way.
        soil: float64 [n_cells], factor of the soil's conductivity, within `SOIL_SPREAD` of 1.
    """

    columns: int
    cell_m: float
    elevation_m: Floats
    downstream: Ints
    slope: Floats
    soil: Floats

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return int(self.elevation_m.size)

    @property
    def rows(self) -> int:
        """How many rows of cells."""
        return self.n_cells // self.columns

    @property
    def area_m2(self) -> float:
        """Area of the catchment."""
        return self.n_cells * self.cell_m**2

    @cached_property
    def outlet(self) -> int:
        """The cell through which the water leaves."""
        return int(np.flatnonzero(self.downstream < 0)[0])

    @cached_property
    def drained_cells(self) -> Ints:
        """How many cells drain through each, itself included; int64 [n_cells]."""
        drained = np.ones(self.n_cells, dtype=np.int64)
        for cell in np.argsort(-self.elevation_m, kind="stable"):
            if self.downstream[cell] >= 0:
                drained[self.downstream[cell]] += drained[cell]
        return drained

    @cached_property
    def donors(self) -> sparse.csr_matrix:
        """Ones where the row's cell is fed by the column's cell; [n_cells, n_cells]."""
        from scipy import sparse

        fed = np.flatnonzero(self.downstream >= 0)
        ones = np.ones(fed.size)
        shape = (self.n_cells, self.n_cells)
        return sparse.csr_matrix((ones, (self.downstream[fed], fed)), shape=shape)

    @cached_property
    def sensors(self) -> tuple[int, ...]:
        """The outlet and the two streams that meet where the smaller one is largest."""
        best = 0
        met: tuple[int, ...] = (self.outlet,)
        for cell in range(self.n_cells):
            fed_by = np.flatnonzero(self.downstream == cell)
            if fed_by.size < 2:
                continue
            order = fed_by[np.argsort(-self.drained_cells[fed_by], kind="stable")]
            second = int(self.drained_cells[order[1]])
            if second > best:
                best, met = second, (self.outlet, int(order[0]), int(order[1]))
        return met


def make_terrain(seed: np.random.SeedSequence, size: int = 24, cell_m: float = 50.0) -> Terrain:
    """Draw a catchment: a valley that winds down to the lower edge, with hills on both sides.

    Raises `SetupError` for fewer than 4 rows or cells without an edge.
    """
    if size < LEAST_SIZE or not cell_m > 0:
        raise SetupError(
            f"a terrain of {size} x {size} cells of {cell_m} m; allowed are {LEAST_SIZE} rows or "
            "more and an edge above 0 m."
        )
    rng = np.random.default_rng(seed)
    row, column = (axis / (size - 1) for axis in np.mgrid[0:size, 0:size].astype(np.float64))
    bends, phase = rng.uniform(0.8, 1.6), rng.uniform(0.0, 2.0 * np.pi)
    middle = 0.5 + 0.2 * np.sin(2.0 * np.pi * bends * row + phase)
    height_m = 45.0 * (1.0 - row) + 90.0 * np.abs(column - middle) ** 1.4
    for blur, metres in ((size / 8, 14.0), (size / 20, 5.0)):
        height_m = height_m + metres * _smooth(rng, size, blur)
    outlet = int(np.argmin(height_m[-1])) + size * (size - 1)
    filled_m = _filled(height_m.ravel(), outlet, size, cell_m)
    downstream, slope = _steepest(filled_m, outlet, size, cell_m)
    soil = 1.0 + SOIL_SPREAD * np.clip(0.5 * _smooth(rng, size, size / 8), -1.0, 1.0).ravel()
    return Terrain(size, cell_m, filled_m - filled_m.min(), downstream, slope, soil)


def make_plane(n_cells: int, cell_m: float, slope: float) -> Terrain:
    """Return one column of cells that falls evenly to its last one, for known answers."""
    cells = np.arange(n_cells)
    downstream = np.append(cells[1:], -1)
    plain = np.ones(n_cells)
    fall_m = slope * cell_m * cells[::-1]
    return Terrain(1, cell_m, fall_m.astype(np.float64), downstream, slope * plain, plain)


def _smooth(rng: np.random.Generator, size: int, blur: float) -> Floats:
    """Draw a smooth surface of mean 0 and standard deviation 1, ``blur`` cells across."""
    from scipy import ndimage

    drawn = ndimage.gaussian_filter(rng.standard_normal((size, size)), blur, mode="reflect")
    return np.asarray((drawn - drawn.mean()) / drawn.std(), dtype=np.float64)


def _neighbours(cell: int, size: int) -> Iterator[tuple[int, float]]:
    """Yield the cells around one, with their distance in edges."""
    row, column = divmod(cell, size)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            inside = 0 <= row + down < size and 0 <= column + right < size
            if inside and (down or right):
                yield cell + down * size + right, float(np.hypot(down, right))


def _filled(height_m: Floats, outlet: int, size: int, cell_m: float) -> Floats:
    """Raise every cell just so far that a way down to the outlet begins in it."""
    filled_m = height_m.copy()
    seen = {outlet}
    front = [(float(filled_m[outlet]), outlet)]
    while front:
        level_m, cell = heapq.heappop(front)
        for beside, edges in _neighbours(cell, size):
            if beside in seen:
                continue
            seen.add(beside)
            filled_m[beside] = max(filled_m[beside], level_m + LEAST_SLOPE * cell_m * edges)
            heapq.heappush(front, (float(filled_m[beside]), beside))
    return filled_m


def _steepest(filled_m: Floats, outlet: int, size: int, cell_m: float) -> tuple[Ints, Floats]:
    """Return for every cell the neighbour of the steepest way down, and its slope."""
    downstream = np.full(filled_m.size, -1, dtype=np.int64)
    slope = np.full(filled_m.size, LEAST_SLOPE)
    for cell in range(filled_m.size):
        if cell == outlet:
            continue
        falls = [
            ((filled_m[cell] - filled_m[beside]) / (cell_m * edges), beside)
            for beside, edges in _neighbours(cell, size)
        ]
        slope[cell], downstream[cell] = max(falls, key=lambda fall: (fall[0], -fall[1]))
    inflow = slope[downstream == outlet]
    slope[outlet] = inflow.mean()  # the water leaves as it came
    return downstream, slope
