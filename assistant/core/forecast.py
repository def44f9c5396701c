"""Forecast: data types of a forecast, the rule for warnings, and probabilities as text.

`assistant.analysis.forecast` computes the values. The paper's rule and the calibrated forecast
stand side by side. The warning rule is a pure function of a sequence of checks, with hysteresis.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MOST_LEFT = 100
"""Largest number of remaining runs with a chance: no episode that the forecast was tested on had
more than 85. With more left, chances and values are those of the next 100 runs."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Quantiles of an uncertain number: 10 %, 50 % and 90 %.

    Seconds count from the moment of the forecast, runs are further runs. ``high`` (or all three) is
    None where it is beyond the range of the forecast.
    """

    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RegionCount:
    """Run counts, mean and best quality of one region; ``pending`` is None if not countable."""

    id: int
    members: int
    evaluated: int
    pending: int | None
    mean: float
    best: float


@dataclass(frozen=True, slots=True)
class PaperForecast:
    """Forecast of runs left and needed, by the Copper paper's rule (section 3.2); None if unknown.

    Args:
        basis: definition of pending runs that was used.
        executed: runs that were started, without imported results.
        remaining: runs that can still be executed, the tightest of budget, deadline and cost.
        remaining_by_deadline: runs left until the deadline, at the mean duration so far.
        pending: runs that the ongoing strategy would need.
        shortfall: pending less remaining; positive means a miss.
        regions: regions of interest, best mean quality first.
        predicted_end_s: end of the pending runs, one after another on all workers.
        remaining_by_cost: runs left by the cost limit, at the mean cost so far. Our extension: the
            paper has only runs and a deadline.
    """

    at_s: float
    basis: str
    executed: int
    remaining: int | None
    remaining_by_runs: int | None
    remaining_by_deadline: int | None
    pending: int | None
    shortfall: int | None
    regions: tuple[RegionCount, ...]
    mean_duration_s: float | None
    predicted_end_s: float | None
    remaining_by_cost: int | None = None

    @property
    def is_miss(self) -> bool | None:
        """Whether more runs are needed than can be executed; None if that is unknown."""
        return None if self.shortfall is None else self.shortfall > 0


Term = Literal["max_runs", "deadline", "max_cost"]


@dataclass(frozen=True, slots=True)
class TermForecast:
    """Forecast for one SLA limit (runs, deadline or cost): the limit, the part used, runs left.

    Args:
        limit: runs, seconds since 1970-01-01 UTC, or units of the cost.
        used: ended runs, seconds since 1970 (now), or cost so far; None if unknown.
        remaining: further runs that can end within the term; None if a duration or cost is unknown.
    """

    term: Term
    limit: float
    used: float | None
    remaining: Interval | None


@dataclass(frozen=True, slots=True)
class GoalForecast:
    """Forecast of the chance that the goal is reached within the remaining runs.

    Args:
        reached_by: number of the first run that reached it; None if none has.
        chance: probability of reaching it in the remaining runs, at most the next `MOST_LEFT`;
            None with too few results.
        band: chance with `BAND` logits less and more, because spaces differ.
        runs_needed: further runs until it is reached; None with too few results.
        steps_away: distance of the goal from the best, in steps between the top results; None if
            unknown.
        if_doubled: chance with twice the remaining runs; None if these exceed `MOST_LEFT`.
    """

    goal: float
    reached_by: int | None
    chance: float | None
    band: tuple[float, float] | None
    runs_needed: Interval | None
    seconds_needed: Interval | None
    steps_away: float | None
    if_doubled: float | None


@dataclass(frozen=True, slots=True)
class EndForecast:
    """Forecast of how near the budget ends to the best possible value, whatever the goal.

    Args:
        miss: probability that the end leaves more than 5 % of the way from the best possible value
            to the median result on the table; None if it is unknown.
        band: the probability with `BAND` logits less and more, because spaces differ.
        if_doubled: probability with twice the remaining runs; None if these exceed `MOST_LEFT`.
        silence: reason why ``miss`` is None; empty otherwise.
    """

    miss: float | None
    band: tuple[float, float] | None
    if_doubled: float | None
    silence: str = ""


SUFFICES = (
    "It suffices if it ends within 5 % of the way from the best possible value to the median."
)


@dataclass(frozen=True, slots=True)
class FanPoint:
    """Quantiles (10 %, 50 %, 90 %) of the best value after ``runs`` further runs.

    ``low`` is always the better end. ``seconds`` is the median time until those runs are over; None
    while durations are unknown.
    """

    runs: int
    seconds: float | None
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Complete forecast of an experiment: remaining runs, goal and best value.

    Args:
        at_s: time of the forecast, seconds since 1970-01-01 UTC.
        terms: what remains of each term of the SLA; empty without one.
        remaining: further runs that can end within all terms; None if unknown or unlimited.
        binding: term that is most often the tightest; None if ``remaining`` is None.
        duration_s: duration of a future run; None before the first has ended.
        best: best value after the remaining runs, at most the next `MOST_LEFT` (``low`` is the
            better end); None with too few results.
        fan: best value over further runs, at most as far as was tested.
        silence: reason why there is no chance; empty if there is one.
        cautions: sentences on what lies outside the tested range.
        calibration: version of the coefficients.
        is_over: whether no further run can end within the terms in any simulated future.
        under_way: running runs at that moment; the budget counts them as left.
        end: how near the budget ends to the best possible value; None in old event logs.
    """

    at_s: float
    paper: PaperForecast
    terms: tuple[TermForecast, ...]
    remaining: Interval | None
    binding: Term | None
    goal: GoalForecast | None
    duration_s: Interval | None
    seconds_left: Interval | None
    best: Interval | None
    fan: tuple[FanPoint, ...]
    silence: str
    cautions: tuple[str, ...]
    calibration: str
    is_over: bool = False
    under_way: int = 0
    end: EndForecast | None = None

    @property
    def miss(self) -> float | None:
        """Probability of missing the goal, 0 to 1; None without a goal or an estimate."""
        return None if self.goal is None else goal_miss(self.goal, self.remaining)

    @property
    def is_beyond(self) -> bool:
        """Whether more than `MOST_LEFT` runs are left, too many for a forecast."""
        return _is_beyond(self.remaining)


