"""The default strategy: expected improvement under an ANOVA model of the grid.

All free configurations are compared, or a pool where they are too many. The pool comes from greedy
randomised constructions (the second idea of the Copper paper, here on the model's own effects):
parameter after parameter, a level is drawn from those whose expected quality, given the levels
chosen so far and averaged over the rest, is within a greediness of the best. The best of the pool
are then improved one parameter at a time. Before there are results, a feasibility search looks for
configurations that succeed.

References: Jones, Schonlau & Welch 1998 (expected improvement); Snoek, Larochelle & Adams 2012
(fantasies); Gardner et al. 2014 (chance of feasibility). Kernel, targets and pool are our own;
``python -m benchmarks.search`` compares them with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from strategies.data.observation import best
from strategies.doe.main_effects import Knowledge
from strategies.gp.anova_model import AnovaModel, free_ids
from strategies.gp.gaussian_process import Axis, Floats, Ints, Posterior, log_expected_improvement
from strategies.samplers.latin_hypercube import balanced_design
from strategies.samplers.strategy import (
    StrategyEntry,
    StrategyOption,
    Suggestion,
    SuggestionKind,
    difference,
    join_listed,
    require_count,
)
from strategies.space.errors import OptionError
from strategies.space.parameter import show
from strategies.space.parameter_space import Configuration, ParameterSpace

CONSTRUCTIONS = 256
ORDERS = 4  # Orders of the parameters; constructions are divided among them

RANDOM = 512
POOL_CENTRES = 8  # Best configurations of the pool whose neighbours are evaluated in each round

ROUNDS = 6
NEARBY = 48  # Most other levels of a parameter that count as neighbours

Worth = Callable[[Ints], Floats]  # Worth [m] of level ids [m, d]


def best_of_pool(
    model: AnovaModel,
    knowledge: Knowledge,
    taken: Set[Configuration],
    worth: Worth,
    rng: np.random.Generator,
) -> Configuration | None:
    """Return the free configuration of greatest `worth` that a local search finds, or None."""
    runs = np.argsort(-model.targets.z, kind="stable")[:POOL_CENTRES]
    centres = _full_level_ids(model, knowledge, model.ids[runs])
    pool = np.concatenate(
        [
            constructions(model, knowledge, rng),
            _random_levels(knowledge, rng),
            _one_step_ids(centres, knowledge, rng),
        ]
    )
    best: Ints = np.zeros((0, pool.shape[1]), dtype=np.int64)
    top = -np.inf
    for _ in range(ROUNDS):
        free = _free(pool, knowledge, taken)
        if not len(free):
            break
        worths = worth(free)
        order = np.argsort(-worths, kind="stable")[:POOL_CENTRES]
        if float(worths[order[0]]) <= top:
            break
        top, best = float(worths[order[0]]), free[order]
        pool = np.concatenate([best, _one_step_ids(best, knowledge, rng)])
    if not len(best):
        return None
    return Configuration(tuple(int(i) for i in best[0]), knowledge.space.lineage)


def constructions(model: AnovaModel, knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    """Return level ids [m, d] of candidates, built level by level with random greediness.

    They have open levels, but may be excluded.
    """
    space, posterior = knowledge.space, model.posterior
    h, d = model.hyperparameters, max(len(model.axes), 1)
    levels = model.averaging_levels()
    per_order = CONSTRUCTIONS // ORDERS
    level_ids = np.zeros((CONSTRUCTIONS, len(space.parameters)), dtype=np.int64)
    for i, ids in enumerate(space.open_ids):
        level_ids[:, i] = ids[0]
    correlations = [posterior.correlation(i, levels[i]) for i in range(len(model.axes))]
    weights = posterior.weights
    for block in range(ORDERS):
        rows = slice(block * per_order, (block + 1) * per_order)
        greediness = rng.random(per_order)
        product = np.ones((per_order, len(weights)))
        rest = (
            np.prod([z.mean(axis=0) for z in correlations], axis=0)
            if correlations
            else np.ones(len(weights))
        )
        for i in rng.permutation(len(model.axes)):
            z = correlations[i]
            rest = rest / z.mean(axis=0)
            effects = h.main / d * (z @ weights) + h.product * ((product * rest * weights) @ z.T)
            choice = _choose_levels(effects, greediness, rng)
            product *= z[choice]
            level_ids[rows, model.columns[i]] = levels[i][choice]
    return level_ids


def _choose_levels(effects: Floats, greediness: Floats, rng: np.random.Generator) -> Ints:
    """Draw one level per construction from those good enough; effects [m, levels]."""
    least, most = effects.min(axis=1), effects.max(axis=1)
    threshold = least + greediness * (most - least)
    candidates = effects >= np.minimum(threshold, most)[:, None]
    lots = np.where(candidates, rng.random(effects.shape), -1.0)
    places: Ints = lots.argmax(axis=1)
    return places


def _random_levels(knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    columns = [
        np.array(ids)[rng.integers(len(ids), size=RANDOM)] for ids in knowledge.space.open_ids
    ]
    return np.stack(columns, axis=1)


def _one_step_ids(centres: Ints, knowledge: Knowledge, rng: np.random.Generator) -> Ints:
    """Return the configurations that differ from a centre in one parameter, [m, d].

    Of a parameter with many levels the nearest ones and some at random.
    """
    blocks = [centres]
    for i, (parameter, ids) in enumerate(
        zip(knowledge.space.parameters, knowledge.space.open_ids, strict=True)
    ):
        for centre in centres:
            alternatives = np.array(ids, dtype=np.int64)
            if alternatives.size > NEARBY:
                ranks = np.array(parameter.ranks)[alternatives]
                near = np.argsort(np.abs(ranks - parameter.ranks[centre[i]]), kind="stable")
                half = NEARBY // 2
                alternatives = np.concatenate(
                    [
                        alternatives[near[:half]],
                        alternatives[rng.integers(alternatives.size, size=half)],
                    ]
                )
            moved = np.repeat(centre[None, :], alternatives.size, axis=0)
            moved[:, i] = alternatives
            blocks.append(moved)
    return np.concatenate(blocks)


def _full_level_ids(model: AnovaModel, knowledge: Knowledge, ids: Ints) -> Ints:
    """Return level ids of all parameters from those that the model uses."""
    full_ids = np.zeros((len(ids), len(knowledge.space.parameters)), dtype=np.int64)
    for i, open_ids in enumerate(knowledge.space.open_ids):
        full_ids[:, i] = open_ids[0]
    full_ids[:, list(model.columns)] = ids
    return full_ids


def _free(pool: Ints, knowledge: Knowledge, taken: Set[Configuration]) -> Ints:
    """Return the distinct rows that are allowed and not taken, in their order."""
    lineage, space = knowledge.space.lineage, knowledge.space
    distinct: dict[tuple[int, ...], None] = dict.fromkeys(map(tuple, pool.tolist()))
    rows = [
        row
        for row in distinct
        if (c := Configuration(row, lineage)) not in taken and space.is_allowed(c)
    ]
    return np.array(rows, dtype=np.int64).reshape(len(rows), pool.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class FeasibilitySearch:
    """Search for configurations that succeed, given the runs so far."""

    axes: tuple[Axis, ...]  # one per parameter
    tried: Ints  # level ids of succeeded, failed and current runs [n, d]
    ended: Floats  # whether each has ended, [n]
    succeeded: Floats  # whether each gave a result, [n]

    @classmethod
    def of(cls, knowledge: Knowledge, ongoing: Sequence[Configuration]) -> FeasibilitySearch:
        """Return the search state after the known runs and the ongoing configurations."""
        done = [o.configuration for o in knowledge.observations]
        failed = [f.configuration for f in knowledge.failures]
        tried = [*done, *failed, *ongoing]
        ids = np.array([c.level_ids for c in tried], dtype=np.int64)
        ended = np.array([1.0] * (len(done) + len(failed)) + [0.0] * len(ongoing))
        succeeded = np.array([1.0] * len(done) + [0.0] * (len(tried) - len(done)))
        axes = tuple(Axis.of(parameter) for parameter in knowledge.space.parameters)
        return cls(axes, ids.reshape(len(tried), len(axes)), ended, succeeded)

    def worth(self, ids: Ints) -> Floats:
        """Return the search priority [m] of level ids [m, d], 0 before the first run."""
        if not len(self.tried):
            return np.zeros(len(ids))
        nearest = np.full(len(ids), np.inf)
        good, all_near = np.zeros(len(ids)), np.zeros(len(ids))
        for row, ended, succeeded in zip(self.tried, self.ended, self.succeeded, strict=True):
            distance = np.zeros(len(ids))
            for i, axis in enumerate(self.axes):
                distance += axis.distances(ids[:, i], row[i])
            np.minimum(nearest, distance, out=nearest)
            near = np.exp(-2.0 * distance * distance)
            good += succeeded * near
            all_near += ended * near
        worths: Floats = np.log((good + 0.15) / (all_near + 0.5)) + 0.5 * np.log(nearest + 1e-3)
        return worths


NEAR = 2  # Most parameters in which a configuration near the best run differs from it

SURE = 0.9
NEGLIGIBLE = 0.02  # Share of the main effects below which a reason does not name a parameter


def improvement_reason(
    model: AnovaModel,
    configuration: Configuration,
    knowledge: Knowledge,
    *,
    exact: bool,
    n_before: int,
) -> str:
    """Explain in a sentence what the model expects of a suggested configuration.

    Args:
        model: model that chose it.
        configuration: the chosen configuration.
        knowledge: state of the experiment at that time.
        exact: whether all free configurations were compared.
        n_before: current runs and earlier suggestions, whose results were imagined.
    """
    prediction = model.predict(configuration)
    field = "free configurations" if exact else "configurations compared"
    if n_before:
        field += f" besides the {n_before} pending" if n_before > 1 else " besides the pending one"
    if prediction.chance is None:
        parts = [f"Most uncertain of the {field}: all results so far are equal"]
    else:
        parts = [
            f"Best expected gain of the {field}: {_percent(prediction.chance)} to beat the best run"
        ]
    if prediction.succeeds < SURE:
        parts.append(f"{_percent(prediction.succeeds)} that it gives a result")
    effects = _best_levels(model, configuration)
    if effects:
        verb = "has" if len(effects) == 1 else "have"
        parts.append(f"{join_listed(effects)} {verb} the best estimated effect")
    leader = best(knowledge.observations)
    if leader is not None:
        parts.append(_beside(model, configuration, leader.configuration))
    return "; ".join(parts) + "."


def feasibility_reason(knowledge: Knowledge) -> str:
    """Explain in a sentence why the search is for a configuration that succeeds."""
    n_failed, n_done = len(knowledge.failures), len(knowledge.observations)
    if not n_failed:
        return "Far from the pending runs, since no run has given a result yet."
    runs = "run" if n_failed == 1 else "runs"
    return (
        f"Far from tried configurations and near successful ones, since {n_failed} {runs} failed "
        f"and {n_done or 'none'} gave a result."
    )


def _best_levels(model: AnovaModel, configuration: Configuration) -> list[str]:
    """Return "order='sjf' (of 8 levels)" for levels with the best main effect, by importance."""
    texts = []
    for name, share in sorted(model.shares.items(), key=lambda item: -item[1]):
        if share < NEGLIGIBLE:
            break
        position = model.space.names.index(name)
        open_ids = model.space.open_ids[position]
        level_id = configuration.level_ids[position]
        values = model.main_values(position)
        if len(open_ids) > 1 and values[level_id] >= max(values[i] for i in open_ids):
            level = show(model.space.parameters[position].levels[level_id])
            texts.append(f"{name}={level} (of {len(open_ids)} levels)")
    return texts


def _beside(model: AnovaModel, configuration: Configuration, leader: Configuration) -> str:
    differences = [
        difference(parameter, a, b)
        for parameter, a, b in zip(
            model.space.parameters, configuration.level_ids, leader.level_ids, strict=True
        )
        if a != b
    ]
    if not differences:
        return "repeats the best run"
    if len(differences) <= NEAR:
        return f"{join_listed(differences)} from the best run"
    return f"unlike the best run in {len(differences)} of {len(model.space.parameters)} parameters"


def _percent(p: float) -> str:
    if p < 0.01:
        return "a chance below 1 %"
    if p > 0.99:
        return "a chance above 99 %"
    return f"a chance of {p:.0%}".replace("%", " %")


Design: TypeAlias = Literal["extremes", "balanced"]

DESIGNS: tuple[Design, ...] = get_args(Design)
DEFAULT_DESIGN: Design = "extremes"
DEFAULT_START = 10
DEFAULT_CAUTION = 1.5
FANTASIES = 8
FEW = 3  # Number of results below which, after a failure, the feasibility search goes first

SEARCH_DRAWS = 256  # Random configurations that the feasibility search compares in large spaces

MOST_ONGOING = 200  # Most current runs (the latest) whose results are imagined

TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Anova:
    """Strategy that maximises the expected improvement under the ANOVA Gaussian process.

    Args:
        start: runs of the initial design.
        design: levels of the initial design: the lowest and highest of ordinal parameters, or all.
        caution: weight of the chance that a run succeeds; 0 ignores failures.
    Raises `OptionError` for values out of bounds.
    """

    start: int = DEFAULT_START
    caution: float = DEFAULT_CAUTION
    design: Design = DEFAULT_DESIGN

    def __post_init__(self) -> None:
        if type(self.start) is not int or self.start < 1:
            raise OptionError(
                f"anova has start={self.start!r}; it must be a whole number from 1 on."
            )
        if type(self.caution) not in (int, float) or not 0 <= self.caution <= 10:
            raise OptionError(f"anova has caution={self.caution!r}; it must be from 0 to 10.")
        if self.design not in DESIGNS:
            raise OptionError(
                f"anova has design={self.design!r}; allowed are {', '.join(DESIGNS)}."
            )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "anova"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations by expected improvement."""
        require_count(n)
        batch = _AnovaBatch(self, knowledge, rng)
        nothing_ended = not knowledge.observations and not knowledge.failures
        batch.add_design(n if nothing_ended else min(n, self.start - len(knowledge.taken)))
        while len(batch.suggestions) < n and batch.add_next():
            pass
        return tuple(batch.suggestions)


