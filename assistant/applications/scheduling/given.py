"""Names of what a simulated run gives."""

MEASURES = (
    *(
        f"{statistic}_{measure}"
        for measure in ("wait_s", "response_s", "slowdown", "bounded_slowdown")
        for statistic in ("mean", "median", "p95", "max")
    ),
    "makespan_s",
    "utilisation",
    "utilisation_at_arrival",
    "utilisation_small",
    "utilisation_main",
    "n_jobs",
    "n_rejected",
    "n_killed",
    "small_jobs_max_wait_s",
    "procs",
)
"""Every measure that a run may give; one that there is no job for is missing or unknown."""

OF_ONE_PARTITION = tuple(
    name for name in MEASURES if name not in ("utilisation_small", "utilisation_main")
)
"""The same of a cluster that is never split."""
