"""The effects of a report, and the sentences that the command line shares with it."""

from dataclasses import dataclass

from assistant.charts_effects import LevelChange
from assistant.effects import EffectsReport, MainEffect, effects_report
from assistant.experiment import Experiment
from assistant.report.words import level, number
from strategies.analysis import Contrast, HalfNormalPoint, LackOfFit, Margins, Prediction, TermTest
from strategies.errors import AnalysisError


@dataclass(frozen=True, slots=True)
class EffectFigure:
    """One parameter whose levels can be compared: its test in words, and its levels."""

    parameter: str
    unit: str
    description: str
    test: str
    levels: tuple[LevelChange, ...]


@dataclass(frozen=True, slots=True)
class EffectsSection:
    """What a report says of effects.

    Args:
        figures: parameters whose levels can be compared, the largest F first.
        unknown: parameters of which nothing can be said, with the reason.
        contrasts: for the Pareto chart, the largest first.
        margins: Lenth's.
        half_normal: for the half-normal plot.
        sentences: what it rests on.
    """

    figures: tuple[EffectFigure, ...]
    unknown: tuple[tuple[str, str], ...]
    contrasts: tuple[Contrast, ...]
    margins: Margins
    half_normal: tuple[HalfNormalPoint, ...]
    sentences: tuple[str, ...]


def effects_section(experiment: Experiment) -> EffectsSection | None:
    """Return the main effects of the additive model; None without any run."""
    if not experiment.measured:
        return None
    try:
        report = effects_report(experiment)
    except AnalysisError as error:
        said = f"Effects were not estimated: {error}"
        return EffectsSection((), (), (), Margins(None, None, None), (), (said,))
    drawn = [effect for effect in report.main if len(effect.known) > 1]
    drawn.sort(key=lambda effect: -(effect.test.f or effect.test.sum_squares or 0.0))
    return EffectsSection(
        figures=tuple(figure_of(effect) for effect in drawn),
        unknown=tuple(
            (effect.parameter, effect.test.reason or "")
            for effect in report.main
            if len(effect.known) < 2 and len(effect.levels) > 1
        ),
        contrasts=report.contrasts,
        margins=report.margins,
        half_normal=report.half_normal,
        sentences=sentences(report),
    )


def figure_of(effect: MainEffect) -> EffectFigure:
    """Return a main effect as it is drawn: the levels that can be compared."""
    return EffectFigure(
        effect.parameter,
        effect.unit,
        effect.description,
        f_text(effect.test),
        tuple(
            LevelChange(level(known.levels[0]), known.change, known.low, known.high, known.n)
            for known in effect.known
            if known.change is not None
        ),
    )


def sentences(report: EffectsReport) -> tuple[str, ...]:
    """Return what an analysis rests on: the error, the margins, the fit, the prediction."""
    told = [report.error.reason, margins_text(report.margins, report.unknown_contrasts)]
    told += [lack_of_fit_text(report.lack_of_fit), prediction_text(report.prediction)]
    return tuple(sentence for sentence in dict.fromkeys(told) if sentence)


def f_text(test: TermTest) -> str:
    """Return a test in one line.

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
    """Return a probability as it stands after ``p``.

    >>> p_text(0.0312), p_text(1e-9), p_text(None)
    ('= 0.031', '< 0.0001', 'unknown')
    """
    if p is None:
        return "unknown"
    return f"= {p:.2g}" if p >= 0.0001 else "< 0.0001"


def margins_text(margins: Margins, n_unknown: int) -> str:
    """Return Lenth's margins in a sentence, and what is missing among the contrasts."""
    if margins.margin is None:
        told = margins.reason or ""
    else:
        told = (
            f"Lenth's margins: an effect beyond {number(margins.margin)} stands out by itself "
            f"(ME), one beyond {number(margins.simultaneous)} among all (SME); the pseudo standard "
            f"error is {number(margins.pse)}."
        )
    if n_unknown:
        noun = "contrast" if n_unknown == 1 else "contrasts"
        told += f" {n_unknown} more {noun} of the levels with runs cannot be estimated."
    return told.strip()


def lack_of_fit_text(test: LackOfFit) -> str:
    """Return the test of lack of fit in a sentence."""
    if test.reason is not None:
        return test.reason
    return (
        f"Lack of fit against pure error: F = {number(test.f)} with {test.df} and {test.pure_df} "
        f"degrees of freedom, p {p_text(test.p)}."
    )


def prediction_text(told: Prediction) -> str:
    """Return the leave-one-out prediction in a sentence."""
    if told.r_squared is None:
        return told.reason or ""
    worse = "; their mean would predict better" if told.r_squared < 0 else ""
    text = f"Each run predicted from the others: R² {told.r_squared:.2f}{worse}."
    if told.n_alone:
        runs = "1 run" if told.n_alone == 1 else f"{told.n_alone} runs"
        alone = "it alone determines" if told.n_alone == 1 else "each alone determines"
        text += f" Without {runs} that the others cannot predict, since {alone} an effect."
    return text
