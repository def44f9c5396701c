"""Numba-compiled episodes of analysts on a measured space, with the same runs as in a session.

The steps are those of `agents.analysts.analyst` and `agents.analysts.insight`, draw for draw and
sum for sum. One difference, with the same result: the median of earlier results is a pointer over
the distinct qualities of the table, not a position in a sorted list.

GRASP in kernel text: the suggestions of `strategies.Copper`, draw for draw.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from agents.analysts.analyst import Analyst
from agents.analysts.episode import EpisodeStreams, Truth
from agents.analysts.insight import Subset, Weights, draw_subset
from agents.compiled.jit import (
    N_POOL,
    N_STATE,
    Words,
    below,
    compiled,
    kernel,
    pool_of,
    start,
    state_of,
    uniform,
    words_of,
)
from agents.compiled.space_arrays import (
    FREE,
    SEARCH_BOUND,
    TAKEN,
    Flags,
    NeighbourCache,
    Real,
    SpaceArrays,
    StrategyArrays,
    Whole,
    clear,
    nearest,
    neighbour_cache,
    space_arrays_of,
    strategy_arrays,
)
from assistant import AssistantError, Experiment
from assistant.analysis.recommendation import current_strategy
from assistant.core.run import random_stream
from assistant.session.opening import build_opened_event

ROUNDS = 4
"""Rounds without a free configuration before a random one; `strategies.samplers.copper.ROUNDS`."""

REJECTION_TRIES = 256
"""Random draws before free ones are listed, as in `strategies.space.parameter_space`."""


@kernel
def observe(ground: SpaceArrays, arrays: StrategyArrays, index: int) -> None:
    """Add the quality of a run to the means of its parameter levels, unless the run failed."""
    quality = ground.quality[index]
    if math.isnan(quality):
        return
    if arrays.tally[0] == 0:
        arrays.origin[0] = quality
    arrays.tally[0] += 1
    for i in range(ground.n_levels.size):
        place = ground.first[i] + ground.level_ids[index, i]
        arrays.sums[place] += quality - arrays.origin[0]
        arrays.counts[place] += 1


@kernel
def take(arrays: StrategyArrays, index: int) -> None:
    """Mark a configuration, given by its flat index, as taken (suggested or run)."""
    if arrays.taken[index] == FREE:
        arrays.taken[index] = TAKEN
        arrays.tally[1] -= 1


@kernel
def reduced_candidate_lists(ground: SpaceArrays, arrays: StrategyArrays, beta: float) -> None:
    """Fill all lists of candidate levels, by mean level quality (Copper paper, Algorithm 2)."""
    for i in range(ground.n_levels.size):
        first, n = ground.first[i], ground.n_levels[i]
        q_min, q_max = math.inf, -math.inf
        for place in range(first, first + n):
            if arrays.counts[place] > 0:
                quality = arrays.origin[0] + arrays.sums[place] / arrays.counts[place]
                q_min, q_max = min(q_min, quality), max(q_max, quality)
        threshold = q_max if beta == 1 else min(q_min + beta * (q_max - q_min), q_max)
        listed = 0
        for place in range(first, first + n):
            is_in = arrays.counts[place] == 0
            if not is_in:
                is_in = arrays.origin[0] + arrays.sums[place] / arrays.counts[place] >= threshold
            if is_in:
                arrays.candidates[first + listed] = place - first
                listed += 1
        arrays.n_candidates[i] = listed


@kernel
def construction(ground: SpaceArrays, arrays: StrategyArrays, state: Words) -> Any:
    """Return the flat index of a configuration with a random candidate level per parameter."""
    solution = 0
    for i in range(ground.n_levels.size):
        position = below(state, arrays.n_candidates[i])
        solution += arrays.candidates[ground.first[i] + position] * ground.strides[i]
    return solution


@kernel
def local_search(
    ground: SpaceArrays,
    near: NeighbourCache,
    arrays: StrategyArrays,
    n: int,
    centre: int,
    state: Words,
    so_far: int,
) -> int:
    """Append up to n free neighbours of a configuration to the batch; return the batch length."""
    limit, n_visited, begin = so_far + n, 0, 0
    slot = nearest(ground, near, centre)
    for group in range(near.n_groups[slot]):
        total = near.ends[slot, group] - begin
        for at in range(total):
            arrays.order[at] = near.indices[slot, begin + at]
        for at in range(total):
            if so_far == limit or n_visited == SEARCH_BOUND:
                return so_far
            position = at + below(state, total - at)
            index = arrays.order[position]
            arrays.order[position] = arrays.order[at]
            n_visited += 1
            if arrays.taken[index] == FREE:
                take(arrays, index)
                arrays.batch[so_far] = index
                so_far += 1
        begin += total
    return so_far


@kernel
def add_round(
    ground: SpaceArrays,
    near: NeighbourCache,
    arrays: StrategyArrays,
    neighbours: int,
    state: Words,
    so_far: int,
) -> int:
    """Append one GRASP round (Copper paper, Algorithm 1) to the batch; return the batch length."""
    solution = construction(ground, arrays, state)
    n = neighbours
    if arrays.taken[solution] == FREE:
        take(arrays, solution)
        arrays.batch[so_far] = solution
        so_far += 1
    else:
        n = max(n, 1)
    return local_search(ground, near, arrays, n, solution, state, so_far)


@kernel
def add_random(ground: SpaceArrays, arrays: StrategyArrays, state: Words, so_far: int) -> int:
    """Append a random free configuration, if any, to the batch and return the batch length."""
    if arrays.tally[1] == 0:
        return so_far
    index = -1
    for _ in range(REJECTION_TRIES):
        candidate = 0
        for i in range(ground.n_levels.size):
            candidate += below(state, ground.n_levels[i]) * ground.strides[i]
        if arrays.taken[candidate] == FREE:
            index = candidate
            break
    if index < 0:
        rest = below(state, arrays.tally[1])
        for other in range(arrays.taken.size):
            if arrays.taken[other] == FREE:
                if rest == 0:
                    index = other
                    break
                rest -= 1
    take(arrays, index)
    arrays.batch[so_far] = index
    return so_far + 1


@kernel
def random_search(ground: SpaceArrays, arrays: StrategyArrays, n: int, state: Words) -> int:
    """Fill the batch with ``n`` random configurations, as `strategies.RandomSearch` does.

    Returns their number; they are taken from now on.
    """
    so_far = 0
    while so_far < n:
        longer = add_random(ground, arrays, state, so_far)
        if longer == so_far:
            break
        so_far = longer
    return so_far


@kernel
def suggest(
    ground: SpaceArrays,
    near: NeighbourCache,
    arrays: StrategyArrays,
    n: int,
    beta: float,
    neighbours: int,
    state: Words,
) -> int:
    """Fill the batch with ``n`` suggestions, as `strategies.Copper.suggest` does.

    Returns their number, fewer only if no more is free; they are taken from now on.
    """
    if arrays.tally[0] == 0:
        return random_search(ground, arrays, n, state)
    reduced_candidate_lists(ground, arrays, beta)
    so_far = 0
    while so_far < n:
        longer = so_far
        for _ in range(ROUNDS):
            longer = add_round(ground, near, arrays, neighbours, state, so_far)
            if longer > so_far:
                break
        if longer == so_far:
            longer = add_random(ground, arrays, state, so_far)
            if longer == so_far:
                break
        so_far = longer
    for at in range(n, so_far):  # the surplus of the last round
        arrays.taken[arrays.batch[at]] = FREE
        arrays.tally[1] += 1
    return min(so_far, n)


TRIES = 32  # Draws that may hit a configuration with a run; `agents.analysts.insight.TRIES`

SUBSET, LEVELS, SPACE = 0, 1, 2
"""Sources of an analyst's own configurations; Copperline's have `SPACE`."""

N_FREE, N_SEEN, MEDIAN, N_BELOW = 0, 1, 2, 3
"""Positions in `AnalystState.tally`: members without a run, qualities seen, the grade of the
one at position ``n // 2`` of them in ascending order, and the number of those below it.
"""


class AnalystState(NamedTuple):
    """State of one simulated analyst: subset, level weights and results so far."""

    learns: int  # 1 if the analyst learns, else 0
    gain: float  # factor by which a weight grows in a good result, and shrinks in a bad one
    most: float  # greatest weight; the smallest is 1 / most
    members: Whole  # int64 [m], the subset, none without insight
    weights: Real  # float64 [m], weights of the members
    cumulative: Real  # float64 [m], their running sums
    is_member: Flags  # uint8 [size]
    levels: Real  # float64 [levels], weights of the levels; read if the analyst learns
    totals: Real  # float64 [d], scratch for their sums
    trust: Real  # float64 [2], weights of subset and levels
    grade_counts: Whole  # int64 [grades], number of results of each distinct quality
    tally: Whole  # int64 [4], see `N_FREE` and what follows it
    state: Words  # uint64 [6], the stream "intuition"


@kernel
def count_run(mind: AnalystState, index: int) -> None:
    """Decrease the number of free subset members if the newly run configuration is a member."""
    mind.tally[N_FREE] -= mind.is_member[index]


@kernel
def share_of(u: float, n: int) -> int:
    """Map a random number u in [0, 1) to a whole number from 0 to n - 1."""
    return min(int(u * n), n - 1)


@kernel
def choose_well(mind: AnalystState) -> int:
    """Return the source of the analyst's next run: `SUBSET`, `LEVELS` or `SPACE`."""
    if mind.tally[N_FREE] == 0:
        return LEVELS if mind.learns == 1 else SPACE
    if mind.learns == 0:
        return SUBSET
    target = uniform(mind.state) * (mind.trust[0] + mind.trust[1])
    return SUBSET if mind.trust[0] > target else LEVELS


