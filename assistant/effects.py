"""What parameters do to the measured value: effects with their tests, and what is missing for more.

The numbers are those of `strategies.analysis` on the values as measured, infeasible runs included,
turned from qualities (more is better) into changes of the measured value in its own unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assistant.errors import ExperimentError
from assistant.experiment import Experiment
from assistant.objective import Goal
from strategies import Configuration, Level
from strategies.analysis import (
    Change,
    Completion,
    Contrast,
    Coverage,
    ErrorEstimate,
    FactorialModel,
    HalfNormalPoint,
    LackOfFit,
    Margins,
    MissingRuns,
    Prediction,
    Target,
    TermTest,
    complete_block,
    coverage,
    half_normal,
    lack_of_fit,
    lenth_margins,
    missing_runs,
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
            it holds 0 or is unknown.
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
        goal: which direction is better.
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
    """

    value_name: str
    unit: str
    goal: Goal
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

    @property
    def tests(self) -> tuple[TermTest, ...]:
        """The tests of all terms: main effects, then interactions."""
        return (*(e.test for e in self.main), *(e.test for e in self.interactions))


@dataclass(frozen=True, slots=True)
class MissingReport:
    """Runs that would make an effect known.

    Args:
        found: the search's result, see `strategies.analysis.missing`.
        runs: the values of its configurations, ready to be included.
        block: the factorial block that lies nearest, None if there is none.
        block_runs: the values of the runs that complete it.
    """

    found: MissingRuns
    runs: tuple[dict[str, Level], ...]
    block: Completion | None
    block_runs: tuple[dict[str, Level], ...]


def effects_report(experiment: Experiment, pairs: Sequence[tuple[str, str]] = ()) -> EffectsReport:
    """Analyse the completed runs of an experiment.

    Args:
        experiment: any, without runs too.
        pairs: parameters whose interactions are in the model beside all main effects.

    Raises:
        StrategyError: a name that is no parameter, or a model with too many columns.
    """
    objective, history = experiment.opened.objective, experiment.measured
    model = FactorialModel.fit(experiment.space, history, pairs)
    sign = objective.value_of(1.0)
    contrasts = tuple(
        replace(contrast, effect=sign * contrast.effect)
        for contrast in sorted(model.contrasts, key=lambda c: -abs(c.effect))
    )
    asked = [t.parameters for t in model.tests if len(t.parameters) == 2]
    return EffectsReport(
        value_name=str(objective.wrapper),
        unit=objective.unit,
        goal=objective.goal,
        n_runs=model.n,
        error=model.error,
        main=_main(experiment, model, sign),
        interactions=tuple(
            _interaction(experiment, model, first, second, sign) for first, second in asked
        ),
        contrasts=contrasts,
        unknown_contrasts=model.unknown_contrasts,
        margins=lenth_margins([contrast.effect for contrast in contrasts]),
        half_normal=half_normal(contrasts),
        lack_of_fit=lack_of_fit(model),
        prediction=prediction(model),
        coverage=coverage(experiment.space, history),
    )


def missing_report(experiment: Experiment, target: Target) -> MissingReport:
    """Say which runs are missing before a target can be estimated.

    Queued and running runs count as if they were over; suggestions that nobody submitted do not.

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
    found = missing_runs(knowledge, target)
    block = complete_block(knowledge, target.parameters)

    def told(configurations: Sequence[Configuration]) -> tuple[dict[str, Level], ...]:
        return tuple(space.values(configuration) for configuration in configurations)

    return MissingReport(
        found, told(found.configurations), block, told(block.configurations) if block else ()
    )


def _main(experiment: Experiment, model: FactorialModel, sign: float) -> tuple[MainEffect, ...]:
    return tuple(
        MainEffect(
            parameter=parameter.name,
            unit=parameter.unit,
            description=parameter.description,
            test=model.test(parameter.name),
            levels=tuple(
                _value(change, (parameter.levels[change.level_ids[0]],), sign, experiment)
                for change in model.levels(parameter.name)
            ),
        )
        for parameter in experiment.space.parameters
    )


def _interaction(
    experiment: Experiment, model: FactorialModel, first: str, second: str, sign: float
) -> Interaction:
    parameters = [experiment.space.parameter(name) for name in (first, second)]

    def told(changes: Sequence[Change]) -> tuple[ValueChange, ...]:
        return tuple(
            _value(
                change,
                tuple(p.levels[i] for p, i in zip(parameters, change.level_ids, strict=True)),
                sign,
                experiment,
            )
            for change in changes
        )

    return Interaction(
        (first, second),
        model.test(first, second),
        told(model.combinations(first, second)),
        told(model.interactions(first, second)),
    )


def _value(
    change: Change, levels: tuple[Level, ...], sign: float, experiment: Experiment
) -> ValueChange:
    if change.effect is None:
        return ValueChange(levels, change.count, None, None, None, None)
    effect = sign * change.effect + 0.0  # no -0.0
    if change.interval is None:
        return ValueChange(levels, change.count, effect, None, None, None)
    low, high = sorted(sign * end for end in change.interval)
    verdict: Verdict | None = None
    if low > 0 or high < 0:
        better = (high < 0) == (experiment.opened.objective.goal == "minimise")
        verdict = "better" if better else "worse"
    return ValueChange(levels, change.count, effect, low, high, verdict)
