"""The analyst who trusts the tool: takes every suggestion until the budget or the space is used up.

In the paper's words an agent with a confidence level of 100 % (section 4.2). This is what an
unattended sweep is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from assistant import Advice, AssistantError, Executor, Run, Session


@dataclass(frozen=True, slots=True)
class Follower:
    """Steers a session through figure 3 of the paper without changing a suggestion.

    What it does next follows from the session's state alone, so it can take over a sweep that was
    interrupted anywhere and end where an unbroken one would have ended.

    Args:
        initial: first runs chosen at random, beyond today's configuration and what was included.
        batch: suggestions taken at a time; the model learns between batches.
        max_runs: stop here although the budget may allow more; needed if it has no limit.
        advice: what it does about warnings: ``accept`` or ``ignore``.

    Raises:
        AssistantError: a number is out of range.
    """

    initial: int = 10
    batch: int = 5
    max_runs: int | None = None
    advice: Literal["accept", "ignore"] = "ignore"

    def __post_init__(self) -> None:
        if self.initial < 0:
            raise AssistantError(f"the number of first runs must be at least 0, not {self.initial}")
        if self.batch < 1:
            raise AssistantError(f"a batch has at least 1 suggestion, not {self.batch}")
        if self.advice not in ("accept", "ignore"):
            raise AssistantError(f"warnings are met with accept or ignore, not '{self.advice}'")

    def steer(
        self,
        session: Session,
        executor: Executor,
        on_change: Callable[[Run], None] | None = None,
        on_advice: Callable[[Advice], None] | None = None,
    ) -> str:
        """Run today's configuration, the first runs, then batches. Returns why it stopped.

        Args:
            session: new, or taken over at any point.
            executor: where runs execute.
            on_change: told of each run that started or ended.
            on_advice: told of each warning before it is answered.

        Raises:
            AssistantError: there is neither a limit of runs nor a deadline.
        """
        if self._left(session) is None and session.experiment.sla.deadline_s is None:
            raise AssistantError(
                "a sweep without a limit of runs or a deadline would not end by itself; "
                "give one (runs, deadline)"
            )
        if self._room(session, 1) and session.experiment.baseline is None:
            session.submit_baseline()
        session.run_queued(executor, on_change, session.is_overdue)
        if not session.experiment.batches and (n := self._room(session, self.initial)):
            session.initial_evaluation(n)
        while True:
            self._answer(session, on_advice)
            self._take_open_batch(session)
            session.run_queued(executor, on_change, session.is_overdue)
            if session.is_overdue():
                return "the deadline has passed"
            n = self._room(session, self.batch)
            if not n:
                return f"the budget of {session.experiment.n_charged} runs is used up"
            batch = session.suggest(n)
            if not batch.suggestions:
                n_tried = len(session.experiment.runs)
                return f"the space is exhausted: all {n_tried} allowed configurations have been run"

    def _take_open_batch(self, session: Session) -> None:
        batch = session.experiment.open_batch
        if batch is None:
            return
        known = {run.configuration for run in session.experiment.runs}
        free = [
            position
            for position, suggestion in enumerate(batch.suggestions)
            if suggestion.configuration not in known
        ]
        room = self._room(session, len(free))
        session.submit(batch, keep=free[:room])

    def _answer(self, session: Session, on_advice: Callable[[Advice], None] | None) -> None:
        advice = session.experiment.open_advice
        if advice is None:
            return
        if on_advice is not None:
            on_advice(advice)
        session.answer_advice("accepted" if self.advice == "accept" else "ignored")

    def _room(self, session: Session, wanted: int) -> int:
        left = self._left(session)
        return wanted if left is None else min(wanted, left)

    def _left(self, session: Session) -> int | None:
        limits = [session.remaining_runs]
        if self.max_runs is not None:
            limits.append(max(0, self.max_runs - session.experiment.n_charged))
        known = [limit for limit in limits if limit is not None]
        return min(known, default=None)
