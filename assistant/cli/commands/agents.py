"""Commands ``copperline agents``: studies of simulated analysts, and the paper's evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from assistant.cli.console import ERR, OUT, Json, print_json, say, table_of
from assistant.cli.options import FirstJobs
from assistant.core.errors import SettingsError
from assistant.core.version import version

if TYPE_CHECKING:
    from agents import PlayedStudy, Script, StudyLock, TableRequest


Tell = Callable[[str, int, int | None], None]
"""Callback for progress: stage, steps done, total steps (None while unknown)."""
SIZES = {"flood": 1_296, "scheduling": 8_800, "maze": 54}
"""Combinations of the paper's spaces (section 4.1); spaces of other logs may differ."""
MOST_SHOWN = 60


def run(
    study: Annotated[Path, typer.Argument(help="A study (TOML).", show_default=False)],
    to: Annotated[Path, typer.Option("--to", help="Folder of the results.")],
    workers: Annotated[
        int | None,
        typer.Option(help="Processes (default: as in the study, or one per core).", min=1),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps the measured tables for other studies."),
    ] = None,
    analyst: Annotated[
        list[str] | None,
        typer.Option(
            "--analyst",
            help="Also play a Python function: module:function or file.py:function; may be "
            "repeated.",
            show_default=False,
        ),
    ] = None,
    mcp_client: Annotated[
        list[str] | None,
        typer.Option(
            "--mcp-client",
            help="Also play a client of the Model Context Protocol, such as 'python client.py "
            "{server}'; may be repeated (needs copperline[mcp]).",
            show_default=False,
        ),
    ] = None,
    held: Annotated[
        int | None, typer.Option(help="Lock of the folder, if it is held already.", hidden=True)
    ] = None,
    as_json: Json = False,
) -> int:
    """Play a study; an interrupted study continues in the same folder.

    The folder gets ``results.parquet`` (a row per episode), ``summary.csv`` (a row per cell) and
    ``report.html``. The same study gives the same results for any number of processes.
    The applications of the study (flood, scheduling, maze) are measured first, into ``tables``.
    """
    from agents import StudyLock, write_report

    scripts = _scripts(analyst or [], mcp_client or [])
    if held is None:
        _refuse_early(study, scripts)
    with StudyLock(to, held) as turn:
        finished = _play(study, to, workers, tables, turn, scripts)
        written = write_report(finished, to)
    return _print_study(finished, to, written, as_json=as_json)


def _scripts(functions: Sequence[str], clients: Sequence[str]) -> tuple[Script, ...]:
    """Return the scripted analysts that options name; their paths count from this folder."""
    from agents import Script

    here = str(Path.cwd())
    return (
        *(Script.named("script", target, here) for target in functions),
        *(Script.named("mcp", target, here) for target in clients),
    )


def _refuse_early(path: Path, scripts: tuple[Script, ...]) -> None:
    """Check a study before its folder is made."""
    from agents import read_study, truths, with_scripts

    tables: list[TableRequest] = []

    def note(table: TableRequest) -> Path:
        tables.append(table)
        return Path(table.name)

    study = with_scripts(read_study(path, note)[0], scripts)
    if any(script.kind == "mcp" for script in study.scripts) and find_spec("mcp") is None:
        raise SettingsError(
            "an MCP client needs the package mcp; install it with: pip install 'copperline[mcp]'"
        )
    for script in study.scripts:
        if script.kind == "script":
            script.load()
    if not tables:
        truths(study)


def _play(
    path: Path,
    to: Path,
    workers: int | None,
    cache: Path | None,
    turn: StudyLock,
    scripts: tuple[Script, ...],
) -> PlayedStudy:
    """Measure the tables and play a study; show the progress here and in its folder."""
    from agents import play_study, read_study, study_text, with_scripts

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as progress:
        task = progress.add_task("", total=None)
        reached = [0, 0]

        def tell(stage: str, done: int, total: int | None) -> None:
            progress.update(task, description=stage, completed=done, total=total)
            turn.tell(stage, done, total)

        def tell_episodes(done: int, total: int) -> None:
            reached[:] = done, total
            tell("playing", done, total)

        try:
            study, text, study_workers = read_study(path, partial(study_table, to, cache, tell))
            if scripts:
                study = with_scripts(study, scripts)
                text = study_text(study, to)
            return play_study(study, to, text, workers or study_workers, tell_episodes)
        except KeyboardInterrupt:
            progress.stop()
            done, total = reached
            say(f"Stopped: {done:,} of {total:,} episodes are in {to}; run it again to continue.")
            raise


