"""Schedules that a real Slurm made: the value, its file, and the same jobs as a scenario.

A file is one JSON object. Its ``jobs`` tell ``part`` (partition), ``n`` (processors), ``lim`` (time
limit in seconds), ``id`` (whole, unique), and ``submit``, ``start``, ``end`` (seconds of a clock);
what else they tell (``arr`` and ``run``, submission and run time as they were asked for; ``sched``,
who started it) is not needed. Beside them stand ``nodes`` (of each partition), ``cpus`` (of each)
and ``policy``; where these are missing the name of the file may tell them, as in
``easy_32x1cpu_seed1.json``.

The partitions share no node, so each of them is a scenario of its own.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from sim import ClusterSpec, Scenario, Workload
from sim.api import TraceError

Policy = Literal["easy", "default"]
"""``easy``: one reservation a partition (bf_job_part_count_reserve=1); ``default``: for all."""

_NAME = re.compile(r"(?:^|_)(easy|default)_(\d+)x(\d+)cpu")
_MOST = 2**53
_OVER = ("COMPLETED", "TIMEOUT", "FAILED")


@dataclass(frozen=True)
class SlurmJob:
    """A job as Slurm ran it; seconds on the clock of its run.

    Attributes:
        job_id: whole, unique in its run.
        partition: where it ran.
        procs: CPUs.
        limit_s: its time limit.
        submit_s: when Slurm took it.
        start_s: when it started.
        end_s: when it was over.
    """

    job_id: int
    partition: str
    procs: int
    limit_s: float
    submit_s: float
    start_s: float
    end_s: float


@dataclass(frozen=True)
class SlurmRun:
    """A measured schedule.

    Attributes:
        name: of its file, without the ending.
        policy: of Slurm's backfilling.
        nodes: of each partition.
        cpus: of each node.
        jobs: in order of submission; ties by id, as Slurm's priorities by age have it.
    """

    name: str
    policy: Policy
    nodes: int
    cpus: int
    jobs: tuple[SlurmJob, ...]

    @property
    def procs(self) -> int:
        """Processors of each partition."""
        return self.nodes * self.cpus

    @property
    def partitions(self) -> tuple[str, ...]:
        """Names of the partitions, sorted."""
        return tuple(sorted({job.partition for job in self.jobs}))

    def of(self, partition: str) -> tuple[SlurmJob, ...]:
        """Return the jobs of a partition, in order of submission."""
        return tuple(job for job in self.jobs if job.partition == partition)

    def scenario(self, partition: str, told: Mapping[str, Any]) -> Scenario:
        """Return the jobs of a partition, in its order, as a scenario.

        Every job runs as long as it was measured to, and requests its time limit. The partition
        has its nodes as machines, for rules that name them.

        Args:
            partition: one of `partitions`.
            told: what else the scenario is: its order, backfilling and their options.
        """
        jobs = self.of(partition)
        workload = Workload.from_arrays(
            submit_s=[job.submit_s - jobs[0].submit_s for job in jobs],
            runtime_s=[job.end_s - job.start_s for job in jobs],
            requested_s=[job.limit_s for job in jobs],
            procs=[job.procs for job in jobs],
            job_id=[job.job_id for job in jobs],
            name=f"{self.name}, {partition}",
        )
        cluster = ClusterSpec.single(self.procs, partition).in_machines_of(self.cpus)
        return Scenario(workload, cluster, **({"overrun": "extend"} | dict(told)))


def read_run(
    path: Path,
    *,
    policy: Policy | None = None,
    nodes: int | None = None,
    cpus: int | None = None,
) -> SlurmRun:
    """Read a measured schedule.

    Args:
        path: its file.
        policy: what is said of it from outside, which goes before what it and its name tell; None
            is nothing.
        nodes: see policy; of each partition.
        cpus: see policy; of each node.

    Raises:
        TraceError: no such file, no such object, or a field that is missing or cannot be; or
            nobody tells policy, nodes or CPUs, or they cannot hold the jobs.
    """
    body = _object(path)
    said = {"policy": policy, "nodes": nodes, "cpus": cpus}
    named = _NAME.search(path.stem)
    hints: dict[str, Any] = {}
    if named is not None:
        hints = {"policy": named[1], "nodes": int(named[2]), "cpus": int(named[3])}
    known = {
        key: _known(path, key, value, body.get(key), hints.get(key)) for key, value in said.items()
    }
    if known["policy"] not in get_args(Policy):
        raise _fault(path, "policy", known["policy"], "allowed are 'easy' and 'default'.")
    counts = {key: _count(path, key, known[key]) for key in ("nodes", "cpus")}
    procs = counts["nodes"] * counts["cpus"]
    if "cap" in body and body["cap"] != procs:
        raise _fault(
            path, "cap", body["cap"],
            f"{counts['nodes']} nodes of {counts['cpus']} CPUs in each partition have {procs}; "
            "say --nodes and --cpus as they were.",
        )  # fmt: skip
    rows = body.get("jobs")
    if not isinstance(rows, list) or not rows:
        raise TraceError(path, expected="'jobs' must be a list of at least 1 job.")
    jobs = [_job(path, number, row) for number, row in enumerate(rows, 1)]
    _check(path, jobs, procs)
    ordered = sorted(jobs, key=lambda job: (job.submit_s, job.job_id))
    return SlurmRun(path.stem, known["policy"], counts["nodes"], counts["cpus"], tuple(ordered))


def _object(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise TraceError(path, expected=f"a measured schedule is a readable file; {why}.") from None
    except (ValueError, RecursionError):
        raise TraceError(path, expected="this is not JSON; a schedule is a JSON object.") from None
    if not isinstance(body, dict):
        raise TraceError(path, expected="a schedule is a JSON object with a list 'jobs'.")
    return body


def _known(path: Path, key: str, said: Any, told: Any, named: Any) -> Any:
    """Return what is said from outside, else what the file tells, else what its name tells."""
    known = next((value for value in (said, told, named) if value is not None), None)
    if known is None:
        what = {
            "policy": "whether Slurm reserved for one job in each partition or for all",
            "nodes": "how many nodes each partition had",
            "cpus": "how many CPUs each node had",
        }
        form = " easy or --policy default" if key == "policy" else " N"
        raise TraceError(path, expected=f"the file does not tell {what[key]}; say --{key}{form}.")
    return known


def _fault(path: Path, field: str, value: object, expected: str) -> TraceError:
    return TraceError(path, field=field, value=str(value), expected=expected)


def _count(path: Path, field: str, value: object) -> int:
    if type(value) is not int or not 1 <= value <= _MOST:
        raise _fault(path, field, value, "allowed are whole numbers from 1 to 2**53.")
    return value


def _job(path: Path, number: int, row: object) -> SlurmJob:
    if not isinstance(row, dict):
        raise TraceError(path, expected=f"job {number} of 'jobs' must be an object.")
    missing = [k for k in ("id", "part", "n", "lim", "submit", "start", "end") if k not in row]
    if missing:
        raise TraceError(path, expected=f"job {number} of 'jobs' lacks '{missing[0]}'.")
    place = f"job {number}: "
    if row.get("state", "COMPLETED") not in _OVER:
        raise _fault(
            path, place + "state", row["state"],
            f"a job that did not run to its end has no place in a schedule; allowed are "
            f"{', '.join(_OVER)}.",
        )  # fmt: skip
    if not isinstance(row["part"], str) or not row["part"]:
        raise _fault(path, place + "part", row["part"], "a partition has a name.")
    times = {k: _seconds(path, place + k, row[k]) for k in ("lim", "submit", "start", "end")}
    if not times["submit"] <= times["start"] <= times["end"]:
        raise TraceError(
            path,
            expected=f"job {number} was submitted at {times['submit']:.15g}, started at "
            f"{times['start']:.15g} and ended at {times['end']:.15g}; no time may step back.",
        )
    return SlurmJob(
        job_id=_count(path, place + "id", row["id"]),
        partition=row["part"],
        procs=_count(path, place + "n", row["n"]),
        limit_s=times["lim"],
        submit_s=times["submit"],
        start_s=times["start"],
        end_s=times["end"],
    )


def _seconds(path: Path, field: str, value: object) -> float:
    is_number = type(value) in (int, float)
    if not is_number or not math.isfinite(value) or not 0 <= value <= _MOST:  # type: ignore[arg-type]
        raise _fault(path, field, value, "allowed is a finite number of seconds from 0.")
    return float(value)  # type: ignore[arg-type]


def _check(path: Path, jobs: list[SlurmJob], procs: int) -> None:
    """Refuse a job that is told twice, and a schedule that needs more than there is."""
    seen: set[int] = set()
    for job in jobs:
        if job.job_id in seen:
            raise TraceError(path, expected=f"two jobs have the id {job.job_id}; ids are unique.")
        seen.add(job.job_id)
    used: dict[str, int] = {}
    # Ends go before starts: what is released in a second may be taken in the same second.
    changes = [(job.end_s, 0, -job.procs, job) for job in jobs if job.end_s > job.start_s]
    changes += [(job.start_s, 1, job.procs, job) for job in jobs if job.end_s > job.start_s]
    for now_s, _, change, job in sorted(changes, key=lambda c: (c[0], c[1], c[3].job_id)):
        used[job.partition] = used.get(job.partition, 0) + change
        if used[job.partition] > procs:
            raise TraceError(
                path,
                expected=f"at {now_s:.15g} s partition '{job.partition}' uses "
                f"{used[job.partition]} CPUs and has {procs}; say --nodes and --cpus as they were.",
            )
    widest = max(jobs, key=lambda job: job.procs)
    if widest.procs > procs:
        raise TraceError(
            path,
            expected=f"job {widest.job_id} needs {widest.procs} CPUs and a partition has {procs}; "
            "say --nodes and --cpus as they were.",
        )
