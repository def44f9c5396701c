"""Seeded mutants of the queue: each breaks one promise, and must be seen by name.

A copy of the package is edited and tried in a process of its own, in the way that is named for it:
the state machine, the kills at every statement before the checker, or the media that refuse.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import assistant

QUEUE, STORE = "store/queue.py", "store/event_store.py"

BREAK = 'connection.execute("COMMIT"); connection.execute("BEGIN IMMEDIATE")'
NOTE = 'connection.execute("UPDATE attempt SET result = ? WHERE token = ?", (digest, token))'
PROJECTING = "        for i, event in enumerate(events):\n            project("
BEGIN, COMMIT, ROLLBACK = (
    f'self.connection.execute("{word}")' for word in ("BEGIN IMMEDIATE", "COMMIT", "ROLLBACK")
)
CURRENT = "            if attempt.is_current:\n                "
FREED = '    connection.execute(\n        "DELETE FROM lease WHERE token ="'
IS_CURRENT = "r.token = a.token AND r.state = 'running', r.state"
NEXT = "\n            AND (e.deadline_s IS NULL OR e.deadline_s > :now_s)"


def current_or(more: str) -> str:
    return CURRENT.replace("is_current:", f"is_current or {more}:")


MUTANTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "a commit between the result and its note": ((QUEUE, NOTE, f"{BREAK}; {NOTE}"),),
    "a commit between the journal and the tables": (
        (STORE, PROJECTING, f"        connection = self.connection; {BREAK}\n{PROJECTING}"),
    ),
    "acknowledged before it is committed": (
        (STORE, BEGIN, f"self.connection.in_transaction or {BEGIN}"),
        (
            STORE,
            COMMIT,
            f"self.off = not getattr(self, 'off', 0)\n                self.off or {COMMIT}",
        ),
    ),
    "what was refused by the medium is kept by half": ((STORE, ROLLBACK, COMMIT),),
    "no token is asked for": ((QUEUE, IS_CURRENT, "r.state = 'running', r.state"),),
    "a late result changes a run that waits": (
        (QUEUE, f"{CURRENT}completion", current_or("attempt.state == 'queued'") + "completion"),
    ),
    "a result overwrites the first": (
        (QUEUE, f"{CURRENT}completion", f"{current_or('attempt.result is not None')}completion"),
    ),
    "a result that is told again is another one": (
        (QUEUE, "            if attempt.result == digest:\n                return False\n", ""),
    ),
    "a run may lose any number of workers": (
        (QUEUE, "assess_loss(run_id, before + 1,", "assess_loss(run_id, 1,"),
    ),
    "a run that was given back lost its worker": (
        (QUEUE, '"SELECT lost FROM run', '"SELECT attempts - 1 FROM run'),
    ),
    "a heartbeat renews the leases of others": (
        (
            QUEUE,
            '"UPDATE lease SET until_s = ? WHERE token = ?",\n                    (',
            '"UPDATE lease SET until_s = ? WHERE token >= ?",\n                    (',
        ),
    ),
    "a lease that has run out is renewed": (
        (QUEUE, "if row is None or row[1] <= self._steady_s():", "if row is None:"),
    ),
    "leases are counted by the time of day": (
        (QUEUE, "steady_s: Callable[[], float] = time.monotonic,", "steady_s: object = None,"),
        (QUEUE, "self._steady_s = steady_s", "self._steady_s = self._clock.now_s"),
    ),
    "nothing expires at a claim": (
        (QUEUE, "        self._expire()\n        earlier", "        earlier"),
    ),
    "the priority of the first claim is kept": (
        (
            STORE,
            '"UPDATE run SET priority = ? WHERE experiment_id = ? AND run_id = ?"',
            '"UPDATE run SET priority = ? WHERE experiment_id = ? AND run_id = ? AND attempts = 0"',
        ),
    ),
    "priorities count within an experiment only": (
        (QUEUE, "ORDER BY r.priority DESC, r.seq LIMIT 1", "ORDER BY r.seq LIMIT 1"),
    ),
    "the tables forget that a run is held": ((STORE, "isinstance(event, RunHeld), ", "False, "),),
    "a lease outlives its run": (
        (STORE, FREED, FREED.replace("connection", 'state == "completed" or connection', 1)),
    ),
    "a finished experiment goes on": (
        (QUEUE, f"e.active = 1 AND e.finished = 0{NEXT}", f"e.active = 1{NEXT}"),
    ),
    "anybody gives a run back": (
        (
            QUEUE,
            f"{CURRENT}event = RunReturned",
            current_or("attempt.state == 'running'") + "event = RunReturned",
        ),
    ),
}

TRY = """
import os, shutil, sys, tempfile
from pathlib import Path
import assistant
assert Path(assistant.__file__).parent == Path.cwd() / "assistant"
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.faults.machine import Queue
from tests.faults.test_crash_points import kill_at_statements
from tests.faults.test_refusals import SAYINGS, gone_on

