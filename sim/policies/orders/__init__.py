"""Queue orders, one family a file; they are listed in `sim.policies.order`."""
