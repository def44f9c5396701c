"""Preference: a share of the suggestions keeps to the levels that the analyst prefers.

The counterpart of closing a level, without its finality: the other levels are still proposed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from strategies.base import Strategy, Suggestion, require_count
from strategies.errors import OptionError
from strategies.knowledge import Knowledge
from strategies.parameter import show
from strategies.renumbering import renumbered
from strategies.space import ParameterSpace

DEFAULT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Preferring:
    """A strategy that keeps a share of its suggestions to the preferred levels of the space.

    Those come from the base on `ParameterSpace.preferred_part`, the rest from the base on the
    whole space, in which the preferred levels are as good as the others. What the preferred part
    cannot give any more the whole space gives. If nothing is preferred it is the base.

    Args:
        base: the strategy; its name is this one's too.
        share: of the suggestions, from 0 to 1. The fraction of a suggestion that is over is one
            with that probability, so that batches of 1 keep the share in the long run.
    Raises `OptionError` for another share.
    """

    base: Strategy
    share: float = DEFAULT_SHARE

    def __post_init__(self) -> None:
        if type(self.share) not in (int, float) or not 0 <= self.share <= 1:
            raise OptionError(
                f"the share of preferred levels is {self.share!r}; it must be from 0 to 1."
            )

    @property
    def name(self) -> str:
        """The base's name: it is the strategy, this is where it looks."""
        return self.base.name

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations, the preferred ones first; see `Strategy.suggest`."""
        require_count(n)
        space, part = knowledge.space, knowledge.space.preferred_part
        n_inside = 0 if part is space else self._n_inside(n, rng)
        inside: tuple[Suggestion, ...] = ()
        if n_inside:
            found = self.base.suggest(n_inside, replace(knowledge, space=part), rng)
            inside = tuple(_with_preference(suggestion, space) for suggestion in found)
        if len(inside) == n:
            return inside
        proposed = {suggestion.configuration for suggestion in inside}
        known = replace(knowledge, pending=knowledge.pending | proposed)
        outside = self.base.suggest(n - len(inside), known, rng)
        return renumbered([*inside, *outside], space) if inside else outside

    def _n_inside(self, n: int, rng: np.random.Generator) -> int:
        # the share as it is written: 0.35 of 20 is 7, not a little less
        exact = Fraction(str(float(self.share))) * n
        whole = math.floor(exact)
        return whole + bool(rng.random() < exact - whole)


def _with_preference(suggestion: Suggestion, space: ParameterSpace) -> Suggestion:
    ids = suggestion.configuration.level_ids
    named = [
        f"{parameter.name}={show(parameter.levels[level_id])}"
        for parameter, level_id in zip(space.parameters, ids, strict=True)
        if (parameter.name, level_id) in space.preferred
    ]
    verb = "is" if len(named) == 1 else "are"
    reason = f"{suggestion.reason.removesuffix('.')}; {' and '.join(named)} {verb} preferred."
    return replace(suggestion, reason=reason)
