"""Response map: grid of results with several parameters on each axis, a cell per configuration.

On each axis parameters are nested, the first one moving slowest, as in figure 5 of the Copper
paper. Other parameters are fixed at a level, or all their levels share a cell. Only the cells of
the map are made, never the whole space. Also the values and durations that the ANOVA model
predicts for configurations.
"""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from assistant.core.errors import ExperimentError
from assistant.core.experiment import Experiment
from assistant.core.run import ConfigurationSummary, Run, best_of, configuration_summaries
from strategies import (
    AnovaModel,
    Configuration,
    Level,
    Observation,
    Parameter,
    ParameterSpace,
    Region,
)
from strategies.gp.run_interval import LEAST_RUNS, Point, interval_words
from strategies.steering.regions import squared_radius

Ids = NDArray[np.int64]


MOST_CELLS = 20_000

MOST_ALONG = 1_000  # Largest number of columns or rows, so that each cell stays visible

ANY = -1  # Placeholder of a level id: all levels of the parameter share the cell
CellPosition = tuple[int, int]


class CellAdmission(IntEnum):
    """State of a map cell: its configurations may be tried (open), are closed, or are excluded.

    An inactive cell is the same configuration as another one, because a parameter does not matter.
    """

    OPEN = 0
    CLOSED = 1
    EXCLUDED = 2
    INACTIVE = 3


