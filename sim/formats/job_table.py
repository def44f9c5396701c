"""Reader of tables of jobs with any column names, such as those of LSF, Grid Engine or a database.

A table has a header and a row for each execution, separated by commas, semicolons, tabs or bars.
Which column has a quantity is told; a quantity that is told nothing has the column of its own
name. The decisions are those of `sim.formats.slurm_jobs`, counted in notes of the workload.
"""

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np

from sim.formats.clock_texts import FloatColumn, duration_s, parse_moments
from sim.formats.sacct import GOES_ON, STATUS, rows_of_texts
from sim.formats.slurm_jobs import jobs_of
from sim.formats.swf import ReadingRules
from sim.formats.text_files import CsvTable, read_csv
from sim.model.errors import TraceError
from sim.model.workload import Workload

QUANTITIES: Mapping[str, str] = {
    "job": "number or name of the job",
    "submit": "when it was submitted",
    "eligible": "when it became eligible to run",
    "start": "when it started",
    "end": "when it ended",
    "runtime": "how long it ran",
    "requested": "the run time that it requested",
    "procs": "processors that it got",
    "requested_procs": "processors that it requested",
    "memory": "memory that it requested, all together",
    "gpus": "GPUs that it got",
    "user": "who submitted it",
    "group": "the user's group or account",
    "queue": "queue",
    "partition": "partition",
    "state": "how it ended",
}
"""Quantities of a job that a table may have, in words."""

SEPARATORS = ",;\t|"

_ENDS: Mapping[str, int] = {**STATUS, "DONE": 1, "EXIT": 0, "EXITED": 0, "KILLED": 5}
_GOING_ON = frozenset({"PEND", "PENDING", "RUN", "RUNNING", "PSUSP", "SSUSP", "USUSP", "SUSPENDED"})
_NAMED = (
    ("user", "user"), ("account", "group"), ("qos", "queue"), ("partition", "partition"),
)  # fmt: skip
_NUMBER = re.compile(r"\d{1,15}")
_COUNT = re.compile(r"\d{1,15}(?:\.0+)?")
_SECONDS = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?) ?([KMGTP]?)(?:I?B)?", re.IGNORECASE)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_UNKNOWN = frozenset({"", "-", "none", "n/a", "unknown", "null"})


def read_job_table(
    path: str | PathLike[str],
    columns: Mapping[str, str] | None = None,
    rules: ReadingRules | None = None,
) -> Workload:
    """Read the jobs of a table, plain or gzip.

    Args:
        path: UTF-8 text with a header; the separator is the most frequent of ``, ; | `` and tab in
            it.
        columns: names of columns by quantity of `QUANTITIES`; a quantity that is not named has the
            column of its own name, if the table has one.
        rules: of which ``time_zone``, ``wait_from``, ``slurm_cpus``, ``requeues``, ``never_ran``,
            ``procs_missing`` and ``requested_missing`` apply.

    Times are ISO 8601 or Unix seconds; durations are seconds, ``[days-]hours:minutes:seconds`` or
    ``minutes:seconds``; memory is bytes, or has a unit such as ``4G``.

    Returns:
        Jobs by the time from which they wait, as `sim.formats.read_sacct` does.

    Raises:
        TraceError: file, line, column, value and what is allowed; or no job is left.
    """
    file, chosen = Path(path), dict(columns or {})
    table = read_csv(file, {name: name for name in QUANTITIES}, chosen, SEPARATORS)
    _check_columns(table, chosen)
    procs, requested_procs = _counts(table, "procs"), _counts(table, "requested_procs")
    times = {name: _times(table, name) for name in ("submit", "eligible", "start", "end")}
    jobs = _texts(table, "job") or [f"row {row}" for row in range(table.n_rows)]
    rows = rows_of_texts(
        file,
        source="the table",
        lines=table.line_numbers,
        jobs=[job.encode() for job in jobs],
        numbers={job.encode(): int(job) for job in set(jobs) if _NUMBER.fullmatch(job)},
        times={name: texts for name, texts in times.items() if texts},
        names={
            name: [text.encode() for text in texts]
            for name, need in _NAMED
            if (texts := _texts(table, need))
        },
        status=_statuses(table),
        elapsed_s=_durations_s(table, "runtime"),
        limit_s=_durations_s(table, "requested"),
        allocated=procs,
        requested=requested_procs,
        mem_bytes=_bytes(table),
        gpus=_counts(table, "gpus"),
    )  # fmt: skip
    return jobs_of(rows, rules)


def _check_columns(table: CsvTable, columns: Mapping[str, str]) -> None:
    for need, name in columns.items():
        if name not in table.header:
            expected = f"there is no column '{name}' for {need}; {_there_are(table)}"
            raise TraceError(table.path, line=1, expected=expected)
    for needs in (
        ("submit", "eligible"),
        ("start",),
        ("end", "runtime"),
        ("procs", "requested_procs"),
    ):
        if not any(table.has(need) for need in needs):
            which = " or ".join(f"{need} ({QUANTITIES[need]})" for need in needs)
            expected = (
                f"it has no column for {which}; say which it is, such as {needs[0]}=COLUMN: "
                f"{_there_are(table)}"
            )
            raise TraceError(table.path, line=1, expected=expected)


def _there_are(table: CsvTable) -> str:
    names = ", ".join(table.header[:20])
    return f"the columns are {names}{' and more' if len(table.header) > 20 else ''}."


def _texts(table: CsvTable, need: str) -> list[str]:
    """Return the column of a quantity, with empty texts where unknown; none without the column."""
    if not table.has(need):
        return []
    return ["" if text.lower() in _UNKNOWN else text for text in table.texts(need)]


def _times(table: CsvTable, need: str) -> list[bytes]:
    texts = [text.encode() for text in _texts(table, need)]
    if not texts:
        return []
    bad = np.flatnonzero(parse_moments(texts).is_bad)
    if len(bad):
        raise table.error(
            int(bad[0]),
            need,
            "allowed are times such as 2024-03-01T10:00:00, and seconds since 1970.",
        )
    return texts


def _durations_s(table: CsvTable, need: str) -> FloatColumn:
    found = np.full(table.n_rows, np.nan)
    for row, text in enumerate(_texts(table, need)):
        if not text:
            continue
        found[row] = float(text) if _SECONDS.fullmatch(text) else duration_s(text.encode())
        if np.isnan(found[row]):
            raise table.error(row, need, "allowed are seconds, and hours:minutes:seconds.")
    return found


def _counts(table: CsvTable, need: str) -> FloatColumn:
    found = np.zeros(table.n_rows)
    for row, text in enumerate(_texts(table, need)):
        if text and not _COUNT.fullmatch(text):
            raise table.error(row, need, "allowed are whole numbers.")
        found[row] = float(text or 0)
    return found


def _bytes(table: CsvTable) -> FloatColumn:
    found = np.full(table.n_rows, np.nan)
    for row, text in enumerate(_texts(table, "memory")):
        match = _SIZE.fullmatch(text)
        if match is not None:
            found[row] = float(match[1]) * 1024.0 ** _UNITS[match[2].upper()]
        elif text:
            raise table.error(row, "memory", "allowed are bytes, and sizes such as 4G or 512 MB.")
    return found


def _statuses(table: CsvTable) -> list[int]:
    """Return the status of each row: by its state, where that is known; else unknown."""
    texts = _texts(table, "state") or [""] * table.n_rows
    words = [(text.upper().split() or [""])[0] for text in texts]
    return [GOES_ON if word in _GOING_ON else _ENDS.get(word, -1) for word in words]
