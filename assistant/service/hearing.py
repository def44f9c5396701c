"""When the programs were heard that ask for their runs themselves."""

from __future__ import annotations

from collections.abc import Callable


class Hearing:
    """Keeps when the program of each experiment has spoken last, for people who look on.

    Args:
        is_outside: whether the program of an experiment asks for its runs itself.
        steady_s: passes.
    """

    def __init__(self, is_outside: Callable[[str], bool], steady_s: Callable[[], float]) -> None:
        self._is_outside, self._steady_s = is_outside, steady_s
        self._heard_s: dict[str, float] = {}

    def note(self, experiment_id: str) -> None:
        """Keep that a program has spoken; of other experiments nothing is kept."""
        if self._is_outside(experiment_id):
            self._heard_s[experiment_id] = self._steady_s()

    def ago_s(self, experiment_id: str) -> float | None:
        """Return how long ago (s) a program was heard; None if not since the service began."""
        at_s = self._heard_s.get(experiment_id)
        return None if at_s is None else max(0.0, self._steady_s() - at_s)
