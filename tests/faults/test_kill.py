"""kill -9 at random moments: every sweep is resumed, and ends as an unbroken one would have."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assistant import Experiment
from assistant.cli.main import run
from assistant.store import SqliteStore

pytestmark = [pytest.mark.slow, pytest.mark.faults]

N_KILLS = 50
SEED = 20_260_101
SWEEP = ("sweep", "--runs", "24", "--seed", "3", "--order", "fcfs,sjf", "--json")


def n_events(store: Path) -> int:
    """Look at a store from outside while another process writes it."""
    if not store.exists():
        return 0
    connection = sqlite3.connect(f"file:{store}?mode=ro", uri=True, timeout=30)
    try:
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])
    except sqlite3.OperationalError:  # the table is not there yet
        return 0
    finally:
        connection.close()


def killed_at(arguments: list[str], folder: Path, store: Path, at_event: int) -> bool:
    """Start a command and kill it once the journal holds ``at_event`` events; False: it ended."""
    command = [sys.executable, "-m", "assistant.cli", *arguments, "--store", str(store)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline_s = time.monotonic() + 120
    while process.poll() is None and n_events(store) < at_event:
        assert time.monotonic() < deadline_s, "the sweep hangs"
    if process.poll() is not None:
        return False
    process.send_signal(signal.SIGKILL)
    process.wait()
    return True


def final_state(experiment: Experiment) -> list[object]:
    """Everything that decisions and results left, without the times of day and the waits."""
    return [
        (r.id, r.configuration, r.source, r.seed, r.reason, r.batch, r.outcome, r.failure)
        for r in experiment.runs
    ] + [(b.number, b.suggestions, b.exhausted) for b in experiment.batches]


def test_nothing_is_lost_at_fifty_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unbroken_store = tmp_path / "unbroken.db"
    assert run([*SWEEP, "--store", str(unbroken_store)]) in (0, 3)
    store = SqliteStore(unbroken_store)
    unbroken = Experiment.replay(store.load(store.experiments()[0].id))
    total = n_events(unbroken_store)

    rng = random.Random(SEED)  # printed with any failure through its name
    kills, rounds = 0, 0
    while kills < N_KILLS:
        rounds += 1
        path = tmp_path / f"round-{rounds}.db"
        arguments = list(SWEEP)
        completed: dict[int, object] = {}
        while killed_at(arguments, tmp_path, path, n_events(path) + rng.randint(1, total // 3)):
            kills += 1
            if not SqliteStore(path).experiments():
                continue  # killed before the experiment was opened: start it again
            name = SqliteStore(path).experiments()[0].id
            seen = Experiment.replay(SqliteStore(path).load(name))
            outcomes = {r.id: r.outcome for r in seen.runs if r.outcome is not None}
            assert completed.items() <= outcomes.items(), "an acknowledged result was lost"
            completed = dict(outcomes)
            arguments = ["resume", name, "--json"]
        name = SqliteStore(path).experiments()[0].id
        ended = Experiment.replay(SqliteStore(path).load(name))
        assert ended.finished is not None
        assert final_state(ended) == final_state(unbroken), f"round {rounds}, seed {SEED}"
    print(json.dumps({"kills": kills, "sweeps": rounds, "seed": SEED}))  # noqa: T201
