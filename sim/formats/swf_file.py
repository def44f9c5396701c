"""Files in the Standard Workload Format: their text, the rules of reading them, and their writer.

Format: Chapin et al., JSSPP 1999; version 2.2 of the Parallel Workloads Archive. Comment lines
start with ``;``, header lines are ``; Key: value`` with any indentation, and keys may repeat.
"""

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_files import LARGEST_NUMBER, NUMBER, read_bytes
from sim.model.errors import TraceError, UnknownNameError
from sim.model.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ReadingRules:
    """Treatment of the peculiarities of real logs; a note counts every effect of a rule.

    Attributes:
        unsorted: submit times step back (theta_2023 does, 2,726 times). ``refuse`` or ``sort``.
        never_ran: run time -1 or 0, such as jobs cancelled in the queue (Curie 17,286, Atlas
            7,178). ``drop``; ``keep_zero`` keeps run times of 0 that have processors (they may
            have run for less than a second) and drops the others; ``refuse``.
        partial_executions: a row with status 2, 3 or 4 is a part of a job between checkpoints (SWF
            2.2); the whole job has its own summary line with status 0, 1 or 5. ``refuse`` refuses
            such rows if they ran (in all known logs none did: Gaia has 127, all with run time -1)
            and leaves the others to `never_ran`; ``drop`` keeps summary lines alone, as the format
            asks of workload studies; ``keep`` makes every part a job.
        requested_time: field with the requested time. ``field_9`` is the standard; ``field_6``
            (average CPU time) has it in logs such as mira and theta_argonne. A log without
            requests in field 9 whose field 6 looks like one gets a note.
        requested_missing: the requested time is -1 or 0 (all of NASA). ``runtime`` takes the run
            time, which makes the scheduler clairvoyant and is flagged; ``drop``; ``refuse``.
        procs: processor count that is simulated when both are known. ``requested_else_allocated``
            or ``allocated_else_requested``.
        procs_missing: a job ran but neither processor count is above 0. ``refuse`` or ``drop``.
        negative: a negative number other than -1 (wagap has two run times of about -1.36e9).
            ``refuse``; ``unknown`` reads it as -1.
        duplicate_ids: a job number occurs twice or is unknown. ``refuse``; ``renumber`` numbers
            all rows by their place in the file, from 1. Rows dropped by `partial_executions` do
            not count.
        extra_columns: more than 18 fields (wagap has 21, some `_walltime` logs 19). ``refuse``;
            ``drop`` reads the first 18.
        machine_size: source of the machine size. ``max_procs`` is the header key MaxProcs alone;
            ``max_nodes`` falls back to MaxNodes (right where a node has one processor).
        wider_than_machine: a job is wider than MaxProcs (theta_2023 has some). ``note`` or
            ``refuse``.
        encoding: encoding of the file. ``utf-8`` or ``latin-1`` (old headers with accented names).
    """

    unsorted: Literal["refuse", "sort"] = "refuse"
    never_ran: Literal["drop", "keep_zero", "refuse"] = "drop"
    partial_executions: Literal["refuse", "drop", "keep"] = "refuse"
    requested_time: Literal["field_9", "field_6"] = "field_9"
    requested_missing: Literal["runtime", "drop", "refuse"] = "runtime"
    procs: Literal["requested_else_allocated", "allocated_else_requested"] = (
        "requested_else_allocated"
    )
    procs_missing: Literal["refuse", "drop"] = "refuse"
    negative: Literal["refuse", "unknown"] = "refuse"
    duplicate_ids: Literal["refuse", "renumber"] = "refuse"
    extra_columns: Literal["refuse", "drop"] = "refuse"
    machine_size: Literal["max_procs", "max_nodes"] = "max_procs"
    wider_than_machine: Literal["note", "refuse"] = "note"
    encoding: Literal["utf-8", "latin-1"] = "utf-8"

    def __post_init__(self) -> None:
        for name, choices in rule_choices().items():
            if getattr(self, name) not in choices:
                raise UnknownNameError(f"choice for rule '{name}'", getattr(self, name), choices)


def rule_choices() -> dict[str, tuple[str, ...]]:
    """Return every rule with its choices, the default first."""
    hints = get_type_hints(ReadingRules)
    choices: dict[str, tuple[str, ...]] = {}
    for field in fields(ReadingRules):
        default = str(field.default)
        rest = tuple(choice for choice in get_args(hints[field.name]) if choice != default)
        choices[field.name] = (default, *rest)
    return choices


