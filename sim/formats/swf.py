"""Reader of the Standard Workload Format, and the named reading rules of all formats.

Files in the Standard Workload Format: their text, the rules of reading them, and their writer.

Format: Chapin et al., JSSPP 1999; version 2.2 of the Parallel Workloads Archive. Comment lines
start with ``;``, header lines are ``; Key: value`` with any indentation, and keys may repeat.
"""

import gzip
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_files import LARGEST_NUMBER, NUMBER, read_bytes
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError, UnknownNameError, one_line, path_text, quoted_text
from sim.model.workload import ReadingNote, Workload, most_procs_in_use

Rows = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class ReadingRules:
    """Rules for irregular rows of real logs; the number of affected rows is noted.

    The last four are for dumps of Slurm's sacct; `sim.formats.registry` has the rules of a format.

    Attributes:
        unsorted: submit times step back (theta_2023 does, 2,726 times). ``sort`` or ``refuse``.
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
            ``unknown`` reads it as -1; ``refuse``.
        duplicate_ids: a job number occurs twice or is unknown. ``refuse``; ``renumber`` numbers
            all rows by their place in the file, from 1. Rows dropped by `partial_executions` do
            not count.
        extra_columns: more than 18 fields (wagap has 21, some `_walltime` logs 19). ``drop`` reads
            the first 18; ``refuse``.
        machine_size: source of the machine size. ``max_procs`` is the header key MaxProcs alone;
            ``max_nodes`` falls back to MaxNodes (right where a node has one processor).
        wider_than_machine: a job is wider than MaxProcs (theta_2023 has some). ``widen`` makes the
            machine as large as the widest job, unless that is over `MOST_WIDER` times as large;
            ``note``; ``refuse``.
        encoding: encoding of the file. ``utf-8`` or ``latin-1`` (old headers with accented names).
        time_zone: time zone of local times, such as ``Europe/Paris``; empty reads them as if there
            were no summer time.
        wait_from: a job waits from when it became ``eligible`` (without unfulfilled dependencies,
            holds and begin times), or from ``submit``.
        slurm_cpus: CPUs that are simulated when both are known. ``allocated`` or ``requested``.
        requeues: a job was requeued. ``executions`` makes each execution a job; ``last``.
    """

    unsorted: Literal["sort", "refuse"] = "sort"
    never_ran: Literal["drop", "keep_zero", "refuse"] = "drop"
    partial_executions: Literal["refuse", "drop", "keep"] = "refuse"
    requested_time: Literal["field_9", "field_6"] = "field_9"
    requested_missing: Literal["runtime", "drop", "refuse"] = "runtime"
    procs: Literal["requested_else_allocated", "allocated_else_requested"] = (
        "requested_else_allocated"
    )
    procs_missing: Literal["refuse", "drop"] = "refuse"
    negative: Literal["unknown", "refuse"] = "unknown"
    duplicate_ids: Literal["refuse", "renumber"] = "refuse"
    extra_columns: Literal["drop", "refuse"] = "drop"
    machine_size: Literal["max_procs", "max_nodes"] = "max_procs"
    wider_than_machine: Literal["widen", "note", "refuse"] = "widen"
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    time_zone: str = ""
    wait_from: Literal["eligible", "submit"] = "eligible"
    slurm_cpus: Literal["allocated", "requested"] = "allocated"
    requeues: Literal["executions", "last"] = "executions"

    def __post_init__(self) -> None:
        for name, choices in rule_choices().items():
            if choices != (FREE,) and getattr(self, name) not in choices:
                raise UnknownNameError(f"choice for rule '{name}'", getattr(self, name), choices)


FREE = "any"
"""The only choice of a rule that takes any text."""


def rule_choices() -> dict[str, tuple[str, ...]]:
    """Return the allowed choices of each reading rule, the default first; `FREE` for any text."""
    hints = get_type_hints(ReadingRules)
    choices: dict[str, tuple[str, ...]] = {}
    for field in fields(ReadingRules):
        default = str(field.default)
        if hints[field.name] is str:
            choices[field.name] = (FREE,)
            continue
        rest = tuple(choice for choice in get_args(hints[field.name]) if choice != default)
        choices[field.name] = (default, *rest)
    return choices


