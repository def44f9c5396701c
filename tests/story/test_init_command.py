"""`copperline init COMMAND`: from the command line of a program to its sweep, asked or not."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

import copperline as cl
from assistant.cli.main import run as command

TRAIN = """
import json, sys
lr, batch = float(sys.argv[1]), int(sys.argv[2])
print("trains")
print(json.dumps({"loss": (lr - 0.01) ** 2 + abs(batch - 32) / 100}))
"""


class Terminal(io.StringIO):
    """Answers of a person at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    monkeypatch.setenv("COLUMNS", "200")
    return f"'{sys.executable}' train.py {{lr}} {{batch}}"


def test_what_it_writes_runs_as_it_is(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    levels = ["--levels", "lr=0.1,0.01", "--levels", "batch=16,32,64"]
    assert command(["init", program, *levels, "--minimise", "loss"]) == 0
    assert "copperline try sweep.toml" in capsys.readouterr().out
    assert command(["sweep", "sweep.toml", "--runs", "6", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["best"]["values"] == {"lr": 0.01, "batch": 32}
    assert printed.err.startswith("1/6 runs")  # progress from the first run on
    assert command(["sweep", "--runs", "0"]) == 2  # the built-in workload, although a file is here
    assert "for yours: copperline sweep sweep.toml\n" in capsys.readouterr().err


def test_without_levels_a_person_is_asked_and_offered_the_dry_run(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = "0.1\n0.1 0.01\n16,32\nloss\ny\ny\n"
    monkeypatch.setattr(sys, "stdin", Terminal(answers))
    assert command(["init", program, "--out", "mine.toml"]) == 0
    printed, asked = capsys.readouterr()
    assert "'lr' needs at least two levels" in asked
    assert "Nothing was stored." in printed
    assert printed.splitlines()[-1] == "Next: copperline sweep mine.toml"
    text = Path("mine.toml").read_text()
    assert "levels = [0.1, 0.01]" in text  # spaces alone separate levels too
    assert "#     baseline = {lr = 0.1, batch = 16}\n" in text
    assert "\nnoisy = true\n" in text.partition("[application]\n")[2]


def test_a_program_that_prints_plain_text_is_one_line_away_from_a_sweep(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("train.py").write_text(
        TRAIN.replace('print(json.dumps({"loss": ', 'print("ended with loss:", (').replace(
            "})", ")"
        )
    )
    levels = ["--levels", "lr=0.1,0.01", "--levels", "batch=16,32"]
    assert command(["init", program, *levels, "--minimise", "loss"]) == 0
    assert command(["try", "sweep.toml"]) == 4
    printed = capsys.readouterr().out
    (line,) = re.findall(r"measures = \{pattern = .*\}", printed)
    sweep = Path("sweep.toml")
    sweep.write_text(sweep.read_text().replace('kind = "command"', f'kind = "command"\n{line}'))
    assert command(["sweep", "sweep.toml", "--runs", "4"]) == 0
    out = capsys.readouterr().out
    assert "Best found: loss = 0, by run " in out
    assert next(row.split() for row in out.splitlines() if row.startswith("  lr "))[1] == "0.01"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the levels of 'lr' are missing, and nobody can be asked"),
        (["--levels", "batc=1"], "no {batc}; did you mean 'batch'?"),
        (["--levels", "lr=1", "--levels", "batch="], "not of the form"),
        (["--levels", "lr=1,a", "--levels", "batch=1"], "mixes 1 and 'a'"),
        (["--out", "a.txt"], "must end in .toml"),
        (["--kind", "function"], "needs neither"),
        (["--minimise", "a", "--maximise", "b", "--levels", "lr=1", "--levels", "batch=1"],
         "contradict"),
    ],
)  # fmt: skip
def test_what_is_missing_or_wrong_is_one_sentence_and_writes_nothing(
    program: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["init", program, *arguments]) == 2
    assert words in capsys.readouterr().err
    assert not list(Path().glob("*.toml"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("python train.py", "names no parameter"),
        ("python 'train.py {lr}", "cannot be split"),
        ("no-such-program {lr}", "no program 'no-such-program'"),
        ("python {0}", "not a parameter name"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    program: str, line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["init", line, "--levels", "lr=1"] if "{lr}" in line else ["init", line]) == 2
    assert words in capsys.readouterr().err


def test_levels_strategy_and_preset_of_a_sweep_file_change_by_options(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    levels = ["--levels", "lr=0.1,0.01", "--levels", "batch=16,32,64"]
    assert command(["init", program, *levels, "--minimise", "loss"]) == 0
    sweep = Path("sweep.toml")
    sweep.write_text('strategy = "random"\n' + sweep.read_text())
    assert command(["sweep", "sweep.toml", "--runs", "2", "--levels", "lr=0.5,0.2", "--json"]) == 0
    capsys.readouterr()
    assert opened(capsys)["steering"]["strategy"] == "random"
    assert opened(capsys)["space"]["parameters"][0]["levels"] == [0.5, 0.2]
    assert command(["sweep", "sweep.toml", "--levels", "z=1", "--json"]) == 2
    assert "there is no parameter 'z'. Known: batch, lr." in capsys.readouterr().err
    assert command(["sweep", "sweep.toml", "--runs", "2", "--preset", "copper", "--json"]) == 0
    capsys.readouterr()
    copper = opened(capsys)
    assert copper["steering"]["strategy"] == "copper"
    assert copper["steering"]["options"] == {"effects": "blocks"}
    policy = copper["watch"]  # the name in a stored log
    assert (policy["rule"], policy["warn_from"]) == ("paper", 0.7)
    study = cl.study({"x": [1, 2]}, minimise="loss", preset="copper").session.experiment
    assert study.steering.options == {"effects": "blocks"}
    assert study.warning_policy.warn_from == 0.7
    with pytest.raises(cl.AssistantError, match="no preset 'x'; choose from copper"):
        cl.study({"x": [1, 2]}, minimise="loss", preset="x")  # type: ignore[arg-type]


def opened(capsys: pytest.CaptureFixture[str]) -> dict[str, dict]:  # type: ignore[type-arg]
    """Return the opening event of the latest experiment."""
    assert command(["events", "--kind", "ExperimentOpened", "--json"]) == 0
    (event,) = json.loads(capsys.readouterr().out)["events"]
    return dict(event)
