"""Reader of Slurm's accounting: what ``sacct -P`` prints, with a header or as Open XDMoD asks.

With a header (``sacct --parsable2``, also ``--parsable``), any fields in any order are read, as
long as those of `sacct_layout.NEEDED` are among them. Without one, the fields must be those that
Open XDMoD asks for (https://open.xdmod.org, "Slurm"), in any of its versions.

Fields and states are those of the man page of sacct, Slurm 17.11 to 24.05. Every decision is
counted in a note of the workload.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.formats.clock_texts import (
    FloatColumn,
    Moments,
    Rows,
    clock_durations_s,
    duration_s,
    parse_moments,
    unknown_moments,
)
from sim.formats.sacct_layout import BOM, KIND, MOMENTS, NO_JOBS, SEPARATOR, Layout, layout_of
from sim.formats.text_columns import WORD_BYTES, TextCodes, TextColumn, TextNumbers
from sim.formats.text_files import blocks_of, number_texts
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError

IntColumn = NDArray[np.signedinteger[Any]]
Part = dict[str, NDArray[Any]]

UNLIMITED, PARTITION_LIMIT = np.inf, -1.0  # of a time limit

STATUS: Mapping[str, int] = {
    "COMPLETED": 1, "CANCELLED": 5, "FAILED": 0, "TIMEOUT": 0, "NODE_FAIL": 0, "PREEMPTED": 0,
    "OUT_OF_MEMORY": 0, "BOOT_FAIL": 0, "DEADLINE": 0, "REQUEUED": 0, "REVOKED": 0,
}  # fmt: skip
"""SWF's status of each state in which a job has ended; all other states go on."""

NAMES = ("user", "account", "qos", "partition", "cluster")
"""Columns of names."""

GOES_ON = -2  # status of a job that waits or runs

SHORT_STATES: Mapping[str, str] = {
    "CD": "COMPLETED", "CA": "CANCELLED", "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL",
    "PR": "PREEMPTED", "OOM": "OUT_OF_MEMORY", "BF": "BOOT_FAIL", "DL": "DEADLINE",
    "RQ": "REQUEUED", "RV": "REVOKED",
}  # fmt: skip

_MOST_BROKEN = 0.1  # share of rows that may be unreadable
_MOST_PARTS = 32  # joined then: small arrays would leave holes in memory
_NARROW: Mapping[str, type[np.signedinteger]] = {
    "line": np.int32, "status": np.int8, "pending_tasks": np.int32, "user": np.int32,
    "account": np.int32, "qos": np.int32, "partition": np.int32, "cluster": np.int32,
}  # fmt: skip
_ROWS_TO_DETECT, _BYTES_TO_DETECT = 50, 65_536
_PLAIN_ID = re.compile(rb"\d{1,15}")
_NUMBER = re.compile(rb"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)")
_MEMORY = re.compile(rb"(\d{1,15}(?:\.\d{1,9})?)([KMGTP]?)B?([nc]?)", re.IGNORECASE)
_TRES = re.compile(rb"([^=,]+)=([^,]*)")
_TASKS = re.compile(rb"(\d{1,9})(?:-(\d{1,9}))?(?::(\d{1,9}))?")
_UNITS = {b"": 0, b"K": 1, b"M": 2, b"G": 3, b"T": 4, b"P": 5}


