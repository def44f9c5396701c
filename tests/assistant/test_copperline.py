"""The façade: ask and tell, what it refuses, and that a study is an experiment as any other."""

import json
import subprocess
import sys
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import copperline as cl
from assistant import Sla
from assistant.cli.main import run as command

SPACE = {"lr": [0.1, 0.01, 0.001], "layers": range(1, 9), "batch": (16, 32, 64)}

PROGRAM = """
def loss(lr, layers, batch):
    return {"loss": (lr - 0.01) ** 2 + 1 / layers + abs(batch - 32) / 100, "seconds": batch * 2.0}
"""

SWEEP = """
runs = 25
seed = 5
[application]
kind = "function"
function = "program:loss"
baseline = { lr = 0.1, layers = 1, batch = 64 }
[objective]
minimise = "loss"
[[parameters]]
name = "lr"
levels = [0.1, 0.01, 0.001]
[[parameters]]
name = "layers"
range = { low = 1, high = 8, step = 1 }
[[parameters]]
name = "batch"
levels = [16, 32, 64]
"""


def loss(lr: float, layers: int, batch: int) -> dict[str, float]:
    return {
        "loss": (lr - 0.01) ** 2 + 1 / layers + abs(batch - 32) / 100,
        "seconds": batch * 2.0,
    }


def test_ask_and_tell_until_the_budget_is_used() -> None:
    study = cl.study(SPACE, minimise="loss", runs=14, noisy=False)
    while run := study.ask():
        assert dict(run) == dict(run.values)
        assert run.reason
        study.tell(run, loss(**run))  # type: ignore[arg-type]
    assert study.finished == "the budget of 14 runs is used up"
    assert study.ask() is None
    assert study.runs_left == 0
    frame = study.to_pandas()
    assert list(frame["run"]) == list(range(1, 15))
    assert frame["loss"].min() == study.best.value  # type: ignore[union-attr]
    assert set(frame["state"]) == {"completed"}
    assert set(frame["seconds"]) <= {32.0, 64.0, 128.0}
    assert study.effects().parameters[0].parameter == "layers"
    assert study.effects().to_pandas()["parameter"][0] == "layers"


def test_the_same_seed_gives_the_runs_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    assert command(["sweep", "sweep.toml", "--store", "a.db", "--json"]) == 0
    by_command = json.loads(capsys.readouterr().out)

    baseline = {"lr": 0.1, "layers": 1, "batch": 64}
    study = cl.study(SPACE, minimise="loss", runs=25, seed=5, baseline=baseline)
    study.optimise(loss)
    with cl.load_study("a.db") as swept:
        alike = ["source", "lr", "layers", "batch", "loss", "seconds", "seed", "why"]
        assert study.to_pandas()[alike].equals(swept.to_pandas()[alike])
    assert study.best is not None
    assert by_command["best"]["value"] == study.best.value
    assert by_command["best"]["run"] == study.best.run


def test_a_stored_study_is_an_experiment_and_goes_on_in_another_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "experiments.db"
    with cl.study(SPACE, minimise="loss", runs=6, store=store, name="mine") as study:
        first, second = study.ask(), study.ask()
        assert first is not None
        assert second is not None
        study.tell(second, loss(**second))  # type: ignore[arg-type]
        with pytest.raises(cl.AssistantError, match="another process executes"):
            cl.load_study(store)
        assert command(["experiments", "--store", str(store), "--json"]) == 0
        (listed,) = json.loads(capsys.readouterr().out)["experiments"]
        assert (listed["name"], listed["state"]["name"]) == ("mine", "running")
    assert command(["resume", "--store", str(store)]) == 2
    assert "copperline.load_study" in " ".join(capsys.readouterr().err.split())
    with cl.load_study(store, study.id) as again:
        run = again.ask()
        assert run is not None
        assert run.values == first.values  # it was asked for and never told
        assert again.optimise(lambda **values: loss(**values)["loss"]) is not None
        again.tell(run, 1.0)
        assert again.ask() is None
        assert again.runs_left == 0


def test_several_runs_may_be_open_and_none_comes_twice() -> None:
    study = cl.study(SPACE, minimise="loss", runs=30, workers=4)
    runs = [study.ask() for _ in range(20)]
    assert len({tuple(run.values.values()) for run in runs if run is not None}) == 20
    for run in reversed(runs):
        assert run is not None
        study.tell(run, loss(**run))  # type: ignore[arg-type]
    rest = []
    while run := study.ask():
        rest.append(run)
    assert len(rest) == 10
    assert study.finished is None  # ten are open
    for run in rest:
        study.tell(run, failed="the machine was lost")
    assert study.ask() is None
    assert study.finished


