"""Effects of parameters on a measured value: estimates, tests, and runs needed to estimate them.

The observed response, what matters (`ParameterRange`), main effects and interactions, shares of the
variation, contrasts beyond the noise, and runs that would make an effect estimable.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import stdtrit

from assistant.core.errors import ExperimentError
from assistant.core.experiment import Experiment, once_per_result, once_per_state
from assistant.core.objective import LIMIT, Goal
from assistant.core.run import Outcome, Run
from strategies import Configuration, Level, Observation
from strategies.data.learning_sample import LEARNT_RUNS, MOST_REPLICATES, sample_positions
from strategies.doe.coverage import (
    BlockCompletion,
    EstimationTarget,
    MissingRuns,
    SpaceCoverage,
    complete_block,
    measure_coverage,
    missing_runs,
)
from strategies.doe.factorial_model import (
    ErrorEstimate,
    FactorialModel,
    LackOfFit,
    LevelContrast,
    LevelRange,
    PressStatistic,
    TermTest,
    all_pairs,
    lack_of_fit,
    press_statistic,
)
from strategies.doe.linear_model import (
    Contrast,
    HalfNormalPoint,
    Margins,
    half_normal,
    lenth_margins,
)
from strategies.space.errors import AnalysisError


@dataclass(frozen=True, slots=True)
class AnalysedResponse:
    """Response variable of an analysis: the objective's value or another measure.

    Args:
        goal: direction that is better; None if neither is.
        measure: name of one measure of a run; empty for the objective's own value.
        is_second: whether it is the objective's second value.
    """

    name: str
    unit: str = ""
    goal: Goal | None = None
    measure: str = ""
    is_second: bool = False

    def of(self, outcome: Outcome) -> float | None:
        """Return the response's value in a run's outcome; None if unknown or not a number."""
        if self.is_second:
            return outcome.second_value
        if not self.measure:
            return outcome.value
        value = outcome.measures.get(self.measure)
        if not isinstance(value, int | float) or not abs(value) <= LIMIT:
            return None
        return float(value)

    @property
    def sign(self) -> float:
        """Factor from quality (greater is better) to measured value: -1 if minimised, else 1."""
        return -1.0 if self.goal == "minimise" else 1.0


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filter of completed runs for an analysis, by feasibility or by given levels."""

    feasible: bool = False
    levels: tuple[tuple[str, tuple[Level, ...]], ...] = ()

    def takes(self, experiment: Experiment, run: Run) -> bool:
        """Return whether a run is completed and meets the filter's conditions."""
        if run.outcome is None or (self.feasible and not run.outcome.feasible):
            return False
        if not self.levels:
            return True
        values = experiment.space.values(run.configuration)
        return all(values.get(name) in allowed_levels for name, allowed_levels in self.levels)


EVERY = RunFilter()


def first_response(experiment: Experiment) -> AnalysedResponse:
    """Return the response for the first measure of the experiment's objective."""
    objective = experiment.opened.objective
    return AnalysedResponse(str(objective.wrapper), objective.unit, objective.goal)


@once_per_result
def response_observations(
    experiment: Experiment, response: AnalysedResponse | None = None, only: RunFilter = EVERY
) -> tuple[Observation, ...]:
    """Return an observation for each completed run with a known response, oldest first.

    Without a goal the quality is the value itself. The default is the objective's own value.
    """
    target, first = response or first_response(experiment), first_response(experiment)
    if target == first and only == EVERY and not experiment.opened.objective.constraints:
        return experiment.observations
    observations = []
    for run in experiment.runs:
        if run.outcome is not None and only.takes(experiment, run):
            value = target.of(run.outcome)
            if value is not None:
                observations.append(Observation(run.configuration, target.sign * value))
    return tuple(observations)


def sample_of_effects(
    experiment: Experiment, observations: Sequence[Observation]
) -> tuple[Observation, ...]:
    """Return the observations that effects are estimated from: all, or `LEARNT_RUNS` of them.

    The sample has the current configuration, the best one and the newest, and is evenly spread over
    the time otherwise: to take more of the best runs would bias the estimates.
    """
    baseline = experiment.opened.baseline
    positions = sample_positions(
        observations,
        LEARNT_RUNS,
        n_best=MOST_REPLICATES,
        always=() if baseline is None else (baseline,),
    )
    return tuple(observations[i] for i in positions)


