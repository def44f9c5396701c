"""`copperline play ai_platform` and `platform`: one platform, told the same everywhere."""

import json
from pathlib import Path

import pytest

from assistant.applications.extensions.ai_platform import AiPlatform
from assistant.cli.main import run
from assistant.simtools.ai_platform import FULL_TRAINING, simulated_dashboard, trace_dashboard

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.soak
def test_the_papers_case_is_played_traced_and_described(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--set", "training_capacity=4", "--trace", "trace", "--day", "day.svg"]
    assert run(["play", "ai_platform", *told]) == 0
    shown = capsys.readouterr().out
    board, measures = simulated_dashboard(AiPlatform(), FULL_TRAINING)
    came, training, *_ = board.words
    assert came.startswith("Most pipelines come at 16:00")
    assert training.startswith("Training is busiest at 17:00: 99%")
    for sentence in board.words:
        assert sentence in shown
    assert (tmp_path / "day.svg").read_bytes().startswith(b"<svg")
    assert run(["platform", "describe", "trace", "--report", "board.html", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["sentences"] == list(board.words)
    assert described["pipelines"] == board.summary.n_pipelines
    assert described["outcomes"]["stopped by a gate"] == measures["stopped"]
    assert described["day"][0]["series"]["pipelines"] == list(
        board.day.panels[0].series["pipelines"]
    )
    page = (tmp_path / "board.html").read_text()
    assert came in page
    assert trace_dashboard(Path("trace")).tables == board.tables
    assert run(["platform", "describe", "trace"]) == 0
    assert "Wait by resource" in capsys.readouterr().out


@pytest.mark.soak
def test_a_steered_platform_is_reported_beside_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("platform.toml").write_text(
        'runs = 14\nseed = 1\n[application]\nkind = "ai_platform"\ndays = 2\nmodels = 10\n'
    )
    assert run(["sweep", "platform.toml", "--report", "report.html", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    application = AiPlatform(days=2.0, models=10)
    best = application.evaluate(told["best"]["values"], 0)["cost_per_day"]
    baseline = application.evaluate(application.baseline, 0)["cost_per_day"]
    assert told["best"]["value"] == best < baseline
    page = (tmp_path / "report.html").read_text()
    for name in ("What to change", "training_capacity", "late_share", "sla_misses"):
        assert name in page


@pytest.mark.soak
def test_a_log_is_compared_with_its_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["platform", "validate", "--weeks", "2", "--report", "qq.html"]) == 0
    shown = capsys.readouterr().out
    assert "built-in example" in shown
    assert "train SparkML" in shown
    assert "Arrivals by hour of the week, calendar: 9" in shown
    assert (tmp_path / "qq.html").read_text().count("<svg") > 15


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["describe", "none"], "a trace has pipelines, tasks and models"),
        (["validate", "none.csv"], "none.csv"),
        (["validate", "--report", "a.pdf"], "the report 'a.pdf' must end in .html"),
        (["validate", "--weeks", "0"], "Invalid value for '--weeks'"),
        (["describe", ".", "--report", "."], "is a folder"),
    ],
)
def test_what_cannot_be_is_said(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["platform", *arguments]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_a_maze_has_no_day_and_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["play", "maze", "--trace", "here"]) == 2
    assert "'maze' has no day and no trace" in capsys.readouterr().err
    assert not Path("here").exists()
