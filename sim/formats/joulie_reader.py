"""Reader of Joulie's JSONL traces of logical workloads and pods, and of telemetry of pods.

Telemetry is CSV with a header, or JSONL, plain or gzip.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.formats.joulie_records import (
    LogicalRecord,
    PodRecord,
    RecordFieldError,
    phases_column,
    pod_name,
    read_record,
)
from sim.formats.joulie_writer import RecordParts, logical_lines
from sim.formats.text_files import CsvTable, checked_columns, lines_of, read_csv
from sim.model.errors import TraceError, WorkloadError, quoted_text
from sim.model.pods import (
    KINDS,
    NO_RECORD,
    USUAL_NAMESPACE,
    Telemetry,
    encode_names,
    encode_terms,
    pods_workload,
)
from sim.model.tasks import Tasks, TaskWork, Term
from sim.model.workload import ReadingNote, Workload

TRACE_DESCRIPTION = "a Joulie trace"
LEAST_UTILISATION = 0.10
"""Lower bound of utilisation in the conversion of seconds to work units, as on Joulie's page."""

_NUMBERED = re.compile(r"workload-([0-9]{6,15})", re.ASCII)


@dataclass
class _TraceContents:
    """Records of a file, in its order."""

    place: dict[str, int] = field(default_factory=dict)
    pods: list[list[PodRecord]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    logical: dict[str, tuple[LogicalRecord, int]] = field(default_factory=dict)
    n_v1: int = 0
    n_unknown: int = 0


def read_joulie(
    path: str | PathLike[str], *, unknown_fields: Literal["refuse", "drop"] = "refuse"
) -> Workload:
    """Read a workload from Joulie's JSONL trace, version 1 or 2, plain or gzip.

    A job is a logical workload, a task a pod. A logical workload without pods is left out, and one
    without a record gets its run time from the work of its pods. Pods without a workload are jobs
    of one pod. Requested times are the run times (clairvoyant, flagged).

    Returns:
        Jobs by submission; submit times count from `sim.model.pods.EPOCH_UNIX_S`.
            `sim.formats.joulie_writer.write_joulie` writes the same records from it.

    Raises:
        TraceError: file, line, field, value and what is allowed.
    """
    source = Path(path)
    trace = _records(source, unknown_fields)
    if not trace.pods:
        raise TraceError(
            source, expected=f"it contains no pods; {TRACE_DESCRIPTION} has records of type job."
        )
    notes: list[ReadingNote] = []
    offset_s = _offsets(source, trace)
    names = list(trace.place)
    ids = _ids(names)
    order = np.lexsort((np.arange(len(names)) if ids is None else ids, offset_s)).tolist()
    names, offset_s = [names[i] for i in order], offset_s[order]
    ids = None if ids is None else ids[order]
    pods = [trace.pods[i] for i in order]
    records = [trace.logical.get(name, (None, 0))[0] for name in names]
    runtime_s = _runtimes(pods, records, notes)
    rows = [pod for of_job in pods for pod in of_job]
    job = np.repeat(np.arange(len(pods)), [len(of_job) for of_job in pods])
    kind = np.array([_index(KINDS, of_job[0].kind) for of_job in pods], dtype=np.int64)
    tasks = _tasks(rows, job, runtime_s, _texts(rows, job, names, kind, ids, offset_s))
    workload = pods_workload(
        tasks,
        offset_s=offset_s,
        kind=kind,
        job_id=np.arange(1, len(pods) + 1) if ids is None else ids,
        name=source.name.removesuffix(".gz").removesuffix(".jsonl"),
        notes=[*notes, *_notes(trace, order)],
    )
    return _with_records(workload, records)


def _records(path: Path, unknown: Literal["refuse", "drop"]) -> _TraceContents:
    trace = _TraceContents()
    pod_ids: set[str] = set()
    for number, line in lines_of(path, TRACE_DESCRIPTION):
        try:
            record = read_record(line, unknown)
            trace.n_unknown += record.n_unknown
            if isinstance(record, LogicalRecord):
                if record.workload_id in trace.logical:
                    expected = "only one record per logical workload is allowed."
                    raise RecordFieldError("workloadId", record.workload_id, expected)
                trace.logical[record.workload_id] = (record, number)
                continue
            if record.pod_id in pod_ids:
                raise RecordFieldError("jobId", record.pod_id, "names of pods must be unique.")
        except RecordFieldError as error:
            raise TraceError(
                path,
                line=number,
                field=error.name or None,
                value=error.value if error.name else None,
                expected=error.expected,
            ) from None
        pod_ids.add(record.pod_id)
        trace.n_v1 += record.is_v1
        at = trace.place.setdefault(record.workload_id, len(trace.pods))
        if at == len(trace.pods):
            trace.pods.append([])
            trace.lines.append(number)
        else:
            _check_alike(path, number, record, trace.pods[at][0], trace.lines[at])
        trace.pods[at].append(record)
    return trace


def _check_alike(
    path: Path, line: int, record: PodRecord, first: PodRecord, first_line: int
) -> None:
    """Raise TraceError if a pod and the first pod of its workload differ in a common field."""
    for name, value, before in (
        ("submitTimeOffsetSec", record.offset_s, first.offset_s),
        ("namespace", record.namespace, first.namespace),
        ("workloadType", record.kind, first.kind),
    ):
        if value != before:
            expected = (
                f"the workload's first pod, in line {first_line}, has {quoted_text(str(before))}; "
                "all pods of a workload must have the same."
            )
            raise TraceError(path, line=line, field=name, value=str(value), expected=expected)


def _offsets(path: Path, trace: _TraceContents) -> NDArray[np.float64]:
    offsets = [of_job[0].offset_s for of_job in trace.pods]
    for name, (record, line) in trace.logical.items():
        at = trace.place.get(name)
        if at is not None and record.offset_s != offsets[at]:
            expected = f"its pods, from line {trace.lines[at]} on, have {offsets[at]!r}."
            raise TraceError(
                path,
                line=line,
                field="submitTimeOffsetSec",
                value=repr(record.offset_s),
                expected=expected,
            )
    return np.array(offsets, dtype=np.float64)


def _notes(trace: _TraceContents, order: Sequence[int]) -> Iterable[ReadingNote]:
    if trace.n_v1:
        sentence = f"{trace.n_v1} records are of version 1; they are written as version 2."
        yield ReadingNote("version_1", trace.n_v1, sentence)
    if trace.n_unknown:
        sentence = f"{trace.n_unknown} unknown fields were dropped."
        yield ReadingNote("unknown_fields", trace.n_unknown, sentence)
    idle = len(trace.logical.keys() - trace.place.keys())
    if idle:
        sentence = f"{idle} logical workloads have no pods and were left out."
        yield ReadingNote("no_pods", idle, sentence)
    moved = sum(1 for place, job in enumerate(order) if place != job)
    if moved:
        sentence = f"{moved} jobs were not in order of submission; they were sorted."
        yield ReadingNote("unsorted", moved, sentence)


def _runtimes(
    pods: list[list[PodRecord]], records: Sequence[LogicalRecord | None], notes: list[ReadingNote]
) -> NDArray[np.float64]:
    """Return the seconds of each job: by its record, else until the work of its pods is done."""
    missing = sum(record is None for record in records)
    if missing:
        sentence = (
            f"{missing} jobs have no record of their workload; they run until the work of their "
            "pods is done, at one unit per core or GPU, second and unit of utilisation."
        )
        notes.append(ReadingNote("duration_missing", missing, sentence))
    seconds = [
        max(_seconds_of_work(pod) for pod in of_job) if record is None else record.duration_s
        for of_job, record in zip(pods, records, strict=True)
    ]
    return np.array(seconds, dtype=np.float64)


def _seconds_of_work(pod: PodRecord) -> float:
    requested = (pod.requests[0] / 1000.0, pod.requests[3] / 1000.0)
    seconds = 0.0
    for units, count, utilisation in zip(pod.units, requested, pod.profile[:2], strict=True):
        rate = count * (max(utilisation, LEAST_UTILISATION) if any(pod.profile) else 1.0)
        seconds = max(seconds, units / rate if rate else 0.0)
    return round(seconds, 3)


def _index(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


def _ids(names: Sequence[str]) -> NDArray[np.int64] | None:
    numbers = []
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None or f"workload-{int(match[1]):06d}" != name:
            return None
        numbers.append(int(match[1]))
    return np.array(numbers, dtype=np.int64)


def _tasks(
    rows: Sequence[PodRecord],
    job: NDArray[np.int64],
    runtime_s: NDArray[np.float64],
    texts: dict[str, Sequence[str]],
) -> Tasks:
    requests = np.array([pod.requests[:4] for pod in rows], dtype=np.int64)
    role, roles = _encode_texts([pod.role for pod in rows])
    resource, resources = _encode_texts([pod.requests[4] for pod in rows])
    both, classes = _encode_texts([pod.classes[i] for i in range(2) for pod in rows])
    terms: dict[tuple[Term, ...], int] = {}
    used = np.array([terms.setdefault(pod.terms, len(terms)) for pod in rows], dtype=np.int64)
    demand, affinities = encode_terms(list(terms), used)
    units = np.array([pod.units for pod in rows])
    sensed = np.array([pod.sensitivity for pod in rows])
    profile = np.array([pod.profile for pod in rows])
    return Tasks.from_arrays(
        job=job,
        runtime_s=runtime_s[job],
        mcpu=requests[:, 0],
        mem_bytes=requests[:, 1],
        disk_bytes=requests[:, 2],
        mgpu=requests[:, 3],
        gang=[int(pod.gang) for pod in rows],
        role=role,
        demand=demand,
        gpu_resource=resource,
        roles=roles,
        affinities=affinities,
        gpu_resources=resources,
        work=TaskWork(
            cpu_units=units[:, 0].copy(),
            gpu_units=units[:, 1].copy(),
            cpu_sensitivity=sensed[:, 0].copy(),
            gpu_sensitivity=sensed[:, 1].copy(),
            cpu_class=both[: len(rows)],
            gpu_class=both[len(rows) :],
            profile=profile,
            classes=classes,
            phases=phases_column([pod.phases for pod in rows], profile),
        ),
        texts=texts,
    )


def _encode_texts(texts: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    place: dict[str, int] = {}
    used = np.array([place.setdefault(text, len(place)) for text in texts], dtype=np.int64)
    return encode_names(list(place), used)


def _texts(
    rows: Sequence[PodRecord],
    job: NDArray[np.int64],
    names: Sequence[str],
    kind: NDArray[np.int64],
    ids: NDArray[np.int64] | None,
    offset_s: NDArray[np.float64],
) -> dict[str, Sequence[str]]:
    jobs = job.tolist()
    texts: dict[str, Sequence[str]] = {}
    if ids is None:
        texts["workloadId"] = [names[of] for of in jobs]
    if (np.round(offset_s, 3) != offset_s).any():
        offset_texts = [repr(offset) for offset in offset_s.tolist()]
        texts["submitTimeOffsetSec"] = [offset_texts[of] for of in jobs]
    kinds = ["" if code >= 0 else "?" for code in kind.tolist()]
    columns: dict[str, list[str]] = {
        "jobId": _odd_names(rows, jobs, names),
        "workloadType": [pod.kind if kinds[of] else "" for pod, of in zip(rows, jobs, strict=True)],
        "namespace": ["" if pod.namespace == USUAL_NAMESPACE else pod.namespace for pod in rows],
        "requests": [pod.odd_requests for pod in rows],
        "intentClass": [pod.intent for pod in rows],
        "tags": [pod.tags for pod in rows],
    }
    return texts | {name: column for name, column in columns.items() if any(column)}


def _odd_names(rows: Sequence[PodRecord], jobs: list[int], names: Sequence[str]) -> list[str]:
    odd, job, n_by_role = [], -1, dict[str, int]()
    for pod, of in zip(rows, jobs, strict=True):
        if of != job:
            job, n_by_role = of, {}
        number = n_by_role[pod.role] = n_by_role.get(pod.role, 0) + 1
        usual = f"{names[of]}-{pod_name(pod.role)}-{number:02d}"
        odd.append("" if pod.pod_id == usual else pod.pod_id)
    return odd


def _with_records(workload: Workload, records: Sequence[LogicalRecord | None]) -> Workload:
    """Return the workload with the logical records that its pods do not imply."""
    tasks = workload.tasks
    if tasks is None:
        return workload
    record_texts = []
    for record, line in zip(records, logical_lines(RecordParts.of(workload)), strict=True):
        if record is None:
            record_texts.append(NO_RECORD)
        else:
            record_texts.append("" if record.text == line else record.text)
    if not any(record_texts):
        return workload
    texts = {**tasks.texts, "workloadRecord": tuple(record_texts[of] for of in tasks.job.tolist())}
    return replace(workload, tasks=replace(tasks, texts=texts))


TELEMETRY_COLUMNS: Mapping[str, str] = {
    "pod": "jobId", "start_s": "start", "end_s": "end", "cpu_utilisation": "cpuUtilization",
    "gpu_utilisation": "gpuUtilization", "cpu_speed": "cpuSpeed", "gpu_speed": "gpuSpeed",
}  # fmt: skip
"""Needed quantities, with the usual names of their columns; the last four are optional."""

TELEMETRY_DESCRIPTION = "telemetry"


def read_telemetry(
    path: str | PathLike[str],
    workload: Workload,
    *,
    unknown_pods: Literal["refuse", "drop"] = "refuse",
    columns: Mapping[str, str] | None = None,
) -> Telemetry:
    """Read telemetry of the pods of a workload from CSV or JSONL, plain or gzip.

    Args:
        path: path of the file; JSONL if the first line begins with a brace, else CSV.
        workload: workload whose pods have work units.
        unknown_pods: treatment of rows about other pods.
        columns: other names of columns, by quantity; see `TELEMETRY_COLUMNS`.

    Raises:
        TraceError: file, line, column, value and what is allowed.
        WorkloadError: the workload has no pods with work units.
    """
    file = Path(path)
    jsonl_table = _read_jsonl(file, columns)
    table = read_csv(file, TELEMETRY_COLUMNS, columns) if jsonl_table is None else jsonl_table
    places = pod_places(workload)
    start_s, end_s = table.numbers("start_s"), table.numbers("end_s")
    task = np.array([places.get(name, -1) for name in table.texts("pod")], dtype=np.int64)
    has_task = task >= 0
    if unknown_pods == "refuse" and not has_task.all():
        way_out = "leave such rows out with unknown_pods='drop' (--drop-unknown)."
        expected = f"{workload.name} has no such pod; {way_out}"
        raise table.error(int(np.flatnonzero(~has_task)[0]), "pod", expected)
    if not has_task.any():
        raise TraceError(file, expected=f"no row belongs to a pod of {workload.name}.")
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
            measured[name] = values[has_task]
    return Telemetry.from_arrays(
        workload, task=task[has_task], duration_s=(end_s - start_s)[has_task], **measured
    )


def pod_places(workload: Workload) -> dict[str, int]:
    """Return the task index of every pod, by pod name.

    Raises:
        WorkloadError: there are no pods.
    """
    tasks = workload.tasks
    if tasks is None:
        raise WorkloadError(f"the jobs of {workload.name} have no tasks, so it has no pods.")
    ids, pod_ids = tasks.texts.get("workloadId"), tasks.texts.get("jobId")
    places: dict[str, int] = {}
    job, n_by_role = -1, dict[str, int]()
    instances, roles = tasks.instances.tolist(), tasks.role.tolist()
    for row, of in enumerate(tasks.job.tolist()):
        if of != job:
            job, n_by_role = of, {}
            name = ids[row] if ids and ids[row] else f"workload-{workload.job_id[of]:06d}"
        role = tasks.roles[roles[row]] if roles[row] >= 0 else ""
        for _ in range(instances[row]):
            number = n_by_role[role] = n_by_role.get(role, 0) + 1
            usual = f"{name}-{pod_name(role)}-{number:02d}"
            places[pod_ids[row] if pod_ids and pod_ids[row] else usual] = row
    return places


def _read_jsonl(path: Path, columns: Mapping[str, str] | None) -> CsvTable | None:
    header: tuple[str, ...] = ()
    rows: list[list[str]] = []
    numbers: list[int] = []
    for number, line in lines_of(path, TELEMETRY_DESCRIPTION):
        if not rows and not line.lstrip().startswith(b"{"):
            return None
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            expected = f"this line is not JSON ({error})."
            raise TraceError(path, line=number, expected=expected) from None
        if not isinstance(record, dict):
            raise TraceError(path, line=number, expected="this line is not a JSON object.")
        header = header or tuple(record)
        for name, value in record.items():
            if name not in header:
                expected = f"the first line has no '{name}'; all lines need the same fields."
                raise TraceError(path, line=number, expected=expected)
            if not isinstance(value, str | int | float | None) or isinstance(value, bool):
                expected = f"'{name}' must be a text, a number or null."
                raise TraceError(path, line=number, expected=expected)
        row = [record.get(name) for name in header]
        rows.append(["" if value_or_null is None else str(value_or_null) for value_or_null in row])
        numbers.append(number)
    if not rows:
        raise TraceError(path, expected="the file is empty; telemetry has a row per pod.")
    return CsvTable(path, header, checked_columns(path, TELEMETRY_COLUMNS, columns), rows, numbers)
