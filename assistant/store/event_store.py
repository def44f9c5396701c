"""Event stores: event logs in memory, or in one SQLite file in WAL mode.

An acknowledged event survives kill -9. A file on a network file system is refused.

Backup of a store: copy it while it is in use, and restore a copy that is unused.

Schema of the store, as numbered migrations; ``PRAGMA user_version`` counts those applied.

Projection of the event logs: tables, written in the same transaction as the events.
"""

from __future__ import annotations

import json
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from assistant.core.codec import decode_event, encode_event
from assistant.core.errors import (
    NameTakenError,
    StoreError,
    StoreFullError,
    UnknownExperimentError,
    VersionConflictError,
)
from assistant.core.events import (
    BudgetChanged,
    Event,
    ExperimentDeleted,
    ExperimentFinished,
    ExperimentOpened,
    ExperimentRenamed,
    ExperimentReopened,
    ExperimentTagged,
    ExperimentUndeleted,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunHeld,
    RunPrioritised,
    RunReleased,
    RunReturned,
    RunStarted,
    RunStopped,
    RunSubmitted,
    SpaceChanged,
)
from assistant.core.experiment import Experiment
from assistant.core.files import atomic_file
from assistant.core.objective import Objective
from assistant.core.ports import StoredExperiment
from assistant.core.run import RunOutput
from assistant.core.sla import Sla
from assistant.store.digests import (
    add_digests,
    checked,
    damaged,
    digest_before,
    event_digest,
    find_damage,
)
from assistant.store.store_file import make_private, readable
from strategies import ParameterSpace


def project(  # noqa: PLR0912 - a case for each event
    connection: sqlite3.Connection, experiment_id: str, position: int, event: Event
) -> None:
    """Update the query tables of the database for one new event."""
    do = connection.execute
    match event:
        case ExperimentOpened(at_s=at_s, name=name, sla=sla):
            do(
                "INSERT INTO experiment"
                " (id, name, opened_s, n_events, space_at, sla_at, deadline_s)"
                " VALUES (?, ?, ?, 0, 0, 0, ?)",
                (experiment_id, name, at_s, sla.deadline_s),
            )
        case RunSubmitted(run_id=run_id, configuration=configuration, seed=seed):
            do(
                "INSERT INTO run (experiment_id, run_id, levels, seed, state)"
                " VALUES (?, ?, ?, ?, 'queued')",
                (experiment_id, run_id, json.dumps(configuration.level_ids), seed),
            )
        case RunStarted():
            _start(connection, experiment_id, event)
        case RunReturned(run_id=run_id, lost=lost):
            _end(connection, experiment_id, run_id, "queued")
            if lost:
                do(
                    "UPDATE run SET lost = lost + 1 WHERE experiment_id = ? AND run_id = ?",
                    (experiment_id, run_id),
                )
        case RunCompleted(run_id=run_id) | RunStopped(run_id=run_id):
            _end(connection, experiment_id, run_id, "completed")
        case RunFailed(run_id=run_id):
            _end(connection, experiment_id, run_id, "failed")
        case RunCancelled(run_id=run_id):
            _end(connection, experiment_id, run_id, "cancelled")
        case RunPrioritised(run_id=run_id, priority=priority):
            do(
                "UPDATE run SET priority = ? WHERE experiment_id = ? AND run_id = ?",
                (priority, experiment_id, run_id),
            )
        case RunHeld(run_id=run_id) | RunReleased(run_id=run_id):
            do(
                "UPDATE run SET held = ? WHERE experiment_id = ? AND run_id = ?",
                (isinstance(event, RunHeld), experiment_id, run_id),
            )
        case SpaceChanged():
            do("UPDATE experiment SET space_at = ? WHERE id = ?", (position, experiment_id))
        case BudgetChanged(sla=sla):
            do(
                "UPDATE experiment SET sla_at = ?, deadline_s = ? WHERE id = ?",
                (position, sla.deadline_s, experiment_id),
            )
        case ExperimentFinished() | ExperimentReopened():
            do(
                "UPDATE experiment SET finished = ? WHERE id = ?",
                (isinstance(event, ExperimentFinished), experiment_id),
            )
        case ExperimentRenamed(name=name):
            do("UPDATE experiment SET name = ? WHERE id = ?", (name, experiment_id))
        case ExperimentTagged(tags=tags):
            do("UPDATE experiment SET tags = ? WHERE id = ?", (json.dumps(tags), experiment_id))
        case ExperimentDeleted() | ExperimentUndeleted():
            do(
                "UPDATE experiment SET deleted = ? WHERE id = ?",
                (isinstance(event, ExperimentDeleted), experiment_id),
            )
        case _:
            pass  # changes no run, space or SLA
    do("UPDATE experiment SET n_events = ? WHERE id = ?", (position + 1, experiment_id))


