"""Earlier sweeps that a new one learns from, and their levels matched with those of its space.

The earlier sweep may have been of another workload, machine or version, and of another space:
parameters are matched by name, levels by value. A number that the earlier sweep did not have is
matched with its nearest level; a text or a truth value with none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from strategies.data.learning_sample import LearningSample
from strategies.data.observation import Failure, Observation, responses
from strategies.space.errors import ObservationError, SpaceError
from strategies.space.parameter import Level, Parameter
from strategies.space.parameter_space import Configuration, ParameterSpace

MOST_RUNS = 400  # Most ended runs of one earlier sweep that are kept


@dataclass(frozen=True)
class EarlierSweep:
    """Results of an earlier sweep, whole in themselves: its runs, and the levels they had.

    Args:
        experiment_id: identifier of the earlier experiment; nothing is read from it again.
        parameters: parameters of its space.
        level_ids: level id for each parameter of every completed run.
        responses: response of every completed run, greater is better, in any unit.
        failed: level ids of the runs without a result.
    Raises `ObservationError` unless there is a completed run, a response for each and a level for
    each id.

    Not slotted: the space is cached.
    """

    experiment_id: str
    parameters: tuple[Parameter, ...]
    level_ids: tuple[tuple[int, ...], ...]
    responses: tuple[float, ...]
    failed: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        n_levels = [parameter.n_levels for parameter in self.parameters]
        if not self.level_ids or len(self.level_ids) != len(self.responses):
            raise ObservationError(
                f"the earlier sweep '{self.experiment_id}' has {len(self.level_ids)} completed "
                f"runs and {len(self.responses)} responses; it needs at least one run, and "
                "one for each."
            )
        for row in (*self.level_ids, *self.failed):
            if len(row) != len(n_levels) or any(
                not 0 <= i < n for i, n in zip(row, n_levels, strict=True)
            ):
                raise ObservationError(
                    f"a run of the earlier sweep '{self.experiment_id}' has the level ids {row}; "
                    f"its {len(n_levels)} parameters have {n_levels} levels."
                )

    @classmethod
    def of(
        cls,
        experiment_id: str,
        space: ParameterSpace,
        observations: Sequence[Observation],
        failures: Sequence[Failure] = (),
    ) -> EarlierSweep:
        """Return what a new sweep may learn from the results of an earlier one.

        Of more than `MOST_RUNS` ended runs it is a sample, see `LearningSample`. A constraint
        counts as it does for every strategy, see `strategies.responses`.
        """
        sample = LearningSample.of(observations, failures, most=MOST_RUNS)
        return cls(
            experiment_id,
            space.parameters,
            tuple(o.configuration.level_ids for o in sample.observations),
            tuple(responses(sample.observations).tolist()),
            tuple(f.configuration.level_ids for f in sample.failures),
        )

    @cached_property
    def space(self) -> ParameterSpace:
        """Space of the earlier sweep, without its exclusions and closed levels."""
        return ParameterSpace(self.parameters)

    @property
    def observations(self) -> tuple[Observation, ...]:
        """Completed runs, as observations of `space`."""
        lineage = self.space.lineage
        return tuple(
            Observation(Configuration(ids, lineage), response)
            for ids, response in zip(self.level_ids, self.responses, strict=True)
        )

    @property
    def failures(self) -> tuple[Configuration, ...]:
        """Configurations of `space` whose runs gave no result."""
        return tuple(Configuration(ids, self.space.lineage) for ids in self.failed)

    def best_in(self, space: ParameterSpace) -> Configuration | None:
        """Return the best run's configuration in a space; None if that lacks one of its levels.

        None also where the space has a parameter that the sweep had not.
        """
        best = self.level_ids[int(np.argmax(self.responses))]
        values = self.space.values(Configuration(best, self.space.lineage))
        try:
            return space.from_values({n: v for n, v in values.items() if n in space.names})
        except SpaceError:
            return None

    def shared(self, space: ParameterSpace) -> tuple[str, ...]:
        """Return the names of the parameters with a choice that a space shares with the sweep."""
        return tuple(
            parameter.name
            for parameter in space.parameters
            if parameter.n_levels > 1
            and any(
                p.name == parameter.name and p.n_levels > 1 and _matches(p, parameter)
                for p in self.parameters
            )
        )

    def matched(self, parameter: Parameter) -> NDArray[np.int64] | None:
        """Return the level id here of every level of another sweep's parameter, int64 [levels].

        -1 where no level matches. None without a parameter of this name that matches at all.
        """
        named = (p for p in self.parameters if p.name == parameter.name)
        earlier = next((p for p in named if p.n_levels > 1), None)
        if earlier is None or not _matches(earlier, parameter):
            return None
        ids = {level: i for i, level in enumerate(earlier.levels)}
        nearest = _nearest(earlier, parameter.levels)
        matched = [ids.get(level, i) for level, i in zip(parameter.levels, nearest, strict=True)]
        return np.array(matched, dtype=np.int64)


def _matches(earlier: Parameter, parameter: Parameter) -> bool:
    """Return whether two parameters of a name have levels that can be compared."""
    if earlier.family != parameter.family:
        return False
    return _has_distances(earlier) or not set(earlier.levels).isdisjoint(parameter.levels)


def _has_distances(parameter: Parameter) -> bool:
    return parameter.family == "number" and parameter.kind == "ordinal"


def _nearest(earlier: Parameter, levels: Sequence[Level]) -> list[int]:
    """Return the id of the level that is nearest to each number; -1 without distances.

    Nearest by ratio where all are positive, else by difference.
    """
    if not _has_distances(earlier):
        return [-1] * len(levels)
    have = np.array([float(level) for level in earlier.levels])
    sought = np.array([float(level) for level in levels])
    if have.min() > 0 and sought.min() > 0:
        have, sought = np.log(have), np.log(sought)
    ids: list[int] = np.abs(sought[:, None] - have[None, :]).argmin(axis=1).tolist()
    return ids
