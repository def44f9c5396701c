"""Completed runs (observations) and failed runs, and the responses that strategies learn from.

Quality is always maximised (the paper's f); callers handle the sign of an objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from strategies.space.errors import ObservationError
from strategies.space.parameter_space import Configuration

LIMIT = 1e150  # Greatest absolute quality and violation, so that sums of squares stay finite


@dataclass(frozen=True, slots=True)
class Observation:
    """Completed run with its quality and other results, as input for strategies.

    Args:
        configuration: configuration of the run.
        quality: finite; greater is better.
        feasible: whether all constraints were met.
        violation: total violation of the constraints; above 0 exactly if not feasible.
        measures: raw outputs by name, for people and for other objectives.
        duration_s: duration of the run, None if unknown.
        seed: seed of the run, None if it had none.
        good: the analyst's verdict, None without one.
        second: quality by a second measure, finite, greater is better; None without one.
    Raises `ObservationError` for NaN, infinity, or a violation that contradicts ``feasible``.
    """

    configuration: Configuration
    quality: float
    feasible: bool = True
    violation: float = 0.0
    measures: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict, hash=False)
    duration_s: float | None = None
    seed: int | None = None
    good: bool | None = None
    second: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quality", _finite("quality", self.quality))
        if self.second is not None:
            object.__setattr__(self, "second", _finite("second", self.second))
        object.__setattr__(self, "violation", _finite("violation", self.violation))
        object.__setattr__(self, "measures", dict(self.measures))
        if self.violation < 0 or (self.violation > 0) == bool(self.feasible):
            raise ObservationError(
                f"an observation has feasible={self.feasible} and violation={self.violation}; a "
                "feasible one has violation 0, an infeasible one has a violation above 0."
            )
        if self.duration_s is not None and _finite("duration_s", self.duration_s) < 0:
            raise ObservationError(
                f"an observation has duration_s={self.duration_s}; it must be at least 0, or None "
                "if unknown."
            )


@dataclass(frozen=True, slots=True)
class Failure:
    """Failed run: a configuration without a result, and the error message."""

    configuration: Configuration
    message: str


def responses(observations: Sequence[Observation]) -> NDArray[np.float64]:
    """Return responses (greater is better, float64 [n]): qualities, penalised if infeasible.

    Feasible: the quality. Infeasible: worst feasible quality - spread * violation / largest
    violation, where spread is the range of the feasible qualities, or max(|worst|, 1) if that
    is 0; so always below the worst feasible, in the order of violation. Without any feasible
    observation: -violation.

    Reference: the feasibility rules of Deb 2000, An efficient constraint handling method for
    genetic algorithms.
    """
    quality = np.array([o.quality for o in observations], dtype=np.float64)
    violation = np.array([o.violation for o in observations], dtype=np.float64)
    feasible = violation == 0
    if not feasible.any():
        return -violation
    if feasible.all():
        return quality
    worst, best_seen = quality[feasible].min(), quality[feasible].max()
    spread = best_seen - worst if best_seen > worst else max(abs(worst), 1.0)
    penalised = worst - spread * (violation / violation.max())
    just_below = np.nextafter(worst, -np.inf)  # a violation too small to show still counts
    return np.where(feasible, quality, np.minimum(penalised, just_below))


class Ranked(Protocol):
    """Result that can be ranked: an observation, or what its makers rank like one."""

    @property
    def feasible(self) -> bool:
        """Whether all constraints were met."""

    @property
    def quality(self) -> float:
        """Quality, greater is better."""

    @property
    def violation(self) -> float:
        """Total violation of the constraints."""


def rank_key(observation: Ranked) -> tuple[bool, float]:
    """Return a ranking key: feasible runs are greater, then greater quality or less violation."""
    if observation.feasible:
        return True, observation.quality
    return False, -observation.violation


def best(observations: Iterable[Observation]) -> Observation | None:
    """Return the observation with the greatest `rank_key`, the earliest if equal; None if empty."""
    return max(observations, key=rank_key, default=None)


def _finite(name: str, value: float) -> float:
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= LIMIT:
        raise ObservationError(
            f"an observation has {name}={value!r}; it must be a finite number within +-1e150, "
            "record a run without a result as a failure."
        )
    return number
