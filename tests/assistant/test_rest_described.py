"""What a program over HTTP says that it can set becomes a sweep file, or one sentence."""

import os
from pathlib import Path

import pytest

from assistant.applications.rest_address import TOKEN
from assistant.cli.commands.sweep_file import described_sweep
from assistant.cli.main import run
from assistant.config.sweep_file import build_sweep, check_settings, parse_settings
from assistant.core.errors import AssistantError
from strategies import StrategyError
from tests.assistant.adapter import Reply, program

X = {"name": "x", "levels": [1, 2]}
COST = {"minimise": "cost"}
FULL = {
    "parameters": [
        {**X, "unit": "GB", "description": 'a "quoted" \u03c0\x7f\x1b\n[hooks]\non_finish = ["x"]'},
        {"name": "mode", "levels": ["a", "\U0001f600"], "kind": None},
        {"name": "rate", "logarithmic": {"low": 0.001, "high": 1, "count": 4}},
    ],
    "objective": {"maximise": "cost", "constraints": [{"measure": "m", "at_most": 3}]},
    "baseline": {"x": 1, "mode": "a", "rate": 0.001},
    "limit": "2m",
    "noisy": True,
}


def test_everything_that_it_says_stands_in_the_file(tmp_path: Path) -> None:
    with program(lambda heard: Reply(FULL)) as there:
        text = described_sweep(there.url)
    tables = parse_settings(text, "it", tmp_path, "it")
    assert tables.keys() == {"name", "application", "objective", "parameters"}
    assert tables["application"] == {
        "kind": "rest", "url": there.url,
        "baseline": FULL["baseline"], "limit": "2m", "noisy": True,
    }  # fmt: skip
    assert tables["parameters"][0] == FULL["parameters"][0]  # type: ignore[index]
    built = build_sweep(check_settings(tables, "it"))
    assert built.space.names == ("x", "mode", "rate")
    assert [one.method for one in there.heard] == ["GET"]


WRONG: dict[str, tuple[Reply, str]] = {
    "hooks": (
        Reply({"parameters": [X], "objective": COST, "hooks": {"on_finish": ["touch", "canary"]}}),
        "describes itself with 'hooks'",
    ),
    "another kind": (
        Reply({"parameters": [X], "objective": COST, "application": {"kind": "command"}}),
        "describes itself with 'application'",
    ),
    "no parameters": (Reply({"objective": COST}), "at least one"),
    "no objective": (Reply({"parameters": [X]}), "needs an [objective]"),
    "a level twice": (
        Reply({"parameters": [{"name": "x", "levels": [1, 1]}], "objective": COST}), "'x'"
    ),
    "no levels": (Reply({"parameters": [{"name": "x"}], "objective": COST}), "exactly one of"),
    "a bad word": (Reply({"parameters": [{**X, "step": 1}], "objective": COST}), "no setting"),
    "no today": (Reply({"parameters": [X], "objective": COST, "baseline": {"x": 3}}), "3"),
    "half a character": (
        Reply({"parameters": [{**X, "description": "\ud800"}], "objective": COST}),
        "an invalid character",
    ),
    "no list": (Reply({"parameters": 3, "objective": COST}), "parameters"),
    "no object": (Reply([FULL]), "not an object"),
    "nothing of itself": (Reply({"detail": "POST only"}, 405), "405; message: POST only"),
}  # fmt: skip


@pytest.mark.parametrize(("reply", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_swept_is_one_sentence(
    reply: Reply, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        program(lambda heard: reply) as there,
        pytest.raises((AssistantError, StrategyError)) as caught,
    ):
        described_sweep(there.url)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_the_command_asks_with_the_token_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(TOKEN, "s3cret")
    with program(lambda heard: Reply(FULL)) as there:
        assert run(["init", "mine.toml", "--adapter", there.url]) == 0
        assert "s3cret" not in Path("mine.toml").read_text()
        assert there.heard[0].headers["authorization"] == "Bearer s3cret"
        assert run(["init", "mine.toml", "--adapter", there.url]) == 2
        assert "already exists" in capsys.readouterr().err
        assert run(["init", "two.toml", "--adapter", there.url, "--kind", "command"]) == 2
        assert "give only one" in capsys.readouterr().err
    assert run(["init", "three.toml", "--adapter", "http://evil.example/"]) == 2
    assert "not encrypted" in capsys.readouterr().err
    assert os.listdir() == ["mine.toml"]  # noqa: PTH208 - the names