@dataclass(frozen=True, eq=False)
class SacctRows:
    """Allocations of a dump, one row each, as numbers; steps are left out.

    Attributes:
        line: int32 [n], 1-based line of the file.
        job: int64 [n], JobIDRaw, or JobID where that is a plain number; below 0 otherwise, the
            same for the same text.
        moments: submit, eligible, start and end, by name.
        elapsed_s: float64 [n], NaN where unknown.
        limit_s: float64 [n], requested time; NaN if unknown, `UNLIMITED` or `PARTITION_LIMIT`.
        allocated, requested: int64 [n], CPUs; 0 where unknown.
        mem_bytes: float64 [n], requested memory of the whole job; NaN where unknown.
        gpus: int64 [n], allocated, else requested.
        status: int8 [n], as in SWF; `GOES_ON` for jobs that wait or run.
        unplaced: bool [n], whether the row says that no node was allocated.
        pending_tasks: int32 [n], waiting array tasks for which the row stands; 0 for other rows.
        names: int32 [n] and the texts, by column: user, account, qos, partition, cluster.
        n_steps, n_broken: rows left out because they are steps, or no rows of sacct.
        first_broken: of the rows that are no rows of sacct.
        source: what wrote the file: sacct, or another program whose rows are read as these.
        size_from: what says the size of the machine, in words.
        scheduler: scheduler that ran the jobs; None if unknown.
    """

    path: Path
    line: IntColumn
    job: IntColumn
    moments: Mapping[str, Moments]
    elapsed_s: FloatColumn
    limit_s: FloatColumn
    allocated: IntColumn
    requested: IntColumn
    mem_bytes: FloatColumn
    gpus: IntColumn
    status: IntColumn
    unplaced: Rows
    pending_tasks: IntColumn
    names: Mapping[str, tuple[IntColumn, tuple[str, ...]]]
    n_steps: int
    n_broken: int
    first_broken: TraceError | None
    source: str = "sacct"
    size_from: str = "slurm.conf, for copperline from-slurm --conf,"
    scheduler: str | None = "slurm"

    @property
    def n_rows(self) -> int:
        """Number of allocations."""
        return len(self.line)


def rows_of_texts(
    path: Path,
    *,
    source: str,
    lines: Sequence[int],
    jobs: Sequence[bytes],
    numbers: Mapping[bytes, int],
    times: Mapping[str, Sequence[bytes]],
    names: Mapping[str, Sequence[bytes]],
    status: Sequence[int],
    elapsed_s: FloatColumn,
    limit_s: FloatColumn,
    allocated: FloatColumn,
    requested: FloatColumn,
    mem_bytes: FloatColumn,
    gpus: FloatColumn,
    n_broken: int = 0,
    first_broken: TraceError | None = None,
) -> SacctRows:
    """Return executions that another program than sacct wrote as rows of sacct.

    Args:
        path: the file.
        source: what wrote it, for sentences.
        lines: line of each of the n executions.
        jobs: name of the job of each.
        numbers: numbers of the jobs that have one, by name.
        times: texts of the moments, by name; those that are missing are unknown.
        names: texts of the columns of names, by name; those that are missing are unknown.
        status: as in SWF, or `GOES_ON`.
        elapsed_s: float64 [n], NaN where unknown.
        limit_s: float64 [n], requested time, NaN where unknown.
        allocated: processors [n], 0 where unknown.
        requested: processors [n], 0 where unknown.
        mem_bytes: float64 [n], requested memory of the whole job, NaN where unknown.
        gpus: GPUs [n].
        n_broken: number of lines that were left out.
        first_broken: the first of them.
    """
    n = len(lines)
    unnumbered = {job: -1 - at for at, job in enumerate(dict.fromkeys(jobs))}
    numbered = {
        name: number_texts([text.decode("utf-8", "replace").strip() for text in column])
        for name, column in names.items()
    }
    unknown = np.full(n, -1), ()
    return SacctRows(
        path=path,
        line=np.array(lines, dtype=np.int64),
        job=np.array([numbers.get(job, unnumbered[job]) for job in jobs], dtype=np.int64),
        moments={name: parse_moments(times.get(name, [b""] * n)) for name in MOMENTS},
        elapsed_s=elapsed_s,
        limit_s=limit_s,
        allocated=allocated.astype(np.int64),
        requested=requested.astype(np.int64),
        mem_bytes=mem_bytes,
        gpus=gpus.astype(np.int64),
        status=np.array(status, dtype=np.int8),
        unplaced=np.zeros(n, dtype=np.bool_),
        pending_tasks=np.zeros(n, dtype=np.int32),
        names={name: numbered.get(name, unknown) for name in NAMES},
        n_steps=0,
        n_broken=n_broken,
        first_broken=first_broken,
        source=source,
        size_from="--procs",
        scheduler=None,
    )


