"""What matters: the ranking of the parameters in words, and the effects section of a report.

Terminal, browser, report and API all show the one ranking that `ranking_of` returns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assistant.analysis.effects import (
    AnalysedResponse,
    EffectsReport,
    InteractionEffect,
    MainEffect,
    ParameterRange,
    effects_report,
    first_response,
)
from assistant.core.experiment import Experiment, once_per_result
from assistant.core.objective import Goal
from assistant.presentation.charts.effects import CombinationChange, LevelChange
from assistant.presentation.text.number_format import duration, level_texts, number, unit_of
from strategies.doe.factorial_model import SIGNIFICANT, LackOfFit, PressStatistic, TermTest
from strategies.doe.linear_model import Contrast, HalfNormalPoint, Margins
from strategies.space.errors import AnalysisError

MOST_NAMED = 8  # Most parameters in a sentence; further ones are counted
SPOKEN_S = 120.0  # Seconds from which on a range is given in minutes, hours or days


@dataclass(frozen=True, slots=True)
class EffectsRanking:
    """What matters: the parameters by the range of their main effect, and its sentences.

    Args:
        value_name: measured value that the effects are on.
        unit: its unit, and that of the ranges.
        n_runs: completed runs that were analysed.
        sentence: what matters most, in words.
        error: source of the error behind the intervals, in words.
        parameters: the ranges, the largest first, unknown ones last; empty if there are too many
            levels for a fit.
    """

    value_name: str
    unit: str
    n_runs: int
    sentence: str
    error: str
    parameters: tuple[ParameterRange, ...]

    @property
    def headline(self) -> str:
        """The first sentence on what matters most, without intervals and followers."""
        ranked = [entry for entry in self.parameters if entry.value is not None]
        if not ranked or not ranked[0].value:
            return self.sentence
        text = _first_sentence(ranked[0], ranked[1:])
        return f"{text}{amount(ranked[0].value, self.unit)} in {self.value_name}."

    @property
    def unsure(self) -> str:
        """One line on what the runs cannot tell yet, or an empty text."""
        ranked = [entry for entry in self.parameters if entry.value is not None]
        is_told = bool(ranked and ranked[0].value)
        rivals = [
            entry.parameter for entry in ranked[1:] if is_told and may_exceed(entry, ranked[0])
        ]
        unknown = [entry.parameter for entry in self.parameters if entry.value is None]
        noise = [
            f"{entry.parameter} (at most {amount(entry.high, self.unit)})"
            for entry in ranked[1:]
            if entry.low == 0 and entry.value and entry.high is not None
            if entry.parameter not in rivals  # else the two sentences would contradict each other
        ]
        sentences = [
            f"Not told apart yet: {_listed(rivals)} may matter as much." if rivals else "",
            f"No effect beyond noise: {_listed(noise)}." if noise else "",
            f"Not known yet: {_listed(unknown)}." if unknown else "",
        ]
        return " ".join(filter(None, sentences))


def ranking_of(report: EffectsReport) -> EffectsRanking:
    """Return the ranking of the parameters in an effects analysis, with its sentence."""
    return EffectsRanking(
        report.value_name, report.unit, report.n_runs, _ranking_sentence(report),
        report.error.reason, report.ranking,
    )  # fmt: skip


@once_per_result
def effects_ranking(experiment: Experiment) -> EffectsRanking:
    """Return the ranking of the parameters by their effect on the objective's value."""
    try:
        return ranking_of(effects_report(experiment))
    except AnalysisError as error:
        response, reason = first_response(experiment), f"Effects were not estimated: {error}"
        n_runs = len(experiment.observations)
        return EffectsRanking(response.name, response.unit, n_runs, reason, reason, ())


