"""Journals in one SQLite file, in WAL mode: an acknowledged event survives kill -9."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from assistant.codec import decode_event, encode_event
from assistant.errors import StoreError
from assistant.events import Event, ExperimentOpened
from assistant.ports import StoredExperiment
from assistant.store.memory import check_position, unknown_experiment
from assistant.store.migrations import check, migrate


class SqliteStore:
    """A file of journals. Calls may come from several threads; one at a time reaches the file.

    Args:
        path: of the file; made, with its folders, if it is missing.

    Raises:
        StoreError: the path is a folder, a link or a device, not writable, no database, one of
            another program, or from a newer version. What is there stays as it is.
    """

    def __init__(self, path: Path | str = ":memory:") -> None:
        self._path = str(path)
        self._lock = threading.Lock()
        if self._path != ":memory:":
            self._make_folder(Path(self._path))
        with self._errors():
            self._connection = sqlite3.connect(
                self._path, timeout=30.0, isolation_level=None, check_same_thread=False
            )
        try:
            with self._errors():
                check(self._connection)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = FULL")
                migrate(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def _make_folder(self, path: Path) -> None:
        try:
            if path.is_dir():
                raise StoreError(
                    f"the store '{path}' is a folder; name a file, such as {path}/sweeps.db"
                )
            if path.is_symlink():  # the files beside a database must lie where all look for them
                raise StoreError(
                    f"the store '{path}' is a symbolic link to '{path.readlink()}'; name the file"
                )
            if path.exists() and not path.is_file():
                raise StoreError(f"the store '{path}' is no ordinary file; name another")
            if "\0" in str(path):
                raise StoreError(f"no file can be called {str(path)!r}; name the store otherwise")
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of the store '{path}': {error}") from error

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events at ``position`` in one transaction. Raises StoreError, storing nothing."""
        rows = [(experiment_id, position + i, encode_event(e)) for i, e in enumerate(events)]
        with self._errors(), self._transaction():
            (length,) = self._connection.execute(
                "SELECT count(*) FROM event WHERE experiment_id = ?", (experiment_id,)
            ).fetchone()
            check_position(experiment_id, position, length)
            self._connection.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)

    def load(self, experiment_id: str) -> tuple[Event, ...]:
        """Return the journal. Raises StoreError for an unknown experiment."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT body FROM event WHERE experiment_id = ? ORDER BY position",
                (experiment_id,),
            ).fetchall()
            if not rows:
                known = self._connection.execute("SELECT DISTINCT experiment_id FROM event")
                raise unknown_experiment(experiment_id, [name for (name,) in known])
        return tuple(decode_event(body) for (body,) in rows)

    def experiments(self) -> tuple[StoredExperiment, ...]:
        """Return what is stored, latest first."""
        with self._errors():
            rows = self._connection.execute(
                "SELECT e.experiment_id, e.body,"
                " (SELECT count(*) FROM event AS c WHERE c.experiment_id = e.experiment_id)"
                " FROM event AS e WHERE e.position = 0"
            ).fetchall()
        opened = [
            StoredExperiment(experiment_id, first.name, first.at_s, n_events)
            for experiment_id, body, n_events in rows
            if isinstance(first := decode_event(body), ExperimentOpened)
        ]
        return tuple(sorted(opened, key=lambda e: e.opened_s, reverse=True))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._connection.in_transaction:  # a full disk has rolled back already
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                raise StoreError(f"the store '{self._path}' cannot be used: {error}") from error
            except UnicodeError as error:  # even SQLite's own words about it are damaged
                raise StoreError(
                    f"the store '{self._path}' cannot be used: it is damaged"
                ) from error
