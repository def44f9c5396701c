"""Backfilling rules, one a file; they are listed in `sim.policies.backfill`."""
