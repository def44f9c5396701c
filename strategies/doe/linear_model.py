"""Least squares for main effects on unbalanced data, design matrices and Lenth's margins.

The additive model: response = a constant + one effect per level + noise. Where levels were not
tried equally often together, plain level means mix the effects of the parameters; least squares
separates them as far as the data can.

Effects sum to zero over the comparable levels of a parameter (sum-to-zero coding). A comparison
of two levels is estimable if it lies in the row space of the design; that is an equivalence
between levels. The greatest class of a parameter gets effects (the one with the most runs among
equals), every other level is unknown.

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., sections 6.5, 10.3, 10.7
(leverage) and 15.2; Searle, Linear Models, chapter 5 (estimable functions); Lenth 1989, Quick and
easy analysis of unreplicated factorials, Technometrics 31; Daniel 1959, Use of half-normal plots
in interpreting factorial two-level experiments, Technometrics 1; Kramer 1956, Extension of multiple
range tests to group means with unequal numbers of replications, Biometrics 12.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

from strategies.blas_threads import single_blas_thread
from strategies.data.observation import Observation, responses
from strategies.doe.factorial_block import Effects
from strategies.space.errors import AnalysisError
from strategies.space.parameter import Parameter, show
from strategies.space.parameter_space import ParameterSpace

TOLERANCE = 1e-8  # Squared length of a contrast of two levels (2) that may be outside the row space


def least_squares_effects(space: ParameterSpace, observations: Sequence[Observation]) -> Effects:
    """Estimate main effects by least squares, with None for effects that are not estimable.

    The responses of all observations are fitted (see `responses`), replicates too. A parameter with
    one level in all has effect 0 once it has a run.
    Raises `SpaceError` if an observation is not of this space.
    """
    for observation in observations:
        space.index(observation.configuration)
    if not observations:
        return tuple((None,) * p.n_levels for p in space.parameters)
    response = responses(observations)
    ids = np.array([o.configuration.level_ids for o in observations], dtype=np.int64)
    levels_by_parameter = [np.unique(ids[:, i], return_inverse=True) for i in range(ids.shape[1])]
    active = ~space.inactive_in(ids).T
    design = np.concatenate(
        [
            np.ones((len(ids), 1)),
            *(
                (np.eye(len(levels))[inverse] - 1 / len(levels)) * matters[:, None]
                if parameter.when
                else np.eye(len(levels))[inverse]
                for parameter, (levels, inverse), matters in zip(
                    space.parameters, levels_by_parameter, active, strict=True
                )
            ),
        ],
        axis=1,
    )
    fitted, basis = _solved(design, response - response[0])
    effects = []
    start = 1
    for parameter, (levels, inverse) in zip(space.parameters, levels_by_parameter, strict=True):
        columns = slice(start, start + len(levels))
        start = columns.stop
        level_effects: list[float | None] = [None] * parameter.n_levels
        estimable = comparable(basis[columns], np.bincount(inverse))
        if parameter.n_levels == 1:
            level_effects = [0.0]
        elif len(estimable) > 1:
            values = fitted[columns][estimable]
            for level_id, value in zip(levels[estimable], values - values.mean(), strict=True):
                level_effects[int(level_id)] = float(value)
        effects.append(tuple(level_effects))
    return tuple(effects)


@single_blas_thread
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
    """Return the positions of the largest set of levels whose mutual differences are estimable.

    The contrast of two levels is estimable if its projection on the row space is as long as
    itself. Of equal classes the one with more runs is taken, then the earlier one.

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