def rules_from_texts(texts: dict[str, str]) -> ReadingRules:
    """Return the reading rules for choices as texts, such as ``{"unsorted": "sort"}``.

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

_SCHEDULER = re.compile(
    r"^(?:[ \t]*;[ \t]*Note:[ \t]*)?Scheduler is ([A-Za-z][A-Za-z0-9_-]{0,30})", re.MULTILINE
)
_DECISION = re.compile(r"([a-z][a-z_]{0,40}) (\d{1,15}) (\S.*)")
_MOST_DECISIONS, _LONGEST_DECISION = 50, 400

BYTES_PER_KB = 1024  # memory is in kilobytes per processor in SWF, and in bytes in a workload
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_ ]*")


@dataclass(frozen=True, eq=False)
class SwfText:
    """An SWF log with its header, lines, and a numeric table of its rows.

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
        """Return the log with the selected rows; `n_negative` stays that of the whole file."""
        return replace(
            self,
            lines=list(compress(self.lines, rows.tolist())),
            line_numbers=self.line_numbers[rows],
            table=self.table[rows],
        )

    def error(self, row: int, column: int, expected: str) -> TraceError:
        """Return a `TraceError` that locates one field of one row."""
        return TraceError(
            self.path,
            line=int(self.line_numbers[row]),
            field=FIELDS[column],
            value=self.lines[row].split()[column],
            expected=expected,
        )


