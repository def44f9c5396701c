"""From responses to what the model is fitted to, and back.

The model sees z = standardised(A + B): A are normal scores of the ranks, B the standardised
logarithm of the distance from the best response. Ranks are robust to outliers, the logarithm keeps
the resolution near the best. Both are monotone, so a prediction goes back to a response, and a
chance to beat the best is the same on both scales.

The model of an experiment: quality, failures and effects, from everything that is known.

How far the model sees beyond the best run: whether a goal lies within what is untried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from strategies.data.observation import Observation, responses
from strategies.doe.main_effects import Knowledge
from strategies.gp.gaussian_process import (
    CHUNK,
    Axis,
    Floats,
    Ints,
    Posterior,
    Prior,
    Validity,
    learn,
    n_learnt,
)
from strategies.space.parameter_space import Configuration, ParameterSpace


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Responses as targets, greater is better in both.

    Args:
        z: targets [n], mean 0 and standard deviation 1 (or all 0).
        knots: distinct targets, ascending.
        responses: the response of each knot, ascending.
    """

    z: Floats
    knots: Floats
    responses: Floats

    @classmethod
    def of(cls, responses: Floats) -> Targets:
        """Return the targets of responses [n], greater is better."""
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
        """Return the response at a target, linear between the observed ones and beyond."""
        return float(self.responses_at(np.float64(z)))

    def responses_at(self, z: Floats | np.float64) -> Floats:
        """Return the responses at targets of any shape; see `response`."""
        knots, responses = self.knots, self.responses
        if knots.size < 2:
            return np.full(np.shape(z), responses[0])
        i = np.clip(np.searchsorted(knots, z), 1, knots.size - 1)
        slope = (responses[i] - responses[i - 1]) / (knots[i] - knots[i - 1])
        values: Floats = responses[i] + slope * (z - knots[i])
        return values


def _standardised(values: Floats) -> Floats:
    spread = float(values.std())
    shifted: Floats = values - values.mean()
    return shifted / spread if spread > 0 else np.zeros_like(values)