def test_what_is_wrong_is_said_in_one_sentence_and_changes_nothing() -> None:
    study = cl.study({"x": [1, 2, 3]}, minimise="loss")
    run = study.ask()
    assert run is not None
    with pytest.raises(KeyError, match="no parameter 'y'; the parameters are x"):
        run["y"]
    for result, words in (
        (float("nan"), "gave nan as the measure 'loss'"),
        ({"los": 1.0}, "no measure 'loss'; it gave: los"),
        ("fine", "the text 'fine'"),
        (None, "nothing"),
    ):
        with pytest.raises(cl.AssistantError, match=words):
            study.tell(run, result)
    with pytest.raises(cl.AssistantError, match="no run 9"):
        study.tell(9, 1.0)
    with pytest.raises(cl.AssistantError, match="no reason in words"):
        study.tell(run, failed=" ")
    with pytest.raises(cl.AssistantError, match="tell only one"):
        study.tell(run, 1.0, failed="it broke")
    study.tell(run, 1.0)
    with pytest.raises(cl.AssistantError, match="run 1 was told already, as completed"):
        study.tell(run, 1.0)
    with pytest.raises(cl.AssistantError, match="no run to tell, because ask returned None"):
        study.tell(None, 1.0)


def test_a_failed_baseline_ends_the_study_unless_it_keeps_going_or_is_reopened() -> None:
    baseline = {"lr": 0.1, "layers": 1, "batch": 64}
    study = cl.study(SPACE, minimise="loss", runs=5, baseline=baseline)
    first = study.ask()
    assert str(first) == "run 1: lr=0.1, layers=1, batch=64 (the current configuration)"
    study.tell(first, failed="out of memory")
    assert study.ask() is None
    assert "keep_going (--keep-going) goes on all the same" in str(study.finished)
    study.session.reopen()
    again = study.ask()
    assert again is not None
    assert dict(again) == baseline
    going = cl.study(SPACE, minimise="loss", runs=5, baseline=baseline, keep_going=True)
    going.tell(going.ask(), failed="out of memory")
    assert going.ask() is not None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"space": {"x": [1, 2]}}, "name one measure"),
        ({"space": {"x": [1, 2]}, "minimise": "a", "maximise": "b"}, "name one measure"),
        ({"space": [1, 2], "minimise": "a"}, "levels by parameter name"),
        ({"space": {"x": 5}, "minimise": "a"}, "has levels 5"),
        ({"space": {"x": {"low": 1}}, "minimise": "a"}, "parameter 'x' are wrong"),
        ({"space": {"x": [1]}, "minimise": "a", "runs": 0}, "a whole number from 1 to"),
        ({"space": {"x": [1]}, "minimise": "a", "also": "cost"}, "'maximise accuracy'"),
        ({"space": {"x": [1]}, "minimise": "a", "strategy": "graps"}, "did you mean 'grasp'"),
        ({"space": {"x": [1]}, "minimise": "a", "warnings": "wait"}, "accept or ignore"),
        ({"space": {"x": [1]}, "minimise": "a", "baseline": {"x": 2}}, "no level 2"),
    ],
)
def test_wrong_arguments_make_no_store(
    tmp_path: Path, arguments: dict[str, object], words: str
) -> None:
    store = tmp_path / "none.db"
    with pytest.raises((cl.AssistantError, cl.StrategyError), match=words):
        cl.study(**arguments, store=store)  # type: ignore[arg-type]
    assert not store.exists()


def test_constraints_second_measures_and_parameters_of_every_form() -> None:
    study = cl.study(
        {
            "n": {"range": {"low": 1, "high": 9, "step": 2}, "unit": "s"},
            "lr": {"logarithmic": {"low": 0.001, "high": 0.1, "count": 3}},
            "kind": cl.Parameter("kind", ("a", "b")),
        },
        maximise="accuracy",
        also="minimise cost",
        constraints=[cl.Constraint("memory", at_most=5)],
        exclude=["n == 9 and kind == 'a'"],
        runs=12,
    )
    assert study.space.size == 30
    while run := study.ask():
        n = float(run["n"])
        study.tell(run, {"accuracy": n, "cost": n, "memory": n})
    assert study.best is not None
    assert (study.best.value, study.best.feasible) == (5.0, True)


