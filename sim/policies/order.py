"""Queue orders: which waiting job goes first.

A static order has a key per job that never changes, so all keys are computed before the
simulation. Ties always fall to the earlier submission, then to the smaller job id. An order whose
keys change while jobs wait will be a second kind of value beside `Order`, re-ranked at every
pass; the pool needs nothing but ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim.errors import UnknownNameError


@dataclass(frozen=True)
class Order:
    """A static queue order.

    Attributes:
        name: how a scenario calls it.
        summary: one line for people.
        score: (submit_s, requested_s, procs), each [n], to float64 [n]; the smallest goes first.
    """

    name: str
    summary: str
    score: Callable[
        [NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]], NDArray[np.float64]
    ]


ORDERS: tuple[Order, ...] = (
    Order("fcfs", "first come, first served", lambda submit_s, _requested_s, _procs: submit_s),
    Order(
        "sjf",
        "shortest request first",
        lambda _submit_s, requested_s, _procs: requested_s,
    ),
)


def order_named(name: str) -> Order:
    """Return a registered order.

    Raises:
        UnknownNameError: there is none of that name.
    """
    for order in ORDERS:
        if order.name == name:
            return order
    raise UnknownNameError("order", name, (order.name for order in ORDERS))


def ranks(
    order: Order,
    submit_s: NDArray[np.float64],
    requested_s: NDArray[np.float64],
    procs: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the place of every job in a static order: int64 [n], a permutation of 0..n-1.

    The rows must be in the order of a workload, by submit time and then by job id: a stable sort
    then leaves ties in that order.
    """
    score = order.score(submit_s, requested_s, procs)
    rank = np.arange(len(score), dtype=np.int64)
    if score is not submit_s:
        rank[np.argsort(score, kind="stable")] = np.arange(len(score))
    return rank
