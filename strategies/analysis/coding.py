"""Orthonormal contrasts of levels, and the design matrix they make.

Every parameter is coded by contrasts that sum to zero over its levels: polynomials in level steps
(linear, quadratic, ...) for an ordinal one, Helmert contrasts (a level against the mean of those
before it) for a nominal one. A pair is coded by the products of its parameters' contrasts. With
such a coding the effects of a parameter are about the unweighted means over the levels of the
others, whatever the numbers of runs, and leaving a term out is the type III test of it.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 3.5.4-3.5.5
(orthogonal contrasts) and 15.2 (unbalanced data); Searle, Linear Models, chapter 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from strategies.errors import AnalysisError
from strategies.parameter import Parameter, show
from strategies.space import ParameterSpace

Term: TypeAlias = tuple[int, ...]
"""Positions of the parameters of a term: one of a main effect, two of an interaction."""

MOST_COLUMNS = 600
"""Columns of a design matrix; beyond it least squares take minutes and megabytes."""

_DEGREES = ("linear", "quadratic", "cubic")


@dataclass(frozen=True, eq=False)
class Coding:
    """How configurations become rows of a design matrix.

    Args:
        space: the space.
        level_ids: per parameter, the levels that are coded, by rank; at least one each.
        terms: the main effect of every parameter, then pairs.

    Not slotted: contrasts are made on first use. Raises `AnalysisError` beyond `MOST_COLUMNS`.
    """

    space: ParameterSpace
    level_ids: tuple[tuple[int, ...], ...]
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if self.n_columns > MOST_COLUMNS:
            raise AnalysisError(
                f"the model would have {self.n_columns:,} columns, one for each contrast of levels "
                f"and of pairs; at most {MOST_COLUMNS} are fitted, so ask for fewer pairs or close "
                "levels."
            )

    @classmethod
    def of(
        cls,
        space: ParameterSpace,
        level_ids: Sequence[Sequence[int]],
        pairs: Sequence[tuple[int, int]] = (),
    ) -> Coding:
        """Code these levels of every parameter, and pairs of parameters by position."""
        ordered = tuple(
            tuple(sorted(set(ids), key=parameter.ranks.__getitem__))
            for parameter, ids in zip(space.parameters, level_ids, strict=True)
        )
        mains = tuple((position,) for position in range(len(space.parameters)))
        return cls(space, ordered, (*mains, *pairs))

    def width(self, term: Term) -> int:
        """Return the number of columns of a term, its degrees of freedom."""
        return math.prod(len(self.level_ids[position]) - 1 for position in term)

    @property
    def n_columns(self) -> int:
        """Columns of the design matrix, the constant included."""
        return 1 + sum(self.width(term) for term in self.terms)

    @cached_property
    def blocks(self) -> dict[Term, slice]:
        """The columns of every term; column 0 is the constant."""
        blocks, start = {}, 1
        for term in self.terms:
            blocks[term] = slice(start, start + self.width(term))
            start = blocks[term].stop
        return blocks

    @cached_property
    def contrasts(self) -> tuple[NDArray[np.float64], ...]:
        """Per parameter float64 [levels, levels - 1]: orthonormal columns that sum to zero."""
        return tuple(
            _contrasts(parameter, len(ids))
            for parameter, ids in zip(self.space.parameters, self.level_ids, strict=True)
        )

    def places(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return where level ids stand among the coded levels of a parameter."""
        place = {level_id: i for i, level_id in enumerate(self.level_ids[position])}
        return np.array([place[level_id] for level_id in ids.tolist()], dtype=np.intp)

    def design(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return float64 [n, columns] of level ids int64 [n, parameters], all of them coded."""
        n = len(ids)
        coded = [self.contrasts[i][self.places(i, ids[:, i])] for i in range(ids.shape[1])]
        matrix = np.empty((n, self.n_columns))
        matrix[:, 0] = 1.0
        for term, block in self.blocks.items():
            matrix[:, block] = coded[term[0]] if len(term) == 1 else _products(coded, term)
        return matrix

    def within(self, term: Term) -> NDArray[np.float64]:
        """Return the values of a term itself, float64 [level combinations, columns].

        Combinations of coded levels, the last parameter of the term moving fastest; the columns
        are those of the whole design, 0 outside the term.
        """
        own: NDArray[np.floating] = self.contrasts[term[0]]
        for position in term[1:]:
            own = np.kron(own, self.contrasts[position])
        rows = np.zeros((len(own), self.n_columns))
        rows[:, self.blocks[term]] = own
        return rows

    def names(self, term: Term) -> tuple[str, ...]:
        """Return the name of every contrast of a term, in the order of its columns."""
        parts = [self._names_of(position) for position in term]
        names = parts[0]
        for part in parts[1:]:
            names = tuple(f"{a} x {b}" for a in names for b in part)
        return names

    def _names_of(self, position: int) -> tuple[str, ...]:
        parameter, ids = self.space.parameters[position], self.level_ids[position]
        if len(ids) <= 2:
            return (parameter.name,) * (len(ids) - 1)
        if parameter.kind == "ordinal":
            degrees = [*_DEGREES, *(f"degree {d}" for d in range(4, len(ids)))]
            return tuple(f"{parameter.name} {degree}" for degree in degrees[: len(ids) - 1])
        first = f"{parameter.name} {show(parameter.levels[ids[1]])} against"
        second = show(parameter.levels[ids[0]])
        later = (f"{parameter.name} {show(parameter.levels[i])} against before" for i in ids[2:])
        return (f"{first} {second}", *later)


def _products(coded: Sequence[NDArray[np.float64]], term: Term) -> NDArray[np.float64]:
    first, second = (coded[position] for position in term)
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def _contrasts(parameter: Parameter, n: int) -> NDArray[np.float64]:
    return polynomials(n) if parameter.kind == "ordinal" else helmert(n)


def polynomials(n: int) -> NDArray[np.float64]:
    """Return the orthonormal polynomials on n equal steps, float64 [n, n - 1], degree 1 first.

    Each is the one before times the step, made orthogonal to all before (twice, against rounding),
    which stays exact where powers of the step would not.

    >>> (polynomials(3) * [2**0.5, 6**0.5]).round(6).tolist()
    [[-1.0, 1.0], [0.0, -2.0], [1.0, 1.0]]
    """
    steps = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
    found = np.zeros((n, n))
    found[:, 0] = 1 / math.sqrt(n)
    for degree in range(1, n):
        before = found[:, :degree]
        column = steps * found[:, degree - 1]
        for _ in range(2):
            column = column - before @ (before.T @ column)
        found[:, degree] = column / np.linalg.norm(column)
    return found[:, 1:]


def helmert(n: int) -> NDArray[np.float64]:
    """Return Helmert contrasts, float64 [n, n - 1]: a level less the mean of those before it.

    >>> (helmert(3) * [2**0.5, 6**0.5]).round(6).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [0.0, 2.0]]
    """
    found = np.zeros((n, n - 1))
    for j in range(1, n):
        found[:j, j - 1] = -1.0
        found[j, j - 1] = j
    return found / np.sqrt(np.arange(1.0, n) * np.arange(2.0, n + 1))
