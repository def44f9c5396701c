"""Tables with one line per simulated job, as ``simulate --per-job`` writes them."""

import csv
import os
from pathlib import Path

import numpy as np

from assistant.errors import SettingsError
from assistant.report.words import cell
from sim.api import JobState, Scenario, SimulationResult


def check_writable(path: Path) -> None:
    """Refuse, before anything slow begins, a file that cannot be written."""
    why = None
    try:
        if path.is_dir():
            why = "it is a folder"
        elif not path.parent.is_dir():
            why = f"there is no folder '{path.parent}'"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            why = "permission denied"
    except OSError as error:  # such as a name that is too long
        why = error.strerror
    if why is not None:
        raise SettingsError(f"cannot write '{path}': {why}")


def write_jobs(path: Path, scenario: Scenario, result: SimulationResult) -> None:
    """Write one line per job of a simulation that counts processors or takes machines of a job.

    Raises:
        SettingsError: the file cannot be written.
    """
    workload = scenario.workload
    names, restarts = [*scenario.cluster.names, ""], result.restarts
    placement, machines = result.placement, np.array(scenario.cluster.machine_names, dtype=object)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            header = ["job_id", "submit_s", "start_s", "end_s", "wait_s", "procs", "partition"]
            header += ["state"] if placement is None else ["state", "machines"]
            header += [] if restarts is None else ["n_restarts", "lost_s"]
            writer.writerow(header)
            for i in range(workload.n_jobs):
                start_s = result.start_s[i]
                ran = not np.isnan(start_s)
                times = (
                    [start_s, result.end_s[i], start_s - workload.submit_s[i]] if ran else [""] * 3
                )
                writer.writerow(
                    [
                        workload.job_id[i], workload.submit_s[i], *times, workload.procs[i],
                        cell(names[result.partition[i]]),
                        JobState(int(result.state[i])).name.lower(),
                        *([] if placement is None else [cell(" ".join(machines[placement.of(i)]))]),
                        *([] if restarts is None else [restarts.n[i], restarts.lost_s[i]]),
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error


def write_placed_jobs(path: Path, scenario: Scenario, result: SimulationResult) -> None:
    """Write one line per job of a simulation that places instances, with all its machines.

    Raises:
        SettingsError: the file cannot be written.
    """
    workload, placed = scenario.workload, result.instances
    tasks = workload.tasks
    assert placed is not None  # noqa: S101 - the allocation was instances
    assert tasks is not None  # noqa: S101
    names = scenario.cluster.machine_names
    first = placed.first[np.searchsorted(tasks.job, np.arange(workload.n_jobs + 1))].tolist()
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            header = ["job_id", "submit_s", "start_s", "end_s", "wait_s", "instances", "state"]
            writer.writerow([*header, "machines"])
            for i in range(workload.n_jobs):
                start_s, submit_s = result.start_s[i], workload.submit_s[i]
                ran = not np.isnan(start_s)
                times = [start_s, result.end_s[i], start_s - submit_s] if ran else [""] * 3
                on = dict.fromkeys(placed.machine[first[i] : first[i + 1]].tolist()) if ran else {}
                writer.writerow(
                    [
                        workload.job_id[i], submit_s, *times, first[i + 1] - first[i],
                        JobState(int(result.state[i])).name.lower(),
                        cell(" ".join(names[machine] for machine in on)),
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error
