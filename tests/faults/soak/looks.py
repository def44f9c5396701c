"""What a driver asks the machine and the store from outside: ports, runs that are open or bad."""

import socket
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from tests.faults.soak.app import BAD


def listening() -> socket.socket:
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen(64)
    return one


def _asked(store: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)
    try:
        return connection.execute(statement).fetchall()
    except sqlite3.OperationalError:
        return []
    finally:
        connection.close()


def n_open(store: Path) -> int:
    rows = _asked(store, "SELECT count(*) FROM run WHERE state IN ('queued', 'running')")
    return int(rows[0][0]) if rows else -1


def bad_runs(store: Path) -> Counter[str]:
    """Count how often runs that go wrong were given to a worker, by what they do."""
    rows = _asked(
        store,
        "SELECT e.name, json_extract(r.levels, '$[4]'), sum(r.attempts) FROM run AS r"
        " JOIN experiment AS e ON e.id = r.experiment_id"
        " WHERE json_extract(r.levels, '$[4]') > 0 GROUP BY 1, 2",
    )
    found: Counter[str] = Counter()
    for name, level, n in rows:
        if n:
            found[f"F6 {BAD[name][level - 1]} ({name})"] += n
    return found
