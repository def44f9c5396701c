"""Deployed models: their drift, their drift detectors, and the rules that start a retraining.

Drift patterns are those of figure 2 of the PipeSim paper.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.generators.generator import RandomStreams
from sim.model.errors import SetupError, UnknownNameError

Floats = NDArray[np.float64]


PATTERNS = ("sudden", "gradual", "incremental", "recurring", "adversarial")

_SLOTS = 32  # slots of a gradual drift, in which old and new world alternate

_ATTACK_LENGTHS = 8.0  # from one attack to the next, in lengths


@dataclass(frozen=True, slots=True)
class Drift:
    """A change of the data distribution (concept drift) that reduces the performance of models.

    Attributes:
        pattern: one of `PATTERNS`. `sudden` changes at once; `gradual` alternates between old and
            new world, with more and more of the new one, for `length_s`; `incremental` changes
            evenly for `length_s`; `recurring` changes and returns, `length_s` each; `adversarial`
            fades in with the half-life `length_s`, and again with every attack, eight lengths
            apart.
        at_s: begin, in seconds of the simulation.
        size: loss of performance when the change is complete, 0 to 1.
        length_s: seconds, above 0; its meaning depends on the pattern.
    """

    pattern: str
    at_s: float
    size: float
    length_s: float = 86_400.0

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS:
            raise UnknownNameError("pattern of drift", self.pattern, PATTERNS)
        if not (0 <= self.size <= 1 and self.length_s > 0):
            raise SetupError("a drift needs a size from 0 to 1 and a length above 0 s.")

    def place(self, times_s: Floats) -> Floats:
        """Return the shift of the data distribution at each time, as a performance loss."""
        since = np.asarray(times_s, dtype=float) - self.at_s
        has_begun = since >= 0
        lengths = np.where(has_begun, since, 0.0) / self.length_s
        if self.pattern == "sudden":
            moved = np.ones_like(lengths)
        elif self.pattern == "incremental":
            moved = np.minimum(lengths, 1.0)
        elif self.pattern == "gradual":
            moved = np.where(lengths >= 1, 1.0, _turns(lengths))
        elif self.pattern == "recurring":
            moved = (np.floor(lengths) % 2 == 0).astype(float)
        else:
            attack = np.floor(lengths / _ATTACK_LENGTHS)
            moved = attack + 1 - 0.5 ** (lengths - attack * _ATTACK_LENGTHS)
        return np.where(has_begun, self.size * moved, 0.0)

    def loss(self, times_s: Floats, learnt_s: float | Floats) -> Floats:
        """Return the performance lost at each time by a model trained on data from `learnt_s`."""
        apart = np.abs(self.place(times_s) - self.place(np.asarray(learnt_s, dtype=float)))
        return np.asarray(np.minimum(apart, self.size))


def _turns(lengths: Floats) -> Floats:
    """Return 1 in the slots of the new world: slot k is new if its reversed bits are below k.

    Of the slots whose bits are palindromes the odd ones are new, so that half of all slots are.
    """
    slot = np.minimum((lengths * _SLOTS).astype(int), _SLOTS - 1)
    turned = np.array([int(f"{k:05b}"[::-1], 2) for k in range(_SLOTS)])
    is_new = (turned < np.arange(_SLOTS)) | ((turned == np.arange(_SLOTS)) & (turned % 2 == 1))
    return np.asarray(is_new[slot].astype(float))


RULES = ("drift", "age", "data", "schedule")

LEARNING_RATE = 0.1
"""Share of the missing performance that twice the training data would add (ours)."""


@dataclass(frozen=True, slots=True)
class TriggerRule:
    """A rule that starts the retraining of a deployed model.

    Attributes:
        kind: `drift`: the detector reports a loss of performance above `limit`; `age`: the model
            is older than `limit` seconds; `data`: newly labelled rows exceed `limit` times the
            training rows; `schedule`: another `limit` seconds of the simulation have passed.
    """

    kind: str
    limit: float

    def __post_init__(self) -> None:
        if self.kind not in RULES:
            raise UnknownNameError("rule of a trigger", self.kind, RULES)
        if not (math.isfinite(self.limit) and self.limit > 0):
            raise SetupError(
                f"the limit of rule '{self.kind}' is {self.limit!r}; allowed: above 0."
            )


@dataclass(frozen=True, slots=True)
class ModelCondition:
    """Observable state of a deployed model, from which trigger rules decide on a retraining.

    Attributes:
        learnt_s: time at which the data of its last training were taken.
        drift: loss of performance that its detector reports; None before the first report.
        new_share: rows labelled since then, divided by the rows of the training.
    """

    now_s: float
    learnt_s: float
    drift: float | None
    new_share: float


def triggered_rule(rules: Sequence[TriggerRule], condition: ModelCondition) -> str | None:
    """Return the kind of the first rule that the model's condition triggers, or None."""
    for rule in rules:
        if _is_met(rule, condition):
            return rule.kind
    return None


