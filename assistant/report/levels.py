"""What to expect at each level of every parameter, by the model that suggestions come from."""

from dataclasses import dataclass

from assistant.charts import LevelEstimate
from assistant.effects import EVERY, Filter, Response, first_response, measured
from assistant.experiment import Experiment
from assistant.report.words import level
from strategies import AnovaModel, DesignModel, Marginal, Parameter


@dataclass(frozen=True, slots=True)
class ParameterEffect:
    """What one parameter's levels did, on the scale of the measured value."""

    parameter: str
    unit: str
    description: str
    range_value: float | None
    levels: tuple[LevelEstimate, ...]

    @property
    def n_tried(self) -> int:
        """Levels with at least one observation."""
        return sum(m.n > 0 for m in self.levels)


def level_qualities(
    experiment: Experiment, response: Response | None = None, only: Filter = EVERY
) -> tuple[ParameterEffect, ...]:
    """Return what to expect per level by the ANOVA model, parameters with the widest range first.

    The model is of what was measured, whether or not a run met the constraints; strategies learn
    from responses, in which a violation counts. Levels are by rank. Nothing without a run.

    Args:
        experiment: as far as it has come.
        response: what is expected; the objective's own value if None.
        only: which runs are looked at.
    """
    space = experiment.space
    if response is None and only == EVERY:
        model, counts = experiment.measured_anova, experiment.measured_model
    else:
        history = measured(experiment, response, only)
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
        known = [e.value for e in estimates if e.value is not None]
        effects.append(
            ParameterEffect(
                parameter.name,
                parameter.unit,
                parameter.description,
                max(known) - min(known) if len(known) > 1 else None,
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
