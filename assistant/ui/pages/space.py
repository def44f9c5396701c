"""The *Space* page: a map of all configurations, and the runs on parallel axes.

A selected cell is kept by its levels, not by its position, so the queue gets the configuration that
was clicked, even if the map changes.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st

from assistant.analysis.effects import parameter_ranges
from assistant.analysis.response_map import (
    CellAdmission,
    Fold,
    arrange_axes,
    fix_levels,
    interval_name,
)
from assistant.core.errors import AssistantError
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.presentation.charts.axes import is_logarithmic, unit_in
from assistant.presentation.charts.response_map import (
    BRUSH,
    CELL,
    ParallelAxis,
    ParallelLine,
    brushed_runs,
    parallel,
)
from assistant.presentation.text.number_format import (
    INACTIVE,
    level,
    level_texts,
    level_words,
    number,
    quantity,
)
from assistant.ui import labels
from assistant.ui.charting import low, saveable
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.pages import space_map as space_cell
from assistant.ui.pages.space_map import (
    MODES,
    Centre,
    Mode,
    SpaceMap,
    admission_words,
    cell_levels,
    cell_with_key,
    centre_of,
    dark_of,
    draw_map,
    too_few,
    value_title,
)
from assistant.ui.state import ExperimentView
from strategies import Parameter, StrategyError

MOST_AXES, MOST_LINES, _MOST_TICKS = 8, 300, 9


@dataclass(frozen=True, slots=True)
class Brush:
    """Range that the user selected on parallel axes: indices of the axes, ends of the range."""

    axes: tuple[int, ...]
    low: float
    high: float


def parallel_section(
    experiment: Experiment, runs: Sequence[Run], selected: Collection[int] = ()
) -> None:
    """Draw runs as lines over parallel axes, and the runs in the brush as a table.

    The runs with the ids ``selected`` are drawn thick.
    """
    st.subheader("Runs on parallel axes")
    if not runs:
        st.info("No run is shown. Choose other runs at the top of the page, or submit some.")
        return
    varied = [
        p.name
        for i, p in enumerate(experiment.space.parameters)
        if len({run.configuration.level_ids[i] for run in runs}) > 1
    ]
    experiment_id = experiment.opened.experiment_id
    if not varied:
        st.info("All runs shown have the same levels, so there is nothing to compare yet.")
        _table(experiment, runs)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = st.multiselect(
            "Axes", varied, default=varied[:MOST_AXES],
            key=f"space-axes-{experiment_id}-{','.join(varied)}", persist_state="session",
            help="Parameters that vary among the runs shown.",
        )  # fmt: skip
    latest_runs = _latest(runs)
    axes, lines = over_axes(experiment, latest_runs, names)
    title = value_title(experiment)
    picked = st.vega_lite_chart(
        low(parallel(axes, lines, title, dark_of(experiment), selected)), theme=None,
        width="stretch", key=_parallel_key(experiment_id), on_select="rerun",
        selection_mode=[BRUSH],
        alt=f"{labels.runs(len(lines))} over {', '.join(names)} and {title}",
    )  # fmt: skip
    cut = f" The latest {MOST_LINES:,} runs are drawn." if len(latest_runs) < len(runs) else ""
    st.caption(
        "Each line is a run; runs without a result are grey. Drag over one or more axes to keep "
        f"the runs in that range, here and on the map. Double-click to keep all.{cut}"
    )
    brush = brush_of(getattr(picked, "selection", None), len(axes))
    ids = None if brush is None else brushed_runs(lines, brush.axes, brush.low, brush.high)
    if ids != st.session_state.get(_brushed_key(experiment_id)):
        st.session_state[_brushed_key(experiment_id)] = ids
        st.rerun()  # the map above shows the same runs
    if ids is None:
        _table(experiment, runs)
        return
    st.markdown(f"{labels.runs(len(ids))} of {len(lines):,} in the range.")
    _table(experiment, [run for run in latest_runs if run.id in ids])


def _brushed_key(experiment_id: str) -> str:
    return f"space-brushed-{experiment_id}"


def _parallel_key(experiment_id: str) -> str:
    return f"space-parallel-{experiment_id}"


def _in_brush(experiment: Experiment, runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs that the brush on the parallel axes keeps, or all without a brush."""
    ids = st.session_state.get(_brushed_key(experiment.opened.experiment_id))
    return tuple(run for run in runs if ids is None or run.id in ids)


