"""The cluster: partitions, their machines, and windows of reduced capacity or speed.

Partitions have counted processors, which may belong to named machines. A `CapacityWindow` takes
processors away for some time; a `ThrottleWindow` makes machines slower (power cap, heat).
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from sim.model.columns import MOST_SECONDS, count_text
from sim.model.errors import ClusterError, ScenarioError, UnknownNameError

MOST_PROCS = 2**53  # Every whole number up to here is exact in a float64

MOST_MACHINES = 10**6

RESOURCES: tuple[str, ...] = ("procs", "mem_bytes")
"""Resources that machines have and jobs demand, as fields of `MachineSpec`; processors first."""

MOST_TIER = 65_535

MOST_GPUS = 1024  # Maximum for one machine

UNLIMITED = 2**62


@dataclass(frozen=True)
class MachineSpec:
    """Specification of one or more identical machines.

    Attributes:
        name: name of the machine; several machines get its number appended, from 1.
        procs: processors per machine, 1 to 2**53.
        count: number of machines.
        mem_bytes: memory per machine in bytes, 1 to 2**53; None is unknown and sets no limit.
        gpus: GPUs per machine, 0 to 1,024. This and the following fields count only where instances
            of tasks are placed on machines.
        gpu_resource: resource name under which tasks request these GPUs.
        disk_bytes: disk per machine in bytes, 1 to 2**53; None is unknown and sets no limit.
        labels: names and values that tasks may demand, like the labels of a Kubernetes node.
        cpu_throttle, gpu_throttle: speed of the processors and of the GPUs as a share of full
            speed, above 0 to 1.
    """

    name: str
    procs: int
    count: int = 1
    mem_bytes: int | None = None
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    disk_bytes: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    cpu_throttle: float = 1.0
    gpu_throttle: float = 1.0

    def __post_init__(self) -> None:
        if not self.name:
            raise ClusterError("a machine has an empty name; give it one.")
        place = f"machine '{self.name}'"
        for name in ("procs", "count", "mem_bytes", "disk_bytes"):
            value = getattr(self, name)
            if value is not None or not name.endswith("_bytes"):
                _whole(place, name, value)
        if type(self.gpus) is not int or not 0 <= self.gpus <= MOST_GPUS:
            raise ClusterError(
                f"{place}: gpus is {count_text(self.gpus)}; allowed are whole numbers from 0 to "
                f"{MOST_GPUS:,}."
            )
        object.__setattr__(self, "labels", dict(self.labels))
        for key, label in self.labels.items():
            if not all(map(_is_text, (key, label))) or not key:
                raise ClusterError(
                    f"{place}: label {key!r} is {label!r}; names and values must be texts."
                )
        for name in ("cpu_throttle", "gpu_throttle"):
            check_speed(f"{place}: {name}", getattr(self, name))

    @property
    def names(self) -> Iterator[str]:
        """Yield the name of each machine, numbered from 1 if there are several."""
        if self.count == 1:
            return iter((self.name,))
        return (f"{self.name}{number}" for number in range(1, self.count + 1))

    @property
    def capacity(self) -> tuple[int, ...]:
        """Return the amount of each of `RESOURCES` that one machine has."""
        amounts = (getattr(self, resource) for resource in RESOURCES)
        return tuple(UNLIMITED if amount is None else amount for amount in amounts)


@dataclass(frozen=True)
class Partition:
    """Cluster partition with its own processors, or a queue on another partition's processors.

    The jobs of all queues on the same processors wait in one line: higher tiers first, and within a
    tier in the order of the scenario. Slurm: `PartitionName` with `PriorityTier`.

    Attributes:
        name: unique name in the cluster.
        procs: processors, 1 to 2**53; 0 for a queue `on` the processors of another partition.
        max_requested_s: longest request admitted, in seconds, inclusive; None is no limit.
        max_procs: widest job admitted, in processors, inclusive; None means `procs`.
        machines: machines of the processors, in the order in which they are taken; together they
            have `procs`. Empty if only counted processors are known.
        priority: priority of its jobs for orders that use it (Slurm's PriorityJobFactor); 0 to
            2**53.
        on: name of the partition whose processors it uses; None means its own.
        tier: queues of a higher tier on the same processors go first.
        running_per_user: maximum of running jobs of one user from this queue; None is no limit. At
            most this many are in the queue or run; the others are held back, where no order and
            no rule sees them. When one ends, the best held job enters: the first by the order if
            its scores never change, else the first submitted. Slurm counts only the running jobs,
            and considers all jobs of a user until that many run.
        preemptible: its running jobs are killed and queued again when this lets the first waiting
            job of another queue on the same processors start at once (`sim.kernel.preemption`
            selects the jobs). Every queue there that is not preemptible has a higher tier.
    """

    name: str
    procs: int = 0
    max_requested_s: float | None = None
    max_procs: int | None = None
    machines: tuple[MachineSpec, ...] = ()
    priority: int = 1
    on: str | None = None
    tier: int = 0
    running_per_user: int | None = None
    preemptible: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", tuple(self.machines))
        if not self.name:
            raise ClusterError("a partition has an empty name; give it one.")
        place = f"partition '{self.name}'"
        if self.on is None:
            _whole(place, "procs", self.procs)
        elif self.procs != 0 or self.machines:
            raise ClusterError(
                f"{place} is a queue on the processors of '{self.on}' and has "
                f"{count_text(self.procs)} of its own; leave out its processors and machines, or "
                "leave out 'on'."
            )
        if type(self.tier) is not int or not 0 <= self.tier <= MOST_TIER:
            raise ClusterError(
                f"{place}: tier is {count_text(self.tier)}; allowed are whole numbers from 0 to "
                f"{MOST_TIER:,}."
            )
        if self.max_procs is not None:
            _whole(place, "max_procs", self.max_procs)
        if type(self.priority) is not int or not 0 <= self.priority <= MOST_PROCS:
            raise ClusterError(
                f"{place}: priority is {count_text(self.priority)}; allowed are whole numbers "
                "from 0 to 2**53."
            )
        if self.running_per_user is not None:
            _whole(place, "running_per_user", self.running_per_user)
        limit_s = self.max_requested_s
        if limit_s is not None and not 0 < limit_s <= sys.float_info.max:
            raise ClusterError(
                f"partition '{self.name}': max_requested_s is {count_text(limit_s)}; allowed is a "
                "finite number of seconds above 0, or None for no limit."
            )
        of_machines = sum(spec.procs * spec.count for spec in self.machines)
        if self.machines and of_machines != self.procs:
            raise ClusterError(
                f"{place}: procs is {self.procs} and its machines have {of_machines}; they must "
                "agree. Partition.of_machines counts them."
            )

    @classmethod
    def of_machines(
        cls,
        name: str,
        machines: Iterable[MachineSpec],
        max_requested_s: float | None = None,
        max_procs: int | None = None,
    ) -> Self:
        """Return a partition that consists of the given machines.

        Raises:
            ClusterError: no machines, or an impossible limit.
        """
        specs = tuple(machines)
        if not specs:
            raise ClusterError(f"partition '{name}' needs at least 1 machine; 0 were given.")
        procs = sum(spec.procs * spec.count for spec in specs)
        return cls(name, procs, max_requested_s, max_procs, specs)

    @property
    def n_machines(self) -> int:
        """Return the number of machines, or 0 if only a processor count is known."""
        return sum(spec.count for spec in self.machines)


@dataclass(frozen=True)
class ClusterSpec:
    """Specification of a cluster: its partitions, in the order in which jobs are routed.

    There is at least one. Names of partitions are unique, and so are those of their machines, at
    most a million; the processors are at most 2**53 together.
    """

    partitions: tuple[Partition, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(self.partitions))
        if not self.partitions:
            raise ClusterError("a cluster needs at least 1 partition; 0 were given.")
        names = [partition.name for partition in self.partitions]
        for name in names:
            if names.count(name) > 1:
                raise ClusterError(f"two partitions are called '{name}'; names must be unique.")
        for part in self.partitions:
            self._check_queue(part)
        self._check_tiers()
        if self.total_procs > MOST_PROCS:
            raise ClusterError(
                f"the {len(names)} partitions have {self.total_procs} processors; allowed are "
                "at most 2**53."
            )
        if self.n_machines:
            self._check_machines()

    def _check_queue(self, part: Partition) -> None:
        if part.on is None:
            return
        host_names = [other.name for other in self.partitions if other.on is None]
        if part.on not in host_names:
            raise ClusterError(
                f"partition '{part.name}' is a queue on '{part.on}', which has no processors of "
                f"its own; partitions with processors: {', '.join(host_names) or 'none'}."
            )

    def _check_tiers(self) -> None:
        for part in self.partitions:
            for other in self.partitions:
                shares = self.host(part) is self.host(other)
                yields = part.preemptible and not other.preemptible
                if shares and yields and part.tier >= other.tier:
                    raise ClusterError(
                        f"partition '{part.name}' is preemptible with tier {part.tier}, but "
                        f"'{other.name}' on the same processors has tier {other.tier}; give "
                        f"'{other.name}' a higher tier."
                    )

    def _check_machines(self) -> None:
        if self.n_machines > MOST_MACHINES:
            raise ClusterError(
                f"the cluster has {count_text(self.n_machines)} machines; allowed are at "
                f"most {MOST_MACHINES:,}."
            )
        names: set[str] = set()
        for name in self.machine_names:
            if name in names:
                raise ClusterError(f"two machines are called '{name}'; names must be unique.")
            names.add(name)

    @classmethod
    def single(cls, procs: int, name: str = "main") -> Self:
        """Return a cluster with one partition that has no limits on jobs."""
        return cls((Partition(name, procs),))

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Self:
        """Return a cluster of the given partitions, in that order."""
        return cls(tuple(partitions))

    def in_machines_of(self, procs: int, mem_bytes: int | None = None) -> Self:
        """Return a copy of the cluster, divided into machines of `procs` processors each.

        A partition ``main`` of 64 processors in machines of 32 gets ``main1`` and ``main2``.

        Args:
            procs: processors of each machine.
            mem_bytes: memory of each machine in bytes; None is unknown.

        Raises:
            ClusterError: a partition is not a whole number of such machines, or the names of the
                machines are not unique.
        """
        _whole("a machine", "procs", procs)
        for part in self.partitions:
            if part.procs % procs:
                raise ClusterError(
                    f"partition '{part.name}' has {part.procs} processors, which is not a whole "
                    f"number of machines of {procs}; change either."
                )
        return type(self)(
            tuple(
                part
                if part.on is not None
                else replace(
                    part,
                    machines=(MachineSpec(part.name, procs, part.procs // procs, mem_bytes),),
                )
                for part in self.partitions
            )
        )

    def host(self, partition: Partition) -> Partition:
        """Return the partition that owns the processors which the given one uses."""
        if partition.on is None:
            return partition
        return self.partitions[self.names.index(partition.on)]

    def hosts(self) -> NDArray[np.int64]:
        """Return, per partition, the index of the owner of its processors: int64 [m]."""
        names = self.names
        return np.array([names.index(p.on or p.name) for p in self.partitions], dtype=np.int64)

    def widest_procs(self, partition: Partition) -> int:
        """Return how many processors the widest job that a partition admits may have."""
        procs = self.host(partition).procs
        return procs if partition.max_procs is None else min(procs, partition.max_procs)

    @property
    def n_machines(self) -> int:
        """Return the number of machines of all partitions."""
        return sum(partition.n_machines for partition in self.partitions)

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Return the names of the machines, by partition, in order."""
        return tuple(
            chain.from_iterable(spec.names for part in self.partitions for spec in part.machines)
        )

    def machine_capacity(self) -> NDArray[np.int64]:
        """Return each machine's total resources: int64 [n_machines, len(RESOURCES)]."""
        specs = [spec for part in self.partitions for spec in part.machines]
        amounts = np.array([spec.capacity for spec in specs], dtype=np.int64)
        return np.repeat(
            amounts.reshape(len(specs), len(RESOURCES)), [spec.count for spec in specs], axis=0
        )

    def machine_partition(self) -> NDArray[np.int64]:
        """Return the partition of each machine: int64 [n_machines]."""
        counts = [partition.n_machines for partition in self.partitions]
        return np.repeat(np.arange(len(counts), dtype=np.int64), counts)

    @property
    def total_procs(self) -> int:
        """Return the number of processors of all partitions."""
        return sum(partition.procs for partition in self.partitions)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the partitions, in order."""
        return tuple(partition.name for partition in self.partitions)

    @property
    def widest(self) -> Partition:
        """Return the partition that admits the widest job, or the first of several."""
        return max(self.partitions, key=self.widest_procs)


def _whole(place: str, name: str, value: int) -> None:
    if type(value) is not int or not 1 <= value <= MOST_PROCS:
        raise ClusterError(
            f"{place}: {name} is {count_text(value)}; allowed are whole numbers from 1 to 2**53."
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def check_speed(subject: str, share: float) -> None:
    """Raise `ClusterError` unless `share`, a fraction of full speed, is in (0, 1]."""
    if type(share) not in (int, float) or not 0.0 < share <= 1.0:
        raise ClusterError(f"{subject} is {share!r}; allowed are numbers above 0 and at most 1.")


_OF_INSTANCES = {
    spec_field.name: spec_field.default_factory()
    if callable(spec_field.default_factory)
    else spec_field.default
    for spec_field in fields(MachineSpec)[4:]
}
"""Defaults of the fields of `MachineSpec` that matter only where instances are placed."""


def cluster_values(cluster: ClusterSpec) -> dict[str, Any]:
    """Return a cluster as plain values for a digest, without machine options at their default."""
    values = asdict(cluster)
    for part in values["partitions"]:
        for spec in part["machines"]:
            for name, usual in _OF_INSTANCES.items():
                if spec[name] == usual:
                    del spec[name]
    return values


WindowKind = Literal["planned", "drain", "failure"]


@dataclass(frozen=True)
class CapacityWindow:
    """Time window in which a partition has fewer processors for jobs.

    Attributes:
        partition: name of a partition that has its own processors.
        procs: processors that are taken away, 1 to all that the partition has.
        from_s, until_s: start and end, in seconds since the first submission.
        kind: ``planned`` is maintenance or an advance reservation: the scheduler knows it from the
            beginning and starts no job whose estimate would overlap it. A job that outlives its
            estimate continues; the window takes the free processors, and the others when they
            become free. ``drain`` is unknown before it begins; running jobs continue, and the
            window takes the processors that they release until it has all. ``failure`` is unknown
            before it begins; it takes the free processors and kills running jobs for the others,
            the latest started first; these are queued again. Once a window has begun, its end is
            known.
    """

    partition: str
    procs: int
    from_s: float
    until_s: float
    kind: WindowKind = "planned"
    name: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(WindowKind):
            raise UnknownNameError("kind of capacity window", self.kind, get_args(WindowKind))
        if type(self.procs) is not int or not 1 <= self.procs <= MOST_PROCS:
            raise ScenarioError(
                f"{self.title}: procs is {count_text(self.procs)}; allowed are whole numbers "
                "from 1 to those of the partition."
            )
        if not 0.0 <= self.from_s < self.until_s <= MOST_SECONDS:
            raise ScenarioError(
                f"{self.title}: it is from {self.from_s!r} to {self.until_s!r} s; allowed are "
                "finite times from 0, with the end after the start."
            )

    @property
    def title(self) -> str:
        """Return a description of the window for messages, with its name and partition."""
        name = f" '{self.name}'" if self.name else ""
        return f"capacity window{name} on '{self.partition}'"


def check_windows(windows: tuple[CapacityWindow, ...], cluster: ClusterSpec) -> None:
    """Raise `ScenarioError` if a window takes processors that its partition lacks."""
    procs_by_partition = {part.name: part.procs for part in cluster.partitions if part.on is None}
    for window in windows:
        if window.partition not in procs_by_partition:
            raise ScenarioError(
                f"{window.title}: no partition of that name has its own processors; partitions "
                f"with processors: {', '.join(procs_by_partition)}."
            )
    for window in windows:
        beside = [
            other.procs
            for other in windows
            if other.partition == window.partition and other.from_s <= window.from_s < other.until_s
        ]
        if sum(beside) > procs_by_partition[window.partition]:
            raise ScenarioError(
                f"{window.title}: at {window.from_s:g} s all windows together take {sum(beside)} "
                f"processors of {procs_by_partition[window.partition]}; make them smaller, or "
                "remove the overlap."
            )


@dataclass(frozen=True)
class ThrottleWindow:
    """Time window in which certain machines run at a fraction of their full speed.

    Attributes:
        machines: names of one or more machines.
        from_s, until_s: start and end, in seconds since the first submission.
        cpu, gpu: speed of the processors and of the GPUs as a share of full speed, above 0 to 1.
            The smallest share counts among overlapping windows and the machine's own throttle.
    """

    machines: tuple[str, ...]
    from_s: float
    until_s: float
    cpu: float = 1.0
    gpu: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", tuple(self.machines))
        if not self.machines:
            raise ScenarioError(f"{self.title}: it has no machines; name one or more.")
        if not 0.0 <= self.from_s < self.until_s <= MOST_SECONDS:
            raise ScenarioError(
                f"{self.title}: it is from {self.from_s!r} to {self.until_s!r} s; allowed are "
                "finite times from 0, with the end after the start."
            )
        check_speed(f"{self.title}: cpu", self.cpu)
        check_speed(f"{self.title}: gpu", self.gpu)

    @property
    def title(self) -> str:
        """Return the name of the window for messages."""
        return f"throttle window on '{self.machines[0] if self.machines else ''}'"


class SpeedChanges(NamedTuple):
    """Changes of machine speeds in order of time, as columns of [n_turns].

    `cpu` and `gpu` are float64, shares of full speed from `time_s` on; `machine` is int64.
    """

    time_s: NDArray[np.float64]
    machine: NDArray[np.int64]
    cpu: NDArray[np.float64]
    gpu: NDArray[np.float64]


def check_throttles(windows: tuple[ThrottleWindow, ...], cluster: ClusterSpec) -> None:
    """Raise `ScenarioError` if a window names machines that the cluster lacks."""
    if not windows:
        return
    machine_names = set(cluster.machine_names)
    for window in windows:
        for name in window.machines:
            if name not in machine_names:
                raise ScenarioError(
                    f"{window.title}: the cluster has no machine '{name}'; it has "
                    f"{cluster.n_machines}, such as '{next(iter(cluster.machine_names), '')}'."
                )


def speed_changes(windows: tuple[ThrottleWindow, ...], cluster: ClusterSpec) -> SpeedChanges:
    """Merge overlapping throttle windows into a sequence of machine speed changes."""
    number = {name: i for i, name in enumerate(cluster.machine_names)} if windows else {}
    usual = [
        (spec.cpu_throttle, spec.gpu_throttle)
        for part in cluster.partitions
        for spec in part.machines
        for _ in range(spec.count)
    ]
    on: dict[int, list[ThrottleWindow]] = {}
    for window in windows:
        for name in dict.fromkeys(window.machines):
            on.setdefault(number[name], []).append(window)
    changes: list[tuple[float, int, float, float]] = []
    for machine, those in on.items():
        for time_s in sorted({w.from_s for w in those} | {w.until_s for w in those}):
            active = [w for w in those if w.from_s <= time_s < w.until_s]
            cpu = min([usual[machine][0], *(w.cpu for w in active)])
            gpu = min([usual[machine][1], *(w.gpu for w in active)])
            changes.append((time_s, machine, cpu, gpu))
    changes.sort()
    return SpeedChanges(
        np.array([turn[0] for turn in changes], dtype=np.float64),
        np.array([turn[1] for turn in changes], dtype=np.int64),
        np.array([turn[2] for turn in changes], dtype=np.float64),
        np.array([turn[3] for turn in changes], dtype=np.float64),
    )
