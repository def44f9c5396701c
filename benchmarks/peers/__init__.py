"""What ours is measured beside, in the same run: simulators (AccaSim, plain SimPy) and searches."""

from sim import SimError


class PeerError(SimError):
    """A peer that is not there, or that does not do what it was asked for."""
