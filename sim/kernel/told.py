"""What the policies of a simulation add to its pool."""

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sim.kernel.terms import Terms
from sim.kernel.usage import Users


@dataclass(frozen=True)
class Told:
    """What policies know beside jobs and partitions.

    Attributes:
        submit_s: float64 [n]; None if no policy asks.
        factor: float64 [n], for the scores.
        options: float64, of the backfilling rule.
        order_options: float64, of the order.
        is_eager: the rule decides also when nobody can start.
        corrects: jobs may outlive their estimates.
        is_ranked_anew: the scores of the order change.
        plans: the rule plans ahead.
        keeps_plan: and keeps the plan from decision to decision.
        users: who they are and what is due to them; None if no policy asks.
        terms: tiers, limits and windows; None if there are none.
    """

    submit_s: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None
    options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    order_options: NDArray[np.float64] = field(default_factory=partial(np.zeros, 0))
    is_eager: bool = False
    corrects: bool = False
    is_ranked_anew: bool = False
    plans: bool = False
    keeps_plan: bool = False
    users: Users | None = None
    terms: Terms | None = None