def read_text(path: Path, rules: ReadingRules) -> SwfText:
    """Read an SWF log into a numeric table, without interpreting its rows.

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
        raise TraceError(path, expected="it contains no jobs; an SWF log has one line per job.")
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
                    f"{len(texts)} fields where SWF has 18; remove the extra ones, or read the "
                    "first 18 with extra_columns='drop'."
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
        expected = "allowed are numbers up to 2**53; larger ones are not exact."
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
    """Write a workload in Standard Workload Format 2.2, gzipped if the name ends in ``.gz``.

    Unknown values are -1. If every request is the run time (clairvoyant), requests are written as
    unknown, so that reading flags them again. Columns and header values are read back exactly with
    ``never_ran='keep_zero'`` and ``partial_executions='keep'``, except: a request of 0, which is
    read as none; the flag that some (not all) requests replace unknown ones; a start at Unix time
    0; tasks; and the name, which is that of the file. Notes are header lines (``; Decision: RULE
    ROWS SENTENCE``), and come before those on reading this file. Fields 6, 7 and 14 of a log are in
    no workload.
    """
    target = Path(path)
    data = ("\n".join(_swf_lines(workload)) + "\n").encode()
    target.write_bytes(gzip.compress(data, mtime=0) if target.suffix == ".gz" else data)


def _swf_lines(workload: Workload) -> Iterator[str]:
    yield "; Version: 2.2"
    yield f"; Note: {path_text(' '.join(workload.name.split()))}"
    if workload.scheduler is not None:
        yield f"; Note: Scheduler is {workload.scheduler}"
    yield f"; MaxJobs: {workload.n_jobs}"
    yield f"; MaxRecords: {workload.n_jobs}"
    if workload.start_unix_s is not None:
        yield f"; UnixStartTime: {_short(workload.start_unix_s)}"
    if workload.time_zone is not None:
        yield f"; TimeZoneString: {' '.join(workload.time_zone.split())}"
    if workload.max_procs is not None:
        yield f"; MaxProcs: {workload.max_procs}"
    for note in workload.notes:
        yield f"; Decision: {note.rule} {note.n_rows} {one_line(note.sentence, _LONGEST_DECISION)}"
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
        workload.preceding_job,
        np.where(np.isnan(workload.think_s), -1.0, workload.think_s),
    )
    for row in zip(*(column.tolist() for column in columns), strict=True):
        job, submit, wait, runtime, procs, requested, memory = row[:7]
        status, user, group, queue, part, preceding, think = row[7:]
        times = f"{_short(submit)} {_short(wait)} {_short(runtime)}"
        labels = f"{status} {user} {group} -1 {queue} {part} {preceding} {_short(think)}"
        yield f"{job} {times} {procs} -1 -1 {procs} {_short(requested)} {_short(memory)} {labels}"


def _short(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


JOB, SUBMIT, WAIT, RUNTIME, ALLOCATED, CPU_TIME = 0, 1, 2, 3, 4, 5
REQUESTED_PROCS, REQUESTED_TIME, REQUESTED_MEMORY = 7, 8, 9
STATUS, USER, GROUP, QUEUE, PARTITION, PRECEDING, THINK = 10, 11, 12, 14, 15, 16, 17

PARTIAL = (2.0, 3.0, 4.0)
"""Status of a part of a job: to be continued, last and completed, last and failed."""

SUMMARY = (0.0, 1.0, 5.0)  # status of a whole job: failed, completed, cancelled

LONG_REQUEST_S = 366 * 86400.0
"""Requests above this are counted in a note, because most of them mean 'no limit'."""

UNIX_TIME_S = 315532800.0
"""1 January 1980. Submit times from here on are Unix times, since no log is ten years long."""

LARGE_MEMORY_BYTES = 2**40
"""Median request per processor above which a note warns that the log may count bytes."""

ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(/[A-Za-z0-9_+-]{1,30}){0,2}")
"""A name of the tz database, such as ``Europe/Paris``."""

MOST_WIDER = (
    1.1  # A much wider job is rather an error in its row, or MaxProcs counts something else
)
LEAST_JOBS = 100  # what the jobs of a smaller log used says little about its machines
MOST_OF_A_SITE = 2 / 3  # of all processors, as used by one of several machines
MOST_LISTED_VALUES = 4  # of contradictory values, in a note


def read_swf(path: str | PathLike[str], rules: ReadingRules | None = None) -> Workload:
    """Read a workload from a Standard Workload Format log, plain or gzip.

    Returns:
        The jobs that ran, by (submit time, job number), with one note per rule that had an effect
            and per peculiarity that was kept. `start_unix_s` is UnixStartTime plus the first kept
            submission.

    Raises:
        TraceError: file, line, field, value and what is allowed.
    """
    rules = ReadingRules() if rules is None else rules
    swf = read_text(Path(path), rules)
    notes = list(_notes_about_text(swf))
    swf = _without_partial_executions(swf, rules, notes)
    ids = _job_ids(swf, rules, notes)
    _check_submit(swf, rules, notes)
    procs = _procs(swf, rules)
    selected = _select_rows(swf, rules, procs, notes)
    if not selected.any():
        raise TraceError(swf.path, expected=_no_jobs_message(swf, rules, notes))
    table, procs = swf.table[selected], procs[selected]
    max_procs = _machine_size(swf, rules, notes)
    max_procs = _as_wide_as_jobs(swf, rules, selected, procs, max_procs, notes)
    requested_s = table[:, _request_column(rules)].copy()
    missing = requested_s <= 0
    requested_s[missing] = table[missing, RUNTIME]
    notes += _notes_about_jobs(table, requested_s, missing, rules)
    mem_bytes = _mem_bytes(swf, selected, notes)
    preceding, think_s = _preceding_jobs(table, ids[selected], notes)
    first_submit_s = float(table[:, SUBMIT].min())
    epoch_s = _epoch_s(swf, first_submit_s, notes)
    workload = Workload.from_arrays(
        submit_s=table[:, SUBMIT],
        runtime_s=table[:, RUNTIME],
        procs=procs,
        requested_s=requested_s,
        logged_wait_s=np.where(table[:, WAIT] < 0, np.nan, table[:, WAIT]),
        job_id=ids[selected],
        user=table[:, USER],
        group=table[:, GROUP],
        queue=table[:, QUEUE],
        partition=table[:, PARTITION],
        status=table[:, STATUS],
        mem_bytes_per_proc=mem_bytes,
        preceding_job=preceding,
        think_s=think_s,
        name=_name(swf.path),
        max_procs=max_procs,
        start_unix_s=None if epoch_s is None else epoch_s + first_submit_s,
        time_zone=_time_zone(swf, notes),
        scheduler=scheduler_in("\n".join(swf.header.get("Note", ()))),
        notes=[*_earlier_decisions(swf, {note.rule for note in notes}), *notes],
        requested_is_runtime=bool(missing.any()),
        unsorted="sort",
    )
    return replace(workload, notes=(*workload.notes, *_notes_about_sites(workload)))


def scheduler_in(text: str) -> str | None:
    """Return the scheduler that notes of a header name, in lower case; None if there is none.

    Logs of the Parallel Workloads Archive say ``; Note: Scheduler is Slurm``.
    """
    match = _SCHEDULER.search(text)
    return None if match is None else match[1].lower()


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".swf")


def _earlier_decisions(swf: SwfText, again: Collection[str]) -> Iterator[ReadingNote]:
    """Yield the notes with which the log was written, except those of rules noted again."""
    for line in swf.header.get("Decision", ())[:_MOST_DECISIONS]:
        match = _DECISION.fullmatch(line)
        if match is not None and match[1] not in again:
            yield ReadingNote(match[1], int(match[2]), one_line(match[3], _LONGEST_DECISION))


def _notes_about_text(swf: SwfText) -> Iterator[ReadingNote]:
    if swf.n_extra:
        sentence = f"{swf.n_extra} rows have more than 18 fields; the others were dropped."
        yield ReadingNote("extra_columns", swf.n_extra, sentence)
    if swf.n_negative:
        sentence = f"{swf.n_negative} negative numbers other than -1 were read as unknown."
        yield ReadingNote("negative", swf.n_negative, sentence)


def _job_ids(swf: SwfText, rules: ReadingRules, notes: list[ReadingNote]) -> NDArray[np.float64]:
    ids = swf.table[:, JOB]
    _, first_row = np.unique(ids, return_index=True)
    repeated = np.ones(len(ids), dtype=np.bool_)
    repeated[first_row] = False
    bad = repeated | (ids < 0)
    if not bad.any():
        return ids
    if rules.duplicate_ids == "refuse":
        expected = (
            "job numbers must be known and unique; number all rows by their place in the file "
            "with duplicate_ids='renumber'."
        )
        raise swf.error(_first(bad), JOB, expected)
    sentence = f"{bad.sum()} job numbers were unknown or repeated; all jobs were renumbered."
    notes.append(ReadingNote("duplicate_ids", int(bad.sum()), sentence))
    return np.arange(1, len(ids) + 1, dtype=np.float64)


def _without_partial_executions(
    swf: SwfText, rules: ReadingRules, notes: list[ReadingNote]
) -> SwfText:
    """Apply `partial_executions` to rows with status 2-4, before all other checks."""
    status, ids = swf.table[:, STATUS], swf.table[:, JOB]
    partial = np.isin(status, PARTIAL)
    if not partial.any():
        return swf
    is_summary = np.isin(status, SUMMARY) & (ids >= 0)
    summarised = partial & np.isin(ids, ids[is_summary])
    n_rows, n_summarised = int(partial.sum()), int(summarised.sum())
    counted = f"{n_rows} rows are partial executions (status 2 to 4)"
    of_these = f"{n_summarised} of them belong to jobs with a summary line"
    if rules.partial_executions == "drop":
        sentence = f"{counted}; {of_these}; all were dropped."
    elif rules.partial_executions == "keep":
        sentence = f"{counted}; {of_these}, whose work counts twice; kept as separate jobs."
    else:
        runtime_s = swf.table[:, RUNTIME]
        ran = partial & (runtime_s >= 0 if rules.never_ran == "keep_zero" else runtime_s > 0)
        if ran.any():
            expected = (
                f"this is a partial execution (status 2 to 4; there are {n_rows} such rows, and "
                f"{of_these}); drop them with partial_executions='drop', or keep them as "
                "separate jobs with partial_executions='keep'."
            )
            raise swf.error(_first(ran), STATUS, expected)
        sentence = f"{counted}; none of them ran."
    notes.append(ReadingNote("partial_executions", n_rows, sentence))
    if rules.partial_executions != "drop":
        return swf
    if partial.all():
        expected = (
            f"all of its {n_rows} rows are partial executions (status 2 to 4); nothing is left. "
            "Keep them as separate jobs with partial_executions='keep'."
        )
        raise TraceError(swf.path, expected=expected)
    return swf.only(~partial)


def _check_submit(swf: SwfText, rules: ReadingRules, notes: list[ReadingNote]) -> None:
    submit_s = swf.table[:, SUBMIT]
    if (submit_s < 0).any():
        raise swf.error(_first(submit_s < 0), SUBMIT, "a job needs a submit time of 0 or more.")
    back = np.concatenate([[False], np.diff(submit_s) < 0])
    if not back.any():
        return
    if rules.unsorted == "refuse":
        row = _first(back)
        expected = (
            f"the line before has {submit_s[row - 1]:.15g}, and submit times must not step back "
            f"(they do {back.sum()} times); sort them with unsorted='sort'."
        )
        raise swf.error(row, SUBMIT, expected)
    sentence = f"submit times step back {back.sum()} times; the jobs were sorted."
    notes.append(ReadingNote("unsorted", int(back.sum()), sentence))


def _procs(swf: SwfText, rules: ReadingRules) -> NDArray[np.float64]:
    requested, allocated = swf.table[:, REQUESTED_PROCS], swf.table[:, ALLOCATED]
    if rules.procs == "requested_else_allocated":
        return np.where(requested > 0, requested, allocated)
    return np.where(allocated > 0, allocated, requested)


def _mem_bytes(swf: SwfText, selected: Rows, notes: list[ReadingNote]) -> NDArray[np.float64]:
    """Return the requested memory of the kept rows in bytes per processor; -1 where unknown."""
    too_much = selected & (swf.table[:, REQUESTED_MEMORY] > MOST_COUNT // BYTES_PER_KB)
    if too_much.any():
        expected = "allowed are kilobytes per processor up to 2**43, and -1 for unknown."
        raise swf.error(_first(too_much), REQUESTED_MEMORY, expected)
    kilobytes = swf.table[selected, REQUESTED_MEMORY]
    has_request = kilobytes >= 0
    mem_bytes = np.where(has_request, np.rint(kilobytes * BYTES_PER_KB), -1.0)
    if has_request.any() and np.median(mem_bytes[has_request]) > LARGE_MEMORY_BYTES:
        sentence = (
            f"{has_request.sum()} jobs request memory, half of them more than 1 TB per processor: "
            "field 10 was read as kilobytes, and this log may count bytes."
        )
        notes.append(ReadingNote("requested_memory", int(has_request.sum()), sentence))
    return mem_bytes


def _request_column(rules: ReadingRules) -> int:
    return CPU_TIME if rules.requested_time == "field_6" else REQUESTED_TIME


def _request_elsewhere(swf: SwfText, rules: ReadingRules, ran: Rows) -> str | None:
    """Return a hint if field 9 is unknown in every row and field 6 looks like a request.

    It does if, of the rows that ran, 9 in 10 have whole minutes there (people request those; CPU
    times are whole minutes once in 60) and half have no less than the run time.
    """
    if rules.requested_time == "field_6" or (swf.table[:, REQUESTED_TIME] > 0).any():
        return None
    field_6, runtime_s = swf.table[ran, CPU_TIME], swf.table[ran, RUNTIME]
    whole_minutes = (field_6 > 0) & (field_6 % 60 == 0)
    if not ran.any() or whole_minutes.mean() < 0.9 or (field_6 >= runtime_s).mean() < 0.5:
        return None
    return (
        "no row has a requested time in field 9, and field 6 looks like one; read it with "
        "requested_time='field_6'."
    )


def _no_jobs_message(swf: SwfText, rules: ReadingRules, notes: list[ReadingNote]) -> str:
    n_rows = len(swf.lines)
    dropped = [note for note in notes if note.rule in {"procs_missing", "requested_missing"}]
    if not dropped:
        return f"none of its {n_rows} jobs ran; nothing is left."
    hints = [note.sentence for note in notes if note.rule == "requested_time"]
    if rules.requested_time == "field_6":
        hints = ["The requested time was read from field 6."]
    sentences = " ".join(note.sentence for note in dropped)
    return " ".join([f"none of its {n_rows} jobs is left: {sentences}", *hints])


def _select_rows(
    swf: SwfText, rules: ReadingRules, procs: NDArray[np.float64], notes: list[ReadingNote]
) -> Rows:
    runtime_s = swf.table[:, RUNTIME]
    never_ran = runtime_s <= 0
    if rules.never_ran == "keep_zero":
        never_ran = (runtime_s < 0) | ((runtime_s == 0) & (procs <= 0))
    if rules.never_ran == "refuse" and never_ran.any():
        expected = "this job never ran; drop such jobs with never_ran='drop'."
        raise swf.error(_first(never_ran), RUNTIME, expected)
    no_procs = ~never_ran & (procs <= 0)
    if rules.procs_missing == "refuse" and no_procs.any():
        expected = (
            "the job ran, so it needs 1 or more requested or allocated processors; drop such jobs "
            "with procs_missing='drop'."
        )
        raise swf.error(_first(no_procs), REQUESTED_PROCS, expected)
    request = _request_column(rules)
    no_request = ~never_ran & ~no_procs & (swf.table[:, request] <= 0)
    hint = _request_elsewhere(swf, rules, ~never_ran & ~no_procs)
    if hint:
        n_rows = int((~never_ran & ~no_procs).sum())
        notes.append(ReadingNote("requested_time", n_rows, hint))
    if rules.requested_missing == "refuse" and no_request.any():
        expected = (
            "there is no requested time; use the run time instead with "
            "requested_missing='runtime', or drop such jobs with requested_missing='drop'."
        )
        explanation = f"{expected} But {hint}" if hint else expected
        raise swf.error(_first(no_request), request, explanation)
    if rules.requested_missing != "drop":
        no_request = np.zeros(len(procs), dtype=np.bool_)
    dropped = (
        ("never_ran", never_ran, "never ran (run time -1 or 0)"),
        ("procs_missing", no_procs, "ran on an unknown number of processors"),
        ("requested_missing", no_request, "without a requested time"),
    )
    for rule, rows, reason in dropped:
        if rows.any():
            notes.append(ReadingNote(rule, int(rows.sum()), f"{_jobs(rows)} {reason}; dropped."))
    return ~(never_ran | no_procs | no_request)


def _jobs(rows: Rows) -> str:
    n_jobs = int(rows.sum())
    return "1 job" if n_jobs == 1 else f"{n_jobs:,} jobs"


def _notes_about_jobs(
    table: NDArray[np.float64], requested_s: NDArray[np.float64], missing: Rows, rules: ReadingRules
) -> Iterator[ReadingNote]:
    both = (table[:, ALLOCATED] > 0) & (table[:, REQUESTED_PROCS] > 0)
    differ = both & (table[:, ALLOCATED] != table[:, REQUESTED_PROCS])
    which = rules.procs.split("_", maxsplit=1)[0]
    elsewhere = ~missing & (rules.requested_time == "field_6")
    no_request = "no requested time; the run time replaces it (clairvoyant)"
    n_other = int((missing & (table[:, REQUESTED_TIME] > 0)).sum())
    if n_other:
        no_request = (
            f"no requested time in field 6; the run time replaces it (clairvoyant), though "
            f"{n_other:,} of them have a requested time in field 9: read it with "
            "requested_time='field_9'"
        )
    oddities = (
        ("requested_time", elsewhere, "the requested time was taken from field 6"),
        ("requested_missing", missing, no_request),
        ("procs", differ, f"requested and allocated processors differ; the {which} are used"),
        (
            "requested_below_runtime",
            requested_s < table[:, RUNTIME],
            "the run time exceeds the request, in simulations too unless `overrun` ends them",
        ),
        (
            "requested_is_long",
            requested_s > LONG_REQUEST_S,
            "more than a year is requested, as if there were no limit; kept",
        ),
    )
    for rule, rows, description in oddities:
        if rows.any():
            yield ReadingNote(rule, int(rows.sum()), f"{_jobs(rows)}: {description}.")


def _preceding_jobs(
    table: NDArray[np.float64], ids: NDArray[np.float64], notes: list[ReadingNote]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the preceding job of each row, -1 if there is none, and the think time or NaN.

    A preceding job counts if it is among the jobs and earlier: by submission, then by number. The
    fields are not read if they contradict the recorded times of most jobs: a job is submitted the
    think time after that end, to the second, and starts after it in any case.
    """
    unknown = np.full(len(ids), -1.0), np.full(len(ids), np.nan)
    by_id = np.argsort(ids)
    place = np.minimum(np.searchsorted(ids[by_id], table[:, PRECEDING]), len(ids) - 1)
    of = by_id[place]
    submit_s = table[:, SUBMIT]
    is_earlier = (submit_s[of] < submit_s) | ((submit_s[of] == submit_s) & (ids[of] < ids))
    names_one = (table[:, PRECEDING] >= 0) & (ids[of] == table[:, PRECEDING]) & is_earlier
    n_named = int(names_one.sum())
    if n_named == 0:
        return unknown
    think_s = np.where(table[:, THINK] >= 0, table[:, THINK], np.nan)
    wait_s = np.where(table[:, WAIT] < 0, np.nan, table[:, WAIT])
    end_s = (submit_s + wait_s + table[:, RUNTIME])[of]
    checked = names_one & ~np.isnan(end_s + wait_s)
    wrong = checked & (
        (np.abs(submit_s - end_s - think_s) > 1.0) | (submit_s + wait_s < end_s - 1.0)
    )
    if wrong.sum() > 0.5 * checked.sum():
        sentence = (
            f"{n_named:,} jobs name a preceding job (fields 17 and 18), but {wrong.sum():,} of "
            "them were not submitted so long after its recorded end; these fields were not read."
        )
        notes.append(ReadingNote("preceding_job", int(wrong.sum()), sentence))
        return unknown
    sentence = (
        f"{n_named:,} of {len(ids):,} jobs are submitted after the end of another one (fields 17 "
        "and 18); simulations submit them as logged unless dependencies is 'logged'."
    )
    notes.append(ReadingNote("dependencies", n_named, sentence))
    return np.where(names_one, table[:, PRECEDING], -1.0), np.where(names_one, think_s, np.nan)


