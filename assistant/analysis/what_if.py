"""What-if comparisons: forecasts under another steering or SLA; the experiment is unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from assistant.analysis.forecast import forecast
from assistant.analysis.recommendation import batch_size, current_strategy
from assistant.core.commands import ChangeSla, ChangeSteering, Keep, WeighRegion, close_levels
from assistant.core.errors import ExperimentError
from assistant.core.events import ExperimentReopened
from assistant.core.experiment import Experiment
from assistant.core.forecast import MOST_LEFT, Forecast, band_words, percent
from assistant.core.run import random_stream
from assistant.core.sla import Sla
from strategies import Level, Suggestion, factors_of, split


@dataclass(frozen=True, slots=True)
class SteeringChange:
    """Hypothetical change of steering, SLA or levels; by default each setting is unchanged."""

    exploitation: float | Keep | None = "keep"
    max_runs: int | None = None
    deadline_s: float | None = None
    max_cost: float | None = None
    goal: float | Literal["none"] | None = None
    strategy: str | None = None
    options: dict[str, Level] = field(default_factory=dict)
    close: tuple[tuple[str, Level], ...] = ()
    weights: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class RegionRuns:
    """Number of the remaining runs that would be spent in one region, and the region's weight."""

    region: int
    runs: int
    weight: float