def rounded_to_grain(
    values: NDArray[np.float64], relative: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Round effects to the numerical resolution of the responses, so equal effects stay equal."""
    scale = float(np.abs(relative).max(initial=0.0))
    if scale == 0:
        return values
    grain = grain_of(scale)
    rounded: NDArray[np.float64] = np.round(values / grain) * grain
    return rounded


def grain_of(scale: float) -> float:
    """Return the smallest difference that least squares resolves between values near ``scale``."""
    return math.ldexp(1.0, max(math.frexp(scale)[1] - 44, -1000))


GRAINS = 16  # Greatest residuals, in grains of the response, that count as rounding, not noise


@dataclass(frozen=True, eq=False)
class Solution:
    """Minimum-norm solution of a least squares problem, with residuals."""

    # float64 [columns, rank], orthonormal columns that span the row space
    basis: NDArray[np.float64]
    singular: NDArray[np.float64]  # float64 [rank], singular values
    # float64 [rank], the response in the directions of the singular vectors
    scores: NDArray[np.float64]
    residuals: NDArray[np.float64]  # float64 [n], exactly 0 where the fit is exact up to rounding

    @property
    def rank(self) -> int:
        """Rank of the design matrix."""
        return len(self.singular)

    @property
    def residual_squares(self) -> float:
        """Sum of squared residuals."""
        return float(self.residuals @ self.residuals)

    def estimable(self, functions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which linear functions, float64 [m, columns], are estimable: bool [m]."""
        outside = functions - (functions @ self.basis) @ self.basis.T
        lengths = np.sum(functions**2, axis=1)
        inside: NDArray[np.bool_] = np.sum(outside**2, axis=1) <= TOLERANCE * lengths
        return inside

    def estimates(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the estimates [m] of linear functions [m, columns] of the coefficients."""
        values: NDArray[np.float64] = (functions @ self.basis) @ (self.scores / self.singular)
        return values

    def scaled(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return F [m, rank]: the covariance of the estimates is F F^T times the error variance."""
        scaled: NDArray[np.float64] = (functions @ self.basis) / self.singular
        return scaled

    def errors(self, functions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return standard errors [m] of linear functions, divided by the error's sigma."""
        errors: NDArray[np.float64] = np.sqrt(np.sum(self.scaled(functions) ** 2, axis=1))
        return errors

    @single_blas_thread
    def tested(self, block: slice) -> tuple[int, float]:
        """Return degrees of freedom and sum of squares to test the estimable part of some columns.

        The sum is the residual sum of squares without these columns less the one with them.
        """
        block_basis = self.basis[block]
        lengths, directions = np.linalg.eigh(block_basis @ block_basis.T)
        inside = directions[:, lengths > 1 - TOLERANCE]
        if not inside.shape[1]:
            return 0, 0.0
        functions = np.zeros((inside.shape[1], len(self.basis)))
        functions[:, block] = inside.T
        # the normal equations of the hypothesis, by an orthonormal basis of its scaled functions
        directions, _ = np.linalg.qr(self.scaled(functions).T)
        return inside.shape[1], float(np.sum((directions.T @ self.scores) ** 2))

    def leverages(self, design: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the diagonal of the hat matrix of the design [n, columns]: float64 [n]."""
        leverages: NDArray[np.float64] = np.minimum(np.sum(self.scaled(design) ** 2, axis=1), 1.0)
        return leverages

    def shared(self, first: slice, second: slice) -> bool:
        """Return whether two blocks of columns are confounded, at least in part."""
        product = self.basis[first] @ self.basis[second].T
        return bool(np.sum(product**2) > TOLERANCE)


Term: TypeAlias = tuple[int, ...]
"""Positions of the parameters of a term: one for a main effect, two for an interaction."""

CONSTANT: Term = ()

MOST_COLUMNS = 600
"""Most columns of a design matrix; beyond it least squares takes minutes and much memory."""

_DEGREES = ("linear", "quadratic", "cubic")


@dataclass(frozen=True, eq=False)
class Coding:
    """Coding of configurations as rows of a design matrix.

    Not slotted: contrasts are cached on first use. Raises `AnalysisError` beyond `MOST_COLUMNS`.
    """

    space: ParameterSpace  # the space
    level_ids: tuple[tuple[int, ...], ...]  # coded levels per parameter, by rank; at least one each
    terms: tuple[Term, ...]  # main effects of all parameters, then pairs

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
        """Return the coding for given levels per parameter and pairs of parameter positions."""
        ordered = tuple(
            tuple(sorted(set(ids), key=parameter.ranks.__getitem__))
            for parameter, ids in zip(space.parameters, level_ids, strict=True)
        )
        mains = tuple((position,) for position in range(len(space.parameters)))
        return cls(space, ordered, (*mains, *pairs))

    def width(self, term: Term) -> int:
        """Return the number of columns (degrees of freedom) of a term."""
        return math.prod(len(self.level_ids[position]) - 1 for position in term)

    @property
    def n_columns(self) -> int:
        """Number of columns of the design matrix, the constant included."""
        return 1 + sum(self.width(term) for term in self.terms)

    @cached_property
    def blocks(self) -> dict[Term, slice]:
        """Column range of every term in the design matrix, where column 0 is the constant."""
        blocks, start = {}, 1
        for term in self.terms:
            blocks[term] = slice(start, start + self.width(term))
            start = blocks[term].stop
        return blocks

    @cached_property
    def contrasts(self) -> tuple[NDArray[np.float64], ...]:
        """Orthonormal contrasts of each parameter, float64 [levels, levels - 1]."""
        return tuple(
            _contrasts(parameter, len(ids))
            for parameter, ids in zip(self.space.parameters, self.level_ids, strict=True)
        )

    def places(self, position: int, ids: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the positions of level ids among the coded levels of a parameter."""
        coded = self.level_ids[position]
        place = np.full(self.space.parameters[position].n_levels, len(coded), dtype=np.intp)
        place[list(coded)] = np.arange(len(coded))
        found: NDArray[np.intp] = place[ids]  # past the end, an IndexError, for one not coded
        return found

    def design(
        self, ids: NDArray[np.int64], terms: Sequence[Term] | None = None
    ) -> NDArray[np.float64]:
        """Return the design float64 [n, columns] of coded level ids int64 [n, parameters].

        With ``terms`` the columns of these only, in their order.
        """
        chosen = (CONSTANT, *self.terms) if terms is None else terms
        inactive = self.space.inactive_in(ids)
        coded = {}
        for i in {i for term in chosen for i in term}:
            coded[i] = self.contrasts[i][self.places(i, ids[:, i])]
            coded[i][inactive[:, i]] = 0.0  # a nested factor: levels differ within the active runs
        parts = [_columns(coded, term, len(ids)) for term in chosen]
        return np.concatenate(parts, axis=1) if parts else np.empty((len(ids), 0))

    def order(self, terms: Sequence[Term]) -> NDArray[np.intp]:
        """Return where the columns of `design` with these terms lie in the whole design."""
        blocks = [self.blocks.get(term, slice(0, 1)) for term in terms]
        return np.concatenate([np.arange(block.start, block.stop) for block in blocks])

    def within(self, term: Term) -> NDArray[np.float64]:
        """Return design rows of a term's level combinations, 0 outside the term's columns.

        Combinations of coded levels, the last parameter of the term moving fastest; the columns
        are those of the whole design, 0 outside the term.
        """
        columns: NDArray[np.floating] = self.contrasts[term[0]]
        for position in term[1:]:
            columns = np.kron(columns, self.contrasts[position])
        rows = np.zeros((len(columns), self.n_columns))
        rows[:, self.blocks[term]] = columns
        return rows

    def names(self, term: Term) -> tuple[str, ...]:
        """Return the names of a term's contrasts, in the order of the columns."""
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


def _columns(coded: Mapping[int, NDArray[np.float64]], term: Term, n: int) -> NDArray[np.float64]:
    """Return the columns of a term in a design of n rows: products of those of its parameters."""
    columns = np.ones((n, 1))
    for position in term:
        columns = (columns[:, :, None] * coded[position][:, None, :]).reshape(n, -1)
    return columns


@single_blas_thread
def solve(coding: Coding, ids: NDArray[np.int64], response: NDArray[np.float64]) -> Solution:
    """Solve the least squares problem of coded level ids [n, parameters] and responses [n].

    Runs with the same levels of the widest term share its columns, those of its main effects and
    the constant. An orthogonal transformation makes one row of them, their mean times the root of
    their number; only the other columns, less these means, are left to factorise.
    Reference: Lovell 1963, Seasonal adjustment of economic time series, JASA 58 (the theorem of
    Frisch and Waugh).
    """
    widest = max(coding.terms, key=coding.width)
    every = (CONSTANT, *coding.terms)
    shared = [term for term in every if set(term) <= set(widest)]
    others = [term for term in every if not set(term) <= set(widest)]
    first, cell, counts = _cells(coding.space, ids, widest)
    of_cells, of_runs = coding.design(ids[first], shared), coding.design(ids, others)
    both = np.column_stack((of_runs, response))
    starts = np.cumsum(counts) - counts
    means = np.add.reduceat(both[np.argsort(cell, kind="stable")], starts) / counts[:, None]
    within = (both - means[cell])[counts[cell] > 1]
    triangle = np.linalg.qr(within, mode="r")[: of_runs.shape[1]]
    roots = np.sqrt(counts)[:, None]
    no_cell = np.zeros((len(triangle), of_cells.shape[1]))
    rotated = np.block([[roots * of_cells, roots * means], [no_cell, triangle]])
    directions, singular, right = np.linalg.svd(rotated[:, :-1], full_matrices=False)
    size = max(len(ids), coding.n_columns)
    rank = int((singular > singular[0] * size * np.finfo(np.float64).eps).sum())
    scores = directions[:, :rank].T @ rotated[:, -1]
    coefficients = right[:rank].T @ (scores / singular[:rank])
    between, inner = np.split(coefficients, [of_cells.shape[1]])
    residuals = response - (of_cells @ between)[cell] - of_runs @ inner
    scale = float(np.abs(response).max())
    if not scale or float(np.abs(residuals).max()) <= GRAINS * grain_of(scale):
        residuals = np.zeros_like(residuals)
    basis = np.empty((coding.n_columns, rank))
    basis[coding.order([*shared, *others])] = right[:rank].T
    return Solution(basis, singular[:rank], scores, residuals)


def _cells(
    space: ParameterSpace, ids: NDArray[np.int64], term: Term
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the first run of each combination of a term's levels, each run's, and their runs."""
    n_levels = [space.parameters[position].n_levels + 1 for position in term]  # one for inactive
    codes = np.ravel_multi_index(tuple(space.marked_ids(ids)[:, term].T), n_levels)
    _, first, cell, counts = np.unique(
        codes, return_index=True, return_inverse=True, return_counts=True
    )
    return first, cell, counts


def _contrasts(parameter: Parameter, n: int) -> NDArray[np.float64]:
    return polynomials(n) if parameter.kind == "ordinal" else helmert(n)


@lru_cache(maxsize=16)
def polynomials(n: int) -> NDArray[np.float64]:
    """Return the orthonormal polynomials on n equal steps, float64 [n, n - 1], degree 1 first.

    Each is the previous one times the step, orthogonalised twice against all before, which stays
    exact where powers of the step would not.

    >>> (polynomials(3) * [2**0.5, 6**0.5]).round(6).tolist()
    [[-1.0, 1.0], [0.0, -2.0], [1.0, 1.0]]
    """
    steps = np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1)
    basis = np.zeros((n, n))
    basis[:, 0] = 1 / math.sqrt(n)
    for degree in range(1, n):
        before = basis[:, :degree]
        column = steps * basis[:, degree - 1]
        for _ in range(2):
            column = column - before @ (before.T @ column)
        basis[:, degree] = column / np.linalg.norm(column)
    basis.flags.writeable = False  # shared by all who ask for it
    return basis[:, 1:]


@lru_cache(maxsize=16)
def helmert(n: int) -> NDArray[np.float64]:
    """Return Helmert contrasts, float64 [n, n - 1]: a level less the mean of those before it.

    >>> (helmert(3) * [2**0.5, 6**0.5]).round(6).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [0.0, 2.0]]
    """
    contrasts = np.zeros((n, n - 1))
    for j in range(1, n):
        contrasts[:j, j - 1] = -1.0
        contrasts[j, j - 1] = j
    contrasts /= np.sqrt(np.arange(1.0, n) * np.arange(2.0, n + 1))
    contrasts.flags.writeable = False  # shared by all who ask for it
    return contrasts


LEAST_CONTRASTS = 3  # Fewest contrasts; with fewer, Lenth's t has less than one degree of freedom


@dataclass(frozen=True, slots=True)
class Contrast:
    """Contrast with one degree of freedom: its effect on a common scale and its sum of squares."""

    name: str  # such as ``procs linear x order``
    parameters: tuple[str, ...]  # names of the term's parameters
    # 2 sqrt(sum of squares / runs), with the sign of the coefficient. For a parameter of two
    # levels in a balanced design that is the difference of its level means
    effect: float
    sum_squares: float  # residual sum of squares that leaving this contrast out adds


@dataclass(frozen=True, slots=True)
class Margins:
    """Lenth's pseudo standard error and margins, in the unit of the effects."""

    pse: float | None  # pseudo standard error; all three are None with ``reason``
    margin: float | None  # size from which on a single effect is significant (95 %)
    simultaneous: float | None  # size from which on an effect is significant among all (95 %)
    reason: str | None = None  # explanation of missing margins, None if there are some


@dataclass(frozen=True, slots=True)
class HalfNormalPoint:
    """Contrast as a point of a half-normal plot."""

    name: str
    size: float
    quantile: float


def lenth_margins(effects: Sequence[float]) -> Margins:
    """Return Lenth's margins of m effects of equal variance.

    s0 = 1.5 median |c|; PSE = 1.5 median of the |c| below 2.5 s0; margin = t(0.975, m/3) PSE;
    simultaneous margin = t((1 + 0.95^(1/m)) / 2, m/3) PSE.

    >>> margins = lenth_margins([1.0, -1.0, 2.0, 30.0])
    >>> margins.pse, round(margins.margin, 2)
    (1.5, 10.79)
    """
    sizes = np.abs(np.array(effects, dtype=np.float64))
    m = len(sizes)
    if m < LEAST_CONTRASTS:
        return Margins(
            None, None, None,
            f"Lenth's margins need {LEAST_CONTRASTS} or more estimable contrasts; there "
            f"{'is' if m == 1 else 'are'} {m}.",
        )  # fmt: skip
    s0 = 1.5 * float(np.median(sizes))
    small = sizes[sizes < 2.5 * s0]
    pse = 1.5 * float(np.median(small)) if small.size else 0.0
    if pse == 0:
        return Margins(
            None, None, None,
            "Most contrasts are exactly 0, so there is no noise for Lenth's margins to measure.",
        )  # fmt: skip
    half, all_at_once = (0.975, (1 + 0.95 ** (1 / m)) / 2)
    return Margins(pse, pse * float(stdtrit(m / 3, half)), pse * float(stdtrit(m / 3, all_at_once)))


def half_normal(contrasts: Sequence[Contrast]) -> tuple[HalfNormalPoint, ...]:
    """Return the points of a half-normal plot, the smallest first.

    The i-th of m lies at the standard normal quantile of 0.5 + 0.5 (i - 0.5) / m.
    """
    ordered = sorted(contrasts, key=lambda contrast: abs(contrast.effect))
    m = len(ordered)
    return tuple(
        HalfNormalPoint(c.name, abs(c.effect), float(ndtri(0.5 + 0.5 * (i - 0.5) / m)))
        for i, c in enumerate(ordered, 1)
    )


@lru_cache(maxsize=1024)
def studentised_range(p: float, n_means: int, df: int) -> float:
    """Return a quantile of the studentised range distribution, to about four digits.

    The range of ``n_means`` independent standard normals is divided by an independent estimate of
    their standard deviation with ``df`` degrees of freedom. Written out, because importing
    `scipy.stats` takes a quarter of a second.
    Reference: Tukey 1953; Lund & Lund 1983, Algorithm AS 190, Applied Statistics 32.

    >>> round(studentised_range(0.95, 3, 10), 2), round(studentised_range(0.95, 2, 10), 2)
    (3.88, 3.15)
    """
    nodes, weights = np.polynomial.legendre.leggauss(128)
    z = 8 * nodes
    density = 8 * weights * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    scale = np.sqrt(2 * gammaincinv(df / 2, (nodes + 1) / 2) / df)  # sd estimates, by probability
    below = ndtr(z)

    def probability(q: float) -> float:
        inside = below - ndtr(z - q * scale[:, None])
        within = n_means * (inside ** (n_means - 1)) @ density
        return float(within @ weights / 2)

    low, high = 0.0, 8.0
    while probability(high) < p:
        low, high = high, 2 * high
    while high - low > 1e-6 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if probability(middle) < p else (low, middle)
    return high
