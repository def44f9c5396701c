"""A deployed model as it lives: what it was built with, what is known of it, its versions."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim.aiops.fleet import DAY_S, FleetPlan, Watched
from sim.aiops.triggers import Known, data_gain, potential

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a model, from when it is deployed until the next one is.

    Attributes:
        deployed_s: since when it answers.
        learnt_s: when its data were taken.
        built: performance when it was built.
    """

    deployed_s: float
    learnt_s: float
    built: float


@dataclass(frozen=True, slots=True)
class Renewal:
    """A training of a deployed model that is under way, with the time at which it took its data."""

    deployed: "Deployed"
    learnt_s: float


@dataclass(slots=True, eq=False)
class Deployed:
    """A model that is watched.

    Attributes:
        model: its number, that of the pipeline which built it.
        watched: as it was drawn.
        plan: of the fleet.
        built: performance of the present version when it was built.
        sizes: float64 [3], rows, columns and bytes that it was trained with.
        versions: all so far.
        drift: what the detector reported last; None before.
        detector_s: when the detector was trained.
        renewing: a training is under way.
    """

    model: int
    watched: Watched
    plan: FleetPlan
    built: float
    sizes: Floats
    versions: list[Version] = field(default_factory=list)
    drift: float | None = None
    detector_s: float = 0.0
    renewing: bool = False

    def __post_init__(self) -> None:
        self.versions.append(Version(0.0, -self.watched.age_s, self.built))

    @property
    def version(self) -> int:
        """Number of the present version, from 1."""
        return len(self.versions)

    @property
    def is_late(self) -> bool:
        """The detector reports more loss than was agreed."""
        return self.drift is not None and self.drift > self.plan.allowed_loss

    def performance(self, now_s: float) -> float:
        """Return what the present version really achieves."""
        return max(self.built - self.watched.loss(now_s, self.versions[-1].learnt_s), 0.0)

    def new_share(self, now_s: float) -> float:
        """Return labelled rows since the last training by the rows of that."""
        days = (now_s - self.versions[-1].learnt_s) / DAY_S
        return self.watched.scorings_per_day * self.plan.labelled * days / float(self.sizes[0])

    def known(self, now_s: float) -> Known:
        """Return what triggers may reason about."""
        learnt = self.versions[-1].learnt_s
        return Known(now_s, learnt, self.drift, self.new_share(now_s))

    def potential(self, now_s: float) -> float:
        """Return what a training now is expected to gain, from what is known."""
        return potential(self.built, self.drift or 0.0, self.new_share(now_s))

    def report(self, now_s: float, noise: float) -> None:
        """Let the detector report: the true loss and a normal draw times its error."""
        detectors = self.plan.detectors
        scored = self.watched.scorings_per_day * detectors.every_s / DAY_S
        error = detectors.error_of(scored, now_s - self.detector_s)
        lost = self.watched.loss(now_s, self.versions[-1].learnt_s)
        self.drift = max(lost + error * noise, 0.0)

    def replace(self, renewal: Renewal, now_s: float, built: float) -> None:
        """Deploy the next version, whose detector is new as well."""
        self.built, self.drift, self.detector_s = built, None, now_s
        self.versions.append(Version(now_s, renewal.learnt_s, built))


@dataclass(frozen=True, eq=False)
class FleetCourse:
    """What became of the models of a fleet, at steps of time.

    Attributes:
        times_s: float64 [t].
        performance: float64 [m, t].
        staleness: float64 [m, t], share of the performance when built that is lost.
        potential: float64 [m, t], what a training would truly gain.
        late_share: float64 [m], of the time in which a model lost more than was agreed.
        late: bool [m, t], whether it had.
    """

    times_s: Floats
    performance: Floats
    staleness: Floats
    potential: Floats
    late_share: Floats
    late: NDArray[np.bool_]


def course_of(fleet: list[Deployed], plan: FleetPlan, times_s: Floats) -> FleetCourse:
    """Follow the models of a fleet over times that rise from 0."""
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
    return FleetCourse(times_s, performance, staleness, lost + gain, share, late)