def _start(connection: sqlite3.Connection, experiment_id: str, event: RunStarted) -> None:
    connection.execute(
        "UPDATE run SET state = 'running', attempts = attempts + 1, token = ?"
        " WHERE experiment_id = ? AND run_id = ?",
        (event.token, experiment_id, event.run_id),
    )
    if event.token:
        connection.execute(
            "INSERT INTO attempt (token, experiment_id, run_id, worker) VALUES (?, ?, ?, ?)",
            (event.token, experiment_id, event.run_id, event.worker),
        )


def _end(connection: sqlite3.Connection, experiment_id: str, run_id: int, state: str) -> None:
    connection.execute(
        "DELETE FROM lease WHERE token ="
        " (SELECT token FROM run WHERE experiment_id = ? AND run_id = ?)",
        (experiment_id, run_id),
    )
    connection.execute(
        "UPDATE run SET state = ? WHERE experiment_id = ? AND run_id = ?",
        (state, experiment_id, run_id),
    )


Step = Callable[[sqlite3.Connection], None]


def _event_logs(connection: sqlite3.Connection) -> None:
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


def _digests(connection: sqlite3.Connection) -> None:
    """Add a digest to every event; those that are stored already count as sound."""
    connection.execute("ALTER TABLE event ADD COLUMN digest BLOB CHECK (length(digest) = 32)")
    add_digests(connection)


WITH_DIGESTS = 3
"""Schema from which on every event has a digest."""


def _labels_and_output(connection: sqlite3.Connection) -> None:
    """Add tags and deletion of experiments, and the output of runs."""
    for statement in (
        "ALTER TABLE experiment ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE experiment ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0",
        """
        CREATE TABLE output (
            experiment_id TEXT NOT NULL REFERENCES experiment (id),
            run_id INTEGER NOT NULL,
            stdout TEXT NOT NULL,
            stderr TEXT NOT NULL,
            PRIMARY KEY (experiment_id, run_id)
        ) STRICT, WITHOUT ROWID
        """,
    ):
        connection.execute(statement)


MIGRATIONS: tuple[Step, ...] = (_event_logs, _queue, _digests, _labels_and_output)


def check(connection: sqlite3.Connection) -> None:
    """Raise StoreError if the database has a newer schema or belongs to another program."""
    version, n_tables = connection.execute(  # atomic, as others may be making it
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    ).fetchone()
    if version > len(MIGRATIONS):
        raise StoreError(
            f"the store has schema {version}, this Copperline knows {len(MIGRATIONS)}; "
            "use the newer Copperline that wrote it"
        )
    if version < 0 or (version == 0 and n_tables):
        raise StoreError("the store is a database of another program; name another file")


def migrate(connection: sqlite3.Connection, path: Path | None = None) -> None:
    """Migrate a checked database to the current schema, in one transaction per step.

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
    with (
        atomic_file(target, raises=StoreError, private=True) as draft,
        closing(sqlite3.connect(draft)) as copy,
    ):
        connection.backup(copy)


class MemoryStore:
    """Store of event logs in memory, lost when the process ends."""

    def __init__(self) -> None:
        self._event_logs: dict[str, list[Event]] = {}
        self._outputs: dict[tuple[str, int], RunOutput] = {}

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events at index ``position``; raise StoreError unless the log ends there."""
        length = len(self._event_logs.get(experiment_id, []))
        check_position(experiment_id, position, length)
        self._event_logs.setdefault(experiment_id, []).extend(events)

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from index ``since`` on (0 is the first), or raise StoreError."""
        if experiment_id not in self._event_logs:
            raise unknown_experiment(experiment_id, list(self._event_logs))
        return tuple(self._event_logs[experiment_id][since:])

    def save_output(self, experiment_id: str, run_id: int, output: RunOutput) -> None:
        """Keep the output of a run, in place of that of an earlier attempt."""
        self._outputs[experiment_id, run_id] = output

    def output(self, experiment_id: str, run_id: int) -> RunOutput | None:
        """Return the output of a run; None if none is kept."""
        return self._outputs.get((experiment_id, run_id))

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, the latest first; with ``deleted`` the deleted ones."""
        states = (Experiment.replay(event_log) for event_log in self._event_logs.values())
        listed = [
            StoredExperiment(
                state.opened.experiment_id,
                state.opened.name,
                state.opened.at_s,
                state.n_events,
                state.tags,
            )
            for state in states
            if state.is_deleted == deleted
        ]
        return tuple(sorted(listed, key=lambda e: e.opened_s, reverse=True))


