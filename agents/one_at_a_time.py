"""The analyst who changes one parameter at a time from the best she has seen.

What many people do by hand. Montgomery, Design and Analysis of Experiments, section 1.1, calls it
the one-factor-at-a-time strategy, and shows why it misses interactions.

Her first run of her own is drawn over the whole space (one ``u`` of ``intuition``, as from the well
``space`` of `agents.analyst`). Every other one is the first free configuration around the best
result so far: she takes the parameters in their order, and the levels of each in ascending order of
their ids, all others as in the best. Where nothing around the best is free, she draws over the
space again.
"""

from dataclasses import dataclass

import numpy as np

from agents.episode import Episode
from agents.intuition import Free
from agents.rounds import Manner, play_rounds
from agents.truth import Truth
from assistant import Executor, Session


@dataclass(frozen=True, slots=True)
class OneAtATime:
    """A simulated person without insight; see `agents.analyst.Analyst` for the fields."""

    confidence: int = 0
    batch: int = 5
    acceptance: float = 1.0
    reaction_s: float = 0.0

    def __post_init__(self) -> None:
        self.manner  # noqa: B018 - refuses what is out of range

    @property
    def manner(self) -> Manner:
        """How she goes through the loop."""
        return Manner(self.confidence, self.batch, self.acceptance, self.reaction_s)

    @property
    def name(self) -> str:
        """Name under which it is registered."""
        return "one_at_a_time"

    def play(self, session: Session, executor: Executor, episode: Episode) -> str:
        """Steer a new session; see `agents.episode.Agent.play`."""
        mind = _Mind(episode.truth, episode.streams.generator("intuition"))
        return play_rounds(self.manner, mind, session, executor, episode)


class _Mind:
    """Where she is in her walk over the parameters."""

    def __init__(self, truth: Truth, rng: np.random.Generator) -> None:
        self._truth, self._rng = truth, rng
        self._free = Free(truth.size)
        self._best: tuple[float, int] | None = None

    @property
    def n_free(self) -> int:
        return self._free.n

    def take(self, index: int) -> None:
        self._free.take(index)

    def draw(self) -> int | None:
        if self._free.n == 0:
            return None
        index = self._beside()
        if index is None:
            index = self._free.draw(self._rng)
        self.take(index)
        return index

    def learn(self, index: int, quality: float | None) -> None:
        if quality is not None and (self._best is None or quality > self._best[0]):
            self._best = quality, index

    def _beside(self) -> int | None:
        """Return the first free configuration that differs from the best in one parameter."""
        if self._best is None:
            return None
        best, step = self._best[1], self._truth.size
        for n in self._truth.n_levels:
            step //= n
            first = best - best // step % n * step
            for index in range(first, first + n * step, step):
                if self._free[index]:
                    return index
        return None
