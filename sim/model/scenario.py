"""The scenario: one workload on one cluster under one set of policies."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

from sim.model.accounts import AccountTree
from sim.model.cluster import (
    CapacityWindow,
    ClusterSpec,
    ThrottleWindow,
    check_throttles,
    check_windows,
    cluster_values,
)
from sim.model.dependencies import DependencySource, dependencies_of
from sim.model.errors import ScenarioError, UnknownNameError
from sim.model.moldable import Moldability
from sim.model.power import NodePower
from sim.model.workload import UNKNOWN, Workload

Overrun = Literal["raise", "kill", "extend", "extend_at_events"]
TooWide = Literal["refuse", "reject", "clip"]
DEFAULT_PLACEMENT = "first_fit"
Allocation = Literal["processors", "whole_nodes", "shared_nodes", "instances"]

MOST_PRIORITY = float(2**53)


@dataclass(frozen=True)
class Scenario:
    """Complete input of a simulation: workload, cluster, policies and options.

    The names of order, backfill, placement and options are checked when the scenario is simulated.

    Attributes:
        workload: jobs.
        cluster: partitions and machines.
        order: name of the queue order (`sim.policies.orders.ORDERS`).
        backfill: name of the backfilling rule (`sim.policies.backfills.BACKFILLS`).
        overrun: what happens when a job runs longer than requested. ``raise``: the scheduler's
            estimate is max(requested, run time) and the job runs to its end. ``kill``: the job is
            cut at its request. ``extend``: the scheduler plans with the request, prolongs it
            repeatedly when the job outlives it (`sim.kernel.job_queue`), decides anew each time
            the request or its prolongation runs out, and the job runs to its end.
            ``extend_at_events``: likewise, but it notices only when a job arrives or ends.
        too_wide: what happens to a job that no partition admits. ``refuse``: the scenario raises.
            ``reject``: the job never runs and counts as rejected. ``clip``: a job that is too wide
            takes all processors that the widest partition gives to one job, and its run time and
            request grow so that its processor-seconds stay the same (a moldable job with linear
            speed-up, the simplest of Downey's 1997 model). A job for which no set of machines has
            enough memory is not too wide, and clipping it raises.
        seed: seed of policies that draw, such as the placement ``random``; part of the digest.
        allocation: resources that a job gets. ``processors``: counted processors of its partition,
            on any machines. ``whole_nodes``: whole machines, the first idle ones with enough
            memory, until their processors suffice; the processors beyond the need stay idle.
            ``shared_nodes``: processors of named machines, which several jobs may share as far as
            memory permits; the backfilling rule selects them. Both node kinds need machines in
            every partition. ``instances``: each instance of the tasks of the workload is placed on
            a machine of the only partition (`sim.model.admission`).
        options: values for order and backfill, by the declared names; others have their defaults.
        grace_s: with ``kill``, seconds that a job may run beyond its request.
        cleanup_s: seconds for which a job holds its resources after its run: an epilogue, or the
            delay of the scheduler. The scheduler includes them in its plans.
        qos_priority: priorities from 0 of the queues of the workload, by queue number, for orders
            that use them (a Slurm log has the quality of service there); the default is 0.
        shares: relative shares of the users of the workload, by user number, for orders that use
            them; the default is 1. All jobs of unknown users belong to user -1.
        accounts: accounts with the shares of users, for orders that use them; the account of a job
            is its group. None is no accounts: all users are siblings.
        windows: times at which some processors are not available. The rules then decide by a plan:
            ``none`` lets no job overtake, ``greedy`` is ``depth`` without reservations, and
            ``easy`` is ``depth`` with one.
        placement: name of the rule that selects machines for instances
            (`sim.policies.placements.PLACEMENTS`).
        throttles: times at which machines run slower; this slows instances.
        dependencies: whether jobs are submitted after the end of another one
            (`sim.model.dependencies`). ``ignore``: all are submitted as logged. ``logged``: by the
            preceding jobs and think times in the log. ``sessions``: by those derived from the
            sessions of each user.
        power: watts of the nodes, for the energy of a schedule of counted processors; if idle nodes
            are switched off, they boot before a job starts. None is unknown.
        moldable: how far a job that is first in the queue may start on fewer processors than it
            requests (`sim.model.moldable`), with counted processors. None is not at all.
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
    placement: str = DEFAULT_PLACEMENT
    throttles: tuple[ThrottleWindow, ...] = ()
    power: NodePower | None = None
    dependencies: DependencySource = "ignore"
    accounts: AccountTree | None = None
    moldable: Moldability | None = None

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
        self._check_shares()
        for name in ("grace_s", "cleanup_s"):
            if not 0 <= getattr(self, name) <= sys.float_info.max:
                raise ScenarioError(
                    f"{name} is {getattr(self, name)!r}; allowed is a finite number of seconds "
                    "from 0."
                )
        if self.grace_s > 0 and self.overrun != "kill":
            raise ScenarioError(
                f"grace_s is {self.grace_s:g} but overrun is '{self.overrun}'; a grace is only for "
                "killed jobs, so choose overrun='kill' or leave it out."
            )
        object.__setattr__(self, "windows", tuple(self.windows))
        check_windows(self.windows, self.cluster)
        object.__setattr__(self, "throttles", tuple(self.throttles))
        check_throttles(self.throttles, self.cluster)
        if self.power is not None:
            self._check_power(self.power)
        self._check_dependencies()
        self._check_moldable()
        if self.allocation != "processors":
            self._check_machines()
        if self.allocation == "instances":
            self._check_instances()
        elif self.throttles or self.placement != DEFAULT_PLACEMENT:
            raise ScenarioError(
                f"allocation is '{self.allocation}', which has no placement and no throttle "
                "windows; leave them out, or choose allocation='instances'."
            )

    @property
    def may_requeue(self) -> bool:
        """Return whether the scenario allows killing running jobs and queuing them again."""
        fails = any(window.kind == "failure" for window in self.windows)
        return fails or any(part.preemptible for part in self.cluster.partitions)

    @property
    def boot_s(self) -> float:
        """Return the seconds by which booting nodes may delay a start."""
        return self.power.boot_s if self.power is not None and self.switches_off else 0.0

    @property
    def switches_off(self) -> bool:
        """Return whether idle nodes are switched off."""
        return self.power is not None and self.power.off_after_s is not None

    def _check_shares(self) -> None:
        _check_by_number("shares of user", self.shares, "above 0")
        if self.accounts is not None and self.shares:
            raise ScenarioError(
                "the scenario has shares of users and an account tree, which has shares of its "
                "own; leave either out."
            )

    def _check_power(self, power: NodePower) -> None:
        power.check(self.cluster)
        if self.allocation != "processors" or self.may_requeue:
            refused = (
                f"allocation '{self.allocation}'"
                if self.allocation != "processors"
                else "failure windows or a preemptible partition, which kill and queue jobs again"
            )
            raise ScenarioError(
                f"the scenario has the power of nodes and {refused}; leave either out (node power "
                "needs allocation='processors' and jobs that run once)."
            )

    def _check_dependencies(self) -> None:
        if self.dependencies == "ignore":
            return
        if self.dependencies not in get_args(DependencySource):
            raise UnknownNameError(
                "source of dependencies", self.dependencies, get_args(DependencySource)
            )
        limited = any(part.running_per_user is not None for part in self.cluster.partitions)
        if self.allocation == "instances" or limited:
            refused = "allocation 'instances'"
            if limited:
                refused = "a partition with a limit of running jobs per user"
            raise ScenarioError(
                f"dependencies is '{self.dependencies}' and the scenario has {refused}; leave "
                "either out."
            )
        dependencies_of(self.workload, self.dependencies)

    def _check_moldable(self) -> None:
        if self.moldable is None or self.moldable.halvings == 0:
            object.__setattr__(self, "moldable", None)
            return
        refused = {
            f"allocation '{self.allocation}'": self.allocation != "processors",
            "capacity windows": bool(self.windows),
            "a preemptible partition": any(part.preemptible for part in self.cluster.partitions),
            "nodes that are switched off": self.switches_off,
            f"cleanup_s {self.cleanup_s:g}": self.cleanup_s > 0,
        }
        for feature, is_there in refused.items():
            if is_there:
                raise ScenarioError(
                    f"the scenario has moldable jobs and {feature}; leave either out (moldable "
                    "jobs need counted processors, all of them all the time)."
                )

    def _check_machines(self) -> None:
        if self.windows:
            raise ScenarioError(
                f"allocation is '{self.allocation}' but the scenario has capacity windows, which "
                "need counted processors; leave them out, or choose allocation='processors'."
            )
        for part in self.cluster.partitions:
            if part.preemptible:
                raise ScenarioError(
                    f"allocation is '{self.allocation}' but partition '{part.name}' is "
                    "preemptible, which needs counted processors; leave that out, or choose "
                    "allocation='processors'."
                )
        bare = [
            part.name for part in self.cluster.partitions if part.on is None and not part.machines
        ]
        if bare:
            raise ScenarioError(
                f"allocation is '{self.allocation}' but partition '{bare[0]}' has no machines; "
                "make it with Partition.of_machines, or cut the cluster with in_machines_of."
            )

    def _check_instances(self) -> None:
        if self.workload.tasks is None:
            raise ScenarioError(
                f"allocation is 'instances' but the jobs of '{self.workload.name}' have no tasks; "
                "use a workload with tasks, or another allocation."
            )
        (part, *more_partitions) = self.cluster.partitions
        if more_partitions or part.max_procs or part.max_requested_s or part.running_per_user:
            raise ScenarioError(
                "allocation is 'instances', which needs one partition without limits; give "
                "machines labels, and let tasks demand them."
            )
        if self.overrun != "raise" or self.cleanup_s > 0 or self.too_wide == "clip":
            raise ScenarioError(
                f"allocation is 'instances', overrun '{self.overrun}', too_wide '{self.too_wide}' "
                f"and cleanup_s {self.cleanup_s:g}; instances run to their end and are not "
                "clipped, so leave these out (too_wide='reject' is allowed)."
            )

    @cached_property
    def digest(self) -> str:
        """Return the SHA-256 of all inputs that affect the result, used as its cache key."""
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
        if self.dependencies != "ignore":
            content["dependencies"] = self.dependencies
        if self.accounts is not None:
            names = self.workload.account_names, self.workload.user_names
            content["accounts"] = [self.accounts.digest, *names]
        if self.power is not None:
            content["power"] = self.power.values()
        if self.moldable is not None:
            content["moldable"] = self.moldable.values()
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _check_by_number(
    subject: str, values: Mapping[Any, Any], allowed: Literal["from 0", "above 0"]
) -> None:
    for number, value in values.items():
        if type(number) is not int or number < UNKNOWN:
            raise ScenarioError(f"{subject} {number!r}; allowed are whole numbers from -1.")
        least = 0.0 if allowed == "from 0" else sys.float_info.min
        if not isinstance(value, int | float) or not least <= value <= MOST_PRIORITY:
            raise ScenarioError(
                f"{subject} {number} is {value!r}; allowed are numbers {allowed} to "
                f"{MOST_PRIORITY:g}."
            )
