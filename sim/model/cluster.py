"""A cluster: partitions of counted, identical processors."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from sim.errors import ClusterError
from sim.model.columns import shown_count

MOST_PROCS = 2**53
"""More than any machine, and all that a float64 can count."""


@dataclass(frozen=True)
class Partition:
    """A part of the machine with a queue of its own.

    Attributes:
        name: unique in its cluster.
        procs: processors, 1 to 2**53.
        max_requested_s: longest request it admits, in seconds, inclusive; None is no limit.
        max_procs: widest job it admits, inclusive; None is no limit but `procs`.
    """

    name: str
    procs: int
    max_requested_s: float | None = None
    max_procs: int | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ClusterError("a partition has an empty name; give it one.")
        _whole(self.name, "procs", self.procs)
        if self.max_procs is not None:
            _whole(self.name, "max_procs", self.max_procs)
        limit_s = self.max_requested_s
        if limit_s is not None and not 0 < limit_s <= sys.float_info.max:
            raise ClusterError(
                f"partition '{self.name}': max_requested_s is {shown_count(limit_s)}; allowed is a "
                "finite number of seconds above 0, or None for no limit."
            )

    @property
    def widest_procs(self) -> int:
        """Processors of the widest job it admits."""
        return self.procs if self.max_procs is None else min(self.procs, self.max_procs)


@dataclass(frozen=True)
class ClusterSpec:
    """Partitions in the order in which a job looks for a place.

    Attributes:
        partitions: one or more, with unique names and 2**53 processors together at most.
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

    @classmethod
    def single(cls, procs: int, name: str = "main") -> Self:
        """Return a cluster of one partition without limits."""
        return cls((Partition(name, procs),))

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Self:
        """Return a cluster of the given partitions, in that order."""
        return cls(tuple(partitions))

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


def _whole(partition: str, field: str, value: int) -> None:
    if type(value) is not int or not 1 <= value <= MOST_PROCS:
        raise ClusterError(
            f"partition '{partition}': {field} is {shown_count(value)}; allowed are whole numbers "
            "from 1 to 2**53."
        )
