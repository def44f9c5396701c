"""Levels that may be closed: where even a favourable reading of the model promises nothing. Pure.

A level is hopeless if at least 3 runs tried it, and three things lie below both the goal and the
best run: all its results, the 95 % upper bound of what is expected with it on average, and that of
a single run of each of the best 5 configurations, and of 256 from all over the space, with this
level in place of theirs. The last asks whether it would do well in some company: an average over
all other parameters alone would condemn a level that is good with the right partner.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import stdtrit

from assistant.experiment import Experiment
from strategies import AnovaModel, Configuration, Level, ParameterSpace, responses

LEAST_COUNT = 3
"""Runs with a level before it may be called hopeless."""

COMPANY = 5
ANYWHERE = 256
"""Best configurations, and others from all over the space, that a level is tried in."""

CONFIDENCE = 0.95

SHARE = 0.5
MOST = 3
"""Levels that are closed at most: of a parameter's open ones, and in all. The model is surer than
it should be, and every level closed can be one too many."""


def hopeless_levels(experiment: Experiment, goal: float) -> tuple[tuple[str, Level], ...]:
    """Return the levels that could be closed, at most 3, the least promising first.

    Never a level of the best run, of today's configuration or one that is preferred, and never more
    than half of a parameter's open levels.

    Args:
        experiment: as far as it has come.
        goal: a quality; greater is better.
    """
    knowledge, best = experiment.knowledge, experiment.best
    model = AnovaModel.of(knowledge)
    if model is None or best is None:
        return ()
    space, observations = experiment.space, knowledge.observations
    response = responses(observations)
    bar = min(float(response.max()), goal)
    ranked = sorted(zip(response, observations, strict=True), key=lambda one: -float(one[0]))
    good = list(dict.fromkeys(one.configuration for _, one in ranked))[:COMPANY]
    company = (*good, *_spread(space))
    kept = [best.configuration, good[0]]
    if experiment.opened.baseline is not None:
        kept.append(experiment.opened.baseline)
    found: list[tuple[float, int, int]] = []
    for position, parameter in enumerate(space.parameters):
        open_ids = space.open_ids[position]
        spared = {one.level_ids[position] for one in kept}
        hopeless = []
        for marginal in model.main_effect(parameter.name):
            (level_id,) = marginal.level_ids
            is_spared = level_id in spared or (parameter.name, level_id) in space.preferred
            if level_id not in open_ids or is_spared or marginal.count < LEAST_COUNT:
                continue
            own = [
                float(value)
                for value, one in zip(response, observations, strict=True)
                if one.configuration.level_ids[position] == level_id
            ]
            if max(*own, marginal.interval[1]) >= bar:
                continue
            ceiling = _in_company(model, company, position, level_id)
            if ceiling < bar:
                hopeless.append((ceiling, position, level_id))
        found += sorted(hopeless)[: int(SHARE * len(open_ids))]
    return tuple(
        (space.parameters[position].name, space.parameters[position].levels[level_id])
        for _, position, level_id in sorted(found)[:MOST]
    )


def _spread(space: ParameterSpace) -> Iterator[Configuration]:
    """Yield open configurations spread over the space, the same ones each time."""
    rng = np.random.default_rng(0)
    for _ in range(ANYWHERE):
        yield Configuration(tuple(int(rng.choice(ids)) for ids in space.open_ids), space.lineage)


def _in_company(
    model: AnovaModel, company: Sequence[Configuration], position: int, level_id: int
) -> float:
    """Return the greatest upper bound of a run of these configurations with another level."""
    swapped = [
        Configuration((*one.level_ids[:position], level_id, *one.level_ids[position + 1 :]), "")
        for one in company
    ]
    mean, sd = model.posterior.predict(model.ids_of(swapped))
    sd = model.doubt * np.sqrt(sd**2 + model.hyperparameters.noise)
    upper = mean + sd * float(stdtrit(model.freedom, 0.5 + CONFIDENCE / 2))
    return model.targets.response(float(upper.max()))
