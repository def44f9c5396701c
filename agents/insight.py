"""Insight: the subset of the space in which an analyst believes that the optimum lies.

The paper divides its agents by it (section 4.2): "This intuition corresponds to a subset of search
space in which the analyst believes the optimal result is contained", which is so (good insight),
or is not (bad), or there is no such belief (none). How large the subset is and which ranks it is
drawn from, the paper leaves open; the fields of `Insight` say it here.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agents.truth import Truth
from assistant import AssistantError

Kind = Literal["good", "bad", "none"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Insight:
    """How an analyst's subset is drawn, by how its members rank.

    Of ``r`` measured configurations, best first (`Truth.ranked`; failed runs have no rank):
    ``good`` draws from the best ``max(least, ceil(best r))``, the first of all always among the
    members; ``bad`` from the worst ``ceil(worst r)``, optimal ones left out; ``none`` has no
    subset. There are ``max(least, ceil(members size))`` members, or as many as there are to draw
    from.

    Args:
        kind: ``good``, ``bad`` or ``none``.
        members: size of the subset as a share of the space, above 0 to 1.
        best: ranks that a good insight is drawn from, as a share, above 0 to 1.
        worst: ranks that a bad insight is drawn from, as a share, above 0 to 1.
        least: members at least, where there are so many.

    Raises:
        AssistantError: a field is out of range.
    """

    kind: Kind = "none"
    members: float = 0.05
    best: float = 0.10
    worst: float = 0.50
    least: int = 5

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise AssistantError(f"an insight is one of {', '.join(KINDS)}, not {self.kind!r}")
        for name in ("members", "best", "worst"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
                raise AssistantError(
                    f"{name} of an insight is a share above 0, up to 1, not {value!r}"
                )
        if type(self.least) is not int or self.least < 1:
            raise AssistantError(
                f"least of an insight is a whole number from 1 on, not {self.least!r}"
            )


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """Configurations that an analyst believes in, in the order in which they were drawn.

    Args:
        members: int64 [m], distinct flat indices.
        weights: float64 [m], in (0, 1]: how often each comes to her mind.
        cumulative: float64 [m], running sums of the weights from the first member on.
    """

    members: NDArray[np.int64]
    weights: NDArray[np.float64]
    cumulative: NDArray[np.float64]


def candidates(insight: Insight, truth: Truth) -> NDArray[np.int64]:
    """Return the indices that the members are drawn from, best first; none for no insight."""
    ranked = truth.ranked
    if insight.kind == "good":
        return ranked[: max(insight.least, math.ceil(insight.best * ranked.size))]
    if insight.kind == "bad":
        worst = ranked[ranked.size - math.ceil(insight.worst * ranked.size) :]
        return worst[truth.quality[worst] < truth.optimum]
    return ranked[:0]


def draw_subset(insight: Insight, truth: Truth, rng: np.random.Generator) -> Subset | None:
    """Draw members, then their weights; see `agents.analyst` for the order of the draws.

    Returns None for no insight, and draws nothing then.

    Raises:
        AssistantError: there is nothing to draw from: every measured configuration of the worst
            ranks is an optimal one.
    """
    if insight.kind == "none":
        return None
    pool = candidates(insight, truth)
    if pool.size == 0:
        raise AssistantError(
            f"a bad insight needs worse configurations than the optimum among the worst "
            f"{insight.worst:.0%} of application '{truth.application.name}', and there are none"
        )
    n = min(pool.size, max(insight.least, math.ceil(insight.members * truth.size)))
    places = np.arange(1 if insight.kind == "good" else 0, n)
    left = pool.size - places
    ahead = np.minimum((rng.random(places.size) * left).astype(np.int64), left - 1)
    drawn = pool.tolist()  # many single draws in Python would take longer than an episode
    for i, j in zip(places.tolist(), (places + ahead).tolist(), strict=True):
        drawn[i], drawn[j] = drawn[j], drawn[i]
    weights = 1.0 - rng.random(n)
    return Subset(np.array(drawn[:n], dtype=np.int64), weights, np.cumsum(weights))
