"""An episode from its first run to its end, in kernel text: `agents.analyst`, round by round."""

from typing import NamedTuple

from agents.episodes.grasp import observe, random_search, suggest, take
from agents.episodes.ground import Desk, Ground, Whole
from agents.episodes.jit import kernel
from agents.episodes.mind import (
    LEVELS,
    SPACE,
    SUBSET,
    Mind,
    choose_well,
    from_levels,
    from_space,
    from_subset,
    learn,
    notice,
)
from agents.episodes.near import Near
from agents.episodes.stream import Words, start

INITIAL, SUGGESTED, ANALYST = 0, 1, 2
"""Where a run came from; `SOURCES` has the journal's words."""

SOURCES = ("initial", "suggested", "analyst")


class Terms(NamedTuple):
    """How an episode is played.

    Args:
        confidence: share of Copperline's runs, in whole per cent.
        round: runs per round.
        max_runs: runs in all.
        goal: the episode ends with the round of a result of this grade or a higher one.
        beta: greediness of GRASP.
        neighbours: per construction.
        purpose: first key of the random stream of a batch; the second is its number.
    """

    confidence: int
    round: int
    max_runs: int
    goal: int
    beta: float
    neighbours: int
    purpose: int


class Journal(NamedTuple):
    """what was run, by run number from 0: int64 [size] each.

    Args:
        indices: flat indices of the configurations.
        sources: `INITIAL`, `SUGGESTED` or `ANALYST`.
        batches: number of the batch of suggestions, 0 for the analyst's own.
        wells: where her own were drawn from.
    """

    indices: Whole
    sources: Whole
    batches: Whole
    wells: Whole


@kernel
def share(confidence: int, runs: int) -> int:
    """Return how many of so many runs are Copperline's; `agents.analyst.share`."""
    return (confidence * runs + 50) // 100


@kernel
def note(journal: Journal, at: int, index: int, source: int, batch: int, well: int) -> None:
    """Write down a run."""
    journal.indices[at] = index
    journal.sources[at] = source
    journal.batches[at] = batch
    journal.wells[at] = well


@kernel
def include_own(
    ground: Ground, desk: Desk, mind: Mind, journal: Journal, n: int, so_far: int
) -> int:
    """Submit up to n runs of the analyst's own; return how many runs there are."""
    for _ in range(n):
        n_free = desk.tally[1]
        if n_free == 0:
            break
        well = choose_well(mind)
        index = -1
        if well == SUBSET:
            index = from_subset(desk, mind)
        elif well == LEVELS:
            index = from_levels(ground, desk, mind)
        if index < 0:
            well = SPACE
            index = from_space(desk, mind, n_free)
        take(desk, index)
        notice(mind, index)
        note(journal, so_far, index, ANALYST, 0, well)
        so_far += 1
    return so_far


@kernel
def play(
    ground: Ground,
    near: Near,
    desk: Desk,
    mind: Mind,
    journal: Journal,
    terms: Terms,
    seed_pool: Words,
    pool: Words,
    state: Words,
) -> int:
    """Play an episode; return how many runs it had.

    Args:
        ground: of the space.
        near: its neighbourhoods, as far as they were looked up before.
        desk: empty, see `agents.episodes.ground.clear`.
        mind: as the analyst begins.
        journal: written from its beginning.
        terms: of the episode.
        seed_pool: of the session's seed, see `agents.episodes.stream.pool_of`.
        pool: uint64 [5], scratch.
        state: uint64 [6], scratch.
    """
    so_far, rounds, batches = 0, 0, 0
    while so_far < terms.max_runs and desk.tally[1] > 0:
        begin = so_far
        n = min(terms.round, terms.max_runs - so_far)
        k = share(terms.confidence, so_far + n) - share(terms.confidence, so_far)
        if k > 0:
            batches += 1
            start(state, seed_pool, terms.purpose, batches, pool)
            knows = desk.tally[0] > 0
            if rounds == 0:
                found = random_search(ground, desk, k, state)
            else:
                found = suggest(ground, near, desk, k, terms.beta, terms.neighbours, state)
            source = SUGGESTED if rounds > 0 and knows else INITIAL
            for at in range(found):
                notice(mind, desk.batch[at])
                note(journal, so_far, desk.batch[at], source, batches, SPACE)
                so_far += 1
        rounds += 1
        so_far = include_own(ground, desk, mind, journal, begin + n - so_far, so_far)
        content = False
        for at in range(begin, so_far):
            index = journal.indices[at]
            observe(ground, desk, index)
            learn(ground, mind, index, journal.wells[at])
            if ground.grades[index] >= terms.goal:
                content = True
        if content:
            break
    return so_far
