"""Nobody watches: hooks of the sweep file and of the command line; the same object everywhere."""

import json
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from agents import Follower
from assistant.client.remote_session import RemoteSession
from assistant.config.models import HookSettings
from assistant.config.snapshot import open_sweep
from assistant.config.sweep_file import build_sweep, check_settings, read_settings
from assistant.core.run import RunState
from assistant.executors import make_executor
from assistant.executors.serial import SerialExecutor
from assistant.hooks import notifier as notify
from assistant.hooks.notices import (
    KINDS,
    BestConfiguration,
    EndDetails,
    FailureDetails,
    RunCounts,
    WarningDetails,
    of_test,
)
from assistant.hooks.notifier import Notifier
from assistant.service.store_connection import api_client_of
from assistant.service.store_lock import find_endpoint
from assistant.store.event_store import MemoryStore
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from tests.service.housed import housed
from tests.story.test_cli import Cli, cli
from tests.ui.screens import until

pytestmark = pytest.mark.slow

__all__ = ["cli"]  # a fixture

KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
SWEEP = f"""
name = "week"
runs = 4
[application]
command = ["sh", "-c", "test $1 != 3 && echo $1", "sh", "{{x}}"]
[objective]
minimise = "cost"
unit = "s"
[[parameters]]
name = "x"
levels = [1, 2, 3, 4]
[[run]]
x = 3
[hooks]
on_finish = [{json.dumps(sys.executable)}, "-S", "-c", {json.dumps(KEEP)}, "finish.jsonl"]
on_failure = [{json.dumps(sys.executable)}, "-S", "-c", {json.dumps(KEEP)}, "failure.jsonl"]
timeout = "10min"
"""


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP)
    return folder / "sweep.toml"


def told(path: Path) -> list[dict[str, object]]:
    """What the hooks were told, without what differs from experiment to experiment."""
    objects = [json.loads(line) for line in path.read_text().splitlines()]
    return [{k: v for k, v in one.items() if k not in ("experiment", "at")} for one in objects]


def test_a_sweep_file_names_hooks_and_they_run_in_its_folder(cli: Cli, sweep_file: Path) -> None:
    code, out, err = cli("sweep", str(sweep_file), "--json")
    assert code == 0, err
    assert "  on_finish: [" in err
    assert "failed:" not in err
    (failure,) = told(sweep_file.with_name("failure.jsonl"))
    assert failure["failure"]["values"] == {"x": 3}  # type: ignore[index]
    (finish,) = told(sweep_file.with_name("finish.jsonl"))
    assert finish["finish"]["reason"] == json.loads(out)["finished"]  # type: ignore[index]
    assert finish["runs"] == {"executed": 4, "failed": 1, "remaining": 0}
    assert finish["best"] == {
        "run": finish["best"]["run"], "value": 1.0, "unit": "s", "feasible": True,  # type: ignore[index]
        "values": {"x": 1},
    }  # fmt: skip


