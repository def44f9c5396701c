"""Named API tokens: roles, and a store (SQLite) that keeps only the digests of the tokens."""

import hashlib
import hmac
import math
import re
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from assistant.core.errors import NameTakenError, ServiceError, SettingsError, hint
from assistant.core.files import atomic_file, path_beside, read_private
from assistant.core.ports import Clock, SystemClock
from assistant.service.strict_json import RefusedJsonError, read_json
from assistant.store.store_file import make_private


class Role(StrEnum):
    """Role of an access token, which determines the requests that it permits."""

    VIEWER = "viewer"  # reads
    SUGGESTER = "suggester"  # reads and suggests, and submits nothing; always a named token
    STEERER = "steerer"  # reads and decides
    WORKER = "worker"  # leases runs and reports on them; sees only the leased runs
    ADAPTER = "adapter"  # a worker that sees its one experiment; always a named token
    OWNER = "owner"  # all of these; made anew for every service, never stored in a file

    def grants(self, role: "Role") -> bool:
        """Return whether this role includes the permissions of another role."""
        return role in _GRANTED[self]

    def hands_out(self, role: "Role") -> bool:
        """Return whether this role may create and revoke named tokens of another role."""
        return role in _HANDED_OUT.get(self, frozenset())


_GRANTED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.SUGGESTER: frozenset({Role.VIEWER, Role.SUGGESTER}),
    Role.STEERER: frozenset({Role.VIEWER, Role.SUGGESTER, Role.STEERER}),
    Role.WORKER: frozenset({Role.WORKER}),
    Role.ADAPTER: frozenset({Role.WORKER, Role.ADAPTER}),
    Role.OWNER: frozenset(Role),
}
_HANDED_OUT: Mapping[Role, frozenset[Role]] = {
    Role.STEERER: frozenset({Role.VIEWER, Role.SUGGESTER, Role.WORKER, Role.ADAPTER}),
    Role.OWNER: frozenset(Role) - {Role.OWNER},
}
NAMED = tuple(role for role in Role if role is not Role.OWNER)  # roles that a named token may have
OF_ONE_EXPERIMENT = (Role.WORKER, Role.ADAPTER)  # roles whose tokens may be of one experiment

MOST_HOLDERS = 1000  # every presented token is compared with all of them
MOST_BYTES = 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Form of a token's name: shorter than any token, so that no token is taken for a name."""

_BYTES = 32  # 256 bits
BUSY_S = 5.0  # maximum wait for another process that has the file open


@dataclass(frozen=True, slots=True)
class ApiToken:
    """Named access token and its limits, with times in seconds since 1970-01-01 UTC.

    A worker's name in the event log is the token's ``name``, alone or followed by a slash.
    ``digest`` is its SHA-256 in hexadecimal digits. ``experiment_id`` None means all experiments,
    ``expires_s`` None never, and ``created_by`` None a token without a name.
    """

    name: str
    role: Role
    digest: str
    created_s: float
    experiment_id: str | None = None
    expires_s: float | None = None
    created_by: str | None = None

    def is_over(self, now_s: float) -> bool:
        """Return whether the token has expired."""
        return self.expires_s is not None and self.expires_s <= now_s


def token_store_path(store: Path) -> Path:
    """Return the path of the file that holds a store's named tokens, ``<store>.token-hashes``."""
    return path_beside(store, "token-hashes")


def check_name(name: str) -> None:
    """Raise SettingsError if a text is not a valid name of a token."""
    if not NAME.fullmatch(name):
        raise SettingsError(
            f"a token cannot have the name {name[:40]!a}: use 1 to 40 letters, digits, dots, "
            "underscores or hyphens, starting with a letter or a digit"
        )


def token_name_of(worker: str) -> str:
    """Return the token name of a worker: the worker's name up to the first slash.

    >>> token_name_of("gpu-1/3"), token_name_of("gpu-1")
    ('gpu-1', 'gpu-1')
    """
    return worker.partition("/")[0]


