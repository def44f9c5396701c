"""How the command line speaks: people get tables on standard output, programs get one JSON object.

Sentences about what goes wrong, and progress, go to standard error.

What is seen of a step that takes a while and cannot say how far it is.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

OUT = Console(highlight=False, markup=False)
ERR = Console(stderr=True, highlight=False, markup=False)

EXIT_BAD_INPUT = 2
EXIT_NOTHING_FEASIBLE = 3
EXIT_TRIAL_FAILED = 4
EXIT_INTERRUPTED = 130

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="File of stored experiments [default: copperline-out/experiments.db, "
        "or $COPPERLINE_STORE].",
        show_default=False,
    ),
]


def store_path(option: Path | None) -> Path:
    """Return where experiments are kept: the option, the environment, or the folder here."""
    if option is not None:
        return option
    from_environment = os.environ.get("COPPERLINE_STORE")
    return Path(from_environment) if from_environment else Path("copperline-out") / "experiments.db"


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object; what is unknown is null."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=str))


def table_of(*names: str, left: int = 1) -> Table:
    """Return a plain table; the first ``left`` columns stand to the left, the rest to the right."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i < left else "right")
    return table


def say(text: str, style: str = "") -> None:
    """Print a line of progress on standard error."""
    ERR.print(text, style=style, soft_wrap=True)


@contextmanager
def progress_spinner(description: str) -> Iterator[None]:
    """Show what is done, and for how long, on standard error while it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as progress:
        progress.add_task(description, total=None)
        yield