@kernel
def from_subset(arrays: StrategyArrays, mind: AnalystState) -> int:
    """Draw a free configuration from the analyst's subset, which must contain one."""
    n = mind.members.size
    for _ in range(TRIES):
        target = uniform(mind.state) * mind.cumulative[n - 1]
        at, end = 0, n
        while at < end:  # the first whose running sum exceeds the target
            middle = (at + end) // 2
            if mind.cumulative[middle] > target:
                end = middle
            else:
                at = middle + 1
        index = mind.members[min(at, n - 1)]
        if arrays.taken[index] == FREE:
            return index  # type: ignore[no-any-return]
    total = 0.0
    for i in range(n):
        if arrays.taken[mind.members[i]] == FREE:
            total += mind.weights[i]
    target, running, last_free = uniform(mind.state) * total, 0.0, -1
    for i in range(n):
        if arrays.taken[mind.members[i]] == FREE:
            running += mind.weights[i]
            last_free = mind.members[i]
            if running > target:
                break
    return last_free


@kernel
def from_levels(ground: SpaceArrays, arrays: StrategyArrays, mind: AnalystState) -> int:
    """Draw a free configuration by level weights, or return -1 if all attempts fail."""
    d = ground.n_levels.size
    for i in range(d):
        total = 0.0
        for place in range(ground.first[i], ground.first[i] + ground.n_levels[i]):
            total += mind.levels[place]
        mind.totals[i] = total
    for _ in range(TRIES):
        index = 0
        for i in range(d):
            target, running = uniform(mind.state) * mind.totals[i], 0.0
            level_id, last = 0, ground.n_levels[i] - 1
            while level_id <= last:
                running += mind.levels[ground.first[i] + level_id]
                if running > target:
                    break
                level_id += 1
            index += min(level_id, last) * ground.strides[i]
        if arrays.taken[index] == FREE:
            return index
    return -1


