"""What is said about the future: values only. `assistant.analysis.forecast` makes them.

The paper's rule and the calibrated forecast stand side by side; both are pure functions of the
journal and the time.

When a forecast of a miss becomes a warning: a rule over a sequence of checks, with hysteresis.

Chances as people read them: from when on they have a word, and how they are written.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

MOST_LEFT = 100
"""Runs beyond which nothing is told: no episode that the forecast was tested on had more left than
85. With more left, chances and values are those of the next so many runs."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number that is not known yet: 10 %, 50 % and 90 % of what it may come to.

    Seconds are seconds from the moment of the forecast, runs are further runs. ``high`` (or all
    three) is None where it lies beyond what can be said.
    """

    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class RegionCount:
    """One region in a forecast: good members, evaluated runs, and what is pending in it.

    ``best`` and ``mean`` are qualities as measured. ``pending`` is None where it cannot be counted.
    """

    id: int
    members: int
    evaluated: int
    pending: int | None
    mean: float
    best: float


@dataclass(frozen=True, slots=True)
class PaperForecast:
    """What the paper's rule says about the budget (section 3.2). Unknown is None.

    Args:
        at_s: when it was made.
        basis: what was counted as pending.
        executed: runs that were started, not counting imported results.
        remaining: runs that can still be executed, the tightest of runs, deadline and cost.
        remaining_by_runs: by the maximum number of runs.
        remaining_by_deadline: by the deadline, at the mean duration so far.
        pending: runs that the ongoing strategy would need.
        shortfall: pending less remaining; positive means that the agreement will be missed.
        regions: the regions of interest, best mean quality first.
        mean_duration_s: of the runs that are over.
        predicted_end_s: when the pending runs would be over, one after another on all workers.
        remaining_by_cost: by the limit of cost, at the mean cost so far. The paper knows runs and a
            deadline only: this term is our extension of its rule.
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
        """Whether the agreement will be missed; None if that is unknown."""
        return None if self.shortfall is None else self.shortfall > 0


Term = Literal["max_runs", "deadline", "max_cost"]
"""A term of the agreement that limits how many runs are left."""


@dataclass(frozen=True, slots=True)
class TermForecast:
    """What one term of the agreement leaves.

    Args:
        term: which.
        limit: runs, seconds since 1970-01-01 UTC, or units of the cost.
        used: runs that are over, seconds since 1970 (now), or cost so far; None while that is
            unknown.
        remaining: further runs that can end within the term; None while a duration or a cost is
            unknown.
    """

    term: Term
    limit: float
    used: float | None
    remaining: Interval | None


