"""What can be steered. One line in `APPLICATIONS` registers one and gives it the contract suite."""

from collections.abc import Callable
from dataclasses import dataclass

from assistant.applications.lookup import Lookup
from assistant.applications.scheduling import Scheduling, Today
from assistant.ports import Application


@dataclass(frozen=True, slots=True)
class ApplicationEntry:
    """A registered application, with a small example of itself that runs in well under a second."""

    name: str
    summary: str
    example: Callable[[], Application]


def _scheduling_example() -> Scheduling:
    from sim import default_workload

    return Scheduling(default_workload(seed=1, n_jobs=60))


def _lookup_example() -> Lookup:
    return Lookup.parse("size,mode,objective\n1,a,3\n2,a,2\n1,b,5\n")


APPLICATIONS: tuple[ApplicationEntry, ...] = (
    ApplicationEntry(
        "scheduling", "two partitions of a cluster over a job log, simulated", _scheduling_example
    ),
    ApplicationEntry("lookup", "a fully measured table of configurations", _lookup_example),
)

__all__ = ["APPLICATIONS", "ApplicationEntry", "Lookup", "Scheduling", "Today"]
