"""Command ``copperline simulate``: replay a job log on a cluster."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.table import Table

from assistant.cli.commands.workload import First, Log, load_log
from assistant.cli.console import OUT, Json, print_json, progress_spinner, say
from assistant.cli.job_table import (
    Machines,
    PlacementName,
    Throttles,
    check_machines,
    check_writable,
    cluster_of,
    place,
    print_changed_starts,
    print_explanation,
    rigid_note,
    throttle_of,
    trained_scheduler,
    write_jobs,
)
from assistant.cli.log_comparison import LogComparison, current_configuration, print_transfer
from assistant.cli.options import (
    Moldable,
    Power,
    ReadingRule,
    by_number,
    moldability_of,
    policy_options,
    power_of,
)
from assistant.core.errors import SettingsError
from assistant.presentation.text.number_format import number, quantity
from assistant.simtools.workload_log import reading_line
from sim.api import (
    Allocation,
    CapacityWindow,
    ClusterSpec,
    EngineError,
    Partition,
    Scenario,
    SimulationResult,
    UnknownNameError,
    Workload,
    backfills_for,
    check_scenario,
    known_names,
    parse_duration,
    summarise,
)
from sim.api import simulate as run_simulation
from sim.counterfactuals import changed_starts
from sim.explain import WATCHING_ENGINES, explain_start
from sim.formats import AccountTree, read_accounts
from sim.metrics import GroupMetrics, ScheduleMetrics

PARTITION = "NAME:PROCS[:MAX_REQUESTED[:MAX_PROCS]][:TERMS]"
WINDOW = "PARTITION:PROCS:FROM:UNTIL[:KIND]"


def partition_of(text: str) -> Partition:
    """Parse a partition such as ``small:32:1h:8`` or ``debug:@main:1h:tier=2``.

    Raises:
        SettingsError: the form is wrong; ClusterError: the partition is invalid;
        DurationError: the limit is not a time.
    """
    parts = text.split(":")
    limits = [part for part in parts[2:] if "=" not in part and part != "preemptible"]
    plain = parts[:2] + limits
    terms = parts[len(plain) :]
    if parts[: len(plain)] != plain or not 2 <= len(plain) <= 4:
        raise _not_of_the_form(text)
    name, size = plain[:2]
    longest = parse_duration(plain[2]) if len(plain) > 2 and plain[2] else None
    fields: dict[str, Any] = {}
    try:
        fields |= {"on": size[1:]} if size.startswith("@") else {"procs": int(size)}
        limit = int(plain[3]) if len(plain) == 4 and plain[3] else None
        for term in terms:
            key, _, value = term.partition("=")
            field, kind = _TERMS[key]
            if field in fields:
                raise ValueError(term)
            fields[field] = kind(value)
    except (KeyError, ValueError):
        raise _not_of_the_form(text) from None
    return Partition(name, max_requested_s=longest, max_procs=limit, **fields)


def _yes(value: str) -> bool:
    if value:
        raise ValueError(value)
    return True


_TERMS: dict[str, tuple[str, Any]] = {
    "tier": ("tier", int),
    "per-user": ("running_per_user", int),
    "preemptible": ("preemptible", _yes),
}


def _not_of_the_form(text: str) -> SettingsError:
    return SettingsError(
        f"--partition '{text}' is not of the form {PARTITION}, for example small:32:1h:8; "
        "for a queue on the processors of another partition write @OTHER for PROCS; TERMS are "
        "tier=N, per-user=N and preemptible, for example debug:@small:10m:tier=2"
    )


def window_of(text: str) -> CapacityWindow:
    """Parse a capacity window such as ``main:64:10d:10d 8h:planned``.

    Raises:
        SettingsError: the form is wrong; ScenarioError: the window is invalid;
        DurationError: a value is not a time; UnknownNameError: there is no such kind.
    """
    parts = text.split(":")
    try:
        if not 4 <= len(parts) <= 5:
            raise ValueError(text)
        procs = int(parts[1])
    except ValueError:
        raise SettingsError(
            f"--window '{text}' is not of the form {WINDOW}, for example main:64:10d:11d:planned"
        ) from None
    times = parse_duration(parts[2]), parse_duration(parts[3])
    return CapacityWindow(parts[0], procs, *times, *parts[4:])  # type: ignore[arg-type]


MOST_MEMORY_T = 2**53 // 1024**4  # 2**53 bytes


def simulate(
    log: Log,
    procs: Annotated[
        int | None,
        typer.Option(help="Number of processors (default: the number in the log).", min=1),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar=PARTITION,
            help="A partition; may be repeated. A job goes to the first partition that admits it. "
            "@OTHER for PROCS makes a queue on the processors of another partition. TERMS: "
            "tier=N, per-user=N (jobs that a user runs at once), preemptible.",
        ),
    ] = None,
    window: Annotated[
        list[str] | None,
        typer.Option(
            metavar=WINDOW,
            help="Processors that jobs cannot use from FROM to UNTIL after the first submission; "
            "may be repeated. Kinds: planned (known before, such as maintenance), drain, failure.",
        ),
    ] = None,
    whole_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="PROCS",
            help="Processors of a machine; a job takes whole machines.",
            min=1,
            show_default=False,
        ),
    ] = None,
    shared_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="PROCS",
            help="Processors of a machine; several jobs may share a machine.",
            min=1,
            show_default=False,
        ),
    ] = None,
    node_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of a machine, such as 64G; a job takes the memory that it requested.",
            show_default=False,
        ),
    ] = None,
    machines: Machines = None,
    placement: PlacementName = None,
    throttle: Throttles = None,
    order: Annotated[
        str,
        typer.Option(
            help=f"Order of the queue: {', '.join(known_names()['order'])}; with --machines also "
            f"{', '.join(known_names()['task_order'])}."
        ),
    ] = "fcfs",
    backfill: Annotated[
        str | None,
        typer.Option(
            help=f"Backfill rule: {', '.join(backfills_for('processors'))}; with --machines "
            f"{', '.join(backfills_for('instances'))}.  "
            "[default: easy, with --machines none]",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Option of order, backfill or placement; may be repeated."
        ),
    ] = None,
    qos: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUEUE=PRIORITY",
            help="Priority of a queue of the log, for orders that use it; may be repeated.",
        ),
    ] = None,
    share: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER=SHARES",
            help="Shares of a user (default 1), for orders that use them; may be repeated.",
        ),
    ] = None,
    accounts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Account tree with the shares of users, for orders that use them: what sshare "
            "-alP, sacctmgr dump or sacctmgr -P show associations prints.",
            show_default=False,
        ),
    ] = None,
    overrun: Annotated[
        str,
        typer.Option(
            help="For jobs that outlast their request: raise, kill, extend, extend_at_events."
        ),
    ] = "raise",
    dependencies: Annotated[
        str,
        typer.Option(
            help="Submit jobs after the end of another one: ignore, logged (SWF fields 17 and 18), "
            "sessions (of each user, from the recorded times)."
        ),
    ] = "ignore",
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --overrun kill, extra time that a job may run beyond its request.",
            show_default=False,
        ),
    ] = None,
    cleanup: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Extra time that a job holds its processors after its run.",
            show_default=False,
        ),
    ] = None,
    too_wide: Annotated[str, typer.Option(help="Jobs that fit nowhere: refuse, reject, clip.")] = (
        "refuse"
    ),
    engine: Annotated[
        str, typer.Option(help="auto, compiled, interpreted or process; results are the same.")
    ] = "auto",
    first: First = None,
    reading: ReadingRule = None,
    power: Power = None,
    moldable: Moldable = None,
    per_job: Annotated[
        Path | None, typer.Option(help="Write one CSV line per job here.", show_default=False)
    ] = None,
    explain_job: Annotated[
        int | None,
        typer.Option(
            "--explain",
            metavar="JOB",
            help="Explain why the job with this number started when it did, without measures.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--backtest",
            help="Compare the simulated waits with the recorded ones: by partition, width, user "
            "class and week, with what explains the gap. Give the configuration in use.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="ORDER[:BACKFILL]",
            help="Test whether this configuration waits less than the one in use, which is all "
            "processors in one partition with this order and backfill rule (easy), on both halves "
            "of the log, under other load, and on generated futures.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Replay a job log on a cluster and measure waits, responses, slowdowns and utilisation."""
    if engine not in known_names()["engine"]:
        raise UnknownNameError("engine", engine, known_names()["engine"])
    rigid_only = {
        "--procs": procs, "--partition": partition, "--window": window, "--cleanup": cleanup,
        "--whole-nodes": whole_nodes, "--shared-nodes": shared_nodes, "--grace": grace,
        "--node-memory": node_memory, "--explain": explain_job,
        "--backtest": compare or None, "--against": against, "--power": power or None,
        "--overrun": None if overrun == "raise" else overrun,
        "--dependencies": None if dependencies == "ignore" else dependencies,
        "--accounts": accounts, "--moldable": moldable or None,
    }  # fmt: skip
    check_machines(machines, rigid_only, {"--placement": placement, "--throttle": throttle})
    if explain_job is not None:
        _only_to_explain(engine, per_job, compare=compare or against is not None)
    if per_job is not None:
        check_writable(per_job)
    workload = load_log(log, first, reading)
    trained = trained_scheduler(placement)
    if trained is not None:
        _only_for_rules(engine, backfill)
    if machines is not None:
        return place(
            Scenario(
                workload,
                cluster_of(machines, workload),
                allocation="instances",
                order=order,
                backfill=backfill or "none",
                too_wide=too_wide,  # type: ignore[arg-type]  # the scenario checks the word
                options=policy_options(option or []),
                qos_priority=by_number(qos or [], "--qos", "2=100"),
                shares=by_number(share or [], "--share", "17=2"),
                placement="first_fit" if trained is not None else placement or "first_fit",
                throttles=tuple(throttle_of(text) for text in throttle or []),
            ),
            engine,
            per_job,
            trained,
            as_json=as_json,
        )
    options = policy_options(option or [])
    cluster, allocation = _cut(
        _cluster(workload, procs, partition or []), whole_nodes, shared_nodes, node_memory
    )
    scenario = Scenario(
        workload,
        cluster,
        allocation=allocation,
        order=order,
        backfill=backfill or "easy",
        overrun=overrun,  # type: ignore[arg-type]  # the scenario checks the word
        too_wide=too_wide,  # type: ignore[arg-type]
        options=options,
        grace_s=0.0 if grace is None else parse_duration(grace),
        cleanup_s=0.0 if cleanup is None else parse_duration(cleanup),
        qos_priority=by_number(qos or [], "--qos", "2=100"),
        shares=by_number(share or [], "--share", "17=2"),
        windows=tuple(window_of(text) for text in window or []),
        dependencies=dependencies,  # type: ignore[arg-type]
        accounts=None if accounts is None else _account_tree(accounts, options),
        moldable=moldability_of(moldable or []),
    )
    nodes = power_of(power or [])
    if nodes is not None:
        scenario = nodes.applied_to(scenario)
    check_scenario(scenario)  # refuse an invalid scenario before any slow step
    if explain_job is not None:
        _explain(scenario, explain_job, as_json=as_json)
        return 0
    if against is not None:
        if compare or per_job is not None:
            raise SettingsError("--against compares schedules; leave out --backtest and --per-job")
        print_transfer(scenario, current_configuration(scenario, against), as_json=as_json)
        return 0
    with progress_spinner(f"Simulating {workload.n_jobs:,} jobs …"):
        result = run_simulation(scenario, engine=engine)
    decisions = [note.sentence for note in workload.ranked_notes]
    rules = "".join(f" --reading {quote(rule)}" for rule in reading or [])
    reading_note = reading_line(decisions, f"copperline workload describe {quote(str(log))}{rules}")
    found = (result.note, rigid_note(workload), reading_note)
    notes = [note for note in found if note is not None]
    _report(scenario, result, notes, LogComparison.of(scenario, result, compare=compare), as_json)
    if per_job is not None:
        write_jobs(per_job, scenario, result)
    return 0


