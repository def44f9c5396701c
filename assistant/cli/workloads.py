"""Commands that only need the simulator: ``simulate LOG`` and ``workload describe LOG``."""

import csv
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from assistant.cli.console import OUT, Json, print_json, say
from assistant.cli.explain import print_explanation
from assistant.cli.options import ReadingRule
from assistant.errors import SettingsError
from assistant.report.words import cell, number, quantity
from sim.api import (
    ClusterSpec,
    GroupMetrics,
    JobState,
    Metrics,
    Partition,
    Scenario,
    SimulationResult,
    UnknownNameError,
    Workload,
    check_scenario,
    explain,
    known_names,
    load_workload,
    parse_duration,
    rules_from_texts,
    summarise,
)
from sim.api import describe as describe_workload
from sim.api import simulate as run_simulation

Log = Annotated[Path, typer.Argument(help="A job log in SWF, also gzipped.", show_default=False)]
First = Annotated[
    int | None, typer.Option(help="Use only the first N jobs.", min=1, show_default=False)
]
MOST_MEMORY_T = 2**53 // 1024**4
"""No machine has more memory than 2**53 bytes."""


def _load(log: Path, first: int | None, reading: list[str] | None) -> Workload:
    chosen = {}
    for text in reading or []:
        rule, equals, choice = text.partition("=")
        if not equals:
            raise SettingsError(f"--reading '{text}' is not of the form unsorted=sort")
        chosen[rule.strip()] = choice.strip()
    return load_workload(log, rules=rules_from_texts(chosen), first=first)


def describe(
    log: Log, first: First = None, reading: ReadingRule = None, as_json: Json = False
) -> int:
    """Say what a job log holds, and what reading it had to decide."""
    workload = _load(log, first, reading)
    described = describe_workload(workload)
    if as_json:
        print_json(described.to_dict())
        return 0
    OUT.print(described.name, style="bold")
    users = "unknown" if described.n_users is None else f"{described.n_users:,}"
    load = "unknown" if described.offered_load is None else f"{described.offered_load:.3f}"
    OUT.print(
        f"  {described.n_jobs:,} jobs by {users} users over {quantity(described.span_s, 's')}"
    )
    OUT.print(f"  machine of {number(described.max_procs)} processors, offered load {load}")
    table = Table(box=None, header_style="dim", pad_edge=False)
    quantiles = list(described.procs.quantiles)
    for name in ("", "mean", "least", *(f"p{float(q) * 100:g}" for q in quantiles), "most"):
        table.add_column(name, justify="left" if not name else "right")
    columns = {
        "processors": described.procs,
        "run time [s]": described.runtime_s,
        "requested [s]": described.requested_s,
        "between submissions [s]": described.interarrival_s,
    }
    for name, column in columns.items():
        if column is not None:
            cells = (column.mean, column.least, *column.quantiles.values(), column.most)
            table.add_row(f"  {name}", *(number(cell) for cell in cells))
    OUT.print(table)
    classes = ", ".join(f"{name}: {n:,}" for name, n in described.size_classes.items() if n)
    OUT.print(f"  jobs by processors: {classes}", soft_wrap=True)
    for note in described.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    return 0


