"""``workload pack``: how full servers are when the first job fits nowhere."""

from pathlib import Path
from typing import Annotated

import typer

from assistant.applications.generating import is_model, load_model
from assistant.applications.packing import (
    CORES_ONLY,
    futures_of,
    pack_workloads,
    packing_notes,
    ranges_of,
    summary_rows,
    tuples_of,
)
from assistant.cli.console import OUT, Json, print_json
from assistant.cli.options import ReadingRule
from assistant.cli.working import working
from assistant.cli.workloads import First, Log, load_log
from assistant.errors import SettingsError
from sim.api import PACKING_RULES, Workload

_KNOWN = ", ".join(rule.name for rule in PACKING_RULES)


def pack(
    log: Log,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG|MODEL", help="Another workload, or a model that windows are drawn from.",
            show_default=False,
        ),
    ] = None,
    tuples: Annotated[int, typer.Option(help="Packings that are drawn.", min=1)] = 500,
    seed: Annotated[int, typer.Option(help="Of the draws.", min=0)] = 1,
    tuples_file: Annotated[
        Path | None,
        typer.Option(
            help="Take the packings of this CSV file; if it is not there, write them to it.",
            show_default=False,
        ),
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option(help=f"Only this one, or these: {_KNOWN}.")
    ] = None,
    departures: Annotated[
        bool, typer.Option("--departures/--no-departures", help="Whether jobs leave.")
    ] = True,
    cores_only: Annotated[
        bool, typer.Option("--cores-only", help="Pack by cores, without memory.")
    ] = False,
    servers: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="How many.  [default: 40:200]", show_default=False),
    ] = None,
    cores: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="Of each.  [default: 32:96]", show_default=False),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(metavar="LOW:HIGH", help="GiB a core.  [default: 2:4]", show_default=False),
    ] = None,
    windows: Annotated[int, typer.Option(help="Drawn from a model.", min=1, max=1000)] = 10,
    demand: Annotated[
        float, typer.Option(help="Factor on the arrivals of a model: 10 is ten times the jobs.")
    ] = 1.0,
    first: First = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Say how full servers are when the first job fits nowhere (FFAR), by four algorithms."""
    drawn = against is not None and is_model(against)
    if demand != 1.0 and not drawn:
        raise SettingsError("--demand is for what is drawn: give --against a model (.json)")
    names = list(algorithm or (CORES_ONLY if cores_only else ()))
    chosen = tuples_of(tuples, seed, tuples_file, ranges_of(servers, cores, memory), names)
    with working(f"Reading {log.name} …"):
        jobs = load_log(log, first, reading)
    sides: list[tuple[str, tuple[Workload, ...]]] = [(log.name, (jobs,))]
    if against is not None:
        with working(f"{'Drawing' if drawn else 'Reading'} {against.name} …"):
            others = (
                futures_of(load_model(against), jobs, windows, seed, demand)
                if drawn
                else (load_log(against, None, reading),)
            )
        sides.append((against.name, others))
    with working(f"Packing {len(chosen):,} times …"):
        found = [
            pack_workloads(some, chosen, departures=departures, by_memory=not cores_only)
            for _, some in sides
        ]
    if as_json:
        print_json(
            {
                "n_tuples": len(chosen), "seed": seed, "departures": departures,
                "by_memory": not cores_only, "demand": demand,
                "traces": [
                    {"file": name, **one.to_dict()}
                    for (name, _), one in zip(sides, found, strict=True)
                ],
            }
        )  # fmt: skip
        return 0
    resource = "cores" if cores_only else "the resource that limits"
    OUT.print(
        f"How much of {resource} is allocated when the first job fits nowhere; {len(chosen):,} "
        f"packings{'' if departures else ', nobody leaves'}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    headings = [""]
    for name, _ in sides:
        headings += [f"{name}: median", "above 95 %", "cores limit"]
    cells = [headings, *summary_rows(found)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        told = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(told)}".rstrip(), soft_wrap=True)
    for note in packing_notes(found):
        OUT.print(f"  note: {note}", soft_wrap=True)
    if tuples_file is not None:
        OUT.print(f"  the packings are those of {tuples_file}", soft_wrap=True)
    return 0
