"""The *Effects* page: levels, pairs of parameters, contrasts beyond noise, missing runs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import streamlit as st

from assistant.analysis.effects import (
    AnalysedResponse,
    EffectsReport,
    InteractionEffect,
    MainEffect,
    RunFilter,
    TermShare,
    TermShares,
    effects_report,
    pair_interaction,
    response_observations,
    standardised_effects,
    term_shares,
)
from assistant.core.experiment import Experiment
from assistant.presentation.charts.effects import (
    CHOSEN_PAIR,
    LevelChange,
    choosable,
    half_normal,
    interaction,
    main_effects,
    pareto,
    pareto_standardised,
    strength_matrix,
)
from assistant.presentation.tables.effects import (
    EffectsRanking,
    amount,
    effect_sentences,
    f_text,
    figure_of,
    interaction_figure,
    interval_text,
    p_text,
    ranking_of,
    responses_of,
)
from assistant.presentation.text.number_format import level, level_words, number
from assistant.ui import labels
from assistant.ui.charting import low, wide
from assistant.ui.intents import Intent
from assistant.ui.pages import effects_details
from assistant.ui.ranking import ranking_chart
from assistant.ui.state import ExperimentView
from strategies import Level
from strategies.space.errors import AnalysisError


def pairs_section(
    experiment: Experiment, report: EffectsReport, strengths: TermShares,
    response: AnalysedResponse, only: RunFilter,
) -> None:  # fmt: skip
    """Draw the variance shares of parameters and their pairs, and one pair's combinations."""
    if not strengths.pairs:
        return
    st.subheader("Interactions of pairs")
    st.caption(
        "Share of the variation between runs, less the share expected by chance. Diagonal: each "
        "parameter by itself; other cells: each pair beyond that. Plus: only some comparisons can "
        "be estimated yet; question mark: none. With unevenly spread runs, the shares add up to "
        "less than 100 %. Click a pair to see it."
    )
    if strengths.left_out:
        st.caption(f"Not paired (weaker): {labels.escape_markdown(', '.join(strengths.left_out))}.")
    experiment_id = experiment.opened.experiment_id
    left, right = st.columns([1, 1])
    names = [text_of(strength) for strength in strengths.pairs]
    key = f"effects-matrix-{experiment_id}"
    with left:
        strongest = f"{names[0]}: {_share(strengths.pairs[0])}"
        st.vega_lite_chart(
            low(strength_matrix(strengths.main, strengths.pairs)),
            theme=None,
            width="stretch",
            alt=f"share of the variation by parameter and pair; the strongest pair {strongest}",
            key=key,
            on_select=lambda: _select_pair(experiment_id, key, names),
        )
    with right:
        picked = f"effects-pair-{experiment_id}"
        if st.session_state.get(picked) not in names:
            st.session_state.pop(picked, None)
        pair_name = st.selectbox("Pair", names, key=picked, help="The strongest pair comes first.")
        pair = strengths.pairs[names.index(pair_name)]
        pair_effect = _pair(experiment, pair, response, only)
        _lines(pair_effect, pair, report)
    with st.expander("As a table"):
        st.dataframe(
            strengths_table(strengths), hide_index=True, width="stretch", alt="parameters and pairs"
        )
        st.dataframe(
            combinations_table(pair_effect, report.unit), hide_index=True, width="stretch",
            alt=f"combinations of {pair_name}",
        )  # fmt: skip


def text_of(strength: TermShare) -> str:
    """Return the label of a variance term: its parameter names joined by x."""
    return " x ".join(strength.parameters)


def _select_pair(experiment_id: str, chart: str, names: list[str]) -> None:
    points = st.session_state[chart]["selection"].get(CHOSEN_PAIR)
    if not points:
        return
    ends = points[0]["first"], points[0]["second"]
    name = next(
        (
            candidate
            for candidate in names
            if candidate in (" x ".join(ends), " x ".join(ends[::-1]))
        ),
        None,
    )
    if name is not None:  # a cell of the diagonal has no name
        st.session_state[f"effects-pair-{experiment_id}"] = name


def _pair(
    experiment: Experiment, pair: TermShare, response: AnalysedResponse, only: RunFilter
) -> InteractionEffect | None:
    """Return the interaction of a pair; None if it cannot be estimated."""
    if not pair.test.df:
        return None
    first, second = pair.parameters
    return pair_interaction(experiment, (first, second), response, only)


