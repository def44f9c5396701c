"""Transfer from earlier sweeps: their predictions as further coordinates of the new sweep's model.

Let u(x) be the prediction of an earlier sweep's model at a configuration x of the new sweep, on the
scale of that model's targets, standardised over the new space. Each earlier sweep adds two parts to
the kernel of `strategies.gp.gaussian_process`,

    v3 * Matern52(|u - u'|) + v4 * u u',

a smooth function of u and a multiple of u, where v3 and v4 are learnt from the new runs with the
other hyperparameters. So its unit, its scale and its noise do not matter, and an earlier sweep that
does not help is shrunk away; it is left out while leaving runs out predicts them better without it.
Before the first result its predictions choose the first runs. The model of failures borrows in the
same way.

References: Perdikaris, Raissi, Damianou, Lawrence & Karniadakis 2017, Nonlinear information fusion
algorithms for data-efficient multi-fidelity modelling, equations 2.11-2.13 (a kernel over another
model's prediction); Kennedy & O'Hagan 2000, Predicting the output from a complex computer code when
fast approximations are available, equation 1 (a multiple of it); Golovin et al. 2017, Google
Vizier, section 3.3; Feurer, Springenberg & Hutter 2015, Initializing Bayesian hyperparameter
optimization via meta-learning (warm start); Bai et al. 2023, Transfer learning for Bayesian
optimization: a survey. ``python -m benchmarks.learning`` measures what it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from strategies.data.earlier_sweep import EarlierSweep
from strategies.doe.main_effects import Knowledge
from strategies.gp.anova_model import AnovaModel
from strategies.gp.gaussian_process import CHUNK, Borrow, Floats, Ints, Posterior, Validity
from strategies.space.parameter_space import ParameterSpace

SAMPLED = 4096  # Configurations of the new space over which predictions are standardised
CONSTANT = 1e-9  # Spread of predictions up to which they are the same everywhere


@dataclass(frozen=True, eq=False)
class MovedPosterior:
    """Posterior of an earlier sweep, predicted at level ids of another space.

    Args:
        posterior: of the earlier sweep.
        columns: parameter of the other space that each axis of the posterior belongs to, None for
            one that the other space does not have.
        correlations: per axis, the correlations of each level there with the earlier runs,
            [levels, n]; one row for a parameter that the other space does not have.
    """

    posterior: Posterior
    columns: tuple[int | None, ...]
    correlations: tuple[Floats, ...]

    @classmethod
    def of(
        cls, model: AnovaModel, posterior: Posterior, sweep: EarlierSweep, space: ParameterSpace
    ) -> MovedPosterior:
        """Return a posterior of an earlier sweep's model for another space.

        Levels and parameters without a match are averaged over.
        """
        columns: list[int | None] = []
        tables = []
        for axis, position in enumerate(model.columns):
            name = model.space.parameters[position].name
            column = space.names.index(name) if name in space.names else None
            matched = None if column is None else sweep.matched(space.parameters[column])
            mean, _ = posterior.mean_correlation(axis, np.arange(model.axes[axis].position.size))
            if matched is None:
                columns.append(None)
                tables.append(mean[None, :])
                continue
            table = posterior.correlation(axis, np.maximum(matched, 0))
            table[matched < 0] = mean
            if space.conditions is not None:
                table = np.concatenate([table, mean[None, :]])  # where it is inactive
            columns.append(column)
            tables.append(table)
        return cls(posterior, tuple(columns), tuple(tables))

    def mean(self, ids: Ints) -> Floats:
        """Return the earlier sweep's prediction [m] at level ids [m, parameters] of the space."""
        h = self.posterior.hyperparameters
        mean = np.empty(len(ids))
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            total = np.zeros((len(part), len(self.posterior.ids)))
            product = np.ones_like(total)
            for column, table in zip(self.columns, self.correlations, strict=True):
                z = table[np.zeros(len(part), np.int64) if column is None else part[:, column]]
                total += z
                product *= z
            total *= h.main / max(len(self.columns), 1)
            product *= h.product
            mean[start : start + CHUNK] = (total + product) @ self.posterior.weights
        return mean


@dataclass(frozen=True, eq=False)
class _Coordinates:
    """Predictions of earlier sweeps, standardised over a space: one coordinate per sweep."""

    posteriors: tuple[MovedPosterior, ...]
    scales: tuple[tuple[float, float], ...]  # mean and standard deviation over the space
    numbers: tuple[int, ...]  # places of the sweeps among those given, from 0

    @classmethod
    def of(cls, posteriors: Sequence[MovedPosterior], space: ParameterSpace) -> _Coordinates:
        """Return the coordinates; sweeps whose predictions are the same everywhere are left out."""
        ids = _spread_ids(space)
        taken, scales, numbers = [], [], []
        for number, moved in enumerate(posteriors):
            mean = moved.mean(ids)
            if float(mean.std()) > CONSTANT:
                taken.append(moved)
                scales.append((float(mean.mean()), float(mean.std())))
                numbers.append(number)
        return cls(tuple(taken), tuple(scales), tuple(numbers))

    def some(self, places: Sequence[int]) -> _Coordinates:
        """Return only the coordinates at these places."""
        return _Coordinates(
            tuple(self.posteriors[i] for i in places),
            tuple(self.scales[i] for i in places),
            tuple(self.numbers[i] for i in places),
        )

    def at(self, ids: Ints) -> Floats:
        """Return the coordinates [m, sweeps] of level ids [m, parameters]."""
        columns = [
            (moved.mean(ids) - mean) / spread
            for moved, (mean, spread) in zip(self.posteriors, self.scales, strict=True)
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(ids), 0))