def read_rows(path: str | PathLike[str]) -> SacctRows:
    """Read the allocations of a dump of sacct, plain or gzip, block by block.

    Raises:
        TraceError: no such file, no dump of sacct, fields that are missing, or more than a tenth
            of the rows cannot be read.
    """
    file = Path(path)
    reader: _RowReader | None = None
    for number, block in blocks_of(file, KIND):
        if reader is None:
            lines = block[:_BYTES_TO_DETECT].split(b"\n")[:_ROWS_TO_DETECT]
            reader = _RowReader(file, layout_of(file, [line for line in lines if line.strip()]))
        reader.read(number, block)
    if reader is None:
        raise TraceError(file, expected=NO_JOBS)
    return reader.rows()


@dataclass(eq=False)
class _RowReader:
    """Reader of rows, which keeps numbers alone; texts are parsed in chunks."""

    path: Path
    layout: Layout
    n_steps: int = 0
    n_broken: int = 0
    n_lines: int = 0
    first_broken: TraceError | None = None
    parts: list[Part] = field(default_factory=list)
    columns: list[TextColumn] = field(default_factory=list)
    numbers: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        self.names = {name: TextCodes() for name in NAMES}
        self.ids = TextCodes()
        self.caches = {"elapsed": TextNumbers(duration_s, clock_durations_s)} | {
            name: TextNumbers(parse)
            for name, parse in (
                ("seconds", _whole), ("count", _whole), ("limit", _known_limit_s),
                ("limitraw", _limit_raw_s), ("state", _status), ("tasks", _pending_tasks),
                ("cpu", lambda text: _tres(text, b"cpu")),
                ("gpu", lambda text: _tres(text, b"gres/gpu")),
                ("mem", lambda text: _tres(text, b"mem", bytes_=True)),
            )
        }  # fmt: skip
        self.memory = TextCodes()
        self.amounts: list[tuple[float, bytes]] = []  # of the texts of the memory

    def read(self, number: int, block: bytes) -> None:
        """Parse a block of whole lines, of which the first has this number."""
        n = len(self.layout.names)
        at, n_fields = _fields_of(block)
        self.numbers = number + np.arange(len(n_fields))
        self.n_lines += len(n_fields)
        if (n_fields != n).any():
            block = self._even(block.split(b"\n")[:-1], n_fields != n)
            at, _ = _fields_of(block)
        if block:
            padded = block + b"\n" * WORD_BYTES
            starts = np.concatenate(([0], at[:-1] + 1)).reshape(-1, n)
            ends = at.reshape(-1, n)
            self.columns = [TextColumn(padded, starts[:, i], ends[:, i]) for i in range(n)]
            self._without_steps()
        if len(self.numbers):
            part = self._parsed()
            good = self._good(part)
            self.parts.append(
                {
                    name: column[good].astype(_NARROW.get(name, column.dtype), copy=False)
                    for name, column in part.items()
                    if not name.endswith(" bad")
                }
            )
        if len(self.parts) >= _MOST_PARTS:
            self.parts = [_joined(self.parts)]

    def _even(self, lines: list[bytes], uneven: Rows) -> bytes:
        """Return the lines with as many fields as there are names; mend or leave out the others."""
        n = len(self.layout.names)
        good = np.ones(len(lines), dtype=np.bool_)
        for row in np.flatnonzero(uneven).tolist():
            fields = lines[row].split(SEPARATOR)
            evened = self.layout.evened(fields)
            if evened is not None:
                lines[row] = SEPARATOR.join(evened)
                continue
            good[row] = False
            if lines[row].strip():
                expected = f"{len(fields)} fields where {KIND} has {n} here; fix the line."
                line = int(self.numbers[row])
                self._leave_out(TraceError(self.path, line=line, expected=expected))
        self.numbers = self.numbers[good]
        selected = compress(lines, good.tolist())
        return b"".join(line + b"\n" for line in selected)

    def _without_steps(self) -> None:
        """Leave out the rows of steps, of repeated headers, and those without a job id."""
        ids = self.columns[self.layout.at("jobid", "jobidraw") or 0]
        is_job = ids.first_bytes_in(b"0123456789") & ~ids.contain(b".")
        if is_job.all():
            return
        not_jobs = np.flatnonzero(~is_job)
        for line, job in zip(self.numbers[not_jobs].tolist(), ids.of_rows(not_jobs), strict=True):
            if job[:1].isdigit():
                self.n_steps += 1
            elif job.removeprefix(BOM).strip().lower() not in (b"jobid", b"jobidraw"):
                self._leave_out(self._error(line, "jobid", job, "it begins with a number."))
        self.columns = [column.of_rows(is_job) for column in self.columns]
        self.numbers = self.numbers[is_job]

    def rows(self) -> SacctRows:
        """Return all rows. Raises TraceError if too few can be read."""
        if self.first_broken is not None and self.n_broken > _MOST_BROKEN * self.n_lines:
            raise self.first_broken
        if not self.parts:
            what = f"only {self.n_steps:,} job steps" if self.n_steps else "no jobs"
            expected = f"it contains {what}; {KIND} needs a line per job (--allocations)."
            raise TraceError(self.path, expected=expected)
        joined = _joined(self.parts)
        moments = {
            name: Moments(joined[name], joined[f"{name} local"], np.isnan(joined[name]))
            for name in MOMENTS
        }
        whole = {
            name: joined[name].astype(_NARROW.get(name, np.int64), copy=False)
            for name in (
                "line", "job", "allocated", "requested", "gpus", "status", "pending_tasks",
                *self.names,
            )
        }  # fmt: skip
        return SacctRows(
            path=self.path, line=whole["line"], job=whole["job"], moments=moments,
            elapsed_s=joined["elapsed_s"], limit_s=joined["limit_s"],
            allocated=whole["allocated"], requested=whole["requested"],
            mem_bytes=joined["mem_bytes"], gpus=whole["gpus"], status=whole["status"],
            unplaced=joined["unplaced"], pending_tasks=whole["pending_tasks"],
            names={name: _by_name(whole[name], codes) for name, codes in self.names.items()},
            n_steps=self.n_steps, n_broken=self.n_broken, first_broken=self.first_broken,
        )  # fmt: skip

    def _error(self, number: int, name: str, value: bytes, expected: str) -> TraceError:
        text = value.decode("utf-8", "replace")
        return TraceError(self.path, line=number, field=name, value=text, expected=expected)

    def _leave_out(self, error: TraceError) -> None:
        self.n_broken += 1
        self.first_broken = self.first_broken or error

    def _texts(self, *names: str) -> TextColumn | None:
        at = self.layout.at(*names)
        return None if at is None else self.columns[at]

    def _good(self, part: Part) -> Rows:
        good = np.ones(len(self.numbers), dtype=np.bool_)
        expected = "allowed are times such as 2024-03-31T12:30:00, Unix times, and Unknown."
        for name in MOMENTS:
            for row in np.flatnonzero(part[f"{name} bad"].astype(np.bool_) & good).tolist():
                good[row] = False
                at = self.layout.at(name) or 0
                value = self.columns[at][row]
                self._leave_out(self._error(int(self.numbers[row]), name, value, expected))
        return good

    def _parsed(self) -> Part:
        n, caches = len(self.numbers), self.caches
        none = np.zeros(n, dtype=np.int64)
        part: Part = {
            "line": self.numbers, "job": self._jobs(),
        }  # fmt: skip
        for name in MOMENTS:
            texts = self._texts(name)
            moments = unknown_moments(n) if texts is None else parse_moments(texts)
            part |= {name: moments.seconds, f"{name} local": moments.is_local}
            part[f"{name} bad"] = moments.is_bad
        for name, codes in self.names.items():
            texts = self._texts(*(("account", "group") if name == "account" else (name,)))
            part[name] = np.full(n, codes.code(b"")) if texts is None else codes.of(texts)

        part["elapsed_s"] = self._first(("seconds", "elapsedraw"), ("elapsed", "elapsed"))
        part["limit_s"] = self._first(("limit", "timelimit"), ("limitraw", "timelimitraw"))
        part["allocated"] = _counts(
            self._first(("count", "ncpus", "alloccpus"), ("cpu", "alloctres"))
        )
        part["requested"] = _counts(self._first(("count", "reqcpus"), ("cpu", "reqtres")))
        part["gpus"] = _counts(self._first(("gpu", "alloctres"), ("gpu", "reqtres")))
        states = self._texts("state")
        part["status"] = none - 1 if states is None else caches["state"].of(states)
        ids = self._texts("jobid")
        part["unplaced"] = self._unplaced(part["elapsed_s"])
        part["pending_tasks"] = none.copy()
        if ids is not None and len(arrays := np.flatnonzero(ids.contain(b"["))):
            part["pending_tasks"][arrays] = caches["tasks"].of(ids.of_rows(arrays))
        part["mem_bytes"] = self._first(("mem", "reqtres"), begin=self._requested_bytes(part))
        return part

    def _first(self, *ways: tuple[str, ...], begin: FloatColumn | None = None) -> FloatColumn:
        """Return numbers of the first of several fields that tells one; NaN where none does.

        Each way is the name of a cache and then of fields, of which the dump's first one counts.
        """
        column = np.full(len(self.numbers), np.nan) if begin is None else begin
        for cache, *fields in ways:
            texts = self._texts(*fields)
            missing = np.isnan(column)
            if texts is None or not missing.any():
                continue
            if missing.all():
                column = self.caches[cache].of(texts)
            else:
                rows = np.flatnonzero(missing)
                column[rows] = self.caches[cache].of(texts.of_rows(rows))
        return column

    def _unplaced(self, elapsed_s: FloatColumn) -> Rows:
        """Return which rows that did not run have no nodes, by NodeList, or else by AllocTRES."""
        texts, none = self._texts("nodelist"), b"None assigned"
        if texts is None:
            texts, none = self._texts("alloctres"), b""
        unplaced = np.zeros(len(elapsed_s), dtype=np.bool_)
        if texts is not None:
            rows = np.flatnonzero(~(elapsed_s > 0))
            unplaced[rows] = [text == none for text in texts.of_rows(rows)]
        return unplaced

    def _jobs(self) -> IntColumn:
        texts = self.columns[self.layout.at("jobidraw", "jobid") or 0]
        whole = texts.whole_numbers()
        if whole is not None:
            return whole
        fallback = self._texts("jobid") or texts
        plain = [
            int(text) if _PLAIN_ID.fullmatch(text) else -1 - self.ids.code(text or other)
            for text, other in zip(texts, fallback, strict=True)
        ]
        return np.array(plain, dtype=np.int64)

    def _requested_bytes(self, part: Part) -> FloatColumn:
        """Return ReqMem of whole jobs, which is per CPU, node or job by its suffix; NaN if none."""
        texts = self._texts("reqmem")
        if texts is None:
            return np.full(len(self.numbers), np.nan)
        place = self.memory.of(texts)
        self.amounts += [
            _memory(text) for text in islice(self.memory.texts, len(self.amounts), None)
        ]
        amounts = np.array(self.amounts, dtype=[("bytes", "f8"), ("suffix", "S1")])[place]
        nodes = self._first(("count", "nnodes", "allocnodes"))
        cpus = np.maximum(part["requested"], 1)
        per_cpu, per_node = amounts["suffix"] == b"c", amounts["suffix"] == b"n"
        return amounts["bytes"] * np.where(per_cpu, cpus, np.where(per_node, nodes, 1.0))


