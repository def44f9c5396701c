"""What a strategy is: a value with a name that turns knowledge into suggestions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np

from strategies.configuration import Configuration
from strategies.errors import OptionError
from strategies.knowledge import Knowledge

SuggestionKind: TypeAlias = Literal[
    "initial",
    "construction",
    "neighbour",
    "random",
    "region",
    "analyst",
    "poll",
    "particle",
    "design",
    "improvement",
    "confirmation",
]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A proposed configuration with its why.

    Args:
        configuration: what to run.
        strategy: name of the strategy, or of whoever proposed it.
        reason: one sentence for people.
        kind: how it came about.
        expected: expected response (quality, where all is feasible), None if unknown.
        interval: rough 95% interval of that, None if unknown.
        near: the configuration it was derived from, for neighbours and in regions.
        region: number of the region it was drawn from, None outside.
        chance: probability that it beats the best run so far, None if unknown.
    """

    configuration: Configuration
    strategy: str
    reason: str
    kind: SuggestionKind
    expected: float | None = None
    interval: tuple[float, float] | None = None
    near: Configuration | None = None
    region: int | None = None
    chance: float | None = None


@runtime_checkable
class Strategy(Protocol):
    """A way to choose configurations. Strategies keep no state between calls."""

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        ...

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations.

        They are distinct, allowed and not in ``knowledge.taken``. Fewer than ``n`` come back
        only if no allowed configuration is left: that is how exhaustion is said.
        The same knowledge and generator state give the same suggestions.
        Raises `OptionError` unless ``n`` is a whole number of at least 1.
        """
        ...


def require_count(n: int) -> None:
    """Raise `OptionError` unless ``n`` is a whole number of at least 1."""
    if type(n) is not int or n < 1:
        raise OptionError(f"{n!r} suggestions were asked for; ask for a whole number from 1 on.")
