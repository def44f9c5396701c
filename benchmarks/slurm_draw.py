"""Jobs that are drawn for a real Slurm: what each asks for, and how long it will sleep."""

from dataclasses import dataclass

import numpy as np

PARTITIONS = ("main", "small")
WIDTHS = (1, 2, 4, 8, 12, 16, 20, 24, 32)
LIMITS_MIN = (1, 2, 3, 5)
SHARE_OF_MAIN = 0.6
SHORTEST_S, LONGEST_S = 3, 25


@dataclass(frozen=True)
class DrawnJob:
    """A job before its submission.

    Attributes:
        arrival_s: whole seconds after the first.
        partition: one of `PARTITIONS`.
        procs: CPUs.
        limit_min: its time limit.
        run_s: how long it will sleep.
    """

    arrival_s: int
    partition: str
    procs: int
    limit_min: int
    run_s: int


def draw(seed: int, n_jobs: int, span_s: int, most_procs: int) -> tuple[DrawnJob, ...]:
    """Draw jobs: gaps exponential, the rest uniform over the levels above, 6 of 10 to ``main``.

    Args:
        seed: of numpy's default generator.
        n_jobs: at least 1.
        span_s: mean of the arrival of the last, seconds.
        most_procs: CPUs of a partition; wider jobs are drawn of `WIDTHS` that fit.
    """
    rng = np.random.default_rng(seed)
    widths = [width for width in WIDTHS if width <= most_procs]
    arrival_s = np.cumsum(rng.exponential(span_s / n_jobs, n_jobs))
    arrival_s = np.floor(arrival_s - arrival_s[0])
    return tuple(
        DrawnJob(
            arrival_s=int(at_s),
            partition=PARTITIONS[int(rng.random() >= SHARE_OF_MAIN)],
            procs=int(rng.choice(widths)),
            limit_min=int(rng.choice(LIMITS_MIN)),
            run_s=int(rng.integers(SHORTEST_S, LONGEST_S + 1)),
        )
        for at_s in arrival_s
    )
