"""Full factorial: every allowed configuration, in standard or in random order.

Montgomery randomises the order of the runs, so that what drifts while they are made does not look
like an effect: that is the default, and what is drawn is what random search draws, until the
budget or the space ends. In standard order the last parameter moves fastest, so that a design cut
short has seen few levels of the first ones.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 1.3 and 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from strategies.base import Suggestion
from strategies.batch import Batch
from strategies.errors import OptionError
from strategies.knowledge import Knowledge
from strategies.space import ParameterSpace

RunOrder: TypeAlias = Literal["random", "standard"]
RUN_ORDERS: tuple[RunOrder, ...] = get_args(RunOrder)


@dataclass(frozen=True, slots=True)
class FullFactorial:
    """Propose every allowed configuration once.

    Args:
        order: ``random``, or ``standard`` with the last parameter moving fastest and levels as
            they were given.
    Raises `OptionError` for another order.
    """

    order: RunOrder = "random"

    def __post_init__(self) -> None:
        if self.order not in RUN_ORDERS:
            raise OptionError(
                f"full_factorial has order={self.order!r}; allowed are {', '.join(RUN_ORDERS)}."
            )

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        return "full_factorial"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations; see `Strategy.suggest`."""
        batch = Batch(self.name, n, knowledge, rng)
        total = _total(knowledge.space)
        if self.order == "standard":
            _add_in_standard_order(batch, knowledge.space, total)
            return batch.suggestions
        number = sum(map(knowledge.space.is_allowed, knowledge.taken))
        while batch.missing:
            number += 1
            reason = f"Run {number}{total} of the full factorial, which is made in random order."
            if not batch.add_random("design", reason):
                break
        return batch.suggestions


def _add_in_standard_order(batch: Batch, space: ParameterSpace, total: str) -> None:
    for place, configuration in enumerate(space.configurations(), start=1):
        if batch.missing == 0:
            return
        if configuration not in batch.unavailable:
            reason = f"Place {place}{total} in the standard order of the full factorial."
            batch.add(configuration, "design", reason)


def _total(space: ParameterSpace) -> str:
    n_allowed = space.count_allowed()
    return "" if n_allowed is None else f" of {n_allowed:,}"
