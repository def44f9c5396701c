"""The response map of an experiment, made ready to be drawn. Nothing is drawn here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from assistant import Experiment, Run, RunState
from assistant.charts import Spec
from assistant.charts_space import CellRegions, CellValues, Dark, Kind, Mark, Nested, response_map
from assistant.expectation import FEW, Expectations, expectations
from assistant.report.words import level
from assistant.response_map import (
    Admitted,
    Fold,
    Grid,
    MeasuredCells,
    admitted,
    arranged,
    folded,
    held_at,
    key_of,
    measured,
    regions_of,
)
from assistant.ui.words import column, titled
from strategies import Configuration, Level, ParameterSpace, Region, find_regions

Mode = Literal["measured", "predicted", "uncertainty", "regions"]
MODES: tuple[Mode, ...] = get_args(Mode)

_DIGITS = 5


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A map and what was found on the way.

    Args:
        mode: what its colour says.
        grid: its cells.
        measured: what the runs shown measured.
        expected: what the model expects; None if that was not asked for or cannot be said.
        regions: of good results, best first.
        region_ids: the region of each cell, 0 for none.
        admitted: see `response_map.Admitted`.
        is_admission_known: false where only levels could be looked at.
        hidden: runs that lie in no cell.
        spec: the chart.
    """

    mode: Mode
    grid: Grid
    measured: MeasuredCells
    expected: Expectations | None
    regions: tuple[Region, ...]
    region_ids: NDArray[np.int64]
    admitted: NDArray[np.int8]
    is_admission_known: bool
    hidden: int
    spec: Spec

    @property
    def values(self) -> NDArray[np.float64]:
        """The numbers behind the colour, NaN where there is none."""
        return shown_values(self.mode, self.measured, self.expected)


@dataclass(frozen=True, slots=True)
class Centre:
    """Where parameters are held that lie on no axis.

    Args:
        configuration: whose levels they are.
        words: which one that is, as in "as in ...".
    """

    configuration: Configuration
    words: str


def centre_of(experiment: Experiment) -> Centre | None:
    """Return the best configuration, else today's, else the first allowed one, if there is any."""
    if experiment.best is not None:
        return Centre(experiment.best.configuration, f"the best run ({experiment.best.id})")
    if experiment.opened.baseline is not None:
        return Centre(experiment.opened.baseline, "today's configuration")
    first = next(experiment.space.configurations(), None)
    return None if first is None else Centre(first, "the first allowed configuration")


def dark_of(experiment: Experiment) -> Dark:
    """Return which measured values are drawn dark."""
    return "low" if experiment.opened.objective.goal == "minimise" else "high"


def value_title(experiment: Experiment) -> str:
    """Return the name of the measured value with its unit."""
    objective = experiment.opened.objective
    return titled(str(objective.wrapper), objective.unit)


def too_few(experiment: Experiment) -> str:
    """Say why nothing can be predicted; empty if it can."""
    n = len(experiment.measured)
    if n >= FEW:
        return ""
    have = "none has" if n == 0 else f"only {n} has"
    return f"A prediction needs {FEW} finished runs, and {have} finished."


def draw(
    experiment: Experiment, fold: Fold, mode: Mode, runs: Sequence[Run], chosen: str = ""
) -> Drawn:
    """Return the map of an experiment.

    Args:
        experiment: what is known; predictions and regions rest on all of it.
        fold: which parameters lie where.
        mode: what the colour says.
        runs: those that are marked and whose values are drawn.
        chosen: key of the cell that is selected.
    Raises what `response_map.folded` does.
    """
    space = experiment.space
    grid = folded(space, fold)
    cells = measured(grid, runs)
    expected = None
    if mode in ("predicted", "uncertainty"):
        expected = expectations(experiment, grid.level_ids, grid.over)
    rule = experiment.watch.regions
    regions = find_regions(experiment.knowledge, rule)
    region_ids = regions_of(grid, regions, rule.radius)
    states, is_known = admitted(grid)
    marks = _marks(experiment, grid, mode, runs, regions)
    spec = response_map(
        _axis(space, fold.across),
        _axis(space, fold.down),
        _colour(experiment, mode, cells, expected, region_ids),
        states.tolist(),
        marks,
        fixed=key_of(_held_ids(grid)),
        chosen=chosen,
    )
    hidden = sum(grid.place(run.configuration) is None for run in runs)
    return Drawn(
        mode, grid, cells, expected, regions, region_ids, states, is_known, hidden, spec
    )  # fmt: skip


def of_regions(experiment: Experiment) -> Drawn | None:
    """Return the map of the regions as it is arranged at first; None if no cell is allowed."""
    centre, model = centre_of(experiment), experiment.measured_anova
    if centre is None:
        return None
    fold = arranged(experiment.space, {} if model is None else model.shares)
    fold = held_at(experiment.space, fold, centre.configuration)
    return draw(experiment, fold, "regions", experiment.runs)


