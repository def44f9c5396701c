"""The default strategy: GRASP over a factorial model of main effects and interactions.

It is the Copper paper's idea, greedy randomised constructions and a local search on the effects of
a full-factorial model, with two things of our own: the model is the Gaussian process of
`AnovaModel`, which needs no complete factorial and states how uncertain it is, and what is
maximised is the expected improvement. The paper's own algorithms are `strategies.Copper`.

1. Before there are results: a balanced design, then a search for configurations that succeed.
2. Construction: parameter after parameter, in random order, a level is drawn from a candidate list:
   the levels whose expected quality, given the levels chosen so far and averaged over the rest, is
   at least least + greediness (most - least).
3. Local search: the best constructions, neighbours of the best runs and random configurations are
   improved one parameter at a time.

References: Silva, Netto et al., Copper (section 3.1); Feo & Resende 1995 (GRASP); Jones, Schonlau &
Welch 1998 (expected improvement); Snoek, Larochelle & Adams 2012 (fantasies); Gardner et al. 2014
(chance of feasibility). ``python -m benchmarks.search`` compares it with others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from strategies.blas_threads import single_blas_thread
from strategies.data.observation import best
from strategies.doe.main_effects import Knowledge
from strategies.gp.anova_model import AnovaModel, RunPrediction, free_ids
from strategies.gp.gaussian_process import Axis, Floats, Ints, Posterior, log_expected_improvement
from strategies.gp.transfer import informed_model, transfer_of
from strategies.samplers.latin_hypercube import balanced_design
from strategies.samplers.strategy import (
    LISTED_PARTS,
    StrategyEntry,
    StrategyOption,
    Suggestion,
    SuggestionKind,
    differences,
    join_listed,
    require_count,
)
from strategies.space.errors import OptionError
from strategies.space.parameter import show
from strategies.space.parameter_space import Configuration, ParameterSpace

CONSTRUCTIONS = 256
ORDERS = 4  # Orders of the parameters; constructions are divided among them

RANDOM = 512  # Random free configurations in the pool; all of them, if fewer are free
ROWS = 6_000  # Random given rows in the pool: hardly one is a construction or a neighbour
POOL_CENTRES = 8  # Best configurations of the pool whose neighbours are evaluated in each round

ROUNDS = 6
NEARBY = 48  # Most other levels of a parameter that count as neighbours

Worth = Callable[[Ints], Floats]  # Worth [m] of level ids [m, d]


@dataclass(frozen=True, slots=True, eq=False)
class Constructions:
    """Greedy randomised constructions: their level ids and candidate lists.

    The levels are open; the configurations may be excluded.
    """

    level_ids: Ints  # [m, parameters]
    n_candidates: Ints  # length of the candidate list of each level, [m, parameters]


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a configuration that a local search found."""

    start: Literal["construction", "run", "random", "row"]
    configuration: Configuration  # where the local search started
    candidates: tuple[int, ...] = ()  # lengths of the candidate lists of a construction


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Best free configuration of a local search, and where it comes from."""

    configuration: Configuration
    origin: Origin


def local_search(
    model: AnovaModel,
    knowledge: Knowledge,
    taken: Set[Configuration],
    worth: Worth,
    rng: np.random.Generator,
) -> SearchResult | None:
    """Return the free configuration of greatest `worth` that GRASP finds, or None."""
    search = _LocalSearch(knowledge, taken, worth, rng)
    search.add_constructions(constructions(model, knowledge, rng))
    runs = np.argsort(-model.targets.z, kind="stable")[:POOL_CENTRES]
    search.add_neighbours(_full_level_ids(model, knowledge, model.ids[runs]))
    search.add_random()
    for _ in range(ROUNDS):
        if not search.evaluate():
            break
        search.add_neighbours(search.centres)
    return search.result()


def best_by(
    knowledge: Knowledge, taken: Set[Configuration], worth: Worth, rng: np.random.Generator
) -> Configuration | None:
    """Return the free configuration of greatest `worth` near random ones, without a model of runs.

    It climbs until no change of one parameter is better. None if no configuration is free.
    """
    search = _LocalSearch(knowledge, taken, worth, rng)
    search.add_random()
    while search.evaluate():
        search.add_neighbours(search.centres)
    found = search.result()
    return None if found is None else found.configuration


class _LocalSearch:
    """Local search from a pool: rounds of evaluations and of one-parameter neighbours."""

    def __init__(
        self,
        knowledge: Knowledge,
        taken: Set[Configuration],
        worth: Worth,
        rng: np.random.Generator,
    ) -> None:
        self._space = knowledge.space
        self._taken = taken
        self._taken_ids = {configuration.level_ids for configuration in taken}
        self._worth = worth
        self._rng = rng
        self._pool: list[tuple[int, ...]] = []  # to evaluate in the next round
        self._parents: dict[tuple[int, ...], tuple[int, ...] | None] = {}  # of all in any pool
        self._candidates: dict[tuple[int, ...], tuple[int, ...]] = {}  # of constructions
        self._random: set[tuple[int, ...]] = set()
        self._best: tuple[float, tuple[int, ...]] | None = None
        self.centres: Ints = np.zeros((0, len(self._space.parameters)), dtype=np.int64)

    def _add(self, row: tuple[int, ...], parent: tuple[int, ...] | None = None) -> bool:
        """Add level ids to the pool and return whether they are new to the search."""
        if row in self._parents:
            return False
        self._parents[row] = parent
        self._pool.append(row)
        return True

    def add_constructions(self, built: Constructions) -> None:
        """Add constructions to the pool."""
        for row, sizes in zip(built.level_ids.tolist(), built.n_candidates.tolist(), strict=True):
            if self._add(tuple(row)):
                self._candidates[tuple(row)] = tuple(sizes)

    def add_random(self) -> None:
        """Add up to `RANDOM` configurations: free ones, where all can be listed.

        Where only given rows are allowed, it adds up to `ROWS` of them.
        """
        rows = self._space.rows
        if rows:
            places = self._rng.permutation(len(rows))[:ROWS]
            self._random.update(row for place in places if self._add(row := rows[place]))
            return
        free = free_ids(Knowledge(self._space), self._taken)
        if free is None:
            columns = [
                np.array(ids)[self._rng.integers(len(ids), size=RANDOM)]
                for ids in self._space.open_ids
            ]
            drawn = self._space.canonical_ids(np.stack(columns, axis=1))
        elif len(free) > RANDOM:
            drawn = free[self._rng.choice(len(free), RANDOM, replace=False)]
        else:
            drawn = free
        self._random.update(tuple(row) for row in drawn.tolist() if self._add(tuple(row)))

    def add_neighbours(self, centres: Ints) -> None:
        """Add the configurations that differ from a centre [m, parameters] in one parameter."""
        for centre in centres:
            parent = tuple(centre.tolist())
            self._add(parent)
            for row in _one_step_ids(centre, self._space, self._rng).tolist():
                moved = tuple(row)
                if self._space.conditions is not None:
                    moved = self._space.activated(parent, moved, self._rng).level_ids
                self._add(moved, parent)

    def evaluate(self) -> bool:
        """Evaluate the pool; set its best as `centres` and return whether the best improved."""
        rows = self._space.allowed_of([row for row in self._pool if row not in self._taken_ids])
        self._pool = []
        if not rows:
            return False
        ids = np.array(rows, dtype=np.int64)
        worths = self._worth(ids)
        order = np.argsort(-worths, kind="stable")[:POOL_CENTRES]
        top = float(worths[order[0]])
        if self._best is not None and top <= self._best[0]:
            return False
        equals = np.flatnonzero(worths >= top - TIE)
        self._best = top, rows[int(equals[self._rng.integers(len(equals))])]
        self.centres = ids[order]
        return True

    def result(self) -> SearchResult | None:
        """Return the best configuration with its origin; None if the pool had no free one."""
        if self._best is None:
            return None
        row = start = self._best[1]
        while (parent := self._parents[start]) is not None:
            start = parent
        sizes = self._candidates.get(start, ())
        kind: Literal["construction", "run", "random", "row"] = "run"
        if sizes:
            kind = "construction"
        elif start in self._random:
            kind = "row" if self._space.rows else "random"
        lineage = self._space.lineage
        origin = Origin(kind, Configuration(start, lineage), sizes)
        return SearchResult(Configuration(row, lineage), origin)


def constructions(
    model: AnovaModel, knowledge: Knowledge, rng: np.random.Generator
) -> Constructions:
    """Build `CONSTRUCTIONS` candidates level by level, each with a random greediness."""
    space, posterior = knowledge.space, model.posterior
    h, d = model.hyperparameters, max(len(model.axes), 1)
    levels = model.averaging_levels()
    per_order = CONSTRUCTIONS // ORDERS
    level_ids = np.zeros((CONSTRUCTIONS, len(space.parameters)), dtype=np.int64)
    n_candidates = np.ones_like(level_ids)
    for i, ids in enumerate(space.open_ids):
        level_ids[:, i] = ids[0]
    correlations = [posterior.correlation(i, levels[i]) for i in range(len(model.axes))]
    means = [z.mean(axis=0) for z in correlations]
    weights = posterior.weights
    for block in range(ORDERS):
        rows = slice(block * per_order, (block + 1) * per_order)
        greediness = rng.random(per_order)
        product = np.ones((per_order, len(weights)))
        rest = np.prod(means, axis=0) if means else np.ones(len(weights))
        for i in rng.permutation(len(model.axes)):
            z = correlations[i]
            rest = rest / means[i]
            effects = h.main / d * (z @ weights) + h.product * ((product * rest * weights) @ z.T)
            candidates = reduced_candidate_lists(effects, greediness)
            lots = np.where(candidates, rng.random(effects.shape), -1.0)
            choice: Ints = lots.argmax(axis=1)
            product *= z[choice]
            level_ids[rows, model.columns[i]] = levels[i][choice]
            n_candidates[rows, model.columns[i]] = candidates.sum(axis=1)
    return Constructions(space.canonical_ids(level_ids), n_candidates)


def reduced_candidate_lists(effects: Floats, greediness: Floats) -> NDArray[np.bool_]:
    """Return which levels are good enough to be drawn, bool [m, levels].

    Args:
        effects: expected quality of each level, [m, levels].
        greediness: share [m] of the range of effects that a level must reach, 0 to 1.
    """
    least, most = effects.min(axis=1), effects.max(axis=1)
    threshold = least + greediness * (most - least)
    listed: NDArray[np.bool_] = effects >= np.minimum(threshold, most)[:, None]
    return listed


def _one_step_ids(centre: Ints, space: ParameterSpace, rng: np.random.Generator) -> Ints:
    """Return the configurations that differ from a centre in one parameter (or none), [m, d].

    Of a parameter with many levels the nearest ones and some at random.
    """
    blocks = []
    for i, (parameter, ids) in enumerate(zip(space.parameters, space.open_ids, strict=True)):
        alternatives = np.array(ids, dtype=np.int64)
        if alternatives.size > NEARBY:
            ranks = np.array(parameter.ranks)[alternatives]
            near = np.argsort(np.abs(ranks - parameter.ranks[centre[i]]), kind="stable")
            half = NEARBY // 2
            drawn = alternatives[rng.integers(alternatives.size, size=half)]
            alternatives = np.concatenate([alternatives[near[:half]], drawn])
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
    n_levels = [parameter.n_levels for parameter in knowledge.space.parameters]
    return np.where(full_ids == n_levels, 0, full_ids)  # inactive


@dataclass(frozen=True, slots=True, eq=False)
class FeasibilitySearch:
    """Search for configurations that succeed, given the runs so far."""

    space: ParameterSpace
    axes: tuple[Axis, ...]  # one per parameter
    tried: Ints  # level ids of succeeded, failed and current runs [n, d], inactive ones marked
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
        marked = knowledge.space.marked_ids(ids.reshape(len(tried), len(axes)))
        return cls(knowledge.space, axes, marked, ended, succeeded)

    def worth(self, ids: Ints) -> Floats:
        """Return the search priority [m] of level ids [m, d], 0 before the first run."""
        if not len(self.tried):
            return np.zeros(len(ids))
        ids = self.space.marked_ids(ids)
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
    found: SearchResult,
    prediction: RunPrediction,
    knowledge: Knowledge,
    *,
    n_before: int,
) -> str:
    """Explain in a sentence how a suggested configuration was found and what it promises.

    Args:
        model: model that chose it.
        found: the chosen configuration, with its origin.
        prediction: of the model for that configuration.
        knowledge: state of the experiment at that time.
        n_before: current runs and earlier suggestions, whose results were imagined.
    """
    leader = best(knowledge.observations)
    is_leader = leader is not None and found.origin.configuration == leader.configuration
    parts = [_origin_text(model, found, with_steps=not is_leader)]
    besides = ""
    if n_before:
        besides = f" besides the {n_before} pending" if n_before > 1 else " besides the pending one"
    if prediction.chance is None:
        parts.append(f"the most uncertain{besides}, since all results so far are equal")
    else:
        chance = _percent(prediction.chance)
        parts.append(f"the best expected gain{besides}: {chance} to beat the best run")
    if prediction.succeeds < SURE:
        parts.append(f"{_percent(prediction.succeeds)} that it gives a result")
    if leader is not None:
        parts.append(_beside(model, found.configuration, leader.configuration))
    return "; ".join(parts) + "."


def _origin_text(model: AnovaModel, found: SearchResult, *, with_steps: bool) -> str:
    """Return "Greedy construction (order=sjf from 2 of 8 levels, ...)" or where it was found."""
    origin = found.origin
    if origin.start == "random":
        start = "a random configuration"
    elif origin.start == "row":
        start = f"one of the {len(model.space.rows):,} given rows"
    elif origin.start == "run":
        start = "a good run"
    else:
        start = f"Greedy construction{_candidate_lists(model, origin)}"
    if found.configuration == origin.configuration:
        return start[0].upper() + start[1:]
    start = f"a g{start[1:]}" if origin.start == "construction" else start
    texts = differences(model.space, found.configuration, origin.configuration)
    return f"Neighbour of {start}" + (f": {join_listed(texts)}" if with_steps else "")


def _candidate_lists(model: AnovaModel, origin: Origin) -> str:
    """Return " (order=sjf from 2 of 8 levels, ...)" by importance; "" if no parameter matters."""
    texts: list[str] = []
    inactive = model.space.inactive(origin.configuration)
    for name, share in sorted(model.shares.items(), key=lambda item: -item[1]):
        if share < NEGLIGIBLE or len(texts) == LISTED_PARTS:
            break
        position = model.space.names.index(name)
        n_levels = len(model.space.open_ids[position])
        if n_levels > 1 and name not in inactive:
            level_id = origin.configuration.level_ids[position]
            level = show(model.space.parameters[position].levels[level_id])
            texts.append(f"{name}={level} from {origin.candidates[position]} of {n_levels} levels")
    return f" ({', '.join(texts)})" if texts else ""


def promising_reason(knowledge: Knowledge) -> str:
    """Say by which earlier sweeps a first run looks promising."""
    names = [f"'{sweep.experiment_id}'" for sweep in knowledge.earlier]
    sweeps = "sweep" if len(names) == 1 else "sweeps"
    return f"the best prediction by the earlier {sweeps} {join_listed(names)}"


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


def _beside(model: AnovaModel, configuration: Configuration, leader: Configuration) -> str:
    texts = differences(model.space, configuration, leader)
    if not texts:
        return "repeats the best run"
    if len(texts) <= NEAR:
        return f"{join_listed(texts)} from the best run"
    return f"unlike the best run in {len(texts)} of {len(model.space.parameters)} parameters"


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

UNLIKELY = 0.15  # Chance of success below which a configuration goes last
BOLD_EVERY = 5  # One run in so many may be unlikely to succeed
LAST = 1e9

SEARCH_DRAWS = 256  # Random configurations that the feasibility search compares in large spaces

PROMISING = 4  # First runs that earlier sweeps choose
APART = 2  # Least number of parameters in which a promising first run differs from the others
TOO_NEAR = 1e3

MOST_ONGOING = 200  # Most current runs (the latest) whose results are imagined

TIE = 1e-9

KIND_OF: dict[str, SuggestionKind] = {
    "construction": "construction", "run": "neighbour", "random": "random", "row": "improvement"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grasp:
    """Strategy that constructs greedily and searches locally for the greatest expected improvement.

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
                f"grasp has start={self.start!r}; it must be a whole number from 1 on."
            )
        if type(self.caution) not in (int, float) or not 0 <= self.caution <= 10:
            raise OptionError(f"grasp has caution={self.caution!r}; it must be from 0 to 10.")
        if self.design not in DESIGNS:
            raise OptionError(
                f"grasp has design={self.design!r}; allowed are {', '.join(DESIGNS)}."
            )

    @property
    def name(self) -> str:
        """Registered name of the strategy."""
        return "grasp"

    @single_blas_thread
    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations by expected improvement."""
        require_count(n)
        batch = _GraspBatch(self, knowledge, rng)
        nothing_ended = not knowledge.observations and not knowledge.failures
        if knowledge.earlier:
            batch.add_promising(min(n, min(self.start, PROMISING) - len(knowledge.taken)))
        left, n_taken = n - len(batch.suggestions), len(knowledge.taken) + len(batch.suggestions)
        batch.add_design(left if nothing_ended else min(left, self.start - n_taken))
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


class _GraspBatch:
    def __init__(self, grasp: Grasp, knowledge: Knowledge, rng: np.random.Generator) -> None:
        self.suggestions: list[Suggestion] = []
        self._grasp = grasp
        self._knowledge = knowledge
        self._rng = rng
        self._taken = set(knowledge.taken)
        self._ongoing = sorted({*knowledge.pending, *knowledge.running}, key=lambda c: c.level_ids)
        model_of = informed_model if knowledge.earlier else AnovaModel.of
        self._model = model_of(knowledge)

    def add_promising(self, n: int) -> None:
        """Add up to n configurations by the earlier sweeps.

        First the best run of each, then what their models predict to be best, apart from another.
        """
        knowledge, space = self._knowledge, self._knowledge.space
        transfer = transfer_of(space, knowledge.earlier)
        for sweep in knowledge.earlier:
            best_run = sweep.best_in(space)
            if n < 1 or best_run is None or best_run in self._taken:
                continue
            if space.is_allowed(best_run):
                reason = f"the best run of the earlier sweep '{sweep.experiment_id}'"
                self._add_initial(best_run, reason)
                n -= 1
        for _ in range(n):
            taken = np.array([c.level_ids for c in self._taken], dtype=np.int64)

            def worth(ids: Ints, taken: Ints = taken) -> Floats:
                worth = transfer.promise(ids)
                for row in taken:
                    worth = worth - TOO_NEAR * ((ids != row).sum(axis=1) < APART)
                return worth

            found = best_by(knowledge, self._taken, worth, self._rng)
            if found is None:
                return
            self._add_initial(found, promising_reason(knowledge))

    def _add_initial(self, configuration: Configuration, reason: str) -> None:
        number = len(self._taken) + 1
        self._add(configuration, "initial", f"Run {number} of the initial design: {reason}.")

    def add_design(self, n: int) -> None:
        """Add up to n points of the balanced design."""
        if n < 1:
            return
        space = self._knowledge.space
        so_far = self._knowledge.taken.union(s.configuration for s in self.suggestions)
        points: tuple[Configuration, ...] = ()
        if self._grasp.design == "extremes":
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

        found = local_search(model, knowledge, self._taken, worth, self._rng)
        if found is None:
            return self._add_random()
        n_before = len(self._ongoing) + len(self.suggestions)
        expected = model.predict(found.configuration)
        reason = improvement_reason(model, found, expected, knowledge, n_before=n_before)
        origin, kind = found.origin, KIND_OF[found.origin.start]
        moved = found.configuration != origin.configuration
        near = origin.configuration if moved else None
        self._add(found.configuration, "neighbour" if moved else kind, reason, near, expected)
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
        imagined = model.posterior.imagining(all_ids, targets)
        mean, _ = imagined.predict(ids)  # without noise
        return imagined, np.maximum(mean.max(axis=0), model.best)

    def _worth(self, model: AnovaModel, fantasy: tuple[Posterior, Floats], ids: Ints) -> Floats:
        """Return log expected improvement + caution x log chance of success, [m].

        What has hardly a chance of success goes last, but for one run in `BOLD_EVERY`: a level that
        failed with others may be what the optimum needs.
        """
        posterior, best = fantasy
        mean, sd = posterior.predict(ids)
        if mean.ndim == 1:
            worth = log_expected_improvement(mean, sd, float(best[0]))
        else:
            each = log_expected_improvement(mean, sd[:, None], best)
            worth = np.logaddexp.reduce(each, axis=1) - np.log(best.size)
        if model.validity is not None and self._grasp.caution > 0:
            chance = model.validity.chance(ids)
            worth = worth + self._grasp.caution * np.log(chance)
            if (len(self._knowledge.taken) + len(self.suggestions)) % BOLD_EVERY:
                worth = np.where(chance < UNLIKELY, worth - LAST, worth)
        return worth

    def _best(self, free: Ints, worth: Floats) -> Configuration:
        """Return the free configuration of greatest worth; ties are broken at random."""
        equals = np.flatnonzero(worth >= worth.max() - TIE)
        level_ids = free[equals[self._rng.integers(len(equals))]]
        return Configuration(tuple(int(i) for i in level_ids), self._knowledge.space.lineage)

    def _add(
        self,
        configuration: Configuration,
        kind: SuggestionKind,
        reason: str,
        near: Configuration | None = None,
        expected: RunPrediction | None = None,
    ) -> None:
        self._taken.add(configuration)
        if expected is None and self._model is not None:
            expected = self._model.predict(configuration)
        self.suggestions.append(
            Suggestion(
                configuration,
                self._grasp.name,
                reason,
                kind,
                expected.value if expected else None,
                expected.interval if expected else None,
                near,
                chance=expected.chance if expected else None,
            )
        )


GRASP = StrategyEntry(
    "grasp",
    "The default: greedy randomised constructions and local search on a factorial model of main "
    "effects and interactions, after a balanced design.",
    Grasp,
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
    learns=True,
)  # fmt: skip
