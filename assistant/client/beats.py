"""What is told of runs while they go on: that they are still executed, and what they report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from assistant.errors import AssistantError, ClaimLostError, NotLetInError, UnknownClaimError
from assistant.objective import Measure
from assistant.ports import Completion
from assistant.store import Claim

ENDING_S = 5.0
"""How long a heartbeat under way may hold up the end of a worker."""
BEAT_S = 3.0
"""The most time between two heartbeats: so soon a worker hears that its run shall end."""
REPORT_S = 1.0
"""Least time between two reports of one run; of those that come in between the latest is told."""
GONE = (ClaimLostError, UnknownClaimError, NotLetInError)
"""What says that a run is not ours any more; the token of its worker may have been revoked."""


class Claims(Protocol):
    """Where runs are claimed."""

    def claim(self) -> Claim | None:
        """Return the next run; None if nothing may start."""

    def heartbeat(self, token: str) -> float:
        """Renew a lease. Raises ClaimLostError if the run is not ours any more."""

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Tell what a run has measured so far. Raises as `heartbeat` does."""

    def complete(self, token: str, completion: Completion) -> None:
        """Tell how a run ended. Raises ClaimLostError if nobody wants to know any more."""

    def give_back(self, token: str, reason: str) -> None:
        """Let a run wait again."""


class Beats:
    """Renews leases in a thread of its own and tells reports.

    A lease is renewed after a third of its length, and after `BEAT_S` at most.

    Args:
        claims: where the leases are.
        on_lost: told in that thread that a run is not ours any more; ``lost`` has its token then.
    """

    def __init__(self, claims: Claims, on_lost: Callable[[], object] = lambda: None) -> None:
        self._claims, self._on_lost = claims, on_lost
        self.lost: set[str] = set()
        self._due_s: dict[str, tuple[float, float]] = {}
        self._reports: dict[str, Mapping[str, Measure]] = {}
        self._told_s: dict[str, float] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._loop, name="copperline-beats", daemon=True)
        self._thread.start()

    def hold(self, token: str, lease_s: float) -> None:
        """Renew this lease from now on."""
        with self._changed:
            self._due_s[token] = (_next_s(lease_s), lease_s)
            self._changed.notify()

    def drop(self, token: str) -> None:
        """Renew this lease no more, and tell nothing more of its run."""
        with self._changed:
            for kept in (self._due_s, self._reports, self._told_s):
                kept.pop(token, None)

    def report(self, token: str, measures: Mapping[str, Measure]) -> None:
        """Tell what a run that is held has measured so far, soon, unless it reports again first."""
        with self._changed:
            if token in self._due_s:
                self._reports[token] = measures
                self._changed.notify()

    def end(self) -> None:
        """Renew and tell nothing more."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join(ENDING_S)

    def _loop(self) -> None:
        while True:
            with self._changed:
                if self._ended:
                    return
                now_s = time.monotonic()
                due = [token for token, (at_s, _) in self._due_s.items() if at_s <= now_s]
                news = [token for token in self._reports if self._may_tell_s(token) <= now_s]
                if not due and not news:
                    self._changed.wait(self._until_s(now_s))
                    continue
            for token in due:
                self._beat(token)
            for token in news:
                self._tell(token)

    def _may_tell_s(self, token: str) -> float:
        return self._told_s.get(token, -REPORT_S) + REPORT_S

    def _until_s(self, now_s: float) -> float | None:
        """Return how long nothing is to be done; None for ever."""
        times = [at_s for at_s, _ in self._due_s.values()]
        times += map(self._may_tell_s, self._reports)
        return min(times) - now_s if times else None

    def _beat(self, token: str) -> None:
        try:
            lease_s = self._claims.heartbeat(token)
        except GONE:
            self._lose(token)
            return
        except AssistantError:  # not reached: at the next turn
            lease_s = None
        with self._changed:
            if token in self._due_s:
                lease_s = self._due_s[token][1] if lease_s is None else lease_s
                self._due_s[token] = (_next_s(lease_s), lease_s)

    def _tell(self, token: str) -> None:
        with self._changed:
            measures = self._reports.pop(token, None)
            if measures is None:
                return
            self._told_s[token] = time.monotonic()
        try:
            self._claims.report(token, measures)
        except GONE:
            self._lose(token)
        except AssistantError:  # not reached, or not understood: a later one may be
            return

    def _lose(self, token: str) -> None:
        self.lost.add(token)
        self.drop(token)
        self._on_lost()


def _next_s(lease_s: float) -> float:
    return time.monotonic() + min(lease_s / 3, BEAT_S)
