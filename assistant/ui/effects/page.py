"""Effects: what matters. Each level, each pair, what stands out of the noise, what is missing."""

from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from assistant import Experiment
from assistant.charts import level_estimates
from assistant.charts_effects import choosable, main_effects
from assistant.effects import (
    EffectsReport,
    Filter,
    Response,
    Strengths,
    effects_report,
    measured,
    strengths,
)
from assistant.report.effects import figure_of, headline, responses_of, sentences
from assistant.report.levels import ParameterEffect, level_qualities
from assistant.report.words import level, number
from assistant.ui import words
from assistant.ui.charting import wide
from assistant.ui.desk import Desk
from assistant.ui.effects import by_level as effects_levels
from assistant.ui.effects import missing as effects_missing
from assistant.ui.effects import pairs as effects_pairs
from assistant.ui.intents import Intent
from strategies import Level
from strategies.errors import AnalysisError

CHARTS_A_ROW = 3
MOST_DRAWN = 60
"""Levels of a chart; of a parameter with more only those with a run are drawn."""

_KEPT = "effects-kept"
_EXPECT, _BY_ITSELF = "What to expect", "Change by itself"


@dataclass(frozen=True, slots=True)
class Looked:
    """An analysis that is on the screen.

    Args:
        response: what effects are looked for in.
        only: which runs are looked at.
        qualities: what to expect of each level.
        report: the effects; None with ``why``.
        found: what each parameter and pair explains.
        why: why effects could not be estimated; empty if they were.
    """

    response: Response
    only: Filter
    qualities: tuple[ParameterEffect, ...]
    report: EffectsReport | None
    found: Strengths | None
    why: str = ""

    @property
    def title(self) -> str:
        """The response with its unit."""
        return words.titled(self.response.name, self.response.unit)


def page(desk: Desk, experiment: Experiment) -> Intent | None:
    """Draw the page. Returns what the person wants done with a level, or which runs are added."""
    st.subheader("What matters")
    if not experiment.measured:
        st.info(
            "Nothing has completed yet, so no effect is known. Submit runs on the page "
            "*Suggestions*; after a few of them this page says what matters."
        )
        return None
    response, only = _asked(experiment)
    if not measured(experiment, response, only):
        st.info("No completed run is left by this choice. Take a filter away.")
        return None
    looked = _looked(experiment, response, only)
    if looked.report is None or looked.found is None:
        st.warning(f"Effects were not estimated: {words.plain(looked.why)}")
        return _levels(desk, experiment, looked)
    st.markdown(f"**{words.plain(headline(looked.report, looked.found))}**")
    decided = _levels(desk, experiment, looked)
    effects_pairs.section(experiment, looked.report, looked.found, response, only)
    effects_pairs.noise(looked.report, looked.title)
    _trusted(looked.report)
    added = effects_missing.section(desk, experiment, looked.found)
    return decided or added


def _asked(experiment: Experiment) -> tuple[Response, Filter]:
    """Draw what is looked at: a response, and which runs."""
    own = experiment.opened.experiment_id
    known = responses_of(experiment)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = [one.name for one in known]
        name = st.selectbox(
            "Effects on", names, key=f"effects-on-{own}", width=300, persist_state="session",
            help="What the sweep optimises comes first, then every other measure of the runs.",
        )  # fmt: skip
        feasible = False
        if experiment.opened.objective.constraints:
            feasible = st.toggle(
                "Only runs that meet every constraint", key=f"effects-feasible-{own}",
                persist_state="session",
            )  # fmt: skip
        pairs = _tried(experiment)
        texts = {f"{pair[0]} = {level(pair[1])}": pair for pair in pairs}
        chosen = st.multiselect(
            "Only runs with", list(texts), key=f"effects-only-{own}", width=420,
            placeholder="all levels", persist_state="session",
            help="Two levels of one parameter mean either of them.",
        )  # fmt: skip
    wanted: dict[str, list[Level]] = {}
    for text in chosen:
        parameter, value = texts[text]
        wanted.setdefault(parameter, []).append(value)
    levels = tuple((parameter, tuple(values)) for parameter, values in wanted.items())
    response = next(one for one in known if one.name == name) if name else known[0]
    return response, Filter(feasible, levels)


def _tried(experiment: Experiment) -> list[tuple[str, Level]]:
    """Return the levels with a completed run, in their order; those of two levels or more."""
    seen = [observation.configuration.level_ids for observation in experiment.measured]
    found: list[tuple[str, Level]] = []
    for position, parameter in enumerate(experiment.space.parameters):
        ids = sorted({one[position] for one in seen}, key=parameter.ranks.__getitem__)
        if len(ids) > 1:
            found += [(parameter.name, parameter.levels[i]) for i in ids]
    return found


def _looked(experiment: Experiment, response: Response, only: Filter) -> Looked:
    """Return the analysis, made once for the results and the space as they are."""
    key = (
        experiment.opened.experiment_id, experiment.version, len(experiment.measured),
        response, only,
    )  # fmt: skip
    kept = st.session_state.get(_KEPT)
    if kept is not None and kept[0] == key:
        looked: Looked = kept[1]
        return looked
    with st.spinner("Estimating effects …"):
        qualities = level_qualities(experiment, response, only)
        try:
            report = effects_report(experiment, (), response, only)
            found = strengths(experiment, response, only)
        except AnalysisError as error:
            looked = Looked(response, only, qualities, None, None, str(error))
        else:
            looked = Looked(response, only, qualities, report, found)
    st.session_state[_KEPT] = (key, looked)
    return looked


