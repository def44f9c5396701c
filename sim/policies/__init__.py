"""Policies: who goes first, and who may overtake. A policy sees state and never an engine."""

from sim.policies.backfill import BACKFILLS, backfill_named
from sim.policies.kinds import Backfill, Option, Order
from sim.policies.order import ORDERS, order_named

__all__ = ["BACKFILLS", "ORDERS", "Backfill", "Option", "Order", "backfill_named", "order_named"]
