"""Joulie's JSONL: records of logical workloads and of their pods become a workload."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim.errors import TraceError
from sim.model.pods import KINDS, NO_RECORD, USUAL_NAMESPACE, coded, coded_terms, pods_workload
from sim.model.tasks import Tasks, Term, Work
from sim.model.workload import ReadingNote, Workload
from sim.traces.joulie_phases import phases_column
from sim.traces.joulie_record import LogicalRecord, PodRecord, read_record
from sim.traces.joulie_text import FieldError, pod_name
from sim.traces.joulie_write import Pieces, logical_lines
from sim.traces.lines import lines_of

WHAT = "a Joulie trace"
LEAST_UTILISATION = 0.10
"""The page's generator counts utilisations below this as this when it makes units of seconds."""

_NUMBERED = re.compile(r"workload-([0-9]{6,15})", re.ASCII)


@dataclass
class _Found:
    """What a file holds, in its order.

    Attributes:
        place: of a logical workload's name, its job.
        pods: of each job.
        lines: of each job, of its first pod.
        logical: of each job that has one, its record and its line.
        n_v1: pods of version 1.
        n_unknown: fields that were dropped.
    """

    place: dict[str, int] = field(default_factory=dict)
    pods: list[list[PodRecord]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    logical: dict[str, tuple[LogicalRecord, int]] = field(default_factory=dict)
    n_v1: int = 0
    n_unknown: int = 0


def read_joulie(
    path: str | PathLike[str], *, unknown_fields: Literal["refuse", "drop"] = "refuse"
) -> Workload:
    """Read a trace of Joulie's generator, versions 1 and 2, plain or gzip, line by line.

    A job is a logical workload, a task a pod. Only pods run: a logical workload without any is left
    out, and one whose record is missing gets its run time from the work of its pods. Pods without
    a workload are jobs of one pod. Requested times are the run times (clairvoyant, flagged).

    Args:
        path: the file; compression is recognised by content.
        unknown_fields: what to do with fields that no version has.

    Returns:
        Jobs by submission; submit times count from `sim.model.pods.EPOCH_UNIX_S`. What
        `sim.traces.joulie_write.write_joulie` makes of it are the same records.

    Raises:
        TraceError: file, line, field, value and what is allowed.
    """
    source = Path(path)
    found = _records(source, unknown_fields)
    if not found.pods:
        raise TraceError(source, expected=f"there is no pod in it; {WHAT} has records of type job.")
    notes: list[ReadingNote] = []
    offset_s = _offsets(source, found)
    names = list(found.place)
    ids = _ids(names)
    order = np.lexsort((np.arange(len(names)) if ids is None else ids, offset_s)).tolist()
    names, offset_s = [names[i] for i in order], offset_s[order]
    ids = None if ids is None else ids[order]
    pods = [found.pods[i] for i in order]
    records = [found.logical.get(name, (None, 0))[0] for name in names]
    runtime_s = _runtimes(pods, records, notes)
    rows = [pod for of_job in pods for pod in of_job]
    job = np.repeat(np.arange(len(pods)), [len(of_job) for of_job in pods])
    kind = np.array([_index(KINDS, of_job[0].kind) for of_job in pods], dtype=np.int64)
    tasks = _tasks(rows, job, runtime_s, _texts(rows, job, names, kind, ids, offset_s))
    made = pods_workload(
        tasks,
        offset_s=offset_s,
        kind=kind,
        job_id=np.arange(1, len(pods) + 1) if ids is None else ids,
        name=source.name.removesuffix(".gz").removesuffix(".jsonl"),
        notes=[*notes, *_notes(found, order)],
    )
    return _with_records(made, records)


def _records(path: Path, unknown: Literal["refuse", "drop"]) -> _Found:
    found = _Found()
    pod_ids: set[str] = set()
    for number, line in lines_of(path, WHAT):
        try:
            record = read_record(line, unknown)
            found.n_unknown += record.n_unknown
            if isinstance(record, LogicalRecord):
                if record.workload_id in found.logical:
                    expected = "a logical workload has one record; this one has another before."
                    raise FieldError("workloadId", record.workload_id, expected)
                found.logical[record.workload_id] = (record, number)
                continue
            if record.pod_id in pod_ids:
                raise FieldError("jobId", record.pod_id, "names of pods must be unique.")
        except FieldError as error:
            raise TraceError(
                path,
                line=number,
                field=error.name or None,
                value=error.value if error.name else None,
                expected=error.expected,
            ) from None
        pod_ids.add(record.pod_id)
        found.n_v1 += record.is_v1
        at = found.place.setdefault(record.workload_id, len(found.pods))
        if at == len(found.pods):
            found.pods.append([])
            found.lines.append(number)
        elif found.pods[at][0].offset_s != record.offset_s:
            expected = (
                f"the workload's first pod, in line {found.lines[at]}, has "
                f"{found.pods[at][0].offset_s!r}; all pods of a workload are submitted at once."
            )
            raise TraceError(
                path,
                line=number,
                field="submitTimeOffsetSec",
                value=repr(record.offset_s),
                expected=expected,
            )
        found.pods[at].append(record)
    return found


def _offsets(path: Path, found: _Found) -> NDArray[np.float64]:
    """Return submissions of jobs. Raises TraceError if a logical record has another."""
    offsets = [of_job[0].offset_s for of_job in found.pods]
    for name, (record, line) in found.logical.items():
        at = found.place.get(name)
        if at is not None and record.offset_s != offsets[at]:
            expected = f"its pods, from line {found.lines[at]} on, have {offsets[at]!r}."
            raise TraceError(
                path,
                line=line,
                field="submitTimeOffsetSec",
                value=repr(record.offset_s),
                expected=expected,
            )
    return np.array(offsets, dtype=np.float64)


def _notes(found: _Found, order: Sequence[int]) -> Iterable[ReadingNote]:
    if found.n_v1:
        sentence = f"{found.n_v1} records are of version 1; they are written as version 2."
        yield ReadingNote("version_1", found.n_v1, sentence)
    if found.n_unknown:
        sentence = f"{found.n_unknown} fields that no version has were dropped."
        yield ReadingNote("unknown_fields", found.n_unknown, sentence)
    idle = len(found.logical.keys() - found.place.keys())
    if idle:
        sentence = f"{idle} logical workloads have no pods, so nothing of them runs; left out."
        yield ReadingNote("no_pods", idle, sentence)
    moved = sum(1 for place, job in enumerate(order) if place != job)
    if moved:
        sentence = f"{moved} jobs were not in order of submission; they were sorted."
        yield ReadingNote("unsorted", moved, sentence)


def _runtimes(
    pods: list[list[PodRecord]], records: Sequence[LogicalRecord | None], notes: list[ReadingNote]
) -> NDArray[np.float64]:
    """Return seconds of each job: as its record says, else until its pods' work is done."""
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
    """Return the numbers in the names of workloads; None if one has none, or another's."""
    numbers = []
    for name in names:
        found = _NUMBERED.fullmatch(name)
        if found is None or f"workload-{int(found[1]):06d}" != name:
            return None
        numbers.append(int(found[1]))
    return np.array(numbers, dtype=np.int64)


def _tasks(
    rows: Sequence[PodRecord],
    job: NDArray[np.int64],
    runtime_s: NDArray[np.float64],
    texts: dict[str, Sequence[str]],
) -> Tasks:
    requests = np.array([pod.requests[:4] for pod in rows], dtype=np.int64)
    role, roles = _coded([pod.role for pod in rows])
    resource, resources = _coded([pod.requests[4] for pod in rows])
    both, classes = _coded([pod.classes[i] for i in range(2) for pod in rows])
    terms: dict[tuple[Term, ...], int] = {}
    used = np.array([terms.setdefault(pod.terms, len(terms)) for pod in rows], dtype=np.int64)
    demand, affinities = coded_terms(list(terms), used)
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
        work=Work(
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


def _coded(texts: Sequence[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    place: dict[str, int] = {}
    used = np.array([place.setdefault(text, len(place)) for text in texts], dtype=np.int64)
    return coded(list(place), used)


def _texts(
    rows: Sequence[PodRecord],
    job: NDArray[np.int64],
    names: Sequence[str],
    kind: NDArray[np.int64],
    ids: NDArray[np.int64] | None,
    offset_s: NDArray[np.float64],
) -> dict[str, Sequence[str]]:
    """Return what the columns do not say; a file as the generator makes them needs none."""
    jobs = job.tolist()
    texts: dict[str, Sequence[str]] = {}
    if ids is None:
        texts["workloadId"] = [names[of] for of in jobs]
    if (np.round(offset_s, 3) != offset_s).any():
        shown = [repr(one) for one in offset_s.tolist()]
        texts["submitTimeOffsetSec"] = [shown[of] for of in jobs]
    kinds = ["" if known >= 0 else "?" for known in kind.tolist()]
    given: dict[str, list[str]] = {
        "jobId": _odd_names(rows, jobs, names),
        "workloadType": [pod.kind if kinds[of] else "" for pod, of in zip(rows, jobs, strict=True)],
        "namespace": ["" if pod.namespace == USUAL_NAMESPACE else pod.namespace for pod in rows],
        "requests": [pod.odd_requests for pod in rows],
        "intentClass": [pod.intent for pod in rows],
        "tags": [pod.tags for pod in rows],
    }
    return texts | {name: column for name, column in given.items() if any(column)}


def _odd_names(rows: Sequence[PodRecord], jobs: list[int], names: Sequence[str]) -> list[str]:
    """Return the names of pods that are not those that the generator gives."""
    odd, job, seen = [], -1, dict[str, int]()
    for pod, of in zip(rows, jobs, strict=True):
        if of != job:
            job, seen = of, {}
        number = seen[pod.role] = seen.get(pod.role, 0) + 1
        usual = f"{names[of]}-{pod_name(pod.role)}-{number:02d}"
        odd.append("" if pod.pod_id == usual else pod.pod_id)
    return odd


def _with_records(made: Workload, records: Sequence[LogicalRecord | None]) -> Workload:
    """Return the workload with the records of logical workloads that its pods do not say."""
    tasks = made.tasks
    if tasks is None:
        return made
    kept = []
    for record, line in zip(records, logical_lines(Pieces.of(made)), strict=True):
        if record is None:
            kept.append(NO_RECORD)
        else:
            kept.append("" if record.text == line else record.text)
    if not any(kept):
        return made
    texts = {**tasks.texts, "workloadRecord": tuple(kept[of] for of in tasks.job.tolist())}
    return replace(made, tasks=replace(tasks, texts=texts))