def _extremes(space: ParameterSpace) -> ParameterSpace:
    """Return the space with the lowest and highest open level of ordinal parameters only."""
    inner = {
        (parameter.name, level_id)
        for parameter, by_rank in zip(space.parameters, space.open_by_rank, strict=True)
        if parameter.kind == "ordinal"
        for level_id in by_rank[1:-1]
    }
    return replace(space, closed=space.closed | inner)


class _AnovaBatch:
    def __init__(self, anova: Anova, knowledge: Knowledge, rng: np.random.Generator) -> None:
        self.suggestions: list[Suggestion] = []
        self._anova = anova
        self._knowledge = knowledge
        self._rng = rng
        self._taken = set(knowledge.taken)
        self._ongoing = sorted({*knowledge.pending, *knowledge.running}, key=lambda c: c.level_ids)
        self._model = AnovaModel.of(knowledge)

    def add_design(self, n: int) -> None:
        """Add up to n points of the balanced design."""
        if n < 1:
            return
        space, so_far = self._knowledge.space, self._knowledge.taken
        points: tuple[Configuration, ...] = ()
        if self._anova.design == "extremes":
            points = balanced_design(_extremes(space), n, self._rng, self._taken, so_far)
        n_extreme = len(so_far) + len(points)
        if len(points) < n:
            taken = self._taken.union(points)
            more = balanced_design(space, n - len(points), self._rng, taken, {*so_far, *points})
            points = (*points, *more)
        for number, configuration in enumerate(points, len(so_far) + 1):
            tried = "every level of every parameter"
            if number <= n_extreme:
                tried = "the ends of ordinal parameters and all levels of others"
            reason = f"Run {number} of the initial design: {tried}, about equally often."
            self._add(configuration, "initial", reason)

    def add_next(self) -> bool:
        """Add the most promising free configuration and return whether there was one."""
        knowledge, n_results = self._knowledge, len(self._knowledge.observations)
        if n_results < FEW and (knowledge.failures or n_results == 0):
            return self._add_scout()
        model = self._model
        assert model is not None  # there is a result  # noqa: S101
        fantasy = self._fantasy(model)

        def worth(ids: Ints) -> Floats:
            return self._worth(model, fantasy, model.reduced(ids))

        free = free_ids(knowledge, self._taken)
        if free is not None:
            configuration = self._best(free, worth(free)) if len(free) else None
        else:
            configuration = best_of_pool(model, knowledge, self._taken, worth, self._rng)
        if configuration is None:
            return self._add_random() if free is None else False
        n_before = len(self._ongoing) + len(self.suggestions)
        exact = free is not None
        reason = improvement_reason(model, configuration, knowledge, exact=exact, n_before=n_before)
        self._add(configuration, "improvement", reason)
        return True

    def _add_scout(self) -> bool:
        """Add the best configuration of the feasibility search; return False if none is left."""
        knowledge = self._knowledge
        free = free_ids(knowledge, self._taken)
        if free is None:
            candidates = (
                knowledge.space.sample(self._rng, self._taken) for _ in range(SEARCH_DRAWS)
            )
            free = np.array([c.level_ids for c in candidates if c is not None], dtype=np.int64)
            free = free.reshape(-1, len(knowledge.space.parameters))
        if not len(free):
            return False
        tried = [*self._ongoing, *(s.configuration for s in self.suggestions)]
        scouting = FeasibilitySearch.of(knowledge, tried)
        self._add(self._best(free, scouting.worth(free)), "random", feasibility_reason(knowledge))
        return True

    def _add_random(self) -> bool:
        configuration = self._knowledge.space.sample(self._rng, self._taken)
        if configuration is None:
            return False
        reason = "Drawn at random, since no configuration near the constructions is free."
        self._add(configuration, "random", reason)
        return True

    def _fantasy(self, model: AnovaModel) -> tuple[Posterior, Floats]:
        """Return the posterior with imagined results of the current runs, and the target to beat.

        Without current runs that is the posterior itself; else targets have a column per fantasy,
        and so has the target to beat.
        """
        ongoing = [*self._ongoing, *(s.configuration for s in self.suggestions)][-MOST_ONGOING:]
        if not ongoing:
            return model.posterior, np.array([model.best])
        ids = model.ids_of(ongoing)
        draws = model.posterior.sample(ids, FANTASIES, self._rng)
        z = np.repeat(model.targets.z[:, None], FANTASIES, axis=1)
        targets = np.concatenate([z, draws])
        all_ids = np.concatenate([model.ids, ids])
        imagined = Posterior(model.axes, model.hyperparameters, all_ids, targets)
        mean, _ = imagined.predict(ids)  # without noise
        return imagined, np.maximum(mean.max(axis=0), model.best)

    def _worth(self, model: AnovaModel, fantasy: tuple[Posterior, Floats], ids: Ints) -> Floats:
        """Return log expected improvement + caution x log chance of success, [m]."""
        posterior, best = fantasy
        mean, sd = posterior.predict(ids)
        if mean.ndim == 1:
            worth = log_expected_improvement(mean, sd, float(best[0]))
        else:
            each = log_expected_improvement(mean, sd[:, None], best)
            worth = np.logaddexp.reduce(each, axis=1) - np.log(best.size)
        if model.validity is not None and self._anova.caution > 0:
            worth = worth + self._anova.caution * np.log(model.validity.chance(ids))
        return worth

    def _best(self, free: Ints, worth: Floats) -> Configuration:
        """Return the free configuration of greatest worth; ties are broken at random."""
        equals = np.flatnonzero(worth >= worth.max() - TIE)
        level_ids = free[equals[self._rng.integers(len(equals))]]
        return Configuration(tuple(int(i) for i in level_ids), self._knowledge.space.lineage)

    def _add(self, configuration: Configuration, kind: SuggestionKind, reason: str) -> None:
        self._taken.add(configuration)
        expected = self._model.predict(configuration) if self._model else None
        self.suggestions.append(
            Suggestion(
                configuration,
                self._anova.name,
                reason,
                kind,
                expected.value if expected else None,
                expected.interval if expected else None,
                chance=expected.chance if expected else None,
            )
        )


ANOVA = StrategyEntry(
    "anova",
    "The default: expected improvement under one model of main effects and interactions, "
    "after a balanced design.",
    Anova,
    (
        StrategyOption(
            "start", int, DEFAULT_START, 1.0, None, "runs of the initial balanced design"
        ),
        StrategyOption(
            "caution", float, DEFAULT_CAUTION, 0.0, 10.0,
            "weight of the chance that a run succeeds; 0 ignores failures",
        ),
        StrategyOption(
            "design", str, DEFAULT_DESIGN,
            summary="levels of the first runs: the ends of ordinal parameters, or all",
            choices=DESIGNS,
        ),
    ),
    starts=True,
)  # fmt: skip
