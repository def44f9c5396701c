"""Figure 5 of the paper: a search space at a glance, folded, dark where results are better."""

import numpy as np

from agents.truth import Truth
from assistant.charts import Spec
from assistant.charts_space import Axis, CellValues, Mark, Nested, response_map
from assistant.response_map import Fold, arranged, folded


def space_map(truth: Truth, title: str) -> Spec:
    """Draw the whole measured space; a star marks the optimum.

    Several parameters share an axis; which ones, follows from the shares of the variance that
    their levels explain (`assistant.response_map.arranged`).
    """
    fold = arranged(truth.space, shares(truth))
    grid = folded(truth.space, fold)
    n_levels = np.array(truth.n_levels)
    flat = np.ravel_multi_index(tuple(grid.level_ids.T), tuple(n_levels))
    objective = truth.application.objective
    values = [
        None if np.isnan(one) else objective.value_of(one) for one in truth.quality[flat].tolist()
    ]
    place = grid.place(truth.space.configuration(int(truth.ranked[0])))
    marks = [] if place is None else [Mark(*place, "best")]
    cells = CellValues(title, values, "low" if objective.goal == "minimise" else "high")
    return response_map(
        _axis(truth, fold, across=True), _axis(truth, fold, across=False), cells,
        [0] * len(values), marks,
    )  # fmt: skip


def shares(truth: Truth) -> dict[str, float]:
    """Return the share of the variance that the levels of each parameter explain alone."""
    known = ~np.isnan(truth.quality)
    quality = truth.quality[known]
    total = float(((quality - quality.mean()) ** 2).sum()) or 1.0
    found = {}
    for parameter, name in enumerate(truth.space.names):
        ids = truth.level_ids[known, parameter]
        counts, sums = np.bincount(ids), np.bincount(ids, weights=quality - quality.mean())
        found[name] = float((sums**2 / np.maximum(counts, 1)).sum()) / total
    return found


def facts(truth: Truth) -> str:
    """Return how the results of a space are spread, for people."""
    objective = truth.application.objective
    values = [objective.value_of(one) for one in truth.quality[truth.ranked].tolist()]
    n_best = int((truth.quality == truth.optimum).sum())
    _, counts = np.unique(truth.quality[truth.ranked], return_counts=True)
    alike = int(counts.max())
    parts = ", ".join(f"{name} {share:.0%}" for name, share in shares(truth).items())
    best = "one configuration is optimal" if n_best == 1 else f"{n_best} are optimal"
    return (
        f"{truth.size:,} configurations, {best} ({values[0]:,.4g}); the best tenth reaches "
        f"{values[len(values) // 10]:,.4g}, half {values[len(values) // 2]:,.4g}, all "
        f"{values[-1]:,.4g}; {alike:,} have the same result; variance explained by levels alone: "
        f"{parts}"
    )


def _axis(truth: Truth, fold: Fold, *, across: bool) -> Axis:
    nested = []
    for name in fold.across if across else fold.down:
        position = truth.space.names.index(name)
        parameter = truth.space.parameter(name)
        ids = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        texts = tuple(_level(parameter.levels[i]) for i in ids)
        nested.append(Nested(name, texts, tuple(f"{position}:{i}" for i in ids)))
    return nested


def _level(level: object) -> str:
    return f"{level:,g}" if isinstance(level, int | float) else str(level)