@once_per_result
def _fitted(
    experiment: Experiment,
    response: AnalysedResponse,
    only: RunFilter,
    pairs: tuple[tuple[str, str], ...] = (),
) -> FactorialModel:
    """Return the model of all main effects and some interactions. Raises AnalysisError."""
    if pairs:
        return _fitted(experiment, response, only).with_pairs(pairs)
    observations = response_observations(experiment, response, only)
    return FactorialModel.fit(experiment.space, sample_of_effects(experiment, observations))


Verdict = Literal["better", "worse"]


@dataclass(frozen=True, slots=True)
class ValueChange:
    """Change of the measured value due to one level or a combination of two levels.

    Args:
        change: difference from the mean of the comparable levels; None if unknown.
        low: lower end of the 95 % interval of the change, None if unknown.
        verdict: side of 0 on which the whole interval lies; None if it holds 0 or is unknown, if
            neither side is better, or if noise alone could make the range of the parameter.
    """

    levels: tuple[Level, ...]
    n: int
    change: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class ParameterRange:
    """How much a parameter matters: the range of its main effect in the additive model.

    The range is the largest estimated level effect less the smallest one, from one least-squares
    fit of all main effects. It is the only measure and order of what matters.

    Args:
        value: in the unit of the measured value; None if fewer than two levels can be compared.
        low: lower end of the 95 % interval of the true range, see `LevelRange`; None if unknown.
        n_compared: levels that the range compares, of ``n_levels``.
        n_runs: runs with these levels.
        reason: explanation of an unknown range, else None.
    """

    parameter: str
    value: float | None
    low: float | None
    high: float | None
    n_compared: int
    n_levels: int
    n_runs: int
    reason: str | None = None

    @property
    def is_clear(self) -> bool:
        """Whether the interval lies above 0, so that noise alone does not make such a range."""
        return self.low is not None and self.low > 0


@dataclass(frozen=True, slots=True)
class MainEffect:
    """Main effect of one parameter: its range, significance test, and change for each level."""

    parameter: str
    unit: str
    description: str
    range: ParameterRange
    test: TermTest
    levels: tuple[ValueChange, ...]

    @property
    def comparable(self) -> tuple[ValueChange, ...]:
        """Changes of the levels for which a change could be estimated."""
        return tuple(level for level in self.levels if level.change is not None)


@dataclass(frozen=True, slots=True)
class InteractionEffect:
    """Interaction effect of two parameters on the measured value.

    Args:
        combinations: total change by each combination with runs, main effects included.
        beyond: difference of each combination from the sum of the main effects; unknown unless
            the whole interaction can be estimated.
    """

    parameters: tuple[str, str]
    test: TermTest
    combinations: tuple[ValueChange, ...]
    beyond: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class EffectsReport:
    """Main effects and interactions in an experiment, in units of the measured value.

    Args:
        unit: its unit; sums of squares and mean squares have its square.
        goal: direction that is better; None if neither is.
        n_runs: runs that the effects are estimated from, of ``n_of`` that could be: a sample where
            these are very many, see `sample_of_effects`. The coverage is that of all.
        main: main effects, the largest range first. The ranges are always those of the additive
            model, also where interactions are in the model of the tests and changes.
        contrasts: single degrees of freedom on one scale, in the order of ``main``, interactions
            last, the largest of each term first.
        unknown_contrasts: number of other contrasts of the levels with runs.
        half_normal: contrasts against half-normal quantiles, the smallest first.
        prediction: prediction of each run by the others (PRESS).
        coverage: share of the space that has runs.
        r_squared: share of the sum of squares about the mean that the model explains; None without
            residual degrees of freedom, or if all responses are equal.
    """

    value_name: str
    unit: str
    goal: Goal | None
    n_runs: int
    n_of: int
    error: ErrorEstimate
    main: tuple[MainEffect, ...]
    interactions: tuple[InteractionEffect, ...]
    contrasts: tuple[Contrast, ...]
    unknown_contrasts: int
    margins: Margins
    half_normal: tuple[HalfNormalPoint, ...]
    lack_of_fit: LackOfFit
    prediction: PressStatistic
    coverage: SpaceCoverage
    r_squared: float | None
    residual_df: int

    @property
    def tests(self) -> tuple[TermTest, ...]:
        """Significance tests of all terms: main effects, then interactions."""
        return (*(e.test for e in self.main), *(e.test for e in self.interactions))

    @property
    def ranking(self) -> tuple[ParameterRange, ...]:
        """Ranges of all parameters, the largest first, unknown ones last."""
        return tuple(effect.range for effect in self.main)


