"""Jobs of a Slurm cluster, decided from the rows of `sim.formats.sacct`.

Each decision is a named rule (`sim.formats.swf.ReadingRules`) or a fixed one, and counted in a
note: which rows are jobs, from when a job waits, how long it ran, what it requested.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from sim.formats.clock_texts import FloatColumn, Rows, UnixTimes
from sim.formats.sacct import (
    GOES_ON,
    PARTITION_LIMIT,
    UNLIMITED,
    SacctRows,
    read_rows,
)
from sim.formats.sacct_layout import MOMENTS
from sim.formats.swf import ReadingRules
from sim.formats.text_files import zone_named
from sim.model.columns import MOST_COUNT
from sim.model.errors import TraceError, one_line
from sim.model.units import format_duration
from sim.model.workload import ReadingNote, Workload, most_procs_in_use

YEAR_S = 365 * 86_400.0
"""Time limit with which Slurm's backfilling plans where there is none."""

HOUR_S = 3600.0
_MOST_NAMES = 9


def read_sacct(path: str | PathLike[str], rules: ReadingRules | None = None) -> Workload:
    """Read the jobs of a dump of ``sacct --parsable2``, plain or gzip.

    Args:
        path: path of the file.
        rules: of which ``time_zone``, ``wait_from``, ``slurm_cpus``, ``requeues``, ``never_ran``,
            ``procs_missing`` and ``requested_missing`` apply.

    Returns:
        Jobs by the time from which they wait. Users, groups (the accounts), queues (the QoS) and
            partitions have numbers in order of their names.

    Raises:
        TraceError: file, line, field, value and what is allowed; or no job is left.
    """
    return jobs_of(read_rows(path), rules)


def jobs_of(
    rows: SacctRows,
    rules: ReadingRules | None = None,
    *,
    partitions: Collection[str] | None = None,
    max_requested_s: Mapping[str, float] | None = None,
    max_procs: int | None = None,
) -> Workload:
    """Decide which rows of a dump are jobs, and return them as `read_sacct` does.

    Args:
        rows: of a dump, from `read_rows`.
        rules: as in `read_sacct`.
        partitions: only the jobs of these partitions; None means all.
        max_requested_s: MaxTime of partitions in seconds, for requests of Partition_Limit.
        max_procs: processors of the cluster, from slurm.conf; without it, the most that were in
            use at once are taken.

    Raises:
        TraceError: as in `read_sacct`.
    """
    chosen = rules or ReadingRules()
    zone = None if not chosen.time_zone else zone_named(rows.path, chosen.time_zone)
    jobs = _Jobs.of(rows, chosen, UnixColumns.of(rows, zone))
    if partitions is not None:
        jobs.only_partitions(partitions)
    return jobs.workload(max_requested_s or {}, max_procs)


@dataclass(frozen=True, eq=False)
class UnixColumns:
    """Times of the rows in seconds since 1970, float64 [n], NaN where unknown.

    Attributes:
        n_ambiguous, n_skipped: rows with a time that the wall clock showed twice, or never.
        has_local: whether any time is local.
    """

    submit: FloatColumn
    eligible: FloatColumn
    start: FloatColumn
    end: FloatColumn
    n_ambiguous: int
    n_skipped: int
    has_local: bool

    @classmethod
    def of(cls, rows: SacctRows, zone: ZoneInfo | None) -> "UnixColumns":
        """Convert the times; of two possible ones the first counts that keeps their order."""
        times = {name: UnixTimes.of(rows.moments[name], zone) for name in MOMENTS}
        submit = times["submit"].early_s
        eligible = times["eligible"].from_(submit)
        start = times["start"].from_(np.fmax(submit, eligible))
        ends_from = np.where(np.isnan(rows.elapsed_s), start, start + rows.elapsed_s)
        end = times["end"].from_(ends_from)
        ambiguous = np.logical_or.reduce([column.is_ambiguous for column in times.values()])
        return cls(
            submit,
            eligible,
            start,
            end,
            int(ambiguous.sum()),
            sum(column.n_skipped for column in times.values()),
            any(bool(rows.moments[name].is_local.any()) for name in MOMENTS),
        )