def test_a_warning_is_a_python_warning() -> None:
    study = cl.study(
        SPACE, minimise="loss", runs=20, constraints=[cl.Constraint("seconds", at_most=1)]
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study.optimise(loss)
    (warning,) = [w for w in caught if issubclass(w.category, cl.StudyWarning)]
    assert str(warning.message).startswith("Nothing feasible yet. ")


def test_a_function_that_raises_is_a_failed_run() -> None:
    study = cl.study({"x": [1, 2, 3, 4]}, minimise="loss", runs=4)

    def program(x: int) -> float:
        if x == 2:
            raise ValueError("no\nluck")
        return float(x)

    study.optimise(program)
    frame = study.to_pandas()
    assert list(frame[frame["x"] == 2]["why"]) == ["ValueError: no luck"]


def test_notebooks_show_escaped_tables(tmp_path: Path) -> None:
    study = cl.study({"x": ["<b>", "c"]}, minimise="a<i", runs=2, name="<script>")
    run = study.ask()
    assert run is not None
    study.tell(run, 1.0)
    shown = [study, run, study.space, study.effects(), study.forecast(), study.best]
    for text in [thing._repr_html_() for thing in shown]:
        assert text.startswith("<")
        assert not [tag for tag in ("<b>", "<script>", "a<i") if tag in text]
    assert "&lt;b&gt;" in study.space._repr_html_()
    assert study.report(tmp_path / "out.html").exists()
    assert study.report(tmp_path / "out.md").read_text().startswith("# ")
    with pytest.raises(cl.AssistantError, match="must end in one of"):
        study.report(tmp_path / "out.docx")


def test_a_study_shows_its_latest_runs_and_warnings_in_a_notebook() -> None:
    bound = cl.Constraint("cost", at_most=-1.0)
    study = cl.study({"x": range(12), "y": range(9)}, minimise="loss", runs=14, constraints=[bound])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.StudyWarning)
        for number in range(14):
            run = study.ask()
            assert run is not None
            if number == 13:
                study.tell(run, failed="no luck")
            else:
                study.tell(run, {"loss": run["x"], "cost": run["y"]})
    shown = study._repr_html_()
    latest = shown[shown.index("Latest runs") :]
    assert latest.count("<tr>") == 9
    assert "no luck" in latest.split("</tr>")[1]
    assert study.session.experiment.warnings
    assert study.session.experiment.warnings[-1].heading in shown


def test_included_rows_run_next_and_what_has_a_run_is_left_out() -> None:
    study = cl.study({"run": range(8), "mode": ["a", "b"]}, minimise="loss", runs=12)
    first = study.ask()
    assert first is not None
    study.tell(first, 1.0)
    frame = study.to_pandas()
    again = frame[frame["state"] == "completed"]
    assert study.include(again) == ()
    waiting = {(r["parameter.run"], r["mode"]) for r in frame.to_dict("records")}
    new = [{"run": x, "mode": m} for m in "ab" for x in range(8) if (x, m) not in waiting][:2]
    included = study.include([*new, new[0]], "mine")
    assert [dict(run.values) for run in included] == new
    for run in included:
        asked = study.ask()
        assert asked is not None
        assert (asked.id, asked.source, asked.reason) == (run.id, "analyst", "mine")
        study.tell(asked, 0.5)
    with pytest.raises(cl.AssistantError, match="4 configurations are new and 0 runs are left"):
        study.include({"run": x, "mode": m} for x in range(8) for m in "ab")
    study.session.change_budget(Sla(max_runs=20))
    one = {"run": 0, "mode": "a"}
    assert len(study.include(one)) + sum(p == (0, "a") for p in waiting) == 1
    n_runs = len(study.session.experiment.runs)
    for wrong in ([*new, {"run": 9, "mode": "a"}], [{"mode": "a"}], frame[["mode"]]):
        with pytest.raises(cl.StrategyError):
            study.include(wrong)
    assert len(study.session.experiment.runs) == n_runs


class Shell:
    """A notebook's display: outputs by number, and whether they can still be redrawn."""

    def __init__(self) -> None:
        self.outputs: list[str] = []
        self.broken = False

    def display(self, shown: Any, display_id: bool) -> "Shell":
        assert display_id
        self.outputs.append(shown.data)
        return self

    def update(self, shown: Any) -> None:
        if self.broken:
            raise OSError("the kernel is gone")
        self.outputs[-1] = shown.data


def test_a_view_is_redrawn_moves_and_never_ends_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    study = cl.study({"x": range(6)}, minimise="loss", runs=6)
    with pytest.raises(cl.AssistantError, match="this is none; in a script"):
        study.watch()
    import IPython.core.getipython
    import IPython.display

    shell = Shell()
    monkeypatch.setattr(IPython.core.getipython, "get_ipython", lambda: shell)
    monkeypatch.setattr(IPython.display, "display", shell.display)
    study.watch()
    assert "0 of 6" in shell.outputs[-1]
    study.tell(study.ask(), 1.0)
    assert shell.outputs == [study._repr_html_()]
    assert "1 of 6" in shell.outputs[0]
    study.watch()
    study.tell(study.ask(), 1.0)
    assert "1 of 6" in shell.outputs[0]
    assert "2 of 6" in shell.outputs[1]
    shell.broken = True
    with pytest.warns(cl.StudyWarning, match="the kernel is gone"):
        study.tell(study.ask(), 1.0)
    study.tell(study.ask(), 1.0)
    assert study.to_pandas()["loss"].count() == 4
    gone = weakref.ref(study)
    del study
    assert gone() is None  # a view keeps no store open


def test_the_import_is_cheap() -> None:
    code = (
        "import sys; import copperline; print(sorted({m.split('.')[0] for m in sys.modules} &"
        " {'numpy', 'pandas', 'pydantic', 'assistant', 'strategies', 'optuna', 'IPython',"
        " 'mlflow'}));"
        " copperline.__version__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
