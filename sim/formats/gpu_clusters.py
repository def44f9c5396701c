"""Readers of GPU cluster data: pods of openb, jobs of Philly, and lists of machines.

openb: Alibaba's GPU-sharing cluster (Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent", USENIX ATC 2023). A row per pod:
``name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time``,
in seconds since the log began; ``gpu_milli`` is the share of each of ``num_gpu`` GPUs. Node lists
``sn,cpu_milli,memory_mib,gpu,model`` are read as they are.

Philly: Microsoft's clusters (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for
DNN Training Workloads", USENIX ATC 2019). A row per job:
``timestamp,duration,num_gpus,gpu_time,cluster`` (the virtual cluster), without cores, memory or
users.

Lists of machines are CSV tables or TOML with the names of `MACHINE_COLUMNS`; ``label:KEY`` is a
label (in TOML also ``labels = {KEY = "..."}``).
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_files import (
    LARGEST_NUMBER,
    NUMBER,
    CsvTable,
    lines_of,
    number_texts,
    read_csv,
    stem_of,
    zone_named,
)
from sim.model.cluster import MachineSpec
from sim.model.errors import ClusterError, TraceError
from sim.model.tasks import Tasks, Term
from sim.model.workload import ReadingNote, Workload

OPENB_COLUMNS: Mapping[str, str] = {
    "name": "name", "mcpu": "cpu_milli", "mem_mib": "memory_mib", "gpus": "num_gpu",
    "mgpu": "gpu_milli", "gpu_models": "gpu_spec", "queue": "qos", "phase": "pod_phase",
    "submit_s": "creation_time", "end_s": "deletion_time", "start_s": "scheduled_time",
}  # fmt: skip
"""Needed quantities, with the usual names of their columns."""

GPU_MODEL = "gpu.model"
"""Label with the GPU model of a machine, for pods that demand certain models."""

MILLI, MEBIBYTE, MOST_GPUS = 1000, 2**20, 1000


def read_openb(
    path: str | PathLike[str],
    *,
    pending: Literal["drop", "keep"] = "drop",
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read Alibaba's openb trace of GPU pods from a CSV file, plain or gzip.

    Args:
        path: path of the file.
        pending: treatment of pods that were never scheduled and so have no run time; ``keep``
            takes the time from creation to deletion instead, as placement studies of these pods
            do.
        columns: other names of columns, by quantity; see `OPENB_COLUMNS`.

    Returns:
        Pods by creation, one job of one task each. Processors are whole cores (rounded up, at
            least 1), queues the classes of service in order of their names, and the logged wait is
            the time from creation to scheduling. The begin of the log is unknown.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, OPENB_COLUMNS, columns)
    submit_s, end_s = table.numbers("submit_s"), table.numbers("end_s")
    start_s = table.numbers("start_s", empty=np.nan)
    ran = ~np.isnan(start_s)
    for name, column in (("end_s", end_s), ("start_s", start_s)):
        early = column < submit_s
        if early.any():
            row = int(np.flatnonzero(early)[0])
            raise table.error(row, name, f"the pod was created later, at {submit_s[row]:.15g}.")
    early = ran & (end_s < start_s)
    if early.any():
        row = int(np.flatnonzero(early)[0])
        raise table.error(row, "end_s", f"the pod was scheduled later, at {start_s[row]:.15g}.")
    mcpu = table.numbers("mcpu", integer=True).astype(np.int64)
    mem_bytes = table.numbers("mem_mib") * MEBIBYTE
    mgpu = _mgpu(table)
    queue, names = number_texts(table.texts("queue"))
    selected = ran | (pending == "keep")
    if not selected.any():
        expected = "no pod was ever scheduled; keep them with pending='keep'."
        raise TraceError(file, expected=expected)
    runtime_s = end_s - np.where(ran, start_s, submit_s)
    kinds, demand = _models(table.texts("gpu_models") if table.has("gpu_models") else [])
    rows = np.flatnonzero(selected)
    procs = np.maximum(-(-mcpu // MILLI), 1)
    n_jobs = len(rows)
    texts = {need: table.texts(need) for need in ("name", "queue", "phase") if table.has(need)}
    return Workload.from_arrays(
        submit_s=submit_s[rows],
        runtime_s=runtime_s[rows],
        procs=procs[rows],
        logged_wait_s=(start_s - submit_s)[rows],
        queue=queue[rows],
        mem_bytes_per_proc=np.rint(mem_bytes / procs)[rows],
        name=stem_of(file),
        notes=_notes(ran, end_s, pending, names),
        unsorted="sort",
        tasks=Tasks.from_arrays(
            job=np.arange(n_jobs),
            runtime_s=runtime_s[rows],
            mcpu=mcpu[rows],
            mem_bytes=np.rint(mem_bytes)[rows],
            mgpu=mgpu[rows],
            demand=demand[rows] if len(demand) else None,
            affinities=[(Term(GPU_MODEL, "In", kind),) for kind in kinds],
            texts={need: [column[row] for row in rows] for need, column in texts.items()},
        ),
    )


def _mgpu(table: CsvTable) -> NDArray[np.int64]:
    gpus, share = table.numbers("gpus", integer=True), table.numbers("mgpu", integer=True)
    bad = (share > MILLI) | ((gpus > 1) & (share != MILLI)) | ((gpus > 0) & (share == 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        expected = "allowed are thousandths of a GPU: 1 to 1000, or 1000 for several GPUs."
        raise table.error(row, "mgpu", expected)
    if (gpus > MOST_GPUS).any():
        row = int(np.flatnonzero(gpus > MOST_GPUS)[0])
        raise table.error(row, "gpus", f"allowed are at most {MOST_GPUS:,} GPUs.")
    return (gpus * share).astype(np.int64)


def _models(texts: Sequence[str]) -> tuple[list[tuple[str, ...]], NDArray[np.int64]]:
    place, kinds = number_texts(texts)
    return [tuple(kind.split("|")) for kind in kinds], place


def _notes(
    ran: NDArray[np.bool_],
    end_s: NDArray[np.float64],
    pending: Literal["drop", "keep"],
    names: tuple[str, ...],
) -> list[ReadingNote]:
    notes = []
    n_pending, n_last = int((~ran).sum()), int((end_s == end_s.max()).sum())
    if n_pending:
        outcome = "dropped" if pending == "drop" else "kept, from creation to deletion"
        sentence = f"{n_pending} pods were never scheduled; {outcome}."
        notes.append(ReadingNote("pending", n_pending, sentence))
    if n_last > 1:
        sentence = f"{n_last} pods end with the log; they may have run longer than recorded."
        notes.append(ReadingNote("end_of_log", n_last, sentence))
    sentence = f"queues are the classes of service, from 0: {', '.join(names)}."
    notes.append(ReadingNote("queue", len(ran), sentence))
    return notes


PHILLY_COLUMNS: Mapping[str, str] = {
    "submitted": "timestamp", "runtime_s": "duration", "gpus": "num_gpus", "queue": "cluster",
}  # fmt: skip
"""Needed quantities, with the usual names of their columns; ``queue`` is optional."""

GPU_MILLI = 1000
MOST_PHILLY_GPUS = 100_000


def read_philly(
    path: str | PathLike[str],
    *,
    time_zone: str = "UTC",
    gpus_per_machine: int = 8,
    never_ran: Literal["drop", "refuse"] = "drop",
    columns: Mapping[str, str] | None = None,
) -> Workload:
    """Read Microsoft's Philly trace of GPU jobs from a CSV file, plain or gzip.

    Args:
        path: path of the file.
        time_zone: time zone of the submissions, which the file does not contain.
        gpus_per_machine: jobs with more GPUs become a gang of the fewest equal tasks that fit on
            such machines (Philly's machines had 2, 4 or 8).
        never_ran: treatment of jobs of run time 0.
        columns: other names of columns, by quantity; see `PHILLY_COLUMNS`.

    Returns:
        Jobs by submission, each with one task of one or more instances. Processors are the GPUs
            (at least 1), queues the virtual clusters in order of their names. Cores and memory are
            unknown, with a demand of 0.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, PHILLY_COLUMNS, columns)
    zone = zone_named(file, time_zone)
    if gpus_per_machine < 1:
        expected = f"gpus_per_machine is {gpus_per_machine}; allowed are whole numbers from 1."
        raise TraceError(file, expected=expected)
    submitted_s = table.moments("submitted", zone)
    runtime_s = table.numbers("runtime_s")
    gpus = table.numbers("gpus", integer=True)
    if (gpus > MOST_PHILLY_GPUS).any():
        row = int(np.flatnonzero(gpus > MOST_PHILLY_GPUS)[0])
        raise table.error(row, "gpus", f"allowed are at most {MOST_PHILLY_GPUS:,} GPUs.")
    queue, names = number_texts(table.texts("queue") if table.has("queue") else [""] * table.n_rows)
    ran = runtime_s > 0
    if never_ran == "refuse" and not ran.all():
        row = int(np.flatnonzero(~ran)[0])
        expected = "this job never ran; drop such jobs with never_ran='drop'."
        raise table.error(row, "runtime_s", expected)
    if not ran.any():
        raise TraceError(file, expected=f"none of its {table.n_rows} jobs ran; nothing is left.")
    notes = []
    if not ran.all():
        dropped = int((~ran).sum())
        sentence = f"{dropped} jobs never ran (run time 0); dropped."
        notes.append(ReadingNote("never_ran", dropped, sentence))
    n_back = int((np.diff(submitted_s) < 0).sum())
    if n_back:
        sentence = f"submit times step back {n_back} times; the jobs were sorted."
        notes.append(ReadingNote("unsorted", n_back, sentence))
    n_jobs = int(ran.sum())
    sentence = "the table has no cores and no memory; every task demands 0 of both."
    notes.append(ReadingNote("demands_unknown", n_jobs, sentence))
    sentence = (
        f"times are read in the time zone {time_zone}; the table does not name its time zone."
    )
    notes.append(ReadingNote("time_zone", n_jobs, sentence))
    n_gpus = gpus[ran].astype(np.int64)
    instances, of_each = machines_for(n_gpus, gpus_per_machine)
    texts: dict[str, Sequence[str]] = (
        {"queue": [names[i] if i >= 0 else "" for i in queue[ran]]} if names else {}
    )
    return Workload.from_arrays(
        submit_s=submitted_s[ran] - submitted_s[ran].min(),
        runtime_s=runtime_s[ran],
        procs=np.maximum(n_gpus, 1),
        queue=queue[ran],
        name=stem_of(file),
        start_unix_s=float(submitted_s[ran].min()),
        time_zone=time_zone,
        notes=notes,
        unsorted="sort",
        tasks=Tasks.from_arrays(
            job=np.arange(n_jobs),
            runtime_s=runtime_s[ran],
            instances=instances,
            mgpu=of_each * GPU_MILLI,
            gang=(instances > 1).astype(np.int64),
            texts=texts,
        ),
    )


