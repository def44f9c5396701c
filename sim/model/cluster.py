"""A cluster: partitions of counted processors, which may be those of named machines."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sim.errors import ClusterError
from sim.model.columns import shown_count

MOST_PROCS = 2**53
"""More than any machine, and all that a float64 can count."""

MOST_MACHINES = 10**6
"""Of one cluster; each has a name and a row in the simulation."""

RESOURCES: tuple[str, ...] = ("procs", "mem_bytes")
"""What machines have and jobs demand, as fields of `MachineSpec`; processors are the first."""

UNLIMITED = 2**62
"""The capacity of a machine for which a resource was not told: it limits nobody."""


@dataclass(frozen=True)
class MachineSpec:
    """Machines of one kind.

    Attributes:
        name: of the machine; if there are several, each adds its number to it, from 1.
        procs: processors of each, 1 to 2**53.
        count: how many there are.
        mem_bytes: memory of each in bytes, 1 to 2**53; None is not told, and then no limit.
    """

    name: str
    procs: int
    count: int = 1
    mem_bytes: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ClusterError("a machine has an empty name; give it one.")
        for field in ("procs", "count", "mem_bytes"):
            value = getattr(self, field)
            if value is not None or field != "mem_bytes":
                _whole(f"machine '{self.name}'", field, value)

    @property
    def names(self) -> Iterator[str]:
        """Names of the machines, in order."""
        if self.count == 1:
            return iter((self.name,))
        return (f"{self.name}{number}" for number in range(1, self.count + 1))

    @property
    def capacity(self) -> tuple[int, ...]:
        """What each machine has of every one of `RESOURCES`."""
        told = (getattr(self, resource) for resource in RESOURCES)
        return tuple(UNLIMITED if amount is None else amount for amount in told)


@dataclass(frozen=True)
class Partition:
    """A part of the machine with a queue of its own.

    Attributes:
        name: unique in its cluster.
        procs: processors, 1 to 2**53.
        max_requested_s: longest request it admits, in seconds, inclusive; None is no limit.
        max_procs: widest job it admits, inclusive; None is no limit but `procs`.
        machines: those that the processors belong to, in the order in which they are taken;
            together they have `procs`. Empty if only counted processors are known.
    """

    name: str
    procs: int
    max_requested_s: float | None = None
    max_procs: int | None = None
    machines: tuple[MachineSpec, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", tuple(self.machines))
        if not self.name:
            raise ClusterError("a partition has an empty name; give it one.")
        place = f"partition '{self.name}'"
        _whole(place, "procs", self.procs)
        if self.max_procs is not None:
            _whole(place, "max_procs", self.max_procs)
        limit_s = self.max_requested_s
        if limit_s is not None and not 0 < limit_s <= sys.float_info.max:
            raise ClusterError(
                f"partition '{self.name}': max_requested_s is {shown_count(limit_s)}; allowed is a "
                "finite number of seconds above 0, or None for no limit."
            )
        of_machines = sum(spec.procs * spec.count for spec in self.machines)
        if self.machines and of_machines != self.procs:
            raise ClusterError(
                f"{place}: procs is {self.procs} and its machines have {of_machines}; they must "
                "agree. Partition.of_machines counts for you."
            )

    @classmethod
    def of_machines(
        cls,
        name: str,
        machines: Iterable[MachineSpec],
        max_requested_s: float | None = None,
        max_procs: int | None = None,
    ) -> Self:
        """Return a partition that has the processors of its machines.

        Raises:
            ClusterError: no machines, or a limit that cannot be.
        """
        given = tuple(machines)
        if not given:
            raise ClusterError(f"partition '{name}' needs at least 1 machine; 0 were given.")
        procs = sum(spec.procs * spec.count for spec in given)
        return cls(name, procs, max_requested_s, max_procs, given)

    @property
    def n_machines(self) -> int:
        """How many machines it has; 0 if only its processors are known."""
        return sum(spec.count for spec in self.machines)

    @property
    def widest_procs(self) -> int:
        """Processors of the widest job it admits."""
        return self.procs if self.max_procs is None else min(self.procs, self.max_procs)


@dataclass(frozen=True)
class ClusterSpec:
    """Partitions in the order in which a job looks for a place.

    Attributes:
        partitions: one or more, with unique names and 2**53 processors together at most. Their
            machines, a million at most, have unique names too.
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
        if self.total_procs > MOST_PROCS:
            raise ClusterError(
                f"the {len(names)} partitions have {self.total_procs} processors; a cluster has "
                "2**53 of them at most."
            )
        if self.n_machines:
            self._check_machines()

    def _check_machines(self) -> None:
        if self.n_machines > MOST_MACHINES:
            raise ClusterError(
                f"the cluster has {shown_count(self.n_machines)} machines; {MOST_MACHINES:,} is "
                "the most."
            )
        known: set[str] = set()
        for name in self.machine_names:
            if name in known:
                raise ClusterError(f"two machines are called '{name}'; names must be unique.")
            known.add(name)

    @classmethod
    def single(cls, procs: int, name: str = "main") -> Self:
        """Return a cluster of one partition without limits."""
        return cls((Partition(name, procs),))

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Self:
        """Return a cluster of the given partitions, in that order."""
        return cls(tuple(partitions))

    def in_machines_of(self, procs: int, mem_bytes: int | None = None) -> Self:
        """Return the same partitions, each made of identical machines.

        A partition ``main`` of 64 processors in machines of 32 has ``main1`` and ``main2``.

        Args:
            procs: processors of each machine.
            mem_bytes: memory of each machine in bytes; None is not told.

        Raises:
            ClusterError: a partition is not a whole number of such machines, or the names of
                machines are not unique then.
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
                replace(
                    part,
                    machines=(MachineSpec(part.name, procs, part.procs // procs, mem_bytes),),
                )
                for part in self.partitions
            )
        )

    @property
    def n_machines(self) -> int:
        """Machines of all partitions."""
        return sum(partition.n_machines for partition in self.partitions)

    @property
    def machine_names(self) -> tuple[str, ...]:
        """Names of the machines, by partition, in order."""
        return tuple(
            chain.from_iterable(spec.names for part in self.partitions for spec in part.machines)
        )

    def machine_capacity(self) -> NDArray[np.int64]:
        """Return what each machine has: int64 [n_machines, len(RESOURCES)]."""
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
        """Processors of all partitions."""
        return sum(partition.procs for partition in self.partitions)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the partitions, in order."""
        return tuple(partition.name for partition in self.partitions)

    @property
    def widest(self) -> Partition:
        """The partition that admits the widest job (the first of them, on a tie)."""
        return max(self.partitions, key=lambda partition: partition.widest_procs)


def _whole(place: str, field: str, value: int) -> None:
    if type(value) is not int or not 1 <= value <= MOST_PROCS:
        raise ClusterError(
            f"{place}: {field} is {shown_count(value)}; allowed are whole numbers from 1 to 2**53."
        )
