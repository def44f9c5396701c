"""Predictions for all untried configurations: of the ANOVA model, and of an additive regression.

The model of main effects and interactions is the better searcher; a plain sum of level effects is
the steadier judge of how much better an untried configuration can be. A forecast uses both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from strategies.blas_threads import single_blas_thread
from strategies.data.observation import Observation
from strategies.doe.main_effects import Knowledge
from strategies.gp.anova_model import TOP, AnovaModel, Targets, free_ids
from strategies.gp.gaussian_process import Floats, Ints
from strategies.space.parameter import Parameter
from strategies.space.parameter_space import ParameterSpace

SAMPLED = 4096  # Sampled configurations that represent a space too large to list

CENTRES = 8  # Best runs whose neighbours are added to the sample

MOST = 6.0  # Most standard deviations beyond the best run that a target can lie

RIDGES = (0.3, 1.0, 3.0, 10.0)  # Ridge parameters, of which leave-one-out errors choose one


@dataclass(frozen=True, slots=True, eq=False)
class AdditiveRegression:
    """Ridge regression of targets on the levels of each parameter, and its predictions.

    Args:
        predicted: predicted targets of the untried configurations, float64 [m].
        error: root mean square of the leave-one-out errors, above 0.
        r_squared: 1 - (leave-one-out error / standard deviation)^2; may be negative.
    """

    predicted: Floats
    error: float
    r_squared: float

    def beyond(self, target: float) -> float:
        """Return the greatest (prediction - target) / error of untried configurations, -6 to 12."""
        return float(np.clip(((self.predicted - target) / self.error).max(), -6.0, 12.0))

    def ln_count(self, target: float) -> float:
        """Return the logarithm of the expected number of untried configurations at a target."""
        u = np.clip((target - self.predicted) / self.error, 0.0, 6.0)
        return float(np.log(1e-4 + np.exp(-0.5 * u * u).sum()))


@dataclass(frozen=True, slots=True, eq=False)
class UntriedPredictions:
    """Predictions for the untried configurations, and what kind of space they are in.

    Args:
        mean: expected targets of the ANOVA model, float64 [m].
        deviation: their standard deviations, times the model's doubt, float64 [m], above 0.
        succeeds: probabilities that a run gives a result, float64 [m].
        targets: scale of the targets.
        additive: additive regression of the targets.
        doubt: factor by which the model's leave-one-out errors exceed its standard deviations.
        neighbours: untried configurations one parameter away from the best run.
        at_end: share of the ordered parameters whose level in the best run is the first or the
            last; 0.5 without such parameters.
        n_levels, is_ordered: number of open levels of each parameter with a choice, and whether
            its levels have an order and are more than two.
    """

    mean: Floats
    deviation: Floats
    succeeds: Floats
    targets: Targets
    additive: AdditiveRegression
    doubt: float
    neighbours: int
    at_end: float
    n_levels: tuple[int, ...]
    is_ordered: tuple[bool, ...]

    @classmethod
    def of(cls, knowledge: Knowledge) -> UntriedPredictions | None:
        """Return predictions for untried configurations; None without two different results."""
        model = AnovaModel.of(knowledge)
        if model is None or model.targets.knots.size < 2:
            return None
        ids = _untried(knowledge)
        if not len(ids):
            return None
        reduced = model.reduced(ids)
        mean, deviation = model.posterior.predict(reduced)
        leader = max(knowledge.observations, key=_rank).configuration
        best_ids = model.reduced(np.array([leader.level_ids]))[0]
        return cls(
            mean=mean,
            deviation=np.maximum(deviation * model.doubt, 1e-9),
            succeeds=np.ones(len(ids))
            if model.validity is None
            else model.validity.chance(reduced),
            targets=model.targets,
            additive=_additive_regression(model, reduced),
            doubt=model.doubt,
            neighbours=int(((reduced != best_ids).sum(axis=1) == 1).sum()),
            at_end=_share_at_end(knowledge.space, model, best_ids),
            n_levels=tuple(len(knowledge.space.open_ids[i]) for i in model.columns),
            is_ordered=tuple(_is_ordered(knowledge.space.parameters[i]) for i in model.columns),
        )

    def beyond(self, target: float) -> float:
        """Return the greatest (mean - target) / sd of the untried configurations."""
        return float(((self.mean - target) / self.deviation).max())

    def ln_count(self, target: float) -> float:
        """Return the logarithm of the expected number of untried configurations at a target."""
        chances = ndtr((self.mean - target) / self.deviation) * self.succeeds
        return float(np.log(1e-8 + chances.sum()))

    def target(self, response: float) -> float:
        """Return the target of a response at or beyond the best one, at most `MOST` beyond."""
        knots, values = self.targets.knots, self.targets.responses
        i = max(0, knots.size - 1 - TOP)
        slope = (knots[-1] - knots[i]) / (values[-1] - values[i])
        return min(float(knots[-1] + slope * (response - values[-1])), float(knots[-1]) + MOST)


def _rank(observation: Observation) -> tuple[float, float]:
    return -observation.violation, observation.quality


def _is_ordered(parameter: Parameter) -> bool:
    return parameter.kind == "ordinal" and parameter.n_levels > 2


def _level_regressors(parameter: Parameter) -> Floats:
    """Return the regressors of each level [levels, k]: an indicator; position, square if ordered.

    Indicators of ordered parameters count half, because position and square share their effect.
    """
    n = parameter.n_levels
    rows = np.eye(n)
    if _is_ordered(parameter):
        ranks = np.array(parameter.ranks)
        x = ranks / (n - 1) - 0.5
        rows = np.column_stack((x, x * x - 1 / 12, 0.5 * np.eye(n)[ranks]))
    return np.concatenate([rows, np.zeros((int(bool(parameter.when)), rows.shape[1]))])


@single_blas_thread
def _additive_regression(model: AnovaModel, untried: Ints) -> AdditiveRegression:
    """Return the additive regression of the fitted runs, with the best of `RIDGES`."""
    by_level = [_level_regressors(model.space.parameters[i]) for i in model.columns]
    design = np.concatenate(
        [
            np.zeros((len(model.ids), 0)),
            *(rows[ids] for rows, ids in zip(by_level, model.ids.T, strict=True)),
        ],
        axis=1,
    )
    centre = design.mean(axis=0)
    design = design - centre
    targets = model.targets.z
    n, mean = len(targets), float(targets.mean())
    eigenvalues, vectors = np.linalg.eigh(design @ design.T)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    turned = vectors.T @ (targets - mean)
    trials = []
    for ridge in RIDGES:
        shrunk = eigenvalues / (eigenvalues + ridge)
        leverage = (vectors * vectors) @ shrunk + 1 / n
        residuals = targets - mean - vectors @ (shrunk * turned)
        left_out = residuals / np.maximum(1 - leverage, 0.05)
        trials.append((float(np.mean(left_out**2)), ridge))
    square, ridge = min(trials)
    weights = design.T @ (vectors @ (turned / (eigenvalues + ridge)))
    parts = np.split(weights, np.cumsum([rows.shape[1] for rows in by_level])[:-1])
    predicted = np.full(len(untried), mean - float(centre @ weights))
    for rows, part, ids in zip(by_level, parts, untried.T, strict=True):
        predicted += (rows @ part)[ids]
    return AdditiveRegression(
        predicted=predicted,
        error=max(float(np.sqrt(square)), 1e-9),
        r_squared=1.0 - square / max(float(targets.var()), 1e-12),
    )


def _share_at_end(space: ParameterSpace, model: AnovaModel, best: Ints) -> float:
    at_end = []
    for column, position in enumerate(model.columns):
        parameter = space.parameters[position]
        if _is_ordered(parameter) and best[column] < parameter.n_levels:
            at_end.append(parameter.ranks[best[column]] in (0, parameter.n_levels - 1))
    return sum(at_end) / len(at_end) if at_end else 0.5


def _untried(knowledge: Knowledge) -> Ints:
    """Return level ids [m, parameters] of all untried configurations, or of a sample of them."""
    tried = knowledge.tried
    listed = free_ids(knowledge, tried)
    if listed is not None:
        return listed
    space, rng = knowledge.space, np.random.default_rng(0)
    best = sorted(knowledge.observations, key=lambda o: (-o.violation, o.quality))[-CENTRES:]
    rows = [
        (
            *observation.configuration.level_ids[:i],
            level,
            *observation.configuration.level_ids[i + 1 :],
        )
        for observation in best
        for i, levels in enumerate(space.open_ids)
        for level in levels
    ]
    sampled = np.stack([rng.choice(levels, SAMPLED) for levels in space.open_ids], axis=1)
    taken = {configuration.level_ids for configuration in tried}
    near = [row for row in rows if space.canonical(row).level_ids not in taken]
    ids = np.concatenate([np.array(near, dtype=np.int64).reshape(len(near), -1), sampled])
    return space.canonical_ids(ids)
