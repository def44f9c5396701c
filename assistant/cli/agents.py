"""``copperline agents``: studies of simulated analysts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, Json, print_json, say, table_of

MOST_SHOWN = 60


def run(
    study: Annotated[Path, typer.Argument(help="A study (TOML).", show_default=False)],
    to: Annotated[Path, typer.Option("--to", help="Folder of its results.")],
    workers: Annotated[
        int | None,
        typer.Option(help="Processes; as the study says, else one per core.", min=1),
    ] = None,
    as_json: Json = False,
) -> int:
    """Play a study; one that was interrupted goes on in the same folder.

    The folder gets ``results.parquet`` (a row per episode), ``summary.csv`` (a row per cell) and
    ``report.html``. The same study gives the same results, whatever the number of processes.
    """
    from agents import play_study, read_study, study_as_json, study_rows, write_report

    wanted, text, said = read_study(study)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERR, transient=True) as shown:
        task = shown.add_task("", total=None)
        reached = [0, 0]

        def tell(done: int, total: int) -> None:
            reached[:] = done, total
            shown.update(task, completed=done, total=total)

        try:
            finished = play_study(wanted, to, text, workers or said, tell)
        except KeyboardInterrupt:
            shown.stop()
            done, total = reached
            say(f"Stopped: {done:,} of {total:,} episodes are kept in {to}; run it again to go on.")
            raise
    written = write_report(finished, to)
    if as_json:
        print_json(study_as_json(finished, to))
        return 0
    header, rows = study_rows(finished)
    table = table_of(*header, left=len(header) - 3)
    for row in rows[:MOST_SHOWN]:
        table.add_row(*row)
    OUT.print(table)
    if len(rows) > MOST_SHOWN:
        say(f"and {len(rows) - MOST_SHOWN} more cells: {to / 'summary.csv'}")
    OUT.print(
        f"{to / 'results.parquet'}, {', '.join(path.name for path in written)}", soft_wrap=True
    )
    return 0


def list_kinds(as_json: Json = False) -> int:
    """List the kinds of analyst that a study can name."""
    from agents import AGENTS

    if as_json:
        print_json({"kinds": [{"name": e.name, "summary": e.summary} for e in AGENTS]})
        return 0
    table = table_of("kind", "what it does", left=2)
    for entry in AGENTS:
        table.add_row(entry.name, entry.summary)
    OUT.print(table)
    return 0