@kernel
def from_space(arrays: StrategyArrays, mind: AnalystState, n_free: int) -> int:
    """Draw a free configuration uniformly from the whole space, which must contain one."""
    for _ in range(TRIES):
        index = share_of(uniform(mind.state), arrays.taken.size)
        if arrays.taken[index] == FREE:
            return index
    rest = share_of(uniform(mind.state), n_free)
    for index in range(arrays.taken.size):
        if arrays.taken[index] == FREE:
            if rest == 0:
                return index
            rest -= 1
    return -1


@kernel
def judge(mind: AnalystState, grade: int) -> int:
    """Compare a result with the median of earlier ones and store it: 1 good, -1 bad, 0 neither.

    A grade is the position of the quality among the distinct ones; -1 is a failed run.
    """
    if grade < 0:
        return -1
    n = mind.tally[N_SEEN]
    verdict = 0
    if n == 0:
        mind.tally[MEDIAN] = grade
    else:
        median = mind.tally[MEDIAN]
        verdict = (1 if grade > median else 0) - (1 if grade < median else 0)
    mind.grade_counts[grade] += 1
    mind.tally[N_SEEN] = n + 1
    if grade < mind.tally[MEDIAN]:
        mind.tally[N_BELOW] += 1
    position = (n + 1) // 2
    while mind.tally[N_BELOW] > position:
        mind.tally[MEDIAN] -= 1
        mind.tally[N_BELOW] -= mind.grade_counts[mind.tally[MEDIAN]]
    while mind.tally[N_BELOW] + mind.grade_counts[mind.tally[MEDIAN]] <= position:
        mind.tally[N_BELOW] += mind.grade_counts[mind.tally[MEDIAN]]
        mind.tally[MEDIAN] += 1
    return verdict


