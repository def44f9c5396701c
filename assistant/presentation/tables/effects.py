"""Effects of parameters: the section of a report, its sentences, and the estimate at each level."""

from dataclasses import dataclass

from assistant.analysis.effects import (
    EVERY,
    AnalysedResponse,
    EffectsReport,
    MainEffect,
    RunFilter,
    TermShare,
    TermShares,
    effects_report,
    first_response,
    response_observations,
)
from assistant.core.experiment import Experiment
from assistant.core.objective import Goal
from assistant.presentation.charts.effects import LevelChange
from assistant.presentation.charts.vega_lite import LevelEstimate
from assistant.presentation.text.number_format import level, number, unit_of
from strategies import AnovaModel, DesignModel, Marginal, Parameter
from strategies.doe.factorial_model import LackOfFit, PressStatistic, TermTest
from strategies.doe.linear_model import Contrast, HalfNormalPoint, Margins
from strategies.space.errors import AnalysisError

CLEAR = 0.05
LITTLE = 0.01  # Pairs that explain less than this share of the variation are not named


@dataclass(frozen=True, slots=True)
class EffectFigure:
    """The effect of one parameter for display: its F test as text, and its level changes."""

    parameter: str
    unit: str
    description: str
    test: str
    levels: tuple[LevelChange, ...]


@dataclass(frozen=True, slots=True)
class EffectsSection:
    """The content of the section on parameter effects in a report."""

    figures: tuple[EffectFigure, ...]
    unknown: tuple[tuple[str, str], ...]
    contrasts: tuple[Contrast, ...]
    margins: Margins
    half_normal: tuple[HalfNormalPoint, ...]
    sentences: tuple[str, ...]


def effects_section(experiment: Experiment) -> EffectsSection | None:
    """Return the effects section of a report, or None if no run has a measured value."""
    if not experiment.measured:
        return None
    try:
        report = effects_report(experiment)
    except AnalysisError as error:
        reason = f"Effects were not estimated: {error}"
        return EffectsSection((), (), (), Margins(None, None, None), (), (reason,))
    comparable = [effect for effect in report.main if len(effect.comparable) > 1]
    comparable.sort(key=lambda effect: -(effect.test.f or effect.test.sum_squares or 0.0))
    return EffectsSection(
        figures=tuple(figure_of(effect) for effect in comparable),
        unknown=tuple(
            (effect.parameter, effect.test.reason or "")
            for effect in report.main
            if len(effect.comparable) < 2 and len(effect.levels) > 1
        ),
        contrasts=report.contrasts,
        margins=report.margins,
        half_normal=report.half_normal,
        sentences=effect_sentences(report),
    )


def figure_of(effect: MainEffect) -> EffectFigure:
    """Convert a main effect to an `EffectFigure` with the levels that can be compared."""
    return EffectFigure(
        effect.parameter,
        effect.unit,
        effect.description,
        f_text(effect.test),
        tuple(
            LevelChange(level(change.levels[0]), change.change, change.low, change.high, change.n)
            for change in effect.comparable
            if change.change is not None
        ),
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


def headline(report: EffectsReport, strengths: TermShares) -> str:
    """Return one or two sentences on the strongest effects, or on why none is known."""
    measured = [strength for strength in strengths.main if strength.share is not None]
    if not measured:
        return f"No effect on {report.value_name} can be estimated yet: {report.error.reason}"
    measured.sort(key=lambda strength: -(strength.share or 0.0))
    most = measured[0]
    text = (
        f"{most.parameters[0]} matters most: it explains {_share(most)} of the variation of "
        f"{report.value_name} over the {report.n_runs} runs."
    )
    if not most.share:
        text = f"No parameter explains more of the variation of {report.value_name} than chance."
    tested = [strength for strength in measured if strength.test.p is not None]
    if tested:
        clear = [strength.parameters[0] for strength in tested if (strength.test.p or 0.0) < CLEAR]
        names = f": {', '.join(clear)}" if clear else ""
        text += f" Significant in single tests: {len(clear)} of {len(tested)} parameters{names}."
    pair = next((strength for strength in strengths.pairs if strength.share is not None), None)
    if pair is not None and (pair.share or 0.0) < LITTLE:
        text += f" No interaction is known to explain {LITTLE:.0%} more."
    elif pair is not None:
        text += f" The strongest interaction is {' x '.join(pair.parameters)} with {_share(pair)}."
    return text


def _share(strength: TermShare) -> str:
    least = "at least " if strength.is_part else ""
    return f"{least}{strength.share or 0.0:.0%}"


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


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """The estimates for all levels of one parameter, in units of the measured value."""

    parameter: str
    unit: str
    description: str
    range_value: float | None
    levels: tuple[LevelEstimate, ...]

    @property
    def n_tried(self) -> int:
        """The number of levels with at least one observation."""
        return sum(m.n > 0 for m in self.levels)


def level_qualities(
    experiment: Experiment, response: AnalysedResponse | None = None, only: RunFilter = EVERY
) -> tuple[ParameterEffect, ...]:
    """Return ANOVA estimates for the levels of each parameter, largest range first.

    The model uses all measured values, whether or not a run meets the constraints (strategies learn
    from responses, in which a violation counts). Levels are sorted by rank. Empty without a run.
    """
    space = experiment.space
    if response is None and only == EVERY:
        model, counts = experiment.measured_anova, experiment.measured_model
    else:
        history = response_observations(experiment, response, only)
        model = AnovaModel(space, history) if history else None
        counts = DesignModel.fit(space, history)
    if model is None:
        return ()
    sign = (response or first_response(experiment)).sign
    effects = []
    for parameter in space.parameters:
        marginals = model.main_effect(parameter.name)
        estimates = [
            _estimate(sign, parameter, marginals[i], counts.count(parameter.name, i))
            for i in sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        ]
        values = [e.value for e in estimates if e.value is not None]
        effects.append(
            ParameterEffect(
                parameter.name,
                parameter.unit,
                parameter.description,
                max(values) - min(values) if len(values) > 1 else None,
                tuple(estimates),
            )
        )
    return tuple(sorted(effects, key=lambda e: e.range_value or 0.0, reverse=True))


def _estimate(sign: float, parameter: Parameter, marginal: Marginal, n: int) -> LevelEstimate:
    text = level(parameter.levels[marginal.level_ids[0]])
    if n == 0:
        return LevelEstimate(text, None, None, None, 0)
    low, high = sorted(sign * end for end in marginal.interval)
    return LevelEstimate(text, sign * marginal.value, low, high, n)
