"""The response map of an experiment, ready to draw, and the panel of its selected cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Literal, get_args

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from assistant.analysis.effects import parameter_ranges
from assistant.analysis.response_map import (
    ANY,
    FEW,
    CellAdmission,
    ExpectedMeasureArrays,
    Fold,
    Grid,
    MeasuredCells,
    admitted,
    arrange_axes,
    build_grid,
    expected_measure,
    expected_measures,
    fix_levels,
    from_key,
    interval_name,
    key_of,
    measure_cells,
    regions_of,
)
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment, once_per_state
from assistant.core.run import Run, RunState
from assistant.presentation.charts.response_map import (
    CellRegions,
    CellValues,
    Dark,
    Kind,
    MapMark,
    NestedParameter,
    response_map,
)
from assistant.presentation.charts.vega_lite import Spec
from assistant.presentation.tables.queue import stopped_words
from assistant.presentation.text.number_format import (
    level_texts,
    number,
    quantity,
)
from assistant.ui import labels
from assistant.ui.intents import Intent, sentence
from assistant.ui.labels import column, measure_title
from assistant.ui.state import ExperimentView
from strategies import (
    Configuration,
    Level,
    NotAllowedError,
    ParameterSpace,
    Region,
    StrategyError,
)

Mode = Literal["measured", "predicted", "uncertainty", "regions"]
MODES: tuple[Mode, ...] = get_args(Mode)

_DIGITS = 5


@dataclass(frozen=True, slots=True, eq=False)
class SpaceMap:
    """Map of the parameter space with its chart and the values of its cells.

    Args:
        expected: predictions; None if not requested or not possible.
        admitted: see `response_map.Admitted`.
        is_admission_known: false where only levels could be checked.
        hidden: number of runs that lie in no cell.
    """

    mode: Mode
    grid: Grid
    measured: MeasuredCells
    expected: ExpectedMeasureArrays | None
    admitted: NDArray[np.int8]
    is_admission_known: bool
    hidden: int
    spec: Spec

    @property
    def values(self) -> NDArray[np.float64]:
        """Values shown by the colours of the cells, NaN where unknown."""
        return displayed_values(self.mode, self.measured, self.expected)


@dataclass(frozen=True, slots=True)
class Centre:
    """Configuration whose levels apply to the parameters that are on no map axis."""

    configuration: Configuration
    words: str


def centre_of(experiment: Experiment) -> Centre | None:
    """Return the best configuration, else the baseline, else the first allowed one, or None."""
    if experiment.best is not None:
        return Centre(experiment.best.configuration, f"the best run ({experiment.best.id})")
    if experiment.opened.baseline is not None:
        return Centre(experiment.opened.baseline, "the current configuration")
    first = next(experiment.space.configurations(), None)
    return None if first is None else Centre(first, "the first allowed configuration")


def dark_of(experiment: Experiment) -> Dark:
    """Return whether low or high measured values are drawn dark."""
    return "low" if experiment.opened.objective.goal == "minimise" else "high"


def value_title(experiment: Experiment) -> str:
    """Return the name of the objective's value with its unit."""
    objective = experiment.opened.objective
    return measure_title(str(objective.wrapper), objective.unit)


def too_few(experiment: Experiment) -> str:
    """Return why there are too few results for a prediction, or an empty text if enough."""
    n = len(experiment.observations)
    if n >= FEW:
        return ""
    have = "none has" if n == 0 else f"only {n} has"
    return f"A prediction needs {FEW} finished runs, and {have} finished."


def draw_map(
    experiment: Experiment, fold: Fold, mode: Mode, runs: Sequence[Run], selected: str = ""
) -> SpaceMap:
    """Return the map with measured values of the given runs and predictions from all runs.

    ``selected`` is the key of a cell. Raises the errors of `response_map.folded`.
    """
    space = experiment.space
    grid = build_grid(space, fold)
    cells = measure_cells(grid, runs)
    expected = None
    if mode in ("predicted", "uncertainty"):
        expected = expected_measures(experiment, grid.level_ids, grid.over)
    states, is_known = admitted(grid)
    marks = _marks(experiment, grid, mode, runs)
    spec = response_map(
        _axis(space, fold.across),
        _axis(space, fold.down),
        CellRegions(region_ids(experiment, grid).tolist())
        if mode == "regions"
        else _colour(experiment, mode, cells, expected),
        states.tolist(),
        marks,
        fixed=key_of(_fixed_ids(grid)),
        selected_key=selected,
    )
    hidden = int((grid.cells([run.configuration for run in runs]) == ANY).sum())
    return SpaceMap(mode, grid, cells, expected, states, is_known, hidden, spec)


