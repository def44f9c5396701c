"""Alternatives: changes of settings that raise the chance of the goal, each with that chance.

Only changes that move the calibrated formula and help are proposed. The chances are
associations ("studies like this"), not effects measured by intervening.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from assistant.analysis.calibration import ForecastCalibration
from assistant.analysis.forecast import forecast, forecast_inputs, forecast_under
from assistant.core.commands import ChangeSla, ChangeSteering, close_levels
from assistant.core.events import Alternative, AlternativeKind, Event
from assistant.core.experiment import Experiment
from assistant.core.forecast import MOST_LEFT, Forecast
from assistant.core.sla import Sla, Steering
from strategies import DEFAULT_STRATEGY, AnovaModel, Configuration, Level, ParameterSpace, responses


def span(seconds: float) -> str:
    """Return a time span as text in its two largest units, such as ``1 h 30 min``.

    >>> span(45), span(600), span(5400), span(93_600)
    ('45 s', '10 min', '1 h 30 min', '1 d 2 h')
    """
    left, parts = max(1, round(seconds)), list[str]()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        n, left = divmod(left, size)
        if n:
            parts.append(f"{n} {unit}")
    return " ".join(parts[:2])


LEAST_COUNT = 3

N_COMPANIONS = 5
ANYWHERE = 256
"""Numbers of best configurations, and of others from the whole space, that a level is tried in."""

CONFIDENCE = 0.95

SHARE = 0.5
MOST = 3
"""Largest share of a parameter's open levels, and largest number of levels, that are closed. The
model is too certain, and each closed level may be a mistake."""


def hopeless_levels(experiment: Experiment, goal: float) -> tuple[tuple[str, Level], ...]:
    """Return up to 3 (parameter, level) pairs to close (stop trying), the least promising first.

    Never a level of the best run or the baseline, a preferred level, or more than half of a
    parameter's open levels. ``goal`` is a quality; greater is better.
    """
    knowledge, best = experiment.knowledge, experiment.best
    model = AnovaModel.of(knowledge)
    if model is None or best is None:
        return ()
    space, observations = experiment.space, knowledge.observations
    response = responses(observations)
    bar = min(float(response.max()), goal)
    ranked = sorted(zip(response, observations, strict=True), key=lambda entry: -float(entry[0]))
    good = list(dict.fromkeys(entry.configuration for _, entry in ranked))[:N_COMPANIONS]
    company = (*good, *_spread(space))
    spared_configurations = [best.configuration, good[0]]
    if experiment.opened.baseline is not None:
        spared_configurations.append(experiment.opened.baseline)
    closable: list[tuple[float, int, int]] = []
    for position, parameter in enumerate(space.parameters):
        open_ids = space.open_ids[position]
        spared = {entry.level_ids[position] for entry in spared_configurations}
        hopeless = []
        for marginal in model.main_effect(parameter.name):
            (level_id,) = marginal.level_ids
            is_spared = level_id in spared or (parameter.name, level_id) in space.preferred
            if level_id not in open_ids or is_spared or marginal.count < LEAST_COUNT:
                continue
            level_responses = [
                float(value)
                for value, entry in zip(response, observations, strict=True)
                if entry.configuration.level_ids[position] == level_id
                and parameter.name not in space.inactive(entry.configuration)
            ]
            if max(*level_responses, marginal.interval[1]) >= bar:
                continue
            ceiling = _in_company(model, company, position, level_id)
            if ceiling < bar:
                hopeless.append((ceiling, position, level_id))
        closable += sorted(hopeless)[: int(SHARE * len(open_ids))]
    return tuple(
        (space.parameters[position].name, space.parameters[position].levels[level_id])
        for _, position, level_id in sorted(closable)[:MOST]
    )


def _spread(space: ParameterSpace) -> Iterator[Configuration]:
    """Yield open configurations spread over the space, the same ones each time."""
    rng = np.random.default_rng(0)
    for _ in range(ANYWHERE):
        yield space.canonical(tuple(int(rng.choice(ids)) for ids in space.open_ids))


def _in_company(
    model: AnovaModel, company: Sequence[Configuration], position: int, level_id: int
) -> float:
    """Return the greatest upper bound of these configurations with another level."""
    swapped = [
        Configuration(
            (
                *configuration.level_ids[:position],
                level_id,
                *configuration.level_ids[position + 1 :],
            ),
            "",
        )
        for configuration in company
    ]
    mean, sd = model.posterior.predict(model.ids_of(swapped))
    sd = model.doubt * np.sqrt(sd**2 + model.hyperparameters.noise)
    upper = mean + sd * float(stdtrit(model.freedom, 0.5 + CONFIDENCE / 2))
    return model.targets.response(float(upper.max()))


LEAST_GAIN = 0.01

EVEN = 0.5  # Chance up to which more runs, time or money are proposed, at most twice what is left

PARTS = 16

HALVINGS = 20  # Bisection steps between the best and the goal in the search of an easier goal


@dataclass(frozen=True, slots=True)
class AlternativeSearch:
    """Search for changes that raise an experiment's chance of reaching the goal.

    Without a goal it is the chance that the budget ends near the best possible value.
    """

    experiment: Experiment
    current_forecast: Forecast
    now_s: float
    coefficients: ForecastCalibration

    def chance(self, change: Alternative) -> float | None:
        """Return the chance after a change; None if unknown or the goal is reached."""
        after = self.experiment.supposing(
            events_of_alternative(self.experiment, change, self.now_s)
        )
        return chance_of(forecast(after, self.now_s, calibration=self.coefficients))


def chance_of(forecast: Forecast) -> float | None:
    """Return the chance that alternatives raise; None if unknown or the goal is reached."""
    if forecast.goal is not None:
        return None if forecast.goal.reached_by is not None else forecast.goal.chance
    end = forecast.end
    return None if end is None or end.miss is None else 1.0 - end.miss


def find_alternatives(prospects: AlternativeSearch) -> tuple[Alternative, ...]:
    """Return the changes that raise the chance, the best first."""
    present = chance_of(prospects.current_forecast)
    if present is None:
        return ()
    improvements = []
    for change in _candidates(prospects):
        chance = prospects.chance(change)
        if chance is not None and chance >= present + LEAST_GAIN:
            improvements.append(replace(change, chance=chance))
    return tuple(sorted(improvements, key=lambda alternative: -(alternative.chance or 0.0)))


def events_of_alternative(
    experiment: Experiment, change: Alternative, now_s: float
) -> tuple[Event, ...]:
    """Return the events that make the change proposed by an alternative in the experiment.

    Raises AssistantError, StrategyError: it is not possible (any more), for example because a level
    is closed already.
    """
    if change.steering is not None:
        level = change.steering.exploitation
        if change.kind == "exploitation":
            return ChangeSteering(exploitation=level).decide(experiment, now_s)
        name, options = change.steering.strategy, change.steering.options
        return ChangeSteering(name, options, level).decide(experiment, now_s)
    if change.sla is not None:
        return ChangeSla(change.sla).decide(experiment, now_s)
    return close_levels(experiment, change.close, now_s)


def _candidates(prospects: AlternativeSearch) -> Iterator[Alternative]:
    experiment = prospects.experiment
    yield from _exploitation(prospects)
    yield from _strategy(prospects)
    yield from _closing(experiment)
    yield from _more(prospects)
    yield from _easier(prospects)


def _exploitation(prospects: AlternativeSearch) -> Iterator[Alternative]:
    """Propose other exploitation levels, or none: some strategies weigh both parts themselves."""
    experiment = prospects.experiment
    present = experiment.steering.exploitation
    if present is not None:
        steering = replace(experiment.steering, exploitation=None)
        text = f"spend no fixed share of the runs inside the regions ({100 * present:.0f} % now)"
        yield Alternative("exploitation", text, steering=steering)
    if not prospects.current_forecast.paper.regions:
        return
    for level in sorted({experiment.warning_policy.advised, 1.0}):
        if present is None or level > present:
            steering = replace(experiment.steering, exploitation=level)
            text = f"spend {100 * level:.0f} % of the remaining runs inside the regions"
            yield Alternative("exploitation", text, steering=steering)


def _strategy(prospects: AlternativeSearch) -> Iterator[Alternative]:
    """Propose the default strategy, because its value was measured."""
    present = prospects.experiment.steering
    if present.strategy == DEFAULT_STRATEGY:
        return
    steering = Steering(DEFAULT_STRATEGY, {}, None, present.weights, present.refine)
    text = f"use the strategy {DEFAULT_STRATEGY} instead of {present.strategy}"
    if present.exploitation is not None:
        text += " (it divides the runs by itself)"
    yield Alternative("strategy", text, steering=steering)


def _closing(experiment: Experiment) -> Iterator[Alternative]:
    goal = experiment.sla.goal
    if goal is None:
        return
    close = hopeless_levels(experiment, experiment.opened.objective.quality_of(goal))
    if close:
        levels = ", ".join(f"{name}={value}" for name, value in close)
        text = f"close {levels} (the effect was not tested)"
        yield Alternative("close", text, close=close)


def _more(prospects: AlternativeSearch) -> Iterator[Alternative]:
    """Propose the least more of each limit with an even chance, at most twice what is left."""
    sla = prospects.experiment.sla
    left = prospects.current_forecast.remaining
    n_left = 0 if left is None or left.median is None else round(left.median)
    most = min(n_left, MOST_LEFT - n_left)  # no chance is computed beyond them
    if sla.max_runs is not None and most > 0:
        runs = sla.max_runs

        def more_runs(n: int) -> Alternative:
            text = f"run {n} more, {runs + n} in all"
            return _on_terms("more_runs", text, replace(sla, max_runs=runs + n))

        smallest = _least(prospects, more_runs, most)
        chance = prospects.chance(more_runs(MOST_LEFT - n_left))
        if chance is not None and chance < EVEN:
            text = f"{smallest.text} ({MOST_LEFT} runs do not give a chance of 50 %)"
            smallest = replace(smallest, text=text)
        yield smallest
    if sla.deadline_s is not None and sla.deadline_s > prospects.now_s:
        deadline_s, part_s = sla.deadline_s, (sla.deadline_s - prospects.now_s) / PARTS

        def later(n: int) -> Alternative:
            more_s = float(math.ceil(n * part_s))
            text = f"move the deadline by {span(more_s)}"
            return _on_terms("later", text, replace(sla, deadline_s=deadline_s + more_s))

        yield _least(prospects, later, PARTS)
    spent = next(
        (term.used for term in prospects.current_forecast.terms if term.term == "max_cost"), None
    )
    if sla.max_cost is not None and spent is not None and sla.max_cost > spent:
        max_cost, part = sla.max_cost, (sla.max_cost - spent) / PARTS
        unit = "" if sla.tariff is None or not sla.tariff.unit else f" {sla.tariff.unit}"

        def dearer(n: int) -> Alternative:
            more = _rounded(n * part, 2, up=True)
            text = f"spend {more:g}{unit} more, {max_cost + more:g}{unit} in all"
            return _on_terms("dearer", text, replace(sla, max_cost=max_cost + more))

        yield _least(prospects, dearer, PARTS)


def _on_terms(kind: AlternativeKind, text: str, sla: Sla) -> Alternative:
    return Alternative(kind, text, sla=sla)


def _least(
    prospects: AlternativeSearch, change: Callable[[int], Alternative], most: int
) -> Alternative:
    """Return the change of fewest steps (1 to ``most``) with an even chance, else the largest.

    The search assumes that the chance grows with the steps.
    """
    low, high = 1, max(most, 1)
    while low < high:
        middle = (low + high) // 2
        chance = prospects.chance(change(middle))
        low, high = (low, middle) if chance is not None and chance >= EVEN else (middle + 1, high)
    return change(low)


def _easier(prospects: AlternativeSearch) -> Iterator[Alternative]:
    """Propose the hardest goal with an even chance, between the best and the goal."""
    experiment, now_s = prospects.experiment, prospects.now_s
    objective, agreed_goal = experiment.opened.objective, experiment.sla.goal
    shared_outlook = forecast_inputs(experiment, now_s)
    if agreed_goal is None or shared_outlook.evidence.silence:
        return
    best = -shared_outlook.evidence.losses[0]

    def is_even(quality: float) -> bool:
        sla = replace(experiment.sla, goal=objective.value_of(quality))
        steering, coefficients = experiment.steering, prospects.coefficients
        goal = forecast_under(experiment, shared_outlook, now_s, sla, steering, coefficients).goal
        return goal is not None and goal.chance is not None and goal.chance >= EVEN

    low, high = best, objective.quality_of(agreed_goal)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_even(middle) else (low, middle)
    if low == best:
        return
    goal = _rounded(objective.value_of(low), 4, up=objective.goal == "minimise")
    unit = f" {objective.unit}" if objective.unit else ""
    yield _on_terms(
        "easier", f"change the goal to {goal:,g}{unit}", replace(experiment.sla, goal=goal)
    )


def _rounded(value: float, digits: int, *, up: bool) -> float:
    """Return a number of few significant digits, not below (``up``) or not above the value.

    >>> _rounded(12_341.0, 4, up=True), _rounded(0.12349, 2, up=False)
    (12350.0, 0.12)
    """
    if value == 0:
        return 0.0
    size = digits - 1 - math.floor(math.log10(abs(value)))
    steps = value * 10.0**size
    near = round(steps)
    rounded_steps = near if math.isclose(steps, near, rel_tol=1e-9) else None
    if rounded_steps is None:
        rounded_steps = math.ceil(steps) if up else math.floor(steps)
    return float(f"{rounded_steps * 10.0**-size:.{digits}g}")
