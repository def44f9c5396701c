"""What a token is for."""

from collections.abc import Mapping
from enum import StrEnum


class Role(StrEnum):
    """What a token is for."""

    VIEWER = "viewer"
    """Looks."""
    STEERER = "steerer"
    """Looks, and decides."""
    WORKER = "worker"
    """Claims runs and reports on them; sees what it has claimed."""
    ADAPTER = "adapter"
    """A worker for one experiment, which it sees; only ever a token of its own name."""
    OWNER = "owner"
    """All of these; made anew for every service, never in a file."""

    def grants(self, wanted: "Role") -> bool:
        """Return whether this role includes another."""
        return wanted in _GRANTED[self]

    def hands_out(self, wanted: "Role") -> bool:
        """Return whether who has this role may make and revoke tokens for another.

        A steerer lets others look and work; whom else it could make would outlast itself.
        """
        return wanted in _HANDED_OUT.get(self, frozenset())


_GRANTED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.STEERER: frozenset({Role.VIEWER, Role.STEERER}),
    Role.WORKER: frozenset({Role.WORKER}),
    Role.ADAPTER: frozenset({Role.WORKER, Role.ADAPTER}),
    Role.OWNER: frozenset(Role),
}
_HANDED_OUT: Mapping[Role, frozenset[Role]] = {
    Role.STEERER: frozenset({Role.VIEWER, Role.WORKER, Role.ADAPTER}),
    Role.OWNER: frozenset({Role.VIEWER, Role.STEERER, Role.WORKER, Role.ADAPTER}),
}
NAMED = (Role.VIEWER, Role.STEERER, Role.WORKER, Role.ADAPTER)
"""Roles that a token of its own name may have."""
OF_ONE_EXPERIMENT = (Role.WORKER, Role.ADAPTER)
"""Roles whose tokens may be for one experiment alone."""