def _account_tree(file: Path, options: Mapping[str, float]) -> AccountTree:
    """Read an account tree, or refuse it where it has no effect."""
    if not options.get("fairshare_weight"):
        raise SettingsError(
            "--accounts has an effect only on fair shares; add --order multifactor --option "
            "fairshare_weight=10000 (and --option fair_tree=1 for Slurm's default), or leave it out"
        )
    return read_accounts(file)


def _explain(scenario: Scenario, job_id: int, *, as_json: bool) -> None:
    """Print why a job started when it did, and when it would have started with changes."""
    reasons_unknown = explained = None
    try:
        explained = explain_start(scenario, job_id)
    except EngineError as error:
        reasons_unknown = str(error)
    changed = changed_starts(scenario, job_id)
    if as_json:
        content = None if explained is None else asdict(explained)
        starts = {"reasons_unknown": reasons_unknown, "changed_starts": asdict(changed)}
        head = {"scenario": scenario.digest, "engine": "process"}
        print_json({**head, "explanation": content, **starts})
        return
    if explained is not None:
        print_explanation(explained, scenario.workload)
    else:
        OUT.print(f"The reasons for its wait are unknown: {reasons_unknown}", soft_wrap=True)
    print_changed_starts(changed, with_start=explained is None)


def _only_to_explain(engine: str, per_job: Path | None, *, compare: bool) -> None:
    """Refuse options that have no effect on an explanation."""
    if compare:
        raise SettingsError("--explain is for one job; leave out --backtest and --against")
    if per_job is not None:
        raise SettingsError("give --explain or --per-job, not both: --explain writes no table")
    if engine not in WATCHING_ENGINES:
        raise SettingsError(
            f"--explain needs an engine that can be watched ({', '.join(WATCHING_ENGINES)}); leave "
            f"out --engine {engine}, as all engines give the same schedule"
        )


