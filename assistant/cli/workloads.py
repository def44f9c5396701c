"""``workload describe LOG``, and how commands read a log."""

from pathlib import Path
from typing import Annotated

import typer

from assistant.applications.generating import is_model, load_model, task_words
from assistant.applications.workloads import highlights, look, percentiles
from assistant.cli.console import OUT, Json, print_json
from assistant.cli.models import model_dict, model_lines
from assistant.cli.options import ReadingRule
from assistant.errors import SettingsError
from assistant.report.words import number, quantity
from sim.api import (
    ReadingRules,
    Window,
    Workload,
    WorkloadProfile,
    load_workload,
    parse_duration,
    rules_from_texts,
)

Log = Annotated[
    Path,
    typer.Argument(
        help="A workload: a job log in SWF, JSONL, a table of openb, Philly, CloudSimPy or tasks; "
        "also gzipped.",
        show_default=False,
    ),
]
First = Annotated[
    int | None, typer.Option(help="Use only the first N jobs.", min=1, show_default=False)
]


def load_log(log: Path, first: int | None, reading: list[str] | None) -> Workload:
    """Return the jobs of a log, read as the command line says.

    Raises:
        SettingsError: a rule that is not of the form.
        SimError: the log cannot be read so.
    """
    return load_workload(log, rules=rules_of(reading), first=first)


def rules_of(reading: list[str] | None) -> ReadingRules:
    """Return the rules that the command line tells.

    Raises:
        SettingsError: one is not of the form.
        SimError: there is no such rule or choice.
    """
    chosen = {}
    for text in reading or []:
        rule, equals, choice = text.partition("=")
        if not equals:
            raise SettingsError(f"--reading '{text}' is not of the form unsorted=sort")
        chosen[rule.strip()] = choice.strip()
    return rules_from_texts(chosen)


def describe(
    log: Log,
    first: First = None,
    leave_out: Annotated[
        int, typer.Option(help="Leave the first N jobs out, while the machine fills.", min=0)
    ] = 0,
    begin: Annotated[
        str, typer.Option("--from", help="Only jobs from this long after the first on: 7d.")
    ] = "0s",
    end: Annotated[
        str | None,
        typer.Option("--to", help="Only jobs up to this long after the first.", show_default=False),
    ] = None,
    procs: Annotated[
        int | None,
        typer.Option(
            help="Processors to tell loads against; the log's own number if not given.", min=1
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Time zone of the log, such as Europe/Paris; its own word if not given.",
            show_default=False,
        ),
    ] = None,
    reading: ReadingRule = None,
    as_json: Json = False,
) -> int:
    """Say what a job log or a model holds, what stands out, and what reading it had to decide."""
    if is_model(log):
        return _describe_model(log, as_json)
    window = Window(leave_out, parse_duration(begin), None if end is None else parse_duration(end))
    workload = load_log(log, first, reading)
    seen = look(workload, window, procs, time_zone)
    described = seen.described
    if as_json:
        print_json({**described.to_dict(), "profile": seen.to_dict()})
        return 0
    OUT.print(described.name, style="bold")
    users = "unknown" if described.n_users is None else f"{described.n_users:,}"
    load = "unknown" if seen.offered_load is None else f"{seen.offered_load:.3f}"
    part = f" of {workload.n_jobs:,}" if described.n_jobs != workload.n_jobs else ""
    OUT.print(
        f"  {described.n_jobs:,}{part} jobs by {users} users over {quantity(described.span_s, 's')}"
    )
    OUT.print(f"  machine of {number(seen.procs)} processors, offered load {load}")
    for sentence in highlights(seen):
        OUT.print(f"  {sentence}", soft_wrap=True)
    for sentence in task_words(workload):
        OUT.print(f"  {sentence}", soft_wrap=True)
    for line in _percentile_lines(seen):
        OUT.print(line, soft_wrap=True)
    classes = ", ".join(f"{name}: {n:,}" for name, n in described.size_classes.items() if n)
    OUT.print(f"  jobs by processors: {classes}", soft_wrap=True)
    for note in described.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    return 0


def _describe_model(path: Path, as_json: bool) -> int:
    model = load_model(path)
    if as_json:
        print_json({"model": model_dict(model)})
        return 0
    OUT.print(f"a model of '{model.generator}'", style="bold")
    for line in model_lines(model):
        OUT.print(f"  {line}", soft_wrap=True)
    return 0


def _percentile_lines(seen: WorkloadProfile) -> list[str]:
    """Return the table of percentiles in lines; a narrow terminal folds them and loses no digit."""
    rows = percentiles(seen)
    quantiles = [f"p{float(q) * 100:g}" for q in rows[0].summary.quantiles]
    cells = [["", "mean", "least", *quantiles, "most"]]
    for row in rows:
        told, unit = row.summary, f" [{row.unit}]" if row.unit else ""
        values = (told.mean, told.least, *told.quantiles.values(), told.most)
        cells.append([f"{row.name}{unit}", *(number(value) for value in values)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  " + "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]  # fmt: skip
