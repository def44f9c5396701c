"""The real logs beside the checkout, and the rules that some of them need."""

from functools import cache
from pathlib import Path

from sim import Workload, load_workload
from sim.api import ReadingRules

RULES = {
    "lublin_256": ReadingRules(machine_size="max_nodes"),
}
"""By the name of the log; the others are read by the default rules."""


@cache
def read(shared_data: Path, name: str) -> Workload:
    """Return a whole log, read once in a session of tests."""
    return load_workload(shared_data / "swf" / f"{name}.swf.gz", rules=RULES.get(name))


def crowded(shared_data: Path, name: str, n_jobs: int, share: int) -> tuple[Workload, int]:
    """Return the first jobs of a log, and processors so few that queues form.

    They are one of ``share`` parts of the real machine's, or those of the widest job if more.
    """
    workload = read(shared_data, name).head(n_jobs)
    return workload, max(workload.widest_procs, (workload.max_procs or 0) // share)
