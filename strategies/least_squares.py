"""Main effects by least squares, for unbalanced data.

The additive model: response = a constant + one effect per level + noise. Where levels were not
tried equally often together, plain level means mix the effects of the parameters; least squares
takes them apart as far as the data can.

Effects sum to zero over the levels of a parameter that can be compared (sum-to-zero coding). A
comparison of two levels is estimable if it lies in the row space of the design; that is an
equivalence between levels. The greatest class of a parameter gets effects (the one with the most
runs among equals), every other level is unknown: one run with two new levels makes these two
unknown, not all.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 10.3 and 15.2; Searle,
Linear Models, chapter 5, for estimable functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strategies.blocks import Effects
from strategies.observation import Observation, responses
from strategies.space import ParameterSpace

TOLERANCE = 1e-8
"""Squared length of a contrast of two levels (2) that may be outside the row space."""


def least_squares_effects(space: ParameterSpace, observations: Sequence[Observation]) -> Effects:
    """Return main effects of the additive model, None where they are not estimable.

    Every observation counts once, replicates too; what is fitted is the response (see
    `responses`). A parameter with one level in all has effect 0 once it has a run.
    Raises `SpaceError` if an observation is not of this space.
    """
    for observation in observations:
        space.index(observation.configuration)
    if not observations:
        return tuple((None,) * p.n_levels for p in space.parameters)
    response = responses(observations)
    ids = np.array([o.configuration.level_ids for o in observations], dtype=np.int64)
    seen = [np.unique(ids[:, i], return_inverse=True) for i in range(ids.shape[1])]
    design = np.concatenate(
        [np.ones((len(ids), 1)), *(np.eye(len(levels))[inverse] for levels, inverse in seen)],
        axis=1,
    )
    fitted, basis = _solved(design, response - response[0])
    effects = []
    start = 1
    for parameter, (levels, inverse) in zip(space.parameters, seen, strict=True):
        own = slice(start, start + len(levels))
        start = own.stop
        found: list[float | None] = [None] * parameter.n_levels
        chosen = comparable(basis[own], np.bincount(inverse))
        if parameter.n_levels == 1:
            found = [0.0]
        elif len(chosen) > 1:
            values = fitted[own][chosen]
            for level_id, value in zip(levels[chosen], values - values.mean(), strict=True):
                found[int(level_id)] = float(value)
        effects.append(tuple(found))
    return tuple(effects)


def _solved(
    design: NDArray[np.float64], response: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the least squares solution of least norm, and a basis of the row space.

    The basis has one row per column of the design and orthonormal columns.
    """
    left, singular, right = np.linalg.svd(design, full_matrices=False)
    rank = int((singular > singular[0] * max(design.shape) * np.finfo(np.float64).eps).sum())
    solution = right[:rank].T @ ((left[:, :rank].T @ response) / singular[:rank])
    return solution, right[:rank].T


def comparable(basis: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the places of the greatest class of levels that can be compared.

    The contrast of two levels is estimable if its projection on the row space is as long as
    itself. Of equal classes the one with more runs, then the earlier one.

    Args:
        basis: float64 [levels, rank], the levels (columns of the design that are 0 or 1) in
            coordinates of the row space.
        counts: int64 [levels], runs of each.
    """
    left = np.arange(len(basis))
    classes = []
    while left.size:
        outside = 2 - np.sum((basis[left] - basis[left[0]]) ** 2, axis=1)
        same = (outside < TOLERANCE) | (left == left[0])
        classes.append(left[same])
        left = left[~same]
    return max(classes, key=lambda c: (c.size, int(counts[c].sum()), -int(c[0])))


def settled(values: NDArray[np.float64], relative: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return effects rounded to the grain of the responses, so that ties stay ties."""
    scale = float(np.abs(relative).max(initial=0.0))
    if scale == 0:
        return values
    grain = grain_of(scale)
    rounded: NDArray[np.float64] = np.round(values / grain) * grain
    return rounded


def grain_of(scale: float) -> float:
    """Return the step below which solvers of least squares cannot tell values of this scale."""
    return math.ldexp(1.0, max(math.frexp(scale)[1] - 44, -1000))