def _notes_about_sites(workload: Workload) -> Iterator[ReadingNote]:
    """Yield a warning if the log looks like the sum of several machines, such as that of a grid.

    It does if no partition ever used more than `MOST_OF_A_SITE` of the processors, and if what the
    partitions used at most, each at its own time, adds up to no more than all: partitions that
    share processors add up to more. A job runs in one of them.
    """
    procs, parts = workload.max_procs, np.unique(workload.partition)
    if (
        workload.n_jobs < LEAST_JOBS
        or procs is None
        or len(parts) < 2
        or np.isnan(workload.logged_wait_s).any()
    ):
        return
    start_s = workload.submit_s + workload.logged_wait_s
    end_s, by_part = start_s + workload.runtime_s, np.argsort(workload.partition, kind="stable")
    firsts = np.searchsorted(workload.partition[by_part], parts)
    most = [
        most_procs_in_use(start_s[rows], end_s[rows], workload.procs[rows])
        for rows in np.split(by_part, firsts[1:])
    ]
    if max(most) > MOST_OF_A_SITE * procs or sum(most) > procs:
        return
    sentence = (
        f"the jobs ran in {len(parts)} partitions, none of which ever used more than "
        f"{max(most):,} of the {procs:,} processors: the log looks like the sum of several "
        "machines. A simulation lets every job run on all processors unless the cluster has "
        "partitions; simulate the jobs of one partition (field 16) on its own machine."
    )
    yield ReadingNote("sites", workload.n_jobs, sentence)


