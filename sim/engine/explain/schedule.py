"""The jobs of a finished schedule as values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.engine.explain.values import MOST_NAMED, Heads, Jobs, RunJob, WaitingJob
from sim.model.admission import Admission
from sim.model.result import SimulationResult
from sim.model.workload import Workload

NONE = Jobs(0, 0, 0.0, ())


@dataclass(frozen=True)
class Schedule:
    """Who ran when. Jobs are rows of the workload.

    Attributes:
        workload: the jobs as logged.
        admission: the jobs as the scheduler got them.
        result: when they ran.
    """

    workload: Workload
    admission: Admission
    result: SimulationResult

    def ran(self, row: int) -> RunJob:
        """Return one job that ran."""
        start_s = float(self.result.start_s[row])
        return RunJob(
            job_id=int(self.workload.job_id[row]),
            procs=int(self.admission.procs[row]),
            start_s=start_s,
            end_s=float(self.result.end_s[row]),
            estimated_end_s=start_s + float(self.admission.estimate_s[row]),
        )

    def waited(self, row: int, now_s: float) -> WaitingJob:
        """Return one job as it waited at a moment."""
        return WaitingJob(
            job_id=int(self.workload.job_id[row]),
            procs=int(self.admission.procs[row]),
            waited_s=now_s - float(self.workload.submit_s[row]),
            start_s=float(self.result.start_s[row]),
        )

    def heads(self, seen: Iterable[tuple[int, float]]) -> Heads:
        """Return the heads of a queue from (row, moment) pairs in order of time."""
        first: dict[int, float] = {}
        for row, now_s in seen:
            first.setdefault(row, now_s)
        named = tuple(self.waited(*each) for each in list(first.items())[:MOST_NAMED])
        return Heads(len(first), named)

    def jobs(self, rows: Iterable[int], by: Literal["procs", "procs_h"]) -> Jobs:
        """Return jobs that ran, those named that have the most processors or processor-hours."""
        chosen = list(rows)
        procs = {row: int(self.admission.procs[row]) for row in chosen}
        procs_h = {row: procs[row] * float(self.admission.runtime_s[row]) / 3600 for row in chosen}
        weight = procs if by == "procs" else procs_h
        named = sorted(chosen, key=lambda row: (-weight[row], row))[:MOST_NAMED]
        return Jobs(
            n=len(chosen),
            procs=sum(procs.values()),
            procs_h=sum(procs_h.values()),
            named=tuple(self.ran(row) for row in named),
        )

    def ends(self, partition: int, from_s: float, to_s: float) -> NDArray[np.int64]:
        """Return the jobs of a partition that ended after `from_s`, and by `to_s`: int64 [n]."""
        result = self.result
        return np.flatnonzero(
            (self.admission.place == partition) & (result.end_s > from_s) & (result.end_s <= to_s)
        )

    def ended(self, among: NDArray[np.int64], from_s: float, to_s: float) -> list[int]:
        """Return the jobs that ran at `from_s` and ended by `to_s`.

        Args:
            among: int64 [n], of these jobs.
            from_s: they had started by then, and ended later.
            to_s: they ended no later.
        """
        start_s, end_s = self.result.start_s[among], self.result.end_s[among]
        found: list[int] = among[(start_s <= from_s) & (end_s > from_s) & (end_s <= to_s)].tolist()
        return found

    def ended_at(self, partition: int, now_s: float, at_once: Iterable[int]) -> list[int]:
        """Return the jobs of a partition whose ends a decision at `now_s` found.

        Args:
            partition: its index.
            now_s: when they ended.
            at_once: of the jobs that started at this very time, those started by decisions
                before; they count if they have no run time.
        """
        result = self.result
        ended = (self.admission.place == partition) & (result.end_s == now_s)
        found: list[int] = np.flatnonzero(ended & (result.start_s < now_s)).tolist()
        return found + [row for row in at_once if ended[row]]

    def arrived_at(self, partition: int, now_s: float) -> list[int]:
        """Return the jobs of a partition that were submitted at `now_s`."""
        return np.flatnonzero(
            (self.admission.place == partition) & (self.workload.submit_s == now_s)
        ).tolist()