def check_position(experiment_id: str, position: int, length: int) -> None:
    """Raise StoreError if an append at ``position`` does not continue the event log."""
    if position == length:
        return
    if position == 0:
        raise NameTakenError(
            f"there is an experiment '{experiment_id}' already; choose another name"
        )
    raise VersionConflictError(
        f"experiment '{experiment_id}' was changed by another process: its event log has {length} "
        f"events, this session has {position}; load it again"
    )


def _entry(
    experiment_id: object, name: object, opened_s: object, n_events: object, tags: object
) -> StoredExperiment:
    """Return an entry of the list of experiments; raise ValueError if the columns are damaged."""
    labels = json.loads(tags) if isinstance(tags, str) else None
    if (
        isinstance(experiment_id, str)
        and isinstance(name, str)
        and isinstance(opened_s, int | float)
        and isinstance(n_events, int)
        and isinstance(labels, list)
        and all(isinstance(label, str) for label in labels)
    ):
        return StoredExperiment(experiment_id, name, opened_s, n_events, tuple(labels))
    raise ValueError("a column of another type")


def unknown_experiment(experiment_id: str, stored_ids: Sequence[str]) -> StoreError:
    """Build the error for an experiment that is not stored, naming up to 10 stored ones."""
    names = ", ".join(sorted(stored_ids)[:10]) if stored_ids else "none is stored"
    return UnknownExperimentError(f"no experiment '{experiment_id}'; known: {names}")


NETWORK_FILE_SYSTEMS = frozenset((
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2",
    "smb3", "smbfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs",
    "fuse.rclone", "fuse.gcsfuse", "fuse.goofys", "fuse.davfs", "fuse.smbnetfs",
    "fuse.curlftpfs", "fuse.juicefs", "fuse.moosefs", "fuse.mfs", "fuse.lizardfs", "fuse.afp",
))  # fmt: skip
"""Names of file systems in the Linux kernel (see proc(5), mountinfo)."""