@dataclass(frozen=True, eq=False)
class Transfer:
    """What a new sweep borrows from earlier sweeps: their predictions in its own space."""

    space: ParameterSpace
    sweeps: tuple[EarlierSweep, ...]

    @cached_property
    def _models(self) -> tuple[tuple[AnovaModel, EarlierSweep], ...]:
        return tuple(
            (AnovaModel(sweep.space, sweep.observations, sweep.failures), sweep)
            for sweep in self.sweeps
        )

    @cached_property
    def responses(self) -> _Coordinates:
        """Coordinates from the predicted responses."""
        moved = [
            MovedPosterior.of(model, model.posterior, sweep, self.space)
            for model, sweep in self._models
        ]
        return _Coordinates.of(moved, self.space)

    @cached_property
    def validities(self) -> _Coordinates:
        """Coordinates from the predicted success of runs, of the sweeps in which some failed."""
        return _Coordinates.of([moved for _, moved in self._validities], self.space)

    @cached_property
    def _validities(self) -> list[tuple[Validity, MovedPosterior]]:
        return [
            (v, MovedPosterior.of(model, v.posterior, sweep, self.space))
            for model, sweep in self._models
            if (v := model.validity) is not None
        ]

    def promise(self, ids: Ints) -> Floats:
        """Return how good the earlier sweeps make level ids [m, parameters] look, [m].

        The mean of their standardised predictions, plus the logarithm of each chance of success.
        """
        promise: Floats = self.responses.at(ids).sum(axis=1) / max(len(self.sweeps), 1)
        for validity, moved in self._validities:
            chance = validity.chance_of(moved.mean(ids), np.zeros(len(ids)))
            promise = promise + np.log(chance)
        return promise


@lru_cache(maxsize=16)
def transfer_of(space: ParameterSpace, sweeps: tuple[EarlierSweep, ...]) -> Transfer:
    """Return what sweeps lend to a space, fitted once while both stay the same."""
    return Transfer(space, sweeps)


def informed_model(knowledge: Knowledge) -> AnovaModel | None:
    """Return the model of an experiment with what it borrows; None before its first result.

    An earlier sweep counts while leaving runs out predicts the others better with it than without,
    for responses and for failures apart.
    """
    alone = AnovaModel.of(knowledge)
    if alone is None or not knowledge.earlier:
        return alone
    responses, validities = helping_sweeps(knowledge, alone)
    return _model(knowledge, responses, validities) if responses or validities else alone


def helping_sweeps(
    knowledge: Knowledge, alone: AnovaModel
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of the coordinates that help, of responses and of failures.

    ``alone`` is the model without them. Each is judged by itself.
    """
    transfer = transfer_of(knowledge.space, knowledge.earlier)
    responses, validities = [], []
    for number in range(len(transfer.responses.posteriors)):
        model = _model(knowledge, (number,), ())
        if model.posterior.left_out_density > alone.posterior.left_out_density:
            responses.append(number)
    for number in range(len(transfer.validities.posteriors)):
        with_it, without = _model(knowledge, (), (number,)).validity, alone.validity
        if with_it is None or without is None:
            break
        if with_it.posterior.left_out_density > without.posterior.left_out_density:
            validities.append(number)
    return tuple(responses), tuple(validities)


def _model(
    knowledge: Knowledge, responses: tuple[int, ...], validities: tuple[int, ...]
) -> AnovaModel:
    """Return the model that borrows the coordinates with these numbers."""
    transfer = transfer_of(knowledge.space, knowledge.earlier)
    return AnovaModel(
        knowledge.space,
        knowledge.observations,
        [failure.configuration for failure in knowledge.failures],
        borrow=_borrow(transfer.responses.some(responses), knowledge.space),
        borrow_validity=_borrow(transfer.validities.some(validities), knowledge.space),
    )


def borrowed_shares(knowledge: Knowledge) -> tuple[float, ...] | None:
    """Return the share of each earlier sweep in the prior variance of responses, 0 to 1.

    Their sum is what the model borrows; the rest it learns from the runs of its own sweep. A
    coordinate counts with its variance over the space, 1. None before the first result.
    """
    model = informed_model(knowledge)
    if model is None:
        return None
    h = model.hyperparameters
    parts = [smooth + linear for smooth, linear in h.borrowed]
    shares = [0.0] * len(knowledge.earlier)
    if parts:
        alone = AnovaModel.of(knowledge)
        assert alone is not None  # there are results  # noqa: S101
        helping, _ = helping_sweeps(knowledge, alone)
        coordinates = transfer_of(knowledge.space, knowledge.earlier).responses.some(helping)
        total = h.main + h.product + sum(parts)
        for number, part in zip(coordinates.numbers, parts, strict=True):
            shares[number] = part / total
    return tuple(shares)


def _borrow(coordinates: _Coordinates, space: ParameterSpace) -> Borrow | None:
    """Return the coordinates as a function of the level ids of parameters with a choice."""
    if not coordinates.posteriors:
        return None
    columns = [i for i, p in enumerate(space.parameters) if p.n_levels > 1]

    def borrow(ids: Ints) -> Floats:
        full = np.zeros((len(ids), len(space.parameters)), dtype=np.int64)
        full[:, columns] = ids
        return coordinates.at(full)

    return borrow


def _spread_ids(space: ParameterSpace) -> Ints:
    """Return at most `SAMPLED` level ids [m, parameters] of allowed or open configurations."""
    allowed = space.allowed_ids
    rng = np.random.default_rng(0)
    if allowed is not None:
        n = len(allowed)
        return allowed if n <= SAMPLED else allowed[rng.choice(n, SAMPLED, replace=False)]
    columns: Sequence[Ints] = [rng.choice(np.array(ids), SAMPLED) for ids in space.open_ids]
    return space.canonical_ids(np.stack(columns, axis=1))