def rules_from_texts(texts: dict[str, str]) -> ReadingRules:
    """Return the rules in texts such as ``{"unsorted": "sort"}``, for a command line.

    Raises:
        UnknownNameError: no such rule, or no such choice for it.
    """
    choices = rule_choices()
    for name in texts:
        if name not in choices:
            raise UnknownNameError("reading rule", name, choices)
    return ReadingRules(**texts)  # type: ignore[arg-type]  # __post_init__ checks the choices


FIELDS: tuple[str, ...] = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
WHOLE: tuple[int, ...] = (0, 4, 7, 10, 11, 12, 14, 15)
"""Columns of whole numbers, which become int64."""

BYTES_PER_KB = 1024  # memory is in kilobytes per processor in SWF, and in bytes in a workload
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*")


@dataclass(frozen=True, eq=False)
class SwfText:
    """A log as text and numbers.

    Attributes:
        line_numbers: int64 [n_rows], 1-based line of each row.
        table: float64 [n_rows, 18].
        n_negative: fields with a negative number other than -1, which became -1.
    """

    path: Path
    header: dict[str, tuple[str, ...]]
    lines: list[str]
    line_numbers: NDArray[np.int64]
    table: NDArray[np.float64]
    n_extra: int
    n_negative: int

    def only(self, rows: NDArray[np.bool_]) -> "SwfText":
        """Return the log with selected rows, bool [n_rows]; counts stay those of the file."""
        return replace(
            self,
            lines=list(compress(self.lines, rows.tolist())),
            line_numbers=self.line_numbers[rows],
            table=self.table[rows],
        )

    def error(self, row: int, column: int, expected: str) -> TraceError:
        """Return an error about one field of one row."""
        return TraceError(
            self.path,
            line=int(self.line_numbers[row]),
            field=FIELDS[column],
            value=self.lines[row].split()[column],
            expected=expected,
        )


def read_text(path: Path, rules: ReadingRules) -> SwfText:
    """Read a log into a table.

    Raises:
        TraceError: the file is missing, broken or empty, or a row is not 18 numbers.
    """
    header: dict[str, list[str]] = {}
    lines: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(_content(path, rules).split("\n"), start=1):
        text = line.strip()
        if text.startswith(";"):
            key, colon, value = text[1:].partition(":")
            if colon and _KEY.fullmatch(key.strip()):
                header.setdefault(key.strip(), []).append(value.strip())
        elif text:
            lines.append(text)
            numbers.append(number)
    if not lines:
        raise TraceError(path, expected="there is no job in it; an SWF log has one line per job.")
    line_numbers = np.array(numbers, dtype=np.int64)
    table, n_extra = _table(path, lines, line_numbers, rules)
    header_values = {key: tuple(values) for key, values in header.items()}
    negative = (table < 0) & (table != -1)
    table[negative] = -1.0
    return SwfText(path, header_values, lines, line_numbers, table, n_extra, int(negative.sum()))


