"""Knowledge: everything a strategy may look at, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from strategies.configuration import Configuration
from strategies.design import DesignModel, Method
from strategies.errors import ObservationError
from strategies.observation import Failure, Observation
from strategies.space import ParameterSpace


@dataclass(frozen=True)
class Knowledge:
    """What is known about an experiment when suggestions are asked for.

    Args:
        space: the current version of the space.
        observations: completed runs, oldest first.
        failures: runs without a result.
        pending: configurations that wait for a run.
        running: configurations of the runs that go on.
    Raises `ObservationError` if a configuration is of another lineage than the space.

    Not slotted: `taken` and the models are cached on first use.
    """

    space: ParameterSpace
    observations: tuple[Observation, ...] = ()
    failures: tuple[Failure, ...] = ()
    pending: frozenset[Configuration] = frozenset()
    running: tuple[Configuration, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "observations", tuple(self.observations))
        object.__setattr__(self, "failures", tuple(self.failures))
        object.__setattr__(self, "pending", frozenset(self.pending))
        object.__setattr__(self, "running", tuple(self.running))
        for configuration in self.taken:
            if configuration.lineage != self.space.lineage:
                raise ObservationError(
                    f"a configuration of space '{configuration.lineage}' is among the runs of "
                    f"space '{self.space.lineage}'; use one experiment per lineage."
                )

    @cached_property
    def taken(self) -> frozenset[Configuration]:
        """Every configuration observed, failed, pending or running; none is proposed again."""
        observed = (observation.configuration for observation in self.observations)
        failed = (failure.configuration for failure in self.failures)
        return self.pending.union(self.running, observed, failed)

    @cached_property
    def model(self) -> DesignModel:
        """Main effects of the observations, from level means."""
        return self.model_by("means")

    def model_by(self, method: Method) -> DesignModel:
        """Return main effects of the observations by another method, fitted once.

        Raises `OptionError` for a method that does not exist.
        """
        if method not in self._models:
            self._models[method] = DesignModel.fit(self.space, self.observations, method)
        return self._models[method]

    @cached_property
    def _models(self) -> dict[Method, DesignModel]:
        return {}


def is_exhausted(knowledge: Knowledge) -> bool:
    """Return whether no allowed configuration is left to propose."""
    space, taken = knowledge.space, knowledge.taken
    n_allowed = space.count_allowed()
    if n_allowed is not None and n_allowed > len(taken):
        return False
    return all(configuration in taken for configuration in space.configurations())