def _is_met(rule: TriggerRule, condition: ModelCondition) -> bool:
    if rule.kind == "drift":
        return condition.drift is not None and condition.drift > rule.limit
    if rule.kind == "age":
        return condition.now_s - condition.learnt_s > rule.limit
    if rule.kind == "data":
        return condition.new_share > rule.limit
    return condition.now_s // rule.limit > max(condition.learnt_s, 0.0) // rule.limit


def data_gain(performance: float, new_share: float) -> float:
    """Return the expected performance gain of a retraining with newly labelled rows."""
    return LEARNING_RATE * (1 - performance) * (1 - math.exp(-new_share))


def potential(built: float, lost: float, new_share: float) -> float:
    """Return the expected performance gain of a retraining now (PipeSim paper, section III-A).

    Args:
        built: performance of the model when it was built.
        lost: measured loss since then.
        new_share: rows labelled since then, divided by the rows of the training.
    """
    return max(lost, 0.0) + data_gain(built, new_share)


DAY_S = 86_400.0


@dataclass(frozen=True)
class DriftDetectors:
    """Settings of the drift detectors, which are trained and use computing time for every check.

    Attributes:
        every_s, seconds: seconds between checks of a model, and of computing in a check.
        error: standard deviation of a report, with `scored` scorings since the last one.
        scored: reference number of scorings; four times as many halve the error.
        renewed_s: age from which a detector is trained and deployed again, a `monitor` task.
        wears_s: age at which the error of a detector is twice that of a new one.
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
            raise SetupError("times of detectors must be above 0 s, and their error at least 0.")

    def error_of(self, scored: float, age_s: float) -> float:
        """Return the standard deviation of the error of a reported performance loss."""
        return self.error * math.sqrt(self.scored / max(scored, 1.0)) * (1 + age_s / self.wears_s)


@dataclass(frozen=True)
class FleetPlan:
    """Settings of a fleet of deployed models: drift, drift detection and retraining.

    Attributes:
        size: mean loss of performance of a drift; exponential, at most 0.4.
        scorings_per_day: median over the models; lognormal with a spread of 1.
        labelled: share of the scorings that get a label and serve for training.
        work: factor on the training time, because models in production are larger.
        human_delay_s: median delay by a person before a retraining begins; 0 is none.
        quiet: whether retrainings wait for an hour of low load, for a day at most.
        keeps: whether a new version is deployed only if it is not worse than the old one is now.
        allowed_loss: loss of performance that the SLA of every model allows.
        allowed_share: share of the time in which the loss may be larger.
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
    triggers: tuple[TriggerRule, ...] = (TriggerRule("drift", 0.05), TriggerRule("age", 30 * DAY_S))
    detectors: DriftDetectors = field(default_factory=DriftDetectors)
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
            raise SetupError(f"patterns must be shares of {', '.join(PATTERNS)} that sum to 1.")
        numbers = (self.drifts_per_month, self.size, self.scorings_per_day, self.human_delay_s)
        if not all(math.isfinite(value) and value >= 0 for value in numbers):
            raise SetupError("drifts, their size, scorings and delays must be numbers from 0.")
        if not self.work > 0:
            raise SetupError(f"work is {self.work!r}; allowed are factors above 0.")
        shares = [self.labelled, self.allowed_loss, self.allowed_share]
        if not all(0 <= share <= 1 for share in shares):
            raise SetupError("labelled, allowed_loss and allowed_share must be from 0 to 1.")


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """Randomly drawn properties of a deployed model: drifts, usage, scheduling weight and age."""

    drifts: tuple[Drift, ...]
    scorings_per_day: float
    weight: float
    age_s: float
    check_s: float

    def loss(self, now_s: float, learnt_s: float) -> float:
        """Return the performance lost at `now_s` by a version trained on data from `learnt_s`."""
        now = np.array([now_s])
        return float(sum(drift.loss(now, learnt_s)[0] for drift in self.drifts))


