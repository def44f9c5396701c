"""What is simulated: a platform, its statistics, who comes, and for how long."""

import math
from dataclasses import dataclass, field

from sim.aiops.arrivals import PROFILES
from sim.aiops.defaults import published
from sim.aiops.fleet import FleetPlan
from sim.aiops.graph import PipelineGraph
from sim.aiops.platform import Platform
from sim.aiops.statistics import Statistics
from sim.aiops.synthesis import Recipe
from sim.errors import SetupError, UnknownNameError


@dataclass(frozen=True)
class Submission:
    """A pipeline of a user's own making.

    Attributes:
        at_s: when it arrives.
        graph: what it does; data, framework and times are drawn as for any other.
        user: whose it is.
    """

    at_s: float
    graph: PipelineGraph
    user: int = 0


@dataclass(frozen=True)
class PlatformScenario:
    """A simulation of a platform.

    Attributes:
        platform: resources and data store.
        statistics: laws.
        recipe: how pipelines are made up.
        profile: of arrivals, one of `sim.aiops.arrivals.PROFILES`; `none` if nobody comes by
            chance.
        interarrival_factor: on every gap between arrivals.
        start_s: seconds since Monday midnight at which time 0 lies.
        duration_s: nothing arrives, or happens, at or after it.
        drain: go on, without arrivals, until everything that came is done.
        fleet: deployed models that are watched and renewed.
        submissions: pipelines beside those that come by chance.
        seed: of all streams.
    """

    platform: Platform = field(default_factory=Platform)
    statistics: Statistics = field(default_factory=published)
    recipe: Recipe = field(default_factory=Recipe)
    profile: str = "realistic"
    interarrival_factor: float = 1.0
    start_s: float = 0.0
    duration_s: float = 7 * 86_400.0
    drain: bool = False
    fleet: FleetPlan = field(default_factory=FleetPlan)
    submissions: tuple[Submission, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.profile not in (*PROFILES, "none"):
            raise UnknownNameError("arrival profile", self.profile, (*PROFILES, "none"))
        for name, value in (
            ("interarrival_factor", self.interarrival_factor),
            ("duration_s", self.duration_s),
        ):
            if not (math.isfinite(value) and value > 0):
                raise SetupError(f"{name} is {value!r}; allowed are numbers above 0.")
        if not (math.isfinite(self.start_s) and self.start_s >= 0):
            raise SetupError(f"start_s is {self.start_s!r}; allowed are seconds from 0.")
        if type(self.seed) is not int or self.seed < 0:
            raise SetupError(f"the seed is {self.seed!r}; allowed are whole numbers from 0.")
        if self.drain and self.fleet.n_models:
            raise SetupError("a platform that watches models never ends by itself: drain is off.")
        for one in self.submissions:
            if not 0 <= one.at_s < self.duration_s:
                raise SetupError(f"a submission at {one.at_s!r} s lies outside of the simulation.")
