"""*Space*: every configuration on one map, what was measured or is expected there, and the runs.

A cell carries the levels it stands for, never its position: what is added to the queue is what was
clicked, whatever has been drawn since.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import streamlit as st

from assistant import AssistantError, Experiment, Run, RunState
from assistant.charts_space import CELL
from assistant.report.words import level, number
from assistant.response_map import Fold, arranged, held_at
from assistant.ui import words
from assistant.ui.desk import Desk
from assistant.ui.intents import Intent, answer_at, sentence
from assistant.ui.space import cell as space_cell
from assistant.ui.space import parallel as space_runs
from assistant.ui.space.folded import (
    MODES,
    Centre,
    Drawn,
    Mode,
    cell_levels,
    centre_of,
    draw,
    shut_words,
    too_few,
    value_title,
)
from strategies import StrategyError

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
class _Keys:
    """Names of what is kept for an experiment in a person's session."""

    experiment_id: str

    def of(self, name: str) -> str:
        return f"space-{name}-{self.experiment_id}"


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns the run that the person wants, if any."""
    keys = _Keys(experiment.opened.experiment_id)
    st.subheader("Space")
    if not experiment.measured:
        st.info(
            "Nothing has been measured yet, so the map is empty. Submit runs on *Suggestions*, or "
            "click a cell and add it to the queue yourself.",
            icon=":material/grid_on:",
        )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        mode = _mode(experiment, keys)
        runs = _filtered(experiment, keys)
    centre = centre_of(experiment)
    intent = None
    fold = _fold(experiment, keys, centre)
    try:
        drawn = _drawn(experiment, keys, fold, mode, runs)
    except (AssistantError, StrategyError) as error:
        st.error(words.plain(sentence(error)), icon=":material/error:")
        drawn = None
    if drawn is not None:
        _show(experiment, keys, drawn)
        answer_at("space")
        key = st.session_state.get(keys.of("chosen"), "")
        if key:
            intent = space_cell.panel(desk, experiment, drawn, key, centre)
        _as_table(experiment, keys, drawn)
    space_runs.section(experiment, runs)
    return intent


def _filtered(experiment: Experiment, keys: _Keys) -> tuple[Run, ...]:
    """Draw the filter of the page. Returns the runs that pass."""
    states = st.pills(
        "Runs shown", _OFFERED, selection_mode="multi", default=list(_AT_FIRST),
        format_func=words.STATES.__getitem__, key=keys.of("states"), persist_state="session",
        help="For the whole page. Predictions and regions rest on all runs.",
    )  # fmt: skip
    result = "any"
    if experiment.opened.objective.constraints:
        result = st.segmented_control(
            "Constraints", list(_RESULTS), default="any", required=True,
            format_func=_RESULTS.__getitem__, key=keys.of("result"), persist_state="session",
            help="Of completed runs; runs without a result are shown whatever is chosen.",
        )  # fmt: skip
    passed = [run for run in experiment.runs if run.state in states]
    if result != "any":
        passed = [
            run
            for run in passed
            if run.outcome is None or run.outcome.feasible == (result == "met")
        ]
    return tuple(passed)


def _mode(experiment: Experiment, keys: _Keys) -> Mode:
    first: Mode = "measured" if too_few(experiment) else "predicted"
    mode: Mode = st.segmented_control(
        "Colour", list(MODES), default=first, required=True, format_func=_MODE_WORDS.__getitem__,
        key=keys.of("mode"), persist_state="session",
    )  # fmt: skip
    return mode


def _fold(experiment: Experiment, keys: _Keys, centre: Centre | None) -> Fold:
    """Draw which parameters lie where; the arrangement stays until the person changes it."""
    space = experiment.space
    kept = keys.of("arranged")
    if kept not in st.session_state:
        model = experiment.measured_anova
        st.session_state[kept] = arranged(space, {} if model is None else model.shares)
    first: Fold = st.session_state[kept]
    names = [p.name for p in space.parameters if p.n_levels > 1]
    with st.expander("Axes: which parameters lie where"):
        st.caption(
            "The first parameter of an axis moves slowest, the next ones are nested within it. "
            "The most influential ones come first unless you change it."
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
        others = [name for name in space.names if name not in fold.shown]
        varied = [name for name in others if space.parameter(name).n_levels > 1]
        rest = _rest(keys, varied, centre)
        if rest == "chosen" or (rest == "centre" and centre is None):
            at = {name: space.parameter(name).levels[0] for name in others}
            for name in varied:
                at[name] = st.selectbox(
                    words.column(space.parameter(name)), space.parameter(name).levels,
                    format_func=level, key=keys.of(f"at-{name}"), persist_state="session",
                )  # fmt: skip
            return Fold(across, down, at)
    if rest == "centre" and centre is not None:
        return held_at(space, fold, centre.configuration)
    return fold


def _rest(keys: _Keys, varied: Sequence[str], centre: Centre | None) -> Rest:
    if not varied:
        return "all"
    labels: dict[Rest, str] = {
        "centre": "one level each" if centre is None else f"as in {centre.words}",
        "all": "all levels together",
        "chosen": "levels that I choose",
    }
    others = " and others" if len(varied) > 6 else ""
    rest: Rest = st.segmented_control(
        f"On no axis: {', '.join(varied[:6])}{others}",
        list(labels), default="centre", required=True, format_func=labels.__getitem__,
        key=keys.of("rest"), persist_state="session",
    )  # fmt: skip
    return rest


def _drawn(
    experiment: Experiment, keys: _Keys, fold: Fold, mode: Mode, runs: Sequence[Run]
) -> Drawn:
    """Return the map, made once for each state of the experiment and of the fields."""
    shown = tuple(run.id for run in runs)
    key = (experiment.n_events, str(fold), mode, shown)
    kept = st.session_state.get(keys.of("map"))
    if kept is None or kept[0] != key:
        with st.spinner("Drawing the map …"):
            chosen = st.session_state.get(keys.of("chosen"), "")
            kept = (key, draw(experiment, fold, mode, runs, chosen))
        st.session_state[keys.of("map")] = kept
    drawn: Drawn = kept[1]
    return drawn


def _show(experiment: Experiment, keys: _Keys, drawn: Drawn) -> None:
    """Draw the map, and keep what is clicked."""
    if drawn.mode in ("predicted", "uncertainty") and drawn.expected is None:
        st.info(too_few(experiment), icon=":material/hourglass_top:")
    if drawn.mode == "regions" and not drawn.regions:
        st.info(
            "No region yet: too few good results lie close together. More runs, or another rule "
            "of regions under *Steering*, may show one.",
            icon=":material/hourglass_top:",
        )
    with st.container(horizontal=True, wrap=False):  # it scrolls, and not the whole page
        picked = st.vega_lite_chart(
            drawn.spec, theme=None, width="content", key=keys.of("chart"), on_select="rerun",
            selection_mode=[CELL], alt=_alt(experiment, drawn),
        )  # fmt: skip
    _keep(keys, picked)
    st.caption(" ".join(_notes(experiment, drawn)))


def _keep(keys: _Keys, picked: object) -> None:
    """Keep the cell that was clicked; a map that is drawn anew forgets it, the page does not."""
    selection = getattr(picked, "selection", None) or {}
    points = selection.get(CELL) or []
    key = str(points[0].get(CELL, "")) if points else ""
    if key != st.session_state.get(keys.of("clicked"), ""):
        st.session_state[keys.of("clicked")] = key
        st.session_state[keys.of("chosen")] = key


def _alt(experiment: Experiment, drawn: Drawn) -> str:
    fold, grid = drawn.grid.fold, drawn.grid
    axes = f"{', '.join(fold.across) or 'nothing'} across, {', '.join(fold.down) or 'nothing'} down"
    text = f"map of {grid.columns * grid.rows:,} configurations, {axes}, coloured by "
    if drawn.mode == "regions":
        return f"{text}region: {len(drawn.regions)} regions"
    values = drawn.values[~np.isnan(drawn.values)]
    text += f"{_MODE_WORDS[drawn.mode].lower()} {value_title(experiment)}"
    if not len(values):
        return f"{text}: nothing yet"
    return f"{text}: {number(float(values.min()))} to {number(float(values.max()))}"


def _notes(experiment: Experiment, drawn: Drawn) -> list[str]:
    """Return what stands below the map, a sentence each."""
    grid, n = drawn.grid, len(experiment.measured)
    whole = f"of {experiment.space.size:,} configurations"
    notes = [f"{drawn.grid.columns * drawn.grid.rows:,} cells {whole}; click one for more."]
    if drawn.mode == "measured":
        notes.append("Grey cells have not been run.")
    elif drawn.expected is not None:
        what = "one run" if not grid.over else "a typical configuration of each cell"
        notes.append(
            f"Expected of {what} by the model of {words.runs(n)}"
            + (", the width of its 95 % interval." if drawn.mode == "uncertainty" else ".")
        )
    if drawn.mode == "regions" and drawn.regions:
        notes.append(
            "A number stands at the best of each region; where regions overlap the better one is "
            "drawn. What waits or runs in a region is pending."
        )
    held = [name for name in (grid.fold.at or {}) if experiment.space.parameter(name).n_levels > 1]
    if held and grid.fold.at is not None:
        at = ", ".join(f"{name} {level(grid.fold.at[name])}" for name in held[:8])
        more = f" and {len(held) - 8} others" if len(held) > 8 else ""
        notes.append(f"A slice at {words.plain(at)}{more}.")
    if drawn.hidden:
        notes.append(
            f"{words.runs(drawn.hidden)} {'lies' if drawn.hidden == 1 else 'lie'} outside of it; "
            "*all levels together* under *Axes* shows every run."
        )
    if grid.over:
        names = ", ".join(experiment.space.names[i] for i in grid.over[:6])
        best = " A measured cell shows its best run." if drawn.mode == "measured" else ""
        notes.append(f"All levels of {words.plain(names)} fall together in a cell.{best}")
    if not drawn.is_admission_known:
        notes.append("Which cells the exclusions leave is unknown; only closed levels are marked.")
    return notes


def _as_table(experiment: Experiment, keys: _Keys, drawn: Drawn) -> None:
    table = st.expander("As a table", key=keys.of("table"), on_change="rerun")
    if table.open:
        with table:
            st.dataframe(
                map_table(experiment, drawn), hide_index=True, width="stretch",
                placeholder="",
                alt="the cells of the map",
            )  # fmt: skip


def map_table(experiment: Experiment, drawn: Drawn) -> pd.DataFrame:
    """Return the cells of a map that say anything, the best first, regions by number."""
    title, grid = value_title(experiment), drawn.grid
    cells = range(len(grid.level_ids))
    rows = [cell_levels(grid, cell) for cell in cells]
    frame = pd.DataFrame(rows)
    frame[f"measured {title}"] = drawn.measured.values
    frame["runs"] = drawn.measured.n_runs
    if drawn.expected is not None:
        frame[f"predicted {title}"] = drawn.expected.values
        frame["from"], frame["to"] = drawn.expected.lows, drawn.expected.highs
    frame["region"] = ["" if not own else str(own) for own in drawn.region_ids.tolist()]
    frame["may be proposed"] = [shut_words(state) for state in drawn.admitted.tolist()]
    if drawn.mode == "regions":
        order = np.argsort(
            np.where(drawn.region_ids > 0, drawn.region_ids, 1_000_000), kind="stable"
        )
        return frame.iloc[order]
    worst_last = -1 if experiment.opened.objective.goal == "maximise" else 1
    sign = 1 if drawn.mode == "uncertainty" else worst_last
    return frame.iloc[np.argsort(sign * drawn.values, kind="stable")]  # NaN comes last
