"""Hooks as real processes: what they get, what is said of bad ones, and that no sweep is hurt.

Where a test must wait for a process it waits on a named pipe: opening one waits for the other
side, and reading ends once nobody who could write is left.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from agents import Follower
from assistant import Session, Sla, open_session
from assistant.config.models import HookSettings
from assistant.config.sweep_file import check_settings
from assistant.core.errors import SettingsError
from assistant.executors.serial import SerialExecutor
from assistant.hooks import notifier as notify
from assistant.hooks.notices import HookCommands, of_test, resolve_hook_folder
from assistant.hooks.notifier import Notifier, start_hook
from assistant.store.event_store import MemoryStore
from sim.api import format_duration
from tests.assistant.examples import TODAY, Bowl, TickingClock
from tests.assistant.programs import PATIENCE_S, until

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are POSIX processes")


def python(code: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *map(str, arguments))


KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
BLOCK = "import sys; open(sys.argv[1]).read()"  # until the test opens the pipe


@pytest.fixture(autouse=True)
def _says_only_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a hook may take longer than a second; that is waited for in silence."""
    monkeypatch.setattr(notify, "SILENT_S", PATIENCE_S)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def bowl(fail_at_x: int | None = None, max_runs: int = 24) -> tuple[Session, SerialExecutor]:
    application = Bowl(baseline=TODAY, fail_at_x=fail_at_x)
    session = open_session(
        application, store=MemoryStore(), sla=Sla(max_runs), clock=TickingClock(), strategy="random"
    )
    return session, SerialExecutor(application)


def steered(session: Session, executor: SerialExecutor) -> None:
    session.finish(Follower(initial=2, batch=2).steer(session, executor))