def goal_miss(goal: GoalForecast, remaining: Interval | None) -> float | None:
    """Return the probability of missing a goal, 0 to 1; None without an estimate."""
    if goal.chance is None or (_is_beyond(remaining) and goal.reached_by is None):
        return None
    return 1.0 - goal.chance


def _is_beyond(remaining: Interval | None) -> bool:
    left = None if remaining is None else remaining.median
    return left is not None and left > MOST_LEFT


CONSECUTIVE = 2  # Checks in a row that turn the warning on, because one alone is often chance

APART = 4  # Runs between checks that count

RELEASE = 0.1  # Margin below the threshold at which the warning goes off again

LAST_SHARE = 0.2
LEAST_LEFT = 4
"""No warning in the last share of the budget, or with fewer runs left: it would come too late."""

REMIND_AFTER = 5  # Runs after a warning until it may be repeated

WORSE = 0.05  # Rise of the miss probability that a repetition needs

_ROUNDING = 1e-9


def is_late(used: float, left: float) -> bool:
    """Return whether the budget is nearly used, so that a warning would come too late.

    >>> is_late(16, 4.0), is_late(15, 4.0), is_late(2, 3.0)
    (True, False, True)
    """
    return left < LEAST_LEFT or left <= (LAST_SHARE + _ROUNDING) * (used + left)


@dataclass(frozen=True, slots=True)
class WarningCheck:
    """Input of the warning rule at one check: runs used and left, and miss probability.

    Args:
        used: ended runs of the budget.
        left: further runs that can still end (median), at least 0; None if unknown.
        miss: probability that the goal is missed; None if the forecast has no chance.
    """

    used: int
    left: float | None
    miss: float | None

    @property
    def may_warn(self) -> bool:
        """Whether a warning is possible: enough runs are left, the miss probability is known."""
        return self.miss is not None and self.left is not None and not is_late(self.used, self.left)


@dataclass(frozen=True, slots=True)
class PastWarning:
    """Runs used and miss probability at the time of an issued warning."""

    used: int
    miss: float


