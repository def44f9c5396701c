"""The ANOVA model of an experiment: its targets, predictions, effects and untried configurations.

The model is fitted to z = standardised(A + B): A are normal scores of the ranks, B the standardised
logarithm of the distance from the best response. Ranks are robust to outliers, the logarithm keeps
the resolution near the best. Both are monotone, so a prediction maps back to a response, and the
chance to beat the best is the same on both scales.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtrit

from strategies.data.observation import Observation, responses
from strategies.doe.main_effects import Knowledge
from strategies.gp.gaussian_process import (
    CHUNK,
    Axis,
    Borrow,
    Floats,
    Ints,
    Posterior,
    Prior,
    Validity,
    learn,
    n_learnt,
)
from strategies.gp.run_interval import LEAST_RUNS, chance_above, features, shipped
from strategies.space.parameter_space import Configuration, ParameterSpace

TOP = 3  # Fewest results next to an end whose mean slope extends the scale of targets beyond it


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Monotone transformation of responses to the targets that the model is fitted to."""

    z: Floats  # targets [n], mean 0 and standard deviation 1 (or all 0)
    knots: Floats  # distinct targets, ascending
    responses: Floats  # response of each knot, ascending

    @classmethod
    def of(cls, responses: Floats) -> Targets:
        """Return the transformation and targets for responses, float64 [n]."""
        n = responses.size
        if n == 0:
            empty = np.zeros(0)
            return cls(empty, empty, empty)
        ranks = (mean_ranks(responses) - 0.5) / n
        losses = responses.max() - responses
        scale = float(np.median(losses)) or float(losses.max())
        logs = np.log1p(losses / (0.5 * scale)) if scale > 0 else losses
        z = _standardised(_standardised(ndtri(ranks)) - _standardised(logs))
        knots, first = np.unique(z, return_index=True)
        return cls(z, knots, responses[first])

    def response(self, z: float) -> float:
        """Convert a target value back to a response, see `responses_at`."""
        return float(self.responses_at(np.float64(z)))

    def responses_at(self, z: Floats | np.float64) -> Floats:
        """Convert target values of any shape back to responses.

        Linear between the runs, and beyond them with the mean slope of the outer quarter of them.
        Responses of one sign keep it: towards 0 they shrink by a factor instead. So do those of
        shares, all within 0 and 1, towards 1.
        """
        knots, responses = self.knots, self.responses
        if knots.size < 2:
            return np.full(np.shape(z), responses[0])
        width = min(max(TOP, knots.size // 4), knots.size - 1)
        low, high = responses[0], responses[-1]
        values: Floats = np.asarray(np.interp(z, knots, responses))
        for inner, end, sign in ((width, 0, -1.0), (-1 - width, -1, 1.0)):
            slope = (responses[end] - responses[inner]) / (knots[end] - knots[inner])
            away = np.maximum(sign * (z - knots[end]), 0.0) * slope
            bound = None
            if (sign > 0 and high <= 0) or (sign < 0 and low >= 0):
                bound = 0.0
            elif sign > 0 and low >= 0 and high <= 1:
                bound = 1.0
            if bound is not None:
                room = abs(bound - responses[end])
                away = -room * np.expm1(-away / room) if room > 0 else np.zeros_like(away)
            values = values + sign * away
        return values


def _standardised(values: Floats) -> Floats:
    spread = float(values.std())
    shifted: Floats = values - values.mean()
    return shifted / spread if spread > 0 else np.zeros_like(values)


def mean_ranks(values: Floats) -> Floats:
    """Return ranks from 1, float64 [n], where equal numbers share their mean rank.

    Written out, because importing `scipy.stats.rankdata` takes a quarter of a second.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return ranks


PRIOR = Prior()
ITERATIONS = 25
MOST_RUNS = 400  # Most runs that are fitted: the better half of them, the latest, and some between

MOST_LEVELS = 256  # Most levels of a parameter that an average runs over, evenly spread by rank

CONFIDENCE = 0.95  # Of averages; that of one run is `run_interval.LEVEL`
DIGITS = 8  # Significant digits in texts for people, the same on every processor


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """Predicted response of one run, with its probabilities of success and of improvement."""

    value: float  # expected response (its median)
    # 95% interval of one run, noise included; None below `LEAST_RUNS` runs
    interval: tuple[float, float] | None
    # probability that it succeeds and is better than the best run so far; None while no run
    # differs from another
    chance: float | None
    succeeds: float  # probability that it gives a result


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """Predicted responses and 95% interval ends of m configurations, float64 [m] each."""

    values: Floats
    lows: Floats
    highs: Floats


@dataclass(frozen=True, slots=True)
class Marginal:
    """Expected responses at given levels, averaged over all other parameters."""

    level_ids: tuple[int, ...]  # level ids of the chosen parameters
    value: float  # response at the mean target: of a typical configuration, not a mean of responses
    interval: tuple[float, float]  # 95% interval of that
    count: int  # fitted runs with these levels


class AnovaModel:
    """Gaussian process model of responses and failures, fitted to an experiment's runs.

    Observations are oldest first, at least one; ``failed`` are configurations of runs without a
    result; ``exact`` says that a configuration gives the same result every time; ``borrow`` and
    ``borrow_validity`` give coordinates from earlier sweeps (`strategies.gp.transfer`) to the
    models of responses and of failures. Averages leave them out.
    """

    def __init__(
        self,
        space: ParameterSpace,
        observations: Sequence[Observation],
        failed: Iterable[Configuration] = (),
        *,
        exact: bool = False,
        borrow: Borrow | None = None,
        borrow_validity: Borrow | None = None,
    ) -> None:
        self.space = space
        self._exact = exact
        self._borrow = borrow
        self._borrow_validity = borrow_validity
        self.columns = tuple(i for i, p in enumerate(space.parameters) if p.n_levels > 1)
        self.axes = tuple(Axis.of(space.parameters[i]) for i in self.columns)
        runs = _fitted_runs(observations)
        self.ids = self.ids_of([observation.configuration for observation in runs])
        self.targets = Targets.of(responses(runs))
        m = n_learnt(len(runs))
        first = self.targets if m == len(runs) else Targets.of(responses(runs[:m]))
        u = None if borrow is None else borrow(self.ids[:m])
        self.hyperparameters = learn(self.axes, self.ids[:m], first.z, PRIOR, ITERATIONS, u)
        self._failed = self.ids_of(tuple(failed)[-MOST_RUNS:])

    @classmethod
    def of(cls, knowledge: Knowledge) -> AnovaModel | None:
        """Return the model fitted to an experiment, or None before the first result."""
        if not knowledge.observations:
            return None
        failed = [failure.configuration for failure in knowledge.failures]
        return cls(knowledge.space, knowledge.observations, failed)

    @cached_property
    def posterior(self) -> Posterior:
        """Fitted Gaussian process on the scale of the targets."""
        return Posterior(self.axes, self.hyperparameters, self.ids, self.targets.z, self._borrow)

    @cached_property
    def _averaging(self) -> Posterior:
        """Posterior of which averages have a closed form: that of the runs alone."""
        if self._borrow is None:
            return self.posterior
        m = n_learnt(len(self.ids))
        z = self.targets.z
        alone = learn(self.axes, self.ids[:m], z[:m], PRIOR, ITERATIONS)
        return Posterior(self.axes, alone, self.ids, z)

    @cached_property
    def validity(self) -> Validity | None:
        """Model of the probability that a run succeeds, or None without failures."""
        if not len(self._failed):
            return None
        return Validity(self.axes, self.ids, self._failed, self._borrow_validity)

    @cached_property
    def best(self) -> float:
        """Best target so far: of the best run, or with replicates the best prediction at a run.

        The greatest of noisy results is biased upwards; replicates show by how much.
        """
        if len(self._tried) == len(self.ids):
            return float(self.targets.z.max())
        mean, _ = self.posterior.predict(self.ids)
        return float(mean.max())

    def reduced(self, ids: Ints) -> Ints:
        """Return the columns of level ids [m, parameters] that the model uses, [m, d].

        That of an inactive parameter is its number of levels, see `Axis.of`.
        """
        return self.space.marked_ids(ids)[:, list(self.columns)]

    @cached_property
    def doubt(self) -> float:
        """Factor of at least 1 by which reported standard deviations are inflated.

        The root mean square of leave-one-out errors, in standard deviations.
        """
        return max(1.0, float(np.sqrt(np.mean(self.posterior.left_out**2))))

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom of the t distribution of intervals, at least 2.

        Runs less fitted hyperparameters, because few runs leave the spread itself uncertain.
        """
        return float(max(len(self.ids) - len(self.axes) - 3, 2))

    def predict(self, configuration: Configuration) -> RunPrediction:
        """Predict the response of a run of a configuration, with interval."""
        self.space.index(configuration)
        ids = self.ids_of([configuration])
        quantiles = self.run_quantiles(ids)[0]
        low, value, high = self.targets.responses_at(quantiles[[0, 2, 4]])
        succeeds = 1.0 if self.validity is None else float(self.validity.chance(ids)[0])
        chance, interval = None, None
        if self.targets.knots.size > 1:
            chance = _rounded(chance_above(quantiles, self.best) * succeeds)
        if len(self.ids) >= LEAST_RUNS:
            interval = _rounded(low), _rounded(high)
        return RunPrediction(_rounded(value), interval, chance, succeeds)

    def run_quantiles(self, ids: Ints) -> Floats:
        """Return quantiles [m, 5] of the target of one run at level ids [m, d] of the axes.

        Noise is included. The probabilities are `run_interval.PROBABILITIES`.
        """
        mean, deviation, described = self.described(ids)
        quantiles: Floats = mean[:, None] + deviation[:, None] * shipped().quantiles(described)
        return quantiles

    def described(self, ids: Ints) -> tuple[Floats, Floats, Floats]:
        """Return mean and deviation [m] of a run's target, and its `run_interval.features`.

        Without replicates the model cannot tell noise from detail. So the deviation of another run
        of a tried configuration is the leave-one-out error, unless results are exact.
        """
        mean, sd = self.posterior.predict(ids)
        deviation = np.hypot(sd, np.sqrt(self.hyperparameters.noise))
        tried = np.zeros(len(ids), dtype=np.bool_)
        if not self._exact:
            tried[:] = [row.tobytes() in self._tried for row in np.ascontiguousarray(ids)]
        error = float(np.sqrt(np.mean(self.posterior.left_out_errors**2)))
        deviation = np.where(tried, np.maximum(deviation, error), deviation)
        best = float(self.targets.z.max())
        return mean, deviation, features(self.posterior.left_out, best, mean, deviation, tried)

    @cached_property
    def _tried(self) -> frozenset[bytes]:
        return frozenset(row.tobytes() for row in self.ids)

    def predict_all(self, ids: Ints) -> Bands:
        """Predict noisy responses with intervals for level ids [m, parameters]."""
        quantiles = self.run_quantiles(self.reduced(ids))[:, [0, 2, 4]]
        lows, values, highs = self.targets.responses_at(quantiles).T
        return Bands(values, lows, highs)

    def average_all(self, positions: Sequence[int], ids: Ints) -> Bands:
        """Predict responses averaged over the parameters that are not in `positions`.

        As `main_effect` and `interaction` do, for any number of parameters. ``ids`` are level ids
        [m, positions] of the parameters at these positions in the space.
        """
        combinations = [tuple(row) for row in ids.tolist()]
        mean, sd = self._averaged(tuple(positions), combinations)
        half = sd * self.doubt * float(stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))
        ends = [self.targets.responses_at(z) for z in (mean - half, mean, mean + half)]
        return Bands(ends[1], np.minimum(ends[0], ends[1]), np.maximum(ends[2], ends[1]))

    def main_effect(self, parameter: str) -> tuple[Marginal, ...]:
        """Return the expected response of every level of a parameter, by level id."""
        return self._marginals((self._position(parameter),))

    def interaction(self, first: str, second: str) -> tuple[Marginal, ...]:
        """Return the expected response for every level pair of two parameters."""
        return self._marginals((self._position(first), self._position(second)))

    @cached_property
    def shares(self) -> dict[str, float]:
        """Share of each parameter in the variance of all main effects, from 0 to 1.

        Sobol's first-order indices of the posterior mean, except for their common denominator.
        """
        squares = {}
        for i, name in enumerate(self.space.names):
            values = self.main_values(i)
            squares[name] = float(np.var([values[level_id] for level_id in _spread(self.space, i)]))
        total = sum(squares.values())
        return {name: s / total if total > 0 else 0.0 for name, s in squares.items()}

    def main_values(self, position: int) -> Floats:
        """Return the expected target of every level of a parameter, by level id."""
        if position not in self._main_values:
            n_levels = self.space.parameters[position].n_levels
            z, _ = self._averaged((position,), [(i,) for i in range(n_levels)])
            self._main_values[position] = z
        return self._main_values[position]

    @cached_property
    def _main_values(self) -> dict[int, Floats]:
        return {}

    def averaging_levels(self) -> list[Ints]:
        """Return, per parameter, the open level ids over which predictions are averaged."""
        return [_spread(self.space, i) for i in self.columns]

    def _marginals(self, positions: tuple[int, ...]) -> tuple[Marginal, ...]:
        parameters = [self.space.parameters[i] for i in positions]
        combinations = list(np.ndindex(*(p.n_levels for p in parameters)))
        z, sd = self._averaged(positions, combinations)
        width = self.doubt * float(stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))
        marginals = []
        for level_ids, centre, spread in zip(combinations, z, sd, strict=True):
            value = self.targets.response(float(centre))
            low = self.targets.response(float(centre - width * spread))
            high = self.targets.response(float(centre + width * spread))
            count = self._count(positions, level_ids)
            marginals.append(Marginal(level_ids, value, (min(low, value), max(high, value)), count))
        return tuple(marginals)

    def _averaged(
        self, positions: tuple[int, ...], combinations: Sequence[tuple[int, ...]]
    ) -> tuple[Floats, Floats]:
        """Return targets and standard deviations of level combinations, averaged over the rest."""
        rows = np.array(combinations, dtype=np.int64).reshape(len(combinations), len(positions))
        levels = self.averaging_levels()
        means, deviations = [np.zeros(0)], [np.zeros(0)]
        for start in range(0, len(rows), CHUNK):
            part = rows[start : start + CHUNK]
            fixed = {
                self.columns.index(position): part[:, column]
                for column, position in enumerate(positions)
                if position in self.columns
            }
            mean, sd = self._averaging.averaged(fixed, levels)
            means.append(np.broadcast_to(mean, len(part)))
            deviations.append(np.broadcast_to(sd, len(part)))
        return np.concatenate(means), np.concatenate(deviations)

    def _count(self, positions: tuple[int, ...], level_ids: tuple[int, ...]) -> int:
        matches = np.ones(len(self.ids), dtype=np.bool_)
        for position, level_id in zip(positions, level_ids, strict=True):
            if position in self.columns:
                matches &= self.ids[:, self.columns.index(position)] == level_id
        return int(matches.sum())

    def _position(self, parameter: str) -> int:
        return self.space.names.index(self.space.parameter(parameter).name)

    def ids_of(self, configurations: Sequence[Configuration]) -> Ints:
        """Return the level ids [m, d] of configurations, for the parameters that the model uses."""
        ids = np.array([c.level_ids for c in configurations], dtype=np.int64)
        return self.reduced(ids.reshape(len(configurations), len(self.space.parameters)))


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _fitted_runs(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the at most `MOST_RUNS` observations to fit, oldest first."""
    if len(observations) <= MOST_RUNS:
        return tuple(observations)
    by_response = np.argsort(-responses(observations), kind="stable")
    half, quarter = MOST_RUNS // 2, MOST_RUNS // 4
    indices = {int(i) for i in by_response[:half]}
    latest = [i for i in reversed(range(len(observations))) if i not in indices]
    indices.update(latest[:quarter])
    rest = [i for i in by_response if int(i) not in indices]
    places = np.linspace(0, len(rest) - 1, MOST_RUNS - len(indices))
    indices.update(int(rest[int(place)]) for place in places)
    return tuple(observations[i] for i in sorted(indices))


def _spread(space: ParameterSpace, position: int) -> Ints:
    """Return at most `MOST_LEVELS` open level ids of a parameter, evenly spread by rank."""
    ranks = space.parameters[position].ranks
    ids = sorted(space.open_ids[position], key=ranks.__getitem__)
    if len(ids) > MOST_LEVELS:
        places = np.linspace(0, len(ids) - 1, MOST_LEVELS).astype(np.int64)
        ids = [ids[place] for place in places]
    return np.array(ids, dtype=np.int64)


def free_ids(knowledge: Knowledge, taken: Set[Configuration]) -> Ints | None:
    """Return the level ids [m, d] of all allowed untaken configurations, or None if too many."""
    space = knowledge.space
    allowed = space.allowed_ids
    if allowed is None:
        return None
    if not taken:
        return allowed
    if space.rows:
        taken_ids = {c.level_ids for c in taken}
        return allowed[[tuple(row) not in taken_ids for row in allowed.tolist()]]
    rows = np.array([c.level_ids for c in taken], dtype=np.int64)
    free: Ints = allowed[
        ~np.isin(_combination_numbers(space, allowed), _combination_numbers(space, rows))
    ]
    return free


def _combination_numbers(space: ParameterSpace, ids: Ints) -> Ints:
    """Return the numbers of level ids [m, d] among the combinations of open levels, -1 outside.

    They fit into int64, because few configurations are allowed and none by given rows.
    """
    number = np.zeros(len(ids), dtype=np.int64)
    inside = np.ones(len(ids), dtype=np.bool_)
    for column, (parameter, open_ids) in enumerate(
        zip(space.parameters, space.open_ids, strict=True)
    ):
        place = np.full(parameter.n_levels, -1, dtype=np.int64)
        place[list(open_ids)] = np.arange(len(open_ids))
        places = place[ids[:, column]]
        inside &= places >= 0
        number = number * len(open_ids) + places
    return np.where(inside, number, -1)