def mean_ranks(values: Floats) -> Floats:
    """Return the ranks of numbers from 1, float64 [n]; equal ones share the mean of theirs.

    As `scipy.stats.rankdata` does, whose import would cost every start a quarter of a second.

    >>> mean_ranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[which]
    return ranks


PRIOR = Prior()
ITERATIONS = 25
MOST_RUNS = 400
"""Runs that are fitted at most: the better half of them, the latest, and some between."""

MOST_LEVELS = 256
"""Levels of a parameter that an average runs over at most, evenly spread by rank."""

CONFIDENCE = 0.95
DIGITS = 8
"""Significant digits that people are told, the same on every processor."""


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """What is expected of a run.

    Args:
        value: expected response (its median).
        interval: 95% interval of one run, noise included.
        chance: probability that it succeeds and is better than the best run so far; None while no
            run differs from another.
        succeeds: probability that it gives a result.
    """

    value: float
    interval: tuple[float, float]
    chance: float | None
    succeeds: float


@dataclass(frozen=True, slots=True, eq=False)
class Bands:
    """What is expected of many configurations: responses with their 95% intervals.

    Args:
        values: float64 [m].
        lows: lower ends, float64 [m].
        highs: upper ends, float64 [m].
    """

    values: Floats
    lows: Floats
    highs: Floats


@dataclass(frozen=True, slots=True)
class Marginal:
    """The quality to expect with some levels, averaged over all other parameters.

    Args:
        level_ids: of the parameters asked for.
        value: the response at the mean target: of a typical configuration, not a mean of responses.
        interval: 95% interval of that.
        count: fitted runs with these levels.
    """

    level_ids: tuple[int, ...]
    value: float
    interval: tuple[float, float]
    count: int


class AnovaModel:
    """Quality and failures over the grid, fitted to the runs of an experiment.

    Args:
        space: the current version of the space.
        observations: runs with a result, oldest first; at least one.
        failed: configurations of the runs without.
    """

    def __init__(
        self,
        space: ParameterSpace,
        observations: Sequence[Observation],
        failed: Iterable[Configuration] = (),
    ) -> None:
        self.space = space
        self.columns = tuple(i for i, p in enumerate(space.parameters) if p.n_levels > 1)
        self.axes = tuple(Axis.of(space.parameters[i]) for i in self.columns)
        fitted_runs = _fitted_runs(observations)
        self.ids = self.ids_of([observation.configuration for observation in fitted_runs])
        self.targets = Targets.of(responses(fitted_runs))
        m = n_learnt(len(fitted_runs))
        first = self.targets if m == len(fitted_runs) else Targets.of(responses(fitted_runs[:m]))
        self.hyperparameters = learn(self.axes, self.ids[:m], first.z, PRIOR, ITERATIONS)
        self._failed = self.ids_of(tuple(failed)[-MOST_RUNS:])

    @classmethod
    def of(cls, knowledge: Knowledge) -> AnovaModel | None:
        """Return the model of what is known; None before the first result."""
        if not knowledge.observations:
            return None
        failed = [failure.configuration for failure in knowledge.failures]
        return cls(knowledge.space, knowledge.observations, failed)

    @cached_property
    def posterior(self) -> Posterior:
        """The fitted process, on targets."""
        return Posterior(self.axes, self.hyperparameters, self.ids, self.targets.z)

    @cached_property
    def validity(self) -> Validity | None:
        """The chance of success; None while nothing has failed."""
        return Validity(self.axes, self.ids, self._failed) if len(self._failed) else None

    @cached_property
    def best(self) -> float:
        """The target to beat: the best run's, or its prediction where runs were repeated.

        Of noisy results the greatest is too good; what was repeated tells how much.
        """
        if len({row.tobytes() for row in self.ids}) == len(self.ids):
            return float(self.targets.z.max())
        mean, _ = self.posterior.predict(self.ids)
        return float(mean.max())

    def reduced(self, ids: Ints) -> Ints:
        """Return of level ids [m, parameters] the columns that the model looks at, [m, d]."""
        return ids[:, list(self.columns)]

    @cached_property
    def doubt(self) -> float:
        """Factor on standard deviations that are told to people, at least 1.

        How far runs were from predictions by the others, root mean square, in standard deviations.
        """
        return max(1.0, float(np.sqrt(np.mean(self.posterior.left_out**2))))

    @cached_property
    def freedom(self) -> float:
        """Degrees of freedom of the t distribution that people are told, at least 2.

        Runs less what was learnt from them; few runs leave the spread itself uncertain.
        """
        return float(max(len(self.ids) - len(self.axes) - 3, 2))

    def predict(self, configuration: Configuration) -> RunPrediction:
        """Predict a run. Raises `SpaceError` if the configuration is not of this space."""
        self.space.index(configuration)
        ids = self.ids_of([configuration])
        mean, sd = self.posterior.predict(ids)
        z, latent = float(mean[0]), float(sd[0]) * self.doubt
        half = float(np.hypot(latent, np.sqrt(self.hyperparameters.noise) * self.doubt))
        half *= float(stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))
        value = self.targets.response(z)
        low, high = self.targets.response(z - half), self.targets.response(z + half)
        succeeds = 1.0 if self.validity is None else float(self.validity.chance(ids)[0])
        better = float(stdtr(self.freedom, (z - self.best) / latent))
        chance = better * succeeds if self.targets.knots.size > 1 else None
        rounded = [float(f"{x:.{DIGITS}g}") for x in (min(low, value), value, max(high, value))]
        if chance is not None:
            chance = float(f"{chance:.{DIGITS}g}")
        return RunPrediction(rounded[1], (rounded[0], rounded[2]), chance, succeeds)

    def predict_all(self, ids: Ints) -> Bands:
        """Predict a run of each of many configurations, noise included; see `predict`.

        Args:
            ids: level ids [m, parameters] of the space.
        """
        mean, sd = self.posterior.predict(self.reduced(ids))
        return self._bands(mean, np.hypot(sd, np.sqrt(self.hyperparameters.noise)))

    def average_all(self, positions: Sequence[int], ids: Ints) -> Bands:
        """Predict typical configurations: averaged over the parameters that are not named.

        As `main_effect` and `interaction` do, for any number of parameters.

        Args:
            positions: of the parameters that are named, in the space.
            ids: their level ids [m, positions].
        """
        combinations = [tuple(row) for row in ids.tolist()]
        return self._bands(*self._averaged(tuple(positions), combinations))

    def _bands(self, mean: Floats, sd: Floats) -> Bands:
        half = sd * self.doubt * float(stdtrit(self.freedom, 0.5 + CONFIDENCE / 2))
        ends = [self.targets.responses_at(z) for z in (mean - half, mean, mean + half)]
        return Bands(ends[1], np.minimum(ends[0], ends[1]), np.maximum(ends[2], ends[1]))

    def main_effect(self, parameter: str) -> tuple[Marginal, ...]:
        """Return what to expect of every level of a parameter, by level id."""
        return self._marginals((self._position(parameter),))

    def interaction(self, first: str, second: str) -> tuple[Marginal, ...]:
        """Return what to expect of every pair of levels, the second moving fastest."""
        return self._marginals((self._position(first), self._position(second)))

    @cached_property
    def shares(self) -> dict[str, float]:
        """Part of each parameter in the variance of the main effects, 0 to 1; all 0 if none is.

        Sobol's first-order indices of the posterior mean, but for their common denominator.
        """
        squares = {}
        for i, name in enumerate(self.space.names):
            values = self.main_values(i)
            squares[name] = float(np.var([values[level_id] for level_id in _spread(self.space, i)]))
        total = sum(squares.values())
        return {name: s / total if total > 0 else 0.0 for name, s in squares.items()}

    def main_values(self, position: int) -> Floats:
        """Return the target to expect of every level of a parameter, by level id."""
        if position not in self._main_values:
            n_levels = self.space.parameters[position].n_levels
            z, _ = self._averaged((position,), [(i,) for i in range(n_levels)])
            self._main_values[position] = z
        return self._main_values[position]

    @cached_property
    def _main_values(self) -> dict[int, Floats]:
        return {}

    def averaging_levels(self) -> list[Ints]:
        """Return per axis the open level ids that averages run over."""
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
        """Return target and standard deviation for combinations of levels of some parameters."""
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
            mean, sd = self.posterior.averaged(fixed, levels)
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
        """Return level ids [m, d] of the parameters that the model looks at."""
        ids = np.array([c.level_ids for c in configurations], dtype=np.int64)
        return ids.reshape(len(configurations), len(self.space.parameters))[:, list(self.columns)]


def _fitted_runs(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """Return the observations to fit, oldest first."""
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
    """Return open level ids of a parameter, `MOST_LEVELS` of them evenly by rank at most."""
    ranks = space.parameters[position].ranks
    ids = sorted(space.open_ids[position], key=ranks.__getitem__)
    if len(ids) > MOST_LEVELS:
        places = np.linspace(0, len(ids) - 1, MOST_LEVELS).astype(np.int64)
        ids = [ids[place] for place in places]
    return np.array(ids, dtype=np.int64)


def free_ids(knowledge: Knowledge, taken: Set[Configuration]) -> Ints | None:
    """Return the level ids [m, d] of all free configurations; None if those are too many."""
    space = knowledge.space
    allowed = space.allowed_ids
    if allowed is None:
        return None
    if not taken:
        return allowed
    rows = np.array([c.level_ids for c in taken], dtype=np.int64)
    free: Ints = allowed[
        ~np.isin(_combination_numbers(space, allowed), _combination_numbers(space, rows))
    ]
    return free


def _combination_numbers(space: ParameterSpace, ids: Ints) -> Ints:
    """Return the place of level ids [m, d] among the combinations of open levels, -1 outside.

    The number fits, since it is asked for spaces with few allowed configurations only.
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