def cell_of(grid: Grid, configuration: Configuration) -> int | None:
    """Return the cell in which a configuration lies; None if it lies in none."""
    place = grid.place(configuration)
    return None if place is None else grid.cell(place)


def shown_values(
    mode: Mode, cells: MeasuredCells, expected: Expectations | None
) -> NDArray[np.float64]:
    """Return the numbers behind the colour of a map, NaN where there is none."""
    if mode == "measured":
        return cells.values
    if expected is None:
        return np.full(len(cells.values), np.nan)
    return expected.values if mode == "predicted" else expected.highs - expected.lows


def cell_levels(grid: Grid, cell: int) -> dict[str, Level]:
    """Return the levels of the parameters that a cell says, by their headings."""
    return {
        column(p): p.levels[own]
        for p, own in zip(grid.space.parameters, grid.level_ids[cell].tolist(), strict=True)
        if own >= 0
    }


def _held_ids(grid: Grid) -> list[int]:
    ids: list[int] = grid.level_ids[0].tolist()
    shown = grid.fold.shown
    return [-1 if name in shown else i for name, i in zip(grid.space.names, ids, strict=True)]


def _axis(space: ParameterSpace, names: Sequence[str]) -> list[Nested]:
    nested = []
    for name in names:
        position, parameter = space.names.index(name), space.parameter(name)
        ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        texts = tuple(level(parameter.levels[i]) for i in ids)
        nested.append(Nested(column(parameter), texts, tuple(f"{position}:{i}" for i in ids)))
    return nested


def _colour(
    experiment: Experiment,
    mode: Mode,
    cells: MeasuredCells,
    expected: Expectations | None,
    region_ids: NDArray[np.int64],
) -> CellValues | CellRegions:
    if mode == "regions":
        return CellRegions(region_ids.tolist())
    title = value_title(experiment)
    values = _listed(shown_values(mode, cells, expected))
    if mode == "measured" or expected is None:
        return CellValues(f"{mode} {title}", values, dark_of(experiment), is_measured=True)
    ends = _listed(expected.lows), _listed(expected.highs)
    if mode == "predicted":
        return CellValues(f"predicted {title}", values, dark_of(experiment), *ends)
    named = f"width of the 95 % interval of {title}"
    return CellValues(named, values, "low", *ends, better="surer")


def _listed(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers with a few digits, which is all that a colour shows and a tooltip says."""
    return [None if isnan(x) else float(f"{x:.{_DIGITS}g}") for x in values.tolist()]


def _marks(
    experiment: Experiment,
    grid: Grid,
    mode: Mode,
    runs: Sequence[Run],
    regions: Sequence[Region],
) -> list[Mark]:
    """Return one mark for each cell and kind; today and best come last."""
    found: dict[tuple[int, int, Kind], str] = {}

    def mark(configuration: Configuration, kind: Kind, text: str = "") -> None:
        place = grid.place(configuration)
        if place is not None:
            found[(*place, kind)] = text

    of_run = _in_regions(regions) if mode == "regions" else _by_result(mode)
    for run in runs:
        kind = of_run(run)
        if kind is not None:
            mark(run.configuration, kind)
    batch = experiment.open_batch
    for suggestion in () if batch is None else batch.suggestions:
        mark(suggestion.configuration, "suggested")
    if mode == "regions":
        for region in regions:
            mark(region.best.configuration, "good member", str(region.id))
    if experiment.opened.baseline is not None:
        mark(experiment.opened.baseline, "today")
    if experiment.best is not None:
        mark(experiment.best.configuration, "best")
    return [Mark(x, y, kind, text) for (x, y, kind), text in found.items()]


_WAITING: dict[RunState, Kind] = {
    RunState.QUEUED: "waiting",
    RunState.RUNNING: "running",
    RunState.FAILED: "failed",
}


def _by_result(mode: Mode) -> Callable[[Run], Kind | None]:
    def kind_of(run: Run) -> Kind | None:
        if run.outcome is None:
            return _WAITING.get(run.state)
        if not run.outcome.feasible:
            return "violates a constraint"
        return None if mode == "measured" else "measured"  # its colour says it

    return kind_of


def _in_regions(regions: Sequence[Region]) -> Callable[[Run], Kind | None]:
    members = {configuration for region in regions for configuration in region.members}

    def kind_of(run: Run) -> Kind | None:
        if run.outcome is None:
            return _WAITING.get(run.state)
        return "good member" if run.configuration in members else "evaluated"

    return kind_of


def shut_words(state: int) -> str:
    """Say whether what a cell stands for may be proposed."""
    said = {Admitted.CLOSED: "no, closed", Admitted.EXCLUDED: "no, excluded"}
    return said.get(Admitted(state), "yes")
