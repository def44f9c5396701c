"""Queue orders: which waiting job goes first.

A static order has a score per job that never changes, so all ranks are computed before the
simulation. The scores of others change while jobs wait: they are computed anew before every
decision, and the ranks of those who wait are dealt out among them (`sim.kernel.ranking`). Ties
always fall to the earlier submission, then to the smaller job id.
"""

import numpy as np
from numpy.typing import NDArray

from sim.errors import UnknownNameError
from sim.policies.kinds import Facts, Order
from sim.policies.orders.graphs import CPOP_RANK, CRITICAL_PATH, UPWARD_RANK
from sim.policies.orders.learned import F1, F2, F3, F4
from sim.policies.orders.multifactor import MULTIFACTOR
from sim.policies.orders.request import FCFS, LAF, LJF, SAF, SJF
from sim.policies.orders.waiting import LXF, UNICEF, WFP3

ORDERS: tuple[Order, ...] = (
    FCFS, SJF, LJF, SAF, LAF, LXF, WFP3, UNICEF, F1, F2, F3, F4, MULTIFACTOR,
)  # fmt: skip
"""Orders of jobs."""

TASK_ORDERS: tuple[Order, ...] = (CRITICAL_PATH, UPWARD_RANK, CPOP_RANK)
"""Orders of tasks, where instances of these are placed."""


def order_named(name: str) -> Order:
    """Return a registered order, of jobs or of tasks.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for order in (*ORDERS, *TASK_ORDERS):
        if order.name == name:
            return order
    raise UnknownNameError("order", name, (order.name for order in (*ORDERS, *TASK_ORDERS)))


def ranks(order: Order, facts: Facts) -> NDArray[np.int64]:
    """Return the place of every job in an order: int64 [n], a permutation of 0..n-1.

    In an order whose scores change this is the place by submission, which ties fall to. The rows
    must be in the order of a workload, by submit time and then by job id: a stable sort then
    leaves ties in that order.
    """
    rank = np.arange(len(facts.submit_s), dtype=np.int64)
    if order.score is not None:
        score = order.score(facts)
        if score is not facts.submit_s:
            rank[np.argsort(score, kind="stable")] = np.arange(len(score))
    return rank


def factors(order: Order, facts: Facts) -> NDArray[np.float64]:
    """Return what the score of each job is computed from later: float64 [n]; 0 if nothing is."""
    return np.zeros(len(facts.submit_s)) if order.factor is None else order.factor(facts)