def test_the_command_line_the_browser_and_a_script_tell_the_same(
    cli: Cli, sweep_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run fails, then the rest is done; what the hooks read differs in id and time."""
    monkeypatch.setattr(notify, "SILENT_S", 600.0)  # what it waits for is no fault
    files = [sweep_file.with_name(f"{kind}.jsonl") for kind in ("failure", "finish")]

    def collected() -> list[list[dict[str, object]]]:
        found = [told(path) for path in files]
        for path in files:
            path.unlink()
        return found

    _, out, _ = cli("sweep", str(sweep_file), "--json")
    reason = json.loads(out)["finished"]
    by_cli = collected()

    built = build_sweep(check_settings(read_settings(sweep_file), "here"))
    session = open_sweep(built, MemoryStore(), "week")
    with (
        Notifier(built.settings.hooks.build(), pytest.fail) as notifier,
        make_executor(built.application, 1) as executor,
    ):
        notifier.follow(session)
        session.include({"x": 3})
        session.finish(Follower().steer(session, executor))
    assert collected() == by_cli

    store = tmp_path / "browser.db"
    with housed(store) as service:
        opened = open_from(Form("file", str(sweep_file)), store)
        endpoint = find_endpoint(store)
        assert endpoint is not None
        session = RemoteSession(api_client_of(store, endpoint), opened.session.id)

        def over() -> bool:
            return not session.look().runs_in(RunState.QUEUED, RunState.RUNNING)

        session.start()
        until(over)
        session.submit(session.initial_evaluation(3))
        until(over)
        session.finish(reason)
        assert service.notes(session.id) == ()
    by_browser = collected()
    assert by_browser == by_cli


def test_options_name_hooks_too_and_overrule_the_file(cli: Cli, sweep_file: Path) -> None:
    keep = f"{sys.executable} -S -c '{KEEP}' 'a file'".replace("'a'", '"a"')
    code, _, err = cli("sweep", str(sweep_file), "--on-finish", keep, "--hook-timeout", "10min")
    assert code == 0, err
    assert json.dumps([sys.executable, "-S", "-c", KEEP.replace("'", '"'), "a file"]) in err
    assert len(told(sweep_file.with_name("a file"))) == 1
    assert not sweep_file.with_name("finish.jsonl").exists()
    assert sweep_file.with_name("failure.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--on-finish", "no-such-program x"), "on_finish cannot be started: there is no program"),
        (("--on-warning", "./hook.sh"), "there is no program"),
        (("--on-failure", "mail 'x"), "cannot be split into a program and its arguments"),
        (("--on-failure", " "), "--on-failure names no program"),
        (("--hook-timeout", "soon"), "'soon' is not a duration"),
    ],
)
def test_a_wrong_hook_is_refused_before_anything_is_stored(
    cli: Cli, sweep_file: Path, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    code, out, err = cli("sweep", str(sweep_file), *options)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
    assert not out
    assert not (tmp_path / "copperline-out").exists()


def test_resume_keeps_the_hooks_says_them_and_may_leave_them_out(
    cli: Cli, sweep_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: SerialExecutor) -> None:
        raise KeyboardInterrupt

    finish = sweep_file.with_name("finish.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(SerialExecutor, "collect", interrupt)
        assert cli("sweep", str(sweep_file))[0] == 130
        assert cli("sweep", str(sweep_file))[0] == 130
    assert not finish.exists()
    code, _, err = cli("resume", "latest", "--no-hooks", "--json")
    assert code == 0
    assert "on_finish" not in err
    assert not finish.exists()
    other = json.loads(cli("experiments", "--json")[1])["experiments"][1]["id"]
    code, _, err = cli("resume", other, "--json")
    assert code == 0
    assert "  on_finish: [" in err
    assert len(told(finish)) == 1


def test_resume_refuses_a_hook_that_is_gone_and_says_the_way_out(
    cli: Cli, sweep_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = sweep_file.with_name("hook.sh")
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    monkeypatch.chdir(hook.parent)
    assert cli("sweep", str(sweep_file), "--runs", "2", "--on-finish", "./hook.sh")[0] == 0
    hook.unlink()
    before = cli("events", "--json")[1]
    code, _, err = cli("resume", "--runs", "4")
    assert code == 2
    assert "on_finish cannot be started" in err
    assert "give --no-hooks to continue without hooks" in err
    assert cli("events", "--json")[1] == before
    assert cli("resume", "--runs", "4", "--no-hooks")[0] == 0


def test_a_sweep_that_ends_by_an_error_tells_it(
    cli: Cli, sweep_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: SerialExecutor) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(SerialExecutor, "collect", broken)
    with pytest.raises(OSError, match="the disk is full"):
        cli("sweep", str(sweep_file))
    (failure,) = told(sweep_file.with_name("failure.jsonl"))
    assert failure["sentence"] == "week ended with an error: the disk is full"
    assert not sweep_file.with_name("finish.jsonl").exists()


def test_hooks_can_be_tried(cli: Cli, sweep_file: Path) -> None:
    code, out, _ = cli("hooks", "test", str(sweep_file), "--json")
    assert code == 0
    assert [(row["hook"], row["code"]) for row in json.loads(out)["hooks"]] == [
        ("on_finish", 0), ("on_failure", 0),
    ]  # fmt: skip
    (finish,) = told(sweep_file.with_name("finish.jsonl"))
    assert finish["test"] is True
    cli("sweep", str(sweep_file), "--on-finish", "sh -c 'echo no mail today; exit 4'")
    code, out, err = cli("hooks", "test")
    assert code == 2
    assert "exit code 4; its last output: no mail today" in out
    assert "on_failure: ended well" in out
    assert "on_finish failed" in err
    (sweep_file.parent / "none.toml").write_text(SWEEP.partition("[hooks]")[0])
    code, _, err = cli("hooks", "test", str(sweep_file.parent / "none.toml"))
    assert code == 2
    assert "has no hooks" in err


def test_every_field_and_variable_is_documented(repository: Path, sweep_file: Path) -> None:
    section = (repository / "docs/reference/hooks.md").read_text()
    built = build_sweep(check_settings(read_settings(sweep_file), "here"))
    experiment = open_sweep(built, MemoryStore(), "week").experiment
    for notice in (of_test(experiment, kind, 0.0) for kind in KINDS):
        for field in json.loads(notice.as_json()):
            assert f"`{field}`" in section, field
        for part in (RunCounts, BestConfiguration, WarningDetails, EndDetails, FailureDetails):
            for field in fields(part):
                assert f"`{field.name}`" in section, field.name
        for name in notice.variables:
            assert f"`{name}`" in section, name
    for key in HookSettings.model_fields:
        assert f"`{key}`" in section, key


def test_the_hooks_of_the_page_are_read(repository: Path) -> None:
    page = (repository / "docs/howto/hooks.md").read_text()
    snippet = page.split("```toml\n", 1)[1].split("```", 1)[0]
    hooks = check_settings(tomllib.loads(snippet), "the page").hooks.build()
    assert hooks.kinds == KINDS
    assert hooks.on_finish[0] == "sh"
    assert hooks.timeout_s == 30.0
