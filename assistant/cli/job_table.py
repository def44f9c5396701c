"""Jobs of a simulation: tables with one line per job, explanation of one job, pods on machines."""

import csv
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from assistant.cli.console import OUT, print_json, say, table_of
from assistant.core.errors import SettingsError
from assistant.presentation.text.number_format import cell, moment, number, quantity
from sim.api import (
    ClusterSpec,
    JobState,
    Partition,
    Scenario,
    SimulationResult,
    ThrottleWindow,
    Workload,
    check_scenario,
    format_duration,
    known_names,
    parse_duration,
    read_machines,
    simulate,
    summarise_instances,
)
from sim.counterfactuals import ChangedStart, ChangedStarts
from sim.explain import JobExplanation, OtherJobs, QueueHeads, WaitPhase
from sim.metrics import InstanceMetrics


def check_writable(path: Path) -> None:
    """Raise SettingsError for a file that cannot be written, before any slow step."""
    why = None
    try:
        if path.is_dir():
            why = "it is a folder"
        elif not path.parent.is_dir():
            why = f"there is no folder '{path.parent}'"
        elif not os.access(path if path.exists() else path.parent, os.W_OK):
            why = "permission denied"
    except OSError as error:  # such as a name that is too long
        why = error.strerror
    if why is not None:
        raise SettingsError(f"cannot write '{path}': {why}")


