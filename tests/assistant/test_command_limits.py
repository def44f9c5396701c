"""What a program may take: the walls of each process, the watch over all, and their sentences."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from assistant.applications import process_limits
from assistant.applications.process_limits import (
    GONE_WITHIN_S,
    MOST_PROCESSES,
    LimitMonitor,
    ProcessLimits,
    held_bytes,
    kill_session,
    session_processes,
)
from assistant.core.errors import ApplicationError, ProgramError, RunStoppedError
from assistant.core.ports import Environment
from tests.assistant.programs import (
    PATIENCE_S,
    WALLED,
    Listener,
    alive,
    failure,
    linux,
    python,
    until,
)

MIB = 1 << 20
pytestmark = linux


def test_too_many_processes_end_all_of_them() -> None:
    mark = uuid4().hex
    code = "import os, time\nfor _ in range(6): os.fork()\ntime.sleep(300)"  # 64 of them
    with pytest.raises(ProgramError, match="a run may have at most 20; allow more with") as caught:
        python(code, mark, processes=20).evaluate({"x": 1}, 0)
    assert caught.value.limited
    assert not caught.value.overtime
    assert not alive(mark)


def test_children_in_sessions_of_their_own_are_counted_and_ended() -> None:
    mark = uuid4().hex
    code = (
        "import os, time\nfor _ in range(12):\n"
        "    if os.fork() == 0:\n        os.setsid(); time.sleep(300); os._exit(0)\n"
        "time.sleep(300)"
    )
    assert "a run may have at most 8" in failure(python(code, mark, processes=8))
    assert not alive(mark)


def test_what_ignores_sigterm_in_a_session_of_its_own_is_killed_too() -> None:
    mark = uuid4().hex
    code = (
        "import os, signal, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    print('{\"cost\": 1}', flush=True)\n"
        "time.sleep(300)"
    )
    with pytest.raises(RunStoppedError):  # once the child is there
        python(code, mark).evaluate_watched({"x": 1}, 0, None, Listener(lambda _: True))
    assert not alive(mark)


def test_as_many_processes_as_allowed_are_let_be() -> None:
    code = (
        "import os\nread, write = os.pipe()\n"
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n        os.read(read, 1); os._exit(0)\n"
        "import time; time.sleep(0.2); os.write(write, b'xxxxx')\n"
        "for _ in range(5): os.wait()\nprint(1)"
    )
    assert python(code, processes=6).evaluate({"x": 1}, 0) == {"cost": 1.0}


def test_one_process_cannot_have_more_memory_than_the_run() -> None:
    code = f"{WALLED}await_wall(resource.RLIMIT_DATA); bytearray(10**10)"
    told = failure(python(code, environment=Environment(memory_bytes=256 * MIB)))
    assert "a run may have 256 MiB of memory; allow more with memory in [environment]" in told
    assert "MemoryError" in told


HOLD = "b = bytearray(b'x') * ({mib} << 20)"


def test_several_processes_cannot_have_more_memory_together() -> None:
    mark = uuid4().hex
    code = (
        "import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n"
        f"        {HOLD.format(mib=60)}; time.sleep(300); os._exit(0)\ntime.sleep(300)"
    )
    told = failure(python(code, mark, environment=Environment(memory_bytes=150 * MIB)))
    assert told.startswith("stopped at ")
    assert "of memory; a run may have at most 150 MiB" in told
    assert not alive(mark)


def test_memory_that_processes_share_counts_once() -> None:
    code = (
        f"import os\n{HOLD.format(mib=60)}\nread, write = os.pipe()\nfor _ in range(4):\n"
        "    if os.fork() == 0:\n        os.read(read, 1); os._exit(0)\n"
        "import time; time.sleep(0.4); os.write(write, b'xxxx')\n"
        "for _ in range(4): os.wait()\nprint(1)"
    )
    # five times 60 MiB if each counted all; processes that end meanwhile count in part twice
    command = python(code, environment=Environment(memory_bytes=250 * MIB))
    assert command.evaluate({"x": 1}, 0) == {"cost": 1.0}


@pytest.mark.parametrize("own_signal", [True, False], ids=["signal", "error"])
def test_a_file_cannot_be_larger(tmp_path: Path, own_signal: bool) -> None:
    target = tmp_path / "large"
    dies = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n" if own_signal else ""
    code = (
        f"{WALLED}await_wall(resource.RLIMIT_FSIZE)\n"
        f"{dies}f = open({str(target)!r}, 'wb')\nfor _ in range(64): f.write(bytes(1 << 16))"
    )
    told = failure(python(code, file_bytes=MIB))
    assert "it wrote a file larger than the limit of 1 MiB; allow more with file_size" in told
    assert target.stat().st_size == MIB


def test_what_it_prints_is_no_file() -> None:
    code = "import sys\nfor _ in range(64): sys.stdout.write('y' * 65535 + '\\n')\nprint(3)"
    assert python(code, file_bytes=1000).evaluate({"x": 1}, 0) == {"cost": 3.0}


def test_no_core_is_dumped() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)
    code = (
        "import json, resource, time\nend = time.monotonic() + 300\n"
        "while resource.getrlimit(resource.RLIMIT_CORE) != (0, 0) and time.monotonic() < end: "
        "time.sleep(0.01)\nprint(json.dumps({'cost': resource.getrlimit(resource.RLIMIT_CORE)[1]}))"
    )
    assert python(code).evaluate({"x": 1}, 0) == {"cost": 0.0}
    assert resource.getrlimit(resource.RLIMIT_CORE) == hard  # our own are left alone


@pytest.mark.parametrize("within_s", [GONE_WITHIN_S, 0.0], ids=["", "on a slow machine"])
def test_a_session_is_ended_to_the_last(within_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_limits, "GONE_WITHIN_S", within_s)
    mark = uuid4().hex
    code = "import os, time\nfor _ in range(5):\n    if os.fork() == 0: os.setpgid(0, 0)\nprint(1, flush=True); time.sleep(300)"  # noqa: E501 - a program
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", code, mark],
        stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert until(lambda: len(session_processes(child.pid)) == 32)
    assert held_bytes(session_processes(child.pid)) > 0
    kill_session(child.pid)
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    assert until(lambda: not alive(mark)) if within_s == 0.0 else not alive(mark)
    assert session_processes(child.pid) == ()


def test_a_look_is_dear_so_there_are_few() -> None:
    now_s = iter([0.0, 0.01, 10.0, 11.0, 12.0])
    watch = LimitMonitor(os.getpid(), ProcessLimits(10**6), clock=lambda: next(now_s))
    assert watch.look() is None  # too early, and nothing was looked at
    assert watch.next_s == pytest.approx(0.05)
    assert watch.look() is None  # it took a second
    assert watch.next_s == 11.0 + 50.0


IMPOSSIBLE = {
    "no process": ({"processes": 0}, "number of processes"),
    "no memory": ({"environment": Environment(memory_bytes=0)}, "memory"),
    "no file": ({"file_bytes": -1}, "size of a file"),
    "beyond the kernel": ({"file_bytes": 1 << 63}, "size of a file"),
}


@pytest.mark.parametrize(("more", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_limits_that_cannot_be(more: dict[str, object], words: str) -> None:
    with pytest.raises(ApplicationError, match=f"the {words} of a run must be at "):
        python("print(1)", **more)


def test_the_limits_are_told() -> None:
    facts = {fact.label: fact.text for fact in python("print(1)").facts}
    assert facts["Limit"] == f"no time limit, {MOST_PROCESSES} processes"
    more = python(
        "print(1)", limit_s=60.0, processes=7, file_bytes=MIB, inherit=["CUDA_*"], env={"A": "b"},
        environment=Environment(2, 4096 * MIB),
    )  # fmt: skip
    facts = {fact.label: fact.text for fact in more.facts}
    assert facts["Limit"] == "1 min a run, 7 processes, 4 GiB of memory, files of 1 MiB"
    assert facts["Environment"] == "inherits CUDA_*; with A"