@dataclass(frozen=True, slots=True)
class Fold:
    """Assignment of parameters to the axes of a response map; ``at`` fixes other parameters."""

    across: tuple[str, ...]
    down: tuple[str, ...] = ()
    at: Mapping[str, Level] | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the parameters on the two axes, those of the horizontal axis first."""
        return self.across + self.down


@dataclass(frozen=True, eq=False)
class Grid:
    """Grid of a response map: the level combinations of its columns and of its rows.

    Args:
        across: level ids [columns, parameters on that axis], levels by rank.
        down: level ids [rows, parameters on that axis].

    Not slotted, because cached properties need a dictionary.
    """

    space: ParameterSpace
    fold: Fold
    across: Ids
    down: Ids

    @property
    def columns(self) -> int:
        """Number of columns of the map."""
        return len(self.across)

    @property
    def rows(self) -> int:
        """Number of rows of the map."""
        return len(self.down)

    @cached_property
    def over(self) -> tuple[int, ...]:
        """Positions of the parameters that are neither on an axis nor fixed."""
        separate_names = {*self.fold.axes, *(self.fold.at or {})}
        return tuple(i for i, name in enumerate(self.space.names) if name not in separate_names)

    @cached_property
    def level_ids(self) -> Ids:
        """Level ids of each cell, int64 [cells, parameters]; `ANY` where a cell has all levels."""
        ids = np.full((self.rows * self.columns, len(self.space.parameters)), ANY, dtype=np.int64)
        for name, level_id in self._held.items():
            ids[:, self.space.names.index(name)] = level_id
        for column, name in enumerate(self.fold.across):
            ids[:, self.space.names.index(name)] = np.tile(self.across[:, column], self.rows)
        for column, name in enumerate(self.fold.down):
            ids[:, self.space.names.index(name)] = np.repeat(self.down[:, column], self.columns)
        if not self.over:  # a level that is fixed is none where the parameter is inactive
            held = [self.space.names.index(name) for name in self._held]
            ids[:, held] = self.space.canonical_ids(ids)[:, held]
        ids.flags.writeable = False
        return ids

    def cells(self, configurations: Sequence[Configuration]) -> Ids:
        """Return the cell of each configuration, counted row by row from 0, int64 [n].

        It is `ANY` for a configuration that differs from a fixed level.
        """
        ids = self.space.level_ids(configurations)
        inside = np.ones(len(ids), dtype=np.bool_)
        if self._held:
            held = [self.space.names.index(name) for name in self._held]
            fixed = np.array(list(self._held.values()), dtype=np.int64)
            inside = ((ids[:, held] == fixed) | self.space.inactive_in(ids)[:, held]).all(axis=1)
        columns = self._along(self.fold.across, ids)
        rows = self._along(self.fold.down, ids)
        return np.where(inside, rows * self.columns + columns, ANY)

    def place(self, configuration: Configuration) -> CellPosition | None:
        """Return (column, row) of a configuration; None if it differs from a fixed level."""
        (cell,) = self.cells((configuration,)).tolist()
        return None if cell == ANY else (cell % self.columns, cell // self.columns)

    def cell(self, place: CellPosition) -> int:
        """Return the number of the cell at (column, row), counted row by row from 0."""
        return place[1] * self.columns + place[0]

    def _along(self, axis: Sequence[str], ids: Ids) -> Ids:
        """Return where configurations lie along an axis, int64 [n]; the last name is innermost."""
        along = np.zeros(len(ids), dtype=np.int64)
        for name in axis:
            parameter = self.space.parameter(name)
            ranks = np.array(parameter.ranks, dtype=np.int64)
            along = along * parameter.n_levels + ranks[ids[:, self.space.names.index(name)]]
        return along

    @cached_property
    def _held(self) -> dict[str, int]:
        at = self.fold.at or {}
        return {name: self.space.parameter(name).level_id(value) for name, value in at.items()}


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCells:
    """Measured results of the runs, arranged by map cell.

    Args:
        values: float64 [cells], NaN without a result; the best of several configurations.
        n_runs: completed runs in each cell, int64 [cells].
        outside: completed runs in no cell, because a parameter is fixed at another level.
    """

    values: NDArray[np.float64]
    n_runs: Ids
    outside: int


def build_grid(space: ParameterSpace, fold: Fold) -> Grid:
    """Build the grid of a response map from the parameters on its axes.

    Raises:
        ExperimentError: a parameter is named twice, or there are more than `MOST_CELLS` cells or
            more than `MOST_ALONG` along an axis.
        StrategyError: a name that is no parameter, or a value that is no level.
    """
    names = [*fold.axes, *(fold.at or {})]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ExperimentError(
            f"the parameter '{twice}' is on the map twice; take it off one of the axes"
        )
    columns, rows = (
        math.prod(space.parameter(name).n_levels for name in axis)
        for axis in (fold.across, fold.down)
    )
    if columns * rows > MOST_CELLS or max(columns, rows) > MOST_ALONG:
        raise ExperimentError(
            f"these axes make {columns:,} x {rows:,} cells; a map has at most {MOST_CELLS:,}, and "
            f"{MOST_ALONG:,} along an axis, so take a parameter off an axis"
        )
    grid = Grid(space, fold, _axis(space, fold.across), _axis(space, fold.down))
    _ = grid._held  # checks the levels here, not where they are first needed
    return grid


def _axis(space: ParameterSpace, names: Sequence[str]) -> Ids:
    parts = [_by_rank(space.parameter(name)) for name in names]
    combinations = list(itertools.product(*parts))
    return np.array(combinations, dtype=np.int64).reshape(len(combinations), len(names))


def _by_rank(parameter: Parameter) -> list[int]:
    return sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)


def arrange_axes(space: ParameterSpace, weights: Mapping[str, float]) -> Fold:
    """Assign parameters to two axes so that the map is as nearly square as possible.

    The parameters with the greatest weights are outermost. If not all fit, the others are on no
    axis.

    Args:
        space: space to fold; parameters with one level are on no axis.
        weights: how much a parameter matters, 0 by default; see `effects.parameter_ranges`.
    """
    by_weight = sorted(
        (p for p in space.parameters if 1 < p.n_levels <= MOST_ALONG),
        key=lambda p: (-weights.get(p.name, 0.0), space.names.index(p.name)),
    )
    axis_parameters: list[Parameter] = []
    n_cells = 1
    for parameter in by_weight:
        if n_cells * parameter.n_levels <= MOST_CELLS:
            axis_parameters.append(parameter)
            n_cells *= parameter.n_levels

    def oblong(down: tuple[Parameter, ...]) -> tuple[float, int]:
        rows = math.prod(p.n_levels for p in down)
        is_tall = rows * rows > n_cells
        return abs(math.log(n_cells) - 2 * math.log(rows)) + 1e-6 * is_tall, len(down)

    choices = (
        c
        for n in range(len(axis_parameters) + 1)
        for c in itertools.combinations(axis_parameters, n)
    )
    down = min(choices, key=oblong)
    across = tuple(p.name for p in axis_parameters if p not in down)
    return Fold(across, tuple(p.name for p in down))


def fix_levels(space: ParameterSpace, fold: Fold, configuration: Configuration) -> Fold:
    """Fix every parameter that is on no axis at its level in a configuration."""
    ids = zip(space.parameters, configuration.level_ids, strict=True)
    return Fold(
        fold.across,
        fold.down,
        {p.name: p.levels[i] for p, i in ids if p.name not in fold.axes},
    )


def admitted(grid: Grid) -> tuple[NDArray[np.int8], bool]:
    """Return each cell's `CellAdmission`, int8 [cells], and whether exclusions were checked.

    A shared cell is open if one of its configurations is. Exclusions that name more parameters than
    can be combined are left out (`ParameterSpace.count_allowed`); only levels count then.
    """
    space, ids = grid.space, grid.level_ids
    open_cells = np.ones(len(ids), dtype=np.bool_)
    for column, open_ids in enumerate(space.open_ids):
        if column not in grid.over:
            open_cells &= np.isin(ids[:, column], open_ids)
    cells = np.where(open_cells, CellAdmission.OPEN, CellAdmission.CLOSED).astype(np.int8)
    if not space.exclusions and not space.rows and space.conditions is None:
        return cells, True
    rows = np.flatnonzero(open_cells)
    if not grid.over:
        for row in rows:
            cell = Configuration(tuple(ids[row].tolist()), space.lineage)
            if not space.is_allowed(cell):
                same = space.canonical(cell.level_ids)
                is_inactive = same != cell and space.is_allowed(same)
                cells[row] = CellAdmission.INACTIVE if is_inactive else CellAdmission.EXCLUDED
        return cells, True
    fixed_columns = [i for i in range(len(space.parameters)) if i not in grid.over]
    allowed = space.allowed_combinations([space.names[i] for i in fixed_columns])
    if allowed is None:
        return cells, False
    for row in rows:
        if tuple(ids[row, fixed_columns].tolist()) not in allowed:
            cells[row] = CellAdmission.EXCLUDED
    return cells, True


def measure_cells(grid: Grid, runs: Iterable[Run]) -> MeasuredCells:
    """Arrange results by cell, using the mean of each configuration's completed runs."""
    values = np.full(len(grid.level_ids), np.nan)
    n_runs = np.zeros(len(grid.level_ids), dtype=np.int64)
    outside = 0
    by_cell: dict[int, list[ConfigurationSummary]] = {}
    summaries = tuple(configuration_summaries(runs).values())
    cells = grid.cells([summary.configuration for summary in summaries]).tolist()
    for cell, summary in zip(cells, summaries, strict=True):
        if cell == ANY:
            outside += summary.n
        else:
            by_cell.setdefault(cell, []).append(summary)
    for cell, summaries_of_cell in by_cell.items():
        best = best_of(summaries_of_cell)
        if best is not None:
            values[cell] = best.outcome.value
        n_runs[cell] = sum(summary.n for summary in summaries_of_cell)
    return MeasuredCells(values, n_runs, outside)


