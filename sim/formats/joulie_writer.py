"""Writer of Joulie's JSONL: records of the logical workloads and pods of a workload."""

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.formats.joulie_records import (
    PROFILE,
    RecordFieldError,
    affinity_text,
    compact,
    phases_text,
    pod_name,
    read_requests,
    requests_text,
    short,
)
from sim.model.errors import WorkloadError
from sim.model.files import atomic_file
from sim.model.pods import (
    EPOCH_UNIX_S,
    KINDS,
    LOGICAL_RESOURCE,
    NO_RECORD,
    USUAL_GPU,
    USUAL_NAMESPACE,
)
from sim.model.tasks import SIGNALS, Tasks, TaskWork
from sim.model.workload import UNKNOWN, Workload

_DAY_S, _YEAR_S = 86400.0, 366 * 86400.0
_ALMOST_S = 1e-6
"""Precision of present Unix times in a float64; offsets this near to a whole millisecond are
rounded."""

_LINES_AT_ONCE = 4096


def write_joulie(workload: Workload, path: str | PathLike[str]) -> None:
    """Write a workload as Joulie's JSONL version 2, gzipped if the name ends in ``.gz``.

    A job is a logical workload: its record, unless it was read without one, then one of each pod.
    A job without tasks is one pod with all its processors, fully used while it runs. Submit times
    count from Monday 2024-01-01 if the workload starts in that year, else from midnight (UTC) of
    the day on which it starts. User, queue, status, waits, requests other than the run time, and
    parents of tasks are not written.

    Raises:
        WorkloadError: the file cannot be written.
    """
    target = Path(path)
    with atomic_file(target, raises=WorkloadError) as draft, draft.open("wb") as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed:
                packed.writelines(_chunks(workload))
        else:
            file.writelines(_chunks(workload))


def _chunks(workload: Workload) -> Iterator[bytes]:
    lines: list[str] = []
    for line in joulie_lines(workload):
        lines.append(line)
        if len(lines) == _LINES_AT_ONCE:
            yield ("\n".join(lines) + "\n").encode()
            lines = []
    yield ("\n".join([*lines, ""])).encode()


def joulie_lines(workload: Workload) -> Iterator[str]:
    """Yield Joulie's JSONL records by submission, each logical record before its pods."""
    pieces = RecordParts.of(workload)
    pods = _pod_lines(pieces)
    n_pods = np.bincount(pieces.tasks.job, weights=pieces.tasks.instances).astype(np.int64)
    for record, count in zip(logical_lines(pieces), n_pods.tolist(), strict=True):
        if record:
            yield record
        for _ in range(count):
            yield next(pods)


@dataclass(frozen=True)
class RecordParts:
    """Precomputed JSON fragments of logical records and pod records.

    Attributes:
        heads: for each job: id of the workload, family with its key (or nothing), submission,
            namespace.
        names: for each job: its id, as a part of a JSON string.
        roles: for each pod, as a part of a string; `requests`, `classes` and `profiles` are whole
            values.
        logical_requests: for each pod, the request of the logical workload, which differs after a
            change of node affinity.
        ends: for each pod: intent, tags and phases with their keys, or nothing.
    """

    workload: Workload
    tasks: Tasks
    work: TaskWork
    heads: list[tuple[str, str, str, str]]
    names: list[str]
    roles: list[str]
    requests: list[str]
    logical_requests: list[str]
    classes: list[str]
    profiles: list[str]
    ends: list[str]

    @classmethod
    def of(cls, workload: Workload) -> "RecordParts":
        """Return the JSON fragments for the records of a workload."""
        tasks = workload.tasks or _one_pod_each(workload)
        work = _work(tasks)
        heads, names = _heads(workload, tasks)
        logical_resources = tasks.texts.get(LOGICAL_RESOURCE)
        usual = _requests(tasks, _names(tasks.gpu_resources, tasks.gpu_resource))
        nothing = [""] * tasks.n_tasks
        intents = tasks.texts.get("intentClass", nothing)
        tags = tasks.texts.get("tags", nothing)
        ends = [
            (f',"intentClass":{json.dumps(intent)}' if intent else "")
            + (f',"tags":{tag}' if tag else "")
            + phases
            for intent, tag, phases in zip(
                intents, tags, phases_text(work.phases, tasks.n_tasks), strict=True
            )
        ]
        return cls(
            workload=workload,
            tasks=tasks,
            work=work,
            heads=heads,
            names=names,
            roles=_names([json.dumps(role)[1:-1] for role in tasks.roles], tasks.role),
            requests=usual,
            logical_requests=_requests(tasks, logical_resources) if logical_resources else usual,
            classes=_classes(work),
            profiles=_profiles(work.profile),
            ends=ends,
        )


def _one_pod_each(workload: Workload) -> Tasks:
    mem_bytes = np.where(
        workload.mem_bytes_per_proc == UNKNOWN, 0, workload.mem_bytes_per_proc * workload.procs
    )
    return Tasks.from_arrays(
        job=np.arange(workload.n_jobs),
        runtime_s=workload.runtime_s,
        mcpu=workload.procs * 1000,
        mem_bytes=mem_bytes,
        role=np.zeros(workload.n_jobs),
        roles=["worker"],
    )


