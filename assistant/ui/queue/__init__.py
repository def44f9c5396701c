"""Queue: what goes on, what waits and why in that order; first, later, held, cancelled."""