@once_per_result
def effects_report(
    experiment: Experiment,
    pairs: tuple[tuple[str, str], ...] = (),
    response: AnalysedResponse | None = None,
    only: RunFilter = EVERY,
) -> EffectsReport:
    """Estimate all main effects and the interactions of ``pairs`` from completed runs (ANOVA).

    Args:
        experiment: the experiment, with or without runs.
        pairs: pairs of parameters whose interactions are in the model beside all main effects.
        response: response; the objective's own value if None.
        only: selection of the runs.

    Raises StrategyError: a name that is no parameter, or a model with too many columns.
    """
    looked_at = response or first_response(experiment)
    every = response_observations(experiment, looked_at, only)
    additive = _fitted(experiment, looked_at, only)
    model = _fitted(experiment, looked_at, only, pairs) if pairs else additive
    sign = looked_at.sign
    places = {level_range.parameter: i for i, level_range in enumerate(additive.ranges)}
    contrasts = tuple(
        replace(contrast, effect=sign * contrast.effect)
        for contrast in sorted(
            model.contrasts,
            key=lambda c: (
                len(c.parameters), [places[name] for name in c.parameters], -abs(c.effect)
            ),
        )
    )  # fmt: skip
    tested_pairs = [t.parameters for t in model.tests if len(t.parameters) == 2]
    return EffectsReport(
        value_name=looked_at.name,
        unit=looked_at.unit,
        goal=looked_at.goal,
        n_runs=model.n,
        n_of=len(every),
        error=model.error,
        main=_main(experiment, model, additive, looked_at),
        interactions=tuple(
            _interaction(experiment, model, first, second, looked_at)
            for first, second in tested_pairs
        ),
        contrasts=contrasts,
        unknown_contrasts=model.unknown_contrasts,
        margins=lenth_margins([contrast.effect for contrast in contrasts]),
        half_normal=half_normal(contrasts),
        lack_of_fit=lack_of_fit(model),
        prediction=press_statistic(model),
        coverage=measure_coverage(experiment.space, every),
        r_squared=_r_squared(model) if model.residual_df else None,
        residual_df=model.residual_df,
    )


def parameter_ranges(experiment: Experiment) -> dict[str, float]:
    """Return the range of each parameter's main effect by name, without unknown ones."""
    try:
        model = _fitted(experiment, first_response(experiment), EVERY)
    except AnalysisError:
        return {}
    return {entry.parameter: entry.value for entry in model.ranges if entry.value is not None}


def sum_of_squares(model: FactorialModel) -> float:
    """Return the total sum of squares of the responses about their mean."""
    if not model.n:
        return 0.0
    deviations = model.relative - model.relative.mean()
    return float(deviations @ deviations)


def _r_squared(model: FactorialModel) -> float | None:
    total = sum_of_squares(model)
    if model.solution is None or total == 0:
        return None
    return 1.0 - model.solution.residual_squares / total


def _main(
    experiment: Experiment,
    model: FactorialModel,
    additive: FactorialModel,
    response: AnalysedResponse,
) -> tuple[MainEffect, ...]:
    effects = []
    for level_range in additive.ranges:
        parameter = experiment.space.parameter(level_range.parameter)
        entry = _parameter_range(additive, level_range, parameter.n_levels)
        changes = [
            _value(change, (parameter.levels[change.level_ids[0]],), response)
            for change in model.levels(parameter.name)
        ]
        if not entry.is_clear:  # no verdict on a level of a parameter that may do nothing
            changes = [replace(change, verdict=None) for change in changes]
        effects.append(
            MainEffect(
                parameter.name, parameter.unit, parameter.description, entry,
                model.test(parameter.name), tuple(changes),
            )
        )  # fmt: skip
    return tuple(effects)


