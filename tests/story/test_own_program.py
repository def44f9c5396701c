"""A program of one's own, from `copperline init` or the tutorial to a report."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli.main import run

pytestmark = pytest.mark.slow

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> tuple[int, str, str]:
        code = run(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.mark.parametrize("kind", ["command", "function", "scheduling"])
def test_what_init_writes_runs_as_it_is(cli: Cli, tmp_path: Path, kind: str) -> None:
    code, out, err = cli("init", "--kind", kind, "my-own.toml")
    assert (code, err) == (0, "")
    assert "copperline sweep my-own.toml" in out
    code, out, err = cli("suggest", "my-own.toml", "-n", "2", "--json")
    assert code == 0, err
    assert len(json.loads(out)["suggestions"]) == 2
    code, out, err = cli("sweep", "my-own.toml", "--runs", "8", "--json")
    assert code in (0, 3 if kind == "scheduling" else 0), err
    found = json.loads(out)
    assert found["runs"] == {"submitted": 8, "completed": 8, "failed": 0}
    assert Path(found["report"]).exists()
    if kind != "scheduling":
        assert found["name"] == "my-own"


def test_init_overwrites_nothing(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sweep.sh").write_text("mine")
    code, _, err = cli("init")
    assert code == 2
    assert "sweep.sh' already exists" in err
    assert (tmp_path / "sweep.sh").read_text() == "mine"
    assert not (tmp_path / "sweep.toml").exists()
    for arguments, words in (
        (("init", "x.txt"), ".toml"),
        (("init", "nowhere/x.toml"), "nowhere"),
        (("init", "--kind", "magic"), "magic"),
    ):
        code, _, err = cli(*arguments)
        assert code == 2
        assert words in err
        assert len(err.strip().splitlines()) == 1


def _snippets(repository: Path) -> dict[str, str]:
    tutorial = (repository / "docs/tutorial/own-program.md").read_text()
    page = (repository / "docs/howto/python-function.md").read_text()
    blocks = re.findall(r"```(\w+)\n(.*?)```", tutorial + page, re.DOTALL)
    return dict(reversed(blocks))  # the first of each language


def test_the_tutorials_shell_script_is_steered(cli: Cli, tmp_path: Path, repository: Path) -> None:
    snippets = _snippets(repository)
    assert len((snippets["sh"] + snippets["toml"]).splitlines()) < 20
    (tmp_path / "bench.sh").write_text(snippets["sh"])
    (tmp_path / "bench.toml").write_text(snippets["toml"])
    code, out, err = cli("sweep", "bench.toml", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["runs"] == {"submitted": 20, "completed": 20, "failed": 0}
    assert found["baseline"]["value"] == 900 + 30 + (16 - 48) ** 2 // 8
    values = found["best"]["values"]
    threads, block = values["threads"], values["block"]
    assert found["best"]["value"] == 900 // threads + 30 * threads + (block - 48) ** 2 // 8
    tutorial = (repository / "docs/tutorial/own-program.md").read_text()
    (resume,) = re.findall(r"^copperline (resume .*)$", tutorial, re.MULTILINE)
    code, out, err = cli(*resume.split(), "--json")
    assert code == 0, err
    assert json.loads(out)["runs"] == {"submitted": 24, "completed": 24, "failed": 0}


def test_the_flags_of_the_reference_are_passed_one_at_a_time(
    cli: Cli, tmp_path: Path, repository: Path
) -> None:
    page = (repository / "docs/reference/sweep-file.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (text,) = [block for block in blocks if "one_of" in block]
    (tmp_path / "sort.toml").write_text(text)
    (tmp_path / "sorter.sh").write_text('echo "$*" >> called\necho "$(($# * 10 + ${#1}))"\n')
    code, out, err = cli("sweep", "sort.toml", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["runs"] == {"submitted": 8, "completed": 8, "failed": 0}
    flags = ("", "--quicksort ", "--mergesort ", "--heapsort ")
    called = (tmp_path / "called").read_text().splitlines()
    assert sorted(called) == sorted(f"{flag}--threads={n}" for flag in flags for n in (1, 2))
    assert found["best"]["values"]["sort"] == "none"
    assert found["best"]["value"] == 10 + len("--threads=1")
    code, out, _ = cli("runs")
    assert code == 0
    assert "--mergesort" in out


@pytest.mark.soak
def test_the_python_function_of_the_page_is_steered(tmp_path: Path, repository: Path) -> None:
    source = _snippets(repository)["python"]
    assert len(source.splitlines()) < 20
    (tmp_path / "tune.py").write_text(source)
    done = subprocess.run(
        [sys.executable, "tune.py"], cwd=tmp_path, capture_output=True, text=True, check=True,
        env={"PYTHONPATH": str(repository), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "{'depth': 5, 'rate': 0.01}"


@pytest.mark.soak
def test_one_worker_and_two_end_alike(cli: Cli) -> None:
    cli("init", "a.toml")

    def end(*more: str) -> object:
        found = json.loads(cli("sweep", "a.toml", "--runs", "9", "--json", *more)[1])
        return [found["best"]["values"], found["best"]["value"], found["runs"]]

    assert end() == end("--workers", "2")


COMMAND = """
runs = 3
[application]
command = ["sh", "-c", "echo $1", "sh", "{x}"]
[objective]
minimise = "cost"
[[parameters]]
name = "x"
levels = [1, 2, 3]
"""

BAD_FILES = {
    "no objective": (COMMAND.replace("[objective]\nminimise", "[application.env]\nA"), "objective"),
    "only constraints": (
        COMMAND.replace('minimise = "cost"', "constraints = []"),
        "needs an [objective]",
    ),
    "no parameters": (
        COMMAND.split("[[parameters]]", maxsplit=1)[0],
        "at least one [[parameters]]",
    ),
    "a text": (COMMAND.replace('["sh", "-c", "echo $1", "sh", "{x}"]', '"sh {x}"'), "no shell"),
    "unknown key": (COMMAND.replace("command =", "limt = 3\ncommand ="), "did you mean 'limit'"),
    "unknown in parameters": (COMMAND + 'levls = "x"', "did you mean 'levels'"),
    "no levels": (COMMAND.replace("levels = [1, 2, 3]", ""), "exactly one of levels"),
    "two kinds": (COMMAND + "range = {low = 1, high = 2, step = 1}", "exactly one of levels"),
    "no order": (
        COMMAND.replace("levels = [1, 2, 3]", 'one_of = ["a", "b"]\nkind = "ordinal"'),
        "one_of has no order",
    ),
    "none twice": (
        COMMAND.replace("levels = [1, 2, 3]", 'one_of = ["a", "none"]\nor_none = true'),
        "which or_none adds",
    ),
    "none of levels": (COMMAND + "or_none = true", "is for one_of"),
    "the same switch": (
        COMMAND.replace("levels = [1, 2, 3]", 'one_of = ["a", "x"]'),
        "rename one of them",
    ),
    "some switches": (
        COMMAND.replace("{x}", "{a}").replace("levels = [1, 2, 3]", 'one_of = ["a", "b"]'),
        "but not '{b}'",
    ),
    "range key": (
        COMMAND.replace("levels = [1, 2, 3]", "range = {low = 1, hihg = 2, step = 1}"),
        "did you mean 'high'",
    ),
    "range out of step": (
        COMMAND.replace("levels = [1, 2, 3]", "range = {low = 1, high = 4, step = 2}"),
        "does not reach",
    ),
    "logarithm of 0": (
        COMMAND.replace("levels = [1, 2, 3]", "logarithmic = {low = 0, high = 4, count = 2}"),
        "logarithmic",
    ),
    "a list as level": (COMMAND.replace("[1, 2, 3]", "[[1], 2]"), "a number, a text"),
    "a date as level": (COMMAND.replace("[1, 2, 3]", "[2020-01-01]"), "a number, a text"),
    "NaN level": (COMMAND.replace("[1, 2, 3]", "[nan]"), "finite"),
    "mixed levels": (COMMAND.replace("[1, 2, 3]", "[1, 'a']"), "mixes"),
    "bad name": (COMMAND.replace('name = "x"', 'name = "a b"'), "'a b'"),
    "unknown placeholder": (COMMAND.replace("{x}", "{y}"), "'{y}'"),
    "missing program": (COMMAND.replace('"sh", "-c"', '"no-such-x", "-c"'), "no-such-x"),
    "bad limit": (COMMAND.replace("command =", 'limit = "soon"\ncommand ='), "soon"),
    "no limit": (COMMAND.replace("command =", "limit = 0\ncommand ="), "limit"),
    "two sources": (
        COMMAND.replace("command =", 'measures = {stdout = "json", file = "x"}\ncommand ='),
        "exactly one of stdout",
    ),
    "bad pattern": (
        COMMAND.replace("command =", 'measures = {pattern = "("}\ncommand ='),
        "not a regular expression",
    ),
    "bad today": (COMMAND.replace("command =", "baseline = {x = 7}\ncommand ="), "7"),
    "one file, two workers": (
        "workers = 2" + COMMAND.replace("command =", 'measures = {file = "o.json"}\ncommand ='),
        "{scratch}",
    ),
    "bad exclusion": ('exclude = ["z > 1"]' + COMMAND, "z"),
    "parameters of a log": ('[[parameters]]\nname = "x"\nlevels = [1]', "[application.levels]"),
    "no such function": (
        COMMAND.replace('command = ["sh", "-c", "echo $1", "sh", "{x}"]', 'function = "no_x:f"'),
        "no module 'no_x'",
    ),
    "unknown kind": (COMMAND.replace("command =", 'kind = "magic"\ncommand ='), "'command'"),
}


@pytest.mark.parametrize("text,words", BAD_FILES.values(), ids=BAD_FILES)  # noqa: PT006
def test_a_bad_file_gets_one_sentence_and_stores_nothing(
    cli: Cli, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    code, out, err = cli("sweep", "bad.toml")
    assert code == 2, out + err
    assert words in err
    assert len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "copperline-out").exists()


def test_the_good_file_is_good(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "good.toml").write_text(COMMAND)
    code, out, err = cli("sweep", "good.toml", "--json")
    assert code == 0, err
    assert json.loads(out)["best"]["value"] == 1.0
