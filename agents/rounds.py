"""The loop of figure 3 as a simulated analyst goes through it, whatever she tries of her own.

The order of its steps and draws is written in `agents.analyst`. What she tries of her own accord is
a `Mind`, which is all that a new kind of analyst has to bring.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from agents.episode import Clustering, Episode
from assistant import Advice, AssistantError, BatchSuggested, Executor, Run, Session

OWN = "the analyst's intuition"


class Mind(Protocol):
    """What an analyst would try next, and what she makes of results; one per episode.

    Configurations are flat indices (`agents.truth`).
    """

    @property
    def n_free(self) -> int:
        """Configurations without a run."""

    def take(self, index: int) -> None:
        """Take notice of a run, whoever wanted it."""

    def draw(self) -> int | None:
        """Choose a configuration without a run, and take it; None if there is none."""

    def learn(self, index: int, quality: float | None) -> None:
        """See the result of a run, whoever wanted it; None is a failed run."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How an analyst goes through the loop; see `agents.analyst.Analyst` for the fields.

    Raises:
        AssistantError: a field is out of range.
    """

    confidence: int = 100
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        if type(self.confidence) is not int or not 0 <= self.confidence <= 100:
            raise AssistantError(
                f"confidence is a whole number of per cent from 0 to 100, not {self.confidence!r}"
            )
        if type(self.batch) is not int or self.batch < 1:
            raise AssistantError(f"a batch is a whole number of runs from 1 on, not {self.batch!r}")
        if not 0 <= self.acceptance <= 1:
            raise AssistantError(
                f"acceptance is a probability from 0 (never) to 1 (always), not {self.acceptance!r}"
            )
        if not 0 <= self.reaction_s < float("inf"):
            raise AssistantError(
                f"the reaction takes a number of seconds from 0 on, not {self.reaction_s!r}"
            )


def play_rounds(
    manner: Manner, mind: Mind, session: Session, executor: Executor, episode: Episode
) -> str:
    """Steer a new session to the end of an episode, and return why it ended."""
    seat = _Seat(manner, session, episode, mind, episode.streams.generator("advice"))
    while True:
        ended = seat.end() or seat.round(executor)
        if ended is not None:
            return ended


def share(confidence: int, runs: int) -> int:
    """Return how many of so many runs are Copperline's, at a confidence in whole per cent.

    >>> [share(40, runs) for runs in (5, 10, 15, 100)], share(10, 5), share(0, 999)
    ([2, 4, 6, 40], 1, 0)
    """
    return (confidence * runs + 50) // 100


class _Seat:
    """An analyst at work: what goes on from round to round."""

    def __init__(
        self,
        manner: Manner,
        session: Session,
        episode: Episode,
        mind: Mind,
        advice: np.random.Generator,
    ) -> None:
        self._manner, self._session, self._episode = manner, session, episode
        self._mind, self._advice = mind, advice
        self._n = 0  # runs submitted
        self._rounds = 0

    def end(self) -> str | None:
        """Let her react, then say why the episode is over, if it is."""
        self._episode.wait(self._manner.reaction_s)
        passed = self._session.passed_limit()
        if passed is not None:
            return passed
        if self._n >= self._episode.max_runs:
            return f"the budget of {self._n} runs is used up"
        return None if self._mind.n_free else "the space is exhausted"

    def round(self, executor: Executor) -> str | None:
        """Submit a round and see its results. Returns why the episode ends with it, or None."""
        n = self._runs_of_round()
        k = share(self._manner.confidence, self._n + n) - share(self._manner.confidence, self._n)
        runs = list(self._take_suggestions(k)) if k else []
        self._rounds += 1
        runs += self._include_own(n - len(runs))
        self._n += len(runs)
        self._session.run_queued(executor, stop=self._session.is_over_limit)
        return self._see(runs)

    def _runs_of_round(self) -> int:
        n = min(self._manner.batch, self._episode.max_runs - self._n)
        due = self._episode.clustering
        if due is None or self._n > due.after:
            return n
        if self._n == due.after:
            self._apply(due)
            return n
        return min(n, due.after - self._n)

    def _apply(self, clustering: Clustering) -> None:
        if self._accepts():
            self._session.change_strategy(exploitation=clustering.exploitation)

    def _accepts(self) -> bool:
        acceptance = self._manner.acceptance
        if acceptance in (0, 1):
            return acceptance == 1
        return bool(self._advice.random() < acceptance)

    def _take_suggestions(self, k: int) -> tuple[Run, ...]:
        ask = self._session.suggest if self._rounds else self._session.initial_evaluation
        batch = ask(k)
        open_advice = self._session.experiment.open_advice
        if open_advice is not None:
            batch = self._answer(open_advice) or batch
        runs = self._session.submit(batch, keep=range(min(k, len(batch.suggestions))))
        for run in runs:
            self._mind.take(self._index(run))
        return runs

    def _answer(self, advice: Advice) -> BatchSuggested | None:
        self._episode.wait(self._manner.reaction_s)
        if not self._accepts():
            self._session.answer_advice("ignored")
            return None
        answer, alternative = advice.unattended
        return self._session.answer_advice(answer, alternative=alternative)

    def _include_own(self, n: int) -> Iterator[Run]:
        space = self._session.experiment.space
        for _ in range(n):
            index = self._mind.draw()
            if index is None:
                return
            yield self._session.include(space.values(space.configuration(index)), OWN)

    def _see(self, runs: Sequence[Run]) -> str | None:
        content = False
        for run in runs:
            over = self._session.experiment.run(run.id)
            if over.ended_s is None:  # the deadline came first
                continue
            outcome = over.outcome
            self._mind.learn(self._index(run), None if outcome is None else outcome.quality)
            content = content or self._episode.until(over)
        return "what was wanted is found" if content else None

    def _index(self, run: Run) -> int:
        return self._session.experiment.space.index(run.configuration)
