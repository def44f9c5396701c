"""``workload validate --train A --test B``: how well generators foresee a window of a cloud."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.applications.clouds import (
    CLOUD_GENERATORS,
    chosen_generators,
    cloud_report,
    read_windows,
)
from assistant.cli.clouds_words import headline, packing_words, tables
from assistant.cli.console import ERR, OUT, print_json
from assistant.cli.working import working
from assistant.report.html import check_target, write_page
from sim.api import CLOUD_DEFINITIONS, ReadingRules

Train = Annotated[
    Path | None, typer.Option(help="Learn from this log, and foresee --test.", show_default=False)
]
Test = Annotated[
    Path | None, typer.Option(help="A later log, which is foreseen.", show_default=False)
]
Lifetimes = Annotated[
    Path | None,
    typer.Option(
        help="Learn lifetimes from this file of Bergsma et al., if --train has none.",
        show_default=False,
    ),
]
WhichGenerator = Annotated[
    str, typer.Option(help=f"With --train: {', '.join(CLOUD_GENERATORS)}, or all.")
]
HowMany = Annotated[
    int, typer.Option(help="With --train: windows that each generator draws.", min=2)
]
HowManyPackings = Annotated[
    int,
    typer.Option(help="With --train: packings of each onto servers; 0 leaves them out.", min=0),
]
Knob = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="With --train: how it is fitted; see the guide."),
]
Page = Annotated[
    Path | None,
    typer.Option(help="With --train: write a report with pictures here.", show_default=False),
]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is foreseen from what, and how; see the options above."""

    train: Path
    test: Path
    lifetimes: Path | None
    generator: str
    windows: int
    seed: int
    html: Path | None
    packings: int
    knobs: Mapping[str, float | str]


def foresee(asked: Asked, rules: ReadingRules, *, as_json: bool) -> int:
    """Fit, draw, score, and say it. Nothing is written before all of it is there."""
    generators = chosen_generators(asked.generator)
    if asked.html is not None:
        check_target(asked.html)
    with working(f"Reading {asked.train.name} and {asked.test.name} …"):
        windows = read_windows(asked.train, asked.test, asked.lifetimes, rules, asked.knobs)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as shown:
        task = shown.add_task("")

        def told(what: str, done: int, of: int) -> None:
            shown.update(task, description=what, completed=done, total=of)

        found = cloud_report(
            windows, generators=generators, n_windows=asked.windows, seed=asked.seed,
            knobs=asked.knobs, n_packings=asked.packings, told=told,
        )  # fmt: skip
    if asked.html is not None:
        from assistant.cli.clouds_page import render_html

        with working("Drawing …"):
            page = render_html(found)
        write_page(page, asked.html)
    if as_json:
        told_file = {} if asked.html is None else {"html": str(asked.html)}
        print_json({**found.to_dict(), **told_file})
        return 0
    OUT.print(headline(found), style="bold", soft_wrap=True)
    for note in found.notes:
        OUT.print(f"  note: {note}", soft_wrap=True)
    for title, (heads, rows) in tables(found).items():
        OUT.print(f"{title}", style="bold", soft_wrap=True)
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        for line in (heads, *rows):
            cells = [
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            OUT.print(f"  {'  '.join(cells)}".rstrip(), soft_wrap=True)
    OUT.print(packing_words(found), soft_wrap=True)
    for name, meaning in CLOUD_DEFINITIONS.items():
        OUT.print(f"{name}: {meaning}", soft_wrap=True)
    if asked.html is not None:
        OUT.print(f"report: {asked.html}", soft_wrap=True)
    return 0
