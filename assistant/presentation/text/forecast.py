"""The forecast as text: a verdict, a headline, sentences, and the terms of the SLA.

Unknown values are called unknown, never shown as a number. Chances come from studies that looked
alike; no sentence guarantees a result or gives a single number of runs. Times are UTC.
"""

import datetime
import math
from dataclasses import dataclass
from typing import Literal

from assistant.core.experiment import Experiment
from assistant.core.forecast import (
    LIKELY,
    MOST_LEFT,
    ON_TRACK,
    SUFFICES,
    VERY_LIKELY,
    Forecast,
    Interval,
    PaperForecast,
    TermForecast,
    band_words,
    is_late,
    percent,
    share_phrase,
)
from assistant.presentation.text.number_format import between, duration, number, quantity, spoken

GoalVerdict = Literal[
    "no_goal",
    "silent",
    "reached",
    "missed",
    "nearly_used",
    "very_likely_miss",
    "likely_miss",
    "open",
    "on_track",
]
"""Verdict on the goal. ``silent`` means too little data, ``open`` a chance without a verdict."""

_TEN_YEARS_S = 10 * 365.25 * 86_400.0


@dataclass(frozen=True, slots=True)
class ForecastSubject:
    """The names and units that texts on a forecast use."""

    measure: str
    unit: str = ""
    cost_unit: str = ""
    is_finished: bool = False

    @classmethod
    def of(cls, experiment: Experiment) -> "ForecastSubject":
        """Return the names and units for texts on the forecast of an experiment."""
        objective, tariff = experiment.opened.objective, experiment.sla.tariff
        cost_unit = "" if tariff is None else tariff.unit
        finished = experiment.finished is not None
        return cls(str(objective.wrapper), objective.unit, cost_unit, finished)

    def value(self, value: float) -> str:
        """Format a value of the objective's measure with its unit, seconds as a duration."""
        return spoken(value, self.unit)

    def values(self, interval: Interval) -> str:
        """Format an uncertain value as its median with its 80 % interval."""
        if interval.low is None or interval.median is None or interval.high is None:
            return "unknown"
        low, high = sorted((interval.low, interval.high))
        middle = self.value(interval.median)
        if self.value(low) == self.value(high):
            return middle
        return f"{middle} ({between(low, high, self.unit)} in 8 of 10 cases)"


def verdict_of(forecast: Forecast) -> GoalVerdict:
    """Return the verdict of a forecast on reaching the goal."""
    goal = forecast.goal
    if goal is None:
        return "no_goal"
    if goal.reached_by is not None:
        return "reached"
    if forecast.is_over:
        return "missed"
    if goal.chance is None:
        return "silent"
    verdict = _verdict_by(goal.chance, _is_nearly_used(forecast))
    return "open" if forecast.is_beyond and verdict != "on_track" else verdict


def _verdict_by(chance: float, is_late: bool) -> GoalVerdict:
    if is_late:
        return "nearly_used"
    miss = 1.0 - chance
    if miss >= LIKELY:
        return "very_likely_miss" if miss >= VERY_LIKELY else "likely_miss"
    return "on_track" if miss <= ON_TRACK else "open"


def _is_nearly_used(forecast: Forecast) -> bool:
    left = None if forecast.remaining is None else forecast.remaining.median
    if left is None:
        return False
    return is_late(max(forecast.paper.executed - forecast.under_way, 0), left)


def headline(subject: ForecastSubject, forecast: Forecast) -> str:
    """Return one or two sentences with the verdict and the chance to reach the goal."""
    verdict, goal = verdict_of(forecast), forecast.goal
    if goal is None:
        return _without_goal(subject, forecast)
    goal_value = subject.value(goal.goal)
    if verdict == "reached":
        return f"The goal of {goal_value} is reached, by run {goal.reached_by}."
    if verdict == "missed":
        return _missed(subject, forecast, goal_value)
    if goal.chance is None:
        return (
            f"The chance to reach {goal_value} is not known yet: "
            f"{forecast.silence or 'there are too few results'}."
        )
    chance = f"Chance to reach {goal_value} {_horizon(forecast)}: {_banded(forecast)}."
    return f"{_judged(verdict, goal.chance)} {chance}".strip()


