"""Capacity over time: windows in which some processors of a partition are not for jobs."""

from dataclasses import dataclass
from typing import Literal, get_args

from sim.errors import ScenarioError, UnknownNameError
from sim.model.cluster import MOST_PROCS, ClusterSpec
from sim.model.columns import MOST_SECONDS, shown_count

WindowKind = Literal["planned", "drain", "failure"]


@dataclass(frozen=True)
class CapacityWindow:
    """So many processors of a partition are not for jobs for some time.

    Attributes:
        partition: name of a partition that has processors of its own.
        procs: how many, 1 to all that it has.
        from_s: when it begins, seconds since the first submission.
        until_s: when it is over; later than `from_s`.
        kind: ``planned``, as maintenance or an advance reservation: the scheduler knows it from
            the beginning and starts no job whose estimate would run into it. A job that outlives
            its estimate runs on; the window takes what is free, and the rest when it comes free.
            ``drain``: nobody knows of it before it begins; running jobs go on, and what they
            leave is taken until the window has all. ``failure``: nobody knows of it before it
            begins; it takes what is free, and kills running jobs for the rest, those that
            started last first; they are queued again. From its beginning on it is known when a
            window will be over.
        name: for people.
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
                f"{self.title}: procs is {shown_count(self.procs)}; allowed are whole numbers "
                "from 1 to all that the partition has."
            )
        if not 0.0 <= self.from_s < self.until_s <= MOST_SECONDS:
            raise ScenarioError(
                f"{self.title}: it is from {self.from_s!r} to {self.until_s!r} s; allowed are "
                "finite times from 0, and an end behind the beginning."
            )

    @property
    def title(self) -> str:
        """What messages call it."""
        name = f" '{self.name}'" if self.name else ""
        return f"capacity window{name} on '{self.partition}'"


def check_windows(windows: tuple[CapacityWindow, ...], cluster: ClusterSpec) -> None:
    """Refuse windows that a cluster cannot have.

    Raises:
        ScenarioError: of a partition that has no processors of its own, or of more processors at
            one time than it has.
    """
    own = {part.name: part.procs for part in cluster.partitions if part.on is None}
    for window in windows:
        if window.partition not in own:
            raise ScenarioError(
                f"{window.title}: no partition of that name has processors of its own; those that "
                f"have are: {', '.join(own)}."
            )
    for window in windows:
        beside = [
            other.procs
            for other in windows
            if other.partition == window.partition and other.from_s <= window.from_s < other.until_s
        ]
        if sum(beside) > own[window.partition]:
            raise ScenarioError(
                f"{window.title}: with the others at {window.from_s:g} s it makes {sum(beside)} "
                f"processors that are not for jobs, and there are {own[window.partition]}; make "
                "them smaller, or let them not overlap."
            )
