"""A scenario: one workload on one cluster under one set of policies."""

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, get_args

from sim.errors import ScenarioError, UnknownNameError
from sim.model.cluster import ClusterSpec
from sim.model.workload import Workload

Overrun = Literal["raise", "kill"]
TooWide = Literal["refuse", "reject", "clip"]
Allocation = Literal["processors", "whole_nodes"]


@dataclass(frozen=True)
class Scenario:
    """Everything that decides the outcome of a simulation.

    Attributes:
        workload: the jobs.
        cluster: where they run.
        order: name of the queue order (`sim.policies.order.ORDERS`).
        backfill: name of the backfilling rule (`sim.policies.backfill.BACKFILLS`).
        overrun: what happens when a job runs longer than requested. ``raise``: the scheduler's
            estimate is max(requested, run time) and the job runs to its end. ``kill``: the job
            is cut at its request.
        too_wide: what happens to a job that no partition admits. ``refuse``: the scenario raises.
            ``reject``: the job never runs and counts as rejected. ``clip``: a job that is too
            wide takes all processors that the widest partition gives to one job, and its run
            time and request grow so that processor-seconds are kept (a moldable job with linear
            speed-up, the simplest of Downey's 1997 model). A job that no set of machines can
            hold for want of memory is not too wide, and clipping it raises.
        seed: reserved for policies that draw; part of the digest.
        allocation: what a job is given. ``processors``: as many as it needs of its partition,
            wherever they are. ``whole_nodes``: whole machines, the first idle ones that have
            memory enough for it, until their processors reach what it needs; what they have
            beyond that is idle with it. Every partition must have machines then.

    The names of order and backfill are checked when the scenario is simulated.
    """

    workload: Workload
    cluster: ClusterSpec
    order: str = "fcfs"
    backfill: str = "easy"
    overrun: Overrun = "raise"
    too_wide: TooWide = "refuse"
    seed: int = 0
    allocation: Allocation = "processors"

    def __post_init__(self) -> None:
        if self.overrun not in get_args(Overrun):
            raise UnknownNameError("overrun rule", self.overrun, get_args(Overrun))
        if self.too_wide not in get_args(TooWide):
            raise UnknownNameError(
                "rule for jobs that are too wide", self.too_wide, get_args(TooWide)
            )
        if type(self.seed) is not int or self.seed < 0:
            raise ScenarioError(f"seed is {self.seed!r}; allowed are whole numbers from 0.")
        if self.allocation not in get_args(Allocation):
            raise UnknownNameError("allocation", self.allocation, get_args(Allocation))
        if self.allocation == "whole_nodes":
            self._check_machines()

    def _check_machines(self) -> None:
        bare = [part.name for part in self.cluster.partitions if not part.machines]
        if bare:
            raise ScenarioError(
                f"allocation is 'whole_nodes' and partition '{bare[0]}' has no machines; make it "
                "with Partition.of_machines, or cut the cluster with in_machines_of."
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides the outcome: the cache key of the result."""
        told = {
            "workload": self.workload.digest,
            "cluster": asdict(self.cluster),
            "order": self.order,
            "backfill": self.backfill,
            "overrun": self.overrun,
            "too_wide": self.too_wide,
            "seed": self.seed,
            "allocation": self.allocation,
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