@kernel
def updated_weight(mind: AnalystState, weight: float, verdict: int) -> float:
    """Return a weight increased after a good result or decreased after a bad one, in bounds."""
    weight = weight * mind.gain if verdict > 0 else weight / mind.gain
    return min(max(weight, 1.0 / mind.most), mind.most)


@kernel
def learn(ground: SpaceArrays, mind: AnalystState, index: int, well: int) -> None:
    """Update the weights of levels and of the configuration's source, if the analyst learns."""
    if mind.learns == 0:
        return
    verdict = judge(mind, ground.grades[index])
    if verdict == 0:
        return
    for i in range(ground.n_levels.size):
        place = ground.first[i] + ground.level_ids[index, i]
        mind.levels[place] = updated_weight(mind, mind.levels[place], verdict)
    if well != SPACE:
        mind.trust[well] = updated_weight(mind, mind.trust[well], verdict)


INITIAL, SUGGESTED, ANALYST = 0, 1, 2  # Sources of runs; `SOURCES` has their names in the event log

SOURCES = ("initial", "suggested", "analyst")


class EpisodeTerms(NamedTuple):
    """Settings of a compiled episode: confidence, round size, run limit, goal and GRASP options."""

    confidence: int  # share of Copperline's runs, in whole per cent
    round: int  # runs per round
    max_runs: int  # runs in all
    goal: int  # grade of the goal; the episode ends with the round of a result that reaches it
    beta: float  # greediness of GRASP
    neighbours: int  # neighbours per construction
    purpose: int  # first key of the random stream of a batch; the second is its number


class EpisodeRecord(NamedTuple):
    """Arrays with the configuration, source and batch of each run of an episode, int64 [size]."""

    indices: Whole  # flat indices of the configurations
    sources: Whole  # `INITIAL`, `SUGGESTED` or `ANALYST`
    batches: Whole  # number of the batch of suggestions, 0 for the analyst's own
    wells: Whole  # sources of the analyst's own configurations


@kernel
def share(confidence: int, runs: int) -> int:
    """Return how many of `runs` Copperline suggests, given the confidence in percent."""
    return (confidence * runs + 50) // 100


