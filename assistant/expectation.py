"""What a run would be expected to measure, by the ANOVA model of what was measured so far.

The same for every strategy, so that suggestions of any source, edited ones too, can be compared.
"""

from dataclasses import dataclass

from assistant.experiment import Experiment
from strategies import Configuration

FEW = 2
"""Results below which nothing is expected."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected value with its 95% interval, in the unit of the objective."""

    value: float
    low: float
    high: float


def expectation(experiment: Experiment, configuration: Configuration) -> Expectation | None:
    """Return what to expect of one run of a configuration; None below two results.

    Of two measures it is the first; whether constraints would be met is not part of it.
    Raises SpaceError if the configuration is not of the experiment's space.
    """
    model = experiment.measured_anova
    if model is None or len(model.ids) < FEW:
        return None
    prediction = model.predict(configuration)
    value_of = experiment.opened.objective.value_of
    ends = [value_of(end) for end in prediction.interval]
    return Expectation(value_of(prediction.value), min(ends), max(ends))