def _missed(subject: ForecastSubject, forecast: Forecast, goal_value: str) -> str:
    if subject.is_finished:
        return f"The goal of {goal_value} was not reached."
    if not forecast.under_way:
        return f"No run is left, and the goal of {goal_value} is not reached."
    late = "no run can end within the SLA"
    return f"{_going(forecast.under_way)}, but {late}; the goal of {goal_value} is not reached."


def _judged(verdict: GoalVerdict, chance: float) -> str:
    missed = f"{share_phrase(1.0 - chance)} sweeps like this one missed their goal."
    return {
        "nearly_used": "The budget is nearly used.",
        "on_track": (f"On track: {share_phrase(chance)} sweeps like this one reached their goal."),
        "likely_miss": f"Likely to miss: {missed}",
        "very_likely_miss": f"Very likely to miss: {missed}",
    }.get(verdict, "")


def _without_goal(subject: ForecastSubject, forecast: Forecast) -> str:
    if forecast.is_over:
        return "No goal is set."
    parts = [end_chance_words(forecast), best_words(subject, forecast)]
    text = " ".join(part for part in parts if part)
    if text:
        return text
    why = f": {forecast.silence}" if forecast.silence else ""
    return f"No goal is set, and there is no forecast yet{why}."


def end_chance_words(forecast: Forecast) -> str:
    """Return a sentence on how near the budget ends to the best possible value, or why unknown."""
    end = forecast.end
    if end is None or forecast.is_over:
        return ""
    if end.miss is None or end.band is None:
        return f"How near the budget comes to the best value is unknown: {end.silence}."
    near = (1.0 - end.band[0], 1.0 - end.band[1])
    return (
        f"Chance that the budget suffices: {percent(1.0 - end.miss)} ({band_words(near)} "
        f"depending on the space). {SUFFICES}"
    )


def _horizon(forecast: Forecast) -> str:
    if not forecast.is_beyond:
        return f"with the {left_words(forecast.remaining)}"
    return f"within the next {MOST_LEFT} of the {left_words(forecast.remaining)}"


def _banded(forecast: Forecast) -> str:
    goal = forecast.goal
    if goal is None or goal.chance is None:
        return "unknown"
    if goal.band is None:
        return percent(goal.chance)
    return f"{percent(goal.chance)} ({band_words(goal.band)} depending on the space)"


def chance_words(forecast: Forecast) -> str:
    """Return the chance to reach the goal in a few words, or an empty text if unknown."""
    verdict, goal = verdict_of(forecast), forecast.goal
    if goal is None or goal.chance is None or verdict == "missed":
        return ""
    if verdict == "reached":
        return f"goal reached by run {goal.reached_by}"
    within = f" within {MOST_LEFT} runs" if forecast.is_beyond else ""
    return f"chance of the goal {percent(goal.chance)}{within}"


def forecast_sentences(subject: ForecastSubject, forecast: Forecast) -> tuple[str, ...]:
    """Return the sentences below the headline on progress, expected end and cautions."""
    parts: list[str] = []
    verdict, goal = verdict_of(forecast), forecast.goal
    if goal is not None and goal.chance is not None and verdict not in ("reached", "missed"):
        parts += _far(forecast)
    if not forecast.is_over:
        best = best_words(subject, forecast)
        parts += [best] if best and goal is not None else []
        if forecast.under_way:
            parts.append(f"{_going(forecast.under_way)} and counted as left.")
        parts += [end_words(forecast)] if forecast.remaining is not None else []
        if forecast.binding is not None and len(forecast.terms) > 1:
            parts.append(f"The tightest term: {TERMS[forecast.binding]}.")
        parts += [f"Caution: {caution}." for caution in forecast.cautions]
    return tuple(parts)


