"""Backup of a store: copy it while it is in use, and restore a copy that is unused."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from assistant.core.errors import StoreError
from assistant.store.migrations import MIGRATIONS


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """Health of a store's file: its schema version, its size, and the faults that SQLite found."""

    schema: int
    experiments: int
    events: int
    faults: tuple[str, ...]


def examine(path: Path) -> StoreHealth:
    """Examine a store's file without changing it. Raises StoreError if it is no store."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)
        try:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            findings = [text for (text,) in connection.execute("PRAGMA integrity_check")]
            lost = connection.execute("PRAGMA foreign_key_check").fetchall()
            experiments, events = connection.execute(
                "SELECT count(DISTINCT experiment_id), count(*) FROM event"
            ).fetchone()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreError(f"'{path}' is no store that can be read: {error}") from error
    faults = [text for text in findings if text != "ok"]
    faults += [f"a row of {row[0]} belongs to nothing" for row in lost]
    return StoreHealth(int(schema), int(experiments), int(events), tuple(faults))


def back_up(path: Path, target: Path) -> StoreHealth:
    """Copy a store at one moment, while it may be in use.

    ``target`` must not exist; it appears whole or not at all. Raises StoreError otherwise.
    """
    if target.exists():
        raise StoreError(f"there is a file '{target}' already; name another for the backup")
    examine(path)
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30.0)
        copy = sqlite3.connect(part)
        try:
            source.backup(copy, pages=4096)
            copy.execute("PRAGMA journal_mode = DELETE")  # everything in one file
        finally:
            copy.close()
            source.close()
        health = examine(part)
        if health.faults:
            raise StoreError(f"the copy of '{path}' is damaged: {health.faults[0]}")
        _synced(part)
        part.replace(target)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the store cannot be copied to '{target}': {error}") from error
    finally:
        part.unlink(missing_ok=True)
    return health


def restore(copy: Path, path: Path) -> Path | None:
    """Replace a store that is not in use by a backup; return the path of the former store, or None.

    The former store is kept beside it, the backup is unchanged. Raises StoreError if the copy is
    damaged, from a newer Copperline, or files cannot be written.
    """
    health = examine(copy)
    if health.faults:
        raise StoreError(f"the backup '{copy}' is damaged: {health.faults[0]}")
    if health.schema > len(MIGRATIONS):
        raise StoreError(
            f"the backup '{copy}' has schema {health.schema}, this Copperline knows "
            f"{len(MIGRATIONS)}; use the newer Copperline that wrote it"
        )
    former: Path | None = None
    try:
        if path.exists():
            former = _free(path)
            back_up(path, former)  # includes its write-ahead log
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        back_up(copy, path)
    except OSError as error:
        raise StoreError(f"the store '{path}' cannot be replaced: {error}") from error
    return former


def _free(path: Path) -> Path:
    n = 1
    while (candidate := path.with_name(f"{path.name}.before-restore-{n}")).exists():
        n += 1
    return candidate


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