def _fields_of(block: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each field of a block of lines ends, and the number of fields of each line."""
    chars = np.frombuffer(block, dtype=np.uint8)
    at = np.flatnonzero((chars == ord(SEPARATOR)) | (chars == ord("\n")))
    return at, np.diff(np.flatnonzero(chars[at] == ord("\n")), prepend=-1)


def _by_name(column: IntColumn, codes: TextCodes) -> tuple[IntColumn, tuple[str, ...]]:
    """Return the column numbered by the sorted texts, with -1 for empty ones, and these."""
    texts = {text: text.decode("utf-8", "replace").strip() for text in codes.texts}
    names = tuple(sorted(set(texts.values()) - {""}))
    place = {name: at for at, name in enumerate(names)} | {"": -1}
    new = np.array([place[texts[text]] for text in codes.texts] or [-1], dtype=np.int32)
    return new[column], names


def _joined(parts: list[Part]) -> Part:
    """Join columns one by one, so that each is in memory only once; the parts are used up."""
    return {name: np.concatenate([part.pop(name) for part in parts]) for name in list(parts[0])}


def _counts(column: FloatColumn) -> IntColumn:
    return np.where((column >= 0) & (column <= MOST_COUNT), column, 0.0).astype(np.int64)


def _whole(text: bytes) -> float:
    """Return a whole number, also of the form 4K; NaN for any other text."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return np.nan
    return float(round(float(match[1]) * 1000 ** _UNITS[match[2]]))


def _memory(text: bytes) -> tuple[float, bytes]:
    """Return the bytes of a ReqMem, NaN if unknown, and of what they are: b"c", b"n" or b""."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        return np.nan, b""
    return _amount(match[1], match[2].upper() or b"M") or np.nan, match[3].lower()


def _amount(number: bytes, unit: bytes) -> float:
    return float(number) * 1024.0 ** _UNITS[unit]


def _limit_s(text: bytes) -> float | None:
    """Return a time limit in seconds, or None if the text is none."""
    word = text.strip().lower()
    if word in (b"unlimited", b"infinite"):
        return UNLIMITED
    if word == b"partition_limit":
        return PARTITION_LIMIT
    if word in (b"", b"unknown", b"none", b"invalid", b"n/a"):
        return np.nan
    seconds = duration_s(word)
    return None if np.isnan(seconds) else seconds


def _known_limit_s(text: bytes) -> float:
    limit_s = _limit_s(text)
    return np.nan if limit_s is None else limit_s


def _limit_raw_s(text: bytes) -> float:
    minutes = _whole(text)
    return _known_limit_s(text) if np.isnan(minutes) else minutes * 60.0


def _status(text: bytes) -> float:
    """Return SWF's status of a state such as ``CANCELLED by 1000``."""
    words = text.decode("ascii", "replace").upper().replace("+", " ").split()
    if not words:
        return -1.0
    return float(STATUS.get(SHORT_STATES.get(words[0], words[0]), GOES_ON))


def _tres(text: bytes, name: bytes, *, bytes_: bool = False) -> float:
    """Return the amount of a trackable resource in ``billing=4,cpu=4,gres/gpu:a100=2,mem=8G``.

    The total counts (``gres/gpu``); where there is none, the types (``gres/gpu:a100``) are added.
    """
    total, of_types = np.nan, 0.0
    for key, value in _TRES.findall(text):
        resource, colon, _ = key.partition(b":")
        if resource.strip() != name:
            continue
        match = _MEMORY.fullmatch(value)
        if match is None:
            continue
        unit = match[2].upper()
        number = _amount(match[1], unit or b"M") if bytes_ else _whole(match[1] + unit)
        if colon:
            of_types += number
        else:
            total = number
    return total if not np.isnan(total) else of_types or np.nan


def _pending_tasks(text: bytes) -> float:
    """Return how many array tasks ``7_[9201-10000%500]`` stands for, or 0."""
    inside = text.partition(b"[")[2].partition(b"]")[0].partition(b"%")[0]
    n = 0
    for match in map(_TASKS.fullmatch, inside.split(b",")):
        if match is not None:
            first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
            n += max(0, (last - first) // max(step, 1) + 1)
    return float(min(n, 2**31 - 1))
