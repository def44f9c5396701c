"""Measurements of pods from files: CSV with a header, or JSONL, plain or gzip.

A row is a pod that ran: ``jobId`` as in the trace, ``start`` and ``end`` in seconds on any clock,
and, where they were measured, ``cpuUtilization`` and ``gpuUtilization`` (means, from 0 to 1) and
``cpuSpeed`` and ``gpuSpeed`` (mean speed by that without throttling, above 0, at most 1).
"""

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError, WorkloadError
from sim.model.telemetry import Telemetry
from sim.model.workload import Workload
from sim.traces.csv_table import CsvTable, checked_columns, read_csv
from sim.traces.joulie_text import pod_name
from sim.traces.lines import lines_of

TELEMETRY_COLUMNS: Mapping[str, str] = {
    "pod": "jobId", "start_s": "start", "end_s": "end", "cpu_utilisation": "cpuUtilization",
    "gpu_utilisation": "gpuUtilization", "cpu_speed": "cpuSpeed", "gpu_speed": "gpuSpeed",
}  # fmt: skip
"""What is needed, and the column that it usually has; the last four may be missing."""

WHAT = "telemetry"


def read_telemetry(
    path: str | PathLike[str],
    workload: Workload,
    *,
    unknown_pods: Literal["refuse", "drop"] = "refuse",
    columns: Mapping[str, str] | None = None,
) -> Telemetry:
    """Read measurements of pods of a workload.

    Args:
        path: the file; JSONL if a line begins with a brace, else CSV.
        workload: whose pods they are; its pods have work units.
        unknown_pods: what to do with rows of other pods.
        columns: other names of columns, by need; see `TELEMETRY_COLUMNS`.

    Raises:
        TraceError: file, line, column, value and what is allowed.
        WorkloadError: the workload has no pods with work units.
    """
    file = Path(path)
    found = _read_jsonl(file, columns)
    table = read_csv(file, TELEMETRY_COLUMNS, columns) if found is None else found
    places = pod_places(workload)
    start_s, end_s = table.numbers("start_s"), table.numbers("end_s")
    task = np.array([places.get(name, -1) for name in table.texts("pod")], dtype=np.int64)
    known = task >= 0
    if unknown_pods == "refuse" and not known.all():
        way_out = "leave such rows out with unknown_pods='drop' (--drop-unknown)."
        expected = f"{workload.name} has no such pod; {way_out}"
        raise table.error(int(np.flatnonzero(~known)[0]), "pod", expected)
    if not known.any():
        raise TraceError(file, expected=f"none of its rows is of a pod of {workload.name}.")
    if (end_s <= start_s).any():
        row = int(np.flatnonzero(end_s <= start_s)[0])
        raise table.error(row, "end_s", f"it must be after the start, {start_s[row]:.15g}.")
    measured: dict[str, NDArray[np.float64]] = {}
    for need, unknown in (("utilisation", np.nan), ("speed", 1.0)):
        for device in ("cpu", "gpu"):
            name = f"{device}_{need}"
            values = np.full(table.n_rows, unknown)
            if table.has(name):
                values = table.numbers(name, empty=unknown)
            bad = (values > 1) | ((values == 0) & (need == "speed"))
            if bad.any():
                above = " above 0" if need == "speed" else " from 0"
                expected = f"allowed are numbers{above} and at most 1, or nothing."
                raise table.error(int(np.flatnonzero(bad)[0]), name, expected)
            measured[name] = values[known]
    return Telemetry.from_arrays(
        workload, task=task[known], duration_s=(end_s - start_s)[known], **measured
    )


def pod_places(workload: Workload) -> dict[str, int]:
    """Return the task of every pod's name, as files of the workload have it.

    Raises:
        WorkloadError: there are no pods.
    """
    tasks = workload.tasks
    if tasks is None:
        raise WorkloadError(f"{workload.name} tells no tasks of its jobs, so it has no pods.")
    ids, given = tasks.texts.get("workloadId"), tasks.texts.get("jobId")
    places: dict[str, int] = {}
    job, seen = -1, dict[str, int]()
    instances, roles = tasks.instances.tolist(), tasks.role.tolist()
    for row, of in enumerate(tasks.job.tolist()):
        if of != job:
            job, seen = of, {}
            name = ids[row] if ids and ids[row] else f"workload-{workload.job_id[of]:06d}"
        role = tasks.roles[roles[row]] if roles[row] >= 0 else ""
        for _ in range(instances[row]):
            number = seen[role] = seen.get(role, 0) + 1
            usual = f"{name}-{pod_name(role)}-{number:02d}"
            places[given[row] if given and given[row] else usual] = row
    return places


def _read_jsonl(path: Path, columns: Mapping[str, str] | None) -> CsvTable | None:
    """Return lines of JSON as a table of texts; None if the file does not begin like any."""
    header: tuple[str, ...] = ()
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, line in lines_of(path, WHAT):
        if not rows and not line.lstrip().startswith(b"{"):
            return None
        try:
            told = json.loads(line)
        except (ValueError, RecursionError) as error:
            expected = f"this line is no JSON ({error})."
            raise TraceError(path, line=number, expected=expected) from None
        if not isinstance(told, dict):
            raise TraceError(path, line=number, expected="this line is no table of JSON.")
        header = header or tuple(told)
        for name, value in told.items():
            if name not in header:
                expected = f"the first line has no '{name}'; all lines need the same fields."
                raise TraceError(path, line=number, expected=expected)
            if not isinstance(value, str | int | float | None) or isinstance(value, bool):
                expected = f"'{name}' must be a text, a number or null."
                raise TraceError(path, line=number, expected=expected)
        row = [told.get(name) for name in header]
        rows.append(["" if one is None else str(one) for one in row])
        numbers.append(number)
    if not rows:
        raise TraceError(path, expected="there is nothing in it; telemetry has a row per pod.")
    return CsvTable(path, header, checked_columns(path, TELEMETRY_COLUMNS, columns), rows, numbers)
