"""Console: tables on standard output for people, or one JSON object for programs.

Errors and progress go to standard error.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

OUT = Console(highlight=False, markup=False)
ERR = Console(stderr=True, highlight=False, markup=False)

EXIT_BAD_INPUT = 2
EXIT_NOTHING_FEASIBLE = 3
EXIT_PROGRAM_FAILED = 4
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
    """Return the path of the store from the option, the environment or the current folder."""
    if option is not None:
        return option
    from_environment = os.environ.get("COPPERLINE_STORE")
    return Path(from_environment) if from_environment else Path("copperline-out") / "experiments.db"


class Closable(Protocol):
    """What is closed when it is no longer used."""

    def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Closable)
_OPENED: ContextVar[ExitStack] = ContextVar("opened")


@contextmanager
def closing_what_is_opened() -> Iterator[None]:
    """Close what `closed_at_end` is given when the block ends."""
    with ExitStack() as stack:
        token = _OPENED.set(stack)
        try:
            yield
        finally:
            _OPENED.reset(token)


def closed_at_end(opened: C) -> C:
    """Return a resource that is closed when the command ends, which also releases its lock."""
    stack = _OPENED.get(None)
    if stack is not None:
        stack.callback(opened.close)
    return opened


def print_json(value: Mapping[str, Any]) -> None:
    """Print a mapping as one JSON object, with null for unknown values."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False, default=str))


def table_of(*names: str, left: int = 1) -> Table:
    """Return an empty table with these columns, of which the first ``left`` are left-aligned."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for i, name in enumerate(names):
        table.add_column(name, justify="left" if i < left else "right")
    return table


def say(text: str, style: str = "") -> None:
    """Print a progress message on standard error."""
    ERR.print(text, style=style, soft_wrap=True)


@contextmanager
def progress_spinner(description: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a description and the elapsed time on stderr during a block.

    The block may call what it gets with another description; without a terminal that is a line.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as progress:
        task = progress.add_task(description, total=None)

        def describe(words: str) -> None:
            if ERR.is_terminal:
                progress.update(task, description=words)
            else:
                say(words)

        yield describe