def machine(folder):
    # A given seed, as one from the text of the machine would change with every name in it.
    run_state_machine_as_test(seed(int(os.environ["SEED"]))(Queue), settings=settings(
        max_examples=60, stateful_step_count=50, deadline=None, database=None,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    ))

def kills(folder):
    kill_at_statements(folder, 3)

def refusals(folder):
    gone_on(folder, range(0, 1000, 5), "disk I/O error", 1)

at = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
for name in sys.argv[1:]:
    with tempfile.TemporaryDirectory(dir=at) as folder:
        try:
            globals()[name](Path(folder))
        except BaseException as error:
            sys.stderr.write(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            sys.stderr.flush()
            shutil.rmtree(folder, ignore_errors=True)  # nothing else is tidied below
            os._exit(SEEN)
"""

SEEN = 3
SEEN_BY = {
    "a commit between the result and its note": "kills",
    "a commit between the journal and the tables": "kills",
    "what was refused by the medium is kept by half": "refusals",
}
"""Which of the ways sees a mutant; where none is named, the state machine."""

SEEDS = {
    "a result overwrites the first": 12,
    "a result that is told again is another one": 9,
    "a heartbeat renews the leases of others": 12,
    "a lease that has run out is renewed": 2,
    "nothing expires at a claim": 2,
    "the priority of the first claim is kept": 2,
    "the tables forget that a run is held": 2,
    "a lease outlives its run": 2,
    "a finished experiment goes on": 12,
}
"""Seeds with which the state machine sees a mutant early; any other one does so for the rest."""


def outcome(folder: Path, repository: Path, *ways: str, seed: int = 3) -> tuple[int, str]:
    """Return the exit code, 0 where nothing was seen, and what was said."""
    done = subprocess.run(
        [sys.executable, "-c", TRY.replace("SEEN", str(SEEN)), *ways],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), str(repository)]),
            "PYTHONHASHSEED": "0",  # sets are drawn from in the same order every time
            "SEED": str(seed),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stderr


def copied(tmp_path: Path) -> Path:
    source = Path(assistant.__file__).parent
    shutil.copytree(source, tmp_path / "assistant", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.soak
def test_the_unbroken_queue_passes(tmp_path: Path, repository: Path) -> None:
    assert outcome(copied(tmp_path), repository, "machine", "kills", "refusals") == (0, "")


@pytest.mark.soak
@pytest.mark.parametrize("name", MUTANTS)
def test_the_mutant_of_the_queue_is_seen(name: str, tmp_path: Path, repository: Path) -> None:
    folder = copied(tmp_path)
    for file, old, new in MUTANTS[name]:
        path = folder / "assistant" / file
        text = path.read_text()
        assert text.count(old) == 1, "the text has changed: mend the mutant"
        path.write_text(text.replace(old, new))
    way = SEEN_BY.get(name, "machine")
    code, said = outcome(folder, repository, way, seed=SEEDS.get(name, 3))
    assert code == SEEN, f"{way} has not seen it: {said}"
