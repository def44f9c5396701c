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


def check(connection: sqlite3.Connection) -> None:
    """Look, before anything is written, whether this is a store that we can write.

    Raises:
        StoreError: the database was written by a newer Copperline, or by another program.
    """
    version, n_tables = connection.execute(  # at one moment: another may be making the store
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    ).fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store has schema {version}, this Copperline knows {len(MIGRATIONS)}; "
            "use the newer Copperline that wrote it"
        )
    if version < 0 or (version == 0 and n_tables):
        raise StoreError("the store is a database of another program; name a file of its own")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a database that `check` let pass to the latest schema, a transaction for each step."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        (now,) = connection.execute("PRAGMA user_version").fetchone()
        if now < number:  # nobody else took this step while we waited for the lock
            connection.execute(step)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
