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
