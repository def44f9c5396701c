"""AccaSim as a peer (Galleguillos, Kiziltan, Netti & Soto 2020; MIT; PyPI `accasim`).

It runs in a process group of its own and is ended after a limit. Every processor is a request of
its own for one core, so how cores are grouped in nodes never keeps a job waiting: FIFO gives
our schedule without backfilling. What it calls EASY backfilling is another rule than ours, so
its mean wait is none to compare: version 1.1.3 computes a reservation for the head of the queue,
tries the head again only then, and meanwhile starts every job that fits, reservation or not.
"""

import contextlib
import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.peers import PeerError
from benchmarks.peers.accasim_child import REPORT, RESULTS, SYSTEM, WORKLOAD
from sim import Workload
from sim.formats import write_swf

Policy = Literal["fifo", "easy"]

REPOSITORY = Path(__file__).resolve().parents[2]
LEAST_CORES, MOST_CORES = 8, 128
LEAST_NODES = 4
FIRST_SUBMIT_S = 86_400
"""AccaSim takes a clock at 0 for one that is not set."""

GRACE_S = 30.0
"""What importing AccaSim, reading the system and writing the report may take beyond the limit."""


@dataclass(frozen=True)
class AccaSimRun:
    """What one run of AccaSim took.

    Attributes:
        n_jobs: jobs simulated to their ends; all of them if `finished`.
        cpu_s: CPU seconds of the main process, without starting Python and importing AccaSim.
        all_cpu_s: the same with the processes that write its output.
        wall_s: seconds by the wall clock.
        mean_wait_s: as AccaSim prints it, in hundredths of a second; None unless finished.
        finished: all was simulated and written before the limit.
    """

    n_jobs: int
    cpu_s: float
    all_cpu_s: float
    wall_s: float
    mean_wait_s: float | None
    finished: bool


@dataclass(frozen=True)
class NodeGroup:
    """Nodes that are alike.

    Attributes:
        n_nodes: how many.
        n_cores: cores of each.
    """

    n_nodes: int
    n_cores: int


def version() -> str | None:
    """Return the version of AccaSim, or None where it is not installed."""
    try:
        return importlib.metadata.version("accasim")
    except importlib.metadata.PackageNotFoundError:
        return None


def is_installed() -> bool:
    """Tell whether AccaSim can be measured here."""
    return version() is not None


def node_layout(procs: int) -> tuple[NodeGroup, ...]:
    """Return nodes with exactly so many cores in all.

    The fewer nodes, the quicker AccaSim is, so nodes are as wide as may be: 8 to 128 cores each,
    at least 4 nodes. Where no such width divides the processors, nodes have 64 cores and one has
    the rest.

    >>> node_layout(2004), node_layout(97)
    ((NodeGroup(n_nodes=167, n_cores=12),),
     (NodeGroup(n_nodes=1, n_cores=64), NodeGroup(n_nodes=1, n_cores=33)))
    """
    widest = min(MOST_CORES, procs // LEAST_NODES)
    for n_cores in range(widest, LEAST_CORES - 1, -1):
        if procs % n_cores == 0:
            return (NodeGroup(procs // n_cores, n_cores),)
    whole, rest = divmod(procs, 64)
    groups = (NodeGroup(whole, 64), NodeGroup(min(rest, 1), rest))
    return tuple(group for group in groups if group.n_nodes > 0)


def run(workload: Workload, procs: int, policy: Policy, folder: Path, limit_s: float) -> AccaSimRun:
    """Simulate a workload with AccaSim and first-fit allocation.

    A job without run time frees its processors at AccaSim's next event only, not at once as ours;
    the schedules of ``fifo`` are the same where no job is like that.

    Args:
        workload: the jobs, in whole seconds. The estimate is max(requested, run time), as ours.
        procs: processors of the machine.
        policy: ``fifo`` (no backfilling) or ``easy`` (AccaSim's own).
        folder: an existing folder for its input and its output; one run each.
        limit_s: seconds by the wall clock, after which it is stopped.

    Raises:
        PeerError: AccaSim is not installed, the workload has fractions of seconds, or AccaSim
            failed, hung or lost jobs.
    """
    if not is_installed():
        raise PeerError("AccaSim is not installed: pip install 'copperline[bench]'.")
    write_input(workload, procs, folder)
    report = _report(folder, policy, limit_s)
    finished = bool(report["finished"])
    if finished and report["n_jobs"] != workload.n_jobs:
        raise PeerError(f"AccaSim ran {report['n_jobs']} of {workload.n_jobs} jobs and ended.")
    told = folder / RESULTS / f"stats-{WORKLOAD}"
    return AccaSimRun(
        n_jobs=report["n_jobs"],
        cpu_s=report["cpu_s"],
        all_cpu_s=report["all_cpu_s"],
        wall_s=report["wall_s"],
        mean_wait_s=parse_mean_wait_s(told.read_text()) if finished else None,
        finished=finished,
    )


def write_input(workload: Workload, procs: int, folder: Path) -> None:
    """Write the workload as SWF and the machine as AccaSim's JSON.

    Raises:
        PeerError: the workload has fractions of seconds, which AccaSim does not read.
    """
    for column in (workload.submit_s, workload.runtime_s, workload.requested_s):
        if (column != np.floor(column)).any():
            raise PeerError("AccaSim reads whole seconds only; the workload has fractions.")
    estimate_s = np.maximum(workload.requested_s, workload.runtime_s)
    estimated = replace(workload, requested_s=estimate_s, requested_is_runtime=False)
    write_swf(estimated, folder / WORKLOAD)
    groups = {f"group_{k}": group for k, group in enumerate(node_layout(procs))}
    system = {
        "groups": {name: {"core": group.n_cores} for name, group in groups.items()},
        "resources": {name: group.n_nodes for name, group in groups.items()},
        "equivalence": {"processor": {"core": 1}},
        "start_time": FIRST_SUBMIT_S,
    }
    (folder / SYSTEM).write_text(json.dumps(system, indent=2))


def parse_mean_wait_s(statistics: str) -> float | None:
    """Return the mean wait in AccaSim's file of statistics; None where it gives none."""
    found = re.search(r"^Avg\. waiting times: (\d+(?:\.\d+)?)$", statistics, re.MULTILINE)
    return float(found[1]) if found else None


def _report(folder: Path, policy: Policy, limit_s: float) -> dict[str, Any]:
    """Run the child and return what it reports; nothing of it is left running."""
    report, log = folder.resolve() / REPORT, folder / "output.txt"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.peers.accasim_child"]
    command += [str(report.parent), policy, str(limit_s)]
    with log.open("wb") as output:
        child = subprocess.Popen(
            command, cwd=REPOSITORY, stdout=output, stderr=output, start_new_session=True
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(limit_s + GRACE_S)
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if not report.exists():
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise PeerError(f"AccaSim ended without a result; its last words: {''.join(last)}")
    read: dict[str, Any] = json.loads(report.read_text())
    return read
