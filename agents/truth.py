"""What a study knows and no strategy may: the quality of every configuration of a measured space.

Configurations are flat indices of the full product, the last parameter moving fastest
(`ParameterSpace.index`).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assistant import Application, AssistantError
from assistant.errors import RunError

MOST = 1_000_000
"""Configurations of a space that is evaluated whole."""


@dataclass(frozen=True, eq=False)
class Truth:
    """A space with the quality of every configuration.

    Args:
        application: a measured table, or anything else as quick and as sure.
        quality: float64 [size], maximised (`Objective` handles the sign), NaN where a run fails.
        level_ids: int64 [size, parameters].
    """

    application: Application
    quality: NDArray[np.float64]
    level_ids: NDArray[np.int64]

    @classmethod
    def of(cls, application: Application) -> "Truth":
        """Evaluate every configuration once.

        Raises:
            AssistantError: results vary, the space has exclusions, closed levels or more than
                1,000,000 configurations, or every run fails.
        """
        space, objective = application.space, application.objective
        where = f"the space of application '{application.name}'"
        if not getattr(application, "deterministic", None):
            raise AssistantError(
                f"application '{application.name}' may give another result every time; a study "
                "needs a measured table (copperline tabulate makes one)"
            )
        if space.exclusions or space.closed:
            raise AssistantError(f"{where} has exclusions or closed levels; leave them out")
        if space.size > MOST:
            raise AssistantError(f"{where} has {space.size:,} configurations; at most {MOST:,}")
        quality = np.full(space.size, np.nan)
        for index in range(space.size):
            values = space.values(space.configuration(index))
            try:
                quality[index] = objective.assess(application.evaluate(values, 0)).quality
            except RunError:
                continue
        if np.isnan(quality).all():
            raise AssistantError(f"every run of {where} fails; there is nothing to find")
        n_levels = tuple(parameter.n_levels for parameter in space.parameters)
        level_ids = np.stack(np.unravel_index(np.arange(space.size), n_levels), axis=1)
        quality.flags.writeable = level_ids.flags.writeable = False
        return cls(application, quality, level_ids.astype(np.int64))

    @property
    def space(self) -> Any:  # the strategies' ParameterSpace, which agents do not import
        """The space, as the application says it."""
        return self.application.space

    @property
    def size(self) -> int:
        """Configurations in the full product."""
        return int(self.quality.size)

    @cached_property
    def n_levels(self) -> tuple[int, ...]:
        """Levels per parameter."""
        return tuple(parameter.n_levels for parameter in self.application.space.parameters)

    @cached_property
    def ranked(self) -> NDArray[np.int64]:
        """Indices of the measured configurations, best first; equals by their index."""
        measured = np.flatnonzero(~np.isnan(self.quality))
        order = np.argsort(-self.quality[measured], kind="stable")
        return measured[order].astype(np.int64)

    @property
    def optimum(self) -> float:
        """The best quality. Every configuration that has it is an optimal one."""
        return float(self.quality[self.ranked[0]])

    def reached_by(self, share: float) -> float:
        """Return the quality that a share of the measured configurations reaches, at least one."""
        place = max(0, math.ceil(share * self.ranked.size) - 1)
        return float(self.quality[self.ranked[place]])

    def ratio(self, quality: float) -> float | None:
        """Return the paper's quality of a result: its ratio to the optimal one (section 4.3).

        At most 1; of what is minimised it is optimum / found. None unless both are above 0.
        """
        objective = self.application.objective
        found, best = objective.value_of(quality), objective.value_of(self.optimum)
        if found <= 0 or best <= 0:
            return None
        return best / found if objective.goal == "minimise" else found / best
