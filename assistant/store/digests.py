"""Digests of stored events: a chain of SHA-256 for each event log.

The digest of an event covers the digest of the event before it, the experiment, the position and
the bytes of the event as stored. A changed, removed, moved or exchanged event is seen. A digest
has no secret: it shows damage by a disk or a stray program, not a forger who recomputes it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

from assistant.core.errors import DamagedEventError

FIRST = b""
"""What the first event of an event log has in the place of a digest before it."""


def event_digest(before: bytes, experiment_id: str, position: int, body: bytes) -> bytes:
    """Return the digest of an event (32 bytes), given the digest of the event before it."""
    return hashlib.sha256(b"%b%d%b%b" % (before, position, _label(experiment_id), body)).digest()


@lru_cache(maxsize=64)
def _label(experiment_id: str) -> bytes:
    return f" {len(experiment_id)} {experiment_id} ".encode(errors="surrogatepass")


def damaged(experiment_id: str, position: int) -> DamagedEventError:
    """Build the error for an event that is not as it was stored."""
    return DamagedEventError(
        f"experiment '{experiment_id}' is damaged: event {position} is not as it was stored, so "
        "its results cannot be trusted; restore a backup (copperline restore FILE) and check the "
        "disk"
    )


def digest_before(connection: sqlite3.Connection, experiment_id: str, position: int) -> bytes:
    """Return the digest of the event before a position, or raise DamagedEventError without one."""
    if position == 0:
        return FIRST
    row = connection.execute(
        "SELECT digest FROM event WHERE experiment_id = ? AND position = ?",
        (experiment_id, position - 1),
    ).fetchone()
    if row is None or row[0] is None:
        raise damaged(experiment_id, position - 1)
    return bytes(row[0])


def _is_sound(
    before: bytes, experiment_id: object, position: object, body: object, digest: object
) -> bool:
    """Return whether an event has its digest; columns of a damaged file may hold anything."""
    return (
        isinstance(experiment_id, str)
        and isinstance(position, int)
        and isinstance(body, bytes)
        and digest == event_digest(before, experiment_id, position, body)
    )


def checked(
    rows: list[tuple[int, bytes, bytes]], before: bytes, experiment_id: str, first: int
) -> list[str]:
    """Return the bodies of consecutive events, or raise DamagedEventError for the first wrong one.

    Args:
        rows: position, body and digest of each event, in order.
        before: digest of the event before the first of them.
        experiment_id: of the experiment, named in the error.
        first: position that the first of them must have.
    """
    bodies = []
    for expected, (position, body, digest) in enumerate(rows, first):
        if position != expected or not _is_sound(before, experiment_id, position, body, digest):
            raise damaged(experiment_id, expected)
        before = digest
        bodies.append(body.decode())
    return bodies


def add_digests(connection: sqlite3.Connection) -> None:
    """Give every stored event its digest; what is stored now counts as sound."""
    rows = connection.execute(
        "SELECT experiment_id, position, CAST(body AS BLOB) FROM event"
        " ORDER BY experiment_id, position"
    ).fetchall()
    for experiment_id, events in groupby(rows, itemgetter(0)):
        digest, updates = FIRST, []
        for _, position, body in events:
            if not (isinstance(experiment_id, str) and isinstance(body, bytes)):
                raise damaged(str(experiment_id), position)
            digest = event_digest(digest, experiment_id, position, body)
            updates.append((digest, experiment_id, position))
        connection.executemany(
            "UPDATE event SET digest = ? WHERE experiment_id = ? AND position = ?", updates
        )


def find_damage(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield a sentence for each experiment whose event log is damaged, with the first position."""
    rows = connection.execute(
        "SELECT experiment_id, position, CAST(body AS BLOB), digest FROM event"
        " ORDER BY experiment_id, position"
    )
    lengths = dict(connection.execute("SELECT id, n_events FROM experiment").fetchall())
    for experiment_id, events in groupby(rows, itemgetter(0)):
        n_stored = lengths.pop(experiment_id, 0)
        before, expected, sound = FIRST, 0, True
        for _, position, body, digest in events:
            sound = sound and position == expected
            if sound and _is_sound(before, experiment_id, position, body, digest):
                before, expected = digest, expected + 1
            else:
                sound = False
        if not sound or expected != n_stored:
            yield str(damaged(experiment_id, expected))
    for experiment_id, n_stored in lengths.items():
        if n_stored:
            yield str(damaged(experiment_id, 0))