def _ranking_sentence(report: EffectsReport) -> str:
    """Say which parameters matter, by how much, and what noise could make."""
    ranked = [entry for entry in report.ranking if entry.value is not None]
    if not ranked:
        n = report.n_runs
        few = "one completed run does" if n == 1 else f"{n} completed runs do"
        return f"No effect on {report.value_name} is known yet: {few} not suffice."
    first, followers = ranked[0], ranked[1:]
    if not first.value:
        return f"No parameter changes {report.value_name} in these runs."
    rivals = [entry.parameter for entry in followers if may_exceed(entry, first)]
    parts = [_first_sentence(first, followers)]
    parts[0] += f"{range_text(first, report.unit)} in {report.value_name}"
    values = [f"{entry.parameter} {amount(entry.value, report.unit)}" for entry in followers]
    if followers:
        parts[0] += (
            f"; {followers[0].parameter} follows with {amount(followers[0].value, report.unit)}"
        )
    parts[0] += "."
    if values[1:]:
        parts.append(f"Then {_listed(values[1:])}.")
    unclear = [entry.parameter for entry in followers if entry.low == 0]
    untold = [name for name in rivals if name in unclear]  # two sentences would be a contradiction
    for names, words in (
        ([name for name in rivals if name not in untold], "may matter as much."),
        (untold, "may matter as much or not at all: these runs cannot tell."),
        (
            [name for name in unclear if name not in untold],
            "may not matter: chance alone could give as much.",
        ),
    ):
        if names:
            parts.append(f"{_listed(names)} {words}")
    if report.lack_of_fit.p is not None and report.lack_of_fit.p < SIGNIFICANT:
        parts.append("Parameters interact, which widens these intervals: look at pairs.")
    if first.low is None:
        parts.append(report.error.reason)
    unknown = [entry.parameter for entry in report.ranking if entry.value is None]
    if unknown:
        parts.append(f"Not known yet: {_listed(unknown)}.")
    return " ".join(parts)


def _first_sentence(first: ParameterRange, followers: Sequence[ParameterRange]) -> str:
    """Begin the sentence on what matters most; the size of the difference follows."""
    if first.low == 0:
        return f"{first.parameter} comes first, but noise could make it: its levels differ by "
    has_rival = any(may_exceed(entry, first) for entry in followers)
    sure = "" if first.is_clear and not has_rival else "probably "
    return f"{first.parameter} {sure}matters most: its levels differ by "


def may_exceed(entry: ParameterRange, first: ParameterRange) -> bool:
    """Return whether a smaller range may be the larger one by its 95 % interval.

    The lower limit of the difference comes from the limits of both ranges. False without limits.
    Reference: Zou & Donner 2008, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (MOVER).
    """
    if first.value is None or first.low is None or entry.value is None or entry.high is None:
        return False
    return first.value - entry.value <= math.hypot(
        first.value - first.low, entry.high - entry.value
    )


def _listed(parts: Sequence[str]) -> str:
    text = ", ".join(parts[:MOST_NAMED])
    return text if len(parts) <= MOST_NAMED else f"{text} and {len(parts) - MOST_NAMED} more"


def amount(value: float | None, unit: str) -> str:
    """Format a size with three significant digits and its unit, long seconds as a duration.

    >>> amount(0.45231, ""), amount(953278.0, "s"), amount(0.0, "s")
    ('0.452', '11 d 01 h', '0 s')
    """
    if value is None:
        return "unknown"
    if unit == "s" and value >= SPOKEN_S:
        return duration(value)
    return f"{number(float(f'{value:.3g}'))} {unit}".strip()


def interval_text(entry: ParameterRange, unit: str) -> str:
    """Format the 95 % interval of a range, or an empty text without one."""
    if entry.low is None or entry.high is None:
        return ""
    return f"{amount(entry.low, unit)} to {amount(entry.high, unit)}"


def range_text(entry: ParameterRange, unit: str) -> str:
    """Format a range with its 95 % interval, if it has one above a point.

    >>> range_text(ParameterRange("lr", 0.4523, 0.4101, 0.4944, 5, 5, 40), "")
    '0.452 (95 %: 0.41 to 0.494)'
    """
    text = amount(entry.value, unit)
    if entry.low == entry.high:
        return text
    return f"{text} (95 %: {interval_text(entry, unit)})"


