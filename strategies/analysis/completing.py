"""Which runs would complete a factorial block that is nearly there.

A block holds all combinations of some levels of every parameter (see `strategies.blocks`). What is
completed is a block that lies round runs that exist: the one with the fewest runs missing, and of
equals the largest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strategies.blocks import Block, find_blocks
from strategies.configuration import Configuration
from strategies.errors import AnalysisError
from strategies.knowledge import Knowledge
from strategies.observation import rank_key

MOST_CELLS = 10_000
"""Combinations of a block; who asks for more wants a sweep, not a block."""

MOST_SEEDS = 200
"""Blocks, and best runs, that a completed block may lie round."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A block, and the runs that complete it.

    Args:
        block: as it would be.
        configurations: its runs that are missing, allowed and not failed before; empty if it is
            complete already.
    """

    block: Block
    configurations: tuple[Configuration, ...]


def complete_block(knowledge: Knowledge, parameters: Sequence[str] = ()) -> Completion | None:
    """Return the nearest complete factorial in which these parameters have all their open levels.

    Without parameters: the block that one more level of any parameter makes of one that is there.
    A run that waits counts as run. None if there is no such block: nothing was run, or every one
    has a combination that is excluded or has failed.
    Raises `UnknownParameterError`, `AnalysisError` beyond `MOST_CELLS` combinations.
    """
    space = knowledge.space
    positions = [space.names.index(space.parameter(name).name) for name in parameters]
    wanted = math.prod(len(space.open_ids[position]) for position in positions)
    if wanted > MOST_CELLS:
        raise AnalysisError(
            f"{' and '.join(parameters)} have {wanted:,} combinations of open levels; at most "
            f"{MOST_CELLS:,} are completed to a block, so close levels."
        )
    failed = {failure.configuration for failure in knowledge.failures}
    known = knowledge.taken - failed | {o.configuration for o in knowledge.observations}
    best: tuple[tuple[int, int], Completion] | None = None
    for block in _proposed(knowledge, positions):
        if block.size > MOST_CELLS:
            continue
        most = None if best is None else best[0][0]
        missing = _missing(knowledge, block, known, most)
        if missing is not None:
            key = (len(missing), -block.size)
            if best is None or key < best[0]:
                best = key, Completion(block, missing)
    return None if best is None else best[1]


def _proposed(knowledge: Knowledge, positions: Sequence[int]) -> Iterator[Block]:
    """Yield blocks as they would be, round the blocks and then round the best runs."""
    space = knowledge.space
    blocks = find_blocks(space, knowledge.observations)[:MOST_SEEDS]
    ordered = sorted(knowledge.observations, key=rank_key, reverse=True)
    cells = list(dict.fromkeys(o.configuration.level_ids for o in ordered))[:MOST_SEEDS]
    single = [Block(tuple((i,) for i in cell)) for cell in cells]
    # a block is maximal, so a level more is always missing; a run inside one would be complete
    seeds = [*blocks, *single] if positions or not blocks else blocks
    for seed in seeds:
        if positions:
            ids = list(seed.level_ids)
            for position in positions:
                ids[position] = tuple(sorted({*ids[position], *space.open_ids[position]}))
            yield Block(tuple(ids))
            continue
        for position, open_ids in enumerate(space.open_ids):
            for level_id in sorted(set(open_ids) - set(seed.level_ids[position])):
                ids = list(seed.level_ids)
                ids[position] = tuple(sorted((*ids[position], level_id)))
                yield Block(tuple(ids))


def _missing(
    knowledge: Knowledge,
    block: Block,
    known: frozenset[Configuration] | set[Configuration],
    most: int | None,
) -> tuple[Configuration, ...] | None:
    """Return the runs that a block lacks; None if so many cannot complete it."""
    found = []
    for level_ids in itertools.product(*block.level_ids):
        configuration = Configuration(level_ids, knowledge.space.lineage)
        if configuration in known:
            continue
        if configuration in knowledge.taken or not knowledge.space.is_allowed(configuration):
            return None
        found.append(configuration)
        if most is not None and len(found) > most:
            return None
    return tuple(found)
