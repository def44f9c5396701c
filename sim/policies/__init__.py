"""Policies: who goes first, and who may overtake. A policy sees state and never an engine.

The backfilling rules are compiled, so they (and Numba with them) are imported when first asked for.
"""

from typing import TYPE_CHECKING

from sim.policies.order import ORDERS, Order, order_named

if TYPE_CHECKING:
    from sim.policies.backfill import BACKFILLS, Backfill, backfill_named

__all__ = ["BACKFILLS", "ORDERS", "Backfill", "Order", "backfill_named", "order_named"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from sim.policies import backfill

        return getattr(backfill, name)
    raise AttributeError(f"module 'sim.policies' has no attribute '{name}'")
