"""`copperline agents`: from a measured table to a study of analysts and back to one of them."""

from pathlib import Path

import pytest

from agents import (
    Analyst,
    AnalystEpisode,
    EpisodeStreams,
    Insight,
    SimulatedExecutor,
    Truth,
    read_study,
)
from agents.analysts.episode import SimulatedClock
from assistant import MemoryStore, open_session
from assistant.applications.lookup import Lookup
from assistant.cli.main import run
from tests.agents.examples import TEXTS

BUDGETS = """
name = "Budgets"
seed = 9
replications = 6
workers = 1
tables = ["rugged.csv", "failing.csv"]
strategies = ["copper", {name = "random"}]
kinds = ["follower"]

[stop]
runs = [10, 14]
exploitation = [0.0, 1.0]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.csv").write_text(text)


def test_a_study_of_budgets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("budgets.toml").write_text(BUDGETS)
    assert run(["agents", "run", "budgets.toml", "--to", "out"]) == 0
    told = capsys.readouterr().out
    assert "runs allowed" in " ".join(told.split()) or "allowed" in told
    assert "insight" not in told, "an axis with one value says nothing"
    text = Path("out/report.md").read_text()
    assert "16 cells, 6 episodes each: 96 episodes" in text
    assert "with the exploitation level set at 70% of them" in text
    rows = Path("out/summary.csv").read_text().splitlines()
    assert len(rows) == 17
    ratios = [float(line.split(",")[13]) for line in rows[1:]]
    assert all(0 < ratio <= 1 for ratio in ratios)
    assert Path("out/study.toml").read_text() == BUDGETS


def test_the_studies_of_the_page_are_studies(repository: Path) -> None:
    text = (repository / "docs" / "howto" / "analysts.md").read_text()
    of_figure_6, of_budgets = (part.split("```")[0] for part in text.split("```toml\n")[1:3])
    Path("six.toml").write_text(of_figure_6)
    Path("seven.toml").write_text(of_figure_6 + of_budgets)
    assert len(read_study(Path("six.toml"))[0].cells()) == 2 * 2 * 3 * 6 * 2
    assert len(read_study(Path("seven.toml"))[0].cells()) == 2 * 2 * 3 * 6 * 2 * 3 * 4


def test_kinds_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["agents", "list"]) == 0
    told = capsys.readouterr().out
    assert all(kind in told for kind in ("analyst", "follower", "one_at_a_time"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot read the study 'none.toml'"),
        ('tables = ["gone.csv"]', "gone.csv"),
        ('tables = ["rugged.csv"]\nstrategies = ["gasp"]', "no strategy 'gasp'"),
        ('tables = ["rugged.csv"]\nstrategies = [{name = "copper", bta = 1}]', "no option 'bta'"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(
    text: str | None, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        Path("none.toml").write_text(text)
    assert run(["agents", "run", "none.toml", "--to", "out", "--workers", "1"]) == 2
    told = capsys.readouterr().err
    assert sentence in told
    assert "Traceback" not in told
    assert not Path("out").exists()


def test_from_python_an_analyst_is_one_call() -> None:
    truth = Truth.of(Lookup.read("rugged.csv"))
    clock, streams = SimulatedClock(), EpisodeStreams((1,))
    session = open_session(truth.application, store=MemoryStore(), clock=clock, strategy="copper")
    analyst = Analyst(Insight("good"), confidence=40)
    ended = analyst.play(
        session,
        SimulatedExecutor(truth.application, clock),
        AnalystEpisode(truth, streams, max_runs=10),
    )
    assert ended == "the budget of 10 runs is used up"
    assert session.experiment.confidence == 1.0, "of what was suggested she took everything"
    assert sum(run.source == "analyst" for run in session.experiment.runs) == 6
