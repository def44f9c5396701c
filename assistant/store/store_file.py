"""File of a store: made for its owner alone, and read where nothing may be written."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

PRIVATE = 0o600


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read, unless it exists.

    SQLite gives the files of its write-ahead log the same permissions.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, flags, PRIVATE))


def is_read_only(path: Path) -> bool:
    """Return whether a store exists, and this process may not write it or its folder.

    SQLite makes files beside the store, so that it needs a folder that may be written.
    """
    try:
        return path.is_file() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))
    except (OSError, ValueError):
        return False


@contextlib.contextmanager
def readable(path: Path, *, copied: bool = False) -> Iterator[str]:
    """Yield the URI under which SQLite reads a store, also one that may not be written.

    Without permission to write in the folder SQLite cannot make the index of a write-ahead log: a
    store with such a log is then read from a private copy, and one without a log as a file that
    does not change. With ``copied`` it is a private copy that may be written.
    """
    log = path.with_name(f"{path.name}-wal")
    with contextlib.ExitStack() as stack:
        if copied or (is_read_only(path) and _has_content(log) and not _can_be_read(path)):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="copperline-")))
            for source in (path, log):
                if source.exists():
                    shutil.copyfile(source, folder / source.name)
            yield (folder / path.name).as_uri()
        elif is_read_only(path) and not log.exists():
            yield f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        else:
            yield _read_only_uri(path)


def _read_only_uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _can_be_read(path: Path) -> bool:
    """Return whether SQLite can read a store and its log as they are: a process has it open."""
    try:
        with contextlib.closing(sqlite3.connect(_read_only_uri(path), uri=True)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.Error:
        return False
    return True
