"""``copperline backup`` and ``copperline restore``: copies of a store."""

from pathlib import Path
from typing import Annotated

import typer

from assistant.cli.console import OUT, StoreOption, store_path
from assistant.cli.experiments import existing
from assistant.errors import ServiceError, StoreError
from assistant.service.endpoint import Key
from assistant.store.copies import back_up, restore


def backup(
    file: Annotated[Path, typer.Argument(help="Where the copy goes; must not exist.")],
    store: StoreOption = None,
) -> int:
    """Copy the store, whole and at one moment, while it may be in use."""
    health = back_up(existing(store), file)
    OUT.print(
        f"'{file}' holds {health.experiments} experiments with {health.events} events.",
        soft_wrap=True,
    )
    return 0


def put_back(
    file: Annotated[Path, typer.Argument(help="A copy that copperline backup made.")],
    store: StoreOption = None,
) -> int:
    """Put a backup in the place of the store; what was there is kept beside it."""
    if not file.exists():
        raise StoreError(f"there is no backup '{file}'")
    path = store_path(store)
    key = Key.take(path)
    if key is None:
        raise ServiceError(f"a process uses the store '{path}'; end it before restoring")
    with key:
        former = restore(file, path)
    kept = "" if former is None else f" What was there is kept as '{former}'."
    OUT.print(f"'{path}' is as the backup was.{kept}", soft_wrap=True)
    return 0
