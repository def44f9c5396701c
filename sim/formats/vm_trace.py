"""Traces of virtual machines: batches of flavours (Bergsma et al.), or a table row per machine.

Files of Bergsma et al. have one line per period with arrivals: seconds since the clock's zero, a
space, and tokens separated by commas. A token is a flavour (a letter) or ``|``, which ends a
batch. The file of lifetimes has the same shape with ``U7`` (ended in bin 7) and ``C40`` (last seen
in bin 40) instead of flavours. A map has ``4,14 h`` for each flavour: cores, gigabytes (2**30
bytes) and letter.

Tables have a row per virtual machine: Alibaba's trace of disaggregated recommendation models (Duan
et al., OSDI 2025) has the usual columns, Azure's ``vmtable`` others. Lifetimes that reach beyond
the end are censored. Machines from before the begin are left out, because only long-lived ones of
them are known.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim.formats.text_files import CsvTable, number_texts, read_bytes, read_csv, stem_of
from sim.model.cloud_trace import PAPER, UNKNOWN, CloudTrace, Flavour, ObservedJobs, number_requests
from sim.model.errors import TraceError
from sim.model.workload import ReadingNote, Workload

PERIOD_S = 300
GIB = 2**30
MILLI = 1000
_LIFETIME = re.compile(r"([UC])(\d{1,3})", re.ASCII)
BATCH_END = "|"


def read_flavours(path: Path) -> tuple[Flavour, ...]:
    """Read the flavour map of a Bergsma trace: cores, gigabytes and letter of each flavour.

    Raises:
        TraceError: a line is not ``cores,gigabytes letter``, or a letter occurs twice.
    """
    flavours: list[Flavour] = []
    for number, line in _lines(path):
        request, _, name = line.partition(" ")
        cores, _, gigabytes = request.partition(",")
        try:
            flavour = Flavour(
                name.strip(), round(float(cores) * 1000), round(float(gigabytes) * GIB)
            )
        except (ValueError, OverflowError):
            flavour = Flavour("", 0)
        if (
            not flavour.name
            or flavour.mcpu <= 0
            or flavour.name in {previous.name for previous in flavours}
        ):
            expected = "a line must be 'cores,gigabytes name', such as '4,14 k', with a new name."
            raise TraceError(path, line=number, field="flavour", value=line, expected=expected)
        flavours.append(flavour)
    return tuple(flavours)


def read_bergsma(
    path: Path, flavours: tuple[Flavour, ...], lifetimes: Path | None = None
) -> CloudTrace:
    """Read a Bergsma trace of batches, from the first to the last period with arrivals.

    Without a file of lifetimes they are unknown.

    Raises:
        TraceError: either file has another form, or their jobs differ.
    """
    flavour_index = {flavour.name: index for index, flavour in enumerate(flavours)}
    periods: list[int] = []
    sizes: list[int] = []
    codes: list[int] = []
    in_line: list[int] = []
    for number, at_s, batches in _periods(path):
        if periods and at_s // PERIOD_S <= periods[-1]:
            expected = "periods must rise from line to line."
            raise TraceError(path, line=number, field="period", value=str(at_s), expected=expected)
        for batch in batches:
            try:
                codes.extend([flavour_index[name] for name in batch])
            except KeyError as error:
                expected = f"known flavours are {', '.join(flavour_index)}."
                raise TraceError(
                    path, line=number, field="flavour", value=str(error.args[0]), expected=expected
                ) from None
        periods.append(at_s // PERIOD_S)
        sizes.extend([len(batch) for batch in batches])
        in_line.append(len(batches))
    if not codes:
        raise TraceError(path, expected="there are no jobs in it.")
    n = len(codes)
    trace = CloudTrace(
        period=np.repeat(np.repeat(periods, in_line), sizes),
        batch=np.repeat(np.arange(len(sizes)), sizes),
        flavour=np.array(codes, dtype=np.int64),
        lifetime=np.full(n, UNKNOWN, dtype=np.int64),
        censored=np.zeros(n, dtype=np.int64),
        flavours=flavours,
        first_period=periods[0],
        n_periods=periods[-1] - periods[0] + 1,
        period_s=float(PERIOD_S),
    )
    return trace if lifetimes is None else _with_lifetimes(trace, lifetimes, periods, sizes)


def _with_lifetimes(
    trace: CloudTrace, path: Path, periods: list[int], sizes: list[int]
) -> CloudTrace:
    cache: dict[str, tuple[int, int]] = {}
    bins: list[int] = []
    censored: list[int] = []
    batch_sizes: list[int] = []
    lifetime_periods: list[int] = []
    for number, at_s, batches in _periods(path):
        for batch in batches:
            for token in batch:
                if token not in cache:
                    match = _LIFETIME.fullmatch(token)
                    if match is None or int(match[2]) >= PAPER.n:
                        expected = f"a lifetime must be U or C and a bin from 0 to {PAPER.n - 1}."
                        raise TraceError(
                            path, line=number, field="lifetime", value=token, expected=expected
                        )
                    cache[token] = int(match[2]), int(match[1] == "C")
                bin_and_censored = cache[token]
                bins.append(bin_and_censored[0])
                censored.append(bin_and_censored[1])
        lifetime_periods.append(at_s // PERIOD_S)
        batch_sizes.extend([len(batch) for batch in batches])
    if lifetime_periods != periods or batch_sizes != sizes:
        raise TraceError(path, expected="periods and batches differ from those of the flavours.")
    return replace(
        trace,
        lifetime=np.array(bins, dtype=np.int64),
        censored=np.array(censored, dtype=np.int64),
    )


def _periods(path: Path) -> Iterator[tuple[int, int, list[list[str]]]]:
    """Yield line number, seconds, and batches (lists of tokens) of each period."""
    for number, line in _lines(path):
        clock, _, rest = line.partition(" ")
        batches = [batch.strip(",").split(",") for batch in rest.split(BATCH_END)]
        if batches and batches[-1] == [""]:
            batches.pop()
        is_time = clock.isascii() and clock.isdigit() and int(clock) % PERIOD_S == 0
        if not is_time or not batches or any("" in batch for batch in batches):
            expected = (
                f"a line must be seconds (a multiple of {PERIOD_S}), a space, and tokens separated "
                "by commas, with '|' behind each batch."
            )
            raise TraceError(path, line=number, field="period", value=line[:60], expected=expected)
        yield number, int(clock), batches


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    text = read_bytes(path).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield number, line.strip()


MAP = "flav_map.txt"
_FIRST_LINE = re.compile(r"\d+ [^,|\s]+,[^\n]*\|", re.ASCII)
_OF_LIFETIMES = re.compile(r"(.+)\.c(\d+)", re.ASCII)


def is_cloud_text(begin: str) -> bool:
    """Return whether a text that begins so is a Bergsma trace of batches of flavours."""
    return _FIRST_LINE.match(begin) is not None


def read_cloud_trace(path: Path) -> CloudTrace:
    """Read a Bergsma trace, with its flavour map and its lifetimes.

    The map is `MAP` in the folder of the trace, or in ``../maps`` as in the authors' repository.
    The lifetimes of ``v1.dev.txt.gz`` are the only ``v1.dev.c*.txt.gz`` in its folder, and are
    unknown if there is none.

    Raises:
        TraceError: the file has lifetimes instead of flavours, there is no map, there are several
            files of lifetimes, or one cannot be read.
    """
    name = _name_of(path)
    of_lifetimes = _OF_LIFETIMES.fullmatch(name)
    if of_lifetimes is not None:
        expected = f"these are lifetimes; give the file of their flavours, {of_lifetimes[1]}.txt."
        raise TraceError(path, expected=expected)
    folders = (path.parent, path.parent / ".." / "maps")
    maps = [folder / MAP for folder in folders if (folder / MAP).exists()]
    if not maps:
        raise TraceError(path, expected=f"the map of its flavours, {MAP}, must be in its folder.")
    lives = _lifetime_files(path)
    if len(lives) > 1:
        file_names = " and ".join(lifetime_path.name for lifetime_path in lives)
        raise TraceError(path, expected=f"one file of lifetimes is allowed, not {file_names}.")
    return read_bergsma(path, read_flavours(maps[0]), lives[0] if lives else None)


def _name_of(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".txt")


def _lifetime_files(path: Path) -> list[Path]:
    return sorted(
        lifetime_path
        for ending in (".txt", ".txt.gz")
        for lifetime_path in path.parent.glob(f"{_name_of(path)}.c*{ending}")
    )


def read_batches(path: Path) -> Workload:
    """Read the jobs of a Bergsma trace as a workload.

    Jobs of a period are submitted evenly apart (section 2.4). A job that has ended ran for the
    middle of its bin, or half a period if it ended in its first one. A job that still ran at the
    end of the observation, which the name of the file of lifetimes tells, ran until then. Queues
    are flavours, each batch counts as a user of its own, and dates are unknown.

    Raises:
        TraceError: as `read_cloud_trace`, or lifetimes or the end of the observation are unknown.
    """
    trace, lives = read_cloud_trace(path), _lifetime_files(path)
    named = None if not lives else _OF_LIFETIMES.fullmatch(_name_of(lives[0]))
    if named is None:
        expected = (
            f"without lifetimes nothing can be simulated; {_name_of(path)}.cSECONDS.txt must be in "
            "its folder, with the end of the observation in its name. (workload fit reads flavours "
            "alone.)"
        )
        raise TraceError(path, expected=expected)
    submit_s, end_s, ran_on = trace.starts_s(), float(named[2]), trace.censored == 1
    if (submit_s[ran_on] >= end_s).any():
        expected = f"jobs that still ran at {end_s:g} s must begin before; see its name."
        raise TraceError(lives[0], expected=expected)
    edges_s = trace.bins.edges_s
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    middle_s[0] = trace.period_s / 2
    mcpu, memory = (
        np.array([getattr(flavour, name) for flavour in trace.flavours], dtype=np.int64)
        for name in ("mcpu", "mem_bytes")
    )
    cores = np.maximum(-(-mcpu // MILLI), 1)
    return Workload.from_arrays(
        submit_s=submit_s,
        runtime_s=np.where(ran_on, end_s - submit_s, middle_s[trace.lifetime]),
        procs=cores[trace.flavour],
        mem_bytes_per_proc=(memory // cores)[trace.flavour],
        queue=trace.flavour,
        user=trace.batch - trace.batch[0],
        name=_name_of(path),
        notes=_notes(trace, int(ran_on.sum())),
    )


def _notes(trace: CloudTrace, n_ran_on: int) -> list[ReadingNote]:
    n, names = trace.n_jobs, ", ".join(flavour.name for flavour in trace.flavours)
    ended = f"the file has bins of lifetimes; {n - n_ran_on:,} jobs ran for the middle of theirs."
    notes = [
        ReadingNote("lifetime_bins", n - n_ran_on, ended),
        ReadingNote("user", n, f"{trace.n_batches:,} batches count as users; the file has none."),
        ReadingNote("queue", n, f"queues are the flavours, from 0: {names}."),
    ]
    if n_ran_on:
        last = f"{n_ran_on:,} jobs ran until the log ended; they may have run longer than recorded."
        notes.append(ReadingNote("end_of_log", n_ran_on, last))
    return notes


VM_COLUMNS: Mapping[str, str] = {
    "created_s": "creation_time", "deleted_s": "deletion_time", "user": "app_name",
    "cores": "cpu_request", "gpus": "gpu_request", "memory_gib": "memory_request",
}  # fmt: skip
"""Needed quantities, with the usual names of their columns; cores, gpus and memory are optional."""
_NEVER = -1.0


def read_vm_table(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    most_flavours: int = 32,
    until_s: float | None = None,
) -> ObservedJobs:
    """Read jobs from a CSV table with one row per virtual machine, plain or gzip.

    Args:
        path: path of the file.
        columns: other names of columns, by quantity; see `VM_COLUMNS`.
        most_flavours: number of requests with their own flavour; others share one for each power
            of two of cores.
        until_s: end of the observation, on the table's clock; None is the last creation or
            deletion.

    Returns:
        Machines created within the time of the table, in order of creation.

    Raises:
        TraceError: file, line, column, value and what is allowed.
    """
    file = Path(path)
    table = read_csv(file, VM_COLUMNS, columns)
    created_s = table.numbers("created_s", empty=_NEVER)
    deleted_s = table.numbers("deleted_s", empty=_NEVER)
    was_created = created_s != _NEVER
    if not was_created.any():
        raise TraceError(file, expected="no row has a creation time; nothing can be read.")
    gone = deleted_s != _NEVER
    end_s = max(created_s.max(), deleted_s.max()) if until_s is None else until_s
    wrong = was_created & gone & (deleted_s < created_s)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise table.error(row, "deleted_s", f"it was created later, at {created_s[row]:g}.")
    user, _ = number_texts(table.texts("user"))
    requests = np.column_stack(
        [
            _whole(table, "cores", MILLI),
            _whole(table, "gpus", MILLI),
            _whole(table, "memory_gib", GIB),
        ]
    )
    rows = np.flatnonzero(was_created & (created_s <= end_s))
    if len(rows) == 0:
        raise TraceError(file, expected=f"no row was created up to {end_s:g} s; nothing is left.")
    rows = rows[np.argsort(created_s[rows], kind="stable")]
    ended = gone[rows] & (deleted_s[rows] <= end_s)
    cores = -(-requests[rows, 0] // MILLI)
    flavour, often, rest = number_requests(requests[rows], cores, most_flavours)
    names = [
        Flavour(
            f"{mcpu / MILLI:g} cores, {mgpu / MILLI:g} GPUs, {memory / GIB:g} GiB",
            int(mcpu),
            int(memory),
            int(mgpu),
        )
        for mcpu, mgpu, memory in often.tolist()
    ]
    names += [Flavour(f"others up to {2**power} cores", 2**power * MILLI) for power in rest]
    return ObservedJobs(
        begin_s=created_s[rows],
        lived_s=np.where(ended, deleted_s[rows], end_s) - created_s[rows],
        censored=np.where(ended, 0, 1),
        user=user[rows],
        flavour=flavour,
        flavours=tuple(names),
        name=stem_of(file),
    )


def _whole(table: CsvTable, need: str, factor: int) -> NDArray[np.int64]:
    if not table.has(need):
        return np.zeros(table.n_rows, dtype=np.int64)
    return np.round(table.numbers(need, empty=0.0) * factor).astype(np.int64)