@kernel
def note(journal: EpisodeRecord, at: int, index: int, source: int, batch: int, well: int) -> None:
    """Store one run of the episode at position ``at`` of the record."""
    journal.indices[at] = index
    journal.sources[at] = source
    journal.batches[at] = batch
    journal.wells[at] = well


@kernel
def include_analyst_run(
    ground: SpaceArrays,
    arrays: StrategyArrays,
    mind: AnalystState,
    journal: EpisodeRecord,
    n: int,
    so_far: int,
) -> int:
    """Add up to n runs of the analyst's own choice and return the total number of runs."""
    for _ in range(n):
        n_free = arrays.tally[1]
        if n_free == 0:
            break
        well = choose_well(mind)
        index = -1
        if well == SUBSET:
            index = from_subset(arrays, mind)
        elif well == LEVELS:
            index = from_levels(ground, arrays, mind)
        if index < 0:
            well = SPACE
            index = from_space(arrays, mind, n_free)
        take(arrays, index)
        count_run(mind, index)
        note(journal, so_far, index, ANALYST, 0, well)
        so_far += 1
    return so_far


@kernel
def play(
    ground: SpaceArrays,
    near: NeighbourCache,
    arrays: StrategyArrays,
    mind: AnalystState,
    journal: EpisodeRecord,
    terms: EpisodeTerms,
    seed_pool: Words,
    pool: Words,
    state: Words,
) -> int:
    """Play a compiled episode, record its runs in ``journal`` and return the number of runs.

    ``arrays`` are cleared (`agents.compiled.space_arrays.clear`), ``mind`` is the initial
    state of the analyst, ``seed_pool`` that of the session's seed (`agents.compiled.jit.pool_of`);
    ``pool``, uint64 [5], and ``state``, uint64 [6], are scratch.
    """
    so_far, rounds, batches = 0, 0, 0
    while so_far < terms.max_runs and arrays.tally[1] > 0:
        begin = so_far
        n = min(terms.round, terms.max_runs - so_far)
        k = share(terms.confidence, so_far + n) - share(terms.confidence, so_far)
        if k > 0:
            batches += 1
            start(state, seed_pool, terms.purpose, batches, pool)
            knows = arrays.tally[0] > 0
            if rounds == 0:
                n_suggested = random_search(ground, arrays, k, state)
            else:
                n_suggested = suggest(ground, near, arrays, k, terms.beta, terms.neighbours, state)
            source = SUGGESTED if rounds > 0 and knows else INITIAL
            for at in range(n_suggested):
                count_run(mind, arrays.batch[at])
                note(journal, so_far, arrays.batch[at], source, batches, SPACE)
                so_far += 1
        rounds += 1
        so_far = include_analyst_run(ground, arrays, mind, journal, begin + n - so_far, so_far)
        content = False
        for at in range(begin, so_far):
            index = journal.indices[at]
            observe(ground, arrays, index)
            learn(ground, mind, index, journal.wells[at])
            if ground.grades[index] >= terms.goal:
                content = True
        if content:
            break
    return so_far


Options = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeRuns:
    """Runs of an episode, in the order of their numbers."""

    indices: Whole  # int64 [n], flat indices of the configurations
    qualities: Real  # float64 [n], maximised, NaN where the run failed
    sources: Flags  # uint8 [n], positions in `SOURCES`: initial, suggested, analyst
    batches: Whole  # int64 [n], number of the batch of suggestions, 0 for the analyst's own
    reached: int | None  # number of the first run (from 1) that reached the goal; None if none did

    @property
    def rows(self) -> list[tuple[int, str, int | None]]:
        """Flat index, source and batch number of every run, as in the event log of a session."""
        return [
            (index, SOURCES[source], batch or None)
            for index, source, batch in zip(
                self.indices.tolist(), self.sources.tolist(), self.batches.tolist(), strict=True
            )
        ]


