"""Episodes of analysts on a measured space, compiled: the journal that a session would make.

A session keeps every event, says why it suggests what it suggests, and could be taken over by a
person at any time; a study of a hundred million runs has use for neither. What it needs is here:
which configuration was run when, and who wanted it. `tests/agents` compares both paths.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.analyst import Analyst
from agents.episodes.ground import Desk, Flags, Real, Whole, clear, desk, ground_of
from agents.episodes.jit import compiled
from agents.episodes.loop import SOURCES, Journal, Terms, play
from agents.episodes.mind import Mind
from agents.episodes.near import near_of
from agents.episodes.stream import N_POOL, N_STATE, pool_of, state_of, words_of
from agents.insight import Subset, draw_subset
from agents.learning import Weights
from agents.streams import Streams
from agents.truth import Truth
from assistant import AssistantError, Experiment
from assistant.choosing import current_strategy
from assistant.decisions import stream
from assistant.opening import describe

Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRuns:
    """The runs of an episode, in the order of their numbers.

    Args:
        indices: int64 [n], flat indices of the configurations.
        qualities: float64 [n], maximised, NaN where the run failed.
        sources: uint8 [n], places in `SOURCES`: initial, suggested, analyst.
        batches: int64 [n], number of the batch of suggestions, 0 for the analyst's own.
        reached: number of the first run (from 1) that reached the goal; None if none did.
    """

    indices: Whole
    qualities: Real
    sources: Flags
    batches: Whole
    reached: int | None

    @property
    def rows(self) -> list[tuple[int, str, int | None]]:
        """Configuration, source and batch of every run, in the journal's words."""
        return [
            (index, SOURCES[source], batch or None)
            for index, source, batch in zip(
                self.indices.tolist(), self.sources.tolist(), self.batches.tolist(), strict=True
            )
        ]


def strategy_of(truth: Truth, name: str, options: Options | None) -> object:
    """Return what would choose in a session. Raises StrategyError for what it does not take."""
    return current_strategy(Experiment(describe(truth.application, strategy=name, options=options)))


def is_compilable(strategy: object) -> bool:
    """Return whether episodes with a strategy can be compiled."""
    of_means = getattr(strategy, "effects", None) == "means"
    return getattr(strategy, "name", None) == "grasp" and of_means


_EMPTY = Subset(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


class CompiledEpisodes:
    """Plays episodes on one space with the paper's GRASP as the strategy; not for two threads.

    There is no agreement, so nothing is warned of, and no time: what an analyst does about advice
    and how long she reflects makes no difference. The clustering advice (section 4.3) is not here.

    Args:
        truth: the space and its qualities.
        strategy: as it would be given to `assistant.open_session`.
        options: of the strategy.

    Raises:
        StrategyError: the options are not the strategy's.
        AssistantError: the strategy is another one than GRASP with level means.
    """

    def __init__(
        self,
        truth: Truth,
        strategy: str = "grasp",
        options: Options | None = None,
    ) -> None:
        steered: Any = strategy_of(truth, strategy, options)
        if not is_compilable(steered):
            raise AssistantError(
                f"episodes are compiled for the strategy 'grasp' with effects='means', not for "
                f"{steered}; play those with a session"
            )
        self._truth = truth
        self._beta, self._neighbours = float(steered.beta), int(steered.neighbours)
        self._ground = ground_of(truth.space.parameters, truth.quality)
        self._near = near_of(self._ground)
        self._grades = np.unique(truth.quality[~np.isnan(truth.quality)])
        self._purpose = int(stream(0, "suggest", 1).spawn_key[0])
        self._desk: Desk | None = None
        self._journal = Journal(*(np.empty(truth.size, dtype=np.int64) for _ in Journal._fields))
        self._pools = np.empty((2, N_POOL), dtype=np.uint64)
        self._state = np.empty(N_STATE, dtype=np.uint64)

    def play(
        self, analyst: Analyst, streams: Streams, max_runs: int, goal: float | None = None
    ) -> EpisodeRuns:
        """Play one episode.

        Args:
            analyst: who plays.
            streams: of random numbers; the same ones give the same runs.
            max_runs: runs in all; there are fewer if the space is exhausted.
            goal: a quality; the episode ends with the round in which a run reaches it.

        Raises:
            AssistantError: no run may be made, or there is nothing to draw an insight from.
        """
        if max_runs < 1:
            raise AssistantError(f"an episode has at least 1 run, not {max_runs}")
        truth, grades = self._truth, self._grades
        place = grades.size if goal is None else int(np.searchsorted(grades, goal))
        mind = self._mind(analyst, streams)
        used = self._cleared(analyst.batch)
        terms = Terms(
            confidence=analyst.confidence,
            round=analyst.batch,
            max_runs=max_runs,
            goal=place,
            beta=self._beta,
            neighbours=self._neighbours,
            purpose=self._purpose,
        )
        seed_pool, pool = self._pools
        compiled(pool_of)(words_of(streams.session_seed), seed_pool)
        n = compiled(play)(
            self._ground, self._near, used, mind, self._journal, terms, seed_pool, pool, self._state
        )
        indices = self._journal.indices[:n].copy()
        reached = np.flatnonzero(self._ground.grades[indices] >= place)
        return EpisodeRuns(
            indices=indices,
            qualities=truth.quality[indices],
            sources=self._journal.sources[:n].astype(np.uint8),
            batches=self._journal.batches[:n].copy(),
            reached=int(reached[0]) + 1 if reached.size else None,
        )

    def _cleared(self, batch: int) -> Desk:
        """Return an empty desk for batches of this length; what a round finds beyond is cut off."""
        longest = batch + max(self._neighbours, 1)
        if self._desk is None or self._desk.batch.size < longest:
            self._desk = desk(self._ground, longest)
        clear(self._desk)
        return self._desk

    def _mind(self, analyst: Analyst, streams: Streams) -> Mind:
        truth, learning = self._truth, analyst.learning
        drawn = draw_subset(analyst.insight, truth, streams.generator("insight"))
        weights = None if learning is None else Weights(learning, truth, drawn)
        subset = _EMPTY if drawn is None else drawn
        is_member = np.zeros(truth.size, dtype=np.uint8)
        is_member[subset.members] = 1
        return Mind(
            learns=int(learning is not None),
            gain=1.0 if learning is None else 1.0 + learning.rate,
            most=1.0 if learning is None else float(learning.bound),
            members=subset.members,
            weights=subset.weights,
            cumulative=subset.cumulative,
            is_member=is_member,
            levels=np.empty(0) if weights is None else np.concatenate(weights.levels),
            totals=np.empty(len(truth.n_levels)),
            trust=np.array([1.0, 1.0] if weights is None else weights.source),
            seen=np.zeros(0 if weights is None else self._grades.size, dtype=np.int64),
            tally=np.array([subset.members.size, 0, 0, 0], dtype=np.int64),
            state=state_of(streams.sequence("intuition")),
        )