def regions_of(grid: Grid, regions: Sequence[Region], eps: float) -> Ids:
    """Return the number of the region that contains each cell, int64 [cells]; 0 for no region.

    Of several regions the best one. A shared cell lies in a region if one of its configurations
    does; see `Region.contains`.
    """
    ids = grid.level_ids
    region_ids = np.zeros(len(ids), dtype=np.int64)
    looked_at = [i for i in range(ids.shape[1]) if i not in grid.over]
    for region in sorted(regions, key=lambda candidate: -candidate.id):
        inside = np.ones(len(ids), dtype=np.bool_)
        for column in looked_at:
            inside &= np.isin(ids[:, column], region.box[column])
        member_levels = {tuple(member.level_ids[i] for i in looked_at) for member in region.members}
        for member in member_levels:
            squared = np.zeros(len(ids), dtype=np.int64)
            for column, level_id in zip(looked_at, member, strict=True):
                squared += _squared_steps(grid.space.parameters[column], level_id)[ids[:, column]]
            inside |= squared <= squared_radius(eps)
        region_ids[inside] = region.id
    return region_ids


def _squared_steps(parameter: Parameter, level_id: int) -> Ids:
    """Return the squared level steps from one level to each, by level id.

    >>> _squared_steps(Parameter("p", (4, 1, 2)), 0).tolist()
    [0, 4, 1]
    """
    if parameter.kind == "nominal":
        return np.array([int(i != level_id) for i in range(parameter.n_levels)], dtype=np.int64)
    ranks = np.array(parameter.ranks, dtype=np.int64)
    squared: Ids = (ranks - ranks[level_id]) ** 2
    return squared


def key_of(level_ids: Sequence[int]) -> str:
    """Return level ids as a text key such as ``0:1 1:0`` (position:level id); `ANY` is left out.

    >>> key_of((1, 0)), key_of((ANY, 1))
    ('0:1 1:0', '1:1')
    """
    return " ".join(f"{i}:{level_id}" for i, level_id in enumerate(level_ids) if level_id != ANY)


