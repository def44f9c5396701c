"""Reader of the accounting files of PBS Professional, OpenPBS and Torque.

A record is a line ``MM/DD/YYYY hh:mm:ss;TYPE;JOB;KEY=VALUE ...``, with values in quotes where they
have blanks. Records of type E (ended) and R (rerun) are executions; S (started) without one of them
still runs; Q, D and A of a job without any of these never started. All others are passed over.
Times are Unix seconds. Sources: Torque Administrator's Guide, "Accounting Records"; PBS
Professional Administrator's Guide, "Accounting". The decisions are those of
`sim.formats.slurm_jobs`, counted in notes of the workload.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np

from sim.formats.clock_texts import FloatColumn, duration_s
from sim.formats.sacct import GOES_ON, SacctRows, rows_of_texts
from sim.formats.sacct_layout import BOM
from sim.formats.slurm_jobs import jobs_of
from sim.formats.swf import ReadingRules
from sim.formats.text_files import lines_of
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError
from sim.model.workload import Workload

KIND = "an accounting file of PBS"

_RECORD = re.compile(rb"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;([A-Za-z]{1,2});([^;]*);(.*)", re.DOTALL)
_PAIR = re.compile(rb'([A-Za-z_][\w.]*)=("[^"]*"|\S*)')
_JOB = re.compile(rb"(\d{1,15})(\[\d*\]|-\d{1,9})?(?:\.|$)")
_UNIX = re.compile(rb"\d{1,15}")
_SIZE = re.compile(rb"(\d{1,15})([kmgtp]?)([bw]?)", re.IGNORECASE)
_SPAN = re.compile(rb"(\d{1,9})(?:-(\d{1,9}))?")
_UNITS = {b"": 0, b"k": 1, b"m": 2, b"g": 3, b"t": 4, b"p": 5}
_WORD_BYTES = 8
_KILLED = 271  # of Exit_status: SIGTERM, as qdel sends it
_MOST_BROKEN = 0.1  # share of lines that may be no records


def is_pbs(begin: str) -> bool:
    """Return whether a file that begins with this text is taken for an accounting file of PBS."""
    first = begin.lstrip("\ufeff \t\r\n").partition("\n")[0].encode("utf-8", "replace")
    return _RECORD.fullmatch(first.rstrip(b"\r")) is not None


def read_pbs(path: str | PathLike[str], rules: ReadingRules | None = None) -> Workload:
    """Read the jobs of an accounting file of PBS, plain or gzip; several files may be joined.

    Args:
        path: path of the file.
        rules: of which ``wait_from``, ``slurm_cpus``, ``requeues``, ``never_ran``,
            ``procs_missing`` and ``requested_missing`` apply.

    Returns:
        Jobs by the time from which they wait (``etime``, else ``ctime``). Processors are those of
            ``exec_host``, or requested ones; requests are ``Resource_List.walltime``. Users,
            groups (the accounts, else the groups) and queues have numbers in order of their names.

    Raises:
        TraceError: file, line, field, value and what is allowed; or no job is left.
    """
    return jobs_of(read_records(path), rules)


@dataclass(slots=True)
class _Execution:
    """An execution, or what is known of one, as texts."""

    line: int
    status: int
    values: dict[bytes, bytes]


@dataclass(eq=False)
class _Records:
    """Records of a file, job by job: executions that ended, the last start, and mere mentions."""

    path: Path
    ended: list[tuple[bytes, _Execution]] = field(default_factory=list)
    started: dict[bytes, _Execution] = field(default_factory=dict)
    named: dict[bytes, _Execution] = field(default_factory=dict)
    n_lines: int = 0
    n_broken: int = 0
    first_broken: TraceError | None = None

    def add(self, number: int, text: bytes) -> None:
        """Take in a line."""
        self.n_lines += 1
        record = _RECORD.fullmatch(text)
        if record is None:
            self._leave_out(number, "record", text, "MM/DD/YYYY hh:mm:ss;TYPE;JOB;KEY=VALUE ...")
            return
        kind, job, message = record.groups()
        if b"[]" in job:  # an array as a whole; its tasks have records of their own
            return
        if kind in (b"Q", b"D", b"A"):
            self.named.setdefault(job, _Execution(number, GOES_ON if kind == b"Q" else 5, {}))
            if kind != b"Q":
                self.named[job].status = 5
        elif kind in (b"S", b"E", b"R"):
            values = {key: value.strip(b'"') for key, value in _PAIR.findall(message)}
            if _JOB.match(job) is None:
                self._leave_out(number, "job", job, "a number, such as 12.server or 12[3].server")
                return
            for key in (b"ctime", b"qtime", b"etime", b"start", b"end"):
                if key in values and _UNIX.fullmatch(values[key]) is None:
                    self._leave_out(number, key.decode(), values[key], "seconds since 1970")
                    return
            if kind == b"S":
                self.started[job] = _Execution(number, GOES_ON, values)
            elif kind == b"E" or {b"start", b"end"} <= values.keys():
                self.ended.append((job, _Execution(number, _status(kind, values), values)))
                self.started.pop(job, None)

    def _leave_out(self, number: int, name: str, value: bytes, expected: str) -> None:
        self.n_broken += 1
        if self.first_broken is None:
            text = value[:80].decode("utf-8", "replace")
            self.first_broken = TraceError(
                self.path, line=number, field=name, value=text, expected=f"it is {expected}."
            )

    def executions(self) -> list[tuple[bytes, _Execution]]:
        """Return all executions, those under way and jobs that never started, in this order."""
        known = {job for job, _ in self.ended} | self.started.keys()
        never = [(job, one) for job, one in self.named.items() if job not in known]
        return [*self.ended, *self.started.items(), *never]


def read_records(path: str | PathLike[str]) -> SacctRows:
    """Read the executions of an accounting file of PBS, as rows like those of sacct.

    Raises:
        TraceError: no such file, no executions, or more than a tenth of the lines are no records.
    """
    records = _Records(Path(path))
    for number, line in lines_of(records.path, KIND):
        text = line.removeprefix(BOM).strip()
        if text:
            records.add(number, text)
    if records.first_broken is not None and records.n_broken > _MOST_BROKEN * records.n_lines:
        raise records.first_broken
    executions = records.executions()
    if not executions:
        raise TraceError(records.path, expected="it has no records of jobs (types E, R, S, Q).")
    return _rows(records, executions)


def _rows(records: _Records, executions: Sequence[tuple[bytes, _Execution]]) -> SacctRows:
    values = [one.values for _, one in executions]

    def texts(*keys: bytes) -> list[bytes]:
        return [next((of[key] for key in keys if of.get(key)), b"") for of in values]

    def whole(parse: Callable[[bytes], float], column: Sequence[bytes]) -> FloatColumn:
        parsed = {text: parse(text) for text in set(column)}
        return np.array([parsed[text] for text in column], dtype=np.float64)

    listed = b"Resource_List."
    n_allocated = whole(_processors_held, texts(b"exec_host"))
    n_requested = whole(_count, texts(listed + b"ncpus", listed + b"procs"))
    by_nodes = whole(_processors_of_nodes, texts(listed + b"nodes", listed + b"nodect"))
    n_requested = np.where(n_requested > 0, n_requested, by_nodes)
    n_procs = np.maximum(np.where(n_requested > 0, n_requested, n_allocated), 1)
    mem = whole(_bytes, texts(listed + b"mem"))
    jobs = [job for job, _ in executions]
    matches = [(job, _JOB.match(job)) for job in dict.fromkeys(jobs)]
    return rows_of_texts(
        records.path,
        source="PBS",
        lines=[one.line for _, one in executions],
        jobs=jobs,
        numbers={job: int(match[1]) for job, match in matches if match and not match[2]},
        times={
            "submit": texts(b"ctime", b"qtime"),
            "eligible": texts(b"etime", b"qtime"),
            "start": texts(b"start"),
            "end": texts(b"end"),
        },
        names={
            "user": texts(b"user"),
            "account": texts(b"account", b"group"),
            "qos": texts(b"queue"),
        },
        status=[one.status for _, one in executions],
        elapsed_s=np.full(len(executions), np.nan),
        limit_s=whole(_walltime_s, texts(listed + b"walltime")),
        allocated=n_allocated,
        requested=n_requested,
        mem_bytes=np.where(np.isnan(mem), whole(_bytes, texts(listed + b"pmem")) * n_procs, mem),
        gpus=whole(_count, texts(listed + b"ngpus")),
        n_broken=records.n_broken,
        first_broken=records.first_broken,
    )


def _status(kind: bytes, values: dict[bytes, bytes]) -> int:
    """Return the status in SWF's numbers: completed, failed or cancelled."""
    if kind == b"R":
        return 0
    code = values.get(b"Exit_status", b"")
    if code == b"":
        return -1
    return {b"0": 1, str(_KILLED).encode(): 5}.get(code, 0)


