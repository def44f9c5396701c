"""``workload capacity``: how many servers suffice in 95 % of the generated futures."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant import charts_clouds
from assistant.applications.capacity import (
    CAPACITY_DEFINITIONS,
    HEADINGS,
    Server,
    answer,
    curves,
    model_for,
    notes,
    plan_capacity,
    rows,
    suppositions,
)
from assistant.applications.generating import knobs_of, settings_of
from assistant.cli.console import ERR, OUT, Json, print_json
from assistant.cli.options import ReadingRule
from assistant.cli.working import working
from assistant.cli.workloads import rules_of
from assistant.report.picture import check_picture, write_picture
from sim.api import GENERATORS, Window, parse_duration

_KNOWN = ", ".join(one.name for one in GENERATORS)


def capacity(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|LOG", show_default=False,
            help="A model (.json), a log that one is fitted to, or a published generator.",
        ),
    ],
    cores_per_server: Annotated[
        int, typer.Option(help="Processors of a server.", min=1, show_default=False)
    ],
    memory_per_server: Annotated[
        int | None,
        typer.Option(help="Bytes of memory of a server; not looked at if not given.", min=1,
                     show_default=False),
    ] = None,
    days: Annotated[float, typer.Option(help="The servers shall suffice for so many days.")] = 7.0,
    futures: Annotated[int, typer.Option(help="Generated for each case.", min=1)] = 200,
    share: Annotated[
        float, typer.Option(help="Of the futures, in which the servers shall suffice.")
    ] = 0.95,
    scale: Annotated[
        list[float] | None,
        typer.Option(help="Factor on the rate of arrivals; several give a case each [default: 1]."),
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What if a parameter had another value."),
    ] = None,
    warm_up: Annotated[
        float | None,
        typer.Option(help="Days generated before those that count; chosen by the lifetimes if not "
                     "given.", show_default=False),
    ] = None,
    first_fit: Annotated[
        bool, typer.Option(help="Place the jobs too; without it only the fluid bound is told.")
    ] = True,
    generator: Annotated[
        str, typer.Option(help=f"Fitted to a log: {_KNOWN}.")
    ] = "three_stage",
    knob: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="How it is fitted; see the guide."),
    ] = None,
    leave_out: Annotated[int, typer.Option(help="Leave the log's first N jobs out.", min=0)] = 0,
    begin: Annotated[
        str, typer.Option("--from", help="Only jobs of the log from this long after the first on.")
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--until", help="Only jobs up to this long after the first.",
                     show_default=False),
    ] = None,
    reading: ReadingRule = None,
    seed: Annotated[int, typer.Option(help="Of the first future.", min=0)] = 0,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw in how many futures so many servers suffice: .svg, .png, .html.",
                     show_default=False),
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Say how many servers suffice in 95 % of the futures of a model, with intervals."""
    if picture is not None:
        check_picture(picture)
    server = Server(cores_per_server, memory_per_server)
    window = Window(leave_out, parse_duration(begin), None if end is None else parse_duration(end))
    with working(f"Reading {Path(what).name} …"):
        model = model_for(
            what, generator, knobs_of(knob or []), window=window, rules=rules_of(reading)
        )
    supposed = suppositions(model, settings_of(setting or [], "--set"))
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as shown:
        task = shown.add_task("")
        plan = plan_capacity(
            model, server, days=days, futures=futures, share=share, scales=scale or [1.0],
            suppositions=supposed, warm_up_days=warm_up, packed=first_fit, seed=seed,
            told=lambda case, done, of: shown.update(
                task, description=case, completed=done, total=of
            ),
        )  # fmt: skip
    if picture is not None:
        spec = charts_clouds.servers(curves(plan), plan.share)
        write_picture(spec, picture, "Servers that suffice")
    if as_json:
        print_json({**plan.to_dict(), "answer": answer(plan), "notes": list(notes(plan))})
        return 0
    OUT.print(answer(plan), style="bold", soft_wrap=True)
    OUT.print(f"  drawn from '{plan.generator}': {plan.source}", soft_wrap=True)
    for note in notes(plan):
        OUT.print(f"  note: {note}", soft_wrap=True)
    cells = [HEADINGS, *rows(plan)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        told_cells = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(told_cells)}".rstrip(), soft_wrap=True)
    for name, meaning in CAPACITY_DEFINITIONS.items():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    return 0