def _content(path: Path, rules: ReadingRules) -> str:
    data = read_bytes(path)
    try:
        return data.decode(rules.encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        expected = "this line is not UTF-8; if the log is text, read it with encoding='latin-1'."
        raise TraceError(path, line=line, expected=expected) from None


def _table(
    path: Path, lines: list[str], line_numbers: NDArray[np.int64], rules: ReadingRules
) -> tuple[NDArray[np.float64], int]:
    """Parse all rows at once; after an error, parse row by row to name the first bad field."""
    counts = {len(line.split()) for line in (lines[0], lines[-1])}
    if counts == {len(FIELDS)} and all(line.isascii() for line in lines):
        try:
            table = np.loadtxt(lines, dtype=np.float64, comments=None, ndmin=2)
        except ValueError:
            table = np.empty((0, 0))
        if table.shape == (len(lines), len(FIELDS)) and _acceptable(table, rules):
            return table, 0
    return _table_row_by_row(path, lines, line_numbers, rules)


def _acceptable(table: NDArray[np.float64], rules: ReadingRules) -> bool:
    integer_columns = table[:, WHOLE]
    least = -1.0 if rules.negative == "refuse" else -LARGEST_NUMBER
    in_range = (table >= least) & (table <= LARGEST_NUMBER) & ((table >= 0) | (table <= -1))
    return bool(in_range.all() and (integer_columns == np.floor(integer_columns)).all())


def _table_row_by_row(
    path: Path, lines: list[str], line_numbers: NDArray[np.int64], rules: ReadingRules
) -> tuple[NDArray[np.float64], int]:
    rows, n_extra = [], 0
    for line, number in zip(lines, line_numbers.tolist(), strict=True):
        texts = line.split()
        if len(texts) < len(FIELDS):
            expected = f"{len(texts)} fields where SWF has 18; complete the line or remove it."
            raise TraceError(path, line=number, expected=expected)
        if len(texts) > len(FIELDS):
            if rules.extra_columns == "refuse":
                expected = (
                    f"{len(texts)} fields where SWF has 18; remove the others, or read the first "
                    "18 with extra_columns='drop'."
                )
                raise TraceError(path, line=number, expected=expected)
            n_extra += 1
        rows.append([_number(path, number, i, text, rules) for i, text in enumerate(texts[:18])])
    return np.array(rows, dtype=np.float64), n_extra


def _number(path: Path, line: int, column: int, text: str, rules: ReadingRules) -> float:
    expected = None
    value = float(text) if NUMBER.fullmatch(text) else np.nan
    if not np.isfinite(value):
        expected = "allowed are finite numbers, and -1 for unknown."
    elif abs(value) > LARGEST_NUMBER:
        expected = "allowed are numbers up to 2**53; larger ones are not told apart."
    elif -1 < value < 0 or (value < 0 and value != -1 and rules.negative == "refuse"):
        expected = (
            "allowed are numbers from 0, and -1 for unknown; other negative numbers are read as "
            "unknown with negative='unknown'."
        )
    elif column in WHOLE and value != np.floor(value):
        expected = "allowed are whole numbers, and -1 for unknown."
    if expected is not None:
        raise TraceError(path, line=line, field=FIELDS[column], value=text, expected=expected)
    return float(value)


def write_swf(workload: Workload, path: str | PathLike[str]) -> None:
    """Write a workload as SWF 2.2, compressed if the name ends in ``.gz``.

    Unknown values are -1. If every request is the run time (clairvoyant), requests are written as
    unknown, so that reading flags them again. Columns and header values are read back exactly with
    ``never_ran='keep_zero'`` and ``partial_executions='keep'``, except: a request of 0, which is
    read as none; the flag that some (not all) requests replace unknown ones; a start at Unix time
    0; tasks and notes; and the name, which is that of the file. Fields 6, 7, 14, 17 and 18 of a
    log are in no workload.
    """
    target = Path(path)
    data = ("\n".join(_swf_lines(workload)) + "\n").encode()
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def _swf_lines(workload: Workload) -> Iterator[str]:
    yield "; Version: 2.2"
    yield f"; Note: {' '.join(workload.name.split())}"
    yield f"; MaxJobs: {workload.n_jobs}"
    yield f"; MaxRecords: {workload.n_jobs}"
    if workload.start_unix_s is not None:
        yield f"; UnixStartTime: {_short(workload.start_unix_s)}"
    if workload.time_zone is not None:
        yield f"; TimeZoneString: {' '.join(workload.time_zone.split())}"
    if workload.max_procs is not None:
        yield f"; MaxProcs: {workload.max_procs}"
    clairvoyant = workload.requested_is_runtime and bool(
        (workload.requested_s == workload.runtime_s).all()
    )
    columns = (
        workload.job_id,
        workload.submit_s,
        np.where(np.isnan(workload.logged_wait_s), -1.0, workload.logged_wait_s),
        workload.runtime_s,
        workload.procs,
        np.where(clairvoyant, -1.0, workload.requested_s),
        np.where(workload.mem_bytes_per_proc < 0, -1.0, workload.mem_bytes_per_proc / BYTES_PER_KB),
        workload.status,
        workload.user,
        workload.group,
        workload.queue,
        workload.partition,
    )
    for row in zip(*(column.tolist() for column in columns), strict=True):
        job, submit, wait, runtime, procs, requested, memory, status, user, group, queue, part = row
        times = f"{_short(submit)} {_short(wait)} {_short(runtime)}"
        labels = f"{status} {user} {group} -1 {queue} {part} -1 -1"
        yield f"{job} {times} {procs} -1 -1 {procs} {_short(requested)} {_short(memory)} {labels}"


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)