def _parameter_range(
    model: FactorialModel, level_range: LevelRange, n_levels: int
) -> ParameterRange:
    low, high = level_range.interval or (None, None)
    reason = None
    if level_range.value is None:
        reason = model.test(level_range.parameter).reason or "no two levels can be compared"
    return ParameterRange(
        level_range.parameter, level_range.value, low, high, len(level_range.level_ids), n_levels,
        level_range.count, reason,
    )  # fmt: skip


def _interaction(
    experiment: Experiment,
    model: FactorialModel,
    first: str,
    second: str,
    response: AnalysedResponse,
) -> InteractionEffect:
    parameters = [experiment.space.parameter(name) for name in (first, second)]

    def value_changes(changes: Sequence[LevelContrast]) -> tuple[ValueChange, ...]:
        return tuple(
            _value(
                change,
                tuple(p.levels[i] for p, i in zip(parameters, change.level_ids, strict=True)),
                response,
            )
            for change in changes
        )

    return InteractionEffect(
        (first, second),
        model.test(first, second),
        value_changes(model.combinations(first, second)),
        value_changes(model.interactions(first, second)),
    )


def pair_interaction(
    experiment: Experiment, pair: tuple[str, str], response: AnalysedResponse, only: RunFilter
) -> InteractionEffect:
    """Estimate the interaction of two parameters beside all main effects.

    It is the one of `effects_report` with this pair. Raises AnalysisError: too many columns.
    """
    model = _fitted(experiment, response, only, (pair,))
    return _interaction(experiment, model, *pair, response)


def _value(
    change: LevelContrast, levels: tuple[Level, ...], response: AnalysedResponse
) -> ValueChange:
    if change.effect is None:
        return ValueChange(levels, change.count, None, None, None, None)
    effect = response.sign * change.effect + 0.0  # no -0.0
    if change.interval is None:
        return ValueChange(levels, change.count, effect, None, None, None)
    low, high = sorted(response.sign * end for end in change.interval)
    verdict: Verdict | None = None
    if response.goal is not None and (low > 0 or high < 0):
        verdict = "better" if (high < 0) == (response.goal == "minimise") else "worse"
    return ValueChange(levels, change.count, effect, low, high, verdict)


MOST_PAIRED = 12
"""Largest number of parameters whose pairs are all tested; of more only the strongest, whose
interactions are most likely (effect heredity: Hamada & Wu 1992, Analysis of designed experiments
with complex aliasing)."""


@dataclass(frozen=True, slots=True)
class TermShare:
    """Share of the variation of the results that a main effect or an interaction explains.

    Args:
        parameters: one name for a main effect, two for an interaction.
        test: test of the term; an interaction is tested beside all main effects only.
        share: its sum of squares over that about the mean, 0 to 1, less the part expected by chance
            where the error is known; None if nothing of it can be estimated.

    Reference: Kelley 1935, An unbiased correlation ratio measure, PNAS 21 (epsilon squared).
    """

    parameters: tuple[str, ...]
    test: TermTest
    share: float | None

    @property
    def is_part(self) -> bool:
        """Whether the share is a lower bound, because only part of the effect is estimable."""
        return 0 < self.test.df < self.test.full_df