class ApiTokenStore:
    """Thread-safe store of named tokens, in SQLite or, if the path is None, in memory.

    The process that holds the lock of the store is the only writer, so requests are answered from
    memory, and a revoked token is refused at once.

    Raises ServiceError if other users can read the file (`token_store_path`), or it is damaged.
    """

    def __init__(
        self,
        path: Path | None = None,
        clock: Clock | None = None,
        token: Callable[[], str] = lambda: secrets.token_hex(_BYTES),
    ) -> None:
        self._path, self._clock, self._token = path, clock or SystemClock(), token
        self._lock = threading.Lock()
        # Never changed, only replaced, so that a request is authenticated without the lock.
        self._holders: Mapping[str, ApiToken] = MappingProxyType(
            {} if path is None else _read(path)
        )

    def issue(
        self,
        name: str,
        role: Role,
        *,
        experiment_id: str | None = None,
        expires_s: float | None = None,
        created_by: str | None = None,
        again: bool = False,
    ) -> str:
        """Create a named token and return its secret, of which only a digest is stored.

        The name must be unused or expired, the role any but the owner; ``experiment_id`` is for
        workers only, and required for an adapter. With ``again``, because the answer to the same
        request was lost, the new token replaces the undelivered one.

        Raises:
            SettingsError: an argument is invalid; NameTakenError: the name is in use;
            ServiceError: the file cannot be written. No token is made in these cases.
        """
        now_s = self._clock.now_s()
        _check(name, role, experiment_id, expires_s, now_s)
        token = self._token()
        holder = ApiToken(
            name, role, _digest(token.encode()), now_s, experiment_id, expires_s, created_by
        )  # fmt: skip
        with self._lock:
            there = self._holders.get(name)
            is_same = there is not None and again and _asked(there) == _asked(holder)
            if there is not None and not there.is_over(now_s) and not is_same:
                raise NameTakenError(
                    f"there is a token '{name}' already; choose another name, or revoke it "
                    f"first: copperline token revoke {name}"
                )
            if there is None and len(self._holders) >= MOST_HOLDERS:
                raise SettingsError(
                    f"there are {MOST_HOLDERS} named tokens, which is the maximum; revoke some "
                    "that are not needed"
                )
            self._store(name, holder)
        return token

    def revoke(self, name: str) -> ApiToken:
        """Revoke a named token and return it, or raise SettingsError if the name is unknown.

        If the file cannot be written, it raises ServiceError and the token stays valid.
        """
        with self._lock:
            if name not in self._holders:
                raise SettingsError(f"no token '{name}'{_known(name, self._holders)}")
            gone = self._holders[name]
            self._store(name, None)
        return gone

    def holder_of(self, presented: bytes) -> ApiToken | None:
        """Return the valid named token with this secret, or None; compare in constant time."""
        holder = self._found(presented)
        return None if holder is None or holder.is_over(self._clock.now_s()) else holder

    def has_ended(self, presented: bytes) -> bool:
        """Return whether a secret belongs to an expired token."""
        holder = self._found(presented)
        return holder is not None and holder.is_over(self._clock.now_s())

    def lets_in(self, holder: ApiToken) -> bool:
        """Return whether an authenticated caller's token is neither revoked nor expired."""
        return self._holders.get(holder.name) == holder and not holder.is_over(self._clock.now_s())

    def has(self, name: str) -> bool:
        """Return whether a valid token has the given name."""
        holder = self._holders.get(name)
        return holder is not None and not holder.is_over(self._clock.now_s())

    def get(self, name: str) -> ApiToken | None:
        """Return the token with the given name, valid or expired, or None if there is none."""
        return self._holders.get(name)

    def holders(self) -> tuple[ApiToken, ...]:
        """Return all tokens that are not revoked, including expired ones, newest first."""
        return tuple(
            sorted(self._holders.values(), key=lambda holder: (-holder.created_s, holder.name))
        )

    def now_s(self) -> float:
        """Return the time in seconds since 1970-01-01 UTC, as used for the expiry of tokens."""
        return self._clock.now_s()

    def _found(self, presented: bytes) -> ApiToken | None:
        digest = _digest(presented)
        match: ApiToken | None = None
        for holder in self._holders.values():
            if hmac.compare_digest(digest, holder.digest):
                match = holder
        return match

    def _store(self, name: str, holder: ApiToken | None) -> None:
        """Replace the token with a name, on the disk before in memory; None removes it."""
        if self._path is not None:
            with _database(self._path) as connection:
                connection.execute("DELETE FROM token WHERE name = ?", (name,))
                if holder is not None:
                    connection.execute(_INSERT, asdict(holder))
        holders = {other: there for other, there in self._holders.items() if other != name}
        if holder is not None:
            holders[name] = holder
        self._holders = MappingProxyType(holders)


def _known(name: str, holders: Mapping[str, ApiToken]) -> str:
    """Return the end of the error message about an unknown name."""
    if not holders:
        return "; there are no named tokens"
    few = len(holders) <= 20
    return hint(name, holders) if few else "; copperline token list shows all tokens"


