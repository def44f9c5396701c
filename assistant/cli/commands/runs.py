"""Commands ``copperline runs`` and ``logs``: list the runs of an experiment, show their output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from assistant.cli.console import OUT, Json, StoreOption, print_json
from assistant.cli.experiment_view import print_state, stored_session, stored_state
from assistant.core.errors import SettingsError
from assistant.core.experiment import Experiment
from assistant.core.run import Run, RunState
from assistant.presentation.tables.runs import run_rows, write_runs_csv, write_runs_parquet
from assistant.presentation.text.number_format import duration, level, number

LEAST_WHY = 20  # Characters of a reason that are shown on a narrow terminal


def runs(
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    state: Annotated[
        str | None,
        typer.Option(
            help="Only runs in this state: queued, running, completed, failed or cancelled.",
            show_default=False,
        ),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all columns to this CSV file.", show_default=False
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write all columns to this Parquet file.", show_default=False
        ),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """List the runs of an experiment: state, levels, measures, time and reason.

    The measures are those of the objective and its constraints; files and JSON have all of them.
    """
    states = [str(s) for s in RunState]
    if state is not None and state not in states:
        raise SettingsError(f"there is no state '{state}' of runs; choose from {', '.join(states)}")
    session = stored_session(experiment, store)
    current = session.experiment
    rows = [row for row in run_rows(current) if state in (None, row["state"])]
    if csv is not None:
        write_runs_csv(rows, csv)
    if parquet is not None:
        write_runs_parquet(rows, parquet)
    if as_json:
        print_json({"experiment": session.id, "runs": rows})
        return 0
    for path in (csv, parquet):
        if path is not None:
            n_runs = "1 run" if len(rows) == 1 else f"{len(rows)} runs"
            OUT.print(f"Wrote {n_runs} to {path}.", markup=False, soft_wrap=True)
    if csv is None and parquet is None:
        _print_runs(current, [run for run in current.runs if state in (None, str(run.state))])
        print_state(stored_state(session, store), store)
    return 0


def logs(
    run: Annotated[int, typer.Argument(help="Number of the run.", show_default=False)],
    experiment: Annotated[str, typer.Argument(help="A stored experiment, or 'latest'.")] = "latest",
    only: Annotated[
        Literal["stdout", "stderr"] | None,
        typer.Option(help="Only this stream.", show_default=False),
    ] = None,
    store: StoreOption = None,
    as_json: Json = False,
) -> int:
    """Print the output of a run's program: of a long stream the first and the last 64 KiB.

    The output of Python functions and of programs over HTTP is not stored. The files with the logs
    of the jobs of Slurm that executed the run are named.
    """
    session = stored_session(experiment, store)
    output = session.output(run)
    job_logs = _job_logs(session.experiment, run)
    if as_json:
        stored = None if output is None else asdict(output)
        print_json({"experiment": session.id, "run": run, "output": stored, "job_logs": job_logs})
        return 0
    if only is None:
        for log in job_logs:
            OUT.print(f"Log of the job of run {run}: {log}", markup=False, soft_wrap=True)
    if output is None:
        state = session.experiment.run(run).state
        why = "its program has not ended" if state in (RunState.QUEUED, RunState.RUNNING) else (
            "it was no program of the kind 'command', or an earlier version ran it"
        )  # fmt: skip
        OUT.print(f"No output of run {run} is stored: {why}.", soft_wrap=True)
        return 0
    for name, text in asdict(output).items():
        if only is None:
            typer.echo(f"--- {name} of run {run}" if text else f"--- {name} of run {run} is empty")
        if text and only in (None, name):
            printable = _printable(text) if OUT.is_terminal else text
            typer.echo(printable, nl=not printable.endswith("\n"))
    return 0


def _job_logs(experiment: Experiment, run_id: int) -> list[str]:
    """Return the paths of the logs of the jobs of Slurm that executed a run."""
    from assistant.executors.slurm.jobs import FOLDER, logs_of_run

    opened = experiment.opened
    executor = opened.recipe.get("executor")
    folder = executor.get("folder") if isinstance(executor, Mapping) else None
    base = Path(folder) if isinstance(folder, str) else FOLDER
    logs = logs_of_run(base, opened.experiment_id, run_id)
    return [str(path.resolve()) for path in logs]


def _printable(text: str) -> str:
    """Return a text without control characters, which could command a terminal."""
    return "".join(c if c in "\n\t" or c.isprintable() else "\ufffd" for c in text)


def _print_runs(experiment: Experiment, listed: list[Run]) -> None:
    """Print a line per run; only on a terminal a long reason is cut at the end of the line."""
    measures = experiment.opened.objective.measures
    head = ("run", "state", *experiment.space.names, *measures, "time")
    rows = [(run, _cells(experiment, run, measures)) for run in listed]
    columns = zip(head, *(cells for _, cells in rows), strict=True)
    widths = [max(map(len, column)) for column in columns]
    best, left = experiment.best, OUT.width - sum(width + 2 for width in widths)
    longest = max(left, LEAST_WHY) if OUT.is_terminal else None
    OUT.print(_line(head, widths, "why"), style="dim", soft_wrap=True)
    for run, cells in rows:
        why = _why(run)
        if longest is not None and len(why) > longest:
            why = f"{why[: longest - 1]}…"
        style = "bold orange3" if best is not None and best.id == run.id else ""
        OUT.print(_line(cells, widths, why), style=style, soft_wrap=True)


def _line(cells: tuple[str, ...], widths: list[int], why: str) -> str:
    """Return a line with the run and its state at the left of their columns, numbers right."""
    placed = [
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join([*placed, why]).rstrip()


def _cells(experiment: Experiment, run: Run, measures: tuple[str, ...]) -> tuple[str, ...]:
    measured = {} if run.outcome is None else run.outcome.measures
    return (
        str(run.id),
        str(run.state),
        *map(level, experiment.space.all_values(run.configuration).values()),
        *(_measure(measured.get(name)) for name in measures),
        "" if run.duration_s is None else duration(run.duration_s),
    )


def _measure(value: float | tuple[float, ...] | None) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} numbers"
    return "" if value is None else number(value)


def _why(run: Run) -> str:
    """Return the reason of the run, or of its end, in one line; violated constraints come first."""
    violated = run.outcome is not None and not run.outcome.feasible
    return ("violates a constraint; " if violated else "") + " ".join(
        (run.failure or run.cancelled or run.reason).split()
    )
