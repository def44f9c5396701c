"""``[objective]`` of a sweep file: what is wanted, read strictly and made real."""

from pydantic import Field, model_validator

from assistant.applications.schema import Strict
from assistant.errors import SettingsError, hint
from assistant.objective import (
    Constraint,
    Goal,
    Objective,
    Rmse,
    Second,
    Value,
    WeightedSum,
    Wrapper,
)
from assistant.ports import Application


class RmseSettings(Strict):
    """A series measure and what it should have been."""

    measure: str
    reference: list[float]


class ConstraintSettings(Strict):
    """``[[objective.constraints]]``: a bound on one measure."""

    measure: str
    at_most: float | None = None
    at_least: float | None = None
    label: str = ""


class ObjectiveSettings(Strict):
    """``[objective]``: exactly one of minimise, maximise, weighted and rmse; perhaps a second."""

    minimise: str | None = None
    maximise: str | None = None
    weighted: dict[str, float] | None = None
    rmse: RmseSettings | None = None
    unit: str | None = None
    second: str | None = None
    second_goal: Goal | None = None
    constraints: list[ConstraintSettings] = Field(default_factory=list)
    without: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one(self) -> "ObjectiveSettings":
        if self._n_named > 1:
            raise ValueError("name only one of minimise, maximise, weighted and rmse")
        if self.second_goal is not None and self.second is None:
            raise ValueError("'second_goal' is about a second measure; name it with 'second'")
        return self

    @property
    def _n_named(self) -> int:
        named = [self.minimise, self.maximise, self.weighted, self.rmse]
        return sum(x is not None for x in named)

    @property
    def names_one(self) -> bool:
        """Whether it says what is wanted, not only constraints or a unit."""
        return self._n_named == 1


def objective_of(chosen: ObjectiveSettings | None, default: Objective) -> Objective:
    """Return what is wanted: as said, the rest as the application's own.

    Raises:
        SettingsError: ``without`` names a measure that has no constraint.
        ObjectiveError: a constraint or a reference that cannot be.
    """
    if chosen is None:
        return default
    constraints = _constraints(chosen, default.constraints)
    wrapper: Wrapper = default.wrapper
    goal = default.goal
    if chosen.minimise is not None:
        wrapper, goal = Value(chosen.minimise), "minimise"
    elif chosen.maximise is not None:
        wrapper, goal = Value(chosen.maximise), "maximise"
    elif chosen.weighted is not None:
        wrapper, goal = WeightedSum(tuple(chosen.weighted.items())), "minimise"
    elif chosen.rmse is not None:
        wrapper, goal = Rmse(chosen.rmse.measure, tuple(chosen.rmse.reference)), "minimise"
    unit = chosen.unit
    if unit is None:
        unit = default.unit if wrapper == default.wrapper else _unit_of(wrapper)
    second = default.second
    if chosen.second is not None:
        also = Value(chosen.second)
        second = Second(also, chosen.second_goal or "minimise", _unit_of(also))
    return Objective(wrapper, goal, constraints, unit, second)


def _unit_of(wrapper: Wrapper) -> str:
    return "s" if isinstance(wrapper, Value) and wrapper.measure.endswith("_s") else ""


def _constraints(chosen: ObjectiveSettings, own: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """Return the application's constraints and the analyst's.

    Hers replace those on the same measure; others go only if ``without`` names them.
    """
    hers = tuple(Constraint(**c.model_dump()) for c in chosen.constraints)
    measures = [constraint.measure for constraint in own]
    for name in chosen.without:
        if name not in measures:
            raise SettingsError(
                f"'without' names '{name}', on which the application has no constraint"
                f"{hint(name, measures)}"
            )
    replaced = {constraint.measure for constraint in hers} | set(chosen.without)
    return (*(c for c in own if c.measure not in replaced), *hers)


def check_measures(objective: Objective, application: Application) -> None:
    """Refuse a measure that the application is known not to give. Raises SettingsError."""
    known = application.measures
    for name in objective.measures:
        if known is not None and name not in known:
            raise SettingsError(
                f"the {application.name} application has no measure '{name}'"
                f"{hint(name, list(known))}"
            )