@dataclass(frozen=True, slots=True)
class GoalForecast:
    """Whether the agreed goal will be reached with what is left.

    Args:
        goal: the agreed value of the first measure.
        reached_by: number of the first run that reached it, None if none has.
        chance: probability that it is reached with what is left, or within the next `MOST_LEFT`
            runs of it; None while there is too little to speak.
        band: from and to, since spaces differ: the chance with one logit less and more.
        runs_needed: further runs until it is reached, None while there is too little to speak.
        seconds_needed: time until then.
        steps_away: the goal's distance from the best, in steps between the top results; None while
            unknown.
        if_doubled: the chance with twice the remaining runs; None where these are more than
            `MOST_LEFT`.
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
class FanPoint:
    """The best value after ``runs`` further runs: what 10 %, 50 % and 90 % of the futures have.

    ``low`` is the better end of them whatever the direction of the objective. ``seconds`` from now
    is when that many runs are over (median); None while durations are unknown.
    """

    runs: int
    seconds: float | None
    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Everything that is said about the future of an experiment at one moment.

    Args:
        at_s: when it was made, seconds since 1970-01-01 UTC.
        paper: the paper's rule, uncalibrated.
        terms: what each agreed term leaves; empty without an agreement.
        remaining: further runs that can end within all terms together; None if unknown or without
            a limit.
        binding: the term that is most often the tightest; None if ``remaining`` is None.
        goal: None if no goal is agreed.
        duration_s: of one run to come; None before the first has ended.
        seconds_left: until the remaining runs are over.
        best: value of the best run when the remaining runs are over, or the next `MOST_LEFT` of
            them (``low`` is the better end); None while there is too little to speak.
        fan: the best value over further runs, at most as far as was tested.
        silence: one sentence on why no chance is told; empty if one is.
        cautions: sentences on what lies outside of what the forecast was tested on.
        calibration: version of the coefficients.
        is_over: whether nothing is left that could end within the terms, in any of the futures.
        under_way: runs that go on at that moment; the budget of runs counts them as left.
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

    @property
    def miss(self) -> float | None:
        """Probability that the goal is missed; None if unknown or no goal is agreed.

        Unknown, too, where more is left than a chance is told of.
        """
        goal = self.goal
        if goal is None or goal.chance is None or (self.is_beyond and goal.reached_by is None):
            return None
        return 1.0 - goal.chance

    @property
    def is_beyond(self) -> bool:
        """Whether more runs are left than a chance is told of; see `MOST_LEFT`."""
        left = None if self.remaining is None else self.remaining.median
        return left is not None and left > MOST_LEFT


CONSECUTIVE = 2
"""Checks in a row at the threshold that raise the alarm: one alone is often chance."""

APART = 4
"""Runs between checks that count."""

RELEASE = 0.1
"""The alarm stays on until the miss probability falls by this below the threshold."""

LAST_SHARE = 0.2
LEAST_LEFT = 4
"""No alarm in the last share of the budget, or with fewer runs left: it would come too late."""

REMIND_AFTER = 5
"""Runs after a warning until it is given again."""

WORSE = 0.05
"""By how much the miss probability must have risen for a reminder."""

_ROUNDING = 1e-9


def is_late(used: float, left: float) -> bool:
    """Return whether the budget is nearly used: a warning, or a verdict, would come too late.

    >>> is_late(16, 4.0), is_late(15, 4.0), is_late(2, 3.0)
    (True, False, True)
    """
    return left < LEAST_LEFT or left <= (LAST_SHARE + _ROUNDING) * (used + left)


@dataclass(frozen=True, slots=True)
class WarningCheck:
    """What a forecast said at one moment.

    Args:
        used: runs of the budget that were over.
        left: further runs that could still end (the median), at least 0; None if unknown.
        miss: probability that the goal is missed; None where the forecast was silent.
    """

    used: int
    left: float | None
    miss: float | None

    @property
    def may_warn(self) -> bool:
        """Whether a warning can still help: enough runs are left, and the forecast speaks."""
        return self.miss is not None and self.left is not None and not is_late(self.used, self.left)


@dataclass(frozen=True, slots=True)
class PastWarning:
    """A warning that was given: after ``used`` runs, at this miss probability."""

    used: int
    miss: float


def is_alarm_on(checks: Sequence[WarningCheck], threshold: float) -> bool:
    """Return whether the alarm is on after a sequence of checks, the oldest first.

    It goes on after 2 checks in a row at the threshold or above, off below the threshold less 0.1,
    and is never on in the last 20 % of the budget, with fewer than 4 runs left, or while the
    forecast is silent.

    >>> seen = [Check(12, 48.0, 0.85), Check(16, 44.0, 0.82), Check(20, 40.0, 0.75)]
    >>> [alarm(seen[:n], 0.8) for n in (1, 2, 3)]
    [False, True, True]
    """
    return bool(checks) and alarm_states(checks, threshold)[-1]


def alarm_states(checks: Sequence[WarningCheck], threshold: float) -> tuple[bool, ...]:
    """Return whether the alarm is on after each of the checks; see `is_alarm_on`."""
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
    """Return whether a warning is to be given at the latest of the checks.

    The first one as soon as the alarm is on. Another only 5 runs after the last one, and only if
    the miss has become more probable by 0.05 since, or the alarm has been off in between: a warning
    that says the same again is not read.
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
"""Probabilities of a miss from which on, or up to which, a verdict is given; between the first and
the last there are numbers only."""

_SHARES = (
    (1, 20), (1, 10), (1, 5), (1, 4), (3, 10),
    (7, 10), (3, 4), (4, 5), (5, 6), (9, 10), (19, 20),
)  # fmt: skip


def percent(chance: float) -> str:
    """Return a chance in whole percent; neither 0 nor 100 is told of what may still go either way.

    >>> percent(0.254), percent(0.0), percent(0.004), percent(0.999)
    ('25 %', 'below 1 %', 'below 1 %', 'above 99 %')
    """
    if chance < 0.01:
        return "below 1 %"
    return "above 99 %" if chance > 0.99 else f"{chance:.0%}".replace("%", " %")


def band_words(band: tuple[float, float]) -> str:
    """Return a band of chances.

    >>> band_words((0.11, 0.48)), band_words((0.004, 0.02)), band_words((0.999, 1.0))
    ('11 to 48 %', 'below 1 to 2 %', 'above 99 %')
    """
    low, high = sorted(band)
    if percent(low) == percent(high):
        return percent(low)
    return f"{percent(low).removesuffix(' %')} to {percent(high)}"


def share_phrase(share: float) -> str:
    """Return a share of at most 0.3, or at least 0.7, as people say it.

    >>> about(0.25), about(0.75), about(0.9), about(0.985), about(0.01)
    ('about 1 in 4', 'about 3 in 4', 'about 9 in 10', 'nearly all', 'hardly any')
    """
    if share > 0.975 or share < 0.025:
        return "nearly all" if share > 0.5 else "hardly any"
    of, n = min(_SHARES, key=lambda pair: abs(pair[0] / pair[1] - share))
    return f"about {of} in {n}"
