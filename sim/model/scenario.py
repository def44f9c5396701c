"""A scenario: one workload on one cluster under one set of policies."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from sim.model.cluster import (
    CapacityWindow,
    ClusterSpec,
    ThrottleWindow,
    check_throttles,
    check_windows,
    cluster_values,
)
from sim.model.errors import ScenarioError, UnknownNameError
from sim.model.workload import UNKNOWN, Workload

Overrun = Literal["raise", "kill", "extend"]
TooWide = Literal["refuse", "reject", "clip"]
Allocation = Literal["processors", "whole_nodes", "shared_nodes", "instances"]

MOST_PRIORITY = float(2**53)
"""Of a queue, and the most shares of a user."""


@dataclass(frozen=True)
class Scenario:
    """Everything that decides the outcome of a simulation.

    Attributes:
        workload: the jobs.
        cluster: where they run.
        order: name of the queue order (`sim.policies.orders.ORDERS`).
        backfill: name of the backfilling rule (`sim.policies.backfills.BACKFILLS`).
        overrun: what happens when a job runs longer than requested. ``raise``: the scheduler's
            estimate is max(requested, run time) and the job runs to its end. ``kill``: the job
            is cut at its request. ``extend``: the scheduler reckons with the request, and when
            the job outlives that, with ever more (`sim.kernel.job_queue`); it runs to its end.
        too_wide: what happens to a job that no partition admits. ``refuse``: the scenario raises.
            ``reject``: the job never runs and counts as rejected. ``clip``: a job that is too
            wide takes all processors that the widest partition gives to one job, and its run
            time and request grow so that processor-seconds are kept (a moldable job with linear
            speed-up, the simplest of Downey's 1997 model). A job that no set of machines can
            hold for want of memory is not too wide, and clipping it raises.
        seed: for policies that draw, such as the placement ``random``; part of the digest.
        allocation: what a job is given. ``processors``: as many as it needs of its partition,
            wherever they are. ``whole_nodes``: whole machines, the first idle ones that have
            memory enough for it, until their processors reach what it needs; what they have
            beyond that is idle with it. ``shared_nodes``: processors of named machines, which
            several jobs may share, as far as their memory goes; which ones is up to the backfilling
            rule. Every partition must have machines with either. ``instances``: each instance of
            the tasks of the workload is placed on a machine of the only partition
            (`sim.model.admission`).
        options: what order and backfill are told, by the names that they declare; what is not
            told is as usual.
        grace_s: with ``kill``, so many seconds longer than its request a job may run.
        cleanup_s: so many seconds longer than it runs a job holds what it was given: until an
            epilogue is over, or until the scheduler notices. The scheduler reckons with them.
        qos_priority: priorities from 0 of the queues of the workload, by their numbers, for orders
            that ask (a Slurm log's quality of service stands there); a queue not told has 0.
        shares: what is due to the users of the workload, by their numbers, in proportion, for
            orders that ask; a user not told has 1. Jobs of unknown users are those of one, -1.
        windows: when some processors are not for jobs. The rules then decide by a plan: ``none``
            lets nobody overtake, ``greedy`` is ``depth`` without reservations, ``easy`` with one.
        placement: name of the rule by which instances get machines
            (`sim.policies.placements.PLACEMENTS`).
        throttles: when machines run slower than usual; instances feel it.

    The names of order, backfill, placement and options are checked when the scenario is simulated.
    """

    workload: Workload
    cluster: ClusterSpec
    order: str = "fcfs"
    backfill: str = "easy"
    overrun: Overrun = "raise"
    too_wide: TooWide = "refuse"
    seed: int = 0
    allocation: Allocation = "processors"
    options: Mapping[str, float] = field(default_factory=dict, hash=False)
    grace_s: float = 0.0
    cleanup_s: float = 0.0
    qos_priority: Mapping[int, float] = field(default_factory=dict, hash=False)
    shares: Mapping[int, float] = field(default_factory=dict, hash=False)
    windows: tuple[CapacityWindow, ...] = ()
    placement: str = "first_fit"
    throttles: tuple[ThrottleWindow, ...] = ()

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
        for name in ("options", "qos_priority", "shares"):
            object.__setattr__(self, name, dict(getattr(self, name)))
        _check_by_number("qos_priority of queue", self.qos_priority, "from 0")
        _check_by_number("shares of user", self.shares, "above 0")
        for name in ("grace_s", "cleanup_s"):
            if not 0 <= getattr(self, name) <= sys.float_info.max:
                raise ScenarioError(
                    f"{name} is {getattr(self, name)!r}; allowed is a finite number of seconds "
                    "from 0."
                )
        if self.grace_s > 0 and self.overrun != "kill":
            raise ScenarioError(
                f"grace_s is {self.grace_s:g} and overrun is '{self.overrun}'; a grace is given "
                "before a job is killed, so choose overrun='kill' or leave it out."
            )
        object.__setattr__(self, "windows", tuple(self.windows))
        check_windows(self.windows, self.cluster)
        object.__setattr__(self, "throttles", tuple(self.throttles))
        check_throttles(self.throttles, self.cluster)
        if self.allocation != "processors":
            self._check_machines()
        if self.allocation == "instances":
            self._check_instances()
        elif self.throttles or self.placement != "first_fit":
            raise ScenarioError(
                f"allocation is '{self.allocation}', which knows neither a placement nor throttle "
                "windows; leave them out, or choose allocation='instances'."
            )

    @property
    def may_requeue(self) -> bool:
        """Whether a running job can be killed and queued again."""
        fails = any(window.kind == "failure" for window in self.windows)
        return fails or any(part.preemptible for part in self.cluster.partitions)

    def _check_machines(self) -> None:
        if self.windows:
            raise ScenarioError(
                f"allocation is '{self.allocation}' and the scenario has capacity windows, which "
                "take counted processors; leave them out, or choose allocation='processors'."
            )
        for part in self.cluster.partitions:
            if part.preemptible:
                raise ScenarioError(
                    f"allocation is '{self.allocation}' and partition '{part.name}' is "
                    "preemptible, which only counted processors know; leave that out, or choose "
                    "allocation='processors'."
                )
        bare = [
            part.name for part in self.cluster.partitions if part.on is None and not part.machines
        ]
        if bare:
            raise ScenarioError(
                f"allocation is '{self.allocation}' and partition '{bare[0]}' has no machines; "
                "make it with Partition.of_machines, or cut the cluster with in_machines_of."
            )

    def _check_instances(self) -> None:
        if self.workload.tasks is None:
            raise ScenarioError(
                f"allocation is 'instances' and the jobs of '{self.workload.name}' have no tasks; "
                "take a workload that has some, or another allocation."
            )
        (part, *more_partitions) = self.cluster.partitions
        if more_partitions or part.max_procs or part.max_requested_s or part.running_per_user:
            raise ScenarioError(
                "allocation is 'instances', which takes one partition without limits; tell "
                "machines apart by labels, and let tasks demand them."
            )
        if self.overrun != "raise" or self.cleanup_s > 0 or self.too_wide == "clip":
            raise ScenarioError(
                f"allocation is 'instances', overrun '{self.overrun}', too_wide '{self.too_wide}' "
                f"and cleanup_s {self.cleanup_s:g}; instances run to their end and are not "
                "clipped, so leave these out (too_wide='reject' is known)."
            )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that decides the outcome: the cache key of the result."""
        content = {
            "workload": self.workload.digest,
            "cluster": cluster_values(self.cluster),
            "order": self.order,
            "backfill": self.backfill,
            "overrun": self.overrun,
            "too_wide": self.too_wide,
            "seed": self.seed,
            "allocation": self.allocation,
            "options": dict(self.options),
            "grace_s": self.grace_s,
            "cleanup_s": self.cleanup_s,
            "qos_priority": self.qos_priority,
            "shares": self.shares,
            "windows": [asdict(window) for window in self.windows],
        }
        if self.allocation == "instances":
            content["placement"] = self.placement
            content["throttles"] = [asdict(window) for window in self.throttles]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_by_number(
    subject: str, values: Mapping[Any, Any], allowed: Literal["from 0", "above 0"]
) -> None:
    for number, value in values.items():
        if type(number) is not int or number < UNKNOWN:
            raise ScenarioError(f"{subject} {number!r}; they are known by whole numbers from -1.")
        least = 0.0 if allowed == "from 0" else sys.float_info.min
        if not isinstance(value, int | float) or not least <= value <= MOST_PRIORITY:
            raise ScenarioError(
                f"{subject} {number} is {value!r}; allowed are numbers {allowed} to {MOST_PRIORITY:g}."
            )