def _digest(presented: bytes) -> str:
    """Return the digest to store; one pass of SHA-256 suffices for 256 random bits."""
    return hashlib.sha256(presented).hexdigest()


def _asked(holder: ApiToken) -> ApiToken:
    """Return a token without the fields that change at every creation."""
    return replace(holder, digest="", created_s=0.0)


def _check(
    name: str, role: Role, experiment_id: str | None, expires_s: float | None, now_s: float
) -> None:
    check_name(name)
    if role not in NAMED:
        raise SettingsError(f"no token can be made for the role {role}{hint(role, NAMED)}")
    if role is Role.ADAPTER and experiment_id is None:
        raise SettingsError("the token of an adapter is for one experiment; name the experiment")
    if experiment_id is not None and role not in OF_ONE_EXPERIMENT:
        raise SettingsError(
            f"a {role} sees all experiments; only the token of a worker or an adapter can "
            "be limited to one"
        )
    if expires_s is not None and not (math.isfinite(expires_s) and expires_s > now_s):
        raise SettingsError("the expiry of a token must be in the future")


_SQLITE = b"SQLite format 3\0"
_SCHEMA = f"""CREATE TABLE IF NOT EXISTS token (
    name TEXT PRIMARY KEY CHECK (
        length(name) <= 40 AND name GLOB '[A-Za-z0-9]*' AND name NOT GLOB '*[^A-Za-z0-9._-]*'
    ),
    role TEXT NOT NULL CHECK (role IN ({", ".join(f"'{role}'" for role in NAMED)})),
    digest TEXT NOT NULL UNIQUE CHECK (length(digest) = 64 AND digest NOT GLOB '*[^0-9a-f]*'),
    created_s REAL NOT NULL,
    experiment_id TEXT,
    expires_s REAL,
    created_by TEXT
) STRICT, WITHOUT ROWID"""
_INSERT = """INSERT INTO token VALUES
    (:name, :role, :digest, :created_s, :experiment_id, :expires_s, :created_by)"""


@contextmanager
def _database(path: Path, named: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Open the tokens in a private file; one transaction, which an error in the block undoes.

    ``named`` is the path that errors name; None for ``path``.
    """
    named = named or path
    try:
        make_private(path)
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection, connection:
            _make_table(connection)
            yield connection
    except (OSError, sqlite3.OperationalError) as error:
        raise ServiceError(f"the tokens in '{named}' cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise _damaged(named, error) from error


def _make_table(connection: sqlite3.Connection) -> None:
    """Make the table unless there is one; that of an older version gets the present roles."""
    (schema,) = connection.execute(
        "SELECT max(sql) FROM sqlite_master WHERE name = 'token'"
    ).fetchone()
    if schema is not None and f"'{Role.SUGGESTER}'" in schema:
        return
    connection.execute("BEGIN IMMEDIATE")
    if schema is not None:
        connection.execute("ALTER TABLE token RENAME TO former")
    connection.execute(_SCHEMA)
    if schema is not None:
        connection.execute("INSERT INTO token SELECT * FROM former")
        connection.execute("DROP TABLE former")
    connection.commit()


def _read(path: Path) -> dict[str, ApiToken]:
    """Return the tokens of a file by name; a file of Copperline 0.2 (JSON) is moved over."""
    content = read_private(path, MOST_BYTES)
    if content is None:
        return {}
    if content and not content.startswith(_SQLITE):
        _move_over(path, content)
    with _database(path) as connection:
        rows = connection.execute("SELECT * FROM token").fetchall()
    return {row[0]: ApiToken(row[0], Role(row[1]), *row[2:]) for row in rows}


def _move_over(path: Path, content: bytes) -> None:
    """Replace a file of Copperline 0.2, an object with a list of ``tokens``, by a database."""
    try:
        match read_json(content):
            case {"tokens": list(rows), **more} if not more and len(rows) <= MOST_HOLDERS:
                tokens = [ApiToken(**row) for row in rows]  # type: ignore[arg-type]
            case _:
                raise ValueError(f"no object with a list of at most {MOST_HOLDERS} 'tokens'")
        with (
            atomic_file(path, raises=ServiceError, private=True) as draft,
            _database(draft, path) as connection,
        ):
            connection.executemany(_INSERT, map(asdict, tokens))
    except (RefusedJsonError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ServiceError:
    return ServiceError(
        f"the tokens in '{path}' are damaged: {error}; repair it, or delete it to revoke all named "
        "tokens"
    )
