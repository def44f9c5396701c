"""What is seen of a step that takes a while and cannot say how far it is."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from assistant.cli.console import ERR


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show what is done, and for how long, on standard error while it is done."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as shown:
        shown.add_task(what, total=None)
        yield