def study_table(to: Path, cache: Path | None, tell: Tell, request: TableRequest) -> Path:
    """Return the path of an application's table of measured runs, measuring it if missing.

    ``cache`` is the folder of the tables of earlier studies, or None; the study gets a copy.

    Raises:
        AssistantError, SimError: the log cannot be read, or a file cannot be written.
    """
    from agents import copy_files
    from assistant.simtools.measured_tables import paper_table

    into, files = to / "tables", (f"{request.name}.json", f"{request.name}.csv")
    shelf = None if cache is None else cache / _key(request)
    if shelf is not None and not (into / files[-1]).is_file():
        copy_files(files, shelf, into)
    stage, total = f"measuring {request.name}", None if request.log else SIZES[request.name]
    tell(stage, 0, total)
    table = paper_table(
        request.name, into, log=request.log, first=request.first,
        progress=lambda done: tell(stage, done, total),
    )  # fmt: skip
    if shelf is not None:
        copy_files(files, into, shelf)
    return table.path


def _key(request: TableRequest) -> str:
    """Return a name that identifies the log and the program of a table."""
    identity = [version(), request.first]
    if request.log is not None:
        with suppress(OSError, ValueError):  # the reader of the log reports the error
            status = request.log.stat()
            identity += [str(request.log.absolute()), status.st_size, status.st_mtime_ns]
    return f"{request.name}-{sha256(repr(identity).encode()).hexdigest()[:12]}"


def _print_study(finished: PlayedStudy, to: Path, written: Sequence[Path], *, as_json: bool) -> int:
    from agents import study_as_json, study_rows

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


def reproduce(
    to: Annotated[Path, typer.Option("--to", help="Folder of the results.")],
    figure: Annotated[
        str, typer.Option(help="5, 6, 7, 8, 9, compare, several with commas, or all.")
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
    """Reproduce the paper's evaluation with simulated analysts, and check its claims.

    Measures the three search spaces, plays a study per figure, and writes report.html, report.md,
    verdicts.json and the figures. An interrupted evaluation continues in the same folder.
    """
    from agents import (
        FIGURE_NAMES,
        EvaluationRecipe,
        EvaluationSpace,
        evaluation_as_json,
        tally,
        write_evaluation,
    )
    from agents import reproduce as play
    from assistant.simtools.measured_tables import NAMES, paper_table

    figures = FIGURE_NAMES if figure == "all" else tuple(figure.split(","))
    names = tuple(dict.fromkeys(application or NAMES))
    if log is not None and "scheduling" not in names:
        raise SettingsError("--log is for scheduling, which is not among --application")
    EvaluationRecipe(
        figures, tuple(EvaluationSpace(name, to) for name in names)
    )  # refuses now, not after the tables
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=ERR, transient=True) as progress:
        task = progress.add_task("", total=None)

        def tell(stage: str, done: int, total: int | None) -> None:
            progress.update(task, description=stage, completed=done, total=total)

        tables = []
        for name in names:
            table = paper_table(
                name, to / "tables", log=log, first=first, threads=workers,
                progress=partial(tell, f"Table {name}", total=None),
            )  # fmt: skip
            tables.append(EvaluationSpace(name, table.path, table.description))
        done = play(
            EvaluationRecipe(figures, tuple(tables), replications, quick), to, workers, tell
        )
    written = write_evaluation(done, to)
    if as_json:
        print_json({**evaluation_as_json(done), "report": str(written[0])})
        return 0
    rows = table_of("figure", "application", "claim", "verdict", left=4)
    for verdict in done.verdicts:
        rows.add_row(verdict.figure, verdict.table, verdict.claim, verdict.outcome)
    OUT.print(rows)
    OUT.print(tally(done.verdicts), soft_wrap=True)
    OUT.print(", ".join(map(str, written)), soft_wrap=True)
    return 0