def machines_for(gpus: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split each job's GPUs into the fewest equal tasks of `most` or fewer GPUs each."""
    counts, which = np.unique(gpus, return_inverse=True)
    instances = np.ones(len(counts), dtype=np.int64)
    for i, count in enumerate(counts.tolist()):
        fewest = max(-(-count // most), 1)
        instances[i] = next(n for n in range(fewest, count + 1) if count % n == 0) if count else 1
    return instances[which], (counts // instances)[which]


LABEL = "label:"
MACHINE_COLUMNS: Mapping[str, str] = {
    "name": "name of the machine, or of the kind if there are several; sn is the same",
    "count": "number of machines, 1 by default",
    "cores": "whole cores of each; cpu_milli is the same in thousandths",
    "mem_gib": "memory of each, no limit by default; memory_mib is the same in MiB",
    "gpus": "GPUs of each, 0 by default; gpu is the same",
    "gpu_resource": "resource name of its GPUs in requests",
    "disk_gib": "disk of each, no limit by default",
    "cpu_throttle": "share of full speed of its processors, 1 by default",
    "gpu_throttle": "share of full speed of its GPUs, 1 by default",
    "model": f"model of its GPUs, as the label {GPU_MODEL} that openb's pods demand",
}
"""Columns of a list of machines, with their meanings."""

_SAME = {"sn": "name", "cpu_milli": "cores", "memory_mib": "mem_gib", "gpu": "gpus"}
_TEXTS = ("name", "sn", "gpu_resource", "model")
_ALL_COLUMNS = (*MACHINE_COLUMNS, *_SAME)
_GIBIBYTE, _MEBIBYTE, _MILLI = 2**30, 2**20, 1000

Refusal = Callable[[str, str, str], TraceError]  # (name, value, allowed values) -> error


@dataclass(frozen=True)
class _Row:
    """Texts about machines of one kind, by name, and a function that makes an error of one."""

    texts: Mapping[str, str]
    refuse: Refusal
    line: int | None

    def number(self, name: str, *, integer: bool) -> float | None:
        """Return a field as a non-negative number, or None if it is empty."""
        text = self.texts.get(name, "")
        if not text:
            return None
        value = float(text) if NUMBER.fullmatch(text) else np.nan
        if not 0 <= value <= LARGEST_NUMBER or (integer and value != np.floor(value)):
            kind = "whole numbers" if integer else "finite numbers"
            raise self.refuse(name, text, f"allowed are {kind} from 0 to 2**53.")
        return value

    def whole_number(self, name: str) -> int | None:
        value = self.number(name, integer=True)
        return None if value is None else int(value)

    def size(self, name: str, unit: int) -> int | None:
        """Return a field in units of `unit` bytes as a size in bytes, or None if it is empty."""
        value = self.number(name, integer=False)
        return None if value is None else round(value * unit)


def read_machines(path: str | PathLike[str]) -> tuple[MachineSpec, ...]:
    """Read a list of machines in file order, from TOML (``.toml``) or CSV (also ``.gz``).

    Raises:
        TraceError: file, line, name, value and what is allowed.
    """
    file = Path(path)
    specs: list[MachineSpec] = []
    names: set[str] = set()
    for row in _of_toml(file) if file.suffix.lower() == ".toml" else _of_csv(file):
        spec = _spec(file, row)
        if spec.name in names:
            expected = f"two rows are called {spec.name!r}; names must be unique."
            raise TraceError(file, line=row.line, expected=expected)
        names.add(spec.name)
        specs.append(spec)
    return tuple(specs)


def _spec(path: Path, row: _Row) -> MachineSpec:
    cores = row.whole_number("cores")
    milli = row.whole_number("cpu_milli")
    if milli is not None:
        if milli % _MILLI:
            expected = "machines have whole cores; allowed are multiples of 1000."
            raise row.refuse("cpu_milli", row.texts["cpu_milli"], expected)
        cores = milli // _MILLI
    if cores is None:
        raise row.refuse(
            "cores", "", "give the number of cores of the machine (cores, or cpu_milli)."
        )
    memory = row.size("memory_mib", _MEBIBYTE)
    labels = {
        key.removeprefix(LABEL): text
        for key, text in row.texts.items()
        if key.startswith(LABEL) and text
    }
    if row.texts.get("model"):
        labels[GPU_MODEL] = row.texts["model"]
    more: dict[str, Any] = {
        "count": row.whole_number("count"),
        "gpus": row.whole_number("gpus") if row.texts.get("gpus") else row.whole_number("gpu"),
        "gpu_resource": row.texts.get("gpu_resource") or None,
        "cpu_throttle": row.number("cpu_throttle", integer=False),
        "gpu_throttle": row.number("gpu_throttle", integer=False),
    }
    try:
        return MachineSpec(
            row.texts.get("name") or row.texts.get("sn", ""),
            cores,
            mem_bytes=row.size("mem_gib", _GIBIBYTE) if memory is None else memory,
            disk_bytes=row.size("disk_gib", _GIBIBYTE),
            labels=labels,
            **{name: value for name, value in more.items() if value is not None},
        )
    except ClusterError as error:
        raise TraceError(path, line=row.line, expected=str(error)) from None


def _of_csv(path: Path) -> Iterator[_Row]:
    table = read_csv(path, {name: name for name in _ALL_COLUMNS})
    _check_names(path, table.header, 1)
    for row, line in zip(table.rows, table.line_numbers, strict=True):
        texts = {key: text.strip() for key, text in zip(table.header, row, strict=True)}

        def refuse(name: str, value: str, expected: str, line: int = line) -> TraceError:
            return TraceError(path, line=line, field=name, value=value, expected=expected)

        yield _Row(texts, refuse, line)


def _of_toml(path: Path) -> Iterator[_Row]:
    try:
        text = b"".join(line for _, line in lines_of(path, "a list of machines")).decode("utf-8")
        tables = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise TraceError(path, expected=f"it is not UTF-8 ({error.reason}); convert it.") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(path, expected=f"it is not TOML: {error}.") from None
    machines = tables.get("machine")
    if set(tables) != {"machine"} or not isinstance(machines, list) or not machines:
        expected = "allowed are tables [[machine]], one or more, and nothing else."
        raise TraceError(path, expected=expected)
    for number, table in enumerate(machines, start=1):

        def refuse(name: str, value: str, expected: str, number: int = number) -> TraceError:
            field = f"machine {number}: {name}"
            return TraceError(path, field=field, value=value, expected=expected)

        if not isinstance(table, dict):
            raise refuse("it", repr(table), "allowed are tables [[machine]].")
        yield _Row(_texts(path, table, refuse), refuse, None)


def _texts(path: Path, table: Mapping[str, Any], refuse: Refusal) -> dict[str, str]:
    flat = dict(table)
    labels = flat.pop("labels", {})
    if not isinstance(labels, dict):
        raise refuse("labels", repr(labels), 'allowed is a table, such as {zone = "a"}.')
    flat |= {f"{LABEL}{key}": value for key, value in labels.items()}
    _check_names(path, tuple(flat), None)
    texts = {}
    for name, value in flat.items():
        is_text = name in _TEXTS or name.startswith(LABEL)
        if is_text and not isinstance(value, str):
            raise refuse(name, repr(value), "allowed are texts.")
        if not is_text and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise refuse(name, repr(value), "allowed are numbers.")
        texts[name] = value.strip() if isinstance(value, str) else _number_text(value)
    return texts


def _number_text(value: float) -> str:
    return str(value) if abs(value) <= LARGEST_NUMBER else "inf"


def _check_names(path: Path, names: tuple[str, ...], line: int | None) -> None:
    for name in names:
        if name not in _ALL_COLUMNS and not (name.startswith(LABEL) and name != LABEL):
            expected = f"it is unknown; allowed are {', '.join(_ALL_COLUMNS)} and {LABEL}KEY."
            raise TraceError(path, line=line, field=f"'{name}'", expected=expected)
        if _SAME.get(name) in names:
            expected = f"it means the same as {_SAME[name]}; leave one of them out."
            raise TraceError(path, line=line, field=f"'{name}'", expected=expected)
    for first, second in (("name", "sn"), ("cores", "cpu_milli")):
        if first not in names and second not in names:
            expected = f"the {first} of machines is missing; give {first} or {second}."
            raise TraceError(path, line=line, expected=expected)
