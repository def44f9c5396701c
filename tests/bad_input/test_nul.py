"""NUL and other control characters in names, of experiments, files and programs: one sentence."""

import json
from pathlib import Path

import pytest

from assistant import open_session
from assistant.cli.main import run
from assistant.core.codec import encode_event
from assistant.core.errors import SettingsError
from assistant.session.opening import build_opened_event
from assistant.store.event_store import MemoryStore
from tests.assistant.examples import Bowl
from tests.fuzz.watch import fault_of_sentence
from tests.service.real import refused, serving

DESCRIBED = json.loads(encode_event(build_opened_event(Bowl(), name="x")))
MAZE = {"application": {"kind": "maze"}, "runs": 3}


@pytest.mark.parametrize("body", [
    {"settings": MAZE, "name": "a\0b"},
    {"settings": {**MAZE, "name": "a\0b"}},
    {"described": {**DESCRIBED, "name": "a\0b"}},
    {"described": {**DESCRIBED, "experiment_id": "a\0b"}},
    {"described": {**DESCRIBED, "experiment_id": "../../a"}},
    {"settings": {"application": {"kind": "lookup", "table": "a\0b"}}},
    {"settings": {"application": {"kind": "scheduling", "log": "a\0b"}}},
    {"settings": {**MAZE, "results": ["a\0b"]}},
], ids=lambda body: json.dumps(body)[:60])  # fmt: skip
def test_a_service_answers_with_4xx_and_stores_nothing(tmp_path: Path, body: object) -> None:
    with serving(tmp_path) as real:
        client = real.client()
        problem = refused(client.post("/v1/experiments", json=body), 422)
        assert fault_of_sentence(problem["detail"]) is None
        assert client.get("/v1/experiments").json() == []


def test_events_of_another_process_are_checked_too(tmp_path: Path) -> None:
    event = {**DESCRIBED, "experiment_id": "a\0b"}
    with serving(tmp_path) as real:
        path = "/v1/experiments/a%00b/events"
        refused(real.client().post(path, json={"position": 0, "events": [event]}), 422)
        assert real.client().get("/v1/experiments").json() == []


@pytest.mark.parametrize("named", [
    {"name": "a\0b"},
    *({"experiment_id": text} for text in ("a\0b", "a\nb", "\x1b[31m", "\x85", "a/b", "..")),
    {"experiment_id": "a" * 201},
], ids=lambda named: str(named)[:40])  # fmt: skip
def test_no_experiment_is_opened_under_such_a_name(named: dict[str, str]) -> None:
    store = MemoryStore()
    with pytest.raises(SettingsError) as caught:
        open_session(Bowl(), store=store, **named)  # type: ignore[arg-type]
    assert fault_of_sentence(str(caught.value)) is None
    assert store.experiments() == ()


COMMAND = 'kind = "command"\nparameters = [{name = "x", levels = [1, 2]}]\n'
FILES = {
    "name": 'name = "a\\u0000b"\n[application]\nkind = "maze"',
    "table": '[application]\nkind = "lookup"\ntable = "a\\u0000b"',
    "log": '[application]\nkind = "scheduling"\nlog = "a\\u0000b"',
    "results": 'results = ["a\\u0000b"]\n[application]\nkind = "maze"',
    "program": f'[application]\n{COMMAND}command = ["a\\u0000b"]',
    "argument": f'[application]\n{COMMAND}command = ["true", "a\\u0000b"]',
    "folder of the program": f'[application]\n{COMMAND}command = ["true"]\ncwd = "a\\u0000b"',
    "variable": f'[application]\n{COMMAND}command = ["true"]\nenv = {{A = "a\\u0000b"}}',
    "function": '[application]\nkind = "function"\nfunction = "a\\u0000b:f"',
    "hook": 'hooks = {on_finish = ["a\\u0000b"]}\n[application]\nkind = "maze"',
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES)
def test_a_sweep_file_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    assert run(["sweep", str(file), "--runs", "2", "--store", str(tmp_path / "s.db")]) in (2, 4)
    words = capsys.readouterr().err.strip().splitlines()
    assert fault_of_sentence(words[-1]) is None
    assert "Traceback" not in "".join(words)


def test_an_experiment_of_such_a_name_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(tmp_path) as real:
        refused(real.client().get("/v1/experiments/a%00b"), 404)
    assert run(["report", "a\0b", "--store", str(tmp_path / "store.db")]) == 2
    assert fault_of_sentence(capsys.readouterr().err.strip()) is None
    assert run(["report", "latest", "--store", str(tmp_path / "a\0b")]) == 2
    assert fault_of_sentence(capsys.readouterr().err.strip()) is None
