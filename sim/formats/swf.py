"""Reader of the Standard Workload Format, which applies named reading rules."""

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.formats.swf_file import BYTES_PER_KB, ReadingRules, SwfText, read_text
from sim.formats.text_files import NUMBER
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError, quoted_text
from sim.model.workload import ReadingNote, Workload

Rows = NDArray[np.bool_]


JOB, SUBMIT, WAIT, RUNTIME, ALLOCATED, CPU_TIME = 0, 1, 2, 3, 4, 5
REQUESTED_PROCS, REQUESTED_TIME, REQUESTED_MEMORY = 7, 8, 9
STATUS, USER, GROUP, QUEUE, PARTITION = 10, 11, 12, 14, 15

PARTIAL = (2.0, 3.0, 4.0)
"""Status of a part of a job: to be continued, last and completed, last and failed."""

SUMMARY = (0.0, 1.0, 5.0)  # status of a whole job: failed, completed, cancelled

LONG_REQUEST_S = 366 * 86400.0
"""Requests above this are counted in a note, because most of them mean 'no limit'."""

UNIX_TIME_S = 315532800.0
"""1 January 1980. Submit times from here on are Unix times, since no log is ten years long."""

LARGE_MEMORY_BYTES = 2**40
"""Median request per processor above which a note says that the log may count bytes."""

ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(/[A-Za-z0-9_+-]{1,30}){0,2}")
"""A name of the tz database, such as ``Europe/Paris``."""

MOST_LISTED_VALUES = 4  # of contradictory values, in a note


def read_swf(path: str | PathLike[str], rules: ReadingRules | None = None) -> Workload:
    """Read a log in the Standard Workload Format, plain or gzip.

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
    notes += _notes_about_width(swf, rules, selected, procs, max_procs)
    requested_s = table[:, _request_column(rules)].copy()
    missing = requested_s <= 0
    requested_s[missing] = table[missing, RUNTIME]
    notes += _notes_about_jobs(table, requested_s, missing, rules)
    mem_bytes = _mem_bytes(swf, selected, notes)
    first_submit_s = float(table[:, SUBMIT].min())
    epoch_s = _epoch_s(swf, first_submit_s, notes)
    return Workload.from_arrays(
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
        name=_name(swf.path),
        max_procs=max_procs,
        start_unix_s=None if epoch_s is None else epoch_s + first_submit_s,
        time_zone=_time_zone(swf, notes),
        notes=notes,
        requested_is_runtime=bool(missing.any()),
        unsorted="sort",
    )


def _name(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".swf")


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
    sentence = f"{bad.sum()} job numbers were unknown or repeated; all jobs were numbered anew."
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
        sentence = f"{counted}; {of_these}, whose work counts twice; kept as jobs of their own."
    else:
        runtime_s = swf.table[:, RUNTIME]
        ran = partial & (runtime_s >= 0 if rules.never_ran == "keep_zero" else runtime_s > 0)
        if ran.any():
            expected = (
                f"this is a partial execution (status 2 to 4; there are {n_rows} such rows, and "
                f"{of_these}); drop them with partial_executions='drop', or make each a job of "
                "its own with partial_executions='keep'."
            )
            raise swf.error(_first(ran), STATUS, expected)
        sentence = f"{counted}; none of them ran."
    notes.append(ReadingNote("partial_executions", n_rows, sentence))
    if rules.partial_executions != "drop":
        return swf
    if partial.all():
        expected = (
            f"all of its {n_rows} rows are partial executions (status 2 to 4); nothing is left. "
            "Make each a job of its own with partial_executions='keep'."
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
        hints = ["The requested time was looked for in field 6."]
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
            "there is no requested time; let the run time stand in for it with "
            "requested_missing='runtime', or drop such jobs with requested_missing='drop'."
        )
        explanation = f"{expected} But {hint}" if hint else expected
        raise swf.error(_first(no_request), request, explanation)
    if rules.requested_missing != "drop":
        no_request = np.zeros(len(procs), dtype=np.bool_)
    dropped = (
        ("never_ran", never_ran, "jobs never ran (run time -1 or 0)"),
        ("procs_missing", no_procs, "jobs ran on no known number of processors"),
        ("requested_missing", no_request, "jobs have no requested time"),
    )
    for rule, rows, reason in dropped:
        if rows.any():
            notes.append(ReadingNote(rule, int(rows.sum()), f"{rows.sum()} {reason}; dropped."))
    return ~(never_ran | no_procs | no_request)


def _notes_about_jobs(
    table: NDArray[np.float64], requested_s: NDArray[np.float64], missing: Rows, rules: ReadingRules
) -> Iterator[ReadingNote]:
    both = (table[:, ALLOCATED] > 0) & (table[:, REQUESTED_PROCS] > 0)
    differ = both & (table[:, ALLOCATED] != table[:, REQUESTED_PROCS])
    which = rules.procs.split("_", maxsplit=1)[0]
    elsewhere = ~missing & (rules.requested_time == "field_6")
    oddities = (
        ("requested_time", elsewhere, "the requested time was taken from field 6"),
        ("requested_missing", missing, "no requested time; the run time stands in (clairvoyant)"),
        ("procs", differ, f"requested and allocated processors differ; the {which} were taken"),
        (
            "requested_below_runtime",
            requested_s < table[:, RUNTIME],
            "the run time exceeds the request; kept (the scenario's `overrun` decides)",
        ),
        (
            "requested_is_long",
            requested_s > LONG_REQUEST_S,
            "more than a year is requested, as if there were no limit; kept",
        ),
    )
    for rule, rows, description in oddities:
        if rows.any():
            yield ReadingNote(rule, int(rows.sum()), f"{rows.sum()} jobs: {description}.")


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


def _notes_about_width(
    swf: SwfText,
    rules: ReadingRules,
    selected: Rows,
    procs: NDArray[np.float64],
    max_procs: int | None,
) -> Iterator[ReadingNote]:
    wide = procs > (np.inf if max_procs is None else max_procs)
    if not wide.any():
        return
    if rules.wider_than_machine == "refuse":
        row = int(np.flatnonzero(selected)[_first(wide)])
        expected = (
            f"the job is wider than the machine (MaxProcs is {max_procs}); keep such jobs with "
            "wider_than_machine='note'."
        )
        raise swf.error(row, REQUESTED_PROCS, expected)
    sentence = f"{wide.sum()} jobs are wider than the header's MaxProcs, {max_procs}; kept."
    yield ReadingNote("wider_than_machine", int(wide.sum()), sentence)


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
