"""Settings of an experiment: SLA, tariff, warning policy and steering; and the cost of its runs.

Every limit (runs, deadline, cost) maps to a number of remaining runs.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from assistant.core.bounds import (
    BATCH,
    COST,
    DURATION_S,
    INITIAL,
    MOMENT_S,
    REGION_WEIGHT,
    RUNS,
    VALUE,
)
from assistant.core.errors import SettingsError
from assistant.core.run import Run
from strategies import DEFAULT_STRATEGY, Configuration, Level, RegionRule

Pending = Literal["queued", "near", "box", "plan"]
"""Definition of pending runs in the paper's rule, which leaves it open (section 3.2): waiting runs
in a region; allowed configurations without a run near its members, or in its box; or the rest of
the analyst's plan (section 2.2), wherever it lies."""

PENDING: tuple[Pending, ...] = ("near", "queued", "box", "plan")

WarnRule = Literal["auto", "forecast", "paper"]
"""Rule that gives warnings: the calibrated forecast of the goal or the paper's rule; ``auto`` is
the forecast if there is a goal, else the paper's rule."""

WARN_RULES: tuple[WarnRule, ...] = ("auto", "forecast", "paper")


@dataclass(frozen=True, slots=True)
class Tariff:
    """Pricing rule for runs: resources times hours, or the value of one measure.

    Args:
        unit: unit of the cost, such as EUR or kWh.
        per_hour: price of one hour of one unit of the resources.
        resources: parameter or measure with the number of units of a run; 1 if None.
        measure: measure that is the cost, such as an energy; instead of ``per_hour``.

    >>> Tariff("EUR", per_hour=0.5, resources="nodes").cost({"nodes": 4}, {}, 1800.0)
    1.0
    """

    unit: str = ""
    per_hour: float | None = None
    resources: str | None = None
    measure: str | None = None

    def __post_init__(self) -> None:
        COST.check("the price of an hour", self.per_hour)
        if (self.per_hour is None) == (self.measure is None):
            raise SettingsError(
                "a cost is a price per hour or a measure; name exactly one of per_hour and measure"
            )
        if self.measure is not None and self.resources is not None:
            raise SettingsError(
                "resources need a price per hour; leave them out if a measure is the cost"
            )

    def __str__(self) -> str:
        if self.measure is not None:
            return self.measure
        price = f"{self.amount(self.per_hour)} an hour"
        return price if self.resources is None else f"{price} for each of {self.resources}"

    def amount(self, cost: float | None) -> str:
        """Return a cost as text with its unit.

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
        """Return the cost of a run in units of the tariff, or None if a number is missing."""
        if self.measure is not None:
            return _known(measures.get(self.measure))
        if duration_s is None or self.per_hour is None:
            return None
        units: float | None = 1.0
        if self.resources is not None:
            units = _known(values.get(self.resources, measures.get(self.resources)))
        return None if units is None else self.per_hour * units * duration_s / 3600.0


def number_text(value: float | None) -> str:
    """Return a number as text with thousands separators, or ``unknown`` for None.

    >>> number_text(12000.0), number_text(0.1 + 0.2), number_text(None)
    ('12,000', '0.3', 'unknown')
    """
    return "unknown" if value is None else f"{value:,.10g}"


def _known(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


MOST_RUNS = 1e9  # Largest number of remaining runs, where durations are close to 0

AtGoal = Literal["stop", "go_on"]

AT_GOAL: tuple[AtGoal, ...] = ("stop", "go_on")


@dataclass(frozen=True, slots=True)
class Sla:
    """Service-level agreement (SLA) of a sweep: number of runs, deadline, cost limit and goal.

    Args:
        max_runs: runs that may be executed in all, failed ones too; None is no limit.
        deadline_s: latest end of the last run, in seconds since 1970-01-01 UTC; None is no limit.
        max_cost: cost limit of all runs together, by the tariff.
        goal: value of the first measure that a feasible run shall reach.
        run_limit_s: time limit of a single run; one that takes longer has failed.
        at_goal: whether auto-steering stops at the goal. A person may always go on.
        keep_going: whether auto-steering goes on although the program cannot run
            (`assistant.analysis.broken_program`).
    """

    max_runs: int | None = None
    deadline_s: float | None = None
    max_cost: float | None = None
    tariff: Tariff | None = None
    goal: float | None = None
    run_limit_s: float | None = None
    at_goal: AtGoal = "stop"
    keep_going: bool = False

    def __post_init__(self) -> None:
        RUNS.check("the budget of runs", self.max_runs)
        MOMENT_S.check("the deadline", self.deadline_s)
        COST.check("the cost limit", self.max_cost)
        VALUE.check("the goal", self.goal)
        DURATION_S.check("the time limit of a run", self.run_limit_s)
        if self.max_cost is not None and self.tariff is None:
            raise SettingsError("a cost limit needs a tariff: set the cost of a run")
        if self.at_goal not in AT_GOAL:
            raise SettingsError(
                f"at_goal must be one of {', '.join(AT_GOAL)}, not '{self.at_goal}'"
            )

    def remaining_runs(self, used: int) -> int | None:
        """Return how many runs may still be submitted after ``used`` runs; None if unlimited.

        >>> Sla(max_runs=60).remaining_runs(45)
        15
        """
        return None if self.max_runs is None else max(0, self.max_runs - used)

    @property
    def is_limited(self) -> bool:
        """Whether a budget of runs, a deadline or a cost limit is set."""
        return any(limit is not None for limit in (self.max_runs, self.deadline_s, self.max_cost))

    def is_spent(self, cost: float | None) -> bool:
        """Return whether the cost limit is used up; False for an unknown cost.

        >>> Sla(max_cost=20.0, tariff=Tariff(measure="energy_j")).is_spent(20.0)
        True
        """
        return self.max_cost is not None and cost is not None and cost >= self.max_cost

    @property
    def cost_text(self) -> str:
        """The cost limit as text, such as ``20 EUR``; "unknown" without a limit."""
        return (
            number_text(self.max_cost) if self.tariff is None else self.tariff.amount(self.max_cost)
        )

    def runs_until_deadline(
        self, now_s: float, mean_duration_s: float | None, workers: int
    ) -> int | None:
        """Return how many runs can end by the deadline with ``workers`` workers.

        None without a deadline, or while no duration is known.

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
        """Return how many further runs of mean cost fit within the cost limit.

        None without a cost limit, or if a cost is unknown or 0.

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
    """Warning policy: rules for good regions and pending runs, and when to warn.

    Args:
        regions: rule of which observations are good, and of how they are clustered.
        pending: definition of pending runs in a region.
        warn_from: share of the budget after which warnings begin. The paper's own evaluation uses
            0.7; 0 warns as soon as there is a region.
        advised: exploitation level that a warning proposes (the paper leaves it to the analyst).
        rule: rule that gives warnings; ``forecast`` needs a goal.
        warn_at: probability of a miss from which the forecast warns; None for the threshold at
            which the strategy was measured (`MissModel.warn`).
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
                f"pending must be one of {', '.join(PENDING)}, not '{self.pending}'"
            )
        for name in ("warn_from", "advised"):
            _number(name, getattr(self, name))
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingsError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")
        if self.rule not in WARN_RULES:
            raise SettingsError(f"rule must be one of {', '.join(WARN_RULES)}, not '{self.rule}'")
        _number("warn_at", self.warn_at)
        if self.warn_at is not None and not 0.0 < self.warn_at < 1.0:
            raise SettingsError(f"warn_at is a probability between 0 and 1, not {self.warn_at}")
        if self.warn_at is not None and self.rule == "paper":
            raise SettingsError(
                "warn_at is for the forecast, but warnings use the paper's rule; leave it out"
            )

    def warns_by_forecast(self, sla: Sla) -> bool:
        """Return whether the forecast gives warnings; raise SettingsError if it needs a goal."""
        if self.rule == "forecast" and sla.goal is None:
            raise SettingsError(
                "the warning rule 'forecast' needs a goal; set one, or use the rule 'auto' or "
                "'paper'"
            )
        return self.rule != "paper" and sla.goal is not None


