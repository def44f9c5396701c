"""How much each parameter and each pair explains, and which contrasts noise does not explain."""

import math
from dataclasses import dataclass

from scipy.special import stdtrit

from assistant.effects.analysis import EffectsReport, sum_of_squares
from assistant.effects.response import EVERY, Filter, Response, measured
from assistant.experiment import Experiment
from strategies.analysis import Contrast, FactorialModel, TermTest, all_pairs
from strategies.errors import AnalysisError

MOST_PAIRED = 12
"""Parameters whose pairs are all tested; of more the strongest, whose interactions are likeliest
(effect heredity: Hamada & Wu 1992, Analysis of designed experiments with complex aliasing)."""


@dataclass(frozen=True, slots=True)
class Strength:
    """How much of the variation between the runs one term explains.

    Args:
        parameters: one name for a main effect, two for an interaction.
        test: of the term; of an interaction beside all main effects and no other interaction.
        share: its sum of squares over that about the mean, 0 to 1, less what chance would give it
            where the error is known; None if nothing of it can be estimated.

    Reference: Kelley 1935, An unbiased correlation ratio measure, PNAS 21 (epsilon squared).
    """

    parameters: tuple[str, ...]
    test: TermTest
    share: float | None

    @property
    def is_part(self) -> bool:
        """Whether only some comparisons of the term can be estimated, so that it may be more."""
        return 0 < self.test.df < self.test.full_df


@dataclass(frozen=True, slots=True)
class Strengths:
    """All main effects and interactions by what they explain.

    Args:
        main: of every parameter, in the space's order.
        pairs: of every pair that was tested, the strongest first, unknown ones at the end.
        left_out: parameters whose pairs were not tested, because there are too many.
    """

    main: tuple[Strength, ...]
    pairs: tuple[Strength, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandardisedEffects:
    """Contrasts in standard errors, with the limits that noise stays within.

    Args:
        effects: contrasts with their t, the largest first.
        limit: two-sided 95 % limit of t for one that is looked at alone.
        bonferroni: for all of them at once.
        df: degrees of freedom of the error.
    """

    effects: tuple[tuple[Contrast, float], ...]
    limit: float
    bonferroni: float
    df: int


def strengths(
    experiment: Experiment, response: Response | None = None, only: Filter = EVERY
) -> Strengths:
    """Return what every parameter and every pair of them explains, each pair tested by itself.

    Of more than `MOST_PAIRED` parameters with levels to compare only the pairs of the strongest.
    Raises AnalysisError if already the main effects have too many columns.
    """
    space, history = experiment.space, measured(experiment, response, only)
    model = FactorialModel.fit(space, history)
    main = tuple(_strength(model, test) for test in model.tests)
    able = [one for one in main if one.test.df]
    ordered = sorted(able, key=lambda one: -(one.test.sum_squares or 0.0))
    kept = {one.parameters[0] for one in ordered[:MOST_PAIRED]}
    pairs = []
    for first, second in all_pairs(space):
        if not {first, second} <= kept:
            continue
        try:
            with_pair = FactorialModel.fit(space, history, [(first, second)])
        except AnalysisError as error:
            test = TermTest((first, second), 0, 0, None, None, None, str(error))
            pairs.append(Strength((first, second), test, None))
        else:
            pairs.append(_strength(with_pair, with_pair.test(first, second)))
    pairs.sort(key=lambda one: (one.share is None, -(one.share or 0.0)))
    left_out = tuple(one.parameters[0] for one in ordered[MOST_PAIRED:])
    return Strengths(main, tuple(pairs), left_out)


def standardised(report: EffectsReport) -> StandardisedEffects | None:
    """Return the contrasts in standard errors; None without an estimate of the error above 0.

    t = sign x sqrt(sum of squares / mean square of the error). The limits are the 0.975 quantile
    of Student's t, and that of 1 - 0.025 / m for all m contrasts at once (Bonferroni).

    Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 6.2 and 10.5.
    """
    square, df, m = report.error.mean_square, report.error.df, len(report.contrasts)
    if not square or not m:
        return None
    effects = [
        (one, math.copysign(math.sqrt(one.sum_squares / square), one.effect))
        for one in report.contrasts
    ]
    effects.sort(key=lambda pair: -abs(pair[1]))
    limit, all_at_once = (float(stdtrit(df, 1 - tail)) for tail in (0.025, 0.025 / m))
    return StandardisedEffects(tuple(effects), limit, all_at_once, df)


def _strength(model: FactorialModel, test: TermTest) -> Strength:
    total = sum_of_squares(model)
    if test.sum_squares is None or total == 0:
        return Strength(test.parameters, test, None)
    by_chance = test.df * (model.error.mean_square or 0.0)
    return Strength(test.parameters, test, min(max(test.sum_squares - by_chance, 0.0) / total, 1.0))