def _far(forecast: Forecast) -> list[str]:
    goal, parts = forecast.goal, []
    if goal is None:
        return []
    steps = goal.steps_away
    if steps is not None and math.isfinite(steps):
        away = number(round(steps, 1))
        far = f"The goal is {away} step{'' if away == '1' else 's'} beyond the best"
        doubled = goal.if_doubled
        if doubled is not None and goal.chance is not None:
            far += (
                f"; with twice the runs left the chance is {percent(doubled)} instead of "
                f"{percent(goal.chance)}"
            )
        parts.append(f"{far}. A step is the mean distance of the next three results from the best.")
    needed = None if goal.runs_needed is None else goal.runs_needed.median
    if goal.runs_needed is None:
        return parts
    if needed is None or needed > MOST_LEFT:
        parts.append(f"The goal is probably not reached within {MOST_LEFT} further runs.")
    else:
        time_s = None if goal.seconds_needed is None else goal.seconds_needed.median
        n = math.ceil(needed)
        further = "1 further run" if n == 1 else f"{n} further runs"
        lasting = "" if time_s is None else f", {duration(time_s)} at the pace so far"
        parts.append(f"The goal is probably reached within {further}{lasting}.")
    return parts


def best_words(subject: ForecastSubject, forecast: Forecast) -> str:
    """Return a sentence on the best value expected after the runs left, or an empty text."""
    if forecast.best is None or forecast.is_over:
        return ""
    after = f"next {MOST_LEFT} runs" if forecast.is_beyond else left_words(forecast.remaining)
    return f"Best {subject.measure} expected after the {after}: {subject.values(forecast.best)}."


def end_words(forecast: Forecast) -> str:
    """Return a sentence on the expected end of the runs left, as an interval of times of day."""
    left = forecast.seconds_left
    if left is None or left.low is None:
        return "The end of the runs left is unknown."
    first = clock(forecast.at_s + left.low, forecast.at_s)
    if left.high is None or left.median is None:
        return f"The runs left end at {first} or later."
    if left.high < 60:
        return "The runs left end within a minute."
    last, middle = (clock(forecast.at_s + s, forecast.at_s) for s in (left.high, left.median))
    if first == last:
        return f"The runs left end by about {last}."
    return (
        f"The runs left end between {first.removesuffix(' UTC')} and {last}, "
        f"most likely about {middle}."
    )


TERMS = {"max_runs": "runs", "deadline": "deadline", "max_cost": "cost"}


def term_words(subject: ForecastSubject, term: TermForecast, now_s: float) -> str:
    """Return a text on the use and the remainder of one SLA term.

    >>> runs = TermForecast("max_runs", 60, 22, Interval(38.0, 38.0, 38.0))
    >>> term_words(ForecastSubject("wait"), runs, 0.0)
    'runs: 22 of 60 ended, 38 left'
    >>> deadline = TermForecast("deadline", 52_200.0, 50_000.0, Interval(25.0, 28.0, 31.0))
    >>> term_words(ForecastSubject("wait"), deadline, 50_000.0)
    'deadline: 25 to 31 more runs by 14:30 UTC, 28 most likely'
    """
    name, used = TERMS[term.term], term_used(subject, term, now_s)
    left = term.remaining
    if term.term == "deadline" and term.limit <= now_s:
        return f"{name}: {clock(term.limit, now_s)} has passed"
    if left is None or left.low is None:
        return f"{name}: {used}, the number of runs left is unknown"
    if term.term == "max_runs":
        return f"{name}: {used}, {figures(left)} left"
    number_of, _, likely = figures(left).partition(" (")
    likely = f", {likely.removesuffix(')')}" if likely else ""
    more = f"{number_of} more run{'' if number_of == '1' else 's'}"
    if term.term == "deadline":
        return f"{name}: {more} by {clock(term.limit, now_s)}{likely}"
    return f"{name}: {used}, {more}{likely}"


def term_used(subject: ForecastSubject, term: TermForecast, now_s: float) -> str:
    """Format the limit and the use of an SLA term for a table cell."""
    if term.term == "max_runs":
        return f"{count(term.used or 0)} of {count(term.limit)} ended"
    if term.term == "deadline":
        return f"until {clock(term.limit, now_s)}"
    spent = "an unknown part" if term.used is None else number(term.used)
    return f"{spent} of {quantity(term.limit, subject.cost_unit)} spent"


