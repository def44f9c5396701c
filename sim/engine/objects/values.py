"""What placing by an object takes and gives: the algorithm, the monitor, and what it saw."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sim.engine.objects.live import LiveCluster, LiveMachine, LiveTask
from sim.model.result import SimulationResult

Choice = tuple[LiveMachine, LiveTask] | tuple[None, None]


class Algorithm(Protocol):
    """Says which task goes to which machine.

    As in CloudSimPy a scheduler asks again and again, until the answer is (None, None); each answer
    places one instance, and the cluster shows it at once.
    """

    def algorithm(self, cluster: LiveCluster, clock: float, /) -> Choice:
        """Return a machine and a task of which it takes one more instance, or (None, None).

        Args:
            cluster: as it is now.
            clock: the time in seconds since the first submission.
        """
        ...


@dataclass(frozen=True)
class Monitor:
    """What to record of the cluster while it is simulated.

    Attributes:
        tick_s: look every so many seconds, from 0 on until all has ended; None looks at the end of
            every instant at which something happens.
        machines: also record what is used of each machine.
    """

    tick_s: float | None = None
    machines: bool = False


@dataclass(frozen=True, eq=False)
class FleetSeries:
    """What a monitor saw; columns of shape [n_steps], read-only. What is seen holds until the next.

    Attributes:
        time_s: float64, strictly increasing.
        n_submitted: int64, jobs that have come.
        n_unfinished: int64, of them that have not ended.
        n_ready: int64, tasks that can be placed.
        n_waiting: int64, instances of these that are on no machine.
        n_running: int64, instances that are on machines.
        used: int64 [n_steps, 4], thousandths of cores, bytes of memory and disk, thousandths of
            GPUs that instances hold.
        used_by_machine: int64 [n_steps, n_machines, 4]; None if it was not asked for.
    """

    time_s: NDArray[np.float64]
    n_submitted: NDArray[np.int64]
    n_unfinished: NDArray[np.int64]
    n_ready: NDArray[np.int64]
    n_waiting: NDArray[np.int64]
    n_running: NDArray[np.int64]
    used: NDArray[np.int64]
    used_by_machine: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for column in vars(self).values():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)


@dataclass(frozen=True)
class AlgorithmRun:
    """A simulation in which an object placed the tasks.

    Attributes:
        result: as of any engine, for `summarise_instances`. Its digest is one of its own, since a
            scenario does not tell what an object does: it is in no cache.
        series: what the monitor saw; None without one.
        n_asked: how often the algorithm was asked.
    """

    result: SimulationResult
    series: FleetSeries | None
    n_asked: int
