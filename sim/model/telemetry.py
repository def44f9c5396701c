"""What was measured of pods that ran, beside what was known of them before."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.errors import WorkloadError
from sim.model.columns import frozen
from sim.model.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Telemetry:
    """Measurements of pods of a workload with tasks. All columns have shape [n_rows].

    Attributes:
        workload: whose pods they are.
        task: int64, row of the workload's tasks; a task may be measured more than once, or not.
        duration_s: float64, seconds from start to end, above 0.
        cpu_utilisation: float64, mean of the requested cores in use, from 0 to 1; NaN where it was
            not measured. So `gpu_utilisation`.
        cpu_speed: float64, mean speed of the cores by that without throttling, above 0 and at most
            1. So `gpu_speed`.
    """

    workload: Workload
    task: Ints
    duration_s: Floats
    cpu_utilisation: Floats
    gpu_utilisation: Floats
    cpu_speed: Floats
    gpu_speed: Floats

    @classmethod
    def from_arrays(
        cls,
        workload: Workload,
        *,
        task: ArrayLike,
        duration_s: ArrayLike,
        cpu_utilisation: ArrayLike | None = None,
        gpu_utilisation: ArrayLike | None = None,
        cpu_speed: ArrayLike | None = None,
        gpu_speed: ArrayLike | None = None,
    ) -> Self:
        """Check columns; utilisations that are not given are unknown, and speeds are full.

        Raises:
            WorkloadError: the workload has no work units, nothing was measured, a column has
                another length, or a value cannot be.
        """
        if workload.tasks is None or workload.tasks.work is None:
            raise WorkloadError(
                f"{workload.name} has no pods with work units; telemetry is compared with those."
            )
        rows = np.asarray(task, dtype=np.int64)
        n = len(rows)
        if n == 0:
            raise WorkloadError("telemetry needs 1 row or more; there is none.")
        if rows.min() < 0 or rows.max() >= workload.tasks.n_tasks:
            raise WorkloadError(f"telemetry names tasks that {workload.name} does not have.")
        given = {
            "duration_s": (duration_s, np.inf),
            "cpu_utilisation": (
                np.full(n, np.nan) if cpu_utilisation is None else cpu_utilisation,
                1,
            ),
            "gpu_utilisation": (
                np.full(n, np.nan) if gpu_utilisation is None else gpu_utilisation,
                1,
            ),
            "cpu_speed": (np.ones(n) if cpu_speed is None else cpu_speed, 1),
            "gpu_speed": (np.ones(n) if gpu_speed is None else gpu_speed, 1),
        }
        columns: dict[str, Floats] = {}
        for name, (values, most) in given.items():
            column = np.asarray(values, dtype=np.float64)
            if column.shape != (n,):
                raise WorkloadError(f"telemetry: {name} has shape {column.shape}, not ({n},).")
            unknown = np.isnan(column) & name.endswith("utilisation")
            above_0 = (column > 0) | (name.endswith("utilisation") & (column == 0))
            bad = ~(unknown | (above_0 & (column <= most) & np.isfinite(column)))
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                upto = "" if most == np.inf else f" and at most {most}"
                raise WorkloadError(
                    f"telemetry: {name}, row {row}: {column[row]:.15g}; allowed are finite numbers "
                    f"above 0{upto}."
                )
            columns[name] = frozen(column)
        return cls(workload, frozen(rows), **columns)

    @property
    def n_rows(self) -> int:
        """Number of measurements."""
        return len(self.task)
