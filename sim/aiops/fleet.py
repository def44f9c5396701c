"""Deployed models: what moves away from them, who scores them, what was agreed about them."""

import math
from dataclasses import dataclass, field

import numpy as np

from sim.aiops.drift import PATTERNS, Drift
from sim.aiops.triggers import Rule
from sim.errors import SetupError
from sim.workloads.streams import Streams

DAY_S = 86_400.0


@dataclass(frozen=True)
class Detectors:
    """The models that watch models; each is trained, and costs computing with every check.

    Attributes:
        every_s: from one check of a model to the next.
        seconds: of computing that a check takes.
        error: standard deviation of what a check reports, with `scored` scorings since the last.
        scored: see above; four times as many halve the error.
        renewed_s: a detector older than this is trained and deployed again, a `monitor` task.
        wears_s: after so long a detector errs twice as much as when it was new.
    """

    every_s: float = 6 * 3600.0
    seconds: float = 20.0
    error: float = 0.01
    scored: float = 1_000.0
    renewed_s: float = 30 * DAY_S
    wears_s: float = 30 * DAY_S

    def __post_init__(self) -> None:
        times = (self.every_s, self.seconds, self.scored, self.renewed_s, self.wears_s)
        if not all(value > 0 for value in times) or not self.error >= 0:
            raise SetupError("times of detectors are above 0 s, their error is from 0.")

    def error_of(self, scored: float, age_s: float) -> float:
        """Return the standard deviation of a check."""
        return self.error * math.sqrt(self.scored / max(scored, 1.0)) * (1 + age_s / self.wears_s)


@dataclass(frozen=True)
class FleetPlan:
    """How a fleet of deployed models is drawn, and how it is kept.

    Attributes:
        n_models: how many.
        drifts_per_month: movements of the world, per model on average.
        size: of a movement: mean loss of performance; exponential, at most 0.4.
        patterns: shares of `PATTERNS`.
        scorings_per_day: median over the models; lognormal with a spread of 1.
        labelled: share of the scorings that get a label, and may be learnt from.
        work: factor on the training time of deployed models: those in production are larger.
        triggers: rules, any of which starts a training.
        detectors: who watches.
        human_delay_s: median of the time that a person takes before a training begins; 0 is none.
        quiet: trainings wait for an hour of low load, for a day at most.
        keeps: a new version is deployed only if it is not worse than the old one is now.
        allowed_loss: of performance, that the agreement of every model allows.
        allowed_share: of the time, that it may have lost more.
    """

    n_models: int = 0
    drifts_per_month: float = 2.0
    size: float = 0.08
    patterns: tuple[tuple[str, float], ...] = (
        ("sudden", 0.25), ("gradual", 0.2), ("incremental", 0.3), ("recurring", 0.15),
        ("adversarial", 0.1),
    )  # fmt: skip
    scorings_per_day: float = 2_000.0
    labelled: float = 0.05
    work: float = 1.0
    triggers: tuple[Rule, ...] = (Rule("drift", 0.05), Rule("age", 30 * DAY_S))
    detectors: Detectors = field(default_factory=Detectors)
    human_delay_s: float = 0.0
    quiet: bool = False
    keeps: bool = True
    allowed_loss: float = 0.05
    allowed_share: float = 0.1

    def __post_init__(self) -> None:
        if type(self.n_models) is not int or self.n_models < 0:
            raise SetupError(f"n_models is {self.n_models!r}; allowed are whole numbers from 0.")
        names = [name for name, _ in self.patterns]
        shares = [share for _, share in self.patterns]
        if not set(names) <= set(PATTERNS) or min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise SetupError(f"patterns are shares, summing to 1, of {', '.join(PATTERNS)}.")
        numbers = (self.drifts_per_month, self.size, self.scorings_per_day, self.human_delay_s)
        if not all(math.isfinite(value) and value >= 0 for value in numbers):
            raise SetupError("drifts, their size, scorings and delays are numbers from 0.")
        if not self.work > 0:
            raise SetupError(f"work is {self.work!r}; allowed are factors above 0.")
        shares = [self.labelled, self.allowed_loss, self.allowed_share]
        if not all(0 <= share <= 1 for share in shares):
            raise SetupError("labelled, allowed_loss and allowed_share are from 0 to 1.")


@dataclass(frozen=True, slots=True)
class Watched:
    """A deployed model as it is drawn.

    Attributes:
        drifts: movements of the world that concern it.
        scorings_per_day: how often it is asked.
        weight: how much it matters beside others, 1 on average.
        age_s: how old it is at the beginning.
        check_s: when it is checked first.
    """

    drifts: tuple[Drift, ...]
    scorings_per_day: float
    weight: float
    age_s: float
    check_s: float

    def loss(self, now_s: float, learnt_s: float) -> float:
        """Return the performance that it has lost."""
        now = np.array([now_s])
        return float(sum(drift.loss(now, learnt_s)[0] for drift in self.drifts))


def draw_fleet(plan: FleetPlan, duration_s: float, streams: Streams) -> tuple[Watched, ...]:
    """Draw the models of a fleet, each from a stream of its own."""
    names = [name for name, _ in plan.patterns]
    until = np.cumsum([share for _, share in plan.patterns])
    fleet = []
    for model in range(plan.n_models):
        rng = streams.of(f"model {model}")
        n = int(rng.poisson(plan.drifts_per_month * duration_s / (30 * DAY_S)))
        drifts = []
        for _ in range(n):
            which, at, size, length = rng.random(4)
            place = min(int(np.searchsorted(until, which, side="right")), len(names) - 1)
            lost = min(-math.log1p(-size) * plan.size, 0.4)
            length_s = DAY_S * 10 ** (1.2 * length - 0.2)
            drifts.append(Drift(names[place], at * duration_s, lost, length_s))
        asked, weight = rng.standard_normal(2)
        age, check = rng.random(2)
        fleet.append(
            Watched(
                tuple(drifts), plan.scorings_per_day * math.exp(asked),
                math.exp(0.5 * weight - 0.125), age * 14 * DAY_S, check * plan.detectors.every_s,
            )
        )  # fmt: skip
    return tuple(fleet)
