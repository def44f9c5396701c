"""What to do about pilots, as decisions: how many are missing, and which jobs are given up."""

from collections.abc import Mapping
from dataclasses import dataclass

from assistant.executors.slurm.commands import Job

NEW_S = 3.0
"""How old a submission is before it counts that the controller does not know it."""

MOST_MISSING = 2
"""Looks in a row at which the controller does not know a job before it is taken for lost."""

WAITS_S = 60.0
"""How long a job may wait before it is said why."""

FRUITLESS = 3
"""Jobs in a row, beyond the pilots that are wanted, that may end before their pilot was heard."""


NEVER = frozenset(
    {
        "AccountNotAllowed", "BadConstraints", "InvalidAccount", "InvalidQOS", "PartitionConfig",
        "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed",
    }
)  # fmt: skip
"""Reasons of Slurm's for which a job waits until somebody changes the cluster or the job."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A pilot that was asked for and was not heard of yet.

    Attributes:
        age_s: since it was asked for.
        missing: looks in a row at which the controller did not know its job.
    """

    age_s: float
    missing: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about pilots that were not heard of.

    Attributes:
        missing: how often in a row each is not known by now.
        lost: those whose ticket is revoked, since no job carries it any more.
        held: those whose job is cancelled too, since Slurm does not start it any more.
        waits: why one of them waits for long; None if none does.
        never: why one of them will not be started at all; None if none is so.
    """

    missing: Mapping[str, int]
    lost: tuple[str, ...]
    held: tuple[str, ...]
    waits: str | None
    never: str | None


def judge(expected: Mapping[str, Expected], known: Mapping[str, list[Job]]) -> Verdict:
    """Return what is to be done, after the controller told which jobs there are.

    Args:
        expected: by the name of the job.
        known: the jobs that are not over, by their names.
    """
    missing: dict[str, int] = {}
    held, waits, never = [], None, None
    for name, one in expected.items():
        jobs = known.get(name, [])
        missing[name] = 0 if jobs or one.age_s < NEW_S else one.missing + 1
        if any(job.is_held for job in jobs):
            held.append(name)
        elif jobs and jobs[0].state == "PENDING":
            reason = jobs[0].reason
            waits = waits or (reason if one.age_s > WAITS_S else None)
            never = never or (reason if reason in NEVER else None)
    lost = tuple(name for name, n in missing.items() if n >= MOST_MISSING)
    return Verdict(missing, lost, tuple(held), waits, never)


def to_submit(capacity: int, n_runs: int, n_pilots: int) -> int:
    """Return how many more pilots are wanted.

    >>> to_submit(4, 2, 1), to_submit(4, 9, 1), to_submit(4, 0, 1)
    (1, 3, 0)
    """
    return max(0, min(capacity, n_runs) - n_pilots)
