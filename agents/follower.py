"""The analyst who trusts the tool: takes every suggestion until the budget or the space is used up.

In the paper's words an agent with a confidence level of 100 % (section 4.2). This is what an
unattended sweep is.
"""

from collections.abc import Callable
from dataclasses import dataclass

from assistant import AssistantError, Executor, Run, Session


@dataclass(frozen=True, slots=True)
class Follower:
    """Steers a session through figure 3 of the paper without changing a suggestion.

    Args:
        initial: first runs chosen at random, beyond today's configuration and what was included.
        batch: suggestions taken at a time; the model learns between batches.
        max_runs: stop here although the budget may allow more; needed if it has no limit.

    Raises:
        AssistantError: a number is out of range.
    """

    initial: int = 10
    batch: int = 5
    max_runs: int | None = None

    def __post_init__(self) -> None:
        if self.initial < 0:
            raise AssistantError(f"the number of first runs must be at least 0, not {self.initial}")
        if self.batch < 1:
            raise AssistantError(f"a batch has at least 1 suggestion, not {self.batch}")

    def steer(
        self,
        session: Session,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
    ) -> str:
        """Run today's configuration, the first runs, then batches. Returns why it stopped.

        Raises:
            AssistantError: neither the session nor this agent has a limit of runs.
        """
        if self._left(session) is None:
            raise AssistantError(
                "a sweep without a limit of runs would not end by itself; give one (runs)"
            )
        if self._left(session):
            session.submit_baseline()
        session.run_queued(executor, on_change)
        known = len(session.experiment.runs)
        if known <= self.initial + 1 and (n := min(self.initial, self._left(session) or 0)):
            session.submit(session.initial_evaluation(n))
            session.run_queued(executor, on_change)
        while n := min(self.batch, self._left(session) or 0):
            batch = session.suggest(n)
            session.submit(batch)
            session.run_queued(executor, on_change)
            if batch.exhausted:
                return f"the space is exhausted: all {self._tried(session)} have been run"
        return f"the budget of {len(session.experiment.runs)} runs is used up"

    def _left(self, session: Session) -> int | None:
        limits = [session.remaining_runs]
        if self.max_runs is not None:
            limits.append(max(0, self.max_runs - len(session.experiment.runs)))
        known = [limit for limit in limits if limit is not None]
        return min(known, default=None)

    def _tried(self, session: Session) -> str:
        return f"{len(session.experiment.runs)} allowed configurations"