def _in_cell(experiment: Experiment, space_map: SpaceMap, key: str) -> list[int]:
    """Return the ids of the runs in the selected cell of the map."""
    cell = cell_with_key(experiment, space_map, key) if key else None
    if cell is None:
        return []
    runs = experiment.runs
    cells = space_map.grid.cells([run.configuration for run in runs]).tolist()
    return [run.id for run, of_run in zip(runs, cells, strict=True) if of_run == cell]


def _latest(runs: Sequence[Run]) -> Sequence[Run]:
    return runs[-MOST_LINES:]


def brush_of(selection: object, n_axes: int) -> Brush | None:
    """Return the selected range, or None if there is none or its axes have changed."""
    brush = selection.get(BRUSH) if hasattr(selection, "get") else None
    if not brush or not brush.get("at"):
        return None
    axes = tuple(int(axis) for axis in brush.get("axis") or ())
    ends = [float(end) for end in brush["at"]]
    if not axes or max(axes) >= n_axes:
        return None
    return Brush(axes, min(ends), max(ends))


def over_axes(
    experiment: Experiment, runs: Sequence[Run], names: Sequence[str]
) -> tuple[list[ParallelAxis], list[ParallelLine]]:
    """Return parallel axes for the named parameters and the value, and one line for each run."""
    space = experiment.space
    parameters = [space.parameter(name) for name in names]
    values = [run.outcome.value for run in runs if run.outcome is not None]
    level_names = {p.name: level_texts(p.levels, p.unit) for p in parameters}
    axes = [_axis(parameter, level_names[parameter.name]) for parameter in parameters]
    along = _positions_along(values)
    axes.append(_value_axis(value_title(experiment), values, along))
    lines = []
    for run in runs:
        ids = dict(zip(space.names, run.configuration.level_ids, strict=True))
        inactive = space.inactive(run.configuration)
        at: list[float | None] = [
            None if p.name in inactive else _at(p, ids[p.name]) for p in parameters
        ]
        texts = [
            INACTIVE if p.name in inactive else level_names[p.name][ids[p.name]] for p in parameters
        ]
        value = None if run.outcome is None else run.outcome.value
        at.append(None if value is None else along(value))
        texts.append(quantity(value, experiment.opened.objective.unit))
        feasible = run.outcome is None or run.outcome.feasible
        lines.append(ParallelLine(run.id, tuple(at), tuple(texts), value, feasible))
    return axes, lines


def _at(parameter: Parameter, level_id: int) -> float:
    n = parameter.n_levels
    return 0.5 if n == 1 else round(parameter.ranks[level_id] / (n - 1), 5)


def _axis(parameter: Parameter, names: Sequence[str]) -> ParallelAxis:
    """Return the axis of a parameter; with many levels only some are labelled, with both ends."""
    ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    n = len(ids)
    few = min(n, _MOST_TICKS)
    written = sorted({round(i * (n - 1) / max(few - 1, 1)) for i in range(few)})
    ticks = tuple((_at(parameter, ids[i]), names[ids[i]]) for i in written)
    title = parameter.name if parameter.unit == "s" else labels.column(parameter)
    return ParallelAxis(title, ticks)


def _value_axis(
    title: str, values: Sequence[float], along: Callable[[float], float]
) -> ParallelAxis:
    if not values:
        return ParallelAxis(title, ())
    ends = sorted({min(values), max(values)})
    unit = unit_in(title)
    ticks = tuple((along(end), level_words(float(f"{end:.4g}"), unit)) for end in ends)
    return ParallelAxis(title.removesuffix(" [s]"), ticks)


def _positions_along(values: Sequence[float]) -> Callable[[float], float]:
    """Return the function that places a value between the smallest (0) and the largest (1)."""
    least, most = min(values, default=0.0), max(values, default=0.0)
    if least == most:
        return lambda _value: 0.5
    if is_logarithmic(values):
        low, high = log(least), log(most)
        return lambda value: round((log(value) - low) / (high - low), 5)
    return lambda value: round((value - least) / (most - least), 5)


def _table(experiment: Experiment, runs: Sequence[Run]) -> None:
    title = value_title(experiment)
    st.dataframe(
        run_table(experiment, runs), hide_index=True, width="stretch", alt="the runs",
        placeholder="", lazy=True,
        column_config={title: st.column_config.NumberColumn(title, format="localized")},
    )  # fmt: skip