def is_alarm_on(checks: Sequence[WarningCheck], threshold: float) -> bool:
    """Return whether the miss warning is on after a sequence of checks, oldest first.

    It turns on after 2 checks in a row at the threshold or above, and off below the threshold less
    0.1. It is never on in the last 20 % of the budget, with fewer than 4 runs left, or without a
    chance.

    >>> checks = [WarningCheck(12, 48.0, 0.85), WarningCheck(16, 44.0, 0.82)]
    >>> checks.append(WarningCheck(20, 40.0, 0.75))
    >>> [is_alarm_on(checks[:n], 0.8) for n in (1, 2, 3)]
    [False, True, True]
    """
    return bool(checks) and alarm_states(checks, threshold)[-1]


def alarm_states(checks: Sequence[WarningCheck], threshold: float) -> tuple[bool, ...]:
    """Return whether the miss warning is on after each check, by the rule of `is_alarm_on`."""
    states, in_a_row, is_on = list[bool](), 0, False
    counted: int | None = None
    for check in checks:
        if not check.may_warn or check.miss is None:
            in_a_row, is_on, counted = 0, False, None
        elif counted is None or check.used >= counted + APART:
            counted = check.used
            in_a_row = in_a_row + 1 if check.miss >= threshold - _ROUNDING else 0
            is_on = in_a_row >= CONSECUTIVE or (
                is_on and check.miss >= threshold - RELEASE - _ROUNDING
            )
        states.append(is_on)
    return tuple(states)


def is_warning_due(
    checks: Sequence[WarningCheck], threshold: float, last: PastWarning | None
) -> bool:
    """Return whether a warning is due at the latest check.

    The first is due as soon as the warning is on. A repetition is due 5 runs after the last, if the
    miss has become more probable by 0.05 or the warning was off in between; readers ignore others.
    """
    states = alarm_states(checks, threshold)
    if not states or not states[-1]:
        return False
    if last is None:
        return True
    now = checks[-1]
    if now.miss is None or now.used < last.used + REMIND_AFTER:
        return False
    since = [on for check, on in zip(checks, states, strict=True) if check.used > last.used]
    return now.miss >= last.miss + WORSE - _ROUNDING or not all(since)


LIKELY, VERY_LIKELY, ON_TRACK = 0.7, 0.9, 0.3
"""Miss probabilities from which (or, for the last, up to which) a verdict is given."""

_SHARES = (
    (1, 20), (1, 10), (1, 5), (1, 4), (3, 10),
    (7, 10), (3, 4), (4, 5), (5, 6), (9, 10), (19, 20),
)  # fmt: skip


def percent(chance: float) -> str:
    """Return a probability as text in whole percent, never 0 or 100.

    >>> percent(0.254), percent(0.0), percent(0.004), percent(0.999)
    ('25 %', 'below 1 %', 'below 1 %', 'above 99 %')
    """
    if chance < 0.01:
        return "below 1 %"
    return "above 99 %" if chance > 0.99 else f"{chance:.0%}".replace("%", " %")


def band_words(band: tuple[float, float]) -> str:
    """Return a range of probabilities as text in percent, such as ``11 to 48 %``.

    >>> band_words((0.11, 0.48)), band_words((0.004, 0.02)), band_words((0.999, 1.0))
    ('11 to 48 %', 'up to 2 %', 'above 99 %')
    >>> band_words((0.99, 0.999))
    '99 % or more'
    """
    low, high = (percent(end) for end in sorted(band))
    if low == high:
        return low
    if low[0].isdigit() and high[0].isdigit():
        return f"{low.removesuffix(' %')} to {high}"
    if low[0].isdigit():
        return f"{low} or more"
    return f"up to {high}" if high[0].isdigit() else "below 1 to above 99 %"


def share_phrase(share: float) -> str:
    """Return a share of at most 0.3 or at least 0.7 as words, such as ``about 3 in 4``.

    >>> share_phrase(0.25), share_phrase(0.75), share_phrase(0.985), share_phrase(0.01)
    ('about 1 in 4', 'about 3 in 4', 'nearly all', 'hardly any')
    """
    if share > 0.975 or share < 0.025:
        return "nearly all" if share > 0.5 else "hardly any"
    of, n = min(_SHARES, key=lambda pair: abs(pair[0] / pair[1] - share))
    return f"about {of} in {n}"