def write_jobs(path: Path, scenario: Scenario, result: SimulationResult) -> None:
    """Write a CSV file with one line per job of a simulation of rigid parallel jobs.

    Raises SettingsError if the file cannot be written.
    """
    workload = scenario.workload
    names, restarts = [*scenario.cluster.names, ""], result.restarts
    submit_s = result.submissions_s(workload)
    procs = workload.procs if result.procs is None else result.procs
    placement, machines = result.placement, np.array(scenario.cluster.machine_names, dtype=object)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            header = ["job_id", "submit_s", "start_s", "end_s", "wait_s", "procs", "partition"]
            header += ["state"] if placement is None else ["state", "machines"]
            header += [] if restarts is None else ["n_restarts", "lost_s"]
            writer.writerow(header)
            for i in range(workload.n_jobs):
                start_s = result.start_s[i]
                ran = not np.isnan(start_s)
                times = [start_s, result.end_s[i], start_s - submit_s[i]] if ran else [""] * 3
                writer.writerow(
                    [
                        workload.job_id[i], submit_s[i], *times, procs[i],
                        cell(names[result.partition[i]]),
                        JobState(int(result.state[i])).name.lower(),
                        *([] if placement is None else [cell(" ".join(machines[placement.of(i)]))]),
                        *([] if restarts is None else [restarts.n[i], restarts.lost_s[i]]),
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error


def write_placed_jobs(path: Path, scenario: Scenario, result: SimulationResult) -> None:
    """Write a CSV file with one line per job of a simulation of tasks placed on machines.

    Raises SettingsError if the file cannot be written.
    """
    workload, placed = scenario.workload, result.instances
    tasks = workload.tasks
    assert placed is not None  # noqa: S101 - the allocation was instances
    assert tasks is not None  # noqa: S101
    names = scenario.cluster.machine_names
    first = placed.first[np.searchsorted(tasks.job, np.arange(workload.n_jobs + 1))].tolist()
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            header = ["job_id", "submit_s", "start_s", "end_s", "wait_s", "instances", "state"]
            writer.writerow([*header, "machines"])
            for i in range(workload.n_jobs):
                start_s, submit_s = result.start_s[i], workload.submit_s[i]
                ran = not np.isnan(start_s)
                times = [start_s, result.end_s[i], start_s - submit_s] if ran else [""] * 3
                on = dict.fromkeys(placed.machine[first[i] : first[i + 1]].tolist()) if ran else {}
                writer.writerow(
                    [
                        workload.job_id[i], submit_s, *times, first[i + 1] - first[i],
                        JobState(int(result.state[i])).name.lower(),
                        cell(" ".join(names[machine] for machine in on)),
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error


MOST_LINES = 12  # phases in full; of more, all but the last are summed by reason

MOST_NAMED = 3  # jobs by number that ended or started in a phase


def print_explanation(explained: JobExplanation, workload: Workload) -> None:
    """Print the reasons why a job started at its start time."""
    OUT.print(f"Job {explained.job.job_id} of {workload.name}", style="bold")
    for line in _about(explained):
        OUT.print(f"  {line}")
    if explained.phases:
        OUT.print("Why it waited")
        OUT.print(_waited(explained))
    for line in (*_started(explained), *_looking_back(explained), *_refused(explained)):
        OUT.print(line)
    begin = "" if workload.start_unix_s is None else f", {moment(workload.start_unix_s)}"
    OUT.print(f"Times count from the first submission{begin}.", style="dim")


def print_changed_starts(starts: ChangedStarts, *, with_start: bool) -> None:
    """Print when a job would have started with each change, in order of the gain."""
    if with_start:
        at = "never started" if starts.start_s is None else f"started at {clock(starts.start_s)}"
        OUT.print(f"Job {starts.job_id}: submitted at {clock(starts.submit_s)}, {at}")
    if starts.start_s == starts.submit_s or not starts.changes:
        return
    OUT.print("It would have started (each simulated with all jobs)")
    for change in sorted(starts.changes, key=lambda change: -(change.earlier_s or 0.0)):
        OUT.print(f"  {_changed(change)} if {change.change}", soft_wrap=True)


def _changed(change: ChangedStart) -> str:
    if change.start_s is None:
        return "never"
    if change.earlier_s is None:
        return f"at {clock(change.start_s)}"
    if change.earlier_s == 0:
        return "at the same time"
    side = "earlier" if change.earlier_s > 0 else "later"
    return f"{format_duration(abs(change.earlier_s))} {side}, at {clock(change.start_s)},"


def clock(at_s: float) -> str:
    """Format seconds since the first submission as days and a time of day.

    >>> clock(273600.0), clock(59.25)
    ('3 d 04:00:00', '00:00:59.25')
    """
    whole_seconds, fraction = divmod(round(at_s * 1000), 1000)
    days, rest_s = divmod(whole_seconds, 86_400)
    text = f"{rest_s // 3600:02d}:{rest_s // 60 % 60:02d}:{rest_s % 60:02d}"
    if fraction:
        text += f".{fraction:03d}".rstrip("0")
    return f"{days} d {text}" if days else text


def _processors(n: int) -> str:
    return f"{n:,} processor" + ("" if n == 1 else "s")


def _jobs(jobs: list[tuple[int, str]], n: int) -> str:
    """Return jobs with a word about each.

    >>> _jobs([(7, "2 processors"), (9, "1 processor")], 4)
    'jobs 7 (2 processors), 9 (1 processor) and 2 more'
    """
    texts = [f"{job_id} ({about})" for job_id, about in jobs]
    if n > len(texts):
        texts.append(f"{n - len(texts):,} more")
    text = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"
    return f"job {text}" if n == 1 else f"jobs {text}"


def _about(explained: JobExplanation) -> Iterator[str]:
    job = explained.job
    width = _processors(job.procs)
    if job.logged_procs != job.procs:
        width = f"{width} (clipped from {job.logged_procs:,}, so it runs longer)"
    ran = "would have run" if job.state == "rejected" else "ran"
    ending = " and was killed then" if job.state == "killed" else ""
    yield (
        f"{width}, requested {format_duration(job.requested_s)}, "
        f"{ran} {format_duration(job.runtime_s)}{ending}"
    )
    if job.estimate_s > job.requested_s and job.state != "rejected":
        yield f"the scheduler used its run time, {format_duration(job.estimate_s)}, as the estimate"
    if job.start_s is None or job.wait_s is None:
        yield f"submitted at {clock(job.submit_s)}, never started"
        return
    later = f"started {format_duration(job.wait_s)} later, at {clock(job.start_s)}"
    if job.wait_s == 0:
        later = "started at once"
    yield f"submitted at {clock(job.submit_s)}, {later}"
    yield f"partition {job.partition}, order {explained.order}, backfill {explained.backfill}"


def _waited(explained: JobExplanation) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column()
    reasons = list(_reasons(explained))
    if len(reasons) <= MOST_LINES:
        for phase, why in zip(explained.phases, reasons, strict=True):
            table.add_row(f"  {clock(phase.from_s)}", format_duration(phase.seconds), why)
        return table
    *most, last = explained.phases
    for spent_s, same in _by_kind(most):
        parts = f"  in {len(same):,} part{'' if len(same) == 1 else 's'}"
        table.add_row(parts, format_duration(spent_s), _summed(same))
    why = f"finally {reasons[-1]}"
    table.add_row(f"  {clock(last.from_s)}", format_duration(last.seconds), why)
    return table


def _by_kind(phases: list[WaitPhase]) -> list[tuple[float, list[WaitPhase]]]:
    """Return the phases and their seconds by kind of reason, the longest first."""
    in_order = sorted(phases, key=lambda phase: phase.reason.kind)
    kinds = (list(same) for _, same in groupby(in_order, key=lambda phase: phase.reason.kind))
    summed = [(sum(phase.seconds for phase in same), same) for same in kinds]
    return sorted(summed, key=lambda each: -each[0])


def _summed(phases: list[WaitPhase]) -> str:
    """Return why the job did not start, over phases with the same kind of reason."""
    reasons = [phase.reason for phase in phases]
    ended = [reason.ended for reason in reasons if reason.kind != "would_delay"]
    taken_by = [r.taken_by for r in reasons if r.kind in ("too_few_free", "behind")]
    heads = _heads([r.heads for r in reasons if r.kind in ("would_delay", "behind")])
    meanwhile = _meanwhile(ended, taken_by)
    match reasons[0].kind:
        case "too_few_free":
            return f"too few free processors{meanwhile}"
        case "behind":
            return f"behind {heads}, first in the queue at that time{meanwhile}"
        case "would_delay":
            return f"it would have delayed {heads}, first in the queue at that time"
    return f"first in the queue, but running jobs had to end{meanwhile}"


def _heads(head_groups: list[QueueHeads]) -> str:
    """Return the names of the queue heads of several phases, each once."""
    procs = {head.job_id: head.procs for heads in head_groups for head in heads.named}
    if not procs:
        return ""
    named_heads = [(job_id, _processors(n)) for job_id, n in procs.items()][:MOST_NAMED]
    if all(heads.n == len(heads.named) for heads in head_groups):
        return _jobs(named_heads, len(procs))
    return f"{_jobs(named_heads, len(named_heads))} and others"  # only some of them are named


def _meanwhile(ended: list[OtherJobs], taken_by: list[OtherJobs]) -> str:
    """Return which jobs released processors and which took them, each once."""
    clauses = []
    for groups, sentence in (
        (ended, "{} ended"),
        (taken_by, "{} started ahead of it"),
    ):
        jobs = sorted((job for each in groups for job in each.named), key=lambda job: -job.procs)
        named_jobs = [(job.job_id, _processors(job.procs)) for job in jobs[:MOST_NAMED]]
        if named_jobs:
            clauses.append(sentence.format(_jobs(named_jobs, sum(each.n for each in groups))))
    return f"; meanwhile {', and '.join(clauses)}" if clauses else ""


def _reasons(explained: JobExplanation) -> Iterator[str]:
    """Yield for each phase why the job did not start."""
    for phase in explained.phases:
        reason = phase.reason
        if reason.kind == "too_few_free":
            yield (
                f"too few free processors: it needs {reason.needed_procs:,}, "
                f"{_at_most(reason.most_free_procs)} free; {_ahead(reason.most_ahead)}"
                f"{_meanwhile([reason.ended], [reason.taken_by])}"
            )
        elif reason.kind == "is_head":
            text = (
                f"first in the queue: it needs {_processors(reason.needed_procs)}, "
                f"{_at_most(reason.most_free_procs)} free"
            )
            ended = reason.ended
            blockers = [(job.job_id, _processors(job.procs)) for job in ended.named]
            yield f"{text}, until {_jobs(blockers, ended.n)} ended" if ended.n else text
        elif reason.kind == "behind":
            blockers = [(head.job_id, _processors(head.procs)) for head in reason.heads.named]
            yield (
                f"behind {_jobs(blockers, reason.heads.n)}{_first(reason.heads.n)}; of "
                f"all processors {_at_most(reason.most_free_procs)} free, "
                f"{_ahead(reason.most_ahead)}"
                f"{_meanwhile([reason.ended], [reason.taken_by])}"
            )
        else:
            blockers = [(head.job_id, _processors(head.procs)) for head in reason.heads.named]
            late = f"{format_duration(reason.least_late_s)} after"
            text = (
                f"it would have delayed {_jobs(blockers, reason.heads.n)}{_first(reason.heads.n)}: "
                f"by its estimate it would have ended at least {late} the reservation for "
                f"{clock(reason.reserved_s)}; it needs {_processors(reason.needed_procs)}, "
                f"{_at_most(reason.most_extra_procs)} left over then"
            )
            if reason.in_time_by_runtime_s is not None:
                ran = format_duration(explained.job.runtime_s)
                text += f"; with its run time, {ran}, as the estimate it would have ended in time"
            yield text


def _at_most(n: int) -> str:
    return "none was" if n == 0 else "at most 1 was" if n == 1 else f"at most {n:,} were"


def _first(n: int) -> str:
    return ", first in the queue" if n == 1 else ", first in the queue one after the other"


def _ahead(n: int) -> str:
    return f"up to {n:,} job{'s' if n > 1 else ''} waited ahead of it"


def _started(explained: JobExplanation) -> Iterator[str]:
    start = explained.start
    if start is None:
        return
    when = ""
    if start.ended.n:
        causes = [(job.job_id, _processors(job.procs)) for job in start.ended.named]
        when = f" when {_jobs(causes, start.ended.n)} ended"
    elif start.arrived:
        causes = [(job.job_id, _processors(job.procs)) for job in start.arrived[:5]]
        when = f" when {_jobs(causes, len(start.arrived))} arrived and changed the reservation"
    free = f"{_processors(start.free_procs)} {'was' if start.free_procs == 1 else 'were'} free"
    if start.overtaking is None:
        turn = "It started at once" if start.how == "at_once" else f"Its turn came{when}"
        yield f"{turn}: {free} and no job waited ahead of it."
        return
    waiting = start.overtaking.waiting
    causes = [
        (job.job_id, f"{_processors(job.procs)}, waiting for {format_duration(job.waited_s)}")
        for job in waiting[:5]
    ]
    ahead = _jobs(causes, len(waiting))
    yield f"It was backfilled{when}: {free}, and it started ahead of {ahead}."
    reserved = start.overtaking.reservation
    if reserved is None:
        return
    late_s = start.overtaking.estimated_end_s - reserved.reserved_s
    reserved_at = clock(reserved.reserved_s)
    head = f"Job {reserved.job_id}, the first of them, had a start reserved for {reserved_at}"
    if start.overtaking.let_in_by == "ends_before_reservation":
        before = f"{format_duration(-late_s)} before that" if late_s else "just then"
        yield f"{head}; by its estimate this job would end {before}."
    else:
        yield (
            f"{head}; by its estimate this job would end {format_duration(late_s)} after that, "
            f"but it fits into the {_processors(reserved.extra_procs)} left over then."
        )


def _looking_back(explained: JobExplanation) -> Iterator[str]:
    expected, start_s = explained.expectation, explained.job.start_s
    if expected is not None and start_s is not None:
        early_s = expected.expected_s - start_s
        it_did = "it started then"
        if early_s > 0:
            early = format_duration(early_s)
            it_did = f"it started {early} earlier, as running jobs ended before their estimates"
        elif early_s < 0:
            it_did = f"it started {format_duration(-early_s)} later, as others went ahead of it"
        yield (
            f"It first came to the head of the queue at {clock(expected.seen_s)}. By the estimates "
            f"its start was expected at {clock(expected.expected_s)}; {it_did}."
        )
    preferred, overtakers = explained.preferred, explained.overtaken_by
    if preferred.n:
        yield (
            f"While it waited, {_that_ran(preferred)}, submitted later, went ahead by the order "
            f"{explained.order}: {number(preferred.procs_h)} processor-hours."
        )
    if overtakers.n:
        yield (
            f"While it waited, {_that_ran(overtakers)} started from behind it in the queue: "
            f"{number(overtakers.procs_h)} processor-hours."
        )


def _that_ran(jobs: OtherJobs) -> str:
    return _jobs(
        [
            (job.job_id, f"{_processors(job.procs)} for {format_duration(job.end_s - job.start_s)}")
            for job in jobs.named
        ],
        jobs.n,
    )


def _refused(explained: JobExplanation) -> Iterator[str]:
    if not explained.refusals:
        return
    yield "No partition admits it, and jobs that fit nowhere are rejected:"
    for refusal in explained.refusals:
        why = []
        if refusal.too_wide:
            why.append(f"gives a job {_processors(refusal.widest_procs)} at most")
        if refusal.too_long:
            why.append(f"admits requests of {format_duration(refusal.max_requested_s)} at most")
        yield f"  {refusal.partition} {' and '.join(why)}"


THROTTLE = "MACHINE[,MACHINE]:FROM:UNTIL[:cpu=SHARE][:gpu=SHARE]"
Machines = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Machines (CSV or TOML) on which each pod of a trace with tasks is placed.",
        show_default=False,
    ),
]
PlacementName = Annotated[
    str | None,
    typer.Option(
        help="With --machines, rule that selects one of the machines with room for a pod: "
        + ", ".join(known_names()["placement"])
        + ", or a trained scheduler (FILE.npz).  [default: first_fit]",
        show_default=False,
    ),
]
Throttles = Annotated[
    list[str] | None,
    typer.Option(
        metavar=THROTTLE,
        help="With --machines, machines that run at a share of full speed from FROM to UNTIL after "
        "the first submission; may be repeated.",
    ),
]


def check_machines(
    machines: Path | None, rigid_only: Mapping[str, Any], placed_only: Mapping[str, Any]
) -> None:
    """Refuse options that conflict with --machines or require it. Raises SettingsError."""
    for option, value in (placed_only if machines is None else rigid_only).items():
        if value is None or value == []:
            continue
        if machines is None:
            raise SettingsError(f"{option} is for pods on machines; give --machines FILE too")
        raise SettingsError(
            f"{option} is not for pods on machines; leave it out, or leave out --machines"
        )


def cluster_of(machines: Path, workload: Workload) -> ClusterSpec:
    """Read a cluster from a file of machines.

    Raises SettingsError if the workload has no tasks to place, SimError for an invalid file.
    """
    if workload.tasks is None:
        raise SettingsError(
            f"--machines places pods, and the jobs of {workload.name} have no tasks; leave it out, "
            "or use --whole-nodes or --shared-nodes"
        )
    return ClusterSpec.of([Partition.of_machines("main", read_machines(machines))])


def throttle_of(text: str) -> ThrottleWindow:
    """Parse a throttle window such as ``gpu1,gpu2:1h:2h:cpu=0.6``.

    Raises:
        SettingsError: the form is wrong; SimError: a time or the window is invalid.
    """
    names, *parts = text.split(":")
    share_by_resource: dict[str, float] = {}
    try:
        begin, end, *shares = parts
        for share in shares:
            key, _, value = share.partition("=")
            if key not in ("cpu", "gpu") or key in share_by_resource:
                raise ValueError(share)
            share_by_resource[key] = float(value)
        if not share_by_resource:
            raise ValueError(text)
    except ValueError:
        raise SettingsError(
            f"--throttle '{text}' is not of the form {THROTTLE}, with one share or both, for "
            "example gpu1,gpu2:1h:2h:cpu=0.6"
        ) from None
    machines = tuple(name.strip() for name in names.split(",") if name.strip())
    return ThrottleWindow(machines, parse_duration(begin), parse_duration(end), **share_by_resource)


def rigid_note(workload: Workload) -> str | None:
    """Return a note that the tasks of a workload are not placed, or None without tasks."""
    if workload.tasks is None:
        return None
    return (
        "each job is rigid and takes all its processors at once; to place its pods on machines, "
        "give --machines FILE."
    )


def trained_scheduler(placement: str | None) -> Path | None:
    """Return the file of a trained scheduler that --placement names, or None for a rule."""
    is_file = placement is not None and placement.endswith(".npz")
    return Path(placement) if placement is not None and is_file else None


def place(
    scenario: Scenario, engine: str, per_job: Path | None, trained: Path | None, *, as_json: bool
) -> int:
    """Simulate the placement of instances, print the metrics and return the exit code.

    Args:
        scenario: jobs on machines; its placement is ignored by a trained scheduler.
        engine: name of the engine.
        per_job: file of a table of jobs.
        trained: file of a trained scheduler.
        as_json: print one JSON object.

    Raises SettingsError if the table of jobs cannot be written, SimError for an invalid scenario.
    """
    check_scenario(scenario)  # refuse an invalid scenario before any slow step
    if trained is None:
        result = simulate(scenario, engine=engine)
    else:
        from sim.placement import ENGINES, LearnedPlacement, simulate_learned

        result = simulate_learned(
            scenario, LearnedPlacement.load(trained), compiled=ENGINES[engine]
        )
    metrics = summarise_instances(scenario, result)
    if as_json:
        how = {"engine": result.engine, "note": result.note}
        print_json({"scenario": result.scenario_digest, **how, **asdict(metrics)})
    else:
        if result.note is not None:
            say(f"note: {result.note}")
        rules = f"backfill {scenario.backfill}, placement {scenario.placement}"
        _print_metrics(
            scenario, metrics, rules if trained is None else f"placement {trained}", result.engine
        )
    if per_job is not None:
        write_placed_jobs(per_job, scenario, result)
    return 0


def _print_metrics(scenario: Scenario, metrics: InstanceMetrics, rules: str, engine: str) -> None:
    n_machines = scenario.cluster.n_machines
    OUT.print(
        f"{scenario.workload.name}  {metrics.n_jobs:,} jobs, {metrics.n_instances:,} pods on "
        f"{n_machines:,} machine{'' if n_machines == 1 else 's'}, {scenario.order}, "
        f"{rules}, engine {engine}",
        soft_wrap=True,
    )
    table = table_of("", "number", "mean", "median", "p95", "max")
    for label, part in (
        ("jobs: wait [s]", metrics.wait),
        ("jobs: response [s]", metrics.response),
        ("pods: wait [s]", metrics.instance_wait),
        ("pods of gangs: wait for the last [s]", metrics.gang_wait),
        ("pods: stretch", metrics.stretch),
    ):
        cells = (part.mean, part.median, part.p95, part.max)
        if part.n:
            table.add_row(f"  {label}", f"{part.n:,}", *(number(c) for c in cells))
    OUT.print(table)
    for label, shares in (
        ("allocation", metrics.allocation),
        ("utilisation", metrics.utilisation),
    ):
        if shares:
            summary = ", ".join(f"{name} {number(share)}" for name, share in shares.items())
            OUT.print(f"  {label}: {summary}", soft_wrap=True)
    OUT.print(
        f"  makespan {quantity(metrics.makespan_s, 's')}; {metrics.n_rejected:,} rejected",
        soft_wrap=True,
    )