def run_table(experiment: Experiment, runs: Sequence[Run]) -> pd.DataFrame:
    """Return the table of the given runs, latest first."""
    latest_first = runs[::-1]
    outcomes = [run.outcome for run in latest_first]
    columns: dict[str, Sequence[object]] = {
        "run": [run.id for run in latest_first],
        "state": [words_of(run) for run in latest_first],
        value_title(experiment): [None if o is None else o.value for o in outcomes],
        "constraints": ["" if o is None else _CONSTRAINTS[o.feasible] for o in outcomes],
    }
    columns |= labels.level_columns(experiment.space, [run.configuration for run in latest_first])
    columns["from"] = [labels.SOURCES[run.source] for run in latest_first]
    frame = pd.DataFrame(columns)
    if not experiment.opened.objective.constraints:
        frame = frame.drop(columns="constraints", errors="ignore")  # without a run: no column
    return frame


_CONSTRAINTS = {True: "met", False: "violated"}


def words_of(run: Run) -> str:
    """Return the state of a run as text, as in the page's filter of runs."""
    return labels.STATES[run.state]


_OFFERED = (
    RunState.COMPLETED, RunState.FAILED, RunState.RUNNING, RunState.QUEUED, RunState.CANCELLED,
)  # fmt: skip
_AT_FIRST = (RunState.COMPLETED, RunState.FAILED, RunState.RUNNING, RunState.QUEUED)
_MODE_WORDS: dict[Mode, str] = {
    "measured": "Measured",
    "predicted": "Predicted",
    "uncertainty": "Uncertainty",
    "regions": "Regions",
}
_RESULTS = {"any": "any result", "met": "meets every constraint", "violated": "violates one"}
Rest = Literal["centre", "all", "chosen"]


