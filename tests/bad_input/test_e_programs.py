"""Group E, 67-75: programs that misbehave. The run fails with a sentence, and the sweep goes on."""

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest

from assistant import Objective, RunState, SingleMeasure, Sla, open_session
from assistant.applications.child_process import KEPT_BYTES
from assistant.applications.program import Program
from assistant.core.errors import ApplicationError, RunError
from assistant.executors.serial import SerialExecutor
from assistant.store.event_store import MemoryStore
from sim.api import format_duration
from strategies import Parameter, ParameterSpace
from tests.fuzz.watch import fault_of_sentence

SPACE = ParameterSpace((Parameter("x", (1, 2, 3)),))
COST = Objective(SingleMeasure("cost"))
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def python(code: str, **more: object) -> Program:
    text = code.replace("{", "{{").replace("}", "}}")
    argv = (sys.executable, "-I", "-S", "-c", text, "{x}")
    return Program(argv, SPACE, COST, **more)  # type: ignore[arg-type]


def failure(command: Program) -> str:
    with pytest.raises(RunError) as caught:
        command.evaluate({"x": 1}, 0)
    ours = str(caught.value).partition("its last output: ")[0]
    assert fault_of_sentence(ours) is None
    assert str(caught.value).isprintable()
    return str(caught.value)


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def until_gone(pid: int) -> bool:
    end_s = time.monotonic() + 120.0
    while runs(pid) and time.monotonic() < end_s:
        time.sleep(0.01)
    return not runs(pid)


ENDS = {
    "E68 an exit code": ("import sys; sys.exit(3)", "exit code 3"),
    "E68 signal 9": ("import os; os.kill(os.getpid(), 9)", "SIGKILL (signal 9)"),
    "E68 signal 11": ("import os; os.kill(os.getpid(), 11)", "SIGSEGV (signal 11)"),
    "E71 a flood without an end of line": (
        "import sys\nfor _ in range(1000): sys.stdout.write('y' * 65536)", "longer than"),
    "E72 nothing": ("pass", "printed nothing"),
    "E72 words": ("print('all well')", "neither a number nor JSON"),
    "E72 the metric twice": ("print('{\"cost\": 1, \"cost\": 2}')", "occurs twice"),
    "E72 another metric": ("print('{\"cots\": 1}')", "no measure 'cost'"),
    "E72 a comma": ("print('{\"cost\": \"1,5\"}')", "the text '1,5'"),
    "E72 NaN": ("print('{\"cost\": NaN}')", "gave nan"),
    "E72 1e999": ("print('{\"cost\": 1e999}')", "gave inf"),
    "E72 on the wrong stream": ("import sys; print(1, file=sys.stderr)", "printed nothing"),
    "E73 more memory than it may have": (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (10**8, 10**8)); bytearray(10**10)",
        "MemoryError"),
    "E74 its disk is full": (
        "f = open('/dev/full', 'w', buffering=1); f.write('x' * 9999); f.flush()",
        "No space left on device"),
}  # fmt: skip


@pytest.mark.parametrize("code,words", ENDS.values(), ids=ENDS)  # noqa: PT006
def test_a_run_that_fails_says_why(code: str, words: str) -> None:
    if "/dev/full" in code and not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    assert words in failure(python(code))


def test_e67_a_program_that_is_missing_or_not_executable(tmp_path: Path) -> None:
    program = tmp_path / "program"
    for words in ("no program", "is not executable"):
        with pytest.raises(ApplicationError, match=words):
            Program(("./program", "{x}"), SPACE, COST, cwd=str(tmp_path))
        program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    command = Program(("./program", "{x}"), SPACE, COST, cwd=str(tmp_path))
    assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
    program.chmod(0o644)
    assert "could not be started" in failure(command)
    program.unlink()
    assert "could not be started" in failure(command)


def test_e67_the_queue_goes_on_after_every_kind_of_failure(tmp_path: Path) -> None:
    command = python(
        "import os, sys\nx = int(sys.argv[1])\n"
        "if x == 1: os.kill(os.getpid(), 9)\n"
        "if x == 2: sys.exit(5)\n"
        "print(x)"
    )
    session = open_session(command, store=MemoryStore(), sla=Sla(3))
    for x in (1, 2, 3):
        session.include({"x": x})
    session.run_queued(SerialExecutor(command))
    states = [run.state for run in session.experiment.runs]
    assert states == [RunState.FAILED, RunState.FAILED, RunState.COMPLETED]
    assert [bool(run.failure) for run in session.experiment.runs] == [True, True, False]


@linux
def test_e69_a_hang_that_ignores_sigterm_is_killed_with_its_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}}')\n"
        "time.sleep(600)"
    )
    for limit_s in (1.0, 10.0, 100.0):  # until it comes so far
        told = failure(python(code, limit_s=limit_s, grace_s=0.2))
        assert f"stopped at the limit of {format_duration(limit_s)}" in told
        if pids.exists() and pids.read_text():
            break
    first, second = map(int, pids.read_text().split())
    assert until_gone(first)
    assert until_gone(second)


DAEMON = """
import os, sys, time
session_of_its_own = {own}
if os.fork() == 0:
    if session_of_its_own:
        os.setsid()
    if os.fork() == 0:
        open({pids!r}, "w").write(str(os.getpid()))
        for stream in (0, 1, 2):
            os.close(stream)
        time.sleep(600)
    os._exit(0)
while not os.path.exists({pids!r}) or not open({pids!r}).read():
    time.sleep(0.01)
print(1)
"""


@linux
def test_e70_what_it_leaves_in_its_session_ends_with_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = python(DAEMON.format(own=False, pids=str(pids)))
    assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
    assert until_gone(int(pids.read_text()))


@linux
def test_e70_a_daemon_in_a_session_of_its_own_does_not_hold_the_run_up(tmp_path: Path) -> None:
    """It is out of reach, as `child` says; what is promised is that nobody waits for it."""
    pids = tmp_path / "pids"
    started_s = time.monotonic()
    try:
        command = python(DAEMON.format(own=True, pids=str(pids)))
        assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
        assert time.monotonic() - started_s < 300.0
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)


def test_e71_a_flood_is_bounded_and_its_tail_is_kept() -> None:
    before_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    flood = "import sys\nfor _ in range(1000): sys.stdout.write('y' * 65535 + '\\n')\nprint(3.5)"
    assert python(flood).evaluate({"x": 1}, 0) == {"cost": 3.5}
    after_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert after_bytes - before_bytes < 32 * KEPT_BYTES


@linux
def test_e75_it_starts_in_the_folder_that_was_named(tmp_path: Path) -> None:
    """Writing outside is not prevented: the program runs with the rights of who starts it."""
    told = tmp_path / "told"
    command = python(
        f"import json, os; open({str(told)!r}, 'w').write(json.dumps(os.getcwd())); print(1)",
        cwd=str(tmp_path),
    )
    assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}
    assert json.loads(told.read_text()) == str(tmp_path)
