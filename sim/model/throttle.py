"""Machines that run slower for some time, because of a power cap or of heat."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.errors import ScenarioError
from sim.model.cluster import ClusterSpec, check_speed
from sim.model.columns import MOST_SECONDS


@dataclass(frozen=True)
class ThrottleWindow:
    """Some machines run at a share of their full speed for some time.

    Attributes:
        machines: names of machines; one or more.
        from_s: when it begins, seconds since the first submission.
        until_s: when it is over; later than `from_s`.
        cpu: share of full speed of their processors meanwhile, above 0 to 1. Where several windows
            and the machine itself say something, the smallest counts.
        gpu: likewise of their GPUs.
    """

    machines: tuple[str, ...]
    from_s: float
    until_s: float
    cpu: float = 1.0
    gpu: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "machines", tuple(self.machines))
        if not self.machines:
            raise ScenarioError(f"{self.title}: it names no machine; name one or more.")
        if not 0.0 <= self.from_s < self.until_s <= MOST_SECONDS:
            raise ScenarioError(
                f"{self.title}: it is from {self.from_s!r} to {self.until_s!r} s; allowed are "
                "finite times from 0, and an end behind the beginning."
            )
        check_speed(f"{self.title}: cpu", self.cpu)
        check_speed(f"{self.title}: gpu", self.gpu)

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"throttle window on '{self.machines[0] if self.machines else ''}'"


class Turns(NamedTuple):
    """When which machine changes its speed, in order of time. Columns have shape [n_turns].

    Attributes:
        time_s: float64.
        machine: int64.
        cpu: float64, share of full speed from then on.
        gpu: float64, likewise.
    """

    time_s: NDArray[np.float64]
    machine: NDArray[np.int64]
    cpu: NDArray[np.float64]
    gpu: NDArray[np.float64]


def check_throttles(windows: tuple[ThrottleWindow, ...], cluster: ClusterSpec) -> None:
    """Refuse windows on machines that a cluster does not have.

    Raises:
        ScenarioError: with the name that is unknown.
    """
    if not windows:
        return
    known = set(cluster.machine_names)
    for window in windows:
        for name in window.machines:
            if name not in known:
                raise ScenarioError(
                    f"{window.title}: the cluster has no machine '{name}'; it has "
                    f"{cluster.n_machines}, such as '{next(iter(cluster.machine_names), '')}'."
                )


def turns_of(windows: tuple[ThrottleWindow, ...], cluster: ClusterSpec) -> Turns:
    """Return when machines change their speed, windows that overlap taken together."""
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
    found: list[tuple[float, int, float, float]] = []
    for machine, those in on.items():
        for time_s in sorted({w.from_s for w in those} | {w.until_s for w in those}):
            active = [w for w in those if w.from_s <= time_s < w.until_s]
            cpu = min([usual[machine][0], *(w.cpu for w in active)])
            gpu = min([usual[machine][1], *(w.gpu for w in active)])
            found.append((time_s, machine, cpu, gpu))
    found.sort()
    return Turns(
        np.array([turn[0] for turn in found], dtype=np.float64),
        np.array([turn[1] for turn in found], dtype=np.int64),
        np.array([turn[2] for turn in found], dtype=np.float64),
        np.array([turn[3] for turn in found], dtype=np.float64),
    )