def strategy_of(truth: Truth, name: str, options: Options | None) -> object:
    """Construct the strategy that a session with this name and options would use."""
    opened = build_opened_event(truth.application, strategy=name, options=options)
    return current_strategy(Experiment(opened)).base


def is_compilable(strategy: object) -> bool:
    """Return whether episodes with a strategy can be played as compiled code."""
    return bool(getattr(strategy, "is_compiled", False))


_EMPTY = Subset(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


class CompiledEpisodes:
    """Player of compiled episodes on one space, with the Copper paper's GRASP as strategy.

    There is no SLA, so there are no warnings, and no time: acceptance and reaction time have no
    effect. The clustering advice (section 4.3) is not supported.

    Args:
        truth: the space and its qualities.
        strategy: strategy as for `assistant.open_session`.
        options: options of the strategy.

    Raises:
        StrategyError: the options are not the strategy's.
        AssistantError: the strategy is another one than GRASP with level means.
    """

    def __init__(
        self,
        truth: Truth,
        strategy: str = "copper",
        options: Options | None = None,
    ) -> None:
        steered: Any = strategy_of(truth, strategy, options)
        if not is_compilable(steered):
            raise AssistantError(
                f"compiled episodes need the strategy 'copper' with effects='means', not "
                f"{steered}; play the episodes with a session"
            )
        self._truth = truth
        self._beta, self._neighbours = float(steered.beta), int(steered.neighbours)
        self._ground = space_arrays_of(truth.space.parameters, truth.quality)
        self._near = neighbour_cache(self._ground)
        self._grades = np.unique(truth.quality[~np.isnan(truth.quality)])
        self._purpose = int(random_stream(0, "suggest", 1).spawn_key[0])
        self._desk: StrategyArrays | None = None
        self._journal = EpisodeRecord(
            *(np.empty(truth.size, dtype=np.int64) for _ in EpisodeRecord._fields)
        )
        self._pools = np.empty((2, N_POOL), dtype=np.uint64)
        self._state = np.empty(N_STATE, dtype=np.uint64)

    def play(
        self, analyst: Analyst, streams: EpisodeStreams, max_runs: int, goal: float | None = None
    ) -> EpisodeRuns:
        """Play one episode until the goal is reached or `max_runs` runs are done.

        The same streams give the same runs; there are fewer than ``max_runs`` if the space ends.

        Raises:
            AssistantError: ``max_runs`` is below 1, or there is nothing to draw an insight from.
        """
        if max_runs < 1:
            raise AssistantError(f"an episode has at least 1 run, not {max_runs}")
        truth, grades = self._truth, self._grades
        place = grades.size if goal is None else int(np.searchsorted(grades, goal))
        mind = self._mind(analyst, streams)
        used = self._cleared(analyst.batch)
        terms = EpisodeTerms(
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

    def _cleared(self, batch: int) -> StrategyArrays:
        """Return cleared arrays for batches of this length and the last round's surplus."""
        longest = batch + max(self._neighbours, 1)
        if self._desk is None or self._desk.batch.size < longest:
            self._desk = strategy_arrays(self._ground, longest)
        clear(self._desk)
        return self._desk

    def _mind(self, analyst: Analyst, streams: EpisodeStreams) -> AnalystState:
        truth, learning = self._truth, analyst.learning
        insight_subset = draw_subset(analyst.insight, truth, streams.generator("insight"))
        weights = None if learning is None else Weights(learning, truth, insight_subset)
        subset = _EMPTY if insight_subset is None else insight_subset
        is_member = np.zeros(truth.size, dtype=np.uint8)
        is_member[subset.members] = 1
        return AnalystState(
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
            grade_counts=np.zeros(0 if weights is None else self._grades.size, dtype=np.int64),
            tally=np.array([subset.members.size, 0, 0, 0], dtype=np.int64),
            state=state_of(streams.sequence("intuition")),
        )