def _work(tasks: Tasks) -> TaskWork:
    """Return the work of tasks; if unknown, all of their cores and GPUs are fully used."""
    if tasks.work is not None:
        return tasks.work
    profile = np.zeros((tasks.n_tasks, len(SIGNALS)))
    profile[:, 0], profile[:, 1] = tasks.mcpu > 0, tasks.mgpu > 0
    none = np.full(tasks.n_tasks, -1, dtype=np.int64)
    ones = np.ones(tasks.n_tasks)
    return TaskWork(
        cpu_units=tasks.runtime_s * tasks.mcpu / 1000.0,
        gpu_units=tasks.runtime_s * tasks.mgpu / 1000.0,
        cpu_sensitivity=ones,
        gpu_sensitivity=ones,
        cpu_class=none,
        gpu_class=none,
        profile=profile,
    )


def logical_lines(pieces: RecordParts) -> Iterator[str]:
    """Yield each job's logical record as JSON, or "" for a job without one."""
    tasks, workload = pieces.tasks, pieces.workload
    first = np.searchsorted(tasks.job, np.arange(workload.n_jobs)).tolist()
    record_texts = tasks.texts.get("workloadRecord")
    instances, gang = tasks.instances.tolist(), tasks.gang.tolist()
    durations = workload.runtime_s.tolist()
    behind = [*first[1:], tasks.n_tasks]
    for job, (low, high) in enumerate(zip(first, behind, strict=True)):
        text = record_texts[low] if record_texts else ""
        if text == NO_RECORD:
            yield ""
            continue
        workload_id, kind, submit, namespace = pieces.heads[job]
        if text and json.loads(text).get("durationSec") == durations[job]:
            yield _with_submit_time(text, submit)
            continue
        gangs = ',"gang":true' if any(gang[low:high]) else ""
        pods = _pods(pieces, instances, gang, range(low, high))
        yield (
            f'{{"type":"workload","schemaVersion":"v2","workloadId":{workload_id}'
            f',"submitTimeOffsetSec":{submit},"namespace":{namespace}{kind}{gangs}'
            f',"durationSec":{short(durations[job])},"workloadClass":{pieces.classes[low]}'
            f',"sharedIntensityProfile":{pieces.profiles[low]},"pods":[{pods}]{pieces.ends[low]}}}'
        )


def _with_submit_time(text: str, submit: str) -> str:
    record = json.loads(text)
    if record.get("submitTimeOffsetSec") == float(submit):
        return text
    return compact(record | {"submitTimeOffsetSec": float(submit)})


def _pods(pieces: RecordParts, instances: list[int], gang: list[int], rows: range) -> str:
    pod_texts: list[str] = []
    replicas = 0
    for row in rows:
        replicas += instances[row]
        alike = row + 1 < rows.stop and (
            pieces.roles[row + 1] == pieces.roles[row]
            and pieces.logical_requests[row + 1] == pieces.logical_requests[row]
            and gang[row + 1] == gang[row]
        )
        if not alike:
            gangs = ',"gang":true' if gang[row] else ""
            role = f'"role":"{pieces.roles[row]}",' if pieces.roles[row] else ""
            pod_texts.append(
                f'{{{role}"replicas":{replicas},"requests":{pieces.logical_requests[row]}{gangs}}}'
            )
            replicas = 0
    return ",".join(pod_texts)


def _pod_lines(pieces: RecordParts) -> Iterator[str]:
    tasks, work = pieces.tasks, pieces.work
    affinities = [f'"affinity":{affinity_text(terms)},' for terms in tasks.affinities] + [""]
    pod_ids = tasks.texts.get("jobId", [""] * tasks.n_tasks)
    in_names = {role: pod_name(role) for role in pieces.roles}
    rows = zip(
        tasks.job.tolist(),
        tasks.instances.tolist(),
        pieces.roles,
        tasks.gang.tolist(),
        tasks.demand.tolist(),
        pieces.requests,
        map(short, work.cpu_units.tolist()),
        map(short, work.gpu_units.tolist()),
        _sensitivities(work),
        pieces.classes,
        pieces.profiles,
        pieces.ends,
        pod_ids,
        strict=True,
    )
    job, n_by_role = -1, dict[str, int]()
    for of, instances, role, gang, demand, requests, cpu, gpu, sensed, *rest in rows:
        classes, profile, end, pod_id = rest
        if of != job:
            job, n_by_role = of, {}
            workload_id, kind, submit, namespace = pieces.heads[of]
            name = pieces.names[of]
        of_role = f'{kind},"podRole":"{role}"' if role else kind
        gangs = ',"gang":true' if gang else ""
        for _ in range(instances):
            number = n_by_role[role] = n_by_role.get(role, 0) + 1
            id_text = json.dumps(pod_id) if pod_id else f'"{name}-{in_names[role]}-{number:02d}"'
            yield (
                f'{{"type":"job","schemaVersion":"v2","jobId":{id_text},"workloadId":{workload_id}'
                f'{of_role}{gangs},"submitTimeOffsetSec":{submit},"namespace":{namespace}'
                f',"podTemplate":{{{affinities[demand]}"requests":{requests}}}'
                f',"work":{{"cpuUnits":{cpu},"gpuUnits":{gpu}}},"sensitivity":{sensed}'
                f',"workloadClass":{classes},"workloadProfile":{profile}{end}}}'
            )


