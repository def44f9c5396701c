"""The outcome of a simulation: when and where each job ran."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class JobState(IntEnum):
    """How a job ended."""

    COMPLETED = 0
    KILLED = 1
    REJECTED = 2


@dataclass(frozen=True, eq=False)
class StepSeries:
    """What a monitor saw in one partition: values that hold from each time to the next.

    Attributes:
        partition: name of the partition.
        time_s: float64 [n_steps], strictly increasing.
        n_queued: int64 [n_steps], jobs that wait.
        used_procs: int64 [n_steps], processors in use.
    """

    partition: str
    time_s: NDArray[np.float64]
    n_queued: NDArray[np.int64]
    used_procs: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """Columns of shape [n_jobs], in the order of the workload, read-only.

    Two results are equal when these columns and the scenario's digest are equal bit by bit. The
    engine and the monitor's series do not count: engines must agree.

    Attributes:
        start_s: float64, NaN for a rejected job.
        end_s: float64, start plus run time; NaN for a rejected job.
        partition: int64, index of the partition; -1 for a rejected job.
        state: int8, a `JobState`.
        scenario_digest: the scenario that gave this result.
        engine: name of the engine.
        series: one per partition if a monitor was asked for, else None.
        note: how it was come by, where that is worth a word to people; does not count either.
    """

    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    partition: NDArray[np.int64]
    state: NDArray[np.int8]
    scenario_digest: str
    engine: str
    series: tuple[StepSeries, ...] | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        for column in self._columns():
            column.setflags(write=False)

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SimulationResult):
            return NotImplemented
        return self.scenario_digest == other.scenario_digest and all(
            mine.tobytes() == theirs.tobytes()
            for mine, theirs in zip(self._columns(), other._columns(), strict=True)
        )

    def __hash__(self) -> int:
        return hash((self.scenario_digest, self.start_s.tobytes()))

    def _columns(
        self,
    ) -> Iterator[NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int8]]:
        yield from (self.start_s, self.end_s, self.partition, self.state)
