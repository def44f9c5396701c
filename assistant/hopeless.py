"""Levels that may be closed: where even a favourable reading of the model promises nothing. Pure.

A level is hopeless if at least 3 runs tried it, and three things lie below both the goal and the
best run: all its results, the 95 % upper bound of what is expected with it on average, and that of
the best 5 configurations with this level in place of theirs. The last asks whether it would do well
in good company: an average over all other parameters alone would condemn a level that is good with
the right partner.
"""

from __future__ import annotations

from assistant.experiment import Experiment
from strategies import AnovaModel, Configuration, Level, responses

LEAST_COUNT = 3
"""Runs with a level before it may be called hopeless."""

COMPANY = 5
"""Best configurations that a level is tried in."""

MOST_CLOSED = 0.5
"""Of the open levels of a parameter, so that at least half of them stay."""


def hopeless_levels(experiment: Experiment, goal: float) -> tuple[tuple[str, Level], ...]:
    """Return the levels that could be closed, parameter by parameter, the least promising first.

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
    company = list(dict.fromkeys(one.configuration for _, one in ranked))[:COMPANY]
    kept = [best.configuration, company[0]]
    if experiment.opened.baseline is not None:
        kept.append(experiment.opened.baseline)
    found: list[tuple[str, Level]] = []
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
            if max([*own, marginal.interval[1]]) >= bar:
                continue
            if _in_company(model, company, position, level_id) < bar:
                hopeless.append((marginal.value, level_id))
        most = int(MOST_CLOSED * len(open_ids))
        found += [(parameter.name, parameter.levels[i]) for _, i in sorted(hopeless)[:most]]
    return tuple(found)


def _in_company(
    model: AnovaModel, company: list[Configuration], position: int, level_id: int
) -> float:
    """Return the greatest upper bound of good configurations with another level."""
    bounds = []
    for one in company:
        ids = (*one.level_ids[:position], level_id, *one.level_ids[position + 1 :])
        bounds.append(model.predict(Configuration(ids, one.lineage)).interval[1])
    return max(bounds)
