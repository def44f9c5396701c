"""The agreement: what may be spent, how it is watched, and how runs are chosen.

Every form of the agreement maps to remaining runs.

What the runs of an experiment have cost, by the agreed tariff. Pure.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from assistant.core.errors import SettingsError
from assistant.core.run import Run
from strategies import DEFAULT_STRATEGY, Configuration, Level, RegionRule

Pending = Literal["queued", "near", "box", "plan"]
"""What counts as pending in the paper's rule, which leaves it open (section 3.2): runs that wait in
a region; allowed configurations without a run near its members, or in its box; or, wherever it
lies, what is left of the range of values that the analyst submitted as her plan (section 2.2)."""

PENDING: tuple[Pending, ...] = ("near", "queued", "box", "plan")

WarnRule = Literal["auto", "forecast", "paper"]
"""What gives warnings: the calibrated forecast of the goal or the paper's rule; ``auto`` is the
forecast where a goal is agreed, and the paper's rule where none is."""

WARN_RULES: tuple[WarnRule, ...] = ("auto", "forecast", "paper")


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a run costs: the price of its resources for as long as it takes, or one of its measures.

    Args:
        unit: of the cost, such as EUR or kWh.
        per_hour: price of one hour of one unit of the resources.
        resources: the parameter or measure that says how many units a run holds; 1 if None.
        measure: the measure that is the cost itself, such as an energy; instead of ``per_hour``.

    >>> Tariff("EUR", per_hour=0.5, resources="nodes").cost({"nodes": 4}, {}, 1800.0)
    1.0
    """

    unit: str = ""
    per_hour: float | None = None
    resources: str | None = None
    measure: str | None = None

    def __post_init__(self) -> None:
        _number("the price of an hour", self.per_hour)
        if (self.per_hour is None) == (self.measure is None):
            raise SettingsError(
                "a cost is a price per hour or a measure; name exactly one of per_hour and measure"
            )
        if self.per_hour is not None and not 0 < self.per_hour < float("inf"):
            raise SettingsError(f"the price of an hour must be above 0, not {self.per_hour}")
        if self.measure is not None and self.resources is not None:
            raise SettingsError(
                "resources go with a price per hour; a measure that is the cost has none"
            )

    def __str__(self) -> str:
        if self.measure is not None:
            return self.measure
        price = f"{self.amount(self.per_hour)} an hour"
        return price if self.resources is None else f"{price} for each of {self.resources}"

    def amount(self, cost: float | None) -> str:
        """Return a cost with its unit, for people.

        >>> Tariff("EUR", per_hour=0.5).amount(1234.5)
        '1,234.5 EUR'
        """
        return f"{number_text(cost)} {self.unit}".rstrip()

    def cost(
        self,
        values: Mapping[str, object],
        measures: Mapping[str, object],
        duration_s: float | None,
    ) -> float | None:
        """Return what a run cost; None where a number that is needed is missing.

        Args:
            values: the run's levels.
            measures: what it gave; empty of a run that failed.
            duration_s: how long it took, in seconds.
        """
        if self.measure is not None:
            return _known(measures.get(self.measure))
        if duration_s is None or self.per_hour is None:
            return None
        units: float | None = 1.0
        if self.resources is not None:
            units = _known(values.get(self.resources, measures.get(self.resources)))
        return None if units is None else self.per_hour * units * duration_s / 3600.0


def number_text(value: float | None) -> str:
    """Return a number as exactly as people say it, for the sentences on an agreement.

    >>> figure(12000.0), figure(0.1 + 0.2), figure(None)
    ('12,000', '0.3', 'unknown')
    """
    return "unknown" if value is None else f"{value:,.10g}"


def _known(value: object) -> float | None:
    """Return a number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


MOST_RUNS = 1e9
"""As many runs as anybody speaks of, where durations are next to nothing."""

AtGoal = Literal["stop", "go_on"]
"""What an automatic sweep does once the goal is reached."""

AT_GOAL: tuple[AtGoal, ...] = ("stop", "go_on")


