"""Policies: who goes first, and who may overtake. A policy sees state and never an engine."""

from sim.policies.backfill import BACKFILLS, Backfill, backfill_named
from sim.policies.order import ORDERS, Order, order_named

__all__ = ["BACKFILLS", "ORDERS", "Backfill", "Order", "backfill_named", "order_named"]
