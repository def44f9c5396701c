"""Application "ai_platform": an AI operations platform, simulated after PipeSim (`sim.aiops`).

Parameters are the sizes of its clusters, the order of waiting jobs, the triggers of retraining,
and the quality that a model needs to be deployed. Costs are capacity, late models and waiting.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from assistant.applications.extensions import BatchApplication, Measures, Values
from assistant.core.events import Fact
from assistant.core.objective import Measure, Objective, SingleMeasure
from sim.aiops import (
    DAY_S,
    DISCIPLINES,
    FleetPlan,
    MetricGate,
    Platform,
    PlatformResult,
    PlatformScenario,
    PlatformStatistics,
    TriggerRule,
)
from strategies import Level, Parameter, ParameterSpace

LEVELS: Mapping[str, tuple[Level, ...]] = {
    "training_capacity": (2, 3, 4, 6, 8, 12),
    "compute_capacity": (1, 2, 3, 4),
    "scheduler": tuple(DISCIPLINES),
    "drift_threshold": (0.02, 0.03, 0.05, 0.08, 0.12),
    "max_age_d": (5, 10, 20, 40),
    "min_performance": (0.0, 0.6, 0.7, 0.8),
}

ABOUT = {
    "training_capacity": ("jobs", "trainings, compressions and hardenings at once"),
    "compute_capacity": ("jobs", "preparations, evaluations, deployments and checks at once"),
    "scheduler": ("", "order of the jobs that wait for training"),
    "drift_threshold": ("", "a model with a larger detected loss is trained again"),
    "max_age_d": ("d", "an older model is trained again"),
    "min_performance": ("", "a model with a lower performance is not deployed"),
}

TODAY: Mapping[str, Level] = {
    "training_capacity": 8,
    "compute_capacity": 3,
    "scheduler": "fifo",
    "drift_threshold": 0.12,
    "max_age_d": 20,
    "min_performance": 0.0,
}
"""Baseline: a platform with spare capacity, first come first served, rare retraining (ours)."""

STATISTICS_DIGEST = "Statistics digest"

MEASURES = (
    "cost_per_day", "capacity_cost_per_day", "late_share", "sla_misses", "staleness", "potential",
    "wait_s", "training_wait_s", "utilisation", "trainings", "stopped",
)  # fmt: skip


@dataclass(frozen=True)
class AiPlatform(BatchApplication):
    """A simulated AI platform, steered to low cost of capacity, outdated models and waiting.

    Args:
        seed: seed of all random events; all configurations meet the same future.
        models: number of deployed models that are monitored and retrained.
        interarrival_factor: factor on the published gaps between other pipelines (mean 44 s).
        late_cost_per_h: cost per hour of a model that lost more performance than the SLA allows.
        statistics: distributions fitted from logs; None for the published ones.

    Raises:
        SimError: a number is impossible.
    """

    seed: int = 0
    days: float = 10.0
    models: int = 60
    interarrival_factor: float = 6.0
    late_cost_per_h: float = 4.0
    wait_cost_per_h: float = 0.5
    statistics: PlatformStatistics | None = field(default=None, compare=False)

    name = "ai_platform"
    at_once = 1
    measures = MEASURES
    deterministic = True

    def __post_init__(self) -> None:
        self.base  # noqa: B018 - raises for impossible numbers now

    @property
    def base(self) -> PlatformScenario:
        """The part of the scenario that is the same in every configuration."""
        base = PlatformScenario(
            interarrival_factor=self.interarrival_factor,
            duration_s=self.days * DAY_S,
            fleet=FleetPlan(n_models=self.models, drifts_per_month=4.0, work=8.0),
            seed=self.seed,
        )
        return base if self.statistics is None else replace(base, statistics=self.statistics)

    @cached_property
    def space(self) -> ParameterSpace:
        """The parameter space of 6 x 4 x 4 x 5 x 4 x 4 = 7,680 configurations."""
        return ParameterSpace(
            tuple(
                Parameter(
                    name, levels, "nominal" if name == "scheduler" else "ordinal", *ABOUT[name]
                )
                for name, levels in LEVELS.items()
            )
        )

    @property
    def objective(self) -> Objective:
        """The objective: a minimal cost per day."""
        return Objective(SingleMeasure("cost_per_day"), "minimise", unit="per day")

    @property
    def baseline(self) -> Mapping[str, Level]:
        """The configuration that is in use before steering."""
        return dict(TODAY)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Facts on the platform, its costs and its pipelines, for display."""
        base = self.base
        plan, platform = base.fleet, base.platform
        costs = ", ".join(f"{pool.cost_per_h:g} for {pool.name}" for pool in platform.resources)
        rates = base.statistics.arrivals.hourly()
        gap_s = 3600 / float(rates.mean()) * self.interarrival_factor
        busiest = int(rates.reshape(7, 24).sum(axis=0).argmax())
        return (
            *self._fitted,
            Fact(
                "Platform",
                f"pipelines arrive every {gap_s:.4g} s on average, most around {busiest}:00, "
                f"for {self.days:g} days drawn with seed {self.seed}",
            ),
            Fact(
                "Models",
                f"{self.models} deployed models, each with {plan.drifts_per_month:g} drifts a "
                f"month, checked every {plan.detectors.every_s / 3600:g} h by imperfect detectors",
            ),
            Fact(
                "Cost",
                f"per hour {costs} for each unit of capacity, {self.late_cost_per_h:g} for a model "
                f"that lost more than {plan.allowed_loss:g} and {self.wait_cost_per_h:g} for a "
                "pipeline that waits",
            ),
        )

    @property
    def _fitted(self) -> tuple[Fact, ...]:
        if self.statistics is None:
            return ()
        model = self.statistics.model()
        return (Fact("Statistics", model.source), Fact(STATISTICS_DIGEST, model.digest[:16]))

    def scenario(self, values: Mapping[str, Level]) -> PlatformScenario:
        """Return the simulation scenario of a configuration."""
        base = self.base
        platform: Platform = base.platform.having(
            "training",
            capacity=int(values["training_capacity"]),
            discipline=str(values["scheduler"]),
        ).having("compute", capacity=int(values["compute_capacity"]))
        triggers = (
            TriggerRule("drift", float(values["drift_threshold"])),
            TriggerRule("age", float(values["max_age_d"]) * DAY_S),
        )
        least = (("performance", float(values["min_performance"])),)
        return replace(
            base,
            platform=platform,
            fleet=replace(base.fleet, triggers=triggers),
            recipe=replace(base.recipe, gate=MetricGate(least=least)),
        )

    def evaluate(self, values: Mapping[str, Level], seed: int) -> Mapping[str, Measure]:  # noqa: ARG002 - all meet the same future
        """Simulate one configuration and return its measures."""
        return self.measured(self.scenario(values), self.simulate(values))

    def simulate(self, values: Mapping[str, Level], folder: Path | None = None) -> PlatformResult:
        """Simulate a configuration and return the result; write a trace if ``folder`` is given."""
        from sim.aiops import run_platform

        return run_platform(self.scenario(values), folder)

    def measured(self, scenario: PlatformScenario, result: PlatformResult) -> Mapping[str, Measure]:
        """Return the measures of a simulation."""
        if result.fleet is None:
            raise AssertionError("a platform to steer has deployed models")
        days = result.ended_s / DAY_S
        waited_h = (
            sum(s.sum() for name, s in result.hours.items() if name.startswith("waited")) / 3600
        )
        late = result.fleet.late_share
        late_h = float(late.sum()) * scenario.duration_s / 3600
        penalty = self.late_cost_per_h * late_h + self.wait_cost_per_h * float(waited_h)
        return {
            "cost_per_day": (result.cost + penalty) / days,
            "capacity_cost_per_day": result.cost / days,
            "late_share": float(late.mean()),
            "sla_misses": int((late > scenario.fleet.allowed_share).sum()),
            "staleness": float(result.fleet.staleness.mean()),
            "potential": float(result.fleet.potential.mean()),
            "wait_s": result.wait_s or 0.0,
            "training_wait_s": result.tasks["train"].mean_wait_s or 0.0,
            "utilisation": result.utilisation["training"],
            "trainings": sum(result.trainings.values()),
            "stopped": result.outcomes["stopped by a gate"],
        }

    def evaluate_several(self, configurations: Sequence[Values]) -> Sequence[Measures]:
        """Simulate several configurations and return the measures of each."""
        return [self.evaluate(values, 0) for values in configurations]