def simulate(
    log: Log,
    procs: Annotated[
        int | None,
        typer.Option(help="Processors; the log's own number if not given.", min=1),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:PROCS[:MAX_REQUESTED[:MAX_PROCS]]",
            help="A partition; repeat it. A job goes to the first that admits it.",
        ),
    ] = None,
    whole_nodes: Annotated[
        int | None,
        typer.Option(
            metavar="PROCS",
            help="Machines have so many processors, and a job takes whole ones.",
            min=1,
            show_default=False,
        ),
    ] = None,
    node_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Memory of a machine, such as 64G; jobs are held to what they requested.",
            show_default=False,
        ),
    ] = None,
    order: Annotated[str, typer.Option(help="fcfs or sjf.")] = "fcfs",
    backfill: Annotated[str, typer.Option(help="none or easy.")] = "easy",
    overrun: Annotated[str, typer.Option(help="Jobs outliving their request: raise, kill.")] = (
        "raise"
    ),
    too_wide: Annotated[str, typer.Option(help="Jobs that fit nowhere: refuse, reject, clip.")] = (
        "refuse"
    ),
    engine: Annotated[
        str, typer.Option(help="auto, compiled, interpreted or process; all give the same.")
    ] = "auto",
    first: First = None,
    reading: ReadingRule = None,
    per_job: Annotated[
        Path | None, typer.Option(help="Write one CSV line per job here.", show_default=False)
    ] = None,
    explain_job: Annotated[
        int | None,
        typer.Option(
            "--explain",
            metavar="JOB",
            help="Instead of measuring, say why the job of this number started when it did.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Replay a job log on a cluster and measure waits, responses, slowdowns and utilisation."""
    if engine not in known_names()["engine"]:
        raise UnknownNameError("engine", engine, known_names()["engine"])
    if explain_job is not None:
        _only_to_explain(engine, per_job)
    if per_job is not None:
        _check_writable(per_job)
    workload = _load(log, first, reading)
    cluster = _cluster(workload, procs, partition or [])
    if whole_nodes is not None:
        cluster = cluster.in_machines_of(whole_nodes, _bytes(node_memory))
    elif node_memory is not None:
        raise SettingsError("--node-memory says how much a machine has; give --whole-nodes too")
    scenario = Scenario(
        workload,
        cluster,
        allocation="processors" if whole_nodes is None else "whole_nodes",
        order=order,
        backfill=backfill,
        overrun=overrun,  # type: ignore[arg-type]  # the scenario checks the word
        too_wide=too_wide,  # type: ignore[arg-type]
    )
    check_scenario(scenario)  # refuse what cannot be before anything slow begins
    if explain_job is not None:
        explained = explain(scenario, explain_job)
        if as_json:
            told = {"scenario": scenario.digest, "engine": "process"}
            print_json({**told, "explanation": asdict(explained)})
        else:
            print_explanation(explained, workload)
        return 0
    result = run_simulation(scenario, engine=engine)
    if result.note is not None and not as_json:
        say(f"note: {result.note}")
    metrics = summarise(scenario, result)
    if as_json:
        how = {"engine": result.engine, "note": result.note}
        print_json({"scenario": scenario.digest, **how, **asdict(metrics)})
    else:
        _print_metrics(scenario, metrics, result.engine)
    if per_job is not None:
        _write_jobs(per_job, scenario, result)
    return 0


def _only_to_explain(engine: str, per_job: Path | None) -> None:
    """Refuse options that an explanation would pass over."""
    if per_job is not None:
        raise SettingsError("give --explain or --per-job, not both: --explain writes no table")
    if engine not in ("auto", "process"):
        raise SettingsError(
            f"--explain looks on while the engine 'process' runs; leave out --engine {engine}, "
            "as all engines give the same schedule"
        )


def _cluster(workload: Workload, procs: int | None, partitions: list[str]) -> ClusterSpec:
    if partitions:
        if procs is not None:
            raise SettingsError("give --procs or --partition, not both")
        return ClusterSpec(tuple(_partition(text) for text in partitions))
    size = procs if procs is not None else workload.max_procs
    if size is None:
        raise SettingsError(
            f"{workload.name} does not say how many processors its machine has; "
            f"name them with --procs (its widest job uses {workload.widest_procs})"
        )
    return ClusterSpec.single(size)


def _bytes(text: str | None) -> int | None:
    """Return a size such as 64G in bytes; the units are powers of 1,024."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+)\s*([KMGT])(?:i?B)?\s*", text, re.IGNORECASE)
    if found is None or not found[1].strip("0"):
        raise SettingsError(
            f"--node-memory '{text}' is not a size; allowed are whole numbers from 1 with K, M, G "
            "or T (powers of 1,024), for example 64G"
        )
    exponent = 1 + "KMGT".index(found[2].upper())
    digits, most = found[1].lstrip("0"), MOST_MEMORY_T * 1024**4
    if len(digits) > len(str(most)) or int(digits) * 1024**exponent > most:
        shown = text.strip() if len(text) <= 40 else f"{text.strip()[:40]}..."
        raise SettingsError(f"--node-memory '{shown}' is more than {MOST_MEMORY_T}T, the most")
    return int(digits) * int(1024**exponent)


def _partition(text: str) -> Partition:
    parts = text.split(":")
    try:
        if not 2 <= len(parts) <= 4:
            raise ValueError(text)
        size = int(parts[1])
        limit = int(parts[3]) if len(parts) == 4 and parts[3] else None
    except ValueError:
        raise SettingsError(
            f"--partition '{text}' is not of the form NAME:PROCS[:MAX_REQUESTED[:MAX_PROCS]], "
            "for example small:32:1h:8"
        ) from None
    longest = parse_duration(parts[2]) if len(parts) > 2 and parts[2] else None
    return Partition(parts[0], size, max_requested_s=longest, max_procs=limit)


def _print_metrics(scenario: Scenario, metrics: Metrics, engine: str) -> None:
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
    groups: dict[str, Metrics | GroupMetrics] = {
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


def _in_machines(scenario: Scenario) -> str:
    """Return ``, whole nodes, 4 machines of 2 processors``, or nothing if they are counted."""
    if scenario.allocation != "whole_nodes":
        return ""
    n_machines = scenario.cluster.n_machines
    sizes = {spec.procs for part in scenario.cluster.partitions for spec in part.machines}
    of = " and ".join(f"{size:,}" for size in sorted(sizes))
    return (
        f", whole nodes, {n_machines:,} machine{'' if n_machines == 1 else 's'} of {of} "
        f"processor{'' if sizes == {1} else 's'}"
    )


def _check_writable(path: Path) -> None:
    """Refuse, before anything slow begins, a file that cannot be written."""
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


def _write_jobs(path: Path, scenario: Scenario, result: SimulationResult) -> None:
    workload = scenario.workload
    names = [*scenario.cluster.names, ""]
    placement, machines = result.placement, np.array(scenario.cluster.machine_names, dtype=object)
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            header = ["job_id", "submit_s", "start_s", "end_s", "wait_s", "procs", "partition"]
            header += ["state"] if placement is None else ["state", "machines"]
            writer.writerow(header)
            for i in range(workload.n_jobs):
                start_s = result.start_s[i]
                ran = not np.isnan(start_s)
                times = (
                    [start_s, result.end_s[i], start_s - workload.submit_s[i]] if ran else [""] * 3
                )
                writer.writerow(
                    [
                        workload.job_id[i], workload.submit_s[i], *times, workload.procs[i],
                        cell(names[result.partition[i]]),
                        JobState(int(result.state[i])).name.lower(),
                        *([] if placement is None else [cell(" ".join(machines[placement.of(i)]))]),
                    ]
                )  # fmt: skip
    except OSError as error:
        raise SettingsError(f"cannot write '{path}': {error.strerror}") from error