def _heads(workload: Workload, tasks: Tasks) -> tuple[list[tuple[str, str, str, str]], list[str]]:
    first = np.searchsorted(tasks.job, np.arange(workload.n_jobs)).tolist()
    texts = tasks.texts
    ids, kinds, spaces = texts.get("workloadId"), texts.get("workloadType"), texts.get("namespace")
    kind_texts = [f',"workloadType":"{kind}"' for kind in KINDS] if tasks.work is not None else []
    usual = json.dumps(USUAL_NAMESPACE)
    heads, names = [], []
    offsets = _offsets(workload, tasks, first)
    columns = zip(first, workload.job_id.tolist(), workload.group.tolist(), offsets, strict=True)
    for row, number, group, submit in columns:
        name = json.dumps(ids[row])[1:-1] if ids and ids[row] else f"workload-{number:06d}"
        if kinds and kinds[row]:
            kind = f',"workloadType":{json.dumps(kinds[row])}'
        else:
            kind = kind_texts[group] if 0 <= group < len(kind_texts) else ""
        namespace = json.dumps(spaces[row]) if spaces and spaces[row] else usual
        heads.append((f'"{name}"', kind, short(submit), namespace))
        names.append(name)
    return heads, names


def _offsets(workload: Workload, tasks: Tasks, first: list[int]) -> list[float]:
    texts = tasks.texts.get("submitTimeOffsetSec")
    if texts and all(texts):
        offsets = np.array([float(texts[row]) for row in first])
        if (offsets - offsets.min() == workload.submit_s).all():
            return [float(offset) for offset in offsets.tolist()]
    base_s = 0.0
    if workload.start_unix_s is not None:
        base_s = workload.start_unix_s - EPOCH_UNIX_S
        if not 0 <= base_s <= _YEAR_S:
            base_s = workload.start_unix_s % _DAY_S
    offset_s = workload.submit_s + base_s
    near = np.round(offset_s, 3)
    almost = np.abs(offset_s - near) <= _ALMOST_S
    return [float(offset) for offset in np.where(almost, near, offset_s).tolist()]


def _requests(tasks: Tasks, resources: Sequence[str]) -> list[str]:
    """Return the requests of each pod, with their original texts if unchanged."""
    columns = (tasks.mcpu, tasks.mem_bytes, tasks.disk_bytes, tasks.mgpu)
    gpu_names = [resource or USUAL_GPU for resource in resources]
    rows = zip(*(column.tolist() for column in columns), gpu_names, strict=True)
    texts = [requests_text(*row) for row in rows]
    for row, raw in enumerate(tasks.texts.get("requests", ())):
        if raw and _same_requests(raw, texts[row]):
            texts[row] = raw
    return texts


def _same_requests(raw: str, text: str) -> bool:
    try:
        return read_requests("", json.loads(raw)) == read_requests("", json.loads(text))
    except (RecordFieldError, ValueError):
        return False


def _names(names: Sequence[str], codes: NDArray[np.int64]) -> list[str]:
    both = [*names, ""]
    return [both[code] for code in codes.tolist()]


def _classes(work: TaskWork) -> list[str]:
    cpus, gpus = _names(work.classes, work.cpu_class), _names(work.classes, work.gpu_class)
    texts = {
        pair: "{" + ",".join(
            f'"{key}":{json.dumps(name)}' for key, name in zip(("cpu", "gpu"), pair, strict=True)
            if name
        ) + "}"
        for pair in set(zip(cpus, gpus, strict=True))
    }  # fmt: skip
    return [texts[pair] for pair in zip(cpus, gpus, strict=True)]


def _sensitivities(work: TaskWork) -> list[str]:
    pairs = list(zip(work.cpu_sensitivity.tolist(), work.gpu_sensitivity.tolist(), strict=True))
    texts = {pair: f'{{"cpu":{short(pair[0])},"gpu":{short(pair[1])}}}' for pair in set(pairs)}
    return [texts[pair] for pair in pairs]


def _profiles(profile: NDArray[np.float64]) -> list[str]:
    """Return profiles as JSON, without signals of 0; the pods of a job share one."""
    is_new = np.ones(len(profile), dtype=np.bool_)
    is_new[1:] = (profile[1:] != profile[:-1]).any(axis=1)
    text, texts = "", []
    for new, row in zip(is_new.tolist(), profile.tolist(), strict=True):
        if new:
            signals = zip(PROFILE, row, strict=True)
            text = ",".join(f'"{name}":{short(value)}' for name, value in signals if value)
            text = f"{{{text}}}"
        texts.append(text)
    return texts
