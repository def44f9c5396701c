"""What the service counts, by name; request times are counted at the outer wall."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from assistant.service.metrics import Metrics

STATES = ("queued", "running", "completed", "failed", "cancelled")


class Counts:
    """Counters of one service.

    Args:
        metrics: where they are kept.
        depth: says how many runs there are in each state.
        lost: says how many leases have run out since the service began.
    """

    def __init__(
        self, metrics: Metrics, depth: Callable[[], Mapping[str, int]], lost: Callable[[], float]
    ) -> None:
        self._claims = metrics.counter(
            "copperline_claims_total",
            "Requests for a run, by what came of them: given, again (the answer had been lost), "
            "none (nothing could start).",
            ("outcome",),
        )
        self._results = metrics.counter(
            "copperline_results_total",
            "Results told by workers: completed, failed, again (told before), refused (too late).",
            ("kind",),
        )
        self._decisions = metrics.counter(
            "copperline_decisions_total",
            "Decisions recorded, by their first event; 'none' is what changed nothing.",
            ("event",),
        )
        metrics.counter(
            "copperline_leases_lost_total", "Runs taken from workers that were not heard of."
        ).follow(lost)
        runs = metrics.gauge("copperline_runs", "Runs, by their state.", ("state",))

        def by_state() -> Mapping[tuple[str, ...], float]:
            known = depth()
            return {(state,): known.get(state, 0) for state in STATES}

        runs.follow(by_state)

    def claimed(self, outcome: str) -> None:
        """Count an answer to a claim."""
        self._claims.inc(outcome)

    def resulted(self, kind: str) -> None:
        """Count a result."""
        self._results.inc(kind)

    def decided(self, event: str | None) -> None:
        """Count a decision by the type of its first event."""
        self._decisions.inc(event or "none")
