"""kill -9 at random moments: every sweep is resumed, and ends as an unbroken one would have."""

import json
import multiprocessing
import os
import random
import sqlite3
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from assistant import Experiment
from assistant.cli.main import run
from assistant.store.event_store import SqliteStore

pytestmark = pytest.mark.slow

N_KILLS = 12
N_WHOLE = 4
"""So many of the killed are started as people do; the rest are forked from one that has imported
everything, for the imports take longer than the sweep."""
LOOK_EVERY_S = 0.002
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


class Commands:
    """Starts commands, the first of them as programs of their own, later ones as warm forks."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.n_started = folder, 0
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, "sklearn.ensemble", "scipy.stats"])

    def start(self, arguments: list[str]) -> BaseProcess | subprocess.Popen[bytes]:
        self.n_started += 1
        if self.n_started > N_WHOLE:
            process = self._context.Process(target=be_the_command, args=(arguments, self._folder))
            process.start()
            return process
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.Popen(
            [sys.executable, "-m", "assistant.cli", *arguments],
            cwd=self._folder, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


def be_the_command(arguments: list[str], folder: Path) -> None:
    """Do what `python -m assistant.cli` does, in a process that has imported it already."""
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nowhere, number)
    sys.exit(run(arguments))


def ended_with(process: BaseProcess | subprocess.Popen[bytes]) -> int | None:
    return process.exitcode if isinstance(process, BaseProcess) else process.poll()


def killed_at(commands: Commands, arguments: list[str], store: Path, at_event: int) -> bool:
    """Start a command and kill it once the journal holds ``at_event`` events; False: it ended."""
    process = commands.start([*arguments, "--store", str(store)])
    deadline_s = time.monotonic() + 120
    while ended_with(process) is None and n_events(store) < at_event:
        assert time.monotonic() < deadline_s, "the sweep hangs"
        time.sleep(LOOK_EVERY_S)
    if ended_with(process) is not None:
        assert ended_with(process) in (0, 3)
        return False
    process.kill()  # SIGKILL
    process.join() if isinstance(process, BaseProcess) else process.wait()
    return True


def final_state(experiment: Experiment) -> list[object]:
    """Everything that decisions and results left, without the times of day and the waits."""
    return [
        (r.id, r.configuration, r.source, r.seed, r.reason, r.batch, r.outcome, r.failure)
        for r in experiment.runs
    ] + [(b.number, b.suggestions, b.exhausted) for b in experiment.batches]


@pytest.mark.soak
def test_nothing_is_lost_at_many_random_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unbroken_store = tmp_path / "unbroken.db"
    assert run([*SWEEP, "--store", str(unbroken_store)]) in (0, 3)
    store = SqliteStore(unbroken_store)
    unbroken = Experiment.replay(store.load(store.experiments()[0].id))
    total = n_events(unbroken_store)

    rng = random.Random(SEED)  # printed with any failure through its name
    commands = Commands(tmp_path)
    kills, rounds = 0, 0
    while kills < N_KILLS:
        rounds += 1
        path = tmp_path / f"round-{rounds}.db"
        arguments = list(SWEEP)
        completed: dict[int, object] = {}
        while killed_at(commands, arguments, path, n_events(path) + rng.randint(1, total // 3)):
            kills += 1
            if not SqliteStore(path).experiments():
                continue  # killed before the experiment was opened: start it again
            name = SqliteStore(path).experiments()[0].id
            seen = Experiment.replay(SqliteStore(path).load(name))
            outcomes = {r.id: r.outcome for r in seen.runs if r.outcome is not None}
            assert completed.items() <= outcomes.items(), "an acknowledged result was lost"
            completed = dict(outcomes)
            if seen.finished is not None:
                break  # killed when all was over: nothing is left to go on with
            arguments = ["resume", name, "--json"]
        name = SqliteStore(path).experiments()[0].id
        ended = Experiment.replay(SqliteStore(path).load(name))
        assert ended.finished is not None
        assert final_state(ended) == final_state(unbroken), f"round {rounds}, seed {SEED}"
    print(json.dumps({"kills": kills, "sweeps": rounds, "seed": SEED}))  # noqa: T201
