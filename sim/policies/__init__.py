"""Policies: orders, backfilling rules and placement rules; they import kernel and model only."""
