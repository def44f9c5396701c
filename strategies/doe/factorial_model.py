"""Analysis of a factorial experiment: main effects, interactions, lack of fit and PRESS.

The linear model response = constant + main effects + chosen interactions + noise is fitted by
least squares, balanced or not. Each term is tested by the residual sum of squares that leaving it
out adds (type III, see `strategies.doe.linear_model`). Effects of levels are relative to the mean
of the comparable levels; an undetermined effect is None and has a reason, never 0.

The error is the residual mean square. With replicates it pools pure error with lack of fit. Where
lack of fit is not significant, both estimate the noise. Where it is, the pooled error is larger
than pure error, which would leave out that interactions move effects on unbalanced data. So no
preliminary test chooses the error, which would bias it (Bozivich, Bancroft & Hartley 1956).

Reference: Montgomery, Design and Analysis of Experiments, 8th ed., chapters 5, 10 and 15.2,
sections 3.5.7 (Tukey), 10.7 (PRESS) and 10.8 (lack of fit); Allen 1974, The relationship between
variable selection and data augmentation and a method for prediction, Technometrics 16; Bozivich,
Bancroft & Hartley 1956, Power of analysis of variance test procedures for certain incompletely
specified models, Annals of Mathematical Statistics 27; Hayter 1984, A proof of the conjecture that
the Tukey-Kramer multiple comparisons procedure is conservative, Annals of Statistics 12.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc, stdtrit

from strategies.data.observation import Observation, responses
from strategies.doe.linear_model import (
    Coding,
    Contrast,
    Solution,
    Term,
    comparable,
    rounded_to_grain,
    solve,
    studentised_range,
)
from strategies.space.errors import AnalysisError
from strategies.space.parameter_space import ParameterSpace

CONFIDENCE = 0.95
SIGNIFICANT = 0.05  # Greatest p-value at which lack of fit is called significant
MOST_NAMED = 3  # Greatest number of terms and pairs that a reason names; the rest is counted

ErrorSource = Literal["pure error", "residual", "pooled"]


@dataclass(frozen=True, slots=True)
class ErrorEstimate:
    """Estimated error variance of a single run, with its degrees of freedom."""

    # replicates alone, residuals alone, or both pooled; None if there are neither
    source: ErrorSource | None
    df: int  # degrees of freedom, 0 without an estimate
    mean_square: float | None  # the variance, None without an estimate
    reason: str  # explanation of the source, or of its absence, for people
    pure_df: int = 0  # degrees of freedom from replicates that differ
    lack_df: int = 0  # degrees of freedom from lack of fit


@dataclass(frozen=True, slots=True)
class TermTest:
    """Partial F test of a main effect or an interaction."""

    parameters: tuple[str, ...]  # one name, or two
    df: int  # degrees of freedom that the runs determine, 0 if none
    full_df: int  # degrees of freedom of the term with all levels that have runs
    # residual sum of squares that leaving the term out adds; None at df 0
    sum_squares: float | None
    f: float | None  # mean square over that of the error, None without an error above 0
    p: float | None  # probability of so great an F by chance
    reason: str | None  # explanation where df is below full_df or F is None
    # closed levels, such as ``mode=z``, that all its missing combinations hold: no allowed run
    # can help until they are reopened. Empty if others are missing too
    needs_closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LevelContrast:
    """Effect of a level, or of a combination of levels of two parameters, on the response."""

    level_ids: tuple[int, ...]  # one level id, or two
    count: int  # runs with it
    effect: float | None = None  # change against the mean of the comparable ones; None if unknown
    # standard error of the effect, None without an estimate of the error
    standard_error: float | None = None
    # 95 % t interval of the effect, None where the standard error is
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LevelRange:
    """Range of a main effect: the largest estimated level effect less the smallest one.

    The interval is that of Tukey and Kramer. All differences of two levels lie in their
    simultaneous intervals in 95 % of cases or more, and so does the largest: its ends are the
    largest lower end, at least 0, and the largest upper end. The largest of several estimates is
    biased upwards, which this allows for. For two levels it is the t interval.
    """

    parameter: str
    level_ids: tuple[int, ...]  # levels that can be compared; fewer than two without a range
    count: int  # runs with these levels
    value: float | None = None  # in the unit of the response; None if unknown
    # 95 % interval of the true range of these levels, None without an estimate of the error
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class FactorialModel:
    """Linear model of main effects and two-parameter interactions, fitted to runs.

    Not slotted, because results are cached on first use.
    """

    coding: Coding  # levels that have runs, terms and their columns
    ids: NDArray[np.int64]  # int64 [n, parameters], level ids of the runs
    relative: NDArray[np.float64]  # float64 [n], responses less the first
    solution: Solution | None  # the fit; None without any run
    # degrees of freedom and sum of squares of replicates about their means
    pure_error: tuple[int, float]

    @classmethod
    def fit(
        cls,
        space: ParameterSpace,
        observations: Sequence[Observation],
        pairs: Sequence[tuple[str, str]] = (),
    ) -> FactorialModel:
        """Fit main effects and the given pairs' interactions to the observations.

        Raises `SpaceError` if an observation is not of this space, `UnknownParameterError` for a
        name, `AnalysisError` for a pair of a parameter with itself, or for too many columns.
        """
        n = len(observations)
        ids = space.level_ids([o.configuration for o in observations])
        level_ids = [np.unique(ids[:, i]).tolist() if n else [0] for i in range(ids.shape[1])]
        coding = Coding.of(space, level_ids, _positions(space, pairs))
        response = responses(observations)
        relative = response - response[0] if n else response
        solution = solve(coding, ids, relative) if n else None
        return cls(coding, ids, relative, solution, _pure_error(ids, relative))

    def with_pairs(self, pairs: Sequence[tuple[str, str]]) -> FactorialModel:
        """Return the model of all main effects and other interactions, of the same runs.

        Raises `UnknownParameterError` for a name, `AnalysisError` for a pair of a parameter with
        itself, or for too many columns.
        """
        coding = Coding.of(self.space, self.coding.level_ids, _positions(self.space, pairs))
        solution = solve(coding, self.ids, self.relative) if self.n else None
        return FactorialModel(coding, self.ids, self.relative, solution, self.pure_error)

    @property
    def space(self) -> ParameterSpace:
        """Space that the model was fitted on."""
        return self.coding.space

    @property
    def n(self) -> int:
        """Number of runs to which the model was fitted."""
        return len(self.ids)

    @property
    def residual_df(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.n - self.solution.rank if self.solution else 0

    @cached_property
    def error(self) -> ErrorEstimate:
        """Estimate of the error that tests and intervals use."""
        if self.solution is None:
            return ErrorEstimate(None, 0, None, "There is no run yet.")
        if not self.residual_df:
            return ErrorEstimate(
                None, 0, None,
                f"The error is unknown: {_n(self.n, 'run')} and as many effects; add runs or ask "
                "for fewer interactions.",
            )  # fmt: skip
        df, squares = self.residual_df, self.solution.residual_squares
        fit = lack_of_fit(self)
        source, pure_df, text = self._error_source(fit)
        return ErrorEstimate(source, df, squares / df, text, pure_df, df - pure_df)

    def _error_source(self, fit: LackOfFit) -> tuple[ErrorSource, int, str]:
        """Return the source of the error, the degrees of freedom of replicates, and a sentence."""
        df = _df(self.residual_df)
        if not fit.pure_squares:
            agree = "; replicates agree exactly, so the measure itself has no noise"
            text = f"The error is the residual of the model ({df}){agree if fit.pure_df else ''}."
            return "residual", 0, text
        if fit.p is None:
            return "pure error", fit.pure_df, f"The error comes from replicates (pure error, {df})."
        text = (
            f"The error pools lack of fit ({_df(fit.df)}) with replicates ({fit.pure_df}): "
            f"{df} in all."
        )
        if fit.p < SIGNIFICANT:
            text += (
                " Lack of fit is significant, so parameters interact. The error holds that too: "
                "intervals are wider than the noise."
            )
        return "pooled", fit.pure_df, text

    @cached_property
    def tests(self) -> tuple[TermTest, ...]:
        """Tests of all terms: main effects in the space's order, then pairs."""
        return tuple(self._test(term) for term in self.coding.terms)

    def test(self, *names: str) -> TermTest:
        """Return the F test of one main effect or interaction by its parameter names."""
        return self._test(self._term(names))

    def levels(self, name: str) -> tuple[LevelContrast, ...]:
        """Return the effect of every level of a parameter, in order of rank; None if unknown."""
        (position,) = self._term((name,))
        parameter = self.space.parameters[position]
        changes = {c.level_ids: c for c in self._changes((position,), self._seen((position,)))}
        ordered = sorted(range(parameter.n_levels), key=parameter.ranks.__getitem__)
        return tuple(changes.get((i,), LevelContrast((i,), 0)) for i in ordered)

    @cached_property
    def ranges(self) -> tuple[LevelRange, ...]:
        """Ranges of all main effects, the largest first; unknown ones last, in space order."""
        ranges = [self._range(position) for position in range(len(self.space.parameters))]
        return tuple(sorted(ranges, key=lambda r: (r.value is None, -(r.value or 0.0))))

    def _range(self, position: int) -> LevelRange:
        parameter = self.space.parameters[position]
        changes = [change for change in self.levels(parameter.name) if change.effect is not None]
        cells = [change.level_ids for change in changes]
        level_ids = tuple(cell[0] for cell in cells)
        n_runs = sum(change.count for change in changes)
        if self.solution is None or len(cells) < 2:
            return LevelRange(parameter.name, level_ids, n_runs)
        effects = np.array([change.effect for change in changes], dtype=np.float64)
        differences = effects[:, None] - effects
        value, error = float(differences.max()), self.error
        if error.mean_square is None:
            return LevelRange(parameter.name, level_ids, n_runs, value)
        scaled = self.solution.scaled(self._rows((position,), cells))
        products = scaled @ scaled.T
        lengths = np.diag(products)
        squares = np.maximum(lengths[:, None] + lengths - 2 * products, 0.0)
        errors = np.sqrt(squares * error.mean_square)
        tukey = studentised_range(CONFIDENCE, len(cells), error.df) / math.sqrt(2)
        low = max(float((differences - tukey * errors).max()), 0.0)
        high = float((differences + tukey * errors).max())
        return LevelRange(parameter.name, level_ids, n_runs, value, (low, high))

    def combinations(self, first: str, second: str) -> tuple[LevelContrast, ...]:
        """Return the joint effect of each level combination of two parameters that has runs.

        Main effects and interaction together, against the mean of the comparable combinations.
        """
        term = self._term((first, second))
        return self._changes(term, self._seen(term))

    def interactions(self, first: str, second: str) -> tuple[LevelContrast, ...]:
        """Return each level combination's deviation from the sum of its two main effects.

        All combinations of the levels with runs; unknown unless the whole interaction can be
        estimated.
        """
        term = self._term((first, second))
        cells = list(itertools.product(*(self.coding.level_ids[i] for i in term)))
        counts = self._counts(term)
        if self.solution is None or self.test(first, second).df < self.coding.width(term):
            return tuple(LevelContrast(cell, counts[cell]) for cell in cells)
        return self._told(cells, counts, self.coding.within(term))

    @cached_property
    def contrasts(self) -> tuple[Contrast, ...]:
        """Estimable contrasts of one degree of freedom each, with effects on a common scale.

        On unbalanced data contrasts are correlated, and margins that take them as independent
        (Lenth's) are approximate.
        """
        if self.solution is None:
            return ()
        functions = np.eye(self.coding.n_columns)
        estimable = self.solution.estimable(functions)
        values = self.solution.estimates(functions)
        errors = self.solution.errors(functions)
        estimable_contrasts = []
        for term, block in self.coding.blocks.items():
            names = self.coding.names(term)
            parameters = tuple(self.space.names[i] for i in term)
            for column, name in zip(range(block.start, block.stop), names, strict=True):
                if estimable[column]:
                    score = values[column] / errors[column]
                    size = rounded_to_grain(
                        np.array([2 * score / math.sqrt(self.n)]), self.relative
                    )
                    estimable_contrasts.append(
                        Contrast(name, parameters, float(size[0]), float(score**2))
                    )
        return tuple(estimable_contrasts)

    @property
    def unknown_contrasts(self) -> int:
        """Number of contrasts, among levels that have runs, that are not estimable."""
        return self.coding.n_columns - 1 - len(self.contrasts)

    def _term(self, names: Sequence[str]) -> Term:
        positions = tuple(self.space.names.index(self.space.parameter(n).name) for n in names)
        for term in (positions, positions[::-1]):
            if term in self.coding.terms:
                return term
        raise AnalysisError(
            f"the interaction of {' and '.join(names)} is not in the model; fit it with this pair."
        )

    def _test(self, term: Term) -> TermTest:
        names = tuple(self.space.names[i] for i in term)
        full = self.coding.width(term)
        if self.solution is None or not full:
            why = self._reason(term, 0)
            return TermTest(names, 0, full, None, None, None, why, self._needed(term))
        block = self.coding.blocks[term]
        df, squares = self.solution.tested(block)
        reason = self._reason(term, df) if df < full else None
        needed = self._needed(term) if df < full else ()
        if not df:
            return TermTest(names, 0, full, None, None, None, reason, needed)
        error = self.error
        if not error.mean_square:
            why = "the model fits the runs exactly" if error.source else "the error is unknown"
            if not self.relative.any():
                why = "all responses are equal"
            explanation = f"no F: {why}" if reason is None else f"{reason}; no F: {why}"
            return TermTest(names, df, full, squares, None, None, explanation, needed)
        f = squares / df / error.mean_square
        p = float(fdtrc(df, error.df, f))
        return TermTest(names, df, full, squares, f, p, reason, needed)

    def _reason(self, term: Term, df: int) -> str:
        """Explain why a term has fewer degrees of freedom than its levels have."""
        if self.solution is None:
            return "no run yet"
        single = [i for i in term if len(self.coding.level_ids[i]) == 1]
        if single:
            names = " and ".join(self.space.names[i] for i in single)
            return f"{names}: a single level has runs"
        full = self.coding.width(term)
        holes = self._holes(term)
        if holes:
            return f"{df} of {full} df: {_listed(holes)} without a run"
        columns = self.coding.blocks[term]
        aliases = [
            " x ".join(self.space.names[i] for i in other)
            for other, block in self.coding.blocks.items()
            if other != term and block.stop > block.start and self.solution.shared(columns, block)
        ]
        return f"{df} of {full} df: confounded with {_listed(aliases or ['the mean'])}"

    def _holes(self, term: Term) -> list[str]:
        """Describe the empty combinations of the pairs in the model that contain this term."""
        texts = []
        for pair, empty in self._empty(term).items():
            n = math.prod(len(self.coding.level_ids[i]) for i in pair)
            names = " x ".join(self.space.names[i] for i in pair)
            text = f"{len(empty)} of {n} combinations of {names}"
            shut = [closed for cell in empty if (closed := self._closed(pair, cell))]
            if shut:
                levels = _listed(list(dict.fromkeys(itertools.chain(*shut))))
                text += f" ({len(shut)} with closed {levels})"
            texts.append(text)
        return texts

    def _needed(self, term: Term) -> tuple[str, ...]:
        """Return the closed levels that all empty combinations hold; none if any is open."""
        shut = [
            self._closed(pair, cell) for pair, empty in self._empty(term).items() for cell in empty
        ]
        return tuple(dict.fromkeys(itertools.chain(*shut))) if all(shut) else ()

    def _empty(self, term: Term) -> dict[Term, list[tuple[int, ...]]]:
        """Return the combinations without a run of each pair that contains this term."""
        empty_cells: dict[Term, list[tuple[int, ...]]] = {}
        for pair in self.coding.terms:
            if len(pair) == 2 and set(term) <= set(pair):
                counts = self._counts(pair)
                cells = itertools.product(*(self.coding.level_ids[i] for i in pair))
                if empty := [cell for cell in cells if cell not in counts]:
                    empty_cells[pair] = empty
        return empty_cells

    def _closed(self, pair: Term, cell: tuple[int, ...]) -> tuple[str, ...]:
        """Return the closed levels of a combination as text, such as ``mode=z``."""
        levels = [(self.space.parameters[i], k) for i, k in zip(pair, cell, strict=True)]
        closed = self.space.closed
        return tuple(f"{p.name}={p.levels[k]}" for p, k in levels if (p.name, k) in closed)

    def _counts(self, term: Term) -> Counter[tuple[int, ...]]:
        n_levels = [self.space.parameters[position].n_levels for position in term]
        codes = np.ravel_multi_index([self.ids[:, position] for position in term], n_levels)
        cells, counts = np.unique(codes, return_counts=True)
        level_ids = np.transpose(np.unravel_index(cells, n_levels)).tolist()
        return Counter(dict(zip(map(tuple, level_ids), counts.tolist(), strict=True)))

    def _seen(self, term: Term) -> list[tuple[int, ...]]:
        """Return the combinations with runs, by rank."""
        ranks = [self.space.parameters[i].ranks for i in term]
        return sorted(
            self._counts(term), key=lambda c: [r[i] for r, i in zip(ranks, c, strict=True)]
        )

    def _changes(self, term: Term, cells: Sequence[tuple[int, ...]]) -> tuple[LevelContrast, ...]:
        """Return the effects of cells about the mean of their greatest comparable class."""
        counts = self._counts(term)
        if self.solution is None:
            return ()
        if len(self.coding.level_ids[term[0]]) == 1 and len(term) == 1:
            only = self.space.parameters[term[0]].n_levels == 1
            return tuple(LevelContrast(c, counts[c], 0.0 if only else None) for c in cells)
        rows = self._rows(term, cells)
        runs = np.array([counts[cell] for cell in cells], dtype=np.int64)
        class_indices = comparable(rows @ self.solution.basis, runs)
        if len(class_indices) < 2:
            return tuple(LevelContrast(cell, counts[cell]) for cell in cells)
        class_rows = rows[class_indices]
        about_mean = class_rows - class_rows.mean(axis=0)
        estimates = self._told([cells[i] for i in class_indices], counts, about_mean)
        changes = {change.level_ids: change for change in estimates}
        return tuple(changes.get(cell, LevelContrast(cell, counts[cell])) for cell in cells)

    def _rows(self, term: Term, cells: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """Return the model's functions for cells, averaged evenly over all other parameters."""
        rows = np.zeros((len(cells), self.coding.n_columns))
        ids = np.array(cells, dtype=np.int64)
        places = [self.coding.places(position, ids[:, k]) for k, position in enumerate(term)]
        for position, place in zip(term, places, strict=True):
            rows += self.coding.within((position,))[place]
        if len(term) == 2:
            width = len(self.coding.level_ids[term[1]])
            rows += self.coding.within(term)[places[0] * width + places[1]]
        return rows

    def _told(
        self,
        cells: Sequence[tuple[int, ...]],
        counts: Counter[tuple[int, ...]],
        functions: NDArray[np.float64],
    ) -> tuple[LevelContrast, ...]:
        """Return the values of estimable functions, one per cell, with their intervals."""
        assert self.solution is not None  # noqa: S101 - callers have asked
        effects = rounded_to_grain(self.solution.estimates(functions), self.relative).tolist()
        if self.error.mean_square is None:
            return tuple(
                LevelContrast(c, counts[c], e) for c, e in zip(cells, effects, strict=True)
            )
        errors = self.solution.errors(functions) * math.sqrt(self.error.mean_square)
        quantile = t_quantile(self.error.df)
        return tuple(
            LevelContrast(c, counts[c], e, s, (e - quantile * s, e + quantile * s))
            for c, e, s in zip(cells, effects, errors.tolist(), strict=True)
        )


def t_quantile(df: int) -> float:
    """Return the two-sided 95% quantile of Student's t with `df` degrees of freedom."""
    return float(stdtrit(df, 0.5 + CONFIDENCE / 2))


def all_pairs(space: ParameterSpace) -> tuple[tuple[str, str], ...]:
    """Return every pair of parameter names, in the order of the space."""
    return tuple(itertools.combinations(space.names, 2))


def _positions(
    space: ParameterSpace, pairs: Sequence[tuple[str, str]]
) -> tuple[tuple[int, int], ...]:
    pair_positions: dict[tuple[int, int], None] = {}
    for first, second in pairs:
        i, j = (space.names.index(space.parameter(name).name) for name in (first, second))
        if i == j:
            raise AnalysisError(
                f"a pair names {first} twice; an interaction is one of two different parameters."
            )
        pair_positions[(min(i, j), max(i, j))] = None
    return tuple(pair_positions)


def _listed(names: Sequence[str]) -> str:
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"


def _n(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _df(df: int) -> str:
    return f"{df} degree{'' if df == 1 else 's'} of freedom"


ALONE = 1 - 1e-9
"""Leverage from which on one run alone determines an effect, so that others cannot predict it."""


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Result of the F test of lack of fit against pure error."""

    df: int  # degrees of freedom of lack of fit, distinct configurations less effects
    sum_squares: float | None  # sum of squares of lack of fit, None if no test can be made
    pure_df: int  # degrees of freedom of pure error
    pure_squares: float  # sum of squares of pure error
    f: float | None  # ratio of the mean squares, None if no test can be made
    p: float | None  # probability of so great an F if the model were right
    reason: str | None  # explanation of a missing test, None if there is one


@dataclass(frozen=True, slots=True)
class PressStatistic:
    """Prediction error sum of squares (PRESS) by leave-one-out prediction."""

    # 1 - PRESS / sum of squares about the mean, over the runs that the others can predict; below
    # 0 if their mean would predict better. None with ``reason``
    r_squared: float | None
    press: float | None  # sum of squared prediction errors, in the squared unit of the response
    n_predicted: int  # runs that the others can predict
    n_alone: int  # runs that alone determine an effect, such as the only one with a level
    reason: str | None = None  # explanation of a missing value


def _pure_error(ids: NDArray[np.int64], relative: NDArray[np.float64]) -> tuple[int, float]:
    cells, inverse = np.unique(ids, axis=0, return_inverse=True)
    if len(cells) == len(ids):
        return 0, 0.0
    places = inverse.reshape(-1)
    means = np.bincount(places, relative) / np.bincount(places)
    deviations = rounded_to_grain(relative - means[places], relative)
    return len(ids) - len(cells), float(deviations @ deviations)


def lack_of_fit(model: FactorialModel) -> LackOfFit:
    """Test lack of fit of a model against pure error."""
    pure_df, pure_squares = model.pure_error
    df = max(model.residual_df - pure_df, 0)
    reason = None
    if not model.n:
        reason = "There is no run yet."
    elif not pure_df:
        reason = (
            "Lack of fit cannot be tested: no configuration was run twice, so the noise of a run "
            "is unknown; replicates are missing."
        )
    elif not df:
        reason = (
            "Lack of fit cannot be tested: there are as many effects as different configurations."
        )
    elif not pure_squares:
        reason = (
            "Lack of fit needs no test: replicates agree exactly, so the whole residual is "
            "lack of fit."
        )
    squares = model.solution.residual_squares - pure_squares if model.solution else 0.0
    squares = max(squares, 0.0)
    if reason is not None:
        sum_squares = squares if model.n and pure_df else None
        return LackOfFit(df, sum_squares, pure_df, pure_squares, None, None, reason)
    f = squares / df / (pure_squares / pure_df)
    p = float(fdtrc(df, pure_df, f))
    return LackOfFit(df, squares, pure_df, pure_squares, f, p, None)


def press_statistic(model: FactorialModel) -> PressStatistic:
    """Compute PRESS from the leverages, without refitting the model."""
    if model.solution is None:
        return PressStatistic(None, None, 0, 0, "There is no run yet.")
    leverage = model.solution.leverages(model.coding.design(model.ids))
    free = leverage < ALONE
    n = int(free.sum())
    if n < 2:
        return PressStatistic(
            None, None, n, model.n - n,
            "Leave-one-out prediction is unknown: every run alone determines an effect.",
        )  # fmt: skip
    errors = model.solution.residuals[free] / (1 - leverage[free])
    response = model.relative[free]
    press = float(errors @ errors)
    total = float(np.sum((response - response.mean()) ** 2))
    if not total:
        return PressStatistic(
            None, press, n, model.n - n,
            "Leave-one-out R² is unknown: all responses are equal.",
        )  # fmt: skip
    return PressStatistic(1 - press / total, press, n, model.n - n)
