"""The analyst who trusts the tool: takes every suggestion until the budget or the space is used up.

In the paper's words an agent with a confidence level of 100 % (section 4.2). This is what an
unattended sweep is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from assistant import Advice, AssistantError, Executor, Run, Session
from assistant.ending import goal_to_confirm, reached_goal
from assistant.errors import GoneOnError
from assistant.recommendation import (
    confirmed_last,
    is_confirmation_due,
    is_exhausted,
    search_room,
)


@dataclass(frozen=True, slots=True)
class Follower:
    """Steers a session through figure 3 of the paper without changing a suggestion.

    What it does next follows from the session's state alone, so it can take over a sweep that was
    interrupted anywhere and end where an unbroken one would have ended.

    It ends early where a limit of the agreement is used up, and once the goal is reached, unless
    the agreement says to go on. If results vary, what reached the goal is repeated twice before.

    If results vary from run to run, the last 2 runs of a budget of at least 10 are kept: they
    repeat the winner, or whoever leads then, before she is recommended. Once the space is exhausted
    the rest of the budget tells her from those that may be as good.

    Args:
        initial: first runs, before results decide, beyond today's configuration and what was
            included.
        batch: suggestions taken at a time, between which the model learns; None takes as many as
            suit the strategy (`Session.batch_size`).
        max_runs: stop here although the budget may allow more; needed if it has no limit.
        advice: what it does about warnings: ``ignore``, ``accept`` what leaves the agreement as
            it is (`Advice.unattended`), or ``wait``: it stops until somebody has answered.

    Raises:
        AssistantError: a number is out of range.
    """

    initial: int = 10
    batch: int | None = None
    max_runs: int | None = None
    advice: Literal["accept", "ignore", "wait"] = "ignore"

    def __post_init__(self) -> None:
        if self.initial < 0:
            raise AssistantError(f"the number of first runs must be at least 0, not {self.initial}")
        if self.batch is not None and self.batch < 1:
            raise AssistantError(f"a batch has at least 1 suggestion, not {self.batch}")
        if self.advice not in ("accept", "ignore", "wait"):
            raise AssistantError(
                f"warnings are met with accept, ignore or wait, not '{self.advice}'"
            )

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
            AssistantError: there is no limit of runs or of cost, and no deadline.
        """
        if self._left(session) is None and not session.experiment.sla.is_limited:
            raise AssistantError(
                "a sweep without a limit of runs, a deadline or a limit of cost would not end by "
                "itself; give one (runs, deadline, cost)"
            )
        may_start = not session.is_over_limit()
        if may_start and self._room(session, 1) and session.experiment.baseline is None:
            session.submit_baseline()
        over = self._run(session, executor, on_change)
        if over is not None:
            return over
        if not session.experiment.batches and (n := self._room(session, self.initial)):
            session.initial_evaluation(n)
        while True:
            waiting = self._answer(session, on_advice)
            if waiting is not None:
                return waiting
            self._take_open_batch(session)
            over = self._run(session, executor, on_change)
            if over is not None:
                return over
            n = self._room(session, self.batch or session.batch_size)
            try:
                found = session.suggest(n).suggestions if n else ()
            except GoneOnError:  # somebody steered while it was thought about: think again
                continue
            if found:
                continue
            if is_confirmation_due(session.experiment, self._limit(session), self._left(session)):
                session.confirm(1)  # one at a time: what it shows decides what is repeated next
                continue
            left = self._left(session)
            exhausted = n > 0 or (bool(left) and is_exhausted(session.experiment))
            return self._ended(session, exhausted=exhausted)

    def _run(
        self, session: Session, executor: Executor, on_change: Callable[[Run], None] | None
    ) -> str | None:
        """Execute what waits and what confirms a goal. Returns why it ends; None if it goes on."""
        experiment = session.experiment
        while True:
            session.run_queued(executor, on_change, session.is_over_limit)
            passed = session.passed_limit()
            if passed is not None or experiment.sla.at_goal == "go_on":
                return passed
            doubted = goal_to_confirm(experiment)
            if doubted is None or self._left(session) == 0:
                return reached_goal(experiment)
            session.replicate(doubted.id, reason=f"the goal is reached by run {doubted.id}: again")

    def _ended(self, session: Session, exhausted: bool) -> str:
        experiment = session.experiment
        n = confirmed_last(experiment)
        runs = "run" if n == 1 else f"{n} runs"
        last = f", the last {runs} of it to confirm the winner" if n else ""
        if not exhausted:
            return f"the budget of {experiment.n_charged} runs is used up{last}"
        n_tried, _ = experiment.tried
        confirmed = f", and the winner was confirmed in the last {runs}" if n else ""
        return (
            f"the space is exhausted: all {n_tried} allowed configurations have been run{confirmed}"
        )

    def _take_open_batch(self, session: Session) -> None:
        batch = session.experiment.open_batch
        if batch is None:
            return
        free = session.experiment.free_in(batch)
        is_confirming = any(one.kind == "confirmation" for one in batch.suggestions)
        room = self._left(session) if is_confirming else self._room(session, len(free))
        session.submit(batch, keep=free[:room])

    def _answer(self, session: Session, on_advice: Callable[[Advice], None] | None) -> str | None:
        """Answer the open warning. Returns why it stops if it waits for somebody else's answer."""
        advice = session.experiment.open_advice
        if advice is None:
            return None
        if on_advice is not None:
            on_advice(advice)
        if self.advice == "wait":
            return f"warning {advice.number} waits for an answer"
        answer, which = advice.unattended if self.advice == "accept" else ("ignored", None)
        session.answer_advice(answer, alternative=which)
        return None

    def _room(self, session: Session, wanted: int) -> int:
        """Return how many new configurations may be tried, at most ``wanted``."""
        room = search_room(session.experiment, self._limit(session), self._left(session))
        return wanted if room is None else min(wanted, room)

    def _left(self, session: Session) -> int | None:
        limit = self._limit(session)
        return None if limit is None else max(0, limit - session.experiment.n_charged)

    def _limit(self, session: Session) -> int | None:
        limits = (session.experiment.sla.max_runs, self.max_runs)
        return min((limit for limit in limits if limit is not None), default=None)