SAMPLED = 4096
"""Configurations that stand for a space with more than can be listed ..."""

CENTRES = 8
"""... with the neighbours of its best runs."""

TOP = 3
"""Results next to the best whose mean slope carries the scale of targets beyond it."""

MOST = 6.0
"""Standard deviations of the targets beyond the best run that are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class UntriedPredictions:
    """The predictions for what is untried, on the scale of the model's targets.

    Args:
        mean: expected targets, float64 [m].
        deviation: their standard deviations, with the model's doubt, float64 [m], above 0.
        targets: the scale.
    """

    mean: Floats
    deviation: Floats
    targets: Targets

    @classmethod
    def of(cls, knowledge: Knowledge) -> UntriedPredictions | None:
        """Return it for what is known; None without two distinct results or anything untried."""
        model = AnovaModel.of(knowledge)
        if model is None or model.targets.knots.size < 2:
            return None
        ids = _untried(knowledge)
        if not len(ids):
            return None
        mean, deviation = model.posterior.predict(model.reduced(ids))
        return cls(mean, np.maximum(deviation * model.doubt, 1e-9), model.targets)

    def beyond(self, response: float) -> float:
        """Return the greatest (mean - goal) / deviation over what is untried.

        Args:
            response: the goal, greater is better.
        """
        goal = self._target(response)
        return float(((self.mean - goal) / self.deviation).max())

    def _target(self, response: float) -> float:
        """Return the target of a response at or beyond the best one, at most `MOST` beyond."""
        knots, responses = self.targets.knots, self.targets.responses
        i = max(0, knots.size - 1 - TOP)
        slope = (knots[-1] - knots[i]) / (responses[-1] - responses[i])
        return min(float(knots[-1] + slope * (response - responses[-1])), float(knots[-1]) + MOST)


def _untried(knowledge: Knowledge) -> Ints:
    """Return level ids [m, parameters] of all that is untried, or of a sample of it."""
    tried = {o.configuration for o in knowledge.observations}
    tried |= {failure.configuration for failure in knowledge.failures}
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
    near = [row for row in rows if row not in taken]
    return np.concatenate([np.array(near, dtype=np.int64).reshape(len(near), -1), sampled])
