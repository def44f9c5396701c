"""`copperline logs`: the output of every program run is stored, wherever the run was executed."""

import json
from pathlib import Path

import pytest

from assistant.applications.child_process import StreamTail
from assistant.cli.main import run as command
from assistant.client.api import HttpStore
from assistant.config.snapshot import config_snapshot, open_sweep
from assistant.config.sweep_file import build_sweep, check_settings, read_settings
from assistant.core.errors import AssistantError
from assistant.core.run import EXCERPT_BYTES, RunOutput, RunState
from assistant.service.store_connection import open_store
from tests.service.housed import housed
from tests.ui.screens import until

OPEN = (RunState.QUEUED, RunState.RUNNING)

SWEEP = """
runs = 3
keep_going = true
[application]
kind = "command"
command = ["sh", "program.sh", "{x}"]
[objective]
minimise = "loss"
[[parameters]]
name = "x"
levels = [1, 2, 3]
"""

PROGRAM = r"""
echo "trains $1"
printf 'careful \033[31m%s\n' "$1" >&2
if [ "$1" = 3 ]; then exit 3; fi
if [ "$1" = 2 ]; then head -c 300000 /dev/zero | tr '\0' x; echo; fi
echo "{\"loss\": $1}"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    (tmp_path / "program.sh").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    return tmp_path


def outputs(capsys: pytest.CaptureFixture[str]) -> dict[int, RunOutput]:
    """Return the output of each run by the value of x."""
    assert command(["runs", "--json"]) == 0
    found = {}
    for row in json.loads(capsys.readouterr().out)["runs"]:
        assert command(["logs", str(row["run"]), "--json"]) == 0
        found[row["x"]] = RunOutput(**json.loads(capsys.readouterr().out)["output"])
    return found


def is_whole(found: dict[int, RunOutput]) -> None:
    assert found[1] == RunOutput('trains 1\n{"loss": 1}\n', "careful \x1b[31m1\n")
    assert found[3] == RunOutput("trains 3\n", "careful \x1b[31m3\n")
    assert found[2].stdout.startswith("trains 2\nxxx")
    assert found[2].stdout.endswith('xxx\n{"loss": 2}\n')
    assert "[... 168,950 bytes left out ...]" in found[2].stdout
    assert len(found[2].stdout) < 2 * EXCERPT_BYTES + 100


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_output_of_every_run_is_stored_and_bounded(
    folder: Path, workers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["sweep", "sweep.toml", "--workers", workers]) == 0
    capsys.readouterr()
    is_whole(outputs(capsys))


def test_a_worker_sends_the_output_over_http(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "experiments.db"
    with housed(path) as service:
        built = build_sweep(check_settings(tables := read_settings(Path("sweep.toml")), "it"))
        store = open_store(path)
        assert isinstance(store.inner, HttpStore)
        session = open_sweep(built, store, "sweep", config_snapshot(tables, ()))
        for x in (1, 2, 3):
            session.include({"x": x})
        service.queue.set_active(session.id, True)
        until(lambda: not service.look(session.id).experiment.runs_in(*OPEN))
        is_whole(outputs(capsys))
        store.save_output(session.id, 1, RunOutput("again", ""))  # as a sweep beside a service
        assert store.output(session.id, 1) == RunOutput("again", "")
        with pytest.raises(AssistantError, match="has no run 9"):
            store.output(session.id, 9)
        store.close()


def test_logs_are_printed_and_what_is_missing_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["sweep", "sweep.toml"]) == 0
    capsys.readouterr()
    assert command(["logs", "1", "--only", "stderr"]) == 0
    assert capsys.readouterr().out.startswith("careful ")
    assert command(["logs", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- stdout of run 1"
    assert "--- stderr of run 1" in lines
    assert command(["logs", "9"]) == 2
    assert "no run 9; runs are numbered 1 to 3" in capsys.readouterr().err


def test_an_excerpt_is_the_whole_stream_or_its_two_ends() -> None:
    short, long = StreamTail(), StreamTail()
    short.add(b"a" * EXCERPT_BYTES)
    short.add(b"b" * EXCERPT_BYTES)
    assert short.excerpt == "a" * EXCERPT_BYTES + "b" * EXCERPT_BYTES
    for _ in range(40):
        long.add(b"h" * EXCERPT_BYTES)
    long.add("é".encode() * EXCERPT_BYTES)
    head, middle, tail = long.excerpt.split("\n")
    assert head == "h" * EXCERPT_BYTES
    assert middle == f"[... {40 * EXCERPT_BYTES:,} bytes left out ...]"
    assert tail == "é" * (EXCERPT_BYTES // 2)
