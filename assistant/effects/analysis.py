"""What parameters do to a measured value: effects with their tests.

The numbers are those of `strategies.analysis` on the values as measured, infeasible runs included
unless they are filtered out, turned from qualities (more is better) into changes of the measured
value in its own unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assistant.effects.response import EVERY, Filter, Response, first_response, measured
from assistant.experiment import Experiment
from assistant.objective import Goal
from strategies import Level
from strategies.analysis import (
    Change,
    Contrast,
    Coverage,
    ErrorEstimate,
    FactorialModel,
    HalfNormalPoint,
    LackOfFit,
    Margins,
    Prediction,
    TermTest,
    coverage,
    half_normal,
    lack_of_fit,
    lenth_margins,
    prediction,
)

Verdict = Literal["better", "worse"]


@dataclass(frozen=True, slots=True)
class ValueChange:
    """What a level, or a combination of two, changes in the measured value.

    Args:
        levels: the level, or both.
        n: runs with it.
        change: against the mean of those that can be compared; None if unknown.
        low: lower end of the 95 % interval of the change, None if unknown.
        high: upper end.
        verdict: whether the whole interval lies on the better or on the worse side of 0; None if
            it holds 0 or is unknown, or if neither side is better.
    """

    levels: tuple[Level, ...]
    n: int
    change: float | None
    low: float | None
    high: float | None
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class MainEffect:
    """A parameter's test and what each of its levels does, levels by rank."""

    parameter: str
    unit: str
    description: str
    test: TermTest
    levels: tuple[ValueChange, ...]

    @property
    def known(self) -> tuple[ValueChange, ...]:
        """The levels that can be compared with each other."""
        return tuple(level for level in self.levels if level.change is not None)


@dataclass(frozen=True, slots=True)
class Interaction:
    """A pair of parameters.

    Args:
        parameters: their names, in the space's order.
        test: of the interaction.
        combinations: what each combination with runs does in all, both main effects included.
        beyond: how far each combination is off the sum of the main effects; unknown unless the
            whole interaction can be estimated.
    """

    parameters: tuple[str, str]
    test: TermTest
    combinations: tuple[ValueChange, ...]
    beyond: tuple[ValueChange, ...]


@dataclass(frozen=True, slots=True)
class EffectsReport:
    """The analysis of an experiment, in the sign and the unit of the measured value.

    Args:
        value_name: what is measured.
        unit: its unit; of sums of squares and mean squares the square of it.
        goal: which direction is better; None if neither is wanted.
        n_runs: completed runs that it rests on.
        error: the estimate of the error.
        main: main effects, in the space's order.
        interactions: those that were asked for.
        contrasts: single degrees of freedom on one scale, the largest first.
        unknown_contrasts: how many more the levels with runs have.
        margins: Lenth's, for the contrasts.
        half_normal: the contrasts against half-normal quantiles, the smallest first.
        lack_of_fit: the test of the model against replicates.
        prediction: of each run by the others.
        coverage: what share of the space has runs.
        r_squared: part of the sum of squares about the mean that the model explains; None where
            no run is left over to judge it by, or all responses are equal.
        residual_df: runs less what was fitted to them.
    """

    value_name: str
    unit: str
    goal: Goal | None
    n_runs: int
    error: ErrorEstimate
    main: tuple[MainEffect, ...]
    interactions: tuple[Interaction, ...]
    contrasts: tuple[Contrast, ...]
    unknown_contrasts: int
    margins: Margins
    half_normal: tuple[HalfNormalPoint, ...]
    lack_of_fit: LackOfFit
    prediction: Prediction
    coverage: Coverage
    r_squared: float | None
    residual_df: int

    @property
    def tests(self) -> tuple[TermTest, ...]:
        """The tests of all terms: main effects, then interactions."""
        return (*(e.test for e in self.main), *(e.test for e in self.interactions))


def effects_report(
    experiment: Experiment,
    pairs: Sequence[tuple[str, str]] = (),
    response: Response | None = None,
    only: Filter = EVERY,
) -> EffectsReport:
    """Analyse the completed runs of an experiment.

    Args:
        experiment: any, without runs too.
        pairs: parameters whose interactions are in the model beside all main effects.
        response: what effects are looked for in; the objective's own value if None.
        only: which runs are looked at.

    Raises:
        StrategyError: a name that is no parameter, or a model with too many columns.
    """
    looked_at = response or first_response(experiment)
    history = measured(experiment, looked_at, only)
    model = FactorialModel.fit(experiment.space, history, pairs)
    sign = looked_at.sign
    contrasts = tuple(
        replace(contrast, effect=sign * contrast.effect)
        for contrast in sorted(model.contrasts, key=lambda c: -abs(c.effect))
    )
    asked = [t.parameters for t in model.tests if len(t.parameters) == 2]
    return EffectsReport(
        value_name=looked_at.name,
        unit=looked_at.unit,
        goal=looked_at.goal,
        n_runs=model.n,
        error=model.error,
        main=_main(experiment, model, looked_at),
        interactions=tuple(
            _interaction(experiment, model, first, second, looked_at) for first, second in asked
        ),
        contrasts=contrasts,
        unknown_contrasts=model.unknown_contrasts,
        margins=lenth_margins([contrast.effect for contrast in contrasts]),
        half_normal=half_normal(contrasts),
        lack_of_fit=lack_of_fit(model),
        prediction=prediction(model),
        coverage=coverage(experiment.space, history),
        r_squared=_r_squared(model) if model.residual_df else None,
        residual_df=model.residual_df,
    )


def sum_of_squares(model: FactorialModel) -> float:
    """Return the sum of squares of the responses about their mean."""
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
    experiment: Experiment, model: FactorialModel, response: Response
) -> tuple[MainEffect, ...]:
    return tuple(
        MainEffect(
            parameter=parameter.name,
            unit=parameter.unit,
            description=parameter.description,
            test=model.test(parameter.name),
            levels=tuple(
                _value(change, (parameter.levels[change.level_ids[0]],), response)
                for change in model.levels(parameter.name)
            ),
        )
        for parameter in experiment.space.parameters
    )


def _interaction(
    experiment: Experiment, model: FactorialModel, first: str, second: str, response: Response
) -> Interaction:
    parameters = [experiment.space.parameter(name) for name in (first, second)]

    def told(changes: Sequence[Change]) -> tuple[ValueChange, ...]:
        return tuple(
            _value(
                change,
                tuple(p.levels[i] for p, i in zip(parameters, change.level_ids, strict=True)),
                response,
            )
            for change in changes
        )

    return Interaction(
        (first, second),
        model.test(first, second),
        told(model.combinations(first, second)),
        told(model.interactions(first, second)),
    )


def _value(change: Change, levels: tuple[Level, ...], response: Response) -> ValueChange:
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
