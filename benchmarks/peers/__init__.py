"""What ours is measured beside in the same run: AccaSim, plain SimPy, plain Numba; and searches."""

from sim import SimError


class PeerError(SimError):
    """A peer that is not there, or that does not do what it was asked for."""