def region_ids(experiment: Experiment, grid: Grid) -> NDArray[np.int64]:
    """Return the region of good results in each cell of a grid, 0 for none."""
    return regions_of(grid, experiment.regions, experiment.warning_policy.regions.radius)


@once_per_state
def region_map(experiment: Experiment) -> SpaceMap | None:
    """Return the map of regions with default axes, or None if no configuration is allowed."""
    centre = centre_of(experiment)
    if centre is None:
        return None
    fold = arrange_axes(experiment.space, parameter_ranges(experiment))
    fold = fix_levels(experiment.space, fold, centre.configuration)
    return draw_map(experiment, fold, "regions", experiment.runs)


def cell_of(grid: Grid, configuration: Configuration) -> int | None:
    """Return the cell index of a configuration in a grid, or None if it has no cell."""
    (cell,) = grid.cells((configuration,)).tolist()
    return None if cell == ANY else cell


def cell_with_key(experiment: Experiment, space_map: SpaceMap, key: str) -> int | None:
    """Return the cell of a map with the key of a click, or None if the space has changed."""
    grid = space_map.grid
    rest = dict(zip(experiment.space.names, grid.level_ids[0].tolist(), strict=True))
    values = {
        name: experiment.space.parameter(name).levels[max(level_id, 0)]
        for name, level_id in rest.items()
    }
    try:
        return cell_of(grid, from_key(experiment.space, key, values))
    except (AssistantError, StrategyError):
        return None


def displayed_values(
    mode: Mode, cells: MeasuredCells, expected: ExpectedMeasureArrays | None
) -> NDArray[np.float64]:
    """Return the value of each cell that the map shows by colour, NaN where unknown."""
    if mode == "measured":
        return cells.values
    if expected is None:
        return np.full(len(cells.values), np.nan)
    return expected.values if mode == "predicted" else expected.highs - expected.lows


def cell_levels(grid: Grid, cell: int) -> dict[str, Level]:
    """Return the levels of a map cell, keyed by column heading of the parameter."""
    return {
        column(p): p.levels[level_id]
        for p, level_id in zip(grid.space.parameters, grid.level_ids[cell].tolist(), strict=True)
        if level_id >= 0
    }


def _fixed_ids(grid: Grid) -> list[int]:
    ids: list[int] = grid.level_ids[0].tolist()
    axis_names = grid.fold.axes
    return [-1 if name in axis_names else i for name, i in zip(grid.space.names, ids, strict=True)]


def _axis(space: ParameterSpace, names: Sequence[str]) -> list[NestedParameter]:
    nested = []
    for name in names:
        position, parameter = space.names.index(name), space.parameter(name)
        ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        texts = level_texts([parameter.levels[i] for i in ids], parameter.unit)
        title = parameter.name if parameter.unit == "s" else column(parameter)
        nested.append(NestedParameter(title, texts, tuple(f"{position}:{i}" for i in ids)))
    return nested


def _colour(
    experiment: Experiment,
    mode: Mode,
    cells: MeasuredCells,
    expected: ExpectedMeasureArrays | None,
) -> CellValues:
    title = value_title(experiment)
    values = _nan_to_none(displayed_values(mode, cells, expected))
    if mode == "measured" or expected is None:
        return CellValues(f"{mode} {title}", values, dark_of(experiment), is_measured=True)
    ends = _nan_to_none(expected.lows), _nan_to_none(expected.highs)
    if mode == "predicted":
        return CellValues(f"predicted {title}", values, dark_of(experiment), *ends)
    label = f"width of the {interval_name(experiment, 'random')} of {title}"
    return CellValues(label, values, "low", *ends, better="more certain")


