"""Experiments in MLflow: the real package, on its store of files."""

import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import copperline as cl
from assistant.cli.main import run as run_command
from assistant.core.errors import SettingsError
from assistant.core.events import RunReported
from tests.docs.pages import pages

pytestmark = [
    pytest.mark.slow,  # importing the package takes a second: not before a test needs it
    pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed"),
]
SPACE = {"lr": [0.1, 0.03, 0.01], "layers": range(1, 5)}


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A store of files; the report is a word, because drawing takes seconds, but for the page."""
    if "page" not in request.node.name:
        monkeypatch.setattr(
            "assistant.integrations.mlflow_log.write_report",
            lambda data, path: path.write_text(data.name),
        )
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    return f"file://{tmp_path / 'mlruns'}"


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri)


def stored(uri: str, name: str) -> tuple[Any, dict[int, Any]]:
    """Return the run of the sweep, and the nested runs by number."""
    client = client_of(uri)
    found = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    runs = {int(run.data.tags["copperline.run"]): run for run in found}
    assert len(runs) == len(found)
    sweep = runs.pop(0)
    assert {r.data.tags["mlflow.parentRunId"] for r in runs.values()} <= {sweep.info.run_id}
    return sweep, runs


def result(run: cl.Run) -> dict[str, object]:
    return {"loss": float(run["layers"]) + float(run["lr"]), "curve [s]": [3.0, 2.0]}


def test_every_run_is_nested_with_params_metrics_times_and_status(uri: str) -> None:
    with cl.study(SPACE, minimise="loss", runs=4, name="net") as study:
        study.log_to_mlflow(uri)
        while run := study.ask():
            if run.id == 2:
                study.tell(run, failed="no luck", duration_s=2.0)
            else:
                study.tell(run, result(run), duration_s=2.0)
    sweep, runs = stored(uri, "net")
    ours = {run.id: run for run in study.session.experiment.runs}
    assert set(runs) == {1, 2, 3, 4}
    for number, run in runs.items():
        values = study.space.values(ours[number].configuration)
        assert run.data.params == {name: str(value) for name, value in values.items()}
        assert run.data.tags["mlflow.note.content"] == ours[number].reason
        started_s = ours[number].started_s
        assert started_s is not None
        assert abs(run.info.start_time - 1000 * started_s) <= 1
        assert run.info.end_time >= run.info.start_time
    assert {number: run.info.status for number, run in runs.items()} == {
        1: "FINISHED", 2: "FAILED", 3: "FINISHED", 4: "FINISHED",
    }  # fmt: skip
    assert runs[2].data.tags["failure"] == "no luck"
    assert runs[2].data.metrics == {}
    assert study.best is not None
    assert runs[study.best.run].data.metrics == {"loss": study.best.value, "curve _s_": 2.0}
    client = client_of(uri)
    curve = client.get_metric_history(runs[1].info.run_id, "curve _s_")
    assert [(point.step, point.value) for point in curve] == [(0, 3.0), (1, 2.0)]
    assert sweep.info.status == "FINISHED"
    assert sweep.data.params["objective"] == "minimise loss"
    assert sweep.data.tags["best.layers"] == str(study.best.values["layers"])
    best = [p.value for p in client.get_metric_history(sweep.info.run_id, "best")]
    assert len(best) == 3
    assert best[-1] == min(best) == study.best.value
    names = [file.path for file in client.list_artifacts(sweep.info.run_id)]
    assert names == ["report.html", "runs.csv"]


def test_it_is_live_and_a_later_call_adds_what_is_missing(uri: str, tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    with cl.study(SPACE, minimise="loss", runs=5, name="net", store=store) as study:
        study.tell(study.ask(), 1.0)  # before anybody logs
        study.log_to_mlflow(uri)
        study.ask()
    sweep, runs = stored(uri, "net")
    assert sweep.info.status == "KILLED"  # it goes on later
    assert {number: run.info.status for number, run in runs.items()} == {
        1: "FINISHED", 2: "RUNNING",
    }  # fmt: skip
    with cl.load_study(store) as study:
        study.log_to_mlflow(uri)
        while run := study.ask():
            study.tell(run, 1.0)
    sweep, runs = stored(uri, "net")
    assert sweep.info.status == "FINISHED"
    assert {number: run.info.status for number, run in runs.items()} == dict.fromkeys(
        range(1, 6), "FINISHED"
    )
    client = client_of(uri)
    assert len(client.get_metric_history(runs[1].info.run_id, "loss")) == 1


def test_intermediate_results_are_steps(uri: str) -> None:
    with cl.study(SPACE, minimise="loss", runs=3, name="net") as study:
        study.log_to_mlflow(uri)
        run = study.ask()
        assert run is not None
        for loss in (3.0, 2.0):
            reported = RunReported(study.session.now_s(), run.id, {"loss": loss})
            study.session._event_log.record(reported)
        study.tell(run, 1.0)
    _, runs = stored(uri, "net")
    points = client_of(uri).get_metric_history(runs[1].info.run_id, "loss")
    assert [(point.step, point.value) for point in points] == [(0, 3.0), (1, 2.0), (2, 1.0)]


def test_a_fault_is_told_once_and_the_study_goes_on(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("the disk is full")

    study = cl.study(SPACE, minimise="loss", runs=4, name="net")
    study.log_to_mlflow(uri)
    monkeypatch.setattr("mlflow.MlflowClient.log_batch", refuse)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while run := study.ask():
            study.tell(run, 1.0)
        study.close()
    told = [str(w.message) for w in caught if issubclass(w.category, cl.StudyWarning)]
    assert told == ["nothing more is written to MLflow; the sweep goes on: the disk is full"]
    assert study.to_pandas()["loss"].count() == 4


def test_an_address_that_mlflow_does_not_know_is_refused() -> None:
    study = cl.study(SPACE, minimise="loss", runs=4)
    with pytest.raises(SettingsError, match="nothing can be written to MLflow"):
        study.log_to_mlflow("nothing://here")
    study.tell(study.ask(), 1.0)


SWEEP = """
name = "square"
runs = 4
[application]
command = ["sh", "-c", "echo $(($1 * $1))", "sh", "{x}"]
[objective]
minimise = "y"
[[parameters]]
name = "x"
levels = [1, 2, 3, 4, 5, 6]
"""


def test_a_sweep_of_the_command_line_and_its_resumption_are_one_sweep(
    uri: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COPPERLINE_STORE", raising=False)
    Path("sweep.toml").write_text(SWEEP)
    assert run_command(["sweep", "sweep.toml", "--mlflow", "nothing://here"]) == 2
    assert "nothing can be written to MLflow" in capsys.readouterr().err
    assert not Path("copperline-out").exists()
    assert run_command(["sweep", "sweep.toml", "--mlflow", uri, "--json"]) == 0
    sweep, runs = stored(uri, "square")
    assert sorted(runs) == [1, 2, 3, 4]
    assert runs[1].data.metrics["y"] == int(runs[1].data.params["x"]) ** 2
    assert run_command(["resume", "--runs", "6", "--mlflow", uri, "--json"]) == 0
    again, runs = stored(uri, "square")
    assert again.info.run_id == sweep.info.run_id
    assert again.info.status == "FINISHED"
    assert sorted(runs) == [1, 2, 3, 4, 5, 6]
    assert again.data.metrics == {"best": 1.0}
    other = f"{uri}-other"
    for _ in range(2):
        assert run_command(["report", "latest", "--mlflow", other]) == 0
        assert "Wrote 6 runs" in capsys.readouterr().err
        exported, runs = stored(other, "square")
        assert exported.info.status == "FINISHED"
        assert sorted(runs) == [1, 2, 3, 4, 5, 6]
    assert run_command(["report", "--mlflow", "nothing://here"]) == 2
    assert "nothing can be written to MLflow" in capsys.readouterr().err


def test_without_the_package_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.delitem(sys.modules, "assistant.integrations.mlflow_log", raising=False)
    study = cl.study(SPACE, minimise="loss", runs=4)
    with pytest.raises(SettingsError, match=r"pip install 'copperline\[mlflow\]'"):
        study.log_to_mlflow()


@pytest.mark.soak  # the tables of a new database take seconds
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_page_writes_to_a_database(uri: str, repository: Path, tmp_path: Path) -> None:
    page = next(p for p in pages(repository) if p.name == "docs/howto/mlflow.md")
    exec(compile(page.blocks("python")[0], page.name, "exec"), {"__name__": "__main__"})
    sweep, runs = stored("sqlite:///mlflow.db", "net")
    assert sweep.info.status == "FINISHED"
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    assert len(runs) == 12
    folder = Path(sweep.info.artifact_uri.removeprefix("file://"))
    assert "Copperline sweep report" in (folder / "report.html").read_text()
