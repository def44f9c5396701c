"""Random search without replacement, the paper's first batch and everyone's baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from strategies.base import Suggestion, require_count
from strategies.knowledge import Knowledge


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Propose allowed configurations uniformly at random, none twice.

    Reference: Bergstra & Bengio 2012, Random search for hyper-parameter optimization.
    """

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        return "random"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations; see `Strategy.suggest`."""
        require_count(n)
        unavailable = set(knowledge.taken)
        suggestions: list[Suggestion] = []
        while len(suggestions) < n:
            configuration = knowledge.space.sample(rng, unavailable)
            if configuration is None:
                break
            unavailable.add(configuration)
            expected = knowledge.model.expected(configuration)
            suggestions.append(
                Suggestion(
                    configuration,
                    self.name,
                    "Drawn at random among the configurations that have not been run.",
                    "random",
                    expected.value if expected else None,
                    expected.interval if expected else None,
                )
            )
        return tuple(suggestions)
