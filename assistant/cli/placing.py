"""``simulate TRACE --machines FILE``: the pods of a trace, each placed on a machine."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from assistant.cli.console import OUT, print_json, say, table_of
from assistant.cli.per_job import write_placed_jobs
from assistant.errors import SettingsError
from assistant.report.words import number, quantity
from sim.api import (
    ClusterSpec,
    InstanceMetrics,
    Partition,
    Scenario,
    ThrottleWindow,
    Workload,
    check_scenario,
    known_names,
    parse_duration,
    read_machines,
    simulate,
    summarise_instances,
)

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
        help="With --machines, which of those that have room a pod gets: "
        + ", ".join(known_names()["placement"])
        + ".  [default: first_fit]",
        show_default=False,
    ),
]
Throttles = Annotated[
    list[str] | None,
    typer.Option(
        metavar=THROTTLE,
        help="With --machines, these run at a share of full speed for some time since the first "
        "submission; repeat it.",
    ),
]


def check_machines(
    machines: Path | None, rigid_only: Mapping[str, Any], placed_only: Mapping[str, Any]
) -> None:
    """Refuse options that would be passed over.

    Args:
        machines: what --machines says.
        rigid_only: options that mean something without --machines only, None if not given.
        placed_only: likewise with --machines only.

    Raises:
        SettingsError: one of them is given where it means nothing.
    """
    for option, value in (placed_only if machines is None else rigid_only).items():
        if value is None or value == []:
            continue
        if machines is None:
            raise SettingsError(f"{option} is for pods on machines; give --machines FILE too")
        raise SettingsError(
            f"{option} is not for pods on machines; leave it out, or leave out --machines"
        )


def cluster_of(machines: Path, workload: Workload) -> ClusterSpec:
    """Return the cluster of a list of machines.

    Raises:
        SettingsError: the workload has no tasks that could be placed on them.
        SimError: the list cannot be read, or no cluster can be like that.
    """
    if workload.tasks is None:
        raise SettingsError(
            f"--machines places pods, and the jobs of {workload.name} have no tasks; leave it out, "
            "or take --whole-nodes or --shared-nodes"
        )
    return ClusterSpec.of([Partition.of_machines("main", read_machines(machines))])


def throttle_of(text: str) -> ThrottleWindow:
    """Return a throttle window from a text such as ``gpu1,gpu2:1h:2h:cpu=0.6``.

    Raises:
        SettingsError: it has another form.
        SimError: a time is none, or there can be no such window.
    """
    names, *parts = text.split(":")
    told: dict[str, float] = {}
    try:
        begin, end, *shares = parts
        for share in shares:
            key, _, value = share.partition("=")
            if key not in ("cpu", "gpu") or key in told:
                raise ValueError(share)
            told[key] = float(value)
        if not told:
            raise ValueError(text)
    except ValueError:
        raise SettingsError(
            f"--throttle '{text}' is not of the form {THROTTLE}, with one share or both, for "
            "example gpu1,gpu2:1h:2h:cpu=0.6"
        ) from None
    machines = tuple(name.strip() for name in names.split(",") if name.strip())
    return ThrottleWindow(machines, parse_duration(begin), parse_duration(end), **told)


def rigid_note(workload: Workload) -> str | None:
    """Say, of a workload with tasks, that they are not placed; None if it has none."""
    if workload.tasks is None:
        return None
    return (
        "each job takes all its processors at once, as a rigid one; its pods are placed on "
        "machines with --machines FILE."
    )


def place(scenario: Scenario, engine: str, per_job: Path | None, *, as_json: bool) -> int:
    """Simulate instances on machines, print what it was like and return the exit code.

    Raises:
        SettingsError: the table of jobs cannot be written.
        SimError: the scenario cannot be simulated.
    """
    check_scenario(scenario)  # refuse what cannot be before anything slow begins
    result = simulate(scenario, engine=engine)
    metrics = summarise_instances(scenario, result)
    if as_json:
        how = {"engine": result.engine, "note": result.note}
        print_json({"scenario": scenario.digest, **how, **asdict(metrics)})
    else:
        if result.note is not None:
            say(f"note: {result.note}")
        _print_metrics(scenario, metrics, result.engine)
    if per_job is not None:
        write_placed_jobs(per_job, scenario, result)
    return 0


def _print_metrics(scenario: Scenario, metrics: InstanceMetrics, engine: str) -> None:
    n_machines = scenario.cluster.n_machines
    OUT.print(
        f"{scenario.workload.name}  {metrics.n_jobs:,} jobs, {metrics.n_instances:,} pods on "
        f"{n_machines:,} machine{'' if n_machines == 1 else 's'}, {scenario.order}, "
        f"backfill {scenario.backfill}, placement {scenario.placement}, engine {engine}",
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
            told = ", ".join(f"{name} {number(share)}" for name, share in shares.items())
            OUT.print(f"  {label}: {told}", soft_wrap=True)
    OUT.print(
        f"  makespan {quantity(metrics.makespan_s, 's')}; {metrics.n_rejected:,} rejected",
        soft_wrap=True,
    )
