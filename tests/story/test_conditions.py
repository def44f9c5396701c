"""The page on conditions: its sweep gives no inactive parameter to the program, nor counts it."""

import json
import re
import sys
from pathlib import Path

import pytest

import copperline as cl
from assistant.cli.main import run as command
from assistant.store.event_store import SqliteStore


@pytest.fixture
def page(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page in an empty folder."""
    text = (repository / "docs" / "howto" / "conditions.md").read_text()
    for language, name in (("python", "train.py"), ("toml", "kernels.toml")):
        (block,) = re.findall(rf"```{language}\n# {name}\n(.*?)```", text, re.DOTALL)
        (tmp_path / name).write_text(block.replace('"python"', f'"{sys.executable}"'))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "experiments.db"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_kernels_get_their_own_parameters_and_no_others(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the training itself is not needed: the program says what it got
    (page / "train.py").write_text(
        "import json, sys\n"
        "words = [w for word in sys.argv[1:] for w in word.split('=')]\n"
        "got = dict(zip(words[::2], words[1::2]))\n"
        "wanted = {'linear': [], 'rbf': ['gamma'], 'poly': ['gamma', 'degree']}\n"
        "own = [name for name in got if name.startswith('--svc.')]\n"
        "expected = wanted[got['--kernel']] + ['coef0'] * (int(got.get('--svc.degree', 0)) > 2)\n"
        "assert own == ['--svc.' + name for name in expected], sys.argv\n"
        "print(json.dumps({'error': 1 / len(got) + float(got['--C'])}))\n"
    )
    assert command(["try", "kernels.toml"]) == 0
    said = capsys.readouterr().out
    assert "99 combinations of 5 parameters, 93 allowed" in said
    assert re.search(r"svc.gamma +— ", said)
    assert command(["sweep", "kernels.toml", "--runs", "16"]) == 0
    said, _ = capsys.readouterr()
    assert re.search(r"svc\.degree +— +[2-5]", said), said
    store = SqliteStore(page / "experiments.db")
    name = store.experiments()[0].id
    store.close()

    assert command(["runs", name, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert len(runs) == 16
    assert all(run["state"] == "completed" for run in runs), runs
    rows = [tuple(run[p] for p in ("kernel", "C", "svc.gamma", "svc.degree", "svc.coef0"))
            for run in runs]  # fmt: skip
    assert len(set(rows)) == 16
    assert {row[2:] for row in rows if row[0] == "linear"} == {(None, None, None)}
    assert {row[0] for row in rows} == {"linear", "rbf", "poly"}

    assert command(["runs", name, "--csv", "runs.csv"]) == 0
    assert "1,completed,baseline,linear,1.0,,,," in (page / "runs.csv").read_text()
    for shown in (["effects", name], ["report", name], ["suggest", name]):
        assert command(shown) == 0
    capsys.readouterr()
    assert command(["queue", name]) == 0


@pytest.mark.soak
def test_the_training_of_the_page_runs(page: Path) -> None:
    assert command(["sweep", "kernels.toml", "--runs", "2"]) == 0


def test_a_study_in_python_gets_the_active_values() -> None:
    gamma = {"levels": [0.01, 0.1, 1.0], "when": "`svm.kernel` == 'rbf'"}
    space = {"svm.kernel": ["linear", "rbf"], "learning-rate": [0.1, 1.0], "gamma": gamma}
    with cl.study(space, minimise="error", seed=1, noisy=False) as study:  # type: ignore[arg-type]
        while (run := study.ask()) is not None:
            assert ("gamma" in run.values) == (run["svm.kernel"] == "rbf")
            study.tell(run, run["learning-rate"] + run.values.get("gamma", 0.5))
        assert len(study.session.experiment.runs) == 8
        assert study.best is not None
        assert study.best.values == {"svm.kernel": "rbf", "learning-rate": 0.1, "gamma": 0.01}
