"""What is said about the future: values only. `assistant.forecast` makes them.

The paper's rule and the calibrated forecast stand side by side; both are pure functions of the
journal and the time.
"""

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