@dataclass(frozen=True, slots=True)
class Steering:
    """Settings of how suggestions are chosen: strategy, its options and exploitation level.

    Args:
        exploitation: share of the suggestions inside regions (section 3.2); None does not split.
        weights: weights of regions in that share, 1 for all others. Regions are numbered anew as
            results come, so each weight belongs to a configuration and its region.
        refine: whether levels are added to wide parameters near the best result.
    """

    strategy: str = DEFAULT_STRATEGY
    options: dict[str, str | int | float | bool] = field(default_factory=dict)
    exploitation: float | None = None
    weights: tuple[tuple[Configuration, float], ...] = ()
    refine: bool = True

    def __post_init__(self) -> None:
        _number("the exploitation level", self.exploitation)
        for _, weight in self.weights:
            REGION_WEIGHT.check("the weight of a region", weight)
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
        text = text if split is None else f"{text}, exploitation {split:g}{weighed}"
        return text if self.refine else f"{text}, no levels added"


OnWarning = Literal["wait", "accept", "ignore"]


@dataclass(frozen=True, slots=True)
class AutoSteering:
    """Settings of auto-steering, in which suggestions are submitted without a person.

    At a warning it goes on by default; ``wait`` makes it wait for an answer.
    """

    batch: int | None = None
    initial: int = 10
    warnings: OnWarning = "ignore"

    def __post_init__(self) -> None:
        INITIAL.check("the number of initial runs", self.initial)
        BATCH.check("the number of suggestions in a batch", self.batch)
        if self.warnings not in get_args(OnWarning):
            raise SettingsError(f"warnings must be accept, ignore or wait, not '{self.warnings}'")


def _number(name: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SettingsError(f"{name} is a number or None, not {value!r}")


@dataclass(frozen=True, slots=True)
class Spending:
    """Sum of the known costs of ended runs, with the numbers of known and unknown costs.

    Args:
        measured_sum: sum over the runs with known cost, in units of the tariff.
        n_unknown: number of runs whose cost is unknown.
    """

    measured_sum: float = 0.0
    n_known: int = 0
    n_unknown: int = 0

    @property
    def total(self) -> float | None:
        """Total cost so far, with unknown costs set to the mean; None if all are unknown.

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
        """Mean cost per run; None if no cost is known."""
        return self.measured_sum / self.n_known if self.n_known else None


def cost_of(
    run: Run, values_of: Callable[[Configuration], Mapping[str, Level]], tariff: Tariff
) -> float | None:
    """Return the cost of an ended run: None if unknown, 0 for an imported result.

    A failed run has no measures, so its cost comes from its duration or is unknown.
    """
    if run.source == "imported":
        return 0.0
    measures = {} if run.outcome is None else run.outcome.measures
    return tariff.cost(values_of(run.configuration), measures, run.duration_s)


def spending_of(costs: Iterable[float | None]) -> Spending:
    """Return the sum of costs of runs, of which some may be unknown (None)."""
    all_costs = tuple(costs)
    known_costs = [cost for cost in all_costs if cost is not None]
    return Spending(math.fsum(known_costs), len(known_costs), len(all_costs) - len(known_costs))
