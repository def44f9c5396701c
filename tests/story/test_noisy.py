"""A noisy program, told by the command line, the browser and its automatic mode."""

import json
from pathlib import Path

import pytest

from assistant import load_session
from assistant.cli.main import run
from assistant.core.sla import AutoSteering
from assistant.store.event_store import SqliteStore
from assistant.ui.pages import overview_results, report, suggestions
from assistant.ui.pages.new_form import Form
from assistant.ui.pages.new_preview import open_from
from tests.service.housed import housed
from tests.ui.screens import press, until
from tests.ui.stage import staged
from tests.ui.test_one_story import told

pytestmark = pytest.mark.slow

SWEEP = """runs = 14
initial = 4
batch = 4
seed = 2

[application]
function = "tune:measure"
noisy = true
baseline = {x = 0, y = 0}

[objective]
minimise = "value"

[[parameters]]
name = "x"
range = {low = 0, high = 9, step = 1}

[[parameters]]
name = "y"
range = {low = 0, high = 4, step = 1}
"""
PROGRAM = "def measure(x, y, seed):\n    return (x - 3) ** 2 + y + seed % 1000 / 300\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COPPERLINE_STORE", str(tmp_path / "store.db"))
    monkeypatch.setattr("sys.argv", ["streamlit_app.py"])
    (tmp_path / "tune.py").write_text(PROGRAM)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def test_the_command_line_announces_what_it_keeps_and_says_how_sure_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "sweep.toml"]) == 0
    printed = capsys.readouterr()
    assert "results vary from run to run: the last 3 runs are kept to repeat" in printed.err
    assert "the last 3 runs repeated the best" in " ".join(printed.out.split())
    (line,) = [s.strip() for s in printed.out.splitlines() if "is recommended" in s]
    assert run(["report", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["sentence"] == line
    page = Path(found["report"]).read_text()
    assert line.replace("'", "&#39;") in page
    assert page.count('<span class="tag">replicate</span>') == 3


def test_the_command_line_and_the_browser_confirm_alike(folder: Path) -> None:
    with housed(folder / "browser.db") as service:
        opened = open_from(Form("file", "sweep.toml"), folder / "browser.db")
        opened.session.set_auto_steering(AutoSteering(4, 4, "ignore"))
        service.queue.set_active(opened.session.id, True)
        until(lambda: service.look(opened.session.id).experiment.auto_steering is None)
        handed = service.look(opened.session.id).experiment.auto_steering_change
        assert handed is not None
        assert "the budget of 14 runs is used up" in handed.reason
    in_browser = SqliteStore(folder / "browser.db").load(opened.session.id)
    assert run(["sweep", "sweep.toml", "--json"]) == 0
    event_log = SqliteStore(folder / "store.db")
    by_cli = event_log.load(event_log.experiments()[0].id)
    assert told(by_cli)[:-1] == told(in_browser)
    sources = [line[0] for line in told(by_cli) if isinstance(line, tuple) and len(line) == 4]
    assert sources[-3:] == ["replicate"] * 3
    assert sources.count("replicate") == 3


def test_a_person_repeats_and_confirms_in_the_browser(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sweep", "sweep.toml", "--runs", "6", "--json"]) == 0
    assert run(["steer", "--runs", "20"]) == 0
    capsys.readouterr()
    store = SqliteStore(folder / "store.db")
    experiment_id = store.experiments()[0].id
    session = load_session(store, experiment_id)
    page = staged(report.page, session)
    (said,) = [block.value for block in page.success if "is recommended, but not" in block.value]
    assert "results vary from run to run; run it again" in said
    page = press(staged(overview_results.runs_section, session), "replicate")
    assert "is repeated as run 7" in page.success[0].value
    page = press(staged(suggestions.page, session), "confirm")
    press(page, "submit-3")
    experiment = session.experiment
    assert [run.source for run in experiment.runs[6:]] == ["replicate"] * 3


def test_past_results_may_be_replicates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "past.csv").write_text("x,y,value\n3,0,1.5\n3,0,2.5\n3,0,1.5\n9,4,40\n")
    assert run(["sweep", "sweep.toml", "--results", "past.csv"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2 earlier results imported, 2 left out" in said
    assert "--replicates imports further results" in said
    assert run(["sweep", "sweep.toml", "--results", "past.csv", "--replicates"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "3 earlier results imported, 1 left out: they are stored already" in said
    assert run(["sweep", "sweep.toml", "--from", "latest", "--runs", "3", "--json"]) == 0
    event_log = SqliteStore(folder / "store.db")
    sources = [
        line[0]
        for line in told(event_log.load(event_log.experiments()[0].id))
        if isinstance(line, tuple) and len(line) == 4
    ]
    assert sources.count("imported") == 3 + 14  # replicates come along


def test_a_table_is_confirmed_by_one_look(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{x},{(x - 4) ** 2}\n" for x in range(12))
    (folder / "table.csv").write_text(f"x,objective\n{rows}")
    assert run(["sweep", "--table", "table.csv", "--runs", "12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["recommended"]["interval"] == [0.0, 0.0]
    assert "the same result every time" in found["recommended"]["sentence"]
    assert found["best"]["n_runs"] == 1