def _lines(pair_effect: InteractionEffect | None, pair: TermShare, report: EffectsReport) -> None:
    title = f"change of {labels.measure_title(report.value_name, report.unit)}"
    estimated = [c for c in pair_effect.combinations if c.change is not None] if pair_effect else []
    if pair_effect is None or len(estimated) < 2:
        why = "" if pair.test.reason is None else f" ({pair.test.reason})"
        st.info(
            f"The runs cannot show how these two interact{labels.escape_markdown(why)}. "
            "*Missing runs* below lists the runs needed."
        )
        return
    figure = interaction_figure(pair_effect, report)
    st.vega_lite_chart(
        wide(interaction(figure.changes, *pair_effect.parameters, title, figure.second_levels)),
        theme=None,
        width="stretch",
        alt=f"{title} over {pair_effect.parameters[0]}, "
        f"a line for each {pair_effect.parameters[1]}",
    )
    st.caption(
        f"{labels.escape_markdown(f_text(pair_effect.test))}. Parallel lines mean no interaction."
    )


def strengths_table(strengths: TermShares) -> pd.DataFrame:
    """Return the table of parameters and parameter pairs with their shares of the variance."""
    return pd.DataFrame(
        {
            "term": text_of(strength),
            "explains": _share(strength),
            "degrees of freedom": f"{strength.test.df} of {strength.test.full_df}",
            "F": number(strength.test.f),
            "p": "unknown"
            if strength.test.p is None
            else p_text(strength.test.p).removeprefix("= "),
            "": strength.test.reason or "",
        }
        for strength in (*strengths.main, *strengths.pairs)
    )


def combinations_table(pair_effect: InteractionEffect | None, unit: str) -> pd.DataFrame:
    """Return the table of a parameter pair's level combinations, empty if not estimated."""
    if pair_effect is None:
        return pd.DataFrame()
    first, second = pair_effect.parameters
    in_unit = f" [{unit}]" if unit else ""
    beyond = {combination.levels: combination for combination in pair_effect.beyond}
    return pd.DataFrame(
        {
            first: level_words(combination.levels[0], ""),
            second: level_words(combination.levels[1], ""),
            "runs": combination.n,
            f"total change{in_unit}": number(combination.change),
            "95 % interval": labels.interval(combination.low, combination.high),
            f"beyond the sum{in_unit}": number(beyond[combination.levels].change),
            "": combination.verdict or "",
        }
        for combination in pair_effect.combinations
    )


def _share(strength: TermShare) -> str:
    if strength.share is None:
        return "unknown"
    return f"{'at least ' if strength.is_part else ''}{100 * strength.share:.1f} %"


def noise_section(report: EffectsReport, title: str) -> None:
    """Draw a Pareto chart and a half-normal plot of the contrasts against the noise."""
    if len(report.contrasts) < 2:
        st.caption("Fewer than two contrasts can be estimated, so the noise is unknown.")
        return
    contrasts = standardised_effects(report)
    left, right = st.columns(2)
    effect = f"effect on {title}"
    with left:
        if contrasts is not None:
            spec = pareto_standardised(contrasts)
            beyond = sum(abs(t) > contrasts.bonferroni for _, t in contrasts.effects)
            caption = (
                f"Each contrast in standard errors with {contrasts.df} degrees of freedom. Beyond "
                f"the first line it is clear by itself (|t| {contrasts.limit:.2f}), beyond the "
                f"second among all {len(contrasts.effects)} ({contrasts.bonferroni:.2f}). Beyond "
                f"the second: {beyond}."
            )
        else:
            spec = pareto(report.contrasts, report.margins, effect)
            caption = (
                "The error is unknown or 0, so the lines are Lenth's margins, which treat the "
                "small contrasts as noise."
            )
        st.vega_lite_chart(
            low(spec), theme=None, width="stretch",
            alt=f"contrasts by parameter, the first {report.contrasts[0].name}",
        )  # fmt: skip
        st.caption(caption)
    with right:
        st.vega_lite_chart(
            wide(half_normal(report.half_normal, report.margins, effect)),
            theme=None,
            width="stretch",
            alt="sizes of contrasts against half-normal quantiles",
        )
        st.caption(
            "Half-normal plot: noise lies along the line. Effects lie to the right of it and are "
            "named (Lenth's margin)."
        )
    with st.expander("As a table"):
        st.dataframe(
            contrasts_table(report), hide_index=True, width="stretch", alt="contrasts by parameter"
        )


def contrasts_table(report: EffectsReport) -> pd.DataFrame:
    """Return the table of estimated contrasts between levels, in the order of the parameters."""
    tests = standardised_effects(report)
    ts = {} if tests is None else {contrast.name: t for contrast, t in tests.effects}
    unit = f" [{report.unit}]" if report.unit else ""
    return pd.DataFrame(
        {
            "contrast": contrast.name,
            f"effect{unit}": number(contrast.effect),
            "t": number(ts.get(contrast.name)),
            "": _beyond(contrast.effect, ts.get(contrast.name), report),
        }
        for contrast in report.contrasts
    )


