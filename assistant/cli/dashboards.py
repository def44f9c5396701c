"""``copperline platform``: what a trace of an AI platform holds, and how like a log it is."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assistant.cli.console import OUT, Json, print_json
from assistant.cli.text_drawing import day_text
from assistant.cli.working import working
from assistant.errors import SettingsError
from assistant.report.html import check_target
from assistant.report.platform import LIKENESS, likeness_rows, write_dashboard, write_likeness

if TYPE_CHECKING:
    from assistant.applications.platform_view import Dashboard


def describe(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="A trace, as `play ai_platform --trace` writes it.",
            show_default=False,
        ),
    ],
    report: Annotated[
        Path | None, typer.Option(help="Write it as a page (HTML).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:  # fmt: skip
    """Say what a trace of an AI platform holds: tasks, waits, use, arrivals, models, over time."""
    from assistant.applications.platform_view import traced

    if report is not None:
        check_target(report)
    with working(f"Reading {folder} …"):
        board = traced(folder)
    written = None if report is None else write_dashboard(board, report)
    if as_json:
        print_json({**as_table(board), "report": None if written is None else str(written)})
        return 0
    OUT.print(board.title, style="bold", soft_wrap=True)
    for name, value in board.parameters:
        OUT.print(f"  {name}: {value}", soft_wrap=True)
    for sentence in board.words:
        OUT.print(sentence, soft_wrap=True)
    for panel in board.day.panels:
        for line in day_text(panel):
            OUT.print(line, soft_wrap=True)
    for title, (header, rows) in board.tables.items():
        OUT.print(f"{title}", style="bold")
        _print_rows(header, rows)
    if written is not None:
        OUT.print(f"Report: {written}", soft_wrap=True)
    return 0


def validate(
    log: Annotated[
        Path | None,
        typer.Argument(
            metavar="[LOG]",
            help="Executed tasks, CSV or Parquet; else a built-in example.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Statistics that were fitted before; else they are fitted to the log now.",
            show_default=False,
        ),
    ] = None,
    weeks: Annotated[int, typer.Option(help="To simulate.", min=1, max=520)] = 4,
    seed: Annotated[
        int, typer.Option(help="Of the simulation, and of a fit.", min=0, max=2**32 - 1)
    ] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Write the Q-Q plots as a page (HTML).", show_default=False)
    ] = None,
    as_json: Json = False,
) -> int:
    """Say how like a log of an AI platform its simulation is: Q-Q, KS, Wasserstein, hours."""
    from assistant.applications.platform_accuracy import as_table as told
    from assistant.applications.platform_accuracy import likeness

    if report is not None:
        check_target(report)
    if report is not None and report.suffix.lower() not in (".html", ".htm"):
        raise SettingsError(f"the report '{report}' must end in .html")
    doing = "Fitting and simulating" if model is None else "Simulating"
    with working(f"{doing} …"):
        found = likeness(log, model, weeks=weeks, seed=seed)
    written = None if report is None else write_likeness(found, report)
    if as_json:
        print_json({**told(found), "report": None if written is None else str(written)})
        return 0
    OUT.print(
        f"{found.log}: {found.n_observed:,} executed tasks beside {found.n_simulated:,} simulated "
        f"pipelines of {found.weeks} weeks (seed {found.seed}; statistics {found.source})",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    OUT.print(found.headline, soft_wrap=True)
    _print_rows(LIKENESS, likeness_rows(found))
    for name, bands in found.hours.items():
        OUT.print(
            f"Arrivals by hour of the week, {name}: {bands.within:.0%} of the hours lie within the "
            "bands.",
            soft_wrap=True,
        )
    if not found.hours:
        OUT.print("Hours of the week are compared over two whole weeks or more of both.")
    if written is not None:
        OUT.print(f"Report: {written}", soft_wrap=True)
    return 0


def _print_rows(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for line in (header, *rows):
        cells = [
            cell.rjust(width) if 0 < i < len(line) - 1 or cell[:1].isdigit() else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        OUT.print(f"  {'  '.join(cells)}".rstrip(), soft_wrap=True)


def as_table(board: "Dashboard") -> dict[str, object]:
    """Return a dashboard for programs."""
    summary = board.summary
    return {
        "title": board.title,
        "parameters": dict(board.parameters),
        "pipelines": summary.n_pipelines,
        "started_by": dict(summary.started_by),
        "outcomes": dict(summary.outcomes),
        "pipeline_wait": asdict(summary.pipeline_wait),
        "tasks": [asdict(one) for one in summary.tasks],
        "waits": {name: asdict(one) for name, one in summary.waits.items()},
        "over_time": {
            "start_h": board.over_time.start_h,
            "step_h": board.over_time.step_h,
            "panels": [asdict(panel) for panel in board.over_time.panels],
        },
        "day": [asdict(panel) for panel in board.day.panels],
        "sentences": board.words,
    }