@dataclass(frozen=True, slots=True)
class Sla:
    """The agreement of an experiment. Every term may stand beside every other.

    Of those that limit how many runs are left (runs, deadline, cost) the tightest counts.

    Args:
        max_runs: runs that may be executed in all, failed ones too; None is no limit.
        deadline_s: when the last run must be over, in seconds since 1970-01-01 UTC; None is none.
        max_cost: what all runs may cost together, by the tariff.
        tariff: what a run costs; needed by ``max_cost``.
        goal: value of the first measure that a feasible run shall reach.
        run_limit_s: what a single run may take; one that takes longer has failed.
        at_goal: whether an automatic sweep stops once the goal is reached. A person may always
            go on.
    """

    max_runs: int | None = None
    deadline_s: float | None = None
    max_cost: float | None = None
    tariff: Tariff | None = None
    goal: float | None = None
    run_limit_s: float | None = None
    at_goal: AtGoal = "stop"

    def __post_init__(self) -> None:
        for name in ("max_runs", "deadline_s", "max_cost", "goal", "run_limit_s"):
            _number(name, getattr(self, name))
        for name in ("max_cost", "run_limit_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise SettingsError(f"{name} must be a number above 0, not {value}")
        if self.goal is not None and not abs(self.goal) < float("inf"):
            raise SettingsError(f"the goal must be a finite value, not {self.goal}")
        if self.max_cost is not None and self.tariff is None:
            raise SettingsError("a limit of cost needs a tariff: say what a run costs")
        if self.at_goal not in AT_GOAL:
            raise SettingsError(
                f"at the goal a sweep does one of {', '.join(AT_GOAL)}, not '{self.at_goal}'"
            )
        if isinstance(self.max_runs, float):
            raise SettingsError(f"max_runs is a whole number or None, not {self.max_runs!r}")
        if self.max_runs is not None and self.max_runs < 1:
            raise SettingsError(f"the budget must be at least 1 run, not {self.max_runs}")
        if self.deadline_s is not None and not 0 < self.deadline_s < float("inf"):
            raise SettingsError(f"the deadline must be a moment in time, not {self.deadline_s}")

    def remaining_runs(self, used: int) -> int | None:
        """Return how many more runs may be submitted when ``used`` have been; None: no limit.

        >>> Sla(max_runs=60).remaining_runs(45)
        15
        """
        return None if self.max_runs is None else max(0, self.max_runs - used)

    @property
    def is_limited(self) -> bool:
        """Whether it limits how many runs are left: by their number, a deadline or their cost."""
        return any(limit is not None for limit in (self.max_runs, self.deadline_s, self.max_cost))

    def is_spent(self, cost: float | None) -> bool:
        """Return whether so much cost uses the limit of cost up; unknown cost does not.

        >>> Sla(max_cost=20.0, tariff=Tariff(measure="energy_j")).is_spent(20.0)
        True
        """
        return self.max_cost is not None and cost is not None and cost >= self.max_cost

    @property
    def cost_text(self) -> str:
        """The limit of cost for people, such as ``20 EUR``; what is unknown without a limit."""
        return (
            number_text(self.max_cost) if self.tariff is None else self.tariff.amount(self.max_cost)
        )

    def runs_until_deadline(
        self, now_s: float, mean_duration_s: float | None, workers: int
    ) -> int | None:
        """Return how many runs can be over by the deadline, ``workers`` at a time.

        None if there is no deadline, or if no run has ended yet and a duration is unknown.

        >>> Sla(deadline_s=1000.0).runs_until_deadline(400.0, 60.0, workers=2)
        20
        >>> Sla(deadline_s=1000.0).runs_until_deadline(400.0, 1e-309, workers=2)
        2000000000
        """
        if self.deadline_s is None:
            return None
        if self.deadline_s <= now_s:
            return 0
        if mean_duration_s is None:
            return None
        if mean_duration_s <= 0:
            return None
        return int(min((self.deadline_s - now_s) / mean_duration_s, MOST_RUNS)) * workers

    def runs_until_cost(self, cost: float | None, mean_cost: float | None) -> int | None:
        """Return how many runs can be afforded after so much cost, at their mean cost.

        None if there is no limit of cost, or if a cost is unknown or nothing.

        >>> Sla(max_cost=20.0, tariff=Tariff(measure="energy_j")).runs_until_cost(5.0, 2.0)
        7
        """
        if self.max_cost is None or cost is None:
            return None
        if cost >= self.max_cost:
            return 0
        if mean_cost is None or mean_cost <= 0:
            return None
        return int(min((self.max_cost - cost) / mean_cost, MOST_RUNS))


@dataclass(frozen=True, slots=True)
class WarningPolicy:
    """How regions and pending runs are counted, and from when warnings are given.

    Args:
        regions: which observations are good, and how they are clustered.
        pending: what counts as pending in a region.
        warn_from: share of the runs of the budget after which warnings begin. The paper's own
            evaluation uses 0.7; 0 warns as soon as there is a region.
        advised: exploitation level that a warning proposes (the paper leaves it to the analyst).
        rule: what gives warnings; ``forecast`` needs a goal in the agreement.
        warn_at: probability of a miss from which the forecast warns; None for that at which the
            strategy was measured (`Calibration.warn`).
    """

    regions: RegionRule = field(default_factory=RegionRule)
    pending: Pending = "near"
    warn_from: float = 0.0
    advised: float = 0.7
    rule: WarnRule = "auto"
    warn_at: float | None = None

    def __post_init__(self) -> None:
        if self.pending not in PENDING:
            raise SettingsError(
                f"pending runs are counted as {', '.join(PENDING)}, not '{self.pending}'"
            )
        for name in ("warn_from", "advised"):
            _number(name, getattr(self, name))
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingsError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")
        if self.rule not in WARN_RULES:
            raise SettingsError(f"warnings go by {', '.join(WARN_RULES)}, not '{self.rule}'")
        _number("warn_at", self.warn_at)
        if self.warn_at is not None and not 0.0 < self.warn_at < 1.0:
            raise SettingsError(f"warn_at is a probability between 0 and 1, not {self.warn_at}")
        if self.warn_at is not None and self.rule == "paper":
            raise SettingsError(
                "warn_at is for the forecast, and warnings go by the paper's rule; leave it out"
            )

    def warns_by_forecast(self, sla: Sla) -> bool:
        """Return whether warnings under an agreement come from the calibrated forecast.

        Raises:
            SettingsError: they shall, but no goal is agreed whose miss could be forecast.
        """
        if self.rule == "forecast" and sla.goal is None:
            raise SettingsError(
                "warnings shall go by the forecast, which needs a goal; agree on one, or let them "
                "go by 'auto' or 'paper'"
            )
        return self.rule != "paper" and sla.goal is not None


@dataclass(frozen=True, slots=True)
class Steering:
    """How the next suggestions are chosen.

    Args:
        strategy: a registered strategy's name.
        options: of that strategy.
        exploitation: share of the suggestions inside regions (section 3.2); None does not split.
        weights: how much a region counts in the division of that share, for the regions that the
            analyst weighed; 1 for all others. Regions are numbered anew as results come, so each
            weight stands with a configuration, and counts for the region that it lies in.
    """

    strategy: str = DEFAULT_STRATEGY
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    exploitation: float | None = None
    weights: tuple[tuple[Configuration, float], ...] = ()

    def __post_init__(self) -> None:
        _number("the exploitation level", self.exploitation)
        for _, weight in self.weights:
            if isinstance(weight, bool) or not 0 <= weight < float("inf"):
                raise SettingsError(f"the weight of a region is a number from 0 on, not {weight!r}")
        if self.exploitation is not None and not 0.0 <= self.exploitation <= 1.0:
            raise SettingsError(
                f"the exploitation level is a share from 0 to 1, not {self.exploitation}"
            )

    def __str__(self) -> str:
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        text = f"{self.strategy} ({options})" if options else self.strategy
        split = self.exploitation
        n = len(self.weights)
        weighed = f", {n} {'region' if n == 1 else 'regions'} weighed" if n else ""
        return text if split is None else f"{text}, exploitation {split:g}{weighed}"


OnWarning = Literal["wait", "accept", "ignore"]
"""What is done about a warning while nobody decides: wait for an answer, accept, or ignore it."""


@dataclass(frozen=True, slots=True)
class AutoSteering:
    """How an experiment steers itself, once it was handed over.

    Args:
        batch: suggestions taken at a time; None takes as many as suit the strategy.
        initial: first runs, before results decide.
        advice: what is done about warnings.
    """

    batch: int | None = None
    initial: int = 10
    advice: OnWarning = "wait"

    def __post_init__(self) -> None:
        if self.initial < 0:
            raise SettingsError(f"the number of first runs must be at least 0, not {self.initial}")
        if self.batch is not None and self.batch < 1:
            raise SettingsError(f"a batch has at least 1 suggestion, not {self.batch}")
        if self.advice not in get_args(OnWarning):
            raise SettingsError(
                f"warnings are met with accept, ignore or wait, not '{self.advice}'"
            )


def _number(name: str, value: object) -> None:
    """Refuse what is neither a number nor None."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SettingsError(f"{name} is a number or None, not {value!r}")


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of the runs that are over.

    Args:
        measured_sum: sum over the runs whose cost is known, in units of the tariff.
        n_known: how many these are.
        n_unknown: runs that cost something that is not known.
    """

    measured_sum: float = 0.0
    n_known: int = 0
    n_unknown: int = 0

    @property
    def total(self) -> float | None:
        """The cost so far, unknown ones at the mean of the known; None if none is known.

        >>> Spending(6.0, 3, 1).total, Spending().total, Spending(0.0, 0, 1).total
        (8.0, 0.0, None)
        """
        if not self.n_unknown:
            return self.measured_sum
        if not self.n_known:
            return None
        return self.measured_sum * (self.n_known + self.n_unknown) / self.n_known

    @property
    def mean(self) -> float | None:
        """What a run cost on average; None if that is known of none."""
        return self.measured_sum / self.n_known if self.n_known else None


def cost_of(
    run: Run, values_of: Callable[[Configuration], Mapping[str, Level]], tariff: Tariff
) -> float | None:
    """Return what a run that is over cost; None if that is unknown, 0 of a result from before.

    A failed run has no measures, so it costs by its duration or is unknown.
    """
    if run.source == "imported":
        return 0.0
    measures = {} if run.outcome is None else run.outcome.measures
    return tariff.cost(values_of(run.configuration), measures, run.duration_s)


def spending(
    runs: Iterable[Run],
    values_of: Callable[[Configuration], Mapping[str, Level]],
    tariff: Tariff,
) -> Spending:
    """Return what the runs that are over have cost together.

    Args:
        runs: of an experiment; those that wait or are under way cost nothing yet.
        values_of: the levels behind a configuration (`ParameterSpace.values`).
        tariff: what a run costs.
    """
    costs = [
        cost_of(run, values_of, tariff)
        for run in runs
        if run.ended_s is not None and run.source != "imported"
    ]
    known_costs = [cost for cost in costs if cost is not None]
    return Spending(math.fsum(known_costs), len(known_costs), len(costs) - len(known_costs))
