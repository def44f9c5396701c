"""The schema, as numbered steps. ``PRAGMA user_version`` says how many have been taken."""

import sqlite3

from assistant.errors import StoreError

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE event (
        experiment_id TEXT NOT NULL,
        position INTEGER NOT NULL CHECK (position >= 0),
        body TEXT NOT NULL CHECK (json_valid(body)),
        PRIMARY KEY (experiment_id, position)
    ) STRICT, WITHOUT ROWID
    """,
)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database to the latest schema, each step in its own transaction.

    Raises:
        StoreError: the database was written by a newer Copperline.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store has schema {version}, this Copperline knows {len(MIGRATIONS)}; "
            "use the newer Copperline that wrote it"
        )
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        (now,) = connection.execute("PRAGMA user_version").fetchone()
        if now < number:  # nobody else took this step while we waited for the lock
            connection.execute(step)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
