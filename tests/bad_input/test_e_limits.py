"""Group E, 72-75: programs that take too much. The run fails in a sentence, the sweep goes on."""

import re
from pathlib import Path
from uuid import uuid4

import pytest

from assistant import RunState, Sla, open_session
from assistant.applications.measures import Patterns
from assistant.applications.program import Program
from assistant.core.ports import Environment
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from tests.assistant.programs import WALLED, alive, failure, linux, python
from tests.fuzz.watch import fault_of_sentence

MIB = 1 << 20


def sentence(command: Program) -> str:
    told = failure(command)
    assert fault_of_sentence(told.partition("; its last output: ")[0]) is None
    return told


UNREAD = {
    "E72 two metrics on a line": ("print('1.5 2.5')", None, "neither a number nor JSON"),
    "E72 a comma, bare": ("print('{\"cost\": 1,5}')", None, "not JSON"),
    "E72 a comma, matched": ("print('cost: 1,5')", r"cost: (?P<cost>\S+)", "is '1,5' in stdout"),
    "E72 thousands": ("print('cost: 1.000,5')", r"cost: (?P<cost>\S+)", "is '1.000,5' in stdout"),
    "E72 other digits": ("print('cost: \u0661\u0662')", r"cost: (?P<cost>\S+)", "a finite number"),
    "E72 no match": ("print('all well')", r"cost: (?P<cost>\S+)", "nothing in stdout matches"),
    "E72 another measure": ("print('[]')", None, "a measure is a finite number"),
}


@pytest.mark.parametrize(("code", "pattern", "words"), UNREAD.values(), ids=UNREAD)
def test_measures_that_cannot_be_read(code: str, pattern: str | None, words: str) -> None:
    reading = None if pattern is None else Patterns((pattern,))
    command = python(code, reading=reading, env={"PYTHONUTF8": "1"})
    assert words in sentence(command)


BOMB = "import os, time\nfor _ in range(8): os.fork()\ntime.sleep(300)"
"""256 processes, which end by themselves."""


@linux
def test_e73_a_fork_bomb_is_ended_and_the_sweep_goes_on() -> None:
    mark = uuid4().hex
    bomb = f"import sys\nif sys.argv[2] == '2':\n    print(2); sys.exit()\n{BOMB}"
    command = python(bomb, mark, "{x}", processes=30)
    session = open_session(command, store=MemoryStore(), sla=Sla(2))
    for x in (1, 2):
        session.include({"x": x})
    session.run_queued(SerialExecutor(command))
    bombed, after = session.experiment.runs
    assert (bombed.state, after.state) == (RunState.FAILED, RunState.COMPLETED)
    told = re.match(r"stopped at (\d+) processes; a run may have at most 30;", bombed.failure or "")
    assert told is not None, bombed.failure
    assert 30 < int(told.group(1)) <= 256
    assert not alive(mark)


@linux
def test_e73_an_allocation_of_10_gib_is_refused_to_the_program_alone() -> None:
    code = f"{WALLED}await_wall(resource.RLIMIT_DATA); bytearray(10 << 30)"
    command = python(code, environment=Environment(memory_bytes=512 * MIB))
    assert "a run may have 512 MiB of memory" in sentence(command)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_e74_a_full_disk_fails_the_run_and_the_sweep_goes_on() -> None:
    """What is full is the program's disk; that of the store pauses claims (tests/faults)."""
    command = python(
        "import sys\nif sys.argv[1] == '1':\n"
        "    f = open('/dev/full', 'w'); f.write('x' * 9999); f.flush()\nprint(2)",
        "{x}",
    )
    session = open_session(command, store=MemoryStore(), sla=Sla(2))
    for x in (1, 2):
        session.include({"x": x})
    session.run_queued(SerialExecutor(command))
    full, after = session.experiment.runs
    assert (full.state, after.state) == (RunState.FAILED, RunState.COMPLETED)
    assert "No space left on device" in (full.failure or "")


@linux
def test_e74_a_file_that_grows_and_grows_ends_at_its_limit(tmp_path: Path) -> None:
    command = python(
        f"{WALLED}await_wall(resource.RLIMIT_FSIZE)\n"
        "f = open('grows', 'wb')\nwhile True: f.write(bytes(1 << 16))",
        cwd=str(tmp_path), file_bytes=3 * MIB, limit_s=600.0,
    )  # fmt: skip
    assert "a file larger than the limit of 3 MiB" in sentence(command)
    assert (tmp_path / "grows").stat().st_size == 3 * MIB


@linux
def test_e74_a_scratch_folder_goes_with_the_run_that_filled_it(tmp_path: Path) -> None:
    command = python(
        f"{WALLED}await_wall(resource.RLIMIT_FSIZE)\n"
        "import sys\nopen('told', 'w').write(sys.argv[1])\n"
        "f = open(sys.argv[1] + '/grows', 'wb')\nwhile True: f.write(bytes(1 << 16))",
        "{scratch}", cwd=str(tmp_path), file_bytes=MIB,
    )  # fmt: skip
    assert "a file larger than the limit of 1 MiB" in sentence(command)
    assert not Path((tmp_path / "told").read_text()).exists()


@linux
def test_e75_what_it_writes_elsewhere_is_not_prevented(tmp_path: Path) -> None:
    """As docs/howto/limit-resources.md says: it runs with the rights of who starts it."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "in").mkdir()
    command = python(f"open({str(elsewhere)!r}, 'w'); print(1)", cwd=str(tmp_path / "in"))
    assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
    assert elsewhere.exists()