def _count(text: bytes) -> float:
    return float(text) if _UNIX.fullmatch(text) else 0.0


def _walltime_s(text: bytes) -> float:
    """Return a duration of PBS in seconds: ``01:30:00``, or ``5400``."""
    return float(text) if _UNIX.fullmatch(text) else duration_s(text)


def _processors_held(text: bytes) -> float:
    """Count the processors of ``exec_host``: ``a/0*8+b/1``, or ``a/0-7,9+b/1`` of Torque.

    >>> _processors_held(b"a/0*8+b/1"), _processors_held(b"a/0-7,9+b/1"), _processors_held(b"")
    (9.0, 10.0, 0.0)
    """
    n = 0
    for part in text.split(b"+") if text else ():
        _, _, places = part.partition(b"/")
        index, star, times = places.partition(b"*")
        if star:
            n += int(_count(times))
            continue
        for span in index.split(b","):
            match = _SPAN.fullmatch(span)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
            n += max(1, last - first + 1)
    return float(min(n, MOST_COUNT))


def _processors_of_nodes(text: bytes) -> float:
    """Count the processors of ``Resource_List.nodes``: ``2:ppn=6+1``, or names of nodes.

    >>> _processors_of_nodes(b"2:ppn=6+1"), _processors_of_nodes(b"a:ppn=4")
    (13.0, 4.0)
    """
    n = 0
    for part in text.split(b"+") if text else ():
        head, *properties = part.split(b":")
        ppn = next((p[4:] for p in properties if p.startswith(b"ppn=")), b"1")
        n += int(_count(head) if _UNIX.fullmatch(head) else 1) * int(_count(ppn))
    return float(min(n, MOST_COUNT))


def _bytes(text: bytes) -> float:
    """Return a size of PBS in bytes: ``4gb``, ``512mw`` (words of eight bytes), ``1024``."""
    match = _SIZE.fullmatch(text)
    if match is None:
        return float("nan")
    size = float(match[1]) * 1024.0 ** _UNITS[match[2].lower()]
    return size * (_WORD_BYTES if match[3].lower() == b"w" else 1)