def _beyond(effect: float, t: float | None, report: EffectsReport) -> str:
    contrasts = standardised_effects(report)
    if contrasts is not None and t is not None:
        size, alone, among = abs(t), contrasts.limit, contrasts.bonferroni
    elif report.margins.margin is not None and report.margins.simultaneous is not None:
        size, alone, among = abs(effect), report.margins.margin, report.margins.simultaneous
    else:
        return ""
    if size > among:
        return "clear among all"
    return "clear by itself" if size > alone else ""


CHARTS_A_ROW = 3
MOST_LISTED = 60
"""Levels in the table; of a parameter with more levels only those with a run are listed."""


@dataclass(frozen=True, slots=True)
class EffectsView:
    """Effects analysis of one measured response, or the reason why there is none."""

    response: AnalysedResponse
    only: RunFilter
    report: EffectsReport | None
    strengths: TermShares | None
    why: str = ""

    @property
    def title(self) -> str:
        """Name of the analysed response with its unit."""
        return labels.measure_title(self.response.name, self.response.unit)


def page(view_model: ExperimentView, experiment: Experiment) -> Intent | None:
    """Draw the effects page and return a request to change a level or add runs, or None."""
    st.subheader("Effects")
    if not experiment.observations:
        st.info(
            "No run has completed yet, so no effect is known. Submit runs on the page "
            "*Suggestions*; after a few runs this page shows the effects."
        )
        return None
    response, only = _scope(experiment)
    if not response_observations(experiment, response, only):
        st.info("No completed run matches this choice. Remove a filter.")
        return None
    analysis = _effects_view(experiment, response, only)
    if analysis.report is None or analysis.strengths is None:
        st.warning(f"Effects were not estimated: {labels.escape_markdown(analysis.why)}")
        selection = effects_details.chooser(experiment)
        if selection is None:
            return None
        return effects_details.panel(view_model, experiment, selection)
    ranking = ranking_of(analysis.report)
    st.markdown(f"**{labels.escape_markdown(ranking.headline)}**")
    if ranking.unsure:
        st.caption(labels.escape_markdown(ranking.unsure))
    added = effects_details.missing_button(view_model, experiment)
    _ranking(ranking)
    decided = _levels(view_model, experiment, analysis, analysis.report)
    pairs_section(experiment, analysis.report, analysis.strengths, response, only)
    with st.expander("Missing runs", icon=":material/playlist_add:"):
        listed = effects_details.section(view_model, experiment, analysis.strengths.pairs)
    with st.expander("Diagnostics: noise and fit of the model", icon=":material/analytics:"):
        noise_section(analysis.report, analysis.title)
        for sentence in effect_sentences(analysis.report):
            st.markdown(labels.escape_markdown(sentence))
    return decided or added or listed


def _ranking(ranking: EffectsRanking) -> None:
    """Draw what matters as bars in the order of the headline, and as a table."""
    ranking_chart(ranking)
    with st.expander("As a table"):
        st.dataframe(
            ranking_table(ranking), hide_index=True, width="stretch",
            alt="what matters, by parameter",
        )  # fmt: skip


def _scope(experiment: Experiment) -> tuple[AnalysedResponse, RunFilter]:
    experiment_id = experiment.opened.experiment_id
    responses = responses_of(experiment)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        names = [candidate.name for candidate in responses]
        name = st.selectbox(
            "Effects on", names, key=f"effects-on-{experiment_id}", width=300,
            persist_state="session",
            help="The objective comes first, then every other measure of the runs.",
        )  # fmt: skip
        feasible = False
        if experiment.opened.objective.constraints:
            feasible = st.toggle(
                "Only runs that meet every constraint", key=f"effects-feasible-{experiment_id}",
                persist_state="session",
            )  # fmt: skip
        pairs = _tested_levels(experiment)
        texts = {f"{pair[0]} = {level(pair[1])}": pair for pair in pairs}
        selected_texts = st.multiselect(
            "Only runs with", list(texts), key=f"effects-only-{experiment_id}", width=420,
            placeholder="all levels", persist_state="session",
            help="Two levels of one parameter mean either of them.",
        )  # fmt: skip
    levels_by_parameter: dict[str, list[Level]] = {}
    for text in selected_texts:
        parameter, value = texts[text]
        levels_by_parameter.setdefault(parameter, []).append(value)
    levels = tuple((parameter, tuple(values)) for parameter, values in levels_by_parameter.items())
    response = (
        next(candidate for candidate in responses if candidate.name == name)
        if name
        else responses[0]
    )
    return response, RunFilter(feasible, levels)


