"""Forecast of an experiment: the chance to reach the goal with the remaining budget.

Pure functions of the experiment and the time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assistant.analysis.calibration import (
    BAND,
    TESTED_GOAL,
    ForecastCalibration,
    load_calibration,
)
from assistant.analysis.forecast_features import LEAST_RESULTS, LEAST_RUNS, ForecastEvidence
from assistant.analysis.paper_forecast import paper_forecast
from assistant.analysis.recommendation import search_room
from assistant.analysis.remaining_runs import (
    DRAWS,
    OUTER,
    DrawnFutures,
    Floats,
    RemainingRuns,
    count_remaining,
    draw_futures,
    interval,
)
from assistant.core.experiment import Experiment, once_per_result
from assistant.core.forecast import (
    MOST_LEFT,
    EndForecast,
    FanPoint,
    Forecast,
    GoalForecast,
    Interval,
    goal_miss,
)
from assistant.core.run import RunState, first_to_reach
from assistant.core.sla import Sla, Steering

FAN_POINTS = 21


@dataclass(frozen=True, slots=True)
class ForecastInputs:
    """Inputs of a forecast that do not depend on the SLA or the steering."""

    evidence: ForecastEvidence
    course: DrawnFutures


def forecast(
    experiment: Experiment,
    now_s: float,
    *,
    sla: Sla | None = None,
    steering: Steering | None = None,
    calibration: ForecastCalibration | None = None,
) -> Forecast:
    """Forecast whether an experiment reaches its goal, by default under its own SLA and steering.

    Unknown values are None in it, and `Forecast.silence` has the reason.
    """
    return forecast_under(
        experiment,
        forecast_inputs(experiment, now_s),
        now_s,
        sla or experiment.sla,
        steering or experiment.steering,
        calibration or load_calibration(),
    )


def forecast_inputs(experiment: Experiment, now_s: float) -> ForecastInputs:
    """Compute the inputs of a forecast that do not depend on the SLA or the steering."""
    return ForecastInputs(evidence_of(experiment), draw_futures(experiment, now_s))


@once_per_result
def evidence_of(experiment: Experiment) -> ForecastEvidence:
    """Compute the features of the results so far that the forecast needs."""
    over = sorted(
        experiment.runs_in(RunState.COMPLETED, RunState.FAILED),
        key=lambda run: (run.ended_s or 0.0, run.id),
    )
    in_order = [
        -run.outcome.quality if run.outcome is not None and run.outcome.feasible else None
        for run in over
    ]
    losses = sorted(
        -summary.outcome.quality
        for summary in experiment.summaries.values()
        if summary.outcome.feasible
    )
    enough = len(over) >= LEAST_RUNS and len(losses) >= LEAST_RESULTS
    return ForecastEvidence(
        size=experiment.space.open_size,
        losses=tuple(losses),
        in_order=tuple(in_order),
        reach=experiment.reach if enough else None,
    )


@dataclass(frozen=True, slots=True)
class Chances:
    """Remaining runs with the chances of goal and end: the part of a forecast that warnings check.

    Args:
        room: remaining runs that search for something better, float64 [DRAWS]; None if unknown.
    """

    left: RemainingRuns
    room: Floats | None
    goal: GoalForecast | None
    end: EndForecast

    @property
    def remaining(self) -> Interval | None:
        """Further runs that can end within all terms; None if unknown or unlimited."""
        return interval(self.left.runs)

    @property
    def miss(self) -> float | None:
        """Probability that the goal, or without a goal the end, is missed; None if unknown."""
        return self.end.miss if self.goal is None else goal_miss(self.goal, self.remaining)


def chances_under(
    experiment: Experiment,
    outlook: ForecastInputs,
    now_s: float,
    sla: Sla,
    steering: Steering,
    coefficients: ForecastCalibration,
) -> Chances:
    """Compute the chances of an experiment under a given SLA and steering, without its details."""
    left = count_remaining(experiment, sla, outlook.course, now_s)
    offset = coefficients.goal.offset(steering.strategy, steering.exploitation)
    room = None if left.runs is None else _searching(experiment, sla, left.runs)
    reached_by = _reached_by(experiment, sla)
    goal = None
    if sla.goal is not None:
        goal = _goal(experiment, outlook, sla.goal, reached_by, room, offset, coefficients)
    return Chances(left, room, goal, _end(outlook.evidence, steering, room, left, coefficients))


def forecast_under(
    experiment: Experiment,
    outlook: ForecastInputs,
    now_s: float,
    sla: Sla,
    steering: Steering,
    coefficients: ForecastCalibration,
    chances: Chances | None = None,
) -> Forecast:
    """Forecast an experiment under a given SLA and steering, from precomputed inputs.

    ``chances`` are those of the same arguments, if they are known already.
    """
    if chances is None:
        chances = chances_under(experiment, outlook, now_s, sla, steering, coefficients)
    left, room, evidence = chances.left, chances.room, outlook.evidence
    offset = coefficients.goal.offset(steering.strategy, steering.exploitation)
    speaks = not evidence.silence
    reached_by = None if chances.goal is None else chances.goal.reached_by
    silence = "" if reached_by is not None else (evidence.silence or left.unknown)
    median_left = None if left.runs is None else float(np.median(left.runs))
    tells = speaks and left.runs is not None
    return Forecast(
        at_s=now_s,
        paper=paper_forecast(experiment, now_s),
        terms=left.terms,
        remaining=chances.remaining,
        binding=left.binding,
        goal=chances.goal,
        duration_s=outlook.course.duration_s,
        seconds_left=_seconds_left(outlook.course, left),
        best=_best(experiment, evidence, offset, room, coefficients) if tells else None,
        fan=_fan(experiment, outlook, offset, room, coefficients) if tells else (),
        silence=silence,
        cautions=(
            *coefficients.cautions(evidence, steering.strategy, median_left),
            *_cautions(experiment, sla),
        )
        if speaks
        else (),
        calibration=coefficients.version,
        is_over=left.is_over,
        under_way=experiment.n_in(RunState.RUNNING),
        end=chances.end,
    )


def _end(
    evidence: ForecastEvidence,
    steering: Steering,
    room: Floats | None,
    left: RemainingRuns,
    coefficients: ForecastCalibration,
) -> EndForecast:
    """Return the chance that the end of the budget leaves much on the table."""
    model = coefficients.end
    silence = evidence.silence or left.unknown
    if steering.strategy not in model.offsets:
        silence = f"it is not calibrated for the strategy {steering.strategy}"
    elif room is not None and np.median(room) > MOST_LEFT:
        silence = f"more than {MOST_LEFT} runs are left"
    if silence or room is None:
        return EndForecast(None, None, None, silence)
    hardness = coefficients.end_hardness(
        evidence, model.offset(steering.strategy, steering.exploitation)
    )

    def miss(runs: Floats, shift: float = 0.0) -> float:
        return 1.0 - float(model.chance(hardness + shift, runs).mean())

    doubled = None if np.median(2.0 * room) > MOST_LEFT else miss(2.0 * room)
    return EndForecast(miss(room), (miss(room, -BAND), miss(room, BAND)), doubled)


def _cautions(experiment: Experiment, sla: Sla) -> tuple[str, ...]:
    """Return one sentence for each property of the experiment that was not tested."""
    sentences = []
    if experiment.is_noisy:
        sentences.append("results vary from run to run; the forecast was tested on equal ones")
    violated = any(run.outcome is not None and not run.outcome.feasible for run in experiment.runs)
    cut = {
        "constraints": violated,
        "closed levels": bool(experiment.space.closed),
        "excluded combinations": bool(experiment.space.exclusions),
    }
    if any(cut.values()):
        restrictions = " and ".join(name for name, is_there in cut.items() if is_there)
        sentences.append(f"{restrictions} cut the space; the forecast was tested on whole spaces")
    late = experiment.goal_set_after
    if sla.goal is not None and sla.goal == experiment.sla.goal and late > TESTED_GOAL:
        sentences.append(
            f"the goal was set after {late} runs; the forecast was tested with goals set after at "
            f"most {TESTED_GOAL}"
        )
    return tuple(sentences)


def _reached_by(experiment: Experiment, sla: Sla) -> int | None:
    if sla.goal is None:
        return None
    if sla.goal == experiment.sla.goal:
        return None if experiment.goal_run is None else experiment.goal_run.id
    run = first_to_reach(experiment.runs, experiment.opened.objective, sla.goal)
    return None if run is None else run.id


def _searching(experiment: Experiment, sla: Sla, left: Floats) -> Floats:
    """Return how many remaining runs search for something better, without confirmations."""
    limit = sla.max_runs
    to_submit = None if limit is None else max(0, limit - experiment.n_charged)
    room = search_room(experiment, limit, to_submit)
    n_replicates = 0 if room is None or to_submit is None else to_submit - room
    return np.maximum(left - n_replicates, 0.0)


def _goal(
    experiment: Experiment,
    outlook: ForecastInputs,
    goal: float,
    reached_by: int | None,
    left: Floats | None,
    offset: float,
    coefficients: ForecastCalibration,
) -> GoalForecast:
    if reached_by is not None:
        none = Interval(0.0, 0.0, 0.0)
        return GoalForecast(goal, reached_by, 1.0, (1.0, 1.0), none, none, 0.0, 1.0)
    evidence = outlook.evidence
    over = left is not None and not (left > 0).any()
    if evidence.silence:
        chance = 0.0 if over else None
        band = None if chance is None else (0.0, 0.0)
        return GoalForecast(goal, None, chance, band, None, None, None, None)
    loss = -experiment.opened.objective.quality_of(goal)
    hardness = coefficients.goal.hardness(evidence, loss, offset)

    def chance_of(runs: Floats | None, more: float = 0.0) -> float | None:
        if runs is None:
            return None
        return float(coefficients.goal.chance(hardness + more, runs).mean())

    twice = None if left is None else 2.0 * left
    low, high = chance_of(left, BAND), chance_of(left, -BAND)
    needed = np.ceil(coefficients.goal.runs_by(hardness, np.asarray(OUTER)))
    runs_needed = Interval(*(float(n) if n <= MOST_LEFT else None for n in needed))
    return GoalForecast(
        goal=goal,
        reached_by=None,
        chance=chance_of(left),
        band=None if low is None or high is None else (low, high),
        runs_needed=runs_needed,
        seconds_needed=_seconds_needed(outlook.course, hardness, coefficients),
        steps_away=evidence.steps_to(loss),
        if_doubled=None if twice is None or np.median(twice) > MOST_LEFT else chance_of(twice),
    )


def _seconds_needed(
    course: DrawnFutures, hardness: float, coefficients: ForecastCalibration
) -> Interval | None:
    if course.ends_s is None:
        return None
    shares = (np.arange(DRAWS) + 0.5) / DRAWS
    shares = shares[np.random.default_rng(0).permutation(DRAWS)]  # not in the order of the draws
    at = np.ceil(coefficients.goal.runs_by(hardness, shares))
    within = at <= min(course.ends_s.shape[1], MOST_LEFT)
    index = np.where(within, at, 1.0).astype(np.int64) - 1
    return interval(np.where(within, course.ends_s[np.arange(DRAWS), index], np.inf))


def _seconds_left(course: DrawnFutures, left: RemainingRuns) -> Interval | None:
    """Return the time until the last remaining run ends; the mean rate goes on beyond the draws."""
    if left.runs is None or course.ends_s is None:
        return None
    n = left.runs.astype(np.int64)
    index = np.clip(n - 1, 0, course.ends_s.shape[1] - 1)
    ends_s = course.ends_s[np.arange(DRAWS), index]
    ends_s = np.where(n > course.ends_s.shape[1], ends_s * n / course.ends_s.shape[1], ends_s)
    return interval(np.where(n > 0, ends_s, 0.0))


def _best(
    experiment: Experiment,
    evidence: ForecastEvidence,
    offset: float,
    left: Floats | None,
    coefficients: ForecastCalibration,
) -> Interval | None:
    if left is None:
        return None
    losses = coefficients.best_after(evidence, offset, float(np.median(left)))
    return Interval(*(experiment.opened.objective.value_of(-float(loss)) for loss in losses))


def _fan(
    experiment: Experiment,
    outlook: ForecastInputs,
    offset: float,
    left: Floats | None,
    coefficients: ForecastCalibration,
) -> tuple[FanPoint, ...]:
    """Return the best value over further runs, up to the median of the remaining runs."""
    if left is None:
        return ()
    most = int(min(np.median(left), MOST_LEFT))
    value_of, ends_s = experiment.opened.objective.value_of, outlook.course.ends_s
    points = []
    for runs in sorted({round(x) for x in np.linspace(0, most, FAN_POINTS)}):
        losses = coefficients.best_after(outlook.evidence, offset, float(runs))
        low, median, high = (value_of(-float(loss)) for loss in losses)
        seconds = None if ends_s is None else 0.0
        if ends_s is not None and runs > 0:
            seconds = float(np.median(ends_s[:, min(runs, ends_s.shape[1]) - 1]))
        points.append(FanPoint(runs, seconds, low, median, high))
    return tuple(points)
