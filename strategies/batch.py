"""The suggestions of one call while they are collected."""

from __future__ import annotations

import numpy as np

from strategies.base import Suggestion, SuggestionKind, require_count
from strategies.configuration import Configuration
from strategies.knowledge import Knowledge


class Batch:
    """Up to n suggestions of one strategy: distinct, allowed and not taken.

    Args:
        strategy: name of the strategy.
        n: how many are wanted.
        knowledge: what they must fit.
        rng: for draws at random.
    Raises `OptionError` unless n is a whole number of at least 1.
    """

    def __init__(
        self, strategy: str, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> None:
        require_count(n)
        self._strategy = strategy
        self._n = n
        self._knowledge = knowledge
        self._rng = rng
        self._suggestions: list[Suggestion] = []
        self.unavailable: set[Configuration] = set(knowledge.taken)

    @property
    def missing(self) -> int:
        """How many suggestions are still wanted."""
        return self._n - len(self._suggestions)

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """The suggestions so far, in order."""
        return tuple(self._suggestions)

    def is_free(self, configuration: Configuration) -> bool:
        """Return whether it may still be suggested."""
        space = self._knowledge.space
        return configuration not in self.unavailable and space.is_allowed(configuration)

    def add(
        self,
        configuration: Configuration,
        kind: SuggestionKind,
        reason: str,
        near: Configuration | None = None,
    ) -> None:
        """Add a free configuration, with what the level means of the runs expect of it."""
        expected = self._knowledge.model.expected(configuration)
        value, interval = (expected.value, expected.interval) if expected else (None, None)
        self.unavailable.add(configuration)
        self._suggestions.append(
            Suggestion(configuration, self._strategy, reason, kind, value, interval, near)
        )

    def add_random(self, kind: SuggestionKind, reason: str) -> bool:
        """Add one drawn at random; return False if no allowed configuration is left."""
        configuration = self._knowledge.space.sample(self._rng, self.unavailable)
        if configuration is None:
            return False
        self.add(configuration, kind, reason)
        return True
