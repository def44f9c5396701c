"""From the episodes of a figure's study to the numbers that its claims are asked about."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agents.insight import Kind
from agents.playbooks.budgets import Qualities
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