@dataclass(frozen=True, slots=True)
class _MapKeys:
    """Keys of an experiment's map in the session state."""

    experiment_id: str

    def of(self, name: str) -> str:
        return f"space-{name}-{self.experiment_id}"


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the page of the parameter space and return a request to submit a run, or None."""
    keys = _MapKeys(experiment.opened.experiment_id)
    st.subheader("Space")
    if not experiment.observations:
        st.info(
            "Nothing has been measured yet, so the map is empty. Submit runs on *Suggestions*, or "
            "click a cell and add it to the queue yourself.",
            icon=":material/grid_on:",
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        mode = _mode(experiment, keys)
        runs = _filter_runs(experiment, keys)
    centre = centre_of(experiment)
    intent = None
    fold = _fold(experiment, keys, centre)
    try:
        space_map = _cached_map(experiment, keys, fold, mode, _in_brush(experiment, runs))
    except (AssistantError, StrategyError) as error:
        st.error(labels.escape_markdown(sentence(error)), icon=":material/error:")
        space_map = None
    selected: list[int] = []
    if space_map is not None:
        _show(experiment, keys, space_map)
        answer_at("space")
        key = st.session_state.get(keys.of("chosen"), "")
        if key:
            intent = space_cell.cell_panel(view_model, experiment, space_map, key, centre)
        selected = _in_cell(experiment, space_map, key)
        _as_table(experiment, keys, space_map)
    parallel_section(experiment, runs, selected)
    return intent


def _filter_runs(experiment: Experiment, keys: _MapKeys) -> tuple[Run, ...]:
    states = st.pills(
        "Runs shown", _OFFERED, selection_mode="multi", default=list(_AT_FIRST),
        format_func=labels.STATES.__getitem__, key=keys.of("states"), persist_state="session",
        help="For the whole page. Predictions and regions use all runs.",
    )  # fmt: skip
    result = "any"
    if experiment.opened.objective.constraints:
        result = st.segmented_control(
            "Constraints", list(_RESULTS), default="any", required=True,
            format_func=_RESULTS.__getitem__, key=keys.of("result"), persist_state="session",
            help="For completed runs. Runs without a result are always shown.",
        )  # fmt: skip
    passed = [run for run in experiment.runs if run.state in states]
    if result != "any":
        passed = [
            run
            for run in passed
            if run.outcome is None or run.outcome.feasible == (result == "met")
        ]
    return tuple(passed)


def _mode(experiment: Experiment, keys: _MapKeys) -> Mode:
    first: Mode = "measured" if too_few(experiment) else "predicted"
    mode: Mode = st.segmented_control(
        "Colour", list(MODES), default=first, required=True, format_func=_MODE_WORDS.__getitem__,
        key=keys.of("mode"), persist_state="session",
    )  # fmt: skip
    return mode


def _fold(experiment: Experiment, keys: _MapKeys, centre: Centre | None) -> Fold:
    space = experiment.space
    arrangement_key = keys.of("arranged")
    if arrangement_key not in st.session_state:
        st.session_state[arrangement_key] = arrange_axes(space, parameter_ranges(experiment))
    first: Fold = st.session_state[arrangement_key]
    names = [p.name for p in space.parameters if p.n_levels > 1]
    with st.expander("Axes: parameters across and down"):
        st.caption(
            "The first parameter of an axis changes slowest, the next ones are nested within it. "
            "The ones with the largest range on *Effects* come first unless you change it."
        )
        across, down = (
            tuple(
                st.multiselect(
                    label, names, default=list(at_first), key=keys.of(label),
                    persist_state="session",
                )
            )
            for label, at_first in (("Across", first.across), ("Down", first.down))
        )  # fmt: skip
        fold = Fold(across, down)
        off_axis_names = [name for name in space.names if name not in fold.axes]
        varied = [name for name in off_axis_names if space.parameter(name).n_levels > 1]
        rest = _rest(keys, varied, centre)
        if rest == "chosen" or (rest == "centre" and centre is None):
            at = {name: space.parameter(name).levels[0] for name in off_axis_names}
            for name in varied:
                at[name] = st.selectbox(
                    labels.column(space.parameter(name)), space.parameter(name).levels,
                    format_func=level, key=keys.of(f"at-{name}"), persist_state="session",
                )  # fmt: skip
            return Fold(across, down, at)
    if rest == "centre" and centre is not None:
        return fix_levels(space, fold, centre.configuration)
    return fold


def _rest(keys: _MapKeys, varied: Sequence[str], centre: Centre | None) -> Rest:
    if not varied:
        return "all"
    labels: dict[Rest, str] = {
        "centre": "one level each" if centre is None else f"as in {centre.words}",
        "all": "all levels together",
        "chosen": "levels that I choose",
    }
    suffix = " and others" if len(varied) > 6 else ""
    rest: Rest = st.segmented_control(
        f"On no axis: {', '.join(varied[:6])}{suffix}",
        list(labels), default="centre", required=True, format_func=labels.__getitem__,
        key=keys.of("rest"), persist_state="session",
    )  # fmt: skip
    return rest


def _cached_map(
    experiment: Experiment, keys: _MapKeys, fold: Fold, mode: Mode, runs: Sequence[Run]
) -> SpaceMap:
    """Return the map, computed once for each state of the experiment and of the fields."""
    run_ids = tuple(run.id for run in runs)
    key = (experiment.n_events, str(fold), mode, run_ids)
    cached = st.session_state.get(keys.of("map"))
    if cached is None or cached[0] != key:
        with st.spinner("Drawing the map …"):
            selected = st.session_state.get(keys.of("chosen"), "")
            cached = (key, draw_map(experiment, fold, mode, runs, selected))
        st.session_state[keys.of("map")] = cached
    space_map: SpaceMap = cached[1]
    return space_map


def _show(experiment: Experiment, keys: _MapKeys, space_map: SpaceMap) -> None:
    if space_map.mode in ("predicted", "uncertainty") and space_map.expected is None:
        st.info(too_few(experiment), icon=":material/hourglass_top:")
    if space_map.mode == "regions" and not experiment.regions:
        st.info(
            "No region yet: too few good results lie close together. More runs, or another rule "
            "of regions under *Steering*, may show one.",
            icon=":material/hourglass_top:",
        )
    with st.container(horizontal=True, wrap=False):  # it scrolls, not the whole page
        picked = st.vega_lite_chart(
            saveable(space_map.spec), theme=None, width="content", key=keys.of("chart"),
            on_select="rerun",
            selection_mode=[CELL], alt=_alt(experiment, space_map),
        )  # fmt: skip
    _keep(keys, picked)
    st.caption(" ".join(_notes(experiment, space_map)))


def _keep(keys: _MapKeys, picked: object) -> None:
    selection = getattr(picked, "selection", None) or {}
    points = selection.get(CELL) or []
    key = str(points[0].get(CELL, "")) if points else ""
    if key != st.session_state.get(keys.of("clicked"), ""):
        st.session_state[keys.of("clicked")] = key
        st.session_state[keys.of("chosen")] = key


def _alt(experiment: Experiment, space_map: SpaceMap) -> str:
    fold, grid = space_map.grid.fold, space_map.grid
    axes = f"{', '.join(fold.across) or 'nothing'} across, {', '.join(fold.down) or 'nothing'} down"
    text = f"map of {grid.columns * grid.rows:,} configurations, {axes}, coloured by "
    if space_map.mode == "regions":
        return f"{text}region: {len(experiment.regions)} regions"
    values = space_map.values[~np.isnan(space_map.values)]
    text += f"{_MODE_WORDS[space_map.mode].lower()} {value_title(experiment)}"
    if not len(values):
        return f"{text}: nothing yet"
    return f"{text}: {number(float(values.min()))} to {number(float(values.max()))}"


def _notes(experiment: Experiment, space_map: SpaceMap) -> list[str]:
    grid, n = space_map.grid, len(experiment.observations)
    extent = f"of {experiment.space.n_combinations:,} configurations"
    notes = [
        f"{space_map.grid.columns * space_map.grid.rows:,} cells {extent}; click one for more."
    ]
    if space_map.mode == "measured":
        notes.append("Grey cells have not been run.")
    elif space_map.expected is not None:
        subject = "one run" if not grid.over else "a typical configuration of each cell"
        notes.append(
            f"Predicted for {subject} by the model of {labels.runs(n)}"
            + (
                f": width of the {interval_name(experiment, 'random')}."
                if space_map.mode == "uncertainty"
                else "."
            )
        )
    if space_map.mode == "regions" and experiment.regions:
        notes.append(
            "A number marks the best of each region; where regions overlap, the better one is "
            "drawn. Waiting and running runs in a region are pending."
        )
    fixed_names = [
        name for name in (grid.fold.at or {}) if experiment.space.parameter(name).n_levels > 1
    ]
    if fixed_names and grid.fold.at is not None:
        at = ", ".join(
            f"{name} {level_words(grid.fold.at[name], experiment.space.parameter(name).unit)}"
            for name in fixed_names[:8]
        )
        more = f" and {len(fixed_names) - 8} others" if len(fixed_names) > 8 else ""
        notes.append(f"A slice at {labels.escape_markdown(at)}{more}.")
    if space_map.hidden:
        notes.append(
            f"{labels.runs(space_map.hidden)} {'is' if space_map.hidden == 1 else 'are'} outside "
            "the slice; *all levels together* under *Axes* shows every run."
        )
    if grid.over:
        names = ", ".join(experiment.space.names[i] for i in grid.over[:6])
        best = " A measured cell shows its best run." if space_map.mode == "measured" else ""
        notes.append(f"Each cell combines all levels of {labels.escape_markdown(names)}.{best}")
    if (space_map.admitted == CellAdmission.INACTIVE).any():
        notes.append("A dash: a parameter does not matter there; another cell is the same.")
    if not space_map.is_admission_known:
        notes.append("It is unknown which cells are excluded; only closed levels are marked.")
    return notes


def _as_table(experiment: Experiment, keys: _MapKeys, space_map: SpaceMap) -> None:
    table = st.expander("As a table", key=keys.of("table"), on_change="rerun")
    if table.open:
        with table:
            st.dataframe(
                map_table(experiment, space_map), hide_index=True, width="stretch",
                placeholder="", lazy=True, alt="the cells of the map",
            )  # fmt: skip


def map_table(experiment: Experiment, space_map: SpaceMap) -> pd.DataFrame:
    """Return the table of map cells with values and region numbers, best first."""
    title, grid = value_title(experiment), space_map.grid
    cells = range(len(grid.level_ids))
    rows = [cell_levels(grid, cell) for cell in cells]
    frame = pd.DataFrame(rows)
    frame[f"measured {title}"] = space_map.measured.values
    frame["runs"] = space_map.measured.n_runs
    if space_map.expected is not None:
        frame[f"predicted {title}"] = space_map.expected.values
        frame["from"], frame["to"] = space_map.expected.lows, space_map.expected.highs
    region_ids = space_cell.region_ids(experiment, grid)
    frame["region"] = [str(region_id) if region_id else "" for region_id in region_ids.tolist()]
    frame["may be suggested"] = [admission_words(state) for state in space_map.admitted.tolist()]
    if space_map.mode == "regions":
        last = np.where(region_ids > 0, region_ids, 1_000_000)
        return frame.iloc[np.argsort(last, kind="stable")]
    worst_last = -1 if experiment.opened.objective.goal == "maximise" else 1
    sign = 1 if space_map.mode == "uncertainty" else worst_last
    return frame.iloc[np.argsort(sign * space_map.values, kind="stable")]  # NaN comes last
