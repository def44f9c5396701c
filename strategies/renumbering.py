"""Reasons that name another suggestion by its number, when batches are put together.

A strategy numbers its own batch; a wrapper that takes parts of several batches renumbers them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from strategies.base import Suggestion
from strategies.parameter import show_values
from strategies.space import ParameterSpace

_BY_NUMBER = re.compile(r"from suggestion \d+")


def renumbered(suggestions: Sequence[Suggestion], space: ParameterSpace) -> tuple[Suggestion, ...]:
    """Return the suggestions, each named by its number in this batch where a reason names one.

    What was left out of the batch is named by its values.
    """
    numbers = {s.configuration: i for i, s in enumerate(suggestions, start=1)}
    return tuple(
        _renumbered(s, numbers.get(s.near) if s.near else None, space) for s in suggestions
    )


def _renumbered(suggestion: Suggestion, number: int | None, space: ParameterSpace) -> Suggestion:
    if suggestion.near is None or _BY_NUMBER.search(suggestion.reason) is None:
        return suggestion
    values = f"from the construction {show_values(space.values(suggestion.near))}"
    place = f"from suggestion {number}" if number else values
    return replace(suggestion, reason=_BY_NUMBER.sub(lambda _: place, suggestion.reason, count=1))
