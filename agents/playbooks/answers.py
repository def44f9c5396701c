"""From the episodes of a figure's study to the numbers that its claims are asked about."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agents.insight import Kind
from agents.playbooks.budgets import Qualities
from agents.playbooks.compare import Goals, Strategies
from agents.playbooks.confidence import Runs
from agents.playbooks.resampled import Sample
from agents.study import Cell, Study
from agents.truth import Truth

Rows = Sequence[Mapping[str, Any]]
"""Of `agents.results.COLUMNS`, in the order of the grid."""


def by_cell(study: Study, rows: Rows) -> Iterator[tuple[Cell, Rows]]:
    """Yield the cells of a study with their episodes."""
    n = study.replications
    for i, cell in enumerate(study.cells()):
        yield cell, rows[i * n : (i + 1) * n]


def sample(study: Study, cell: Cell, rows: Rows) -> Sample:
    """Return the episodes of a cell: runs to the optimum, or ratios if there is a budget.

    The resamples of runs are those of the intervals in the study's own report.
    """
    rng = cell.streams(study.seed, 0).generator("bootstrap")
    found = sum(row["runs_to_optimum"] is not None for row in rows) / len(rows)
    if cell.runs is None:
        runs = [row["runs_to_optimum"] for row in rows]
        allowed = [row["runs_allowed"] for row in rows]
        counted = [a if r is None else r for r, a in zip(runs, allowed, strict=True)]
        return Sample.of(counted, rng, found)
    return Sample.of([row["ratio"] for row in rows], rng, found)


def runs_of(study: Study, rows: Rows, truths: Mapping[str, Truth]) -> list[Runs]:
    """Return the rows of figure 6, one per application."""
    samples: dict[str, dict[tuple[Kind, int, bool], Sample]] = {}
    for cell, own in by_cell(study, rows):
        if cell.insight is None or cell.confidence is None or cell.learning is None:
            raise AssertionError("figure 6 is about analysts with insight and confidence")
        key = (cell.insight, cell.confidence, cell.learning)
        samples.setdefault(cell.table, {})[key] = sample(study, cell, own)
    return [Runs(name, found, leading(truths[name])) for name, found in samples.items()]


def qualities_of(study: Study, rows: Rows) -> Qualities:
    """Return one of the figures 7 to 9."""
    samples = {
        (cell.runs or 0, cell.exploitation): sample(study, cell, own)
        for cell, own in by_cell(study, rows)
    }
    return Qualities(study.tables[0].name, samples)


def strategies_of(study: Study, rows: Rows) -> Strategies:
    """Return what the strategies find on an application."""
    samples: dict[tuple[str, Kind, int], Sample] = {}
    for cell, own in by_cell(study, rows):
        if cell.insight is None or cell.confidence is None:
            raise AssertionError("strategies are compared under analysts with insight")
        samples[cell.strategy.name, cell.insight, cell.confidence] = sample(study, cell, own)
    return Strategies(study.tables[0].name, samples)


def goals_of(study: Study, ignored: Rows, accepted: Rows) -> list[Goals]:
    """Return how many agreements are kept, by strategy, of two studies with the same streams."""
    found = []
    pairs = zip(by_cell(study, ignored), by_cell(study, accepted), strict=True)
    for (cell, without), (_, with_it) in pairs:
        if [row["seed"] for row in without] != [row["seed"] for row in with_it]:
            raise AssertionError("the episodes that are compared have other seeds")
        kept = [[float(bool(row["met"])) for row in own] for own in (without, with_it)]
        gained = [b - a for a, b in zip(*kept, strict=True)]
        rng = cell.streams(study.seed, 0).generator("bootstrap")
        apart = [_told(a) != _told(b) for a, b in zip(without, with_it, strict=True)]
        ignoring, accepting, change = (Sample.of(values, rng) for values in (*kept, gained))
        changed = sum(apart) / len(apart)
        strategy = cell.strategy.name
        found.append(Goals(cell.table, strategy, ignoring, accepting, change, changed))
    return found


def _told(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["runs"], row["best"], row["runs_to_optimum"], row["ended"]


def leading(truth: Truth) -> tuple[int, int]:
    """Return in how many parameters the optimum has the level that is best on average, of how many.

    GRASP and learners go by levels' means; where they lead elsewhere, both are led astray.
    """
    best = truth.ranked[0]
    n = 0
    for parameter, levels in enumerate(truth.n_levels):
        ids = truth.level_ids[:, parameter]
        means = [float(np.nanmean(truth.quality[ids == level])) for level in range(levels)]
        n += int(truth.level_ids[best, parameter]) == int(np.argmax(means))
    return n, len(truth.n_levels)