def from_key(space: ParameterSpace, key: str, rest: Mapping[str, Level]) -> Configuration:
    """Parse the text key of a cell into a configuration; ``rest`` has the missing levels.

    ``rest`` has the levels of the parameters that the key leaves out.

    Raises:
        ExperimentError: the key is of no configuration of this space.
        StrategyError: a level of ``rest`` is missing or unknown.
    """
    names: dict[str, Level] = {}
    for part in key.split():
        match = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,7})", part)
        position, level_id = (int(match[1]), int(match[2])) if match else (ANY, ANY)
        if not 0 <= position < len(space.parameters) or (
            level_id >= space.parameters[position].n_levels
        ):
            raise ExperimentError(
                f"'{key}' is no cell of this map; choose a cell of the current map"
            )
        names[space.names[position]] = space.parameters[position].levels[level_id]
    return space.from_values({**rest, **names})


FEW = LEAST_RUNS  # Fewest results from which a value is predicted

FEW_DURATIONS = 5

_LEAST_S = 1e-6


def interval_name(experiment: Experiment, point: Point) -> str:
    """Return what intervals of one run are called, such as "95 % interval".

    By the level that was measured under the present strategy: of what it suggests ("chosen"), or
    of other configurations ("random").
    """
    return interval_words(experiment.steering.strategy, point)


@dataclass(frozen=True, slots=True)
class ExpectedMeasure:
    """Predicted value with its 95 % interval, in the unit of the objective or in seconds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedMeasureArrays:
    """Predicted values and their 95 % intervals, in the unit of the objective; float64 [n] each."""

    values: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]


def expected_measure(
    experiment: Experiment, configuration: Configuration
) -> ExpectedMeasure | None:
    """Predict the value of one run of a configuration; None with fewer than `FEW` results.

    Of two measures it is the first; constraints are not part of it.
    Raises SpaceError if the configuration is not of the experiment's space.
    """
    model = experiment.measured_anova
    if model is None or len(model.ids) < FEW:
        return None
    prediction = model.predict(configuration)
    assert prediction.interval is not None  # there are `FEW` results  # noqa: S101
    value_of = experiment.opened.objective.value_of
    ends = [value_of(end) for end in prediction.interval]
    return ExpectedMeasure(value_of(prediction.value), min(ends), max(ends))


def expected_measures(
    experiment: Experiment, level_ids: NDArray[np.int64], over: tuple[int, ...] = ()
) -> ExpectedMeasureArrays | None:
    """Predict the values of many configurations; None with fewer than `FEW` results.

    ``level_ids`` is int64 [n, parameters], a configuration a row. Parameters at the positions
    ``over`` are ignored: value and interval are then those of the mean over all their levels.
    """
    model = experiment.measured_anova
    if model is None or len(model.ids) < FEW:
        return None
    if over:
        fixed_columns = [i for i in range(level_ids.shape[1]) if i not in over]
        bands = model.average_all(fixed_columns, level_ids[:, fixed_columns])
    else:
        bands = model.predict_all(level_ids)
    if experiment.opened.objective.goal == "minimise":
        return ExpectedMeasureArrays(-bands.values, -bands.highs, -bands.lows)
    return ExpectedMeasureArrays(bands.values, bands.lows, bands.highs)


def expected_durations(
    experiment: Experiment, configurations: Sequence[Configuration]
) -> tuple[ExpectedMeasure, ...] | None:
    """Predict the duration of a run of each configuration in seconds; None with too few durations.

    The model is that of `expected_measure`; the run limit caps it. None below five durations, or
    if they do not differ.
    Raises SpaceError if a configuration is not of the experiment's space.
    """
    observations = [
        Observation(run.configuration, -max(run.duration_s, _LEAST_S))
        for run in experiment.runs
        if run.is_charged and run.outcome is not None and run.duration_s is not None
    ]
    if (
        len(observations) < FEW_DURATIONS
        or len({observation.quality for observation in observations}) == 1
    ):
        return None
    model = AnovaModel(experiment.space, observations)
    limit_s = experiment.sla.run_limit_s or math.inf
    expected = []
    for configuration in configurations:
        prediction = model.predict(configuration)
        assert prediction.interval is not None  # there are five results  # noqa: S101
        high, low = (min(-end, limit_s) for end in prediction.interval)
        expected.append(ExpectedMeasure(min(-prediction.value, limit_s), low, high))
    return tuple(expected)
