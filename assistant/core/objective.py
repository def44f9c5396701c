"""Objective: turns a run's measures into one quality to maximise (h, Copper paper, section 2.2).

The sign is handled only here: strategies, regions and reports see a ``quality`` of which more is
better. Constraints follow the feasibility rule of Deb (2000): a feasible run ranks above every
infeasible one, and infeasible runs rank by their violation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assistant.core.errors import ObjectiveError

Measure = float | tuple[float, ...] | None  # One output of a run: a number, a series, or unknown

LIMIT = 1e150
"""Largest value or violation that can be assessed: squares of larger ones could overflow."""


def finite(value: Measure) -> Measure:
    """Return the measure, or None if any of its numbers is infinite or NaN.

    >>> finite(float("nan")), finite((1.0, 2.0))
    (None, (1.0, 2.0))
    """
    if value is None:
        return None
    numbers = value if isinstance(value, tuple) else (value,)
    return value if all(map(math.isfinite, numbers)) else None


Goal = Literal["minimise", "maximise"]


@dataclass(frozen=True, slots=True)
class SingleMeasure:
    """Objective function that returns one measure of a run, unchanged.

    >>> SingleMeasure("mean_wait_s").of({"mean_wait_s": 12.0})
    12.0
    """

    measure: str

    def of(self, measures: Mapping[str, Measure]) -> float:
        """Return the measure, or raise ObjectiveError if it is missing or no single number."""
        return _number(measures, self.measure)

    def __str__(self) -> str:
        return self.measure


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Objective function that returns a weighted sum of several measures of a run.

    >>> WeightedSum((("wait_s", 1.0), ("cost", 10.0))).of({"wait_s": 3.0, "cost": 0.5})
    8.0
    """

    terms: tuple[tuple[str, float], ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise ObjectiveError("a weighted sum needs at least one measure with a weight")
        for name, weight in self.terms:
            if not math.isfinite(weight):
                raise ObjectiveError(
                    f"the weight of '{name}' must be a finite number, not {weight}"
                )

    def of(self, measures: Mapping[str, Measure]) -> float:
        """Return the weighted sum, or raise ObjectiveError for a missing or invalid measure."""
        return sum(weight * _number(measures, name) for name, weight in self.terms)

    def __str__(self) -> str:
        return " + ".join(f"{weight:g} x {name}" for name, weight in self.terms)


@dataclass(frozen=True, slots=True)
class Rmse:
    """Objective function: root mean squared error of a measured series against a reference.

    >>> Rmse("level_m", (1.0, 2.0)).of({"level_m": (1.0, 4.0)})
    1.4142135623730951
    """

    measure: str
    reference: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.reference or not all(map(math.isfinite, self.reference)):
            raise ObjectiveError(
                f"the reference series for '{self.measure}' must hold at least one number, "
                "all of them finite"
            )

    def of(self, measures: Mapping[str, Measure]) -> float:
        """Return the root mean squared error, or raise ObjectiveError for an invalid series."""
        series = _known(measures, self.measure)
        if not isinstance(series, tuple):
            raise ObjectiveError(
                f"the measure '{self.measure}' is a single number; an RMSE needs a series "
                f"of {len(self.reference)} numbers"
            )
        if len(series) != len(self.reference):
            raise ObjectiveError(
                f"the series '{self.measure}' has {len(series)} numbers, "
                f"the reference has {len(self.reference)}; they must be equally long"
            )
        squares = ((a - b) ** 2 for a, b in zip(series, self.reference, strict=True))
        return math.sqrt(sum(squares) / len(series))

    def __str__(self) -> str:
        return f"RMSE of {self.measure} against the reference"


Wrapper = SingleMeasure | WeightedSum | Rmse


@dataclass(frozen=True, slots=True)
class Constraint:
    """Upper or lower bound on one measure; an unknown measure (None) does not violate it.

    >>> Constraint("max_wait_s", at_most=100.0).violation({"max_wait_s": 150.0})
    0.5
    """

    measure: str
    at_most: float | None = None
    at_least: float | None = None
    label: str = ""

    def __post_init__(self) -> None:
        bounds = [b for b in (self.at_most, self.at_least) if b is not None]
        if not bounds or not all(map(math.isfinite, bounds)):
            raise ObjectiveError(
                f"the constraint on '{self.measure}' needs at_most or at_least, a finite number"
            )
        if len(bounds) == 2 and bounds[0] < bounds[1]:
            raise ObjectiveError(
                f"the constraint on '{self.measure}' wants at most {bounds[0]:g} and at least "
                f"{bounds[1]:g}; nothing can satisfy both"
            )

    def violation(self, measures: Mapping[str, Measure]) -> float:
        """Return by how much a bound is violated, over ``max(|bound|, 1)``; 0 if it is met."""
        if self.measure in measures and measures[self.measure] is None:
            return 0.0
        value = _number(measures, self.measure)
        excess = 0.0
        if self.at_most is not None:
            excess += max(0.0, value - self.at_most) / max(abs(self.at_most), 1.0)
        if self.at_least is not None:
            excess += max(0.0, self.at_least - value) / max(abs(self.at_least), 1.0)
        return excess

    def __str__(self) -> str:
        if self.label:
            return self.label
        parts = []
        if self.at_least is not None:
            parts.append(f"at least {self.at_least:g}")
        if self.at_most is not None:
            parts.append(f"at most {self.at_most:g}")
        return f"{self.measure} {' and '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Assessment:
    """Objective value, quality and constraint violation of one run."""

    value: float
    quality: float
    feasible: bool
    violation: float
    second_value: float | None = None
    second: float | None = None


@dataclass(frozen=True, slots=True)
class SecondObjective:
    """Second measure to optimise in an objective, with its own direction.

    >>> SecondObjective(SingleMeasure("utilisation"), "maximise").quality_of(0.75)
    0.75
    """

    wrapper: Wrapper
    goal: Goal = "minimise"
    unit: str = ""

    def __post_init__(self) -> None:
        _check_goal(self.goal)

    def quality_of(self, value: float) -> float:
        """Convert a measured value to a quality (greater is better)."""
        return -value if self.goal == "minimise" else value

    def value_of(self, quality: float) -> float:
        """Convert a quality back to the measured value."""
        return -quality if self.goal == "minimise" else quality

    def __str__(self) -> str:
        return f"{self.goal} {self.wrapper}"


@dataclass(frozen=True, slots=True)
class Objective:
    """Objective of a sweep: measure to optimise, direction, constraints, second measure.

    With a second measure there is a front of trade-offs; the best run, regions and the comparison
    with the baseline use the first.

    >>> objective = Objective(SingleMeasure("mean_wait_s"), "minimise")
    >>> objective.assess({"mean_wait_s": 12.0}).quality
    -12.0
    """

    wrapper: Wrapper
    goal: Goal = "minimise"
    constraints: tuple[Constraint, ...] = ()
    unit: str = ""
    second: SecondObjective | None = None

    def __post_init__(self) -> None:
        _check_goal(self.goal)
        if self.second is not None and self.second.wrapper == self.wrapper:
            raise ObjectiveError(
                f"the second measure, {self.wrapper}, is the first one already; name another, "
                "or none"
            )

    def assess(self, measures: Mapping[str, Measure]) -> Assessment:
        """Return the value, quality and constraint violation of one run's measures.

        Raises ObjectiveError: a measure that the objective or a constraint names is missing,
        unknown, infinite, or a series where a number is needed.
        """
        value = _judged(self.wrapper, measures)
        violation = math.fsum(c.violation(measures) for c in self.constraints)
        if not violation <= LIMIT:
            raise ObjectiveError(
                f"the violation is {violation:g}; numbers beyond {LIMIT:g} cannot be assessed, so "
                "scale the measure"
            )
        quality = -value if self.goal == "minimise" else value
        if self.second is None:
            return Assessment(value, quality, violation == 0.0, violation)
        also = _judged(self.second.wrapper, measures)
        second = self.second.quality_of(also)
        return Assessment(value, quality, violation == 0.0, violation, also, second)

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that the objective and its constraints use."""
        names = list(_looked_at(self.wrapper))
        if self.second is not None:
            names += _looked_at(self.second.wrapper)
        return tuple(dict.fromkeys([*names, *(c.measure for c in self.constraints)]))

    def quality_of(self, value: float) -> float:
        """Convert a measured value to a quality (greater is better)."""
        return -value if self.goal == "minimise" else value

    def value_of(self, quality: float) -> float:
        """Convert a quality back to the measured value."""
        return -quality if self.goal == "minimise" else quality

    def __str__(self) -> str:
        also = f" and {self.second}" if self.second is not None else ""
        return f"{self.goal} {self.wrapper}{also}"


def _check_goal(goal: str) -> None:
    if goal not in ("minimise", "maximise"):
        raise ObjectiveError(f"the direction must be 'minimise' or 'maximise', not '{goal}'")


def _looked_at(wrapper: Wrapper) -> tuple[str, ...]:
    if isinstance(wrapper, WeightedSum):
        return tuple(name for name, _ in wrapper.terms)
    return (wrapper.measure,)


def _judged(wrapper: Wrapper, measures: Mapping[str, Measure]) -> float:
    value = wrapper.of(measures)
    if not abs(value) <= LIMIT:
        raise ObjectiveError(
            f"{wrapper} is {value:g}; numbers beyond {LIMIT:g} cannot be assessed, so scale the "
            "measure"
        )
    return value


def _known(measures: Mapping[str, Measure], name: str) -> float | tuple[float, ...]:
    if name not in measures:
        available = ", ".join(sorted(measures)) or "none"
        raise ObjectiveError(f"the run gave no measure '{name}'; it gave: {available}")
    value = measures[name]
    if value is None:
        raise ObjectiveError(f"the measure '{name}' is unknown for this run")
    numbers = value if isinstance(value, tuple) else (value,)
    if not all(map(math.isfinite, numbers)):
        raise ObjectiveError(f"the measure '{name}' is not finite for this run")
    return value


def _number(measures: Mapping[str, Measure], name: str) -> float:
    value = _known(measures, name)
    if isinstance(value, tuple):
        raise ObjectiveError(
            f"the measure '{name}' is a series of {len(value)} numbers; "
            "use an RMSE against a reference to make one number of it"
        )
    return float(value)