def draw_fleet(
    plan: FleetPlan, duration_s: float, streams: RandomStreams
) -> tuple[ModelProfile, ...]:
    """Draw the models of a fleet, each from its own random stream."""
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
        scoring_noise, weight = rng.standard_normal(2)
        age, check = rng.random(2)
        fleet.append(
            ModelProfile(
                tuple(drifts), plan.scorings_per_day * math.exp(scoring_noise),
                math.exp(0.5 * weight - 0.125), age * 14 * DAY_S, check * plan.detectors.every_s,
            )
        )  # fmt: skip
    return tuple(fleet)


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a deployed model: times of deployment and of its data, initial performance."""

    deployed_s: float
    learnt_s: float
    built: float


@dataclass(frozen=True, slots=True)
class Retraining:
    """A running retraining of a deployed model, with the time at which its data were taken."""

    deployed: "DeployedModel"
    learnt_s: float


@dataclass(slots=True, eq=False)
class DeployedModel:
    """A deployed model with its versions and the state of its drift detector.

    Attributes:
        model: its number, that of the pipeline that built it.
        sizes: float64 [3], rows, columns and bytes of its training data.
        detector_s: time at which the detector was trained.
    """

    model: int
    watched: ModelProfile
    plan: FleetPlan
    built: float
    sizes: Floats
    versions: list[ModelVersion] = field(default_factory=list)
    drift: float | None = None
    detector_s: float = 0.0
    renewing: bool = False

    def __post_init__(self) -> None:
        self.versions.append(ModelVersion(0.0, -self.watched.age_s, self.built))

    @property
    def version(self) -> int:
        """Number of the current version, from 1."""
        return len(self.versions)

    @property
    def is_late(self) -> bool:
        """Whether the detector reports a performance loss above the limit of the SLA."""
        return self.drift is not None and self.drift > self.plan.allowed_loss

    def performance(self, now_s: float) -> float:
        """Return the true performance of the current version."""
        return max(self.built - self.watched.loss(now_s, self.versions[-1].learnt_s), 0.0)

    def new_share(self, now_s: float) -> float:
        """Return the number of newly labelled rows divided by that of training rows."""
        days = (now_s - self.versions[-1].learnt_s) / DAY_S
        return self.watched.scorings_per_day * self.plan.labelled * days / float(self.sizes[0])

    def condition(self, now_s: float) -> ModelCondition:
        """Return the observable state from which trigger rules decide."""
        learnt = self.versions[-1].learnt_s
        return ModelCondition(now_s, learnt, self.drift, self.new_share(now_s))

    def potential(self, now_s: float) -> float:
        """Return the expected performance gain of a retraining, from observable values."""
        return potential(self.built, self.drift or 0.0, self.new_share(now_s))

    def report(self, now_s: float, noise: float) -> None:
        """Record a detector report: the true loss plus `noise` standard deviations."""
        detectors = self.plan.detectors
        scored = self.watched.scorings_per_day * detectors.every_s / DAY_S
        error = detectors.error_of(scored, now_s - self.detector_s)
        lost = self.watched.loss(now_s, self.versions[-1].learnt_s)
        self.drift = max(lost + error * noise, 0.0)

    def replace(self, renewal: Retraining, now_s: float, built: float) -> None:
        """Deploy the retrained version and renew its drift detector."""
        self.built, self.drift, self.detector_s = built, None, now_s
        self.versions.append(ModelVersion(now_s, renewal.learnt_s, built))


@dataclass(frozen=True, eq=False)
class FleetHistory:
    """Performance, staleness and SLA violations of all models of a fleet over time.

    Attributes:
        times_s, performance: float64 [t] and [m, t].
        staleness: float64 [m, t], lost share of the performance when built.
        potential: float64 [m, t], true gain of a retraining.
        late_share: float64 [m], share of the time with more loss than the SLA allows.
        late: bool [m, t], whether the loss is larger than the SLA allows.
    """

    times_s: Floats
    performance: Floats
    staleness: Floats
    potential: Floats
    late_share: Floats
    late: NDArray[np.bool_]


def fleet_history(fleet: list[DeployedModel], plan: FleetPlan, times_s: Floats) -> FleetHistory:
    """Return the performance and staleness of the models of a fleet at increasing times."""
    shape = (len(fleet), len(times_s))
    built, lost, gain = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for m, model in enumerate(fleet):
        begins = np.array([version.deployed_s for version in model.versions])
        which = np.maximum(np.searchsorted(begins, times_s, side="right") - 1, 0)
        learnt = np.array([version.learnt_s for version in model.versions])[which]
        built[m] = np.array([version.built for version in model.versions])[which]
        for drift in model.watched.drifts:
            lost[m] += drift.loss(times_s, learnt)
        rows = model.watched.scorings_per_day * plan.labelled * (times_s - learnt) / DAY_S
        share = rows / float(model.sizes[0])
        gain[m] = [data_gain(b, s) for b, s in zip(built[m], share, strict=True)]
    lost = np.minimum(lost, built)
    late = lost > plan.allowed_loss
    share = late.mean(axis=1) if len(times_s) else np.zeros(len(fleet))
    performance = built - lost
    staleness = np.divide(lost, built, out=np.zeros(shape), where=built > 0)
    return FleetHistory(times_s, performance, staleness, lost + gain, share, late)