def _machine_size(swf: SwfText, rules: ReadingRules, notes: list[ReadingNote]) -> int | None:
    size = _header_count(swf, "MaxProcs", notes)
    if size is not None:
        return size
    nodes = _header_count(swf, "MaxNodes", notes) if rules.machine_size == "max_nodes" else None
    missing = "has no usable MaxProcs" if "MaxProcs" in swf.header else "has no MaxProcs"
    if nodes is not None:
        sentence = f"the header {missing}; MaxNodes, {nodes}, is the machine's size."
        notes.append(ReadingNote("machine_size", 1, sentence))
        return nodes
    has_max_nodes = "MaxNodes" in swf.header and rules.machine_size == "max_procs"
    hint = " MaxNodes is used with machine_size='max_nodes'." if has_max_nodes else ""
    sentence = f"the header {missing}; the machine's size is unknown.{hint}"
    notes.append(ReadingNote("machine_size", 0, sentence))
    return None


def _as_wide_as_jobs(
    swf: SwfText,
    rules: ReadingRules,
    selected: Rows,
    procs: NDArray[np.float64],
    max_procs: int | None,
    notes: list[ReadingNote],
) -> int | None:
    """Return the machine's size after `wider_than_machine`."""
    if max_procs is None or not (wide := procs > max_procs).any():
        return max_procs
    if rules.wider_than_machine == "refuse":
        row = int(np.flatnonzero(selected)[_first(wide)])
        expected = (
            f"the job is wider than the machine (MaxProcs is {max_procs}); keep such jobs with "
            "wider_than_machine='note'."
        )
        raise swf.error(row, REQUESTED_PROCS, expected)
    counted, widest = f"{wide.sum()} jobs are wider than the header's MaxProcs", int(procs.max())
    if rules.wider_than_machine == "widen" and widest <= MOST_WIDER * max_procs:
        sentence = f"{counted}, {max_procs}; the machine has as many as the widest job, {widest}."
        max_procs = widest
    else:
        sentence = f"{counted}, {max_procs}; kept."
    notes.append(ReadingNote("wider_than_machine", int(wide.sum()), sentence))
    return max_procs


