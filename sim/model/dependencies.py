"""Dependencies between jobs: which job is submitted after the end of which other one.

In a log, jobs come when they came. In a simulation with another scheduler a user would have had the
results earlier or later, and would have submitted the next job accordingly (feedback): E. Shmueli,
D. G. Feitelson, On simulation and design of parallel-systems schedulers: are we doing the right
thing?, TPDS 20(7), 2009.

``logged`` takes fields 17 and 18 of the Standard Workload Format: the job is submitted a think time
after its preceding job has ended. Without a known think time it is submitted as logged, but not
before that end.

``sessions`` derives both from the recorded times of each user, as in N. Zakay, D. G. Feitelson,
Preserving user behavior characteristics in trace-based simulation of parallel job scheduling,
MASCOTS 2014. Jobs of a user that are submitted before all earlier ones of the batch have ended are
one batch. A batch that begins at most `LONGEST_THINK_S` after the last end of the batch before
belongs to the same session: its jobs are submitted after this end, with the recorded think times.
The first batch of a session comes as logged.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.model.columns import read_only_copy
from sim.model.errors import ScenarioError
from sim.model.workload import UNKNOWN, Workload

DependencySource = Literal["ignore", "logged", "sessions"]

LONGEST_THINK_S = 1200.0
"""Think time above which a new session begins: 20 minutes (Shmueli & Feitelson 2009)."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The preceding job of each job, and the think time after it, as columns of [n_jobs].

    Attributes:
        preceding: int64, row of the preceding job, which is smaller than the own; -1 is none.
        think_s: float64, seconds from the end of the preceding job to the submission; NaN if
            unknown or if there is none.
    """

    preceding: NDArray[np.int64]
    think_s: NDArray[np.float64]

    @property
    def n_followers(self) -> int:
        """Return the number of jobs with a preceding job."""
        return int((self.preceding >= 0).sum())


def dependencies_of(workload: Workload, source: DependencySource) -> Dependencies | None:
    """Return the dependencies of the jobs of a workload; None to ignore them.

    Raises:
        ScenarioError: the workload lacks what the source needs, or has no dependency.
    """
    return None if source == "ignore" else _found(workload, source)


@lru_cache(maxsize=8)
def _found(workload: Workload, source: DependencySource) -> Dependencies:
    found = _logged(workload) if source == "logged" else _of_sessions(workload)
    for column in (found.preceding, found.think_s):
        column.setflags(write=False)
    return found


def _logged(workload: Workload) -> Dependencies:
    """Return the dependencies in the log; preceding jobs that are not earlier do not count."""
    if (workload.preceding_job < 0).all():
        raise ScenarioError(
            f"dependencies is 'logged' but no job of '{workload.name}' has a preceding job (SWF "
            "fields 17 and 18); derive them from the sessions of users with "
            "dependencies='sessions', or leave them out."
        )
    by_id = np.argsort(workload.job_id)
    ids = workload.job_id[by_id]
    place = np.minimum(np.searchsorted(ids, workload.preceding_job), len(ids) - 1)
    rows = by_id[place].astype(np.int64)
    is_earlier = (ids[place] == workload.preceding_job) & (rows < np.arange(len(rows)))
    preceding = np.where(is_earlier, rows, -1)
    return Dependencies(preceding, np.where(is_earlier, workload.think_s, np.nan))


def _of_sessions(workload: Workload) -> Dependencies:
    if (workload.user == UNKNOWN).all():
        raise ScenarioError(
            f"dependencies is 'sessions' but '{workload.name}' has no known users; use a log with "
            "users (SWF field 12), or leave dependencies out."
        )
    n_unknown = int(np.isnan(workload.logged_wait_s).sum())
    if n_unknown:
        raise ScenarioError(
            f"dependencies is 'sessions' but {n_unknown} of the {workload.n_jobs} jobs of "
            f"'{workload.name}' have no recorded wait (SWF field 3), so it is unknown when they "
            "ended; use a log with waits, or leave dependencies out."
        )
    submit_s = workload.submit_s.tolist()
    end_s = (workload.submit_s + workload.logged_wait_s + workload.runtime_s).tolist()
    preceding, think_s = [-1] * len(submit_s), [float("nan")] * len(submit_s)
    batches: dict[int, tuple[int, int]] = {}  # preceding job, and last job to end, of the newest
    for row, user in enumerate(workload.user.tolist()):
        if user == UNKNOWN:
            continue
        before, last = batches.get(user, (-1, -1))
        if last < 0 or submit_s[row] >= end_s[last]:  # a new batch
            is_near = last >= 0 and submit_s[row] - end_s[last] <= LONGEST_THINK_S
            before, last = last if is_near else -1, row
        elif end_s[row] > end_s[last]:
            last = row
        batches[user] = before, last
        if before >= 0:
            preceding[row], think_s[row] = before, submit_s[row] - end_s[before]
    return Dependencies(
        read_only_copy(np.array(preceding, dtype=np.int64)),
        read_only_copy(np.array(think_s, dtype=np.float64)),
    )
