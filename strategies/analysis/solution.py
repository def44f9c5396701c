"""Least squares of a design that may be rank-deficient, and what can be estimated from it.

A linear function of the coefficients is estimable if it lies in the row space of the design: every
least squares solution then gives it the same value.

Reference: Searle, Linear Models, chapter 5; Montgomery, Design and Analysis of Experiments,
8th ed., section 10.7 (leverage).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strategies.least_squares import TOLERANCE, grain_of

GRAINS = 16
"""Residuals of at most so many grains of the response are rounding, not noise."""


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of least norm, in coordinates of the row space.

    Args:
        basis: float64 [columns, rank], orthonormal columns that span the row space.
        singular: float64 [rank].
        scores: float64 [rank], the response in the directions of the singular vectors.
        residuals: float64 [n], exactly 0 where the fit is exact up to rounding.
        leverage: float64 [n], the diagonal of the hat matrix.
    """

    basis: NDArray[np.float64]
    singular: NDArray[np.float64]
    scores: NDArray[np.float64]
    residuals: NDArray[np.float64]
    leverage: NDArray[np.float64]

    @property
    def rank(self) -> int:
        """Rank of the design."""
        return len(self.singular)

    @property
    def residual_squares(self) -> float:
        """Sum of squared residuals."""
        return float(self.residuals @ self.residuals)

    def estimable(self, functions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which functions, float64 [m, columns], lie in the row space: bool [m]."""
        outside = functions - (functions @ self.basis) @ self.basis.T
        lengths = np.sum(functions**2, axis=1)
        inside: NDArray[np.bool_] = np.sum(outside**2, axis=1) <= TOLERANCE * lengths
        return inside

    def estimates(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values of functions, float64 [m]; of meaning where they are estimable."""
        values: NDArray[np.float64] = (functions @ self.basis) @ (self.scores / self.singular)
        return values

    def scaled(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64 [m, rank] whose products are covariances over the error variance."""
        scaled: NDArray[np.float64] = (functions @ self.basis) / self.singular
        return scaled

    def errors(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standard errors over the error's standard deviation, float64 [m]."""
        errors: NDArray[np.float64] = np.sqrt(np.sum(self.scaled(functions) ** 2, axis=1))
        return errors

    def tested(self, block: slice) -> tuple[int, float]:
        """Return degrees of freedom and sum of squares of all that is estimable of a block alone.

        That is the residual sum of squares without these columns less the one with them.
        """
        own = self.basis[block]
        lengths, directions = np.linalg.eigh(own @ own.T)
        inside = directions[:, lengths > 1 - TOLERANCE]
        if not inside.shape[1]:
            return 0, 0.0
        functions = np.zeros((inside.shape[1], len(self.basis)))
        functions[:, block] = inside.T
        # the normal equations of the hypothesis, by an orthonormal basis of its scaled functions
        directions, _ = np.linalg.qr(self.scaled(functions).T)
        return inside.shape[1], float(np.sum((directions.T @ self.scores) ** 2))

    def shared(self, first: slice, second: slice) -> bool:
        """Return whether two blocks of columns are confounded, at least in part."""
        product = self.basis[first] @ self.basis[second].T
        return bool(np.sum(product**2) > TOLERANCE)


def solve(design: NDArray[np.float64], response: NDArray[np.float64]) -> Solution:
    """Solve least squares of float64 [n, columns] and [n]; n is at least 1."""
    matrix, rotated = design, response
    if len(design) > design.shape[1]:
        left, matrix = np.linalg.qr(design)  # the same solution from a smaller matrix
        rotated = left.T @ response
    directions, singular, right = np.linalg.svd(matrix, full_matrices=False)
    rank = int((singular > singular[0] * max(design.shape) * np.finfo(np.float64).eps).sum())
    basis = right[:rank].T
    scores = directions[:, :rank].T @ rotated
    hat = (design @ basis) / singular[:rank]  # orthonormal columns
    residuals = response - hat @ scores
    scale = float(np.abs(response).max())
    if not scale or float(np.abs(residuals).max()) <= GRAINS * grain_of(scale):
        residuals = np.zeros_like(residuals)
    leverage = np.minimum(np.sum(hat**2, axis=1), 1.0)
    return Solution(basis, singular[:rank], scores, residuals, leverage)