def _only_for_rules(engine: str, backfill: str | None) -> None:
    """Refuse options that have no effect on a trained scheduler."""
    if backfill is not None:
        raise SettingsError(
            "a trained scheduler chooses among all ready tasks, so --backfill has no effect; leave "
            "it out"
        )
    from sim.placement import ENGINES

    if engine not in ENGINES:
        raise SettingsError(
            f"a trained scheduler is simulated by the engines {', '.join(ENGINES)}; leave out "
            f"--engine {engine}"
        )


def _cluster(workload: Workload, procs: int | None, partitions: list[str]) -> ClusterSpec:
    if partitions:
        if procs is not None:
            raise SettingsError("give --procs or --partition, not both")
        return ClusterSpec(tuple(partition_of(text) for text in partitions))
    size = procs if procs is not None else workload.max_procs
    if size is None:
        raise SettingsError(
            f"{workload.name} does not state how many processors its machine has; "
            f"set them with --procs (its widest job uses {workload.widest_procs})"
        )
    return ClusterSpec.single(size)


def _bytes(text: str | None) -> int | None:
    """Return a size such as 64G in bytes; the units are powers of 1,024."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+)\s*([KMGT])(?:i?B)?\s*", text, re.IGNORECASE)
    if match is None or not match[1].strip("0"):
        raise SettingsError(
            f"--node-memory '{text}' is not a size; allowed are whole numbers from 1 with K, M, G "
            "or T (powers of 1,024), for example 64G"
        )
    exponent = 1 + "KMGT".index(match[2].upper())
    digits, most = match[1].lstrip("0"), MOST_MEMORY_T * 1024**4
    if len(digits) > len(str(most)) or int(digits) * 1024**exponent > most:
        shortened = text.strip() if len(text) <= 40 else f"{text.strip()[:40]}..."
        raise SettingsError(f"--node-memory '{shortened}' is above the maximum, {MOST_MEMORY_T}T")
    return int(digits) * int(1024**exponent)


def _report(
    scenario: Scenario,
    result: SimulationResult,
    notes: list[str],
    tested: LogComparison | None,
    as_json: bool,
) -> None:
    """Print the metrics of a schedule, and how far they agree with the log."""
    metrics = summarise(scenario, result)
    if as_json:
        how = {"engine": result.engine, "note": " ".join(notes) or None}
        compared = {} if tested is None else tested.as_json()
        print_json({"scenario": scenario.digest, **how, **asdict(metrics), **compared})
        return
    for note in notes:
        say(f"note: {note}")
    _print_metrics(scenario, metrics, result.engine)
    if tested is not None:
        tested.print()


def _print_metrics(scenario: Scenario, metrics: ScheduleMetrics, engine: str) -> None:
    cluster = scenario.cluster
    OUT.print(
        f"{scenario.workload.name}  {metrics.n_jobs:,} jobs, "
        f"{cluster.total_procs:,} processors{_in_machines(scenario)}, {scenario.order}, "
        f"backfill {scenario.backfill}, engine {engine}",
        soft_wrap=True,
    )
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("", "jobs", "mean", "median", "p95", "max"):
        table.add_column(name, justify="right" if name else "left")
    groups: dict[str, ScheduleMetrics | GroupMetrics] = {
        "all": metrics,
        **metrics.by_partition,
        **metrics.by_size_class,
    }
    for name, group in groups.items():
        title = name
        if name in metrics.by_size_class:
            title = f"{name} processors"
        if name in metrics.by_partition and len(metrics.by_partition) == 1:
            continue
        for label, part in (("wait [s]", group.wait), ("response [s]", group.response)):
            cells = (part.mean, part.median, part.p95, part.max)
            table.add_row(f"  {title}: {label}", f"{part.n:,}", *(number(c) for c in cells))
    for label, part in (
        ("slowdown", metrics.slowdown),
        (f"bounded slowdown (tau {metrics.tau_s:g} s)", metrics.bounded_slowdown),
    ):
        cells = (part.mean, part.median, part.p95, part.max)
        table.add_row(f"  all: {label}", f"{part.n:,}", *(number(c) for c in cells))
    OUT.print(table)
    OUT.print(
        f"  makespan {quantity(metrics.makespan_s, 's')}, utilisation "
        f"{number(metrics.utilisation)}, while jobs arrive "
        f"{number(metrics.utilisation_at_arrival)}; {metrics.n_rejected:,} rejected, "
        f"{metrics.n_killed:,} killed",
        soft_wrap=True,
    )
    if metrics.n_restarts is not None and metrics.lost_proc_s is not None:
        OUT.print(
            f"  {metrics.n_restarts:,} restart{'' if metrics.n_restarts == 1 else 's'} of killed "
            f"jobs, which lost {number(metrics.lost_proc_s / 3600)} processor-hours",
            soft_wrap=True,
        )
    energy = metrics.energy
    if energy is not None:
        OUT.print(
            f"  energy {number(energy.energy_kwh)} kWh, cost {number(energy.energy_cost)}, power "
            f"{number(energy.mean_power_kw)} kW on average and {number(energy.peak_power_kw)} kW "
            f"at most, {energy.n_boots:,} boots of nodes",
            soft_wrap=True,
        )


def _cut(
    cluster: ClusterSpec, whole_nodes: int | None, shared_nodes: int | None, memory: str | None
) -> tuple[ClusterSpec, Allocation]:
    """Return the cluster divided into machines, if requested, and the allocation of jobs."""
    if whole_nodes is not None and shared_nodes is not None:
        raise SettingsError("--whole-nodes and --shared-nodes exclude each other; give one")
    if whole_nodes is not None:
        return cluster.in_machines_of(whole_nodes, _bytes(memory)), "whole_nodes"
    if shared_nodes is not None:
        return cluster.in_machines_of(shared_nodes, _bytes(memory)), "shared_nodes"
    if memory is not None:
        raise SettingsError(
            "--node-memory is the memory of a machine; give --whole-nodes or --shared-nodes too"
        )
    return cluster, "processors"


def _in_machines(scenario: Scenario) -> str:
    """Return ``, whole nodes, 4 machines of 2 processors``; empty if processors are counted."""
    if scenario.allocation == "processors":
        return ""
    n_machines = scenario.cluster.n_machines
    sizes = {spec.procs for part in scenario.cluster.partitions for spec in part.machines}
    of = " and ".join(f"{size:,}" for size in sorted(sizes))
    return (
        f", {scenario.allocation.replace('_', ' ')}, {n_machines:,} "
        f"machine{'' if n_machines == 1 else 's'} of {of} processor{'' if sizes == {1} else 's'}"
    )