@dataclass(frozen=True, slots=True)
class EffectFigure:
    """The effect of one parameter for display: its range, F test as text, and level changes."""

    parameter: str
    unit: str
    description: str
    range_text: str
    test: str
    levels: tuple[LevelChange, ...]


@dataclass(frozen=True, slots=True)
class EffectsSection:
    """The content of the section on parameter effects in a report."""

    ranking: EffectsRanking
    figures: tuple[EffectFigure, ...]
    unknown: tuple[tuple[str, str], ...]
    contrasts: tuple[Contrast, ...]
    margins: Margins
    half_normal: tuple[HalfNormalPoint, ...]
    sentences: tuple[str, ...]


def effects_section(experiment: Experiment) -> EffectsSection | None:
    """Return the effects section of a report, or None if no run has a measured value."""
    if not experiment.observations:
        return None
    try:
        report = effects_report(experiment)
    except AnalysisError:
        ranking = effects_ranking(experiment)
        none = Margins(None, None, None)
        return EffectsSection(ranking, (), (), (), none, (), (ranking.sentence,))
    return EffectsSection(
        ranking=ranking_of(report),
        figures=tuple(
            figure_of(effect, report.unit) for effect in report.main if len(effect.comparable) > 1
        ),
        unknown=tuple(
            (effect.parameter, effect.range.reason or "")
            for effect in report.main
            if len(effect.comparable) < 2 and len(effect.levels) > 1
        ),
        contrasts=report.contrasts,
        margins=report.margins,
        half_normal=report.half_normal,
        sentences=effect_sentences(report),
    )


def figure_of(effect: MainEffect, unit: str) -> EffectFigure:
    """Convert a main effect to an `EffectFigure` with the levels that can be compared.

    Args:
        effect: the main effect.
        unit: unit of the measured value.
    """
    return EffectFigure(
        effect.parameter,
        effect.unit,
        effect.description,
        range_text(effect.range, unit),
        f_text(effect.test),
        tuple(
            LevelChange(text, change.change, change.low, change.high, change.n)
            for text, change in zip(level_names(effect), effect.levels, strict=True)
            if change.change is not None
        ),
    )


def level_names(effect: MainEffect) -> tuple[str, ...]:
    """Return the texts of a parameter's levels, for people and each different."""
    return level_texts([change.levels[0] for change in effect.levels], effect.unit)


@dataclass(frozen=True, slots=True)
class InteractionFigure:
    """The combinations of two parameters for display, and the levels of the second in order."""

    changes: tuple[CombinationChange, ...]
    second_levels: tuple[str, ...]


def interaction_figure(effect: InteractionEffect, report: EffectsReport) -> InteractionFigure:
    """Convert an interaction to an `InteractionFigure`, with levels as in their main effects."""
    main = {entry.parameter: entry for entry in report.main}
    names = [
        dict(zip((c.levels[0] for c in main[name].levels), level_names(main[name]), strict=True))
        for name in effect.parameters
    ]
    first, second = ({value: i for i, value in enumerate(texts)} for texts in names)
    ordered = sorted(effect.combinations, key=lambda c: (first[c.levels[0]], second[c.levels[1]]))
    return InteractionFigure(
        tuple(
            CombinationChange(names[0][c.levels[0]], names[1][c.levels[1]], c.change, c.n)
            for c in ordered
            if c.change is not None
        ),
        tuple(names[1].values()),
    )


def effect_sentences(report: EffectsReport) -> tuple[str, ...]:
    """Return sentences on the error, margins, fit and prediction of an effects analysis."""
    parts = [report.error.reason, margins_text(report.margins, report.unknown_contrasts)]
    parts += [fit_text(report), lack_of_fit_text(report.lack_of_fit)]
    parts += [prediction_text(report.prediction)]
    return tuple(sentence for sentence in dict.fromkeys(parts) if sentence)


