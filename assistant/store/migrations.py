"""Schema of the store, as numbered migrations; ``PRAGMA user_version`` counts those applied."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

from assistant.core.codec import decode_event
from assistant.core.errors import StoreError
from assistant.store.projection import project

Step = Callable[[sqlite3.Connection], None]


def _journals(connection: sqlite3.Connection) -> None:
    connection.execute(
        """
        CREATE TABLE event (
            experiment_id TEXT NOT NULL,
            position INTEGER NOT NULL CHECK (position >= 0),
            body TEXT NOT NULL CHECK (json_valid(body)),
            PRIMARY KEY (experiment_id, position)
        ) STRICT, WITHOUT ROWID
        """
    )


def _queue(connection: sqlite3.Connection) -> None:
    """Add the projection of the event logs, and the tables of leases and replies."""
    for statement in (
        """
        CREATE TABLE experiment (
            id TEXT PRIMARY KEY,
            name TEXT NOT NULL,
            opened_s REAL NOT NULL,
            n_events INTEGER NOT NULL,
            space_at INTEGER NOT NULL,
            sla_at INTEGER NOT NULL,
            deadline_s REAL,
            finished INTEGER NOT NULL DEFAULT 0,
            active INTEGER NOT NULL DEFAULT 0
        ) STRICT
        """,
        """
        CREATE TABLE run (
            seq INTEGER PRIMARY KEY,
            experiment_id TEXT NOT NULL REFERENCES experiment (id),
            run_id INTEGER NOT NULL,
            levels TEXT NOT NULL,
            seed INTEGER NOT NULL,
            state TEXT NOT NULL CHECK (
                state IN ('queued', 'running', 'completed', 'failed', 'cancelled')
            ),
            priority REAL NOT NULL DEFAULT 0,
            held INTEGER NOT NULL DEFAULT 0,
            attempts INTEGER NOT NULL DEFAULT 0,
            lost INTEGER NOT NULL DEFAULT 0,
            token TEXT NOT NULL DEFAULT '',
            UNIQUE (experiment_id, run_id)
        ) STRICT
        """,
        """
        CREATE INDEX ready ON run (experiment_id, priority DESC, seq)
        WHERE state = 'queued' AND held = 0
        """,
        """
        CREATE TABLE attempt (
            token TEXT PRIMARY KEY,
            experiment_id TEXT NOT NULL,
            run_id INTEGER NOT NULL,
            worker TEXT NOT NULL,
            result TEXT,
            refused TEXT
        ) STRICT, WITHOUT ROWID
        """,
        """
        CREATE TABLE lease (
            token TEXT PRIMARY KEY REFERENCES attempt (token),
            lease_s REAL NOT NULL CHECK (lease_s > 0),
            until_s REAL NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
        "CREATE INDEX lease_end ON lease (until_s)",
        """
        CREATE TABLE reply (
            key TEXT PRIMARY KEY,
            request TEXT NOT NULL,
            experiment_id TEXT NOT NULL,
            first INTEGER NOT NULL,
            n INTEGER NOT NULL,
            at_s REAL NOT NULL
        ) STRICT, WITHOUT ROWID
        """,
    ):
        connection.execute(statement)
    stored = connection.execute(
        "SELECT experiment_id, position, body FROM event ORDER BY experiment_id, position"
    ).fetchall()
    for experiment_id, position, body in stored:
        project(connection, experiment_id, position, decode_event(body))


MIGRATIONS: tuple[Step, ...] = (_journals, _queue)


def check(connection: sqlite3.Connection) -> None:
    """Raise StoreError if the database is newer than this program, or of another program."""
    version, n_tables = connection.execute(  # atomic, as others may be making it
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    ).fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store has schema {version}, this Copperline knows {len(MIGRATIONS)}; "
            "use the newer Copperline that wrote it"
        )
    if version < 0 or (version == 0 and n_tables):
        raise StoreError("the store is a database of another program; name a file of its own")


def migrate(connection: sqlite3.Connection, path: Path | None = None) -> None:
    """Migrate a database that passed `check`, one transaction for each step.

    Before the first step of an older schema a copy is kept beside ``path``, as
    ``<name>.schema<N>.backup``; None keeps none.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if path is not None and 0 < version < len(MIGRATIONS):
        _back_up(connection, path.with_name(f"{path.name}.schema{version}.backup"))
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            (now,) = connection.execute("PRAGMA user_version").fetchone()
            if now < number:  # no other process took this step while we waited
                step(connection)
                connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    copy = sqlite3.connect(part)
    try:
        connection.backup(copy)
    finally:
        copy.close()
    part.replace(target)
