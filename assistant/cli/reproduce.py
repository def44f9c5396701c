"""``copperline agents reproduce``: the evaluation of the paper, played again and judged."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, Json, print_json, table_of
from assistant.cli.options import FirstJobs
from assistant.errors import SettingsError


def reproduce(
    to: Annotated[Path, typer.Option("--to", help="Folder of the results.")],
    figure: Annotated[
        str, typer.Option(help="5, 6, 7, 8, 9, compare, several of them with commas, or all.")
    ] = "all",
    replications: Annotated[
        int | None, typer.Option(help="Episodes per cell.  [default: 500, quick 20]", min=1)
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few episodes, fewer confidences and budgets.")
    ] = False,
    application: Annotated[
        list[str] | None,
        typer.Option(help="Only flood, scheduling or maze; may be repeated.", show_default=False),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(help="Job log (SWF, also .gz) of scheduling.", show_default=False),
    ] = None,
    first: FirstJobs = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core.", min=1)] = None,
    as_json: Json = False,
) -> int:
    """Reproduce the paper's evaluation with simulated analysts, and judge its claims.

    Measures the three search spaces, plays a study per figure, and writes report.html, report.md,
    verdicts.json and the figures. What was interrupted goes on in the same folder.
    """
    from agents import FIGURE_NAMES, Recipe, Space, evaluation_as_json, tally, write_evaluation
    from agents import reproduce as play
    from assistant.applications.paper_tables import NAMES, paper_table

    figures = FIGURE_NAMES if figure == "all" else tuple(figure.split(","))
    names = tuple(dict.fromkeys(application or NAMES))
    if log is not None and "scheduling" not in names:
        raise SettingsError("--log is the log of scheduling, which is not among --application")
    Recipe(figures, tuple(Space(name, to) for name in names))  # refuses now, not after the tables
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as shown:
        task = shown.add_task("", total=None)

        def tell(what: str, done: int, total: int | None) -> None:
            shown.update(task, description=what, completed=done, total=total)

        tables = []
        for name in names:
            found = paper_table(
                name, to / "tables", log=log, first=first, threads=workers,
                progress=partial(tell, f"Table {name}", total=None),
            )  # fmt: skip
            tables.append(Space(name, found.path, found.told))
        done = play(Recipe(figures, tuple(tables), replications, quick), to, workers, tell)
    written = write_evaluation(done, to)
    if as_json:
        print_json({**evaluation_as_json(done), "report": str(written[0])})
        return 0
    rows = table_of("figure", "application", "claim", "verdict", left=4)
    for one in done.verdicts:
        rows.add_row(one.figure, one.table, one.claim, one.outcome)
    OUT.print(rows)
    OUT.print(tally(done.verdicts), soft_wrap=True)
    OUT.print(", ".join(map(str, written)), soft_wrap=True)
    return 0