def _epoch_s(swf: SwfText, first_submit_s: float, notes: list[ReadingNote]) -> float | None:
    """Return the Unix time from which submit times count; None if the header does not have it.

    A UnixStartTime of 0 means unknown, unless submit times are Unix times themselves (the theta
    logs).
    """
    seconds = _header_number(swf, "UnixStartTime", notes)
    if seconds != 0.0:
        return seconds
    absolute = first_submit_s >= UNIX_TIME_S
    meaning = "submit times are Unix times" if absolute else "taken as unknown"
    notes.append(ReadingNote("header", 1, f"the header's UnixStartTime is 0; {meaning}."))
    return seconds if absolute else None


def _time_zone(swf: SwfText, notes: list[ReadingNote]) -> str | None:
    """Return the header's TimeZoneString; None, with a note, if it is no name of a time zone.

    The older key TimeZone, a number, is ignored because it is wrong in real logs (3600 for
    US/Pacific in Atlas).
    """
    values = set(swf.header.get("TimeZoneString", ()))
    if not values or values == {"-1"}:
        return None
    if len(values) == 1:
        name = next(iter(values))
        if ZONE.fullmatch(name):
            return name
    notes.append(_unclear("TimeZoneString", values))
    return None


def _header_count(swf: SwfText, key: str, notes: list[ReadingNote]) -> int | None:
    number = _header_number(swf, key, notes, counts=True)
    return None if number is None else int(number)


def _header_number(
    swf: SwfText, key: str, notes: list[ReadingNote], *, counts: bool = False
) -> float | None:
    """Return the number from 0 of a header key; None, with a note, if it is unclear.

    With `counts`, only whole numbers from 1 are clear.
    """
    values = set(swf.header.get(key, ()))
    numbers = {float(value if NUMBER.fullmatch(value) else "nan") for value in values}
    if not values or numbers == {-1.0}:
        return None
    if len(numbers) == 1:
        number = numbers.pop()
        if 0 <= number <= MOST_COUNT and not (counts and (number < 1 or number % 1)):
            return number
    notes.append(_unclear(key, values))
    return None


def _unclear(key: str, values: set[str]) -> ReadingNote:
    some = sorted(values)[:MOST_LISTED_VALUES]
    values_text = ", ".join(quoted_text(value) for value in some) + ", ..." * (
        len(values) > len(some)
    )
    return ReadingNote(
        "header", 1, f"the header's {key} is unclear ({values_text}); taken as unknown."
    )


def _first(rows: Rows) -> int:
    return int(np.flatnonzero(rows)[0])
