"""``copperline tabulate``: simulate every allowed combination and write a measured table."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from assistant.applications import Flood, Maze, Scheduling
from assistant.applications.tabulating import Question
from assistant.applications.tabulating import tabulate as tabulate_all
from assistant.cli.console import ERR, OUT, Json, print_json, say
from assistant.cli.options import (
    Backfill,
    Exclude,
    FirstJobs,
    JobLog,
    Levels,
    Order,
    PolicyOptions,
    PresetName,
    Procs,
    ReadingRule,
    SweepFile,
    TooWide,
    merge_options,
    sweep_tables,
)
from assistant.errors import SettingsError
from assistant.files import is_folder
from assistant.report.words import quantity
from assistant.settings import build_sweep, check_settings


def tabulate(
    out: Annotated[Path, typer.Option("--out", help="Write the table (CSV) here.")],
    file: SweepFile = None,
    log: JobLog = None,
    first: FirstJobs = None,
    procs: Procs = None,
    order: Order = None,
    backfill: Backfill = None,
    preset: PresetName = None,
    levels: Levels = None,
    policy_option: PolicyOptions = None,
    reading: ReadingRule = None,
    too_wide: TooWide = None,
    exclude: Exclude = None,
    feasible: Annotated[
        bool, typer.Option("--feasible", help="Leave out what violates a constraint.")
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(
            help="Simulations at once.  [default: one per core; of flood and maze one]", min=1
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Simulate every allowed combination of a scheduling sweep, of flood or of maze.

    The table has a column per parameter and ``objective``, which is to be minimised: what
    ``copperline sweep --table`` takes, and the truth to compare a search with. What was
    interrupted goes on where it stopped.
    """
    tables: dict[str, Any] = sweep_tables(file)
    where = str(file) if file is not None else "options"
    check_settings(tables, where)
    merge_options(
        tables,
        log=log, first=first, procs=procs, order=order, backfill=backfill,
        levels=levels or [], preset=preset, policy_options=policy_option or [],
        reading=reading or [], too_wide=too_wide,
        table=None, exclude=exclude or [], strategy=None,
    )  # fmt: skip
    built = build_sweep(check_settings(tables, where))
    application = built.application
    if not isinstance(application, Scheduling | Flood | Maze):
        raise SettingsError(
            f"tabulate simulates; the application '{application.name}' is a program or a table, "
            "and every combination would be a run of it: use copperline sweep"
        )
    question = Question(application, built.space, built.objective)
    if is_folder(out) or not is_folder(out.absolute().parent):
        raise SettingsError(f"--out '{out}' cannot be written: its folder is missing, or it is one")
    return _write(question, out, threads, feasible, as_json)


def _write(
    question: Question, out: Path, threads: int | None, feasible: bool, as_json: bool
) -> int:
    n_allowed = question.space.count_allowed()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=ERR, transient=True) as shown:
            task = shown.add_task("", total=n_allowed)
            found = tabulate_all(
                question, out, feasible_only=feasible, threads=threads,
                progress=lambda done: shown.update(task, completed=done),
            )  # fmt: skip
    except KeyboardInterrupt:
        say(f"Stopped; what was measured is kept in {out}.part, and the same command goes on.")
        raise
    objective, best = question.objective, found.best
    reached = None
    if best is not None:
        reached = best.value if objective.goal == "minimise" else -best.value
    if as_json:
        told = None if best is None else {"configuration": best.values, "value": reached}
        print_json(
            {
                "table": str(out), "rows": found.rows, "feasible": found.feasible, "best": told,
                "taken_up": found.taken_up,
            }
        )  # fmt: skip
        return 0
    told_rows = f"{out}: {found.rows:,} combinations, {found.feasible:,} meet every constraint"
    OUT.print(told_rows, soft_wrap=True)
    if found.taken_up:
        OUT.print(f"  {found.taken_up:,} of them were measured before an interruption")
    if best is not None:
        setting = ", ".join(f"{name} {value}" for name, value in best.values.items())
        OUT.print(f"  best: {quantity(reached, objective.unit)}  ({setting})", soft_wrap=True)
    return 0
