"""What an analysis is of: a measured value, and the completed runs that have it."""

from dataclasses import dataclass

from assistant.experiment import Experiment
from assistant.objective import LIMIT, Goal
from assistant.run import Outcome, Run
from strategies import Level, Observation


@dataclass(frozen=True, slots=True)
class Response:
    """A measured value that effects are looked for in.

    Args:
        name: what is measured.
        unit: its unit.
        goal: which direction is better; None if neither is wanted.
        measure: the name of one measure of a run; empty for the objective's own value.
        is_second: whether it is the objective's second value.
    """

    name: str
    unit: str = ""
    goal: Goal | None = None
    measure: str = ""
    is_second: bool = False

    def of(self, outcome: Outcome) -> float | None:
        """Return the value that a run gave; None if it is unknown, or no number."""
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
        """What a quality is multiplied with to be the value."""
        return -1.0 if self.goal == "minimise" else 1.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Which completed runs an analysis is of.

    Args:
        feasible: only those that meet every constraint.
        levels: only those with one of these levels, by parameter; others as they are.
    """

    feasible: bool = False
    levels: tuple[tuple[str, tuple[Level, ...]], ...] = ()

    def takes(self, experiment: Experiment, run: Run) -> bool:
        """Say whether a completed run is taken."""
        if run.outcome is None or (self.feasible and not run.outcome.feasible):
            return False
        if not self.levels:
            return True
        values = experiment.space.values(run.configuration)
        return all(values[name] in wanted for name, wanted in self.levels)


EVERY = Filter()
"""All completed runs."""


def first_response(experiment: Experiment) -> Response:
    """Return what the objective looks at first."""
    objective = experiment.opened.objective
    return Response(str(objective.wrapper), objective.unit, objective.goal)


def measured(
    experiment: Experiment, response: Response | None = None, only: Filter = EVERY
) -> tuple[Observation, ...]:
    """Return the completed runs that have a response, oldest first, as qualities of it.

    Of a response without a goal the quality is the value itself. The objective's own by default.
    """
    wanted = response or first_response(experiment)
    found = []
    for run in experiment.runs:
        if run.outcome is not None and only.takes(experiment, run):
            value = wanted.of(run.outcome)
            if value is not None:
                found.append(Observation(run.configuration, wanted.sign * value))
    return tuple(found)