def responses_of(experiment: Experiment) -> tuple[AnalysedResponse, ...]:
    """Return the objective values and all other numeric measures as responses to analyse.

    Other measures must be a number in some run; if a constraint bounds a measure on one side, the
    other direction is better.
    """
    objective = experiment.opened.objective
    responses = [first_response(experiment)]
    if objective.second is not None:
        second = objective.second
        responses.append(
            AnalysedResponse(str(second.wrapper), second.unit, second.goal, is_second=True)
        )
    names = {outcome.name for outcome in responses}
    bounds = {c.measure: c for c in objective.constraints}
    outcomes = [run.outcome for run in experiment.runs if run.outcome is not None]
    for name in sorted({name for outcome in outcomes for name in outcome.measures} - names):
        bound = bounds.get(name)
        goal: Goal | None = None
        if bound is not None and (bound.at_most is None) != (bound.at_least is None):
            goal = "maximise" if bound.at_most is None else "minimise"
        response = AnalysedResponse(name, unit_of(name), goal, measure=name)
        if any(response.of(outcome) is not None for outcome in outcomes):
            responses.append(response)
    return tuple(responses)


def fit_text(report: EffectsReport) -> str:
    """Return a sentence on the variation that the model explains, or an empty text."""
    if report.r_squared is None:
        return ""
    left = "1 degree" if report.residual_df == 1 else f"{report.residual_df} degrees"
    return (
        f"The model explains {report.r_squared:.0%} of the variation (R² {report.r_squared:.2f}); "
        f"{left} of freedom {'is' if report.residual_df == 1 else 'are'} left over."
    )


def f_text(test: TermTest) -> str:
    """Format the F test of a term in one line.

    >>> f_text(TermTest(("procs",), 2, 2, 8.0, 4.0, 0.04, None))
    'F = 4 with 2 df, p = 0.04'
    >>> f_text(TermTest(("procs",), 0, 2, None, None, None, "no run yet"))
    'no run yet'
    """
    if test.f is None:
        return test.reason or ""
    text = f"F = {number(test.f)} with {test.df} df, p {p_text(test.p)}"
    return f"{text} ({test.reason})" if test.reason else text


def p_text(p: float | None) -> str:
    """Format a p-value as the text that follows ``p``, such as ``= 0.04``.

    >>> p_text(0.0312), p_text(1e-9), p_text(None)
    ('= 0.031', '< 0.0001', 'unknown')
    """
    if p is None:
        return "unknown"
    return f"= {p:.2g}" if p >= 0.0001 else "< 0.0001"


def margins_text(margins: Margins, n_unknown: int) -> str:
    """Format Lenth's margins in a sentence, with the number of unknown contrasts."""
    if margins.margin is None:
        text = margins.reason or ""
    else:
        text = (
            f"Lenth's margins: {number(margins.margin)} for a single effect (ME), "
            f"{number(margins.simultaneous)} for all effects at once (SME); the pseudo standard "
            f"error is {number(margins.pse)}."
        )
    if n_unknown:
        noun = "contrast" if n_unknown == 1 else "contrasts"
        text += f" {n_unknown} more {noun} of the levels with runs cannot be estimated."
    return text.strip()


def lack_of_fit_text(test: LackOfFit) -> str:
    """Format the lack-of-fit test in a sentence."""
    if test.reason is not None:
        return test.reason
    return (
        f"Lack of fit against pure error: F = {number(test.f)} with {test.df} and {test.pure_df} "
        f"degrees of freedom, p {p_text(test.p)}."
    )


def prediction_text(prediction: PressStatistic) -> str:
    """Format the quality of leave-one-out predictions in a sentence."""
    if prediction.r_squared is None:
        return prediction.reason or ""
    worse = "; their mean would predict better" if prediction.r_squared < 0 else ""
    text = f"Each run predicted from the others: R² {prediction.r_squared:.2f}{worse}."
    if prediction.n_alone:
        runs = "1 run" if prediction.n_alone == 1 else f"{prediction.n_alone} runs"
        alone = "it alone determines" if prediction.n_alone == 1 else "each alone determines"
        text += f" Without {runs} that the others cannot predict, since {alone} an effect."
    return text