@dataclass(eq=False)
class _Jobs:
    """Rows that are jobs, chosen step by step, with the notes so far."""

    rows: SacctRows
    rules: ReadingRules
    times: UnixColumns
    runtime_s: FloatColumn
    selected: Rows
    notes: list[ReadingNote]

    @classmethod
    def of(cls, rows: SacctRows, rules: ReadingRules, times: UnixColumns) -> "_Jobs":
        from_end_s = times.end - times.start
        runtime_s = np.where(np.isnan(rows.elapsed_s), from_end_s, rows.elapsed_s)
        selected = np.ones(rows.n_rows, dtype=np.bool_)
        return cls(rows, rules, times, runtime_s, selected, [])

    def workload(self, limits_s: Mapping[str, float], max_procs: int | None) -> Workload:
        rows, times = self.rows, self.times
        self._note_text()
        self._one_cluster()
        self._drop_copies()
        self._select_ended()
        procs = self._procs()
        machine = self._machine(procs, max_procs)
        self._select_procs(procs)
        job, after_s = self._executions()
        requested_s, missing = self._requested(limits_s)
        keep = np.flatnonzero(self.selected)
        if not len(keep):
            sentences = " ".join(note.sentence for note in self.notes)
            expected = f"none of its {rows.n_rows:,} rows is a job that ran. {sentences}"
            raise TraceError(rows.path, expected=expected)
        wait_from_s = np.fmax(self._waits_from(), after_s)
        self._note_about_times()
        self._note_about_requests(requested_s, missing)
        self._note_about_resources(procs, max_procs)
        submit_s, start_s = wait_from_s[keep], times.start[keep]
        first_s = float(submit_s.min())
        return Workload.from_arrays(
            submit_s=submit_s - first_s,
            runtime_s=self.runtime_s[keep],
            requested_s=requested_s[keep],
            logged_wait_s=start_s - submit_s,
            procs=procs[keep],
            job_id=job[keep],
            user=rows.names["user"][0][keep],
            group=rows.names["account"][0][keep],
            queue=rows.names["qos"][0][keep],
            partition=rows.names["partition"][0][keep],
            status=np.maximum(rows.status[keep], -1),
            mem_bytes_per_proc=self._memory(procs)[keep],
            name=_stem(rows.path),
            max_procs=machine,
            start_unix_s=first_s,
            time_zone=self.rules.time_zone or None,
            scheduler=rows.scheduler,
            notes=self.notes,
            account_names=tuple(rows.names["account"][1]),
            user_names=tuple(rows.names["user"][1]),
            requested_is_runtime=bool(missing[keep].any()),
            unsorted="sort",
        )

    def only_partitions(self, partitions: Collection[str]) -> None:
        """Leave out the jobs of all other partitions."""
        column, names = self.rows.names["partition"]
        places = [place for place, name in enumerate(names) if name in partitions]
        others = ~np.isin(column, places)
        self.selected &= ~others
        listed = [names[place] for place in np.unique(column[others]).tolist() if place >= 0]
        wanted = ", ".join(sorted(partitions))
        more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
        self._note(
            "other_partitions",
            int(others.sum()),
            f"{_count(others.sum(), 'row')} of other partitions than {wanted} "
            f"({', '.join(listed[:_MOST_NAMES])}{more}); left out.",
        )

    def _note(self, rule: str, n_rows: int, sentence: str) -> None:
        if n_rows:
            self.notes.append(ReadingNote(rule, n_rows, sentence))

    def _note_text(self) -> None:
        rows = self.rows
        self._note("steps", rows.n_steps, f"{_count(rows.n_steps, 'row')} of job steps; left out.")
        self._note(
            "broken",
            rows.n_broken,
            f"{_count(rows.n_broken, 'row')} unlike those of {rows.source}; left out (the first: "
            f"{rows.first_broken}).",
        )

    def _one_cluster(self) -> None:
        column, names = self.rows.names["cluster"]
        if len(names) > 1:
            counts = np.bincount(column[column >= 0], minlength=len(names))
            shown = ", ".join(
                f"{name} ({n:,})" for name, n in list(zip(names, counts.tolist(), strict=True))[:5]
            )
            expected = (
                f"its jobs ran on {len(names)} clusters: {shown}. Dump one of them with "
                "sacct --clusters NAME."
            )
            raise TraceError(self.rows.path, expected=expected)

    def _drop_copies(self) -> None:
        """Leave out rows that tell the same execution again; the last one counts."""
        key = np.stack([
            self.rows.job.astype(np.float64), np.nan_to_num(self.times.start, nan=-1.0),
            np.nan_to_num(self.times.submit, nan=-1.0),
        ])[:, ::-1]  # fmt: skip
        order = np.lexsort(key)
        same = (np.diff(key[:, order], axis=1) == 0).all(axis=0)
        copies = np.zeros(self.rows.n_rows, dtype=np.bool_)
        copies[self.rows.n_rows - 1 - order[1:][same]] = True
        self.selected &= ~copies
        self._note(
            "copies",
            int(copies.sum()),
            f"{_count(copies.sum(), 'row')} with an execution that a later row has, too (the same "
            "job, submission and start, as in dumps of adjoining days); the last row counts.",
        )

    def _select_ended(self) -> None:
        rows, times = self.rows, self.times
        pending = self.selected & np.isnan(times.start)
        # sacct writes the moment of cancellation as start and end of jobs that never started, and
        # the CPUs that they requested as allocated
        withdrawn = self.selected & ~pending & ~(self.runtime_s > 0)
        withdrawn &= rows.unplaced | (
            (rows.status == 5)
            & (rows.allocated == 0 if self.rules.never_ran == "keep_zero" else True)
        )
        never = pending | withdrawn
        if self.rules.never_ran == "refuse" and never.any():
            raise self._refusal(
                never, "start", "this job never ran; drop such jobs with never_ran='drop'."
            )
        tasks = int(rows.pending_tasks[pending].sum())
        arrays = f"; among them {_count(tasks, 'waiting task')} of arrays" if tasks else ""
        self._note(
            "never_ran",
            int(never.sum()),
            f"{_count(never.sum(), 'job')} never started (cancelled or still waiting{arrays}); "
            "left out.",
        )
        no_end = np.isnan(times.end)
        no_end &= not no_end.all()  # without the field, all that started have ended
        open_end = np.where(rows.status == -1, no_end, rows.status == GOES_ON)
        running = self.selected & ~never & (open_end | np.isnan(self.runtime_s))
        self._note(
            "running",
            int(running.sum()),
            f"{_count(running.sum(), 'job')} still ran when the log was dumped; left out, as the "
            "run time is unknown.",
        )
        self._running = running
        zero = self.selected & ~never & ~running & (self.runtime_s <= 0)
        if self.rules.never_ran == "keep_zero":
            zero &= False
        self._note(
            "zero",
            int(zero.sum()),
            f"{_count(zero.sum(), 'job')} ran for less than a second; left out (keep them with "
            "never_ran=keep_zero).",
        )
        self.selected &= ~(never | running | zero)

    def _procs(self) -> NDArray[np.int64]:
        allocated, requested = self.rows.allocated, self.rows.requested
        if self.rules.slurm_cpus == "requested":
            return np.where(requested > 0, requested, allocated)
        return np.where(allocated > 0, allocated, requested)

    def _select_procs(self, procs: NDArray[np.int64]) -> None:
        without = self.selected & (procs <= 0)
        if self.rules.procs_missing == "refuse" and without.any():
            raise self._refusal(
                without,
                "ncpus",
                "the job ran, so it needs 1 or more CPUs; drop such jobs with "
                "procs_missing='drop'.",
            )
        self._note(
            "procs_missing",
            int(without.sum()),
            f"{_count(without.sum(), 'job')} ran on an unknown number of CPUs; left out.",
        )
        self.selected &= ~without
        differ = self.selected & (self.rows.allocated > 0) & (self.rows.requested > 0)
        differ &= self.rows.allocated != self.rows.requested
        word = "requested" if self.rules.slurm_cpus == "requested" else "allocated"
        other = "allocated" if word == "requested" else "requested"
        self._note(
            "slurm_cpus",
            int(differ.sum()),
            f"{_count(differ.sum(), 'job')} got other CPUs than requested (whole "
            f"nodes or cores); the {word} count (slurm_cpus={other} for the others).",
        )

    def _executions(self) -> tuple[NDArray[np.int64], FloatColumn]:
        """Return the number of each row, and from when it waits at the earliest (NaN: any time).

        Each execution of a requeued job is a job; the last keeps the number.
        """
        rows, times = self.rows, self.times
        order = np.lexsort((times.start, rows.job))
        order = order[self.selected[order]]
        job = rows.job[order]
        followed = np.concatenate([job[1:] == job[:-1], [False]]) if len(job) else np.zeros(0, bool)
        again = order[np.flatnonzero(followed) + 1] if followed.any() else np.zeros(0, np.int64)
        earlier = order[followed]
        after_s = np.full(rows.n_rows, np.nan)
        number = rows.job.copy()
        if self.rules.requeues == "last":
            self.selected[earlier] = False
            sentence = (
                f"{_count(len(earlier), 'execution')} before a requeue; left out, the last counts."
            )
        else:
            after_s[again] = times.start[earlier] + self.runtime_s[earlier]
            after_s = np.where(after_s <= times.start, after_s, np.nan)
            sentence = (
                f"{_count(len(earlier), 'execution')} ended in a requeue; each is a job of its "
                "own, and the next waits from its end (requeues=last counts the last alone)."
            )
        self._note("requeues", len(earlier), sentence)
        unnumbered = number < 0
        if self.rules.requeues != "last":
            unnumbered[earlier] = True
        new = np.flatnonzero(unnumbered & self.selected)
        begin = int(max(number.max(initial=0), 0)) + 1
        number[new] = begin + np.arange(len(new))
        nameless = int((rows.job[new] < 0).sum())
        self._note(
            "job_ids",
            nameless,
            f"{_count(nameless, 'job')} whose id is no plain number (array tasks, without "
            f"JobIDRaw); numbered from {begin}.",
        )
        return number, after_s

    def _waits_from(self) -> FloatColumn:
        """Return from when each job waits: it became eligible, or was submitted."""
        submit, start = self.times.submit, self.times.start
        eligible = np.where(np.isnan(self.times.eligible), submit, self.times.eligible)
        submit = np.where(np.isnan(submit), eligible, submit)
        submit = np.where(np.isnan(submit), start, submit)
        later = self.selected & (eligible > submit) & (eligible <= start)
        wait_s = np.where(later, eligible - submit, 0.0)
        if later.any():
            held = float(np.median(wait_s[later]))
            share = (
                100
                * wait_s[self.selected].sum()
                / max(1.0, float((start - submit)[self.selected].clip(0).sum()))
            )
            what = (
                f"{_count(later.sum(), 'job')} became eligible after the submission "
                "(dependencies, holds, begin times, limits; half of them by "
                f"{format_duration(held)} or more, {share:.0f} % of all time between "
                "submission and start)"
            )
            done = (
                "they wait from then on"
                if self.rules.wait_from == "eligible"
                else "they wait from the submission on, as chosen"
            )
            self._note("wait_from", int(later.sum()), f"{what}; {done}.")
        chosen = np.where(later, eligible, submit) if self.rules.wait_from == "eligible" else submit
        early = self.selected & (start < chosen)
        self._note(
            "starts_early",
            int(early.sum()),
            f"{_count(early.sum(), 'job')} started before the submission, by the clocks of the "
            "log; the wait is 0 s.",
        )
        return np.fmin(chosen, start)

    def _requested(self, limits_s: Mapping[str, float]) -> tuple[FloatColumn, Rows]:
        """Return the requested times, and where the run time replaces them."""
        limit_s = self.rows.limit_s.copy()
        endless = self.selected & (limit_s == UNLIMITED)
        limit_s[limit_s == UNLIMITED] = YEAR_S
        self._note(
            "unlimited",
            int(endless.sum()),
            f"{_count(endless.sum(), 'job')} without a time limit (UNLIMITED); the request is 365 "
            "days, with which Slurm plans.",
        )
        by_partition = self.selected & (limit_s == PARTITION_LIMIT)
        if (limit_s == PARTITION_LIMIT).any():
            limit_s = self._of_partitions(limit_s, limits_s)
            known = (
                "MaxTime of the partition"
                if limits_s
                else "longest request in the partition, as slurm.conf is not known"
            )
            self._note(
                "partition_limit",
                int(by_partition.sum()),
                f"{_count(by_partition.sum(), 'job')} with the limit of the partition; the request "
                f"is the {known}.",
            )
        missing = np.isnan(limit_s) | (limit_s <= 0)
        n_missing = int((missing & self.selected).sum())
        if self.rules.requested_missing == "refuse" and n_missing:
            raise self._refusal(
                missing & self.selected,
                "timelimit",
                "there is no requested time; use the run "
                "time instead with requested_missing='runtime', or drop such jobs with "
                "requested_missing='drop'.",
            )
        if self.rules.requested_missing == "drop":
            self._note(
                "requested_missing",
                n_missing,
                f"{_count(n_missing, 'job')} without a requested time; dropped.",
            )
            self.selected &= ~missing
            missing = np.zeros(len(missing), dtype=np.bool_)
        else:
            self._note(
                "requested_missing",
                n_missing,
                f"{_count(n_missing, 'job')}: no requested time; the run time replaces it "
                "(clairvoyant).",
            )
        return np.where(missing, self.runtime_s, limit_s), missing

    def _of_partitions(self, limit_s: FloatColumn, limits_s: Mapping[str, float]) -> FloatColumn:
        column, names = self.rows.names["partition"]
        filled = limit_s.copy()
        for number in np.unique(column[limit_s == PARTITION_LIMIT]).tolist():
            mine = column == number
            finite = limit_s[mine & (limit_s > 0) & (limit_s < YEAR_S)]
            longest = float(finite.max()) if len(finite) else YEAR_S
            limit = limits_s.get(names[number] if number >= 0 else "", longest)
            filled[mine & (limit_s == PARTITION_LIMIT)] = min(limit, YEAR_S)
        return filled

    def _memory(self, procs: NDArray[np.int64]) -> NDArray[np.float64]:
        per_proc = np.rint(self.rows.mem_bytes / np.maximum(procs, 1))
        return np.where((per_proc >= 0) & (per_proc <= MOST_COUNT), per_proc, -1.0)

    def _machine(self, procs: NDArray[np.int64], max_procs: int | None) -> int | None:
        """Return the size of the machine: given, or the most processors in use at once."""
        held = self.selected | self._running
        if max_procs is not None or not held.any():
            return max_procs
        end_s = np.where(self._running, np.inf, self.times.start + self.runtime_s)
        most = most_procs_in_use(self.times.start[held], end_s[held], procs[held])
        self._note(
            "machine_size",
            1 if most else 0,
            f"a dump does not say how large the machine is; up to {most:,} processors were "
            f"in use at once, which is taken ({self.rows.size_from} says it).",
        )
        return most or None

    def _note_about_times(self) -> None:
        times, zone = self.times, self.rules.time_zone
        off = self.selected & (np.abs(times.end - times.start - self.runtime_s) == HOUR_S)
        if not times.has_local:
            return
        if not zone:
            hint = (
                f" {_count(off.sum(), 'job')} ended an hour beside their run time, as where summer "
                "time begins or ends."
                if off.any()
                else ""
            )
            self._note(
                "time_zone",
                int(self.selected.sum()),
                "the times are local, of an unnamed zone, and read as if there were no "
                f"summer time; name it with time_zone=Europe/Paris.{hint}",
            )
            return
        self._note(
            "ambiguous",
            times.n_ambiguous,
            f"{_count(times.n_ambiguous, 'row')} with a time that {zone} showed twice, when summer "
            "time ended; of both the first counts that keeps their order.",
        )
        self._note(
            "skipped",
            times.n_skipped,
            f"{_count(times.n_skipped, 'time')} that {zone} skipped when summer time began: is the "
            "zone right? Read as if it had not begun.",
        )

    def _note_about_requests(self, requested_s: FloatColumn, missing: Rows) -> None:
        over = self.selected & ~missing & (self.runtime_s > requested_s)
        self._note(
            "requested_below_runtime",
            int(over.sum()),
            f"{_count(over.sum(), 'job')} ran longer than requested; they do so in simulations, "
            "too, unless `overrun` ends them.",
        )
        suspended_s = self.times.end - self.times.start - self.runtime_s
        paused = self.selected & (suspended_s > 60) & (suspended_s != HOUR_S)
        self._note(
            "suspended",
            int(paused.sum()),
            f"{_count(paused.sum(), 'job')} suspended for more than a minute; the run time is "
            "without it.",
        )

    def _note_about_resources(self, procs: NDArray[np.int64], max_procs: int | None) -> None:
        with_gpus = self.selected & (self.rows.gpus > 0)
        n_gpus = int(self.rows.gpus[with_gpus].sum())
        self._note(
            "gpus",
            int(with_gpus.sum()),
            f"{_count(with_gpus.sum(), 'job')} had GPUs ({n_gpus:,} in all); processors alone are "
            "simulated.",
        )
        wide = self.selected & (procs > (np.inf if max_procs is None else max_procs))
        self._note(
            "wider_than_machine",
            int(wide.sum()),
            f"{_count(wide.sum(), 'job')} wider than the cluster of slurm.conf, {max_procs or 0:,} "
            "processors; kept.",
        )
        for column, word in (("partition", "partitions"), ("qos", "queues (QoS)")):
            numbers, names = self.rows.names[column]
            used = sorted(set(np.unique(numbers[self.selected]).tolist()) - {-1})
            shown = ", ".join(f"{n} {one_line(names[n], 40)}" for n in used[:_MOST_NAMES])
            more = f" and {len(used) - _MOST_NAMES} more" if len(used) > _MOST_NAMES else ""
            self._note(column, len(used), f"the numbers of the {word}: {shown}{more}.")

    def _refusal(self, where: Rows, name: str, expected: str) -> TraceError:
        line = int(self.rows.line[np.flatnonzero(where)[0]])
        return TraceError(self.rows.path, line=line, field=name, expected=expected)


def _count(number: int | np.signedinteger[Any], noun: str) -> str:
    """Return ``1 job`` or ``2,000 jobs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _stem(path: Path) -> str:
    name = path.name.removesuffix(".gz")
    return name.removesuffix(".txt").removesuffix(".csv").removesuffix(".sacct")
