"""Cells of a study whose episodes are compiled, with the rows that sessions would give."""

from functools import lru_cache

import numpy as np

from agents.analyst import Analyst
from agents.episodes.compiled import (
    CompiledEpisodes,
    EpisodeRuns,
    is_compilable,
    strategy_of,
)
from agents.episodes.jit import is_available
from agents.episodes.loop import ANALYST
from agents.playing import Played
from agents.streams import Streams
from agents.study import Cell, Chosen, Study
from agents.truth import Truth


def can_compile(study: Study, cell: Cell, truth: Truth) -> bool:
    """Return whether the episodes of a cell can be compiled.

    They are those of figure 6: the paper's analyst with the paper's GRASP, until the optimum is
    found, without an agreement that could warn of anything. Others are played with sessions.
    """
    if not is_available() or cell.runs is not None or study.stop.deadline_s is not None:
        return False
    if not isinstance(study.agent(cell), Analyst):
        return False
    return is_compilable(strategy_of(truth, cell.strategy.name, dict(cell.strategy.options)))


def play_compiled(study: Study, cell: Cell, truth: Truth, replication: int) -> Played:
    """Play one episode as `agents.playing.play_episode` does, if `can_compile` says so."""
    analyst = study.agent(cell)
    if not isinstance(analyst, Analyst):
        raise AssertionError(f"episodes of '{cell.kind}' are not compiled")
    streams = cell.streams(study.seed, replication)
    max_runs = study.max_runs(cell, truth.size)
    runs = _episodes(truth, cell.strategy).play(analyst, streams, max_runs, truth.optimum)
    return _row(runs, truth, max_runs, streams, replication)


@lru_cache(maxsize=16)
def _episodes(truth: Truth, strategy: Chosen) -> CompiledEpisodes:
    return CompiledEpisodes(truth, strategy.name, dict(strategy.options))


def _row(
    runs: EpisodeRuns, truth: Truth, max_runs: int, streams: Streams, replication: int
) -> Played:
    n = runs.indices.size
    measured = runs.qualities[~np.isnan(runs.qualities)]
    best = float(measured.max()) if measured.size else None
    if runs.reached is not None:
        ended = "what was wanted is found"
    elif n >= max_runs:
        ended = f"the budget of {n} runs is used up"
    else:
        ended = "the space is exhausted"
    return Played(
        replication=replication,
        seed=streams.session_seed,
        runs=n,
        suggested=int((runs.sources != ANALYST).sum()),
        runs_to_optimum=runs.reached,
        censored=runs.reached is None,
        best=None if best is None else truth.application.objective.value_of(best),
        ratio=0.0 if best is None else truth.ratio(best),
        late=False,
        ended=ended,
    )
