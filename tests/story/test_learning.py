"""What last month's sweep has learnt guides this month's, and stays when the old one is purged."""

import itertools
import json
from pathlib import Path

import pytest

import copperline as cl
from assistant import AssistantError
from assistant.cli.main import run as command

THREADS, BLOCKS = (1, 2, 4, 8, 16, 32), (16, 32, 64, 128, 256, 512)


def seconds(threads: int, block: int, layout: str, slower: float) -> float:
    best = 8 if slower == 1 else 16
    away = abs(THREADS.index(threads) - THREADS.index(best)) + 2 * abs(BLOCKS.index(block) - 2)
    return slower * (3 + away) + 4 * (layout == "rows")


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tables of one program measured on two machines, and of another program."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    monkeypatch.setenv("COLUMNS", "200")
    for name, slower in (("old", 1.0), ("new", 1.6)):
        lines = ["threads,block,layout,objective"]
        for threads, block, layout in itertools.product(THREADS, BLOCKS, ("rows", "columns")):
            lines.append(f"{threads},{block},{layout},{seconds(threads, block, layout, slower)}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    (tmp_path / "other.csv").write_text("depth,objective\n1,5\n2,4\n3,3\n")
    return tmp_path


def sweep(*words: str) -> int:
    return command(["sweep", "--runs", "14", *words])


def test_a_sweep_learns_from_another_machine_and_says_so(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep("--table", "old.csv") == 0
    assert "--learn-from" not in capsys.readouterr().err
    assert sweep("--table", "new.csv", "--runs", "3") == 0
    told = capsys.readouterr().err
    assert "has the same parameters: if its results may guide this search, add --learn-from" in told
    assert sweep("--table", "new.csv", "--learn-from", "old", "--report", "report.html") == 0
    out, told = capsys.readouterr()
    assert "(14 runs, 3 of 3 parameters)" in told
    assert "of the search's model is borrowed from 'old-" in out
    assert "of the search&#39;s model is borrowed from" in (tables / "report.html").read_text()

    assert command(["experiments", "--json"]) == 0
    learnt, _, before = json.loads(capsys.readouterr().out)["experiments"]
    first_s = seconds(8, 64, "columns", 1.6)
    assert learnt["best"]["value"] <= first_s  # what is best there is hardly worse here
    # the copy is by value: what was learnt stays when the earlier experiment is purged
    assert command(["delete", before["id"], "--purge", "--yes"]) == 0
    capsys.readouterr()
    assert command(["sweep", "--table", "new.csv", "--learn-from", before["id"]]) == 2
    assert command(["report", learnt["id"], "--out", "again.html"]) == 0
    assert "is borrowed from" in (tables / "again.html").read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--learn-from", "nobody"), "no experiment 'nobody'"),
        (("--learn-from", "old", "--learn-from", "old"), "is named twice to learn from"),
        (("--learn-from", "old", "--strategy", "copper"), "cannot learn from earlier experiments"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused_in_a_sentence(
    tables: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    assert sweep("--table", "old.csv") == 0
    capsys.readouterr()
    assert sweep("--table", "new.csv", *words) == 2
    assert sentence in capsys.readouterr().err
    assert command(["sweep", "--table", "other.csv", "--learn-from", "old"]) == 2
    assert "shares no parameter with this sweep" in capsys.readouterr().err


def test_a_study_learns_from_a_study_and_from_a_stored_experiment(tables: Path) -> None:
    space = {"threads": THREADS, "block": BLOCKS, "layout": ["rows", "columns"]}
    store = tables / "studies.db"
    with cl.study(space, minimise="s", runs=14, name="old", store=store) as old:
        old.optimise(lambda **values: seconds(**values, slower=1.0))
        for named in (old, "old"):
            with cl.study(space, minimise="s", runs=6, learn_from=[named], store=store) as study:
                first = study.ask()
                assert first is not None
                assert f"the earlier sweep '{old.id}'" in first.reason
    with pytest.raises(AssistantError, match="give the study itself, or the store"):
        cl.study(space, minimise="s", learn_from=["old"])