def _nan_to_none(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers rounded for the colour and the tooltip, with None for NaN."""
    return [None if isnan(x) else float(f"{x:.{_DIGITS}g}") for x in values.tolist()]


def _marks(
    experiment: Experiment,
    grid: Grid,
    mode: Mode,
    runs: Sequence[Run],
) -> list[MapMark]:
    """Return one mark for each cell and kind; baseline and best come last."""
    regions = experiment.regions if mode == "regions" else ()
    of_run = _in_regions(regions) if mode == "regions" else _by_result(mode)
    marked: list[tuple[Configuration, Kind, str]] = [
        (run.configuration, kind, "") for run in runs if (kind := of_run(run)) is not None
    ]
    batch = experiment.open_batch
    for suggestion in () if batch is None else batch.suggestions:
        marked.append((suggestion.configuration, "suggested", ""))
    if mode == "regions":
        marked += [(region.best.configuration, "good member", str(region.id)) for region in regions]
    if experiment.opened.baseline is not None:
        marked.append((experiment.opened.baseline, "baseline", ""))
    if experiment.best is not None:
        marked.append((experiment.best.configuration, "best", ""))
    cells = grid.cells([configuration for configuration, _, _ in marked]).tolist()
    texts = {
        (cell, kind): text
        for cell, (_, kind, text) in zip(cells, marked, strict=True)
        if cell != ANY
    }
    return [
        MapMark(cell % grid.columns, cell // grid.columns, kind, text)
        for (cell, kind), text in texts.items()
    ]


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
        return None if mode == "measured" else "measured"  # the colour already shows it

    return kind_of


def _in_regions(regions: Sequence[Region]) -> Callable[[Run], Kind | None]:
    members = {configuration for region in regions for configuration in region.members}

    def kind_of(run: Run) -> Kind | None:
        if run.outcome is None:
            return _WAITING.get(run.state)
        return "good member" if run.configuration in members else "evaluated"

    return kind_of


def admission_words(state: int) -> str:
    """Describe whether the configurations of a map cell may be suggested."""
    texts = {
        CellAdmission.CLOSED: "no, closed",
        CellAdmission.EXCLUDED: "no, excluded",
        CellAdmission.INACTIVE: "as another cell",
    }
    return texts.get(CellAdmission(state), "yes")


_STATES = {
    RunState.QUEUED: "is waiting",
    RunState.RUNNING: "is running",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "was cancelled",
}


def cell_panel(
    view_model: ExperimentView,
    experiment: Experiment,
    space_map: SpaceMap,
    key: str,
    centre: Centre | None,
) -> Intent | None:
    """Draw the details of a map cell and return a request to submit a run in it, or None."""
    rest = {} if centre is None else experiment.space.values(centre.configuration)
    try:
        configuration = from_key(experiment.space, key, rest)
    except (AssistantError, StrategyError) as error:
        st.warning(labels.escape_markdown(sentence(error)), icon=":material/history:")
        return None
    with st.container(border=True):
        st.markdown(
            f"**{labels.escape_markdown(labels.settings_of(experiment.space, configuration))}**"
        )
        _cell_summary(experiment, space_map, configuration, centre)
        runs = [run for run in experiment.runs if run.configuration == configuration]
        for line in _lines(experiment, configuration, runs):
            st.markdown(labels.escape_markdown(line))
        return _action(view_model, experiment, configuration, runs)


def _cell_summary(
    experiment: Experiment, space_map: SpaceMap, configuration: Configuration, centre: Centre | None
) -> None:
    over = space_map.grid.over
    cell = cell_of(space_map.grid, configuration)
    if not over or centre is None or cell is None:
        return
    names = ", ".join(experiment.space.names[i] for i in over[:6])
    n = int(space_map.measured.n_runs[cell])
    best = float(space_map.measured.values[cell])
    best_text = f", the best {number(best)}" if n else ""
    st.caption(
        labels.escape_markdown(
            f"The cell has {labels.runs(n)}{best_text}. The lines below are for the configuration "
            f"with {names} as in {centre.words}."
        )
    )


def _lines(experiment: Experiment, configuration: Configuration, runs: list[Run]) -> list[str]:
    objective = experiment.opened.objective
    lines = [_run_line(experiment, run) for run in runs]
    summary = experiment.summaries.get(configuration)
    if summary is not None and summary.n > 1:
        value = quantity(summary.outcome.value, objective.unit)
        lines.append(f"Mean of {labels.runs(summary.n)}: {value}.")
    if summary is None:
        expected = expected_measure(experiment, configuration)
        if expected is None:
            lines.append(f"The prediction is unknown: fewer than {FEW} runs have finished.")
        else:
            value = quantity(expected.value, objective.unit)
            band = f"{number(expected.low)} to {number(expected.high)}"
            words = interval_name(experiment, "random")
            lines.append(f"Predicted {objective.wrapper}: {value}, {words} of one run {band}.")
    radius = experiment.warning_policy.regions.radius
    homes = [
        str(r.id) for r in experiment.regions if r.contains(experiment.space, configuration, radius)
    ]
    where = f"region {' and '.join(homes)}" if homes else "no region of good results"
    if experiment.regions:
        lines.append(f"It lies in {where}.")
    if configuration == experiment.opened.baseline:
        lines.append("It is the current configuration.")
    if experiment.best is not None and configuration == experiment.best.configuration:
        lines.append("It is the best so far.")
    return lines


def _run_line(experiment: Experiment, run: Run) -> str:
    origin = labels.SOURCES[run.source]
    if run.outcome is None:
        why = f": {run.failure}" if run.failure else ""
        return f"Run {run.id} ({origin}) {_STATES[run.state]}{why}."
    value = quantity(run.outcome.value, experiment.opened.objective.unit)
    met = "" if run.outcome.feasible else "; it violates a constraint"
    early = f"; {stopped_words(run)}" if run.stopped is not None else ""
    return f"Run {run.id} ({origin}) measured {value}{met}{early}."


def _action(
    view_model: ExperimentView,
    experiment: Experiment,
    configuration: Configuration,
    runs: list[Run],
) -> Intent | None:
    space, active_runs = experiment.space, [r for r in runs if r.state is not RunState.CANCELLED]
    values = space.values(configuration)
    key_suffix = f"{experiment.opened.experiment_id}-{configuration.level_ids}"
    add, again = f"space-add-{key_suffix}", f"space-again-{key_suffix}"
    counter_key = f"space-said-{key_suffix}"
    field = f"space-why-{key_suffix}-{st.session_state.get(counter_key, 0)}"

    def include() -> str:
        run = view_model.session.include(values, reason)
        st.session_state[counter_key] = st.session_state.get(counter_key, 0) + 1
        return f"Run {run.id} is waiting in the queue."

    def repeat() -> str:
        run = view_model.session.replicate(active_runs[0].id, 1, reason)[0]
        st.session_state[counter_key] = st.session_state.get(counter_key, 0) + 1
        return f"Run {run.id} repeats run {active_runs[0].id}; it is waiting in the queue."

    reason = str(st.session_state.get(field, "")).strip()
    if active_runs and st.session_state.get(add):  # another user was faster
        return Intent("space", include)
    refused = _refusal(experiment, configuration, bool(active_runs))
    if refused:
        st.caption(labels.escape_markdown(refused))
        return None
    batch = experiment.open_batch
    if batch is not None and configuration in {
        suggestion.configuration for suggestion in batch.suggestions
    }:
        st.caption("It is suggested now; you can also take it on *Suggestions*.")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        reason = st.text_input(
            "Reason (optional)", key=field, width=420, persist_state="session",
            placeholder="any text",
        ).strip()  # fmt: skip
        if active_runs:
            is_pressed = st.button("Run again", type="primary", key=again)
        else:
            is_pressed = st.button("Add to the queue", type="primary", key=add)
    if not is_pressed:
        return None
    return Intent("space", repeat if active_runs else include, "Submitting")


def _refusal(experiment: Experiment, configuration: Configuration, has_run: bool) -> str:
    if experiment.finished is not None:
        return f"The experiment is finished ({experiment.finished.reason}); no run can be added."
    if has_run and experiment.opened.deterministic:
        return "It has run already, and another run would give the same result."
    try:
        experiment.space.check(configuration)
    except NotAllowedError as error:
        return sentence(error)
    if experiment.remaining_runs == 0:
        return "The budget is used up; raise it under *Steering* to add a run."
    return ""
