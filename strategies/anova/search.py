"""The strongest strategy: expected improvement under an ANOVA model of the grid.

1. The first `start` runs are a design balanced in its levels: of ordinal parameters the lowest and
   the highest (as in two-level factorials: there effects show most, and there the best of a real
   program often is), of nominal ones all. ``design="balanced"`` takes all levels of both. Whatever
   was run or imported counts; more of them come only while no run has ended.
2. Then the model (`AnovaModel`) is fitted, and the free configuration of greatest
   log expected improvement + `caution` x log chance of success is proposed: of all of them up to
   50,000, beyond of a pool of greedy randomised constructions on the model's effects.
3. What waits or runs is imagined to have ended (fantasies): its results are drawn from the model,
   and the improvement averaged over the draws. So are the earlier suggestions of a batch.

While fewer than three runs have given a result and some have failed, it looks for a place where
runs succeed at all: near successes, far from what was tried.

References: Jones, Schonlau & Welch 1998 (expected improvement); Snoek, Larochelle & Adams 2012
(fantasies); Gardner et al. 2014 (chance of feasibility). What is ours: the kernel, the targets and
the pool; ``python -m benchmarks.search`` measures it beside others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from strategies.anova.acquisition import log_expected_improvement
from strategies.anova.kernel import Floats, Ints
from strategies.anova.model import AnovaModel
from strategies.anova.pool import best_of_pool, free_ids
from strategies.anova.posterior import Posterior
from strategies.anova.scouting import Scouting
from strategies.anova.words import improvement_reason, scouting_reason
from strategies.balanced import balanced_design
from strategies.base import Suggestion, SuggestionKind, require_count
from strategies.configuration import Configuration
from strategies.errors import OptionError
from strategies.knowledge import Knowledge
from strategies.space import ParameterSpace

Design: TypeAlias = Literal["extremes", "balanced"]

DESIGNS: tuple[Design, ...] = get_args(Design)
DEFAULT_DESIGN: Design = "extremes"
DEFAULT_START = 10
DEFAULT_CAUTION = 1.5
FANTASIES = 8
FEW = 3
"""Results below which, once runs have failed, places that work are looked for first."""

SCOUTED = 256
"""Random configurations among which a place that works is looked for in large spaces."""

MOST_ONGOING = 200
"""Runs under way that are imagined to have ended at most, the latest ones."""

TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Anova:
    """Expected improvement under the ANOVA model.

    Args:
        start: runs of the design that comes first.
        design: its levels: of ordinal parameters the lowest and the highest, or all of them.
        caution: weight of the chance that a run succeeds; 0 ignores failures.
    Raises `OptionError` outside these.
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
        """Name under which it is registered."""
        return "anova"

    def suggest(
        self, n: int, knowledge: Knowledge, rng: np.random.Generator
    ) -> tuple[Suggestion, ...]:
        """Propose ``n`` configurations; see `Strategy.suggest`."""
        require_count(n)
        batch = _Batch(self, knowledge, rng)
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


class _Batch:
    """Suggestions collected in one call."""

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
                tried = "the lowest and highest of ordered levels and all others"
            reason = f"Run {number} of the design that comes first: {tried}, about equally often."
            self._add(configuration, "initial", reason)

    def add_next(self) -> bool:
        """Add the most promising free configuration; return False if none is left."""
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
        """Add a configuration near successes and far from what was tried; False if none is left."""
        knowledge = self._knowledge
        free = free_ids(knowledge, self._taken)
        if free is None:
            drawn = (knowledge.space.sample(self._rng, self._taken) for _ in range(SCOUTED))
            free = np.array([c.level_ids for c in drawn if c is not None], dtype=np.int64)
            free = free.reshape(-1, len(knowledge.space.parameters))
        if not len(free):
            return False
        tried = [*self._ongoing, *(s.configuration for s in self.suggestions)]
        scouting = Scouting.of(knowledge, tried)
        self._add(self._best(free, scouting.worth(free)), "random", scouting_reason(knowledge))
        return True

    def _add_random(self) -> bool:
        configuration = self._knowledge.space.sample(self._rng, self._taken)
        if configuration is None:
            return False
        reason = "Drawn at random, since nothing near the constructions is free any more."
        self._add(configuration, "random", reason)
        return True

    def _fantasy(self, model: AnovaModel) -> tuple[Posterior, Floats]:
        """Return the posterior with all that goes on imagined to have ended, and what to beat.

        Without anything under way that is the posterior itself; else targets have a column per
        fantasy, and so has what is to be beaten.
        """
        ongoing = [*self._ongoing, *(s.configuration for s in self.suggestions)][-MOST_ONGOING:]
        if not ongoing:
            return model.posterior, np.array([model.best])
        ids = model.ids_of(ongoing)
        drawn = model.posterior.sample(ids, FANTASIES, self._rng)
        z = np.repeat(model.targets.z[:, None], FANTASIES, axis=1)
        targets = np.concatenate([z, drawn])
        all_ids = np.concatenate([model.ids, ids])
        imagined = Posterior(model.axes, model.hyperparameters, all_ids, targets)
        mean, _ = imagined.predict(ids)  # without the noise that was drawn
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
        """Return the free configuration of greatest worth, one of the equals at random."""
        equals = np.flatnonzero(worth >= worth.max() - TIE)
        chosen = free[equals[self._rng.integers(len(equals))]]
        return Configuration(tuple(int(i) for i in chosen), self._knowledge.space.lineage)

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
