"""The runs over parallel axes, with one brush, and the table of what it keeps."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import pandas as pd
import streamlit as st

from assistant import Experiment, Run
from assistant.charts import scale_of
from assistant.charts_space import BRUSH, Line, Parallel, brushed, parallel
from assistant.report.words import level, number
from assistant.ui import words
from assistant.ui.charting import low
from assistant.ui.space.cell import level_texts
from assistant.ui.space.folded import dark_of, value_title
from strategies import Parameter

MOST_AXES, MOST_LINES, _MOST_TICKS = 8, 1_000, 9


@dataclass(frozen=True, slots=True)
class Brush:
    """What a person has brushed: positions of axes, and the ends of the range over them."""

    axes: tuple[int, ...]
    low: float
    high: float


def section(experiment: Experiment, runs: Sequence[Run]) -> None:
    """Draw runs over parallel axes, and those under the brush as a table."""
    st.subheader("Runs, axis by axis")
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
    drawn = _latest(runs)
    axes, lines = over_axes(experiment, drawn, names)
    title = value_title(experiment)
    picked = st.vega_lite_chart(
        low(parallel(axes, lines, title, dark_of(experiment))), theme=None, width="stretch",
        key=f"space-parallel-{experiment_id}", on_select="rerun", selection_mode=[BRUSH],
        alt=f"{words.runs(len(lines))} over {', '.join(names)} and {title}",
    )  # fmt: skip
    cut = f" The latest {MOST_LINES:,} runs are drawn." if len(drawn) < len(runs) else ""
    st.caption(
        "A line is a run; those without a result are grey. Drag over an axis to keep the runs in "
        f"that range, on several axes at once if you like; double-click to keep all.{cut}"
    )
    brush = brush_of(getattr(picked, "selection", None), len(axes))
    if brush is None:
        _table(experiment, runs)
        return
    kept = set(brushed(lines, brush.axes, brush.low, brush.high))
    st.markdown(f"{words.runs(len(kept))} of {len(lines):,} in the range.")
    _table(experiment, [run for run in drawn if run.id in kept])


def _latest(runs: Sequence[Run]) -> Sequence[Run]:
    return runs[-MOST_LINES:]


def brush_of(selection: object, n_axes: int) -> Brush | None:
    """Return what is brushed; None if nothing is, or it is of axes that are not there any more."""
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
) -> tuple[list[Parallel], list[Line]]:
    """Return the axes of some parameters and of the measured value, and the runs over them."""
    space = experiment.space
    parameters = [space.parameter(name) for name in names]
    values = [run.outcome.value for run in runs if run.outcome is not None]
    axes = [_axis(parameter) for parameter in parameters]
    axes.append(_value_axis(value_title(experiment), values))
    lines = []
    for run in runs:
        ids = dict(zip(space.names, run.configuration.level_ids, strict=True))
        at: list[float | None] = [_at(p, ids[p.name]) for p in parameters]
        texts = [level(p.levels[ids[p.name]]) for p in parameters]
        value = None if run.outcome is None else run.outcome.value
        at.append(None if value is None else _along(value, values))
        texts.append(number(value))
        feasible = run.outcome is None or run.outcome.feasible
        lines.append(Line(run.id, tuple(at), tuple(texts), value, feasible))
    return axes, lines


def _at(parameter: Parameter, level_id: int) -> float:
    n = parameter.n_levels
    return 0.5 if n == 1 else round(parameter.ranks[level_id] / (n - 1), 5)


def _axis(parameter: Parameter) -> Parallel:
    """Return the axis of a parameter; of many levels some are written, the ends among them."""
    ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
    n = len(ids)
    few = min(n, _MOST_TICKS)
    written = sorted({round(i * (n - 1) / max(few - 1, 1)) for i in range(few)})
    ticks = tuple((_at(parameter, ids[i]), level(parameter.levels[ids[i]])) for i in written)
    return Parallel(words.column(parameter), ticks)


def _value_axis(title: str, values: Sequence[float]) -> Parallel:
    if not values:
        return Parallel(title, ())
    ends = sorted({min(values), max(values)})
    return Parallel(title, tuple((_along(end, values), number(end)) for end in ends))


def _along(value: float, values: Sequence[float]) -> float:
    """Return where a value lies between the least (0) and the greatest (1), on its scale."""
    least, most = min(values), max(values)
    if least == most:
        return 0.5
    if scale_of(values).get("type") == "log":
        value, least, most = log(value), log(least), log(most)
    return round((value - least) / (most - least), 5)


def _table(experiment: Experiment, runs: Sequence[Run]) -> None:
    title = value_title(experiment)
    st.dataframe(
        run_table(experiment, runs), hide_index=True, width="stretch", alt="the runs",
        placeholder="",
        column_config={title: st.column_config.NumberColumn(title, format="localized")},
    )  # fmt: skip


def run_table(experiment: Experiment, runs: Sequence[Run]) -> pd.DataFrame:
    """Return runs as a table, the latest first."""
    title = value_title(experiment)
    rows = [
        {
            "run": run.id,
            "state": words_of(run),
            title: None if run.outcome is None else run.outcome.value,
            "constraints": "" if run.outcome is None else _CONSTRAINTS[run.outcome.feasible],
            **level_texts(experiment, run),
            "from": words.SOURCES[run.source],
        }
        for run in reversed(runs)
    ]
    frame = pd.DataFrame(rows)
    if not experiment.opened.objective.constraints:
        frame = frame.drop(columns="constraints")
    return frame


_CONSTRAINTS = {True: "met", False: "violated"}


def words_of(run: Run) -> str:
    """Return the state of a run as the filter calls it."""
    return words.STATES[run.state]