def file_system_of(path: str, mounts: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """Return file system type and mount point of an absolute path, or None if nothing is mounted.

    ``mounts`` are mount points with their types, in the order of mounting: a later mount at a
    place hides earlier ones.

    >>> file_system_of("/home/a/x.db", [("/", "ext4"), ("/home", "nfs4")])
    ('nfs4', '/home')
    """
    deepest: tuple[str, str] | None = None
    for place, kind in mounts:
        if _contains(place, path) and (deepest is None or len(place) >= len(deepest[1])):
            deepest = (kind, place)
    return deepest


def current_mounts() -> list[tuple[str, str]]:
    """Return the mount points of this machine with their file system types. Raises OSError."""
    import psutil

    return [(mount.mountpoint, mount.fstype) for mount in psutil.disk_partitions(all=True)]


def refuse_network_file_system(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> None:
    """Raise StoreError if a path is on a network file system (see `NETWORK_FILE_SYSTEMS`).

    ``mounts`` is as for `file_system_of`; None for those of this machine.
    """
    try:
        mount = file_system_of(str(path.resolve()), current_mounts() if mounts is None else mounts)
    except OSError as error:
        raise StoreError(f"cannot find the file system of '{path}': {error}") from error
    if mount is None or mount[0] not in NETWORK_FILE_SYSTEMS:
        return
    kind, place = mount
    raise StoreError(
        f"the store '{path}' is on a network file system ({kind}, mounted at '{place}'): its "
        "write-ahead log and its locks may not work between machines; keep it on a local disk, and "
        "connect other machines with 'copperline serve'"
    )


def _contains(place: str, path: str) -> bool:
    return place in ("/", path) or path.startswith(f"{place}/")


Durability = Literal["full", "normal"]
"""What a commit waits for: the disk, or only the operating system (both survive kill -9)."""

PAGE = 10_000  # Events that are read at once

LOG_PAGES = 4_000
"""Pages of 4 KiB between checkpoints. Each waits for the disk twice, and fewer than two hundred
leases and results fill SQLite's own 1,000 pages."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """Stored reply to a request with an idempotency key: experiment and position of its events."""

    request: str
    experiment_id: str
    first: int
    n: int


@dataclass(slots=True)
class PendingRequest:
    """Request in progress and its idempotency key; ``reply`` is set once events are stored."""

    key: str | None
    request: str
    reply: StoredReply | None = None


class SqliteStore:
    """Store of event logs in a SQLite file, safe to use from several threads.

    ``path`` and its folders are made if missing, for their owner alone. With ``read_only`` nothing
    is written, which is refused then; a store of an older version is read from a private copy.
    Raises StoreError, and changes nothing, if it is a folder, a link or a device, not writable, on
    a network file system, no database, one of another program, or from a newer version.
    """

    def __init__(self, path: Path | str = ":memory:", *, read_only: bool = False) -> None:
        self._path = str(path)
        self._lock = threading.RLock()
        self._read_only = read_only
        self._files = ExitStack()
        in_memory = self._path == ":memory:"
        if not in_memory:
            self._make_folder(Path(self._path))
        with self.errors():
            self._durability: Durability = "full"
            try:
                if read_only:
                    self.connection = self._connected_for_reading()
                else:
                    if not in_memory:
                        self._make_file(Path(self._path))
                    self.connection = self._connected(self._path)
                    check(self.connection)
                    self.connection.execute("PRAGMA journal_mode = WAL")
                    self.connection.execute("PRAGMA synchronous = FULL")
                    self.connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
                    migrate(self.connection, None if in_memory else Path(self._path))
            except BaseException:
                self._files.close()  # end a begun transaction; no caller can
                raise
        self._asked = threading.local()
        self._known = lru_cache(maxsize=256)(self._read_event)

    @property
    def path(self) -> Path | None:
        """File of the store; None in memory."""
        return None if self._path == ":memory:" else Path(self._path)

    def _connected(self, name: str, *, uri: bool = False) -> sqlite3.Connection:
        connection = sqlite3.connect(
            name, timeout=30.0, isolation_level=None, check_same_thread=False, uri=uri
        )
        self._files.callback(connection.close)
        return connection

    def _connected_for_reading(self) -> sqlite3.Connection:
        path = Path(self._path)
        with ExitStack() as files:
            connection = self._connected(files.enter_context(readable(path)), uri=True)
            check(connection)
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            if schema < len(MIGRATIONS):
                connection = self._connected(
                    files.enter_context(readable(path, copied=True)), uri=True
                )
                migrate(connection)
            self._files.push(files.pop_all())
        return connection

    def _make_file(self, path: Path) -> None:
        try:
            make_private(path)
        except OSError as error:
            raise StoreError(f"cannot make the store '{path}': {error.strerror}") from error

    def _make_folder(self, path: Path) -> None:
        try:
            if path.is_dir():
                raise StoreError(
                    f"the store '{path}' is a folder; name a file, such as {path}/sweeps.db"
                )
            if path.is_symlink():  # SQLite's other files must lie at the same place for all
                raise StoreError(
                    f"the store '{path}' is a symbolic link to '{path.readlink()}'; name the file"
                )
            if path.exists() and not path.is_file():
                raise StoreError(f"the store '{path}' is not a regular file; name another")
            if "\0" in str(path):
                raise StoreError(f"no file can have the name {str(path)!r}; rename the store")
            refuse_network_file_system(path)
            if not self._read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder of the store '{path}': {error}") from error

    def append(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Append events at index ``position`` in one transaction, or raise StoreError."""
        with self.transaction():
            check_position(experiment_id, position, self._length(experiment_id))
            self.insert(experiment_id, position, events)
            pending_request: PendingRequest | None = getattr(self._asked, "by", None)
            if pending_request is not None and pending_request.reply is None:
                pending_request.reply = StoredReply(
                    pending_request.request, experiment_id, position, len(events)
                )
                if pending_request.key is not None:  # request and reply are stored together
                    self.remember(pending_request.key, pending_request.reply, events[0].at_s)

    def insert(self, experiment_id: str, position: int, events: Sequence[Event]) -> None:
        """Insert events and update the query tables, inside an open transaction."""
        rows, digest = [], digest_before(self.connection, experiment_id, position)
        for at, event in enumerate(events, position):
            body = encode_event(event)
            digest = event_digest(digest, experiment_id, at, body.encode())
            rows.append((experiment_id, at, body, digest))
        self.connection.executemany("INSERT INTO event VALUES (?, ?, ?, ?)", rows)
        for i, event in enumerate(events):
            project(self.connection, experiment_id, position + i, event)

    @contextmanager
    def asking(self, key: str | None, request: str) -> Iterator[PendingRequest]:
        """Store a reply under an idempotency key with this thread's first append in the block.

        See `reply`. ``key`` is the idempotency key (None stores no reply), ``request`` a digest.
        """
        self._asked.by = asking = PendingRequest(key, request)
        try:
            yield asking
        finally:
            self._asked.by = None

    def reply(self, key: str) -> StoredReply | None:
        """Return the stored reply for an idempotency key; None if there is none."""
        with self.errors():
            row = self.connection.execute(
                "SELECT request, experiment_id, first, n FROM reply WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else StoredReply(*row)

    def remember(self, key: str, reply: StoredReply, at_s: float) -> None:
        """Store the reply for an idempotency key, inside an open transaction."""
        self.connection.execute(
            "INSERT INTO reply VALUES (?, ?, ?, ?, ?, ?)",
            (key, reply.request, reply.experiment_id, reply.first, reply.n, at_s),
        )

    @property
    def changes(self) -> int:
        """Number of rows that this process has changed in the database so far."""
        return self.connection.total_changes

    def forget_replies(self, before_s: float) -> int:
        """Delete the replies stored before a time (s since 1970 UTC); return their number."""
        with self.transaction("normal") as connection:
            gone = connection.execute("DELETE FROM reply WHERE at_s < ?", (before_s,))
            return gone.rowcount

    def load(self, experiment_id: str, since: int = 0) -> tuple[Event, ...]:
        """Return the events from index ``since`` on (0 is the first), or raise StoreError."""
        events: list[Event] = []
        while True:  # in pages, between which others use the store
            lines = self.lines(experiment_id, since + len(events), PAGE)
            events += map(decode_event, lines)
            if len(lines) < PAGE:
                return tuple(events)

    def lines(self, experiment_id: str, since: int = 0, limit: int = -1) -> list[str]:
        """Return up to ``limit`` events (-1: all) from index ``since`` on, as lines of JSON.

        Raises DamagedEventError if one of them is not as it was stored (see `digests`).
        """
        with self.errors():
            length = self._length(experiment_id)  # first, as another process may append meanwhile
            if not length:
                stored_ids = self.connection.execute("SELECT id FROM experiment")
                names = [name for (name,) in stored_ids if isinstance(name, str)]
                raise unknown_experiment(experiment_id, names)
            rows = self.connection.execute(
                "SELECT position, CAST(body AS BLOB), digest FROM event"
                " WHERE experiment_id = ? AND position >= ? ORDER BY position LIMIT ?",
                (experiment_id, since, limit),
            ).fetchall()
            before = digest_before(self.connection, experiment_id, since) if rows else b""
            bodies = checked(rows, before, experiment_id, since)
            if len(rows) != limit and since + len(rows) < length:
                raise damaged(experiment_id, since + len(rows))
        return bodies

    def experiments(self, *, deleted: bool = False) -> tuple[StoredExperiment, ...]:
        """Return the stored experiments, the latest first; with ``deleted`` the deleted ones."""
        with self.errors():
            rows = self.connection.execute(
                "SELECT id, name, opened_s, n_events, tags FROM experiment WHERE deleted = ?"
                " ORDER BY opened_s DESC, rowid",
                (deleted,),
            ).fetchall()
            try:
                return tuple(_entry(*row) for row in rows)
            except (ValueError, RecursionError) as error:
                raise self._damaged_list() from error

    def save_output(self, experiment_id: str, run_id: int, output: RunOutput) -> None:
        """Store the output of a run, in place of that of an earlier attempt."""
        with self.transaction("normal") as connection:
            connection.execute(
                "INSERT OR REPLACE INTO output VALUES (?, ?, ?, ?)",
                (experiment_id, run_id, output.stdout, output.stderr),
            )

    def output(self, experiment_id: str, run_id: int) -> RunOutput | None:
        """Return the stored output of a run; None if none is stored."""
        with self.errors():
            row = self.connection.execute(
                "SELECT stdout, stderr FROM output WHERE experiment_id = ? AND run_id = ?",
                (experiment_id, run_id),
            ).fetchone()
        return None if row is None else RunOutput(*row)

    def purge(self, experiment_id: str) -> None:
        """Remove a deleted experiment with its runs and their output, for good.

        Raises StoreError: there is no such experiment, or it is not deleted.
        """
        with self.transaction() as connection:
            if not self._length(experiment_id):
                raise unknown_experiment(experiment_id, [e.id for e in self.experiments()])
            is_deleted = "SELECT deleted FROM experiment WHERE id = ?"
            if not connection.execute(is_deleted, (experiment_id,)).fetchone()[0]:
                raise StoreError(f"experiment '{experiment_id}' is not deleted; delete it first")
            connection.execute(
                "DELETE FROM lease WHERE token IN"
                " (SELECT token FROM attempt WHERE experiment_id = ?)",
                (experiment_id,),
            )
            for table in ("attempt", "reply", "output", "run", "event"):
                statement = f"DELETE FROM {table} WHERE experiment_id = ?"  # noqa: S608 - ours
                connection.execute(statement, (experiment_id,))
            connection.execute("DELETE FROM experiment WHERE id = ?", (experiment_id,))
        self._known.cache_clear()

    def space(self, experiment_id: str) -> ParameterSpace:
        """Return the current parameter space of an experiment, without replaying its log."""
        event = self._known(experiment_id, self._at(experiment_id, "space_at"))
        if not isinstance(event, ExperimentOpened | SpaceChanged):
            raise AssertionError("the tables point to another event than the event log has")
        return event.space

    def sla(self, experiment_id: str) -> Sla:
        """Return the current SLA of an experiment, without replaying its event log."""
        event = self._known(experiment_id, self._at(experiment_id, "sla_at"))
        if not isinstance(event, ExperimentOpened | BudgetChanged):
            raise AssertionError("the tables point to another event than the event log has")
        return event.sla

    def objective(self, experiment_id: str) -> Objective:
        """Return the objective of an experiment, without replaying its event log."""
        return self.opened(experiment_id).objective

    def opened(self, experiment_id: str) -> ExperimentOpened:
        """Return the opening event of an experiment, without replaying its event log."""
        event = self._known(experiment_id, 0)
        if not isinstance(event, ExperimentOpened):
            raise AssertionError("an event log begins with its opening event")
        return event

    def length(self, experiment_id: str) -> int:
        """Return the number of events in an event log; 0 if the experiment does not exist."""
        with self.errors():
            return self._length(experiment_id)

    def close(self) -> None:
        """Close the database file."""
        with self._lock:
            self._files.close()

    @contextmanager
    def transaction(self, durability: Durability = "full") -> Iterator[sqlite3.Connection]:
        """Open a transaction, rolled back on errors; raise StoreFullError or StoreError."""
        if self._read_only:
            raise StoreError(
                f"the store '{self._path}' may only be read here: you may not write it or its "
                "folder; copy it to a folder of yours, or ask its owner"
            )
        with self.errors():
            if durability != self._durability:
                self.connection.execute(f"PRAGMA synchronous = {durability.upper()}")
                self._durability = durability
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:
                if self.connection.in_transaction:  # SQLite itself ends it when the disk is full
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Hold the thread lock, and convert errors of SQLite to StoreError."""
        with self._lock:
            try:
                yield
            except sqlite3.Error as error:
                if "full" in str(error):
                    raise StoreFullError(
                        f"the disk has no space for the store '{self._path}': {error}; free some "
                        "space, then try again"
                    ) from error
                raise StoreError(f"the store '{self._path}' cannot be used: {error}") from error
            except UnicodeError as error:  # SQLite's own message is damaged too
                raise StoreError(
                    f"the store '{self._path}' cannot be used: it is damaged"
                ) from error

    def _length(self, experiment_id: str) -> int:
        row = self.connection.execute(
            "SELECT n_events FROM experiment WHERE id = ?", (experiment_id,)
        ).fetchone()
        if row is not None and not isinstance(row[0], int):
            raise self._damaged_list()
        return 0 if row is None else row[0]

    def _damaged_list(self) -> StoreError:
        return StoreError(
            f"the store '{self._path}' cannot be used: its list of experiments is damaged; restore "
            "a backup"
        )

    def _at(self, experiment_id: str, column: Literal["space_at", "sla_at"]) -> int:
        with self.errors():
            row = self.connection.execute(
                f"SELECT {column} FROM experiment WHERE id = ?",  # noqa: S608 - two literals
                (experiment_id,),
            ).fetchone()
        if row is None:
            raise unknown_experiment(experiment_id, [stored.id for stored in self.experiments()])
        return int(row[0])

    def _read_event(self, experiment_id: str, position: int) -> Event:
        (line,) = self.lines(experiment_id, position, 1)
        return decode_event(line)


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """Result of a store check: schema version, numbers of records, and faults found."""

    schema: int
    experiments: int
    events: int
    faults: tuple[str, ...]


def examine(path: Path) -> StoreHealth:
    """Check a store file for faults without changing the file, or raise StoreError."""
    try:
        with (
            readable(path) as uri,
            closing(sqlite3.connect(uri, uri=True, timeout=10.0)) as connection,
        ):
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            findings = [text for (text,) in connection.execute("PRAGMA integrity_check")]
            lost = connection.execute("PRAGMA foreign_key_check").fetchall()
            experiments, events = connection.execute(
                "SELECT count(DISTINCT experiment_id), count(*) FROM event"
            ).fetchone()
            damage = tuple(find_damage(connection)) if schema >= WITH_DIGESTS else ()
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"'{path}' is not a readable store: {error}") from error
    faults = [text for text in findings if text != "ok"]
    faults += [f"a row of {row[0]} refers to a missing row" for row in lost]
    faults += damage
    return StoreHealth(int(schema), int(experiments), int(events), tuple(faults))


def back_up(path: Path, target: Path, *, damaged_too: bool = False) -> StoreHealth:
    """Copy a store file consistently to ``target``, even while the store is in use.

    ``target`` must not exist; it appears whole or not at all. Raises StoreError otherwise, and for
    a damaged store unless ``damaged_too``.
    """
    if target.exists():
        raise StoreError(f"there is a file '{target}' already; name another for the backup")
    examine(path)
    try:
        with (
            readable(path) as uri,
            closing(sqlite3.connect(uri, uri=True, timeout=30.0)) as source,
            atomic_file(target, raises=StoreError, private=True, overwrite=False) as draft,
        ):
            with closing(sqlite3.connect(draft)) as copy:
                source.backup(copy, pages=4096)
                copy.execute("PRAGMA journal_mode = DELETE")  # everything in one file
            health = examine(draft)
            if health.faults and not damaged_too:
                raise StoreError(f"'{path}' is damaged, so it is not copied: {health.faults[0]}")
    except FileExistsError as error:
        raise StoreError(
            f"there is a file '{target}' already; name another for the backup"
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the store cannot be copied to '{target}': {error}") from error
    return health


def restore(copy: Path, path: Path) -> Path | None:
    """Replace an unused store by a backup; return the path of the old store, or None.

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
    mode: int | None = None
    try:
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)  # it may be shared on purpose
            former = _free(path)
            back_up(path, former, damaged_too=True)  # includes its write-ahead log
            for ending in ("", "-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        back_up(copy, path)
        if mode is not None:
            path.chmod(mode)
    except OSError as error:
        raise StoreError(f"the store '{path}' cannot be replaced: {error}") from error
    return former


def _free(path: Path) -> Path:
    n = 1
    while (candidate := path.with_name(f"{path.name}.before-restore-{n}")).exists():
        n += 1
    return candidate