def _tested_levels(experiment: Experiment) -> list[tuple[str, Level]]:
    """Return the levels with a completed run, of parameters with at least two such levels."""
    rows = [observation.configuration.level_ids for observation in experiment.observations]
    levels: list[tuple[str, Level]] = []
    for position, parameter in enumerate(experiment.space.parameters):
        ids = sorted({row_ids[position] for row_ids in rows}, key=parameter.ranks.__getitem__)
        if len(ids) > 1:
            levels += [(parameter.name, parameter.levels[i]) for i in ids]
    return levels


def _effects_view(
    experiment: Experiment, response: AnalysedResponse, only: RunFilter
) -> EffectsView:
    with st.spinner("Estimating effects …"):
        try:
            report = effects_report(experiment, (), response, only)
            pair_strengths = term_shares(experiment, response, only)
        except AnalysisError as error:
            return EffectsView(response, only, None, None, str(error))
        return EffectsView(response, only, report, pair_strengths)


def ranking_table(ranking: EffectsRanking) -> pd.DataFrame:
    """Return the table of the parameters by the range of their main effect."""
    return pd.DataFrame(
        {
            "parameter": entry.parameter,
            "range": amount(entry.value, ranking.unit),
            "95 % interval": interval_text(entry, ranking.unit),
            "levels compared": f"{entry.n_compared} of {entry.n_levels}",
            "runs": entry.n_runs,
        }
        for entry in ranking.parameters
    )


def _levels(
    view_model: ExperimentView,
    experiment: Experiment,
    analysis: EffectsView,
    report: EffectsReport,
) -> Intent | None:
    st.subheader("Each level")
    charted = [effect for effect in report.main if len(effect.comparable) > 1]
    if not charted:
        st.caption("No parameter has results at two levels that can be compared.")
    else:
        st.caption(
            f"Change of {labels.escape_markdown(analysis.title)} against the mean of the levels, "
            "with its 95 % interval; all charts have one scale. An interval that contains 0 may "
            "be chance."
        )
    selection = effects_details.chooser(experiment)
    place, intent = None, None
    every = [entry for effect in charted for entry in figure_of(effect, report.unit).levels]
    for start in range(0, len(charted), CHARTS_A_ROW):
        row = charted[start : start + CHARTS_A_ROW]
        for column, effect in zip(st.columns(CHARTS_A_ROW), row, strict=False):
            with column:
                _chart(experiment, analysis, effect, every)
        slot = st.container()
        if selection is not None and selection.parameter in [entry.parameter for entry in row]:
            place = slot
    if selection is not None:
        with place or st.container():
            intent = effects_details.panel(view_model, experiment, selection)
    with st.expander("As a table"):
        st.dataframe(levels_table(report), hide_index=True, width="stretch", alt="each level")
    return intent


def _chart(
    experiment: Experiment,
    analysis: EffectsView,
    effect: MainEffect,
    beside: Sequence[LevelChange],
) -> None:
    unit = analysis.response.unit
    name = labels.escape_markdown(effect.parameter)
    st.markdown(f"**{name}** · {amount(effect.range.value, unit)}")
    marks = effects_details.marks(experiment, effect.parameter)
    figure = figure_of(effect, unit)
    levels = [replace(entry, level=marks.get(entry.level, entry.level)) for entry in figure.levels]
    chart = main_effects(levels, effect.parameter, effect.unit, f"[{unit}]" if unit else "", beside)
    key = f"effects-{effect.parameter}-{experiment.opened.experiment_id}"
    st.vega_lite_chart(
        low(choosable(chart, effect.parameter)),
        theme=None,
        width="stretch",
        alt=f"change of {analysis.title} by level of {effect.parameter}; {figure.test}",
        key=key,
        on_select=lambda: effects_details.clicked(experiment, key),
    )
    n_tried = sum(entry.n > 0 for entry in effect.levels)
    tried = f"{n_tried} of {len(effect.levels)} levels tried"
    st.caption(labels.escape_markdown(f"{figure.test}; {tried}"))


def levels_table(report: EffectsReport) -> pd.DataFrame:
    """Return the table of levels with the effect of each, parameters by their range."""
    unit = f" [{report.unit}]" if report.unit else ""
    return pd.DataFrame(
        {
            "parameter": effect.parameter,
            "level": level_words(entry.levels[0], effect.unit),
            "runs": entry.n,
            f"change{unit}": number(entry.change),
            "95 % interval of change": labels.interval(entry.low, entry.high),
            "": entry.verdict or "",
        }
        for effect in report.main
        for entry in effect.levels
        if entry.n or len(effect.levels) <= MOST_LISTED
    )