def _levels(desk: Desk, experiment: Experiment, looked: Looked) -> Intent | None:
    """Draw what each level does, with the buttons for the level that was clicked."""
    st.subheader("Each level")
    ways = [_EXPECT] if looked.report is None else [_EXPECT, _BY_ITSELF]
    way = st.segmented_control(
        "Show", ways, default=_EXPECT, key="effects-way", label_visibility="collapsed",
        persist_state="session",
    )  # fmt: skip
    by_itself = way == _BY_ITSELF
    title = words.plain(looked.title)
    st.caption(
        f"The change of {title} against the mean of the levels, with the effects of the other "
        "parameters taken out (least squares, main effects) and 95 % intervals; one that holds 0 "
        "may be chance."
        if by_itself
        else f"What {title} to expect of a typical configuration with each level, by the model "
        "that the suggestions come from, with 95 % intervals; the widest range first. A level "
        "without a run shows nothing: its effect is unknown."
    )
    chosen = effects_levels.chooser(experiment)
    place, intent = None, None
    effects = looked.qualities
    for start in range(0, len(effects), CHARTS_A_ROW):
        row = effects[start : start + CHARTS_A_ROW]
        for column, effect in zip(st.columns(CHARTS_A_ROW), row, strict=False):
            with column:
                _chart(experiment, looked, effect, by_itself=by_itself)
        slot = st.container()
        if chosen is not None and chosen.parameter in [one.parameter for one in row]:
            place = slot
    if place is not None and chosen is not None:
        with place:
            intent = effects_levels.panel(desk, experiment, chosen)
    with st.expander("As a table"):
        st.dataframe(levels_table(looked), hide_index=True, width="stretch", alt="each level")
    return intent


def _chart(
    experiment: Experiment, looked: Looked, effect: ParameterEffect, *, by_itself: bool
) -> None:
    """Draw one parameter: a heading with the range, its levels, how many of them were tried."""
    marks = effects_levels.marks(experiment, effect.parameter)
    tried = f"{effect.n_tried} of {len(effect.levels)} levels tried"
    if not by_itself or looked.report is None:
        _heading(looked, effect.parameter, effect.range_value)
        shown = [
            replace(one, level=marks.get(one.level, one.level))
            for one in effect.levels
            if one.n or len(effect.levels) <= MOST_DRAWN
        ]
        spec = level_estimates(shown, effect.parameter, effect.unit, "")
        alt = f"expected {looked.title} by level of {effect.parameter}; {tried}"
    else:
        main = next(one for one in looked.report.main if one.parameter == effect.parameter)
        changes = [one.change for one in main.known if one.change is not None]
        _heading(looked, effect.parameter, max(changes) - min(changes) if changes else None)
        if len(changes) < 2:
            st.caption(f"Unknown: {words.plain(main.test.reason or 'too few runs')}.")
            return
        figure = figure_of(main)
        levels = [replace(one, level=marks.get(one.level, one.level)) for one in figure.levels]
        spec = main_effects(levels, effect.parameter, effect.unit, "")
        alt = f"change of {looked.title} by level of {effect.parameter}; {figure.test}"
        tried = figure.test
    key = f"effects-{by_itself}-{effect.parameter}-{experiment.opened.experiment_id}"
    st.vega_lite_chart(
        wide(choosable(spec, effect.parameter)),
        theme=None,
        width="stretch",
        alt=alt,
        key=key,
        on_select=lambda: effects_levels.clicked(experiment, key),
    )
    st.caption(words.plain(tried))


def _heading(looked: Looked, parameter: str, spread: float | None) -> None:
    unit = f" {looked.response.unit}" if spread is not None and looked.response.unit else ""
    st.markdown(f"**{words.plain(parameter)}** · range {number(spread)}{unit}")


def levels_table(looked: Looked) -> pd.DataFrame:
    """Return each level with what to expect and its change by itself, as it is shown."""
    changes = {}
    for main in looked.report.main if looked.report is not None else ():
        for one in main.levels:
            changes[main.parameter, level(one.levels[0])] = one
    unit = f" [{looked.response.unit}]" if looked.response.unit else ""
    rows = []
    for effect in looked.qualities:
        for estimate in effect.levels:
            if not estimate.n and len(effect.levels) > MOST_DRAWN:
                continue
            change = changes.get((effect.parameter, estimate.level))
            rows.append(
                {
                    "parameter": effect.parameter,
                    "level": estimate.level,
                    "runs": estimate.n,
                    f"expected{unit}": number(estimate.value),
                    "95 % interval": words.interval(estimate.low, estimate.high),
                    f"change by itself{unit}": number(change.change if change else None),
                    "95 % interval of it": words.interval(
                        change.low if change else None, change.high if change else None
                    ),
                    "": (change.verdict if change else None) or "",
                }
            )
    return pd.DataFrame(rows)


def _trusted(report: EffectsReport) -> None:
    """Draw what the numbers rest on."""
    st.subheader("How far to trust it")
    for sentence in sentences(report):
        st.markdown(words.plain(sentence))