def told_in(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_sweep_tells_its_failures_and_its_end(tmp_path: Path) -> None:
    session, executor = bowl(fail_at_x=1)
    failures, end, said = tmp_path / "failures", tmp_path / "end", []
    hooks = HookCommands(on_finish=python(KEEP, end), on_failure=python(KEEP, failures))
    with Notifier(hooks, said.append) as notifier:
        notifier.follow(session)
        steered(session, executor)
    assert said == []
    (finish,) = told_in(end)
    assert finish["runs"] == {"executed": 24, "failed": 6, "remaining": 0}
    assert finish["best"] == {
        "run": session.experiment.best.id, "value": 1.0, "unit": "", "feasible": True,  # type: ignore[union-attr]
        "values": {"x": 2, "y": 0, "mode": "plain"},
    }  # fmt: skip
    counts = [told["failure"]["count"] for told in told_in(failures)]  # type: ignore[index]
    assert counts[0] == 1
    assert sum(counts) == 6


def test_a_hook_gets_the_object_the_variables_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_OPERATOR", "kept")
    monkeypatch.setenv("COPPERLINE_BEST", "stale")
    code = (
        "import json, os, sys; print(json.dumps([json.load(sys.stdin), dict(os.environ), "
        "os.getcwd(), sys.argv[1:]]))"
    )
    hooks = HookCommands(on_finish=python(code, "a b", "$HOME", "*"), cwd=str(tmp_path))
    notice = of_test(bowl()[0].experiment, "finish", 0.0)
    answer = start_hook(hooks, notice)
    assert answer.fault is None
    told, variables, folder, arguments = json.loads(answer.output)
    assert told == json.loads(notice.as_json())
    assert variables["OF_THE_OPERATOR"] == "kept"
    assert {name: variables[name] for name in notice.variables} == notice.variables
    assert variables["COPPERLINE_BEST"] == ""
    assert Path(folder) == tmp_path.resolve()
    assert arguments == ["a b", "$HOME", "*"]


def test_a_failing_hook_is_said_once_and_the_sweep_goes_on() -> None:
    session, executor = bowl(fail_at_x=1)
    said: list[str] = []
    bad = python("import sys; sys.exit('no mail today')")
    with Notifier(HookCommands(on_finish=bad, on_failure=bad), said.append) as notifier:
        notifier.follow(session)
        steered(session, executor)
    fault = "the program ended with exit code 1; its last output: no mail today"
    assert sorted(said) == [f"the hook on_{kind} failed: {fault}" for kind in ("failure", "finish")]
    assert session.experiment.finished is not None


def test_a_hook_that_vanishes_meanwhile_is_said(tmp_path: Path) -> None:
    program = tmp_path / "hook"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    said: list[str] = []
    session, _ = bowl()
    with Notifier(HookCommands(on_finish=(str(program),)), said.append) as notifier:
        notifier.follow(session)
        program.unlink()
        session.finish("enough")
    (sentence,) = said
    assert "could not be started: No such file or directory" in sentence


def is_at_end(reader: int) -> bool:
    try:
        return os.read(reader, 1) == b""
    except BlockingIOError:
        return False


def test_after_the_timeout_nothing_of_a_hook_is_left(
    pipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "GRACE_S", 0.1)
    code = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = os.open(sys.argv[1], os.O_WRONLY)
child = subprocess.Popen(
    [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"], pass_fds=[held]
)
os.write(held, b"both")
time.sleep(600)
"""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for timeout_s in (1.0, 10.0, 100.0):  # until it writes
        said: list[str] = []
        session, _ = bowl()
        hooks = HookCommands(on_finish=python(code, pipe), timeout_s=timeout_s)
        with Notifier(hooks, said.append) as notifier:
            notifier.follow(session)
            session.finish("enough")
        assert until(lambda said=said: bool(said))  # type: ignore[misc]
        ended = f"stopped at the limit of {format_duration(timeout_s)}; it printed nothing"
        assert said == [f"the hook on_finish failed: {ended}"]
        written = os.read(reader, 100)
        if written:
            break
    assert written == b"both"
    assert until(lambda: is_at_end(reader))  # only when neither of the two is left
    os.close(reader)


def test_what_a_hook_leaves_behind_may_end_within_the_timeout(pipe: Path, tmp_path: Path) -> None:
    late = tmp_path / "late"
    script = '(sleep 0.2; read -r word < "$1"; echo "$word" > "$2") & exit 0'
    argv = ("sh", "-c", script, "sh", str(pipe), str(late))
    session, _ = bowl()
    deliver = threading.Thread(target=pipe.write_text, args=("delivered\n",), daemon=True)
    deliver.start()  # waits for the reader
    with Notifier(HookCommands(on_finish=argv), pytest.fail) as notifier:
        notifier.follow(session)
        session.finish("enough")
    assert late.read_text() == "delivered\n"
    deliver.join()


def test_what_was_held_back_is_told_when_the_block_ends(tmp_path: Path) -> None:
    session, executor = bowl(fail_at_x=0)
    kept = tmp_path / "kept"
    with Notifier(HookCommands(on_failure=python(KEEP, kept)), pytest.fail) as notifier:
        notifier.follow(session)
        for y in (0, 1, 2):
            session.include({"x": 0, "y": y, "mode": "plain"})
        session.run_queued(executor)
    counts = [(told["failure"]["run"], told["failure"]["count"]) for told in told_in(kept)]  # type: ignore[index]
    assert counts == [(1, 1), (3, 2)]


def test_no_run_waits_for_a_hook(pipe: Path) -> None:
    session, executor = bowl(fail_at_x=0)
    only_first = "import os, sys; os.path.exists(sys.argv[1]) and open(sys.argv[1]).read()"
    with Notifier(HookCommands(on_failure=python(only_first, pipe)), pytest.fail) as notifier:
        notifier.follow(session)
        steered(session, executor)  # ends although the first hook is still at work
        assert session.experiment.finished is not None
        assert notifier._lanes["failure"].is_at_work
        with pipe.open("w"):
            pipe.unlink()


def test_ctrl_c_does_not_wait_for_a_hook(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify, "SILENT_S", 0.05)
    session, _ = bowl()
    notifier = Notifier(HookCommands(on_finish=python(BLOCK, pipe), timeout_s=600.0), pytest.fail)

    def interrupted() -> None:
        with notifier:
            notifier.follow(session)
            session.finish("enough")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    lane = notifier._lanes["finish"]
    assert lane.is_at_work
    with pipe.open("w"):
        pass
    lane.wait(time.monotonic() + PATIENCE_S)
    assert not lane.is_at_work


def test_an_error_of_the_sweep_is_told(tmp_path: Path) -> None:
    session, _ = bowl()
    kept = tmp_path / "kept"

    def broken() -> None:
        with Notifier(HookCommands(on_failure=python(KEEP, kept)), pytest.fail) as notifier:
            notifier.follow(session)
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError, match="the disk is full"):
        broken()
    (told,) = told_in(kept)
    assert told["failure"] == {
        "of": "sweep", "run": None, "values": None, "text": "the disk is full", "count": 0,
    }  # fmt: skip


def test_a_fault_of_ours_is_said_once_and_hurts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(notify, "notices_of_event", broken)
    said: list[str] = []
    session, executor = bowl()
    with Notifier(HookCommands(on_finish=python("")), said.append) as notifier:
        notifier.follow(session)
        steered(session, executor)
    assert said == ["no hook was started: ZeroDivisionError: ours"]
    assert session.experiment.finished is not None


def test_without_hooks_nothing_listens() -> None:
    session, _ = bowl()
    with Notifier(HookCommands(), pytest.fail) as notifier:
        notifier.follow(session)
        assert session._event_log._listeners == []


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        (
            HookCommands(on_finish=("no-such-program",)),
            "on_finish cannot be started: there is no program",
        ),
        (HookCommands(on_warning=("./hook",)), "there is no program './hook' in the folder"),
        (
            HookCommands(on_failure=("sh",), cwd="no-such-folder"),
            "working folder of the hooks, 'no-such-folder'",
        ),
    ],
)
def test_what_cannot_be_started_is_refused_before(hooks: HookCommands, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Notifier(hooks, pytest.fail)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"on_finish": "mail me"}, r'such as \["mail", "me"\], not \'mail me\''),
        ({"on_finish": 'mail "me'}, r'such as \["program", "argument"\]'),
        ({"on_finish": []}, "should name a program"),
        ({"on_finish": [1]}, "'hooks.on_finish.0'"),
        ({"on_finished": ["x"]}, "did you mean 'on_finish'"),
        ({"timeout": "2d"}, "less than or equal to 86400"),
        ({"timeout": 0}, "above 0"),
    ],
)
def test_a_table_of_hooks_is_read_strictly(table: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        check_settings({"hooks": table}, "here")


def test_hooks_are_values_checked_at_once() -> None:
    assert HookSettings(on_finish=["sh"], timeout=5).build() == HookCommands(
        on_finish=("sh",), timeout_s=5.0
    )
    for bad in ({"on_finish": ("",)}, {"on_finish": ("sh", "a\0")}, {"timeout_s": 0.0}):
        with pytest.raises(SettingsError):
            HookCommands(**bad)  # type: ignore[arg-type]


def test_the_folder_of_hooks_is_that_of_their_file() -> None:
    there = Path("/there")
    assert resolve_hook_folder({"hooks": {"on_finish": ["x"]}}, there)["hooks"]["cwd"] == "/there"
    assert resolve_hook_folder({"hooks": {"cwd": "sub"}}, there)["hooks"]["cwd"] == "/there/sub"
    assert resolve_hook_folder({"hooks": {"cwd": "/else"}}, there)["hooks"]["cwd"] == "/else"
    assert resolve_hook_folder({"runs": 1}, there) == {"runs": 1}
    assert resolve_hook_folder({"hooks": 3}, there) == {"hooks": 3}  # refused later, in words