@dataclass(frozen=True, slots=True)
class WhatIfSide:
    """Forecast and division of the remaining runs on one side of a what-if comparison.

    Args:
        inside: remaining runs by region, the best region first; empty without an exploitation
            level.
        outside: remaining runs outside the regions; None if the number left is unknown.
    """

    forecast: Forecast
    inside: tuple[RegionRuns, ...]
    outside: int | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Comparison of the forecasts before and after a hypothetical change.

    Args:
        inside: remaining runs by region, the best region first; empty without an exploitation
            level.
        outside: remaining runs outside the regions; None if the number left is unknown.
        suggestions: the next batch, as large as suits the strategy and the budget.
    """

    before: Forecast
    after: Forecast
    inside: tuple[RegionRuns, ...]
    outside: int | None
    suggestions: tuple[Suggestion, ...]
    sentence: str


def what_if(experiment: Experiment, now_s: float, change: SteeringChange) -> WhatIf:
    """Forecast the effect of a hypothetical change, without changing the experiment.

    A finished experiment counts as reopened on both sides. The suggestions are those that the
    session would make next after the change, beside any open ones (`batch_size` of them).
    Raises AssistantError, StrategyError: the change itself would be refused.
    """
    after = apply_change(experiment, now_s, change)
    before, later = (
        forecast(reopened_if_finished(experiment, now_s), now_s),
        what_if_side(after, now_s),
    )
    suggestions = _suggestions(after)
    inside, outside = later.inside, later.outside
    text = sentence(before, later.forecast, inside, outside)
    return WhatIf(before, later.forecast, inside, outside, suggestions, text)


def what_if_side(experiment: Experiment, now_s: float) -> WhatIfSide:
    """Return the forecast and the division of the remaining runs among regions."""
    current_forecast = forecast(experiment, now_s)
    left = None if current_forecast.remaining is None else current_forecast.remaining.median
    return WhatIfSide(
        current_forecast, *_division(experiment, None if left is None else round(left))
    )


def apply_change(experiment: Experiment, now_s: float, change: SteeringChange) -> Experiment:
    """Return a copy of the experiment after a hypothetical change, or raise if impossible."""
    after = reopened_if_finished(experiment, now_s)
    sla = changed_sla(after, change)
    if sla != after.sla:
        after = after.supposing(ChangeSla(sla).decide(after, now_s))
    keeps = change.exploitation == "keep"
    if change.strategy is not None or change.options or not keeps:
        steering = ChangeSteering(change.strategy, change.options, change.exploitation)
        after = after.supposing(steering.decide(after, now_s))
    for region, weight in change.weights:
        after = after.supposing(WeighRegion(region, weight).decide(after, now_s))
    return after.supposing(close_levels(after, change.close, now_s))


def reopened_if_finished(experiment: Experiment, now_s: float) -> Experiment:
    """Return the experiment, or a reopened copy if it is finished."""
    if experiment.finished is None:
        return experiment
    return experiment.supposing([ExperimentReopened(now_s)])


def changed_sla(experiment: Experiment, change: SteeringChange) -> Sla:
    """Return the SLA after a hypothetical change; SettingsError or ExperimentError if invalid."""
    terms = {
        "max_runs": change.max_runs,
        "deadline_s": change.deadline_s,
        "max_cost": change.max_cost,
        "goal": change.goal,
    }
    changed_terms: dict[str, Any] = {
        name: value for name, value in terms.items() if value is not None
    }
    if change.goal == "none":
        changed_terms["goal"] = None
    sla = replace(experiment.sla, **changed_terms)  # refuses what is no number
    used = experiment.n_charged
    if change.max_runs is not None and change.max_runs < used:
        raise ExperimentError(
            f"a budget of {change.max_runs} is too small: {used} runs are used already"
        )
    return sla


def _division(after: Experiment, left: int | None) -> tuple[tuple[RegionRuns, ...], int | None]:
    """Return the division of the remaining runs over regions, by the rule of the paper."""
    share = after.steering.exploitation
    if left is None or share is None:
        return (), left
    rule = after.warning_policy.regions
    regions = after.regions
    factors = factors_of(regions, after.steering.weights, after.space, rule.radius)
    divided = split(left, share, regions, factors)
    inside = tuple(
        RegionRuns(region.id, runs, factor)
        for region, runs, factor in zip(regions, divided.inside, factors, strict=True)
    )
    return inside, divided.outside


def _suggestions(after: Experiment) -> tuple[Suggestion, ...]:
    left = after.remaining_runs
    n = batch_size(after)
    n = n if left is None else min(left, n)
    if n == 0:
        return ()
    rng = np.random.default_rng(random_stream(after.opened.seed, "suggest", len(after.batches) + 1))
    return current_strategy(after).suggest(n, after.knowledge, rng)


def sentence(
    before: Forecast, after: Forecast, inside: tuple[RegionRuns, ...], outside: int | None
) -> str:
    """Return text on the change of the chance to reach the goal and the use of remaining runs."""
    reached = after.goal is not None and after.goal.reached_by is not None
    if after.is_over:
        without = "" if after.goal is None else ", and the goal would not be reached"
        chances = _chances(before, after) if reached else f"No run would be left{without}."
        return f"{chances} Allow more runs, time or money, or close fewer levels."
    return f"{_chances(before, after)} {_runs(inside, outside)}"


def _chances(before: Forecast, after: Forecast) -> str:
    if after.goal is None:
        return _end_chances(before, after)
    if after.goal.reached_by is not None:
        return f"Run {after.goal.reached_by} reached this goal already."
    if after.goal.chance is None:
        return f"The chance is unknown: {after.silence}."
    now = percent(after.goal.chance)
    was = None if before.goal is None or before.goal.reached_by else before.goal.chance
    band = after.goal.band
    spread = ""
    if band is not None:
        within = f"within {MOST_LEFT} runs, " if after.is_beyond else ""
        spread = f" ({within}{band_words(band)} depending on the space)"
    if was is None:
        return f"The chance to reach the goal would be {now}{spread}."
    if percent(was) == now:
        return f"The chance to reach the goal would stay at {now}{spread}."
    rises = "rise" if after.goal.chance > was else "fall"
    return f"The chance to reach the goal would {rises} from {percent(was)} to {now}{spread}."


def _end_chances(before: Forecast, after: Forecast) -> str:
    """Return text on the change of the chance that the budget suffices, without a goal."""
    if after.end is None or after.end.miss is None:
        why = "" if after.end is None else f": {after.end.silence}"
        return f"No goal is set, and whether the budget suffices is unknown{why}."
    now = percent(1.0 - after.end.miss)
    was_miss = None if before.end is None or before.goal is not None else before.end.miss
    if was_miss is None or percent(1.0 - was_miss) == now:
        return f"The chance that the budget suffices would be {now}."
    rises = "rise" if after.end.miss < was_miss else "fall"
    was = percent(1.0 - was_miss)
    return f"The chance that the budget suffices would {rises} from {was} to {now}."


def _runs(inside: tuple[RegionRuns, ...], outside: int | None) -> str:
    if outside is None:
        return "The number of runs left is unknown."
    n_inside = sum(region_runs.runs for region_runs in inside)
    left = n_inside + outside
    runs = "1 run left" if left == 1 else f"{left} runs left"
    if not inside:
        return f"Of the {runs}, none would be kept for regions of good results."
    into = ", ".join(
        f"{region_runs.runs} would be in region {region_runs.region}" for region_runs in inside
    )
    return f"Of the {runs}, {into}, and {outside} outside."
