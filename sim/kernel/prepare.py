"""What is done in a partition before it decides: estimates put right, the queue ranked anew.

A job that outlives its estimate gets a longer one, in steps of 1, 5, 15 and 30 minutes and 1, 2, 5,
10, 20, 50 and 100 hours, one after another, until it is in the future (D. Tsafrir, Y. Etsion,
D. G. Feitelson, Backfilling using system-generated predictions rather than user runtime
estimates, TPDS 2007, section 3.2).
"""

from typing import Any

from sim.kernel.pool import TAKEN, Pool
from sim.kernel.ranking import rank_anew
from sim.kernel.text import apart, kernel

STEPS_S = (60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 18e3, 36e3, 72e3, 18e4, 36e4)
"""By how much an estimate is prolonged, the first time, the second, and so on; then by the last."""


@kernel
def prepare(pool: Pool, k: int, now_s: float, score_now: Any) -> None:
    """Make partition k ready for a decision; somebody waits there.

    Args:
        pool: the pool.
        k: the partition.
        now_s: the time.
        score_now: the score of the order, if its ranks change (`sim.policies.kinds.Order`).
    """
    if pool.partitions[k].corrects == 1:
        _correct(pool, k, now_s)
    if len(pool.sorted_jobs) > 0:
        rank_anew(pool, k, now_s, score_now)


@apart
@kernel
def _correct(pool: Pool, k: int, now_s: float) -> None:
    """Prolong the estimates of running jobs that should have ended by now."""
    here = pool.partitions[k]
    for slot in range(here.first, here.first + here.n_listed):
        job = pool.running[slot]
        if job != TAKEN and pool.jobs[job].estimated_end_s <= now_s:
            one = pool.jobs[job]
            while one.estimated_end_s <= now_s:
                one.estimated_end_s += STEPS_S[min(one.n_corrected, len(STEPS_S) - 1)]
                one.n_corrected += 1
            here.n_sorted = 0
            here.look_from = here.head
            here.has_ended = OVERRUN


OVERRUN = 2
"""In `Here.has_ended`: a job outlived its estimate, so that no reservation can be relied on."""