@dataclass(frozen=True, slots=True)
class TermShares:
    """Shares of the variation that the main effects and the tested interactions explain.

    Args:
        main: shares of all parameters, in the order of their ranges (`EffectsReport.ranking`).
        pairs: shares of the tested pairs, the strongest first, unknown ones at the end.
        left_out: parameters whose pairs were not tested, because there are too many.
    """

    main: tuple[TermShare, ...]
    pairs: tuple[TermShare, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StandardisedEffects:
    """Contrasts divided by their standard error, with 95 % significance limits.

    Args:
        effects: contrasts with their t, in the order of `EffectsReport.contrasts`.
        limit: two-sided 95 % limit of t for a single contrast.
        bonferroni: limit for all of them at once.
    """

    effects: tuple[tuple[Contrast, float], ...]
    limit: float
    bonferroni: float
    df: int


@once_per_result
def term_shares(
    experiment: Experiment, response: AnalysedResponse | None = None, only: RunFilter = EVERY
) -> TermShares:
    """Return the share of variation that each parameter and each pair of parameters explains.

    With more than `MOST_PAIRED` comparable parameters only the pairs of those with the largest
    ranges are tested.
    Raises AnalysisError if the main effects alone have too many columns.
    """
    space, looked_at = experiment.space, response or first_response(experiment)
    model = _fitted(experiment, looked_at, only)
    main = tuple(_strength(model, model.test(entry.parameter)) for entry in model.ranges)
    able = [strength for strength in main if strength.test.df]
    paired_names = {strength.parameters[0] for strength in able[:MOST_PAIRED]}
    pairs = []
    for first, second in all_pairs(space):
        if not {first, second} <= paired_names:
            continue
        try:
            with_pair = _fitted(experiment, looked_at, only, ((first, second),))
        except AnalysisError as error:
            test = TermTest((first, second), 0, 0, None, None, None, str(error))
            pairs.append(TermShare((first, second), test, None))
        else:
            pairs.append(_strength(with_pair, with_pair.test(first, second)))
    pairs.sort(key=lambda strength: (strength.share is None, -(strength.share or 0.0)))
    left_out = tuple(strength.parameters[0] for strength in able[MOST_PAIRED:])
    return TermShares(main, tuple(pairs), left_out)


def standardised_effects(report: EffectsReport) -> StandardisedEffects | None:
    """Return the contrasts divided by their standard error, or None without an error estimate.

    t = sign x sqrt(sum of squares / mean square of the error). The limits are the 0.975 quantile
    of Student's t, and that of 1 - 0.025 / m for all m contrasts at once (Bonferroni).
    Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 6.2 and 10.5.
    """
    square, df, m = report.error.mean_square, report.error.df, len(report.contrasts)
    if not square or not m:
        return None
    effects = [
        (contrast, math.copysign(math.sqrt(contrast.sum_squares / square), contrast.effect))
        for contrast in report.contrasts
    ]
    limit, all_at_once = (float(stdtrit(df, 1 - tail)) for tail in (0.025, 0.025 / m))
    return StandardisedEffects(tuple(effects), limit, all_at_once, df)


def _strength(model: FactorialModel, test: TermTest) -> TermShare:
    total = sum_of_squares(model)
    if test.sum_squares is None or total == 0:
        return TermShare(test.parameters, test, None)
    by_chance = test.df * (model.error.mean_square or 0.0)
    return TermShare(
        test.parameters, test, min(max(test.sum_squares - by_chance, 0.0) / total, 1.0)
    )


@dataclass(frozen=True, slots=True)
class MissingReport:
    """Report of the additional runs needed to estimate an effect.

    Args:
        missing: result of the search, see `strategies.doe.coverage`.
        block: nearest factorial block; None if there is none.
    """

    missing: MissingRuns
    runs: tuple[dict[str, Level], ...]
    block: BlockCompletion | None
    block_runs: tuple[dict[str, Level], ...]


@once_per_state
def missing_report(
    experiment: Experiment, target: EstimationTarget, *, has_block: bool = True
) -> MissingReport:
    """Return the additional runs needed to estimate a target effect.

    Queued and running runs count as ended; suggestions without a run do not. The nearest factorial
    block is searched for if it ``has_block``.

    Raises:
        StrategyError: a name that is no parameter, a closed level, or too many combinations.
        ExperimentError: a parameter with a single open level, which has no effect to estimate.
    """
    space, knowledge = experiment.space, experiment.submitted_knowledge
    for name in target.parameters:
        position = space.names.index(space.parameter(name).name)
        if len(space.open_ids[position]) == 1 and target.level_id is None:
            raise ExperimentError(
                f"parameter '{name}' has a single open level, so there is no effect to estimate; "
                "add or reopen a level"
            )
    missing = missing_runs(knowledge, target)
    block = complete_block(knowledge, target.parameters) if has_block else None

    def level_values(configurations: Sequence[Configuration]) -> tuple[dict[str, Level], ...]:
        return tuple(space.values(configuration) for configuration in configurations)

    return MissingReport(
        missing,
        level_values(missing.configurations),
        block,
        level_values(block.configurations) if block else (),
    )