def figures(left: Interval | None) -> str:
    """Format the forecast number of further runs for a table cell.

    >>> figures(Interval(25.0, 28.0, 31.0)), figures(Interval(5.0, 5.0, 5.0)), figures(None)
    ('25 to 31 (28 most likely)', '5', 'unknown')
    """
    if left is None or left.low is None:
        return "unknown"
    if left.high is None or left.median is None:
        return f"{count(left.low)} or more"
    if count(left.low) == count(left.high):
        return count(left.low)
    return f"{count(left.low)} to {count(left.high)} ({count(left.median)} most likely)"


def left_words(left: Interval | None) -> str:
    """Format the number of runs left as text, such as "25 to 31 runs left".

    >>> left_words(Interval(38.0, 38.0, 38.0)), left_words(Interval(25.0, 28.0, 31.0))
    ('38 runs left', '25 to 31 runs left (28 most likely)')
    >>> left_words(Interval(25.0, None, None)), left_words(None)
    ('25 or more runs left', 'runs left (number unknown)')
    """
    if left is None or left.low is None:
        return "runs left (number unknown)"
    if left.high is None or left.median is None:
        return f"{count(left.low)} or more runs left"
    if left.high <= 0:
        return "runs left (most likely 0)"  # texts on finished experiments do not use it
    if count(left.low) == count(left.high):
        return "1 run left" if left.low == 1 else f"{count(left.low)} runs left"
    return f"{count(left.low)} to {count(left.high)} runs left ({count(left.median)} most likely)"


def count(n: float) -> str:
    """Format a number of runs, with "over a million" for all larger numbers.

    >>> count(38.0), count(4_589_050.0)
    ('38', 'over a million')
    """
    return "over a million" if n > 1e6 else f"{n:,.0f}"


def clock(at_s: float, now_s: float) -> str:
    """Format a time of day in UTC, with its date if different from that of ``now_s``.

    >>> clock(1_000_000.0, 999_999.0), clock(1_000_000.0, 0.0), clock(1e15, 0.0)
    ('13:46 UTC', '1970-01-12 13:46 UTC', 'more than 10 years from now')
    """
    if at_s - now_s > _TEN_YEARS_S:
        return "more than 10 years from now"
    then, now = (datetime.datetime.fromtimestamp(s, datetime.UTC) for s in (at_s, now_s))
    if then.date() == now.date():
        return f"{then:%H:%M} UTC"
    return f"{then:%Y-%m-%d %H:%M} UTC"


def paper_words(forecast: PaperForecast) -> str:
    """Describe whether the budget suffices by the (uncalibrated) rule of the Copper paper."""
    rule = "Copper's rule (not calibrated)"
    if forecast.remaining is None and forecast.remaining_by_runs is None:
        return f"{rule}: unknown, since no budget of runs, deadline or cost limit is set."
    if forecast.basis != "plan" and not forecast.regions:
        return f"{rule}: unknown, since there is no region of good results yet."
    if forecast.pending is None:
        return f"{rule}: unknown, since the promising configurations cannot be counted."
    untested = _untested(forecast.pending, forecast.basis == "plan")
    if forecast.shortfall is None or forecast.remaining is None:
        return f"{rule}: {untested}; the number of runs left is unknown."
    runs = "run" if forecast.remaining == 1 else "runs"
    verdict = f"{forecast.shortfall:,} too few" if forecast.shortfall > 0 else "enough"
    return f"{rule}: {untested}, {forecast.remaining:,} {runs} left: {verdict}."


def _untested(n: int, is_plan: bool) -> str:
    """Return the count of pending configurations: of the plan, or of the regions."""
    kind = "planned" if is_plan else "promising"
    return f"{n:,} {kind} configuration{'' if n == 1 else 's'} untested"


def _going(n: int) -> str:
    return "1 run is running" if n == 1 else f"{n:,} runs are running"
